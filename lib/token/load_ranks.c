/* DESIGN: vocabularies that are a list of byte strings in merge order, as tiktoken takes them: Mistral's tekken.json (the reference is mistral-common's Tekkenizer) and
   tiktoken's own files, "base64 rank" a line. A whole piece that is a token is that token; else two neighbours merge whenever their bytes together are
   a token, lowest rank first, then leftmost. So every way to cut a token in two tokens is a merge, and all of one token have its rank.

   A tiktoken file has neither pattern nor special tokens; both are known by the file's name only, so a file of another name is refused. Special
   tokens are never read out of text by these references; here trusted text has them. */
#include "token/load_hf.h"
#include "base/mem.h"

#include <string.h>

enum { SPECIAL_MAX = 8192 };

static int build_merges(struct kp_build *b, struct kp_err *err)
{
	struct kp_vocab *v = &b->t->vocab;
	for (kp_id id = 0; id < v->n; id++) {
		kp_str s = kp_vocab_bytes(v, id);
		for (size_t k = 1; (v->tok[id].flags & KP_TOK_WORD) && k < s.n; k++) {
			struct kp_merge m = { kp_vocab_find(v, kp_str_sub(s, 0, k)),
				kp_vocab_find(v, kp_str_skip(s, k)), id };
			if (m.left == KP_BPE_NO_ID || m.right == KP_BPE_NO_ID) {
				continue;
			}
			if (b->merges.n == KP_BPE_MAX_MERGES) {
				return kp_err_set(err, KP_TOO_LARGE, "load merges: more than `%d`",
					KP_BPE_MAX_MERGES);
			}
			kp_vec_push(&b->merges, m);
		}
	}
	for (unsigned c = 0; c < 256; c++) {
		char byte = (char)c;
		if (kp_vocab_find(v, kp_str_n(&byte, 1)) == KP_BPE_NO_ID) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load vocabulary: byte `%u` is no token", c);
		}
	}
	return 0;
}

static int add_bytes(struct kp_build *b, kp_id id, kp_str base64, struct kp_err *err)
{
	kp_buf_reset(&b->pair);
	if (kp_token_base64(base64, &b->pair, err)) {
		return kp_err_wrap(err, "load token `%u`", id);
	}
	if (b->pair.n == 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "load token `%u`: no bytes", id);
	}
	return kp_build_token(b, id, kp_buf_str(&b->pair), err);
}

static int begin(struct kp_hf *h, struct kp_err *err)
{
	*h = (struct kp_hf){ .unk_id = KP_NO_ID };
	if (kp_build_init(&h->b, err)) {
		return -1;
	}
	h->parts = kp_arena_create((size_t)96 << 20);
	h->b.raw = h->b.by_product = true;
	h->b.t->ignore_merges = true;
	return 0;
}

static int end(struct kp_hf *h, const struct kp_hf_files *files, struct kp_tokenizer **ret,
	struct kp_err *err)
{
	return kp_build_index(&h->b, err) || build_merges(&h->b, err) ||
			       kp_hf_config(h, files, err) || kp_build_finish(&h->b, ret, err)
		       ? -1
		       : 0;
}

/* --- tekken --------------------------------------------------------------------------------------------------------------- */

struct tekken {
	struct kp_hf h;
	kp_str config, vocab, special;
	size_t n_vocab, n_special; /* as config says: with special tokens; special tokens */
};

static const char *const old_special[] = { "<unk>", "<s>", "</s>", "[INST]", "[/INST]",
	"[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
	"[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
	"[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]" };

static int tekken_top(struct tekken *k, kp_str text, struct kp_err *err)
{
	struct kp_json j;
	kp_str key, other;
	int r;
	kp_json_init(&j, text, k->h.parts);
	if (kp_json_object(&j, err)) {
		return -1;
	}
	while ((r = kp_json_member(&j, &key, err)) > 0) {
		kp_str *to = kp_str_eq(key, KP_S("config"))           ? &k->config
			     : kp_str_eq(key, KP_S("vocab"))          ? &k->vocab
			     : kp_str_eq(key, KP_S("special_tokens")) ? &k->special
								      : &other; /* images, audio */
		if (kp_json_skip(&j, to, err)) {
			return -1;
		}
	}
	if (r || kp_json_end(&j, err)) {
		return -1;
	}
	return k->config.p && k->vocab.p ? 0
					 : kp_err_set(err, KP_INVALID_ARGUMENT,
						   "load tekken.json: no `config` or no `vocab`");
}

