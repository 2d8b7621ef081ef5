/* DESIGN: documents are walked once through the keywords that hold schemas, so that an $id inside of an enum is none. Each schema is a place, found by the address
   of its value; resources by URI, anchors by resource and name. A JSON pointer into something that is no known place makes one there. Recursion: the depth of
   the document, which its reader limits. */
#include "jsonschema/compile.h"

#include <stdarg.h>
#include <stdio.h>

int kp_js_fail(struct kp_js_compiler *c, kp_str where, const char *keyword, const char *fmt, ...)
{
	char what[256], at[KP_ERR_PARAM];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	snprintf(at, sizeof(at), "%" KP_FMT "%s%s", KP_ARG(where), keyword ? "/" : "",
		keyword ? keyword : "");
	return kp_err_param(c->err, at, "compile JSON schema: `%s`: %s", at, what);
}

int kp_js_full(struct kp_js_compiler *c)
{
	return kp_err_set(c->err, KP_RESOURCE_EXHAUSTED,
		"compile JSON schema: `memory`: it takes more than the maximum");
}

static void *alloc_in(struct kp_js_compiler *c, struct kp_arena *a, size_t count, size_t size)
{
	void *p = kp_arena_calloc(a, count, size);
	if (!p) {
		(void)kp_js_full(c);
	}
	return p;
}

void *kp_js_alloc(struct kp_js_compiler *c, size_t count, size_t size)
{
	return alloc_in(c, c->arena, count, size);
}

kp_str kp_js_child(struct kp_js_compiler *c, kp_str where, kp_str keyword, kp_str token)
{
	char *p = kp_js_alloc(c, where.n + keyword.n + 2 * token.n + 3, 1);
	size_t n = 0;
	if (!p) {
		return KP_STR_NULL;
	}
	memcpy(p, where.p, where.n);
	n = where.n;
	p[n++] = '/';
	memcpy(p + n, keyword.p, keyword.n);
	n += keyword.n;
	if (token.p) {
		p[n++] = '/';
	}
	for (size_t i = 0; i < token.n; i++) {
		if (token.p[i] == '~' || token.p[i] == '/') {
			p[n++] = '~';
			p[n++] = token.p[i] == '~' ? '0' : '1';
		} else {
			p[n++] = token.p[i];
		}
	}
	return kp_str_n(p, n);
}

static kp_str address(const struct kp_jv *const *v)
{
	return kp_str_n(v, sizeof(*v));
}

static struct kp_js_place *find_place(struct kp_js_compiler *c, const struct kp_jv *v)
{
	return kp_map_get(&c->places, address(&v));
}

static kp_str without_fragment(kp_str uri)
{
	ptrdiff_t at = kp_str_find_char(uri, '#');
	return at < 0 ? uri : kp_str_sub(uri, 0, (size_t)at);
}

static kp_str keep(struct kp_js_compiler *c, kp_str s)
{
	kp_str kept = KP_STR_NULL;
	return kp_arena_dup(c->scratch, s, &kept, c->err) ? KP_STR_NULL : kept;
}

static const struct kp_jv *given_document(struct kp_js_compiler *c, kp_str uri)
{
	for (size_t i = 0; c->options && i < c->options->n_documents; i++) {
		if (kp_str_eq(without_fragment(c->options->documents[i].uri), uri)) {
			return c->options->documents[i].value;
		}
	}
	return NULL;
}

/* The dialect that `$schema` names. */
static int read_dialect(struct kp_js_compiler *c, kp_str name, kp_str where, unsigned depth,
	struct kp_js_dialect *ret)
{
	kp_str uri = without_fragment(name);
	bool assert_formats = c->options && c->options->assert_formats;
	*ret = (struct kp_js_dialect){ .assert_formats = assert_formats };
	if (kp_str_eq(uri, KP_S("https://json-schema.org/draft/2020-12/schema"))) {
		return 0;
	}
	if (kp_str_eq(uri, KP_S("http://json-schema.org/draft-07/schema")) ||
		kp_str_eq(uri, KP_S("https://json-schema.org/draft-07/schema"))) {
		ret->draft7 = true;
		return 0;
	}
	const struct kp_jv *meta = given_document(c, uri);
	if (!meta || depth > 8) {
		return kp_js_fail(c, where, "$schema",
			"`%" KP_FMT "` is not known: drafts 2020-12 and 7 are",
			KP_ARG(kp_str_sub(name, 0, 100)));
	}
	kp_str next = kp_jv_str(meta, KP_S("$schema"));
	if (next.p && read_dialect(c, next, where, depth + 1, ret)) {
		return -1;
	}
	const struct kp_jv *vocabulary = kp_jv_get(meta, KP_S("$vocabulary"));
	if (vocabulary) {
		const struct kp_jv *assertion = kp_jv_get(vocabulary,
			KP_S("https://json-schema.org/draft/2020-12/vocab/format-assertion"));
		ret->no_validation = !kp_jv_get(
			vocabulary, KP_S("https://json-schema.org/draft/2020-12/vocab/validation"));
		ret->assert_formats = assert_formats || assertion;
	}
	return 0;
}

