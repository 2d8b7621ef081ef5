/* DESIGN: one uv_poll_t on a socket of our own, not uv_tcp_t: so that we see the other side's FIN
   while reading is paused (EPOLLRDHUP), send with MSG_NOSIGNAL, need no request object per write,
   and treat TCP and Unix sockets alike.

   Writes gather in one contiguous queue taken from the loop's spare buffers; the deferred call at
   the end of the iteration hands it to the kernel in one send(). With TLS the plaintext queue is
   encrypted into a second queue, 64 KiB at a time, so that a stalled client does not double its
   memory. Failures noticed inside a call of the owner are kept (fail_code) and told from the
   deferred call: no callback runs inside a kp_conn_* call.

   Life: kp_conn_new .. DEAD; the memory goes when no uv handle, no look-up and no deferred call
   refers to it any more (kp_conn_release). Callers in this file therefore may look at c->state
   after any callback. */
#include "net/conn_internal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	LINGER_NS = 2000000000,
	FINISH_CHECK_S = 5,
	FINISH_STALL_S =
		30, /* a finished connection whose client takes nothing for so long is closed */
};

/* ---- queues ---- */

bool kp_conn_queue_room(struct kp_loop *loop, struct kp_conn_queue *q, size_t n, size_t max)
{
	if (q->b.cap == 0) {
		kp_loop_take_spare(loop, &q->b, max);
	}
	return kp_buf_reserve(&q->b, n);
}

/* n more bytes have left. An empty queue gives its memory back; one that stays behind a slow reader
 * gets memory of its own size. */
void kp_conn_queue_took(struct kp_loop *loop, struct kp_conn_queue *q, size_t n)
{
	q->off += n;
	size_t left = q->b.n - q->off;
	if (left == 0) {
		kp_loop_give_spare(loop, &q->b);
		q->off = 0;
	} else if (left < q->b.cap / 8 || (q->off > left && q->off > 4096)) {
		struct kp_buf small;
		kp_buf_init(&small, q->b.max);
		kp_buf_add(&small, kp_str_n(q->b.p + q->off, left));
		if (kp_buf_ok(&small)) {
			kp_loop_give_spare(loop, &q->b);
			q->b = small;
			q->off = 0;
		}
	}
}

void kp_conn_queue_fini(struct kp_loop *loop, struct kp_conn_queue *q)
{
	if (q->b.cap > 0) {
		kp_loop_give_spare(loop, &q->b);
	}
	q->off = 0;
}

/* ---- watching the socket ---- */

static void on_poll(uv_poll_t *handle, int status, int events);

void kp_conn_watch(struct kp_conn *c)
{
	if (!c->has_handle || c->handle_closing) {
		return;
	}
	int want = 0;
	if (c->state == KP_CONN_DIALING) {
		want = UV_WRITABLE;
	} else if (c->state != KP_CONN_DEAD) {
		if (c->paused && c->state != KP_CONN_HANDSHAKE) {
			want |= c->eof_told ? 0 : UV_DISCONNECT;
		} else {
			want |= c->eof_read || kp_conn_bulk_runs(c) ? 0 : UV_READABLE;
		}
		want |= c->blocked ? UV_WRITABLE : 0;
	}
	if (want == c->watched) {
		return;
	}
	c->watched = want;
	if (want) {
		uv_poll_start(&c->poll, want, on_poll);
	} else {
		uv_poll_stop(&c->poll);
	}
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct kp_conn *c = handle->data;
	kp_loop_enter(c->loop);
	c->has_handle = c->handle_closing = false;
	if (c->state == KP_CONN_DEAD) {
		kp_conn_release(c);
	} else {
		kp_conn_dial_handle_closed(c);
	}
}

void kp_conn_drop_socket(struct kp_conn *c)
{
	if (c->has_handle && !c->handle_closing) {
		uv_poll_stop(&c->poll);
		c->watched = 0;
		c->handle_closing = true;
		uv_close((uv_handle_t *)&c->poll, on_handle_closed);
	}
	if (c->fd >= 0) {
		close(c->fd);
		c->fd = -1;
	}
}

