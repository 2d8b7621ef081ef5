/* DESIGN: see decoder.h. One token through the steps with two buffers; used at load for all tokens, later for a first or last one only. */
#include "token/decoder.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/internal.h"

#include <string.h>

const struct kp_cleanup kp_cleanups[11] = {
	{ KP_S_INIT(" ."), KP_S_INIT(".") },
	{ KP_S_INIT(" ?"), KP_S_INIT("?") },
	{ KP_S_INIT(" !"), KP_S_INIT("!") },
	{ KP_S_INIT(" ,"), KP_S_INIT(",") },
	{ KP_S_INIT(" ' "), KP_S_INIT("'") },
	{ KP_S_INIT(" n't"), KP_S_INIT("n't") },
	{ KP_S_INIT(" 'm"), KP_S_INIT("'m") },
	{ KP_S_INIT(" do not"), KP_S_INIT(" don't") },
	{ KP_S_INIT(" 's"), KP_S_INIT("'s") },
	{ KP_S_INIT(" 've"), KP_S_INIT("'ve") },
	{ KP_S_INIT(" 're"), KP_S_INIT("'re") },
};

void kp_decoder_fini(struct kp_decoder *d)
{
	for (size_t i = 0; i < d->n; i++) {
		kp_pattern_fini(&d->step[i].pattern);
	}
	d->n = 0;
}

int kp_decoder_add_op(
	struct kp_decoder *d, struct kp_decoder_op op, struct kp_arena *a, struct kp_err *err)
{
	if (d->n_ops == KP_DECODER_OPS || op.find.n > UINT8_MAX || op.find.n == 0) {
		return kp_err_set(err, KP_TOO_LARGE,
			"load decoder: text `%" KP_FMT "`, 1 to 255 bytes, at most %d of them",
			KP_ARG(kp_str_sub(op.find, 0, 80)), KP_DECODER_OPS);
	}
	op.fail = kp_arena_calloc(a, op.find.n + 1, 1);
	if (!op.fail) {
		return kp_arena_full(err, "decoder");
	}
	for (size_t i = 1, k = 0; i < op.find.n; i++) {
		while (k && op.find.p[i] != op.find.p[k]) {
			k = op.fail[k];
		}
		k += op.find.p[i] == op.find.p[k];
		op.fail[i + 1] = (uint8_t)k;
	}
	d->op[d->n_ops++] = op;
	return 0;
}

int kp_decoder_byte(kp_str t)
{
	if (t.n != 6 || !kp_str_starts(t, KP_S("<0x")) || t.p[5] != '>') {
		return -1;
	}
	uint64_t v;
	kp_str digits = kp_str_sub(t, 3, 5);
	if (digits.p[0] == '+') { /* the reference's number parser takes a sign */
		digits = kp_str_skip(digits, 1);
	}
	return kp_str_hex64(digits, &v) ? (int)v : -1;
}

/* str::replace of the reference: an empty text is found between all characters. */
static void replace_all(kp_str s, kp_str find, kp_str content, struct kp_buf *out)
{
	struct kp_pattern p = kp_pattern_literal(find);
	struct kp_find f = kp_find_begin(&p, NULL, s);
	struct kp_err err = KP_ERR_INIT;
	size_t done = 0, from, to;
	while (kp_find_next(&f, &from, &to, &err) > 0) {
		kp_buf_add(out, kp_str_sub(s, done, from));
		kp_buf_add(out, content);
		done = to;
	}
	kp_buf_add(out, kp_str_skip(s, done));
}

static void strip(const struct kp_decoder_step *st, kp_str s, struct kp_buf *out)
{
	for (size_t i = 0; i < st->start && kp_str_starts(s, st->text); i++) {
		s = kp_str_skip(s, st->text.n);
	}
	for (size_t i = 0; i < st->stop && kp_str_ends(s, st->text); i++) {
		s = kp_str_sub(s, 0, s.n - st->text.n);
	}
	kp_buf_add(out, s);
}

