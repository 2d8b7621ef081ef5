/* DESIGN: digits with at most one point, then a suffix: binary (Ki..Ei), decimal (n u m k M G T P E) or an exponent. Kept in thousandths, which
   is as fine as a CPU share gets; what is finer is rounded up, as Kubernetes does. */
#include "inject/quantity.h"

static bool suffix_of(kp_str s, int64_t *ret_multiplier, int64_t *ret_divisor)
{
	static const struct {
		const char *suffix;
		int64_t multiplier, divisor;
	} table[] = { { "", 1, 1 }, { "n", 1, 1000000000 }, { "u", 1, 1000000 }, { "m", 1, 1000 },
		{ "k", 1000, 1 }, { "M", 1000000, 1 }, { "G", 1000000000, 1 },
		{ "T", 1000000000000, 1 }, { "P", 1000000000000000, 1 },
		{ "E", 1000000000000000000, 1 }, { "Ki", INT64_C(1) << 10, 1 },
		{ "Mi", INT64_C(1) << 20, 1 }, { "Gi", INT64_C(1) << 30, 1 },
		{ "Ti", INT64_C(1) << 40, 1 }, { "Pi", INT64_C(1) << 50, 1 },
		{ "Ei", INT64_C(1) << 60, 1 } };
	uint64_t exponent;
	for (size_t i = 0; i < KP_LEN(table); i++) {
		if (kp_str_eq(s, kp_str_c(table[i].suffix))) {
			*ret_multiplier = table[i].multiplier;
			*ret_divisor = table[i].divisor;
			return true;
		}
	}
	if (s.n >= 2 && kp_lower(s.p[0]) == 'e') {
		bool is_signed = s.p[1] == '-' || s.p[1] == '+', is_negative = s.p[1] == '-';
		int64_t *grows = is_negative ? ret_divisor : ret_multiplier;
		if (!kp_str_u64(kp_str_skip(s, is_signed ? 2 : 1), 12, &exponent)) {
			return false;
		}
		*ret_multiplier = 1;
		*ret_divisor = 1;
		while (exponent--) {
			*grows *= 10;
		}
		return true;
	}
	return false;
}

bool kp_quantity_milli(kp_str s, int64_t *ret)
{
	enum { MAX_DIGITS = 15 };
	__extension__ typedef __int128 wide;
	uint64_t digits = 0;
	wide scale = 1;
	size_t i = 0, n_digits = 0;
	bool is_behind = false;
	int64_t multiplier, divisor;
	for (; i < s.n && (kp_is_digit(s.p[i]) || (s.p[i] == '.' && !is_behind)); i++) {
		if (s.p[i] == '.') {
			is_behind = true;
			continue;
		}
		digits = digits * 10 + (uint64_t)(s.p[i] - '0');
		scale *= is_behind ? 10 : 1;
		if (++n_digits > MAX_DIGITS) {
			return false;
		}
	}
	if (n_digits == 0 || !suffix_of(kp_str_skip(s, i), &multiplier, &divisor)) {
		return false;
	}
	wide below = scale * divisor;
	wide milli = ((wide)digits * multiplier * 1000 + below - 1) / below;
	if (milli > ((wide)1 << 53)) {
		return false;
	}
	*ret = (int64_t)milli;
	return true;
}
