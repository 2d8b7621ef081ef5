/* SGLang's protocol at its borders: exact bytes, what is always written out, what is refused, what its
   servicer says of the model. That the decoder reads what protobuf-c reads is tests/prop/engine; that
   protoc's Python reads what we write is tests/integ/engine. */
#include "engine/protocol.h"
#include "wire/wire.h"
#include "tests/unit/engine/answers.h"
#include "sglang/sglang_scheduler.pb-c.h"

static int encode(struct kp_buf *b, const struct kp_sampling *s, struct kp_err *err)
{
	static const kp_id ids[] = { 1, 127, 128, 300 };
	struct kp_engine_request r = {
		.request_id = KP_S("r1"), .ids = ids, .n_ids = 4, .sampling = s
	};
	kp_buf_init(b, 1000);
	*err = KP_ERR_INIT;
	return kp_sglang_protocol.encode(b, &r, err);
}

#define HEAD                                                           \
	"\x0a\x02"                                                     \
	"r1"                                       /* 1: request_id */ \
	"\x12\x08\x12\x06\x01\x7f\x80\x01\xac\x02" /* 2: tokenized { 2: ids } */
#define MINUS_ONE "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
#define ONE       "\x00\x00\x80\x3f"

static void assert_encodes(const struct kp_sampling *s, kp_str want)
{
	KP_AUTO(buf) struct kp_buf b;
	struct kp_err err;
	assert_int_equal(encode(&b, s, &err), 0);
	assert_str(kp_buf_str(&b), want);
}

static void what_nobody_says_is_written_out(void **state)
{
	(void)state;
	assert_encodes(&(struct kp_sampling){ 0 },
		KP_S(HEAD "\x22\x1d" /* 4: sampling_params */
			  "\x0d" ONE "\x15" ONE "\x18" MINUS_ONE "\x3d" ONE "\x88\x01\x01" /* n */
			  "\x30" MINUS_ONE)); /* 6: logprob_start_len */
}

static void a_request_has_the_bytes_of_the_format(void **state)
{
	(void)state;
	const kp_id stop[] = { 2 };
	const struct kp_logit_bias bias[] = { { .id = 50, .bias = -1.0f } };
	struct kp_sampling s = {
		.set = KP_SET_TEMPERATURE | KP_SET_MAX_TOKENS | KP_SET_LOGPROBS | KP_SET_SEED |
		       KP_SET_TOP_K | KP_SET_PROMPT_LOGPROBS,
		.temperature = 0,
		.max_tokens = 16,
		.logprobs = 0,
		.prompt_logprobs = 3,
		.seed = 7, /* changes nothing at temperature 0 */
		.top_k = 5,
		.n = 2,
		.min_tokens = 4,
		.ignore_eos = true,
		.stop_ids = stop,
		.n_stop_ids = 1,
		.logit_bias = bias,
		.n_logit_bias = 1,
	};
	assert_encodes(&s,
		KP_S(HEAD "\x22\x26" /* no temperature: 0 */
			  "\x15" ONE "\x18\x05\x3d" ONE
			  "\x40\x10\x52\x01\x02" /* max_new_tokens, stop_token_ids */
			  "\x88\x01\x02\x90\x01\x04\x98\x01\x01" /* n, min_new_tokens, ignore_eos */
			  "\xb2\x01\x09\x0a\x02"
			  "50\x15\x00\x00\x80\xbf" /* logit_bias { 1: "50", 2: -1.0 } */
			  "\x28\x01\x38\x03"       /* return_logprob, top_logprobs_num */
			  "\x88\x01\x01"));        /* 17: stream, since n > 1 */
}

static void numbers_that_have_no_neutral_zero(void **state)
{
	(void)state;
	struct kp_sampling s = {
		.set = KP_SET_TOP_K | KP_SET_TEMPERATURE, .n = 1, .top_k = 20, .temperature = 0.5
	};
	assert_encodes(&s, KP_S(HEAD "\x22\x14\x0d\x00\x00\x00\x3f\x15" ONE "\x18\x14\x3d" ONE
				     "\x88\x01\x01\x30" MINUS_ONE));
	s.top_k = 0; /* all of them, as -1 */
	assert_encodes(&s, KP_S(HEAD "\x22\x1d\x0d\x00\x00\x00\x3f\x15" ONE "\x18" MINUS_ONE
				     "\x3d" ONE "\x88\x01\x01\x30" MINUS_ONE));
}

static void assert_refuses(const struct kp_sampling *s, const char *param, const char *message)
{
	KP_AUTO(buf) struct kp_buf b;
	struct kp_err err;
	assert_int_equal(encode(&b, s, &err), -1);
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	assert_string_equal(err.param, param);
	assert_string_equal(err.msg, message);
}

static void what_the_protocol_cannot_say_is_refused_by_name(void **state)
{
	(void)state;
	const char *no_seed = "`seed`: SGLang takes none; leave it out, or set `temperature` to 0";
	struct kp_sampling s = { .set = KP_SET_SEED, .seed = 1 };
	assert_refuses(&s, "seed", no_seed);
	s.set |= KP_SET_TEMPERATURE;
	s.temperature = 0.7;
	assert_refuses(&s, "seed", no_seed);
	s.temperature = 0;
	KP_AUTO(buf) struct kp_buf b;
	struct kp_err err;
	assert_int_equal(encode(&b, &s, &err), 0);
	s = (struct kp_sampling){ .set = KP_SET_LOGPROBS, .logprobs = -1 };
	assert_refuses(&s, "logprobs", "`logprobs`: SGLang does not report the whole vocabulary");
	s = (struct kp_sampling){ .set = KP_SET_PROMPT_LOGPROBS, .prompt_logprobs = -1 };
	assert_refuses(&s, "logprobs", "`logprobs`: SGLang does not report the whole vocabulary");
}

