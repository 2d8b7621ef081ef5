/* DESIGN: llama.cpp's pre-tokenizers (`tokenizer.ggml.pre`, its llama-vocab.cpp and unicode.cpp are the reference) as lists of patterns, each of which splits the
   pieces of the one before. What that does differently from the tokenizers it stands for is kept: classes of Unicode 15.1, contractions in ASCII
   only, cases told apart for ASCII letters only in GPT-4o's. Its patterns that need neither \p nor Unicode see any white space beyond ASCII as a vertical
   tab, so their ranges never hold any (NO_SPACE). Names that llama.cpp knows and this table does not are refused.

   Four patterns have scanners (pretok.h), which know newer characters and one more contraction: text with such (kp_text_is_odd) takes
   the patterns. */
#include "token/gguf_load.h"
#include "token/pretok.h"
#include "token/unicode.h"

#include <string.h>

#define CONTRACTION "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define SPACES      "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define WORDS(number, spaces)                                \
	CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" number \
		    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" spaces
#define DEEPSEEK                                                                                             \
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
	" ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES
#define CJK "[一-龥\u3040-ゟ゠-ヿ]+"
/* upper*lower+ or upper+lower* with what may stand before and behind. */
#define CASED(upper, lower, suffix, number)                                                 \
	"[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" upper \
	"+" lower "*" suffix "|" number "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define UPPER         "[\\p{L}&&[^a-z]]"
#define LOWER         "[\\p{L}&&[^A-Z]]"
#define UPPER_MARK    "[\\p{L}\\p{M}&&[^a-z]]"
#define LOWER_MARK    "[\\p{L}\\p{M}&&[^A-Z]]"
#define ANY_MARK      "[\\p{L}\\p{M}]" /* categories below \p{L} are all of it there */
#define NO_SPACE(set) "[" set "&&[^\\s]]"
#define HAN                                                                                                   \
	"\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2ebef}\\x{f900}-\\x{faff}" \
	"\\x{2f800}-\\x{2fa1f}"
/* Groups of three from the right; what stands before a number joins its first group. */
#define THREES "[^\\p{N}]*\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))|[^\\p{N}]+"
#define BLOOM  " ?[^(\\s|.,!?…。，、।۔،)]+"

static const char *const gpt2[] = { GPT2, NULL };
static const char *const digits_gpt2[] = { "\\p{N}", GPT2, NULL };
static const char *const llama3[] = { WORDS("\\p{N}{1,3}", SPACES), NULL };
static const char *const jais2[] = {
	WORDS("\\p{N}{1,3}", "\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|"
			     "\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|"
			     "\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"),
	NULL
};
static const char *const qwen2[] = { WORDS("\\p{N}", SPACES), NULL };
static const char *const qwen35[] = { CONTRACTION
	"|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES,
	NULL };
static const char *const deepseek3[] = { "\\p{N}{1,3}", CJK, DEEPSEEK, NULL };
static const char *const deepseek_llm[] = { "[\\r\\n]",
	"\\s?[A-Za-z\u00b5À-ÖØ-öø-ƺƼ-ƿ\u01c4-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-\u03f5Ϸ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅ"
	"ὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼ\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149ⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-"
	"ꞎꭰ-ꮿ\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
	"\\s?" NO_SPACE("!-/:-~！-／：-～‘-‟\u3000-。") "+", "\\s+\\z",
	NO_SPACE("一-龥ࠀ-一가-\ud7ff") "+", "\\p{N}+", NULL };
static const char *const deepseek_coder[] = { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
	NO_SPACE("一-龥ࠀ-一가-\ud7ff") "+", "\\p{N}", NULL };
static const char *const falcon[] = { "[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]", NULL };
static const char *const old[] = { "[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]",
	NULL };
static const char *const bloom[] = { BLOOM, NULL };
static const char *const viking[] = { BLOOM, "\\p{N}", NULL };
static const char *const tekken[] = { CASED(UPPER, LOWER, "", "\\p{N}"), NULL };
static const char *const gpt4o[] = { CASED(UPPER, LOWER, CONTRACTION "?", "\\p{N}{1,3}"), NULL };
static const char *const granite_embed[] = {
	CASED(UPPER_MARK, LOWER_MARK, CONTRACTION "?", "\\p{N}{1,3}"), NULL
};
static const char *const tiny_aya[] = { THREES,
	CASED(ANY_MARK, ANY_MARK, CONTRACTION "?", "\\p{N}{1,3}"), NULL };
static const char *const youtu[] = {
	"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" CJK,
	CASED(ANY_MARK, ANY_MARK, CONTRACTION "?", "\\p{N}"), NULL
};
static const char *const spark[] = { "\\p{N}{1,3}", CJK,
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
	" ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+",
	"\\p{N}", NULL };
static const char *const kimi[] = { "[" HAN "]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}&&[^" HAN
				    "]]+" CONTRACTION
				    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
	NULL };
static const char *const superbpe[] = { "\\p{N}+", "(?=(?:[0-9]{3})+(?![0-9]))", NULL };
static const char *const bailing[] = {
	"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
	"\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
	NULL
};
static const char *const seed_coder[] = { CONTRACTION
	"|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES,
	NULL };
