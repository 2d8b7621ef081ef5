/* The hand-written codec against protobuf-c, on random messages, for one protocol: the test that includes
   this has said what PB(Name), PB_FN(name) and PROTOCOL are, and defines can_say and check_request.

   Decoding: random GenerateResponses are written field by field in every legal shape (packed, unpacked and
   cut into pieces, fields in any order and more than once, unknown fields of every type in between) and must
   read as protobuf-c reads them. Mutated bytes: whatever the hand decoder accepts, protobuf-c accepts too
   and reads the same. Encoding: what we write, protobuf-c reads back field by field. */
#ifndef TESTS_PROP_ENGINE_CODEC_H
#define TESTS_PROP_ENGINE_CODEC_H

#include "engine/protocol.h"
#include "base/mem.h"
#include "wire/check.h"
#include "wire/wire.h"
#include "tests/test.h"

/* Whether the protocol can say it; else encoding fails with INVALID_ARGUMENT. */
static bool can_say(const struct kp_sampling *s);
/* Everything of the request but its id, its text and its ids. */
static void check_request(const PB(GenerateRequest) * m, const struct kp_engine_request *r);

static struct kp_rng rng;
static uint32_t below(uint32_t n)
{
	return (uint32_t)kp_rng_below(&rng, n);
}
/* Ids and counts of every varint length. */
static uint32_t any_u32(void)
{
	return (uint32_t)kp_rng_next(&rng) >> below(32);
}
static float any_float(void)
{
	return below(20) == 0 ? -1.0f / 0.0f : -(float)below(1000000) / 4096.0f;
}

static void random_ids(uint32_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		v[i] = any_u32();
	}
}

static bool same_float(float a, float b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

/* --- writing a random response
 * ------------------------------------------------------------------------------------- */

static void add_unknown(struct kp_buf *b)
{
	uint32_t number = 100 + below(1900);
	switch (below(4)) {
	case 0:
		kp_wire_add_u64(b, number, kp_rng_next(&rng) >> below(64));
		break;
	case 1:
		kp_wire_add_float(b, number, 1.5f);
		break;
	case 2:
		kp_wire_add_key(b, number, KP_WIRE_64);
		kp_buf_lit(b, "12345678");
		break;
	default:
		kp_wire_add_str(
			b, number, kp_str_sub(KP_S("\x08\xff\xff some bytes"), 0, below(14)));
		break;
	}
}
static void maybe_unknown(struct kp_buf *b)
{
	if (below(4) == 0) {
		add_unknown(b);
	}
}

/* One list written as one or several fields. `type`: of the elements. */
static void add_list(
	struct kp_buf *b, uint32_t number, enum kp_wire_type type, const uint32_t *v, size_t n)
{
	size_t i = 0;
	while (i < n) {
		if (below(3) == 0) {
			if (type == KP_WIRE_32) {
				kp_wire_add_float(b, number, kp_wire_float(v[i++]));
			} else {
				kp_wire_add_u64(b, number, v[i++]);
			}
		} else {
			size_t piece = 1 + below((uint32_t)(n - i)), at = kp_wire_begin(b, number);
			for (; piece; piece--, i++) {
				if (type == KP_WIRE_32) {
					uint8_t le[4] = { (uint8_t)v[i], (uint8_t)(v[i] >> 8),
						(uint8_t)(v[i] >> 16), (uint8_t)(v[i] >> 24) };
					kp_buf_add(b, kp_str_n(le, 4));
				} else {
					kp_wire_add_varint(b, v[i]);
				}
			}
			kp_wire_end(b, at);
		}
		maybe_unknown(b);
	}
}
static void random_floats(uint32_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float f = any_float();
		memcpy(&v[i], &f, 4);
	}
}
static void add_top(struct kp_buf *b)
{
	uint32_t v[300];
	size_t n = below(10) == 0 ? below(300) : below(6), at = kp_wire_begin(b, 3);
	random_floats(v, n);
	add_list(b, 1, KP_WIRE_32, v, n);
	random_ids(v, n);
	add_list(b, 2, KP_WIRE_VARINT, v, n);
	kp_wire_end(b, at);
}

