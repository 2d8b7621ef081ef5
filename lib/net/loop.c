/* DESIGN: a uv_loop_t with four handles of our own: an eventfd (mailbox, stop), a prepare (end of the
   iteration), one uv timer for all kp_timers (a binary heap of pointers, armed only when its first
   entry changed), nothing per connection.

   An iteration: libuv waits, I/O callbacks run, timers run, `prepare` runs what was deferred
   (connections flush here) and arms the timer, then libuv waits again. The clock is read by the
   first callback of an iteration and stands still until the next wait.

   The eventfd is ours and not a uv_async_t: libuv's loop spins until the sender is out of uv_async_send, and a sender whose write
   woke the loop on its own processor is not running then. A loop that a worker of low priority woke waited for it for milliseconds.

   Owner: the thread that runs it. Only the mailbox, stop and the busy clock may be touched by
   others. */
#include "net/loop_internal.h"

#include "base/mem.h"

#include <sys/eventfd.h>
#include <unistd.h>

/* ---- timers ---- */

static void heap_place(struct kp_loop *loop, size_t i, struct kp_timer *t)
{
	loop->heap.p[i] = t;
	t->heap_index = i + 1;
}

static void heap_up(struct kp_loop *loop, size_t i, struct kp_timer *t)
{
	while (i > 0) {
		size_t parent = (i - 1) / 2;
		if (loop->heap.p[parent]->due_ns <= t->due_ns) {
			break;
		}
		heap_place(loop, i, loop->heap.p[parent]);
		i = parent;
	}
	heap_place(loop, i, t);
}

static void heap_down(struct kp_loop *loop, size_t i, struct kp_timer *t)
{
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= loop->heap.n) {
			break;
		}
		if (child + 1 < loop->heap.n &&
			loop->heap.p[child + 1]->due_ns < loop->heap.p[child]->due_ns) {
			child++;
		}
		if (t->due_ns <= loop->heap.p[child]->due_ns) {
			break;
		}
		heap_place(loop, i, loop->heap.p[child]);
		i = child;
	}
	heap_place(loop, i, t);
}

static void heap_fix(struct kp_loop *loop, size_t i, struct kp_timer *t)
{
	if (i > 0 && loop->heap.p[(i - 1) / 2]->due_ns > t->due_ns) {
		heap_up(loop, i, t);
	} else {
		heap_down(loop, i, t);
	}
}

void kp_timer_start(
	struct kp_loop *loop, struct kp_timer *t, int64_t due_ns, void (*fn)(struct kp_timer *))
{
	t->fn = fn;
	/* Not in the past, or a timer that is always due would stay in front of all others. */
	t->due_ns = KP_MAX(due_ns, kp_loop_now(loop));
	if (t->heap_index) {
		heap_fix(loop, t->heap_index - 1, t);
	} else {
		kp_vec_push(&loop->heap, t);
		heap_up(loop, loop->heap.n - 1, t);
	}
}

void kp_timer_stop(struct kp_loop *loop, struct kp_timer *t)
{
	if (!t->heap_index) {
		return;
	}
	size_t i = t->heap_index - 1;
	t->heap_index = 0;
	struct kp_timer *last = loop->heap.p[--loop->heap.n];
	if (last != t) {
		heap_fix(loop, i, last);
	}
}

static void on_timer(uv_timer_t *handle)
{
	struct kp_loop *loop = handle->data;
	kp_loop_enter(loop);
	loop->armed_ns = 0;
	/* A timer that is due again at once waits for the next iteration, or I/O would starve. */
	for (size_t budget = loop->heap.n; budget > 0 && loop->heap.n > 0; budget--) {
		struct kp_timer *t = loop->heap.p[0];
		if (t->due_ns > loop->now_ns) {
			break;
		}
		kp_timer_stop(loop, t);
		t->fn(t);
	}
}

/* The uv timer is never stopped: a needless wake-up now and then costs less than stopping and
 * starting it around every request. */
