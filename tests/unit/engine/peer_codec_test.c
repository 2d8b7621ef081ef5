/* The peer codec's borders: exact bytes, errors that name the field, limits, trailers. That it reads
   what protobuf-c reads is tests/prop/engine/peer_test.c; protobuf's Python, tests/oracle/engine. */
#include "engine/peer_codec.h"
#include "base/mem.h"
#include "wire/wire.h"
#include "tests/test.h"

/* --- exact bytes --------------------------------------------------------------------------------- */

static void a_request_has_the_bytes_of_the_format(void **state)
{
	(void)state;
	const kp_id ids[] = { 1, 300 }, stop[] = { 2 };
	const struct kp_logit_bias bias[] = { { .id = 5, .bias = -1.0f } };
	const struct kp_sampling s = { .set = KP_SET_TEMPERATURE | KP_SET_TOP_K,
		.temperature = 0.5,
		.top_k = -1,
		.n = 1,
		.ignore_eos = true,
		.stop_ids = stop,
		.n_stop_ids = 1,
		.logit_bias = bias,
		.n_logit_bias = 1 };
	const struct kp_engine_request r = { .request_id = KP_S("r1"),
		.ids = ids,
		.n_ids = 2,
		.sampling = &s,
		.text = KP_S("stays here"),
		.text_fingerprint = 0x0102 };
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1000);
	assert_int_equal(kp_peer_encode_generate(&b, &r, KP_S("d/e"), KP_S("h:1"), &err), 0);
	assert_str(kp_buf_str(&b),
		KP_S("\x0a\x02"
		     "r1\x12\x03"
		     "d/e\x1a\x03"
		     "h:1\x21\x02\x01\0\0\0\0\0\0\x2a\x08\x01\0\0\0\x2c\x01\0\0\x32\x25" /* 6: sampling */
		     "\x08\x05\x11\0\0\0\0\0\0\xe0\x3f"                     /* set, 0.5 */
		     "\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x70\x01" /* top_k, eos */
		     "\x8a\x01\x01\x02\x90\x01\x05\x9d\x01\0\0\x80\xbf"));  /* lists */
}

static void an_answer_has_the_bytes_of_the_format(void **state)
{
	(void)state;
	const kp_id ids[] = { 7 };
	const struct kp_top_logprob top[] = { { .id = 9, .logprob = -2.0f } };
	const struct kp_token_logprob l[] = {
		{ .id = 7, .logprob = -1.0f, .top = top, .n_top = 1 }
	};
	const struct kp_token_logprob prompt[] = { { .id = 3, .is_absent = true } };
	struct kp_engine_delta d = { .ids = ids, .n_ids = 1 };
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1000);
	kp_peer_encode_response(&b, &d);
	assert_str(kp_buf_str(&b), KP_S("\x0a\x01\x07")); /* what nearly every token is */
	kp_buf_reset(&b);
	d.logprobs = l;
	d.prompt_logprobs = prompt;
	d.n_prompt_logprobs = 1;
	d.finish = KP_FINISH_LENGTH;
	d.has_matched_id = true;
	d.prompt_tokens = 200;
	kp_peer_encode_response(&b, &d);
	assert_str(kp_buf_str(&b),
		KP_S("\x0a\x01\x07"
		     "\x12\x10\x08\x07\x15\0\0\x80\xbf\x1a\x01\x09\x22\x04\0\0\0\xc0"
		     "\x1a\x04\x08\x03\x28\x01\x20\x02\x28\x01\x38\xc8\x01"));
}

static void an_answer_with_more_than_one_sequence_is_not_forwarded(void **state)
{
	(void)state;
	const kp_id ids[] = { 1 };
	const struct kp_sampling s = { .n = 2 };
	const struct kp_engine_request r = {
		.request_id = KP_S("r"), .ids = ids, .n_ids = 1, .sampling = &s
	};
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1000);
	assert_int_equal(kp_peer_encode_generate(&b, &r, KP_S("e"), KP_S("a"), &err), -1);
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "n is 2, at most 1 is forwarded");
}

