/* vLLM's protocol at its borders: exact bytes, what is left out, the rare answers. That the decoder
   reads what protobuf-c reads is tests/prop/engine; that protoc's Python reads what we write is
   tests/integ/engine. */
#include "engine/cold.h"
#include "engine/protocol.h"
#include "wire/wire.h"
#include "wire/check.h"
#include "tests/unit/engine/answers.h"
#include "vllm/vllm_engine.pb-c.h"

static void assert_encodes(const struct kp_engine_request *r, kp_str want)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1000);
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_vllm_protocol.encode(&b, r, &err), 0);
	assert_str(kp_buf_str(&b), want);
}

static void a_request_has_the_bytes_of_the_format(void **state)
{
	(void)state;
	const kp_id ids[] = { 1, 127, 128, 300 }, stop[] = { 2 };
	const struct kp_logit_bias bias[] = { { .id = 5, .bias = -1.0f } };
	struct kp_sampling s = {
		.set = KP_SET_TEMPERATURE | KP_SET_MAX_TOKENS | KP_SET_LOGPROBS | KP_SET_SEED |
		       KP_SET_TOP_K,
		.temperature = 0,
		.max_tokens = 16,
		.logprobs = 0,
		.seed = -1,
		.top_k = -1,
		.n = 1,
		.ignore_eos = true,
		.stop_ids = stop,
		.n_stop_ids = 1,
		.logit_bias = bias,
		.n_logit_bias = 1,
	};
	struct kp_engine_request r = {
		.request_id = KP_S("r1"), .ids = ids, .n_ids = 4, .sampling = &s, .stream = true
	};
	assert_encodes(&r,
		KP_S("\x0a\x02"
		     "r1"                                       /* 1: request_id */
		     "\x12\x08\x12\x06\x01\x7f\x80\x01\xac\x02" /* 2: tokenized { 2: ids } */
		     "\x22\x27"                                 /* 4: sampling_params */
		     "\x0d\x00\x00\x00\x00"                     /* temperature 0 is not "absent" */
		     "\x40\x10\x5a\x01\x02\x70\x01\x78\x01"     /* max_tokens, stop_token_ids,
								   ignore_eos, n */
		     "\xb0\x01\x00"                             /* logprobs 0 neither */
		     "\xc0\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" /* seed -1 */
		     "\xd2\x01\x07\x08\x05\x15\x00\x00\x80\xbf" /* logit_bias { 1: 5, 2: -1.0 } */
		     "\x28\x01"));                              /* 5: stream */
}

static void nothing_said_is_nothing_sent(void **state)
{
	(void)state;
	struct kp_sampling s = { .n = 1 };
	struct kp_engine_request r = { .request_id = KP_S("x"), .sampling = &s };
	assert_encodes(&r, KP_S("\x0a\x01x\x12\x00\x22\x02\x78\x01"));
	s.set = KP_SET_TOP_K; /* -1 is all, which is what the engine does unasked */
	s.top_k = -1;
	assert_encodes(&r, KP_S("\x0a\x01x\x12\x00\x22\x02\x78\x01"));
}

static void a_prompt_beyond_the_maximum_is_an_error(void **state)
{
	(void)state;
	static kp_id ids[1000];
	struct kp_sampling s = { .n = 1 };
	struct kp_engine_request r = {
		.request_id = KP_S("x"), .ids = ids, .n_ids = 1000, .sampling = &s
	};
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 999);
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_vllm_protocol.encode(&b, &r, &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	assert_string_equal(err.msg, "build `generate request`: more than 999 bytes");
}

