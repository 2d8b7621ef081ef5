/* echo_server [option=value...]: the HTTP server of lib/net with a handler for each thing a test wants to see. For tests/integ/net, h2spec and bench/http.
   Prints "port N" when it listens and ends, everything closed, when its standard input ends (a leak then shows under ASan).

   Options: listen (127.0.0.1:0), receivers (0: none), receiver_queue (256), cert, key, ca (PEM; ca: client certificates are demanded), and by the names of struct kp_http_limits: max_head_bytes, max_target_bytes,
   max_headers, max_body_bytes, head_timeout_ms, body_timeout_ms, idle_timeout_ms, write_timeout_ms, stream_timeout_ms, max_connections, max_streams, high_water, low_water.

   GET  /hello                     "hello\n"
   any  /request                   what the handler got, as JSON: {"method","target","path","query","authority","scheme","version","length","headers":[[n,v]...],"body_bytes","body_hash"}
   POST /echo                      the body back as it comes, held back by a slow reader
   POST /refuse                    401 at once, the body is not read
   POST /collect?stop=N             the body in one piece, then as /request; 429 once N bytes are there
   POST /paused?ms=N               pauses reading for N ms, then as /request
   GET  /events?n=N&ms=M&size=S    N events of S bytes every M ms; ms=0: all at once
   GET  /flow?bytes=N              N bytes as fast as the client takes them, never more than high_water queued
   GET  /big?bytes=N               N bytes in one write
   GET  /late?ms=N                 "late\n" after N ms
   GET  /trailers | /abort | /short | /close   trailers; break off after a piece; less than announced; server destroyed inside the handler
   GET  /drain                     answers and drains the server
   GET  /stats                     JSON: counters, open connections, max_queued, and "closed": how many streams ended in which way */
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/workers.h"
#include "json/write.h"
#include "net/server.h"
#include "net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

static struct kp_loop *loop;
static struct kp_http_server *server;
static struct kp_http_limits limits;
static unsigned n_receivers, receiver_queue = 256;
static size_t max_queued;
static uint64_t closed[5];
static int64_t last_gone_ns;
static size_t open_streams;

struct job {
	struct kp_stream *s;
	const struct kp_http_request *r;
	struct kp_timer timer;
	enum {
		JOB_REQUEST = 0,
		JOB_ECHO,
		JOB_EVENTS,
		JOB_FLOW,
		JOB_LATE,
		JOB_PAUSED,
		JOB_COLLECT
	} kind;
	struct kp_buf body; /* of JOB_COLLECT */
	uint64_t left, size, bytes, hash;
	int64_t every_ns;
	bool ended, held;
};

/* ---- answers ---- */

static uint64_t parameter(const struct kp_http_request *r, kp_str name, uint64_t otherwise)
{
	kp_str rest = r->query, part;
	uint64_t v;
	while (kp_str_split(&rest, '&', &part)) {
		if (part.n > name.n && kp_str_starts(part, name) && part.p[name.n] == '=' &&
			kp_str_u64(kp_str_skip(part, name.n + 1), UINT64_MAX, &v)) {
			return v;
		}
	}
	return otherwise;
}

static void reply_text(struct kp_stream *s, int status, kp_str body)
{
	const struct kp_header type = { KP_S("content-type"), KP_S("text/plain") };
	kp_stream_reply(s, status, &type, 1, body);
}

static void reply_json(struct kp_stream *s, struct kp_buf *b)
{
	const struct kp_header type = { KP_S("content-type"), KP_S("application/json") };
	kp_stream_reply(s, 200, &type, 1, kp_buf_str(b));
	kp_buf_fini(b);
}

static void member(struct kp_buf *b, const char *name, kp_str value)
{
	kp_buf_printf(b, "%s\"%s\":", b->n > 1 ? "," : "", name);
	kp_json_w_str(b, value);
}

