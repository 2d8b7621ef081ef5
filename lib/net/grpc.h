/* gRPC client on a loop: nghttp2 over our own connection (gRPC over HTTP/2: grpc/grpc,
   doc/PROTOCOL-HTTP2.md). One channel is one address, one connection at a time (besides one that
   the server retired with GOAWAY and that still has calls), many calls. Unary and server-streaming
   calls. Everything on the loop's thread.

   What it does: trailers-only answers, grpc-status and percent-decoded grpc-message, HTTP status
   mapping when there is no grpc-status, deadlines (sent as grpc-timeout, enforced here too), PING
   keepalive while calls are open, GOAWAY (calls the server never saw are UNAVAILABLE and marked
   unprocessed), reconnection with jittered exponential back-off (100 ms .. 5 s),
   MAX_CONCURRENT_STREAMS with a bounded queue, message size limit, refusal of compressed messages,
   flow control tied to kp_grpc_pause (window updates stop, the engine is held back). */
#ifndef KP_NET_GRPC_H
#define KP_NET_GRPC_H

#include "base/err.h"
#include "net/http.h"
#include "net/loop.h"

struct kp_tls_context;
struct kp_grpc_channel;
struct kp_grpc_call;

struct kp_grpc_opts { /* 0 = the default in parentheses */
	/* "host:port", "[::1]:port" or "unix:/path"; names are resolved at each connect. */
	const char *address;
	/* (the address) With TLS the certificate must be for its host. */
	const char *authority;
	struct kp_tls_context *tls; /* NULL: cleartext; else HTTP/2 by ALPN is a must */
	const char *tls_name; /* (the host of authority) DNS name that the certificate must have */
	/* Looks at all DNS and URI names of the server's certificate before anything is sent, with
	   the channel's user; -1: not this one. NULL: tls_name is enough. */
	int (*check_names)(void *user, const kp_str *names, size_t n, struct kp_err *err);
	/* A new connection is ready, and calls wait until kp_grpc_channel_admit. Must not destroy the
	   channel. NULL: nobody has to be asked. */
	void (*connected)(void *user);
	void *user;
	size_t max_message_bytes; /* (64 MiB) received; beyond: INTERNAL */
	/* (1024) Waiting for a connection or a free stream; beyond: RESOURCE_EXHAUSTED. */
	size_t max_pending_calls;
	int64_t connect_timeout_ns; /* (5 s) to the server's SETTINGS */
	/* (20 s) Without a byte while calls are open: PING. After three without anything of a call
	   in between one each five minutes only, since servers end a connection that asks more
	   often (gRPC's default). */
	int64_t keepalive_time_ns;
	/* (10 s) No answer to it: the connection is dead, its calls end UNAVAILABLE. */
	int64_t keepalive_timeout_ns;
	/* For servers of our own, which take any number of PINGs: every silence gets one. */
	bool keepalive_always;
	/* (1 MiB) What a server may send on one call ahead of us: the most that a paused call
	 * holds. */
	size_t stream_window_bytes;
	uint64_t seed; /* (the kernel's random) of the back-off's jitter, for tests */
};

enum kp_grpc_state { KP_GRPC_IDLE = 0, KP_GRPC_CONNECTING, KP_GRPC_READY, KP_GRPC_BACKOFF };

struct kp_grpc_call_ops {
	/* One message; valid during the call. The callback may cancel or pause the call, start
	 * others, destroy the channel. */
	void (*message)(void *user, kp_str bytes);
	/* Exactly once, last. status->code is KP_OK or the gRPC status; its msg is the server's
	   (clean UTF-8) or ours. `processed` is false only when the server certainly never saw the
	   call (so a retry cannot double it). trailers: the server's custom ones, "-bin" values
	   decoded; valid during the call. The answer's initial metadata is checked and dropped. */
	void (*end)(void *user, const struct kp_err *status, bool processed,
		const struct kp_header *trailers, size_t n_trailers);
};

struct kp_grpc_channel *kp_grpc_channel_create(struct kp_loop *loop, const struct kp_grpc_opts *o);
/* Ends open calls (CANCELLED, `end` is called before this returns), closes; memory goes at the end
 * of the loop's iteration. */
void kp_grpc_channel_destroy(struct kp_grpc_channel *c);
enum kp_grpc_state kp_grpc_channel_state(const struct kp_grpc_channel *c);
/* Connects now if idle (else the first call does) or waiting to try again: for whoever knows better
 * than the back-off that it is worth it. */
void kp_grpc_channel_connect(struct kp_grpc_channel *c);
/* The next connection uses this context; the one that is there goes on. Not for a channel that was made
 * without one. */
void kp_grpc_channel_set_tls(struct kp_grpc_channel *c, struct kp_tls_context *tls);
/* For a channel with `connected`: calls may use the connection that is ready; may they? */
void kp_grpc_channel_admit(struct kp_grpc_channel *c);
bool kp_grpc_channel_is_admitted(const struct kp_grpc_channel *c);
/* No call is begun on the present connection any more; it stays for those it has. */
void kp_grpc_channel_renew(struct kp_grpc_channel *c);
size_t kp_grpc_channel_calls(const struct kp_grpc_channel *c);
/* Connections opened so far, failed attempts included. */
uint64_t kp_grpc_channel_connections(const struct kp_grpc_channel *c);

/* Starts a call with one request message. path: "/package.Service/Method". metadata: at most 64
   headers, 64 KiB; names in lower case, values printable ASCII, under "-bin" names any bytes (sent
   as base64). Everything is copied. deadline_ns: absolute monotonic, 0 none. While the channel is
   in back-off a call fails at once with UNAVAILABLE unless wait_for_ready. Never NULL: early
   failures come through `end` in the same loop iteration, after this returned. */
struct kp_grpc_call *kp_grpc_start(struct kp_grpc_channel *c, const char *path,
	const struct kp_header *metadata, size_t n_metadata, kp_str message, int64_t deadline_ns,
	bool wait_for_ready, const struct kp_grpc_call_ops *ops, void *user);
/* As kp_grpc_start, of a message that goes on behind `message` with `tail`, which is not copied: it stays where it is until `end` or
   kp_grpc_cancel, or as soon as kp_grpc_is_sent. */
struct kp_grpc_call *kp_grpc_start_long(struct kp_grpc_channel *c, const char *path, kp_str message,
	kp_str tail, int64_t deadline_ns, bool wait_for_ready, const struct kp_grpc_call_ops *ops,
	void *user);
/* The whole message has left us. */
bool kp_grpc_is_sent(const struct kp_grpc_call *call);
/* RST_STREAM(CANCEL); `end` is NOT called afterwards and the pointer is dead. Inside the call's own
 * `end` it does nothing. */
void kp_grpc_cancel(struct kp_grpc_call *call);
/* It waits for a connection, or for room on one. */
bool kp_grpc_is_waiting(const struct kp_grpc_call *call);
/* Paused: no `message`, no credit for the server; an `end` waits behind messages that have arrived,
   except for the deadline's and the channel's. Other calls of the channel go on. Resuming hands out
   what waits at the end of the iteration, never from inside. */
void kp_grpc_pause(struct kp_grpc_call *call, bool paused);

#endif
