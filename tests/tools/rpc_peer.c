/* rpc_peer serve ADDRESS [TLS_DIR]            an echo server of lib/rpc
   rpc_peer talk ADDRESS [TLS_DIR [NAME]]      its client
   For tests/integ/rpc and by hand. Commands are lines on standard input: `open N` (a client: N streams,
   each says "hello"), `send BYTES` (on every stream), `shared BYTES` (the same, one copy for all), `close`
   (every stream), `stats`. At its end everything is closed and the program ends, so that a leak shows
   under ASan. Events are JSON lines: {"event": "ready", "port": n}, "open", "message", "closed", "stats". */
#include "rpc/rpc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "json/write.h"

#include <stdio.h>
#include <sys/resource.h>
#include <uv.h>

struct end {
	struct kp_list link;
	struct kp_rpc_stream *stream;
};

static struct kp_loop *loop;
static struct kp_rpc_server *server;
static struct kp_rpc_client *client;
static struct kp_list ends;
static size_t n_open, n_messages, n_bytes;
static uv_pipe_t input;
static struct kp_buf line;

static void message(void *user, kp_str bytes)
{
	struct end *e = user;
	n_messages++;
	n_bytes += bytes.n;
	printf("{\"event\": \"message\", \"bytes\": %zu}\n", bytes.n);
	if (server) {
		kp_rpc_stream_send(e->stream, bytes);
	}
}

static void closed(void *user, const struct kp_err *status)
{
	struct end *e = user;
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 4096);
	kp_json_w_str(&text, kp_str_c(status->msg));
	printf("{\"event\": \"closed\", \"code\": \"%s\", \"message\": %" KP_FMT "}\n",
		kp_code_name(status->code), KP_ARG(kp_buf_str(&text)));
	kp_list_del(&e->link);
	kp_mem_free(e);
	n_open--;
}
static const struct kp_rpc_stream_ops ops = { message, closed };

static struct end *add_end(void)
{
	struct end *e = kp_new(struct end);
	kp_list_push(&ends, &e->link);
	n_open++;
	return e;
}

static int accept_stream(void *ctx, struct kp_rpc_stream *s, const struct kp_rpc_peer *peer,
	struct kp_rpc_stream_ops *ret_ops, void **user, struct kp_err *err)
{
	(void)ctx, (void)err;
	struct end *e = add_end();
	e->stream = s;
	*ret_ops = ops;
	*user = e;
	printf("{\"event\": \"open\", \"name\": \"%" KP_FMT "\"}\n",
		KP_ARG(peer->n_names ? peer->names[0] : KP_S("")));
	return 0;
}

static void stats(void)
{
	struct rusage u;
	long rss_pages = 0, size_pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%ld %ld", &size_pages, &rss_pages) != 2) {
		rss_pages = 0;
	}
	if (f) {
		fclose(f);
	}
	getrusage(RUSAGE_SELF, &u);
	printf("{\"event\": \"stats\", \"open\": %zu, \"messages\": %zu, \"bytes\": %zu, \"cpu_us\": %ld, \"rss_kb\": %ld}\n",
		n_open, n_messages, n_bytes,
		(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000L + u.ru_utime.tv_usec +
			u.ru_stime.tv_usec,
		rss_pages * 4);
}

static void each(
	void (*fn)(struct end *e, struct kp_rpc_shared *shared), struct kp_rpc_shared *shared)
{
	kp_list_each_safe (node, &ends) {
		fn(KP_CONTAINER(node, struct end, link), shared);
	}
}
static void send_copy(struct end *e, struct kp_rpc_shared *unused)
{
	(void)unused;
	kp_rpc_stream_send(e->stream, kp_buf_str(&line));
}
static void send_shared(struct end *e, struct kp_rpc_shared *shared)
{
	kp_rpc_stream_send_shared(e->stream, shared);
}
static void close_it(struct end *e, struct kp_rpc_shared *unused)
{
	(void)unused;
	kp_rpc_stream_close(e->stream, NULL);
}

static void run(kp_str command)
{
	kp_str rest = command, verb = KP_S(""), number;
	uint64_t n = 0;
	kp_str_split(&rest, ' ', &verb);
	if (kp_str_split(&rest, ' ', &number)) {
		(void)kp_str_u64(number, 1 << 30, &n);
	}
	if (kp_str_eq(verb, KP_S("stats"))) {
		stats();
	} else if (kp_str_eq(verb, KP_S("close"))) {
		each(close_it, NULL);
	} else if (kp_str_eq(verb, KP_S("open"))) {
		for (uint64_t i = 0; i < n; i++) {
			struct end *e = add_end();
			e->stream = kp_rpc_client_open(client, &ops, e);
			kp_rpc_stream_send(e->stream, KP_S("hello"));
		}
	} else {
		char *bytes = kp_xcalloc(1, n + 1);
		struct kp_rpc_shared *shared = kp_rpc_shared_create(kp_str_n(bytes, n));
		if (kp_str_eq(verb, KP_S("shared"))) {
			each(send_shared, shared);
		} else {
			kp_buf_reset(&line);
			kp_buf_add(&line, kp_str_n(bytes, n));
			each(send_copy, NULL);
			kp_buf_reset(&line);
		}
		kp_rpc_shared_unref(shared);
		kp_mem_free(bytes);
	}
}

static void on_alloc(uv_handle_t *h, size_t n, uv_buf_t *ret)
{
	static char space[4096];
	(void)h, (void)n;
	*ret = uv_buf_init(space, sizeof(space));
}
static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	(void)s;
	if (n < 0) {
		kp_loop_stop(loop);
	}
	/* A command is written at once by those who use this, and shorter than a pipe's atom. */
	kp_str rest = kp_str_n(b->base, n > 0 ? (size_t)n : 0), part;
	while (rest.n && kp_str_split(&rest, '\n', &part)) {
		run(part);
	}
}

int main(int argc, char **argv)
{
	struct kp_err err = KP_ERR_INIT;
	if (argc < 3) {
		fprintf(stderr, "usage: rpc_peer serve|talk ADDRESS [TLS_DIR [NAME]]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	static const char method[] = "/kelpie.test.v1.Test/Talk";
	const struct kp_rpc_tls tls = { .dir = argc > 3 ? argv[3] : NULL };
	bool serves = strcmp(argv[1], "serve") == 0;
	loop = kp_loop_create("main");
	kp_list_init(&ends);
	kp_buf_init(&line, 1 << 30);
	int r = serves ? kp_rpc_server_create(loop, argv[2], method, &tls, NULL, accept_stream,
				 NULL, &server, &err)
		       : kp_rpc_client_create(loop, argv[2], method, &tls,
				 argc > 4 ? argv[4] : NULL, NULL, &client, &err);
	if (r < 0) {
		fprintf(stderr, "rpc_peer: %s\n", err.msg);
		return 1;
	}
	printf("{\"event\": \"ready\", \"port\": %d}\n", serves ? kp_rpc_server_port(server) : 0);
	uv_pipe_init(kp_loop_uv(loop), &input, 0);
	uv_pipe_open(&input, 0);
	uv_read_start((uv_stream_t *)&input, on_alloc, on_read);
	kp_loop_run(loop);
	uv_close((uv_handle_t *)&input, NULL);
	kp_rpc_client_destroy(client);
	kp_rpc_server_destroy(server);
	kp_buf_fini(&line);
	kp_loop_destroy(loop);
	return 0;
}
