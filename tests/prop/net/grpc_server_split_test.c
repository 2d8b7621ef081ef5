/* However the bytes of a gRPC client are cut, and whenever the loop gets a turn in between, the handler sees the same calls and each call gets the same answer: the status that
   the generator knows it must get, and the same bytes before it. */
#include "tests/test.h"
#include "tests/unit/net/grpc_memory.h"
#include "tests/unit/net/h2_take.h"

static struct kp_rng rng;

static uint64_t below(uint64_t n)
{
	return kp_rng_below(&rng, n);
}

enum { MAX_CALLS = 8, MAX_MESSAGE = 2000 };

struct plan {
	struct h2_peer p; /* out: what the client sends */
	unsigned n_calls;
	int want[MAX_CALLS]; /* grpc-status; -1: no answer at all */
};

/* ---- the client ---- */

static void bytes(struct kp_buf *b, size_t n)
{
	for (; n > 0; n--) {
		kp_buf_addc(b, (char)kp_rng_next(&rng));
	}
}

/* A body and the status it must get. */
static int make_body(struct kp_buf *b)
{
	size_t n = below(4) ? below(100) : below(MAX_MESSAGE + 1);
	KP_AUTO(buf) struct kp_buf m;
	kp_buf_init(&m, 1 << 20);
	if (n > 0) {
		kp_buf_addc(&m, "nla"[below(3)]); /* what the handler does */
		bytes(&m, n - 1);
	}
	int status = n > 0 && m.p[0] == 'n' ? KP_NOT_FOUND : KP_OK;
	size_t from = b->n;
	h2_message(b, kp_buf_str(&m));
	switch (below(12)) {
	case 0: /* cut short, or not there */
		b->n = from + below(b->n - from);
		return b->n == from ? KP_UNIMPLEMENTED : KP_INTERNAL;
	case 1:
		bytes(b, 1 + below(100));
		return KP_UNIMPLEMENTED;
	case 2:
		b->p[from] = (char)(1 + below(255));
		return KP_INTERNAL;
	case 3:
		b->p[from + 1 + below(2)] = (char)(1 + below(255)); /* 64 KiB at least */
		return KP_RESOURCE_EXHAUSTED;
	default:
		return status;
	}
}

static void send_body(struct h2_peer *p, int32_t id, kp_str body)
{
	do {
		size_t n = below(3) ? body.n : below(KP_MIN(body.n, (size_t)400) + 1);
		n = KP_MIN(n, (size_t)1000);
		kp_str piece = kp_str_sub(body, 0, n);
		body = kp_str_skip(body, n);
		bool last = body.n == 0 && below(2);
		h2_data(p, id, last, piece);
		if (body.n == 0 && !last) {
			h2_data(p, id, true, KP_STR_NULL);
		}
		if (below(6) == 0) {
			h2_frame(p, NGHTTP2_PING, 0, 0, KP_S("pingping"));
		}
	} while (body.n > 0);
}

static void add_call(struct plan *plan)
{
	int32_t id = (int32_t)(2 * plan->n_calls + 1);
	int *want = &plan->want[plan->n_calls++];
	KP_AUTO(buf) struct kp_buf body;
	kp_buf_init(&body, 1 << 20);
	static const struct {
		const char *name, *value;
		int status;
	} extra[] = { { "x-y", "z", 0 }, { "grpc-timeout", "1H", 0 },
		{ "grpc-encoding", "identity", 0 }, { "grpc-timeout", "1", KP_INTERNAL },
		{ "grpc-encoding", "gzip", KP_UNIMPLEMENTED } };
	size_t k = below(2) ? 0 : below(KP_LEN(extra));
	H2_HEADERS(&plan->p, id, false, ":method", "POST", ":scheme", "http", ":path", "/a.B/C",
		":authority", "x", "te", "trailers", "content-type", "application/grpc",
		extra[k].name, extra[k].value);
	*want = make_body(&body);
	if (extra[k].status) {
		*want = extra[k].status;
	} else if (*want == KP_OK && below(8) == 0) {
		/* The client gives up in the middle of the request. */
		h2_data(&plan->p, id, false, kp_str_sub(kp_buf_str(&body), 0, below(body.n)));
		h2_rst(&plan->p, id, NGHTTP2_CANCEL);
		*want = -1;
		return;
	}
	send_body(&plan->p, id, kp_buf_str(&body));
}

