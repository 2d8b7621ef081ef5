/* DESIGN: one small matcher for each format, over the whole string: no regular expressions, no allocation but for `regex` itself. */
#include "jsonschema/internal.h"

static bool is_hex(char c)
{
	return kp_is_digit(c) || (kp_lower(c) >= 'a' && kp_lower(c) <= 'f');
}

static bool is_alpha(char c)
{
	return kp_lower(c) >= 'a' && kp_lower(c) <= 'z';
}

/* n digits at the front of *s, taken off; -1: they are not there. */
static int take_digits(kp_str *s, size_t n)
{
	int v = 0;
	if (s->n < n) {
		return -1;
	}
	for (size_t i = 0; i < n; i++) {
		if (!kp_is_digit(s->p[i])) {
			return -1;
		}
		v = v * 10 + (s->p[i] - '0');
	}
	*s = kp_str_skip(*s, n);
	return v;
}

static bool take(kp_str *s, char c)
{
	if (s->n == 0 || s->p[0] != c) {
		return false;
	}
	*s = kp_str_skip(*s, 1);
	return true;
}

static bool take_date(kp_str *s) /* RFC 3339, full-date */
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int y = take_digits(s, 4), m, d;
	if (y < 0 || !take(s, '-') || (m = take_digits(s, 2)) < 1 || m > 12 || !take(s, '-') ||
		(d = take_digits(s, 2)) < 1) {
		return false;
	}
	bool leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
	return d <= days[m - 1] + (m == 2 && leap);
}

static bool take_time(kp_str *s) /* RFC 3339, full-time; a leap second only where it may be */
{
	int h = take_digits(s, 2), m, sec, off_h = 0, off_m = 0, sign = 1;
	if (h < 0 || h > 23 || !take(s, ':') || (m = take_digits(s, 2)) < 0 || m > 59 ||
		!take(s, ':') || (sec = take_digits(s, 2)) < 0 || sec > 60) {
		return false;
	}
	if (take(s, '.')) {
		if (take_digits(s, 1) < 0) {
			return false;
		}
		while (take_digits(s, 1) >= 0) {
		}
	}
	if (!take(s, 'Z') && !take(s, 'z')) {
		sign = take(s, '-') ? -1 : take(s, '+') ? 1 : 0;
		if (!sign || (off_h = take_digits(s, 2)) < 0 || off_h > 23 || !take(s, ':') ||
			(off_m = take_digits(s, 2)) < 0 || off_m > 59) {
			return false;
		}
	}
	int utc = (h * 60 + m - sign * (off_h * 60 + off_m) + 2880) % 1440;
	return sec < 60 || utc == 1439;
}

static bool is_date(kp_str s)
{
	return take_date(&s) && s.n == 0;
}

static bool is_time(kp_str s)
{
	return take_time(&s) && s.n == 0;
}

static bool is_date_time(kp_str s)
{
	return take_date(&s) && (take(&s, 'T') || take(&s, 't')) && take_time(&s) && s.n == 0;
}

/* RFC 3339, appendix A: units in order without holes in the date (P1Y1D is none), or weeks alone. */
static bool take_units(kp_str *s, const char *units, unsigned *ret_n)
{
	int last = -1;
	*ret_n = 0;
	while (s->n && kp_is_digit(s->p[0])) {
		while (take_digits(s, 1) >= 0) {
		}
		const char *unit = s->n && s->p[0] ? strchr(units, s->p[0]) : NULL;
		if (!unit || (last >= 0 && unit - units != last + 1)) {
			return false;
		}
		last = (int)(unit - units);
		*s = kp_str_skip(*s, 1);
		++*ret_n;
	}
	return true;
}

static bool is_duration(kp_str s)
{
	unsigned n, m = 0;
	if (!take(&s, 'P')) {
		return false;
	}
	kp_str weeks = s;
	if (take_units(&weeks, "W", &n) && n == 1) {
		return weeks.n == 0;
	}
	if (!take_units(&s, "YMD", &n)) {
		return false;
	}
	if (take(&s, 'T') && (!take_units(&s, "HMS", &m) || m == 0)) {
		return false;
	}
	return n + m > 0 && s.n == 0;
}

