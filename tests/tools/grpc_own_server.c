/* grpc_own_server [option=value...]: the test service of tests/integ/grpc on lib/net's server. See tests/integ/grpc/service.txt.

   DESIGN: one loop. A call is a job that sends until it has sent everything, the queue is full (then it waits for `writable`) or a pause is asked for (then for its timer). */
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "json/write.h"
#include "net/grpc_server.h"
#include "net/grpc_wire.h"
#include "net/tls.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { HIGH_WATER = 64 << 10, MAX_MD = 14 };

struct job {
	struct kp_grpc_serving *call;
	const struct kp_http_request *http;
	struct kp_timer timer;
	struct kp_buf ask;
	int64_t deadline_ns;
	uint64_t count, size, status, delay_ms, n_sent;
	bool echo, is_over;
};

static struct kp_loop *loop;
static struct kp_grpc_server *server;
static struct kp_grpc_server_limits limits;
static struct kp_tls_opts tls;
static size_t n_active, max_active;
static char *filler;
static size_t filler_bytes;
static uv_signal_t on_term, on_hup;
static struct kp_timer drain_timer;

static void die(const char *what, const char *operand)
{
	fprintf(stderr, "grpc_own_server: %s `%s`\n", what, operand);
	exit(2);
}

static void report_text(const char *event, const char *name, const char *text)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 16);
	kp_json_w_str(&b, kp_str_c(text));
	printf("{\"event\": \"%s\", \"%s\": %s}\n", event, name, kp_buf_cstr(&b));
	fflush(stdout);
}

/* ---- what the request asks for ---- */

static bool ask(const struct job *j, const char *name, kp_str *ret)
{
	kp_str rest = kp_str_sub(kp_buf_str(&j->ask), 0, 4096), word, n = kp_str_c(name);
	while (kp_str_split(&rest, ' ', &word)) {
		if (kp_str_starts(word, n) && word.n > n.n && word.p[n.n] == '=') {
			*ret = kp_str_skip(word, n.n + 1);
			return true;
		}
	}
	return false;
}

static uint64_t ask_number(const struct job *j, const char *name)
{
	kp_str v;
	uint64_t n = 0;
	return ask(j, name, &v) && kp_str_u64(v, UINT64_MAX, &n) ? n : 0;
}

static void report(const struct job *j, const char *event)
{
	kp_str id = KP_S("");
	(void)ask(j, "id", &id);
	printf("{\"event\": \"%s\", \"id\": \"%" KP_FMT "\", \"sent\": %llu}\n", event, KP_ARG(id),
		(unsigned long long)j->n_sent);
	fflush(stdout);
}

/* ---- the answer ---- */

struct trailers {
	struct kp_header h[MAX_MD + 4];
	size_t n;
	struct kp_buf text;
	char sent[24], active[24], left[24];
};

static void add(struct trailers *t, kp_str name, kp_str value)
{
	t->h[t->n++] = (struct kp_header){ name, value };
}

static void add_number(struct trailers *t, kp_str name, char buf[24], long long v)
{
	int n = snprintf(buf, 24, "%lld", v);
	add(t, name, kp_str_n(buf, (size_t)n));
}

/* "-bin" values come in base64 and are given to the server raw. */
static void add_received(struct trailers *t, const struct kp_header *h)
{
	kp_str value = h->value;
	if (kp_grpc_is_binary(h->name)) {
		size_t from = t->text.n;
		(void)kp_grpc_base64_decode(&t->text, value);
		value = kp_str_n(t->text.p + from, t->text.n - from);
	}
	add(t, h->name, value);
}

