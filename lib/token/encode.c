/* DESIGN: the stages of an encode, in the reference's order: added tokens that are matched raw → normalization of what lies between →
   added tokens that are matched normalized → pieces (pretok_*.c) → ids (span.c). Any thread, with a scratch of its own. */
#include "token/span.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/unicode.h"

#include <string.h>

/* --- segments ---------------------------------------------------------------------------------------------------- */

/* Enough computed? Then the encode has failed. */
static void check_effort(struct kp_span *e)
{
	if (e->s->effort.is_over && !e->failed) {
		e->failed = true;
		(void)kp_effort_fail(&e->s->effort, e->err);
	}
}

/* A piece that kp_split_run gives. */
static bool take_piece(void *ctx, kp_str s)
{
	struct kp_span *e = ctx;
	while (s.n && !e->failed) {
		size_t n = kp_model_cut(&e->t->model, s);
		kp_span_one(e, (const uint8_t *)s.p, n);
		s = kp_str_skip(s, n);
	}
	return !e->failed;
}

/* Text between added tokens, already normalized; `readable`: end of the memory around it. first_n: how many of its bytes stand for the
   begin of the whole text. */
static void plain(struct kp_span *e, kp_str s, const char *readable, size_t first_n)
{
	if (s.n && e->t->pretok.run && (!e->t->odd || !kp_text_is_odd(s, e->t->odd))) {
		e->t->pretok.run(e, (const uint8_t *)s.p, (const uint8_t *)s.p + s.n,
			(const uint8_t *)readable);
	} else if (s.n) {
		kp_span_drain(e);
		struct kp_piece piece = { .s = s, .first = first_n != 0, .first_n = first_n };
		if (kp_split_run(&e->t->split, piece, &e->s->split, take_piece, e, e->err)) {
			e->failed = true;
		}
	}
}

/* The normalized form of a segment. */
static int normalize(struct kp_span *e, kp_str *s, struct kp_origins *o, size_t *first_n)
{
	static const struct kp_norm nfc = { .step[0].kind = KP_NORM_NFC, .n = 1 };
	const struct kp_norm *norm = e->t->nfc ? &nfc : &e->t->norm;
	size_t max = s->n > SIZE_MAX / 256 ? s->n : 64 * s->n + (1 << 20);
	kp_str out;
	e->s->norm.protect = e->t->keeps_symbols ? &e->t->normalized : NULL;
	e->s->norm.origins = o;
	if (kp_norm_run(norm, *s, o->policy && o->n_runs, max, &e->s->norm, &out, e->err)) {
		return -1;
	}
	*s = out;
	*first_n = e->s->norm.first;
	o->map = e->s->norm.map;
	o->n_maps = norm->n;
	return 0;
}

static size_t left(size_t n, size_t taken)
{
	return n > taken ? n - taken : 0;
}

/* An added token and, where the text can be cut behind it, the place. */
static void add_token(struct kp_span *e, const struct kp_added *a, size_t end, struct kp_cuts *cuts)
{
	kp_span_token(e, a->id);
	if (cuts && (a->flags & KP_ADDED_CUT) && cuts->n < cuts->max && !e->failed) {
		kp_span_drain(e);
		cuts->p[cuts->n++] = (struct kp_cut){ .text = (uint32_t)end,
			.ids = (uint32_t)(e->ids->n + e->n) };
	}
}

struct symbols {
	const struct kp_tokenizer *t;
	const struct kp_origins *origins;
};

static bool allows(const void *ctx, kp_id id, size_t from, size_t to)
{
	const struct symbols *s = ctx;
	size_t index = kp_added_index(s->t, id);
	return index == SIZE_MAX || kp_policy_allows(s->origins, index, from, to);
}

/* A normalized segment of a Unigram model of SentencePiece's with user-defined pieces: they are not cut out, and the same bytes
   may be one in text of one origin and none in another. */
static void with_symbols(struct kp_span *e, kp_str s, const struct kp_origins *o)
{
	const struct symbols ctx = { .t = e->t, .origins = o };
	const struct kp_spm_symbols symbols = { .allows = allows, .ctx = &ctx };
	e->s->model.spm.symbols = o->policy && o->n_runs ? &symbols : NULL;
	kp_span_uncached(e, s);
	e->s->model.spm.symbols = NULL;
}

