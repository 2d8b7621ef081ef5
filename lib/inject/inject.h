/* What Kelpie puts into a pod that opts in by the label `kelpie.dev/engine`: the gateway as a native sidecar, what it needs beside
   it, the readiness gate, the hook that holds the engine back until its requests have ended. One pure function: the webhook
   (inject/review.h) and `kubectl kelpie inject` give the same pod for the same pod, engine and settings. docs/injection.md is the
   user's side: what is added and why, which annotations tune it.

   Injecting what was injected changes nothing; by another version it changes what is Kelpie's only. Nothing of the user's is taken
   away: what cannot be combined is left and noted, or the pod is refused with a reason. */
#ifndef KP_INJECT_INJECT_H
#define KP_INJECT_INJECT_H

#include "api/types_gen.h"
#include "base/arena.h"

#define KP_INJECT_LABEL      "kelpie.dev/engine"
#define KP_INJECT_DONE       "kelpie.dev/injected" /* annotation: the version that did it */
#define KP_INJECT_CONTAINER  "kelpie-gateway"
#define KP_INJECT_NODE_LABEL "kelpie.dev/node-gateway" /* of node gateways' pods: their namespace */
#define KP_INJECT_GATE       "kelpie.dev/routable"
/* Annotation of a pod in mode Node: what its end is called when its node's gateway is asked about it. */
#define KP_INJECT_KEY "kelpie.dev/drain-key"

enum {
	KP_INJECT_PEER_PORT = 9443,
	KP_INJECT_PROBE_PORT = 9092, /* probes, metrics, /drained: the pod's address */
	KP_INJECT_ADMIN_PORT = 9090, /* loopback */
	KP_INJECT_MAX_NOTES = 16,
	KP_INJECT_KEY_MAX = 64
};

struct kp_inject_settings {
	const char *image;         /* of the gateway; NULL: kelpie.dev/sidecar of this version */
	char control[112];         /* "kelpie-operator.kelpie-system.svc:9090" */
	char bootstrap[112];       /* "https://kelpie-operator.kelpie-system.svc:443" */
	const char *version;       /* what the annotation says */
	unsigned kubernetes_minor; /* 34 of 1.34; 0: not known */
};
/* This version's image and the names of the operator's Service in `kelpie-system`. */
struct kp_inject_settings kp_inject_defaults(void);
/* The operator's Service in another namespace. */
void kp_inject_settings_namespace(struct kp_inject_settings *s, const char *ns);

/* What is known of the engine that a pod names. All borrowed, for the time of the call. */
struct kp_inject_engine {
	const struct kp_inference_engine_spec *engine; /* NULL: there is none of that name (yet) */
	const struct kp_inference_pool_spec *pool;     /* of its poolRef; NULL: likewise */
	/* Mode Node: where each node's gateway answers for the namespace, an IP address, and a key for a pod that has none yet. Without
	   one of them its end only sleeps. */
	kp_str node_gateway, key;
};

/* What people should know: of the caller's arena. */
struct kp_inject_notes {
	const char *p[KP_INJECT_MAX_NOTES];
	size_t n;
};

/* Letters, digits and `-`, KP_INJECT_KEY_MAX at most. */
bool kp_inject_is_key(kp_str s);

/* The name in the opt-in label of a pod or a pod template; p NULL: it does not opt in. */
kp_str kp_inject_engine_name(const json_t *pod);

/* pod: anything with `metadata` and a pod's `spec`; it is not changed. 0: *ret is a new value, the patched pod (the caller's
   reference). -1: refused; err says what is wrong and what would help: INVALID_ARGUMENT for what the pod asks for,
   FAILED_PRECONDITION for what the cluster lacks. A pod that does not opt in, and a static pod's mirror, comes back as it is. */
int kp_inject_pod(const json_t *pod, const struct kp_inject_engine *engine,
	const struct kp_inject_settings *settings, struct kp_arena *a,
	struct kp_inject_notes *notes, json_t **ret, struct kp_err *err) KP_MUST_USE;

/* An engine in mode Node; `template`: of its pods, NULL: not known. */
struct kp_inject_node_engine {
	kp_str name;
	struct kp_inject_engine facts; /* `engine` is there */
	const json_t *template;
};
struct kp_inject_node {
	kp_str ns;
	const struct kp_inject_node_engine
		*engines; /* all of the namespace, by name; one at least */
	size_t n_engines;
};
/* The `spec` of the DaemonSet of node gateways of a namespace. 0: *ret is the caller's. -1: what an engine asks for makes no
   sense; err names the engine. */
int kp_inject_node_gateway(const struct kp_inject_node *n,
	const struct kp_inject_settings *settings, struct kp_arena *a, json_t **ret,
	struct kp_err *err) KP_MUST_USE;

/* Which container of the pod is the engine: the one that the annotation `kelpie.dev/engine-container` names, else `named`
   (spec.engine.container, p NULL: none), else the only one, else the only one that asks for an accelerator, else that of
   `kubectl.kubernetes.io/default-container`. NULL: err names them; never a guess by place. */
const json_t *kp_inject_engine_container(const json_t *pod, kp_str named, struct kp_err *err);

#endif
