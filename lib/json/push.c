/* DESIGN: one state says what may come next; a stack of flags says which containers are open. Strings are passed on in runs between escapes;
   a character whose bytes are cut and an escape collect in `held`. A number collects in `number` and is told when the byte behind it is seen. */
#include "json/push.h"
#include "base/utf8.h"
#include "json/scan.h"

#include <stdio.h>

enum state {
	VALUE,
	FIRST_ELEMENT,
	FIRST_MEMBER,
	MEMBER,
	COLON,
	BEHIND,
	STRING,
	ESCAPE,
	NUMBER,
	LITERAL,
	DONE
};
enum number { MINUS, ZERO, INT, DOT, FRACTION, EXP, EXP_SIGN, EXP_DIGITS };

void kp_json_push_init(struct kp_json_push *p, kp_json_push_fn *fn, void *ctx)
{
	/* the stack and the number are written before they are read */
	p->fn = fn;
	p->ctx = ctx;
	p->at = 0;
	p->literal = "";
	p->state = VALUE;
	p->sub = 0;
	p->in_key = p->broken = false;
	p->n_held = 0;
	p->scalar = KP_JSON_NONE;
	p->depth = p->n_number = 0;
}

static int tell(struct kp_json_push *p, enum kp_json_event kind, enum kp_json_type type,
	kp_str text, uint64_t at, struct kp_err *err)
{
	struct kp_json_push_event ev = { kind, type, text, at };
	return p->fn(p->ctx, &ev, err);
}

static int bad(struct kp_json_push *p, struct kp_err *err, const char *what)
{
	return kp_err_set(err, KP_INVALID_ARGUMENT, "parse JSON: %s at byte %llu", what,
		(unsigned long long)p->at);
}

static int unexpected(struct kp_json_push *p, char c, struct kp_err *err)
{
	static const char *const wanted[] = { [VALUE] = "a value",
		[FIRST_ELEMENT] = "a value or `]`",
		[FIRST_MEMBER] = "a member name or `}`",
		[MEMBER] = "a member name in quotes",
		[COLON] = "`:`",
		[BEHIND] = "`,` or the container's end",
		[NUMBER] = "a digit",
		[LITERAL] = "true, false or null",
		[DONE] = "the end" };
	char what[96];
	if ((unsigned char)c < 0x20 || (unsigned char)c >= 0x7f) {
		snprintf(what, sizeof(what), "expected %s, got byte 0x%02x", wanted[p->state],
			(unsigned char)c);
	} else {
		snprintf(what, sizeof(what), "expected %s, got `%c`", wanted[p->state], c);
	}
	return bad(p, err, what);
}

static void behind_value(struct kp_json_push *p)
{
	p->state = p->depth ? BEHIND : DONE;
}

static int begin_container(struct kp_json_push *p, bool is_object, struct kp_err *err)
{
	if (p->depth == KP_JSON_MAX_DEPTH) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"parse JSON: nested more than %d deep at byte %llu", KP_JSON_MAX_DEPTH,
			(unsigned long long)p->at);
	}
	p->is_object[p->depth++] = is_object;
	p->state = is_object ? FIRST_MEMBER : FIRST_ELEMENT;
	return tell(p, KP_JSON_EV_BEGIN, is_object ? KP_JSON_OBJECT : KP_JSON_ARRAY, KP_STR_NULL,
		p->at, err);
}

static int end_container(struct kp_json_push *p, struct kp_err *err)
{
	bool is_object = p->is_object[--p->depth];
	behind_value(p);
	return tell(p, KP_JSON_EV_END, is_object ? KP_JSON_OBJECT : KP_JSON_ARRAY, KP_STR_NULL,
		p->at + 1, err);
}

static int begin_string(struct kp_json_push *p, bool in_key, struct kp_err *err)
{
	p->state = STRING;
	p->in_key = in_key;
	p->n_held = 0;
	return tell(p, in_key ? KP_JSON_EV_KEY : KP_JSON_EV_BEGIN, KP_JSON_STRING, KP_STR_NULL,
		p->at, err);
}

