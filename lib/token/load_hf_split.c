/* DESIGN: `pre_tokenizer` of a tokenizer.json: to one of the scanners (pretok.h) where the whole chain is a known one over a byte-level vocabulary, else to
   the steps of split.h. */
#include "token/load_hf.h"
#include "base/utf8.h"

#include <string.h>

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

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

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
	bool invert = kp_hf_flag(v, KP_S("invert"), false);
	bool isolated = kp_str_eq(behavior, KP_S("Isolated")) && !invert;
	bool removed = everywhere && kp_str_eq(behavior, KP_S("Removed")) && invert;
	return kp_hf_is(v, KP_S("Split")) && (isolated || removed) && regex.p &&
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

/* --- steps ------------------------------------------------------------------------------------------------------------- */

static int add(struct kp_hf *h, struct kp_split_step step, struct kp_err *err)
{
	struct kp_split *s = &h->b.t->split;
	if (s->n == KP_SPLIT_MAX) {
		kp_pattern_fini(&step.pattern);
		return kp_err_set(err, KP_TOO_LARGE, "load pre-tokenizer: more than `%d` steps",
			KP_SPLIT_MAX);
	}
	s->step[s->n++] = step;
	return 0;
}

static int behavior(const struct kp_jv *v, enum kp_split_behavior missing,
	enum kp_split_behavior *ret, struct kp_err *err)
{
	static const kp_str names[] = { KP_S_INIT("Removed"), KP_S_INIT("Isolated"),
		KP_S_INIT("MergedWithPrevious"), KP_S_INIT("MergedWithNext"),
		KP_S_INIT("Contiguous") };
	kp_str name = kp_jv_str(v, KP_S("behavior"));
	*ret = missing;
	for (size_t i = 0; name.p && i < KP_LEN(names); i++) {
		if (kp_str_eq(name, names[i])) {
			*ret = (enum kp_split_behavior)i;
			return 0;
		}
	}
	return name.p ? kp_hf_refuse(err, "pre-tokenizer behavior", name) : 0;
}

/* The wheel of tokenizers 1.0 takes no other regular expressions, and of them its classes are known. */
static bool is_known(kp_str regex)
{
	for (size_t i = 0; i < KP_LEN(patterns); i++) {
		for (size_t k = 0; k < KP_LEN(patterns[i].pattern) && patterns[i].pattern[k]; k++) {
			if (kp_str_eq(regex, kp_str_c(patterns[i].pattern[k]))) {
				return true;
			}
		}
	}
	return false;
}

static int split(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	struct kp_split_step step = { .kind = KP_SPLIT_PATTERN };
	kp_str regex = kp_jv_str(kp_jv_get(v, KP_S("pattern")), KP_S("Regex"));
	if (h->version_1 && regex.p && !is_known(regex)) {
		return kp_hf_refuse(err, "as tokenizers 1.0: regex", regex);
	}
	if (!kp_jv_str(v, KP_S("behavior")).p) {
		return kp_hf_refuse(err, "pre-tokenizer", KP_S("Split without behavior"));
	}
	return behavior(v, KP_SPLIT_REMOVED, &step.behavior, err) ||
			       kp_hf_bool(v, "invert", &step.invert, err) ||
			       kp_hf_pattern(h, v, &step.pattern, err) || add(h, step, err)
		       ? -1
		       : 0;
}

static int one_char(
	const struct kp_jv *v, const char *key, struct kp_split_step *step, struct kp_err *err)
{
	kp_str s = kp_jv_str(v, kp_str_c(key));
	if (!s.p || kp_utf8_count(s) != 1) {
		return kp_hf_refuse(err, "pre-tokenizer without its character", kp_hf_type(v));
	}
	memcpy(step->mark, s.p, s.n);
	step->mark_n = s.n;
	return 0;
}

