/* DESIGN: kp_conn moves the bytes, the session understands them, this file ties them together.
   `activity` tells the owner after every read; writing happens only in kp_grpc_link_pump, called by
   the owner at the end of the loop's iteration, so that what was started together leaves together.

   Keepalive: a PING when calls are open and nothing came for keepalive_ns; no byte within the
   time-out: lost. Servers count PINGs: after more than two that follow each other in under five
   minutes without HEADERS or DATA in between they end the connection (gRPC's default; GOAWAY
   ENHANCE_YOUR_CALM "too_many_pings"), and with it a call that is merely slow. So a quiet spell
   gets three PINGs at keepalive_ns, then one each five minutes, unless the server is one of ours
   (keepalive_always). The timer is never moved when bytes come: it looks at heard_ns when it fires.
   A loop that was held up finds the time-out passed and the answer in the socket, which it reads after
   its timers: so a connection is given up only after one more look.

   Fails: no connection in time, no SETTINGS in time, connection lost, protocol error (the server
   gets our GOAWAY first). */
#include "net/grpc_link.h"
#include "base/clock.h"

enum {
	PUMP_HIGH =
		256
		<< 10, /* no more is taken from the session while so much waits for the kernel */
	FREE_PINGS = 3,
};
#define SLOW_PING_NS (305 * KP_NS_PER_S)
#define LAST_LOOK_NS (10 * KP_NS_PER_MS)
#define GOOD_NS      KP_NS_PER_S

static void on_timer(struct kp_timer *timer);

static void lost(struct kp_grpc_link *l, const struct kp_err *why)
{
	kp_timer_stop(l->loop, &l->timer);
	if (l->conn) {
		kp_conn_finish(kp_steal(l->conn));
	}
	l->ops->lost(l, why);
}

/* --- the connection's callbacks
 * ------------------------------------------------------------------------- */

static int check_server(struct kp_grpc_link *l, struct kp_err *err)
{
	if (!kp_conn_is_tls(l->conn)) {
		return 0;
	}
	if (!kp_str_eq(kp_conn_alpn(l->conn), KP_S("h2"))) {
		return kp_err_set(err, KP_UNAVAILABLE,
			"connect: the server does not offer HTTP/2 (ALPN `h2`)");
	}
	if (!l->opts->check_names) {
		return 0;
	}
	kp_str *names;
	size_t n = kp_conn_peer_names(l->conn, &names);
	int r = l->opts->check_names(l->opts->check_user, names, n, err);
	kp_mem_free(names);
	if (r < 0) {
		err->code = KP_UNAVAILABLE;
		kp_err_wrap(err, "connect");
	}
	return r;
}

static void on_open(void *user)
{
	struct kp_grpc_link *l = user;
	struct kp_err err;
	if (check_server(l, &err) < 0) {
		lost(l, &err);
		return;
	}
	l->ops->activity(l); /* the session's preface and SETTINGS go out */
}

static void on_data(void *user, kp_str bytes)
{
	struct kp_grpc_link *l = user;
	struct kp_err err;
	l->heard_ns = kp_loop_now(l->loop);
	l->is_receiving = true;
	int rc = kp_grpc_session_recv(l->session, bytes, &err);
	l->is_receiving = false;
	if (!l->is_ready && kp_grpc_session_info(l->session)->is_ready) {
		l->is_ready = true;
		kp_timer_stop(l->loop, &l->timer);
	}
	if (rc == 0) {
		l->ops->activity(l);
	} else if (err.code != KP_CANCELLED) { /* killed: the owner knows */
		lost(l, &err);
	}
}

static void on_eof(void *user)
{
	struct kp_grpc_link *l = user;
	const struct kp_grpc_session_info *i = kp_grpc_session_info(l->session);
	struct kp_err err;
	if (!i->is_ready) {
		kp_err_set(&err, KP_UNAVAILABLE,
			"connect: the server closed the connection before its SETTINGS");
	} else if (i->is_retired && i->goaway_text[0]) {
		kp_err_set(&err, KP_UNAVAILABLE, "connection: closed by the server (%s)",
			i->goaway_text);
	} else {
		kp_err_set(&err, KP_UNAVAILABLE, "connection: closed by the server");
	}
	lost(l, &err);
}

static void on_sent(void *user)
{
	struct kp_grpc_link *l = user;
	l->ops->activity(l);
}

static void on_closed(void *user, const struct kp_err *why)
{
	struct kp_grpc_link *l = user;
	l->conn = NULL;
	struct kp_err err = *why;
	err.code = KP_UNAVAILABLE; /* a connect that took too long is not the call's deadline */
	lost(l, &err);
}

static const struct kp_conn_ops conn_ops = {
	.open = on_open, .data = on_data, .eof = on_eof, .sent = on_sent, .closed = on_closed
};

/* --- time
 * -------------------------------------------------------------------------------------------------
 */

