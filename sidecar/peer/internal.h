/* Inside sidecar/peer: the server that peer.c (who may call what), generate.c and describe.c share. */
#ifndef SIDECAR_PEER_INTERNAL_H
#define SIDECAR_PEER_INTERNAL_H

#include "engine/peer_codec.h"
#include "sidecar/peer/peer.h"

enum { KP_PEER_HIGH_WATER = 256 << 10 };

/* An endpoint of ours, as the snapshot has it. */
struct kp_peer_own {
	struct kp_endpoint *endpoint;
	const struct kp_model_revision *revision;
	const struct kp_endpoint_facts *facts;
};

/* How calls end, for the metric. */
enum kp_peer_result {
	KP_PEER_RESULT_OK = 0,
	KP_PEER_RESULT_DRAINING, /* the words of engine/peer_codec.h, in this order */
	KP_PEER_RESULT_NOT_OWNER,
	KP_PEER_RESULT_DOWN,
	KP_PEER_RESULT_STALE,
	KP_PEER_RESULT_OVERLOADED,
	KP_PEER_RESULT_UNSUPPORTED,
	KP_PEER_RESULT_ERROR,
	KP_PEER_RESULT_GONE, /* the other gateway cancelled it, or its connection was lost */
	KP_PEER_RESULT_N
};

struct kp_peer_server {
	struct kp_gwloop *l;
	struct kp_grpc_server *grpc;
	struct kp_list forwards; /* generations under way */
	unsigned n_tokenizers;   /* archives under way */
	struct kp_peer_request_decoder decoder;
	struct kp_buf out; /* the message being written */
	/* Our endpoints in snapshot `version`, borrowed from it. */
	struct kp_peer_own *own;
	size_t n_own;
	uint64_t own_version; /* 0: none yet */
	struct kp_counter *results[KP_PEER_RESULT_N];
};

/* NULL and `not_owner` when it is not ours. */
const struct kp_peer_own *kp_peer_find(
	struct kp_peer_server *s, kp_str engine, kp_str address, struct kp_err *err);

/* err with a reason of engine/peer_codec.h, so that the other side picks again. Returns -1. */
int kp_peer_refuse(struct kp_err *err, enum kp_code code, const char *reason, const char *fmt, ...)
	KP_PRINTF(4, 5);
/* Ends a call: the status, its reason if it has one, and the load of the endpoint (NULL: not ours). */
void kp_peer_end(
	struct kp_grpc_serving *c, const struct kp_err *status, const struct kp_endpoint *e);

void kp_peer_generate(
	struct kp_peer_server *s, struct kp_grpc_serving *c, const struct kp_grpc_request *r);
void kp_peer_describe(
	struct kp_peer_server *s, struct kp_grpc_serving *c, const struct kp_grpc_request *r);
void kp_peer_get_tokenizer(
	struct kp_peer_server *s, struct kp_grpc_serving *c, const struct kp_grpc_request *r);

/* generate.c: ends what runs on the endpoint (NULL: on any) and waits for its first token, or was last
   heard of before that time. */
void kp_peer_end_forwards(struct kp_peer_server *s, const struct kp_endpoint *e,
	int64_t heard_before_ns, const struct kp_err *why);

#endif
