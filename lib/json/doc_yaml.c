/* DESIGN: libyaml's event parser feeds the document builder. Events, not libyaml's own documents:
   the builder stops at its depth and node limits long before libyaml has read 50,000 nested `[`.
   libyaml looks ahead at most 1,024 characters for a `:`, so what it does between two events is
   bounded too. Anchors are found through a hash map; they live as long as their document.

   A text whose first character is `{` is tried as JSON first, as kubectl does: JSON in a YAML
   parser would trip over surrogate escapes. Only if it is no JSON it is read as YAML; of a file
   called *.json that is neither, the JSON error is reported.

   Where kubectl's reader drops or ignores something in silence we refuse: what follows the first
   document without a `---`, unknown tags, tags of another kind than their value. !!binary and
   !!timestamp are refused too, and so is the escape `\'`, which libyaml does not know. */
#include "base/vec.h"
#include "json/doc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <yaml.h>

struct reader {
	struct kp_doc_builder b;
	yaml_parser_t parser;
	kp_str text;
	struct kp_map anchors; /* name -> struct kp_yaml_marks of this document */
	KP_VEC(struct kp_yaml_doc)
	docs;
};

static struct kp_doc_pos pos_of(yaml_mark_t m)
{
	return (struct kp_doc_pos){ .line = (uint32_t)m.line + 1,
		.column = (uint32_t)m.column + 1 };
}

static kp_str str_of(const yaml_char_t *p)
{
	return kp_str_c((const char *)p);
}

static struct kp_doc_pos pos_of_byte(kp_str before)
{
	struct kp_doc_pos at = { .line = 1, .column = 1 };
	for (size_t i = 0; i < before.n; i++) {
		at.line += before.p[i] == '\n';
		at.column = before.p[i] == '\n'
				    ? 1
				    : at.column + (((unsigned char)before.p[i] & 0xc0) != 0x80);
	}
	return at;
}

static int parser_error(struct reader *r, struct kp_err *err)
{
	yaml_parser_t *p = &r->parser;
	struct kp_doc_pos at = pos_of(p->problem_mark);
	if (p->error == YAML_MEMORY_ERROR) {
		return kp_doc_fail(&r->b, at, err, KP_RESOURCE_EXHAUSTED, "out of memory");
	}
	if (p->error == YAML_READER_ERROR) { /* has a byte offset, no mark */
		at = pos_of_byte(kp_str_sub(r->text, 0, p->problem_offset));
		return kp_doc_fail(&r->b, at, err, KP_INVALID_ARGUMENT, "%s",
			p->problem ? p->problem : "unreadable text");
	}
	const char *problem = p->problem ? p->problem : "not valid YAML";
	if (p->context && p->context_mark.line != p->problem_mark.line) {
		return kp_doc_fail(&r->b, at, err, KP_INVALID_ARGUMENT, "%s (%s from line %zu)",
			problem, p->context, p->context_mark.line + 1);
	}
	return kp_doc_fail(&r->b, at, err, KP_INVALID_ARGUMENT, "%s", problem);
}

/* The part of a tag behind "tag:yaml.org,2002:", `plain` for the tag `!`, p NULL when there is
   none; false: a tag of another kind. */
static bool core_tag(const yaml_char_t *tag, kp_str plain, kp_str *ret)
{
	*ret = KP_STR_NULL;
	if (!tag) {
		return true;
	}
	kp_str t = str_of(tag);
	if (kp_str_eq(t, KP_S("!"))) {
		*ret = plain;
		return true;
	}
	if (!kp_str_starts(t, KP_S("tag:yaml.org,2002:"))) {
		return false;
	}
	*ret = kp_str_skip(t, strlen("tag:yaml.org,2002:"));
	return true;
}

static int bad_tag(
	struct reader *r, const yaml_event_t *e, const yaml_char_t *tag, struct kp_err *err)
{
	return kp_doc_fail(&r->b, pos_of(e->start_mark), err, KP_INVALID_ARGUMENT,
		"tag `%" KP_FMT "` is not supported here", KP_ARG(kp_str_sub(str_of(tag), 0, 80)));
}