static const char *const ufakzeka[] = {
	"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES, NULL
};
static const char *const afmoe[] = { THREES,
	NO_SPACE(
		"一-\u9fff㐀-䶿\u8c48-\ufaff\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2fdf\u0e40-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff가-\ud7afᄀ-ᇿ") "+",
	DEEPSEEK, NULL };
static const char *const laguna[] = { "[^\\n]+|[\\n]+", WORDS("\\p{N}", SPACES), NULL };
static const char *const exaone_moe[] = { CONTRACTION
	"|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
	"\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
	NULL };
static const char *const minicpm5[] = { "\\p{N}{1,3}", WORDS("\\p{N}+", SPACES), NULL };
static const char *const chameleon[] = { "<sentinel:[0-9]+>",
	"(?:IMGIMG)(?:(?:A|B|C|D|E|F|G|H|I){1,4})Z", "(?:[\\t\\n]|    |  )", "\\p{N}",
	"[\\p{P}!-/:-@\\[-`{-~]", GPT2, NULL };

static const struct {
	const char *name;
	const char *const *patterns;
	const struct kp_pretok *scanner;
	bool add_bos, ignore_merges;
} table[] = {
	{ "default", old, NULL, false, false },
	{ "llama3", llama3, &kp_pretok_cl100k_3, true, true },
	{ "llama-v3", llama3, &kp_pretok_cl100k_3, true, true },
	{ "llama-bpe", llama3, &kp_pretok_cl100k_3, true, true },
	{ "falcon3", llama3, &kp_pretok_cl100k_3, true, true },
	{ "falcon-h1", llama3, &kp_pretok_cl100k_3, true, true },
	{ "pixtral", llama3, &kp_pretok_cl100k_3, true, true },
	{ "midm-2.0", llama3, &kp_pretok_cl100k_3, true, true },
	{ "lfm2", llama3, &kp_pretok_cl100k_3, true, true },
	{ "jina-v5-nano", llama3, &kp_pretok_cl100k_3, true, true },
	{ "dbrx", llama3, &kp_pretok_cl100k_3, false, false },
	{ "smaug-bpe", llama3, &kp_pretok_cl100k_3, false, false },
	{ "chatglm-bpe", llama3, &kp_pretok_cl100k_3, false, false },
	{ "glm4", llama3, &kp_pretok_cl100k_3, false, true },
	{ "glm5", llama3, &kp_pretok_cl100k_3, false, true },
	{ "minicpm5", minicpm5, NULL, false, true },
	{ "jais-2", jais2, NULL, false, false },
	{ "deepseek-llm", deepseek_llm, NULL, false, false },
	{ "deepseek-coder", deepseek_coder, NULL, false, false },
	{ "deepseek-v3", deepseek3, &kp_pretok_deepseek, false, false },
	{ "hunyuan-dense", deepseek3, &kp_pretok_deepseek, false, false },
	{ "joyai-llm", deepseek3, &kp_pretok_deepseek, false, false },
	{ "hy_v4", deepseek3, &kp_pretok_deepseek, false, false },
	{ "spark2_5", spark, NULL, false, false },
	{ "youtu", youtu, NULL, false, true },
	{ "falcon", falcon, NULL, false, false },
	{ "mpt", gpt2, &kp_pretok_gpt2, false, false },
	{ "gpt-2", gpt2, &kp_pretok_gpt2, false, false },
	{ "phi-2", gpt2, &kp_pretok_gpt2, false, false },
	{ "jina-es", gpt2, &kp_pretok_gpt2, false, false },
	{ "jina-de", gpt2, &kp_pretok_gpt2, false, false },
	{ "jina-v1-en", gpt2, &kp_pretok_gpt2, false, false },
	{ "jina-v2-es", gpt2, &kp_pretok_gpt2, false, false },
	{ "jina-v2-de", gpt2, &kp_pretok_gpt2, false, false },
	{ "jina-v2-code", gpt2, &kp_pretok_gpt2, false, false },
	{ "roberta-bpe", gpt2, &kp_pretok_gpt2, false, false },
	{ "gigachat", gpt2, &kp_pretok_gpt2, false, false },
	{ "a.x-4.0", gpt2, &kp_pretok_gpt2, false, false },
	{ "mellum", gpt2, &kp_pretok_gpt2, false, false },
	{ "modern-bert", gpt2, &kp_pretok_gpt2, false, false },
	{ "olmo", gpt2, &kp_pretok_gpt2, false, false },
	{ "jais", gpt2, &kp_pretok_gpt2, false, false },
	{ "trillion", gpt2, &kp_pretok_gpt2, false, false },
	{ "granite-docling", gpt2, &kp_pretok_gpt2, false, false },
	{ "exaone4", gpt2, &kp_pretok_gpt2, false, false },
	{ "starcoder", digits_gpt2, &kp_pretok_smollm, false, false },
	{ "refact", digits_gpt2, &kp_pretok_smollm, false, false },
	{ "command-r", digits_gpt2, &kp_pretok_smollm, false, false },
	{ "smollm", digits_gpt2, &kp_pretok_smollm, false, false },
	{ "codeshell", digits_gpt2, &kp_pretok_smollm, false, false },
	{ "exaone", digits_gpt2, &kp_pretok_smollm, false, false },
	{ "minerva-7b", digits_gpt2, &kp_pretok_smollm, false, false },
	{ "mellum2", digits_gpt2, &kp_pretok_smollm, false, false },
	{ "stablelm2", qwen2, &kp_pretok_cl100k_1, false, false },
	{ "qwen2", qwen2, &kp_pretok_cl100k_1, false, false },
	{ "deepseek-r1-qwen", qwen2, &kp_pretok_cl100k_1, false, false },
	{ "kormo", qwen2, &kp_pretok_cl100k_1, false, false },
	{ "f2llmv2", qwen2, &kp_pretok_cl100k_1, false, false },
	{ "megrez", qwen2, &kp_pretok_cl100k_1, false, false },
	{ "hunyuan", qwen2, &kp_pretok_cl100k_1, false, false },
	{ "solar-open", qwen2, &kp_pretok_cl100k_1, false, false },
	{ "grok-2", qwen2, &kp_pretok_cl100k_1, false, false },
	{ "qwen35", qwen35, &kp_pretok_cl100k_marks, false, false },
	{ "poro-chat", bloom, NULL, false, false },
	{ "bloom", bloom, NULL, false, false },
	{ "gpt3-finnish", bloom, NULL, false, false },
	{ "viking", viking, NULL, false, false },
	{ "tekken", tekken, NULL, true, true },
	{ "chameleon", chameleon, NULL, true, false },
	{ "gpt-4o", gpt4o, NULL, false, false },
	{ "llama4", gpt4o, NULL, false, false },
	{ "kanana2", gpt4o, NULL, false, false },
	{ "talkie", gpt4o, NULL, false, false },
	{ "minimax-m2", gpt4o, NULL, false, false },
	{ "granite-embed-multi-97m", granite_embed, NULL, false, true },
	{ "tiny_aya", tiny_aya, NULL, false, false },
	{ "cohere2moe", tiny_aya, NULL, false, false },
	{ "kimi-k2", kimi, NULL, false, false },
	{ "superbpe", superbpe, NULL, false, false },
	{ "bailingmoe", bailing, NULL, false, false },
	{ "bailingmoe2", bailing, NULL, false, false },
	{ "llada-moe", bailing, NULL, false, false },
	{ "seed-coder", seed_coder, NULL, false, false },
	{ "ufakzeka", ufakzeka, NULL, false, false },
	{ "afmoe", afmoe, NULL, false, false },
	{ "laguna", laguna, NULL, false, false },
	{ "exaone-moe", exaone_moe, NULL, false, false },
};

