/* Is a gateway's hello acceptable? What it says of itself goes into the programs of all gateways of its
   namespace, so one that would be refused there is refused here, alone. Pure. */
#ifndef OPERATOR_CONTROL_HELLO_H
#define OPERATOR_CONTROL_HELLO_H

#include "control/message.h"

enum {
	KP_HELLO_NAME_MAX = 253,           /* id, node, address, version */
	KP_HELLO_OWN_BYTES_MAX = 32 << 10, /* of all its claims: they fit into an item */
};

/* names: of its certificate, is_tls false: there is none. epoch_most: what it may have seen. UNIMPLEMENTED for another protocol,
 * PERMISSION_DENIED for an id that is not among the names, or another's namespace (core/identity.h), else INVALID_ARGUMENT. */
int kp_hello_check(const struct kp_hello *h, bool is_tls, const kp_str *names, size_t n_names,
	uint64_t epoch_most, struct kp_err *err) KP_MUST_USE;
/* The same of what a program says of a gateway. */
int kp_hello_check_gateway(const struct kp_program_gateway *g, struct kp_err *err) KP_MUST_USE;

#endif
