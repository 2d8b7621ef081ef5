/* A tokenizer of 268 tokens as files of a directory, for tests of what is made of it. */
#ifndef KP_TESTS_PROMPT_TINY_H
#define KP_TESTS_PROMPT_TINY_H

#include "base/fs.h"
#include "tests/test.h"
#include "tests/unit/token/made.h"

KP_UNUSED static void write_file(const char *dir, const char *name, kp_str text)
{
	struct kp_err err = KP_ERR_INIT;
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(kp_fs_write_atomic(path, text, 0600, &err), 0);
}

/* A tokenizer of single bytes, <b>, <|turn|>, <|end|>, what DeepSeek's and OpenAI's templates cannot do without, and Mistral's marker of calls. */
KP_UNUSED static void write_tokenizer(const char *dir, const char *chat_template)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	kp_buf_addz(&b, "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
	for (unsigned c = 0; c < 256; c++) {
		KP_AUTO(buf) struct kp_buf one;
		kp_buf_init(&one, 16);
		made_byte(&one, c);
		kp_buf_addz(&b, c ? "," : "");
		kp_json_w_str(&b, kp_buf_str(&one));
		kp_buf_printf(&b, ":%u", c);
	}
	kp_buf_addz(&b, "}},\"pre_tokenizer\":");
	kp_buf_addz(&b, made_pretoks[0]);
	kp_buf_addz(&b, ",\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[");
	const char *const added[] = { "<b>", "<|turn|>", "<|end|>", "<｜begin▁of▁sentence｜>",
		"<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<|start|>",
		"<|channel|>", "<|message|>", "<|call|>", "[TOOL_CALLS]" };
	for (unsigned i = 0; i < KP_LEN(added); i++) {
		kp_buf_printf(&b,
			"%s{\"id\":%u,\"content\":\"%s\",\"special\":true,\"single_word\":false,"
			"\"lstrip\":false,\"rstrip\":false,\"normalized\":false}",
			i ? "," : "", 256 + i, added[i]);
	}
	kp_buf_addz(&b, "]}");
	assert_true(kp_buf_ok(&b));
	write_file(dir, "tokenizer.json", kp_buf_str(&b));
	kp_buf_reset(&b);
	kp_buf_addz(&b, "{\"bos_token\":\"<b>\",\"eos_token\":\"<|end|>\",\"chat_template\":");
	if (chat_template) {
		kp_json_w_str(&b, kp_str_c(chat_template));
	} else {
		kp_buf_addz(&b, "null");
	}
	kp_buf_addz(&b, "}");
	write_file(dir, "tokenizer_config.json", kp_buf_str(&b));
}

/* A new directory under /tmp; its name has 16 bytes. */
KP_UNUSED static void make_directory(char dir[32])
{
	snprintf(dir, 32, "/tmp/kp-tiny-XXXXXX");
	assert_non_null(mkdtemp(dir));
}

/* Files and folders in it are taken out, then itself; names end with NULL. */
KP_UNUSED static void remove_directory(const char *dir, const char *const *names)
{
	char path[128];
	for (; *names; names++) {
		snprintf(path, sizeof(path), "%s/%s", dir, *names);
		assert_int_equal(remove(path), 0);
	}
	assert_int_equal(rmdir(dir), 0);
}

#endif