/* The three lists, one after the other or position by position. */
static void add_logprobs(struct kp_buf *b, uint32_t number, bool is_input)
{
	uint32_t v[400];
	size_t n = below(8) == 0 ? below(400) : below(5), at = kp_wire_begin(b, number);
	bool tops = below(2);
	random_floats(v, n);
	if (is_input) {
		for (size_t i = 0; i < n; i++) {
			size_t inner = kp_wire_begin(b, 1);
			if (below(4)) {
				for (unsigned times = 1 + below(2); times;
					times--) { /* the last counts */
					kp_wire_add_float(
						b, 1, times == 1 ? kp_wire_float(v[i]) : 0.25f);
				}
			}
			maybe_unknown(b);
			kp_wire_end(b, inner);
			if (tops && below(2)) {
				add_top(b);
			} else if (tops) {
				size_t top = kp_wire_begin(b, 3);
				kp_wire_end(b, top);
			}
		}
	} else {
		add_list(b, 1, KP_WIRE_32, v, n);
	}
	random_ids(v, n);
	if (tops && !is_input) {
		for (size_t i = 0; i < n; i++) {
			kp_wire_add_u64(b, 2, v[i]);
			add_top(b);
		}
	} else {
		add_list(b, 2, KP_WIRE_VARINT, v, n);
	}
	kp_wire_end(b, at);
}

static void add_body(struct kp_buf *b, bool complete)
{
	static const char *const reasons[] = { "stop", "length", "abort", "error", "repetition",
		"" };
	const struct kp_response_fields *f =
		&PROTOCOL.response.in[complete ? KP_RESPONSE_COMPLETE : KP_RESPONSE_CHUNK];
	uint32_t v[64];
	for (unsigned left = below(9); left; left--) {
		maybe_unknown(b);
		switch (below(9)) {
		case 0:
		case 1: {
			size_t n = below(8) == 0 ? below(64) : below(3);
			random_ids(v, n);
			add_list(b, f->ids, KP_WIRE_VARINT, v, n);
			break;
		}
		case 2:
			kp_wire_add_u64(b, f->prompt, any_u32());
			break;
		case 3:
			/* too wide for the field: the low 32 bits count */
			kp_wire_add_u64(b, f->completion, kp_rng_next(&rng));
			break;
		case 4:
			kp_wire_add_u64(b, f->cached, any_u32());
			break;
		case 5:
			kp_wire_add_u64(b, f->index, below(130));
			break;
		case 6:
			if (complete) {
				kp_wire_add_str(
					b, f->finish, kp_str_c(reasons[below(KP_LEN(reasons))]));
			}
			break;
		case 7:
			add_logprobs(b, f->output_logprobs, false);
			break;
		default:
			if (complete && below(2)) {
				below(2) ? kp_wire_add_u64(b, f->matched_id, any_u32())
					 : kp_wire_add_str(b, f->matched_str, KP_S("END"));
			} else {
				add_logprobs(b, f->input_logprobs, true);
			}
			break;
		}
	}
}

static void random_response(struct kp_buf *b)
{
	const struct kp_response_layout *l = &PROTOCOL.response;
	kp_buf_reset(b);
	if (l->request_id && below(2)) {
		kp_wire_add_str(b, l->request_id, KP_S("chatcmpl-1"));
	}
	for (unsigned bodies = below(20) == 0 ? below(3) : 1; bodies; bodies--) {
		bool complete = below(2);
		size_t at = kp_wire_begin(b, complete ? l->complete : l->chunk);
		KP_AUTO(buf) struct kp_buf body;
		kp_buf_init(&body, 1 << 20);
		add_body(&body, complete);
		kp_buf_add(b, kp_buf_str(&body));
		kp_wire_end(b, at);
		maybe_unknown(b);
	}
	assert_true(kp_buf_ok(b));
}

/* --- comparing --- */

