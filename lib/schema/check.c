/* DESIGN: what kube-apiserver does with an object of a custom resource, in its order: unknown fields (strict decoding), nulls and
   defaults, constraints, list types, rules. Each step is one walk along schema and value; the current path lives in the error
   list. The recursion ends with the schema, which is finite. Sources: k8s.io/apiextensions-apiserver pkg/apiserver/schema
   (pruning, defaulting, listtype, cel) and k8s.io/kube-openapi pkg/validation/validate, release 1.34. */
#include "base/map.h"
#include "base/utf8.h"
#include "schema/schema.h"

#include <math.h>

static kp_str str_of(const json_t *v)
{
	return kp_str_n(json_string_value(v), json_string_length(v));
}

static const struct kp_schema_prop *find_prop(const struct kp_schema *s, kp_str name)
{
	for (uint32_t i = 0; s && i < s->n_props; i++) {
		if (kp_str_eq(kp_str_c(s->props[i].name), name)) {
			return &s->props[i];
		}
	}
	return NULL;
}

static bool in_list(const char *const *list, kp_str name)
{
	for (; list && *list; list++) {
		if (kp_str_eq(kp_str_c(*list), name)) {
			return true;
		}
	}
	return false;
}

/* The schema of a member; *ret_prop is NULL for members that fall under additionalProperties. NULL: not known. */
static const struct kp_schema *schema_of(
	const struct kp_schema *s, kp_str name, const struct kp_schema_prop **ret_prop)
{
	*ret_prop = find_prop(s, name);
	return *ret_prop ? (*ret_prop)->schema : s ? s->additional : NULL;
}

static kp_str iter_key(void *it)
{
	return kp_str_n(json_object_iter_key(it), json_object_iter_key_len(it));
}

/* --- unknown fields ------------------------------------------------------------------------------------------------ */

void kp_schema_unknown(
	const struct kp_schema *s, json_t *v, const char *const *skip, struct kp_field_errors *errs)
{
	for (size_t i = 0; i < json_array_size(v); i++) {
		size_t mark = kp_field_push_index(errs, i);
		if (!s || s->type != KP_SCHEMA_ANY) {
			kp_schema_unknown(s ? s->items : NULL, json_array_get(v, i), NULL, errs);
		}
		kp_field_pop(errs, mark);
	}
	for (void *it = json_object_iter(v); it; it = json_object_iter_next(v, it)) {
		const struct kp_schema_prop *p;
		if (in_list(skip, iter_key(it))) {
			continue;
		}
		const struct kp_schema *child = schema_of(s, iter_key(it), &p);
		size_t mark = kp_field_push(errs, iter_key(it));
		if (child) {
			kp_schema_unknown(child, json_object_iter_value(it), NULL, errs);
		} else if (!s || !s->preserve) {
			kp_field_add(errs, KP_FIELD_UNKNOWN, NULL, "%s", "");
		}
		kp_field_pop(errs, mark);
	}
}

/* --- nulls and defaults -------------------------------------------------------------------------------------------- */

static int set_default(const struct kp_schema_prop *p, json_t *object, struct kp_err *err)
{
	json_t *v = json_loads(p->default_json, JSON_DECODE_ANY, NULL);
	if (!v || json_object_set_new_nocheck(object, p->name, v)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"set the default of `%s`: out of memory", p->name);
	}
	return 0;
}

static int default_members(const struct kp_schema *s, json_t *v, struct kp_err *err)
{
	void *next;
	for (void *it = json_object_iter(v); it; it = next) {
		const struct kp_schema_prop *p;
		const struct kp_schema *child = schema_of(s, iter_key(it), &p);
		next = json_object_iter_next(v, it);
		if (child && !child->nullable && !(p && p->default_json) &&
			json_is_null(json_object_iter_value(it))) {
			kp_str key = iter_key(it);
			json_object_deln(v, key.p, key.n);
		}
	}
	for (uint32_t i = 0; i < s->n_props; i++) {
		const struct kp_schema_prop *p = &s->props[i];
		json_t *old = json_object_get(v, p->name);
		if (p->default_json && (!old || (json_is_null(old) && !p->schema->nullable)) &&
			set_default(p, v, err)) {
			return -1;
		}
	}
	for (void *it = json_object_iter(v); it; it = json_object_iter_next(v, it)) {
		const struct kp_schema_prop *p;
		const struct kp_schema *child = schema_of(s, iter_key(it), &p);
		if (child && kp_schema_default(child, json_object_iter_value(it), err)) {
			return -1;
		}
	}
	return 0;
}