static int begin_scalar(struct kp_json_push *p, enum state state, enum kp_json_type type,
	const char *literal, struct kp_err *err)
{
	p->state = (uint8_t)state;
	p->scalar = type;
	p->literal = literal;
	return tell(p, KP_JSON_EV_BEGIN, type, KP_STR_NULL, p->at, err);
}

static int begin_value(struct kp_json_push *p, char c, struct kp_err *err)
{
	switch (c) {
	case '{':
		return begin_container(p, true, err);
	case '[':
		return begin_container(p, false, err);
	case '"':
		return begin_string(p, false, err);
	case 't':
		return begin_scalar(p, LITERAL, KP_JSON_TRUE, "rue", err);
	case 'f':
		return begin_scalar(p, LITERAL, KP_JSON_FALSE, "alse", err);
	case 'n':
		return begin_scalar(p, LITERAL, KP_JSON_NULL, "ull", err);
	default:
		break;
	}
	if (c != '-' && !kp_is_digit(c)) {
		return unexpected(p, c, err);
	}
	p->number[0] = c;
	p->n_number = 1;
	p->sub = c == '-' ? MINUS : c == '0' ? ZERO : INT;
	return begin_scalar(p, NUMBER, KP_JSON_NUMBER, "", err);
}

/* 1: c belongs to the number; 0: the number ended before it; -1: it cannot stand here. */
static int number_takes(struct kp_json_push *p, char c)
{
	bool digit = kp_is_digit(c), e = c == 'e' || c == 'E';
	switch ((enum number)p->sub) {
	case MINUS:
		p->sub = c == '0' ? ZERO : INT;
		return digit ? 1 : -1;
	case ZERO:
	case INT:
		if (digit) {
			return p->sub == INT ? 1 : -1;
		}
		p->sub = c == '.' ? DOT : EXP;
		return c == '.' || e;
	case DOT:
		p->sub = FRACTION;
		return digit ? 1 : -1;
	case FRACTION:
		p->sub = e ? EXP : FRACTION;
		return digit || e;
	case EXP:
		p->sub = digit ? EXP_DIGITS : EXP_SIGN;
		return digit || c == '+' || c == '-' ? 1 : -1;
	case EXP_SIGN:
		p->sub = EXP_DIGITS;
		return digit ? 1 : -1;
	case EXP_DIGITS:
		return digit;
	}
	return -1;
}

static int end_number(struct kp_json_push *p, struct kp_err *err)
{
	behind_value(p);
	return tell(p, KP_JSON_EV_NUMBER, KP_JSON_NUMBER, kp_str_n(p->number, p->n_number), p->at,
		       err) || tell(p, KP_JSON_EV_END, KP_JSON_NUMBER, KP_STR_NULL, p->at, err)
		       ? -1
		       : 0;
}

/* 1: taken, 0: the byte is for the state behind the number. */
static int number_byte(struct kp_json_push *p, char c, struct kp_err *err)
{
	int r = number_takes(p, c);
	if (r < 0) {
		return unexpected(p, c, err);
	}
	if (r == 0) {
		return end_number(p, err);
	}
	if (p->n_number == KP_JSON_PUSH_NUMBER) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"parse JSON: number of more than %d bytes at byte %llu",
			KP_JSON_PUSH_NUMBER, (unsigned long long)p->at);
	}
	p->number[p->n_number++] = c;
	return 1;
}

static int literal_byte(struct kp_json_push *p, char c, struct kp_err *err)
{
	if (c != *p->literal) {
		return unexpected(p, c, err);
	}
	if (*++p->literal) {
		return 0;
	}
	behind_value(p);
	return tell(p, KP_JSON_EV_END, p->scalar, KP_STR_NULL, p->at + 1, err);
}

