/* DESIGN: a list with a maximum in the caller's arena, and one path that grows and shrinks while the checks walk the object. The words
   for each kind of error, and how a value is shown, are those of k8s.io/apimachinery's field.Error. One thread, no global
   state; whoever checks cannot fail, since beyond the maximum (and the arena) errors are only counted. */
#include "schema/errors.h"
#include "base/utf8.h"
#include "json/write.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { TEXT_MAX = 1200, SHOWN_MAX = 100 };

int kp_field_errors_init(
	struct kp_field_errors *e, struct kp_arena *a, size_t max, struct kp_err *err)
{
	*e = (struct kp_field_errors){ .arena = a, .max = max };
	e->p = kp_arena_calloc(a, max, sizeof(*e->p));
	return e->p ? 0 : kp_arena_full(err, "field errors");
}

static void path_add(struct kp_field_errors *e, kp_str s)
{
	size_t room = sizeof(e->path) - 1 - e->path_n;
	size_t n = KP_MIN(room, s.n);
	memcpy(e->path + e->path_n, s.p, n);
	e->path_n += n;
	e->path[e->path_n] = '\0';
}

size_t kp_field_push(struct kp_field_errors *e, kp_str member)
{
	size_t mark = e->path_n;
	if (mark) {
		path_add(e, KP_S("."));
	}
	path_add(e, member);
	return mark;
}

size_t kp_field_push_key(struct kp_field_errors *e, kp_str key)
{
	size_t mark = e->path_n;
	path_add(e, KP_S("["));
	path_add(e, key);
	path_add(e, KP_S("]"));
	return mark;
}

size_t kp_field_push_index(struct kp_field_errors *e, size_t index)
{
	char buf[24];
	int n = snprintf(buf, sizeof(buf), "%zu", index);
	return kp_field_push_key(e, kp_str_n(buf, (size_t)n));
}

static bool is_shown(uint32_t cp)
{
	return cp >= 0x20 && cp != 0x7f && (cp < 0x80 || cp > 0xa0) && cp != 0xad && cp != 0xfeff &&
	       (cp < 0x2000 || cp > 0x200f) && (cp < 0x2028 || cp > 0x202f) &&
	       (cp < 0x2060 || cp > 0x206f);
}

static void quote_one(struct kp_buf *b, uint32_t cp)
{
	static const char from[] = "\a\b\f\n\r\t\v\"\\", to[] = "abfnrtv\"\\";
	const char *special = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
	if (special) {
		kp_buf_addc(b, '\\');
		kp_buf_addc(b, to[special - from]);
	} else if (is_shown(cp)) {
		kp_utf8_add(b, cp);
	} else if (cp < 0x80) {
		kp_buf_printf(b, "\\x%02x", cp);
	} else {
		kp_buf_printf(b, cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
	}
}

void kp_field_quote(struct kp_buf *b, kp_str s)
{
	kp_buf_addc(b, '"');
	for (size_t i = 0; i < s.n;) {
		uint32_t cp;
		size_t n = kp_utf8_decode(s.p + i, s.n - i, &cp);
		if (n) {
			quote_one(b, cp);
		} else {
			kp_buf_printf(b, "\\x%02x", (unsigned char)s.p[i]);
		}
		i += n ? n : 1;
	}
	kp_buf_addc(b, '"');
}

/* s without the characters beyond SHOWN_MAX bytes. */
static kp_str cut(kp_str s)
{
	kp_str r = kp_str_sub(s, 0, SHOWN_MAX);
	if (r.n < s.n) {
		r.n -= kp_utf8_incomplete_tail(r);
	}
	return r;
}

static void show_str(struct kp_buf *b, kp_str s)
{
	kp_str r = cut(s);
	kp_field_quote(b, r);
	if (r.n < s.n) {
		kp_buf_lit(b, "...");
	}
}

/* As Go prints a float64 with %v: no exponent below 1e21. */
static void show_real(struct kp_buf *b, double v)
{
	if (v == trunc(v) && fabs(v) < 1e21) {
		kp_buf_printf(b, "%.0f", v);
	} else {
		kp_json_w_f64(b, v);
	}
}

/* Stops the dump when the buffer is full. */
static int take_text(const char *p, size_t n, void *data)
{
	struct kp_buf *b = data;
	kp_buf_add(b, kp_str_n(p, KP_MIN(n, b->max - b->n)));
	return b->n < b->max ? 0 : -1;
}

static void show(struct kp_buf *b, const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_STRING:
		show_str(b, kp_str_n(json_string_value(v), json_string_length(v)));
		break;
	case JSON_INTEGER:
		kp_buf_i64(b, json_integer_value(v));
		break;
	case JSON_REAL:
		show_real(b, json_real_value(v));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		kp_buf_addz(b, json_is_true(v) ? "true" : "false");
		break;
	case JSON_NULL:
		kp_buf_lit(b, "null");
		break;
	case JSON_OBJECT:
	case JSON_ARRAY: {
		KP_AUTO(buf) struct kp_buf text;
		kp_buf_init(&text, SHOWN_MAX + 1); /* one byte more tells that there is more */
		json_dump_callback(v, take_text, &text, JSON_COMPACT | JSON_SORT_KEYS);
		kp_str s = cut(kp_buf_str(&text));
		kp_buf_add(b, s);
		if (s.n < text.n) {
			kp_buf_lit(b, "...");
		}
		break;
	}
	}
}

