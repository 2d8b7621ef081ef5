/* kp_vision: what is read of a model's files, and places of images that become as long as the images are. */
#include "prompt/vision.h"

#include "tests/unit/prompt/tiny.h"

static struct kp_tokenizer *tokenizer;

static int setup(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	char dir[32];
	make_directory(dir);
	write_tokenizer(dir, "");
	int r = kp_tokenizer_from_path(dir, &tokenizer, &err);
	remove_directory(
		dir, (const char *const[]){ "tokenizer.json", "tokenizer_config.json", NULL });
	return r;
}

static int teardown(void **state)
{
	(void)state;
	kp_tokenizer_unref(tokenizer);
	return 0;
}

static void refused(void **state)
{
	(void)state;
	static const struct {
		const char *type, *preprocessor, *processor, *words;
	} cases[] = {
		{ "", "", "", "has no preprocessor_config.json" },
		{ "qwen3", "", "", "has no preprocessor_config.json" },
		{ "", "{}", "", "has no model_type" },
		{ "internvl", "{}", "", "is of model_type `internvl`" },
		{ "qwen2_vl", "", "", "has no preprocessor_config.json" },
		{ "qwen2_vl", "{", "", "preprocessor_config.json" },
		{ "qwen2_vl", "{}", "", "image_processor_type" },
		{ "qwen2_vl", "{\"image_processor_type\":\"CLIPImageProcessor\"}", "",
			"not processed as" },
		{ "qwen2_vl", "{\"image_processor_type\":\"Qwen2VLImageProcessor\"}", "",
			"has no token `<|image_pad|>`" },
		{ "llava", "",
			"{\"image_processor\":{\"image_processor_type\":\"CLIPImageProcessor\"}}",
			"has no token `<image>`" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		const struct kp_model_files files = { .model_type = kp_str_c(cases[i].type),
			.preprocessor = kp_str_c(cases[i].preprocessor),
			.processor = kp_str_c(cases[i].processor) };
		struct kp_vision v;
		struct kp_err err = KP_ERR_INIT;
		assert_int_equal(kp_vision_read(&files, tokenizer, &v, &err), -1);
		if (!strstr(err.msg, cases[i].words)) {
			fail_msg("%zu: %s", i, err.msg);
		}
	}
}

/* Each place in turn becomes as long as its image, in one array. */
static void expand(void **state)
{
	(void)state;
	const struct kp_vision v = { .token = 7 };
	static const kp_id before[] = { 7, 1, 7, 7, 2 }, after[] = { 7, 7, 7, 1, 7, 7, 7, 7, 7, 2 };
	struct kp_media_span spans[3] = { { 0, 3 }, { 0, 1 }, { 0, 4 } };
	struct kp_err err = KP_ERR_INIT;
	struct kp_ids ids;
	kp_ids_init(&ids, KP_LEN(after));
	for (size_t i = 0; i < KP_LEN(before); i++) {
		kp_ids_add(&ids, before[i]);
	}
	assert_int_equal(kp_vision_expand(&v, &ids, spans, 2, &err), -1);
	assert_string_equal(
		err.msg, "the prompt has 3 places for images, and the messages have 2 images");
	spans[2].length = 5;
	assert_int_equal(kp_vision_expand(&v, &ids, spans, 3, &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	assert_int_equal(ids.n, KP_LEN(before));
	spans[2].length = 4;
	assert_int_equal(kp_vision_expand(&v, &ids, spans, 3, &err), 0);
	assert_int_equal(ids.n, KP_LEN(after));
	assert_memory_equal(ids.p, after, sizeof(after));
	assert_int_equal(spans[0].offset, 0);
	assert_int_equal(spans[1].offset, 4);
	assert_int_equal(spans[2].offset, 5);
	kp_ids_fini(&ids);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(refused), cmocka_unit_test(expand) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
