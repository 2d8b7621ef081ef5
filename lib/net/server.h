/* HTTP server: HTTP/1.1, HTTP/2 over TLS (ALPN) and cleartext HTTP/2 with prior knowledge on one port, on one loop. One object per loop;
   several loops listen on the same address through SO_REUSEPORT. All calls on the loop's thread.

   A request's life: `request` is called once its head is complete and within limits. The handler sets itself up with kp_stream_accept and either
   reads the body as it comes (`data` ... `end`) or answers at once. It answers with kp_stream_respond, kp_stream_write*, kp_stream_finish. `closed` is
   the last call for every accepted stream, exactly once, whatever happened: finished, client gone, connection lost, server destroyed. After `closed` the stream
   pointer is dead. Writing after the client has gone is harmless (dropped). */
#ifndef KP_NET_SERVER_H
#define KP_NET_SERVER_H

#include "base/err.h"
#include "net/http.h"
#include "net/loop.h"
#include "obs/metrics.h"

struct kp_http_server;
struct kp_stream;
struct kp_tls_context;
struct kp_workers;

enum kp_stream_end {
	KP_STREAM_FINISHED = 0,
	KP_STREAM_CLIENT_GONE, /* connection lost, half-closed before the answer was complete, or the stream reset */
	KP_STREAM_TIMEOUT,  /* the client sent or took nothing for too long */
	KP_STREAM_PROTOCOL, /* malformed or too large body, flood */
	KP_STREAM_ABORTED,  /* kp_stream_abort, or the server was destroyed */
};

struct kp_stream_ops {
	/* A piece of the body; valid during the call. */
	void (*data)(void *user, kp_str piece);
	/* The whole body has arrived (also for an empty body). */
	void (*end)(void *user);
	/* The bytes queued for the client fell below the low-water mark after kp_stream_queued had passed the high one. */
	void (*writable)(void *user);
	void (*closed)(void *user, enum kp_stream_end why);
};

struct kp_http_handler {
	/* The request is valid until `closed`. A handler that does not accept must respond and finish inside the call. */
	void (*request)(void *ctx, struct kp_stream *s, const struct kp_http_request *r);
	void *ctx;
};

struct kp_http_limits { /* 0 = the default in parentheses */
	size_t max_head_bytes; /* (64 KiB) request line and headers; 431 beyond, 414 for the target alone */
	size_t max_target_bytes; /* (8 KiB) */
	unsigned max_headers;    /* (100) */
	size_t max_body_bytes;   /* (32 MiB) 413 at once when announced, at the byte when not */
	int64_t head_timeout_ns; /* (10 s) from the first byte of a request to the end of its head; 408 */
	int64_t body_timeout_ns; /* (30 s) without a byte of an unfinished body; 408 */
	int64_t idle_timeout_ns; /* (75 s) between requests */
	int64_t write_timeout_ns; /* (60 s) a client that takes nothing while bytes are queued, here or in the kernel */
	int64_t stream_timeout_ns; /* (write_timeout_ns) the same of one HTTP/2 stream whose connection takes what others send */
	unsigned max_connections;     /* (20,000) per server; beyond: accepted and closed */
	unsigned max_streams;         /* (256) per HTTP/2 connection */
	size_t high_water, low_water; /* (256 KiB, 64 KiB) of kp_stream_queued */
};

struct kp_http_server *kp_http_server_create(struct kp_loop *loop,
	const struct kp_http_limits *limits, struct kp_tls_context *tls /* or NULL */,
	const struct kp_http_handler *handler);
/* "127.0.0.1:8080", "[::1]:0"; *ret_port is the real port. Repeatable. SO_REUSEPORT is set. */
int kp_http_server_listen(struct kp_http_server *s, const char *address, uint16_t *ret_port,
	struct kp_err *err) KP_MUST_USE;
/* New connections use this context from now on; those that are there keep theirs. Not for a server that was made without one. */
void kp_http_server_set_tls(struct kp_http_server *s, struct kp_tls_context *tls);
/* `failed` is called for every TLS handshake that fails, but not for a client that connects and leaves without a word. For the log: limit its rate. */
void kp_http_server_on_tls_failure(struct kp_http_server *s,
	void (*failed)(void *ctx, kp_str peer, const struct kp_err *why), void *ctx);
