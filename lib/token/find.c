/* DESIGN: see find.h. Literals are searched with memmem. PCRE2 matches with its JIT compiler where the machine has one, with a stack of its own
   that grows to 1 MiB; limits on backtracking bound the time at one place. PCRE2 does not tell how far it looked, so each match counts as if it had read all of
   the text (effort.h), up to a maximum, and so do sixteen places where nothing matched. A search goes on in stretches of places to begin at, since within one nobody looks at the
   clock: what all places of a stretch can take together grows with the text as what an encode may take does. A text that passes the limits is an error of that
   request. */
#include "token/find.h"
#include "base/mem.h"
#include "base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum {
	PATTERN_MAX = 4096,
	TRANSLATED_MAX = 1 << 20,
	STACK_FIRST = 32 << 10,
	STACK_MAX = 1 << 20,
	MATCH_LIMIT = 1000000, /* and ten for each byte */
	MATCH_LIMIT_MAX = 2000000000,
	BYTES_PER_STEP = 32,
	MATCH_STEPS_MAX =
		2048, /* of one match: an eighth of what the clock waits for, so that long texts do not pay a look for each */
	PLACES_PER_STEP = 16,
	STRETCH = 512, /* bytes */
	DEPTH_LIMIT = 100000,
	HEAP_LIMIT_KB = 64 << 10,
};

int kp_pattern_regex(
	kp_str pattern, enum kp_classes classes, struct kp_pattern *ret, struct kp_err *err)
{
	if (pattern.n > PATTERN_MAX) {
		return kp_err_set(err, KP_TOO_LARGE, "compile regex: `%zu` bytes, at most %d",
			pattern.n, PATTERN_MAX);
	}
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, TRANSLATED_MAX);
	if (kp_regex_translate(pattern, classes, &text, err) ||
		kp_buf_finish(&text, "translated regex", err)) {
		return -1;
	}
	int code = 0;
	PCRE2_SIZE at = 0;
	pcre2_code *re = pcre2_compile((PCRE2_SPTR)text.p, text.n,
		PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT,
		&code, &at, NULL);
	if (!re) {
		PCRE2_UCHAR why[128] = "";
		(void)pcre2_get_error_message(code, why, sizeof(why));
		return kp_err_set(err, KP_INVALID_ARGUMENT, "compile regex `%" KP_FMT "`: %s (%d)",
			KP_ARG(kp_str_sub(pattern, 0, 120)), (const char *)why, code);
	}
	(void)pcre2_jit_compile(re, PCRE2_JIT_COMPLETE); /* slower without */
	*ret = (struct kp_pattern){ .regex = pattern, .classes = classes, .code = re };
	return 0;
}

void kp_pattern_fini(struct kp_pattern *p)
{
	pcre2_code_free(p->code);
	p->code = NULL;
}

static int prepare(struct kp_find_work *w, struct kp_err *err)
{
	if (w->data) {
		return 0;
	}
	w->data = pcre2_match_data_create(1, NULL);
	w->context = pcre2_match_context_create(NULL);
	w->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MAX, NULL);
	if (!w->data || !w->context) {
		kp_find_work_fini(w);
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "match `regex`: out of memory");
	}
	pcre2_set_depth_limit(w->context, DEPTH_LIMIT);
	pcre2_set_heap_limit(w->context, HEAP_LIMIT_KB);
	if (w->stack) {
		pcre2_jit_stack_assign(w->context, NULL, w->stack);
	}
	return 0;
}

void kp_find_work_fini(struct kp_find_work *w)
{
	pcre2_match_data_free(w->data);
	pcre2_match_context_free(w->context);
	pcre2_jit_stack_free(w->stack);
	*w = (struct kp_find_work){ .effort = w->effort };
}

/* A match that begins from `at` to `last`: PCRE2's answer. */
static int match(const struct kp_find *f, size_t at, size_t last)
{
	struct kp_find_work *w = f->work;
	uint32_t flags = PCRE2_NO_UTF_CHECK;
	pcre2_set_offset_limit(w->context, last);
	int r = pcre2_match(
		f->pattern->code, (PCRE2_SPTR)f->s.p, f->s.n, at, flags, w->data, w->context);
	if (r == PCRE2_ERROR_JIT_STACKLIMIT) {
		r = pcre2_match(f->pattern->code, (PCRE2_SPTR)f->s.p, f->s.n, at,
			flags | PCRE2_NO_JIT, w->data, w->context);
		(void)kp_effort_spend(w->effort, SIZE_MAX); /* much slower: look at the clock */
	}
	return r;
}

/* A stretch behind `at` further, at the begin of a character or the text's end. */
static size_t stretch_end(kp_str s, size_t at)
{
	if (s.n - at <= STRETCH) {
		return s.n;
	}
	at += STRETCH;
	while (at < s.n && ((uint8_t)s.p[at] & 0xC0) == 0x80) {
		at++;
	}
	return at;
}

static int search_regex(struct kp_find *f, size_t *from, size_t *to, struct kp_err *err)
{
	struct kp_find_work *w = f->work;
	if (prepare(w, err)) {
		return -1;
	}
	size_t n = f->s.n - f->at, at = f->at, last;
	pcre2_set_match_limit(
		w->context, MATCH_LIMIT + 10 * (uint32_t)KP_MIN(n, (size_t)MATCH_LIMIT_MAX / 10));
	if (!kp_effort_spend(w->effort, 8 + KP_MIN(n / BYTES_PER_STEP, (size_t)MATCH_STEPS_MAX))) {
		return kp_effort_fail(w->effort, err);
	}
	int r;
	const PCRE2_SIZE *v = pcre2_get_ovector_pointer(w->data);
	do {
		last = stretch_end(f->s, at);
		r = match(f, at, last);
		size_t places = (r < 0 ? last : v[0]) - at;
		if (!kp_effort_spend(w->effort, places / PLACES_PER_STEP * (n / BYTES_PER_STEP))) {
			return kp_effort_fail(w->effort, err);
		}
		at = last;
	} while (r == PCRE2_ERROR_NOMATCH && last < f->s.n);
	if (r == PCRE2_ERROR_NOMATCH) {
		return 0;
	}
	if (r < 0) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"match `regex` of the tokenizer: too much backtracking (%d)", r);
	}
	*from = v[0];
	*to = v[1];
	return 1;
}

static int search(struct kp_find *f, size_t *from, size_t *to, struct kp_err *err)
{
	kp_str lit = f->pattern->literal;
	if (!lit.p) {
		return search_regex(f, from, to, err);
	}
	ptrdiff_t at = kp_str_find(kp_str_skip(f->s, f->at), lit);
	if (at < 0) {
		return 0;
	}
	*from = f->at + (size_t)at;
	*to = *from + lit.n;
	return 1;
}

int kp_find_next(struct kp_find *f, size_t *ret_from, size_t *ret_to, struct kp_err *err)
{
	while (f->at <= f->s.n) {
		size_t from = 0, to = 0;
		int r = search(f, &from, &to, err);
		if (r <= 0) {
			f->at = SIZE_MAX;
			return r;
		}
		if (from != to || f->last != to) {
			f->at = f->last = to;
			*ret_from = from;
			*ret_to = to;
			return 1;
		}
		uint32_t cp;
		size_t len =
			f->at < f->s.n ? kp_utf8_decode(f->s.p + f->at, f->s.n - f->at, &cp) : 1;
		f->at += len ? len : 1;
	}
	return 0;
}
