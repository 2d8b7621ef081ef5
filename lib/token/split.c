/* DESIGN: a step finds parts of a piece, each a match or not, from left to right; the behaviour joins or drops parts and gives what remains to the
   next step at once, so nothing is collected. Steps that write text do it into a buffer of their own, which is free again when all that follows
   has taken it. Behaviours are the reference's folds, turned so that they need one part of look-ahead at most. */
#include "token/split.h"
#include "base/utf8.h"
#include "token/internal.h"
#include "token/pretok.h"

#include <string.h>

enum { PAD = 16 };

void kp_split_fini(struct kp_split *s)
{
	for (size_t i = 0; i < s->n; i++) {
		kp_pattern_fini(&s->step[i].pattern);
	}
	s->n = 0;
}

void kp_split_work_init(struct kp_split_work *w)
{
	*w = (struct kp_split_work){ 0 };
	for (size_t i = 0; i < KP_SPLIT_MAX; i++) {
		kp_buf_init(&w->text[i], SIZE_MAX / 2);
	}
}

void kp_split_work_fini(struct kp_split_work *w)
{
	for (size_t i = 0; i < KP_SPLIT_MAX; i++) {
		kp_buf_fini(&w->text[i]);
		kp_buf_init(&w->text[i], SIZE_MAX / 2);
	}
	kp_find_work_fini(&w->find);
}

struct run {
	const struct kp_split *s;
	struct kp_split_work *w;
	kp_piece_sink *sink;
	void *ctx;
	struct kp_err *err;
};

static int run_step(struct run *r, size_t k, struct kp_piece piece);

/* The parts of one piece on their way through the behaviour. */
struct parts {
	struct run *r;
	size_t k; /* of the step */
	struct kp_piece piece;
	const struct kp_split_step *st;
	size_t from, to; /* the part that may still grow */
	bool held, was_match;
};

static int give(struct parts *p, size_t from, size_t to)
{
	if (from == to) {
		return 0;
	}
	struct kp_piece out = { .s = kp_str_sub(p->piece.s, from, to) };
	out.first = p->piece.first && from < p->piece.first_n;
	out.first_n = out.first ? p->piece.first_n - from : 0;
	return run_step(p->r, p->k + 1, out);
}

static int hold(struct parts *p, size_t from, size_t to)
{
	if (p->held && give(p, p->from, p->to)) {
		return -1;
	}
	p->from = from;
	p->to = to;
	p->held = true;
	return 0;
}

static int part(struct parts *p, size_t from, size_t to, bool match)
{
	bool was = p->was_match;
	match = match != p->st->invert;
	p->was_match = match;
	switch (p->st->behavior) {
	case KP_SPLIT_REMOVED:
		return match ? 0 : give(p, from, to);
	case KP_SPLIT_ISOLATED:
		return give(p, from, to);
	case KP_SPLIT_WITH_PREVIOUS:
		if (match && !was && p->held) {
			p->to = to;
			return 0;
		}
		break;
	case KP_SPLIT_WITH_NEXT:
		if (!match && was && p->held) { /* the match before begins this part */
			from = p->from;
			p->held = false;
		}
		break;
	case KP_SPLIT_CONTIGUOUS:
		if (match == was && p->held) {
			p->to = to;
			return 0;
		}
		break;
	default:
		break;
	}
	return hold(p, from, to);
}

static int finish(struct parts *p)
{
	return p->held ? give(p, p->from, p->to) : 0;
}

/* --- where the parts come from ------------------------------------------------------------------------------------ */

static int by_pattern(struct parts *p)
{
	kp_str s = p->piece.s;
	struct kp_find f = kp_find_begin(&p->st->pattern, &p->r->w->find, s);
	size_t done = 0, from, to;
	int r;
	while ((r = kp_find_next(&f, &from, &to, p->r->err)) > 0) {
		if ((done != from && part(p, done, from, false)) || part(p, from, to, true)) {
			return -1;
		}
		done = to;
	}
	if (r == 0 && done != s.n) {
		r = part(p, done, s.n, false);
	}
	return r ? -1 : finish(p);
}

static bool is_match(const struct kp_split_step *st, uint32_t cp)
{
	if (st->kind == KP_SPLIT_PUNCTUATION) {
		return kp_uc_more(cp) & KP_UC_PUNCTUATION;
	}
	return kp_uc_class(cp) & (st->kind == KP_SPLIT_SPACE ? KP_UC_SPACE : KP_UC_DIGIT);
}

