/* The connection over real sockets, both ends here: one a kp_conn, the other a plain descriptor or another kp_conn. */
#include "base/buf.h"
#include "base/clock.h"
#include "net/conn.h"
#include "net/tls.h"
#include "tests/test.h"
#include "tests/unit/net/tls_files.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

static struct kp_loop *loop;

/* ---- an end of a connection that remembers what happened ---- */

struct end {
	struct kp_conn *conn;
	struct kp_buf got;
	int opened, eofs, sents, closes, datas;
	struct kp_err why;
	bool in_call; /* set while the test is inside a kp_conn_* call: no callback may come */
	bool echo;
	enum { STAY = 0, CLOSE, FINISH, PAUSE } on_data;
	size_t stop_at; /* stop the loop when so many bytes are there */
	bool stop_on_eof, stop_on_open, stop_on_close, close_on_eof;
};

static void on_open(void *user)
{
	struct end *e = user;
	assert_false(e->in_call);
	e->opened++;
	if (e->stop_on_open) {
		kp_loop_stop(loop);
	}
}
static void on_data(void *user, kp_str bytes)
{
	struct end *e = user;
	assert_false(e->in_call);
	e->datas++;
	kp_buf_add(&e->got, bytes);
	if (e->echo) {
		kp_conn_write(e->conn, bytes);
	}
	if (e->on_data == CLOSE) {
		kp_conn_close(e->conn);
		kp_loop_stop(loop);
	} else if (e->on_data == FINISH) {
		kp_conn_finish(e->conn);
	} else if (e->on_data == PAUSE) {
		kp_conn_pause(e->conn, true);
		kp_loop_stop(loop);
	}
	if (e->stop_at && e->got.n >= e->stop_at) {
		kp_loop_stop(loop);
	}
}
static void on_eof(void *user)
{
	struct end *e = user;
	e->eofs++;
	if (e->close_on_eof) {
		kp_conn_close(e->conn);
	}
	if (e->stop_on_eof) {
		kp_loop_stop(loop);
	}
}
static void on_sent(void *user)
{
	struct end *e = user;
	assert_false(e->in_call);
	e->sents++;
}
static void on_closed(void *user, const struct kp_err *why)
{
	struct end *e = user;
	assert_false(e->in_call);
	e->closes++;
	e->why = *why;
	if (e->stop_on_close) {
		kp_loop_stop(loop);
	}
}
static const struct kp_conn_ops ops = { on_open, on_data, on_eof, on_sent, on_closed, NULL };

static void end_init(struct end *e)
{
	*e = (struct end){ 0 };
	kp_buf_init(&e->got, 64 << 20);
}

/* ---- running the loop ---- */

struct ender {
	struct kp_timer t;
};
static void on_end(struct kp_timer *t)
{
	(void)t;
	kp_loop_stop(loop);
}
/* Until somebody stops it, at most so long. */
static void run_ms(int ms)
{
	struct ender end = { 0 };
	kp_timer_start(loop, &end.t, kp_now_ns() + ms * KP_NS_PER_MS, on_end);
	kp_loop_run(loop);
	kp_timer_stop(loop, &end.t);
}
static void run(void)
{
	int64_t start = kp_now_ns();
	run_ms(10000);
	assert_true(
		kp_now_ns() - start < 9900 * KP_NS_PER_MS); /* what the test waits for never came */
}

static int setup(void **state)
{
	(void)state;
	loop = kp_loop_create("test");
	return 0;
}
static int teardown(void **state)
{
	(void)state;
	kp_loop_destroy(loop);
	return 0;
}

static void pair(struct end *e, int type, int *ret_fd)
{
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	end_init(e);
	e->conn = kp_conn_accepted(loop, fds[0], NULL, &ops, e);
	*ret_fd = fds[1];
}

static void end_close(struct end *e)
{
	kp_conn_close(e->conn);
	kp_buf_fini(&e->got);
}

/* ---- a listener ---- */

struct listener {
	uv_poll_t poll;
	int fd;
	struct kp_tls_context *tls;
	struct end *accepted;
	char address[160];
};

static void on_accept(uv_poll_t *poll, int status, int events)
{
	struct listener *l = poll->data;
	(void)events;
	assert_int_equal(status, 0);
	int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(fd >= 0);
	l->accepted->conn = kp_conn_accepted(loop, fd, l->tls, &ops, l->accepted);
}