int kp_schema_default(const struct kp_schema *s, json_t *v, struct kp_err *err)
{
	for (size_t i = 0; s->items && i < json_array_size(v); i++) {
		if (kp_schema_default(s->items, json_array_get(v, i), err)) {
			return -1;
		}
	}
	return json_is_object(v) ? default_members(s, v, err) : 0;
}

/* --- constraints --------------------------------------------------------------------------------------------------- */

static const char *type_name(enum kp_schema_type t)
{
	switch (t) {
	case KP_SCHEMA_OBJECT:
		return "object";
	case KP_SCHEMA_ARRAY:
		return "array";
	case KP_SCHEMA_STRING:
		return "string";
	case KP_SCHEMA_INTEGER:
		return "integer";
	case KP_SCHEMA_BOOLEAN:
	case KP_SCHEMA_ANY:
		break;
	}
	return "boolean";
}

static const char *value_type(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "object";
	case JSON_ARRAY:
		return "array";
	case JSON_STRING:
		return "string";
	case JSON_INTEGER:
		return "integer";
	case JSON_REAL:
		return "number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "boolean";
	case JSON_NULL:
		break;
	}
	return "null";
}

static bool has_type(enum kp_schema_type t, const json_t *v)
{
	switch (t) {
	case KP_SCHEMA_OBJECT:
		return json_is_object(v);
	case KP_SCHEMA_ARRAY:
		return json_is_array(v);
	case KP_SCHEMA_STRING:
		return json_is_string(v);
	case KP_SCHEMA_BOOLEAN:
		return json_is_boolean(v);
	case KP_SCHEMA_ANY:
		return true;
	case KP_SCHEMA_INTEGER:
		break;
	}
	/* JSON's 3.0 is an integer; beyond 2^53 the API server takes no float for one. */
	return json_is_integer(v) ||
	       (json_is_real(v) && json_real_value(v) == trunc(json_real_value(v)) &&
		       fabs(json_real_value(v)) < 9007199254740992.0);
}

static void check_string(const struct kp_schema *s, const json_t *v, struct kp_field_errors *errs)
{
	kp_str text = str_of(v);
	int64_t n = (int64_t)kp_utf8_count(text);
	if (s->max_length >= 0 && n > s->max_length) {
		kp_field_add(errs, KP_FIELD_TOO_LONG, NULL, "may not be more than %lld byte%s",
			(long long)s->max_length, s->max_length == 1 ? "" : "s");
	} else if (n < s->min_length) {
		kp_field_add(errs, KP_FIELD_INVALID, v, "should be at least %lld chars long",
			(long long)s->min_length);
	} else if (s->pattern && !s->pattern->matches(text)) {
		kp_field_add(errs, KP_FIELD_INVALID, v, "should match '%s'", s->pattern->text);
	}
}

static void check_enum(const struct kp_schema *s, const json_t *v, struct kp_field_errors *errs)
{
	if (json_is_string(v) && in_list(s->enums, str_of(v))) {
		return;
	}
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1000);
	for (const char *const *e = s->enums; *e; e++) {
		kp_buf_addz(&b, e == s->enums ? "" : ", ");
		kp_field_quote(&b, kp_str_c(*e));
	}
	const char *list = kp_buf_cstr(&b);
	kp_field_add(errs, KP_FIELD_UNSUPPORTED, v, "supported values: %s", list ? list : "");
}

static void check_integer(const struct kp_schema *s, const json_t *v, struct kp_field_errors *errs)
{
	double d = json_number_value(v);
	bool exact = json_is_integer(v);
	json_int_t i = json_integer_value(v);
	if (s->has_minimum && (exact ? i < s->minimum : d < (double)s->minimum)) {
		kp_field_add(errs, KP_FIELD_INVALID, v, "should be greater than or equal to %lld",
			(long long)s->minimum);
	}
	if (s->has_maximum && (exact ? i > s->maximum : d > (double)s->maximum)) {
		kp_field_add(errs, KP_FIELD_INVALID, v, "should be less than or equal to %lld",
			(long long)s->maximum);
	}
}