static void a_request_beyond_the_buffers_maximum_is_an_error(void **state)
{
	(void)state;
	static kp_id ids[1000];
	const struct kp_sampling s = { .n = 1 };
	const struct kp_engine_request r = {
		.request_id = KP_S("r"), .ids = ids, .n_ids = 1000, .sampling = &s
	};
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 999);
	assert_int_equal(kp_peer_encode_generate(&b, &r, KP_S("e"), KP_S("a"), &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	assert_string_equal(err.msg, "build `generate request`: more than 999 bytes");
}

/* --- requests that are refused ------------------------------------------------------------------- */

#define HEAD                \
	"\x0a\x01r\x12\x01" \
	"e\x1a\x01"         \
	"a"
#define IDS "\x2a\x04\x05\0\0\0"

static int decode_request(kp_str bytes, struct kp_err *err)
{
	struct kp_peer_request_decoder *d = malloc(sizeof(*d));
	struct kp_peer_request r;
	*err = KP_ERR_INIT;
	kp_peer_request_decoder_init(d);
	int rc = kp_peer_decode_generate(d, bytes, &r, err);
	kp_peer_request_decoder_fini(d);
	free(d);
	return rc;
}

static void wrong_requests_are_refused_by_the_fields_name(void **state)
{
	(void)state;
	static const struct {
		kp_str bytes;
		const char *msg;
	} cases[] = {
		{ KP_S_INIT(""), "read `request_id`: missing" },
		{ KP_S_INIT("\x0a\x01r"), "read `engine`: missing" },
		{ KP_S_INIT("\x0a\x01r\x12\x01"
			    "e"),
			"read `address`: missing" },
		{ KP_S_INIT(HEAD), "read `ids`: missing" },
		{ KP_S_INIT(HEAD "\x2a"), "read `GenerateRequest`: not valid protobuf" },
		{ KP_S_INIT(HEAD "\x2a\x03\x80\0\0"), "read `ids`: not valid protobuf" },
		{ KP_S_INIT(HEAD "\x28\x01"), "read `ids`: not valid protobuf" },
		{ KP_S_INIT("\x08\x01" HEAD IDS), "read `request_id`: not valid protobuf" },
		{ KP_S_INIT(HEAD IDS "\x12\x02\xc3\x28"), "read `engine`: not UTF-8 without NUL" },
		{ KP_S_INIT(HEAD IDS "\x1a\x02"
				     "a\0"),
			"read `address`: not UTF-8 without NUL" },
		{ KP_S_INIT(HEAD IDS "\x20\x01"), "read `text_fingerprint`: not valid protobuf" },
		{ KP_S_INIT(HEAD IDS "\x30\x01"), "read `sampling`: not valid protobuf" },
		{ KP_S_INIT(HEAD IDS "\x32\x01\x08"), "read `sampling`: not valid protobuf" },
		{ KP_S_INIT(HEAD IDS "\x32\x02\x10\x01"),
			"read `sampling.temperature`: not valid protobuf" },
		{ KP_S_INIT(HEAD IDS "\x32\x09\x19\0\0\0\0\0\0\xf8\x7f"),
			"read `sampling.top_p`: not a finite number" },
		{ KP_S_INIT(HEAD IDS "\x32\x09\x19\0\0\0\0\0\0\xf0\xff"),
			"read `sampling.top_p`: not a finite number" },
		{ KP_S_INIT(HEAD IDS "\x32\x03\x8a\x01\x80"),
			"read `sampling`: not valid protobuf" },
		{ KP_S_INIT(HEAD IDS "\x32\x04\x8a\x01\x01\x80"),
			"read `sampling.stop_ids`: not valid protobuf" },
		{ KP_S_INIT(HEAD IDS "\x32\x03\x90\x01\x05"),
			"read `sampling.bias`: 0 values for 1 ids" },
		{ KP_S_INIT(HEAD IDS "\x32\x06\x9d\x01\0\0\x80\x7f"),
			"read `sampling.bias`: not a finite number" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct kp_err err;
		assert_int_equal(decode_request(cases[i].bytes, &err), -1);
		assert_string_equal(err.msg, cases[i].msg);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
}

static void what_a_newer_gateway_asks_for_is_not_dropped(void **state)
{
	(void)state;
	struct kp_err err;
	/* A field that is not known is skipped, a bit that makes it count is not. */
	assert_int_equal(decode_request(KP_S(HEAD IDS "\x40\x01\x32\x03\xf8\x01\x01"), &err), 0);
	assert_int_equal(decode_request(KP_S(HEAD IDS "\x32\x03\x08\x81\x20"), &err), -1);
	assert_int_equal(err.code, KP_UNIMPLEMENTED);
	assert_string_equal(
		err.msg, "read `sampling.set`: bits 0x1000 are not known to this version");
	assert_int_equal(decode_request(KP_S(HEAD IDS "\x32\x03\x08\xff\x1f"), &err), 0);
}

/* Images count only with their bit, and the bit only with images. */
static void media_and_its_bit(void **state)
{
	(void)state;
	struct kp_err err;
	assert_int_equal(
		decode_request(KP_S(HEAD IDS "\x32\x06\x08\x80\x80\x80\x80\x08"), &err), -1);
	assert_string_equal(err.msg, "read `media`: missing");
	assert_int_equal(decode_request(KP_S(HEAD IDS "\x3a\x02\x08\x01"), &err), -1);
	assert_string_equal(err.msg, "read `media`: its bit of `sampling.set` is missing");
	assert_int_equal(
		decode_request(
			KP_S(HEAD IDS "\x32\x06\x08\x80\x80\x80\x80\x08\x3a\x02\x08\x01"), &err),
		-1);
	assert_string_equal(err.msg, "read `media`: no images");
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
}

/* What kind of numbers pixels are: floats unless it is said; their number is checked with it. */
static void media_and_its_type(void **state)
{
	(void)state;
	static const char hash[] =
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	for (uint32_t type = 0; type < 3; type++) {
		for (size_t n = 1; n <= 4; n += 3) {
			KP_AUTO(buf) struct kp_buf b;
			kp_buf_init(&b, 1 << 12);
			kp_buf_add(&b, KP_S(HEAD IDS "\x32\x06\x08\x80\x80\x80\x80\x08"));
			size_t media = kp_wire_begin(&b, 7);
			kp_wire_add_u64(&b, 1, 5); /* the token: the prompt is one of it */
			size_t image = kp_wire_begin(&b, 2);
			kp_wire_add_u64(&b, 2, 1);
			kp_wire_add_str(&b, 3, kp_str_c(hash));
			kp_wire_end(&b, image);
			kp_buf_add(&b, KP_S("\x1a\x04\x01\x01\x01\x01"));
			kp_wire_add_u64(&b, 5, type);
			kp_wire_add_str(&b, 4, kp_str_n("abcd", n));
			kp_wire_end(&b, media);
			struct kp_err err = KP_ERR_INIT;
			bool fits = n == (type == 1 ? 1 : 4);
			int rc = decode_request(kp_buf_str(&b), &err);
			if (type == 2) {
				assert_string_equal(err.msg,
					"read `media.type`: 2 is not known to this version");
				assert_int_equal(err.code, KP_UNIMPLEMENTED);
			} else if (!fits) {
				assert_string_equal(err.msg,
					"read `media`: pixels that do not fit their shape");
			}
			assert_int_equal(rc, type < 2 && fits ? 0 : -1);
		}
	}
}

/* `n` bytes of a list field, each an element of one byte. */
static void add_list(struct kp_buf *b, uint32_t number, size_t n)
{
	size_t at = kp_wire_begin(b, number);
	for (size_t i = 0; i < n; i++) {
		kp_buf_addc(b, 1);
	}
	kp_wire_end(b, at);
}

static void limits_of_a_request(void **state)
{
	(void)state;
	static const struct {
		size_t ids, stop, bias, string;
		const char *msg;
	} cases[] = {
		{ KP_PEER_MAX_PROMPT, KP_PEER_MAX_STOP, KP_PEER_MAX_BIAS, KP_PEER_MAX_STRING,
			NULL },
		{ KP_PEER_MAX_PROMPT + 1, 0, 0, 1,
			"read `ids`: more than 4194304 entries, or no memory for them" },
		{ 1, KP_PEER_MAX_STOP + 1, 0, 1,
			"read `sampling.stop_ids`: more than 1024 entries, or no memory for them" },
		{ 1, 0, KP_PEER_MAX_BIAS + 1, 1,
			"read `sampling.bias_ids`: more than 4096 entries, or no memory for them" },
		{ 1, 0, 0, KP_PEER_MAX_STRING + 1,
			"read `address`: 2049 bytes, at most 2048 allowed" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct kp_err err;
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, 32 << 20);
		kp_wire_add_str(&b, 1, KP_S("r"));
		kp_wire_add_str(&b, 2, KP_S("e"));
		add_list(&b, 3, cases[i].string);
		add_list(&b, 5, 4 * cases[i].ids);
		size_t at = kp_wire_begin(&b, 6);
		add_list(&b, 17, cases[i].stop);
		add_list(&b, 18, cases[i].bias);
		add_list(&b, 19, 4 * cases[i].bias);
		kp_wire_end(&b, at);
		assert_true(kp_buf_ok(&b));
		assert_int_equal(decode_request(kp_buf_str(&b), &err), cases[i].msg ? -1 : 0);
		if (cases[i].msg) {
			assert_string_equal(err.msg, cases[i].msg);
			assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
		}
	}
}

/* --- answers that are refused -------------------------------------------------------------------- */

static int decode_response(kp_str bytes, struct kp_engine_delta *d, struct kp_err *err)
{
	struct kp_peer_response_decoder decoder;
	*err = KP_ERR_INIT;
	kp_peer_response_decoder_init(&decoder);
	int rc = kp_peer_decode_response(&decoder, bytes, d, err);
	kp_peer_response_decoder_fini(&decoder);
	return rc;
}

static void wrong_answers_are_refused_by_the_fields_name(void **state)
{
	(void)state;
	static const struct {
		kp_str bytes;
		const char *msg;
	} cases[] = {
		{ KP_S_INIT("\x0a"), "read `GenerateResponse`: not valid protobuf" },
		{ KP_S_INIT("\x0a\x01\x80"), "read `ids`: not valid protobuf" },
		{ KP_S_INIT("\x10\x01"), "read `logprobs`: not valid protobuf" },
		{ KP_S_INIT("\x12\x01\x08"), "read `logprobs`: not valid protobuf" },
		{ KP_S_INIT("\x12\x05\x0d\0\0\0\0"), "read `logprobs.id`: not valid protobuf" },
		{ KP_S_INIT("\x12\x02\x10\x01"), "read `logprobs.logprob`: not valid protobuf" },
		{ KP_S_INIT("\x12\x05\x1d\0\0\0\0"),
			"read `logprobs.top_ids`: not valid protobuf" },
		{ KP_S_INIT("\x12\x03\x22\x01\0"),
			"read `logprobs.top_logprobs`: not valid protobuf" },
		{ KP_S_INIT("\x12\x03\x1a\x01\x05"),
			"read `logprobs.top_logprobs`: 0 values for 1 ids" },
		{ KP_S_INIT("\x12\x02\x2a\0"), "read `logprobs.is_absent`: not valid protobuf" },
		{ KP_S_INIT("\x0a\x02\x05\x06\x12\x02\x08\x05"), "read `logprobs`: 1 for 2 ids" },
		{ KP_S_INIT("\x12\x02\x08\x05"), "read `logprobs`: 1 for 0 ids" },
		{ KP_S_INIT("\x22\0"), "read `finish`: not valid protobuf" },
		{ KP_S_INIT("\x2a\0"), "read `has_matched_id`: not valid protobuf" },
		{ KP_S_INIT("\x32\0"), "read `matched_id`: not valid protobuf" },
		{ KP_S_INIT("\x3a\0"), "read `prompt_tokens`: not valid protobuf" },
		{ KP_S_INIT("\x42\0"), "read `cached_tokens`: not valid protobuf" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct kp_engine_delta d;
		struct kp_err err;
		assert_int_equal(decode_response(cases[i].bytes, &d, &err), -1);
		assert_string_equal(err.msg, cases[i].msg);
		assert_int_equal(err.code, KP_INTERNAL);
	}
}

static void an_end_that_is_not_known_is_a_stop(void **state)
{
	(void)state;
	struct kp_engine_delta d;
	struct kp_err err;
	assert_int_equal(decode_response(KP_S("\x20\x05"), &d, &err), 0);
	assert_int_equal(d.finish, KP_FINISH_STOP);
	assert_int_equal(decode_response(KP_S("\x20\x03"), &d, &err), 0);
	assert_int_equal(d.finish, KP_FINISH_ABORT);
	assert_int_equal(decode_response(KP_S(""), &d, &err), 0);
	assert_int_equal(d.finish, KP_FINISH_NONE);
}

static void limits_of_an_answer(void **state)
{
	(void)state;
	struct kp_engine_delta d;
	struct kp_err err;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, KP_PEER_MAX_MESSAGE);
	add_list(&b, 1, KP_PEER_MAX_IDS);
	assert_int_equal(decode_response(kp_buf_str(&b), &d, &err), 0);
	add_list(&b, 1, 1);
	assert_int_equal(decode_response(kp_buf_str(&b), &d, &err), -1);
	assert_string_equal(
		err.msg, "read `ids`: more than 1048576 entries, or no memory for them");
	assert_int_equal(err.code, KP_INTERNAL);
	kp_buf_reset(&b);
	for (size_t i = 0; i <= KP_PEER_MAX_IDS; i++) {
		kp_buf_lit(&b, "\x1a\0");
	}
	assert_int_equal(decode_response(kp_buf_str(&b), &d, &err), -1);
	assert_string_equal(
		err.msg, "read `logprobs`: more than 1048576 entries, or no memory for them");
	kp_buf_reset(&b);
	size_t at = kp_wire_begin(&b, 3);
	add_list(&b, 3, KP_PEER_MAX_TOPS + 1);
	kp_wire_end(&b, at);
	assert_int_equal(decode_response(kp_buf_str(&b), &d, &err), -1);
	assert_string_equal(err.msg,
		"read `logprobs.top_ids`: more than 4194304 entries, or no memory for them");
}

static void a_token_costs_no_allocation_and_a_huge_answer_is_forgotten(void **state)
{
	(void)state;
	struct kp_peer_response_decoder decoder;
	struct kp_engine_delta d;
	struct kp_err err;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	kp_peer_response_decoder_init(&decoder);
	add_list(&b, 1, 100);
	assert_int_equal(kp_peer_decode_response(&decoder, kp_buf_str(&b), &d, &err), 0);
	const kp_id *first = d.ids;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(
			kp_peer_decode_response(&decoder, KP_S("\x0a\x01\x07"), &d, &err), 0);
		assert_ptr_equal(d.ids, first);
	}
	add_list(&b, 1, 200000);
	assert_int_equal(kp_peer_decode_response(&decoder, kp_buf_str(&b), &d, &err), 0);
	assert_true(decoder.ids.cap >= 200000);
	assert_int_equal(kp_peer_decode_response(&decoder, KP_S("\x0a\x01\x07"), &d, &err), 0);
	assert_true(decoder.ids.cap < 1000);
	kp_peer_response_decoder_fini(&decoder);
}

/* --- Describe, GetTokenizer ---------------------------------------------------------------------- */

static void a_description_needs_a_state_and_has_at_most_16_ends(void **state)
{
	(void)state;
	struct kp_peer_description d;
	struct kp_err err;
	assert_int_equal(kp_peer_decode_description(KP_S("\x22\x01m"), &d, &err), -1);
	assert_string_equal(err.msg, "read `state`: missing");
	assert_int_equal(err.code, KP_INTERNAL);
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1000);
	kp_buf_lit(&b, "\x0a\x01s");
	add_list(&b, 11, 16);
	assert_int_equal(kp_peer_decode_description(kp_buf_str(&b), &d, &err), 0);
	assert_int_equal(d.info.n_eos, 16);
	add_list(&b, 11, 1);
	assert_int_equal(kp_peer_decode_description(kp_buf_str(&b), &d, &err), -1);
	assert_string_equal(err.msg, "read `eos`: more than 16 entries, or no memory for them");
	assert_int_equal(kp_peer_decode_description(KP_S("\x0a\x01s\x7a\x01\x08"), &d, &err), -1);
	assert_string_equal(err.msg, "read `defaults`: not valid protobuf");
}

static void a_name_longer_than_the_reader_takes_is_cut_between_characters(void **state)
{
	(void)state;
	char model[KP_PEER_MAX_STRING + 2];
	memset(model, 'm', sizeof(model));
	memcpy(model + KP_PEER_MAX_STRING - 1, "\xc3\xa9", 2);
	struct kp_peer_description d = { .state = KP_S("routable"),
		.info = { .model = { model, sizeof(model) } } };
	struct kp_err err;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 10000);
	kp_peer_encode_description(&b, &d);
	assert_int_equal(kp_peer_decode_description(kp_buf_str(&b), &d, &err), 0);
	assert_str(d.info.model, kp_str_n(model, KP_PEER_MAX_STRING - 1));
}