/* --- answers --- */

static void a_string_that_nobody_asked_for_is_the_models_failure(void **state)
{
	(void)state;
	struct kp_response r = { .finish_reason = KP_S("stop") };
	assert_int_equal(kp_sglang_protocol.finish(&r), KP_FINISH_STOP);
	r.matched_str = KP_S("NaN happened");
	assert_int_equal(kp_sglang_protocol.finish(&r), KP_FINISH_ERROR);
	r = (struct kp_response){ .finish_reason = KP_S("abort") };
	assert_int_equal(kp_sglang_protocol.finish(&r), KP_FINISH_ABORT);
}

static void what_the_servicer_says_of_the_model(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_err err = KP_ERR_INIT;
	static char defaults[] = "{\"top_p\":0.8}";
	int32_t eos[] = { 151645, 151643 };
	Sglang__Grpc__Scheduler__GetModelInfoResponse m;
	sglang__grpc__scheduler__get_model_info_response__init(&m);
	SAY_MODEL(m);
	m.eos_token_ids = eos;
	m.n_eos_token_ids = 2;
	m.bos_token_id = 151643;
	m.max_req_input_len = 40960; /* the Rust servicer says it so */
	m.default_sampling_params_json = defaults;
	struct kp_engine_info info = { 0 };
	assert_int_equal(
		kp_sglang_protocol.read_model_info(packed(&b, &m.base), a, &info, &err), 0);
	assert_model(&info);
	assert_int_equal(info.n_eos, 2);
	assert_int_equal(info.eos[1], 151643);
	assert_true(info.has_bos && info.bos == 151643);
	assert_int_equal(info.defaults.set, KP_SET_TOP_P);

	/* The Python servicer: the KV cache's size, and a model it knows nothing of. */
	m.max_context_length = 700000;
	m.max_req_input_len = 40954;
	m.n_eos_token_ids = 0;
	m.vocab_size = 128256;
	m.bos_token_id = 1;
	assert_int_equal(
		kp_sglang_protocol.read_model_info(packed(&b, &m.base), a, &info, &err), 0);
	assert_int_equal(info.max_context, 40960);
	assert_int_equal(info.vocab_size, 0);
	assert_int_equal(info.n_eos, 0);
	assert_false(info.has_bos);

	m.max_req_input_len = 0;
	m.max_context_length = -1;
	assert_int_equal(
		kp_sglang_protocol.read_model_info(packed(&b, &m.base), a, &info, &err), 0);
	assert_int_equal(info.max_context, 0);
}

static void version_and_room_come_from_two_answers(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_err err = KP_ERR_INIT;
	static char version[] = "0.5.20";
	Sglang__Grpc__Scheduler__GetServerInfoResponse server;
	sglang__grpc__scheduler__get_server_info_response__init(&server);
	server.sglang_version = version;
	struct kp_engine_info info = { 0 };
	assert_int_equal(
		kp_sglang_protocol.read_server_info(packed(&b, &server.base), a, &info, &err), 0);
	Sglang__Grpc__Scheduler__SchedulerLoad one = SGLANG__GRPC__SCHEDULER__SCHEDULER_LOAD__INIT,
					       two = one;
	one.num_running_reqs = 3;
	one.num_waiting_reqs = 1;
	one.num_used_tokens = 100;
	one.token_usage = 0.5;
	one.max_running_requests = 48;
	two.num_running_reqs = 2;
	two.max_running_requests = 48;
	Sglang__Grpc__Scheduler__SchedulerLoad *both[] = { &one, &two };
	Sglang__Grpc__Scheduler__GetLoadsResponse m;
	sglang__grpc__scheduler__get_loads_response__init(&m);
	m.loads = both;
	m.n_loads = 2;
	struct kp_engine_loads loads = { .at_ns = 42 };
	assert_int_equal(
		kp_sglang_protocol.read_loads(packed(&b, &m.base), a, &loads, &info, &err), 0);
	assert_str_lit(info.version, "0.5.20");
	assert_int_equal(info.max_running, 96);
	assert_int_equal(loads.running, 5);
	assert_int_equal(loads.waiting, 1);
	assert_int_equal(loads.total_tokens, 100);
	assert_true(loads.kv_usage == 0.25f);
	assert_int_equal(loads.at_ns, 42);
}

static void health(void **state)
{
	(void)state;
	assert_reads_health(&kp_sglang_protocol);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_nobody_says_is_written_out),
		cmocka_unit_test(a_request_has_the_bytes_of_the_format),
		cmocka_unit_test(numbers_that_have_no_neutral_zero),
		cmocka_unit_test(what_the_protocol_cannot_say_is_refused_by_name),
		cmocka_unit_test(a_string_that_nobody_asked_for_is_the_models_failure),
		cmocka_unit_test(what_the_servicer_says_of_the_model),
		cmocka_unit_test(version_and_room_come_from_two_answers),
		cmocka_unit_test(health),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
