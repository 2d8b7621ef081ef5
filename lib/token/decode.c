/* DESIGN: decoding. What each token reads as was worked out at load (decoder.h), so a token costs a look-up and a copy; a tokenizer with
   ByteLevel alone, which is most, goes the short way. What is no valid UTF-8 in the whole becomes U+FFFD, once per maximal part; behind ByteFallback
   once per byte, and for all bytes of a run of byte tokens that is not valid as a whole. The incremental form cannot take back the characters of such
   a run that it gave out before the bad byte; that is the only difference. Every cut of the ids gives the same text. */
#include "token/internal.h"
#include "base/utf8.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

static bool is_known(const struct kp_tokenizer *t, kp_id id)
{
	return id < t->vocab.n && (t->vocab.tok[id].flags & KP_TOK_KNOWN);
}

void kp_detok_init(struct kp_detok *d, const struct kp_tokenizer *t, bool skip_special)
{
	*d = (struct kp_detok){ .t = t, .skip_special = skip_special, .last = KP_NO_ID };
}

/* --- the operations on the joined text ------------------------------------------------------------------------------- */

static void op_byte(struct kp_detok *d, size_t k, char c, struct kp_buf *out);

static void op_text(struct kp_detok *d, size_t k, kp_str s, struct kp_buf *out)
{
	if (k == d->t->decoder.n_ops) {
		kp_buf_add(out, s);
		return;
	}
	const struct kp_decoder_op *op = &d->t->decoder.op[k];
	if (op->strip && d->op[k].done && !op->stop && k + 1 == d->t->decoder.n_ops) {
		kp_buf_add(out, s);
		return;
	}
	for (size_t i = 0; i < s.n; i++) {
		op_byte(d, k, s.p[i], out);
	}
}

static void replace_byte(struct kp_detok *d, size_t k, char c, struct kp_buf *out)
{
	const struct kp_decoder_op *op = &d->t->decoder.op[k];
	uint8_t m = d->op[k].matched;
	while (m && op->find.p[m] != c) {
		uint8_t left = op->fail[m];
		op_text(d, k + 1, kp_str_sub(op->find, 0, (size_t)(m - left)), out);
		m = left;
	}
	if (op->find.p[m] != c) {
		op_text(d, k + 1, kp_str_n(&c, 1), out);
	} else if (++m == op->find.n) {
		op_text(d, k + 1, op->content, out);
		m = 0;
	}
	d->op[k].matched = m;
}

static void strip_byte(struct kp_detok *d, size_t k, char c, struct kp_buf *out)
{
	const struct kp_decoder_op *op = &d->t->decoder.op[k];
	uint8_t m = d->op[k].matched;
	if (op->find.p[m] == c) {
		d->op[k].matched = ++m;
		if (m < op->find.n) {
			return;
		}
		d->op[k].matched = 0;
		if (!d->op[k].done && d->op[k].count < op->start) {
			d->op[k].done = ++d->op[k].count == op->start;
			d->op[k].count = d->op[k].done ? 0 : d->op[k].count;
			return;
		}
		if (d->op[k].count < op->stop) {
			d->op[k].count++;
			return;
		}
		op_text(d, k + 1, op->find, out);
		return;
	}
	uint32_t held = d->op[k].done || op->start == 0 ? d->op[k].count : 0;
	d->op[k].done = true;
	d->op[k].count = 0;
	d->op[k].matched = 0;
	for (; held; held--) {
		op_text(d, k + 1, op->find, out);
	}
	op_text(d, k + 1, kp_str_sub(op->find, 0, m), out);
	if (m && op->find.p[0] == c) { /* the byte begins the character anew */
		d->op[k].matched = 1;
	} else {
		op_text(d, k + 1, kp_str_n(&c, 1), out);
	}
}

static void op_byte(struct kp_detok *d, size_t k, char c, struct kp_buf *out)
{
	if (d->t->decoder.op[k].strip) {
		strip_byte(d, k, c, out);
	} else {
		replace_byte(d, k, c, out);
	}
}

static void op_finish(struct kp_detok *d, struct kp_buf *out)
{
	for (size_t k = 0; k < d->t->decoder.n_ops; k++) {
		uint8_t m = d->op[k].matched;
		d->op[k].matched = 0;
		op_text(d, k + 1, kp_str_sub(d->t->decoder.op[k].find, 0, m), out);
	}
}

/* Valid text on its way out. */
static void text_out(struct kp_detok *d, kp_str s, struct kp_buf *out)
{
	if (KP_LIKELY(d->t->decoder.n_ops == 0)) {
		kp_buf_add(out, s);
	} else {
		op_text(d, 0, s, out);
	}
}