static bool is_scalar_tag(kp_str tag)
{
	static const char *const tags[] = { "str", "null", "bool", "int", "float" };
	for (size_t i = 0; i < KP_LEN(tags); i++) {
		if (kp_str_eq(tag, kp_str_c(tags[i]))) {
			return true;
		}
	}
	return false;
}

/* Whether the value the text resolves to may carry the tag. */
static bool tag_fits(kp_str tag, enum kp_yaml_type type)
{
	switch (type) {
	case KP_YAML_NULL:
		return kp_str_eq(tag, KP_S("null"));
	case KP_YAML_BOOL:
		return kp_str_eq(tag, KP_S("bool"));
	case KP_YAML_INT:
		return kp_str_eq(tag, KP_S("int")) || kp_str_eq(tag, KP_S("float"));
	case KP_YAML_UINT: /* the library's check for !!float knows int only */
		return kp_str_eq(tag, KP_S("int"));
	case KP_YAML_REAL:
		return kp_str_eq(tag, KP_S("float"));
	case KP_YAML_STR:
	case KP_YAML_TOO_LONG:
		break;
	}
	return false;
}

/* What the scalar of an event means. */
static int resolve(struct reader *r, const yaml_event_t *e, enum kp_yaml_type *type,
	struct kp_yaml_scalar *v, struct kp_err *err)
{
	struct kp_doc_pos at = pos_of(e->start_mark);
	kp_str text = kp_str_n(e->data.scalar.value, e->data.scalar.length), tag;
	if (!core_tag(e->data.scalar.tag, KP_S("str"), &tag) || (tag.p && !is_scalar_tag(tag))) {
		return bad_tag(r, e, e->data.scalar.tag, err);
	}
	*type = KP_YAML_STR;
	if (tag.p ? kp_str_eq(tag, KP_S("str")) : !e->data.scalar.plain_implicit) {
		return 0;
	}
	*type = kp_yaml_resolve(text, v);
	if (*type == KP_YAML_TOO_LONG) {
		return kp_doc_fail(&r->b, at, err, KP_INVALID_ARGUMENT,
			"a number of %zu digits; quote it if it is text", text.n);
	}
	if (tag.p && !tag_fits(tag, *type)) {
		return kp_doc_fail(&r->b, at, err, KP_INVALID_ARGUMENT,
			"`%" KP_FMT "` is no !!%" KP_FMT, KP_ARG(kp_str_sub(text, 0, 80)),
			KP_ARG(kp_str_sub(tag, 0, 40)));
	}
	if (tag.p && *type == KP_YAML_INT && kp_str_eq(tag, KP_S("float"))) {
		*type = KP_YAML_REAL;
		v->d = (double)v->i;
	}
	return 0;
}

/* As a JSON value. A float with an integral value becomes an integer: Go writes 1e3 as `1000` into
   the JSON in between. Beyond 2^53 Go pads its shortest digits with zeros; there the float stays.
 */
static int json_of(struct reader *r, kp_str text, enum kp_yaml_type type,
	const struct kp_yaml_scalar *v, struct kp_doc_pos at, json_t **ret, struct kp_err *err)
{
	switch (type) {
	case KP_YAML_NULL:
		*ret = json_null();
		break;
	case KP_YAML_BOOL:
		*ret = json_boolean(v->b);
		break;
	case KP_YAML_INT:
		*ret = json_integer(v->i);
		break;
	case KP_YAML_UINT:
	case KP_YAML_REAL:
		if (!isfinite(v->d)) {
			return kp_doc_fail(&r->b, at, err, KP_INVALID_ARGUMENT,
				"`%" KP_FMT "` has no JSON form", KP_ARG(text));
		}
		*ret = v->d == trunc(v->d) && fabs(v->d) <= 9007199254740992.0
			       ? json_integer((json_int_t)v->d)
			       : json_real(v->d);
		break;
	case KP_YAML_STR:
	case KP_YAML_TOO_LONG:
		*ret = json_stringn_nocheck(text.n ? text.p : "", text.n);
		break;
	}
	return *ret ? 0 : kp_doc_fail(&r->b, at, err, KP_RESOURCE_EXHAUSTED, "out of memory");
}

