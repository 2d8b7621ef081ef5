/* What the method tables use of each other. */
#ifndef KP_TEMPLATE_METHODS_H
#define KP_TEMPLATE_METHODS_H

#include "template/funcs.h"

int kp_tpl_str_split(struct kp_interp *I, const struct kp_tv *s, const struct kp_tv *sep,
	int64_t max, struct kp_tv *ret);
int kp_tpl_str_partition(struct kp_interp *I, const struct kp_tv *s, const struct kp_tv *sep,
	bool last, struct kp_tv *ret);
int kp_tpl_str_title(struct kp_interp *I, const struct kp_tv *s, struct kp_tv *ret);
int kp_tpl_str_swapcase(struct kp_interp *I, const struct kp_tv *s, struct kp_tv *ret);
bool kp_tpl_str_range(kp_str s, int64_t start, int64_t end, size_t *ret_from, size_t *ret_to);
int64_t kp_tpl_str_find(kp_str s, kp_str needle, int64_t start, int64_t end, bool last);

#endif
