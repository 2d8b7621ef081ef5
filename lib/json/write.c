/* DESIGN: strings are copied in runs up to the next byte that needs an escape. Numbers: the
   shortest of the decimal precisions that reads back exactly (a value with at most 15 significant
   digits is found at once; 17 always suffice for a double, 9 for a float), laid out as Python does.
 */
#include "json/write.h"
#include "base/utf8.h"
#include "json/scan.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void escape_one(struct kp_buf *b, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	switch (c) {
	case '"':
		kp_buf_lit(b, "\\\"");
		break;
	case '\\':
		kp_buf_lit(b, "\\\\");
		break;
	case '\n':
		kp_buf_lit(b, "\\n");
		break;
	case '\r':
		kp_buf_lit(b, "\\r");
		break;
	case '\t':
		kp_buf_lit(b, "\\t");
		break;
	case '\b':
		kp_buf_lit(b, "\\b");
		break;
	case '\f':
		kp_buf_lit(b, "\\f");
		break;
	default: {
		char tmp[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
		kp_buf_add(b, kp_str_n(tmp, sizeof(tmp)));
	}
	}
}

void kp_json_w_esc(struct kp_buf *b, kp_str s)
{
	const char *p = s.p, *end = s.n ? s.p + s.n : s.p;
	while (p < end) {
		bool non_ascii = false;
		const char *q = kp_json_scan(p, end, &non_ascii);
		kp_str run = { p, (size_t)(q - p) };
		if (non_ascii && !kp_utf8_ok(run)) {
			kp_utf8_add_lossy(b, run);
		} else {
			kp_buf_add(b, run);
		}
		if (q < end) {
			escape_one(b, (unsigned char)*q++);
		}
		p = q;
	}
}

void kp_json_w_str(struct kp_buf *b, kp_str s)
{
	kp_buf_addc(b, '"');
	kp_json_w_esc(b, s);
	kp_buf_addc(b, '"');
}

/* Digits d[0..n) with the point behind digit `point` (may be <= 0 or > n). */
static void layout(struct kp_buf *b, const char *d, int n, int point)
{
	if (point > 16 || point < -3) {
		kp_buf_addc(b, d[0]);
		if (n > 1) {
			kp_buf_addc(b, '.');
			kp_buf_add(b, kp_str_n(d + 1, (size_t)n - 1));
		}
		int e = point - 1;
		kp_buf_printf(b, "e%c%02d", e < 0 ? '-' : '+', e < 0 ? -e : e);
		return;
	}
	if (point <= 0) {
		kp_buf_lit(b, "0.");
		for (int i = point; i < 0; i++) {
			kp_buf_addc(b, '0');
		}
		kp_buf_add(b, kp_str_n(d, (size_t)n));
		return;
	}
	for (int i = 0; i < point; i++) {
		kp_buf_addc(b, i < n ? d[i] : '0');
	}
	kp_buf_addc(b, '.');
	if (n > point) {
		kp_buf_add(b, kp_str_n(d + point, (size_t)(n - point)));
	} else {
		kp_buf_addc(b, '0');
	}
}

static void number(struct kp_buf *b, double v, bool single)
{
	if (!isfinite(v)) {
		kp_buf_lit(b, "null");
		return;
	}
	char text[40], digits[20];
	/* The program never calls setlocale, so printf and strtod use the C locale. */
	bool is_subnormal = fabs(v) < (single ? (double)FLT_MIN : DBL_MIN); /* has fewer digits */
	for (int prec = is_subnormal ? 1
			: single     ? 6
				     : 15,
		 last = single ? 9 : 17;
		prec <= last; prec++) {
		snprintf(text, sizeof(text), "%.*e", prec - 1, v);
		double back = strtod(text, NULL);
		bool same = single ? !((float)back < (float)v) && !((float)back > (float)v)
				   : !(back < v) && !(back > v);
		if (same) {
			break;
		}
	}
	const char *p = text;
	if (*p == '-') {
		kp_buf_addc(b, '-');
		p++;
	}
	int n = 0;
	for (; *p && *p != 'e'; p++) {
		if (*p != '.' && n < (int)sizeof(digits)) {
			digits[n++] = *p;
		}
	}
	int64_t e = 0;
	if (*p) { /* "e+05" */
		uint64_t u;
		if (kp_str_u64(kp_str_c(p + 2), 400, &u)) {
			e = p[1] == '-' ? -(int64_t)u : (int64_t)u;
		}
	}
	while (n > 1 && digits[n - 1] == '0') {
		n--;
	}
	layout(b, digits, n, (int)e + 1);
}

void kp_json_w_f64(struct kp_buf *b, double v)
{
	number(b, v, false);
}

void kp_json_w_f32(struct kp_buf *b, float v)
{
	number(b, (double)v, true);
}

static void str_or_null(struct kp_buf *b, const char *z)
{
	if (z && z[0]) {
		kp_json_w_str(b, kp_str_c(z));
	} else {
		kp_buf_lit(b, "null");
	}
}

void kp_json_w_err(struct kp_buf *b, const struct kp_err *err)
{
	kp_buf_lit(b, "{\"error\":{\"message\":");
	kp_json_w_str(b, kp_str_c(err->msg));
	kp_buf_lit(b, ",\"type\":");
	kp_json_w_str(b, kp_str_c(kp_code_openai_type(err->code)));
	kp_buf_lit(b, ",\"param\":");
	str_or_null(b, err->param);
	kp_buf_lit(b, ",\"code\":");
	str_or_null(b, err->reason);
	kp_buf_lit(b, "}}");
}
