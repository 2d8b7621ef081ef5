/* grpc_server_c [option=value...]: the test service of tests/integ/grpc on gRPC core's own server API. See tests/integ/grpc/service.txt.

   DESIGN: one thread, one completion queue, generic calls. A call is a small state machine; each batch has one tag inside the call, and the call is freed
   when its status is sent and its close has been received. Calls that wait are in a list that is looked through after each event: there are few. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum tag_kind { TAG_NEW, TAG_REQUEST, TAG_SENT, TAG_STATUS, TAG_CLOSE };
enum { MAX_MD = 64, REQUEST_MAX = 64 << 20 };

struct call;
struct tag {
	enum tag_kind kind;
	struct call *call;
};

struct call {
	struct tag tags[TAG_CLOSE + 1];
	grpc_call *call;
	grpc_call_details details;
	grpc_metadata_array received;
	grpc_byte_buffer *request, *reply;
	struct kp_list waiting;
	int64_t due_ns;
	struct kp_buf ask;
	uint64_t count, size, status, delay_ms, wait_ms, n_sent;
	bool echo, is_unary, is_known, has_head, is_cancelled, is_closed, is_done;
	int cancelled; /* written by gRPC core */
	grpc_metadata md[MAX_MD];
	size_t n_md;
	char number[4][32]; /* values of md */
};

static grpc_server *server;
static grpc_completion_queue *cq;
static bool gzip;
static struct kp_list waiting;
static size_t n_active, max_active;
static volatile sig_atomic_t stopping;

static void on_signal(int sig)
{
	(void)sig;
	stopping = 1;
}

static void batch(struct call *c, enum tag_kind kind, const grpc_op *ops, size_t n)
{
	if (grpc_call_start_batch(c->call, ops, n, &c->tags[kind], NULL) != GRPC_CALL_OK) {
		fprintf(stderr, "grpc_server_c: batch refused\n");
		abort();
	}
}

static void next_call(void)
{
	struct call *c = kp_new(struct call);
	for (int i = 0; i <= TAG_CLOSE; i++) {
		c->tags[i] = (struct tag){ (enum tag_kind)i, c };
	}
	grpc_call_details_init(&c->details);
	grpc_metadata_array_init(&c->received);
	kp_buf_init(&c->ask, REQUEST_MAX);
	grpc_server_request_call(
		server, &c->call, &c->details, &c->received, cq, cq, &c->tags[TAG_NEW]);
}

static void free_call(struct call *c)
{
	grpc_call_details_destroy(&c->details);
	grpc_metadata_array_destroy(&c->received);
	if (c->request) {
		grpc_byte_buffer_destroy(c->request);
	}
	if (c->reply) {
		grpc_byte_buffer_destroy(c->reply);
	}
	if (c->call) {
		grpc_call_unref(c->call);
	}
	kp_buf_fini(&c->ask);
	kp_mem_free(c);
}

static kp_str slice_str(const grpc_slice *s)
{
	return kp_str_n(GRPC_SLICE_START_PTR(*s), GRPC_SLICE_LENGTH(*s));
}

/* --- what the request asks for --- */

static bool ask(const struct call *c, const char *name, kp_str *ret)
{
	kp_str rest = kp_buf_str(&c->ask), word;
	rest = kp_str_sub(rest, 0, 4096);
	kp_str n = kp_str_c(name);
	while (kp_str_split(&rest, ' ', &word)) {
		if (kp_str_starts(word, n) && word.n > n.n && word.p[n.n] == '=') {
			*ret = kp_str_skip(word, n.n + 1);
			return true;
		}
	}
	return false;
}

static uint64_t ask_number(const struct call *c, const char *name)
{
	kp_str v;
	uint64_t n = 0;
	return ask(c, name, &v) && kp_str_u64(v, UINT64_MAX, &n) ? n : 0;
}

static void report(const struct call *c, const char *event)
{
	kp_str id = KP_S("");
	(void)ask(c, "id", &id);
	printf("{\"event\": \"%s\", \"id\": \"%" KP_FMT "\", \"sent\": %llu}\n", event, KP_ARG(id),
		(unsigned long long)c->n_sent);
	fflush(stdout);
}

static void read_request(struct call *c)
{
	if (c->request) {
		grpc_byte_buffer_reader r;
		grpc_slice s;
		grpc_byte_buffer_reader_init(&r, c->request);
		while (grpc_byte_buffer_reader_next(&r, &s)) {
			kp_buf_add(&c->ask, slice_str(&s));
			grpc_slice_unref(s);
		}
		grpc_byte_buffer_reader_destroy(&r);
	}
	kp_str method = slice_str(&c->details.method);
	c->is_unary = kp_str_eq(method, KP_S("/kelpie.test.Probe/Unary"));
	c->is_known = c->is_unary || kp_str_eq(method, KP_S("/kelpie.test.Probe/Stream"));
	c->count = ask_number(c, "count");
	c->size = ask_number(c, "size");
	c->status = ask_number(c, "status");
	c->delay_ms = ask_number(c, "delay_ms");
	c->wait_ms = ask_number(c, "wait_ms");
	c->echo = ask_number(c, "echo") != 0;
	if (c->is_unary) {
		c->count = c->status == GRPC_STATUS_OK;
	}
	if (!c->is_known) {
		c->count = 0;
		c->status = GRPC_STATUS_UNIMPLEMENTED;
	}
}

