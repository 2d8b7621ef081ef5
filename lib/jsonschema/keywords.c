/* DESIGN: one function for each keyword, found in a table; it checks its operand and writes it into the node. Member names of all keywords of an object collect in one list,
   which becomes the object's table at the end. Keywords that a draft does not have are annotations, but for
   `dependencies`, which 2020-12 lets stay. */
#include "jsonschema/compile.h"

#include <stdlib.h>

struct here {
	struct kp_js_compiler *c;
	struct kp_js_node *node;
	const struct kp_jv *schema, *value;
	const char *keyword;
	struct kp_js_dialect dialect;
	KP_VEC(struct kp_js_name)
	names;
	struct kp_map index; /* name -> its place in names + 1 */
};

static int wrong(struct here *h, const char *expected)
{
	return kp_js_fail(h->c, h->node->where, h->keyword, "expected %s, got %s", expected,
		kp_json_type_name(h->value->type));
}

/* The part of the node for one type, made when it is first spoken of. */
static struct kp_js_number *number_part(struct here *h)
{
	if (!h->node->number) {
		h->node->number = kp_js_alloc(h->c, 1, sizeof(*h->node->number));
	}
	return h->node->number;
}

static struct kp_js_string *string_part(struct here *h)
{
	if (!h->node->string) {
		h->node->string = kp_js_alloc(h->c, 1, sizeof(*h->node->string));
		if (h->node->string) {
			h->node->string->max = UINT64_MAX;
		}
	}
	return h->node->string;
}

static struct kp_js_array *array_part(struct here *h)
{
	if (!h->node->array) {
		h->node->array = kp_js_alloc(h->c, 1, sizeof(*h->node->array));
		if (h->node->array) {
			h->node->array->max = h->node->array->max_contains = UINT64_MAX;
			h->node->array->min_contains = 1;
		}
	}
	return h->node->array;
}

static struct kp_js_object *object_part(struct here *h)
{
	if (!h->node->object) {
		h->node->object = kp_js_alloc(h->c, 1, sizeof(*h->node->object));
		if (h->node->object) {
			h->node->object->max = UINT64_MAX;
		}
	}
	return h->node->object;
}

static struct kp_js_inplace *inplace_part(struct here *h)
{
	if (!h->node->inplace) {
		h->node->inplace = kp_js_alloc(h->c, 1, sizeof(*h->node->inplace));
	}
	return h->node->inplace;
}

/* --- operands ---------------------------------------------------------------------------------------------------- */

static int read_node(struct here *h, const struct kp_jv *v, struct kp_js_node **ret)
{
	struct kp_js_place *p = kp_map_get(&h->c->places, kp_str_n(&v, sizeof(v)));
	if (!p) {
		return kp_js_fail(h->c, h->node->where, h->keyword,
			"expected a schema (an object or a boolean), got %s",
			kp_json_type_name(v->type));
	}
	*ret = kp_js_want(h->c, p);
	return 0;
}

static int read_list(struct here *h, struct kp_js_list *ret)
{
	if (h->value->type != KP_JSON_ARRAY || h->value->n == 0) {
		return wrong(h, "an array of schemas, not empty");
	}
	ret->p = kp_js_alloc(h->c, h->value->n, sizeof(struct kp_js_node *));
	if (!ret->p) {
		return -1;
	}
	for (uint32_t i = 0; i < h->value->n; i++) {
		if (read_node(h, &h->value->items[i], &ret->p[i])) {
			return -1;
		}
	}
	ret->n = h->value->n;
	return 0;
}

static int read_decimal(struct here *h, struct kp_decimal **ret)
{
	if (h->value->type != KP_JSON_NUMBER) {
		return wrong(h, "a number");
	}
	if (h->value->s.n > 1024) {
		return kp_js_fail(
			h->c, h->node->where, h->keyword, "a number of more than 1024 bytes");
	}
	struct kp_decimal *d = kp_js_alloc(h->c, 1, sizeof(*d));
	char *room = d ? kp_js_alloc(h->c, h->value->s.n, 1) : NULL;
	if (!room) {
		return -1;
	}
	kp_decimal_read(h->value->s, room, d);
	*ret = d;
	return 0;
}

