/* Reads frames (one letter, a little-endian 32-bit length, that many bytes of JSON) and answers each with one line.
   d: {"uri": schema, ...}: the documents that schemas may refer to from now on.
   s, 7: a schema, without `$schema` of 2020-12 or draft 7; F: with formats asserted. {"ok":true} or {"error":"..."}
   v: an instance of the last schema, as text: whole, byte by byte, and cut in two at every place (in 40 places when it is long), all of which must agree; and as a value
   where it can be read. {"valid":bool,"at":n,"pointer":"...","keyword":"...","message":"..."}, {"error":"..."}, or {"differs":"..."}
   t: whether a schema is of OpenAI's strict subset. */
#include "json/write.h"
#include "jsonschema/jsonschema.h"
#include "tests/frames.h"

#include <stdio.h>

struct state {
	struct kp_arena *documents, *one;
	struct kp_jv documents_value;
	struct kp_jsonschema_document list[256];
	size_t n_list;
	struct kp_jsonschema *schema;
};

struct answer {
	int result;
	enum kp_jsonschema_verdict verdict;
	struct kp_jsonschema_error first;
	char message[KP_ERR_MSG];
};

static void say_error(struct kp_buf *out, const char *name, const char *text)
{
	kp_buf_printf(out, "{\"%s\":", name);
	kp_json_w_str(out, kp_str_c(text));
	kp_buf_addc(out, '}');
}

static void take_documents(struct state *s, kp_str text, struct kp_buf *out)
{
	struct kp_err err;
	kp_arena_reset(s->documents);
	s->n_list = 0;
	if (kp_jv_parse(text, s->documents, &s->documents_value, &err)) {
		say_error(out, "error", err.msg);
		return;
	}
	/* the texts of the values lie in ours */
	for (uint32_t i = 0; i < s->documents_value.n && i < KP_LEN(s->list); i++) {
		const struct kp_jmember *m = &s->documents_value.members[i];
		s->list[s->n_list++] = (struct kp_jsonschema_document){ m->key, &m->value };
	}
	kp_buf_lit(out, "{\"ok\":true}");
}

static void take_schema(struct state *s, char kind, kp_str text, struct kp_buf *out)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv v;
	struct kp_jsonschema_options o = { .default_draft7 = kind == '7',
		.assert_formats = kind == 'F',
		.documents = s->list,
		.n_documents = s->n_list };
	kp_jsonschema_destroy(s->schema);
	s->schema = NULL;
	kp_arena_reset(s->one);
	int r = kp_jv_parse(text, s->one, &v, &err);
	if (r == 0) {
		r = kind == 't' ? kp_jsonschema_check_strict(&v, &err)
				: kp_jsonschema_compile(&v, &o, &s->schema, &err);
	}
	if (r) {
		say_error(out, "error", err.msg);
	} else {
		kp_buf_lit(out, "{\"ok\":true}");
	}
}

static void finish(struct kp_jsonschema_run *r, int result, struct answer *a, struct kp_err *err)
{
	size_t n;
	a->result = result ? result : kp_jsonschema_run_finish(r, &a->verdict, err);
	a->first = (struct kp_jsonschema_error){ .at = 0 };
	a->message[0] = '\0';
	const struct kp_jsonschema_error *errors = kp_jsonschema_run_errors(r, &n);
	if (n) {
		a->first = errors[0];
	}
	if (a->result) {
		memcpy(a->message, err->msg, sizeof(a->message));
	}
	kp_jsonschema_run_destroy(r);
}

/* Cut at `cut`; every > 0: pieces of that size. */
static void ask(const struct state *s, kp_str text, size_t cut, size_t every, struct answer *a)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_jsonschema_run *r = kp_jsonschema_run_create(s->schema, NULL);
	int result = 0;
	for (size_t at = 0; at < text.n && result == 0;) {
		size_t to = every ? at + every : at < cut ? cut : text.n;
		char *piece = kp_xmalloc(KP_MIN(to, text.n) - at +
					 1); /* of its own, so that a byte too far is seen */
		kp_str part = kp_str_sub(text, at, to);
		memcpy(piece, part.p, part.n);
		result = kp_jsonschema_run_feed(r, kp_str_n(piece, part.n), &a->verdict, &err);
		kp_mem_free(piece);
		at = to;
	}
	finish(r, result, a, &err);
}

