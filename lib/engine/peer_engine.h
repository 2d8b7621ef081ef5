/* Inside lib/engine: the engine object that peer.c (generations) and peer_ask.c (questions) share. */
#ifndef KP_ENGINE_PEER_ENGINE_H
#define KP_ENGINE_PEER_ENGINE_H

#include "engine/peer.h"
#include "engine/peer_codec.h"
#include "net/grpc.h"

#define KP_PEER_METHOD(name) "/kelpie.peer.v1.Peer/" name

struct kp_peer {
	struct kp_engine base;
	struct kp_grpc_channel *channel;
	char *id, *engine, *address;
	uint32_t vocab_size; /* 0 unknown */
	void (*load)(void *user, const struct kp_engine_loads *loads);
	void *user;
	struct kp_peer_response_decoder decoder;
	struct kp_buf scratch; /* requests */
	size_t n_open;         /* calls and questions under way, and the owner */
	bool is_destroyed;
};
/* One of n_open has ended; frees the engine after the last. */
void kp_peer_put(struct kp_peer *e);
/* Puts the gateway and the endpoint in front. */
void kp_peer_blame(const struct kp_peer *e, struct kp_err *err);

/* How a call ended: its status as ours, with the owner's reason, and the load it said. */
struct kp_peer_end {
	struct kp_err status;
	bool is_retryable; /* the engine never saw it */
	bool has_load;
	struct kp_engine_loads load;
};
/* Tells the load. */
void kp_peer_read_end(struct kp_peer *e, const struct kp_err *status, bool processed,
	const struct kp_header *trailers, size_t n_trailers, struct kp_peer_end *ret);

void kp_peer_health(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_health_done *done, void *user);
void kp_peer_info(struct kp_engine *e, int64_t deadline_ns, kp_engine_info_done *done, void *user);
void kp_peer_loads(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_loads_done *done, void *user);
void kp_peer_tokenizer(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_tokenizer_done *done, void *user);

#endif