static int metaspace(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	struct kp_split_step step = { .kind = KP_SPLIT_METASPACE,
		.scheme = KP_SCHEME_ALWAYS,
		.cut = kp_hf_flag(v, KP_S("split"), true) };
	kp_str scheme = kp_jv_str(v, KP_S("prepend_scheme"));
	if (kp_str_eq(scheme, KP_S("first"))) {
		step.scheme = KP_SCHEME_FIRST;
	} else if (kp_str_eq(scheme, KP_S("never"))) {
		step.scheme = KP_SCHEME_NEVER;
	} else if (scheme.p && !kp_str_eq(scheme, KP_S("always"))) {
		return kp_hf_refuse(err, "Metaspace prepend_scheme", scheme);
	}
	if (!kp_hf_flag(v, KP_S("add_prefix_space"), true)) {
		if (step.scheme != KP_SCHEME_NEVER) {
			return kp_hf_refuse(
				err, "Metaspace", KP_S("add_prefix_space beside prepend_scheme"));
		}
	}
	return one_char(v, "replacement", &step, err) || add(h, step, err) ? -1 : 0;
}

static int delimiter(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	struct kp_split_step step = { .kind = KP_SPLIT_PATTERN };
	kp_str text;
	if (one_char(v, "delimiter", &step, err) || kp_hf_text(h, v, "delimiter", &text, err)) {
		return -1;
	}
	step.pattern = kp_pattern_literal(text);
	return add(h, step, err);
}

static int byte_level(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	bool prefix, trim;
	struct kp_split_step step = {
		.kind = KP_SPLIT_BYTES, .cut = kp_hf_flag(v, KP_S("use_regex"), true), .plain = true
	};
	if (kp_hf_bool(v, "add_prefix_space", &prefix, err) ||
		kp_hf_bool(v, "trim_offsets", &trim, err)) {
		return -1;
	}
	step.scheme = prefix ? KP_SCHEME_ALWAYS : KP_SCHEME_NEVER;
	if (!h->version_1 || !step.cut) {
		return add(h, step, err);
	}
	/* Its own pattern knows the classes of 0.23 only. */
	struct kp_split_step pattern = { .kind = KP_SPLIT_PATTERN, .behavior = KP_SPLIT_ISOLATED };
	step.cut = false;
	if (prefix) {
		return kp_hf_refuse(err, "as tokenizers 1.0: ByteLevel with",
			KP_S("add_prefix_space and use_regex"));
	}
	return kp_pattern_regex(kp_str_c(GPT2), KP_CLASSES_HF_1, &pattern.pattern, err) ||
			       add(h, pattern, err) || add(h, step, err)
		       ? -1
		       : 0;
}

static int fixed(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	struct kp_split_step step = { .kind = KP_SPLIT_FIXED, .length = 5 };
	if (!kp_hf_null(kp_jv_get(v, KP_S("length"))) &&
		kp_hf_size(v, "length", &step.length, err)) {
		return -1;
	}
	return step.length ? add(h, step, err) : kp_hf_refuse(err, "FixedLength", KP_S("length 0"));
}

