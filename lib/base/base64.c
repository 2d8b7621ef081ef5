/* DESIGN: four characters at a time by four tables, whose entries stand at the place of their bits; a character that is none sets a bit
   above the 24, and that is looked at once for all. */
#include "base/base64.h"

enum { BAD = 1 << 24 };

static uint32_t value_of(uint8_t c)
{
	if (c >= 'A' && c <= 'Z') {
		return c - 'A';
	}
	if (c >= 'a' && c <= 'z') {
		return c - 'a' + 26u;
	}
	if (c >= '0' && c <= '9') {
		return c - '0' + 52u;
	}
	return c == '+' ? 62 : c == '/' ? 63 : BAD;
}

static void put(uint8_t *to, uint32_t v)
{
	to[0] = (uint8_t)(v >> 16);
	to[1] = (uint8_t)(v >> 8);
	to[2] = (uint8_t)v;
}

ptrdiff_t kp_base64_decode(kp_str text, uint8_t *ret)
{
	const uint8_t *p = (const uint8_t *)text.p;
	uint32_t table[256], bad = 0;
	if (text.n % 4) {
		return -1;
	}
	if (text.n == 0) {
		return 0;
	}
	for (unsigned c = 0; c < 256; c++) {
		table[c] = value_of((uint8_t)c);
	}
	size_t whole = text.n / 4 - 1; /* the last four may have padding */
	for (size_t i = 0; i < whole; i++, p += 4) {
		uint32_t a = table[p[0]], b = table[p[1]], c = table[p[2]], d = table[p[3]];
		bad |= a | b | c | d;
		put(ret + 3 * i, (a & 63) << 18 | (b & 63) << 12 | (c & 63) << 6 | (d & 63));
	}
	unsigned padding = p[3] == '=' ? 1 + (p[2] == '=') : 0;
	uint32_t c = padding == 2 ? 0 : table[p[2]], d = padding ? 0 : table[p[3]];
	bad |= table[p[0]] | table[p[1]] | c | d;
	if (bad & BAD) {
		return -1;
	}
	put(ret + 3 * whole, table[p[0]] << 18 | table[p[1]] << 12 | c << 6 | d);
	return (ptrdiff_t)(3 * whole + 3 - padding);
}
