/* Python's two ways of formatting: the % operator (percent.c) and str.format (format.c). */
#ifndef KP_TEMPLATE_FORMAT_H
#define KP_TEMPLATE_FORMAT_H

#include "template/interp.h"

/* fmt % args: a tuple gives several, a dict named ones, anything else one. */
int kp_tpl_percent(
	struct kp_interp *I, const struct kp_tv *fmt, const struct kp_tv *args, struct kp_tv *ret);
/* fmt.format(*args, **kwargs), and format_map when `map` is not NULL. */
int kp_tpl_str_format(struct kp_interp *I, const struct kp_tv *fmt, const struct kp_tpl_args *args,
	const struct kp_tv *map, struct kp_tv *ret);
/* Python's ascii(v). */
int kp_tpl_ascii(struct kp_interp *I, const struct kp_tv *v, struct kp_tv *ret);
/* format(v, spec) into b. */
int kp_tpl_format_value(
	struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v, kp_str spec);

#endif