static bool same_tops(
	const struct kp_token_logprob *got, size_t n, PB(TopLogProbs) *const *tops, size_t n_tops)
{
	for (size_t i = 0; i < n; i++) {
		size_t want = n_tops ? tops[i]->n_values : 0;
		if (got[i].n_top != want) {
			return false;
		}
		for (size_t k = 0; k < want; k++) {
			if (got[i].top[k].id != tops[i]->token_ids[k] ||
				!same_float(got[i].top[k].logprob, tops[i]->values[k])) {
				return false;
			}
		}
	}
	return true;
}
/* Whether the three lists go together at all. */
static bool tops_consistent(PB(TopLogProbs) *const *tops, size_t n_tops, size_t n)
{
	for (size_t i = 0; i < n_tops; i++) {
		if (tops[i]->n_values != tops[i]->n_token_ids) {
			return false;
		}
	}
	return n_tops == 0 || n_tops == n;
}
static bool output_consistent(const PB(OutputLogProbs) * l)
{
	return !l || (l->n_token_logprobs == l->n_token_ids &&
			     tops_consistent(l->top_logprobs, l->n_top_logprobs, l->n_token_ids));
}
static bool input_consistent(const PB(InputLogProbs) * l)
{
	return !l || (l->n_token_logprobs == l->n_token_ids &&
			     tops_consistent(l->top_logprobs, l->n_top_logprobs, l->n_token_ids));
}

static bool same_output(const struct kp_token_logprob *got, size_t n, const PB(OutputLogProbs) * l)
{
	if (n != (l ? l->n_token_ids : 0) || (n == 0) != (got == NULL)) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (got[i].id != l->token_ids[i] || got[i].is_absent ||
			!same_float(got[i].logprob, l->token_logprobs[i])) {
			return false;
		}
	}
	return n == 0 || same_tops(got, n, l->top_logprobs, l->n_top_logprobs);
}
static bool same_input(const struct kp_token_logprob *got, size_t n, const PB(InputLogProbs) * l)
{
	if (n != (l ? l->n_token_ids : 0)) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		const PB(InputTokenLogProb) *t = l->token_logprobs[i];
		if (got[i].id != l->token_ids[i] || got[i].is_absent != (t->has_value_case == 0) ||
			(!got[i].is_absent && !same_float(got[i].logprob, t->value))) {
			return false;
		}
	}
	return n == 0 || same_tops(got, n, l->top_logprobs, l->n_top_logprobs);
}

static enum kp_response_kind kind_of(const PB(GenerateResponse) * m)
{
	uint32_t number = (uint32_t)m->response_case;
	return number == PROTOCOL.response.chunk      ? KP_RESPONSE_CHUNK
	       : number == PROTOCOL.response.complete ? KP_RESPONSE_COMPLETE
						      : KP_RESPONSE_NOTHING;
}

static bool consistent(const PB(GenerateResponse) * m)
{
	if (kind_of(m) == KP_RESPONSE_CHUNK) {
		return output_consistent(m->chunk->output_logprobs) &&
		       input_consistent(m->chunk->input_logprobs);
	}
	return kind_of(m) != KP_RESPONSE_COMPLETE ||
	       (output_consistent(m->complete->output_logprobs) &&
		       input_consistent(m->complete->input_logprobs));
}

static bool same(const struct kp_response *r, const PB(GenerateResponse) * m)
{
	if (r->kind != kind_of(m)) {
		return false;
	}
	if (r->kind == KP_RESPONSE_CHUNK) {
		const PB(GenerateStreamChunk) *c = m->chunk;
		return r->n_ids == c->n_token_ids &&
		       (r->n_ids == 0 || memcmp(r->ids, c->token_ids, r->n_ids * 4) == 0) &&
		       r->prompt_tokens == c->prompt_tokens &&
		       r->completion_tokens == c->completion_tokens &&
		       r->cached_tokens == c->cached_tokens && r->choice == c->index &&
		       same_output(r->logprobs, r->n_logprobs, c->output_logprobs) &&
		       same_input(r->prompt_logprobs, r->n_prompt_logprobs, c->input_logprobs);
	}
	if (r->kind == KP_RESPONSE_COMPLETE) {
		const PB(GenerateComplete) *c = m->complete;
		const struct kp_response_fields *f = &PROTOCOL.response.in[KP_RESPONSE_COMPLETE];
		bool has_str = (uint32_t)c->matched_stop_case == f->matched_str;
		return r->n_ids == c->n_output_ids &&
		       (r->n_ids == 0 || memcmp(r->ids, c->output_ids, r->n_ids * 4) == 0) &&
		       r->prompt_tokens == c->prompt_tokens &&
		       r->completion_tokens == c->completion_tokens &&
		       r->cached_tokens == c->cached_tokens && r->choice == c->index &&
		       kp_str_eq(r->finish_reason, kp_str_c(c->finish_reason)) &&
		       r->has_matched_id == ((uint32_t)c->matched_stop_case == f->matched_id) &&
		       (!r->has_matched_id || r->matched_id == c->matched_token_id) &&
		       (has_str ? kp_str_eq(r->matched_str, kp_str_c(c->matched_stop_str))
				: r->matched_str.p == NULL) &&
		       same_output(r->logprobs, r->n_logprobs, c->output_logprobs) &&
		       same_input(r->prompt_logprobs, r->n_prompt_logprobs, c->input_logprobs);
	}
	return true;
}

