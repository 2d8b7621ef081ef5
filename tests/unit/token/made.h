/* Tokenizers made up on the spot: random vocabularies, and the tokenizer.json that says them. */
#ifndef KP_TESTS_UNIT_TOKEN_MADE_H
#define KP_TESTS_UNIT_TOKEN_MADE_H

#include "base/utf8.h"
#include "json/write.h"
#include "tests/test.h"
#include "token/internal.h"
#include "token/nfc.h"

#define MADE_SPLIT(number)                                                                         \
	"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"               \
	"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" number                                          \
	"| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}," \
	"\"behavior\":\"Isolated\",\"invert\":false}"
#define MADE_BYTES(regex) \
	"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":" regex "}"
#define MADE_TWO(a, b) "{\"type\":\"Sequence\",\"pretokenizers\":[" a "," b "]}"

#define MADE_O200K(upper, lower)                                                             \
	"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]" upper \
	"[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]" lower "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
#define MADE_ISOLATED(regex)                                  \
	"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex \
	"\"},\"behavior\":\"Isolated\",\"invert\":false}"

static const char *const made_pretoks[] = {
	MADE_TWO(MADE_SPLIT("\\\\p{N}"), MADE_BYTES("false")),
	MADE_TWO(MADE_SPLIT("\\\\p{N}{1,3}"), MADE_BYTES("false")),
	MADE_BYTES("true"),
	MADE_TWO("{\"type\":\"Digits\",\"individual_digits\":true}", MADE_BYTES("true")),
	MADE_TWO(MADE_ISOLATED(MADE_O200K("*", "+") MADE_O200K(
			 "+", "*") "\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|"
				   "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"),
		MADE_BYTES("false")),
	MADE_TWO(MADE_ISOLATED("\\\\p{N}{1,3}") "," MADE_ISOLATED("[一-龥\u3040-ゟ゠-ヿ]+"),
		MADE_ISOLATED(
			"[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\\\p{L}\\\\p{P}\\\\p{S}]?"
			"[\\\\p{L}\\\\p{M}]+| ?[\\\\p{P}\\\\p{S}]+[\\r\\n]*|\\\\s*[\\r\\n]+|\\\\s+(?!\\\\S)|\\\\s+") "," MADE_BYTES("false")),
};

/* A byte in GPT-2's alphabet. */
KP_UNUSED static void made_byte(struct kp_buf *b, unsigned c)
{
	unsigned next = 256;
	for (unsigned i = 0; i < c; i++) {
		next += !((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174);
	}
	bool shown = (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || c >= 174;
	kp_utf8_add(b, shown ? c : next);
}

KP_UNUSED static void made_bytes(struct kp_buf *b, kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		made_byte(b, (uint8_t)s.p[i]);
	}
}

struct made_merge {
	uint32_t left, right, product;
};
/* A random vocabulary: the bytes, then tokens joined from earlier ones; merges in random order, some tokens with several. */
struct made {
	kp_str token[1024];
	struct made_merge merge[1024];
	size_t n_tokens, n_merges;
	struct kp_arena *arena;
};

KP_UNUSED static void made_join(struct made *m, uint32_t left, uint32_t right)
{
	size_t n = m->token[left].n + m->token[right].n;
	char *p = kp_arena_xalloc(m->arena, n);
	memcpy(p, m->token[left].p, m->token[left].n);
	memcpy(p + m->token[left].n, m->token[right].p, m->token[right].n);
	kp_str text = kp_str_n(p, n);
	uint32_t product = 0;
	while (product < m->n_tokens && !kp_str_eq(m->token[product], text)) {
		product++;
	}
	if (product == m->n_tokens) {
		m->token[m->n_tokens++] = text;
	}
	for (size_t i = 0; i < m->n_merges; i++) {
		if (m->merge[i].left == left && m->merge[i].right == right) {
			return;
		}
	}
	m->merge[m->n_merges++] = (struct made_merge){ left, right, product };
}

KP_UNUSED static void made_init(struct made *m, struct kp_rng *r, size_t n, bool shuffle)
{
	static const char letters[] = "abc =12\n\xc3\xa9\xe4\xb8\xad\xe6\x96\x87\xd0\xb0";
	m->arena = kp_arena_create(64 << 20);
	m->n_tokens = m->n_merges = 0;
	for (unsigned c = 0; c < 256; c++) {
		char *p = kp_arena_xalloc(m->arena, 1);
		*p = (char)c;
		m->token[m->n_tokens++] = kp_str_n(p, 1);
	}
	while (m->n_merges < n) {
		/* Few bytes, so that the tokens occur in text. */
		uint32_t side[2];
		for (size_t k = 0; k < 2; k++) {
			bool byte = m->n_tokens == 256 || kp_rng_below(r, 2);
			side[k] = byte ? (uint8_t)letters[kp_rng_below(r, sizeof(letters) - 1)]
				       : (uint32_t)(256 + kp_rng_below(r, m->n_tokens - 256));
		}
		if (m->token[side[0]].n + m->token[side[1]].n <= 24) {
			made_join(m, side[0], side[1]);
		}
	}
	for (size_t i = m->n_merges; shuffle && i > 1; i--) {
		size_t k = kp_rng_below(r, i);
		struct made_merge x = m->merge[i - 1];
		m->merge[i - 1] = m->merge[k];
		m->merge[k] = x;
	}
}

/* tokenizer.json with the vocabulary; added: JSON text of the list's inside. */
KP_UNUSED static void made_json(const struct made *m, const char *pretok, bool nfc,
	bool ignore_merges, const char *added, struct kp_buf *out)
{
	kp_buf_printf(out,
		"{\"version\":\"1.0\",\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,",
		added, nfc ? "{\"type\":\"NFC\"}" : "null", pretok);
	kp_buf_printf(out,
		"\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"ignore_merges\":%s,\"vocab\":{",
		ignore_merges ? "true" : "false");
	struct kp_buf text;
	kp_buf_init(&text, 1 << 20);
	for (size_t i = 0; i < m->n_tokens; i++) {
		kp_buf_reset(&text);
		made_bytes(&text, m->token[i]);
		kp_buf_lit(out, ",");
		out->n -= i == 0;
		kp_json_w_str(out, kp_buf_str(&text));
		kp_buf_printf(out, ":%zu", i);
	}
	kp_buf_lit(out, "},\"merges\":[");
	for (size_t i = 0; i < m->n_merges; i++) {
		kp_buf_reset(&text);
		made_bytes(&text, m->token[m->merge[i].left]);
		kp_buf_lit(&text, " ");
		made_bytes(&text, m->token[m->merge[i].right]);
		kp_buf_lit(out, ",");
		out->n -= i == 0;
		kp_json_w_str(out, kp_buf_str(&text));
	}
	kp_buf_lit(out, "]}}");
	kp_buf_fini(&text);
	assert_false(out->failed);
}

KP_UNUSED static struct kp_tokenizer *made_load(
	const struct made *m, const char *pretok, bool nfc, bool ignore_merges, const char *added)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	struct kp_buf json;
	kp_buf_init(&json, 16 << 20);
	made_json(m, pretok, nfc, ignore_merges, added, &json);
	if (kp_tokenizer_from_hf(kp_buf_str(&json), KP_STR_NULL, &t, &err)) {
		print_error("%s\n", err.msg);
		fail();
	}
	kp_buf_fini(&json);
	return t;
}

#endif