static void listener_open(
	struct listener *l, int family, struct end *accepted, struct kp_tls_context *tls)
{
	*l = (struct listener){ .accepted = accepted, .tls = tls };
	l->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (family == AF_UNIX) {
		struct sockaddr_un un = { .sun_family = AF_UNIX };
		snprintf(un.sun_path, sizeof(un.sun_path), "/tmp/kelpie-conn-test.%d",
			(int)getpid());
		unlink(un.sun_path);
		assert_int_equal(bind(l->fd, (struct sockaddr *)&un, sizeof(un)), 0);
		snprintf(l->address, sizeof(l->address), "unix:%s", un.sun_path);
	} else {
		struct sockaddr_in in = { .sin_family = AF_INET,
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		socklen_t len = sizeof(in);
		assert_int_equal(bind(l->fd, (struct sockaddr *)&in, sizeof(in)), 0);
		getsockname(l->fd, (struct sockaddr *)&in, &len);
		snprintf(l->address, sizeof(l->address), "127.0.0.1:%u", ntohs(in.sin_port));
	}
	assert_int_equal(listen(l->fd, 8), 0);
	uv_poll_init(kp_loop_uv(loop), &l->poll, l->fd);
	l->poll.data = l;
	uv_poll_start(&l->poll, UV_READABLE, on_accept);
}

static void listener_close(struct listener *l)
{
	uv_close((uv_handle_t *)&l->poll, NULL);
	if (kp_str_starts(kp_str_c(l->address), KP_S("unix:"))) {
		unlink(l->address + 5);
	}
	run_ms(1);
	close(l->fd);
}

static struct end client, server;

static void connect_to(
	const char *address, struct kp_tls_context *tls, const char *alpn, const char *name)
{
	end_init(&client);
	struct kp_conn_target t = { .address = address,
		.tls = tls,
		.alpn = alpn,
		.tls_name = name,
		.timeout_ns = 3 * KP_NS_PER_S };
	client.in_call = true;
	client.conn = kp_conn_connect(loop, &t, &ops, &client);
	client.in_call = false;
}

static void echo_through(
	const char *address, struct kp_tls_context *tls, const char *alpn, size_t n)
{
	server.echo = true;
	connect_to(address, tls, alpn, NULL);
	client.stop_at = n;
	char *room = kp_conn_room(client.conn, n); /* before it is connected */
	for (size_t i = 0; i < n; i++) {
		room[i] = (char)(i * 7 + i / 251);
	}
	kp_conn_written(client.conn, n);
	run();
	assert_int_equal(client.opened, 1);
	assert_int_equal(client.got.n, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(client.got.p[i], (char)(i * 7 + i / 251));
	}
	assert_int_equal(kp_conn_queued(client.conn), 0);
}

/* ---- tests ---- */

static void test_echo(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct listener l;
		end_init(&server);
		listener_open(&l, i == 2 ? AF_UNIX : AF_INET, &server, NULL);
		char name[32], peer[KP_CONN_PEER_MAX];
		snprintf(name, sizeof(name), "localhost:%s", strrchr(l.address, ':') + 1);
		echo_through(i == 1 ? name : l.address, NULL, NULL, 1 << 20);
		assert_str(kp_conn_peer(client.conn, peer),
			i == 2 ? KP_S("unix") : kp_str_c(l.address));
		assert_true(kp_conn_is_open(client.conn));
		server.stop_on_eof = true;
		kp_conn_close(client.conn);
		run();
		assert_int_equal(client.closes + server.closes, 0);
		assert_int_equal(server.eofs, 1);
		end_close(&server);
		kp_buf_fini(&client.got);
		listener_close(&l);
	}
}

/* One message of a SEQPACKET socket is one send(): what is written in one iteration leaves in one. */
static void test_coalescing(void **state)
{
	(void)state;
	struct end e;
	int fd;
	char buf[8192];
	pair(&e, SOCK_SEQPACKET, &fd);
	e.in_call = true;
	for (int i = 0; i < 100; i++) {
		kp_conn_write(e.conn, KP_S("0123456789"));
	}
	e.in_call = false;
	assert_int_equal(recv(fd, buf, sizeof(buf), 0), -1); /* nothing yet */
	assert_int_equal(kp_conn_queued(e.conn), 1000);
	run_ms(1);
	assert_int_equal(recv(fd, buf, sizeof(buf), 0), 1000);
	assert_int_equal(recv(fd, buf, sizeof(buf), 0), -1);
	assert_int_equal(kp_conn_queued(e.conn), 0);
	assert_int_equal(e.sents, 1);
	kp_conn_write(e.conn, KP_S("now"));
	kp_conn_flush(e.conn);
	assert_int_equal(recv(fd, buf, sizeof(buf), 0), 3);
	end_close(&e);
	close(fd);
}

