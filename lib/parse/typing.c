/* DESIGN: types is a set. Schemas are walked with a budget, so that cycles of $ref end. */
#include "parse/typing.h"

#include "parse/jscan.h"
#include "parse/literal.h"

enum { BUDGET = 256 };

static unsigned by_name(kp_str name)
{
	static const struct {
		const char *name;
		unsigned type;
	} names[] = { { "string", KP_TYPE_STRING }, { "str", KP_TYPE_STRING },
		{ "integer", KP_TYPE_INTEGER }, { "int", KP_TYPE_INTEGER },
		{ "number", KP_TYPE_NUMBER | KP_TYPE_INTEGER },
		{ "float", KP_TYPE_NUMBER | KP_TYPE_INTEGER }, { "boolean", KP_TYPE_BOOLEAN },
		{ "bool", KP_TYPE_BOOLEAN }, { "null", KP_TYPE_NULL }, { "array", KP_TYPE_ARRAY },
		{ "list", KP_TYPE_ARRAY }, { "object", KP_TYPE_OBJECT },
		{ "dict", KP_TYPE_OBJECT } };
	for (size_t i = 0; i < KP_LEN(names); i++) {
		if (kp_str_ieq(name, kp_str_c(names[i].name))) {
			return names[i].type;
		}
	}
	return 0;
}

static unsigned of_value(const struct kp_jv *v)
{
	switch (v->type) {
	case KP_JSON_NULL:
		return KP_TYPE_NULL;
	case KP_JSON_FALSE:
	case KP_JSON_TRUE:
		return KP_TYPE_BOOLEAN;
	case KP_JSON_NUMBER:
		return KP_TYPE_NUMBER | KP_TYPE_INTEGER;
	case KP_JSON_STRING:
		return KP_TYPE_STRING;
	case KP_JSON_ARRAY:
		return KP_TYPE_ARRAY;
	case KP_JSON_OBJECT:
		return KP_TYPE_OBJECT;
	case KP_JSON_NONE:
		break;
	}
	return 0;
}

/* "#/$defs/a~1b": a JSON pointer into root. */
static const struct kp_jv *resolve(const struct kp_jv *root, kp_str ref)
{
	const struct kp_jv *at = root;
	kp_str part;
	if (ref.n == 0 || ref.p[0] != '#') {
		return NULL;
	}
	ref = kp_str_skip(ref, 1);
	if (ref.n == 0) {
		return root;
	}
	ref = kp_str_skip(ref, 1);
	while (at && kp_str_split(&ref, '/', &part)) {
		char key[256];
		size_t n = 0;
		for (size_t i = 0; i < part.n && n < sizeof(key); i++) {
			char c = part.p[i];
			if (c == '~' && i + 1 < part.n) {
				c = part.p[++i] == '1' ? '/' : '~';
			}
			key[n++] = c;
		}
		at = kp_jv_get(at, kp_str_n(key, n));
	}
	return at;
}

static unsigned walk(const struct kp_jv *root, const struct kp_jv *schema, unsigned *budget)
{
	unsigned types = 0;
	if (!kp_jv_is(schema, KP_JSON_OBJECT) || *budget == 0) {
		return 0;
	}
	(*budget)--;
	const struct kp_jv *type = kp_jv_get(schema, KP_S("type"));
	if (kp_jv_is(type, KP_JSON_STRING)) {
		types |= by_name(type->s);
	}
	for (size_t i = 0; kp_jv_is(type, KP_JSON_ARRAY) && i < type->n; i++) {
		types |= type->items[i].type == KP_JSON_STRING ? by_name(type->items[i].s) : 0;
	}
	const struct kp_jv *nullable = kp_jv_get(schema, KP_S("nullable"));
	if (types) {
		return types | (kp_jv_is(nullable, KP_JSON_TRUE) ? KP_TYPE_NULL : 0u);
	}
	const struct kp_jv *values = kp_jv_get(schema, KP_S("enum"));
	for (size_t i = 0; kp_jv_is(values, KP_JSON_ARRAY) && i < values->n; i++) {
		types |= of_value(&values->items[i]);
	}
	const struct kp_jv *constant = kp_jv_get(schema, KP_S("const"));
	types |= constant ? of_value(constant) : 0;
	if (types) {
		return types;
	}
	kp_str ref = kp_jv_str(schema, KP_S("$ref"));
	if (ref.p) {
		types = walk(root, resolve(root, ref), budget);
	}
	static const char *const unions[] = { "anyOf", "oneOf" };
	for (size_t u = 0; u < KP_LEN(unions); u++) {
		const struct kp_jv *of = kp_jv_get(schema, kp_str_c(unions[u]));
		for (size_t i = 0; kp_jv_is(of, KP_JSON_ARRAY) && i < of->n; i++) {
			types |= walk(root, &of->items[i], budget);
		}
	}
	const struct kp_jv *all = kp_jv_get(schema, KP_S("allOf"));
	unsigned both = KP_TYPE_ALL;
	for (size_t i = 0; kp_jv_is(all, KP_JSON_ARRAY) && i < all->n; i++) {
		unsigned one = walk(root, &all->items[i], budget);
		both &= one ? one : (unsigned)KP_TYPE_ALL;
	}
	if (both != KP_TYPE_ALL) {
		types = types ? types & both : both;
	}
	if (!types && kp_jv_get(schema, KP_S("properties"))) {
		types = KP_TYPE_OBJECT;
	}
	if (!types && kp_jv_get(schema, KP_S("items"))) {
		types = KP_TYPE_ARRAY;
	}
	return types;
}

