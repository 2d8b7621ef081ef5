/* What the operator knows of the world, as people are shown it: plain data, filled in by the operator, and
   two pure functions that print it. Immutable once handed to kp_status_listener_publish
   (status/listener.h). Strings are UTF-8, borrowed from the arena; "" where nothing is known, as 0 in
   numbers; such fields are left out. Times are nanoseconds of wall time since 1970, 0 not known. Lists
   are shown in the order given. */
#ifndef OPERATOR_STATUS_STATUS_H
#define OPERATOR_STATUS_STATUS_H

#include "operator/plan/engine.h"
#include "base/arena.h"
#include "base/buf.h"

/* metav1.Condition. */
struct kp_status_condition {
	kp_str type;    /* "Ready" */
	kp_str status;  /* "True", "False", "Unknown" */
	kp_str reason;  /* one CamelCase word for programs */
	kp_str message; /* for people */
	int64_t last_transition_ns;
	int64_t observed_generation;
};
/* Of a program: control.proto. */
struct kp_status_revision {
	uint64_t epoch, n; /* epoch 0: none */
	kp_str hash;       /* hexadecimal */
};
/* What every gateway of a namespace is asked to run. */
struct kp_status_program {
	kp_str ns;
	struct kp_status_revision revision;
	int64_t since_ns;
	uint64_t gateways, acked; /* connected ones; those of them that acknowledged it */
};
struct kp_status_pool {
	kp_str ns, name;
	const uint16_t *target_ports;
	size_t n_target_ports;
	const struct kp_status_condition *conditions;
	size_t n_conditions;
};
struct kp_status_endpoint {
	uint64_t index; /* its place in the manifest */
	kp_str address; /* "127.0.0.1:50051" */
	kp_str owner;   /* id of a gateway */
	kp_str state;   /* "routable": docs/ARCHITECTURE.md has the states */
	kp_str reason;  /* why it is not routable, for people */
	int64_t since_ns;
	kp_str model; /* what the engine says it serves */
	uint64_t in_flight, running, waiting;
	double kv_usage; /* 0 to 1 */
};
struct kp_status_engine {
	kp_str ns, name;
	kp_str pool; /* name, in the same namespace */
	kp_str model;
	const kp_str *aliases;
	size_t n_aliases;
	kp_str protocol;  /* "vllm" */
	kp_str tokenizer; /* "Engine", or the path */
	int64_t generation;
	const struct kp_status_condition *conditions;
	size_t n_conditions;
	const struct kp_status_endpoint *endpoints;
	size_t n_endpoints;
	/* For the status of the object itself, in a cluster. */
	const struct kp_engine_pods *pods; /* of one in pods; NULL */
	size_t n_routable, n_gateways, n_acked;
};
struct kp_status_gateway {
	kp_str id, ns, node;
	kp_str peer_address, admin_address; /* "10.0.0.7:8443" */
	kp_str version;
	bool is_connected;
	int64_t since_ns;                   /* that it is, or is not */
	struct kp_status_revision revision; /* acknowledged last */
	int64_t acked_ns;
	bool is_current;    /* it is the revision of its program */
	kp_str nack_reason; /* of the last program it refused, "" when it accepted one since */
	kp_str nack_message;
	int64_t nack_ns;
	kp_str state_error; /* why it could not keep its program on disk */
	const kp_str *own;  /* "default/demo/0" */
	size_t n_own;
	bool is_draining;
	uint64_t in_flight, requests, errors, tokens; /* as it reported */
	const kp_str *problems;                       /* what else is wrong with it, for people */
	size_t n_problems;
};
struct kp_status {
	struct kp_arena *arena; /* owns everything, this struct too */
	kp_str id;              /* the operator's */
	kp_str version;
	uint64_t epoch;
	kp_str leader; /* of a standby: where the leader is; "" */
	int64_t started_ns;
	kp_str not_ready; /* why /readyz says no, "" when it says yes */
	kp_str manifests_path;
	int64_t manifests_ns;          /* when they were accepted last */
	const kp_str *manifest_errors; /* why what is there now is refused, one line each */
	size_t n_manifest_errors;
	const struct kp_status_program *programs;
	size_t n_programs;
	const struct kp_status_pool *pools;
	size_t n_pools;
	const struct kp_status_engine *engines;
	size_t n_engines;
	const struct kp_status_gateway *gateways;
	size_t n_gateways;
};

/* An empty one in an arena of its own, to be filled in. */
struct kp_status *kp_status_create(void);
void kp_status_destroy(struct kp_status *s); /* NULL is fine */

/* The answer to GET /status (docs/status.md has the fields). resource_version changes with each state that
   is shown. */
void kp_status_json(const struct kp_status *s, kp_str resource_version, struct kp_buf *out);
/* The page: complete, readable without script. now_ns: wall time, for ages. Of each table at most
   KP_STATUS_MAX_ROWS rows, with a line that says how many are left out. */
enum { KP_STATUS_MAX_ROWS = 2000 };
void kp_status_html(
	const struct kp_status *s, kp_str resource_version, int64_t now_ns, struct kp_buf *out);

#endif
