/* DESIGN: what encoding and decoding rely on, table by table: every id, rank, node and place lies in the table it leads into, and every search
   by hash meets a free place. One pass over each table, without branches where it is long; 1 ms for 15 MB. What a table means is not
   looked at: that is the checksum's affair (images.h). */
#include "token/image.h"
#include "token/bpe_ascii.h"
#include "token/internal.h"

static int broken(struct kp_err *err, const char *what)
{
	return kp_err_set(err, KP_DATA_LOSS, "read image of a tokenizer: table `%s`", what);
}

static bool is_id(const struct kp_tokenizer *t, kp_id id)
{
	return id < t->vocab.n || id == KP_BPE_NO_ID;
}

static bool power_less_one(size_t mask)
{
	return (mask & (mask + 1)) == 0;
}

static bool tokens_ok(const struct kp_vocab *v, const struct kp_tok *tok, size_t blob_n)
{
	uint64_t bad = 0;
	for (size_t i = 0; i < v->n; i++) {
		bad |= (uint64_t)blob_n - ((uint64_t)tok[i].at + tok[i].n);
		bad |= (uint64_t)((tok[i].flags & KP_TOK_BYTE) && tok[i].n == 0) << 63;
	}
	return !(bad >> 63);
}

static bool slots_ok(const struct kp_vocab *v)
{
	uint32_t most = 0, empty = 0;
	for (size_t i = 0; i <= v->slot_mask; i++) {
		uint32_t e = v->slot[i], id = e & 0xfffff;
		most = KP_MAX(most, id);
		empty |= e == 0;
		empty |= (uint32_t)(e && !id) << 1;
	}
	return most <= v->n && empty == 1;
}

static int check_vocab(const struct kp_tokenizer *t, struct kp_err *err)
{
	const struct kp_vocab *v = &t->vocab;
	if (v->n == 0 || v->n >= KP_BPE_MAX_TOKENS || !v->tok || (v->blob_n && !v->blob) ||
		!tokens_ok(v, v->tok, v->blob_n)) {
		return broken(err, "tokens");
	}
	if (!v->slot || !power_less_one(v->slot_mask) || !slots_ok(v)) {
		return broken(err, "slots");
	}
	if (t->decoded.tok == v->tok) {
		return t->decoder.n || t->decoder.n_ops || t->decoder.fallback
			       ? broken(err, "decoded")
			       : 0;
	}
	return t->decoded.blob && tokens_ok(v, t->decoded.tok, t->decoded.blob_n)
		       ? 0
		       : broken(err, "decoded");
}

/* Are all ranks below `ranks`? The sign of a difference says no: nothing that SSE2 cannot do eight at a time. */
static bool lines_ok(const struct kp_bpe *b, uint32_t ranks)
{
	size_t n = kp_pair_lines(b->line_bits);
	uint32_t bad[8] = { 0 };
	for (size_t i = 0; i < n; i++) {
		const struct kp_pair_line *l = &b->line[i];
		for (size_t k = 0; k < 8; k++) {
			uint32_t used = -(uint32_t)(l->tag[k] != 0);
			bad[k] |= ((ranks - 1 - l->rank[k]) | l->rank[k]) & used;
		}
	}
	for (size_t k = 1; k < 8; k++) {
		bad[0] |= bad[k];
	}
	return b->line[n - 1].tag[7] == 0 && !(bad[0] >> 31);
}

static bool ids_ok(const kp_id *p, size_t n, size_t below)
{
	kp_id most = 0;
	for (size_t i = 0; i < n; i++) {
		most = KP_MAX(most, p[i]);
	}
	return n == 0 || most < below;
}

/* The pair table, for a model that merges. */
static int check_merges(const struct kp_tokenizer *t, struct kp_err *err)
{
	const struct kp_bpe *b = &t->bpe;
	/* Ranks are below this: each has a product. */
	uint32_t ranks = b->product ? b->n_merges : (uint32_t)t->vocab.n;
	if (!b->line || !b->partners || b->line_bits < 12 || b->gap != t->vocab.n ||
		!lines_ok(b, ranks)) {
		return broken(err, "merges");
	}
	if (b->product && !ids_ok(b->product, b->n_merges, t->vocab.n)) {
		return broken(err, "products");
	}
	uint32_t most = 0;
	for (size_t i = 0; b->byte_pair && i < 65536; i++) {
		most = KP_MAX(most, b->byte_pair[i] + 1);
	}
	/* Without a merge there may be no rank at all. */
	if (!b->byte_pair || most > ranks || !ids_ok(b->byte_id, 256, t->vocab.n + 1)) {
		return broken(err, "pairs of bytes");
	}
	return kp_bpe_ascii_ok(b) ? 0 : broken(err, "pairs of letters");
}

static int check_words(const struct kp_tokenizer *t, struct kp_err *err)
{
	const struct kp_words *w = &t->words;
	size_t n = ((size_t)w->n_lines + KP_WORD_SPILL) * 4;
	uint32_t last = (uint32_t)t->vocab.n - 1, bad = 0;
	for (size_t i = 0; w->word && i < n; i++) {
		bad |= last - (w->word[i].info & 0xfffff);
	}
	bool ok = w->word && w->longer && !(bad >> 31) && w->word[n - 1].info == 0;
	return ok ? 0 : broken(err, "words");
}

/* Tables that no index leaves: of tokenizers that cut text, if not always into short pieces. */
static bool borders_ok(const struct kp_borders *c)
{
	bool ok = !c->set || (c->index && c->row && c->n_blocks > KP_BORDER_ASCII);
	for (size_t i = 0; c->set && ok && i < KP_BORDER_INDEX; i++) {
		ok = c->index[i] < c->n_blocks;
	}
	return ok;
}

