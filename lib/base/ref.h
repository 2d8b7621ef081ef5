/* Atomic reference count for immutable shared objects (snapshots, tokenizers). */
#ifndef KP_BASE_REF_H
#define KP_BASE_REF_H

#include "base/macros.h"

#include <stdatomic.h>

struct kp_refcount {
	atomic_uint n;
};

static inline void kp_ref_init(struct kp_refcount *r)
{
	atomic_init(&r->n, 1);
}
static inline void kp_ref_get(struct kp_refcount *r)
{
	/* Relaxed: who takes a reference already holds one, so the object is visible. */
	unsigned before = atomic_fetch_add_explicit(&r->n, 1, memory_order_relaxed);
	KP_BUG_ON(before == 0);
}
/* true: the caller dropped the last one and must destroy the object. */
static inline bool kp_ref_put(struct kp_refcount *r)
{
	unsigned before = atomic_fetch_sub_explicit(&r->n, 1, memory_order_acq_rel);
	KP_BUG_ON(before == 0);
	return before == 1;
}

#endif