/* --- bytes to characters ------------------------------------------------------------------------------------------------ */

static void lossy_out(struct kp_detok *d, kp_str s, struct kp_buf *out)
{
	if (d->t->decoder.n_ops == 0) {
		kp_utf8_add_lossy(out, s);
		return;
	}
	KP_AUTO(buf) struct kp_buf valid;
	kp_buf_init(&valid, out->max);
	kp_utf8_add_lossy(&valid, s);
	text_out(d, kp_buf_str(&valid), out);
}

/* Gives out s but for the character that its end may begin. */
static void emit(struct kp_detok *d, kp_str s, struct kp_buf *out)
{
	size_t tail = kp_utf8_incomplete_tail(s);
	kp_str body = kp_str_sub(s, 0, s.n - tail);
	if (KP_LIKELY(kp_utf8_ok(body))) {
		text_out(d, body, out);
	} else {
		lossy_out(d, body, out);
	}
	memcpy(d->pending, s.p + body.n, tail);
	d->n_pending = (uint8_t)tail;
}

static void feed_bytes(struct kp_detok *d, kp_str s, struct kp_buf *out)
{
	while (d->n_pending &&
		s.n) { /* byte by byte until the pending character is complete or broken */
		char head[4];
		memcpy(head, d->pending, 3);
		head[d->n_pending] = s.p[0];
		s = kp_str_skip(s, 1);
		emit(d, kp_str_n(head, (size_t)d->n_pending + 1), out);
	}
	if (s.n) {
		emit(d, s, out);
	}
}

/* The pending bytes of a run of byte tokens are no character. */
static void break_run(struct kp_detok *d, struct kp_buf *out)
{
	for (; d->n_pending; d->n_pending--) {
		text_out(d, KP_S(REPLACEMENT), out);
	}
}

static void feed_byte_token(struct kp_detok *d, char c, struct kp_buf *out)
{
	d->pending[d->n_pending++] = c;
	kp_str s = kp_str_n(d->pending, d->n_pending);
	while (d->t->decoder.per_char && s.n && !kp_utf8_ok(s) &&
		kp_utf8_incomplete_tail(s) != s.n) {
		text_out(d, KP_S(REPLACEMENT), out);
		memmove(d->pending, d->pending + 1, --d->n_pending);
		s.n--;
	}
	if (!d->broken && kp_utf8_ok(s)) {
		text_out(d, s, out);
		d->n_pending = 0;
	} else if (d->broken || kp_utf8_incomplete_tail(s) != s.n) {
		d->broken = true;
		break_run(d, out);
	}
}

static void end_run(struct kp_detok *d, struct kp_buf *out)
{
	break_run(d, out);
	d->broken = false;
}

/* --- tokens ------------------------------------------------------------------------------------------------------------- */

/* A token as the chain reads it where that depends on its place. */
static int feed_placed(
	struct kp_detok *d, kp_id id, bool last, struct kp_buf *out, struct kp_err *err)
{
	const struct kp_tokenizer *t = d->t;
	KP_AUTO(buf) struct kp_buf text;
	struct kp_effort effort;
	struct kp_find_work work = { .effort = &effort };
	kp_effort_begin(&effort, 0);
	kp_buf_init(&text, 64 << 20);
	(void)kp_decoder_token(
		&t->decoder, kp_vocab_bytes(&t->vocab, id), !d->begun, last, &work, &text, err);
	kp_find_work_fini(&work);
	if (kp_buf_finish(&text, "decoded token", err)) {
		return -1;
	}
	d->begun = true;
	feed_bytes(d, kp_buf_str(&text), out);
	return 0;
}

/* The token before, now that it is known whether it was the last one. */
static int feed_waiting(struct kp_detok *d, bool last, struct kp_buf *out, struct kp_err *err)
{
	if (!d->waiting) {
		return 0;
	}
	d->waiting = false;
	return feed_placed(d, d->last, last, out, err);
}

/* Of equal tokens in a row CTC takes one. */
static bool is_repeated(const struct kp_tokenizer *t, kp_id before, kp_id id)
{
	return t->decoder.dedup && before != KP_NO_ID &&
	       kp_str_eq(kp_vocab_bytes(&t->vocab, before), kp_vocab_bytes(&t->vocab, id));
}

