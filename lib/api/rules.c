/* DESIGN: one function per rule of rules.def, written to be compared with its CEL text line by line. has(self.x) is a member that is there
   (nulls are gone by then). The oracle gives both sides the same objects. */
#include "api/rules.h"
#include "json/jansson.h"
#include "schema/names.h"

static bool is(const json_t *object, const char *key, kp_str value)
{
	return kp_str_eq(kp_doc_str(object, key), value);
}

static bool has(const json_t *object, const char *key)
{
	return json_object_get(object, key) != NULL;
}

bool kp_rule_ports_unique(const json_t *self)
{
	for (size_t i = 0; i < json_array_size(self); i++) {
		double port = json_number_value(json_object_get(json_array_get(self, i), "number"));
		for (size_t j = 0; j < i; j++) {
			if (json_number_value(json_object_get(json_array_get(self, j), "number")) ==
				port) {
				return false;
			}
		}
	}
	return true;
}

bool kp_rule_picker_has_port(const json_t *self)
{
	return !is(self, "kind", KP_S("Service")) || has(self, "port");
}

bool kp_rule_aliases_without_name(const json_t *self)
{
	const json_t *aliases = json_object_get(self, "aliases");
	kp_str name = kp_doc_str(self, "name");
	for (size_t i = 0; i < json_array_size(aliases); i++) {
		const json_t *alias = json_array_get(aliases, i);
		if (kp_str_eq(
			    kp_str_n(json_string_value(alias), json_string_length(alias)), name)) {
			return false;
		}
	}
	return true;
}

bool kp_rule_path_when_source_path(const json_t *self)
{
	return !is(self, "source", KP_S("Path")) || has(self, "path");
}

bool kp_rule_path_only_when_source_path(const json_t *self)
{
	return is(self, "source", KP_S("Path")) || !has(self, "path");
}

/* The last label of a DNS name is not all digits, or the name would be taken for an IPv4 address somewhere. */
static bool ends_in_number(kp_str s)
{
	kp_str last = kp_str_skip(s, (size_t)(kp_str_rfind_char(s, '.') + 1));
	for (size_t i = 0; i < last.n; i++) {
		if (!kp_is_digit(last.p[i])) {
			return false;
		}
	}
	return last.n != 0;
}

bool kp_rule_address(const json_t *self)
{
	kp_str s = kp_str_n(json_string_value(self), json_string_length(self));
	return kp_is_ip(s) || (kp_has_dns_subdomain_shape(s) && !ends_in_number(s));
}

bool kp_rule_one_source(const json_t *self)
{
	return has(self, "template") + has(self, "workloadRef") + has(self, "endpoints") <= 1;
}

bool kp_rule_http_url(const json_t *self)
{
	kp_str url = kp_str_n(json_string_value(self), json_string_length(self));
	return kp_str_starts(url, KP_S("https://")) || kp_str_starts(url, KP_S("http://"));
}

bool kp_rule_value_or_secret(const json_t *self)
{
	return has(self, "value") != has(self, "secretKeyRef");
}