/* Text between raw added tokens, `at` its place in the whole text. */
static void segment(struct kp_span *e, kp_str s, const char *readable,
	const struct kp_origins *whole_text, size_t at, struct kp_cuts *cuts)
{
	if (e->t->cut_text && e->t->normalized.n == 0 && !e->t->odd) {
		plain(e, s, readable, 0);
		return;
	}
	struct kp_origins o = *whole_text;
	o.shift = at;
	size_t first_n = 0;
	bool is_copy = false; /* in memory that the next segment's takes the place of */
	if (at == 0 && s.n) {
		(void)kp_uc_get((const uint8_t *)s.p, &first_n);
	}
	if (e->t->nfc ? !kp_nfc_quick(s) : e->t->norm.n != 0 && !e->t->cut_text) {
		if (normalize(e, &s, &o, &first_n)) {
			e->failed = true;
			return;
		}
		readable = s.p + s.n;
		is_copy = true;
	}
	if (e->t->keeps_symbols && e->t->model.kind == KP_MODEL_SPM_UNIGRAM && e->t->normalized.n) {
		with_symbols(e, s, &o);
		return;
	}
	first_n = at ? 0 : first_n;
	struct kp_match_state state = { 0 };
	struct kp_match m;
	while (!e->failed && kp_matcher_next(&e->t->normalized, &o, s, &state, &m)) {
		plain(e, kp_str_sub(s, state.done, m.from), readable, left(first_n, state.done));
		add_token(e, m.token, at + m.end, cuts);
		state.done = m.to;
	}
	check_effort(e);
	if (!e->failed) {
		plain(e, kp_str_skip(s, state.done), readable, left(first_n, state.done));
	}
	if (is_copy) {
		kp_span_drain(e);
	}
}

/* from: what stands before was checked. */
static int check_text(const struct kp_text *text, size_t from, struct kp_err *err)
{
	if (text->n_runs && text->runs[text->n_runs - 1].end != text->s.n) {
		return kp_err_set(err, KP_INTERNAL, "encode text: runs end at `%u` of %zu bytes",
			text->runs[text->n_runs - 1].end, text->s.n);
	}
	size_t ok = from + kp_utf8_valid_prefix(kp_str_skip(text->s, from));
	if (ok != text->s.n) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "encode text: invalid UTF-8 at byte `%zu`", ok);
	}
	return 0;
}

/* Truncates the ids from `begin` on as the file's `truncation` says; n_added: how many the post-processor adds. */
static int truncate_ids(const struct kp_file_limits *l, struct kp_ids *ids, size_t begin,
	size_t n_added, struct kp_err *err)
{
	size_t n = ids->n - begin;
	if (!l->truncates) {
		return 0;
	}
	if (l->max_length < n_added) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"truncate to `%zu` ids: %zu of them are special", l->max_length, n_added);
	}
	size_t max = l->max_length - n_added;
	if (n <= max) {
		return 0;
	}
	if (max && (l->only_second || l->stride >= max)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"truncate to `%zu` ids: the file's strategy or stride does not allow it",
			max);
	}
	if (l->left) {
		memmove(ids->p + begin, ids->p + begin + (n - max), max * sizeof(kp_id));
	}
	ids->n = begin + max;
	return 0;
}

static void add_all(struct kp_ids *ids, const kp_id *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		kp_ids_add(ids, p[i]);
	}
}

/* Puts n ids in front of those from `begin` on. */
static void put_in_front(struct kp_ids *ids, size_t begin, const kp_id *p, kp_id fill, size_t n)
{
	if (n && kp_ids_reserve(ids, n)) {
		memmove(ids->p + begin + n, ids->p + begin, (ids->n - begin) * sizeof(kp_id));
		for (size_t i = 0; i < n; i++) {
			ids->p[begin + i] = p ? p[i] : fill;
		}
		ids->n += n;
	}
}