/* As a key: numbers and booleans become text as the API server's library writes them. */
static int key_of(struct reader *r, kp_str text, enum kp_yaml_type type,
	const struct kp_yaml_scalar *v, struct kp_doc_pos at, struct kp_err *err)
{
	char buf[48];
	kp_str key = text;
	switch (type) {
	case KP_YAML_NULL:
		return kp_doc_fail(
			&r->b, at, err, KP_INVALID_ARGUMENT, "a key must be a string, got null");
	case KP_YAML_BOOL:
		key = v->b ? KP_S("true") : KP_S("false");
		break;
	case KP_YAML_INT:
		key = (kp_str){ buf, (size_t)snprintf(buf, sizeof(buf), "%" PRId64, v->i) };
		break;
	case KP_YAML_UINT:
		return kp_doc_fail(&r->b, at, err, KP_INVALID_ARGUMENT,
			"a number this large cannot be a key; quote it");
	case KP_YAML_REAL:
		kp_yaml_float_key(v->d, buf);
		key = (kp_str){ buf, strlen(buf) };
		break;
	case KP_YAML_STR:
	case KP_YAML_TOO_LONG:
		break;
	}
	return kp_doc_key(&r->b, key, at, false, err);
}

/* An alias as key: only strings, where nothing can be lost on the way. */
static int key_of_alias(struct reader *r, const json_t *v, struct kp_doc_pos at, struct kp_err *err)
{
	if (!json_is_string(v)) {
		return kp_doc_fail(&r->b, at, err, KP_INVALID_ARGUMENT,
			"an alias as key must stand for a string");
	}
	return kp_doc_key(
		&r->b, kp_str_n(json_string_value(v), json_string_length(v)), at, false, err);
}

static void set_anchor(struct reader *r, const yaml_char_t *name, struct kp_yaml_marks *m)
{
	if (name) {
		kp_map_set(&r->anchors, str_of(name), m);
	}
}

/* A key with an anchor: its value lives in scratch, so that aliases find it. */
static int anchor_key(struct reader *r, const yaml_char_t *name, json_t *v, struct kp_doc_pos at,
	struct kp_err *err)
{
	struct kp_yaml_marks *m = kp_arena_alloc(r->b.arena, sizeof(*m));
	if (json_array_append_new(r->b.scratch, v) || !m) {
		return kp_doc_fail(&r->b, at, err, KP_RESOURCE_EXHAUSTED, "out of memory");
	}
	*m = (struct kp_yaml_marks){
		.value = v, .pos = at, .nodes = 1, .height = 1, .bytes = json_string_length(v)
	};
	set_anchor(r, name, m);
	return 0;
}

static int on_key(struct reader *r, const yaml_event_t *e, struct kp_err *err)
{
	struct kp_doc_pos at = pos_of(e->start_mark);
	kp_str text = kp_str_n(e->data.scalar.value, e->data.scalar.length);
	enum kp_yaml_type type;
	struct kp_yaml_scalar v;
	json_t *value = NULL;
	if (e->data.scalar.plain_implicit && kp_str_eq(text, KP_S("<<"))) {
		return kp_doc_key(&r->b, text, at, true, err);
	}
	if (resolve(r, e, &type, &v, err) || key_of(r, text, type, &v, at, err)) {
		return -1;
	}
	if (!e->data.scalar.anchor) {
		return 0;
	}
	return json_of(r, text, type, &v, at, &value, err) ||
			       anchor_key(r, e->data.scalar.anchor, value, at, err)
		       ? -1
		       : 0;
}

static int on_scalar(struct reader *r, const yaml_event_t *e, struct kp_err *err)
{
	struct kp_doc_pos at = pos_of(e->start_mark);
	kp_str text = kp_str_n(e->data.scalar.value, e->data.scalar.length);
	enum kp_yaml_type type;
	struct kp_yaml_scalar v;
	json_t *value = NULL;
	struct kp_yaml_marks *m;
	if (resolve(r, e, &type, &v, err) || json_of(r, text, type, &v, at, &value, err) ||
		kp_doc_scalar(&r->b, value, at, &m, err)) {
		return -1;
	}
	set_anchor(r, e->data.scalar.anchor, m);
	return 0;
}

