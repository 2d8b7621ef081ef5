/* DESIGN: see ids.h; doubling growth within the maximum. */
#include "core/ids.h"
#include "base/mem.h"

void kp_ids_init(struct kp_ids *v, size_t max)
{
	*v = (struct kp_ids){ .max = max };
}

void kp_ids_fini(struct kp_ids *v)
{
	kp_free(&v->p);
	v->n = v->cap = 0;
}

bool kp_ids_reserve_slow(struct kp_ids *v, size_t extra)
{
	size_t need, bytes;
	if (v->failed || !kp_size_add(v->n, extra, &need) || need > v->max) {
		v->failed = true;
		return false;
	}
	size_t cap = KP_MAX(v->cap, (size_t)32);
	while (cap < need) {
		cap *= 2;
	}
	cap = KP_MIN(cap, v->max);
	kp_id *p = kp_size_mul(cap, sizeof(kp_id), &bytes) ? kp_try_realloc(v->p, bytes) : NULL;
	if (!p) {
		v->failed = true;
		return false;
	}
	v->p = p;
	v->cap = cap;
	return true;
}
