/* Which template a model gets: by what its files say, by its tokenizer, by what is asked for; and templates with names. */
#include "prompt/text_stack.h"

#include "tests/unit/prompt/tiny.h"

#include <sys/stat.h>

static const char own[] = "own {{ messages[0].content }}";

/* The stack of the tiny tokenizer with one more file, or an error. */
static int load(const char *chat_template, const char *file, const char *content, const char *want,
	struct kp_text_stack **ret, struct kp_err *err)
{
	const char *names[4] = { "tokenizer.json", "tokenizer_config.json", file, NULL };
	const struct kp_text_options opts = { .chat_template = kp_str_c(want) };
	char dir[32];
	make_directory(dir);
	write_tokenizer(dir, chat_template);
	if (file) {
		write_file(dir, file, kp_str_c(content));
	}
	int r = kp_text_stack_from_path(dir, &opts, ret, err);
	remove_directory(dir, names);
	return r;
}

static void check(const char *file, const char *content, const char *want, const char *described)
{
	KP_AUTO(text_stack) struct kp_text_stack *s = NULL;
	KP_AUTO(buf) struct kp_buf out;
	struct kp_err err = KP_ERR_INIT;
	kp_buf_init(&out, 1000);
	if (load(own, file, content, want, &s, &err)) {
		fail_msg("%s", err.msg);
	}
	kp_text_stack_describe(s, &out);
	assert_str(kp_buf_str(&out), kp_str_c(described));
}

#define ARCHITECTURE(name) "{\"architectures\":[\"" name "\"],\"x\":1}"
static void test_by_config_json(void **state)
{
	(void)state;
	check(NULL, NULL, "", "the model's own");
	check("config.json", ARCHITECTURE("LlamaForCausalLM"), "", "the model's own");
	check("config.json", ARCHITECTURE("DeepseekV32ForCausalLM"), "",
		"deepseek_v32 (architecture `DeepseekV32ForCausalLM`)");
	check("config.json", ARCHITECTURE("DeepseekV4ForConditionalGeneration"), "Auto",
		"deepseek_v4 (architecture `DeepseekV4ForConditionalGeneration`)");
	check("config.json", "{\"model_type\":\"gpt_oss\"}", "", "harmony (model type `gpt_oss`)");
	/* What stands before something that is no JSON counts. */
	check("config.json", "{\"architectures\":[\"GptOssForCausalLM\"],\"limit\":[0.0,Infinity]}",
		"", "harmony (architecture `GptOssForCausalLM`)");
	check("config.json", "{\"architectures\":5,\"model_type\":[]}", "", "the model's own");
	check("config.json", "not JSON", "", "the model's own");
	/* tekken.json counts where it is the tokenizer. */
	check("tekken.json", "{\"config\":{\"version\":\"v7\"}}", "", "the model's own");
}

static void test_what_is_asked_for_wins(void **state)
{
	(void)state;
	struct kp_text_stack *s = NULL;
	struct kp_err err = KP_ERR_INIT;
	check("config.json", ARCHITECTURE("DeepseekV32ForCausalLM"), "Own", "the model's own");
	check("config.json", ARCHITECTURE("DeepseekV32ForCausalLM"), "harmony",
		"harmony (asked for)");
	assert_int_equal(load(own, NULL, NULL, "nosuch", &s, &err), -1);
	assert_string_equal(err.msg, "chat template `nosuch`: there is none of that name");
	assert_null(s);
}

/* Its control tokens would be text, and the model would not know what it reads. */
static void test_one_that_does_not_suit_the_tokenizer(void **state)
{
	(void)state;
	struct kp_text_stack *s = NULL;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(load(own, NULL, NULL, "mistral_v13", &s, &err), -1);
	assert_int_equal(err.code, KP_FAILED_PRECONDITION);
	assert_string_equal(err.msg,
		"chat template `mistral_v13` does not suit the tokenizer, which lacks `<s>`, `</s>`, `[INST]`, `[/INST]`, `[SYSTEM_PROMPT]`, `[/SYSTEM_PROMPT]`");
	assert_null(s);
}

static void put_u32(struct kp_buf *b, uint32_t v)
{
	for (int i = 0; i < 4; i++) {
		kp_buf_addc(b, (char)(v >> 8 * i));
	}
}

/* From the version on, the fields that both headers of a stored entry have. */
static void put_fields(struct kp_buf *b, uint32_t crc, size_t n, size_t n_name)
{
	kp_buf_add(b, KP_S("\x14\0\0\0\0\0\0\0\0\0"));
	put_u32(b, crc);
	put_u32(b, (uint32_t)n);
	put_u32(b, (uint32_t)n);
	put_u32(b, (uint32_t)n_name);
}