static bool is_hostname(kp_str s) /* RFC 1123 */
{
	kp_str rest = s, label;
	if (s.n == 0 || s.n > 253) {
		return false;
	}
	while (kp_str_split(&rest, '.', &label)) {
		if (label.n == 0 || label.n > 63 || label.p[0] == '-' ||
			label.p[label.n - 1] == '-') {
			return false;
		}
		for (size_t i = 0; i < label.n; i++) {
			if (!is_alpha(label.p[i]) && !kp_is_digit(label.p[i]) &&
				label.p[i] != '-') {
				return false;
			}
		}
		if (label.n >= 4 && label.p[2] == '-' && label.p[3] == '-' &&
			!kp_str_starts(label, KP_S("xn"))) {
			return false;
		}
	}
	return true;
}

static bool is_ipv4(kp_str s)
{
	kp_str rest = s, part;
	unsigned n = 0;
	uint64_t v;
	while (kp_str_split(&rest, '.', &part)) {
		if (part.n == 0 || part.n > 3 || (part.n > 1 && part.p[0] == '0') ||
			!kp_str_u64(part, 255, &v)) {
			return false;
		}
		n++;
	}
	return n == 4;
}

static bool is_ipv6(kp_str s)
{
	unsigned groups = 0;
	bool gap = false;
	if (kp_str_starts(s, KP_S("::"))) {
		gap = true;
		s = kp_str_skip(s, 2);
	}
	while (s.n) {
		size_t n = 0;
		while (n < s.n && n < 5 && is_hex(s.p[n])) {
			n++;
		}
		if (n < s.n && s.p[n] == '.') {
			groups += 2;
			return is_ipv4(s) && (gap ? groups < 8 : groups == 8);
		}
		if (n == 0 || n > 4) {
			return false;
		}
		groups++;
		s = kp_str_skip(s, n);
		if (kp_str_starts(s, KP_S("::"))) {
			if (gap) {
				return false;
			}
			gap = true;
			s = kp_str_skip(s, 2);
		} else if (s.n && (!take(&s, ':') || s.n == 0)) {
			return false;
		}
	}
	return gap ? groups < 8 : groups == 8;
}

static bool is_email(kp_str s) /* RFC 5321, Mailbox */
{
	static const char others[] = "!#$%&'*+-/=?^_`{|}~";
	ptrdiff_t at = kp_str_rfind_char(s, '@');
	if (at <= 0) {
		return false;
	}
	kp_str local = kp_str_sub(s, 0, (size_t)at), host = kp_str_skip(s, (size_t)at + 1);
	if (local.n >= 2 && local.p[0] == '"' && local.p[local.n - 1] == '"') {
		for (size_t i = 1; i + 1 < local.n; i++) {
			i += local.p[i] == '\\';
			if ((unsigned char)local.p[i] < 0x20 || i + 1 >= local.n ||
				(local.p[i] == '"' && local.p[i - 1] != '\\')) {
				return false;
			}
		}
	} else {
		for (size_t i = 0; i < local.n; i++) {
			char c = local.p[i];
			bool dot = c == '.' && i > 0 && i + 1 < local.n && local.p[i - 1] != '.';
			if (!dot && !is_alpha(c) && !kp_is_digit(c) && !(c && strchr(others, c))) {
				return false;
			}
		}
	}
	if (kp_str_starts(host, KP_S("[")) && kp_str_ends(host, KP_S("]"))) {
		kp_str inner = kp_str_sub(host, 1, host.n - 1);
		return kp_str_starts(inner, KP_S("IPv6:")) ? is_ipv6(kp_str_skip(inner, 5))
							   : is_ipv4(inner);
	}
	return is_hostname(host);
}

static bool is_uuid(kp_str s) /* RFC 4122 */
{
	for (size_t i = 0; i < s.n; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		if (dash ? s.p[i] != '-' : !is_hex(s.p[i])) {
			return false;
		}
	}
	return s.n == 36;
}

static bool is_json_pointer(kp_str s)
{
	if (s.n && s.p[0] != '/') {
		return false;
	}
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '~' && (i + 1 >= s.n || (s.p[i + 1] != '0' && s.p[i + 1] != '1'))) {
			return false;
		}
	}
	return true;
}

static bool is_relative_json_pointer(kp_str s)
{
	size_t n = 0;
	while (n < s.n && kp_is_digit(s.p[n])) {
		n++;
	}
	if (n == 0 || (n > 1 && s.p[0] == '0')) {
		return false;
	}
	s = kp_str_skip(s, n);
	return kp_str_eq(s, KP_S("#")) || is_json_pointer(s);
}