static void wide_seeds_become_31_bits(void **state)
{
	(void)state;
	const int64_t seeds[] = { INT64_MIN, INT64_MAX, (int64_t)INT32_MAX + 1,
		(int64_t)INT32_MIN - 1 };
	for (size_t i = 0; i < KP_LEN(seeds); i++) {
		struct kp_sampling s = { .set = KP_SET_SEED, .seed = seeds[i] };
		struct kp_engine_request r = { .request_id = KP_S("x"), .sampling = &s };
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, 1000);
		struct kp_err err = KP_ERR_INIT;
		assert_int_equal(kp_vllm_protocol.encode(&b, &r, &err), 0);
		Vllm__Grpc__Engine__GenerateRequest *m =
			vllm__grpc__engine__generate_request__unpack(
				NULL, b.n, (const uint8_t *)b.p);
		assert_non_null(m);
		assert_true(m->sampling_params->seed >= 0);
		vllm__grpc__engine__generate_request__free_unpacked(m, NULL);
	}
}

/* --- rare answers --- */

static void tokenizer_pieces(void **state)
{
	(void)state;
	kp_str data, sha;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_cold_tokenizer(KP_S("\x0a\x03PK\x03"), &data, &sha, &err), 0);
	assert_str_lit(data, "PK\x03");
	assert_int_equal(sha.n, 0);
	assert_int_equal(
		kp_cold_tokenizer(
			KP_S("\x12\x40"
			     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
			&data, &sha, &err),
		0);
	assert_int_equal(sha.n, 64);
	assert_int_equal(kp_cold_tokenizer(KP_S("\x12\x02zz"), &data, &sha, &err), -1);
	assert_string_equal(err.msg, "read `sha256`: 2 characters, not 64");
	assert_int_equal(kp_cold_tokenizer(KP_S("\x08\x01"), &data, &sha, &err), -1);
	assert_string_equal(err.msg, "read `tokenizer chunk`: not valid protobuf");
}

static void health(void **state)
{
	(void)state;
	assert_reads_health(&kp_vllm_protocol);
}

static void model_info(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_err err = KP_ERR_INIT;
	static char defaults[] =
		"{\"temperature\":0.6,\"top_k\":20,\"top_p\":0.95,\"odd\":\"x\",\"min_p\":null}";
	int32_t eos[20] = { 151645, -1, 151643 };
	Vllm__Grpc__Engine__GetModelInfoResponse m;
	vllm__grpc__engine__get_model_info_response__init(&m);
	SAY_MODEL(m);
	m.eos_token_ids = eos;
	m.n_eos_token_ids = 20;
	m.bos_token_id = 1;
	m.default_sampling_params_json = defaults;
	struct kp_engine_info info = { .version = KP_S("untouched") };
	assert_int_equal(kp_vllm_protocol.read_model_info(packed(&b, &m.base), a, &info, &err), 0);
	kp_buf_reset(&b);
	assert_model(&info);
	assert_str_lit(info.version, "untouched");
	assert_int_equal(info.n_eos, KP_LEN(info.eos)); /* 19 of 20 are ids, there is room for 16 */
	assert_int_equal(info.eos[0], 151645);
	assert_int_equal(info.eos[1], 151643);
	assert_true(info.has_bos);
	assert_int_equal(info.defaults.set, KP_SET_TEMPERATURE | KP_SET_TOP_K | KP_SET_TOP_P);
	assert_true(info.defaults.temperature == 0.6 && info.defaults.top_k == 20 &&
		    info.defaults.top_p == 0.95);

	static char nonsense[] = "{\"temperature\":";
	m.default_sampling_params_json = nonsense;
	m.bos_token_id = 0;
	assert_int_equal(kp_vllm_protocol.read_model_info(packed(&b, &m.base), a, &info, &err), 0);
	assert_int_equal(info.defaults.set, 0);
	assert_false(info.has_bos);
}