static void endpoints_and_chunks(void **state)
{
	(void)state;
	struct kp_peer_endpoint e = { KP_S("default/demo"), KP_S("h:1") };
	struct kp_err err;
	kp_str data;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1000);
	kp_peer_encode_endpoint(&b, &e);
	assert_str(kp_buf_str(&b), KP_S("\x0a\x0c"
					"default/demo\x12\x03"
					"h:1"));
	assert_int_equal(kp_peer_decode_endpoint(kp_buf_str(&b), &e, &err), 0);
	assert_str_lit(e.address, "h:1");
	assert_int_equal(kp_peer_decode_endpoint(KP_S("\x12\x01"
						      "a"),
				 &e, &err),
		-1);
	assert_string_equal(err.msg, "read `engine`: missing");
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	assert_int_equal(kp_peer_decode_endpoint(KP_S("\x0a\x01"
						      "e"),
				 &e, &err),
		-1);
	assert_string_equal(err.msg, "read `address`: missing");
	kp_buf_reset(&b);
	kp_peer_encode_chunk(&b, KP_S("PK\0"));
	assert_int_equal(kp_peer_decode_chunk(kp_buf_str(&b), &data, &err), 0);
	assert_str(data, KP_S("PK\0"));
	assert_int_equal(kp_peer_decode_chunk(KP_S("\x08\x01"), &data, &err), -1);
	assert_string_equal(err.msg, "read `data`: not valid protobuf");
	assert_int_equal(kp_peer_decode_chunk(KP_S(""), &data, &err), 0);
	assert_int_equal(data.n, 0);
}