static int tekken_config(struct tekken *k, struct kp_err *err)
{
	struct kp_jv v;
	struct kp_tokenizer *t = k->h.b.t;
	struct kp_split *s = &t->split;
	if (kp_hf_parse(&k->h, k->config, &v, err) ||
		kp_hf_size(&v, "default_vocab_size", &k->n_vocab, err) ||
		kp_hf_size(&v, "default_num_special_tokens", &k->n_special, err)) {
		return kp_err_wrap(err, "load tekken.json");
	}
	kp_str pattern = kp_jv_str(&v, KP_S("pattern"));
	if (!pattern.p || k->n_vocab <= k->n_special || k->n_vocab >= KP_BPE_NO_ID ||
		k->n_special > SPECIAL_MAX || k->n_special < KP_LEN(old_special)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load tekken.json: `config` with %zu tokens, %zu of them special",
			k->n_vocab, k->n_special);
	}
	t->pretok = (struct kp_pretok){ .name = "split" };
	/* Matches only; text between them is lost, as in the reference. */
	s->step[0] = (struct kp_split_step){ .kind = KP_SPLIT_PATTERN, .invert = true };
	s->n = 1;
	kp_buf_add(&k->h.b.parts, pattern);
	return kp_pattern_regex(pattern, KP_CLASSES_HF, &s->step[0].pattern, err);
}

static int tekken_special(struct tekken *k, struct kp_err *err)
{
	struct kp_jv v;
	size_t n = KP_LEN(old_special);
	if (kp_hf_parse(&k->h, k->special, &v, err)) {
		return -1;
	}
	bool given = v.type != KP_JSON_NULL;
	if (given) {
		n = v.type == KP_JSON_ARRAY ? v.n : SIZE_MAX;
	}
	if (n > k->n_special) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load tekken.json: `special_tokens` are not %zu at most", k->n_special);
	}
	for (size_t i = 0; i < k->n_special; i++) {
		kp_str text = kp_arena_printf(k->h.parts, "<SPECIAL_%zu>", i);
		bool control = true;
		if (i < n && !given) {
			text = kp_str_c(old_special[i]);
		} else if (i < n) {
			size_t rank;
			text = kp_jv_str(&v.items[i], KP_S("token_str"));
			control = kp_hf_flag(&v.items[i], KP_S("is_control"), true);
			if (!text.n || kp_hf_size(&v.items[i], "rank", &rank, err) || rank != i) {
				return kp_err_set(err, KP_INVALID_ARGUMENT,
					"load tekken.json: special token `%zu`", i);
			}
		}
		/* Those that are no control tokens (markers of thinking and the like) are shown. */
		if (kp_build_added(&k->h.b, (kp_id)i, text, control ? KP_ADDED_SPECIAL : 0, err)) {
			return -1;
		}
		const struct {
			const char *text;
			kp_id *id;
		} roles[] = { { "<s>", &k->h.b.t->info.bos }, { "</s>", &k->h.b.t->info.eos },
			{ "<unk>", &k->h.b.t->info.unk }, { "<pad>", &k->h.b.t->info.pad } };
		for (size_t r = 0; r < KP_LEN(roles); r++) {
			*roles[r].id =
				kp_str_eq(text, kp_str_c(roles[r].text)) ? (kp_id)i : *roles[r].id;
		}
	}
	return 0;
}

static int tekken_vocab(struct tekken *k, struct kp_err *err)
{
	struct kp_json j;
	kp_str key, bytes, skipped;
	size_t n = 0, max = k->n_vocab - k->n_special;
	int r, m = 0;
	kp_json_init(&j, k->vocab, k->h.parts);
	if (kp_json_array(&j, err)) {
		return -1;
	}
	for (; (r = kp_json_element(&j, err)) > 0; n++) {
		int64_t rank = -1;
		bytes = KP_S("");
		if (kp_json_object(&j, err)) {
			return -1;
		}
		while ((m = kp_json_member(&j, &key, err)) > 0) {
			m = kp_str_eq(key, KP_S("rank")) ? kp_json_i64(&j, 0, INT32_MAX, &rank, err)
			    : kp_str_eq(key, KP_S("token_bytes")) ? kp_json_string(&j, &bytes, err)
								  : kp_json_skip(&j, &skipped, err);
			if (m) {
				return -1;
			}
		}
		if (m || (n < max && add_bytes(&k->h.b, (kp_id)(n + k->n_special), bytes, err))) {
			return -1;
		}
		if (rank != (int64_t)n) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load tekken.json: entry `%zu` of the vocabulary has rank %lld", n,
				(long long)rank);
		}
	}
	if (r == 0 && n < max) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load tekken.json: %zu tokens, `config` wants %zu", n, max);
	}
	return r;
}