/* Long bodies that are collected (kp_stream_collect) and come over HTTP/1.1 without TLS are received by these. They must not be destroyed before the
   server; stopped is fine. */
void kp_http_server_set_receivers(struct kp_http_server *s, struct kp_workers *workers);
/* Stops accepting, closes idle connections, tells the others (Connection: close, GOAWAY) and lets their streams finish. */
void kp_http_server_drain(struct kp_http_server *s);
/* What the server itself refuses, before or while the body arrives (408, 413, 431, ...), may be answered in another form than OpenAI's: by kp_stream_reply, and true.
   Of a head that is malformed or too large the path is not known (empty). */
void kp_http_server_on_refusal(struct kp_http_server *s,
	bool (*refuse)(struct kp_stream *s, const struct kp_http_request *r, int status,
		const char *text));
/* What this server did so far; relaxed atomics, any thread may read while the server lives. */
enum kp_http_refused {
	KP_HTTP_REFUSED_MALFORMED = 0, /* 400, 417, 501, 505 */
	KP_HTTP_REFUSED_HEAD,          /* 431, 414 */
	KP_HTTP_REFUSED_BODY,          /* 413 */
	KP_HTTP_REFUSED_SLOW,          /* 408, or a client that takes nothing */
	KP_HTTP_REFUSED_FLOOD,         /* an HTTP/2 connection ended for what it sent */
	KP_HTTP_REFUSED_CONNECTIONS,   /* beyond max_connections, or no descriptor left */
	KP_HTTP_REFUSED_TLS,           /* the handshake failed */
	KP_HTTP_REFUSED_N
};
struct kp_http_counters {
	struct kp_gauge connections;
	struct kp_counter accepted, http1_requests, http2_requests, bytes_in, bytes_out;
	struct kp_counter refused[KP_HTTP_REFUSED_N];
};
const struct kp_http_counters *kp_http_server_counters(const struct kp_http_server *s);
size_t kp_http_server_connections(const struct kp_http_server *s);
/* Closes everything; every stream gets `closed` before this returns. The memory goes with the loop's next iterations; done() is called then. */
void kp_http_server_destroy(struct kp_http_server *s, void (*done)(void *), void *arg);

void kp_stream_accept(struct kp_stream *s, const struct kp_stream_ops *ops, void *user);
/* The body is appended to *into, which belongs to the stream until `end` or `closed`, except inside of `data`: that tells of
   each piece in it, until memory is gone (the buffer has failed). */
void kp_stream_collect(struct kp_stream *s, struct kp_buf *into);
/* Head of the answer. content_length -1: chunked or HTTP/2 framing, as the version needs; `date` and framing headers are added. */
void kp_stream_respond(struct kp_stream *s, int status, const struct kp_header *headers, size_t n,
	int64_t content_length);
/* Queues a copy; leaves with everything else queued in this iteration of the loop (or earlier once 64 KiB are there). */
void kp_stream_write(struct kp_stream *s, kp_str bytes);
void kp_stream_finish(struct kp_stream *s);
/* As finish, with trailers behind the body (HTTP/2, chunked HTTP/1.1; dropped where the version has none). */
void kp_stream_finish_trailers(struct kp_stream *s, const struct kp_header *trailers, size_t n);
/* Breaks the stream off: RST_STREAM, or the connection of HTTP/1.1. For answers that must not look complete. */
void kp_stream_abort(struct kp_stream *s);
/* Stops and resumes reading this stream's body (flow control reaches the client). */
void kp_stream_pause(struct kp_stream *s, bool paused);
size_t kp_stream_queued(const struct kp_stream *s); /* bytes not yet handed to the kernel */
/* Respond, write and finish in one. */
void kp_stream_reply(
	struct kp_stream *s, int status, const struct kp_header *headers, size_t n, kp_str body);

#endif
