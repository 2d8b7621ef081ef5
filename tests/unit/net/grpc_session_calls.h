/* A client session under test: calls that write down what happens to them, and the plumbing to an h2_peer. */
#ifndef KP_TESTS_GRPC_SESSION_CALLS_H
#define KP_TESTS_GRPC_SESSION_CALLS_H

#include "h2_take.h"
#include "net/grpc_session.h"

enum { TEST_WINDOW = 65536, TEST_CONNECTION_WINDOW = 1 << 20, TEST_MAX_MESSAGE = 100000 };

struct test_call {
	struct kp_grpc_stream st;
	struct kp_buf
		log; /* "abc|" per message (the length instead, when it is long), then "end CODE: text [unprocessed] [name=value]..." */
	int n_messages, n_ends;
	int hold_at, reset_at, kill_at; /* in the n-th message; 0: never */
	struct test_call *reset_other;  /* with reset_at: that one instead */
	struct kp_grpc_session *kill;
	char *request;
};

static void test_on_message(struct kp_grpc_stream *st, kp_str bytes)
{
	struct test_call *c = KP_CONTAINER(st, struct test_call, st);
	if (bytes.n <= 64) {
		kp_buf_add(&c->log, bytes);
		kp_buf_addc(&c->log, '|');
	} else {
		kp_buf_printf(&c->log, "%zu|", bytes.n);
	}
	c->n_messages++;
	if (c->n_messages == c->hold_at) {
		kp_grpc_stream_hold(st);
	}
	if (c->n_messages == c->reset_at) {
		kp_grpc_stream_reset(c->reset_other ? &c->reset_other->st : st);
	}
	if (c->n_messages == c->kill_at) {
		kp_grpc_session_kill(c->kill);
	}
}

static void test_on_end(struct kp_grpc_stream *st)
{
	struct test_call *c = KP_CONTAINER(st, struct test_call, st);
	KP_BUG_ON(c->n_ends++ != 0);
	kp_buf_printf(&c->log, "end %s", kp_code_name(st->status.code));
	if (st->status.msg[0]) {
		kp_buf_printf(&c->log, ": %s", st->status.msg);
	}
	if (!st->is_processed) {
		kp_buf_lit(&c->log, " unprocessed");
	}
	for (size_t i = 0; i < st->trailers.n; i++) {
		kp_buf_printf(&c->log, " %" KP_FMT "=", KP_ARG(st->trailers.p[i].name));
		kp_buf_add(&c->log, st->trailers.p[i].value); /* may hold a NUL */
	}
}

static const struct kp_grpc_stream_ops test_stream_ops = { .message = test_on_message,
	.end = test_on_end };

KP_UNUSED static struct kp_grpc_session *test_session(void)
{
	const struct kp_grpc_session_opts o = { .authority = KP_S("server:1"),
		.user_agent = KP_S("test/1"),
		.stream_window = TEST_WINDOW,
		.connection_window = TEST_CONNECTION_WINDOW };
	return kp_grpc_session_create(&o);
}

/* Everything the session has to say to the peer. */
KP_UNUSED static void test_send(struct kp_grpc_session *s, struct h2_peer *p)
{
	for (;;) {
		kp_str piece;
		struct kp_err err;
		KP_BUG_ON(kp_grpc_session_send(s, &piece, &err) < 0);
		if (piece.n == 0) {
			return;
		}
		h2_take(p, piece);
	}
}

/* The peer's bytes to the session, in pieces of at most `piece` bytes; what a read of its own would see each time. */
KP_UNUSED static int test_recv_in(
	struct kp_grpc_session *s, struct h2_peer *p, size_t piece, struct kp_err *err)
{
	kp_str rest = kp_buf_str(&p->out);
	int rc = 0;
	while (rest.n && rc == 0) {
		kp_str part = kp_str_sub(rest, 0, piece);
		rest = kp_str_skip(rest, part.n);
		/* A copy of exact size, so that ASan sees a look beyond it. */
		char *copy = kp_xmalloc(part.n);
		memcpy(copy, part.p, part.n);
		rc = kp_grpc_session_recv(s, kp_str_n(copy, part.n), err);
		kp_mem_free(copy);
	}
	kp_buf_reset(&p->out);
	return rc;
}

KP_UNUSED static void test_recv(struct kp_grpc_session *s, struct h2_peer *p)
{
	struct kp_err err;
	int rc = test_recv_in(s, p, SIZE_MAX, &err);
	KP_BUG_ON(rc != 0);
}

KP_UNUSED static void test_call_init(struct test_call *c, kp_str message)
{
	*c = (struct test_call){ .request = kp_xmalloc(message.n + KP_GRPC_PREFIX) };
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, SIZE_MAX);
	h2_message(&b, message);
	memcpy(c->request, b.p, b.n);
	kp_buf_init(&c->log, SIZE_MAX);
	kp_grpc_stream_init(
		&c->st, &test_stream_ops, kp_str_n(c->request, b.n), TEST_MAX_MESSAGE, TEST_WINDOW);
}

KP_UNUSED static void test_call_open(struct kp_grpc_session *s, struct test_call *c)
{
	struct kp_err err;
	KP_BUG_ON(kp_grpc_stream_open(s, &c->st, KP_S("/test.T/Call"), NULL, 0, 0, &err) < 0);
}

KP_UNUSED static void test_call_fini(struct test_call *c)
{
	kp_grpc_stream_reset(&c->st);
	kp_grpc_stream_fini(&c->st);
	kp_buf_fini(&c->log);
	kp_free(&c->request);
}

#endif