/* What is read here of an engine's archive leaves the tokenizer's own file alone, which may be large: here it could not even be unpacked. */
static void test_an_archive_is_not_unpacked_for_its_small_files(void **state)
{
	static const struct {
		const char *name, *text;
		uint32_t crc;
	} entry[] = { { "tokenizer.json", "not what it was", 1 },
		{ "config.json", "{\"architectures\":[\"X\"]}", 0x1d03ec39 } };
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	KP_AUTO(buf) struct kp_buf zip;
	KP_AUTO(buf) struct kp_buf directory;
	struct kp_model_files files;
	(void)state;
	kp_buf_init(&zip, 10000);
	kp_buf_init(&directory, 10000);
	for (size_t i = 0; i < KP_LEN(entry); i++) {
		kp_str name = kp_str_c(entry[i].name), text = kp_str_c(entry[i].text);
		kp_buf_lit(&directory, "PK\1\2\x14");
		kp_buf_addc(&directory, 0);
		put_fields(&directory, entry[i].crc, text.n, name.n);
		put_u32(&directory, 0); /* comment, disk */
		put_u32(&directory, 0); /* attributes */
		kp_buf_add(&directory, KP_S("\0\0"));
		put_u32(&directory, (uint32_t)zip.n);
		kp_buf_add(&directory, name);
		kp_buf_lit(&zip, "PK\3\4");
		put_fields(&zip, entry[i].crc, text.n, name.n);
		kp_buf_add(&zip, name);
		kp_buf_add(&zip, text);
	}
	uint32_t at = (uint32_t)zip.n;
	kp_buf_add(&zip, kp_buf_str(&directory));
	kp_buf_add(&zip, KP_S("PK\5\6\0\0\0\0\2\0\2\0"));
	put_u32(&zip, (uint32_t)directory.n);
	put_u32(&zip, at);
	kp_buf_add(&zip, KP_S("\0\0"));
	kp_model_files_from_zip(kp_buf_str(&zip), a, &files);
	assert_str_lit(files.architecture, "X");
}

/* TP-13: what does not compile is no model, whatever else there would be. */
static void test_tp13_no_fall_back(void **state)
{
	(void)state;
	struct kp_text_stack *s = NULL;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(load("a\n{{ x | nosuch }}", NULL, NULL, "", &s, &err), -1);
	assert_string_equal(
		err.msg, "chat template: compile template: line 2: no filter named `nosuch`");
	assert_null(s);
}

static kp_str render(
	const struct kp_text_stack *s, struct kp_arena *a, const char *tools, const char *name)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_turn t = { .arena = a, .kind = KP_TURN_CHAT, .model = KP_S("m") };
	struct kp_text text;
	assert_int_equal(kp_jv_parse(KP_S("[{\"role\":\"user\",\"content\":\"x\"}]"), a,
				 &t.chat.messages, &err),
		0);
	if (tools) {
		assert_int_equal(kp_jv_parse(kp_str_c(tools), a, &t.chat.tools, &err), 0);
	}
	t.chat.template_source = name ? kp_str_c(name) : KP_STR_NULL;
	return kp_text_stack_render(s, &t, 0, &text, &err)
		       ? kp_arena_printf(a, "error: %s", err.msg)
		       : text.s;
}

#define TOOLS "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"
static void check_named(const struct kp_text_stack *s, const char *described)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 1000);
	kp_text_stack_describe(s, &out);
	assert_str(kp_buf_str(&out), kp_str_c(described));
	assert_true(kp_text_stack_has(s, KP_S("rag")) && kp_text_stack_has(s, KP_S("default")));
	assert_false(kp_text_stack_has(s, KP_S("nosuch")));
	assert_str_lit(render(s, a, NULL, NULL), "own x");
	assert_str_lit(render(s, a, TOOLS, NULL), "tool x f");
	assert_str_lit(render(s, a, TOOLS, "default"), "own x");
	assert_str_lit(render(s, a, TOOLS, "rag"), "rag x");
}

static const char tool_use[] = "tool {{ messages[0].content }} {{ tools[0].function.name }}",
		  rag[] = "rag {{ messages[0].content }}";

