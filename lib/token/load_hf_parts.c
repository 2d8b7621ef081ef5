/* DESIGN: the small components of a tokenizer.json and its companion files, as JSON values in the load's arena. Each function accepts
   exactly the settings this module implements and names the first one it does not. */
#include "token/load_hf.h"

#include <string.h>

static int refuse(struct kp_err *err, const char *what, kp_str name)
{
	return kp_err_set(err, KP_UNIMPLEMENTED, "load tokenizer.json: %s `%" KP_FMT "`", what,
		KP_ARG(kp_str_sub(name, 0, 120)));
}

static bool is_null(const struct kp_jv *v)
{
	return !v || v->type == KP_JSON_NULL;
}

/* A boolean member; `missing` when it is absent. */
static bool flag(const struct kp_jv *v, kp_str key, bool missing)
{
	const struct kp_jv *m = kp_jv_get(v, key);
	return is_null(m) ? missing : m->type == KP_JSON_TRUE;
}

static bool is_type(const struct kp_jv *v, kp_str name)
{
	return kp_str_eq(kp_jv_str(v, KP_S("type")), name);
}

static kp_str type_of(const struct kp_jv *v)
{
	kp_str t = kp_jv_str(v, KP_S("type"));
	return t.p ? t : KP_S("(no type)");
}

static int parse(struct kp_hf *h, kp_str raw, struct kp_jv *ret, struct kp_err *err)
{
	if (!raw.p) {
		*ret = (struct kp_jv){ .type = KP_JSON_NULL };
		return 0;
	}
	return kp_jv_parse(raw, h->parts, ret, err);
}

/* The members of a Sequence, or the component itself as the only one. */
static void flatten(const struct kp_jv *v, kp_str member, const struct kp_jv **ret, size_t *ret_n)
{
	const struct kp_jv *list = is_type(v, KP_S("Sequence")) ? kp_jv_get(v, member) : NULL;
	*ret = v;
	*ret_n = is_null(v) ? 0 : 1;
	if (kp_jv_is(list, KP_JSON_ARRAY)) {
		*ret = list->items;
		*ret_n = list->n;
	}
}

int kp_hf_model_option(struct kp_hf *h, struct kp_json *j, kp_str key, struct kp_err *err)
{
	struct kp_jv v;
	if (kp_jv_read(j, 1024, &v, err)) {
		return -1;
	}
	if (kp_str_eq(key, KP_S("type"))) {
		h->is_bpe = v.type == KP_JSON_STRING && kp_str_eq(v.s, KP_S("BPE"));
		return h->is_bpe ? 0
				 : refuse(err, "model",
					   v.type == KP_JSON_STRING ? v.s : KP_S("(no type)"));
	}
	if (kp_str_eq(key, KP_S("ignore_merges"))) {
		h->b.t->ignore_merges = v.type == KP_JSON_TRUE;
		return 0;
	}
	if (kp_str_eq(key, KP_S("unk_token"))) {
		h->has_unk = v.type != KP_JSON_NULL;
		return 0;
	}
	if (kp_str_eq(key, KP_S("fuse_unk"))) {
		return 0; /* says something only where unk_token does, see check_bytes */
	}
	/* All others must be at the value that means "not used". */
	bool off = v.type == KP_JSON_NULL || v.type == KP_JSON_FALSE ||
		   (v.type == KP_JSON_STRING && v.s.n == 0);
	if (kp_str_eq(key, KP_S("dropout")) && v.type == KP_JSON_NUMBER) {
		double d;
		off = kp_str_f64(v.s, &d) && d <= 0;
	}
	return off ? 0 : refuse(err, "model option", key);
}

/* Hugging Face gives unk_token for a byte that is no token; without one the byte vanishes, which the merges know. */
static int check_bytes(const struct kp_hf *h, struct kp_err *err)
{
	for (unsigned c = 0; h->has_unk && c < 256; c++) {
		char byte = (char)c;
		if (kp_vocab_find(&h->b.t->vocab, kp_str_n(&byte, 1)) == KP_BPE_NO_ID) {
			return refuse(err, "model option",
				KP_S("unk_token, with bytes that are no tokens"));
		}
	}
	return 0;
}