int kp_conn_start(struct kp_conn *c, int fd)
{
	int rc = uv_poll_init(&c->loop->uv, &c->poll, fd);
	if (rc < 0) {
		return -rc;
	}
	c->poll.data = c;
	c->has_handle = true;
	c->watched = 0;
	c->fd = fd;
	return 0;
}

/* ---- life ---- */

struct kp_conn *kp_conn_new(struct kp_loop *loop, const struct kp_conn_ops *ops, void *user)
{
	kp_assert_on(loop);
	struct kp_conn *c = kp_new(struct kp_conn);
	c->loop = loop;
	c->ops = ops;
	c->user = user;
	c->fd = -1;
	return c;
}

static void on_free(struct kp_defer *d)
{
	struct kp_conn *c = KP_CONTAINER(d, struct kp_conn, defer);
	c->free_deferred = false;
	kp_conn_release(c);
}

void kp_conn_release(struct kp_conn *c)
{
	if (c->has_handle || c->free_deferred || kp_conn_dial_pending(c)) {
		return;
	}
	kp_free(&c->dial);
	kp_mem_free(c);
}

/* Everything goes but the memory of `c` itself. */
static void destroy(struct kp_conn *c)
{
	if (c->state == KP_CONN_DEAD) {
		return;
	}
	c->state = KP_CONN_DEAD;
	c->ops = NULL;
	kp_list_del(&c->finishing);
	kp_timer_stop(c->loop, &c->timer);
	kp_loop_undefer(&c->defer);
	kp_conn_queue_fini(c->loop, &c->out);
	kp_conn_tls_destroy(c);
	kp_conn_dial_destroy(c);
	kp_conn_bulk_destroy(c);
	kp_conn_drop_socket(c);
	c->free_deferred = true;
	kp_loop_defer(c->loop, &c->defer, on_free);
}

void kp_conn_close(struct kp_conn *c)
{
	if (c) {
		destroy(c);
	}
}

void kp_conn_abort(struct kp_conn *c)
{
	if (c && c->fd >= 0) {
		struct linger reset = { .l_onoff = 1, .l_linger = 0 };
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	}
	kp_conn_close(c);
}

void kp_conn_fail(struct kp_conn *c, const struct kp_err *why)
{
	if (c->state == KP_CONN_DEAD) {
		return;
	}
	const struct kp_conn_ops *ops = c->ops;
	void *user = c->user;
	destroy(c);
	if (ops && ops->closed) {
		ops->closed(user, why);
	}
}

static void fail_noted(struct kp_conn *c)
{
	struct kp_err err;
	if (c->fail_code == KP_RESOURCE_EXHAUSTED) {
		kp_err_set(&err, KP_RESOURCE_EXHAUSTED,
			"send: more than %d MiB wait for the other side", KP_CONN_MAX_QUEUE >> 20);
	} else if (c->fail_sys) {
		kp_err_sys(&err, c->fail_sys, "send");
		err.code = KP_UNAVAILABLE;
	} else {
		kp_err_set(&err, KP_UNAVAILABLE, "send: TLS failed");
	}
	kp_conn_fail(c, &err);
}

static void note_failure(struct kp_conn *c, enum kp_code code, int sys)
{
	if (!c->fail_code) {
		c->fail_code = (uint16_t)code;
		c->fail_sys = sys;
		kp_conn_touch(c);
	}
}

/* ---- sending ---- */