/* --- the answer --- */

static grpc_byte_buffer *reply_of(const struct call *c)
{
	size_t n = c->echo ? c->ask.n : c->size;
	grpc_slice s = grpc_slice_malloc(n);
	if (c->echo) {
		memcpy(GRPC_SLICE_START_PTR(s), c->ask.p, n);
	} else {
		for (size_t i = 0; i < n; i++) {
			GRPC_SLICE_START_PTR(s)[i] = (uint8_t)(c->n_sent + i);
		}
	}
	grpc_byte_buffer *b = grpc_raw_byte_buffer_create(&s, 1);
	grpc_slice_unref(s);
	return b;
}

static void add_md(struct call *c, const char *name, grpc_slice value)
{
	if (c->n_md < MAX_MD) {
		c->md[c->n_md].key = grpc_slice_from_static_string(name);
		c->md[c->n_md++].value = value;
	}
}

static void add_number(struct call *c, int slot, const char *name, long long v)
{
	snprintf(c->number[slot], sizeof(c->number[slot]), "%lld", v);
	add_md(c, name, grpc_slice_from_static_string(c->number[slot]));
}

static void trailers(struct call *c)
{
	kp_str mask = KP_S("x-");
	for (size_t i = 0; i < c->received.count; i++) {
		const grpc_metadata *m = &c->received.metadata[i];
		if (c->n_md < MAX_MD && kp_str_starts(slice_str(&m->key), mask)) {
			c->md[c->n_md++] = *m;
		}
	}
	add_number(c, 0, "sent", (long long)c->n_sent);
	add_number(c, 1, "max-active", (long long)max_active);
	gpr_timespec left =
		gpr_time_sub(gpr_convert_clock_type(c->details.deadline, GPR_CLOCK_REALTIME),
			gpr_now(GPR_CLOCK_REALTIME));
	if (gpr_time_to_millis(left) < INT32_MAX) {
		add_number(c, 2, "left-ms", gpr_time_to_millis(left));
	}
}

static void send_status(struct call *c)
{
	kp_str text = KP_STR_NULL;
	KP_AUTO(buf) struct kp_buf clean;
	kp_buf_init(&clean, 4096);
	if (ask(c, "message", &text)) {
		kp_buf_add(&clean, text);
	}
	for (size_t i = 0; i < clean.n; i++) {
		clean.p[i] = clean.p[i] == '_' ? ' ' : clean.p[i];
	}
	grpc_slice details = grpc_slice_from_copied_buffer(clean.p, clean.n);
	trailers(c);
	/* With both in one batch and no message before, core sends trailers only. */
	grpc_op ops[2] = { { .op = GRPC_OP_SEND_INITIAL_METADATA },
		{ .op = GRPC_OP_SEND_STATUS_FROM_SERVER } };
	ops[1].data.send_status_from_server.status = (grpc_status_code)c->status;
	ops[1].data.send_status_from_server.status_details = &details;
	ops[1].data.send_status_from_server.trailing_metadata = c->md;
	ops[1].data.send_status_from_server.trailing_metadata_count = c->n_md;
	batch(c, TAG_STATUS, ops + c->has_head, (size_t)(2 - c->has_head));
	grpc_slice_unref(details);
}

static void send_message(struct call *c)
{
	grpc_metadata gz = { .key = grpc_slice_from_static_string("grpc-internal-encoding-request"),
		.value = grpc_slice_from_static_string("gzip") };
	grpc_op ops[2] = { { .op = GRPC_OP_SEND_INITIAL_METADATA },
		{ .op = GRPC_OP_SEND_MESSAGE } };
	if (gzip) {
		ops[0].data.send_initial_metadata.metadata = &gz;
		ops[0].data.send_initial_metadata.count = 1;
	}
	if (c->reply) {
		grpc_byte_buffer_destroy(c->reply);
	}
	c->reply = reply_of(c);
	ops[1].data.send_message.send_message = c->reply;
	batch(c, TAG_SENT, ops + c->has_head, (size_t)(2 - c->has_head));
	c->has_head = true;
}

static void wait_ms(struct call *c, uint64_t ms)
{
	c->due_ns = kp_now_ns() + (int64_t)ms * KP_NS_PER_MS;
	kp_list_push(&waiting, &c->waiting);
}

static void go_on(struct call *c)
{
	if (c->n_sent < c->count && !c->is_cancelled) {
		send_message(c);
	} else {
		send_status(c);
	}
}

static void over(struct call *c)
{
	if (c->is_done && c->is_closed) {
		n_active--;
		free_call(c);
	}
}

static void on_new(struct call *c, bool ok)
{
	if (!ok) { /* the server stops */
		free_call(c);
		return;
	}
	next_call();
	n_active++;
	max_active = KP_MAX(max_active, n_active);
	grpc_op request = { .op = GRPC_OP_RECV_MESSAGE };
	request.data.recv_message.recv_message = &c->request;
	grpc_op close = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };
	close.data.recv_close_on_server.cancelled = &c->cancelled;
	batch(c, TAG_CLOSE, &close, 1);
	batch(c, TAG_REQUEST, &request, 1);
}