static int read_count(struct here *h, uint64_t *ret)
{
	struct kp_decimal *d;
	if (read_decimal(h, &d)) {
		return -1;
	}
	if (d->negative || !kp_decimal_is_integer(d)) {
		return wrong(h, "an integer of 0 or more");
	}
	uint64_t v = 0;
	if (d->n && !kp_str_u64(kp_str_n(d->digits, d->n), UINT64_MAX, &v)) {
		v = UINT64_MAX;
	}
	for (int64_t i = 0; i < KP_MIN(d->exp, (int64_t)20); i++) {
		v = v > UINT64_MAX / 10 ? UINT64_MAX : v * 10;
	}
	*ret = v;
	return 0;
}

static int read_regex(struct here *h, kp_str pattern, struct kp_js_regex **ret)
{
	if (kp_js_regex_compile(pattern, ret, h->c->err)) {
		char why[KP_ERR_MSG];
		memcpy(why, h->c->err->msg, sizeof(why));
		return kp_js_fail(h->c, h->node->where, h->keyword, "%s", why);
	}
	kp_vec_push(&h->c->schema->regexes, *ret);
	size_t bytes = kp_js_regex_bytes(*ret);
	if (bytes > h->c->max_code) {
		return kp_js_full(h->c);
	}
	h->c->max_code -= bytes;
	return 0;
}

static int find_name(struct here *h, kp_str name, uint32_t *ret)
{
	if (name.p == NULL) {
		name = KP_S("");
	}
	uintptr_t at = (uintptr_t)kp_map_get(&h->index, name);
	if (!at) {
		struct kp_js_name n = { .required = false };
		if (kp_arena_dup(h->c->arena, name, &n.name, h->c->err)) {
			return -1;
		}
		kp_vec_push(&h->names, n);
		at = h->names.n;
		kp_map_set(&h->index, name, (void *)at);
	}
	*ret = (uint32_t)at - 1;
	return object_part(h) ? 0 : -1;
}

/* --- keywords ---------------------------------------------------------------------------------------------------- */

static uint8_t type_bit(kp_str name)
{
	static const struct {
		const char *name;
		uint8_t bits;
	} types[] = { { "null", JS_NULL }, { "boolean", JS_BOOL },
		{ "number", JS_NUMBER | JS_INTEGER }, { "integer", JS_INTEGER },
		{ "string", JS_STRING }, { "array", JS_ARRAY }, { "object", JS_OBJECT } };
	for (size_t i = 0; i < KP_LEN(types); i++) {
		if (kp_str_eq(name, kp_str_c(types[i].name))) {
			return types[i].bits;
		}
	}
	return 0;
}

static int kw_type(struct here *h)
{
	uint8_t bits = 0;
	const struct kp_jv *all = h->value->type == KP_JSON_ARRAY ? h->value->items : h->value;
	uint32_t n = h->value->type == KP_JSON_ARRAY ? h->value->n : 1;
	for (uint32_t i = 0; i < n; i++) {
		uint8_t bit = all[i].type == KP_JSON_STRING ? type_bit(all[i].s) : 0;
		if (!bit) {
			return wrong(h,
				"null, boolean, number, integer, string, array or object, or an array of them");
		}
		bits |= bit;
	}
	h->node->types = bits;
	return 0;
}

static int read_values(
	struct here *h, const struct kp_jv *v, uint32_t n, const struct kp_js_values **ret)
{
	if (n > h->c->max_values) {
		return kp_js_fail(h->c, h->node->where, h->keyword, "`%u` values, at most %u", n,
			h->c->max_values);
	}
	struct kp_js_values *values = kp_js_alloc(h->c, 1, sizeof(*values));
	if (!values || !(values->p = kp_js_alloc(h->c, n, sizeof(*values->p)))) {
		return -1;
	}
	values->n = n;
	for (uint32_t i = 0; i < n; i++) {
		values->types |= kp_js_types_of(v[i].type);
		if (!kp_js_hash_value(&v[i], &values->p[i])) {
			return kp_js_fail(h->c, h->node->where, h->keyword,
				"a number of more than 1024 bytes");
		}
	}
	qsort(values->p, n, sizeof(*values->p), kp_js_hash_cmp);
	*ret = values;
	return 0;
}

