/* Whatever a server sends, the events do not depend on how its bytes are cut: random transcripts (valid and broken ones), fed whole, byte by byte and at
   random cuts, must give every call the same messages, end, status and trailers, and make the client send the same frames (but for the sizes of its
   window updates). */
#include "tests/unit/net/grpc_session_calls.h"
#include "tests/test.h"

enum { CALLS = 4, ROUNDS = 400, FRAMES = 24 };

/* --- a random transcript --- */

struct script {
	struct kp_rng rng;
	struct h2_peer p;
	struct kp_buf pending[CALLS]; /* framed messages of a call, not sent yet */
	size_t sent[CALLS];
	bool has_head[CALLS], is_done[CALLS];
};

static uint64_t pick(struct script *s, uint64_t n)
{
	return kp_rng_below(&s->rng, n);
}

static void queue_message(struct script *s, int call)
{
	static const size_t sizes[] = { 0, 1, 2, 5, 9, 30, 300, 5000, 40000 };
	size_t n = sizes[pick(s, KP_LEN(sizes))];
	KP_AUTO(buf) struct kp_buf m;
	kp_buf_init(&m, SIZE_MAX);
	for (size_t i = 0; i < n; i++) {
		kp_buf_addc(&m, (char)('a' + pick(s, 26)));
	}
	h2_message(&s->pending[call], kp_buf_str(&m));
	if (pick(s, 60) == 0) {
		kp_buf_lit(&s->pending[call], "\1\0\0\0\1!"); /* compressed */
	}
	if (pick(s, 60) == 0) {
		kp_buf_lit(&s->pending[call], "\0\1\xff\xff\xff"); /* over the limit */
	}
}

static void send_data(struct script *s, int call, size_t n)
{
	kp_str part = kp_str_sub(kp_buf_str(&s->pending[call]), 0, n);
	/* Within the first window: when more credit comes does depend on the cuts. */
	if (s->sent[call] + part.n > TEST_WINDOW - 1) {
		kp_buf_reset(&s->pending[call]);
		return;
	}
	s->sent[call] += part.n;
	h2_data(&s->p, 2 * call + 1, false, part);
	kp_buf_consume(&s->pending[call], part.n);
}

static void head(struct script *s, int call)
{
	int32_t id = 2 * call + 1;
	switch (pick(s, 12)) {
	case 0:
		H2_HEADERS(&s->p, id, false, ":status", "103", "x", "y");
		H2_HEAD(&s->p, id);
		break;
	case 1:
		H2_HEADERS(&s->p, id, false, ":status", "502");
		break;
	case 2:
		H2_HEADERS(&s->p, id, false, ":status", "200", "content-type", "text/html");
		break;
	case 3:
		H2_HEADERS(&s->p, id, false, "content-type", "application/grpc");
		break;
	default:
		H2_HEAD(&s->p, id);
	}
	s->has_head[call] = true;
}

static void tail(struct script *s, int call)
{
	int32_t id = 2 * call + 1;
	static const char *const codes[] = { "0", "0", "0", "5", "13", "99", "" };
	const char *code = codes[pick(s, KP_LEN(codes))];
	switch (pick(s, 8)) {
	case 0:
		h2_data(&s->p, id, true, KP_S(""));
		break;
	case 1:
		h2_rst(&s->p, id, (uint32_t)pick(s, 15));
		break;
	case 2:
		H2_HEADERS(&s->p, id, true, "x-only", "no status");
		break;
	case 3:
		H2_HEADERS(&s->p, id, true, "grpc-message", "first%20%C3%A9", "grpc-status", code,
			"x-b-bin", "AAEC");
		break;
	default:
		H2_HEADERS(&s->p, id, true, "grpc-status", code, "grpc-message", "text", "x-load",
			"1");
	}
	s->is_done[call] = true;
}