static void too_many(struct kp_field_errors *errs, size_t n, int64_t max)
{
	json_t *count = json_integer((json_int_t)n);
	kp_field_add(errs, KP_FIELD_TOO_MANY, count, "must have at most %lld item%s",
		(long long)max, max == 1 ? "" : "s");
	json_decref(count);
}

static void too_few(struct kp_field_errors *errs, size_t n, int64_t min, const char *what)
{
	json_t *count = json_integer((json_int_t)n);
	kp_field_add(errs, KP_FIELD_INVALID, count, "should have at least %lld %s", (long long)min,
		what);
	json_decref(count);
}

static void check(const struct kp_schema *s, json_t *v, struct kp_field_errors *errs);

static void check_array(const struct kp_schema *s, json_t *v, struct kp_field_errors *errs)
{
	size_t n = json_array_size(v);
	/* A list far beyond its maximum: only that is said. */
	for (size_t i = 0; i < n && (s->max_length < 0 || n <= (size_t)s->max_length + 1000); i++) {
		size_t mark = kp_field_push_index(errs, i);
		check(s->items, json_array_get(v, i), errs);
		kp_field_pop(errs, mark);
	}
	if ((int64_t)n < s->min_length) {
		too_few(errs, n, s->min_length, "items");
	}
	if (s->max_length >= 0 && (int64_t)n > s->max_length) {
		too_many(errs, n, s->max_length);
	}
}

static void check_object(const struct kp_schema *s, json_t *v, struct kp_field_errors *errs)
{
	size_t n = json_object_size(v);
	if ((int64_t)n < s->min_length) {
		too_few(errs, n, s->min_length, "properties");
	}
	if (s->max_length >= 0 && (int64_t)n > s->max_length) {
		too_many(errs, n, s->max_length);
	}
	for (void *it = json_object_iter(v); it; it = json_object_iter_next(v, it)) {
		const struct kp_schema_prop *p;
		const struct kp_schema *child = schema_of(s, iter_key(it), &p);
		if (child) {
			size_t mark = kp_field_push(errs, iter_key(it));
			check(child, json_object_iter_value(it), errs);
			kp_field_pop(errs, mark);
		}
	}
	for (uint32_t i = 0; i < s->n_props; i++) {
		if (s->props[i].required && !json_object_get(v, s->props[i].name)) {
			size_t mark = kp_field_push(errs, kp_str_c(s->props[i].name));
			kp_field_add(errs, KP_FIELD_REQUIRED, NULL, "%s", "");
			kp_field_pop(errs, mark);
		}
	}
}

static void check(const struct kp_schema *s, json_t *v, struct kp_field_errors *errs)
{
	if (json_is_null(v) && s->nullable) {
		return;
	}
	if (!has_type(s->type, v)) {
		kp_field_add_str(errs, KP_FIELD_TYPE, kp_str_c(value_type(v)),
			"must be of type %s: \"%s\"", type_name(s->type), value_type(v));
		if (s->enums) {
			check_enum(s, v, errs);
		} else if (s->type == KP_SCHEMA_INTEGER && json_is_real(v)) {
			check_integer(s, v, errs);
		}
		return;
	}
	switch (s->type) {
	case KP_SCHEMA_OBJECT:
		check_object(s, v, errs);
		break;
	case KP_SCHEMA_ARRAY:
		check_array(s, v, errs);
		break;
	case KP_SCHEMA_STRING:
		check_string(s, v, errs);
		if (s->enums) {
			check_enum(s, v, errs);
		}
		break;
	case KP_SCHEMA_INTEGER:
		check_integer(s, v, errs);
		break;
	case KP_SCHEMA_BOOLEAN:
	case KP_SCHEMA_ANY:
		break;
	}
}

/* --- list types ---------------------------------------------------------------------------------------------------- */

/* What makes an item unique: itself in a set, its keys in a map. New reference. */
static json_t *identity(const struct kp_schema *s, json_t *item)
{
	if (s->list == KP_SCHEMA_SET) {
		return json_incref(item);
	}
	json_t *id = json_object();
	for (const char *const *k = s->map_keys; *k; k++) {
		json_t *v = json_object_get(item, *k);
		if (json_is_real(v) && has_type(KP_SCHEMA_INTEGER,
					       v)) { /* the API server compares them as JSON text */
			json_object_set_new_nocheck(
				id, *k, json_integer((json_int_t)json_real_value(v)));
		} else if (v) {
			json_object_set_nocheck(id, *k, v);
		}
	}
	return id;
}

