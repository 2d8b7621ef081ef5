/* The insides of a connection, shared by conn.c (sockets, queue, life), conn_dial.c (resolve,
 * connect) and conn_tls.c (OpenSSL). */
#ifndef KP_NET_CONN_INTERNAL_H
#define KP_NET_CONN_INTERNAL_H

#include "net/addr.h"
#include "net/conn.h"
#include "net/loop_internal.h"

enum kp_conn_state {
	KP_CONN_DIALING = 0, /* resolving or connecting */
	KP_CONN_HANDSHAKE,
	KP_CONN_OPEN,
	KP_CONN_FINISHING, /* no owner any more; the queue leaves */
	KP_CONN_LINGER,    /* everything sent, FIN too; what comes is dropped */
	KP_CONN_DEAD,
};

/* A queue of bytes with a read position: [off, b.n) is still to go. No memory while empty. */
struct kp_conn_queue {
	struct kp_buf b;
	size_t off;
};

struct kp_conn_bulk;
struct kp_conn_dial;
struct kp_conn_tls;

struct kp_conn {
	struct kp_loop *loop;
	const struct kp_conn_ops *ops;
	void *user;
	uv_poll_t poll;
	int fd;          /* -1 while there is no socket */
	int watched;     /* what uv_poll waits for now */
	bool has_handle; /* `poll` is initialised; memory may go only after its close callback */
	bool handle_closing;
	bool paused;
	bool eof_told; /* ops->eof was called */
	bool eof_read; /* nothing more to read */
	bool blocked;  /* the kernel refused bytes */
	bool fin_sent;
	bool heard;        /* a byte came */
	bool sent_pending; /* ops->sent is due */
	bool free_deferred;
	bool stalled;       /* memory connections: sends are refused */
	bool memory;        /* no socket: what is sent goes to `sink` (tests) */
	uint8_t state;      /* enum kp_conn_state */
	int fail_sys;       /* errno of a failure noticed inside a call, told later */
	uint16_t fail_code; /* enum kp_code, 0: none */
	struct kp_conn_queue out;
	int64_t progress_ns;
	struct kp_timer timer;
	struct kp_defer defer;
	struct kp_list finishing;  /* in the loop, while FINISHING and LINGER */
	struct kp_conn_dial *dial; /* until open */
	struct kp_conn_tls *tls;   /* NULL: cleartext */
	struct kp_conn_bulk *bulk; /* while kp_conn_receive is under way */
	struct kp_buf *sink;
};

/* conn.c */
struct kp_conn *kp_conn_new(struct kp_loop *loop, const struct kp_conn_ops *ops, void *user);
int kp_conn_start(struct kp_conn *c, int fd); /* 0 or an errno; fd is the connection's on success */
void kp_conn_touch(
	struct kp_conn *c); /* look at it at the end of the iteration: flush, interest, failures */
void kp_conn_watch(struct kp_conn *c); /* brings uv_poll in line with what is wanted */
/* Tells the owner and destroys. Only from a callback of the loop. */
void kp_conn_fail(struct kp_conn *c, const struct kp_err *why);
void kp_conn_deliver(struct kp_conn *c, kp_str bytes);
void kp_conn_deliver_eof(struct kp_conn *c);
void kp_conn_opened(struct kp_conn *c); /* state OPEN, timer stopped, ops->open */
void kp_conn_drop_socket(struct kp_conn *c);
void kp_conn_release(struct kp_conn *c);
bool kp_conn_queue_room(struct kp_loop *loop, struct kp_conn_queue *q, size_t n, size_t max);
void kp_conn_queue_took(struct kp_loop *loop, struct kp_conn_queue *q, size_t n);
void kp_conn_queue_fini(struct kp_loop *loop, struct kp_conn_queue *q);

/* What reading found. The connection may be dead afterwards. */
void kp_conn_take_eof(struct kp_conn *c);
void kp_conn_receive_failed(struct kp_conn *c, int sys);

/* conn_bulk.c */
void kp_conn_bulk_readable(struct kp_conn *c);   /* something came for it; a callback of the loop */
bool kp_conn_bulk_runs(const struct kp_conn *c); /* the socket is a worker's */
void kp_conn_bulk_destroy(struct kp_conn *c);    /* before the socket goes */

/* conn_dial.c */
void kp_conn_dial_step(struct kp_conn *c);              /* begins, once */
void kp_conn_dial_ready(struct kp_conn *c, int status); /* the socket became writable or failed */
void kp_conn_dial_handle_closed(struct kp_conn *c);
void kp_conn_dial_destroy(struct kp_conn *c); /* keeps a look-up that still runs alive */
bool kp_conn_dial_pending(const struct kp_conn *c);

/* conn_tls.c */
struct kp_tls_context;
int kp_conn_tls_create(struct kp_conn *c, struct kp_tls_context *ctx, const char *name,
	const char *alpn, struct kp_err *err) KP_MUST_USE;
void kp_conn_tls_destroy(struct kp_conn *c);
/* Ciphertext came in; handshake, decrypt, deliver. -1: broken. The connection may be dead
 * afterwards. */
int kp_conn_tls_input(struct kp_conn *c, kp_str bytes, struct kp_err *err) KP_MUST_USE;
bool kp_conn_tls_has_rest(const struct kp_conn *c); /* ciphertext kept while reading was paused */
/* Encrypts up to 64 KiB of c->out, if the ciphertext queue is empty. */
int kp_conn_tls_output(struct kp_conn *c, struct kp_err *err) KP_MUST_USE;
struct kp_conn_queue *kp_conn_tls_queue(const struct kp_conn *c);
void kp_conn_tls_close_notify(struct kp_conn *c);
void kp_conn_send_alert(
	struct kp_conn *c); /* conn.c: one attempt to send what TLS left in its queue */

/* A connection without a socket, for tests and fuzzing: input by kp_conn_memory_feed, what it sends
 * is appended to *sink. */
struct kp_conn *kp_conn_memory(
	struct kp_loop *loop, struct kp_buf *sink, const struct kp_conn_ops *ops, void *user);
bool kp_conn_memory_feed(
	struct kp_conn *c, kp_str bytes); /* false: reading is paused or over, nothing was taken */
void kp_conn_memory_stall(
	struct kp_conn *c, bool stalled); /* the "kernel" takes nothing while stalled */
void kp_conn_memory_eof(struct kp_conn *c);

#endif
