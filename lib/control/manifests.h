/* A file or directory of manifests, read and watched. It is looked at, not waited for: kp_manifests_look
   once in KP_MANIFESTS_LOOK_NS, by its owner's timer. Looking (name, size, times and inode of each
   file) sees editors that rename, ConfigMap mounts that swap a symbolic link, and network file systems
   alike. It is read when two looks in a row agree, so that a half-written file is not taken. A set with
   errors is refused as a whole. One thread; blocking. */
#ifndef KP_CONTROL_MANIFESTS_H
#define KP_CONTROL_MANIFESTS_H

#include "control/program.h"
#include "base/clock.h"

#define KP_MANIFESTS_LOOK_NS (250 * KP_NS_PER_MS)

struct kp_manifests {
	const char *path;     /* a file or a directory (*.yaml, *.yml, *.json); borrowed */
	kp_str ns;            /* of objects that name none; borrowed */
	uint64_t seen, taken; /* signatures: at the last look, of the last read */
	struct kp_buf
		errors; /* of the last read, a line each: "    FILE:LINE:COLUMN: error: ..."; "" when it was taken */
	size_t n_errors;
	int64_t read_wall_ns; /* when it was last read well */
};

void kp_manifests_init(struct kp_manifests *m, const char *path, kp_str ns);
void kp_manifests_fini(struct kp_manifests *m);
/* Something new is there, to be read now. */
bool kp_manifests_look(struct kp_manifests *m);
/* Reads and checks the files; `check` (may be NULL) adds the rules between objects: a -1 of it, or an
   error in problems, refuses the set. Every error stands in m->errors and in the log, err is the
   first. *ret: the caller's, kp_object_set_fini. */
int kp_manifests_read(struct kp_manifests *m, struct kp_object_set *ret,
	int (*check)(void *ctx, const struct kp_object_set *set, struct kp_problems *problems,
		struct kp_err *err),
	void *ctx, struct kp_err *err) KP_MUST_USE;

#endif
