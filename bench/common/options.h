/* Command lines of the programs in bench/: one table that is also --help. */
#ifndef KP_BENCH_OPTIONS_H
#define KP_BENCH_OPTIONS_H

#include "base/err.h"

struct kp_option {
	const char *name;         /* without the dashes */
	int opt;                  /* the caller's number for it, not 0 */
	const char *value, *help; /* value NULL: takes none */
};

/* --name VALUE  help, a line each. */
void kp_options_help(const struct kp_option *table, size_t n);
/* apply is called for each option in order, z is its value or NULL. `--help` is known without being
   in the table. 0, 1 (--help was asked for) or -1. */
int kp_options_parse(int argc, char **argv, const struct kp_option *table, size_t n,
	int (*apply)(void *ctx, const struct kp_option *o, const char *z, struct kp_err *err),
	void *ctx, struct kp_err *err) KP_MUST_USE;
/* A whole number from min to max. */
int kp_option_number(const struct kp_option *o, const char *z, uint64_t min, uint64_t max,
	uint64_t *ret, struct kp_err *err) KP_MUST_USE;
int kp_option_u32(const struct kp_option *o, const char *z, uint32_t min, uint32_t max,
	uint32_t *ret, struct kp_err *err) KP_MUST_USE;

#endif