static ssize_t send_some(struct kp_conn *c, const char *p, size_t n)
{
	if (c->memory) {
		if (c->stalled) {
			errno = EAGAIN;
			return -1;
		}
		kp_buf_add(c->sink, kp_str_n(p, n));
		return (ssize_t)n;
	}
	ssize_t sent;
	do {
		sent = send(c->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent < 0 && errno == EINTR);
	return sent;
}

static void set_blocked(struct kp_conn *c, bool blocked)
{
	if (blocked && !c->blocked) {
		c->progress_ns = kp_loop_now(c->loop);
	}
	if (blocked != c->blocked) {
		c->blocked = blocked;
		kp_conn_touch(c); /* the watch changes */
	}
}

/* true: the queue is empty now. false: blocked, or broken (noted). */
static bool send_queue(struct kp_conn *c, struct kp_conn_queue *q)
{
	size_t left = q->b.n - q->off;
	if (left == 0) {
		return true;
	}
	ssize_t n = send_some(c, q->b.p + q->off, left);
	if (n < 0) {
		if (errno == EAGAIN || errno == EWOULDBLOCK) {
			set_blocked(c, true);
		} else {
			note_failure(c, KP_UNAVAILABLE, errno);
		}
		return false;
	}
	c->sent_pending = true;
	kp_conn_queue_took(c->loop, q, (size_t)n);
	if ((size_t)n < left) {
		set_blocked(c, true);
		c->progress_ns = kp_loop_now(c->loop);
		return false;
	}
	return true;
}

static void send_tls(struct kp_conn *c)
{
	struct kp_err err;
	struct kp_conn_queue *cipher = kp_conn_tls_queue(c);
	for (;;) {
		if (!send_queue(c, cipher)) {
			return;
		}
		if (c->out.b.n == c->out.off) {
			break;
		}
		if (kp_conn_tls_output(c, &err) < 0) {
			note_failure(c, KP_UNAVAILABLE, 0);
			return;
		}
		if (cipher->b.n == cipher->off) {
			return; /* the handshake is not done */
		}
	}
	set_blocked(c, false);
}

void kp_conn_send_alert(struct kp_conn *c)
{
	struct kp_conn_queue *q = kp_conn_tls_queue(c);
	if (!c->blocked && q->b.n > q->off) {
		(void)send_some(c, q->b.p + q->off, q->b.n - q->off);
	}
}

static void flush(struct kp_conn *c)
{
	if (c->fail_code || c->state == KP_CONN_DIALING || c->state >= KP_CONN_LINGER) {
		return;
	}
	if (c->tls) {
		send_tls(c);
	} else if (send_queue(c, &c->out)) {
		set_blocked(c, false);
	}
}

/* FINISHING: when everything is sent comes FIN, then the linger. */
static void finish_step(struct kp_conn *c)
{
	if (c->blocked || c->fail_code) {
		return;
	}
	if (c->tls && !c->fin_sent) {
		c->fin_sent = true;
		kp_conn_tls_close_notify(c);
		flush(c);
		if (c->blocked || c->fail_code) {
			return;
		}
	}
	if (c->memory || c->eof_read || shutdown(c->fd, SHUT_WR) < 0) {
		destroy(c);
		return;
	}
	c->state = KP_CONN_LINGER;
	c->paused = false;
	kp_timer_start(c->loop, &c->timer, kp_loop_now(c->loop) + LINGER_NS, c->timer.fn);
}

static void tls_rest(struct kp_conn *c)
{
	struct kp_err err;
	if (c->tls && !c->paused && kp_conn_tls_has_rest(c) &&
		kp_conn_tls_input(c, KP_STR_NULL, &err) < 0) {
		kp_conn_fail(c, &err);
	}
}

static void on_defer(struct kp_defer *d)
{
	struct kp_conn *c = KP_CONTAINER(d, struct kp_conn, defer);
	if (c->state == KP_CONN_DIALING && !c->fail_code) {
		kp_conn_dial_step(c);
	}
	flush(c);
	if (c->state == KP_CONN_FINISHING) {
		finish_step(c);
	}
	if (c->state != KP_CONN_DEAD && c->fail_code) {
		fail_noted(c);
	}
	if (c->state == KP_CONN_OPEN) {
		tls_rest(c);
	}
	if (c->sent_pending && c->state != KP_CONN_DEAD) {
		c->sent_pending = false;
		if (c->ops && c->ops->sent) {
			c->ops->sent(c->user);
		}
	}
	if (c->state != KP_CONN_DEAD) {
		kp_conn_watch(c);
	}
}

void kp_conn_touch(struct kp_conn *c)
{
	if (c->state != KP_CONN_DEAD) {
		kp_loop_defer(c->loop, &c->defer, on_defer);
	}
}

char *kp_conn_room(struct kp_conn *c, size_t n)
{
	if (c->state >= KP_CONN_FINISHING || c->fail_code) {
		return NULL;
	}
	if (!kp_conn_queue_room(c->loop, &c->out, n, KP_CONN_MAX_QUEUE)) {
		note_failure(c, KP_RESOURCE_EXHAUSTED, 0);
		return NULL;
	}
	return c->out.b.p + c->out.b.n;
}

void kp_conn_written(struct kp_conn *c, size_t n)
{
	KP_BUG_ON(n > c->out.b.cap - c->out.b.n);
	c->out.b.n += n;
	if (!c->blocked && c->out.b.n - c->out.off >= KP_CONN_FLUSH_BYTES) {
		flush(c);
	}
	kp_conn_touch(c);
}

void kp_conn_write(struct kp_conn *c, kp_str bytes)
{
	char *room = bytes.n ? kp_conn_room(c, bytes.n) : NULL;
	if (room) {
		memcpy(room, bytes.p, bytes.n);
		kp_conn_written(c, bytes.n);
	}
}

void kp_conn_flush(struct kp_conn *c)
{
	if (c->state < KP_CONN_FINISHING && !c->blocked) {
		flush(c);
	}
}

size_t kp_conn_queued(const struct kp_conn *c)
{
	const struct kp_conn_queue *cipher = c->tls ? kp_conn_tls_queue(c) : NULL;
	return c->out.b.n - c->out.off + (cipher ? cipher->b.n - cipher->off : 0);
}

int64_t kp_conn_blocked_since(const struct kp_conn *c)
{
	return c->blocked ? c->progress_ns : 0;
}

/* ---- receiving ---- */

void kp_conn_deliver(struct kp_conn *c, kp_str bytes)
{
	if (c->ops && c->ops->data) {
		c->ops->data(c->user, bytes);
	}
}

void kp_conn_deliver_eof(struct kp_conn *c)
{
	if (c->state == KP_CONN_LINGER) {
		destroy(c);
	} else if (!c->eof_told && c->state != KP_CONN_DEAD) {
		c->eof_told = true;
		if (c->ops && c->ops->eof) {
			c->ops->eof(c->user);
		}
	}
}

static void on_finish_timer(struct kp_timer *t);

/* TLS is broken and our alert has been sent. Closing now would, with bytes of the other side still to come, make the kernel
   answer with a reset that may overtake the alert: so they are read and dropped for a while. */
static void fail_tls(struct kp_conn *c, const struct kp_err *why)
{
	if (c->state == KP_CONN_DEAD || c->memory || c->eof_read || shutdown(c->fd, SHUT_WR) < 0) {
		kp_conn_fail(c, why);
		return;
	}
	const struct kp_conn_ops *ops = c->ops;
	void *user = c->user;
	c->state = KP_CONN_LINGER;
	c->ops = NULL;
	c->paused = c->blocked = false;
	kp_conn_tls_destroy(c);
	kp_conn_dial_destroy(c);
	kp_list_push(&c->loop->finishing, &c->finishing);
	kp_timer_start(c->loop, &c->timer, kp_loop_now(c->loop) + LINGER_NS, on_finish_timer);
	kp_conn_touch(c);
	if (ops && ops->closed) {
		ops->closed(user, why);
	}
}

static void take_input(struct kp_conn *c, kp_str bytes)
{
	struct kp_err err;
	c->heard = true;
	if (c->state >= KP_CONN_FINISHING) {
		return; /* dropped */
	}
	if (!c->tls) {
		kp_conn_deliver(c, bytes);
	} else if (kp_conn_tls_input(c, bytes, &err) < 0) {
		fail_tls(c, &err);
	}
}

void kp_conn_take_eof(struct kp_conn *c)
{
	c->eof_read = true;
	if (c->state == KP_CONN_HANDSHAKE) {
		struct kp_err err;
		kp_err_set(&err, c->heard || c->dial ? KP_UNAVAILABLE : KP_CANCELLED,
			"TLS handshake: the other side closed the connection");
		kp_conn_fail(c, &err);
	} else {
		kp_conn_deliver_eof(c);
	}
}

void kp_conn_receive_failed(struct kp_conn *c, int sys)
{
	struct kp_err err;
	kp_err_sys(&err, sys, "receive");
	err.code = KP_UNAVAILABLE;
	kp_conn_fail(c, &err);
}

/* false: nothing was there. */
static bool read_some(struct kp_conn *c)
{
	ssize_t n;
	do {
		n = recv(c->fd, c->loop->read_buf, sizeof(c->loop->read_buf), MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		take_input(c, kp_str_n(c->loop->read_buf, (size_t)n));
	} else if (n == 0) {
		kp_conn_take_eof(c);
	} else if (errno != EAGAIN && errno != EWOULDBLOCK) {
		kp_conn_receive_failed(c, errno);
	}
	return n > 0;
}

/* epoll reports an error condition: what is it? */
static void on_socket_error(struct kp_conn *c)
{
	int e = 0;
	socklen_t len = sizeof(e);
	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0 || e == 0) {
		e = ECONNRESET;
	}
	/* A reset does not take back what came before it: a TLS alert may say why. */
	while (c->tls && !c->paused && c->state <= KP_CONN_OPEN && read_some(c)) {
	}
	if (c->state == KP_CONN_DEAD) {
		return;
	}
	struct kp_err err;
	kp_err_sys(&err, e, "connection");
	err.code = KP_UNAVAILABLE;
	kp_conn_fail(c, &err);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct kp_conn *c = handle->data;
	kp_loop_enter(c->loop);
	if (c->state == KP_CONN_DIALING) {
		kp_conn_dial_ready(c, status);
		return;
	}
	if (status < 0) {
		c->watched = 0; /* libuv stopped it */
		on_socket_error(c);
		return;
	}
	if (events & UV_WRITABLE) {
		c->blocked = false;
		flush(c);
		kp_conn_touch(c);
	}
	if (c->state == KP_CONN_DEAD) {
		return;
	}
	bool may_read = !c->paused || c->state == KP_CONN_HANDSHAKE;
	if ((events & UV_READABLE) && may_read && !c->eof_read) {
		if (c->bulk) {
			kp_conn_bulk_readable(c);
		} else {
			read_some(c);
		}
	} else if ((events & UV_DISCONNECT) && !may_read) {
		kp_conn_deliver_eof(c);
	}
	if (c->state != KP_CONN_DEAD) {
		kp_conn_watch(c);
	}
}

void kp_conn_pause(struct kp_conn *c, bool paused)
{
	if (c->paused != paused) {
		c->paused = paused;
		kp_conn_touch(c);
	}
}

/* ---- opening and ending ---- */

static void on_handshake_timeout(struct kp_timer *t)
{
	struct kp_conn *c = KP_CONTAINER(t, struct kp_conn, timer);
	struct kp_err err;
	kp_err_set(&err, KP_DEADLINE_EXCEEDED, "TLS handshake: not finished in time");
	kp_conn_fail(c, &err);
}

void kp_conn_opened(struct kp_conn *c)
{
	c->state = KP_CONN_OPEN;
	kp_timer_stop(c->loop, &c->timer);
	kp_conn_dial_destroy(c);
	kp_conn_touch(c); /* what was written before goes out */
	if (c->ops && c->ops->open) {
		c->ops->open(c->user);
	}
}

struct kp_conn *kp_conn_accepted(struct kp_loop *loop, int fd, struct kp_tls_context *tls,
	const struct kp_conn_ops *ops, void *user)
{
	struct kp_conn *c = kp_conn_new(loop, ops, user);
	struct kp_err err;
	c->state = tls ? KP_CONN_HANDSHAKE : KP_CONN_OPEN;
	int rc = kp_conn_start(c, fd);
	if (rc != 0) {
		close(fd);
		note_failure(c, KP_UNAVAILABLE, rc);
		return c;
	}
	if (tls) {
		kp_timer_start(loop, &c->timer, kp_loop_now(loop) + 10 * KP_NS_PER_S,
			on_handshake_timeout);
		if (kp_conn_tls_create(c, tls, NULL, NULL, &err) < 0) {
			note_failure(c, KP_UNAVAILABLE, 0);
			return c;
		}
	}
	kp_conn_watch(c);
	return c;
}

void kp_conn_set_ops(struct kp_conn *c, const struct kp_conn_ops *ops, void *user)
{
	c->ops = ops;
	c->user = user;
}

static void on_finish_timer(struct kp_timer *t)
{
	struct kp_conn *c = KP_CONTAINER(t, struct kp_conn, timer);
	int64_t now = kp_loop_now(c->loop);
	if (c->state == KP_CONN_LINGER || !c->blocked ||
		now - c->progress_ns >= FINISH_STALL_S * KP_NS_PER_S) {
		destroy(c);
		return;
	}
	kp_timer_start(c->loop, t, now + FINISH_CHECK_S * KP_NS_PER_S, on_finish_timer);
}

void kp_conn_finish(struct kp_conn *c)
{
	if (!c || c->state >= KP_CONN_FINISHING) {
		return;
	}
	if (c->state != KP_CONN_OPEN || c->fail_code) {
		destroy(c);
		return;
	}
	c->state = KP_CONN_FINISHING;
	kp_list_push(&c->loop->finishing, &c->finishing);
	c->ops = NULL;
	c->paused = true; /* nothing is read until our last byte has left, or it would cost CPU for
			     nothing */
	c->eof_told = true;
	kp_timer_start(c->loop, &c->timer, kp_loop_now(c->loop) + FINISH_CHECK_S * KP_NS_PER_S,
		on_finish_timer);
	kp_conn_touch(c);
}

void kp_conn_drop_finishing(struct kp_loop *loop)
{
	while (!kp_list_empty(&loop->finishing)) {
		destroy(KP_CONTAINER(loop->finishing.next, struct kp_conn, finishing));
	}
}

/* ---- what it is ---- */

bool kp_conn_is_open(const struct kp_conn *c)
{
	return c->state == KP_CONN_OPEN;
}

bool kp_conn_is_tls(const struct kp_conn *c)
{
	return c->tls != NULL;
}

struct kp_loop *kp_conn_loop(const struct kp_conn *c)
{
	return c->loop;
}

kp_str kp_conn_peer(const struct kp_conn *c, char buf[KP_CONN_PEER_MAX])
{
	struct sockaddr_storage sa = { .ss_family = AF_UNIX };
	socklen_t len = sizeof(sa);
	if (c->fd >= 0) {
		getpeername(c->fd, (struct sockaddr *)&sa, &len);
	}
	return kp_addr_print((const struct sockaddr *)&sa, buf);
}

/* ---- without a socket ---- */

struct kp_conn *kp_conn_memory(
	struct kp_loop *loop, struct kp_buf *sink, const struct kp_conn_ops *ops, void *user)
{
	struct kp_conn *c = kp_conn_new(loop, ops, user);
	c->memory = true;
	c->sink = sink;
	c->state = KP_CONN_OPEN;
	return c;
}

bool kp_conn_memory_feed(struct kp_conn *c, kp_str bytes)
{
	if (c->paused || c->eof_read || c->state != KP_CONN_OPEN) {
		return false;
	}
	kp_loop_enter(c->loop);
	take_input(c, bytes);
	return true;
}

void kp_conn_memory_eof(struct kp_conn *c)
{
	if (c->state == KP_CONN_OPEN) {
		kp_loop_enter(c->loop);
		kp_conn_take_eof(c);
	}
}

void kp_conn_memory_stall(struct kp_conn *c, bool stalled)
{
	c->stalled = stalled;
	if (!stalled && c->state < KP_CONN_DEAD) {
		kp_loop_enter(c->loop);
		c->blocked = false;
		flush(c);
		kp_conn_touch(c);
	}
}