static bool rows_ok(const struct kp_tokenizer *t)
{
	bool ok = t->n_rows == 0 || t->cut_text;
	for (size_t i = 0; i < t->n_rows; i++) {
		ok = ok && t->rows[i].most >= KP_ROW_MIN;
	}
	return ok;
}

/* Text that is cut takes bytes and words without asking whether they are there. */
static int check_text(const struct kp_tokenizer *t, struct kp_err *err)
{
	bool text = t->pretok.run == kp_pretok_text.run;
	bool ok = text == t->cut_text && borders_ok(&t->model.borders) && rows_ok(t) &&
		  (!text || (t->model.kind == KP_MODEL_BPE && t->model.borders.set &&
				    ids_ok(t->model.byte, 256, t->vocab.n)));
	if (!ok) {
		return broken(err, "borders");
	}
	return text ? check_words(t, err) : 0;
}

static int check_bytes(const struct kp_tokenizer *t, struct kp_err *err)
{
	const struct kp_bpe *b = &t->bpe;
	if (!b->char_index || !b->chars || b->n_chars == 0) {
		return broken(err, "characters");
	}
	uint32_t most = 0;
	for (size_t i = 0; i < 65536; i++) {
		most = KP_MAX(most, (uint32_t)b->char_index[i]);
	}
	bool ok = most < b->n_chars;
	for (size_t i = 0; i < b->n_chars; i++) {
		ok &= is_id(t, b->chars[i].id);
	}
	if (!ok) {
		return broken(err, "characters");
	}
	return check_words(t, err);
}

static int check_trie(const struct kp_tokenizer *t, bool scores, struct kp_err *err)
{
	const struct kp_trie *e = &t->model.trie;
	size_t below = scores ? KP_MIN(t->model.n_scores, t->vocab.n) : t->vocab.n;
	uint32_t most = 0, empty = 0;
	if (!e->edge || !e->value || e->n == 0 || !power_less_one(e->mask) ||
		(scores && !t->model.score)) {
		return broken(err, "trie");
	}
	for (size_t i = 0; i <= e->mask; i++) {
		most = KP_MAX(most, (uint32_t)e->edge[i]);
		empty |= e->edge[i] == 0;
	}
	bool ok = empty && most < e->n;
	most = 0;
	for (size_t i = 0; i < e->n; i++) {
		most = KP_MAX(most, e->value[i] + 1); /* KP_NO_ID: 0 */
	}
	uint32_t node = t->model.prefix_node;
	ok = ok && most <= below && (node < e->n || node == KP_TRIE_NONE);
	return ok ? 0 : broken(err, "trie");
}

static int check_model(const struct kp_tokenizer *t, struct kp_err *err)
{
	const struct kp_model *m = &t->model;
	bool ok = is_id(t, m->unk) || m->kind == KP_MODEL_BYTES;
	for (size_t c = 0; c < 256; c++) {
		ok = ok && (is_id(t, m->byte[c]) || m->kind == KP_MODEL_BYTES);
		ok = ok &&
		     (m->byte[c] < t->vocab.n || !m->byte_fallback || m->kind < KP_MODEL_SPM_BPE);
	}
	/* SentencePiece gives bytes or the unknown token without asking whether they are there. */
	ok = ok && (m->kind < KP_MODEL_SPM_BPE || m->byte_fallback || m->unk < t->vocab.n);
	if (!ok) {
		return broken(err, "bytes");
	}
	switch (m->kind) {
	case KP_MODEL_BYTES:
		return check_merges(t, err) || check_bytes(t, err) ? -1 : 0;
	case KP_MODEL_BPE:
		ok = m->char_id != NULL;
		for (size_t i = 0; ok && i < KP_MODEL_DIRECT; i++) {
			ok = is_id(t, m->char_id[i]);
		}
		return ok ? check_merges(t, err) : broken(err, "characters");
	case KP_MODEL_UNIGRAM:
	case KP_MODEL_SPM_UNIGRAM:
		return check_trie(t, true, err);
	case KP_MODEL_WORDPIECE:
		return check_trie(t, false, err);
	case KP_MODEL_SPM_BPE:
		/* Ranks are asked for with any id of the vocabulary's slots. */
		for (size_t id = m->n_scores; id < t->vocab.n; id++) {
			ok = ok && !(t->vocab.tok[id].flags & KP_TOK_WORD);
		}
		return ok && m->rank ? 0 : broken(err, "ranks");
	case KP_MODEL_WORDLEVEL:
	default:
		return 0;
	}
}

static int check_facts(const struct kp_tokenizer *t, struct kp_err *err)
{
	bool ok = ids_ok(t->prefix, t->n_prefix, t->vocab.n) &&
		  ids_ok(t->suffix, t->n_suffix, t->vocab.n) &&
		  ids_ok(t->info.eog, t->info.n_eog, t->vocab.n);
	for (size_t i = 0; i < t->n_added; i++) {
		const struct kp_added *a = &t->added[i];
		ok = ok && a->id < t->vocab.n && a->text.p && a->shown.p &&
		     (i == 0 || a->id > t->added[i - 1].id);
	}
	return ok ? 0 : broken(err, "added tokens");
}

int kp_token_image_check(const struct kp_tokenizer *t, struct kp_err *err)
{
	return check_vocab(t, err) || check_facts(t, err) || check_model(t, err) ||
			       check_text(t, err)
		       ? -1
		       : 0;
}