static int kw_enum(struct here *h)
{
	return h->value->type == KP_JSON_ARRAY
		       ? read_values(h, h->value->items, h->value->n, &h->node->enum_)
		       : wrong(h, "an array");
}

static int kw_const(struct here *h)
{
	return read_values(h, h->value, 1, &h->node->const_);
}

#define KW_PART(name, part, read, field)                 \
	static int name(struct here *h)                  \
	{                                                \
		struct kp_js_##part *p = part##_part(h); \
		return p ? read(h, &p->field) : -1;      \
	}
static int read_own(struct here *h, struct kp_js_node **ret)
{
	return read_node(h, h->value, ret);
}
KW_PART(kw_minimum, number, read_decimal, minimum)
KW_PART(kw_maximum, number, read_decimal, maximum)
KW_PART(kw_above, number, read_decimal, above)
KW_PART(kw_below, number, read_decimal, below)
KW_PART(kw_min_length, string, read_count, min)
KW_PART(kw_max_length, string, read_count, max)
KW_PART(kw_min_items, array, read_count, min)
KW_PART(kw_max_items, array, read_count, max)
KW_PART(kw_min_contains, array, read_count, min_contains)
KW_PART(kw_max_contains, array, read_count, max_contains)
KW_PART(kw_min_properties, object, read_count, min)
KW_PART(kw_max_properties, object, read_count, max)
KW_PART(kw_prefix_items, array, read_list, prefix)
KW_PART(kw_contains, array, read_own, contains)
KW_PART(kw_rest, array, read_own, rest)
KW_PART(kw_unevaluated_items, array, read_own, unevaluated)
KW_PART(kw_additional, object, read_own, additional)
KW_PART(kw_property_names, object, read_own, names_schema)
KW_PART(kw_unevaluated_properties, object, read_own, unevaluated)
KW_PART(kw_all_of, inplace, read_list, all_of)
KW_PART(kw_any_of, inplace, read_list, any_of)
KW_PART(kw_one_of, inplace, read_list, one_of)
KW_PART(kw_not, inplace, read_own, not_)
KW_PART(kw_if, inplace, read_own, if_)
KW_PART(kw_then, inplace, read_own, then_)
KW_PART(kw_else, inplace, read_own, else_)

static int kw_multiple_of(struct here *h)
{
	struct kp_js_number *p = number_part(h);
	if (!p || read_decimal(h, &p->multiple)) {
		return -1;
	}
	if (p->multiple->n == 0 || p->multiple->negative) {
		return wrong(h, "a number above 0");
	}
	return kp_decimal_divisor(p->multiple) ? 0
					       : kp_js_fail(h->c, h->node->where, h->keyword,
							 "more than 19 significant digits");
}

static int kw_pattern(struct here *h)
{
	struct kp_js_string *p = string_part(h);
	if (h->value->type != KP_JSON_STRING) {
		return wrong(h, "a string");
	}
	return p ? read_regex(h, h->value->s, &p->pattern) : -1;
}

static int kw_format(struct here *h)
{
	if (h->value->type != KP_JSON_STRING) {
		return wrong(h, "a string");
	}
	uint8_t format = h->dialect.assert_formats ? kp_js_format_find(h->value->s) : 0;
	struct kp_js_string *p = format ? string_part(h) : NULL;
	if (p) {
		p->format = format;
	}
	return format && !p ? -1 : 0;
}