static void loads_add_up_over_ranks(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_err err = KP_ERR_INIT;
	Vllm__Grpc__Engine__SchedulerLoad one = VLLM__GRPC__ENGINE__SCHEDULER_LOAD__INIT, two = one;
	one.num_running_reqs = 3;
	one.num_waiting_reqs = 1;
	one.num_used_tokens = 100;
	one.token_usage = 0.5;
	two.num_running_reqs = -7; /* nonsense counts as nothing */
	two.token_usage = 7e300;
	Vllm__Grpc__Engine__SchedulerLoad *both[] = { &one, &two };
	static char version[] = "0.32.0";
	Vllm__Grpc__Engine__GetLoadsResponse m;
	vllm__grpc__engine__get_loads_response__init(&m);
	m.version = version;
	m.loads = both;
	m.n_loads = 2;
	struct kp_engine_loads loads = { .at_ns = 42 };
	struct kp_engine_info info = { 0 };
	assert_int_equal(
		kp_vllm_protocol.read_loads(packed(&b, &m.base), a, &loads, &info, &err), 0);
	assert_str_lit(info.version, "0.32.0");
	assert_int_equal(loads.running, 3);
	assert_int_equal(loads.waiting, 1);
	assert_int_equal(loads.total_tokens, 100);
	assert_int_equal(loads.at_ns, 42);
	assert_true(loads.kv_usage == 0.25f);
}

/* --- the pre-scan --- */

static void assert_check(const ProtobufCMessageDescriptor *d, kp_str bytes, const char *message)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_wire_limits limits = { .max_bytes = 100, .max_fields = 10, .max_depth = 2 };
	int rc = kp_wire_check(d, bytes, &limits, &err);
	assert_int_equal(rc, message ? -1 : 0);
	assert_string_equal(err.msg, message ? message : "");
}

static void the_pre_scan_refuses_what_protobuf_c_should_not_see(void **state)
{
	(void)state;
	const ProtobufCMessageDescriptor
		*health = &vllm__grpc__engine__health_check_response__descriptor,
		*generate = &vllm__grpc__engine__generate_response__descriptor;
#define HEALTH "read `vllm.grpc.engine.HealthCheckResponse`: "
#define CHUNK  "read `vllm.grpc.engine.GenerateStreamChunk`: "
	static char big[101];
	assert_check(health,
		KP_S("\x08\x01\x12\x02ok\x1d"
		     "abcd"),
		NULL); /* an unknown field */
	assert_check(health, KP_S("\x12\x02\xc3\x28"), HEALTH "a string is not valid UTF-8");
	assert_check(health,
		KP_S("\x12\x03"
		     "a\0b"),
		HEALTH "a string contains NUL");
	assert_check(health, KP_S("\x10\x01"), HEALTH "a field has the wrong type");
	assert_check(health,
		KP_S("\x12\x05"
		     "abc"),
		HEALTH "not valid protobuf");
	assert_check(health, kp_str_n(big, sizeof(big)), HEALTH "101 bytes, at most 100 allowed");
	assert_check(health,
		KP_S("\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01"),
		HEALTH "too many fields");
	assert_check(generate, KP_S("\x0a\x05\x0a\x03\x01\x02\x03"), NULL);
	assert_check(generate, KP_S("\x0a\x04\x0a\x02\x01\x82"), CHUNK "not valid protobuf");
	assert_check(generate,
		KP_S("\x0a\x0e\x0a\x0c\x01\x02\x03\x01\x02\x03\x01\x02\x03\x01\x02\x03"),
		CHUNK "too many fields"); /* packed */
	assert_check(generate, KP_S("\x0a\x02\x2a\x00"),
		"read `vllm.grpc.engine.OutputLogProbs`: messages are nested too deep");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_has_the_bytes_of_the_format),
		cmocka_unit_test(nothing_said_is_nothing_sent),
		cmocka_unit_test(a_prompt_beyond_the_maximum_is_an_error),
		cmocka_unit_test(wide_seeds_become_31_bits),
		cmocka_unit_test(tokenizer_pieces),
		cmocka_unit_test(health),
		cmocka_unit_test(model_info),
		cmocka_unit_test(loads_add_up_over_ranks),
		cmocka_unit_test(the_pre_scan_refuses_what_protobuf_c_should_not_see),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
