/* Memory of /dev/shm that another process of the node may be given: a file without a name, which dies with us, until kp_shm_link gives
   it one; who gets the name unlinks it. Every call is about memory and takes microseconds, but for making and filling it. */
#ifndef KP_BASE_SHM_H
#define KP_BASE_SHM_H

#include "base/err.h"
#include "base/str.h"

struct kp_shm {
	void *p; /* NULL: none */
	size_t n;
	int fd;
};

/* Zeroed memory that is there: RESOURCE_EXHAUSTED when /dev/shm is full. Who may read it: the user alone where anybody may have
   files in the folder (it is sticky), else, in a pod's own, everybody. */
int kp_shm_create(struct kp_shm *s, size_t n, struct kp_err *err) KP_MUST_USE;
void kp_shm_fini(struct kp_shm *s); /* zeroed is fine */
/* bytes to s->p + at, by a call: pages that nobody touches through s->p are not mapped, nor zeroed before, which takes twice as long as writing them. */
int kp_shm_write(const struct kp_shm *s, size_t at, kp_str bytes, struct kp_err *err) KP_MUST_USE;
/* Once more under this name, of letters, digits and "-". NOT_FOUND: it had names, and the last one is gone. */
int kp_shm_link(const struct kp_shm *s, const char *name, struct kp_err *err) KP_MUST_USE;
void kp_shm_unlink(const char *name); /* one that is not there is fine */

/* "BOOT-ID:DEVICE": processes for which it is the same share /dev/shm. "" where that cannot be said. Static. */
const char *kp_shm_namespace(void);

/* Names of one process: "kelpie-ID-N". They are taken away when it is gone, however it went: a lock on "kelpie-ID.lock", which only it
   can hold, says that it lives. */
struct kp_shm_owner {
	char id[16];
	int lock; /* -1: none */
};
int kp_shm_owner_open(struct kp_shm_owner *o, struct kp_err *err) KP_MUST_USE;
void kp_shm_owner_close(struct kp_shm_owner *o); /* with all its names */
/* The names of processes that are gone. How many it were. */
size_t kp_shm_reap(void);

#endif