static PB(GenerateResponse) * unpack(kp_str bytes)
{
	return PB_FN(generate_response__unpack)(NULL, bytes.n, (const uint8_t *)bytes.p);
}

static void every_shape_reads_as_protobuf_c_reads_it(void **state)
{
	(void)state;
	kp_rng_seed(&rng, test_seed());
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4 << 20);
	struct kp_response_decoder d;
	kp_response_decoder_init(&d);
	size_t compared = 0;
	for (int round = 0; round < 20000; round++) {
		random_response(&b);
		PB(GenerateResponse) *m = unpack(kp_buf_str(&b));
		assert_non_null(m);
		struct kp_err err = KP_ERR_INIT;
		struct kp_response r;
		int rc = kp_response_decode(&d, &PROTOCOL.response, kp_buf_str(&b), &r, &err);
		if (consistent(m)) {
			assert_int_equal(rc, 0);
			assert_true(same(&r, m));
			compared++;
		} else { /* a list written in several fields with the tops of only one of them */
			assert_int_equal(rc, -1);
			assert_int_equal(err.code, KP_INTERNAL);
		}
		PB_FN(generate_response__free_unpacked)(m, NULL);
	}
	kp_response_decoder_fini(&d);
	assert_true(compared > 10000);
}

static void mutated_bytes_read_alike_or_not_at_all(void **state)
{
	(void)state;
	kp_rng_seed(&rng, test_seed());
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4 << 20);
	struct kp_response_decoder d;
	kp_response_decoder_init(&d);
	size_t accepted = 0, refused = 0;
	for (int round = 0; round < 60000; round++) {
		random_response(&b);
		for (unsigned k = 1 + below(3); k && b.n; k--) {
			b.p[below((uint32_t)b.n)] ^= (char)(1 << below(8));
		}
		b.n -= b.n && below(3) == 0 ? below((uint32_t)b.n) : 0;
		struct kp_err err = KP_ERR_INIT;
		struct kp_response r;
		if (kp_response_decode(&d, &PROTOCOL.response, kp_buf_str(&b), &r, &err) < 0) {
			refused++;
			continue;
		}
		accepted++;
		PB(GenerateResponse) *m = unpack(kp_buf_str(&b));
		assert_non_null(m);
		/* protobuf-c's strings end at a NUL, ours do not. */
		if (!memchr(r.finish_reason.p ? r.finish_reason.p : "", 0, r.finish_reason.n) &&
			!memchr(r.matched_str.p ? r.matched_str.p : "", 0, r.matched_str.n)) {
			assert_true(same(&r, m));
		}
		PB_FN(generate_response__free_unpacked)(m, NULL);
	}
	kp_response_decoder_fini(&d);
	assert_true(accepted > 1000 && refused > 1000);
}

/* --- requests --- */

static double any_number(void)
{
	return below(4) ? (double)below(4000) / 1024 - 1 : 0.0;
}

