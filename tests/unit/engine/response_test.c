/* The decoder's borders: what is malformed, limits, lists that do not go together. In vLLM's layout;
   that it reads every layout as protobuf-c does is tests/prop/engine. */
#include "engine/protocol.h"
#include "wire/wire.h"
#include "tests/test.h"

static int decode(kp_str bytes, struct kp_response *r, struct kp_err *err)
{
	struct kp_response_decoder d;
	kp_response_decoder_init(&d);
	*err = KP_ERR_INIT;
	int rc = kp_response_decode(&d, &kp_vllm_protocol.response, bytes, r, err);
	kp_response_decoder_fini(&d); /* what the caller looks at is counts and slices of `bytes` */
	return rc;
}
static void assert_refused(kp_str bytes, enum kp_code code, const char *message)
{
	struct kp_response r;
	struct kp_err err;
	assert_int_equal(decode(bytes, &r, &err), -1);
	assert_int_equal(err.code, code);
	assert_string_equal(err.msg, message);
}

static void malformed_responses_are_refused(void **state)
{
	(void)state;
	const char *invalid = "read `response`: not valid protobuf";
	assert_refused(KP_S("\x0a\x05\x0a\x01\x07"), KP_INTERNAL, invalid); /* cut short */
	assert_refused(KP_S("\xff"), KP_INTERNAL, invalid);                 /* half a key */
	assert_refused(KP_S("\x00\x01"), KP_INTERNAL, invalid);             /* field 0 */
	assert_refused(KP_S("\x0b"), KP_INTERNAL, invalid);                 /* a group */
	assert_refused(KP_S("\x08\x01"), KP_INTERNAL, invalid);             /* chunk as a number */
	assert_refused(KP_S("\x0a\x02\x12\x00"), KP_INTERNAL, invalid); /* prompt_tokens as bytes */
	assert_refused(KP_S("\x0a\x0d\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"),
		KP_INTERNAL, invalid); /* 11 bytes */
	assert_refused(KP_S("\x0a\x04\x0a\x02\x80\x80"), KP_INTERNAL,
		"read `token_ids`: not valid protobuf");
	assert_refused(KP_S("\x0a\x05\x0d\x00\x00\x00\x00"), KP_INTERNAL,
		"read `token_ids`: not valid protobuf");
	/* output_logprobs: a value and no id; one id, a value and two lists; a list of two values
	 * and one id */
	assert_refused(KP_S("\x0a\x07\x2a\x05\x0d\x00\x00\x00\x00"), KP_INTERNAL,
		"read `logprobs`: 1 values and 0 lists for 0 ids");
	assert_refused(KP_S("\x0a\x0d\x2a\x0b\x0d\x00\x00\x00\x00\x10\x07\x1a\x00\x1a\x00"),
		KP_INTERNAL, "read `logprobs`: 1 values and 2 lists for 1 ids");
	assert_refused(
		KP_S("\x0a\x10\x2a\x0e\x1a\x0c\x0a\x08\x00\x00\x00\x00\x00\x00\x00\x00\x10\x07"),
		KP_INTERNAL, "read `top_logprobs`: 2 values for 1 ids");
	assert_refused(KP_S("\x0a\x07\x2a\x05\x0a\x03\x00\x00\x00"), KP_INTERNAL,
		"read `token_logprobs`: not valid protobuf");
}

static void an_empty_message_says_nothing(void **state)
{
	(void)state;
	struct kp_response r;
	struct kp_err err;
	assert_int_equal(decode(KP_STR_NULL, &r, &err), 0);
	assert_int_equal(r.kind, KP_RESPONSE_NOTHING);
	assert_int_equal(decode(KP_S("\x18\x05"), &r, &err), 0); /* an unknown field */
	assert_int_equal(r.kind, KP_RESPONSE_NOTHING);
	assert_int_equal(decode(KP_S("\x0a\x00"), &r, &err), 0);
	assert_int_equal(r.kind, KP_RESPONSE_CHUNK);
	assert_int_equal(r.n_ids, 0);
}

/* One message with `n` bytes of packed ids (or empty top lists) in field `number` of a chunk. */
static void many(struct kp_buf *b, bool tops, size_t n)
{
	KP_AUTO(buf) struct kp_buf inner;
	kp_buf_init(&inner, 64 << 20);
	for (size_t i = 0; i < n; i++) {
		if (tops) {
			kp_buf_lit(&inner, "\x1a\x00"); /* OutputLogProbs.top_logprobs {} */
		} else {
			kp_buf_addc(&inner, 5);
		}
	}
	size_t at = kp_wire_begin(b, 1);
	kp_wire_add_str(b, tops ? 5 : 1, kp_buf_str(&inner));
	kp_wire_end(b, at);
}

static void counts_beyond_the_limits_are_refused(void **state)
{
	(void)state;
	struct kp_response r;
	struct kp_err err;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 64 << 20);
	many(&b, false, KP_RESPONSE_MAX_IDS);
	assert_int_equal(decode(kp_buf_str(&b), &r, &err), 0);
	assert_int_equal(r.n_ids, KP_RESPONSE_MAX_IDS);
	kp_buf_reset(&b);
	many(&b, false, KP_RESPONSE_MAX_IDS + 1);
	assert_refused(kp_buf_str(&b), KP_INTERNAL,
		"read `token_ids`: more than 1048576 entries, or no memory for them");
	kp_buf_reset(&b);
	many(&b, true, KP_RESPONSE_MAX_IDS + 1);
	assert_refused(kp_buf_str(&b), KP_INTERNAL,
		"read `top_logprobs`: more than 1048576 entries, or no memory for them");
}

static void a_huge_message_is_forgotten_by_the_next(void **state)
{
	(void)state;
	struct kp_response_decoder d;
	struct kp_response r;
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 64 << 20);
	kp_response_decoder_init(&d);
	many(&b, false, 500000);
	assert_int_equal(
		kp_response_decode(&d, &kp_vllm_protocol.response, kp_buf_str(&b), &r, &err), 0);
	assert_true(d.ids.cap >= 500000);
	assert_int_equal(kp_response_decode(&d, &kp_vllm_protocol.response,
				 KP_S("\x0a\x03\x0a\x01\x07"), &r, &err),
		0);
	assert_int_equal(r.n_ids, 1);
	assert_int_equal(r.ids[0], 7);
	assert_true(d.ids.cap < 100000);
	kp_response_decoder_fini(&d);
}

static void reasons_of_newer_engines_are_a_stop(void **state)
{
	(void)state;
	assert_int_equal(kp_response_finish(KP_S("stop")), KP_FINISH_STOP);
	assert_int_equal(kp_response_finish(KP_S("length")), KP_FINISH_LENGTH);
	assert_int_equal(kp_response_finish(KP_S("abort")), KP_FINISH_ABORT);
	assert_int_equal(kp_response_finish(KP_S("error")), KP_FINISH_ERROR);
	assert_int_equal(kp_response_finish(KP_S("repetition")), KP_FINISH_STOP);
	assert_int_equal(kp_response_finish(KP_STR_NULL), KP_FINISH_STOP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malformed_responses_are_refused),
		cmocka_unit_test(an_empty_message_says_nothing),
		cmocka_unit_test(counts_beyond_the_limits_are_refused),
		cmocka_unit_test(a_huge_message_is_forgotten_by_the_next),
		cmocka_unit_test(reasons_of_newer_engines_are_a_stop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