/* --- trailers ------------------------------------------------------------------------------------ */

static void reasons(void **state)
{
	(void)state;
	static const char *const known[] = { "draining", "not_owner", "down", "stale_tokenizer",
		"overloaded", "unsupported" };
	for (size_t i = 0; i < KP_LEN(known); i++) {
		assert_string_equal(kp_peer_reason(kp_str_c(known[i])), known[i]);
	}
	assert_string_equal(kp_peer_reason(KP_S("on_holiday")), "refused");
	assert_null(kp_peer_reason(KP_S("")));
	assert_null(kp_peer_reason(KP_STR_NULL));
}

static void loads_as_text(void **state)
{
	(void)state;
	const struct kp_engine_loads l = {
		.in_flight = 3, .running = 2, .waiting = UINT32_MAX, .kv_usage = 0.125f
	};
	char buf[KP_PEER_LOAD_MAX];
	struct kp_engine_loads got;
	struct kp_err err;
	kp_str text = kp_peer_write_load(&l, buf);
	assert_str_lit(text, "in_flight=3 running=2 waiting=4294967295 kv=0.125");
	assert_int_equal(kp_peer_parse_load(text, &got, &err), 0);
	assert_memory_equal(&got, &l, sizeof(l));
	assert_int_equal(kp_peer_parse_load(KP_S("queue=many running=5 kv=7"), &got, &err), 0);
	assert_true(got.running == 5 && got.in_flight == 0 && got.kv_usage == 1.0f);
	assert_int_equal(kp_peer_parse_load(KP_STR_NULL, &got, &err), 0);
	static const char *const bad[] = { "running", "running=", "running=-1", "running=1.5", "=1",
		"", "running=1  waiting=2", "running=4294967296", "kv=nan", "kv=-1",
		"in_flight=0x1" };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		assert_int_equal(kp_peer_parse_load(kp_str_c(bad[i]), &got, &err), -1);
		assert_int_equal(err.code, KP_INTERNAL);
		assert_true(kp_str_has(kp_str_c(err.msg), KP_S("read `kelpie-load`")));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_has_the_bytes_of_the_format),
		cmocka_unit_test(an_answer_has_the_bytes_of_the_format),
		cmocka_unit_test(an_answer_with_more_than_one_sequence_is_not_forwarded),
		cmocka_unit_test(a_request_beyond_the_buffers_maximum_is_an_error),
		cmocka_unit_test(wrong_requests_are_refused_by_the_fields_name),
		cmocka_unit_test(what_a_newer_gateway_asks_for_is_not_dropped),
		cmocka_unit_test(media_and_its_bit),
		cmocka_unit_test(media_and_its_type),
		cmocka_unit_test(limits_of_a_request),
		cmocka_unit_test(wrong_answers_are_refused_by_the_fields_name),
		cmocka_unit_test(an_end_that_is_not_known_is_a_stop),
		cmocka_unit_test(limits_of_an_answer),
		cmocka_unit_test(a_token_costs_no_allocation_and_a_huge_answer_is_forgotten),
		cmocka_unit_test(a_description_needs_a_state_and_has_at_most_16_ends),
		cmocka_unit_test(a_name_longer_than_the_reader_takes_is_cut_between_characters),
		cmocka_unit_test(endpoints_and_chunks),
		cmocka_unit_test(reasons),
		cmocka_unit_test(loads_as_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
