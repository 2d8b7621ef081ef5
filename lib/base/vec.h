/* A typed growable array: `KP_VEC(int) v = {0};`, elements v.p[0..v.n). Process-lifetime or scoped
   use; what a request owns lives in its arena instead. Growth aborts when memory is gone, so bound
   n first where it comes from outside. */
#ifndef KP_BASE_VEC_H
#define KP_BASE_VEC_H

#include "base/mem.h"

#define KP_VEC(type)           \
	struct {               \
		type *p;       \
		size_t n, cap; \
	}

void *kp_vec_grow(void *p, size_t *cap, size_t need, size_t elem_size);

#define kp_vec_reserve(v, extra)                                                       \
	((v)->n + (extra) <= (v)->cap ? (void)0                                        \
				      : (void)((v)->p = kp_vec_grow((v)->p, &(v)->cap, \
						       (v)->n + (extra), sizeof(*(v)->p))))
#define kp_vec_push(v, value) (kp_vec_reserve((v), 1), (void)((v)->p[(v)->n++] = (value)))
#define kp_vec_last(v)        (&(v)->p[(v)->n - 1])
#define kp_vec_fini(v)        (kp_free(&(v)->p), (v)->n = (v)->cap = 0, (void)0)

#endif