static bool same(const struct answer *x, const struct answer *y)
{
	return x->result == y->result && (x->result || x->verdict == y->verdict) &&
	       x->first.at == y->first.at && strcmp(x->first.pointer, y->first.pointer) == 0 &&
	       strcmp(x->first.keyword, y->first.keyword) == 0 &&
	       strcmp(x->first.message, y->first.message) == 0;
}

static bool check_value(struct state *s, kp_str text, const struct answer *whole)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv v;
	struct answer a;
	kp_arena_reset(s->one);
	if (whole->result ||
		(whole->verdict == KP_JSONSCHEMA_INVALID && !whole->first.keyword[0]) ||
		kp_jv_parse(text, s->one, &v, &err)) {
		return true;
	}
	struct kp_jsonschema_run *r = kp_jsonschema_run_create(s->schema, NULL);
	finish(r, kp_jsonschema_run_value(r, &v, &a.verdict, &err), &a, &err);
	return a.result == whole->result && a.verdict == whole->verdict &&
	       strcmp(a.first.pointer, whole->first.pointer) == 0 &&
	       strcmp(a.first.keyword, whole->first.keyword) == 0;
}

static void take_value(struct state *s, kp_str text, struct kp_buf *out)
{
	struct answer whole, other;
	if (!s->schema) {
		say_error(out, "error", "no schema");
		return;
	}
	ask(s, text, text.n, 0, &whole);
	ask(s, text, 0, 1, &other);
	bool agree = same(&whole, &other) && check_value(s, text, &whole);
	size_t by = text.n > 40 ? text.n / 40 : 1;
	for (size_t cut = 1; cut < text.n && agree; cut += by) {
		ask(s, text, cut, 0, &other);
		agree = same(&whole, &other);
	}
	if (!agree) {
		say_error(out, "differs", other.first.message);
	} else if (whole.result) {
		say_error(out, "error", whole.message);
	} else {
		kp_buf_printf(out, "{\"valid\":%s,\"at\":%llu,\"pointer\":",
			whole.verdict == KP_JSONSCHEMA_VALID ? "true" : "false",
			(unsigned long long)whole.first.at);
		kp_json_w_str(out, kp_str_c(whole.first.pointer));
		kp_buf_lit(out, ",\"keyword\":");
		kp_json_w_str(out, kp_str_c(whole.first.keyword));
		kp_buf_lit(out, ",\"message\":");
		kp_json_w_str(out, kp_str_c(whole.first.message));
		kp_buf_addc(out, '}');
	}
}

int main(void)
{
	struct test_frame f;
	struct kp_buf out;
	char *kept = NULL; /* what the documents' values point into */
	struct state s = { .documents = kp_arena_create(64 << 20),
		.one = kp_arena_create(64 << 20) };
	kp_buf_init(&out, 256 << 20);
	while (frame_read(&f)) {
		kp_buf_reset(&out);
		if (f.kind == 'd') {
			kp_mem_free(kept);
			kept = f.text;
			take_documents(&s, kp_str_n(f.text, f.n), &out);
		} else if (f.kind == 'v') {
			take_value(&s, kp_str_n(f.text, f.n), &out);
		} else {
			take_schema(&s, f.kind, kp_str_n(f.text, f.n), &out);
		}
		kp_buf_addc(&out, '\n');
		fwrite(out.p, 1, out.n, stdout);
		if (f.text != kept) {
			kp_mem_free(f.text);
		}
	}
	kp_jsonschema_destroy(s.schema);
	kp_arena_destroy(s.documents);
	kp_arena_destroy(s.one);
	kp_mem_free(kept);
	kp_buf_fini(&out);
	return 0;
}
