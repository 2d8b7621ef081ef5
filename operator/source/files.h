/* Objects from files: read once at the start, and again whenever the files change. What is accepted is
   handed on as a whole; a set with an error is refused, and what was accepted last stays. Loop
   thread; reading blocks it (a manifest set is 16 MiB at most). */
#ifndef OPERATOR_SOURCE_FILES_H
#define OPERATOR_SOURCE_FILES_H

#include "api/manifest.h"
#include "net/loop.h"
#include "obs/metrics.h"

struct kp_files;

struct kp_files_opts {
	const char *path; /* a file or a directory */
	kp_str ns;        /* of objects that name none */
	struct kp_metrics *metrics;
	/* The rules between objects; called for each set that is well-formed. */
	int (*check)(void *ctx, const struct kp_object_set *set, struct kp_problems *problems,
		struct kp_err *err);
	/* The set that was checked last is accepted. Not at the first reading. */
	void (*accepted)(void *ctx);
	/* A changed set was refused: see kp_files_problems. */
	void (*refused)(void *ctx);
	void *ctx;
};
/* Reads; a set that is refused is an error. */
int kp_files_create(struct kp_loop *loop, const struct kp_files_opts *opts, struct kp_files **ret,
	struct kp_err *err) KP_MUST_USE;
void kp_files_destroy(struct kp_files *f); /* NULL is fine */

/* Why the files as they are on disk were refused, a line each, and how many errors there are; "" and
 * 0: they are what was accepted. */
kp_str kp_files_problems(const struct kp_files *f, size_t *ret_n);
int64_t kp_files_accepted_wall_ns(const struct kp_files *f); /* when */

#endif
