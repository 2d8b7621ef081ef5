/* Any text as a tokenizer.json, and behind a NUL byte as its tokenizer_config.json: an error or a tokenizer that encodes, never more; and
   from each cut of a text the ids go on as they do in the whole, whatever follows. */
#include "base/mem.h"
#include "token/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { CUTS = 16 };

/* Going on from `cut` of `text`, whose ids are `ids`, with something else behind it. */
static void go_on(const struct kp_tokenizer *t, struct kp_token_scratch *s, kp_str text,
	const struct kp_ids *ids, struct kp_cut cut, kp_str more)
{
	struct kp_err err;
	struct kp_ids whole, rest;
	struct kp_buf b;
	kp_ids_init(&whole, 1 << 16);
	kp_ids_init(&rest, 1 << 16);
	kp_buf_init(&b, 1 << 16);
	kp_buf_add(&b, kp_str_sub(text, 0, cut.text));
	kp_buf_add(&b, more);
	struct kp_text all = kp_text_trusted(kp_buf_str(&b));
	struct kp_encode_opts opts = { .add_special = true };
	for (size_t i = 0; i < cut.ids; i++) {
		kp_ids_add(&rest, ids->p[i]);
	}
	if (kp_tokenizer_encode(t, s, &all, &opts, &whole, &err) == 0) {
		opts.from = cut;
		KP_BUG_ON(kp_tokenizer_encode(t, s, &all, &opts, &rest, &err) != 0);
		KP_BUG_ON(rest.n != whole.n ||
			  (rest.n && memcmp(rest.p, whole.p, rest.n * sizeof(kp_id)) != 0));
	}
	kp_buf_fini(&b);
	kp_ids_fini(&whole);
	kp_ids_fini(&rest);
}

static void check_cuts(
	const struct kp_tokenizer *t, struct kp_token_scratch *s, const struct kp_text *text)
{
	struct kp_err err;
	struct kp_cut cut[CUTS];
	struct kp_cuts cuts = { .p = cut, .max = CUTS };
	struct kp_ids ids;
	kp_ids_init(&ids, 1 << 16);
	if (kp_tokenizer_encode(t, s, text,
		    &(struct kp_encode_opts){ .add_special = true, .cuts = &cuts }, &ids,
		    &err) == 0) {
		const kp_str more[] = { KP_S(""), KP_S(" <|text|> x"), KP_S("\xcc\x81 a"),
			KP_S("|>") };
		for (size_t i = 0; i < cuts.n; i++) {
			for (size_t k = 0; k < KP_LEN(more); k++) {
				go_on(t, s, text->s, &ids, cut[i], more[k]);
			}
			go_on(t, s, text->s, &ids, cut[i], kp_str_skip(text->s, cut[i].text));
		}
	}
	kp_ids_fini(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	kp_str json = kp_str_n(data, n), config = KP_STR_NULL;
	ptrdiff_t cut = kp_str_find_char(json, 0);
	if (cut >= 0) {
		config = kp_str_skip(json, (size_t)cut + 1);
		json = kp_str_sub(json, 0, (size_t)cut);
	}
	/* Every third one as tokenizers 1.0 reads it. */
	const struct kp_tokenizer_file files[] = { { KP_S("tokenizer.json"), json },
		{ KP_S("kelpie.json"), KP_S("{\"tokenizers\":\"1.0\"}") },
		{ KP_S("tokenizer_config.json"), config.p ? config : KP_S("{}") } };
	if (n % 3 ? kp_tokenizer_from_hf(json, config, &t, &err)
		  : kp_tokenizer_from_files(files, KP_LEN(files), &t, &err)) {
		KP_BUG_ON(!err.msg[0] || t);
		return 0;
	}
	struct kp_token_scratch *s = kp_token_scratch_create(0);
	struct kp_ids ids;
	struct kp_buf out;
	kp_ids_init(&ids, 1 << 16);
	kp_buf_init(&out, 1 << 20);
	struct kp_text text = kp_text_trusted(KP_S(
		"It's 12 tokens\n\n of <|text|> and 中文 é\xcc\x81 \xf0\x96\xba\xa0\xe1\xab\xa0."));
	/* A model without its unknown token, or a pattern that takes too long, may refuse the text. */
	struct kp_encode_opts opts = { .add_special = true, .file_limits = n % 2 };
	if (kp_tokenizer_encode(t, s, &text, &opts, &ids, &err)) {
		KP_BUG_ON(err.code != KP_INVALID_ARGUMENT && err.code != KP_RESOURCE_EXHAUSTED);
		ids.n = 0;
	}
	check_cuts(t, s, &text);
	/* Padding may name an id that is no token. */
	err = KP_ERR_INIT;
	if (kp_tokenizer_decode(t, ids.p, ids.n, true, &out, &err)) {
		KP_BUG_ON(err.code != KP_OUT_OF_RANGE);
	}
	kp_buf_fini(&out);
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(s);
	kp_tokenizer_unref(t);
	return 0;
}