int kp_load_tekken(
	const struct kp_hf_files *files, kp_str text, struct kp_tokenizer **ret, struct kp_err *err)
{
	struct tekken k = { .config = KP_STR_NULL };
	int r = begin(&k.h, err) || tekken_top(&k, text, err) || tekken_config(&k, err) ||
				tekken_special(&k, err) || tekken_vocab(&k, err)
			? -1
			: 0;
	struct kp_tokenizer *t = k.h.b.t;
	if (r == 0) {
		t->info.kind = KP_S("tekken");
		if (t->info.bos != KP_NO_ID) { /* as Mistral's own tokenizer encodes a raw text */
			t->prefix[t->n_prefix++] = t->info.bos;
		}
		r = (t->info.eos != KP_NO_ID && kp_build_eog(&k.h.b, t->info.eos, err)) ||
				    end(&k.h, files, ret, err)
			    ? -1
			    : 0;
	}
	kp_arena_destroy(k.h.parts);
	kp_build_fini(&k.h.b);
	return r;
}

/* --- tiktoken --------------------------------------------------------------------------------------------------------------- */

struct special {
	kp_id id;
	const char *text;
};
static const struct special cl100k[] = { { 100257, "<|endoftext|>" }, { 100258, "<|fim_prefix|>" },
	{ 100259, "<|fim_middle|>" }, { 100260, "<|fim_suffix|>" }, { 100276, "<|endofprompt|>" },
	{ 0, NULL } };
static const struct special o200k[] = { { 199999, "<|endoftext|>" }, { 200018, "<|endofprompt|>" },
	{ 0, NULL } };
static const struct special r50k[] = { { 50256, "<|endoftext|>" }, { 0, NULL } };
/* Qwen (the first): tokenization_qwen.py, which normalizes before; 205 more of them are <|extra_0|> and so on. */
static const struct special qwen[] = { { 151643, "<|endoftext|>" }, { 151644, "<|im_start|>" },
	{ 151645, "<|im_end|>" }, { 0, NULL } };
enum { QWEN_EXTRA = 151646, QWEN_EXTRAS = 205 };
static const struct {
	const char *name;
	const struct kp_pretok *pretok;
	const struct special *special;
} known[] = {
	{ "cl100k_base.tiktoken", &kp_pretok_cl100k_3, cl100k },
	{ "o200k_base.tiktoken", &kp_pretok_o200k, o200k },
	{ "r50k_base.tiktoken", &kp_pretok_gpt2, r50k },
	{ "p50k_base.tiktoken", &kp_pretok_gpt2, r50k },
	{ "qwen.tiktoken", &kp_pretok_cl100k_1, qwen },
};
#define KIMI_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_WORD  "[^\\r\\n\\p{L}\\p{N}]?"
#define KIMI_END   "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
/* Kimi's tokenization_kimi.py. */
static const char kimi[] =
	"[\\p{Han}]+|" KIMI_WORD KIMI_UPPER "*" KIMI_LOWER "+" KIMI_END "|" KIMI_WORD KIMI_UPPER
	"+" KIMI_LOWER "*" KIMI_END
	"|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
enum { KIMI_SPECIAL = 256 };

bool kp_tiktoken_is(kp_str name)
{
	return kp_str_ends(name, KP_S(".tiktoken")) || kp_str_ends(name, KP_S("tiktoken.model"));
}

static int tiktoken_lines(struct kp_build *b, kp_str text, struct kp_err *err)
{
	kp_str line;
	for (size_t n = 1; kp_str_split(&text, '\n', &line); n++) {
		kp_str rest = kp_str_trim(line), base64, rank;
		uint64_t id;
		if (rest.n == 0) {
			continue;
		}
		if (!kp_str_split(&rest, ' ', &base64) || !kp_str_split(&rest, ' ', &rank) ||
			rest.p || !kp_str_u64(rank, KP_BPE_NO_ID - 1, &id)) {
			return kp_err_set(
				err, KP_INVALID_ARGUMENT, "load tiktoken file: line `%zu`", n);
		}
		if (add_bytes(b, (kp_id)id, base64, err)) {
			return -1;
		}
	}
	return 0;
}

static int special_tokens(struct kp_hf *h, const struct special *list, struct kp_err *err)
{
	for (const struct special *s = list; s->text; s++) {
		if (kp_build_added(&h->b, s->id, kp_str_c(s->text), KP_ADDED_SPECIAL, err)) {
			return -1;
		}
	}
	for (kp_id i = 0; list == qwen && i < QWEN_EXTRAS; i++) {
		kp_str text = kp_arena_printf(h->parts, "<|extra_%u|>", i);
		if (kp_build_added(&h->b, QWEN_EXTRA + i, text, KP_ADDED_SPECIAL, err)) {
			return -1;
		}
	}
	h->b.t->nfc = list == qwen;
	h->b.t->info.eos = list->id;
	return kp_build_eog(&h->b, list->id, err);
}

