/* What lib/rpc's own files share. Not for users of lib/rpc. */
#ifndef KP_RPC_INTERNAL_H
#define KP_RPC_INTERNAL_H

#include "rpc/rpc.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"

#include <grpc/grpc.h>
#include <pthread.h>

struct uv_async_s;

/* An operation of gRPC's that is under way; its address is the tag it comes back with, and only the loop
   looks into it. Embedded, one for each kind of operation that an object may have under way. */
struct kp_rpc_op {
	void (*done)(struct kp_rpc_op *op, bool ok);
};

/* What a server and a client have in common: a completion queue with its thread, and the streams. */
struct kp_rpc_side {
	struct kp_loop *loop;
	struct kp_rpc_limits limits; /* none is 0 */
	grpc_completion_queue *queue;
	grpc_channel *keeper;   /* never used, see side.c */
	struct kp_mailbox *box; /* finished operations, for the loop */
	struct uv_async_s *wake;
	pthread_t thread;
	bool is_running;  /* the thread is */
	bool is_stopping; /* no operation may be begun */
	struct kp_list streams;
	unsigned n_streams;
};

/* side.c */
void kp_rpc_side_init(
	struct kp_rpc_side *side, struct kp_loop *loop, const struct kp_rpc_limits *limits);
void kp_rpc_side_run(struct kp_rpc_side *side); /* starts the thread */
/* Any thread: hands a finished operation to the loop. */
void kp_rpc_op_back(struct kp_rpc_side *side, struct kp_rpc_op *op, bool ok);
/* All calls are cancelled; waits until every operation has come back, and runs what is left of it. */
void kp_rpc_side_fini(struct kp_rpc_side *side);
/* Any thread: how often a server of this process failed to accept a connection. */
unsigned kp_rpc_accept_failures(void);
struct kp_addr;
/* Cleartext is for this machine only. */
int kp_rpc_check_address(const char *text, const struct kp_rpc_tls *tls, struct kp_addr *ret,
	struct kp_err *err) KP_MUST_USE;

enum { KP_RPC_ARGS_MAX = 32 };
struct kp_rpc_args {
	grpc_arg p[KP_RPC_ARGS_MAX];
	size_t n;
};
void kp_rpc_arg_int(struct kp_rpc_args *a, const char *key, int value);
void kp_rpc_arg_str(struct kp_rpc_args *a, const char *key, const char *value);
/* Those that server and client have in common. */
void kp_rpc_args_init(struct kp_rpc_args *a, const struct kp_rpc_limits *limits);

/* stream.c */
struct kp_rpc_stream {
	struct kp_list link; /* in side->streams */
	struct kp_rpc_side *side;
	struct kp_rpc_stream_ops ops; /* none: refused, or not accepted yet */
	void *user;
	bool is_server;
	grpc_call *call;       /* NULL: it could not be made */
	grpc_channel *channel; /* of a client, this stream's own */
	char *peer;
	char *tls;       /* of a client, for its errors: " (TLS with `DIR`, for `NAME`)" */
	bool has_answer; /* a message came */
	/* Operations, and what they fill in. */
	struct kp_rpc_op start, receive, send, finish, last;
	unsigned n_under_way;
	bool is_over; /* `last` came back */
	grpc_byte_buffer *received, *sending;
	grpc_metadata_array initial, trailing;
	grpc_status_code code;
	grpc_slice details;
	int cancelled;
	/* What is to be sent. */
	struct kp_list queue;
	size_t queued_bytes, sending_bytes;
	bool is_closing;   /* nothing more is taken to be sent, or handed on */
	bool is_abandoned; /* cancelled */
	bool has_status;   /* ours counts, not what gRPC says */
	struct kp_err status;
	struct kp_timer linger;
};
struct kp_rpc_stream *kp_rpc_stream_create(struct kp_rpc_side *side, bool is_server);
/* `call` is set: begins the operations that run from start to end. */
void kp_rpc_stream_start(struct kp_rpc_stream *s);
void kp_rpc_stream_receive(struct kp_rpc_stream *s);
/* There is no call, `status` says why: `closed` follows. */
void kp_rpc_stream_stillborn(struct kp_rpc_stream *s);

/* tls.c */
struct grpc_server_credentials;
struct grpc_channel_credentials;
static inline bool kp_rpc_is_secure(const struct kp_rpc_tls *tls)
{
	return tls && (tls->dir || tls->keys);
}
struct kp_rpc_watch; /* the files of a server: looked at for each connection */
/* `watch`: for kp_rpc_watch_destroy, after the server is gone. */
grpc_server_credentials *kp_rpc_server_credentials(
	const struct kp_rpc_tls *tls, struct kp_rpc_watch **watch, struct kp_err *err) KP_MUST_USE;
void kp_rpc_watch_destroy(struct kp_rpc_watch *w); /* NULL is fine */
struct kp_rpc_files; /* of a client: the last that were good, so that it goes on with them */
/* *files: NULL the first time; for kp_rpc_files_destroy. */
grpc_channel_credentials *kp_rpc_channel_credentials(
	const struct kp_rpc_tls *tls, struct kp_rpc_files **files, struct kp_err *err) KP_MUST_USE;
void kp_rpc_files_destroy(struct kp_rpc_files *f); /* NULL is fine */

#endif