static void arm_timer(struct kp_loop *loop)
{
	if (loop->heap.n == 0) {
		return;
	}
	int64_t due = loop->heap.p[0]->due_ns;
	if (loop->armed_ns != 0 && loop->armed_ns <= due) {
		return;
	}
	loop->armed_ns = due;
	uint64_t due_ms = due <= 0 ? 0 : ((uint64_t)due + 999999) / 1000000;
	uint64_t now_ms = uv_now(&loop->uv);
	uv_timer_start(&loop->timer, on_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

/* ---- end of an iteration ---- */

void kp_loop_defer(struct kp_loop *loop, struct kp_defer *d, void (*fn)(struct kp_defer *))
{
	if (!kp_list_linked(&d->link)) {
		d->fn = fn;
		kp_list_push(&loop->deferred, &d->link);
	}
}

void kp_loop_undefer(struct kp_defer *d)
{
	kp_list_del(&d->link);
}

static void wake(void *arg)
{
	const struct kp_loop *loop = arg;
	const uint64_t one = 1;
	/* It fails only when nobody has read the last 2^64 of them. */
	ssize_t ignored = write(loop->wake_fd, &one, sizeof(one));
	(void)ignored;
}

/* What deferred work defers runs in the same pass, a few rounds deep (a session that fills its
 * connection, which then flushes). */
static void run_deferred(struct kp_loop *loop)
{
	for (int round = 0; round < 8 && !kp_list_empty(&loop->deferred); round++) {
		struct kp_list batch, *node;
		kp_list_take(&batch, &loop->deferred);
		while ((node = kp_list_pop(&batch))) {
			struct kp_defer *d = KP_CONTAINER(node, struct kp_defer, link);
			d->fn(d);
		}
	}
	if (!kp_list_empty(&loop->deferred)) {
		wake(loop); /* the rest after a look at the sockets */
	}
}

static void on_prepare(uv_prepare_t *handle)
{
	struct kp_loop *loop = handle->data;
	if (!kp_list_empty(&loop->deferred)) {
		kp_loop_enter(loop);
		run_deferred(loop);
	}
	arm_timer(loop);
	loop->awake = false;
	atomic_store_explicit(&loop->busy_since, 0, memory_order_relaxed);
}

static void on_wake(uv_poll_t *handle, int status, int events)
{
	struct kp_loop *loop = handle->data;
	uint64_t n;
	(void)status, (void)events;
	kp_loop_enter(loop);
	ssize_t ignored = read(loop->wake_fd, &n, sizeof(n));
	(void)ignored; /* nothing there: another iteration took it */
	kp_mailbox_drain(loop->mailbox);
	if (atomic_load_explicit(&loop->stopping, memory_order_acquire)) {
		uv_stop(&loop->uv);
	}
}

/* ---- shared write buffers ---- */

void kp_loop_take_spare(struct kp_loop *loop, struct kp_buf *b, size_t max_bytes)
{
	if (loop->n_spares > 0) {
		*b = loop->spares[--loop->n_spares];
		b->max = max_bytes;
	} else {
		kp_buf_init(b, max_bytes);
	}
}

void kp_loop_give_spare(struct kp_loop *loop, struct kp_buf *b)
{
	kp_buf_reset(b); /* frees what is larger than KP_BUF_KEEP */
#ifndef KP_ASAN
	if (b->cap > 0 && loop->n_spares < KP_LOOP_SPARES) {
		loop->spares[loop->n_spares++] = *b;
		kp_buf_init(b, b->max);
		return;
	}
#else
	(void)loop; /* recycled memory would hide a use after free */
#endif
	kp_buf_fini(b);
}

/* ---- life ---- */

struct kp_loop *kp_loop_create(const char *name)
{
	struct kp_loop *loop = kp_new(struct kp_loop);
	loop->name = kp_xstrdup(name);
	kp_list_init(&loop->deferred);
	kp_list_init(&loop->finishing);
	KP_BUG_ON(uv_loop_init(&loop->uv) != 0);
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	KP_BUG_ON(loop->wake_fd < 0);
	KP_BUG_ON(uv_poll_init(&loop->uv, &loop->wake, loop->wake_fd) != 0);
	uv_prepare_init(&loop->uv, &loop->prepare);
	uv_timer_init(&loop->uv, &loop->timer);
	loop->wake.data = loop->prepare.data = loop->timer.data = loop;
	uv_poll_start(&loop->wake, UV_READABLE, on_wake);
	uv_prepare_start(&loop->prepare, on_prepare);
	loop->mailbox = kp_mailbox_create(wake, loop);
	return loop;
}

static void check_closing(uv_handle_t *handle, void *arg)
{
	(void)arg;
	KP_BUG_ON(!uv_is_closing(handle)); /* somebody left a handle open on this loop */
}

void kp_loop_destroy(struct kp_loop *loop)
{
	if (!loop) {
		return;
	}
	KP_BUG_ON(atomic_load(&loop->running));
	/* Messages may still close handles or defer work. */
	kp_mailbox_destroy(loop->mailbox);
	run_deferred(loop);
	kp_conn_drop_finishing(loop);
	run_deferred(loop);
	uv_close((uv_handle_t *)&loop->wake, NULL);
	uv_close((uv_handle_t *)&loop->prepare, NULL);
	uv_close((uv_handle_t *)&loop->timer, NULL);
	uv_walk(&loop->uv, check_closing, NULL);
	uv_run(&loop->uv, UV_RUN_DEFAULT);
	KP_BUG_ON(uv_loop_close(&loop->uv) != 0);
	close(loop->wake_fd);
	for (size_t i = 0; i < loop->n_spares; i++) {
		kp_buf_fini(&loop->spares[i]);
	}
	kp_vec_fini(&loop->heap);
	kp_free(&loop->name);
	kp_mem_free(loop);
}

void kp_loop_run(struct kp_loop *loop)
{
	loop->thread = pthread_self();
	atomic_store(&loop->running, true);
	loop->awake = false;
	if (!atomic_load(&loop->stopping)) {
		uv_run(&loop->uv, UV_RUN_DEFAULT);
	}
	run_deferred(loop);
	atomic_store(&loop->stopping, false);
	loop->awake = false;
	atomic_store_explicit(&loop->busy_since, 0, memory_order_relaxed);
	atomic_store(&loop->running, false);
}

void kp_loop_stop(struct kp_loop *loop)
{
	atomic_store_explicit(&loop->stopping, true, memory_order_release);
	wake(loop);
}

struct uv_loop_s *kp_loop_uv(struct kp_loop *loop)
{
	return &loop->uv;
}

struct kp_mailbox *kp_loop_mailbox(struct kp_loop *loop)
{
	return loop->mailbox;
}

const char *kp_loop_name(const struct kp_loop *loop)
{
	return loop->name;
}

int64_t kp_loop_now(const struct kp_loop *loop)
{
	/* Called from a callback that is not ours (libwebsockets on this loop): that one starts the
	 * iteration. */
	kp_loop_enter(kp_unconst(loop));
	return loop->now_ns;
}

bool kp_loop_is_current(const struct kp_loop *loop)
{
	return !atomic_load_explicit(&loop->running, memory_order_relaxed) ||
	       pthread_equal(loop->thread, pthread_self());
}

int64_t kp_loop_busy_since(const struct kp_loop *loop)
{
	return atomic_load_explicit(&loop->busy_since, memory_order_relaxed);
}