static int by_class(struct parts *p)
{
	kp_str s = p->piece.s;
	size_t done = 0, len;
	for (size_t at = 0; at < s.n; at += len) {
		if (!is_match(p->st, kp_uc_get((const uint8_t *)s.p + at, &len))) {
			continue;
		}
		if ((done < at && part(p, done, at, false)) || part(p, at, at + len, true)) {
			return -1;
		}
		done = at + len;
	}
	return (done < s.n && part(p, done, s.n, false)) || finish(p) ? -1 : 0;
}

/* 0: white space, 1: word character, 2: neither. */
static unsigned word_kind(uint32_t cp)
{
	return kp_uc_is_word(cp) ? 1 : kp_uc_class(cp) & KP_UC_SPACE ? 0 : 2;
}

static int by_words(struct parts *p)
{
	kp_str s = p->piece.s;
	size_t from = 0, len;
	unsigned before = 0;
	for (size_t at = 0; at <= s.n; at += len) {
		len = 1;
		unsigned kind =
			at < s.n ? word_kind(kp_uc_get((const uint8_t *)s.p + at, &len)) : 3;
		if (kind != before) {
			if (before && give(p, from, at)) {
				return -1;
			}
			from = at;
			before = kind;
		}
	}
	return 0;
}

/* The script of a character as UnicodeScripts sees it; 0 joins with everything. */
static unsigned script_of(uint32_t cp)
{
	return kp_uc_script_group(kp_uc_more(cp));
}

static int by_scripts(struct parts *p)
{
	kp_str s = p->piece.s;
	size_t from = SIZE_MAX,
	       len; /* what stands before the first character of a script is lost, as in the reference */
	unsigned last = 0;
	for (size_t at = 0; at < s.n; at += len) {
		unsigned script = script_of(kp_uc_get((const uint8_t *)s.p + at, &len));
		if (script && script != last) {
			if (from != SIZE_MAX && give(p, from, at)) {
				return -1;
			}
			from = at;
		}
		last = script ? script : last;
	}
	return from == SIZE_MAX ? 0 : give(p, from, s.n);
}

static int by_length(struct parts *p)
{
	kp_str s = p->piece.s;
	size_t from = 0, n = 0, len;
	for (size_t at = 0; at < s.n; at += len) {
		if (n == p->st->length) {
			if (give(p, from, at)) {
				return -1;
			}
			from = at;
			n = 0;
		}
		(void)kp_uc_get((const uint8_t *)s.p + at, &len);
		n++;
	}
	return give(p, from, s.n);
}

/* --- steps that write ------------------------------------------------------------------------------------------------ */

/* Starts the step's buffer with `prefix` and room for the piece. */
static struct kp_buf *begin_text(struct run *r, size_t k)
{
	struct kp_buf *b = &r->w->text[k];
	kp_buf_reset(b);
	return b;
}

static int end_text(struct kp_buf *b, struct kp_err *err)
{
	size_t n = b->n;
	for (int i = 0; i < PAD; i++) {
		kp_buf_addc(b, 0);
	}
	if (kp_buf_finish(b, "pre-tokenized text", err)) {
		return -1;
	}
	b->n = n;
	return 0;
}

static int metaspace(struct run *r, size_t k, struct kp_piece piece)
{
	const struct kp_split_step *st = &r->s->step[k];
	kp_str mark = kp_str_n(st->mark, st->mark_n);
	struct kp_buf *b = begin_text(r, k);
	bool marked = kp_str_starts(piece.s, mark) || kp_str_starts(piece.s, KP_S(" "));
	bool prefix =
		st->scheme == KP_SCHEME_ALWAYS || (st->scheme == KP_SCHEME_FIRST && piece.first);
	if (!marked && prefix) {
		kp_buf_add(b, mark);
	}
	size_t before = b->n;
	kp_str rest = piece.s, word;
	for (bool first = true; kp_str_split(&rest, ' ', &word); first = false) {
		if (!first) {
			kp_buf_add(b, mark);
		}
		kp_buf_add(b, word);
	}
	if (end_text(b, r->err)) {
		return -1;
	}
	piece.first_n += before;
	piece.s = kp_buf_str(b);
	if (!st->cut) {
		return run_step(r, k + 1, piece);
	}
	struct kp_split_step cut = { .behavior = KP_SPLIT_WITH_NEXT,
		.pattern = kp_pattern_literal(mark) };
	struct parts p = { .r = r, .k = k, .piece = piece, .st = &cut };
	return by_pattern(&p);
}

