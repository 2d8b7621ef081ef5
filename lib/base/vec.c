/* DESIGN: see vec.h; the growth step of KP_VEC. */
#include "base/vec.h"

void *kp_vec_grow(void *p, size_t *cap, size_t need, size_t elem_size)
{
	size_t n = KP_MAX(*cap * 2, (size_t)8), bytes;
	n = KP_MAX(n, need);
	if (!kp_size_mul(n, elem_size, &bytes)) {
		kp_bug(__FILE__, __LINE__, "vector too large");
	}
	p = kp_xrealloc(p, bytes);
	*cap = n;
	return p;
}