static int feed_general(struct kp_detok *d, kp_id id, struct kp_buf *out, struct kp_err *err)
{
	const struct kp_tokenizer *t = d->t;
	if (feed_waiting(d, false, out, err)) {
		return -1;
	}
	if (is_repeated(t, d->last, id)) {
		return 0;
	}
	d->last = id;
	const struct kp_tok *tok = &t->decoded.tok[id];
	if (tok->flags & KP_TOK_GONE) {
		return 0;
	}
	if (tok->flags & KP_TOK_BYTE) {
		d->begun = true;
		feed_byte_token(d, t->decoded.blob[tok->at], out);
		return 0;
	}
	if (t->decoder.fallback) {
		end_run(d, out);
	}
	if (tok->flags & KP_TOK_WAIT) {
		d->waiting = true;
		return 0;
	}
	if (t->decoder.bos_space && !d->begun) {
		kp_str s = kp_vocab_bytes(&t->decoded, id);
		bool blank = kp_str_starts(s, KP_S(" ")) && tok->shape != KP_SHAPE_UNK;
		d->begun = s.n > blank || (blank && t->decoder.bos_space == 1);
		feed_bytes(d, kp_str_skip(s, blank), out);
		return 0;
	}
	if (t->decoder.any_first && !d->begun) {
		return feed_placed(d, id, false, out, err);
	}
	d->begun = true;
	feed_bytes(d, kp_vocab_bytes(&t->decoded, id), out);
	return 0;
}

int kp_detok_feed(struct kp_detok *d, kp_id id, struct kp_buf *out, struct kp_err *err)
{
	const struct kp_tokenizer *t = d->t;
	if (!is_known(t, id)) {
		return kp_err_set(err, KP_OUT_OF_RANGE, "decode token `%u`: no such id", id);
	}
	if (d->skip_special && (t->vocab.tok[id].flags & KP_TOK_SPECIAL)) {
		return 0;
	}
	if (KP_LIKELY(t->decoded.tok == t->vocab.tok)) {
		feed_bytes(d, kp_vocab_bytes(&t->vocab, id), out);
	} else if (feed_general(d, id, out, err)) {
		return -1;
	}
	return kp_buf_finish(out, "decoded text", err);
}

void kp_detok_finish(struct kp_detok *d, struct kp_buf *out)
{
	struct kp_err err = KP_ERR_INIT;
	if (feed_waiting(d, true, out, &err)) {
		out->failed = true;
	}
	if (d->t->decoder.fallback) {
		end_run(d, out);
	} else if (d->n_pending) {
		text_out(d, KP_S(REPLACEMENT),
			out); /* an incomplete character is one maximal part */
		d->n_pending = 0;
	}
	if (d->t->decoder.n_ops) {
		op_finish(d, out);
	}
}

/* Is the run of byte tokens that begins at ids[0] valid UTF-8 as a whole? */
static bool run_is_valid(const struct kp_detok *d, const kp_id *ids, size_t n)
{
	char part[4];
	size_t k = 0;
	kp_id before = KP_NO_ID;
	for (size_t i = 0; i < n; i++) {
		const struct kp_tokenizer *t = d->t;
		if (!is_known(t, ids[i]) ||
			(d->skip_special && (t->vocab.tok[ids[i]].flags & KP_TOK_SPECIAL))) {
			continue;
		}
		const struct kp_tok *tok = &t->decoded.tok[ids[i]];
		bool gone = (tok->flags & KP_TOK_GONE) || is_repeated(t, before, ids[i]);
		before = ids[i];
		if (gone) {
			continue;
		}
		if (!(tok->flags & KP_TOK_BYTE)) {
			break;
		}
		part[k++] = t->decoded.blob[tok->at];
		if (kp_utf8_ok(kp_str_n(part, k))) {
			k = 0;
		} else if (kp_utf8_incomplete_tail(kp_str_n(part, k)) != k) {
			return false;
		}
	}
	return k == 0;
}

int kp_tokenizer_decode(const struct kp_tokenizer *t, const kp_id *ids, size_t n, bool skip_special,
	struct kp_buf *out, struct kp_err *err)
{
	size_t start = out->n;
	struct kp_detok d;
	bool in_run = false;
	kp_detok_init(&d, t, skip_special);
	for (size_t i = 0; i < n; i++) {
		if (t->decoder.fallback && !t->decoder.per_char && is_known(t, ids[i]) &&
			!(t->decoded.tok[ids[i]].flags & KP_TOK_GONE) &&
			!(skip_special && (t->vocab.tok[ids[i]].flags & KP_TOK_SPECIAL))) {
			bool byte = t->decoded.tok[ids[i]].flags & KP_TOK_BYTE;
			if (byte && !in_run) {
				d.broken = !run_is_valid(&d, ids + i, n - i);
			}
			in_run = byte;
		}
		if (kp_detok_feed(&d, ids[i], out, err)) {
			if (!out->failed) {
				out->n = start;
			}
			return -1;
		}
	}
	kp_detok_finish(&d, out);
	return kp_buf_finish(out, "decoded text", err);
}
