/* One connection of a gRPC channel: a kp_conn, the session on it, the wait for the server's SETTINGS, and keepalive. Owned by a channel (grpc.c), on its
   loop's thread. Private to lib/net. */
#ifndef KP_NET_GRPC_LINK_H
#define KP_NET_GRPC_LINK_H

#include "net/conn.h"
#include "net/grpc_session.h"

struct kp_grpc_link;

struct kp_grpc_link_ops {
	/* Bytes came or went: look at the session (ready? retired? room?) and pump, later in this iteration: it must not close the link from inside. */
	void (*activity)(struct kp_grpc_link *l);
	/* The connection could not be made or is of no more use. Its calls have not been told; the owner does that and closes the link. Once, last. */
	void (*lost)(struct kp_grpc_link *l, const struct kp_err *why);
};

struct kp_grpc_link_opts {
	const char *address, *tls_name; /* for kp_conn_target */
	int (*check_names)(void *user, const kp_str *names, size_t n, struct kp_err *err);
	void *check_user;
	struct kp_tls_context *tls;
	int64_t connect_timeout_ns; /* until the server's SETTINGS are there */
	int64_t keepalive_timeout_ns;
	bool keepalive_always;
	struct kp_grpc_session_opts session;
};

struct kp_grpc_link {
	struct kp_list link; /* in the channel */
	void *user;          /* the channel */
	const struct kp_grpc_link_ops *ops;
	const struct kp_grpc_link_opts *opts; /* the channel's */
	struct kp_loop *loop;
	struct kp_conn *conn;            /* NULL: lost or closed */
	struct kp_grpc_session *session; /* lasts as long as the link */
	struct kp_timer timer;
	int64_t begun_ns, heard_ns; /* connect began; last byte received */
	int64_t keepalive_ns, keepalive_timeout_ns, connect_timeout_ns;
	int64_t quiet_from_ns,
		pinged_ns; /* keepalive counts from here; when the PING that is out was sent, 0: none is */
	uint64_t answers_seen;
	unsigned n_pings; /* since the server's last HEADERS or DATA */
	bool keepalive_always;
	bool is_doubtful;  /* the answer to the PING is overdue, but it may lie in the socket */
	bool is_receiving; /* inside kp_grpc_session_recv */
	bool is_ready;     /* the server's SETTINGS have come */
};

struct kp_grpc_link *kp_grpc_link_open(struct kp_loop *loop, const struct kp_grpc_link_opts *o,
	int64_t keepalive_ns, const struct kp_grpc_link_ops *ops, void *user);
/* GOAWAY and a peaceful end where there is time for it. The streams must be gone. Not inside the session's callbacks. Frees the link. */
void kp_grpc_link_close(struct kp_grpc_link *l);
/* Writes what the session has to send, as far as the connection takes it. -1: the session is over, treat the link as lost. */
int kp_grpc_link_pump(struct kp_grpc_link *l, struct kp_err *err) KP_MUST_USE;
/* A call has been opened on it. */
void kp_grpc_link_watch(struct kp_grpc_link *l);
/* The server answered something, or the connection has lived for a second: losing it is no reason to back off. */
bool kp_grpc_link_was_good(const struct kp_grpc_link *l);

#endif
