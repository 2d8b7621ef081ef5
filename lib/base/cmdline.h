/* A program's command line, by one table: `--name VALUE` or `--name=VALUE`, `--help` (or `-h`) and
   `--version`. Every value is checked where it is read, and an error names the option. Strings are
   not copied, they point into argv. */
#ifndef KP_BASE_CMDLINE_H
#define KP_BASE_CMDLINE_H

#include "base/buf.h"

enum kp_option_type {
	KP_OPTION_STRING = 0, /* const char * */
	KP_OPTION_STRINGS,    /* struct kp_strings: repeatable, at most `max` times */
	KP_OPTION_U32,        /* uint32_t, min..max */
	KP_OPTION_SECONDS,    /* int64_t nanoseconds; whole seconds are given, min..max */
	KP_OPTION_FLAG,       /* bool: it is given; has no value (`value` is "") */
	KP_OPTION_CHOICE,     /* an enum: the index of the word in `choices` */
};

enum { KP_STRINGS_MAX = 64 };
struct kp_strings {
	const char *p[KP_STRINGS_MAX];
	size_t n;
};

struct kp_cmdline_option {
	const char *name, *value, *help; /* "--listen", "HOST:PORT", what it is for */
	enum kp_option_type type;
	size_t offset; /* of its value in the program's struct */
	uint32_t min, max;
	const char *const *choices; /* by their enum's value, NULL behind the last */
};
struct kp_cmdline {
	const char *program, *what; /* "kelpie-sidecar", "the Kelpie gateway" */
	const char *usage;          /* "--manifests PATH [options]" */
	const struct kp_cmdline_option *options;
	size_t n;
	void (*version)(struct kp_buf *out); /* what --version prints */
};

/* Sets the values in `config` that are given, leaves the others. 0: run; 1: --help or --version was
 * printed; -1: err says which argument is wrong, and config is not to be used. */
int kp_cmdline_parse(const struct kp_cmdline *c, int argc, char **argv, void *config,
	struct kp_err *err) KP_MUST_USE;

#endif