static void reply_request(struct job *j)
{
	const struct kp_http_request *r = j->r;
	struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	kp_buf_lit(&b, "{");
	member(&b, "method", r->method);
	member(&b, "target", r->target);
	member(&b, "path", r->path);
	member(&b, "query", r->query);
	member(&b, "authority", r->authority);
	member(&b, "scheme", r->scheme);
	member(&b, "peer", r->peer);
	kp_buf_printf(&b, ",\"version\":%d,\"length\":%lld,\"tls\":%s,\"headers\":[", r->version,
		(long long)r->content_length, r->tls ? "true" : "false");
	for (size_t i = 0; i < r->n_headers; i++) {
		kp_buf_lit(&b, "[");
		kp_json_w_str(&b, r->headers[i].name);
		kp_buf_lit(&b, ",");
		kp_json_w_str(&b, r->headers[i].value);
		kp_buf_addz(&b, i + 1 < r->n_headers ? "]," : "]");
	}
	kp_buf_printf(&b, "],\"body_bytes\":%llu,\"body_hash\":\"%016llx\"}\n",
		(unsigned long long)j->bytes, (unsigned long long)j->hash);
	reply_json(j->s, &b);
}

static void reply_stats(struct kp_stream *s)
{
	const struct kp_http_counters *c = kp_http_server_counters(server);
	static const char *const names[] = { "malformed", "head", "body", "slow", "flood",
		"connections", "tls" };
	static const char *const ways[] = { "finished", "client_gone", "timeout", "protocol",
		"aborted" };
	struct kp_buf b;
	kp_buf_init(&b, 1 << 16);
	kp_buf_printf(&b,
		"{\"connections\":%zu,\"open_streams\":%zu,\"max_queued\":%zu,\"gone_ms_ago\":%lld",
		kp_http_server_connections(server), open_streams, max_queued,
		(long long)((kp_now_ns() - last_gone_ns) / KP_NS_PER_MS));
	kp_buf_printf(&b,
		",\"accepted\":%llu,\"http1\":%llu,\"http2\":%llu,\"bytes_in\":%llu,\"bytes_out\":%llu,\"refused\":{",
		(unsigned long long)c->accepted.v, (unsigned long long)c->http1_requests.v,
		(unsigned long long)c->http2_requests.v, (unsigned long long)c->bytes_in.v,
		(unsigned long long)c->bytes_out.v);
	for (size_t i = 0; i < KP_LEN(names); i++) {
		kp_buf_printf(&b, "%s\"%s\":%llu", i ? "," : "", names[i],
			(unsigned long long)c->refused[i].v);
	}
	kp_buf_lit(&b, "},\"closed\":{");
	for (size_t i = 0; i < KP_LEN(ways); i++) {
		kp_buf_printf(
			&b, "%s\"%s\":%llu", i ? "," : "", ways[i], (unsigned long long)closed[i]);
	}
	kp_buf_lit(&b, "}}\n");
	reply_json(s, &b);
}

/* ---- jobs ---- */

static char filler[64 << 10];

static void note_queued(struct job *j)
{
	max_queued = KP_MAX(max_queued, kp_stream_queued(j->s));
}

static void flow_on(struct job *j)
{
	while (j->left > 0 && kp_stream_queued(j->s) + 16384 <= limits.high_water) {
		size_t n = j->left < 16384 ? (size_t)j->left : 16384;
		kp_stream_write(j->s, kp_str_n(filler, n));
		note_queued(j);
		j->left -= n;
	}
	if (j->left == 0) {
		kp_stream_finish(j->s);
	} else {
		/* `writable` comes only after the high mark was passed. */
		size_t n = j->left < 32768 ? (size_t)j->left : 32768;
		kp_stream_write(j->s, kp_str_n(filler, n));
		note_queued(j);
		j->left -= n;
	}
}

static void on_event(struct kp_timer *t)
{
	struct job *j = KP_CONTAINER(t, struct job, timer);
	do {
		size_t size = j->size < 8                ? 8
			      : j->size > sizeof(filler) ? sizeof(filler)
							 : (size_t)j->size;
		kp_stream_write(j->s, KP_S("data: "));
		kp_stream_write(j->s, kp_str_n(filler, size - 8));
		kp_stream_write(j->s, KP_S("\n\n"));
		note_queued(j);
		j->left--;
	} while (j->every_ns == 0 && j->left > 0);
	if (j->left == 0) {
		kp_stream_finish(j->s);
	} else {
		kp_timer_start(loop, t, kp_loop_now(loop) + j->every_ns, on_event);
	}
}

