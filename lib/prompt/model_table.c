/* DESIGN: architecture first, then what only one family's tokenizer has. A name is no evidence. */
#include "prompt/model_table.h"

#include "template/native.h"

#include <stdio.h>

/* Where vLLM, too, renders by code whatever template the model has. GGUF files have names of their own. */
static const struct {
	const char *architecture, *native;
} by_architecture[] = {
	{ "DeepseekV32ForCausalLM", "deepseek_v32" },
	{ "DeepseekV4ForCausalLM", "deepseek_v4" },
	{ "DeepseekV4ForConditionalGeneration", "deepseek_v4" },
	{ "GptOssForCausalLM", "harmony" },
	{ "KimiK3ForConditionalGeneration", "kimi_k3" },
	{ "gpt-oss", "harmony" },
};
/* config.json's model_type, of derived models whose architecture has another name. */
static const struct {
	const char *model_type, *native;
} by_type[] = {
	{ "deepseek_v32", "deepseek_v32" },
	{ "deepseek_v4", "deepseek_v4" },
	{ "gpt_oss", "harmony" },
	{ "kimi_k3", "kimi_k3" },
};
static const struct {
	const char *version, *native;
} by_mistral[] = {
	{ "v1", "mistral_v1" },
	{ "v2", "mistral_v2" },
	{ "v3", "mistral_v3" },
	{ "v7", "mistral_v7" },
	{ "v11", "mistral_v11" },
	{ "v13", "mistral_v13" },
	{ "v15", "mistral_v15" },
};

static const char *const harmony_tokens[] = { "<|start|>", "<|channel|>", "<|message|>", "<|call|>",
	"<|return|>", "<|constrain|>" };

/* What the native templates of a family (names that begin so) cannot do without. */
static const struct {
	const char *family;
	const char *tokens[8];
} needed[] = {
	{ "harmony", { "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>" } },
	{ "deepseek_", { "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>",
			       "<｜Assistant｜>" } },
	{ "kimi_k3", { "<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>" } },
	{ "mistral_", { "<s>", "</s>" } },
	{ "mistral_v2", { "[INST]", "[/INST]", "[TOOL_CALLS]" } },
	{ "mistral_v3", { "[INST]", "[/INST]", "[TOOL_CALLS]" } },
	{ "mistral_v7", { "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" } },
	{ "mistral_v11", { "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" } },
	{ "mistral_v13", { "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" } },
	{ "mistral_v15", { "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
				 "[MODEL_SETTINGS]", "[/MODEL_SETTINGS]" } },
};

static bool has_added(const struct kp_tokenizer *t, const char *token)
{
	kp_id id;
	kp_str text;
	bool special;
	for (size_t i = 0; kp_tokenizer_added(t, i, &id, &text, &special); i++) {
		if (kp_str_eq(text, kp_str_c(token))) {
			return true;
		}
	}
	return false;
}

static bool is_harmony(const struct kp_tokenizer *t)
{
	for (size_t i = 0; i < KP_LEN(harmony_tokens); i++) {
		if (!has_added(t, harmony_tokens[i])) {
			return false;
		}
	}
	return true;
}

static void chosen(struct kp_model_choice *c, const char *native, const char *what, kp_str operand)
{
	c->native = native;
	snprintf(c->why, sizeof(c->why), "%s `%" KP_FMT "`", what,
		KP_ARG(kp_str_sub(operand, 0, 60)));
}

static void by_table(
	const struct kp_tokenizer *t, const struct kp_model_files *f, struct kp_model_choice *ret)
{
	for (size_t i = 0; i < KP_LEN(by_architecture); i++) {
		if (kp_str_eq(f->architecture, kp_str_c(by_architecture[i].architecture))) {
			chosen(ret, by_architecture[i].native, "architecture", f->architecture);
			return;
		}
	}
	for (size_t i = 0; i < KP_LEN(by_type); i++) {
		if (kp_str_eq(f->model_type, kp_str_c(by_type[i].model_type))) {
			chosen(ret, by_type[i].native, "model type", f->model_type);
			return;
		}
	}
	/* Only where it is the tokenizer that runs: a tokenizer.json beside it has its own template. */
	kp_str kind = kp_tokenizer_info(t)->kind;
	bool is_tekken = kp_str_eq(kind, KP_S("tekken")),
	     is_spm = kp_str_starts(kind, KP_S("spm:"));
	kp_str version = is_tekken ? f->tekken : is_spm ? f->model_version : KP_S("");
	for (size_t i = 0; i < KP_LEN(by_mistral); i++) {
		if (kp_str_eq(version, kp_str_c(by_mistral[i].version))) {
			chosen(ret, by_mistral[i].native,
				is_tekken ? "tekken.json" : "tokenizer.model", version);
			return;
		}
	}
	if (is_harmony(t)) {
		chosen(ret, "harmony", "the tokenizer's", KP_S("<|channel|>, <|constrain|>, ..."));
	}
}

static int check_suits(const struct kp_tokenizer *t, const char *native, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf missing;
	kp_buf_init(&missing, sizeof(err->msg));
	for (size_t i = 0; i < KP_LEN(needed); i++) {
		const char *const *tokens = needed[i].tokens;
		bool is_its = kp_str_starts(kp_str_c(native), kp_str_c(needed[i].family));
		for (size_t k = 0; is_its && k < KP_LEN(needed[i].tokens) && tokens[k]; k++) {
			if (!has_added(t, tokens[k])) {
				kp_buf_printf(&missing, "%s`%s`", missing.n ? ", " : "", tokens[k]);
			}
		}
	}
	return missing.n == 0
		       ? 0
		       : kp_err_set(err, KP_FAILED_PRECONDITION,
				 "chat template `%s` does not suit the tokenizer, which lacks %s",
				 native, kp_buf_cstr(&missing));
}

static int choose(kp_str want, const struct kp_tokenizer *t, const struct kp_model_files *files,
	struct kp_model_choice *ret, struct kp_err *err)
{
	*ret = (struct kp_model_choice){ .native = NULL };
	if (want.n == 0 || kp_str_eq(want, KP_S("Auto"))) {
		by_table(t, files, ret);
		return 0;
	}
	if (kp_str_eq(want, KP_S("Own"))) {
		return 0;
	}
	for (size_t i = 0; i < kp_n_native_templates; i++) {
		if (kp_str_eq(want, kp_str_c(kp_native_templates[i].name))) {
			ret->native = kp_native_templates[i].name;
			snprintf(ret->why, sizeof(ret->why), "asked for");
			return 0;
		}
	}
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"chat template `%" KP_FMT "`: there is none of that name",
		KP_ARG(kp_str_sub(want, 0, 80)));
}

int kp_model_choose(kp_str want, const struct kp_tokenizer *t, const struct kp_model_files *files,
	struct kp_model_choice *ret, struct kp_err *err)
{
	return choose(want, t, files, ret, err) || (ret->native && check_suits(t, ret->native, err))
		       ? -1
		       : 0;
}
