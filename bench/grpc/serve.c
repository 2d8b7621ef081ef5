/* The service of bench/grpc on lib/net's server, one loop; server/main.go is the same on grpc-go. Prints its address, ends when its standard input ends. */
#include "base/clock.h"
#include "base/mem.h"
#include "net/grpc_server.h"

#include <stdio.h>
#include <unistd.h>
#include <uv.h>

struct run {
	struct kp_grpc_serving *call;
	uint64_t count, size, gap_us, tick_us;
	struct kp_timer timer;
	struct kp_list link; /* among those that wait for the next tick */
};

static struct kp_loop *loop;
static struct kp_grpc_server *server;
static struct kp_list waiting;
static struct kp_timer tick;
static char reply[64 << 10];
static const struct kp_err fine = { .code = KP_OK };

static void one(struct run *r)
{
	kp_grpc_serving_send(r->call, kp_str_n(reply, r->size));
	if (--r->count == 0) {
		kp_grpc_serving_end(r->call, &fine, NULL, 0);
	}
}

static void on_tick(struct kp_timer *t);

static void wait_for_tick(struct run *r)
{
	kp_list_push(&waiting, &r->link);
	if (!tick.heap_index) {
		kp_timer_start(loop, &tick, kp_loop_now(loop) + (int64_t)r->tick_us * KP_NS_PER_US,
			on_tick);
	}
}

static void on_tick(struct kp_timer *t)
{
	struct kp_list all, *node;
	(void)t;
	kp_list_take(&all, &waiting);
	while ((node = kp_list_pop(&all))) {
		struct run *r = KP_CONTAINER(node, struct run, link);
		one(r);
		if (r->count > 0) {
			wait_for_tick(r);
		}
	}
}

static void on_gap(struct kp_timer *t)
{
	struct run *r = KP_CONTAINER(t, struct run, timer);
	one(r);
	if (r->count > 0) {
		kp_timer_start(
			loop, t, kp_loop_now(loop) + (int64_t)r->gap_us * KP_NS_PER_US, on_gap);
	}
}

static void on_writable(void *user)
{
	struct run *r = user;
	while (r->count > 0 && kp_grpc_serving_queued(r->call) < (256 << 10)) {
		one(r);
	}
}

static void on_closed(void *user, enum kp_stream_end why)
{
	struct run *r = user;
	(void)why;
	kp_timer_stop(loop, &r->timer);
	kp_list_del(&r->link);
	kp_mem_free(r);
}

static void read_word(struct run *r, kp_str word)
{
	const struct {
		kp_str name;
		uint64_t *value;
	} known[] = { { KP_S("count="), &r->count }, { KP_S("size="), &r->size },
		{ KP_S("tick_us="), &r->tick_us }, { KP_S("gap_us="), &r->gap_us } };
	for (size_t i = 0; i < KP_LEN(known); i++) {
		if (kp_str_starts(word, known[i].name)) {
			(void)kp_str_u64(
				kp_str_skip(word, known[i].name.n), 1 << 30, known[i].value);
		}
	}
}

static void on_request(void *ctx, struct kp_grpc_serving *c, const struct kp_grpc_request *request)
{
	static const struct kp_grpc_serving_ops streaming = { .closed = on_closed };
	static const struct kp_grpc_serving_ops flowing = { .writable = on_writable,
		.closed = on_closed };
	struct run *r = kp_new(struct run);
	kp_str rest = request->message, word;
	(void)ctx;
	r->call = c;
	while (kp_str_split(&rest, ' ', &word)) {
		read_word(r, word);
	}
	r->size = KP_MIN(r->size, sizeof(reply));
	bool paced = r->tick_us > 0 || r->gap_us > 0;
	kp_grpc_serving_accept(c, paced ? &streaming : &flowing, r);
	if (r->count == 0) {
		kp_grpc_serving_end(c, &fine, NULL, 0);
	} else if (r->tick_us > 0) {
		wait_for_tick(r);
	} else if (r->gap_us > 0) {
		on_gap(&r->timer);
	} else {
		on_writable(r);
	}
}

static void on_gone(void *arg)
{
	(void)arg;
	kp_loop_stop(loop);
}

/* The parent closes our input when it is done. */
static void on_input(uv_poll_t *poll, int status, int events)
{
	char byte;
	(void)status, (void)events;
	if (read(STDIN_FILENO, &byte, 1) <= 0) {
		uv_close((uv_handle_t *)poll, NULL);
		kp_grpc_server_destroy(kp_steal(server), on_gone, NULL);
	}
}

int main(void)
{
	struct kp_err err;
	uint16_t port;
	uv_poll_t input;
	for (size_t i = 0; i < sizeof(reply); i++) {
		reply[i] = (char)(i + 1);
	}
	loop = kp_loop_create("bench");
	kp_list_init(&waiting);
	server = kp_grpc_server_create(
		loop, NULL, NULL, &(struct kp_grpc_handler){ .request = on_request });
	if (kp_grpc_server_listen(server, "127.0.0.1:0", &port, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	printf("127.0.0.1:%u\n", (unsigned)port);
	fflush(stdout);
	uv_poll_init(kp_loop_uv(loop), &input, STDIN_FILENO);
	uv_poll_start(&input, UV_READABLE | UV_DISCONNECT, on_input);
	kp_loop_run(loop);
	kp_timer_stop(loop, &tick);
	kp_loop_destroy(loop);
	return 0;
}