static void on_late(struct kp_timer *t)
{
	struct job *j = KP_CONTAINER(t, struct job, timer);
	if (j->kind == JOB_PAUSED) {
		kp_stream_pause(j->s, false);
	} else {
		reply_text(j->s, 200, KP_S("late\n"));
	}
}

static void hash(struct job *j, kp_str piece)
{
	for (size_t i = 0; i < piece.n; i++) {
		j->hash = (j->hash ^ (unsigned char)piece.p[i]) * UINT64_C(0x100000001b3);
	}
}

static void on_data(void *user, kp_str piece)
{
	struct job *j = user;
	j->bytes += piece.n;
	if (j->kind == JOB_COLLECT) {
		KP_BUG_ON(piece.p + piece.n != j->body.p + j->body.n || j->bytes != j->body.n);
		if (j->left && j->bytes >= j->left) {
			kp_buf_fini(&j->body);
			reply_text(j->s, 429, KP_S("enough\n"));
		}
		return;
	}
	hash(j, piece);
	if (j->kind == JOB_ECHO) {
		kp_stream_write(j->s, piece);
		note_queued(j);
		if (!j->held && kp_stream_queued(j->s) > limits.high_water) {
			j->held = true;
			kp_stream_pause(j->s, true);
		}
	}
}

static void on_end(void *user)
{
	struct job *j = user;
	j->ended = true;
	if (j->kind == JOB_COLLECT) {
		hash(j, kp_buf_str(&j->body));
		reply_request(j);
	}
	if (j->kind == JOB_REQUEST || j->kind == JOB_PAUSED) {
		reply_request(j);
	} else if (j->kind == JOB_ECHO) {
		kp_stream_finish(j->s);
	}
}

static void on_writable(void *user)
{
	struct job *j = user;
	if (j->kind == JOB_ECHO && j->held) {
		j->held = false;
		kp_stream_pause(j->s, false);
	} else if (j->kind == JOB_FLOW) {
		flow_on(j);
	}
}

static void on_closed(void *user, enum kp_stream_end why)
{
	struct job *j = user;
	closed[why]++;
	open_streams--;
	if (why == KP_STREAM_CLIENT_GONE) {
		last_gone_ns = kp_now_ns();
	}
	kp_timer_stop(loop, &j->timer);
	kp_buf_fini(&j->body);
	kp_mem_free(j);
}

static const struct kp_stream_ops job_ops = { on_data, on_end, on_writable, on_closed };

static struct job *start(struct kp_stream *s, const struct kp_http_request *r, int kind)
{
	struct job *j = kp_new(struct job);
	*j = (struct job){ .s = s, .r = r, .kind = kind, .hash = UINT64_C(0xcbf29ce484222325) };
	kp_buf_init(&j->body, 64 << 20);
	open_streams++;
	kp_stream_accept(s, &job_ops, j);
	return j;
}

static void respond_stream(struct job *j, const char *type, int64_t length)
{
	const struct kp_header header = { KP_S("content-type"), kp_str_c(type) };
	kp_stream_respond(j->s, 200, &header, 1, length);
}

static void start_timed(struct job *j, uint64_t ms)
{
	j->every_ns = (int64_t)ms * KP_NS_PER_MS;
	kp_timer_start(loop, &j->timer, kp_loop_now(loop) + j->every_ns,
		j->kind == JOB_EVENTS ? on_event : on_late);
}

static void reply_big(struct kp_stream *s, size_t n)
{
	char *p = kp_xmalloc(n);
	memset(p, 'x', n);
	kp_stream_reply(s, 200, NULL, 0, kp_str_n(p, n));
	kp_mem_free(p);
}

static void stopped(void *arg)
{
	(void)arg;
	server = NULL;
	kp_loop_stop(loop);
}

