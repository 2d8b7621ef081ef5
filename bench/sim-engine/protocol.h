/* The simulated engine's protocols: what a GenerateRequest asks and what a message says in neutral words, and what each protocol makes of them. */
#ifndef KP_BENCH_SIM_PROTOCOL_H
#define KP_BENCH_SIM_PROTOCOL_H

#include "sim.h"

#include <protobuf-c/protobuf-c.h>

/* A tensor of the request's images; points into the message. */
struct kp_sim_tensor {
	const char *name, *dtype, *shm; /* shm: in that file of /dev/shm; NULL: inline */
	const uint32_t *shape;
	size_t n_dims;
	uint64_t offset, n_bytes; /* offset: in the file */
	const uint8_t *bytes;     /* inline */
};
enum { KP_SIM_TENSORS = 8, KP_SIM_IMAGES = 256 };
struct kp_sim_media {
	struct kp_sim_tensor tensors[KP_SIM_TENSORS];
	uint32_t spans[KP_SIM_IMAGES][2]; /* offset, length */
	const char *hashes[KP_SIM_IMAGES];
	size_t n_tensors, n_spans, n_hashes;
	uint32_t token;
	bool is_too_much;
};

/* A GenerateRequest, whatever its protocol. */
struct kp_sim_request {
	void *message; /* protobuf-c's, which the rest points into; NULL: it was none */
	const char *id, *text;
	const uint32_t *ids, *stop_ids;
	size_t n_ids, n_stop_ids;
	bool has_ids, has_max_tokens, ignore_eos, stream;
	uint32_t n, min_tokens, max_tokens, seed;
	int32_t logprobs, prompt_logprobs; /* alternatives, -1: not asked for */
	const ProtobufCMessage *sampling;  /* as it came, NULL: none */
	struct kp_sim_media *media;        /* NULL: no images; the request's to free */
};

/* Log-probabilities: n values, and n times k alternatives. */
struct kp_sim_logprobs {
	uint32_t *ids;
	float *values;
	size_t n, k;
	uint32_t *top_ids;
	float *top_values;
};

/* What one message says of one choice. */
struct kp_sim_part {
	struct kp_arena *arena; /* for the message under construction */
	const struct kp_sim_request *request;
	uint32_t choice, made, cached; /* made: ids of the choice so far */
	uint32_t *ids;                 /* of this message */
	size_t n_ids;
	const struct kp_sim_logprobs *output, *prompt; /* NULL: none */
	/* Only of a `complete`. */
	const char *finish; /* "stop", "length", "abort", "error" */
	bool has_matched, is_model_end;
	uint32_t matched; /* the id that ended it, if has_matched or is_model_end */
};

struct kp_sim_protocol {
	const char *name;
	/* What it says when it is full. */
	grpc_status_code full_code;
	const char *full_text;
	/* An aborted call ends with this status; OK: with a `complete`. */
	grpc_status_code abort_code;
	struct kp_sim_request (*read)(kp_str bytes);
	void (*free)(void *message);
	/* What the engine refuses: INVALID_ARGUMENT in its words. */
	int (*check)(
		const struct kp_sim_opts *o, const struct kp_sim_request *r, struct kp_err *err);
	grpc_byte_buffer *(*chunk)(const struct kp_sim_part *p);
	grpc_byte_buffer *(*complete)(const struct kp_sim_part *p);
	const struct kp_sim_method *methods; /* the last one has no path and does not count */
};
extern const struct kp_sim_protocol kp_sim_vllm, kp_sim_sglang;

/* generate.c */
void kp_sim_generate(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str request);
/* Lets time pass for all calls; returns when it wants to be called again. */
int64_t kp_sim_advance(struct kp_sim *s, int64_t now_ns);
void kp_sim_abort_id(struct kp_sim *s, kp_str request_id);

/* media.c: reads the tensors, which unlinks what lies in /dev/shm, checks and logs them. */
int kp_sim_take_media(struct kp_sim *s, const struct kp_sim_request *r, struct kp_err *err);
/* Which /dev/shm this is, as the servicers say it. */
void kp_sim_shm_namespace(char ret[80]);

/* answers.c: what the protocols' other methods share. */
void kp_sim_answer(
	struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata, const ProtobufCMessage *m);
void kp_sim_tokenizer(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str request);
void kp_sim_unknown(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str request);
/* Loads, as every protocol says them. */
enum { KP_SIM_CAPACITY = 1 << 20, KP_SIM_MAX_RUNNING = 1024 };
int32_t kp_sim_used_tokens(const struct kp_sim *s);

#endif
