/* How an engine in pods stands in a world: its pods counted, and which link between engine, pool, pods and gateways is
   broken. Pure. */
#ifndef OPERATOR_PLAN_ENGINE_H
#define OPERATOR_PLAN_ENGINE_H

#include "operator/plan/conditions.h"
#include "operator/plan/world.h"

enum { KP_ENGINE_GPUS_MAX = 16, KP_ENGINE_LINKS = 6 };

struct kp_engine_gpu {
	kp_str name; /* "nvidia.com/gpu", "claim:NAME" */
	int64_t per_replica;
	int64_t allocatable; /* of all nodes; -1: not known */
};
struct kp_engine_pods {
	size_t n, n_ready, n_updated, n_injected; /* of pods that are not ending */
	size_t n_wanted;                          /* of a template; else as many as there are */
	kp_str current_revision, update_revision; /* "" where there is no template */
	kp_str not_made; /* why the pods of a template cannot be made, as its Deployment says; "" */
	kp_str stuck;    /* the first pod that does not start or run, and why; "" */
	struct kp_engine_gpu gpus[KP_ENGINE_GPUS_MAX];
	size_t n_gpus;
	/* PoolSelects, PortsFree, DrainFits, Injected, WorkloadFound once a workload of somebody else was looked for, NodeFits where it
	   asks for accelerators. */
	struct kp_condition links[KP_ENGINE_LINKS];
	size_t n_links;
	const struct kp_condition
		*broken; /* the first of them that keeps it from serving; NULL: none */
};
/* e->spec is not NULL and in pods. Texts lie in the arena. */
void kp_engine_pods(const struct kp_world *w, const struct kp_world_engine *e, struct kp_arena *a,
	struct kp_engine_pods *ret);

#endif