static struct kp_sampling random_sampling(struct kp_arena *a)
{
	struct kp_sampling s = {
		.set = (uint32_t)kp_rng_next(&rng),
		.temperature = any_number(),
		.top_p = any_number(),
		.min_p = any_number(),
		.frequency_penalty = any_number(),
		.presence_penalty = any_number(),
		.repetition_penalty = any_number(),
		.seed = (int64_t)kp_rng_next(&rng) >> below(64),
		.top_k = (int32_t)below(100) - 1,
		.max_tokens = any_u32(),
		.min_tokens = below(3) ? 0 : any_u32(),
		.n = below(5),
		.logprobs = (int32_t)below(22) - 1,
		.prompt_logprobs = (int32_t)below(22) - 1,
		.ignore_eos = below(2),
		.n_stop_ids = below(3) ? 0 : below(200),
		.n_logit_bias = below(3) ? 0 : below(50),
	};
	kp_id *stop = kp_arena_xalloc(a, (s.n_stop_ids + 1) * sizeof(kp_id));
	struct kp_logit_bias *bias = kp_arena_xalloc(a, (s.n_logit_bias + 1) * sizeof(*bias));
	random_ids(stop, s.n_stop_ids);
	for (size_t i = 0; i < s.n_logit_bias; i++) {
		bias[i] =
			(struct kp_logit_bias){ .id = any_u32() & INT32_MAX, .bias = any_float() };
	}
	s.stop_ids = stop;
	s.logit_bias = bias;
	return s;
}

static void requests_read_back_by_protobuf_c(void **state)
{
	(void)state;
	kp_rng_seed(&rng, test_seed());
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4 << 20);
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(16 << 20);
	int refused = 0;
	for (int round = 0; round < 3000; round++) {
		kp_arena_reset(a);
		kp_buf_reset(&b);
		size_t n = below(10) == 0 ? below(40000) : below(200);
		kp_id *ids = kp_arena_xalloc(a, (n + 1) * sizeof(kp_id));
		random_ids(ids, n);
		struct kp_sampling s = random_sampling(a);
		struct kp_engine_request r = {
			.request_id =
				kp_str_sub(KP_S("chatcmpl-0123456789abcdefghijklmnopqrstuvwxyz"), 0,
					1 + below(40)),
			.ids = ids,
			.n_ids = n,
			.sampling = &s,
			.text = below(3) ? KP_STR_NULL : KP_S("what the ids came from"),
			.stream = below(2),
		};
		struct kp_err err = KP_ERR_INIT;
		if (!can_say(&s)) {
			assert_int_equal(PROTOCOL.encode(&b, &r, &err), -1);
			assert_int_equal(err.code, KP_INVALID_ARGUMENT);
			refused++;
			continue;
		}
		assert_int_equal(PROTOCOL.encode(&b, &r, &err), 0);
		struct kp_wire_limits limits = {
			.max_bytes = 4 << 20, .max_fields = 1 << 20, .max_depth = 3
		};
		assert_int_equal(kp_wire_check(&PB_FN(generate_request__descriptor), kp_buf_str(&b),
					 &limits, &err),
			0);
		PB(GenerateRequest) *m =
			PB_FN(generate_request__unpack)(NULL, b.n, (const uint8_t *)b.p);
		assert_non_null(m);
		assert_str(kp_str_c(m->request_id), r.request_id);
		assert_str(kp_str_c(m->tokenized->original_text), r.text);
		assert_int_equal(m->tokenized->n_input_ids, n);
		assert_memory_equal(
			n ? (const void *)m->tokenized->input_ids : "", ids, n * sizeof(kp_id));
		check_request(m, &r);
		/* protobuf-c packs it back to the same bytes: ours are canonical. Maps and zero
		 * floats aside, so only now and then. */
		uint8_t *again = kp_xmalloc(PB_FN(generate_request__get_packed_size)(m) + 1);
		size_t packed = PB_FN(generate_request__pack)(m, again);
		if (s.n_logit_bias == 0) {
			assert_int_equal(packed, b.n);
			assert_memory_equal(again, b.p, b.n);
		}
		kp_mem_free(again);
		PB_FN(generate_request__free_unpacked)(m, NULL);
	}
	assert_true(refused < 2000);
}

static int run_codec_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_shape_reads_as_protobuf_c_reads_it),
		cmocka_unit_test(mutated_bytes_read_alike_or_not_at_all),
		cmocka_unit_test(requests_read_back_by_protobuf_c),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
