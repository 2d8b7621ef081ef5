/* DESIGN: `decoder` of a tokenizer.json to decoder.h's two halves. A chain whose order leaves neither half (a component that asks for places of tokens behind one
   that changes their number, ByteFallback behind Fuse) is refused: it could not be decoded as it comes. */
#include "token/load_hf.h"
#include "base/utf8.h"

#include <string.h>

/* Where in the chain we are: before its tokens are joined, behind ByteFallback (only joining may follow), behind the joint. */
enum place { TOKENS, FALLBACK, JOINED };
struct chain {
	enum place place;
	bool ctc;
};

static int refuse_here(struct kp_err *err, const struct kp_jv *v, enum place place)
{
	return kp_err_set(err, KP_UNIMPLEMENTED,
		"load tokenizer.json: decoder `%" KP_FMT "` behind %s", KP_ARG(kp_hf_type(v)),
		place == JOINED ? "what joins the tokens" : "ByteFallback");
}

static int add(struct kp_hf *h, struct kp_decoder_step step, struct kp_err *err)
{
	struct kp_decoder *d = &h->b.t->decoder;
	if (d->n == KP_DECODER_MAX) {
		kp_pattern_fini(&step.pattern);
		return kp_err_set(
			err, KP_TOO_LARGE, "load decoder: more than `%d` steps", KP_DECODER_MAX);
	}
	d->step[d->n++] = step;
	return 0;
}

static int add_replacement(struct kp_hf *h, kp_str find, kp_str content, struct kp_err *err)
{
	return kp_decoder_add_op(&h->b.t->decoder,
		(struct kp_decoder_op){ .find = find, .content = content }, h->b.t->arena, err);
}

static int add_cleanup(struct kp_hf *h, bool wanted, struct kp_err *err)
{
	for (size_t i = 0; wanted && i < KP_LEN(kp_cleanups); i++) {
		if (add_replacement(h, kp_cleanups[i].find, kp_cleanups[i].content, err)) {
			return -1;
		}
	}
	return 0;
}

static int replace(struct kp_hf *h, const struct kp_jv *v, enum place place, struct kp_err *err)
{
	struct kp_decoder_step step = { .kind = KP_DEC_REPLACE };
	if (kp_hf_text(h, v, "content", &step.text, err) ||
		kp_hf_pattern(h, v, &step.pattern, err)) {
		return -1;
	}
	if (place == TOKENS) {
		return add(h, step, err);
	}
	kp_str find = step.pattern.literal;
	if (!find.p) {
		kp_pattern_fini(&step.pattern);
		return refuse_here(err, v, place);
	}
	return add_replacement(h, find, step.text, err);
}

static int strip(struct kp_hf *h, const struct kp_jv *v, enum place place, struct kp_err *err)
{
	struct kp_decoder_step step = { .kind = KP_DEC_STRIP };
	if (kp_hf_text(h, v, "content", &step.text, err) ||
		kp_hf_size(v, "start", &step.start, err) ||
		kp_hf_size(v, "stop", &step.stop, err)) {
		return -1;
	}
	if (kp_utf8_count(step.text) != 1 || step.start > UINT32_MAX || step.stop > UINT32_MAX) {
		return kp_hf_refuse(err, "decoder", KP_S("Strip"));
	}
	if (place == TOKENS) {
		return add(h, step, err);
	}
	struct kp_decoder_op op = {
		.find = step.text, .start = step.start, .stop = step.stop, .strip = true
	};
	return kp_decoder_add_op(&h->b.t->decoder, op, h->b.t->arena, err);
}

static int metaspace(struct kp_hf *h, const struct kp_jv *v, enum place place, struct kp_err *err)
{
	kp_str scheme = kp_jv_str(v, KP_S("prepend_scheme"));
	bool never =
		kp_str_eq(scheme, KP_S("never")) || !kp_hf_flag(v, KP_S("add_prefix_space"), true);
	struct kp_decoder_step step = { .kind = KP_DEC_METASPACE, .flag = !never };
	if (kp_hf_text(h, v, "replacement", &step.text, err)) {
		return -1;
	}
	if (kp_utf8_count(step.text) != 1) {
		return kp_hf_refuse(err, "decoder", KP_S("Metaspace"));
	}
	if (place == JOINED) { /* all of it is the first token */
		return add_replacement(h, step.text, never ? KP_S(" ") : KP_S(""), err);
	}
	h->b.t->decoder.any_first |= step.flag;
	return add(h, step, err);
}

static int wordpiece(struct kp_hf *h, const struct kp_jv *v, enum place place, struct kp_err *err)
{
	struct kp_decoder_step step = { .kind = KP_DEC_WORDPIECE };
	if (kp_hf_text(h, v, "prefix", &step.text, err) ||
		kp_hf_bool(v, "cleanup", &step.flag, err)) {
		return -1;
	}
	if (place == JOINED) {
		return add_cleanup(h, step.flag, err);
	}
	h->b.t->decoder.any_first = true;
	return add(h, step, err);
}