static int on_alias(struct reader *r, const yaml_event_t *e, struct kp_err *err)
{
	struct kp_doc_pos at = pos_of(e->start_mark);
	kp_str name = str_of(e->data.alias.anchor);
	const struct kp_yaml_marks *m = kp_map_get(&r->anchors, name);
	if (!m) {
		return kp_doc_fail(&r->b, at, err, KP_INVALID_ARGUMENT,
			"no anchor `&%" KP_FMT "` before this alias",
			KP_ARG(kp_str_sub(name, 0, 80)));
	}
	return kp_doc_wants_key(&r->b) ? key_of_alias(r, m->value, at, err)
				       : kp_doc_alias(&r->b, m, at, err);
}

static int on_open(struct reader *r, const yaml_event_t *e, bool object, const yaml_char_t *tag,
	const yaml_char_t *anchor, struct kp_err *err)
{
	struct kp_doc_pos at = pos_of(e->start_mark);
	kp_str t;
	if (kp_doc_wants_key(&r->b)) {
		return kp_doc_fail(&r->b, at, err, KP_INVALID_ARGUMENT,
			"a key must be a string, got a %s", object ? "mapping" : "sequence");
	}
	kp_str want = object ? KP_S("map") : KP_S("seq");
	if (!core_tag(tag, want, &t) || (t.p && !kp_str_eq(t, want))) {
		return bad_tag(r, e, tag, err);
	}
	struct kp_yaml_marks *m;
	if (kp_doc_open(&r->b, object, at, &m, err)) {
		return -1;
	}
	set_anchor(r, anchor, m);
	return 0;
}

static int add_doc(void *ctx, json_t *v, struct kp_yaml_marks *marks, struct kp_err *err)
{
	struct reader *r = ctx;
	if (json_is_null(v)) {
		json_decref(v);
		return 0;
	}
	if (r->docs.n == r->b.lim->max_docs) {
		json_decref(v);
		return kp_err_set(err, KP_TOO_LARGE, "more than %zu documents", r->b.lim->max_docs);
	}
	kp_vec_push(
		&r->docs, ((struct kp_yaml_doc){ .value = v, .pos = marks->pos, .marks = marks }));
	return 0;
}

/* 1: go on, 0: the stream has ended. */
static int on_event(struct reader *r, const yaml_event_t *e, struct kp_err *err)
{
	int rc = 0;
	struct kp_yaml_marks *marks;
	switch (e->type) {
	case YAML_SCALAR_EVENT:
		rc = kp_doc_wants_key(&r->b) ? on_key(r, e, err) : on_scalar(r, e, err);
		break;
	case YAML_ALIAS_EVENT:
		rc = on_alias(r, e, err);
		break;
	case YAML_SEQUENCE_START_EVENT:
		rc = on_open(r, e, false, e->data.sequence_start.tag, e->data.sequence_start.anchor,
			err);
		break;
	case YAML_MAPPING_START_EVENT:
		rc = on_open(
			r, e, true, e->data.mapping_start.tag, e->data.mapping_start.anchor, err);
		break;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		rc = kp_doc_close(&r->b, err);
		break;
	case YAML_DOCUMENT_END_EVENT: {
		json_t *v = kp_doc_take(&r->b, &marks);
		kp_map_fini(&r->anchors, NULL);
		kp_map_init(&r->anchors);
		rc = add_doc(r, v, marks, err);
		if (rc) {
			r->b.where = marks->pos;
		}
		break;
	}
	case YAML_STREAM_END_EVENT:
		return 0;
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_DOCUMENT_START_EVENT:
		break;
	}
	return rc ? -1 : 1;
}

static int read_yaml(struct reader *r, struct kp_err *err)
{
	if (!yaml_parser_initialize(&r->parser)) {
		return kp_doc_fail(&r->b, (struct kp_doc_pos){ 0 }, err, KP_RESOURCE_EXHAUSTED,
			"out of memory");
	}
	yaml_parser_set_input_string(
		&r->parser, (const unsigned char *)(r->text.n ? r->text.p : ""), r->text.n);
	int more;
	do {
		yaml_event_t e;
		if (!yaml_parser_parse(&r->parser, &e)) {
			more = parser_error(r, err);
			break;
		}
		more = on_event(r, &e, err);
		yaml_event_delete(&e);
	} while (more > 0);
	yaml_parser_delete(&r->parser);
	return more;
}