int kp_gguf_patterns(struct kp_tokenizer *t, const char *const *patterns, struct kp_err *err)
{
	struct kp_split *s = &t->split;
	t->pretok = (struct kp_pretok){ .name = "split" };
	for (; *patterns; patterns++) {
		struct kp_split_step step = { .kind = KP_SPLIT_PATTERN,
			.behavior = KP_SPLIT_ISOLATED };
		if (kp_pattern_regex(kp_str_c(*patterns), KP_CLASSES_LLAMA, &step.pattern, err)) {
			return -1;
		}
		s->step[s->n++] = step;
	}
	return 0;
}

int kp_gguf_pre(struct kp_build *b, kp_str pre, bool *ret_add_bos, struct kp_err *err)
{
	size_t i = 0;
	pre = pre.n ? pre : KP_S("default");
	while (i < KP_LEN(table) && !kp_str_eq(pre, kp_str_c(table[i].name))) {
		i++;
	}
	if (i == KP_LEN(table)) {
		return kp_err_set(err, KP_UNIMPLEMENTED, "load GGUF: pre-tokenizer `%" KP_FMT "`",
			KP_ARG(kp_str_sub(pre, 0, 80)));
	}
	struct kp_tokenizer *t = b->t;
	if (kp_gguf_patterns(t, table[i].patterns, err)) {
		return -1;
	}
	if (table[i].scanner) {
		t->pretok = *table[i].scanner;
		t->odd = table[i].scanner != &kp_pretok_smollm ? KP_ODD_LLAMA : KP_ODD_NONE;
	}
	t->ignore_merges = table[i].ignore_merges;
	t->info.kind = kp_arena_printf(t->arena, "gguf:%s", table[i].name);
	kp_buf_add(&b->parts, pre);
	*ret_add_bos = table[i].add_bos;
	return 0;
}

bool kp_text_is_odd(kp_str s, enum kp_odd odd)
{
	const uint8_t *p = (const uint8_t *)s.p, *end = p + s.n;
	size_t len;
	for (; p < end; p += len) {
		len = 1;
		if (*p < 0x80) {
			continue;
		}
		uint32_t cp = kp_uc_get(p, &len);
		if (odd == KP_ODD_HF_1 ? kp_uc_is_young(cp)
				       : cp == 0x17f || (kp_uc_class(cp) & KP_UC_NEW)) {
			return true;
		}
	}
	return false;
}