static int kw_unique_items(struct here *h)
{
	struct kp_js_array *p = array_part(h);
	if (h->value->type != KP_JSON_TRUE && h->value->type != KP_JSON_FALSE) {
		return wrong(h, "a boolean");
	}
	if (p) {
		p->unique = h->value->type == KP_JSON_TRUE;
	}
	return p ? 0 : -1;
}

/* `items`: draft 7 has lists here. */
static int kw_items(struct here *h)
{
	return h->dialect.draft7 && h->value->type == KP_JSON_ARRAY
		       ? (h->value->n ? kw_prefix_items(h) : 0)
		       : kw_rest(h);
}

static int kw_additional_items(struct here *h)
{
	return kp_jv_is(kp_jv_get(h->schema, KP_S("items")), KP_JSON_ARRAY) ? kw_rest(h) : 0;
}

static int kw_properties(struct here *h)
{
	if (h->value->type != KP_JSON_OBJECT) {
		return wrong(h, "an object");
	}
	for (uint32_t i = 0; i < h->value->n; i++) {
		uint32_t at;
		if (find_name(h, h->value->members[i].key, &at) ||
			read_node(h, &h->value->members[i].value, &h->names.p[at].property)) {
			return -1;
		}
	}
	return 0;
}

static int kw_pattern_properties(struct here *h)
{
	struct kp_js_object *o = object_part(h);
	if (h->value->type != KP_JSON_OBJECT) {
		return wrong(h, "an object");
	}
	if (!o || !(o->patterns = kp_js_alloc(h->c, h->value->n, sizeof(*o->patterns)))) {
		return -1;
	}
	for (uint32_t i = 0; i < h->value->n; i++) {
		if (read_regex(h, h->value->members[i].key, &o->patterns[i].regex) ||
			read_node(h, &h->value->members[i].value, &o->patterns[i].node)) {
			return -1;
		}
	}
	o->n_patterns = h->value->n;
	return 0;
}

static int kw_required(struct here *h)
{
	if (h->value->type != KP_JSON_ARRAY) {
		return wrong(h, "an array of strings");
	}
	for (uint32_t i = 0; i < h->value->n; i++) {
		uint32_t at;
		if (h->value->items[i].type != KP_JSON_STRING) {
			return wrong(h, "an array of strings");
		}
		if (find_name(h, h->value->items[i].s, &at)) {
			return -1;
		}
		h->names.p[at].required = true;
	}
	return 0;
}

static int read_needs(struct here *h, uint32_t of, const struct kp_jv *list)
{
	uint32_t *needs = kp_js_alloc(h->c, list->n, sizeof(*needs));
	if (!needs) {
		return -1;
	}
	for (uint32_t i = 0; i < list->n; i++) {
		if (list->items[i].type != KP_JSON_STRING) {
			return wrong(h, "an object of arrays of strings");
		}
		if (find_name(h, list->items[i].s, &needs[i])) {
			return -1;
		}
	}
	h->names.p[of].n_needs = list->n;
	h->names.p[of].needs = needs;
	return 0;
}

/* dependentRequired, dependentSchemas, and draft 7's `dependencies`, which is both. */
static int read_dependent(struct here *h, bool lists, bool schemas)
{
	if (h->value->type != KP_JSON_OBJECT) {
		return wrong(h, "an object");
	}
	for (uint32_t i = 0; i < h->value->n; i++) {
		const struct kp_jv *v = &h->value->members[i].value;
		uint32_t at;
		if (find_name(h, h->value->members[i].key, &at)) {
			return -1;
		}
		if (lists && v->type == KP_JSON_ARRAY) {
			if (read_needs(h, at, v)) {
				return -1;
			}
		} else if (!schemas) {
			return wrong(h, "an object of arrays of strings");
		} else if (read_node(h, v, &h->names.p[at].dependent)) {
			return -1;
		}
	}
	return 0;
}

static int kw_dependent_required(struct here *h)
{
	return read_dependent(h, true, false);
}

static int kw_dependent_schemas(struct here *h)
{
	return read_dependent(h, false, true);
}

static int kw_dependencies(struct here *h)
{
	return read_dependent(h, true, true);
}

