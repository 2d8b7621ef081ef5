/* Tokenizers that make every character expensive: an error in bounded time, and the next text is none the worse. */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/test.h"
#include "token/effort.h"
#include "token/tokenizer.h"

enum { TEXT = 12000, LONG_TEXT = 100000, PIECE = 9000 };

static void many(struct kp_buf *b, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		kp_buf_addz(b, s);
	}
}

/* A tokenizer.json: what stands before its model, and the model. */
static struct kp_tokenizer *load(struct kp_buf *json)
{
	struct kp_tokenizer *t = NULL;
	struct kp_err err = KP_ERR_INIT;
	assert_true(kp_buf_ok(json));
	if (kp_tokenizer_from_hf(kp_buf_str(json), KP_STR_NULL, &t, &err)) {
		fail_msg("%s", err.msg);
	}
	return t;
}

/* n bytes of `what` end in an error, soon; the short text does not. */
static void check_long(struct kp_buf *json, const char *what, size_t n, const char *message)
{
	KP_AUTO(tokenizer) struct kp_tokenizer *t = load(json);
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 1 << 20);
	many(&text, what, n / strlen(what));
	struct kp_text whole = kp_text_trusted(kp_buf_str(&text)),
		       brief = kp_text_trusted(kp_str_c(what));
	struct kp_effort effort;
	kp_effort_begin(&effort, text.n);
	const struct kp_encode_opts opts = { .add_special = false };
	struct kp_err err = KP_ERR_INIT;
	struct kp_ids ids;
	kp_ids_init(&ids, SIZE_MAX / 16);
	int64_t begin = kp_cpu_ns();
	assert_int_equal(kp_tokenizer_encode(t, s, &whole, &opts, &ids, &err), -1);
	int64_t took = kp_cpu_ns() - begin;
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, message));
	/* 23 ms, or for the long text 155; or five times that. */
	assert_non_null(strstr(err.msg, ": the text takes more than "));
	assert_in_range(took, effort.limit_ns / 2, effort.limit_ns * 2);
	kp_ids_reset(&ids);
	assert_int_equal(kp_tokenizer_encode(t, s, &brief, &opts, &ids, &err), 0);
	assert_int_not_equal(ids.n, 0);
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(s);
}

static void check(struct kp_buf *json, const char *what, const char *message)
{
	check_long(json, what, TEXT, message);
}

static void begin(struct kp_buf *b, const char *s)
{
	kp_buf_init(b, 64 << 20);
	kp_buf_addz(b, s);
}