/* RFC 3986's characters of a part; % with two hexadecimal digits. */
static bool uri_chars(kp_str s, const char *more)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (c == '%') {
			if (i + 2 >= s.n || !is_hex(s.p[i + 1]) || !is_hex(s.p[i + 2])) {
				return false;
			}
			i += 2;
		} else if (!is_alpha(c) && !kp_is_digit(c) &&
			   !(c && (strchr("-._~!$&'()*+,;=", c) || strchr(more, c)))) {
			return false;
		}
	}
	return true;
}

static bool is_authority(kp_str s)
{
	ptrdiff_t at = kp_str_rfind_char(s, '@');
	if (at >= 0 && !uri_chars(kp_str_sub(s, 0, (size_t)at), ":")) {
		return false;
	}
	s = kp_str_skip(s, (size_t)(at + 1));
	kp_str port = KP_S("");
	if (s.n && s.p[0] == '[') {
		ptrdiff_t end = kp_str_find_char(s, ']');
		if (end < 0 || !is_ipv6(kp_str_sub(s, 1, (size_t)end))) {
			return false;
		}
		port = kp_str_skip(s, (size_t)end + 1);
		if (port.n && !take(&port, ':')) {
			return false;
		}
	} else {
		ptrdiff_t colon = kp_str_find_char(s, ':');
		port = colon < 0 ? port : kp_str_skip(s, (size_t)colon + 1);
		if (!uri_chars(colon < 0 ? s : kp_str_sub(s, 0, (size_t)colon), "")) {
			return false;
		}
	}
	for (size_t i = 0; i < port.n; i++) {
		if (!kp_is_digit(port.p[i])) {
			return false;
		}
	}
	return true;
}

static bool is_reference(kp_str s, bool absolute)
{
	ptrdiff_t at = kp_str_find_char(s, '#');
	if (at >= 0) {
		if (!uri_chars(kp_str_skip(s, (size_t)at + 1), ":@/?")) {
			return false;
		}
		s = kp_str_sub(s, 0, (size_t)at);
	}
	at = kp_str_find_char(s, '?');
	if (at >= 0) {
		if (!uri_chars(kp_str_skip(s, (size_t)at + 1), ":@/?")) {
			return false;
		}
		s = kp_str_sub(s, 0, (size_t)at);
	}
	ptrdiff_t colon = kp_str_find_char(s, ':'), slash = kp_str_find_char(s, '/');
	bool scheme = colon > 0 && (slash < 0 || colon < slash);
	for (ptrdiff_t i = 0; scheme && i < colon; i++) {
		char c = s.p[i];
		scheme = is_alpha(c) || (i && (kp_is_digit(c) || c == '+' || c == '-' || c == '.'));
	}
	if (scheme) {
		s = kp_str_skip(s, (size_t)colon + 1);
	} else if (absolute || (colon >= 0 && (slash < 0 || colon < slash))) {
		return false;
	}
	if (kp_str_starts(s, KP_S("//"))) {
		s = kp_str_skip(s, 2);
		slash = kp_str_find_char(s, '/');
		if (!is_authority(slash < 0 ? s : kp_str_sub(s, 0, (size_t)slash))) {
			return false;
		}
		s = slash < 0 ? KP_S("") : kp_str_skip(s, (size_t)slash);
	}
	return uri_chars(s, ":@/");
}

static bool is_uri(kp_str s)
{
	return is_reference(s, true);
}

static bool is_uri_reference(kp_str s)
{
	return is_reference(s, false);
}

static bool is_regex(kp_str s)
{
	struct kp_js_regex *re = NULL;
	struct kp_err err = KP_ERR_INIT;
	int r = kp_js_regex_compile(s, &re, &err);
	kp_js_regex_destroy(r ? NULL : re);
	return r == 0;
}

static const struct {
	const char *name;
	bool (*ok)(kp_str);
} formats[] = { { "date-time", is_date_time }, { "date", is_date }, { "time", is_time },
	{ "duration", is_duration }, { "email", is_email }, { "hostname", is_hostname },
	{ "ipv4", is_ipv4 }, { "ipv6", is_ipv6 }, { "uri", is_uri },
	{ "uri-reference", is_uri_reference }, { "uuid", is_uuid },
	{ "json-pointer", is_json_pointer }, { "relative-json-pointer", is_relative_json_pointer },
	{ "regex", is_regex } };

uint8_t kp_js_format_find(kp_str name)
{
	for (size_t i = 0; i < KP_LEN(formats); i++) {
		if (kp_str_eq(name, kp_str_c(formats[i].name))) {
			return (uint8_t)(i + 1);
		}
	}
	return 0;
}

bool kp_js_format_ok(uint8_t format, kp_str s)
{
	return formats[format - 1].ok(s);
}