static void check_unique(const struct kp_schema *s, json_t *v, struct kp_field_errors *errs)
{
	for (size_t i = 0; s->list == KP_SCHEMA_MAP && i < json_array_size(v); i++) {
		if (!json_is_object(json_array_get(v, i)) && !json_is_null(json_array_get(v, i))) {
			return; /* a type error says it */
		}
	}
	static char once, more;
	struct kp_map seen;
	kp_map_init(&seen);
	for (size_t i = 0; i < json_array_size(v); i++) {
		json_t *id = identity(s, json_array_get(v, i));
		char *text = json_dumps(id, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
		void *before = text ? kp_map_get(&seen, kp_str_c(text)) : NULL;
		if (before == &once) {
			size_t mark = kp_field_push_index(errs, i);
			kp_field_add(errs, KP_FIELD_DUPLICATE, id, "%s", "");
			kp_field_pop(errs, mark);
		}
		if (text) {
			kp_map_set(&seen, kp_str_c(text), before ? &more : &once);
		}
		kp_mem_free(text);
		json_decref(id);
	}
	kp_map_fini(&seen, NULL);
}

static void check_lists(const struct kp_schema *s, json_t *v, struct kp_field_errors *errs)
{
	if (json_is_array(v) && s->list != KP_SCHEMA_ATOMIC) {
		check_unique(s, v, errs);
	}
	for (size_t i = 0; s->items && i < json_array_size(v); i++) {
		size_t mark = kp_field_push_index(errs, i);
		check_lists(s->items, json_array_get(v, i), errs);
		kp_field_pop(errs, mark);
	}
	for (void *it = json_object_iter(v); it; it = json_object_iter_next(v, it)) {
		const struct kp_schema_prop *p;
		const struct kp_schema *child = schema_of(s, iter_key(it), &p);
		if (child) {
			size_t mark = kp_field_push(errs, iter_key(it));
			check_lists(child, json_object_iter_value(it), errs);
			kp_field_pop(errs, mark);
		}
	}
}

/* --- rules --------------------------------------------------------------------------------------------------------- */

static void broken_rule(
	const struct kp_schema_rule *r, const json_t *self, struct kp_field_errors *errs)
{
	size_t mark = errs->path_n;
	if (r->field_path[0]) {
		kp_field_push(errs, kp_str_skip(kp_str_c(r->field_path), 1));
	}
	if (r->reason != KP_FIELD_INVALID) {
		kp_field_add(errs, r->reason, NULL, "%s", r->message);
	} else if (json_is_object(self) || json_is_array(self)) {
		kp_field_add_str(errs, r->reason, kp_str_c(value_type(self)), "%s", r->message);
	} else {
		kp_field_add(errs, r->reason, self, "%s", r->message);
	}
	kp_field_pop(errs, mark);
}

static void check_rules(const struct kp_schema *s, json_t *v, struct kp_field_errors *errs)
{
	if (json_is_null(v)) {
		return;
	}
	for (uint32_t i = 0; i < s->n_rules; i++) {
		if (!s->rules[i].holds(v)) {
			broken_rule(&s->rules[i], v, errs);
		}
	}
	for (size_t i = 0; s->items && i < json_array_size(v); i++) {
		size_t mark = kp_field_push_index(errs, i);
		check_rules(s->items, json_array_get(v, i), errs);
		kp_field_pop(errs, mark);
	}
	for (void *it = json_object_iter(v); it; it = json_object_iter_next(v, it)) {
		const struct kp_schema_prop *p;
		const struct kp_schema *child = schema_of(s, iter_key(it), &p);
		if (child) {
			size_t mark = kp_field_push(errs, iter_key(it));
			check_rules(child, json_object_iter_value(it), errs);
			kp_field_pop(errs, mark);
		}
	}
}

void kp_schema_validate(const struct kp_schema *s, json_t *v, struct kp_field_errors *errs)
{
	check(s, v, errs);
	check_lists(s, v, errs);
	if (!errs->blocking) {
		check_rules(s, v, errs);
	}
}