static void on_small_request(struct kp_stream *s, const struct kp_http_request *r)
{
	const struct kp_header trailers[] = { { KP_S("x-sum"), KP_S("42") },
		{ KP_S("x-odd"), KP_S("a\r\nb") } };
	if (kp_str_eq(r->path, KP_S("/trailers"))) {
		kp_stream_respond(s, 200, NULL, 0, -1);
		kp_stream_write(s, KP_S("body\n"));
		kp_stream_finish_trailers(s, trailers, 2);
	} else if (kp_str_eq(r->path, KP_S("/abort"))) {
		kp_stream_respond(s, 200, NULL, 0, -1);
		kp_stream_write(s, KP_S("a piece"));
		kp_stream_abort(s);
	} else if (kp_str_eq(r->path, KP_S("/short"))) {
		kp_stream_respond(s, 200, NULL, 0, 100);
		kp_stream_write(s, KP_S("a piece"));
		kp_stream_finish(s);
	} else if (kp_str_eq(r->path, KP_S("/close"))) {
		kp_http_server_destroy(server, stopped, NULL);
	} else if (kp_str_eq(r->path, KP_S("/drain"))) {
		reply_text(s, 200, KP_S("draining\n"));
		kp_http_server_drain(server);
	} else if (kp_str_eq(r->path, KP_S("/stats"))) {
		reply_stats(s);
	} else if (kp_str_eq(r->path, KP_S("/big"))) {
		reply_big(s, (size_t)parameter(r, KP_S("bytes"), 1000));
	} else if (kp_str_eq(r->path, KP_S("/refuse"))) {
		reply_text(s, 401, KP_S("no\n"));
	} else {
		reply_text(s, 404, KP_S("no such path\n"));
	}
}

static void on_request(void *ctx, struct kp_stream *s, const struct kp_http_request *r)
{
	(void)ctx;
	if (kp_str_eq(r->path, KP_S("/hello"))) {
		reply_text(s, 200, KP_S("hello\n"));
	} else if (kp_str_eq(r->path, KP_S("/")) || kp_str_eq(r->path, KP_S("*")) ||
		   kp_str_eq(r->path, KP_S("/request"))) {
		start(s, r, JOB_REQUEST);
	} else if (kp_str_eq(r->path, KP_S("/echo"))) {
		respond_stream(start(s, r, JOB_ECHO), "application/octet-stream", -1);
	} else if (kp_str_eq(r->path, KP_S("/collect"))) {
		struct job *j = start(s, r, JOB_COLLECT);
		j->left = parameter(r, KP_S("stop"), 0);
		kp_stream_collect(s, &j->body);
	} else if (kp_str_eq(r->path, KP_S("/paused"))) {
		start_timed(start(s, r, JOB_PAUSED), parameter(r, KP_S("ms"), 100));
		kp_stream_pause(s, true);
	} else if (kp_str_eq(r->path, KP_S("/late"))) {
		start_timed(start(s, r, JOB_LATE), parameter(r, KP_S("ms"), 100));
	} else if (kp_str_eq(r->path, KP_S("/events"))) {
		struct job *j = start(s, r, JOB_EVENTS);
		respond_stream(j, "text/event-stream", -1);
		j->left = parameter(r, KP_S("n"), 10);
		j->size = parameter(r, KP_S("size"), 190);
		start_timed(j, parameter(r, KP_S("ms"), 0));
	} else if (kp_str_eq(r->path, KP_S("/flow"))) {
		struct job *j = start(s, r, JOB_FLOW);
		j->left = parameter(r, KP_S("bytes"), 1000);
		respond_stream(j, "application/octet-stream", (int64_t)j->left);
		flow_on(j);
	} else {
		on_small_request(s, r);
	}
}

/* ---- the program ---- */

static void on_input(uv_poll_t *poll, int status, int events)
{
	char buf[256];
	(void)status, (void)events;
	if (read(0, buf, sizeof(buf)) <= 0) {
		uv_poll_stop(poll);
		if (server) {
			kp_http_server_destroy(server, stopped, NULL);
		} else {
			kp_loop_stop(loop);
		}
	}
}

