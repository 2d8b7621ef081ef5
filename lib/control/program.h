/* A program: what a gateway is asked to serve, checked and resolved, before anything is known of the
   engines. Made from manifests here (pure: objects in, program or errors out), or from the items that
   the operator sends (control/items.h). Immutable. */
#ifndef KP_CONTROL_PROGRAM_H
#define KP_CONTROL_PROGRAM_H

#include "api/manifest.h"
#include "base/arena.h"

enum kp_tokenizer_source { KP_TOKENIZER_ENGINE = 0, KP_TOKENIZER_PATH };
enum kp_engine_protocol { KP_PROTOCOL_VLLM = 0, KP_PROTOCOL_SGLANG };
const char *kp_engine_protocol_name(enum kp_engine_protocol p); /* "vllm" */

/* A gateway that owns endpoints: only it speaks to them, the others ask it. */
struct kp_program_gateway {
	kp_str id;   /* what its certificate says */
	kp_str peer; /* "10.0.0.7:8443", where its peer port listens */
	kp_str node; /* "" not known */
	/* What it says it owns: "default/demo" (every endpoint of the engine), "default/demo/0". */
	const kp_str *own;
	size_t n_own;
	bool yields; /* for control/ownership.h: its claims hold only where nobody else has one. Not
			part of a program */
};
struct kp_program_endpoint {
	kp_str address;                         /* "127.0.0.1:50051", once per engine */
	const struct kp_program_gateway *owner; /* NULL: none is known */
	kp_str local; /* where its owner reaches it, if not at `address`: "127.0.0.1:50051"; "" */
	kp_str instance; /* of one in a pod: "UID/0", its container's restarts, or "UID/0/KEY" with the
			    key of the pod's end (KP_INJECT_KEY); "": a fixed one */
	kp_str wants; /* for control/ownership.h: the id of the gateway that owns it, if it is in a
			    pod, whatever gateways claim. Not part of a program */
};
/* By the numbers of token/tokenizer.h's kp_text_policy. */
enum kp_program_text_policy { KP_TEXT_MARKERS = 0, KP_TEXT_PLAIN, KP_TEXT_TRUSTED };
/* What becomes of an answer that breaks its schema. */
enum kp_output_validation {
	KP_VALIDATION_MARK = 0,
	KP_VALIDATION_OFF,
	KP_VALIDATION_RETRY,
	KP_VALIDATION_FAIL
};
/* Which schemas are taken with `strict: true`. */
enum kp_strict_schemas { KP_STRICT_ANY = 0, KP_STRICT_OPENAI };
struct kp_program_engine {
	kp_str name; /* "default/demo" */
	kp_str pool; /* "default/demo" */
	kp_str model;
	const kp_str *aliases;
	size_t n_aliases;
	enum kp_engine_protocol protocol;
	enum kp_tokenizer_source tokenizer;
	kp_str tokenizer_path;
	kp_str chat_template; /* "": by the model table; "Own", "harmony" */
	enum kp_program_text_policy text_policy;
	kp_str tool_parser, reasoning_parser; /* names, "none"; "": by the chat template */
	enum kp_output_validation validation;
	enum kp_strict_schemas strict_schemas;
	bool in_pods; /* its endpoints are pods, to be found. Not part of a program */
	const struct kp_program_endpoint *endpoints; /* in the manifest's order */
	size_t n_endpoints;
};
struct kp_program_pool {
	kp_str name; /* "default/demo" */
	const uint16_t *target_ports;
	size_t n_target_ports;
};
struct kp_program_tool_header {
	kp_str name, value;
	kp_str secret,
		key; /* instead of a value: a Secret and its key; a gateway has it as a file */
};
/* An MCP server whose tools models may call. */
struct kp_program_tool_server {
	kp_str name;  /* "default/weather" */
	kp_str label; /* once in a program */
	kp_str url;
	bool is_private; /* its host may lead to private addresses */
	const struct kp_program_tool_header *headers;
	size_t n_headers;
	const kp_str *forward; /* names of clients' headers that are passed on */
	size_t n_forward;
	const kp_str *allowed; /* names of tools; none: all of them */
	size_t n_allowed;
	bool asks_never; /* nobody has to say yes to a call, but for those in `except`; else the other way round */
	const kp_str *except; /* names of tools */
	size_t n_except;
	uint32_t connect_s, list_s, call_s, call_total_s;
};
struct kp_program {
	struct kp_arena *arena;              /* owns everything */
	const struct kp_program_pool *pools; /* by name */
	size_t n_pools;
	const struct kp_program_engine *engines; /* by name */
	size_t n_engines;
	const struct kp_program_gateway *gateways; /* by id; none in a program from manifests */
	size_t n_gateways;
	const struct kp_program_tool_server *tool_servers; /* by name */
	size_t n_tool_servers;
};

/* The objects of one namespace; those of others are left out. Every error found is appended to
 * `problems`: an engine whose pool does not exist, one model name meaning engines of two pools, a
 * label of two tool servers. No
 * pool at all is an error too. */
int kp_program_build(const struct kp_object_set *set, kp_str ns, struct kp_problems *problems,
	struct kp_program **ret, struct kp_err *err) KP_MUST_USE;
void kp_program_destroy(struct kp_program *p); /* NULL is fine */

#endif
