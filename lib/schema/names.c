/* DESIGN: the regular expressions of k8s.io/apimachinery/pkg/util/validation, each as a loop over bytes. Pure functions. */
#include "schema/names.h"

#include <arpa/inet.h>
#include <stdio.h>

static bool is_lower(char c)
{
	return (c >= 'a' && c <= 'z') || kp_is_digit(c);
}

static bool is_alnum(char c)
{
	return is_lower(kp_lower(c));
}

/* [a-z0-9]([-a-z0-9]*[a-z0-9])? */
static bool label_shape(kp_str s)
{
	if (s.n == 0 || !is_lower(s.p[0]) || !is_lower(s.p[s.n - 1])) {
		return false;
	}
	for (size_t i = 0; i < s.n; i++) {
		if (!is_lower(s.p[i]) && s.p[i] != '-') {
			return false;
		}
	}
	return true;
}

bool kp_has_dns_subdomain_shape(kp_str s)
{
	kp_str part;
	if (s.n == 0) {
		return false;
	}
	while (kp_str_split(&s, '.', &part)) {
		if (!label_shape(part)) {
			return false;
		}
	}
	return true;
}

bool kp_has_name_shape(kp_str s)
{
	if (s.n == 0 || !is_alnum(s.p[0]) || !is_alnum(s.p[s.n - 1])) {
		return false;
	}
	for (size_t i = 0; i < s.n; i++) {
		if (!is_alnum(s.p[i]) && !memchr("-_.", s.p[i], 3)) {
			return false;
		}
	}
	return true;
}

bool kp_is_dns_label(kp_str s)
{
	return s.n <= 63 && label_shape(s);
}

bool kp_is_dns_subdomain(kp_str s)
{
	return s.n <= 253 && kp_has_dns_subdomain_shape(s);
}

bool kp_is_label_value(kp_str s)
{
	return s.n <= 63 && (s.n == 0 || kp_has_name_shape(s));
}

bool kp_is_qualified_name(kp_str s)
{
	ptrdiff_t slash = kp_str_find_char(s, '/');
	if (slash >= 0 && !kp_is_dns_subdomain(kp_str_sub(s, 0, (size_t)slash))) {
		return false;
	}
	kp_str name = kp_str_skip(s, (size_t)(slash + 1));
	return name.n <= 63 && kp_has_name_shape(name);
}

bool kp_is_ip(kp_str s)
{
	char z[INET6_ADDRSTRLEN + 1];
	struct in6_addr a6;
	struct in_addr a4;
	if (s.n == 0 || s.n >= sizeof(z) || kp_str_find_char(s, '\0') >= 0) {
		return false;
	}
	memcpy(z, s.p, s.n);
	z[s.n] = '\0';
	if (inet_pton(AF_INET, z, &a4) == 1) {
		return true;
	}
	return inet_pton(AF_INET6, z, &a6) == 1 && !IN6_IS_ADDR_V4MAPPED(&a6);
}

static const char subdomain_text[] =
	"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
	"start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
	"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
static const char label_text[] =
	"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
	"end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
	"'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
static const char value_text[] =
	"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
	"start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
	"for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
#define NAME_RULE                                                                                   \
	"must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an " \
	"alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "      \
	"validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"

/* Both errors of a name in one place: the length, then the shape. */
static void check(struct kp_field_errors *e, kp_str shown, const char *part, kp_str s, size_t max,
	bool shape, const char *text)
{
	if (s.n > max) {
		kp_field_add_str(e, KP_FIELD_INVALID, shown,
			"%smust be no more than %zu characters", part, max);
	}
	if (!shape) {
		kp_field_add_str(e, KP_FIELD_INVALID, shown, "%s%s", part, text);
	}
}

void kp_name_check_subdomain(struct kp_field_errors *e, kp_str s)
{
	check(e, s, "", s, 253, kp_has_dns_subdomain_shape(s), subdomain_text);
}

void kp_name_check_dns_label(struct kp_field_errors *e, kp_str s)
{
	check(e, s, "", s, 63, label_shape(s),
		kp_has_dns_subdomain_shape(s) ? "must not contain dots" : label_text);
}

void kp_name_check_label_value(struct kp_field_errors *e, kp_str s)
{
	check(e, s, "", s, 63, s.n == 0 || kp_has_name_shape(s), value_text);
}

void kp_name_check_qualified(struct kp_field_errors *e, kp_str s, kp_str shown)
{
	ptrdiff_t slash = kp_str_find_char(s, '/');
	kp_str prefix = kp_str_sub(s, 0, slash < 0 ? 0 : (size_t)slash);
	kp_str name = kp_str_skip(s, (size_t)(slash + 1));
	if (kp_str_find_char(name, '/') >= 0) {
		kp_field_add_str(e, KP_FIELD_INVALID, shown,
			"a qualified name " NAME_RULE
			" with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
		return;
	}
	if (slash == 0) {
		kp_field_add_str(e, KP_FIELD_INVALID, shown, "prefix part must be non-empty");
	} else if (slash > 0) {
		check(e, shown, "prefix part ", prefix, 253, kp_has_dns_subdomain_shape(prefix),
			subdomain_text);
	}
	if (name.n == 0) {
		kp_field_add_str(e, KP_FIELD_INVALID, shown, "name part must be non-empty");
	}
	check(e, shown, "name part ", name, 63, kp_has_name_shape(name), NAME_RULE);
}
