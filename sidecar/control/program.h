/* A program: what the manifests ask of this gateway, checked and resolved, before anything is known
 * of the engines. Pure: manifests in, program or errors out. */
#ifndef SIDECAR_CONTROL_PROGRAM_H
#define SIDECAR_CONTROL_PROGRAM_H

#include "api/manifest.h"
#include "base/arena.h"

enum kp_tokenizer_source { KP_TOKENIZER_ENGINE = 0, KP_TOKENIZER_PATH };

struct kp_program_engine {
	kp_str name; /* "default/demo" */
	kp_str pool; /* "default/demo" */
	kp_str model;
	const kp_str *aliases;
	size_t n_aliases;
	enum kp_tokenizer_source tokenizer;
	kp_str tokenizer_path;
	const kp_str *addresses; /* "127.0.0.1:50051" */
	size_t n_addresses;
};

struct kp_program {
	struct kp_arena *arena; /* owns everything */
	const struct kp_program_engine *engines;
	size_t n_engines;
	const uint16_t *target_ports; /* of the first pool, by name */
	size_t n_target_ports;
};

/* Objects of other namespaces are left out. Every error found is appended to `problems`: an engine
 * whose pool does not exist, one model name meaning engines of two pools. */
int kp_program_build(const struct kp_object_set *set, kp_str ns, struct kp_problems *problems,
	struct kp_program **ret, struct kp_err *err) KP_MUST_USE;
void kp_program_destroy(struct kp_program *p);

#endif