static int component(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	struct kp_split_step step = { .behavior = KP_SPLIT_REMOVED };
	if (kp_hf_same(h, v, "pre-tokenizer", "ByteLevel Split Digits", err)) {
		return -1;
	}
	if (kp_hf_is(v, KP_S("ByteLevel"))) {
		return byte_level(h, v, err);
	}
	if (kp_hf_is(v, KP_S("Split"))) {
		return split(h, v, err);
	}
	if (kp_hf_is(v, KP_S("Metaspace"))) {
		return metaspace(h, v, err);
	}
	if (kp_hf_is(v, KP_S("CharDelimiterSplit"))) {
		return delimiter(h, v, err);
	}
	if (kp_hf_is(v, KP_S("FixedLength"))) {
		return fixed(h, v, err);
	}
	if (kp_hf_is(v, KP_S("Digits"))) {
		bool one;
		step.kind = KP_SPLIT_DIGIT;
		if (kp_hf_bool(v, "individual_digits", &one, err)) {
			return -1;
		}
		step.behavior = one ? KP_SPLIT_ISOLATED : KP_SPLIT_CONTIGUOUS;
		return add(h, step, err);
	}
	if (kp_hf_is(v, KP_S("Punctuation"))) {
		step.kind = KP_SPLIT_PUNCTUATION;
		return behavior(v, KP_SPLIT_ISOLATED, &step.behavior, err) || add(h, step, err) ? -1
												: 0;
	}
	if (kp_hf_is(v, KP_S("BertPreTokenizer"))) {
		step.kind = KP_SPLIT_SPACE;
		struct kp_split_step then = { .kind = KP_SPLIT_PUNCTUATION,
			.behavior = KP_SPLIT_ISOLATED };
		return add(h, step, err) || add(h, then, err) ? -1 : 0;
	}
	const bool space = kp_hf_is(v, KP_S("WhitespaceSplit")),
		   words = kp_hf_is(v, KP_S("Whitespace"));
	if (space || words || kp_hf_is(v, KP_S("UnicodeScripts"))) {
		step.kind = space ? KP_SPLIT_SPACE : words ? KP_SPLIT_WORDS : KP_SPLIT_SCRIPTS;
		return add(h, step, err);
	}
	return kp_hf_refuse(err, "pre-tokenizer", kp_hf_type(v));
}

/* --- the scanners -------------------------------------------------------------------------------------------------------- */

/* The scanner that does the same as the list, NULL: none. Its last member is ByteLevel. */
static const struct kp_pretok *scanner(const struct kp_jv *list, size_t n)
{
	const struct kp_jv *last = &list[n - 1];
	if (!kp_hf_is(last, KP_S("ByteLevel")) ||
		kp_hf_flag(last, KP_S("add_prefix_space"), true)) {
		return NULL;
	}
	bool regex = kp_hf_flag(last, KP_S("use_regex"), true);
	if (n == 1 && regex) {
		return &kp_pretok_gpt2;
	}
	if (n == 2 && regex && kp_hf_is(&list[0], KP_S("Digits")) &&
		kp_hf_flag(&list[0], KP_S("individual_digits"), false)) {
		return &kp_pretok_gpt2_digits;
	}
	return n >= 2 && !regex && kp_hf_is(&list[0], KP_S("Split")) ? known_splits(list, n - 1)
								     : NULL;
}

/* Is the model byte-level: the last step, and only it, turns text into the alphabet? */
static bool is_byte_level(const struct kp_split *s)
{
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++) {
		n += s->step[i].kind == KP_SPLIT_BYTES;
	}
	return n == 1 && s->step[s->n - 1].kind == KP_SPLIT_BYTES;
}

int kp_hf_pre_tokenizer(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	struct kp_tokenizer *t = h->b.t;
	if (kp_hf_parse(h, h->pre_tokenizer, &v, err)) {
		return -1;
	}
	const struct kp_jv *list = &v, *members = kp_jv_get(&v, KP_S("pretokenizers"));
	size_t n = kp_hf_null(&v) ? 0 : 1;
	if (kp_hf_is(&v, KP_S("Sequence")) && kp_jv_is(members, KP_JSON_ARRAY)) {
		list = members->items;
		n = members->n;
	}
	const struct kp_pretok *found = n && !h->b.text ? scanner(list, n) : NULL;
	t->pretok = found ? *found : (struct kp_pretok){ .name = "split" };
	if (found && !h->version_1) {
		return 0;
	}
	if (kp_hf_each(h, &v, KP_S("pretokenizers"), component, err)) {
		return -1;
	}
	if (found) { /* for most text */
		t->odd = KP_ODD_HF_1;
		return 0;
	}
	h->b.text = h->b.text || !is_byte_level(&t->split);
	for (size_t i = 0; h->b.text && i < t->split.n; i++) {
		t->split.step[i].plain = false;
	}
	return 0;
}