static int bpe(struct kp_hf *h, const struct kp_jv *v, enum place place, struct kp_err *err)
{
	struct kp_decoder_step step = { .kind = KP_DEC_BPE };
	if (kp_hf_text(h, v, "suffix", &step.text, err)) {
		return -1;
	}
	if (place == JOINED) {
		return step.text.n ? add_replacement(h, step.text, KP_S(""), err) : 0;
	}
	h->b.t->decoder.any_last = true;
	return add(h, step, err);
}

static int ctc(struct kp_hf *h, const struct kp_jv *v, struct chain *c, struct kp_err *err)
{
	struct kp_decoder_step step = { .kind = KP_DEC_CTC };
	if (kp_hf_text(h, v, "pad_token", &step.text, err) ||
		kp_hf_text(h, v, "word_delimiter_token", &step.text2, err) ||
		kp_hf_bool(v, "cleanup", &step.flag, err)) {
		return -1;
	}
	if (c->place == JOINED) {
		bool pad = step.text.n, delimiter = step.flag && step.text2.n;
		return (pad && add_replacement(h, step.text, KP_S(""), err)) ||
				       add_cleanup(h, step.flag, err) ||
				       (delimiter && add_replacement(h, step.text2, KP_S(" "), err))
			       ? -1
			       : 0;
	}
	if (h->b.t->decoder.n) { /* it compares tokens as they were before */
		return kp_hf_refuse(err, "decoder", KP_S("CTC behind another one"));
	}
	h->b.t->decoder.dedup = c->ctc = true;
	return add(h, step, err);
}

static int one(struct kp_hf *h, const struct kp_jv *v, struct chain *c, struct kp_err *err)
{
	struct kp_decoder *d = &h->b.t->decoder;
	bool fuse = kp_hf_is(v, KP_S("Fuse"));
	if (fuse) {
		c->place = JOINED;
		return 0;
	}
	if (c->place == FALLBACK) {
		return refuse_here(err, v, c->place);
	}
	if (kp_hf_is(v, KP_S("ByteLevel")) || kp_hf_is(v, KP_S("ByteFallback"))) {
		if (c->place != TOKENS) {
			return refuse_here(err, v, c->place);
		}
		if (kp_hf_is(v, KP_S("ByteLevel"))) {
			c->place = JOINED;
			return add(h, (struct kp_decoder_step){ .kind = KP_DEC_BYTES }, err);
		}
		c->place = FALLBACK;
		d->fallback = true;
		return 0;
	}
	if (kp_hf_is(v, KP_S("Replace"))) {
		return replace(h, v, c->place, err);
	}
	if (kp_hf_is(v, KP_S("Strip"))) {
		return strip(h, v, c->place, err);
	}
	if (kp_hf_is(v, KP_S("CTC"))) {
		return ctc(h, v, c, err);
	}
	enum place at = c->place;
	int r = kp_hf_is(v, KP_S("Metaspace"))    ? metaspace(h, v, at, err)
		: kp_hf_is(v, KP_S("WordPiece"))  ? wordpiece(h, v, at, err)
		: kp_hf_is(v, KP_S("BPEDecoder")) ? bpe(h, v, at, err)
						  : kp_hf_refuse(err, "decoder", kp_hf_type(v));
	if (r == 0 && c->ctc && (d->any_first || d->any_last)) {
		return kp_hf_refuse(err, "decoder behind CTC", kp_hf_type(v));
	}
	if (r == 0 && d->fallback && d->any_last) {
		return kp_hf_refuse(err, "decoder", KP_S("BPEDecoder with ByteFallback"));
	}
	return r;
}

static int walk(
	struct kp_hf *h, const struct kp_jv *v, struct chain *c, unsigned depth, struct kp_err *err)
{
	const struct kp_jv *list = kp_jv_get(v, KP_S("decoders"));
	if (!kp_hf_is(v, KP_S("Sequence"))) {
		return one(h, v, c, err);
	}
	if (!kp_jv_is(list, KP_JSON_ARRAY) || depth > 16) {
		return kp_hf_refuse(err, "decoder", KP_S("Sequence"));
	}
	for (uint32_t i = 0; i < list->n; i++) {
		if (walk(h, &list->items[i], c, depth + 1, err)) {
			return -1;
		}
	}
	return 0;
}

int kp_hf_decoder(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	struct chain c = { .place = TOKENS };
	struct kp_decoder *d = &h->b.t->decoder;
	if (kp_hf_parse(h, h->decoder, &v, err)) {
		return -1;
	}
	if (v.type == KP_JSON_NULL) {
		d->any_first = true;
		h->b.text = true;
		return add(h, (struct kp_decoder_step){ .kind = KP_DEC_SPACES }, err);
	}
	if (walk(h, &v, &c, 0, err)) {
		return -1;
	}
	if (d->fallback && d->any_last) {
		return kp_hf_refuse(err, "decoder", KP_S("BPEDecoder with ByteFallback"));
	}
	if (!h->b.text && d->n == 1 && d->step[0].kind == KP_DEC_BYTES && d->n_ops == 0) {
		return 0;
	}
	h->b.text = true;
	return 0;
}