static bool starts_like_json(kp_str text)
{
	return kp_str_starts(
		kp_str_trim(
			kp_str_starts(text, KP_S("\xef\xbb\xbf")) ? kp_str_skip(text, 3) : text),
		KP_S("{"));
}

static void drop_docs(struct reader *r)
{
	for (size_t i = 0; i < r->docs.n; i++) {
		json_decref(r->docs.p[i].value);
	}
	r->docs.n = 0;
}

static int read_text(struct reader *r, const char *name, const struct kp_doc_limits *lim,
	struct kp_arena *arena, struct kp_err *err)
{
	if (kp_doc_builder_init(&r->b, arena, lim, err)) {
		return -1;
	}
	bool named_json = kp_str_ends(kp_str_c(name), KP_S(".json"));
	if (!named_json && !starts_like_json(r->text)) {
		return read_yaml(r, err);
	}
	struct kp_err json_err;
	int rc = kp_doc_json_stream(&r->b, r->text, false, add_doc, r, &json_err);
	if (rc && json_err.code != KP_INVALID_ARGUMENT) {
		*err = json_err;
	}
	if (rc == 0 || json_err.code != KP_INVALID_ARGUMENT) {
		return rc;
	}
	struct kp_doc_pos json_where = r->b.where;
	drop_docs(r);
	kp_doc_builder_fini(&r->b);
	if (kp_doc_builder_init(&r->b, arena, lim, err)) {
		return -1;
	}
	rc = read_yaml(r, err);
	if (rc && named_json) {
		*err = json_err;
		r->b.where = json_where;
	}
	return rc;
}

int kp_doc_yaml_where(kp_str text, const char *name, const struct kp_doc_limits *lim,
	struct kp_yaml_stream *ret, struct kp_doc_pos *ret_where, struct kp_err *err)
{
	*ret_where = (struct kp_doc_pos){ 0 };
	if (text.n > lim->max_bytes) {
		return kp_err_set(
			err, KP_TOO_LARGE, "%zu bytes, more than %zu", text.n, lim->max_bytes);
	}
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(2 * kp_doc_arena_bytes(lim));
	struct reader r = { .text = text };
	kp_map_init(&r.anchors);
	int rc = read_text(&r, name, lim, arena, err);
	size_t bytes = r.docs.n * sizeof(*r.docs.p);
	struct kp_yaml_doc *docs = rc ? NULL : kp_arena_alloc(arena, bytes);
	if (!rc && !docs) {
		rc = kp_arena_full(err, "documents");
	}
	if (rc) {
		*ret_where = r.b.where;
		drop_docs(&r);
	} else {
		if (r.docs.n) {
			memcpy(docs, r.docs.p, bytes);
		}
		*ret = (struct kp_yaml_stream){
			.docs = docs, .n = r.docs.n, .arena = kp_steal(arena)
		};
	}
	kp_doc_builder_fini(&r.b);
	kp_map_fini(&r.anchors, NULL);
	kp_vec_fini(&r.docs);
	return rc;
}

int kp_doc_yaml(kp_str text, const char *name, const struct kp_doc_limits *lim,
	struct kp_yaml_stream *ret, struct kp_err *err)
{
	struct kp_doc_pos at;
	if (kp_doc_yaml_where(text, name, lim, ret, &at, err) == 0) {
		return 0;
	}
	return at.line ? kp_err_wrap(err, "parse `%s`: line %u column %u", name, at.line, at.column)
		       : kp_err_wrap(err, "parse `%s`", name);
}

void kp_yaml_stream_fini(struct kp_yaml_stream *s)
{
	for (size_t i = 0; i < s->n; i++) {
		json_decref(s->docs[i].value);
	}
	kp_arena_destroy(s->arena);
	*s = (struct kp_yaml_stream){ 0 };
}
