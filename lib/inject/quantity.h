/* Quantities of Kubernetes. Pure. */
#ifndef KP_INJECT_QUANTITY_H
#define KP_INJECT_QUANTITY_H

#include "base/str.h"

/* "500m", "1.5", "2Gi", "1e3" in thousandths, rounded up. false: none, negative, or beyond 2^53. */
bool kp_quantity_milli(kp_str s, int64_t *ret);

#endif
