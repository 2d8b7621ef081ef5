/* One connection type for everything in lib/net: TCP or a Unix socket, with or without TLS,
   accepted or made by us. It moves bytes; protocols stand on top. Everything on the loop's thread.

   Reading: every connection of a loop reads into one shared buffer, so an idle connection owns no
   buffer. Writing: kp_conn_write queues; the queue is handed to the kernel once at the end of the
   loop's iteration, or earlier when 64 KiB are there, or by kp_conn_flush. Only when the kernel
   refuses does the connection wait for it (EPOLLOUT). No SIGPIPE is ever raised.

   Life: callbacks stop for ever once kp_conn_close, kp_conn_finish or kp_conn_abort was called or
   `closed` was entered; the pointer is dead then. All of them may be called inside any callback. No
   callback is ever made from inside a kp_conn_* call. The memory goes with a later iteration of the
   loop. */
#ifndef KP_NET_CONN_H
#define KP_NET_CONN_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "net/loop.h"

struct kp_conn;
struct kp_tls_context;
struct kp_workers;

enum {
	KP_CONN_FLUSH_BYTES = 64 << 10, /* so much queued leaves before the iteration ends */
	KP_CONN_MAX_QUEUE = 64 << 20, /* a writer that ignores kp_conn_queued loses the connection:
					 RESOURCE_EXHAUSTED */
};

struct kp_conn_ops { /* every one may be NULL */
	/* Connected, and with TLS the handshake is done. Not called for an accepted cleartext
	 * connection: that one is open from the start. */
	void (*open)(void *user);
	/* Bytes from the other side, at most 64 KiB at once; valid during the call. What is not
	 * used now must be copied. */
	void (*data)(void *user, kp_str bytes);
	/* The other side will send nothing more (or is gone); also comes while reading is paused.
	 * Writing is still possible. Once. */
	void (*eof)(void *user);
	/* Bytes of the queue went to the kernel: a writer that waits for kp_conn_queued to fall
	 * looks now. */
	void (*sent)(void *user);
	/* Could not connect, or broken: UNAVAILABLE, DEADLINE_EXCEEDED (connect or handshake took
	 * too long), RESOURCE_EXHAUSTED, CANCELLED (accepted with TLS, gone without a byte). Once,
	 * last. */
	void (*closed)(void *user, const struct kp_err *why);
	/* kp_conn_receive appended n bytes to the buffer it was given, which comes back here and goes after the call if it is not moved away. n is 0
	 * when nothing was there, or no memory (the buffer has failed). */
	void (*received)(void *user, struct kp_buf *into, size_t n);
};

struct kp_conn_target {
	const char *address; /* "host:port", "[::1]:port", "unix:/path"; names are resolved now,
				addresses tried in order */
	struct kp_tls_context *tls; /* NULL: cleartext; referenced while the connection lives */
	const char *alpn; /* with TLS: the one protocol offered, "h2" or "http/1.1"; NULL: none */
	const char *tls_name; /* name the certificate must have; NULL: the host of `address` */
	int64_t timeout_ns;   /* for everything up to `open`; 0: 5 s */
};

/* Never NULL: failures come through `closed`, later. Writing may begin at once. */
struct kp_conn *kp_conn_connect(struct kp_loop *loop, const struct kp_conn_target *target,
	const struct kp_conn_ops *ops, void *user);
/* Takes an accepted socket over (non-blocking, close-on-exec; TCP_NODELAY as inherited from its listener). With TLS the handshake has 10 s. */
struct kp_conn *kp_conn_accepted(struct kp_loop *loop, int fd, struct kp_tls_context *tls,
	const struct kp_conn_ops *ops, void *user);
/* Another protocol takes over (after the first bytes told which). */
void kp_conn_set_ops(struct kp_conn *c, const struct kp_conn_ops *ops, void *user);

void kp_conn_write(struct kp_conn *c, kp_str bytes);
/* As kp_conn_write without the copy: room for n bytes at the end of the queue, NULL when the
   connection cannot be written to any more; then kp_conn_written with how many were used (<= n),
   before anything else is called on the connection. */
char *kp_conn_room(struct kp_conn *c, size_t n);
void kp_conn_written(struct kp_conn *c, size_t n);
/* Hands the queue to the kernel now. */
void kp_conn_flush(struct kp_conn *c);
size_t kp_conn_queued(const struct kp_conn *c); /* bytes not yet handed to the kernel */
/* When the kernel last took a byte while more were waiting, or refused the first; 0: nothing waits.
 * For write time-outs. */
int64_t kp_conn_blocked_since(const struct kp_conn *c);

/* The next bytes, n at most, do not come through `data`: a worker receives what is there straight into *into, which is moved into the connection,
   and `received` brings it back, once. For long bodies. A pause holds off what has not begun. false: not on this connection (TLS), or one is under
   way. */
bool kp_conn_receive(struct kp_conn *c, struct kp_workers *workers, struct kp_buf *into, size_t n);

/* Stops and resumes `data`. `eof` still comes. Resuming never calls `data` from inside. */
void kp_conn_pause(struct kp_conn *c, bool paused);

/* At once; what is queued is dropped. */
void kp_conn_close(struct kp_conn *c);
/* In peace: what is queued is sent, then FIN (and close_notify), then for at most 2 s whatever
   still comes is read and dropped, so that the other side gets our last bytes and not a reset. */
void kp_conn_finish(struct kp_conn *c);
/* As kp_conn_close, but the other side gets a reset (RST) instead of an end. */
void kp_conn_abort(struct kp_conn *c);

bool kp_conn_is_open(const struct kp_conn *c); /* connected and handshake done */
kp_str kp_conn_alpn(const struct kp_conn *c);  /* "h2", "http/1.1" or empty */
bool kp_conn_is_tls(const struct kp_conn *c);
/* DNS and URI names of the other side's certificate, if it was asked for and is good: how many, at most
   KP_CONN_NAMES_MAX; *ret is one allocation for kp_mem_free, NULL when there are none. */
enum { KP_CONN_NAMES_MAX = 32 };
size_t kp_conn_peer_names(const struct kp_conn *c, kp_str **ret);
/* "127.0.0.1:54321", "[::1]:54321" or "unix"; into buf, returned as slice. */
enum { KP_CONN_PEER_MAX = 64 };
kp_str kp_conn_peer(const struct kp_conn *c, char buf[KP_CONN_PEER_MAX]);
struct kp_loop *kp_conn_loop(const struct kp_conn *c);

#endif
