/* DESIGN: digits as text, an exponent. A multiple is found by the remainder of the digits, one after the other, and of the power of ten by squaring: no
   number is ever written out. */
#include "jsonschema/decimal.h"

__extension__ typedef unsigned __int128 u128; /* pedantic compilers want the word in front */

static int64_t read_exponent(kp_str s)
{
	bool negative = s.n && s.p[0] == '-';
	int64_t v = 0, most = 1000000000000000;
	for (size_t i = 0; i < s.n; i++) {
		if (kp_is_digit(s.p[i])) {
			v = KP_MIN(v * 10 + (s.p[i] - '0'), most);
		}
	}
	return negative ? -v : v;
}

void kp_decimal_read(kp_str text, char *room, struct kp_decimal *ret)
{
	size_t i = 0, n = 0;
	int64_t exp = 0;
	bool fraction = false;
	struct kp_decimal d = { .negative = text.n && text.p[0] == '-', .digits = room };
	for (i = d.negative; i < text.n && text.p[i] != 'e' && text.p[i] != 'E'; i++) {
		if (text.p[i] == '.') {
			fraction = true;
			continue;
		}
		exp -= fraction;
		if (n || text.p[i] != '0') {
			room[n++] = text.p[i];
		}
	}
	if (i < text.n) {
		exp += read_exponent(kp_str_skip(text, i + 1));
	}
	while (n && room[n - 1] == '0') {
		n--;
		exp++;
	}
	d.n = (uint32_t)n;
	d.exp = n ? exp : 0;
	d.negative = d.negative && n;
	*ret = d;
}

static int cmp_magnitude(const struct kp_decimal *a, const struct kp_decimal *b)
{
	int64_t top_a = a->exp + a->n, top_b = b->exp + b->n;
	if (!a->n || !b->n || top_a != top_b) {
		return !a->n || !b->n ? (a->n != 0) - (b->n != 0) : top_a < top_b ? -1 : 1;
	}
	int r = memcmp(a->digits, b->digits, KP_MIN(a->n, b->n));
	return r ? r : (a->n > b->n) - (a->n < b->n);
}

int kp_decimal_cmp(const struct kp_decimal *a, const struct kp_decimal *b)
{
	if (a->negative != b->negative) {
		return a->negative ? -1 : 1;
	}
	return a->negative ? cmp_magnitude(b, a) : cmp_magnitude(a, b);
}

bool kp_decimal_is_integer(const struct kp_decimal *d)
{
	return d->exp >= 0;
}

static bool to_u64(const struct kp_decimal *d, uint64_t *ret)
{
	return d->n && kp_str_u64(kp_str_n(d->digits, d->n), UINT64_MAX, ret);
}

bool kp_decimal_divisor(const struct kp_decimal *d)
{
	uint64_t v;
	return to_u64(d, &v);
}

static uint64_t mul_mod(uint64_t a, uint64_t b, uint64_t m)
{
	return (uint64_t)((u128)a * b % m);
}

bool kp_decimal_is_multiple(const struct kp_decimal *d, const struct kp_decimal *divisor)
{
	uint64_t m, rest = 0, power = 10;
	if (!d->n) {
		return true;
	}
	if (!to_u64(divisor, &m) || d->exp < divisor->exp) {
		return false; /* its last digit, which is not 0, lies below the divisor's */
	}
	for (uint32_t i = 0; i < d->n; i++) {
		rest = (uint64_t)(((u128)rest * 10 + (unsigned)(d->digits[i] - '0')) % m);
	}
	for (uint64_t e = (uint64_t)(d->exp - divisor->exp); e; e >>= 1) {
		rest = e & 1 ? mul_mod(rest, power % m, m) : rest;
		power = mul_mod(power % m, power % m, m);
	}
	return rest == 0;
}