static int read_reference(struct here *h, struct kp_js_node **ret, kp_str *ret_dynamic)
{
	struct kp_js_compiler *c = h->c;
	if (h->value->type != KP_JSON_STRING) {
		return wrong(h, "a string");
	}
	c->err->code = KP_OK;
	struct kp_js_place *p = kp_js_resolve(c, h->node->resource, h->value->s, ret_dynamic);
	if (!p) {
		char why[KP_ERR_MSG] = "leads nowhere";
		if (c->err->code != KP_OK) {
			memcpy(why, c->err->msg, sizeof(why));
		}
		if (c->err->code == KP_RESOURCE_EXHAUSTED) {
			return -1;
		}
		return kp_js_fail(c, h->node->where, h->keyword, "`%" KP_FMT "`: %s",
			KP_ARG(kp_str_sub(h->value->s, 0, 120)), why);
	}
	*ret = kp_js_want(c, p);
	return 0;
}

static int kw_ref(struct here *h)
{
	kp_str dynamic;
	struct kp_js_inplace *in = inplace_part(h);
	return in ? read_reference(h, &in->ref, &dynamic) : -1;
}

static int kw_dynamic_ref(struct here *h)
{
	kp_str dynamic;
	struct kp_js_inplace *in = inplace_part(h);
	if (!in || read_reference(h, &in->dynamic, &dynamic)) {
		return -1;
	}
	return dynamic.p ? kp_arena_dup(h->c->arena, dynamic, &in->dynamic_name, h->c->err) : 0;
}

enum { BOTH = 0, ONLY_7 = 1, ONLY_2020 = 2, VALIDATION = 4 };
static const struct keyword {
	const char *name;
	unsigned where;
	int (*read)(struct here *h);
} keywords[] = {
	{ "type", VALIDATION, kw_type },
	{ "enum", VALIDATION, kw_enum },
	{ "const", VALIDATION, kw_const },
	{ "properties", BOTH, kw_properties },
	{ "required", VALIDATION, kw_required },
	{ "items", BOTH, kw_items },
	{ "additionalProperties", BOTH, kw_additional },
	{ "$ref", BOTH, kw_ref },
	{ "$dynamicRef", ONLY_2020, kw_dynamic_ref },
	{ "allOf", BOTH, kw_all_of },
	{ "anyOf", BOTH, kw_any_of },
	{ "oneOf", BOTH, kw_one_of },
	{ "not", BOTH, kw_not },
	{ "if", BOTH, kw_if },
	{ "then", BOTH, kw_then },
	{ "else", BOTH, kw_else },
	{ "minimum", VALIDATION, kw_minimum },
	{ "maximum", VALIDATION, kw_maximum },
	{ "exclusiveMinimum", VALIDATION, kw_above },
	{ "exclusiveMaximum", VALIDATION, kw_below },
	{ "multipleOf", VALIDATION, kw_multiple_of },
	{ "minLength", VALIDATION, kw_min_length },
	{ "maxLength", VALIDATION, kw_max_length },
	{ "pattern", VALIDATION, kw_pattern },
	{ "format", BOTH, kw_format },
	{ "minItems", VALIDATION, kw_min_items },
	{ "maxItems", VALIDATION, kw_max_items },
	{ "uniqueItems", VALIDATION, kw_unique_items },
	{ "prefixItems", ONLY_2020, kw_prefix_items },
	{ "additionalItems", ONLY_7, kw_additional_items },
	{ "contains", BOTH, kw_contains },
	{ "minContains", ONLY_2020 | VALIDATION, kw_min_contains },
	{ "maxContains", ONLY_2020 | VALIDATION, kw_max_contains },
	{ "unevaluatedItems", ONLY_2020, kw_unevaluated_items },
	{ "minProperties", VALIDATION, kw_min_properties },
	{ "maxProperties", VALIDATION, kw_max_properties },
	{ "patternProperties", BOTH, kw_pattern_properties },
	{ "propertyNames", BOTH, kw_property_names },
	{ "dependentRequired", ONLY_2020 | VALIDATION, kw_dependent_required },
	{ "dependentSchemas", ONLY_2020, kw_dependent_schemas },
	{ "dependencies", BOTH, kw_dependencies },
	{ "unevaluatedProperties", ONLY_2020, kw_unevaluated_properties },
};