/* A resource of that URI; an old one when it is the same. */
static int add_resource(struct kp_js_compiler *c, kp_str uri, const struct kp_jv *root,
	struct kp_js_dialect dialect, uint32_t *ret)
{
	uintptr_t old = (uintptr_t)kp_map_get(&c->uris, uri);
	if (old && c->resources.p[old - 1].root == root) {
		*ret = (uint32_t)old - 1;
		return 0;
	}
	struct kp_js_resource r = { .uri = keep(c, uri), .root = root, .dialect = dialect };
	if (!r.uri.p) {
		return -1;
	}
	kp_vec_push(&c->resources, r);
	*ret = (uint32_t)c->resources.n - 1;
	if (!old) { /* the first of a name counts */
		kp_map_set(&c->uris, uri, (void *)(uintptr_t)c->resources.n);
	}
	return 0;
}

/* Of c->anchors; p NULL with err set. */
static kp_str anchor_key(struct kp_js_compiler *c, uint32_t resource, kp_str name)
{
	enum { NUMBER = 12 };
	char *p = alloc_in(c, c->scratch, NUMBER + name.n, 1);
	if (!p) {
		return KP_STR_NULL;
	}
	size_t n = (size_t)snprintf(p, NUMBER, "%u#", resource);
	memcpy(p + n, name.p, name.n);
	return kp_str_n(p, n + name.n);
}

static int add_anchor(struct kp_js_compiler *c, struct kp_js_place *p, kp_str name, bool dynamic)
{
	kp_str key = anchor_key(c, p->node.resource, name);
	if (!key.p) {
		return -1;
	}
	if (!kp_map_get(&c->anchors, key)) {
		kp_map_set(&c->anchors, key, p);
	}
	if (dynamic) {
		struct kp_js_dynamic d = { .resource = p->node.resource, .node = &p->node };
		if (kp_arena_dup(c->arena, name, &d.name, c->err)) {
			return -1;
		}
		kp_vec_push(&c->dynamic, d);
		(void)kp_js_want(c, p); /* nobody names it but by its anchor */
	}
	return 0;
}

/* `$id`, `$schema` and anchors of an object; moves the place into a resource of its own. */
static int read_identity(struct kp_js_compiler *c, struct kp_js_place *p)
{
	struct kp_js_resource *r = &c->resources.p[p->node.resource];
	struct kp_js_dialect dialect = r->dialect;
	kp_str id = kp_jv_str(p->v, KP_S("$id")), schema = kp_jv_str(p->v, KP_S("$schema"));
	if (dialect.draft7 && kp_jv_get(p->v, KP_S("$ref"))) {
		id = KP_STR_NULL;
	}
	bool fragment_only = id.n && id.p[0] == '#';
	if (id.n && !fragment_only) {
		KP_AUTO(buf) struct kp_buf uri;
		kp_buf_init(&uri, 64 << 10);
		kp_js_uri_resolve(r->uri, id, &uri);
		if (kp_buf_finish(&uri, "$id", c->err) ||
			(schema.p && read_dialect(c, schema, p->node.where, 0, &dialect)) ||
			add_resource(c, without_fragment(kp_buf_str(&uri)), p->v, dialect,
				&p->node.resource)) {
			return -1;
		}
	}
	if (dialect.draft7) {
		return fragment_only && id.n > 1 ? add_anchor(c, p, kp_str_skip(id, 1), false) : 0;
	}
	kp_str anchor = kp_jv_str(p->v, KP_S("$anchor")),
	       dynamic = kp_jv_str(p->v, KP_S("$dynamicAnchor"));
	if ((anchor.p && add_anchor(c, p, anchor, false)) ||
		(dynamic.p && add_anchor(c, p, dynamic, true))) {
		return -1;
	}
	return 0;
}