static void test_named_templates_in_the_configuration(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf config;
	KP_AUTO(text_stack) struct kp_text_stack *s = NULL;
	struct kp_err err = KP_ERR_INIT;
	char dir[32];
	kp_buf_init(&config, 4096);
	kp_buf_printf(&config,
		"{\"bos_token\":\"<b>\",\"chat_template\":[{\"name\":\"default\",\"template\":\"%s\"},{\"name\":\"tool_use\",\"template\":\"%s\"},"
		"{\"name\":\"rag\",\"template\":\"%s\"}]}",
		own, tool_use, rag);
	make_directory(dir);
	write_tokenizer(dir, own);
	write_file(dir, "tokenizer_config.json", kp_buf_str(&config));
	assert_int_equal(kp_text_stack_from_path(dir, &(struct kp_text_options){ 0 }, &s, &err), 0);
	remove_directory(
		dir, (const char *const[]){ "tokenizer.json", "tokenizer_config.json", NULL });
	check_named(s, "the model's own; named: tool_use, rag");
}

static void test_named_templates_as_files(void **state)
{
	(void)state;
	KP_AUTO(text_stack) struct kp_text_stack *s = NULL, *without = NULL;
	struct kp_err err = KP_ERR_INIT;
	char dir[32], folder[64];
	make_directory(dir);
	write_tokenizer(dir, "from the configuration");
	write_file(dir, "chat_template.jinja", kp_str_c(own));
	assert_int_equal(
		kp_text_stack_from_path(dir, &(struct kp_text_options){ 0 }, &without, &err), 0);
	snprintf(folder, sizeof(folder), "%s/additional_chat_templates", dir);
	assert_int_equal(mkdir(folder, 0700), 0);
	write_file(folder, "tool_use.jinja", kp_str_c(tool_use));
	write_file(folder, "rag.jinja", kp_str_c(rag));
	write_file(folder, "README", KP_S("{{ ( }}"));
	assert_int_equal(kp_text_stack_from_path(dir, &(struct kp_text_options){ 0 }, &s, &err), 0);
	remove_directory(dir,
		(const char *const[]){ "additional_chat_templates/tool_use.jinja",
			"additional_chat_templates/rag.jinja", "additional_chat_templates/README",
			"additional_chat_templates", "chat_template.jinja", "tokenizer.json",
			"tokenizer_config.json", NULL });
	assert_true(s->fingerprint != without->fingerprint);
	check_named(s, kp_str_eq(s->named[0].name, KP_S("rag"))
			       ? "the model's own; named: rag, tool_use"
			       : "the model's own; named: tool_use, rag");
}

/* The policies, on a control token in a user's text. */
static void test_text_policies(void **state)
{
	(void)state;
	static const size_t n_ids[] = { [KP_POLICY_MARKERS] = 8 + 4 + 3,
		[KP_POLICY_PLAIN] = 8 + 4 + 3,
		[KP_POLICY_TRUSTED] = 1 + 4 + 3 };
	uint64_t seen[3];
	for (unsigned i = 0; i < 3; i++) {
		KP_AUTO(text_stack) struct kp_text_stack *s = NULL;
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
		struct kp_token_scratch *scratch = kp_token_scratch_create(1 << 16);
		const struct kp_text_options opts = { .policy = (enum kp_text_policy)i };
		struct kp_err err = KP_ERR_INIT;
		struct kp_turn t = { .arena = a, .kind = KP_TURN_CHAT };
		struct kp_text text;
		struct kp_ids ids;
		char dir[32];
		kp_ids_init(&ids, 100);
		make_directory(dir);
		write_tokenizer(dir, own);
		assert_int_equal(kp_text_stack_from_path(dir, &opts, &s, &err), 0);
		remove_directory(dir,
			(const char *const[]){ "tokenizer.json", "tokenizer_config.json", NULL });
		assert_int_equal(
			kp_jv_parse(KP_S("[{\"role\":\"user\",\"content\":\"<|turn|>abc\"}]"), a,
				&t.chat.messages, &err),
			0);
		assert_int_equal(kp_text_stack_render(s, &t, 0, &text, &err), 0);
		const struct kp_encode_opts encode = { .policy = s->policy };
		assert_int_equal(
			kp_tokenizer_encode(s->tokenizer, scratch, &text, &encode, &ids, &err), 0);
		assert_int_equal(ids.n, n_ids[i]);
		seen[i] = s->fingerprint;
		kp_ids_fini(&ids);
		kp_token_scratch_destroy(scratch);
	}
	assert_true(seen[0] != seen[1] && seen[1] != seen[2] && seen[0] != seen[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_config_json),
		cmocka_unit_test(test_what_is_asked_for_wins),
		cmocka_unit_test(test_one_that_does_not_suit_the_tokenizer),
		cmocka_unit_test(test_an_archive_is_not_unpacked_for_its_small_files),
		cmocka_unit_test(test_tp13_no_fall_back),
		cmocka_unit_test(test_named_templates_in_the_configuration),
		cmocka_unit_test(test_named_templates_as_files),
		cmocka_unit_test(test_text_policies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
