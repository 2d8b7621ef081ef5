/* A JSON number, exactly: digits * 10^exp. */
#ifndef KP_JSONSCHEMA_DECIMAL_H
#define KP_JSONSCHEMA_DECIMAL_H

#include "base/str.h"

struct kp_decimal {
	bool negative;
	uint32_t n; /* digits, none of them leading or trailing zeros; 0: zero */
	int64_t exp; /* of the last digit; stays within +-10^15, beyond which numbers are not told apart */
	char *digits;
};

/* Reads a JSON number's text; room must hold text.n bytes, and holds the digits. */
void kp_decimal_read(kp_str text, char *room, struct kp_decimal *ret);
int kp_decimal_cmp(const struct kp_decimal *a, const struct kp_decimal *b); /* <0, 0, >0 */
bool kp_decimal_is_integer(const struct kp_decimal *d);
/* The divisor has at most 19 digits below 2^64 and is not zero; kp_decimal_divisor says whether it is so. */
bool kp_decimal_divisor(const struct kp_decimal *d);
bool kp_decimal_is_multiple(const struct kp_decimal *d, const struct kp_decimal *divisor);

#endif
