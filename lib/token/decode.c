/* DESIGN: decoding is concatenation. Each token's bytes were fixed at load, as the byte-level decoder gives them (a token whose
   characters all belong to the byte alphabet stands for those bytes, any other for its text); what is no valid UTF-8 in the whole
   becomes U+FFFD, once per maximal part. The incremental form keeps only the bytes that may still become a character, at
   most three, so every cut of the ids gives the same text. */
#include "token/internal.h"
#include "base/utf8.h"

#include <string.h>

static int token(
	const struct kp_tokenizer *t, kp_id id, bool skip_special, kp_str *ret, struct kp_err *err)
{
	if (id >= t->vocab.n || !(t->vocab.tok[id].flags & KP_TOK_KNOWN)) {
		return kp_err_set(err, KP_OUT_OF_RANGE, "decode token `%u`: no such id", id);
	}
	*ret = skip_special && (t->vocab.tok[id].flags & KP_TOK_SPECIAL)
		       ? KP_S("")
		       : kp_vocab_bytes(&t->vocab, id);
	return 0;
}

int kp_tokenizer_decode(const struct kp_tokenizer *t, const kp_id *ids, size_t n, bool skip_special,
	struct kp_buf *out, struct kp_err *err)
{
	size_t start = out->n;
	struct kp_detok d;
	kp_detok_init(&d, t, skip_special);
	for (size_t i = 0; i < n; i++) {
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

void kp_detok_init(struct kp_detok *d, const struct kp_tokenizer *t, bool skip_special)
{
	*d = (struct kp_detok){ .t = t, .skip_special = skip_special };
}

/* Gives out s but for the character that its end may begin. */
static void emit(struct kp_detok *d, kp_str s, struct kp_buf *out)
{
	size_t tail = kp_utf8_incomplete_tail(s);
	kp_str body = kp_str_sub(s, 0, s.n - tail);
	if (KP_LIKELY(kp_utf8_ok(body))) {
		kp_buf_add(out, body);
	} else {
		kp_utf8_add_lossy(out, body);
	}
	memcpy(d->pending, s.p + body.n, tail);
	d->n_pending = (uint8_t)tail;
}

int kp_detok_feed(struct kp_detok *d, kp_id id, struct kp_buf *out, struct kp_err *err)
{
	kp_str s;
	if (token(d->t, id, d->skip_special, &s, err)) {
		return -1;
	}
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
	return kp_buf_finish(out, "decoded text", err);
}

void kp_detok_finish(struct kp_detok *d, struct kp_buf *out)
{
	if (d->n_pending) {
		kp_buf_lit(out, "\xef\xbf\xbd"); /* an incomplete character is one maximal part */
		d->n_pending = 0;
	}
}
