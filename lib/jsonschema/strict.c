/* DESIGN: one walk over the schema; a table of the keywords that are taken. Totals are counted over the whole document. Recursion: the document's depth. */
#include "base/map.h"
#include "base/utf8.h"
#include "jsonschema/jsonschema.h"

#include <stdarg.h>
#include <stdio.h>

enum {
	PROPERTIES = 5000,
	LEVELS = 10,
	ENUM_VALUES = 1000,
	LONG_ENUM = 250,
	LONG_ENUM_TEXT = 15000,
	TEXT = 120000
};

struct strict {
	struct kp_err *err;
	char where[KP_ERR_PARAM];
	size_t n_where;
	uint64_t properties, enum_values, text;
};

static KP_PRINTF(2, 3) int refuse(struct strict *s, const char *fmt, ...)
{
	char what[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return kp_err_param(s->err, s->where, "check strict JSON schema: `%s`: %s", s->where, what);
}

/* Goes into a member for the time of one check; a place that is too long is cut. */
static size_t enter(struct strict *s, kp_str keyword, kp_str name)
{
	size_t before = s->n_where;
	int n = snprintf(s->where + before, sizeof(s->where) - before, "/%" KP_FMT "%s%" KP_FMT,
		KP_ARG(keyword), name.p ? "/" : "", KP_ARG(name));
	s->n_where = KP_MIN(before + (size_t)(n < 0 ? 0 : n), sizeof(s->where) - 1);
	return before;
}

static void leave(struct strict *s, size_t before)
{
	s->n_where = before;
	s->where[before] = '\0';
}

static int check(struct strict *s, const struct kp_jv *v, unsigned level);

static int check_map(struct strict *s, const struct kp_jmember *m, unsigned level)
{
	if (m->value.type != KP_JSON_OBJECT) {
		return refuse(s, "`%" KP_FMT "` must be an object", KP_ARG(m->key));
	}
	for (uint32_t i = 0; i < m->value.n; i++) {
		const struct kp_jmember *child = &m->value.members[i];
		size_t before = enter(s, m->key, child->key);
		s->text += kp_utf8_count(child->key);
		if (check(s, &child->value, level)) {
			return -1;
		}
		leave(s, before);
	}
	return 0;
}

static int check_list(struct strict *s, const struct kp_jmember *m, unsigned level)
{
	char number[16];
	if (m->value.type != KP_JSON_ARRAY || m->value.n == 0) {
		return refuse(s, "`%" KP_FMT "` must be an array of schemas", KP_ARG(m->key));
	}
	for (uint32_t i = 0; i < m->value.n; i++) {
		snprintf(number, sizeof(number), "%u", i);
		size_t before = enter(s, m->key, kp_str_c(number));
		if (check(s, &m->value.items[i], level)) {
			return -1;
		}
		leave(s, before);
	}
	return 0;
}

static int check_enum(struct strict *s, const struct kp_jv *v)
{
	uint64_t text = 0;
	if (v->type != KP_JSON_ARRAY) {
		return refuse(s, "`enum` must be an array");
	}
	for (uint32_t i = 0; i < v->n; i++) {
		text += v->items[i].type == KP_JSON_STRING ? kp_utf8_count(v->items[i].s) : 0;
	}
	s->enum_values += v->n;
	s->text += text;
	if (v->n > LONG_ENUM && text > LONG_ENUM_TEXT) {
		return refuse(s, "an enum of more than %d values may have %d characters, got %llu",
			LONG_ENUM, LONG_ENUM_TEXT, (unsigned long long)text);
	}
	return s->enum_values > ENUM_VALUES
		       ? refuse(s, "more than %d enum values in all", ENUM_VALUES)
		       : 0;
}

static bool has_type(const struct kp_jv *v, kp_str name)
{
	const struct kp_jv *t = kp_jv_get(v, KP_S("type"));
	if (!kp_jv_is(t, KP_JSON_ARRAY)) {
		return kp_jv_is(t, KP_JSON_STRING) && kp_str_eq(t->s, name);
	}
	for (uint32_t i = 0; i < t->n; i++) {
		if (t->items[i].type == KP_JSON_STRING && kp_str_eq(t->items[i].s, name)) {
			return true;
		}
	}
	return false;
}

/* `required` names each of the properties, and nothing else. */
static int check_required(struct strict *s, const struct kp_jv *required, const struct kp_jv *names)
{
	struct kp_map have;
	int r = 0;
	if (required->n > names->n) {
		return refuse(
			s, "`required` has a key twice, or one that `properties` does not have");
	}
	kp_map_init(&have);
	for (uint32_t i = 0; i < required->n; i++) {
		if (required->items[i].type == KP_JSON_STRING) {
			kp_map_set(&have, required->items[i].s, s);
		}
	}
	for (uint32_t i = 0; i < names->n && r == 0; i++) {
		if (!kp_map_get(&have, names->members[i].key)) {
			r = refuse(s,
				"`required` must have every key of `properties`; `%" KP_FMT
				"` is missing",
				KP_ARG(kp_str_sub(names->members[i].key, 0, 80)));
		}
	}
	kp_map_fini(&have, NULL);
	return r;
}

static int check_object(struct strict *s, const struct kp_jv *v)
{
	const struct kp_jv *properties = kp_jv_get(v, KP_S("properties")),
			   *required = kp_jv_get(v, KP_S("required"));
	if (!kp_jv_is(kp_jv_get(v, KP_S("additionalProperties")), KP_JSON_FALSE)) {
		return refuse(s, "`additionalProperties` must be there, and false");
	}
	if (properties && !kp_jv_is(properties, KP_JSON_OBJECT)) {
		return refuse(s, "`properties` must be an object");
	}
	static const struct kp_jv none = { .type = KP_JSON_OBJECT };
	uint32_t n = properties ? properties->n : 0;
	if (required ? required->type != KP_JSON_ARRAY : n) {
		return refuse(s, "`required` must be there, with every key of `properties`");
	}
	if ((s->properties += n) > PROPERTIES) {
		return refuse(s, "more than %d properties in all", PROPERTIES);
	}
	return required ? check_required(s, required, properties ? properties : &none) : 0;
}

enum { PLAIN = 1, MAP, LIST, ONE, VALUES };
static const struct {
	const char *name;
	int how;
} taken[] = { { "type", PLAIN }, { "properties", MAP }, { "required", PLAIN },
	{ "additionalProperties", PLAIN }, { "items", ONE }, { "enum", VALUES }, { "const", PLAIN },
	{ "anyOf", LIST }, { "$ref", PLAIN }, { "$defs", MAP }, { "definitions", MAP },
	{ "title", PLAIN }, { "description", PLAIN }, { "pattern", PLAIN }, { "format", PLAIN },
	{ "minLength", PLAIN }, { "maxLength", PLAIN }, { "multipleOf", PLAIN },
	{ "minimum", PLAIN }, { "maximum", PLAIN }, { "exclusiveMinimum", PLAIN },
	{ "exclusiveMaximum", PLAIN }, { "minItems", PLAIN }, { "maxItems", PLAIN },
	{ "$schema", PLAIN }, { "$id", PLAIN }, { "$comment", PLAIN }, { "examples", PLAIN } };

static int check_member(
	struct strict *s, const struct kp_jmember *m, unsigned level, bool is_object)
{
	bool inside = is_object && kp_str_eq(m->key, KP_S("properties"));
	bool apart = kp_str_eq(m->key, KP_S("$defs")) || kp_str_eq(m->key, KP_S("definitions"));
	for (size_t i = 0; i < KP_LEN(taken); i++) {
		if (!kp_str_eq(m->key, kp_str_c(taken[i].name))) {
			continue;
		}
		if (taken[i].how == MAP) {
			return check_map(s, m, apart ? 0 : level + inside);
		}
		if (taken[i].how == LIST) {
			return check_list(s, m, level);
		}
		if (taken[i].how == VALUES) {
			return check_enum(s, &m->value);
		}
		if (taken[i].how == ONE) {
			size_t before = enter(s, m->key, KP_STR_NULL);
			int r = check(s, &m->value, level);
			if (r == 0) {
				leave(s, before);
			}
			return r;
		}
		s->text += kp_str_eq(m->key, KP_S("const")) && m->value.type == KP_JSON_STRING
				   ? kp_utf8_count(m->value.s)
				   : 0;
		return 0;
	}
	return refuse(s, "`%" KP_FMT "` is not permitted", KP_ARG(kp_str_sub(m->key, 0, 80)));
}

static int check(struct strict *s, const struct kp_jv *v, unsigned level)
{
	if (v->type != KP_JSON_OBJECT) {
		return refuse(s, "a schema must be an object");
	}
	if (level > LEVELS) {
		return refuse(s, "more than %d levels of objects", LEVELS);
	}
	bool is_object = has_type(v, KP_S("object")) || kp_jv_get(v, KP_S("properties"));
	if (!kp_jv_get(v, KP_S("type")) && !kp_jv_get(v, KP_S("anyOf")) &&
		!kp_jv_get(v, KP_S("$ref")) && !kp_jv_get(v, KP_S("enum")) &&
		!kp_jv_get(v, KP_S("const"))) {
		return refuse(s, "there is no `type`");
	}
	if (has_type(v, KP_S("array")) && !kp_jv_get(v, KP_S("items"))) {
		return refuse(s, "an array must have `items`");
	}
	if (is_object && check_object(s, v)) {
		return -1;
	}
	for (uint32_t i = 0; i < v->n; i++) {
		if (check_member(s, &v->members[i], level, is_object)) {
			return -1;
		}
	}
	return s->text > TEXT ? refuse(s, "more than %d characters in names and values", TEXT) : 0;
}

int kp_jsonschema_check_strict(const struct kp_jv *schema, struct kp_err *err)
{
	struct strict s = { .err = err, .where = "#", .n_where = 1 };
	if (schema->type != KP_JSON_OBJECT) {
		return refuse(&s, "the root must be an object");
	}
	if (kp_jv_get(schema, KP_S("anyOf"))) {
		return refuse(&s, "the root must not be `anyOf`");
	}
	const struct kp_jv *type = kp_jv_get(schema, KP_S("type"));
	if (!kp_jv_is(type, KP_JSON_STRING) || !kp_str_eq(type->s, KP_S("object"))) {
		return refuse(&s, "the root's type must be `object`");
	}
	return check(&s, schema, 1);
}
