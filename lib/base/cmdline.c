/* DESIGN: one pass over argv; an option's value is written at its offset in the caller's struct. */
#include "base/cmdline.h"

#include "base/clock.h"

#include <stdio.h>

static void print_help(const struct kp_cmdline *c)
{
	printf("%s: %s\n\nusage: %s %s\n\n", c->program, c->what, c->program, c->usage);
	for (size_t i = 0; i < c->n; i++) {
		char head[64];
		snprintf(head, sizeof(head), "%s %s", c->options[i].name, c->options[i].value);
		printf("  %-26s %s\n", head, c->options[i].help);
	}
	printf("  %-26s %s\n  %-26s %s\n", "--version", "print versions", "--help", "this text");
}

static void print_version(const struct kp_cmdline *c)
{
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 1 << 16);
	c->version(&out);
	printf("%" KP_FMT, KP_ARG(kp_buf_str(&out)));
}

static int set_number(
	const struct kp_cmdline_option *o, const char *value, char *at, struct kp_err *err)
{
	uint64_t n;
	if (!kp_str_u64(kp_str_c(value), o->max, &n) || n < o->min) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`%s`: expected a whole number from %u to %u, got `%s`", o->name, o->min,
			o->max, value);
	}
	if (o->type == KP_OPTION_SECONDS) {
		int64_t ns = (int64_t)n * KP_NS_PER_S;
		memcpy(at, &ns, sizeof(ns));
	} else {
		uint32_t u = (uint32_t)n;
		memcpy(at, &u, sizeof(u));
	}
	return 0;
}

static int set_choice(
	const struct kp_cmdline_option *o, const char *value, char *at, struct kp_err *err)
{
	for (int i = 0; o->choices[i]; i++) {
		if (kp_str_eq(kp_str_c(o->choices[i]), kp_str_c(value))) {
			memcpy(at, &i, sizeof(i));
			return 0;
		}
	}
	return kp_err_set(
		err, KP_INVALID_ARGUMENT, "`%s`: unknown value `%s` (%s)", o->name, value, o->help);
}

static int set_option(
	const struct kp_cmdline_option *o, const char *value, void *config, struct kp_err *err)
{
	char *at = (char *)config + o->offset;
	struct kp_strings *many = (void *)at;
	switch (o->type) {
	case KP_OPTION_STRING:
		memcpy(at, &value, sizeof(value));
		return 0;
	case KP_OPTION_STRINGS:
		if (many->n == KP_MIN(o->max, (uint32_t)KP_STRINGS_MAX)) {
			return kp_err_set(
				err, KP_INVALID_ARGUMENT, "`%s`: at most %zu", o->name, many->n);
		}
		many->p[many->n++] = value;
		return 0;
	case KP_OPTION_U32:
	case KP_OPTION_SECONDS:
		return set_number(o, value, at, err);
	case KP_OPTION_CHOICE:
		return set_choice(o, value, at, err);
	case KP_OPTION_FLAG:
		if (value) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"`%s`: takes no value, got `%s`", o->name, value);
		}
		*(bool *)at = true;
		return 0;
	}
	KP_BUG_ON(true); /* a type that is none */
	return -1;
}

static const struct kp_cmdline_option *find(const struct kp_cmdline *c, kp_str name)
{
	for (size_t i = 0; i < c->n; i++) {
		if (kp_str_eq(kp_str_c(c->options[i].name), name)) {
			return &c->options[i];
		}
	}
	return NULL;
}

int kp_cmdline_parse(
	const struct kp_cmdline *c, int argc, char **argv, void *config, struct kp_err *err)
{
	for (int i = 1; i < argc; i++) {
		kp_str arg = kp_str_c(argv[i]);
		if (kp_str_eq(arg, KP_S("--help")) || kp_str_eq(arg, KP_S("-h"))) {
			print_help(c);
			return 1;
		}
		if (kp_str_eq(arg, KP_S("--version"))) {
			print_version(c);
			return 1;
		}
		ptrdiff_t eq = kp_str_find_char(arg, '=');
		const struct kp_cmdline_option *o =
			find(c, eq > 0 ? kp_str_sub(arg, 0, (size_t)eq) : arg);
		if (!o) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"unknown option `%s` (see --help)", argv[i]);
		}
		bool is_alone = o->type == KP_OPTION_FLAG && eq < 0;
		if (eq < 0 && i + 1 == argc && !is_alone) {
			return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: needs a value", o->name);
		}
		const char *value = eq > 0 ? argv[i] + eq + 1 : is_alone ? NULL : argv[++i];
		if (set_option(o, value, config, err)) {
			return -1;
		}
	}
	return 0;
}
