/* gRPC server on a loop: unary-request calls, each answered by any number of messages and a status, on
   top of the HTTP server (net/server.h), which brings HTTP/2, TLS, limits, draining and back-pressure.
   One object per loop. All calls on the loop's thread.

   A call's life: `request` is called when the whole request message is there. The handler sets itself
   up with kp_grpc_serving_accept, sends messages and ends it; or it ends it at once. `closed` is the
   last call for every accepted one, exactly once, whatever happened. */
#ifndef KP_NET_GRPC_SERVER_H
#define KP_NET_GRPC_SERVER_H

#include "base/err.h"
#include "net/http.h"
#include "net/server.h"

struct kp_grpc_server;
struct kp_grpc_serving; /* one call under way */

struct kp_grpc_request {
	kp_str method;       /* "/kelpie.peer.v1.Peer/Generate" */
	kp_str message;      /* valid during the call */
	int64_t deadline_ns; /* absolute monotonic, from grpc-timeout; 0 none. The server ends the call itself when it passes: DEADLINE_EXCEEDED, `closed` */
	const struct kp_http_request
		*http; /* headers, the client's certificate names, its address */
};

struct kp_grpc_handler {
	void (*request)(void *ctx, struct kp_grpc_serving *c, const struct kp_grpc_request *r);
	void *ctx;
};

struct kp_grpc_serving_ops {
	void (*writable)(void *user); /* as kp_stream_ops.writable */
	void (*closed)(void *user, enum kp_stream_end why);
};

struct kp_grpc_server_limits {    /* 0 = the default in parentheses */
	size_t max_message_bytes; /* (64 MiB) of a request; beyond: RESOURCE_EXHAUSTED */
	struct kp_http_limits http;
};

struct kp_grpc_server *kp_grpc_server_create(struct kp_loop *loop,
	const struct kp_grpc_server_limits *limits, struct kp_tls_context *tls /* or NULL */,
	const struct kp_grpc_handler *handler);
int kp_grpc_server_listen(struct kp_grpc_server *s, const char *address, uint16_t *ret_port,
	struct kp_err *err) KP_MUST_USE;
void kp_grpc_server_drain(struct kp_grpc_server *s); /* GOAWAY; calls under way go on */
const struct kp_http_counters *kp_grpc_server_counters(const struct kp_grpc_server *s);
void kp_grpc_server_destroy(struct kp_grpc_server *s, void (*done)(void *), void *arg);

void kp_grpc_serving_accept(
	struct kp_grpc_serving *c, const struct kp_grpc_serving_ops *ops, void *user);
/* One message; a copy is queued. */
void kp_grpc_serving_send(struct kp_grpc_serving *c, kp_str message);
size_t kp_grpc_serving_queued(const struct kp_grpc_serving *c);
/* Status (code and message of the error, KP_OK for none) and trailers of the handler's own. */
void kp_grpc_serving_end(struct kp_grpc_serving *c, const struct kp_err *status,
	const struct kp_header *trailers, size_t n);

#endif