static void a_piece_that_is_almost_everywhere(void **state)
{
	KP_AUTO(buf) struct kp_buf b;
	(void)state;
	begin(&b,
		"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"");
	many(&b, "a", PIECE);
	kp_buf_addz(&b, "b\",-2]]}}");
	check(&b, "a", "encode text: tokenizer `hf:unigram`: ");
}

static void words_of_any_length(void **state)
{
	KP_AUTO(buf) struct kp_buf b;
	(void)state;
	begin(&b,
		"{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"continuing_subword_prefix\":\"#\","
		"\"max_input_chars_per_word\":1000000,\"vocab\":{\"u\":0,\"a\":1,\"#a\":2,\"#");
	many(&b, "a", PIECE);
	kp_buf_addz(&b, "b\":3}}}");
	check(&b, "a", "encode text: tokenizer `hf:wordpiece`: ");
}

#define BYTES_MODEL "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0,\"b\":1}}}"

static void an_added_token_that_is_almost_everywhere(void **state)
{
	KP_AUTO(buf) struct kp_buf b;
	(void)state;
	begin(&b,
		"{\"added_tokens\":[{\"id\":2,\"special\":true,\"single_word\":false,\"lstrip\":false,"
		"\"rstrip\":false,\"normalized\":false,\"content\":\"");
	many(&b, "a", PIECE);
	kp_buf_addz(&b, "b\"}]," BYTES_MODEL);
	check(&b, "a", "encode text: tokenizer `hf:bpe`: ");
}

/* Each takes the white space up to the text's end, which is looked at once. */
static void an_added_token_that_takes_white_space(void **state)
{
	KP_AUTO(buf) struct kp_buf b, text;
	(void)state;
	begin(&b,
		"{\"added_tokens\":[{\"id\":2,\"special\":true,\"single_word\":false,\"lstrip\":true,"
		"\"rstrip\":true,\"normalized\":false,\"content\":\" \"}]," BYTES_MODEL);
	KP_AUTO(tokenizer) struct kp_tokenizer *t = load(&b);
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	kp_buf_init(&text, 1 << 20);
	many(&text, " ", LONG_TEXT);
	struct kp_text whole = kp_text_trusted(kp_buf_str(&text));
	const struct kp_encode_opts opts = { .add_special = false };
	struct kp_err err = KP_ERR_INIT;
	struct kp_ids ids;
	kp_ids_init(&ids, SIZE_MAX / 16);
	assert_int_equal(kp_tokenizer_encode(t, s, &whole, &opts, &ids, &err), 0);
	assert_int_equal(ids.n, 1);
	assert_int_equal(ids.p[0], 2);
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(s);
}

/* Each reads all of the text, in vain. */
#define LOOK(c) "a(?=[^" c "]*" c ")|"
#define AHEAD     \
	LOOK("c") \
	LOOK("d") \
	LOOK("e") \
	LOOK("f") \
	LOOK("g") \
	LOOK("h") \
	LOOK("i") \
	LOOK("j") LOOK("k") LOOK("l") LOOK("m") LOOK("n") LOOK("o") LOOK("p") LOOK("q") LOOK("r")

static void a_pattern_that_looks_far_ahead(void **state)
{
	KP_AUTO(buf) struct kp_buf b;
	(void)state;
	begin(&b, "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" AHEAD "a\"},"
		  "\"behavior\":\"Isolated\",\"invert\":false}," BYTES_MODEL);
	check(&b, "ab", "encode text: tokenizer `hf:bpe`: ");
}

static void a_replacement_that_looks_far_ahead(void **state)
{
	KP_AUTO(buf) struct kp_buf b;
	(void)state;
	begin(&b, "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"" AHEAD "a\"},"
		  "\"content\":\"b\"}," BYTES_MODEL);
	check(&b, "ab", "encode text: tokenizer `hf:bpe`: ");
}

/* One search that reads all of a text at each place, in vain: where nothing matches, and before what does. */
static void a_search_that_looks_far_ahead(void **state)
{
	static const char *const patterns[] = { "(?=[^x]*x)a|b", "a(?=[^x]*x)",
		"(?<=a)(?=[^x]*x)" };
	(void)state;
	for (size_t i = 0; i < KP_LEN(patterns); i++) {
		KP_AUTO(buf) struct kp_buf b;
		begin(&b, "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"");
		kp_buf_printf(&b, "%s\"},\"behavior\":\"Isolated\",\"invert\":false}," BYTES_MODEL,
			patterns[i]);
		check_long(&b, "a", LONG_TEXT, "encode text: tokenizer `hf:bpe`: ");
	}
}

/* Thousands of added tokens that begin alike cost no more than one. */
static void added_tokens_that_begin_alike(void **state)
{
	KP_AUTO(buf) struct kp_buf b, text;
	(void)state;
	begin(&b, "{\"added_tokens\":[");
	kp_buf_init(&text, 1 << 20);
	for (unsigned i = 0; i < 5000; i++) {
		kp_buf_printf(&b,
			"%s{\"id\":%u,\"special\":true,\"single_word\":false,\"lstrip\":false,"
			"\"rstrip\":false,\"normalized\":false,\"content\":\"",
			i ? "," : "", 2 + i);
		many(&b, "a", 100);
		kp_buf_printf(&b, "%u\"}", i);
	}
	kp_buf_addz(&b, "]," BYTES_MODEL);
	KP_AUTO(tokenizer) struct kp_tokenizer *t = load(&b);
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	many(&text, "a", TEXT);
	kp_buf_addz(&text, "4999");
	struct kp_text whole = kp_text_trusted(kp_buf_str(&text));
	struct kp_err err = KP_ERR_INIT;
	struct kp_ids ids;
	kp_ids_init(&ids, SIZE_MAX / 16);
	assert_int_equal(
		kp_tokenizer_encode(t, s, &whole, &(struct kp_encode_opts){ 0 }, &ids, &err), 0);
	assert_int_equal(ids.n, TEXT - 100 + 1);
	assert_int_equal(ids.p[ids.n - 1], 2 + 4999);
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_piece_that_is_almost_everywhere),
		cmocka_unit_test(words_of_any_length),
		cmocka_unit_test(an_added_token_that_is_almost_everywhere),
		cmocka_unit_test(an_added_token_that_takes_white_space),
		cmocka_unit_test(a_pattern_that_looks_far_ahead),
		cmocka_unit_test(a_replacement_that_looks_far_ahead),
		cmocka_unit_test(a_search_that_looks_far_ahead),
		cmocka_unit_test(added_tokens_that_begin_alike),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