enum { HOLDS_ONE = 1, HOLDS_LIST = 2, HOLDS_MAP = 4, ONLY_7 = 8, ONLY_2020 = 16 };
static const struct {
	const char *name;
	unsigned how;
} holders[] = { { "$defs", HOLDS_MAP | ONLY_2020 }, { "definitions", HOLDS_MAP },
	{ "properties", HOLDS_MAP }, { "patternProperties", HOLDS_MAP },
	{ "dependentSchemas", HOLDS_MAP | ONLY_2020 }, { "dependencies", HOLDS_MAP },
	{ "allOf", HOLDS_LIST }, { "anyOf", HOLDS_LIST }, { "oneOf", HOLDS_LIST },
	{ "prefixItems", HOLDS_LIST | ONLY_2020 }, { "items", HOLDS_ONE | HOLDS_LIST },
	{ "additionalItems", HOLDS_ONE | ONLY_7 }, { "contains", HOLDS_ONE },
	{ "additionalProperties", HOLDS_ONE }, { "propertyNames", HOLDS_ONE }, { "not", HOLDS_ONE },
	{ "if", HOLDS_ONE }, { "then", HOLDS_ONE }, { "else", HOLDS_ONE },
	{ "unevaluatedItems", HOLDS_ONE | ONLY_2020 },
	{ "unevaluatedProperties", HOLDS_ONE | ONLY_2020 },
	{ "contentSchema", HOLDS_ONE | ONLY_2020 } };

static bool is_schema(const struct kp_jv *v)
{
	return v->type == KP_JSON_OBJECT || v->type == KP_JSON_TRUE || v->type == KP_JSON_FALSE;
}

static int index_child(struct kp_js_compiler *c, const struct kp_js_place *p, kp_str keyword,
	kp_str token, const struct kp_jv *v)
{
	if (!is_schema(v)) {
		return 0; /* keywords.c says what is wrong with it */
	}
	kp_str where = kp_js_child(c, p->node.where, keyword, token);
	return where.p && kp_js_index(c, v, p->node.resource, where) ? 0 : -1;
}

static int index_holder(struct kp_js_compiler *c, const struct kp_js_place *p,
	const struct kp_jmember *m, unsigned how)
{
	char number[16];
	const struct kp_jv *v = &m->value;
	if ((how & HOLDS_ONE) && is_schema(v)) {
		return index_child(c, p, m->key, KP_STR_NULL, v);
	}
	for (uint32_t i = 0; (how & HOLDS_LIST) && v->type == KP_JSON_ARRAY && i < v->n; i++) {
		snprintf(number, sizeof(number), "%u", i);
		if (index_child(c, p, m->key, kp_str_c(number), &v->items[i])) {
			return -1;
		}
	}
	for (uint32_t i = 0; (how & HOLDS_MAP) && v->type == KP_JSON_OBJECT && i < v->n; i++) {
		if (index_child(c, p, m->key, v->members[i].key.p ? v->members[i].key : KP_S(""),
			    &v->members[i].value)) {
			return -1;
		}
	}
	return 0;
}

static int index_below(struct kp_js_compiler *c, const struct kp_js_place *p)
{
	bool draft7 = c->resources.p[p->node.resource].dialect.draft7;
	for (uint32_t i = 0; i < p->v->n; i++) {
		const struct kp_jmember *m = &p->v->members[i];
		for (size_t k = 0; k < KP_LEN(holders); k++) {
			if ((holders[k].how & (draft7 ? ONLY_2020 : ONLY_7)) ||
				!kp_str_eq(m->key, kp_str_c(holders[k].name))) {
				continue;
			}
			if (index_holder(c, p, m, holders[k].how)) {
				return -1;
			}
		}
	}
	return 0;
}

struct kp_js_place *kp_js_index(
	struct kp_js_compiler *c, const struct kp_jv *v, uint32_t resource, kp_str where)
{
	struct kp_js_place *p = find_place(c, v);
	if (p) {
		return p;
	}
	if (c->n_places == c->max_places) {
		kp_err_set(c->err, KP_RESOURCE_EXHAUSTED,
			"compile JSON schema: `schemas`: more than %u", c->max_places);
		return NULL;
	}
	p = kp_js_alloc(c, 1, sizeof(*p));
	if (!p) {
		return NULL;
	}
	c->n_places++;
	p->v = v;
	p->node.where = where;
	p->node.resource = resource;
	p->node.types = JS_ANY;
	kp_map_set(&c->places, address(&v), p);
	if (v->type == KP_JSON_OBJECT && (read_identity(c, p) || index_below(c, p))) {
		return NULL;
	}
	return p;
}

int kp_js_index_document(struct kp_js_compiler *c, const struct kp_jv *v, kp_str uri, uint32_t *ret)
{
	struct kp_js_dialect dialect = { .draft7 = c->options && c->options->default_draft7,
		.assert_formats = c->options && c->options->assert_formats };
	kp_str where = KP_S("#"), schema = kp_jv_str(v, KP_S("$schema"));
	if (c->resources.n) { /* not the one that is compiled */
		where = kp_arena_printf(c->arena, "%" KP_FMT "#", KP_ARG(kp_str_sub(uri, 0, 120)));
	}
	if ((schema.p && read_dialect(c, schema, where, 0, &dialect)) ||
		add_resource(c, uri, v, dialect, ret)) {
		return -1;
	}
	return kp_js_index(c, v, *ret, where) ? 0 : -1;
}

