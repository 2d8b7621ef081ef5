/* Two-way streams over gRPC core, for the control protocol: few, long, and not on any request's way (that
   is lib/net's own gRPC). One completion-queue thread per client or server; every callback is made on
   the owner's loop, by message, and every function is called there. gRPC starts some threads more, now
   and later, with the signal mask of the loop's.

   A server that could not accept a connection (no descriptor left) listens anew within two seconds, and
   again until it can; its streams go on.

   A side that is gone without a word (stopped, cut off) is noticed after 5 seconds, by pings both ways.

   Messages are whole byte strings. A stream's queue of messages to send is bounded: what is beyond ends
   the stream with RESOURCE_EXHAUSTED, so a peer that does not read costs no memory without end.

   TLS: certificate, key and CA are read from files, again for each new connection, so that rotated ones
   are taken, and those that cannot be read, or do not belong together, leave the last good ones in
   force; both sides must show a certificate of the CA. Without them: cleartext, and only loopback
   addresses and Unix sockets are accepted. */
#ifndef KP_RPC_RPC_H
#define KP_RPC_RPC_H

#include "base/err.h"
#include "base/str.h"
#include "net/loop.h"

struct kp_rpc_server;
struct kp_rpc_client;
struct kp_rpc_stream;

/* Certificate, key and CA of a server that has them in memory. Any thread; the server takes what was set last for
   each new connection. */
struct kp_rpc_keys;
struct kp_rpc_keys *kp_rpc_keys_create(void);
/* PEM. Copied; what was there before is overwritten. What does not belong together is refused, and the last stays. */
int kp_rpc_keys_set(
	struct kp_rpc_keys *k, kp_str cert, kp_str key, kp_str ca, struct kp_err *err) KP_MUST_USE;
void kp_rpc_keys_destroy(struct kp_rpc_keys *k); /* after the server; NULL is fine */

struct kp_rpc_tls {
	/* tls.crt, tls.key, ca.crt in this directory, as in a Kubernetes TLS Secret. */
	const char *dir;
	struct kp_rpc_keys
		*keys; /* instead, for servers: must have been set once. Neither: cleartext */
};

struct kp_rpc_limits {            /* 0 = the default in parentheses */
	size_t max_message_bytes; /* (64 MiB) received; beyond: the stream ends RESOURCE_EXHAUSTED */
	size_t max_queue_bytes;   /* (128 MiB) waiting to be sent on one stream */
	unsigned max_streams;     /* (4096) of a server; beyond: refused RESOURCE_EXHAUSTED */
};

struct kp_rpc_stream_ops {
	/* The other side's next message; valid during the call. */
	void (*message)(void *user, kp_str bytes);
	/* Exactly once, last; the pointer is dead. status OK: ended in order. Also after
	   kp_rpc_stream_close. */
	void (*closed)(void *user, const struct kp_err *status);
};

/* Queues a copy. Messages arrive whole and in order, or the stream ends. */
void kp_rpc_stream_send(struct kp_rpc_stream *s, kp_str bytes);
/* As above without a copy: `bytes` shared by many streams, `release` once when none needs them any more. */
struct kp_rpc_shared;                                     /* a counted byte string */
struct kp_rpc_shared *kp_rpc_shared_create(kp_str bytes); /* copies */
void kp_rpc_shared_unref(struct kp_rpc_shared *s);
void kp_rpc_stream_send_shared(struct kp_rpc_stream *s, struct kp_rpc_shared *bytes);
/* Server: what is queued is sent, then the status. Client: cancelled at once. `closed` follows. */
void kp_rpc_stream_close(struct kp_rpc_stream *s, const struct kp_err *status);

/* --- server: one method, "/package.Service/Method" --- */

struct kp_rpc_peer {
	const kp_str *
		names; /* DNS and URI names of its certificate; none in cleartext. Valid during the call */
	size_t n_names;
	kp_str address; /* "ipv4:127.0.0.1:4711" */
};
/* A new stream: fill in *ops and *user and return 0, or refuse it with err. */
typedef int kp_rpc_accept(void *ctx, struct kp_rpc_stream *s, const struct kp_rpc_peer *peer,
	struct kp_rpc_stream_ops *ops, void **user, struct kp_err *err);

int kp_rpc_server_create(struct kp_loop *loop, const char *address, const char *method,
	const struct kp_rpc_tls *tls, const struct kp_rpc_limits *limits, kp_rpc_accept *accept,
	void *ctx, struct kp_rpc_server **ret, struct kp_err *err) KP_MUST_USE;
int kp_rpc_server_port(const struct kp_rpc_server *s);
/* Every stream gets `closed` before this returns, and the other sides see them cancelled; joins the
   thread. Not from a callback of its own. */
void kp_rpc_server_destroy(struct kp_rpc_server *s);

/* --- client: each stream over a connection of its own --- */

int kp_rpc_client_create(struct kp_loop *loop, const char *address, const char *method,
	const struct kp_rpc_tls *tls,
	const char *server_name /* in its certificate; NULL: the host */,
	const struct kp_rpc_limits *limits, struct kp_rpc_client **ret,
	struct kp_err *err) KP_MUST_USE;
/* Connects (the files of tls are read now) and opens a stream. Never NULL: failures come through
   `closed`, later. Trying again, and when, is the caller's business. */
struct kp_rpc_stream *kp_rpc_client_open(
	struct kp_rpc_client *c, const struct kp_rpc_stream_ops *ops, void *user);
/* As kp_rpc_server_destroy. */
void kp_rpc_client_destroy(struct kp_rpc_client *c);

#endif