static void end(struct job *j)
{
	struct trailers t = { .n = 0 };
	struct kp_err status = KP_ERR_INIT;
	kp_str text = KP_STR_NULL;
	char message[1000] = "";
	kp_buf_init(&t.text, 1 << 20);
	KP_BUG_ON(!kp_buf_reserve(&t.text, 1 << 19));
	for (size_t i = 0; i < j->http->n_headers && t.n < MAX_MD; i++) {
		if (kp_str_starts(j->http->headers[i].name, KP_S("x-"))) {
			add_received(&t, &j->http->headers[i]);
		}
	}
	add_number(&t, KP_S("sent"), t.sent, (long long)j->n_sent);
	add_number(&t, KP_S("max-active"), t.active, (long long)max_active);
	if (j->deadline_ns) {
		add_number(
			&t, KP_S("left-ms"), t.left, (j->deadline_ns - kp_now_ns()) / KP_NS_PER_MS);
	}
	if (j->http->n_peer_names > 0) {
		size_t from = t.text.n;
		for (size_t i = 0; i < j->http->n_peer_names; i++) {
			kp_buf_add(&t.text, j->http->peer_names[i]);
			kp_buf_addc(&t.text, ' ');
		}
		add(&t, KP_S("peer-names"), kp_str_n(t.text.p + from, t.text.n - from - 1));
	}
	if (j->status) {
		(void)ask(j, "message", &text);
		for (size_t i = 0; i < text.n && i < sizeof(message) - 1; i++) {
			message[i] = text.p[i];
			if (text.p[i] == '_') {
				message[i] = ' ';
			}
		}
		kp_err_set(&status, (enum kp_code)j->status, "%s", message);
	}
	j->is_over = true;
	kp_grpc_serving_end(j->call, &status, t.h, t.n);
	kp_buf_fini(&t.text);
}

static void go_on(struct job *j);

static void on_timer(struct kp_timer *t)
{
	go_on(KP_CONTAINER(t, struct job, timer));
}

static void wait_ms(struct job *j, uint64_t ms)
{
	kp_timer_start(loop, &j->timer, kp_loop_now(loop) + (int64_t)ms * KP_NS_PER_MS, on_timer);
}

static void send_one(struct job *j)
{
	if (j->echo) {
		kp_grpc_serving_send(j->call, kp_buf_str(&j->ask));
	} else {
		kp_grpc_serving_send(j->call, kp_str_n(filler + j->n_sent % 256, j->size));
	}
	j->n_sent++;
	if (j->n_sent % 1000 == 0) {
		report(j, "sent");
	}
}

static void go_on(struct job *j)
{
	while (!j->is_over) {
		if (j->n_sent == j->count) {
			end(j);
		} else if (kp_grpc_serving_queued(j->call) > HIGH_WATER) {
			return; /* on_writable */
		} else {
			send_one(j);
			if (j->delay_ms) {
				wait_ms(j, j->delay_ms);
				return;
			}
		}
	}
}

static void on_writable(void *user)
{
	struct job *j = user;
	if (!j->timer.heap_index) {
		go_on(j);
	}
}

static void on_closed(void *user, enum kp_stream_end why)
{
	struct job *j = user;
	if (why != KP_STREAM_FINISHED) {
		report(j, "cancelled");
	}
	kp_timer_stop(loop, &j->timer);
	kp_buf_fini(&j->ask);
	kp_mem_free(j);
	n_active--;
}

static void need_filler(size_t n)
{
	if (n > filler_bytes) {
		filler = kp_xrealloc(filler, n);
		for (size_t i = 0; i < n; i++) {
			filler[i] = (char)i;
		}
		filler_bytes = n;
	}
}

static void on_request(void *ctx, struct kp_grpc_serving *c, const struct kp_grpc_request *r)
{
	static const struct kp_grpc_serving_ops ops = { .writable = on_writable,
		.closed = on_closed };
	bool is_unary = kp_str_eq(r->method, KP_S("/kelpie.test.Probe/Unary"));
	(void)ctx;
	if (!is_unary && !kp_str_eq(r->method, KP_S("/kelpie.test.Probe/Stream"))) {
		struct kp_err err;
		kp_err_set(&err, KP_UNIMPLEMENTED, "call `%" KP_FMT "`: no such method",
			KP_ARG(r->method));
		kp_grpc_serving_end(c, &err, NULL, 0);
		return;
	}
	struct job *j = kp_new(struct job);
	j->call = c;
	j->http = r->http;
	j->deadline_ns = r->deadline_ns;
	kp_buf_init(&j->ask, SIZE_MAX);
	kp_buf_add(&j->ask, r->message);
	j->count = ask_number(j, "count");
	j->size = ask_number(j, "size");
	j->status = ask_number(j, "status");
	j->delay_ms = ask_number(j, "delay_ms");
	j->echo = ask_number(j, "echo") != 0;
	if (is_unary) {
		j->count = j->status == 0;
	}
	need_filler(256 + (size_t)j->size);
	n_active++;
	max_active = KP_MAX(max_active, n_active);
	kp_grpc_serving_accept(c, &ops, j);
	report(j, "begun");
	if (ask_number(j, "wait_ms")) {
		wait_ms(j, ask_number(j, "wait_ms"));
	} else {
		go_on(j);
	}
}