static void test_flush_at_64k(void **state)
{
	(void)state;
	struct end e;
	int fd;
	static char buf[KP_CONN_FLUSH_BYTES];
	pair(&e, SOCK_STREAM, &fd);
	kp_conn_write(e.conn, kp_str_n(buf, sizeof(buf) - 1));
	assert_int_equal(recv(fd, buf, sizeof(buf), 0), -1);
	kp_conn_write(e.conn, KP_S("x"));
	assert_int_equal(recv(fd, buf, sizeof(buf), 0), sizeof(buf)); /* without the loop */
	end_close(&e);
	close(fd);
}

static void test_back_pressure(void **state)
{
	(void)state;
	struct end e;
	int fd;
	enum { TOTAL = 4 << 20 };
	static char block[1 << 16];
	pair(&e, SOCK_STREAM, &fd);
	e.in_call = true;
	for (size_t i = 0; i < TOTAL / sizeof(block); i++) {
		memset(block, (int)i, sizeof(block));
		kp_conn_write(e.conn, kp_str_n(block, sizeof(block)));
	}
	e.in_call = false;
	run_ms(20);
	size_t queued = kp_conn_queued(e.conn);
	assert_true(queued > TOTAL / 4 && queued < TOTAL);
	assert_true(kp_conn_blocked_since(e.conn) != 0);
	int sents = e.sents;
	size_t got = 0;
	for (int round = 0; round < 100000 && got < TOTAL; round++) {
		ssize_t n = recv(fd, block, sizeof(block), 0);
		for (ssize_t i = 0; i < n; i++) {
			assert_int_equal(block[i], (char)((got + (size_t)i) / sizeof(block)));
		}
		if (n > 0) {
			got += (size_t)n;
		} else {
			run_ms(1);
		}
	}
	assert_int_equal(got, TOTAL);
	run_ms(1);
	assert_true(e.sents > sents);
	assert_int_equal(kp_conn_queued(e.conn), 0);
	assert_int_equal(kp_conn_blocked_since(e.conn), 0);
	end_close(&e);
	close(fd);
}

static void test_queue_limit(void **state)
{
	(void)state;
	struct end e;
	int fd;
	static char block[1 << 20];
	pair(&e, SOCK_STREAM, &fd);
	e.stop_on_close = true;
	e.in_call = true;
	for (int i = 0; i < 100; i++) {
		kp_conn_write(e.conn, kp_str_n(block, sizeof(block)));
	}
	e.in_call = false;
	run();
	assert_int_equal(e.closes, 1);
	assert_int_equal(e.why.code, KP_RESOURCE_EXHAUSTED);
	kp_buf_fini(&e.got);
	close(fd);
}

static void test_pause_and_fin(void **state)
{
	(void)state;
	for (int tcp = 0; tcp < 2; tcp++) {
		struct listener l;
		int fd;
		end_init(&server);
		if (tcp) {
			listener_open(&l, AF_INET, &server, NULL);
			connect_to(l.address, NULL, NULL, NULL);
			client.stop_on_open = true;
			run();
			run_ms(5);
			fd = -1;
		} else {
			pair(&server, SOCK_STREAM, &fd);
		}
		kp_conn_pause(server.conn, true);
		if (tcp) {
			kp_conn_write(client.conn, KP_S("abc"));
		} else {
			assert_int_equal(send(fd, "abc", 3, 0), 3);
		}
		run_ms(10);
		assert_int_equal(server.got.n, 0);
		server.stop_on_eof = true;
		if (tcp) {
			kp_conn_close(client.conn);
		} else {
			close(fd);
		}
		run(); /* the end is noticed although reading is paused */
		assert_int_equal(server.eofs, 1);
		assert_int_equal(server.got.n, 0);
		server.stop_at = 3;
		server.in_call = true;
		kp_conn_pause(server.conn, false);
		server.in_call = false;
		run(); /* and what had arrived is still there */
		run_ms(5);
		assert_str_lit(kp_buf_str(&server.got), "abc");
		assert_int_equal(server.eofs, 1);
		end_close(&server);
		if (tcp) {
			kp_buf_fini(&client.got);
			listener_close(&l);
		}
	}
}