/* 256 tokens behind the ranks, by the names that tokenizer_config.json has for them. */
static int kimi_tokens(struct kp_hf *h, const struct kp_jv *config, struct kp_err *err)
{
	const struct kp_jv *names = kp_jv_get(config, KP_S("added_tokens_decoder"));
	kp_id first = (kp_id)h->b.t->vocab.n;
	for (kp_id id = first; id < first + KIMI_SPECIAL; id++) {
		const struct kp_jv *v =
			kp_jv_is(names, KP_JSON_OBJECT)
				? kp_jv_get(names, kp_arena_printf(h->parts, "%u", id))
				: NULL;
		kp_str text = v ? kp_jv_str(v, KP_S("content")) : KP_STR_NULL;
		bool special = !v || kp_hf_flag(v, KP_S("special"), true);
		text = text.n ? text : kp_arena_printf(h->parts, "<|reserved_token_%u|>", id);
		if (kp_build_added(&h->b, id, text, special ? KP_ADDED_SPECIAL : 0, err)) {
			return -1;
		}
	}
	return 0;
}

/* `tiktoken.model` says as little as the others; Kimi's is told by the code that tokenizer_config.json names. */
static int load_kimi(
	struct kp_hf *h, const struct kp_hf_files *files, kp_str text, struct kp_err *err)
{
	struct kp_jv config;
	struct kp_tokenizer *t = h->b.t;
	struct kp_split_step *step = &t->split.step[0];
	if (kp_hf_parse(h, files->config, &config, err)) {
		return kp_err_wrap(err, "read tokenizer_config.json");
	}
	const struct kp_jv *code =
		kp_jv_get(kp_jv_get(&config, KP_S("auto_map")), KP_S("AutoTokenizer"));
	if (!kp_jv_is(code, KP_JSON_ARRAY) || code->n == 0 ||
		!kp_jv_is(&code->items[0], KP_JSON_STRING) ||
		!kp_str_eq(code->items[0].s, KP_S("tokenization_kimi.TikTokenTokenizer"))) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"load tiktoken file `tiktoken.model`: tokenizer_config.json does not name tokenization_kimi, so its pattern is not known");
	}
	/* Matches only; text between them is lost, as in the reference. */
	*step = (struct kp_split_step){ .kind = KP_SPLIT_PATTERN, .invert = true };
	t->split.n = 1;
	t->pretok = (struct kp_pretok){ .name = "split" };
	t->info.kind = KP_S("tiktoken:kimi");
	kp_buf_add(&h->b.parts, kp_str_c(kimi));
	return kp_pattern_regex(kp_str_c(kimi), KP_CLASSES_HF, &step->pattern, err) ||
			       tiktoken_lines(&h->b, text, err) || kimi_tokens(h, &config, err)
		       ? -1
		       : 0;
}

int kp_load_tiktoken(const struct kp_hf_files *files, kp_str name, kp_str text,
	struct kp_tokenizer **ret, struct kp_err *err)
{
	struct kp_hf h;
	size_t i = 0;
	bool model = kp_str_eq(name, KP_S("tiktoken.model"));
	while (!model && i < KP_LEN(known) && !kp_str_eq(name, kp_str_c(known[i].name))) {
		i++;
	}
	if (i == KP_LEN(known)) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"load tiktoken file `%" KP_FMT "`: its pattern is not known",
			KP_ARG(kp_str_sub(name, 0, 80)));
	}
	if (text.n > KP_TOKEN_MAX_INPUT) {
		return kp_err_set(err, KP_TOO_LARGE, "load tiktoken file: `%zu` bytes, at most %d",
			text.n, KP_TOKEN_MAX_INPUT);
	}
	int r = begin(&h, err);
	if (r == 0 && model) {
		r = load_kimi(&h, files, text, err);
	} else if (r == 0) {
		h.b.t->pretok = *known[i].pretok;
		h.b.t->info.kind = KP_S("tiktoken");
		r = tiktoken_lines(&h.b, text, err) || special_tokens(&h, known[i].special, err)
			    ? -1
			    : 0;
	}
	r = r ? -1 : end(&h, files, ret, err);
	kp_arena_destroy(h.parts);
	kp_build_fini(&h.b);
	return r;
}