/* Resource + 1 of a URI, loaded if it is a document that is known. */
static uint32_t find_resource(struct kp_js_compiler *c, kp_str uri)
{
	uintptr_t found = (uintptr_t)kp_map_get(&c->uris, uri);
	if (found) {
		return (uint32_t)found;
	}
	const struct kp_jv *v = given_document(c, uri);
	kp_str text = kp_js_metaschema(uri);
	if (!v && text.p) {
		struct kp_jv *parsed = kp_arena_new(c->scratch, struct kp_jv);
		if (kp_jv_parse(text, c->scratch, parsed, c->err)) {
			return 0;
		}
		v = parsed;
	}
	uint32_t r;
	return v && kp_js_index_document(c, v, uri, &r) == 0 ? r + 1 : 0;
}

/* p NULL with err set. */
static kp_str decode_percent(struct kp_js_compiler *c, kp_str s)
{
	char *p = alloc_in(c, c->scratch, s.n + 1, 1);
	size_t n = 0;
	for (size_t i = 0; p && i < s.n; i++) {
		uint64_t v;
		if (s.p[i] == '%' && i + 2 < s.n && kp_str_hex64(kp_str_sub(s, i + 1, i + 3), &v)) {
			p[n++] = (char)v;
			i += 2;
		} else {
			p[n++] = s.p[i];
		}
	}
	return kp_str_n(p, n);
}

static const struct kp_jv *step(const struct kp_jv *v, kp_str token, struct kp_buf *key)
{
	kp_buf_reset(key);
	for (size_t i = 0; i < token.n; i++) {
		bool escape = token.p[i] == '~' && i + 1 < token.n;
		kp_buf_addc(key, escape ? (token.p[i + 1] == '1' ? '/' : '~') : token.p[i]);
		i += escape;
	}
	uint64_t index;
	if (v->type == KP_JSON_ARRAY) {
		return v->n && kp_str_u64(token, v->n - 1, &index) ? &v->items[index] : NULL;
	}
	return kp_jv_get(v, kp_buf_str(key));
}

/* A pointer from a resource's root; NULL without err: it leads nowhere. */
static struct kp_js_place *walk(struct kp_js_compiler *c, uint32_t resource, kp_str pointer)
{
	const struct kp_jv *v = c->resources.p[resource].root;
	struct kp_js_place *p = find_place(c, v);
	kp_str rest = kp_str_skip(pointer, 1), token, where = p ? p->node.where : KP_S("#");
	KP_AUTO(buf) struct kp_buf key;
	kp_buf_init(&key, 1 << 20);
	while (kp_str_split(&rest, '/', &token)) {
		v = step(v, token, &key);
		if (!v) {
			return NULL;
		}
		p = find_place(c, v);
		resource = p ? p->node.resource : resource;
		where = kp_js_child(c, where, token, KP_STR_NULL);
		if (!where.p) {
			return NULL;
		}
	}
	return p ? p : kp_js_index(c, v, resource, where);
}

static bool has_dynamic_anchor(const struct kp_js_place *p, kp_str name)
{
	kp_str own = kp_jv_str(p->v, KP_S("$dynamicAnchor"));
	return own.p && kp_str_eq(own, name);
}

struct kp_js_place *kp_js_resolve(
	struct kp_js_compiler *c, uint32_t resource, kp_str ref, kp_str *ret_dynamic)
{
	KP_AUTO(buf) struct kp_buf full;
	kp_buf_init(&full, 64 << 10);
	kp_js_uri_resolve(c->resources.p[resource].uri, ref, &full);
	if (kp_buf_finish(&full, "$ref", c->err)) {
		return NULL;
	}
	kp_str uri = without_fragment(kp_buf_str(&full));
	kp_str fragment = decode_percent(c, kp_str_skip(kp_buf_str(&full), uri.n + 1));
	*ret_dynamic = KP_STR_NULL;
	if (!fragment.p) {
		return NULL;
	}
	uint32_t target = find_resource(c, uri);
	if (target == 0) {
		if (c->err->code == KP_OK) {
			kp_err_set(c->err, KP_NOT_FOUND, "no such document; nothing is fetched");
		}
		return NULL;
	}
	if (fragment.n == 0) {
		return find_place(c, c->resources.p[target - 1].root);
	}
	if (fragment.p[0] == '/') {
		return walk(c, target - 1, fragment);
	}
	kp_str key = anchor_key(c, target - 1, fragment);
	struct kp_js_place *p = key.p ? kp_map_get(&c->anchors, key) : NULL;
	if (p && has_dynamic_anchor(p, fragment)) {
		*ret_dynamic = fragment;
	}
	return p;
}
