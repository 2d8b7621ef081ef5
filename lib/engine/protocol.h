/* Inside lib/engine: what an engine's protocol says (struct kp_protocol, one per protocol, pure but
   for the memory it is given) and the engine object that remote.c (generations) and remote_ask.c
   (questions) make of it. Wrong bytes are KP_INTERNAL, since only a broken engine sends them. */
#ifndef KP_ENGINE_PROTOCOL_H
#define KP_ENGINE_PROTOCOL_H

#include "base/buf.h"
#include "engine/remote.h"
#include "engine/response.h"
#include "net/grpc.h"

struct kp_protocol {
	/* Paths of the methods. */
	const char *generate, *health, *model_info, *server_info, *loads, *tokenizer;

	/* What stops a request besides the end of its call; NULL: that is enough. Appends the
	   AbortRequest. The id is never empty. */
	const char *abort;
	void (*encode_abort)(struct kp_buf *b, kp_str request_id);

	/* Appends a GenerateRequest. Stop strings stay with the gateway. Fails for what the
	   protocol cannot say, and when b's maximum is reached. */
	int (*encode)(struct kp_buf *b, const struct kp_engine_request *r, struct kp_err *err);
	struct kp_response_layout response;
	/* Why a choice ended; r->kind is COMPLETE. */
	enum kp_finish (*finish)(const struct kp_response *r);

	/* HealthCheckResponse: 0 when healthy, UNAVAILABLE with the engine's words when it says it
	   is not. */
	int (*read_health)(kp_str bytes, struct kp_err *err);
	/* Each fills its part of `ret` and leaves the rest; strings are copied to the arena. The
	   request to each of them is an empty message. */
	int (*read_model_info)(
		kp_str bytes, struct kp_arena *a, struct kp_engine_info *ret, struct kp_err *err);
	int (*read_server_info)(
		kp_str bytes, struct kp_arena *a, struct kp_engine_info *ret, struct kp_err *err);
	/* The loads, without at_ns, and what the answer says about the engine besides. */
	int (*read_loads)(kp_str bytes, struct kp_arena *a, struct kp_engine_loads *ret_loads,
		struct kp_engine_info *ret_info, struct kp_err *err);
};
extern const struct kp_protocol kp_vllm_protocol, kp_sglang_protocol;

struct kp_remote {
	struct kp_engine base;
	const struct kp_protocol *protocol;
	struct kp_grpc_channel *channel;
	char *address;
	uint32_t vocab_size; /* 0 unknown */
	struct kp_response_decoder decoder;
	struct kp_buf scratch;         /* requests */
	struct kp_list calls;          /* generations */
	void (*connected)(void *user); /* kp_engine_opts */
	void *connected_user;
	int64_t connected_ns; /* the present connection */
	uint64_t text;        /* what an admitted one takes */
	size_t n_open;        /* calls and questions under way, and the owner */
	bool is_destroyed;
};
struct kp_engine *kp_remote_create(struct kp_loop *loop, const char *address,
	const struct kp_engine_opts *o, const struct kp_protocol *protocol);
/* One of n_open has ended; frees the engine after the last. */
void kp_remote_put(struct kp_remote *e);
/* Puts "engine `address`: " in front. */
void kp_remote_blame(const struct kp_remote *e, struct kp_err *err);
/* An engine's status as ours (engine/remote.h, "Errors"). */
void kp_remote_map_status(const struct kp_remote *e, struct kp_err *status);

void kp_remote_health(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_health_done *done, void *user);
void kp_remote_info(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_info_done *done, void *user);
void kp_remote_loads(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_loads_done *done, void *user);
void kp_remote_tokenizer(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_tokenizer_done *done, void *user);

#endif
