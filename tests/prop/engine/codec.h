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
#include "tests/prop/engine/codec_random.h"
#include "tests/prop/engine/codec_same.h"

/* Whether the protocol can say it; else encoding fails with INVALID_ARGUMENT. */
static bool can_say(const struct kp_sampling *s);
/* Everything of the request but its id, its text and its ids. */
static void check_request(const PB(GenerateRequest) * m, const struct kp_engine_request *r);

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

static struct kp_constraint random_constraint(void)
{
	static const kp_str choices[] = { KP_S_INIT("yes"), KP_S_INIT("no. \"é\" (1/2)\n") };
	struct kp_constraint c = { .kind = (enum kp_constraint_kind)below(KP_CONSTRAINT_TAG + 1) };
	if (c.kind == KP_CONSTRAINT_CHOICE) {
		c.choices = choices;
		c.n_choices = 1 + below(2);
	} else if (c.kind > KP_CONSTRAINT_JSON_OBJECT) {
		c.text = kp_str_sub(KP_S("{\"type\": \"é\"}"), 0, 9);
	}
	return c;
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
	s.constraint = random_constraint();
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
