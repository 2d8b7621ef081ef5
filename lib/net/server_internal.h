/* The insides of the HTTP server, shared by server.c (listeners, connections, life), stream.c (what both versions do with a request), http1.c and
   http2.c (framing). */
#ifndef KP_NET_SERVER_INTERNAL_H
#define KP_NET_SERVER_INTERNAL_H

#include "net/conn_internal.h"
#include "net/head.h"
#include "net/server.h"
#include "net/tls.h"

struct kp_http_conn;
struct kp_http2;
/* One request and its answer. Allocated together with its head, freed after `closed` was told. */
struct kp_stream {
	struct kp_http_conn *hc;
	const struct kp_stream_ops *ops; /* NULL: not accepted, or `closed` was told */
	void *user;
	struct kp_http_request req;
	int64_t body_bytes;    /* received so far */
	int64_t response_left; /* of a declared length; -1: no length */
	bool in_request;       /* inside handler->request */
	bool accepted, responded, finished, aborted;
	bool told;      /* `closed` was called, or nobody is to be told */
	bool body_done; /* everything of the body was received */
	bool end_told;  /* ops->end was called */
	bool paused, above_high;
	bool bodyless; /* HEAD, 204, 304: the answer has no body */
	bool expect;   /* the client waits for 100 before it sends the body */
	bool chunked;  /* HTTP/1.1: the answer is sent in chunks */
	/* HTTP/2 */
	bool whole;    /* respond comes from kp_stream_reply */
	bool bare;     /* respond adds neither date nor content-length */
	bool cancel;   /* abort says CANCEL, not INTERNAL_ERROR */
	bool deferred; /* nghttp2 waits for data of this stream */
	bool end_sent;
	bool ended; /* nghttp2 has closed it */
	int32_t id;
	struct kp_conn_queue out;
	struct kp_buf *into; /* kp_stream_collect, or NULL */
	struct kp_buf held;  /* body received while paused, at most the stream's window */
	int64_t progress_ns; /* last time a byte of `out` left, or it stopped being empty */
	int64_t body_ns;     /* last byte of the body */
	struct kp_header *trailers;
	size_t n_trailers;
	struct kp_list link, work;
};

/* What a version of HTTP does. Names follow server.h. */
struct kp_http_proto {
	void (*input)(struct kp_http_conn *hc, kp_str bytes);
	void (*eof)(struct kp_http_conn *hc);
	void (*sent)(struct kp_http_conn *hc);
	/* Acts on what is overdue; the next time to look. The connection may be dead afterwards. */
	int64_t (*check)(struct kp_http_conn *hc, int64_t now);
	void (*drain)(struct kp_http_conn *hc);
	void (*drop)(struct kp_http_conn *hc,
		enum kp_stream_end why);       /* the connection is gone: tells all streams */
	void (*fini)(struct kp_http_conn *hc); /* frees; no callback of nghttp2 is on the stack */
	void (*respond)(struct kp_stream *s, int status, const struct kp_header *h, size_t n,
		int64_t content_length);
	void (*write)(struct kp_stream *s, kp_str bytes);
	void (*finish)(struct kp_stream *s, const struct kp_header *trailers, size_t n);
	void (*abort)(struct kp_stream *s);
	void (*pause)(struct kp_stream *s);
	size_t (*queued)(const struct kp_stream *s);
};
extern const struct kp_http_proto kp_http1_proto, kp_http2_proto;
bool kp_http1_is_bulk(const struct kp_stream *s); /* its body is for the receivers */
void kp_http1_received(struct kp_http_conn *hc, struct kp_buf *body, size_t n);
void kp_http2_start(struct kp_http_conn *hc); /* makes the session: before the first input */

enum kp_body { KP_BODY_NONE = 0, KP_BODY_LENGTH, KP_BODY_CHUNKED };

struct kp_http1 {
	struct kp_buf
		in; /* received, not yet used: a partial head, pipelined requests, a paused body */
	struct kp_head_scan scan;
	struct kp_chunked chunked;
	struct kp_stream *s; /* the request in flight */
	enum kp_body body;   /* what is still to come of it, also when `s` is finished already */
	uint64_t body_left;
	bool keep_alive, running;
	int64_t since_ns; /* idle: since when; head: its first byte; body: its last byte */
	struct kp_defer defer;
};

enum { KP_H2_PREFACE = 24 };

struct kp_http_conn {
	struct kp_list link; /* the server's */
	struct kp_http_server *server;
	struct kp_conn *conn;              /* NULL: gone */
	const struct kp_http_proto *proto; /* NULL: the first bytes have not told yet */
	struct kp_timer timer;
	struct kp_defer free_defer;
	bool dead;
	bool draining;
	uint8_t n_preface;
	char preface[KP_H2_PREFACE];
	char peer[KP_CONN_PEER_MAX];
	uint8_t n_peer;
	bool handshaking;
	kp_str *peer_names; /* of the client's certificate; one allocation */
	size_t n_peer_names;
	int64_t born_ns;
	struct kp_http1 h1;
	struct kp_http2 *h2;
};