static int normalizer(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	const struct kp_jv *list;
	size_t n;
	if (parse(h, h->normalizer, &v, err)) {
		return -1;
	}
	flatten(&v, KP_S("normalizers"), &list, &n);
	for (size_t i = 0; i < n; i++) {
		if (!is_type(&list[i], KP_S("NFC"))) {
			return refuse(err, "normalizer", type_of(&list[i]));
		}
		h->b.t->nfc = true;
	}
	return 0;
}

/* --- pre-tokenizers ---------------------------------------------------------------------------------------------- */

#define CL100K(letter, number, other)                                                        \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?" letter "+|" number "| ?" other \
	"+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define NO_WORD "[^\\s\\p{L}\\p{N}]"

#define O200K_PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define O200K_UPPER  "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_LOWER  "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define O200K                                                                                 \
	O200K_PREFIX O200K_UPPER                                                              \
		"*" O200K_LOWER "+" O200K_SUFFIX "|" O200K_PREFIX O200K_UPPER "+" O200K_LOWER \
		"*" O200K_SUFFIX                                                              \
		"|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define DEEPSEEK                                                                                           \
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
	" ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"

/* The Splits before ByteLevel. everywhere: the pattern matches at every place, so that removing what it does not match is the same
   as isolating what it does. */
static const struct {
	const char *pattern[3];
	const struct kp_pretok *pretok;
	bool everywhere;
} patterns[] = {
	{ { CL100K("\\p{L}", "\\p{N}", NO_WORD) }, &kp_pretok_cl100k_1, true },
	{ { CL100K("\\p{L}", "\\p{N}{1,3}", NO_WORD) }, &kp_pretok_cl100k_3, true },
	{ { CL100K("[\\p{L}\\p{M}]", "\\p{N}", "[^\\s\\p{L}\\p{M}\\p{N}]") },
		&kp_pretok_cl100k_marks, true },
	{ { O200K }, &kp_pretok_o200k, true },
	{ { "\\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", DEEPSEEK }, &kp_pretok_deepseek, false },
};

static bool is_split(const struct kp_jv *v, const char *pattern, bool everywhere)
{
	kp_str behavior = kp_jv_str(v, KP_S("behavior")),
	       regex = kp_jv_str(kp_jv_get(v, KP_S("pattern")), KP_S("Regex"));
	bool invert = flag(v, KP_S("invert"), false);
	bool isolated = kp_str_eq(behavior, KP_S("Isolated")) && !invert;
	bool removed = everywhere && kp_str_eq(behavior, KP_S("Removed")) && invert;
	return is_type(v, KP_S("Split")) && (isolated || removed) && regex.p &&
	       kp_str_eq(regex, kp_str_c(pattern));
}

/* The pre-tokenizer of n Splits. */
static const struct kp_pretok *known_splits(const struct kp_jv *list, size_t n)
{
	for (size_t i = 0; i < KP_LEN(patterns); i++) {
		size_t k = 0;
		while (k < n && k < KP_LEN(patterns[i].pattern) && patterns[i].pattern[k] &&
			is_split(&list[k], patterns[i].pattern[k], patterns[i].everywhere)) {
			k++;
		}
		if (k == n && (k == KP_LEN(patterns[i].pattern) || !patterns[i].pattern[k])) {
			return patterns[i].pretok;
		}
	}
	return NULL;
}

static int refuse_split(const struct kp_jv *v, struct kp_err *err)
{
	kp_str pattern = kp_jv_str(kp_jv_get(v, KP_S("pattern")), KP_S("Regex"));
	return refuse(err, "pre-tokenizer Split", pattern.p ? pattern : KP_S("(no regex)"));
}

