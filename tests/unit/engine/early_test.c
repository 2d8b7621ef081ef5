/* An engine that answers before it has the whole request: what it answers is not believed, and pixels that the caller then frees are not read. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/peer.h"
#include "engine/sglang.h"
#include "engine/vllm.h"
#include "tests/test.h"
#include "tests/unit/net/grpc_channel_server.h"

enum { ROWS = 200, ROW = 300, WINDOW = 65535 };

struct fixture {
	struct kp_loop *loop;
	struct server srv;
	struct kp_timer tick;
	int64_t give_up_ns;
	float *pixels;
	bool has_answered;
	int n_deltas, n_ends;
	struct kp_err status;
};

static void on_delta(void *user, const struct kp_engine_delta *d)
{
	(void)d;
	((struct fixture *)user)->n_deltas++;
}

static void on_call_end(void *user, const struct kp_err *status, bool retryable)
{
	struct fixture *f = user;
	(void)retryable;
	f->n_ends++;
	f->status = *status;
	kp_free(&f->pixels);
}

static const struct kp_engine_sink sink = { on_delta, on_call_end };

/* Answers when the window is full; ends a moment after the call. */
static void on_tick(struct kp_timer *t)
{
	struct fixture *f = KP_CONTAINER(t, struct fixture, tick);
	struct side *s = &f->srv.sides[0];
	if (!f->has_answered && s->conn && s->p.body.n >= WINDOW) {
		f->has_answered = true;
		H2_HEAD(&s->p, 1);
		h2_send(&s->p, 1, KP_S(""));
		flush_side(s);
	} else if (f->n_ends == 1 && s->conn) {
		f->n_ends++;
		h2_window(&s->p, 1, 1 << 20); /* there is nothing any more that would go */
		flush_side(s);
	} else if (f->n_ends > 1 || kp_now_ns() > f->give_up_ns) {
		kp_loop_stop(f->loop);
		return;
	}
	kp_timer_start(f->loop, t, kp_loop_now(f->loop) + 20 * KP_NS_PER_MS, on_tick);
}

static void ask(struct fixture *f, struct kp_engine *e)
{
	static const kp_id ids[] = { 7, 7 };
	static const struct kp_media_span span = { 0, 2 };
	static const int64_t grid[] = { 1, 1, ROWS }, patches[] = { ROWS };
	const kp_str hash =
		KP_S("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
	const struct kp_sampling sampling = { .n = 1 };
	f->pixels = kp_xcalloc(ROWS * ROW, sizeof(float));
	const struct kp_media_tensors media = { .n = 1,
		.spans = &span,
		.hashes = &hash,
		.token = 7,
		.pixels = { KP_TENSOR_F32, { ROWS, ROW }, 2,
			kp_str_n(f->pixels, ROWS * ROW * sizeof(float)) },
		.grid = { KP_TENSOR_I64, { 1, 3 }, 2, kp_str_n(grid, sizeof(grid)) },
		.patches = { KP_TENSOR_I64, { 1 }, 1, kp_str_n(patches, sizeof(patches)) } };
	const struct kp_engine_request r = { .request_id = KP_S("a"),
		.ids = ids,
		.n_ids = KP_LEN(ids),
		.sampling = &sampling,
		.media = &media,
		.stream = true };
	f->give_up_ns = kp_now_ns() + 5 * KP_NS_PER_S;
	e->ops->start(e, &r, &sink, f);
	kp_timer_start(f->loop, &f->tick, kp_now_ns(), on_tick);
	kp_loop_run(f->loop);
	e->ops->destroy(e);
	assert_int_equal(f->n_deltas, 0);
	assert_int_equal(f->n_ends, 2);
	assert_int_equal(f->status.code, KP_INTERNAL);
	if (!strstr(f->status.msg, "answered before it had the request")) {
		fail_msg("%s", f->status.msg);
	}
	assert_in_range(
		f->srv.sides[0].p.body.n, WINDOW, WINDOW + 100); /* SGLang is told to abort */
}

static int setup(void **state)
{
	struct fixture *f = kp_new(struct fixture);
	f->loop = kp_loop_create("test");
	server_open(&f->srv, f->loop);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	server_close(&f->srv);
	kp_loop_destroy(f->loop);
	kp_mem_free(f);
	return 0;
}

static void test_vllm(void **state)
{
	struct fixture *f = *state;
	ask(f, kp_engine_vllm_create(f->loop, f->srv.address, NULL));
}

static void test_sglang(void **state)
{
	struct fixture *f = *state;
	ask(f, kp_engine_sglang_create(f->loop, f->srv.address, NULL));
}

static void test_another_gateway(void **state)
{
	struct fixture *f = *state;
	const struct kp_engine_peer_opts o = {
		.peer = f->srv.address, .id = "g", .engine = "default/e", .address = "127.0.0.1:1"
	};
	ask(f, kp_engine_peer_create(f->loop, &o));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_vllm, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sglang, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_gateway, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
