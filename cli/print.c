/* DESIGN: a table is a flat list of cells; widths are counted in code points when it is printed. */
#include "cli/print.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <stdio.h>

/* --- text --------------------------------------------------------------------------------------- */

/* Unicode's bidirectional controls (Bidi_Control): they make text read as it does not say. */
static bool is_bidi(uint32_t c)
{
	return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

void kp_print_text(struct kp_buf *out, kp_str text)
{
	for (size_t at = 0; at < text.n;) {
		uint32_t c;
		size_t n = kp_utf8_decode(text.p + at, text.n - at, &c);
		if (n == 0) {
			n = 1;
			c = 0xfffd;
		} else if (c == '\n' || c == '\t' || c == '\r') {
			c = ' ';
		} else if (c < 0x20 || (c >= 0x7f && c <= 0x9f) || is_bidi(c) || c == 0x2028 ||
			   c == 0x2029) {
			c = 0xfffd;
		}
		kp_utf8_add(out, c);
		at += n;
	}
}

void kp_print_line(struct kp_buf *out, int width, const char *name, kp_str text)
{
	kp_buf_printf(out, "%-*s", width, name);
	kp_print_text(out, text.n ? text : KP_S("<none>"));
	kp_buf_addc(out, '\n');
}

/* --- tables ------------------------------------------------------------------------------------- */

void kp_table_init(struct kp_table *t, struct kp_arena *a, const char *const *columns, size_t n)
{
	*t = (struct kp_table){ .arena = a, .columns = columns, .n_columns = n };
	for (size_t i = 0; n == 0 && columns[i]; i++) {
		t->n_columns++;
	}
}

void kp_table_add(struct kp_table *t, kp_str text)
{
	if (t->column++ >= t->n_columns) {
		return;
	}
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, text.n * 3 + 16); /* U+FFFD has three bytes */
	kp_print_text(&b, text.n ? text : KP_S("<none>"));
	kp_vec_push(&t->cells, kp_str_c(kp_arena_strz(t->arena, kp_buf_str(&b))));
}

void kp_table_addf(struct kp_table *t, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	kp_table_add(t, kp_str_c(text));
}

void kp_table_end_row(struct kp_table *t)
{
	while (t->column < t->n_columns) {
		kp_table_add(t, KP_STR_NULL);
	}
	t->column = 0;
}

static void print_cell(struct kp_buf *out, kp_str text, size_t width)
{
	kp_buf_add(out, text);
	for (size_t i = kp_utf8_count(text); i < width + 3; i++) {
		kp_buf_addc(out, ' ');
	}
}

static void print_row(const struct kp_table *t, size_t at, const size_t *widths, const char *indent,
	struct kp_buf *out)
{
	kp_buf_addz(out, indent);
	for (size_t i = 0; i < t->n_columns; i++) {
		bool last = i + 1 == t->n_columns;
		kp_str text = at == SIZE_MAX ? kp_str_c(t->columns[i]) : t->cells.p[at + i];
		if (last) {
			kp_buf_add(out, text);
		} else {
			print_cell(out, text, widths[i]);
		}
	}
	kp_buf_addc(out, '\n');
}

void kp_table_print(struct kp_table *t, const char *indent, struct kp_buf *out)
{
	enum { MAX_COLUMNS = 32 };
	size_t widths[MAX_COLUMNS] = { 0 };
	KP_BUG_ON(t->n_columns > MAX_COLUMNS || t->cells.n % t->n_columns != 0);
	for (size_t i = 0; i < t->n_columns; i++) {
		widths[i] = strlen(t->columns[i]);
	}
	for (size_t i = 0; i < t->cells.n; i++) {
		size_t *w = &widths[i % t->n_columns];
		*w = KP_MAX(*w, kp_utf8_count(t->cells.p[i]));
	}
	if (t->cells.n) {
		print_row(t, SIZE_MAX, widths, indent, out);
	}
	for (size_t at = 0; at < t->cells.n; at += t->n_columns) {
		print_row(t, at, widths, indent, out);
	}
	kp_vec_fini(&t->cells);
}

/* --- members ------------------------------------------------------------------------------------ */

kp_str kp_at_str(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);
	return json_is_string(v) ? kp_str_n(json_string_value(v), json_string_length(v))
				 : KP_STR_NULL;
}

int64_t kp_at_int(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

double kp_at_real(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

bool kp_at_bool(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

const json_t *kp_at_list(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);
	return json_is_array(v) ? v : NULL;
}

kp_str kp_at_age(struct kp_arena *a, const json_t *object, const char *key, int64_t now_ns)
{
	int64_t ns;
	char text[KP_AGE_TEXT_MAX];
	if (!kp_time_parse(kp_at_str(object, key), &ns)) {
		return KP_STR_NULL;
	}
	kp_age_text(now_ns - ns, text);
	return kp_str_c(kp_arena_strz(a, kp_str_c(text)));
}

kp_str kp_at_joined(struct kp_arena *a, const json_t *object, const char *key)
{
	KP_AUTO(buf) struct kp_buf b;
	size_t i;
	const json_t *v;
	kp_buf_init(&b, 1 << 20);
	const json_t *list = kp_at_list(object, key);
	json_array_foreach(list, i, v)
	{
		if (json_is_string(v)) {
			kp_buf_addz(&b, b.n ? ", " : "");
			kp_buf_add(&b, kp_str_n(json_string_value(v), json_string_length(v)));
		}
	}
	return kp_str_c(kp_arena_strz(a, kp_buf_str(&b)));
}