static int pre_tokenizer(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	const struct kp_jv *list;
	size_t n;
	if (parse(h, h->pre_tokenizer, &v, err)) {
		return -1;
	}
	flatten(&v, KP_S("pretokenizers"), &list, &n);
	if (n == 0 || !is_type(&list[n - 1], KP_S("ByteLevel"))) {
		return refuse(err, "pre-tokenizer", n ? type_of(&list[n - 1]) : KP_S("null"));
	}
	const struct kp_jv *byte_level = &list[n - 1];
	if (flag(byte_level, KP_S("add_prefix_space"), true)) {
		return refuse(err, "pre-tokenizer option", KP_S("ByteLevel.add_prefix_space"));
	}
	bool regex = flag(byte_level, KP_S("use_regex"), true);
	const struct kp_pretok *found = NULL;
	if (n == 1 && regex) {
		found = &kp_pretok_gpt2;
	} else if (n == 2 && regex && is_type(&list[0], KP_S("Digits")) &&
		   flag(&list[0], KP_S("individual_digits"), false)) {
		found = &kp_pretok_gpt2_digits;
	} else if (n >= 2 && !regex && is_type(&list[0], KP_S("Split"))) {
		found = known_splits(list, n - 1);
		if (!found) {
			return refuse_split(&list[0], err);
		}
	}
	if (!found) {
		return refuse(err, "pre-tokenizer",
			n > 1 ? type_of(&list[0]) : KP_S("ByteLevel without its regex"));
	}
	h->b.t->pretok = *found;
	return 0;
}

/* --- post-processor, decoder ------------------------------------------------------------------------------------- */

static int put_template(
	kp_id *ids, size_t *n, const struct kp_jv *special, kp_str name, struct kp_err *err)
{
	const struct kp_jv *list = kp_jv_get(kp_jv_get(special, name), KP_S("ids"));
	for (uint32_t i = 0; kp_jv_is(list, KP_JSON_ARRAY) && i < list->n; i++) {
		uint64_t id;
		if (list->items[i].type != KP_JSON_NUMBER ||
			!kp_str_u64(list->items[i].s, KP_BPE_NO_ID - 1, &id) ||
			*n == KP_TOKEN_MAX_TEMPLATE) {
			return refuse(err, "TemplateProcessing token", name);
		}
		ids[(*n)++] = (kp_id)id;
	}
	return kp_jv_is(list, KP_JSON_ARRAY) ? 0 : refuse(err, "TemplateProcessing token", name);
}

/* `single`: tokens, the text once, tokens. */
static int template_processing(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	struct kp_tokenizer *t = h->b.t;
	const struct kp_jv *single = kp_jv_get(v, KP_S("single")),
			   *special = kp_jv_get(v, KP_S("special_tokens"));
	bool seen = false;
	for (uint32_t i = 0; kp_jv_is(single, KP_JSON_ARRAY) && i < single->n; i++) {
		const struct kp_jv *token = kp_jv_get(&single->items[i], KP_S("SpecialToken"));
		if (token) {
			kp_str name = kp_jv_str(token, KP_S("id"));
			if (put_template(seen ? t->suffix : t->prefix,
				    seen ? &t->n_suffix : &t->n_prefix, special, name, err)) {
				return -1;
			}
		} else if (seen || !kp_jv_get(&single->items[i], KP_S("Sequence"))) {
			return refuse(err, "post-processor", KP_S("TemplateProcessing.single"));
		} else {
			seen = true;
		}
	}
	return seen ? 0 : refuse(err, "post-processor", KP_S("TemplateProcessing.single"));
}

static int post_processor(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	const struct kp_jv *list;
	size_t n, n_templates = 0;
	if (parse(h, h->post_processor, &v, err)) {
		return -1;
	}
	flatten(&v, KP_S("processors"), &list, &n);
	for (size_t i = 0; i < n; i++) {
		if (is_type(&list[i], KP_S("TemplateProcessing")) && n_templates++ == 0) {
			if (template_processing(h, &list[i], err)) {
				return -1;
			}
		} else if (!is_type(&list[i],
				   KP_S("ByteLevel"))) { /* ByteLevel moves offsets only */
			return refuse(err, "post-processor", type_of(&list[i]));
		}
	}
	return 0;
}

