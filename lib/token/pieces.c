/* DESIGN: see pieces.h. The bytes of the tokens are laid along the text; where they stop fitting, nothing is said any more. */
#include "token/pieces.h"
#include "json/write.h"
#include "token/internal.h"

/* Is the vocabulary's text in GPT-2's alphabet? Those of tiktoken and tekken are bytes. */
static bool has_alphabet(const struct kp_tokenizer *t)
{
	return t->model.kind == KP_MODEL_BYTES &&
	       (kp_str_starts(t->info.kind, KP_S("hf:")) ||
		       kp_str_starts(t->info.kind, KP_S("gguf:")));
}

void kp_token_written(const struct kp_tokenizer *t, kp_id id, struct kp_buf *out)
{
	size_t added = kp_added_index(t, id);
	if (id >= t->vocab.n || !(t->vocab.tok[id].flags & KP_TOK_KNOWN)) {
		return;
	}
	if (added != SIZE_MAX) {
		kp_buf_add(out, t->added[added].shown);
	} else if ((t->vocab.tok[id].flags & KP_TOK_WORD) && has_alphabet(t)) {
		kp_bytelevel_encode(kp_vocab_bytes(&t->vocab, id), out);
	} else {
		kp_buf_add(out, kp_vocab_bytes(&t->vocab, id));
	}
}

/* Where the tokens are in the text. */
struct along {
	const struct kp_text *text; /* NULL: not known, or not any more */
	size_t at, run;
};

static const char *origin(struct along *a, kp_str bytes, bool special)
{
	static const char *const names[] = { "trusted", "client", "assistant" };
	const struct kp_text *text = a->text;
	if (!text) {
		return NULL;
	}
	kp_str rest = kp_str_skip(text->s, a->at);
	if (a->at == 0 && kp_str_starts(bytes, KP_S(" ")) && !kp_str_starts(rest, KP_S(" "))) {
		bytes = kp_str_skip(bytes, 1); /* the blank that many models put in front */
	}
	if (!kp_str_starts(rest, bytes)) {
		a->text = special ? text : NULL; /* one that was put in front or behind */
		return special ? "tokenizer" : NULL;
	}
	size_t end = a->at + bytes.n;
	while (a->run < text->n_runs && text->runs[a->run].end <= a->at && bytes.n) {
		a->run++;
	}
	a->at = end;
	if (text->n_runs == 0 || a->run == text->n_runs) {
		return names[0];
	}
	uint32_t first = text->runs[a->run].origin;
	for (size_t r = a->run; r < text->n_runs && text->runs[r].end < end; r++) {
		if (r + 1 < text->n_runs && text->runs[r + 1].origin != first) {
			return "mixed";
		}
	}
	return names[KP_MIN(first, (uint32_t)KP_ORIGIN_ASSISTANT)];
}

void kp_token_pieces(const struct kp_tokenizer *t, const struct kp_text *text, const kp_id *ids,
	size_t n, struct kp_buf *out)
{
	KP_AUTO(buf) struct kp_buf written;
	struct along along = { .text = text };
	kp_buf_init(&written, 4 * KP_TOKEN_MAX_TEXT);
	kp_buf_addc(out, '[');
	for (size_t i = 0; i < n && !out->failed; i++) {
		kp_str bytes = kp_tokenizer_token_bytes(t, ids[i]);
		bool special = kp_tokenizer_is_special(t, ids[i]);
		kp_buf_reset(&written);
		kp_token_written(t, ids[i], &written);
		kp_buf_printf(out, "%s{\"id\":%u,\"token\":", i ? "," : "", ids[i]);
		kp_json_w_str(out, kp_buf_str(&written));
		kp_buf_lit(out, ",\"bytes\":[");
		for (size_t k = 0; k < bytes.n; k++) {
			kp_buf_printf(out, "%s%u", k ? "," : "", (uint8_t)bytes.p[k]);
		}
		kp_buf_printf(out, "],\"special\":%s,\"added\":%s", special ? "true" : "false",
			kp_added_index(t, ids[i]) == SIZE_MAX ? "false" : "true");
		const char *who = origin(&along, bytes, special);
		if (who) {
			kp_buf_printf(out, ",\"origin\":\"%s\"", who);
		}
		kp_buf_addc(out, '}');
	}
	kp_buf_addc(out, ']');
}