/* Runs the replacements of the cleanup over *s, between the two buffers. */
static void cleanup(kp_str *s, struct kp_buf b[2], size_t *which)
{
	for (size_t i = 0; i < KP_LEN(kp_cleanups); i++) {
		if (kp_str_has(*s, kp_cleanups[i].find)) {
			struct kp_buf *out = &b[ *which ^= 1];
			kp_buf_reset(out);
			replace_all(*s, kp_cleanups[i].find, kp_cleanups[i].content, out);
			*s = kp_buf_str(out);
		}
	}
}

static int replace_step(const struct kp_decoder_step *st, kp_str s, struct kp_find_work *work,
	struct kp_buf *out, struct kp_err *err)
{
	struct kp_find f = kp_find_begin(&st->pattern, work, s);
	size_t done = 0, from, to;
	int r = 0;
	while (s.n && (r = kp_find_next(&f, &from, &to, err)) > 0) {
		kp_buf_add(out, kp_str_sub(s, done, from));
		kp_buf_add(out, st->text);
		done = to;
	}
	kp_buf_add(out, kp_str_skip(s, done));
	return r;
}

/* One step but for its cleanup. */
static int run_step(const struct kp_decoder_step *st, kp_str s, bool first, bool last,
	struct kp_find_work *work, struct kp_buf *out, struct kp_err *err)
{
	switch (st->kind) {
	case KP_DEC_REPLACE:
		return replace_step(st, s, work, out, err);
	case KP_DEC_STRIP:
		strip(st, s, out);
		break;
	case KP_DEC_METASPACE:
		replace_all(s, st->text, st->flag && first ? KP_S("") : KP_S(" "), out);
		break;
	case KP_DEC_WORDPIECE:
		if (!first && kp_str_starts(s, st->text)) {
			s = kp_str_skip(s, st->text.n);
		} else if (!first) {
			kp_buf_addc(out, ' ');
		}
		kp_buf_add(out, s);
		break;
	case KP_DEC_BPE:
		replace_all(s, st->text, last ? KP_S("") : KP_S(" "), out);
		break;
	case KP_DEC_CTC:
		replace_all(s, st->text, KP_S(""), out);
		break;
	case KP_DEC_SPACES:
		if (!first) {
			kp_buf_addc(out, ' ');
		}
		kp_buf_add(out, s);
		break;
	case KP_DEC_BYTES:
	default: {
		struct kp_bytelevel alphabet;
		kp_bytelevel_init(&alphabet);
		if (!kp_bytelevel_decode(&alphabet, s, out)) {
			kp_buf_add(out, s);
		}
	}
	}
	return 0;
}

bool kp_decoder_token(const struct kp_decoder *d, kp_str token, bool first, bool last,
	struct kp_find_work *work, struct kp_buf *out, struct kp_err *err)
{
	struct kp_buf b[2];
	kp_buf_init(&b[0], out->max);
	kp_buf_init(&b[1], out->max);
	size_t which = 0;
	kp_str s = token;
	bool there = true;
	for (size_t i = 0; i < d->n && there; i++) {
		const struct kp_decoder_step *st = &d->step[i];
		struct kp_buf *to = &b[which ^= 1];
		kp_buf_reset(to);
		if (run_step(st, s, first, last, work, to, err)) {
			to->failed = true;
		}
		s = kp_buf_str(to);
		if (st->flag && st->kind != KP_DEC_METASPACE) {
			cleanup(&s, b, &which);
		}
		if (st->kind == KP_DEC_CTC) {
			if (st->flag && kp_str_has(s, st->text2)) {
				to = &b[which ^= 1];
				kp_buf_reset(to);
				replace_all(s, st->text2, KP_S(" "), to);
				s = kp_buf_str(to);
			}
			there = s.n != 0;
		}
	}
	out->failed = out->failed || b[0].failed || b[1].failed;
	if (there) {
		kp_buf_add(out, s);
	}
	kp_buf_fini(&b[0]);
	kp_buf_fini(&b[1]);
	return there;
}