/* ---- the server ---- */

static void on_gone(void *arg)
{
	(void)arg;
	uv_close((uv_handle_t *)&on_term, NULL);
	uv_close((uv_handle_t *)&on_hup, NULL);
	kp_loop_stop(loop);
}

/* Drained: the last connection ends when its last call does. */
static void on_drained(struct kp_timer *t)
{
	const struct kp_http_counters *c = kp_grpc_server_counters(server);
	if (atomic_load(&c->connections.v) > 0) {
		kp_timer_start(loop, t, kp_loop_now(loop) + 20 * KP_NS_PER_MS, on_drained);
	} else {
		kp_grpc_server_destroy(server, on_gone, NULL);
	}
}

static void on_sigterm(uv_signal_t *handle, int number)
{
	(void)handle, (void)number;
	kp_grpc_server_drain(server);
	on_drained(&drain_timer);
}

static struct kp_tls_context *load_tls(void)
{
	struct kp_err err;
	struct kp_tls_context *c = kp_tls_server(&tls, &err);
	if (!c) {
		die("TLS:", err.msg);
	}
	return c;
}

static void on_sighup(uv_signal_t *handle, int number)
{
	(void)handle, (void)number;
	struct kp_tls_context *fresh = load_tls();
	kp_grpc_server_set_tls(server, fresh);
	kp_tls_unref(fresh);
	report_text("reloaded", "cert", tls.cert_file);
}

static void on_tls_failure(void *ctx, kp_str peer, const struct kp_err *why)
{
	(void)ctx, (void)peer;
	report_text("tls_failed", "why", why->msg);
}

static const char *read_options(int argc, char **argv)
{
	const char *address = "127.0.0.1:0";
	for (int i = 1; i < argc; i++) {
		kp_str value = kp_str_c(argv[i]), name;
		uint64_t v = 0;
		if (!kp_str_split(&value, '=', &name) || !value.p) {
			die("bad option", argv[i]);
		}
		bool is_number = kp_str_u64(value, INT32_MAX, &v);
		if (kp_str_eq(name, KP_S("listen"))) {
			address = value.p;
		} else if (kp_str_eq(name, KP_S("cert"))) {
			tls.cert_file = value.p;
		} else if (kp_str_eq(name, KP_S("key"))) {
			tls.key_file = value.p;
		} else if (kp_str_eq(name, KP_S("ca"))) {
			tls.ca_file = value.p;
			tls.require_peer_cert = true;
		} else if (kp_str_eq(name, KP_S("max_streams")) && is_number) {
			limits.http.max_streams = (unsigned)v;
		} else if (kp_str_eq(name, KP_S("max_message")) && is_number) {
			limits.max_message_bytes = (size_t)v;
		} else if (kp_str_eq(name, KP_S("max_arriving")) && is_number) {
			limits.max_arriving_bytes = (size_t)v;
		} else {
			die("bad option", argv[i]);
		}
	}
	return address;
}

int main(int argc, char **argv)
{
	struct kp_err err;
	uint16_t port = 0;
	limits.http.high_water = HIGH_WATER;
	const char *address = read_options(argc, argv);
	struct kp_tls_context *context = tls.cert_file ? load_tls() : NULL;
	loop = kp_loop_create("server");
	server = kp_grpc_server_create(
		loop, &limits, context, &(struct kp_grpc_handler){ .request = on_request });
	kp_tls_unref(context);
	kp_grpc_server_on_tls_failure(server, on_tls_failure, NULL);
	if (kp_grpc_server_listen(server, address, &port, &err) < 0) {
		die("cannot listen:", err.msg);
	}
	uv_signal_init(kp_loop_uv(loop), &on_term);
	uv_signal_init(kp_loop_uv(loop), &on_hup);
	uv_signal_start(&on_term, on_sigterm, SIGTERM);
	uv_signal_start(&on_hup, on_sighup, SIGHUP);
	printf("{\"event\": \"listening\", \"port\": %u}\n", (unsigned)port);
	fflush(stdout);
	kp_loop_run(loop);
	kp_timer_stop(loop, &drain_timer);
	kp_loop_destroy(loop);
	kp_free(&filler);
	return 0;
}