static int read_keyword(struct here *h, const struct kp_jmember *m)
{
	for (size_t i = 0; i < KP_LEN(keywords); i++) {
		const struct keyword *k = &keywords[i];
		if (!kp_str_eq(m->key, kp_str_c(k->name))) {
			continue;
		}
		if ((k->where & (h->dialect.draft7 ? ONLY_2020 : ONLY_7)) ||
			((k->where & VALIDATION) && h->dialect.no_validation)) {
			return 0;
		}
		h->value = &m->value;
		h->keyword = k->name;
		return k->read(h);
	}
	return 0;
}

/* The names that were collected, as the object's table. */
static int finish_names(struct here *h)
{
	struct kp_js_object *o = h->node->object;
	if (h->names.n == 0) {
		return 0;
	}
	o->n_names = (uint32_t)h->names.n;
	o->n_slots = 4;
	while (o->n_slots < 2 * o->n_names) {
		o->n_slots *= 2;
	}
	o->names = kp_js_alloc(h->c, o->n_names, sizeof(*o->names));
	o->slots = kp_js_alloc(h->c, o->n_slots, sizeof(*o->slots));
	if (!o->names || !o->slots) {
		return -1;
	}
	memcpy(o->names, h->names.p, o->n_names * sizeof(*o->names));
	for (uint32_t i = 0; i < o->n_names; i++) {
		uint64_t at = kp_hash(o->names[i].name) & (o->n_slots - 1);
		while (o->slots[at]) {
			at = (at + 1) & (o->n_slots - 1);
		}
		o->slots[at] = i + 1;
		o->n_dependent += o->names[i].dependent != NULL;
	}
	return 0;
}

/* What can be said earlier when it is said otherwise, and what means nothing alone. */
static void simplify(struct kp_js_node *n)
{
	struct kp_js_object *o = n->object;
	struct kp_js_array *a = n->array;
	if (n->inplace && !n->inplace->if_) {
		n->inplace->then_ = n->inplace->else_ = NULL;
	}
	if (o && o->unevaluated && !o->additional && !n->inplace && !o->n_dependent) {
		o->additional = o->unevaluated; /* nobody else evaluates */
		o->unevaluated = NULL;
	}
	if (a && a->unevaluated && !a->rest && !a->contains && !n->inplace) {
		a->rest = a->unevaluated;
		a->unevaluated = NULL;
	}
}

int kp_js_read_schema(struct kp_js_compiler *c, struct kp_js_place *p)
{
	if (p->v->type == KP_JSON_TRUE || p->v->type == KP_JSON_FALSE) {
		p->node.always_false = p->v->type == KP_JSON_FALSE;
		return 0;
	}
	if (p->v->type != KP_JSON_OBJECT) {
		return kp_js_fail(c, p->node.where, NULL,
			"expected a schema (an object or a boolean), got %s",
			kp_json_type_name(p->v->type));
	}
	struct here h = { .c = c,
		.node = &p->node,
		.schema = p->v,
		.dialect = c->resources.p[p->node.resource].dialect };
	const struct kp_jv *ref = h.dialect.draft7 ? kp_jv_get(p->v, KP_S("$ref")) : NULL;
	int r = 0;
	kp_map_init(&h.index);
	for (uint32_t i = 0; i < p->v->n && r == 0; i++) {
		const struct kp_jmember *m = &p->v->members[i];
		r = !ref || &m->value == ref ? read_keyword(&h, m) : 0;
	}
	r = r ? r : finish_names(&h);
	kp_map_fini(&h.index, NULL);
	kp_vec_fini(&h.names);
	if (r == 0) {
		simplify(&p->node);
	}
	return r;
}