static const char *word(enum kp_field_error type)
{
	switch (type) {
	case KP_FIELD_INVALID:
	case KP_FIELD_TYPE:
		return "Invalid value";
	case KP_FIELD_REQUIRED:
		return "Required value";
	case KP_FIELD_UNSUPPORTED:
		return "Unsupported value";
	case KP_FIELD_TOO_LONG:
		return "Too long";
	case KP_FIELD_TOO_MANY:
		return "Too many";
	case KP_FIELD_DUPLICATE:
		return "Duplicate value";
	case KP_FIELD_FORBIDDEN:
		return "Forbidden";
	case KP_FIELD_UNKNOWN:
		break;
	}
	return "unknown field";
}

static bool blocks(enum kp_field_error type)
{
	return type == KP_FIELD_TYPE || type == KP_FIELD_REQUIRED || type == KP_FIELD_UNSUPPORTED ||
	       type == KP_FIELD_TOO_LONG || type == KP_FIELD_TOO_MANY;
}

/* b holds "word: value" or less; the detail is put behind it. */
KP_PRINTF(4, 0)
static void finish(struct kp_field_errors *e, enum kp_field_error type, struct kp_buf *b,
	const char *fmt, va_list ap)
{
	char detail[TEXT_MAX];
	vsnprintf(detail, sizeof(detail), fmt, ap);
	if (detail[0]) {
		kp_buf_lit(b, ": ");
		kp_buf_addz(b, detail);
	}
	e->blocking |= blocks(type);
	if (e->n == e->max) {
		e->omitted++;
		return;
	}
	kp_str path, text;
	struct kp_err err;
	if (kp_arena_dup(e->arena, kp_str_n(e->path, e->path_n), &path, &err) ||
		kp_arena_dup(e->arena, kp_buf_str(b), &text, &err)) {
		e->omitted++;
		return;
	}
	e->p[e->n++] = (struct kp_field_err){ .type = type, .path = path.p, .text = text.p };
}

void kp_field_add(struct kp_field_errors *e, enum kp_field_error type, const json_t *value,
	const char *fmt, ...)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4 * TEXT_MAX);
	kp_buf_addz(&b, word(type));
	if (value) {
		kp_buf_lit(&b, ": ");
		show(&b, value);
	}
	va_list ap;
	va_start(ap, fmt);
	finish(e, type, &b, fmt, ap);
	va_end(ap);
}

void kp_field_add_str(
	struct kp_field_errors *e, enum kp_field_error type, kp_str value, const char *fmt, ...)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4 * TEXT_MAX);
	kp_buf_addz(&b, word(type));
	kp_buf_lit(&b, ": ");
	show_str(&b, value);
	va_list ap;
	va_start(ap, fmt);
	finish(e, type, &b, fmt, ap);
	va_end(ap);
}
