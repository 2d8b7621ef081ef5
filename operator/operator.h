/* The operator: manifests (source/) and what gateways say (control/) lead to plans (plan/), plans to
   programs (control/), and all of it to what people see (status/). One loop on the main thread; beside
   it the threads of the admin listener, of gRPC and of the log. */
#ifndef OPERATOR_OPERATOR_H
#define OPERATOR_OPERATOR_H

#include "operator/config.h"

struct kp_operator;

/* Reads the manifests (a set that is refused is an error) and listens. */
int kp_operator_start(const struct kp_operator_config *config, struct kp_operator **ret,
	struct kp_err *err) KP_MUST_USE;
/* Until SIGTERM, SIGINT or SIGHUP. */
void kp_operator_run(struct kp_operator *o);
void kp_operator_destroy(struct kp_operator *o); /* NULL is fine */

#endif
