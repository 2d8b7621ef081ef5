/* DESIGN: a loop over argv; options are long and take their value as the next word or behind `=`.
 */
#include "bench/common/options.h"

#include "base/str.h"

#include <stdio.h>

static void help_line(const char *name, const char *value, const char *text)
{
	char left[64];
	snprintf(left, sizeof(left), "--%s %s", name, value ? value : "");
	printf("  %-26s %s\n", left, text);
}

void kp_options_help(const struct kp_option *table, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		help_line(table[i].name, table[i].value, table[i].help);
	}
	help_line("help", NULL, "this text");
}

static const struct kp_option *find(const struct kp_option *table, size_t n, kp_str name)
{
	for (size_t i = 0; i < n; i++) {
		if (kp_str_eq(kp_str_c(table[i].name), name)) {
			return &table[i];
		}
	}
	return NULL;
}

int kp_options_parse(int argc, char **argv, const struct kp_option *table, size_t n,
	int (*apply)(void *ctx, const struct kp_option *o, const char *z, struct kp_err *err),
	void *ctx, struct kp_err *err)
{
	for (int i = 1; i < argc; i++) {
		kp_str arg = kp_str_c(argv[i]);
		if (kp_str_eq(arg, KP_S("--help"))) {
			return 1;
		}
		ptrdiff_t eq = kp_str_find_char(arg, '=');
		kp_str name = eq < 0 ? arg : kp_str_sub(arg, 0, (size_t)eq);
		const struct kp_option *o = kp_str_starts(name, KP_S("--"))
						    ? find(table, n, kp_str_skip(name, 2))
						    : NULL;
		if (!o || (eq >= 0 && !o->value)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read `%s`: no such argument, see --help", argv[i]);
		}
		const char *z = eq >= 0 ? argv[i] + eq + 1 : NULL;
		if (o->value && !z) {
			if (i + 1 == argc) {
				return kp_err_set(err, KP_INVALID_ARGUMENT,
					"read --%s: needs a value", o->name);
			}
			z = argv[++i];
		}
		if (apply(ctx, o, z, err) < 0) {
			return -1;
		}
	}
	return 0;
}

int kp_option_number(const struct kp_option *o, const char *z, uint64_t min, uint64_t max,
	uint64_t *ret, struct kp_err *err)
{
	uint64_t v = 0;
	if (!kp_str_u64(kp_str_c(z), max, &v) || v < min) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"read --%s `%s`: not a number from %llu to %llu", o->name, z,
			(unsigned long long)min, (unsigned long long)max);
	}
	*ret = v;
	return 0;
}

int kp_option_u32(const struct kp_option *o, const char *z, uint32_t min, uint32_t max,
	uint32_t *ret, struct kp_err *err)
{
	uint64_t v = 0;
	if (kp_option_number(o, z, min, max, &v, err) < 0) {
		return -1;
	}
	*ret = (uint32_t)v;
	return 0;
}
