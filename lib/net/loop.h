/* One event loop: a thread's uv_loop_t with what everything on it shares (read buffer, timers, mailbox, end-of-iteration work, a busy clock
   for the watchdog). Everything here is for the loop's own thread unless it says "any thread". */
#ifndef KP_NET_LOOP_H
#define KP_NET_LOOP_H

#include "base/mailbox.h"

struct uv_loop_s;
struct kp_loop;

struct kp_loop *kp_loop_create(
	const char *name); /* name: for logs and the watchdog, e.g. "loop-0" */
void kp_loop_destroy(struct kp_loop
		*loop); /* after run returned; every handle on it must be closed or closing */
/* Until kp_loop_stop. The calling thread becomes the loop's thread. */
void kp_loop_run(struct kp_loop *loop);
void kp_loop_stop(struct kp_loop *loop);              /* any thread */
const char *kp_loop_name(const struct kp_loop *loop); /* any thread */
struct uv_loop_s *kp_loop_uv(struct kp_loop *loop);
struct kp_mailbox *kp_loop_mailbox(struct kp_loop *loop); /* post from any thread */
/* Monotonic ns, read once per iteration. */
int64_t kp_loop_now(const struct kp_loop *loop);
bool kp_loop_is_current(const struct kp_loop *loop);
#define kp_assert_on(loop) KP_BUG_ON(!kp_loop_is_current(loop))
/* Any thread: monotonic ns at which the running iteration's callbacks began, 0 while the loop waits; and what it runs. */
int64_t kp_loop_busy_since(const struct kp_loop *loop);

/* Timers: embed one; stopping is immediate, memory may be freed right after. Zeroed = stopped. */
struct kp_timer {
	int64_t due_ns;
	size_t heap_index; /* position + 1 in the loop's heap, 0 stopped */
	void (*fn)(struct kp_timer *t);
};
void kp_timer_start(struct kp_loop *loop, struct kp_timer *t, int64_t due_ns,
	void (*fn)(struct kp_timer *)); /* restarts a running one */
void kp_timer_stop(struct kp_loop *loop, struct kp_timer *t);

/* Once, after all I/O callbacks of this iteration (before the loop waits again): this is how what arrives together leaves together. Scheduling a
   linked one again does nothing. */
struct kp_defer {
	struct kp_list link; /* zero: not scheduled */
	void (*fn)(struct kp_defer *d);
};
void kp_loop_defer(struct kp_loop *loop, struct kp_defer *d, void (*fn)(struct kp_defer *));
void kp_loop_undefer(struct kp_defer *d);

#endif
