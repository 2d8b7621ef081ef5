/* The gateway's own program as a preStop hook: it asks the gateway beside it to drain. So that needs no listener that others could reach, and no shell in the image. */
#ifndef SIDECAR_ASK_H
#define SIDECAR_ASK_H

#include "base/err.h"

/* GET /drain at an admin listener's address, a number. Blocks for some seconds at most. -1: nobody there, or it said no. */
int kp_ask_drain(const char *address, struct kp_err *err) KP_MUST_USE;

#endif
