/* DESIGN: a state per place where the grammar can stand, a bit per open container. */
#include "parse/jscan.h"

#include "base/str.h"
#include "json/scan.h"

enum {
	VALUE = 0, /* a value comes */
	FIRST_KEY, /* behind { */
	KEY,       /* behind , of an object */
	COLON,
	FIRST_VALUE, /* behind [ */
	NEXT,        /* behind a value of a container */
	STRING,
	KEY_STRING,
	ESCAPE,
	KEY_ESCAPE,
	HEX,
	KEY_HEX,
	LITERAL,
	MINUS,
	ZERO,
	INT,
	DOT,
	FRACTION,
	E,
	E_SIGN,
	EXPONENT,
	DONE
};

void kp_jscan_init(struct kp_jscan *s)
{
	*s = (struct kp_jscan){ .state = VALUE };
}

bool kp_jscan_in_string(const struct kp_jscan *s)
{
	return s->state >= STRING && s->state <= KEY_HEX;
}

size_t kp_jscan_plain(const struct kp_jscan *s, const char *p, size_t n)
{
	bool ignored = false;
	return s->state == STRING || s->state == KEY_STRING
		       ? (size_t)(kp_json_scan(p, p + n, &ignored) - p)
		       : 0;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_hex(char c)
{
	return kp_is_digit(c) || (kp_lower(c) >= 'a' && kp_lower(c) <= 'f');
}

static bool top_is_object(const struct kp_jscan *s)
{
	unsigned at = s->depth - 1u;
	return s->is_object[at / 64] >> (at % 64) & 1;
}

static enum kp_jscan_result after_value(struct kp_jscan *s)
{
	s->state = s->depth ? NEXT : DONE;
	return s->depth ? KP_JSCAN_MORE : KP_JSCAN_END;
}

static enum kp_jscan_result open_container(struct kp_jscan *s, bool object)
{
	if (s->depth == KP_JSCAN_DEPTH) {
		return KP_JSCAN_BAD;
	}
	uint64_t bit = UINT64_C(1) << (s->depth % 64);
	uint64_t *word = &s->is_object[s->depth / 64];
	*word = object ? *word | bit : *word & ~bit;
	s->depth++;
	s->state = object ? FIRST_KEY : FIRST_VALUE;
	return KP_JSCAN_MORE;
}

static enum kp_jscan_result close_container(struct kp_jscan *s)
{
	s->depth--;
	return after_value(s);
}

static enum kp_jscan_result literal(struct kp_jscan *s, const char *rest)
{
	s->state = LITERAL;
	s->literal = rest;
	return KP_JSCAN_MORE;
}

static enum kp_jscan_result go(struct kp_jscan *s, uint8_t state)
{
	s->state = state;
	return KP_JSCAN_MORE;
}

static enum kp_jscan_result begin_value(struct kp_jscan *s, char c)
{
	switch (c) {
	case '{':
		return open_container(s, true);
	case '[':
		return open_container(s, false);
	case '"':
		return go(s, STRING);
	case '-':
		return go(s, MINUS);
	case '0':
		return go(s, ZERO);
	case 't':
		return literal(s, "rue");
	case 'f':
		return literal(s, "alse");
	case 'n':
		return literal(s, "ull");
	default:
		return c >= '1' && c <= '9' ? go(s, INT) : KP_JSCAN_BAD;
	}
}

static enum kp_jscan_result structure(struct kp_jscan *s, char c)
{
	if (is_space(c)) {
		return KP_JSCAN_MORE;
	}
	switch (s->state) {
	case VALUE:
		return begin_value(s, c);
	case FIRST_VALUE:
		return c == ']' ? close_container(s) : begin_value(s, c);
	case FIRST_KEY:
		if (c == '}') {
			return close_container(s);
		}
		return c == '"' ? go(s, KEY_STRING) : KP_JSCAN_BAD;
	case KEY:
		return c == '"' ? go(s, KEY_STRING) : KP_JSCAN_BAD;
	case COLON:
		return c == ':' ? go(s, VALUE) : KP_JSCAN_BAD;
	case NEXT:
		if (c == ',') {
			return go(s, top_is_object(s) ? KEY : VALUE);
		}
		return c == (top_is_object(s) ? '}' : ']') ? close_container(s) : KP_JSCAN_BAD;
	default:
		return KP_JSCAN_BAD;
	}
}

static enum kp_jscan_result in_string(struct kp_jscan *s, char c)
{
	bool key = s->state == KEY_STRING || s->state == KEY_ESCAPE || s->state == KEY_HEX;
	uint8_t string = key ? KEY_STRING : STRING;
	switch (s->state) {
	case STRING:
	case KEY_STRING:
		if (c == '"') {
			return key ? go(s, COLON) : after_value(s);
		}
		return c == '\\' ? go(s, key ? KEY_ESCAPE : ESCAPE) : KP_JSCAN_MORE;
	case ESCAPE:
	case KEY_ESCAPE:
		if (c == 'u') {
			s->hex = 4;
			return go(s, key ? KEY_HEX : HEX);
		}
		return c && strchr("\"\\/bfnrt", c) ? go(s, string) : KP_JSCAN_BAD;
	default:
		if (!is_hex(c)) {
			return KP_JSCAN_BAD;
		}
		return --s->hex ? KP_JSCAN_MORE : go(s, string);
	}
}

/* A number has ended before c. */
static enum kp_jscan_result number_past(struct kp_jscan *s, char c)
{
	if (s->depth == 0) {
		s->state = DONE;
		return KP_JSCAN_PAST;
	}
	s->state = NEXT;
	return structure(s, c);
}

static enum kp_jscan_result in_number(struct kp_jscan *s, char c)
{
	bool digit = kp_is_digit(c);
	switch (s->state) {
	case MINUS:
		return digit ? go(s, c == '0' ? ZERO : INT) : KP_JSCAN_BAD;
	case DOT:
		return digit ? go(s, FRACTION) : KP_JSCAN_BAD;
	case E:
		return digit                  ? go(s, EXPONENT)
		       : c == '+' || c == '-' ? go(s, E_SIGN)
					      : KP_JSCAN_BAD;
	case E_SIGN:
		return digit ? go(s, EXPONENT) : KP_JSCAN_BAD;
	case ZERO:
	case INT:
		if (digit) {
			return s->state == INT ? KP_JSCAN_MORE : KP_JSCAN_BAD;
		}
		if (c == '.') {
			return go(s, DOT);
		}
		break;
	default: /* FRACTION, EXPONENT */
		if (digit) {
			return KP_JSCAN_MORE;
		}
	}
	if (kp_lower(c) == 'e' && s->state != EXPONENT) {
		return go(s, E);
	}
	return number_past(s, c);
}

enum kp_jscan_result kp_jscan_byte(struct kp_jscan *s, char c)
{
	if (s->state < STRING) {
		return structure(s, c);
	}
	if (s->state <= KEY_HEX) {
		return in_string(s, c);
	}
	if (s->state == LITERAL) {
		if (c != *s->literal) {
			return KP_JSCAN_BAD;
		}
		return *++s->literal ? KP_JSCAN_MORE : after_value(s);
	}
	return s->state == DONE ? KP_JSCAN_BAD : in_number(s, c);
}

bool kp_jscan_finish(const struct kp_jscan *s)
{
	return s->depth == 0 && (s->state == DONE || s->state == ZERO || s->state == INT ||
					s->state == FRACTION || s->state == EXPONENT);
}