static void test_ending_in_a_callback(void **state)
{
	(void)state;
	struct end e;
	int fd;
	char buf[16];
	pair(&e, SOCK_STREAM, &fd);
	e.on_data = CLOSE;
	assert_int_equal(send(fd, "x", 1, 0), 1);
	run();
	assert_int_equal(e.closes, 0);
	assert_int_equal(recv(fd, buf, sizeof(buf), 0), 0);
	kp_buf_fini(&e.got);
	close(fd);

	pair(&e, SOCK_STREAM, &fd);
	e.on_data = FINISH;
	e.echo = true;
	assert_int_equal(send(fd, "last", 4, 0), 4);
	run_ms(20);
	assert_int_equal(recv(fd, buf, sizeof(buf), 0), 4);
	assert_int_equal(recv(fd, buf, sizeof(buf), 0), 0);
	assert_int_equal(send(fd, "ignored", 7, 0), 7); /* it lingers */
	run_ms(20);
	assert_str_lit(kp_buf_str(&e.got), "last");
	close(fd);
	run_ms(20);
	kp_buf_fini(&e.got);
}

/* A client that has sent far more than was read gets all of our answer, then an end, not a reset. */
static void test_finish_beats_unread_input(void **state)
{
	(void)state;
	struct listener l;
	end_init(&server);
	listener_open(&l, AF_INET, &server, NULL);
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	getsockname(l.fd, (struct sockaddr *)&in, &len);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_true(connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0 || errno == EINPROGRESS);
	run_ms(20);
	static char block[1 << 16];
	kp_conn_pause(server.conn, true);
	run_ms(1);
	for (int i = 0; i < 8; i++) {
		send(fd, block, sizeof(block), 0);
	}
	memset(block, 'r', sizeof(block));
	kp_conn_write(server.conn, kp_str_n(block, sizeof(block)));
	kp_conn_finish(server.conn);
	for (int i = 0; i < 10; i++) {
		run_ms(5);
		send(fd, block, 1000, MSG_NOSIGNAL);
	}
	size_t got = 0;
	ssize_t n;
	while ((n = recv(fd, block, sizeof(block), 0)) > 0) {
		got += (size_t)n;
	}
	assert_int_equal(got, sizeof(block));
	assert_int_equal(n, 0); /* not ECONNRESET */
	close(fd);
	run_ms(10);
	kp_buf_fini(&server.got);
	listener_close(&l);
}

/* The default action of SIGPIPE ends the process; nothing here may raise it. */
static void test_write_to_the_gone(void **state)
{
	(void)state;
	struct end e;
	int fd;
	pair(&e, SOCK_STREAM, &fd);
	kp_conn_pause(e.conn, true);
	run_ms(1);
	close(fd);
	e.stop_on_close = true;
	kp_conn_write(e.conn, KP_S("anybody?"));
	kp_conn_write(e.conn, KP_S("no"));
	run();
	assert_int_equal(e.closes, 1);
	assert_int_equal(e.why.code, KP_UNAVAILABLE);
	assert_int_equal(e.why.sys, EPIPE);
	kp_buf_fini(&e.got);
}

static void test_abort_resets(void **state)
{
	(void)state;
	struct listener l;
	end_init(&server);
	listener_open(&l, AF_INET, &server, NULL);
	connect_to(l.address, NULL, NULL, NULL);
	client.stop_on_open = true;
	run();
	run_ms(5);
	client.stop_on_close = true;
	kp_conn_abort(server.conn);
	run();
	assert_int_equal(client.eofs, 0);
	assert_int_equal(client.why.sys, ECONNRESET);
	kp_buf_fini(&client.got);
	kp_buf_fini(&server.got);
	listener_close(&l);
}