/* One piece of GPT-2's pattern, or the whole, in the alphabet. */
static int give_bytes(struct run *r, size_t k, struct kp_piece piece, size_t alphabet_at)
{
	struct kp_buf *b = &r->w->text[k];
	if (r->s->step[k].plain) {
		return run_step(r, k + 1, piece);
	}
	b->n = alphabet_at;
	kp_bytelevel_encode(piece.s, b);
	if (end_text(b, r->err)) {
		return -1;
	}
	piece.s = kp_str_skip(kp_buf_str(b), alphabet_at);
	size_t at = 0, len; /* a character for each byte */
	for (; piece.first_n && at < piece.s.n; piece.first_n--, at += len) {
		(void)kp_uc_get((const uint8_t *)piece.s.p + at, &len);
	}
	piece.first_n = at;
	return run_step(r, k + 1, piece);
}

static int byte_level(struct run *r, size_t k, struct kp_piece piece)
{
	const struct kp_split_step *st = &r->s->step[k];
	struct kp_buf *b = begin_text(r, k);
	size_t at = 0;
	if (st->scheme == KP_SCHEME_ALWAYS && !kp_str_starts(piece.s, KP_S(" "))) {
		kp_buf_addc(b, ' ');
		kp_buf_add(b, piece.s);
		if (end_text(b, r->err)) {
			return -1;
		}
		piece.first_n += piece.first;
		piece.s = kp_buf_str(b);
		at = b->n + PAD;
	}
	/* The alphabet goes behind the text, which must not move meanwhile: at most two bytes for one. */
	if (!st->plain) {
		bool own = at != 0;
		if (!kp_buf_reserve(b, PAD + at + 2 * piece.s.n + PAD)) {
			return kp_buf_finish(b, "pre-tokenized text", r->err);
		}
		if (own) {
			memset(b->p + b->n, 0, PAD);
			piece.s.p = b->p;
		}
	}
	if (!st->cut) {
		return give_bytes(r, k, piece, at);
	}
	const uint8_t *p = (const uint8_t *)piece.s.p, *end = p + piece.s.n;
	for (size_t from = 0, n; from < piece.s.n; from += n) {
		n = kp_pretok_gpt2.piece(p + from, end);
		struct kp_piece one = { .s = kp_str_sub(piece.s, from, from + n) };
		one.first = piece.first && from < piece.first_n;
		one.first_n = one.first ? piece.first_n - from : 0;
		if (give_bytes(r, k, one, at)) {
			return -1;
		}
	}
	return 0;
}

static int run_step(struct run *r, size_t k, struct kp_piece piece)
{
	if (k == r->s->n) {
		return r->sink(r->ctx, piece.s) ? 0 : -1;
	}
	const struct kp_split_step *st = &r->s->step[k];
	struct parts p = { .r = r, .k = k, .piece = piece, .st = st };
	switch (st->kind) {
	case KP_SPLIT_PATTERN:
		return by_pattern(&p);
	case KP_SPLIT_SPACE:
	case KP_SPLIT_DIGIT:
	case KP_SPLIT_PUNCTUATION:
		return by_class(&p);
	case KP_SPLIT_WORDS:
		return by_words(&p);
	case KP_SPLIT_SCRIPTS:
		return by_scripts(&p);
	case KP_SPLIT_FIXED:
		return by_length(&p);
	case KP_SPLIT_METASPACE:
		return metaspace(r, k, piece);
	case KP_SPLIT_BYTES:
	default:
		return byte_level(r, k, piece);
	}
}

int kp_split_run(const struct kp_split *s, struct kp_piece piece, struct kp_split_work *w,
	kp_piece_sink *sink, void *ctx, struct kp_err *err)
{
	struct run r = { .s = s, .w = w, .sink = sink, .ctx = ctx, .err = err };
	return piece.s.n ? run_step(&r, 0, piece) : 0;
}
