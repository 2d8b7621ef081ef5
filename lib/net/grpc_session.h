/* One HTTP/2 connection's worth of gRPC client calls as a byte machine: server bytes in, client bytes and events out. No socket, no clock, no loop; one
   thread. The events depend on the server's bytes only, never on how they were cut (one exception: a server that breaks its own content-length may get
   more or fewer of the messages before the break delivered). grpc.c puts it on a connection.

   Callbacks must not call kp_grpc_session_recv, _send, _fail or _destroy. A stream's memory is the embedder's, and must stay until the session call that is
   running returns, even if a callback has ended or reset the stream. */
#ifndef KP_NET_GRPC_SESSION_H
#define KP_NET_GRPC_SESSION_H

#include "base/arena.h"
#include "base/list.h"
#include "base/vec.h"
#include "net/grpc_wire.h"
#include "net/http.h"

struct kp_grpc_session;
struct kp_grpc_stream;

enum {
	KP_GRPC_METADATA_MAX = 64, /* headers a call may send */
	/* Names and values a call may send, and may receive in all its header blocks together. */
	KP_GRPC_HEAD_BYTES_MAX = 64 << 10,
};

struct kp_grpc_stream_ops {
	/* One message, valid during the call. May hold or reset this stream, reset others, hold others, kill the session. */
	void (*message)(struct kp_grpc_stream *st, kp_str bytes);
	/* Exactly once unless the stream was reset by us; status, is_processed and trailers are set. */
	void (*end)(struct kp_grpc_stream *st);
};

/* Embedded in the owner's call. Fields are for reading. */
struct kp_grpc_stream {
	const struct kp_grpc_stream_ops *ops;
	struct kp_list link;             /* in its session while open there */
	struct kp_grpc_session *session; /* NULL: not open (any more) */
	kp_str request;                  /* framed; the owner's, until `end` or reset */
	kp_str tail;                     /* of the request, behind it; the same */
	size_t request_sent;
	size_t head_bytes;
	size_t unconsumed; /* received bytes the server has no credit for yet */
	struct kp_grpc_deframer in;
	int32_t id;
	int http_status; /* 0: none yet */
	bool is_grpc;    /* the content type says so */
	bool has_status; /* grpc-status seen in a header block that ends the stream */
	bool is_sent;    /* its HEADERS have gone into the output */
	bool is_ending;  /* over on the wire; `end` waits behind held messages */
	bool is_processed;
	struct kp_err status;
	/* Without grpc-status, grpc-message, content-type; "-bin" values decoded. */
	KP_VEC(struct kp_header)
	trailers;
	struct kp_arena *arena; /* their bytes; NULL until there is one */
};

struct kp_grpc_session_opts {
	bool is_tls;
	kp_str authority;                        /* copied */
	kp_str user_agent;                       /* copied */
	size_t stream_window, connection_window; /* bytes, 65535 .. 2^31-1 */
};

struct kp_grpc_session_info {
	bool is_ready;   /* the server's SETTINGS have come */
	bool is_retired; /* GOAWAY, or out of stream ids: no new calls here */
	bool is_over;    /* nothing left to read or write: close the connection */
	bool is_killed;
	size_t n_streams;   /* calls attached */
	size_t n_open;      /* streams the server may count, calls that were reset included */
	size_t max_open;    /* the server's MAX_CONCURRENT_STREAMS */
	uint64_t n_answers; /* HEADERS and DATA received */
	uint32_t goaway_error;
	char goaway_text[80]; /* the server's debug data, cleaned */
};

struct kp_grpc_session *kp_grpc_session_create(const struct kp_grpc_session_opts *o);
/* Streams must have ended or been reset. NULL is fine. */
void kp_grpc_session_destroy(struct kp_grpc_session *s);
const struct kp_grpc_session_info *kp_grpc_session_info(const struct kp_grpc_session *s);
/* "PROTOCOL_ERROR": the error of the GOAWAY that we sent, else of the server's. */
const char *kp_grpc_session_end_reason(const struct kp_grpc_session *s);

/* -1: the connection is useless, close it and call kp_grpc_session_fail. KP_CANCELLED: killed inside a callback. */
int kp_grpc_session_recv(struct kp_grpc_session *s, kp_str bytes, struct kp_err *err) KP_MUST_USE;
/* The next bytes to send, valid until the next call on the session; empty: nothing (more) for now. */
int kp_grpc_session_send(
	struct kp_grpc_session *s, kp_str *ret_piece, struct kp_err *err) KP_MUST_USE;
/* Ends every stream with *why, and allows no new one. is_processed as far as is known. */
void kp_grpc_session_fail(struct kp_grpc_session *s, const struct kp_err *why);
/* Inside a callback: recv returns -1 as soon as the callback has returned. */
void kp_grpc_session_kill(struct kp_grpc_session *s);
void kp_grpc_session_ping(struct kp_grpc_session *s);
/* Tells the server that we go (NO_ERROR); then send, then close. */
void kp_grpc_session_goodbye(struct kp_grpc_session *s);
/* Calls that may be opened now. */
size_t kp_grpc_session_room(const struct kp_grpc_session *s);

void kp_grpc_stream_init(struct kp_grpc_stream *st, const struct kp_grpc_stream_ops *ops,
	kp_str framed_request, size_t max_message, size_t stream_window);
void kp_grpc_stream_fini(struct kp_grpc_stream *st);
static inline bool kp_grpc_stream_is_sent(const struct kp_grpc_stream *st)
{
	return st->request_sent == st->request.n + st->tail.n;
}
/* Needs room. path and metadata are copied (metadata checked before; "-bin" values already base64); timeout_ns 0: none. -1: nothing was opened. */
int kp_grpc_stream_open(struct kp_grpc_session *s, struct kp_grpc_stream *st, kp_str path,
	const struct kp_header *metadata, size_t n_metadata, int64_t timeout_ns,
	struct kp_err *err) KP_MUST_USE;
/* RST_STREAM(CANCEL); no callback follows. A stream that is not open is only silenced. */
void kp_grpc_stream_reset(struct kp_grpc_stream *st);
/* No message is handed out, no credit given, until release. */
void kp_grpc_stream_hold(struct kp_grpc_stream *st);
/* Hands out what waits (calls message, end); not from inside a callback of this stream. */
void kp_grpc_stream_release(struct kp_grpc_stream *st);

#endif