static void make_plan(struct plan *plan)
{
	*plan = (struct plan){ .n_calls = 0 };
	h2_peer_init(&plan->p);
	kp_buf_lit(&plan->p.out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	h2_settings(&plan->p, 0);
	for (size_t n = 1 + below(MAX_CALLS); n > 0; n--) {
		add_call(plan);
	}
}

/* ---- runs ---- */

static void open_server(struct grpc_memory *m)
{
	grpc_memory_open(m, &(struct kp_grpc_server_limits){ .max_message_bytes = MAX_MESSAGE });
	m->is_kept = true;
}

/* The end of a run: what the client got, frame by frame. */
static void close_server(struct grpc_memory *m, struct h2_peer *got)
{
	grpc_memory_spin(m);
	assert_true(grpc_memory_alive(m));
	h2_peer_init(got);
	got->has_preface = true;
	h2_take(got, kp_buf_str(&m->sent));
	grpc_memory_eof(m);
}

/* The lines of call after call: how those of different calls mix may depend on when the loop had a turn. */
static void by_call(kp_str log, unsigned n_calls, bool of_handler, struct kp_buf *out)
{
	for (unsigned i = 0; i < n_calls; i++) {
		char head[2][32];
		snprintf(head[0], sizeof(head[0]), of_handler ? "%u " : "headers %u ",
			of_handler ? i + 1 : 2 * i + 1);
		snprintf(head[1], sizeof(head[1]), "headers %u:", 2 * i + 1);
		kp_str rest = log, line;
		while (kp_str_split(&rest, '\n', &line)) {
			if (kp_str_starts(line, kp_str_c(head[0])) ||
				kp_str_starts(line, kp_str_c(head[1]))) {
				kp_buf_printf(out, "%" KP_FMT "\n", KP_ARG(line));
			}
		}
	}
}

static void check_statuses(const struct plan *plan, const struct h2_peer *got)
{
	for (unsigned i = 0; i < plan->n_calls; i++) {
		char start[32], want[32];
		int n = snprintf(start, sizeof(start), "headers %u end:", 2 * i + 1), seen = 0;
		snprintf(want, sizeof(want), " grpc-status=%d", plan->want[i]);
		kp_str rest = kp_buf_str(&got->log), line;
		while (kp_str_split(&rest, '\n', &line)) {
			if (kp_str_starts(line, kp_str_n(start, (size_t)n))) {
				seen++;
				if (!kp_str_has(line, kp_str_c(want))) {
					fail_msg("call %u: `%" KP_FMT "`, not%s", i, KP_ARG(line),
						want);
				}
			}
		}
		assert_int_equal(seen, plan->want[i] >= 0);
	}
}

static void compare(const struct plan *plan, const struct grpc_memory *a,
	const struct h2_peer *got_a, const struct grpc_memory *b, const struct h2_peer *got_b)
{
	for (int of_handler = 0; of_handler < 2; of_handler++) {
		KP_AUTO(buf) struct kp_buf x, y;
		kp_buf_init(&x, 1 << 20);
		kp_buf_init(&y, 1 << 20);
		by_call(kp_buf_str(of_handler ? &a->log : &got_a->log), plan->n_calls, of_handler,
			&x);
		by_call(kp_buf_str(of_handler ? &b->log : &got_b->log), plan->n_calls, of_handler,
			&y);
		if (!kp_str_eq(kp_buf_str(&x), kp_buf_str(&y))) {
			fail_msg("the cuts made a difference:\n%s---\n%s", kp_buf_cstr(&x),
				kp_buf_cstr(&y));
		}
	}
	assert_int_equal(got_a->body.n, got_b->body.n);
}

static void play(struct grpc_memory *m, kp_str in, bool whole, bool single)
{
	open_server(m);
	while (in.n > 0) {
		size_t n = whole    ? in.n
			   : single ? 1
				    : 1 + below(KP_MIN(in.n, below(2) ? (size_t)40 : in.n));
		assert_true(grpc_memory_feed(m, kp_str_sub(in, 0, n)));
		in = kp_str_skip(in, n);
		if (single || below(3) == 0) {
			grpc_memory_spin(m);
		}
	}
}

static void test_random(void **state)
{
	(void)state;
	kp_rng_seed(&rng, test_seed());
	unsigned n_calls = 0;
	for (int round = 0; round < 300; round++) {
		struct plan plan;
		struct grpc_memory whole, other;
		struct h2_peer got, got_other;
		make_plan(&plan);
		play(&whole, kp_buf_str(&plan.p.out), true, false);
		close_server(&whole, &got);
		check_statuses(&plan, &got);
		play(&other, kp_buf_str(&plan.p.out), false, round % 10 == 0);
		close_server(&other, &got_other);
		compare(&plan, &whole, &got, &other, &got_other);
		n_calls += whole.n_calls;
		h2_peer_fini(&got);
		h2_peer_fini(&got_other);
		h2_peer_fini(&plan.p);
		grpc_memory_close(&whole);
		grpc_memory_close(&other);
	}
	assert_true(n_calls > 300);
}

/* One cut, at every place of a client's bytes. */
static void test_every_place(void **state)
{
	(void)state;
	kp_rng_seed(&rng, test_seed());
	struct plan plan;
	do {
		make_plan(&plan);
	} while ((plan.p.out.n > 1200 || plan.n_calls < 4) && (h2_peer_fini(&plan.p), true));
	kp_str in = kp_buf_str(&plan.p.out);
	struct grpc_memory whole;
	struct h2_peer got;
	play(&whole, in, true, false);
	close_server(&whole, &got);
	check_statuses(&plan, &got);
	for (size_t at = 1; at < in.n; at++) {
		struct grpc_memory cut;
		struct h2_peer got_cut;
		open_server(&cut);
		assert_true(grpc_memory_feed(&cut, kp_str_sub(in, 0, at)));
		grpc_memory_spin(&cut);
		assert_true(grpc_memory_feed(&cut, kp_str_skip(in, at)));
		close_server(&cut, &got_cut);
		compare(&plan, &whole, &got, &cut, &got_cut);
		h2_peer_fini(&got_cut);
		grpc_memory_close(&cut);
	}
	h2_peer_fini(&got);
	h2_peer_fini(&plan.p);
	grpc_memory_close(&whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_every_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