static bool set_limit(kp_str name, uint64_t v)
{
	const struct {
		const char *name;
		size_t *size;
		unsigned *count;
		int64_t *ns;
	} table[] = {
		{ "max_head_bytes", &limits.max_head_bytes, NULL, NULL },
		{ "max_target_bytes", &limits.max_target_bytes, NULL, NULL },
		{ "max_headers", NULL, &limits.max_headers, NULL },
		{ "max_body_bytes", &limits.max_body_bytes, NULL, NULL },
		{ "head_timeout_ms", NULL, NULL, &limits.head_timeout_ns },
		{ "body_timeout_ms", NULL, NULL, &limits.body_timeout_ns },
		{ "idle_timeout_ms", NULL, NULL, &limits.idle_timeout_ns },
		{ "write_timeout_ms", NULL, NULL, &limits.write_timeout_ns },
		{ "stream_timeout_ms", NULL, NULL, &limits.stream_timeout_ns },
		{ "max_connections", NULL, &limits.max_connections, NULL },
		{ "max_streams", NULL, &limits.max_streams, NULL },
		{ "receivers", NULL, &n_receivers, NULL },
		{ "receiver_queue", NULL, &receiver_queue, NULL },
		{ "high_water", &limits.high_water, NULL, NULL },
		{ "low_water", &limits.low_water, NULL, NULL },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		if (kp_str_eq(name, kp_str_c(table[i].name))) {
			if (table[i].size) {
				*table[i].size = (size_t)v;
			} else if (table[i].count) {
				*table[i].count = (unsigned)v;
			} else {
				*table[i].ns = (int64_t)v * KP_NS_PER_MS;
			}
			return true;
		}
	}
	return false;
}

static void die(const char *what)
{
	fprintf(stderr, "echo_server: %s\n", what);
	exit(2);
}

static void read_options(int argc, char **argv, const char **listen, struct kp_tls_opts *tls)
{
	for (int i = 1; i < argc; i++) {
		kp_str option = kp_str_c(argv[i]), name;
		uint64_t v;
		if (!kp_str_split(&option, '=', &name) || !option.p) {
			die("options are name=value");
		}
		if (kp_str_eq(name, KP_S("listen"))) {
			*listen = option.p;
		} else if (kp_str_eq(name, KP_S("cert"))) {
			tls->cert_file = option.p;
		} else if (kp_str_eq(name, KP_S("key"))) {
			tls->key_file = option.p;
		} else if (kp_str_eq(name, KP_S("ca"))) {
			tls->ca_file = option.p;
			tls->require_peer_cert = true;
		} else if (!kp_str_u64(option, INT64_MAX / KP_NS_PER_MS, &v) ||
			   !set_limit(name, v)) {
			die(argv[i]);
		}
	}
}

int main(int argc, char **argv)
{
	struct kp_err err;
	struct kp_tls_opts tls = { 0 };
	struct kp_tls_context *ctx = NULL;
	const char *listen = "127.0.0.1:0";
	uint16_t port = 0;
	limits.high_water = 256 << 10;
	limits.low_water = 64 << 10;
	read_options(argc, argv, &listen, &tls);
	if (tls.cert_file && !(ctx = kp_tls_server(&tls, &err))) {
		die(err.msg);
	}
	for (size_t i = 0; i < sizeof(filler); i++) {
		filler[i] = (char)('a' + i % 26);
	}
	loop = kp_loop_create("echo");
	server = kp_http_server_create(
		loop, &limits, ctx, &(struct kp_http_handler){ on_request, NULL });
	kp_tls_unref(ctx);
	const struct kp_workers_opts opts = {
		.name = "receiver", .threads = n_receivers, .max_queued = receiver_queue
	};
	struct kp_workers *receivers = n_receivers ? kp_workers_create(&opts) : NULL;
	kp_http_server_set_receivers(server, receivers);
	if (kp_http_server_listen(server, listen, &port, &err) < 0) {
		die(err.msg);
	}
	printf("port %u\n", port);
	fflush(stdout);
	uv_poll_t input;
	uv_poll_init(kp_loop_uv(loop), &input, 0);
	uv_poll_start(&input, UV_READABLE, on_input);
	kp_loop_run(loop);
	uv_close((uv_handle_t *)&input, NULL);
	kp_workers_stop(receivers);
	kp_loop_destroy(loop);
	kp_workers_destroy(receivers);
	return 0;
}