static int decoder(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	if (parse(h, h->decoder, &v, err)) {
		return -1;
	}
	return is_type(&v, KP_S("ByteLevel"))
		       ? 0
		       : refuse(err, "decoder",
				 v.type == KP_JSON_NULL ? KP_S("null") : type_of(&v));
}

/* --- added tokens ------------------------------------------------------------------------------------------------ */

/* Added or vocabulary token with this content. */
static kp_id find(struct kp_hf *h, kp_str content)
{
	for (size_t i = 0; i < h->b.added.n; i++) {
		if (kp_str_eq(h->b.added.p[i].shown, content)) {
			return h->b.added.p[i].id;
		}
	}
	return kp_build_find(&h->b, content);
}

/* The id the library gives a token that is not in the vocabulary, whatever the file says. */
static kp_id next_id(const struct kp_hf *h)
{
	kp_id max = 0;
	for (size_t i = 0; i < h->b.added.n; i++) {
		max = KP_MAX(max, h->b.added.p[i].id);
	}
	return h->b.added.n && max >= h->n_vocab ? max + 1 : (kp_id)h->n_vocab;
}

static int added_token(
	struct kp_hf *h, const struct kp_jv *v, struct kp_map *seen, struct kp_err *err)
{
	kp_str content = kp_jv_str(v, KP_S("content"));
	const struct kp_jv *id_value = kp_jv_get(v, KP_S("id"));
	uint64_t id;
	if (!content.p || !kp_jv_is(id_value, KP_JSON_NUMBER) ||
		!kp_str_u64(id_value->s, KP_BPE_NO_ID - 1, &id)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load added token `%zu`: no content or no id", h->b.added.n);
	}
	if (content.n == 0 || kp_map_get(seen, content)) {
		return 0; /* as the library: the first one counts */
	}
	(void)kp_map_set(seen, content, h);
	kp_id known = kp_build_find(&h->b, content),
	      expected = known != KP_NO_ID ? known : next_id(h);
	if (id != expected) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load added token `%" KP_FMT "`: id %llu, the library would give it %u",
			KP_ARG(kp_str_sub(content, 0, 80)), (unsigned long long)id, expected);
	}
	bool special = flag(v, KP_S("special"), false);
	uint8_t flags = special ? KP_ADDED_SPECIAL : 0;
	flags |= flag(v, KP_S("normalized"), !special) ? KP_ADDED_NORMALIZED : 0;
	flags |= flag(v, KP_S("lstrip"), false) ? KP_ADDED_LSTRIP : 0;
	flags |= flag(v, KP_S("rstrip"), false) ? KP_ADDED_RSTRIP : 0;
	flags |= flag(v, KP_S("single_word"), false) ? KP_ADDED_WORD : 0;
	return kp_build_added(&h->b, (kp_id)id, content, flags, err);
}

static int added_tokens(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	struct kp_map seen;
	if (parse(h, h->added, &v, err)) {
		return -1;
	}
	kp_map_init(&seen);
	int r = 0;
	for (uint32_t i = 0; r == 0 && v.type == KP_JSON_ARRAY && i < v.n; i++) {
		r = added_token(h, &v.items[i], &seen, err);
	}
	kp_map_fini(&seen, NULL);
	return r;
}

int kp_hf_parts(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	if (!h->is_bpe) {
		return refuse(err, "model", KP_S("(no type)"));
	}
	if (parse(h, h->truncation, &v, err)) {
		return -1;
	}
	if (v.type != KP_JSON_NULL) {
		return refuse(err, "component", KP_S("truncation"));
	}
	if (parse(h, h->padding, &v, err)) {
		return -1;
	}
	if (v.type != KP_JSON_NULL) {
		return refuse(err, "component", KP_S("padding"));
	}
	h->b.t->info.kind = KP_S("hf:bpe");
	return check_bytes(h, err) || normalizer(h, err) || pre_tokenizer(h, err) ||
			       post_processor(h, err) || decoder(h, err) || added_tokens(h, err)
		       ? -1
		       : 0;
}