struct kp_http_server {
	struct kp_loop *loop;
	struct kp_http_limits limits;
	struct kp_head_limits head_limits;
	struct kp_tls_context *tls;
	struct kp_workers *receivers; /* or NULL */
	struct kp_http_handler handler;
	void (*tls_failed)(void *ctx, kp_str peer, const struct kp_err *why); /* or NULL */
	void *tls_failed_ctx;
	/* NULL, or the chance to answer in another form what the server itself refuses; false: not taken. */
	bool (*refuse)(
		struct kp_stream *s, const struct kp_http_request *r, int status, const char *text);
	struct kp_list conns, listeners;
	size_t n_conns, n_unfreed, n_listeners;
	int reserve_fd; /* given up for a moment when descriptors run out */
	bool draining, destroyed;
	void (*done)(void *);
	void *done_arg;
	struct kp_defer done_defer;
	int64_t date_ns; /* loop time at which `date` is made again */
	char date[KP_HTTP_DATE_MAX];
	struct kp_http_counters counters;
};

/* Only the loop writes a counter, so no locked instruction is needed. */
static inline void kp_http_count(struct kp_counter *c, uint64_t n)
{
	atomic_store_explicit(
		&c->v, atomic_load_explicit(&c->v, memory_order_relaxed) + n, memory_order_relaxed);
}

/* http2_head.c: the fields of one header block, and the request they make. Zeroed (text initialised) to begin. */
struct kp_http2_field {
	uint32_t name, n_name, n_value; /* in the text; the value follows the name */
};
struct kp_http2_head {
	struct kp_buf text; /* a spare buffer of the loop while a block is open */
	KP_VEC(struct kp_http2_field)
	fields;
	struct kp_refusal refusal;
	size_t bytes, count;
};
void kp_http2_head_begin(struct kp_http2_head *h, struct kp_http_server *s);
/* false: hopelessly too large, reset the stream. Fields of trailers are only counted. */
bool kp_http2_head_add(struct kp_http2_head *h, const struct kp_http_limits *l, bool is_request,
	struct kp_header x);
/* The stream of a complete block; *ret_refusal says whether to refuse it. NULL: no memory. */
struct kp_stream *kp_http2_head_stream(
	struct kp_http2_head *h, struct kp_http_conn *hc, struct kp_refusal *ret_refusal);
void kp_http2_head_end(struct kp_http2_head *h, struct kp_http_server *s);

/* server.c */
kp_str kp_http_server_date(struct kp_http_server *s);
struct kp_http_conn *kp_http_conn_create(struct kp_http_server *s);
extern const struct kp_conn_ops kp_http_conn_ops; /* user: the kp_http_conn */
void kp_http_conn_start(struct kp_http_conn *hc, struct kp_conn *conn);
/* Looks at the clock no later than due_ns. */
void kp_http_conn_arm(struct kp_http_conn *hc, int64_t due_ns);
enum kp_http_end {
	KP_HTTP_FINISH,
	KP_HTTP_CLOSE,
	KP_HTTP_ABORT
}; /* kp_conn_finish, kp_conn_close, kp_conn_abort */
/* The connection ends; its streams are told `why`. `hc` stays readable until the loop's deferred calls. */
void kp_http_conn_end(struct kp_http_conn *hc, enum kp_http_end how, enum kp_stream_end why);
/* A connection without a socket: what the server sends is appended to sink. For tests and fuzzing. */
struct kp_conn *kp_http_server_memory(struct kp_http_server *s, struct kp_buf *sink);
/* The HTTP server below a gRPC server, for the same. */
struct kp_grpc_server;
struct kp_http_server *kp_grpc_server_http(struct kp_grpc_server *s);

/* stream.c */
struct kp_stream *kp_stream_new(struct kp_http_conn *hc, size_t extra); /* NULL: no memory */
void kp_stream_free(struct kp_stream *s);
/* Calls the handler, then 100-continue and `end` as they fall due. false: the connection is dead. */
bool kp_stream_start(struct kp_stream *s);
/* false: more than max_body_bytes. */
bool kp_stream_deliver(struct kp_stream *s, kp_str piece);
/* The same of a piece that lies in *s->into already, or of which nobody wants to know. */
bool kp_stream_tell(struct kp_stream *s, kp_str piece);
void kp_stream_body_end(struct kp_stream *s);
void kp_stream_close(struct kp_stream *s, enum kp_stream_end why); /* tells `closed`, once */
/* The server itself answers; a handler that had the stream is told `why` first. Breaks the stream off when an answer has begun. */
void kp_stream_refuse(struct kp_stream *s, int status, const char *text, enum kp_stream_end why);
/* For respond: value bytes that would break framing become spaces; names the server itself sets are skipped. */
bool kp_stream_header_is_ours(kp_str name);
void kp_stream_copy_value(char *to, kp_str value);
void kp_stream_100(struct kp_stream *s); /* the client may send the body now */
void kp_stream_low(struct kp_stream *s); /* the queue shrank: ops->writable when it is due */

#endif