static void pad_ids(const struct kp_file_limits *l, struct kp_ids *ids, size_t begin)
{
	size_t n = ids->n - begin, to = KP_MAX(n, l->pad_length);
	if (!l->pads) {
		return;
	}
	to = l->pad_length ? l->pad_length : n;
	if (l->pad_multiple && to % l->pad_multiple) {
		to += l->pad_multiple - to % l->pad_multiple;
	}
	if (to <= n) {
		return;
	}
	if (l->pad_left) {
		put_in_front(ids, begin, NULL, l->pad, to - n);
		return;
	}
	for (; n < to && !ids->failed; n++) {
		kp_ids_add(ids, l->pad);
	}
}

/* Where the search for added tokens begins. Behind one that strips on the right the white space is not told by the cut. */
static struct kp_match_state begin_at(
	const struct kp_tokenizer *t, kp_str text, struct kp_cut from, const struct kp_ids *ids)
{
	struct kp_match_state state = { .at = from.text, .done = from.text };
	if (from.text) {
		KP_BUG_ON(from.text > text.n || from.ids != ids->n || ids->n == 0);
		size_t last = kp_added_index(t, ids->p[ids->n - 1]);
		KP_BUG_ON(last == SIZE_MAX || !(t->added[last].flags & KP_ADDED_CUT));
		if (t->added[last].flags & KP_ADDED_RSTRIP) {
			state.done = kp_matcher_skip_space(text, from.text);
		}
	}
	return state;
}

int kp_tokenizer_encode(const struct kp_tokenizer *t, struct kp_token_scratch *s,
	const struct kp_text *text, const struct kp_encode_opts *opts, struct kp_ids *ids,
	struct kp_err *err)
{
	if (check_text(text, opts->from.text, err)) {
		return -1;
	}
	struct kp_span *e = s->span;
	e->t = t;
	e->s = s;
	e->table = s->table;
	e->bucket_mask = s->n_buckets - 1;
	e->tag = (uint64_t)kp_scratch_slot(s, t->serial) << 60;
	e->ids = ids;
	e->err = err;
	e->failed = false;
	e->n = 0;
	e->queued = e->taken = 0;
	e->full = KP_QUEUE_STEP;
	kp_effort_begin(&s->effort, text->s.n - opts->from.text);
	s->norm.find.effort = s->split.find.effort = s->model.effort = &s->effort;
	struct kp_origins o = { .policy = opts->policy,
		.runs = text->runs,
		.n_runs = text->n_runs,
		.effort = &s->effort };
	const char *readable = text->s.p + text->s.n;
	size_t begin = ids->n;
	bool special = opts->add_special && !opts->file_limits;
	struct kp_match_state state = begin_at(t, text->s, opts->from, ids);
	struct kp_match m;
	if (special && state.at == 0) {
		kp_span_add(e, t->prefix, t->n_prefix);
	}
	const struct kp_matcher *raw = kp_policy_rules_rows(o.policy) ? &t->raw : &t->sparse;
	while (!e->failed && kp_matcher_next(raw, &o, text->s, &state, &m)) {
		if (m.from > state.done) {
			segment(e, kp_str_sub(text->s, state.done, m.from), readable, &o,
				state.done, opts->cuts);
		}
		add_token(e, m.token, m.end, opts->cuts);
		state.done = m.to;
	}
	check_effort(e);
	if (!e->failed && state.done < text->s.n) {
		segment(e, kp_str_skip(text->s, state.done), readable, &o, state.done, opts->cuts);
	}
	kp_span_drain(e);
	if (special) {
		kp_span_add(e, t->suffix, t->n_suffix);
	}
	kp_span_flush(e);
	if (opts->file_limits && !e->failed) {
		special = opts->add_special;
		e->failed = truncate_ids(
			&t->limits, ids, begin, special ? t->n_prefix + t->n_suffix : 0, err);
		if (!e->failed) {
			put_in_front(ids, begin, t->prefix, 0, special ? t->n_prefix : 0);
			add_all(ids, t->suffix, special ? t->n_suffix : 0);
			pad_ids(&t->limits, ids, begin);
		}
		if (ids->failed && !e->failed) {
			e->failed = true;
			(void)kp_err_set(err, KP_RESOURCE_EXHAUSTED,
				"encode text: more than `%zu` ids", ids->max);
		}
	}
	kp_scratch_trim(s);
	if (e->failed && s->effort.is_over) {
		kp_err_wrap(err, "encode text: tokenizer `%" KP_FMT "`", KP_ARG(t->info.kind));
	}
	return e->failed ? -1 : 0;
}
