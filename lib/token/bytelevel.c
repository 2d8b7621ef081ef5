/* DESIGN: GPT-2 writes each byte of a token as one printable character: the printable ones of Latin-1 as themselves, the other 68 as
   U+0100, U+0101, ... in byte order. This is the way back, a table by code point. */
#include "token/internal.h"
#include "base/utf8.h"
#include "token/norm.h"
#include "token/unicode.h"

static bool is_printable(unsigned c)
{
	return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || c >= 174;
}

void kp_bytelevel_init(struct kp_bytelevel *b)
{
	unsigned next = 256;
	for (unsigned c = 0; c < KP_LEN(b->byte); c++) {
		b->byte[c] = -1;
	}
	for (unsigned c = 0; c < 256; c++) {
		b->byte[is_printable(c) ? c : next++] = (int16_t)c;
	}
}

bool kp_bytelevel_decode(const struct kp_bytelevel *b, kp_str text, struct kp_buf *out)
{
	const uint8_t *p = (const uint8_t *)text.p, *end = p + text.n;
	size_t start = out->n;
	if (!kp_buf_reserve(out, text.n)) {
		return true; /* the caller sees out->failed */
	}
	while (p < end) {
		size_t n;
		uint32_t cp = kp_uc_get(p, &n);
		if (cp >= KP_LEN(b->byte) || b->byte[cp] < 0) {
			out->n = start;
			return false;
		}
		out->p[out->n++] = (char)b->byte[cp];
		p += n;
	}
	return true;
}

void kp_bytelevel_encode(kp_str bytes, struct kp_buf *out)
{
	for (size_t i = 0; i < bytes.n; i++) {
		unsigned c = (uint8_t)bytes.p[i], cp = c;
		if (!is_printable(c)) {
			cp = c <= 32 ? 256 + c : c < 0xad ? 256 + 33 + (c - 127) : 256 + 67;
		}
		kp_utf8_add(out, cp);
	}
}
