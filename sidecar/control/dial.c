/* DESIGN: the one place that knows every kind of engine. */
#include "sidecar/control/dial.h"

#include "engine/peer.h"
#include "engine/vllm.h"

struct kp_engine *kp_dial(struct kp_gateway *g, struct kp_loop *loop, struct kp_endpoint *e)
{
	(void)g;
	return kp_engine_vllm_create(loop, e->address, NULL);
}