static void something(struct script *s)
{
	int call = (int)pick(s, CALLS);
	if (s->is_done[call]) {
		return;
	}
	if (!s->has_head[call]) {
		head(s, call);
		return;
	}
	uint64_t what = pick(s, 40);
	if (what < 15) {
		queue_message(s, call);
	} else if (what < 33) {
		size_t all = s->pending[call].n;
		send_data(s, call,
			pick(s, 2) ? KP_MIN(all, (size_t)16384)
				   : (size_t)pick(s, KP_MIN(all, (size_t)16384) + 1));
	} else if (what < 35) {
		h2_frame(&s->p, NGHTTP2_PING, 0, 0, KP_S("01234567"));
	} else if (what == 35) {
		h2_settings(&s->p, (uint32_t)pick(s, 5));
	} else if (what < 39) {
		while (s->pending[call].n) {
			send_data(s, call, 16384);
		}
		tail(s, call);
	} else {
		switch (pick(s, 6)) {
		case 0:
			h2_goaway(&s->p, (int32_t)(2 * pick(s, CALLS) + 1), (uint32_t)pick(s, 14),
				KP_S("why"));
			break;
		case 1:
			kp_buf_lit(&s->p.out, "\xff\xff\xff garbage");
			break;
		default:
			tail(s, call); /* in the middle of a message, perhaps */
		}
	}
}

/* --- a run --- */

struct plan { /* what the callbacks do */
	int hold_at[CALLS], reset_at[CALLS], kill_at;
};

struct outcome {
	struct kp_buf text;
};

/* The frames that the client sent, without its window updates. */
static void add_sent(struct outcome *o, kp_str log)
{
	kp_str line;
	while (kp_str_split(&log, '\n', &line)) {
		if (line.n && !kp_str_starts(line, KP_S("window"))) {
			kp_buf_add(&o->text, line);
			kp_buf_addc(&o->text, '\n');
		}
	}
}

static void run(kp_str bytes, const struct plan *plan, struct kp_rng *cuts, size_t max_piece,
	struct outcome *o)
{
	struct kp_grpc_session *s = test_session();
	struct test_call c[CALLS];
	struct h2_peer p;
	struct kp_err err = KP_ERR_INIT;
	h2_peer_init(&p);
	h2_settings(&p, 0);
	test_send(s, &p);
	test_recv(s, &p);
	for (int i = 0; i < CALLS; i++) {
		test_call_init(&c[i], KP_S("q"));
		c[i].hold_at = plan->hold_at[i];
		c[i].reset_at = plan->reset_at[i];
		c[i].kill_at = plan->kill_at;
		c[i].kill = s;
		test_call_open(s, &c[i]);
	}
	test_send(s, &p);
	kp_buf_reset(&p.log);
	int rc = 0;
	while (bytes.n && rc == 0) {
		size_t n = max_piece == SIZE_MAX
				   ? bytes.n
				   : 1 + kp_rng_below(cuts, KP_MIN(max_piece, bytes.n));
		char *copy = kp_xmalloc(n);
		memcpy(copy, bytes.p, n);
		rc = kp_grpc_session_recv(s, kp_str_n(copy, n), &err);
		kp_mem_free(copy);
		bytes = kp_str_skip(bytes, n);
	}
	kp_buf_printf(&o->text, "recv %d %s\n", rc, rc ? err.msg : "");
	const struct kp_grpc_session_info *info = kp_grpc_session_info(s);
	if (rc == 0) {
		test_send(s, &p);
		kp_buf_printf(&o->text, "retired %d over %d streams %zu\n", info->is_retired,
			info->is_over, info->n_streams);
	}
	/* A session that is over (GOAWAY and no call left) reads the rest of the piece it is in, and no other: nobody is there to notice. */
	if (rc == 0 && !info->is_over) {
		kp_buf_printf(&o->text, "open %zu max %zu\n", info->n_open, info->max_open);
		add_sent(o, kp_buf_str(&p.log));
	}
	for (int i = 0; i < CALLS; i++) {
		kp_buf_printf(&o->text, "%d: ", i);
		kp_buf_add(&o->text, kp_buf_str(&c[i].log));
		/* Not after a kill: those calls are dead. */
		while (rc == 0 && c[i].st.ops && c[i].st.in.is_held && !c[i].n_ends &&
			kp_grpc_deframer_left(&c[i].st.in)) {
			int before = c[i].n_messages;
			kp_grpc_stream_release(&c[i].st);
			if (c[i].n_messages == before) {
				break;
			}
		}
		kp_buf_lit(&o->text, "\n   then: ");
		kp_buf_add(&o->text, kp_buf_str(&c[i].log));
		kp_buf_addc(&o->text, '\n');
		test_call_fini(&c[i]);
	}
	KP_BUG_ON(!kp_buf_ok(&o->text));
	kp_grpc_session_destroy(s);
	h2_peer_fini(&p);
}