static uint32_t hex4(const char *p)
{
	uint64_t v;
	return kp_str_hex64(kp_str_n(p, 4), &v) ? (uint32_t)v : UINT32_MAX;
}

static int escape_done(struct kp_json_push *p, uint32_t cp, struct kp_err *err)
{
	char out[4];
	size_t n = kp_utf8_encode(cp, out);
	p->n_held = 0;
	p->state = STRING;
	return tell(p, KP_JSON_EV_TEXT, KP_JSON_STRING, kp_str_n(out, n), p->at + 1, err);
}

/* A byte behind a backslash; `held` has those before it: uXXXX, then \uXXXX of a pair's second half. */
static int escape_byte(struct kp_json_push *p, char c, struct kp_err *err)
{
	uint8_t at = p->n_held++;
	p->held[at] = c;
	if (at == 0 && c != 'u') {
		return (uint8_t)c < 128 && kp_json_simple_escape[(uint8_t)c]
			       ? escape_done(p, (uint8_t)kp_json_simple_escape[(uint8_t)c], err)
			       : bad(p, err, "invalid escape");
	}
	if (at == 5 || at == 6) {
		return c == "\\u"[at - 5] ? 0 : bad(p, err, "lone surrogate escape");
	}
	uint64_t digit;
	if (at && !kp_str_hex64(kp_str_n(&c, 1), &digit)) {
		return bad(p, err, "invalid escape");
	}
	if (at != 4 && at != 10) {
		return 0;
	}
	uint32_t cp = hex4(p->held + 1);
	if (at == 4) {
		if (cp >= 0xdc00 && cp <= 0xdfff) {
			return bad(p, err, "lone surrogate escape");
		}
		return cp >= 0xd800 && cp <= 0xdbff ? 0 : escape_done(p, cp, err);
	}
	uint32_t low = hex4(p->held + 7);
	if (low < 0xdc00 || low > 0xdfff) {
		return bad(p, err, "lone surrogate escape");
	}
	return escape_done(p, 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00), err);
}

/* Completes the character in `held` with the byte c. */
static int held_byte(struct kp_json_push *p, char c, struct kp_err *err)
{
	uint32_t cp;
	p->held[p->n_held++] = c;
	if (kp_utf8_decode(p->held, p->n_held, &cp) == p->n_held) {
		uint8_t n = p->n_held;
		p->n_held = 0;
		return tell(
			p, KP_JSON_EV_TEXT, KP_JSON_STRING, kp_str_n(p->held, n), p->at + 1, err);
	}
	return kp_utf8_incomplete_tail(kp_str_n(p->held, p->n_held)) == p->n_held
		       ? 0
		       : bad(p, err, "invalid UTF-8");
}

static int plain_run(struct kp_json_push *p, kp_str run, struct kp_err *err)
{
	size_t tail = kp_utf8_incomplete_tail(run);
	kp_str whole = kp_str_sub(run, 0, run.n - tail);
	size_t ok = kp_utf8_valid_prefix(whole);
	if (ok) {
		if (tell(p, KP_JSON_EV_TEXT, KP_JSON_STRING, kp_str_sub(whole, 0, ok), p->at + ok,
			    err)) {
			return -1;
		}
	}
	if (ok < whole.n) {
		p->at += ok;
		/* the first byte at which it cannot go on, as byte by byte */
		for (size_t i = ok; i < whole.n; i++) {
			if (held_byte(p, whole.p[i], err)) {
				return -1;
			}
			p->at++;
		}
		return bad(p, err, "invalid UTF-8");
	}
	memcpy(p->held, run.p + whole.n, tail);
	p->n_held = (uint8_t)tail;
	p->at += run.n;
	return 0;
}

