/* DESIGN: JSON text into json_t with the pull reader (json/reader.h) and the document builder. One
   strict JSON grammar for the whole program; jansson is the value, not the parser: its own loader
   refuses integers beyond 64 bits, which Kubernetes reads as floats, and knows no positions.
   Numbers: what looks like an integer and fits int64 is one, everything else is a double (as
   k8s.io/apimachinery decodes untyped JSON). No recursion. */
#include "json/doc.h"
#include "json/reader.h"

/* Turns places into line and column; places must come in ascending order for it to be linear. */
struct cursor {
	const char *at;
	struct kp_doc_pos pos;
};

static struct kp_doc_pos place(struct cursor *c, const char *p)
{
	for (; c->at < p; c->at++) {
		if (*c->at == '\n') {
			c->pos.line++;
			c->pos.column = 1;
		} else if (((unsigned char)*c->at & 0xc0) != 0x80) {
			c->pos.column++;
		}
	}
	return c->pos;
}

static int number(struct kp_json *j, json_t **ret, struct kp_err *err)
{
	kp_str text;
	int64_t i;
	double d;
	if (kp_json_number(j, &text, err)) {
		return -1;
	}
	if (kp_str_i64(text, INT64_MIN, INT64_MAX, &i)) {
		*ret = json_integer(i);
	} else if (kp_str_f64(text, &d)) {
		*ret = json_real(d);
	} else {
		return kp_json_fail(j, err, "number `%" KP_FMT "` is out of range",
			KP_ARG(kp_str_sub(text, 0, 40)));
	}
	return 0;
}

static int scalar(struct kp_json *j, enum kp_json_type type, json_t **ret, struct kp_err *err)
{
	kp_str s;
	bool b;
	switch (type) {
	case KP_JSON_STRING:
		if (kp_json_string(j, &s, err)) {
			return -1;
		}
		*ret = json_stringn_nocheck(s.n ? s.p : "", s.n);
		return 0;
	case KP_JSON_NUMBER:
		return number(j, ret, err);
	case KP_JSON_TRUE:
	case KP_JSON_FALSE:
		if (kp_json_bool(j, &b, err)) {
			return -1;
		}
		*ret = json_boolean(b);
		return 0;
	case KP_JSON_NULL:
	case KP_JSON_NONE: /* the read below says what is wrong */
	case KP_JSON_OBJECT:
	case KP_JSON_ARRAY:
		break;
	}
	if (kp_json_null(j, err)) {
		return -1;
	}
	*ret = json_null();
	return 0;
}

/* One value with all that is in it. b->where is set when the builder refuses; the reader's own
 * errors are placed by the caller. */
static int read_value(struct kp_doc_builder *b, struct kp_json *j, struct cursor *c,
	bool *ret_placed, struct kp_err *err)
{
	do {
		kp_str key = KP_STR_NULL;
		bool object = kp_doc_wants_key(b);
		int more = object     ? kp_json_member(j, &key, err)
			   : b->depth ? kp_json_element(j, err)
				      : 1;
		if (more < 0) {
			return -1;
		}
		if (more == 0) {
			*ret_placed = true;
			if (kp_doc_close(b, err)) {
				return -1;
			}
			*ret_placed = false;
			continue;
		}
		if (object) {
			struct kp_doc_pos at = place(c, j->path[j->depth - 1].key.p - 1);
			if (kp_doc_key(b, key, at, false, err)) {
				*ret_placed = true;
				return -1;
			}
		}
		enum kp_json_type type = kp_json_peek(j);
		struct kp_doc_pos at = place(c, j->p);
		int r;
		if (type == KP_JSON_OBJECT || type == KP_JSON_ARRAY) {
			if (type == KP_JSON_OBJECT ? kp_json_object(j, err)
						   : kp_json_array(j, err)) {
				return -1;
			}
			r = kp_doc_open(b, type == KP_JSON_OBJECT, at, NULL, err);
		} else {
			json_t *v = NULL;
			if (scalar(j, type, &v, err)) {
				return -1;
			}
			r = kp_doc_scalar(b, v, at, NULL, err);
		}
		if (r) {
			*ret_placed = true;
			return -1;
		}
	} while (b->depth);
	return 0;
}

int kp_doc_json_stream(struct kp_doc_builder *b, kp_str text, bool only_one,
	int (*each)(void *ctx, json_t *v, struct kp_yaml_marks *marks, struct kp_err *err),
	void *ctx, struct kp_err *err)
{
	struct kp_json j;
	if (kp_str_starts(text, KP_S("\xef\xbb\xbf"))) {
		text = kp_str_skip(text, 3);
	}
	kp_json_init(&j, text, b->arena);
	struct cursor c = { .at = j.p, .pos = { .line = 1, .column = 1 } };
	for (;;) {
		bool placed = false;
		if (read_value(b, &j, &c, &placed, err)) {
			if (!placed) {
				b->where = place(&c, j.p);
			}
			return -1;
		}
		struct kp_yaml_marks *marks;
		json_t *v = kp_doc_take(b, &marks);
		if (each(ctx, v, marks, err)) {
			b->where = marks->pos;
			return -1;
		}
		if (only_one) {
			if (kp_json_end(&j, err)) {
				b->where = place(&c, j.p);
				return -1;
			}
			return 0;
		}
		kp_json_peek(&j); /* skips white space */
		if (j.p >= j.end) {
			return 0;
		}
	}
}

static int keep(void *ctx, json_t *v, struct kp_yaml_marks *marks, struct kp_err *err)
{
	(void)marks;
	(void)err;
	*(json_t **)ctx = v;
	return 0;
}

int kp_doc_json(kp_str text, const char *name, const struct kp_doc_limits *lim, json_t **ret,
	struct kp_err *err)
{
	if (text.n > lim->max_bytes) {
		return kp_err_set(err, KP_TOO_LARGE, "parse `%s`: %zu bytes, more than %zu", name,
			text.n, lim->max_bytes);
	}
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(kp_doc_arena_bytes(lim));
	struct kp_doc_builder b;
	json_t *v = NULL;
	int r = kp_doc_builder_init(&b, arena, lim, err);
	if (r == 0) {
		r = kp_doc_json_stream(&b, text, true, keep, &v, err);
	}
	if (r) {
		json_decref(v);
		kp_err_wrap(
			err, "parse `%s`: line %u column %u", name, b.where.line, b.where.column);
	} else {
		*ret = v;
	}
	kp_doc_builder_fini(&b);
	return r;
}