static void test_connect_failures(void **state)
{
	(void)state;
	struct listener l;
	struct {
		const char *address;
		const char *text;
	} cases[] = {
		{ NULL, "Connection refused" },
		{ "nonsense", "parse address `nonsense`" },
		{ "unix:/nonexistent/x", "No such file" },
		{ "no-such-host.invalid:1", "resolve `no-such-host.invalid`" },
	};
	listener_open(&l, AF_INET, &server, NULL);
	char refused[160];
	memcpy(refused, l.address, sizeof(refused));
	listener_close(&l);
	cases[0].address = refused;
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		connect_to(cases[i].address, NULL, NULL, NULL);
		client.stop_on_close = true;
		kp_conn_write(client.conn, KP_S("lost"));
		run();
		assert_int_equal(client.closes, 1);
		assert_int_equal(client.opened, 0);
		assert_int_equal(client.why.code, KP_UNAVAILABLE);
		assert_non_null(strstr(client.why.msg, cases[i].text));
		assert_non_null(strstr(client.why.msg, "connect to `"));
		kp_buf_fini(&client.got);
	}
}

/* Closed at every stage of connecting, the look-up included: nothing is called, nothing leaks (ASan). */
static void test_close_while_connecting(void **state)
{
	(void)state;
	struct listener l;
	end_init(&server);
	server.close_on_eof = true;
	listener_open(&l, AF_INET, &server, NULL);
	char name[32];
	snprintf(name, sizeof(name), "localhost:%s", strrchr(l.address, ':') + 1);
	for (int ms = 0; ms < 4; ms++) {
		connect_to(ms % 2 ? name : l.address, NULL, NULL, NULL);
		if (ms >= 2) {
			run_ms(0);
		}
		int opened = client.opened;
		kp_conn_close(client.conn);
		run_ms(10);
		assert_int_equal(client.opened, opened);
		assert_int_equal(client.closes, 0);
		kp_buf_fini(&client.got);
	}
	listener_close(&l);
	kp_buf_fini(&server.got);
}

static void test_handshake_timeout(void **state)
{
	(void)state;
	struct kp_err err;
	struct listener l;
	end_init(&server);
	listener_open(&l, AF_INET, &server, NULL); /* does not speak TLS */
	struct kp_tls_context *ctx = kp_tls_client(&(struct kp_tls_opts){ .insecure = true }, &err);
	end_init(&client);
	struct kp_conn_target t = {
		.address = l.address, .tls = ctx, .timeout_ns = 50 * KP_NS_PER_MS
	};
	client.conn = kp_conn_connect(loop, &t, &ops, &client);
	client.stop_on_close = true;
	run();
	assert_int_equal(client.why.code, KP_DEADLINE_EXCEEDED);
	kp_tls_unref(ctx);
	end_close(&server);
	kp_buf_fini(&client.got);
	listener_close(&l);
}

static void test_tls(void **state)
{
	(void)state;
	struct tls_files f = tls_files_make();
	struct kp_err err;
	struct kp_tls_context *sctx = kp_tls_server(
		&(struct kp_tls_opts){ .cert_file = f.cert, .key_file = f.key }, &err);
	struct kp_tls_context *cctx = kp_tls_client(&(struct kp_tls_opts){ .ca_file = f.ca }, &err);
	assert_non_null(sctx);
	assert_non_null(cctx);
	struct listener l;
	end_init(&server);
	listener_open(&l, AF_INET, &server, sctx);
	echo_through(l.address, cctx, "h2", 3 << 20);
	assert_str_lit(kp_conn_alpn(client.conn), "h2");
	assert_str_lit(kp_conn_alpn(server.conn), "h2");
	assert_int_equal(server.opened, 1);

	/* Paused in the middle: nothing is lost, the socket is not read on. */
	server.on_data = PAUSE;
	server.echo = false;
	server.stop_on_eof = false;
	size_t before = server.got.n;
	static char block[1 << 20];
	memset(block, 'p', sizeof(block));
	client.stop_at = 0;
	kp_conn_write(client.conn, kp_str_n(block, sizeof(block)));
	int datas = server.datas;
	run();
	run_ms(20);
	assert_int_equal(server.datas, datas + 1);
	assert_true(server.got.n - before <= 64 << 10);
	server.on_data = STAY;
	server.stop_at = before + sizeof(block);
	server.in_call = true;
	kp_conn_pause(server.conn, false);
	server.in_call = false;
	run();
	assert_int_equal(server.got.n, before + sizeof(block));

	/* close_notify is an end of input; the other direction still works. */
	server.stop_on_eof = true;
	kp_conn_write(client.conn, KP_S("bye"));
	kp_conn_finish(client.conn);
	run();
	assert_int_equal(server.eofs, 1);
	assert_true(kp_str_ends(kp_buf_str(&server.got), KP_S("bye")));
	end_close(&server);
	kp_buf_fini(&client.got);
	run_ms(10);
	listener_close(&l);
	kp_tls_unref(sctx);
	kp_tls_unref(cctx);
	tls_files_remove(&f);
}