unsigned kp_typing_of(const struct kp_jv *root, const struct kp_jv *schema)
{
	unsigned budget = BUDGET;
	return walk(root, schema, &budget);
}

/* What is at `key` of the schema: in it, behind its $ref, or in a part of allOf, anyOf, oneOf. name: KP_STR_NULL, or a member of that. */
static const struct kp_jv *find(const struct kp_jv *root, const struct kp_jv *schema, kp_str key,
	kp_str name, unsigned *budget)
{
	static const char *const parts[] = { "allOf", "anyOf", "oneOf" };
	if (!kp_jv_is(schema, KP_JSON_OBJECT) || *budget == 0) {
		return NULL;
	}
	(*budget)--;
	const struct kp_jv *found = kp_jv_get(schema, key);
	found = name.p ? kp_jv_get(found, name) : found;
	if (kp_jv_is(found, KP_JSON_OBJECT)) {
		return found;
	}
	kp_str ref = kp_jv_str(schema, KP_S("$ref"));
	found = ref.p ? find(root, resolve(root, ref), key, name, budget) : NULL;
	for (size_t p = 0; !found && p < KP_LEN(parts); p++) {
		const struct kp_jv *of = kp_jv_get(schema, kp_str_c(parts[p]));
		for (size_t i = 0; !found && kp_jv_is(of, KP_JSON_ARRAY) && i < of->n; i++) {
			found = find(root, &of->items[i], key, name, budget);
		}
	}
	return found;
}

const struct kp_jv *kp_typing_property(
	const struct kp_jv *root, const struct kp_jv *schema, kp_str name)
{
	unsigned budget = BUDGET;
	const struct kp_jv *found = find(root, schema, KP_S("properties"), name, &budget);
	budget = BUDGET;
	return found ? found
		     : find(root, schema, KP_S("additionalProperties"), KP_STR_NULL, &budget);
}

const struct kp_jv *kp_typing_items(const struct kp_jv *root, const struct kp_jv *schema)
{
	unsigned budget = BUDGET;
	return find(root, schema, KP_S("items"), KP_STR_NULL, &budget);
}

/* The type of a whole JSON value, 0 when text is none. */
static unsigned json_type(kp_str text)
{
	struct kp_jscan s;
	bool integer = true;
	kp_jscan_init(&s);
	for (size_t i = 0; i < text.n; i++) {
		enum kp_jscan_result r = kp_jscan_byte(&s, text.p[i]);
		integer = integer && text.p[i] != '.' && kp_lower(text.p[i]) != 'e';
		if (r == KP_JSCAN_BAD || r == KP_JSCAN_PAST ||
			(r == KP_JSCAN_END && i + 1 < text.n)) {
			return 0;
		}
	}
	if (text.n == 0 || !kp_jscan_finish(&s)) {
		return 0;
	}
	switch (text.p[0]) {
	case '{':
		return KP_TYPE_OBJECT;
	case '[':
		return KP_TYPE_ARRAY;
	case '"':
		return KP_TYPE_STRING;
	case 't':
	case 'f':
		return KP_TYPE_BOOLEAN;
	case 'n':
		return KP_TYPE_NULL;
	default:
		return integer ? KP_TYPE_INTEGER | KP_TYPE_NUMBER : KP_TYPE_NUMBER;
	}
}

static kp_str python_word(kp_str text)
{
	return kp_str_eq(text, KP_S("True"))    ? KP_S("true")
	       : kp_str_eq(text, KP_S("False")) ? KP_S("false")
	       : kp_str_eq(text, KP_S("None"))  ? KP_S("null")
						: text;
}

void kp_typing_write_string(kp_str text, struct kp_buf *out)
{
	kp_buf_addc(out, '"');
	kp_literal_escape(text, out);
	kp_buf_addc(out, '"');
}

void kp_typing_write(unsigned types, kp_str text, struct kp_buf *out)
{
	unsigned others = types & ~(unsigned)KP_TYPE_STRING;
	kp_str value = python_word(kp_str_trim(text));
	unsigned is = others ? json_type(value) : 0;
	/* Where only other types are wanted, whatever is JSON is that value; a string must not be lost to a type that nobody wants. */
	if (is && (!(types & KP_TYPE_STRING) || (is & others))) {
		kp_buf_add(out, value);
		return;
	}
	if (others & (KP_TYPE_ARRAY | KP_TYPE_OBJECT) && value.n &&
		(value.p[0] == '[' || value.p[0] == '{' || value.p[0] == '(') &&
		kp_literal_convert(value, out)) {
		return;
	}
	kp_typing_write_string(text, out);
}

bool kp_typing_is_string(unsigned types, kp_str text)
{
	static const char *const words[] = { "null", "None", "true", "True", "false", "False" };
	const unsigned simple = KP_TYPE_STRING | KP_TYPE_NULL | KP_TYPE_BOOLEAN;
	if ((types | simple) != simple) { /* nothing else is worth the look */
		return false;
	}
	text = kp_str_trim(text);
	for (size_t i = 0; i < KP_LEN(words); i++) {
		if (kp_str_starts(kp_str_c(words[i]), text)) {
			return false;
		}
	}
	return true;
}
