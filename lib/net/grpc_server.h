/* gRPC server on a loop: unary-request calls, each answered by any number of messages and a status, on
   top of the HTTP server (net/server.h), which brings HTTP/2, TLS, limits, draining and back-pressure.
   One object per loop. All calls on the loop's thread.

   A call's life: `request` is called when the whole request message is there and the client has said that
   nothing follows. The handler sets itself up with kp_grpc_serving_accept, sends messages and ends it; or
   it ends it at once. `closed` is the last call for every accepted one, exactly once, whatever happened.
   No callback is made inside a kp_grpc_serving_* call.

   What never reaches the handler: HTTP/1 (505), other methods than POST (405), other content types than
   application/grpc and application/grpc+proto (415); and with a gRPC status: no message or more than one,
   compression, a message over the limit or cut short, a malformed grpc-timeout, a deadline that passed
   while the message came. Which method exists is the handler's to say (UNIMPLEMENTED). */
#ifndef KP_NET_GRPC_SERVER_H
#define KP_NET_GRPC_SERVER_H

#include "base/err.h"
#include "net/http.h"
#include "net/server.h"

struct kp_grpc_server;
struct kp_grpc_serving; /* one call under way */

struct kp_grpc_request {
	kp_str method;  /* "/kelpie.peer.v1.Peer/Generate"; as long as `http` */
	kp_str message; /* only until `request` returns, unless it is kept */
	/* Absolute monotonic, from grpc-timeout; 0 none. When it passes the server ends the call
	   itself: DEADLINE_EXCEEDED to the client, `closed` with KP_STREAM_TIMEOUT. */
	int64_t deadline_ns;
	/* Headers (metadata as it came, "-bin" values in base64), the names in the client's
	   certificate, its address. Until `closed`. */
	const struct kp_http_request *http;
};

struct kp_grpc_handler {
	/* A handler that does not accept must end the call before it returns. */
	void (*request)(void *ctx, struct kp_grpc_serving *c, const struct kp_grpc_request *r);
	void *ctx;
};

struct kp_grpc_serving_ops {          /* every one may be NULL */
	void (*writable)(void *user); /* as kp_stream_ops.writable */
	/* The call pointer is dead. FINISHED: everything, the status too, is on its way;
	   CLIENT_GONE: cancelled or lost. */
	void (*closed)(void *user, enum kp_stream_end why);
};

struct kp_grpc_server_limits {    /* 0 = the default in parentheses */
	size_t max_message_bytes; /* (64 MiB) of a request; beyond: RESOURCE_EXHAUSTED */
	/* (256 MiB) of all requests that are still arriving; beyond: RESOURCE_EXHAUSTED. */
	size_t max_arriving_bytes;
	/* As the HTTP server's, but max_body_bytes follows from max_message_bytes, (1024) streams
	   and (1 h) idle time-out: peers keep their connections. */
	struct kp_http_limits http;
};

struct kp_grpc_server *kp_grpc_server_create(struct kp_loop *loop,
	const struct kp_grpc_server_limits *limits, struct kp_tls_context *tls /* or NULL */,
	const struct kp_grpc_handler *handler);
/* As kp_http_server_listen. */
int kp_grpc_server_listen(struct kp_grpc_server *s, const char *address, uint16_t *ret_port,
	struct kp_err *err) KP_MUST_USE;
/* As kp_http_server_set_tls and kp_http_server_on_tls_failure. */
void kp_grpc_server_set_tls(struct kp_grpc_server *s, struct kp_tls_context *tls);
void kp_grpc_server_on_tls_failure(struct kp_grpc_server *s,
	void (*failed)(void *ctx, kp_str peer, const struct kp_err *why), void *ctx);
void kp_grpc_server_drain(struct kp_grpc_server *s); /* GOAWAY; calls under way go on */
const struct kp_http_counters *kp_grpc_server_counters(const struct kp_grpc_server *s);
size_t kp_grpc_server_calls(const struct kp_grpc_server *s); /* under way, arriving ones included */
/* Every accepted call gets `closed` before this returns; done() is called once the memory is gone. */
void kp_grpc_server_destroy(struct kp_grpc_server *s, void (*done)(void *), void *arg);

/* Only inside `request`. */
void kp_grpc_serving_accept(
	struct kp_grpc_serving *c, const struct kp_grpc_serving_ops *ops, void *user);
/* Inside `request`, of an accepted call: its message stays until kp_grpc_serving_drop or `closed`, and counts as arriving. */
void kp_grpc_serving_keep(struct kp_grpc_serving *c);
void kp_grpc_serving_drop(struct kp_grpc_serving *c); /* again is fine */
/* One message; a copy is queued. What is sent in one iteration of the loop leaves in one write. A handler
   that lets more than 64 MiB queue up loses the call. */
void kp_grpc_serving_send(struct kp_grpc_serving *c, kp_str message);
/* Bytes that the client has not taken yet; above the high-water mark the handler should wait for `writable`. */
size_t kp_grpc_serving_queued(const struct kp_grpc_serving *c);
/* Status (code and message of the error, KP_OK for none; codes beyond gRPC's become the nearest one) and
   trailers of the handler's own: at most 16, names as kp_grpc_metadata_check wants them, "-bin" values are
   sent as base64, in others what is not printable ASCII becomes '?'. Once; before any message it is an
   answer of trailers only. */
void kp_grpc_serving_end(struct kp_grpc_serving *c, const struct kp_err *status,
	const struct kp_header *trailers, size_t n);

#endif
