/* What lib/net's own files share of a loop: the shared buffers and the busy clock. Not for users of
 * lib/net. */
#ifndef KP_NET_LOOP_INTERNAL_H
#define KP_NET_LOOP_INTERNAL_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/vec.h"
#include "net/loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

enum {
	KP_LOOP_READ_BYTES = 64 << 10, /* what one connection reads at once */
	KP_LOOP_SPARES = 64,           /* write buffers kept for the next writer */
};

struct kp_loop {
	uv_loop_t uv;
	int wake_fd; /* an eventfd, written by any thread */
	uv_poll_t wake;
	uv_prepare_t prepare;
	uv_timer_t timer;
	char *name;
	struct kp_mailbox *mailbox;
	KP_VEC(struct kp_timer *)
	heap;             /* smallest due_ns first */
	int64_t armed_ns; /* what the uv timer waits for, 0: stopped */
	struct kp_list deferred;
	struct kp_list
		finishing; /* connections without an owner that still send their last bytes */
	int64_t now_ns;
	bool awake; /* between the first callback of an iteration and the next wait */
	atomic_int_fast64_t busy_since; /* relaxed: the watchdog only needs a recent value */
	atomic_bool stopping;
	atomic_bool running;
	pthread_t thread; /* valid while running */
	/* Every connection reads into these; what is in them is gone when the callback returns. */
	char read_buf[KP_LOOP_READ_BYTES];
	char plain_buf[KP_LOOP_READ_BYTES]; /* what TLS made of it */
	struct kp_buf spares[KP_LOOP_SPARES];
	size_t n_spares;
};

/* First line of every libuv callback in lib/net: starts the busy clock and reads the time once. */
static inline void kp_loop_enter(struct kp_loop *loop)
{
	if (!loop->awake) {
		loop->awake = true;
		loop->now_ns = kp_now_ns();
		atomic_store_explicit(&loop->busy_since, loop->now_ns, memory_order_relaxed);
	}
}

/* A write buffer while there is something to write; give it back when it is empty. An idle
 * connection holds none. */
void kp_loop_take_spare(struct kp_loop *loop, struct kp_buf *b, size_t max_bytes);
void kp_loop_give_spare(struct kp_loop *loop, struct kp_buf *b);

/* conn.c: closes the connections in `finishing`, when the loop ends. */
void kp_conn_drop_finishing(struct kp_loop *loop);

#endif
