/* Token ids: 32-bit, as the engines' protocols have them. kp_ids is a growable array with a
 * maximum, sticky `failed` like kp_buf. */
#ifndef KP_CORE_IDS_H
#define KP_CORE_IDS_H

#include "base/err.h"

typedef uint32_t kp_id; /* the one integer typedef: an id is never arithmetic */

struct kp_ids {
	kp_id *p;
	size_t n, cap, max;
	bool failed;
};

void kp_ids_init(struct kp_ids *v, size_t max);
void kp_ids_fini(struct kp_ids *v);
bool kp_ids_reserve_slow(struct kp_ids *v, size_t extra);
static inline bool kp_ids_reserve(struct kp_ids *v, size_t extra)
{
	return KP_LIKELY(!v->failed && v->cap - v->n >= extra) || kp_ids_reserve_slow(v, extra);
}
static inline void kp_ids_add(struct kp_ids *v, kp_id id)
{
	if (kp_ids_reserve(v, 1)) {
		v->p[v->n++] = id;
	}
}
static inline void kp_ids_reset(struct kp_ids *v)
{
	v->n = 0;
	v->failed = false;
}
static inline void kp_auto_ids(struct kp_ids *v)
{
	kp_ids_fini(v);
}

#endif