static void cuts_change_nothing(void **state)
{
	(void)state;
	uint64_t seed = test_seed();
	size_t n_bytes = 0;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct script s = { .has_head = { false } };
		struct plan plan = { .kill_at = 0 };
		kp_rng_seed(&s.rng, seed + round);
		h2_peer_init(&s.p);
		for (int i = 0; i < CALLS; i++) {
			kp_buf_init(&s.pending[i], SIZE_MAX);
			plan.hold_at[i] = pick(&s, 4) ? 0 : 1 + (int)pick(&s, 4);
			plan.reset_at[i] = pick(&s, 6) ? 0 : 1 + (int)pick(&s, 4);
		}
		plan.kill_at = pick(&s, 10) ? 0 : 1 + (int)pick(&s, 6);
		uint64_t frames = 1 + pick(&s, FRAMES * 8);
		for (uint64_t i = 0; i < frames; i++) {
			something(&s);
		}
		static const size_t pieces[] = { SIZE_MAX, 1, 7, 100, 20000 };
		struct outcome first;
		for (size_t i = 0; i < KP_LEN(pieces); i++) {
			struct outcome o;
			struct kp_rng cuts;
			kp_rng_seed(&cuts, seed + i);
			kp_buf_init(&o.text, SIZE_MAX);
			run(kp_buf_str(&s.p.out), &plan, &cuts, pieces[i], &o);
			if (i == 0) {
				first = o;
				continue;
			}
			if (!kp_str_eq(kp_buf_str(&first.text), kp_buf_str(&o.text))) {
				print_message("# round %llu, pieces of %zu\n",
					(unsigned long long)round, pieces[i]);
			}
			assert_str(kp_buf_str(&o.text), kp_buf_str(&first.text));
			kp_buf_fini(&o.text);
		}
		kp_buf_fini(&first.text);
		n_bytes += s.p.out.n;
		for (int i = 0; i < CALLS; i++) {
			kp_buf_fini(&s.pending[i]);
		}
		h2_peer_fini(&s.p);
	}
	print_message("# %d transcripts, %zu bytes\n", ROUNDS, n_bytes);
	assert_true(n_bytes > 100000);
}

/* --- the deframer alone --- */

struct holding {
	struct kp_grpc_deframer d;
	struct kp_buf got;
	struct kp_rng *rng;
};

static bool keep_message(void *user, kp_str m)
{
	struct holding *h = user;
	h2_message(&h->got, m);
	if (kp_rng_below(h->rng, 5) == 0) {
		kp_grpc_deframer_hold(&h->d);
	}
	return true;
}

static void holds_lose_nothing(void **state)
{
	(void)state;
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	for (int round = 0; round < 2000; round++) {
		struct holding h = { .rng = &rng };
		struct kp_err err;
		KP_AUTO(buf) struct kp_buf all;
		kp_buf_init(&all, SIZE_MAX);
		kp_buf_init(&h.got, SIZE_MAX);
		kp_grpc_deframer_init(&h.d, 1000, SIZE_MAX / 2);
		for (uint64_t i = kp_rng_below(&rng, 30); i > 0; i--) {
			char m[1000];
			memset(m, 'm', sizeof(m));
			h2_message(
				&all, kp_str_n(m, kp_rng_below(&rng, 2) ? kp_rng_below(&rng, 1001)
									: kp_rng_below(&rng, 4)));
		}
		kp_str rest = kp_buf_str(&all);
		while (rest.n || h.d.is_held) {
			kp_str part = kp_str_sub(rest, 0, 1 + kp_rng_below(&rng, 700));
			rest = kp_str_skip(rest, part.n);
			assert_int_equal(
				kp_grpc_deframer_feed(&h.d, part, keep_message, &h, &err), 0);
			if (h.d.is_held && kp_rng_below(&rng, 2)) {
				assert_int_equal(
					kp_grpc_deframer_release(&h.d, keep_message, &h, &err), 0);
			}
		}
		assert_int_equal(kp_grpc_deframer_left(&h.d), 0);
		assert_true(kp_str_eq(kp_buf_str(&h.got), kp_buf_str(&all)));
		kp_grpc_deframer_fini(&h.d);
		kp_buf_fini(&h.got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_change_nothing),
		cmocka_unit_test(holds_lose_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