/* --- companions -------------------------------------------------------------------------------------------------- */

/* "text", {"content": "text"} or null. */
static int role(struct kp_hf *h, const struct kp_jv *config, const char *key, kp_id *ret,
	struct kp_err *err)
{
	const struct kp_jv *v = kp_jv_get(config, kp_str_c(key));
	if (is_null(v)) {
		return 0;
	}
	kp_str text = v->type == KP_JSON_STRING ? v->s : kp_jv_str(v, KP_S("content"));
	kp_id id = text.p ? find(h, text) : KP_NO_ID;
	if (id == KP_NO_ID) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load tokenizer_config.json: %s `%" KP_FMT "` is no token", key,
			KP_ARG(kp_str_sub(text, 0, 80)));
	}
	*ret = id;
	return 0;
}

/* A string, or the entry named "default" of a list. */
static kp_str template_of(const struct kp_jv *config)
{
	const struct kp_jv *v = kp_jv_get(config, KP_S("chat_template"));
	for (uint32_t i = 0; kp_jv_is(v, KP_JSON_ARRAY) && i < v->n; i++) {
		if (kp_str_eq(kp_jv_str(&v->items[i], KP_S("name")), KP_S("default"))) {
			return kp_jv_str(&v->items[i], KP_S("template"));
		}
	}
	return kp_jv_is(v, KP_JSON_STRING) ? v->s : KP_STR_NULL;
}

static int tokenizer_config(struct kp_hf *h, const struct kp_hf_files *files, struct kp_err *err)
{
	struct kp_tokenizer *t = h->b.t;
	struct kp_jv v;
	if (parse(h, files->config, &v, err)) {
		return kp_err_wrap(err, "read tokenizer_config.json");
	}
	if (role(h, &v, "bos_token", &t->info.bos, err) ||
		role(h, &v, "eos_token", &t->info.eos, err) ||
		role(h, &v, "pad_token", &t->info.pad, err) ||
		role(h, &v, "unk_token", &t->info.unk, err)) {
		return -1;
	}
	/* Some model classes build the post-processor from these two; where the file has one, it says the same. */
	if (flag(&v, KP_S("add_bos_token"), false) && t->n_prefix == 0 && t->info.bos != KP_NO_ID) {
		t->prefix[t->n_prefix++] = t->info.bos;
	}
	if (flag(&v, KP_S("add_eos_token"), false) && t->n_suffix == 0 && t->info.eos != KP_NO_ID) {
		t->suffix[t->n_suffix++] = t->info.eos;
	}
	return kp_load_template(
		t, files->chat_template.p ? files->chat_template : template_of(&v), err);
}

static int generation_config(struct kp_hf *h, kp_str text, struct kp_err *err)
{
	struct kp_jv v;
	if (parse(h, text, &v, err)) {
		return kp_err_wrap(err, "read generation_config.json");
	}
	const struct kp_jv *eos = kp_jv_get(&v, KP_S("eos_token_id"));
	const struct kp_jv *list = eos;
	uint32_t n = is_null(eos) ? 0 : 1;
	if (kp_jv_is(eos, KP_JSON_ARRAY)) {
		list = eos->items;
		n = eos->n;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint64_t id;
		if (list[i].type != KP_JSON_NUMBER || !kp_str_u64(list[i].s, UINT32_MAX - 1, &id)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read generation_config.json: `eos_token_id` is no id");
		}
		if (kp_build_eog(&h->b, (kp_id)id, err)) {
			return -1;
		}
	}
	return 0;
}

int kp_hf_config(struct kp_hf *h, const struct kp_hf_files *files, struct kp_err *err)
{
	if (tokenizer_config(h, files, err)) {
		return -1;
	}
	if (h->b.t->info.eos != KP_NO_ID && kp_build_eog(&h->b, h->b.t->info.eos, err)) {
		return -1;
	}
	return generation_config(h, files->generation, err);
}
