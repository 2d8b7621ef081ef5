/* DESIGN: one small matcher per pattern of patterns.def, exact for every byte string; the oracle asks Go's regexp the same questions. */
#include "schema/names.h"
#include "schema/schema.h"

static bool match_dns_subdomain(kp_str s)
{
	return kp_has_dns_subdomain_shape(s);
}

static bool match_dns_subdomain_or_empty(kp_str s)
{
	return s.n == 0 || kp_has_dns_subdomain_shape(s);
}

static bool is_letter(char c)
{
	return kp_lower(c) >= 'a' && kp_lower(c) <= 'z';
}

static bool match_kind(kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (!is_letter(s.p[i]) && !kp_is_digit(s.p[i]) && s.p[i] != '-') {
			return false;
		}
	}
	return s.n && is_letter(s.p[0]) && s.p[s.n - 1] != '-';
}

static bool match_label_value(kp_str s)
{
	return s.n == 0 || kp_has_name_shape(s);
}

static bool match_printable(kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '!' || s.p[i] > '~') {
			return false;
		}
	}
	return s.n != 0;
}

static bool match_secret_key(kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = kp_lower(s.p[i]);
		if (!(c >= 'a' && c <= 'z') && !kp_is_digit(c) && c != '-' && c != '.' &&
			c != '_') {
			return false;
		}
	}
	return s.n != 0;
}

static bool match_absolute_path(kp_str s)
{
	return kp_str_starts(s, KP_S("/")) && kp_str_find_char(s, '\0') < 0;
}

static size_t digits(kp_str s)
{
	size_t n = 0;
	while (n < s.n && kp_is_digit(s.p[n])) {
		n++;
	}
	return n;
}

static bool is_quantity_unit(kp_str s)
{
	if (s.n == 2 && s.p[1] == 'i') {
		return kp_str_find_char(KP_S("KMGTPE"), s.p[0]) >= 0;
	}
	if (s.n > 1 && (s.p[0] == 'e' || s.p[0] == 'E')) {
		s = kp_str_skip(s, s.p[1] == '-' || s.p[1] == '+' ? 2 : 1);
		return s.n && digits(s) == s.n;
	}
	return s.n == 0 || (s.n == 1 && kp_str_find_char(KP_S("numkMGTPE"), s.p[0]) >= 0);
}

static bool match_quantity(kp_str s)
{
	size_t whole = digits(s);
	bool has_point = whole < s.n && s.p[whole] == '.';
	size_t fraction = has_point ? digits(kp_str_skip(s, whole + 1)) : 0;
	return whole + fraction && is_quantity_unit(kp_str_skip(s, whole + has_point + fraction));
}

#define KP_PATTERN(name, regex)                                             \
	const struct kp_schema_pattern kp_pattern_##name = { .text = regex, \
		.matches = match_##name };
#include "schema/patterns.def"
#undef KP_PATTERN
