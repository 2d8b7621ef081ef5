/* What a cluster has, at one moment: our objects, the pods of engines and of node gateways, what we own, nodes. Made
   from the JSON of the API server, of which it keeps references. Whatever order things came in and went, the same
   things are the same world; who reads it may not keep anything of it beyond the turn of the loop. */
#ifndef OPERATOR_PLAN_WORLD_H
#define OPERATOR_PLAN_WORLD_H

#include "api/manifest.h"
#include "base/vec.h"
#include "inject/inject.h"
#include "json/jansson.h"
#include "operator/plan/kinds.h"

/* Others are injection's. */
#define KP_LABEL_REVISION "kelpie.dev/revision"
#define KP_LABEL_MANAGED  "app.kubernetes.io/managed-by"
#define KP_MANAGED_BY     "kelpie-operator"

struct kp_world_pod {
	kp_str ns, name, uid, node, ip; /* node and ip: "" not yet */
	kp_str engine, revision;        /* of its labels, "" */
	kp_str key;                     /* KP_INJECT_KEY, "" */
	const json_t *json, *labels;
	bool is_ready, is_ending; /* ending: deleted, failed or succeeded */
	bool has_gate;            /* its readiness waits for KP_INJECT_GATE */
	bool is_routable;         /* that condition is True */
	bool is_injected;         /* it has a gateway of its own */
	bool is_waiting;          /* no node is found for it, or a container of it is not started */
	int64_t grace_s;          /* terminationGracePeriodSeconds */
	uint32_t restarts;        /* of the engine's container, where nobody says which it is */
};
struct kp_world_engine {
	kp_str ns, name, uid;
	int64_t generation;
	bool is_ending;
	const json_t *json;
	const struct kp_inference_engine_spec *spec; /* NULL: it makes no sense */
	kp_str problem;                              /* why it is left out of the program, "" */
};
struct kp_world_pool {
	kp_str ns, name, uid;
	const json_t *json;
	const struct kp_inference_pool_spec *spec;
};
/* Of what we own: a Deployment, a DaemonSet. */
struct kp_world_owned {
	const char *kind;
	kp_str ns, name, uid;
	const json_t *json;
};
/* A kind that a workloadRef names. */
struct kp_world_kind {
	kp_str api_version, kind;
	bool is_known;   /* all of that kind are in the world */
	bool is_missing; /* the API server has no such kind */
	kp_str problem;  /* why they are not known, "": nothing is said yet, or they are */
};
/* One that a workloadRef may name, whoever made it; as kp_trim_workload leaves it. */
struct kp_world_workload {
	int kind; /* of the world's kinds */
	kp_str ns, name;
	const json_t *engines; /* the labels of its pod templates, an array */
	size_t n_templates;
	const json_t *json;
};
struct kp_world_node {
	kp_str name;
	const json_t *allocatable, *json;
};

struct kp_world {
	struct kp_object_set *set; /* what the specs lie in */
	bool is_sorted;
	struct kp_world_engine *engines; /* by namespace, name */
	size_t n_engines;
	struct kp_world_pool *pools; /* by namespace, name */
	size_t n_pools;
	struct kp_world_pod *pods; /* of engines, by namespace, engine, name */
	size_t n_pods;
	struct kp_world_pod *gateways; /* node gateways, by namespace, node, name */
	size_t n_gateways;
	struct kp_world_owned *owned; /* by kind, namespace, name */
	size_t n_owned;
	struct kp_world_node *nodes;
	size_t n_nodes;
	struct kp_world_workload *workloads; /* by kind, namespace, name */
	size_t n_workloads;
	const struct kp_world_kind *kinds; /* of workloads; borrowed */
	size_t n_kinds;
	bool has_nodes; /* nodes may be read */
	/* Namespaces whose pods are not known, "": none is; so nothing follows from there being none. Borrowed. */
	KP_VEC(kp_str)
	podless;
};

/* Filled in by kp_world_add_* in any order, then kp_world_sort once; from then on kp_world_add_* and kp_world_drop_* change it. `set`
   becomes the world's. */
struct kp_world *kp_world_create(struct kp_object_set *set);
void kp_world_destroy(struct kp_world *w); /* NULL is fine */
/* problem: borrowed as long as the engine is in the world. */
void kp_world_add_engine(
	struct kp_world *w, const json_t *v, const struct kp_object *o, kp_str problem);
void kp_world_add_pool(struct kp_world *w, const json_t *v, const struct kp_object *o);
void kp_world_add_pod(struct kp_world *w, const json_t *v);
void kp_world_add_owned(struct kp_world *w, const char *kind, const json_t *v);
void kp_world_add_workload(struct kp_world *w, int kind, const json_t *v);
void kp_world_add_node(struct kp_world *w, const json_t *v);
void kp_world_sort(struct kp_world *w);
/* v: as it was when it was added, or the same but for what its place does not follow from. False: it is not there. */
bool kp_world_drop_engine(struct kp_world *w, const json_t *v);
bool kp_world_drop_pool(struct kp_world *w, const json_t *v);
bool kp_world_drop_pod(struct kp_world *w, const json_t *v);
bool kp_world_drop_owned(struct kp_world *w, const char *kind, const json_t *v);
bool kp_world_drop_workload(struct kp_world *w, int kind, const json_t *v);
bool kp_world_drop_node(struct kp_world *w, const json_t *v);

bool kp_world_is_gateway(const json_t *pod);                 /* of a node, by its labels */
bool kp_world_has_pods(const struct kp_world *w, kp_str ns); /* they are known */
/* NULL: not there. */
const struct kp_world_engine *kp_world_engine(const struct kp_world *w, kp_str ns, kp_str name);
const struct kp_world_pool *kp_world_pool(const struct kp_world *w, kp_str ns, kp_str name);
/* Those of an engine; *ret_n may be 0. */
const struct kp_world_pod *kp_world_pods(
	const struct kp_world *w, kp_str ns, kp_str engine, size_t *ret_n);
/* NULL: there is none of ours. */
const struct kp_world_owned *kp_world_owned(
	const struct kp_world *w, const char *kind, kp_str ns, kp_str name);
const struct kp_world_workload *kp_world_workload(
	const struct kp_world *w, int kind, kp_str ns, kp_str name);
/* Which of the kinds an engine's workloadRef names; -1: none of them, or it has none. */
int kp_world_workload_kind(const struct kp_world *w, const struct kp_inference_engine_spec *s);
bool kp_world_is_labelled(const struct kp_world_workload *w, kp_str engine); /* a template of it */
/* One of the conditions in the status of an object that has that status itself ("True"); NULL: it has not. */
const json_t *kp_world_condition(const json_t *object, kp_str type, kp_str status);
/* The message of a condition that is True, of an object of ours; "": it is not. */
kp_str kp_world_says(const struct kp_world_owned *o, kp_str condition);
/* The gateway of a node; the one whose name is lowest if there are several. NULL: none. */
const struct kp_world_pod *kp_world_node_gateway(const struct kp_world *w, kp_str ns, kp_str node);

/* Whether the labels have all of the selector. */
bool kp_world_selects(const struct kp_inference_pool_selector *s, const json_t *labels);
bool kp_engine_is_in_pods(const struct kp_inference_engine_spec *s); /* template or workloadRef */
/* The container that is the engine, as injection finds it; where it would not know, the first one. NULL: there is none. */
const json_t *kp_world_container(const struct kp_world_pod *pod, kp_str name);
uint32_t kp_world_restarts(const struct kp_world_pod *pod, kp_str container);

#endif