static void on_event(const struct tag *t, bool ok)
{
	struct call *c = t->call;
	switch (t->kind) {
	case TAG_NEW:
		on_new(c, ok);
		break;
	case TAG_REQUEST:
		read_request(c);
		report(c, "begun");
		if (c->wait_ms && !c->is_cancelled) {
			wait_ms(c, c->wait_ms);
		} else {
			go_on(c);
		}
		break;
	case TAG_SENT:
		c->n_sent += ok;
		c->is_cancelled = c->is_cancelled || !ok;
		if (c->n_sent % 1000 == 0) {
			report(c, "sent");
		}
		if (c->delay_ms && !c->is_cancelled) {
			wait_ms(c, c->delay_ms);
		} else {
			go_on(c);
		}
		break;
	case TAG_STATUS:
		c->is_done = true;
		over(c);
		break;
	case TAG_CLOSE:
		c->is_closed = true;
		if (c->cancelled) {
			c->is_cancelled = true;
			report(c, "cancelled");
			c->due_ns = 0;
		}
		over(c);
		break;
	}
}

/* --- the server --- */

/* Lets calls go on whose time has come; when to look again. */
static int64_t run_due(void)
{
	int64_t now = kp_now_ns();
	int64_t next = now + 50 * KP_NS_PER_MS;
	kp_list_each_safe (node, &waiting) {
		struct call *c = KP_CONTAINER(node, struct call, waiting);
		if (c->due_ns <= now) {
			kp_list_del(node);
			go_on(c);
		} else {
			next = KP_MIN(next, c->due_ns);
		}
	}
	return next - now;
}

static void serve(void)
{
	bool is_stopping = false, is_stopped = false;
	static struct tag stopped;
	for (;;) {
		gpr_timespec soon = gpr_time_add(
			gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_nanos(run_due(), GPR_TIMESPAN));
		grpc_event e = grpc_completion_queue_next(cq, soon, NULL);
		if (e.type == GRPC_OP_COMPLETE && e.tag == &stopped) {
			is_stopped = true;
		} else if (e.type == GRPC_OP_COMPLETE) {
			on_event(e.tag, e.success != 0);
		} else if (e.type == GRPC_QUEUE_SHUTDOWN) {
			return;
		}
		if (is_stopped && n_active == 0) {
			/* Core counts a call that was cancelled as over; here it may still wait. */
			is_stopped = false;
			grpc_completion_queue_shutdown(cq);
		}
		if (stopping && !is_stopping) {
			is_stopping = true; /* GOAWAY; open calls may end */
			grpc_server_shutdown_and_notify(server, cq, &stopped);
		}
	}
}

int main(int argc, char **argv)
{
	grpc_arg args[8];
	size_t n_args = 0;
	const char *address = "127.0.0.1:0";
	args[n_args++] = (grpc_arg){ .type = GRPC_ARG_INTEGER,
		.key = kp_unconst(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH),
		.value.integer = REQUEST_MAX };
	args[n_args++] = (grpc_arg){ .type = GRPC_ARG_INTEGER,
		.key = kp_unconst(GRPC_ARG_ALLOW_REUSEPORT),
		.value.integer = 0 };
	for (int i = 1; i < argc; i++) {
		kp_str a = kp_str_c(argv[i]);
		uint64_t v;
		if (kp_str_starts(a, KP_S("listen="))) {
			address = argv[i] + 7;
		} else if (kp_str_starts(a, KP_S("max_streams=")) &&
			   kp_str_u64(kp_str_skip(a, 12), INT32_MAX, &v)) {
			args[n_args++] = (grpc_arg){ .type = GRPC_ARG_INTEGER,
				.key = kp_unconst(GRPC_ARG_MAX_CONCURRENT_STREAMS),
				.value.integer = (int)v };
		} else if (kp_str_eq(a, KP_S("gzip=1"))) {
			gzip = true;
		} else {
			fprintf(stderr, "grpc_server_c: bad option `%s`\n", argv[i]);
			return 2;
		}
	}
	signal(SIGTERM, on_signal);
	kp_list_init(&waiting);
	grpc_init();
	const grpc_channel_args channel_args = { n_args, args };
	server = grpc_server_create(&channel_args, NULL);
	cq = grpc_completion_queue_create_for_next(NULL);
	grpc_server_register_completion_queue(server, cq, NULL);
	grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
	int port = grpc_server_add_http2_port(server, address, creds);
	grpc_server_credentials_release(creds);
	if (!port) {
		fprintf(stderr, "grpc_server_c: cannot listen on `%s`\n", address);
		return 1;
	}
	grpc_server_start(server);
	next_call();
	printf("{\"event\": \"listening\", \"port\": %d}\n", port);
	fflush(stdout);
	serve();
	grpc_server_destroy(server);
	grpc_completion_queue_destroy(cq);
	grpc_shutdown_blocking();
	return 0;
}