/* Bytes inside of a string up to its end, an escape, or the last of them; returns how many were taken (p->at moved), or -1. */
static ptrdiff_t string_bytes(
	struct kp_json_push *p, const char *from, const char *end, struct kp_err *err)
{
	const char *at = from;
	while (p->n_held && at < end) {
		if (held_byte(p, *at, err)) {
			return -1;
		}
		at++;
		p->at++;
	}
	bool non_ascii = false;
	const char *stop = kp_json_scan(at, end, &non_ascii);
	if (stop > at && plain_run(p, kp_str_n(at, (size_t)(stop - at)), err)) {
		return -1;
	}
	if (stop == end) {
		return stop - from;
	}
	if (p->n_held) {
		return bad(p, err, "invalid UTF-8");
	}
	if (*stop == '\\') {
		p->state = ESCAPE;
	} else if (*stop == '"') {
		p->state = COLON;
		if (!p->in_key) {
			behind_value(p);
		}
		if (tell(p, KP_JSON_EV_END, KP_JSON_STRING, KP_STR_NULL, p->at + 1, err)) {
			return -1;
		}
	} else {
		return bad(p, err, "control character in a string");
	}
	p->at++;
	return stop + 1 - from;
}

/* A byte that is no part of a scalar. */
static int structure_byte(struct kp_json_push *p, char c, struct kp_err *err)
{
	if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
		return 0;
	}
	switch ((enum state)p->state) {
	case FIRST_ELEMENT:
		return c == ']' ? end_container(p, err) : begin_value(p, c, err);
	case VALUE:
		return begin_value(p, c, err);
	case FIRST_MEMBER:
	case MEMBER:
		if (c == '"') {
			return begin_string(p, true, err);
		}
		return c == '}' && p->state == FIRST_MEMBER ? end_container(p, err)
							    : unexpected(p, c, err);
	case COLON:
		p->state = VALUE;
		if (c == ':') {
			return 0;
		}
		p->state = COLON;
		return unexpected(p, c, err);
	case BEHIND:
		if (c == ',') {
			p->state = p->is_object[p->depth - 1] ? MEMBER : VALUE;
			return 0;
		}
		return c == (p->is_object[p->depth - 1] ? '}' : ']') ? end_container(p, err)
								     : unexpected(p, c, err);
	case DONE:
	case STRING:
	case ESCAPE:
	case NUMBER:
	case LITERAL:
		break;
	}
	return unexpected(p, c, err);
}

static int feed(struct kp_json_push *p, const char *at, const char *end, struct kp_err *err)
{
	while (at < end) {
		if (p->state == STRING) {
			ptrdiff_t n = string_bytes(p, at, end, err);
			if (n < 0) {
				return -1;
			}
			at += n;
			continue;
		}
		int r = p->state == NUMBER ? number_byte(p, *at, err) : 0;
		if (r == 0 && p->state == ESCAPE) {
			r = escape_byte(p, *at, err);
		} else if (r == 0 && p->state == LITERAL) {
			r = literal_byte(p, *at, err);
		} else if (r == 0) {
			r = structure_byte(p, *at, err);
		}
		if (r < 0) {
			return -1;
		}
		at++;
		p->at++;
	}
	return 0;
}

int kp_json_push_feed(struct kp_json_push *p, kp_str bytes, struct kp_err *err)
{
	if (p->broken) {
		return bad(p, err, "an error before");
	}
	if (bytes.n && feed(p, bytes.p, bytes.p + bytes.n, err)) {
		p->broken = true;
		return -1;
	}
	return 0;
}

int kp_json_push_finish(struct kp_json_push *p, struct kp_err *err)
{
	if (p->broken) {
		return bad(p, err, "an error before");
	}
	int r = 0;
	if (p->state == NUMBER && p->depth == 0 &&
		(p->sub == ZERO || p->sub == INT || p->sub == FRACTION || p->sub == EXP_DIGITS)) {
		r = end_number(p, err);
	}
	if (r == 0 && p->state != DONE) {
		r = bad(p, err, "the text ends");
	}
	p->broken = r != 0;
	return r;
}