static void tls_must_fail(struct listener *l, const struct kp_tls_opts *o, const char *alpn,
	const char *name, const char *text)
{
	struct kp_err err;
	struct kp_tls_context *ctx = kp_tls_client(o, &err);
	assert_non_null(ctx);
	end_init(&server);
	server.close_on_eof = true;
	connect_to(l->address, ctx, alpn, name);
	/* More than the other side reads before it has said no: that must not cost its last words. */
	static const char more[1 << 20];
	kp_conn_write(client.conn, kp_str_n(more, sizeof(more)));
	client.stop_on_close = true;
	run();
	assert_int_equal(client.got.n, 0);
	assert_int_equal(client.why.code, KP_UNAVAILABLE);
	if (!strstr(client.why.msg, text)) {
		fail_msg("`%s` does not say `%s`", client.why.msg, text);
	}
	run_ms(10);
	assert_int_equal(server.closes + server.eofs, 1);
	kp_buf_fini(&server.got);
	kp_buf_fini(&client.got);
	kp_tls_unref(ctx);
}

static void test_tls_refusals(void **state)
{
	(void)state;
	struct tls_files f = tls_files_make();
	struct kp_err err;
	struct listener l;
	struct kp_tls_context *sctx = kp_tls_server(
		&(struct kp_tls_opts){ .cert_file = f.cert, .key_file = f.key }, &err);
	listener_open(&l, AF_INET, &server, sctx);
	tls_must_fail(&l, &(struct kp_tls_opts){ .ca_file = f.other_ca }, "h2", NULL,
		"TLS handshake: certificate `localhost`: unable to get local issuer certificate");
	tls_must_fail(&l, &(struct kp_tls_opts){ .ca_file = f.ca }, "h2", "elsewhere.example",
		"TLS handshake: certificate `localhost`: it is not for `elsewhere.example`");
	tls_must_fail(&l, &(struct kp_tls_opts){ .ca_file = f.ca }, "gopher", NULL,
		"no application protocol");
	listener_close(&l);
	kp_tls_unref(sctx);

	/* A server that asks for certificates. TLS 1.3 clients learn of it after the handshake. */
	sctx = kp_tls_server(&(struct kp_tls_opts){ .cert_file = f.cert,
				     .key_file = f.key,
				     .ca_file = f.ca,
				     .require_peer_cert = true },
		&err);
	listener_open(&l, AF_INET, &server, sctx);
	tls_must_fail(&l, &(struct kp_tls_opts){ .ca_file = f.ca }, "h2", NULL,
		"TLS receive: the other side says: certificate required");
	struct kp_tls_context *cctx = kp_tls_client(
		&(struct kp_tls_opts){
			.ca_file = f.ca, .cert_file = f.client_cert, .key_file = f.client_key },
		&err);
	end_init(&server);
	echo_through(l.address, cctx, "http/1.1", 1000);
	end_close(&server);
	end_close(&client);
	listener_close(&l);
	kp_tls_unref(sctx);
	kp_tls_unref(cctx);

	struct kp_tls_opts bad[] = {
		{ .cert_file = "/nonexistent", .key_file = f.key },
		{ .cert_file = f.cert, .key_file = f.client_key },
		{ .cert_file = f.cert, .key_file = f.key, .ca_file = f.key },
		{ .cert_file = f.cert },
		{ .cert_file = f.cert, .key_file = f.key, .require_peer_cert = true },
	};
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		err = KP_ERR_INIT;
		assert_null(kp_tls_server(&bad[i], &err));
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
	tls_files_remove(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_echo, setup, teardown),
		cmocka_unit_test_setup_teardown(test_coalescing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flush_at_64k, setup, teardown),
		cmocka_unit_test_setup_teardown(test_back_pressure, setup, teardown),
		cmocka_unit_test_setup_teardown(test_queue_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pause_and_fin, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ending_in_a_callback, setup, teardown),
		cmocka_unit_test_setup_teardown(test_finish_beats_unread_input, setup, teardown),
		cmocka_unit_test_setup_teardown(test_write_to_the_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_abort_resets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_connect_failures, setup, teardown),
		cmocka_unit_test_setup_teardown(test_close_while_connecting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_handshake_timeout, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tls, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tls_refusals, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