static void keepalive(struct kp_grpc_link *l)
{
	const struct kp_grpc_session_info *i = kp_grpc_session_info(l->session);
	int64_t now = kp_loop_now(l->loop);
	if (i->n_streams == 0) {
		l->pinged_ns = 0; /* kp_grpc_link_watch starts again */
		return;
	}
	if (i->n_answers != l->answers_seen) {
		l->answers_seen = i->n_answers;
		l->n_pings = 0;
	}
	if (l->pinged_ns && l->heard_ns < l->pinged_ns &&
		now >= l->pinged_ns + l->keepalive_timeout_ns) {
		if (!l->is_doubtful) {
			l->is_doubtful = true;
			kp_timer_start(l->loop, &l->timer, now + LAST_LOOK_NS, on_timer);
			return;
		}
		struct kp_err err;
		kp_err_set(&err, KP_UNAVAILABLE,
			"connection: no answer to a keepalive PING within %lld ms",
			(long long)(l->keepalive_timeout_ns / KP_NS_PER_MS));
		lost(l, &err);
		return;
	}
	l->is_doubtful = false;
	int64_t due = l->pinged_ns + l->keepalive_timeout_ns;
	if (!l->pinged_ns || l->heard_ns >= l->pinged_ns) {
		bool is_free = l->keepalive_always || l->n_pings < FREE_PINGS;
		int64_t interval =
			is_free ? l->keepalive_ns : KP_MAX(l->keepalive_ns, SLOW_PING_NS);
		due = KP_MAX(KP_MAX(l->heard_ns, l->quiet_from_ns), l->pinged_ns) + interval;
		if (now >= due) {
			kp_grpc_session_ping(l->session);
			l->n_pings++;
			l->pinged_ns = now;
			due = now + KP_MIN(l->keepalive_ns, l->keepalive_timeout_ns);
			l->ops->activity(l);
		}
	}
	kp_timer_start(l->loop, &l->timer, due, on_timer);
}

static void on_timer(struct kp_timer *timer)
{
	struct kp_grpc_link *l = KP_CONTAINER(timer, struct kp_grpc_link, timer);
	if (l->is_ready) {
		keepalive(l);
		return;
	}
	struct kp_err err;
	kp_err_set(&err, KP_UNAVAILABLE,
		"connect: no HTTP/2 SETTINGS from the server within %lld ms",
		(long long)(l->connect_timeout_ns / KP_NS_PER_MS));
	lost(l, &err);
}

void kp_grpc_link_watch(struct kp_grpc_link *l)
{
	if (kp_grpc_session_info(l->session)->n_streams == 1) {
		l->quiet_from_ns = kp_loop_now(l->loop);
	}
	if (!l->timer.heap_index) {
		kp_timer_start(l->loop, &l->timer, l->quiet_from_ns + l->keepalive_ns, on_timer);
	}
}

/* --- for the channel
 * -------------------------------------------------------------------------------------- */

struct kp_grpc_link *kp_grpc_link_open(struct kp_loop *loop, const struct kp_grpc_link_opts *o,
	int64_t keepalive_ns, const struct kp_grpc_link_ops *ops, void *user)
{
	struct kp_grpc_link *l = kp_new(struct kp_grpc_link);
	l->user = user;
	l->ops = ops;
	l->opts = o;
	l->loop = loop;
	l->begun_ns = kp_loop_now(loop);
	l->keepalive_ns = keepalive_ns;
	l->keepalive_timeout_ns = o->keepalive_timeout_ns;
	l->keepalive_always = o->keepalive_always;
	l->connect_timeout_ns = o->connect_timeout_ns;
	l->session = kp_grpc_session_create(&o->session);
	struct kp_conn_target target = { .address = o->address,
		.tls = o->tls,
		.tls_name = o->tls_name,
		.alpn = "h2",
		.timeout_ns = o->connect_timeout_ns };
	l->conn = kp_conn_connect(loop, &target, &conn_ops, l);
	kp_timer_start(loop, &l->timer, l->begun_ns + o->connect_timeout_ns, on_timer);
	return l;
}

static int drain(struct kp_grpc_link *l, struct kp_err *err)
{
	kp_str piece = KP_STR_NULL;
	do {
		if (kp_grpc_session_send(l->session, &piece, err) < 0) {
			return -1;
		}
		kp_conn_write(l->conn, piece);
	} while (piece.n && kp_conn_queued(l->conn) < PUMP_HIGH);
	return 0;
}

void kp_grpc_link_close(struct kp_grpc_link *l)
{
	kp_timer_stop(l->loop, &l->timer);
	kp_list_del(&l->link);
	const struct kp_grpc_session_info *i = kp_grpc_session_info(l->session);
	if (l->conn && kp_conn_is_open(l->conn) && i->is_ready && !i->is_killed) {
		struct kp_err ignored;
		if (!i->is_over) {
			kp_grpc_session_goodbye(l->session);
		}
		(void)drain(l, &ignored);
		kp_conn_finish(kp_steal(l->conn));
	} else if (l->conn) {
		kp_conn_close(kp_steal(l->conn));
	}
	kp_grpc_session_destroy(l->session);
	kp_mem_free(l);
}

static int over(const struct kp_grpc_link *l, struct kp_err *err)
{
	if (!kp_grpc_session_info(l->session)->is_ready) {
		return kp_err_set(err, KP_UNAVAILABLE, "connect: the server does not speak HTTP/2");
	}
	return kp_err_set(err, KP_UNAVAILABLE, "connection: ended (%s)",
		kp_grpc_session_end_reason(l->session));
}

int kp_grpc_link_pump(struct kp_grpc_link *l, struct kp_err *err)
{
	/* Not before the handshake: what speaks another protocol gets nothing of ours. */
	if (!l->conn || !kp_conn_is_open(l->conn)) {
		return 0;
	}
	int rc = drain(l, err);
	if (rc == 0 && kp_grpc_session_info(l->session)->is_over) {
		return over(l, err);
	}
	return rc;
}

bool kp_grpc_link_was_good(const struct kp_grpc_link *l)
{
	const struct kp_grpc_session_info *i = kp_grpc_session_info(l->session);
	return i->n_answers > 0 || (i->is_ready && kp_loop_now(l->loop) - l->begun_ns >= GOOD_NS);
}
