/* Random edits of random conversations, each rendered twice: with what earlier renders remember of the messages, and without. Text, origins, and errors must be the same. Used by a property test
   (programs made at random) and beside the oracles (packaged templates). Messages are told by a pool of JSON texts; each render gets copies of its own, gone afterwards. */
#ifndef KP_TESTS_PROP_TEMPLATE_WALK_H
#define KP_TESTS_PROP_TEMPLATE_WALK_H

#include "base/buf.h"
#include "base/mem.h"
#include "base/rand.h"
#include "template/template.h"

#include <stdlib.h>

enum { WALK_POOL = 256, WALK_LONGEST = 24, WALK_VARS = 32 };

struct walk {
	const struct kp_template *t;
	struct kp_rng rng;
	/* JSON of messages; mostly the one that follows in a conversation is the next. */
	kp_str pool[WALK_POOL];
	uint32_t n_pool;
	struct kp_tpl_memory *memory[WALK_POOL];
	const struct kp_jv *variants; /* an array of objects: all other variables */
	uint32_t at[WALK_LONGEST], n, variant;
	/* Counted; messages: with text of their own, in texts. */
	uint64_t renders, texts, messages, replayed, left_out;
	size_t most_bytes;
	/* The last text that was rendered with memory, as its caller has it. */
	struct kp_buf before;
	struct kp_tpl_rendered before_at[WALK_LONGEST];
	struct kp_tpl_memory *before_memory[WALK_LONGEST];
	uint32_t n_before;
};
struct walk_result {
	int rc;
	struct kp_text text;
	struct kp_err err;
};

KP_UNUSED static void walk_fini(struct walk *w)
{
	for (uint32_t i = 0; i < w->n_pool; i++) {
		kp_tpl_memory_destroy(w->memory[i]);
		w->memory[i] = NULL;
	}
	kp_buf_fini(&w->before);
}

static uint32_t walk_below(struct walk *w, uint32_t n)
{
	return (uint32_t)kp_rng_below(&w->rng, n);
}

static void walk_edit(struct walk *w)
{
	uint32_t kind = walk_below(w, 16), i = w->n ? walk_below(w, w->n) : 0,
		 next = w->n ? (w->at[w->n - 1] + 1) % w->n_pool : walk_below(w, w->n_pool);
	if ((kind < 9 || !w->n) && w->n < WALK_LONGEST) { /* the next turn */
		w->at[w->n++] = next;
	} else if (kind == 9) { /* another conversation */
		w->n = 1;
		w->at[0] = walk_below(w, w->n_pool);
	} else if (kind == 10) {
		w->n = i;
	} else if (kind == 11) {
		w->at[i] = walk_below(w, w->n_pool);
	} else if (kind == 12) {
		memmove(w->at + i, w->at + i + 1, (--w->n - i) * sizeof(w->at[0]));
	} else if (kind == 13 && w->n < WALK_LONGEST) {
		memmove(w->at + i + 1, w->at + i, (w->n++ - i) * sizeof(w->at[0]));
		w->at[i] = walk_below(w, w->n_pool);
	} else if (kind == 14) {
		uint32_t k = walk_below(w, w->n), of = w->at[i];
		w->at[i] = w->at[k];
		w->at[k] = of;
	} else {
		w->variant = walk_below(w, w->variants->n);
	}
	if (walk_below(w, 100) == 0) {
		uint32_t k = walk_below(w, w->n_pool);
		kp_tpl_memory_destroy(w->memory[k]);
		w->memory[k] = NULL;
		w->n_before = 0;
	}
}

/* What was left out of the text is where it was before; all of it is what comes before the next one. */
static void walk_complete(struct walk *w, const struct kp_template_opts *opts, struct kp_arena *a,
	struct kp_text *text)
{
	char *p = kp_arena_xalloc(a, text->s.n + 1);
	memcpy(p, text->s.p, text->s.n);
	for (uint32_t i = 0; i < opts->n_remembered; i++) {
		const struct kp_tpl_rendered *r = &opts->rendered[i];
		if (r->left_out) {
			memcpy(p + r->start, w->before.p + r->start, r->end - r->start);
			w->left_out++;
		}
		w->before_at[i] = *r;
		w->before_memory[i] = opts->remembered[i];
	}
	w->n_before = opts->n_remembered;
	text->s.p = p;
	kp_buf_fini(&w->before);
	kp_buf_init(&w->before, 1 << 24);
	kp_buf_add(&w->before, text->s);
}

/* Of how many messages in front the memory is that of the last text. */
static uint32_t walk_expected(const struct walk *w, struct kp_tpl_memory *const *remembered)
{
	uint32_t n = 0;
	while (n < KP_MIN(w->n, w->n_before) && remembered[n] &&
		remembered[n] == w->before_memory[n]) {
		n++;
	}
	return n;
}

static void walk_render(struct walk *w, bool remember, struct kp_arena *a, struct walk_result *ret)
{
	struct kp_template_var v[WALK_VARS];
	struct kp_tpl_memory *remembered[WALK_LONGEST];
	struct kp_tpl_rendered rendered[WALK_LONGEST];
	const struct kp_jv *more = &w->variants->items[w->variant];
	struct kp_template_opts opts = { .vars = v,
		.now_wall_ns = (int64_t)walk_below(w, 2) * 86400000000000,
		.max_steps = 1000000,
		.max_output = 1 << 20 };
	struct kp_jv *items = kp_arena_xalloc(a, (w->n + 1) * sizeof(*items)),
		     list = { .type = KP_JSON_ARRAY };
	*ret = (struct walk_result){ .err = KP_ERR_INIT };
	for (uint32_t i = 0; i < w->n; i++) {
		struct kp_err err = KP_ERR_INIT;
		char *copy = kp_arena_xalloc(a, w->pool[w->at[i]].n + 1);
		memcpy(copy, w->pool[w->at[i]].p, w->pool[w->at[i]].n);
		if (kp_jv_parse(kp_str_n(copy, w->pool[w->at[i]].n), a, &items[i], &err)) {
			abort();
		}
		if (remember && !w->memory[w->at[i]]) {
			w->memory[w->at[i]] = kp_tpl_memory_create();
		}
		remembered[i] = walk_below(w, 20) ? w->memory[w->at[i]] : NULL;
	}
	list.items = items;
	list.n = w->n;
	v[opts.n_vars++] = (struct kp_template_var){ KP_S("messages"), &list, KP_ORIGIN_CLIENT };
	for (uint32_t i = 0; i < more->n && opts.n_vars < WALK_VARS; i++) {
		const struct kp_jmember *m = &more->members[i];
		bool ours = kp_str_ends(m->key, KP_S("_token"));
		v[opts.n_vars++] = (struct kp_template_var){ m->key, &m->value,
			ours ? KP_ORIGIN_TRUSTED : KP_ORIGIN_CLIENT };
	}
	if (remember) {
		opts.remembered = remembered;
		opts.n_remembered = w->n;
		opts.rendered = rendered;
		opts.expected = w->before_at;
		opts.n_expected = walk_below(w, 8) ? walk_expected(w, remembered) : 0;
	}
	ret->rc = kp_template_render(w->t, &opts, a, &ret->text, &ret->err);
	if (remember && ret->rc == 0) {
		walk_complete(w, &opts, a, &ret->text);
	}
	w->texts += remember && ret->rc == 0;
	for (uint32_t i = 0; remember && ret->rc == 0 && i < w->n; i++) {
		w->messages += rendered[i].end > rendered[i].start;
		w->replayed += rendered[i].replayed;
		if (w->memory[w->at[i]]) {
			w->most_bytes =
				KP_MAX(w->most_bytes, kp_tpl_memory_bytes(w->memory[w->at[i]]));
		}
	}
}

static bool walk_same(const struct walk_result *x, const struct walk_result *y)
{
	if (x->rc != y->rc || x->rc) {
		return x->rc == y->rc && x->err.code == y->err.code &&
		       strcmp(x->err.msg, y->err.msg) == 0;
	}
	if (!kp_str_eq(x->text.s, y->text.s) || x->text.n_runs != y->text.n_runs) {
		return false;
	}
	for (size_t i = 0; i < x->text.n_runs; i++) {
		if (x->text.runs[i].end != y->text.runs[i].end ||
			x->text.runs[i].origin != y->text.runs[i].origin) {
			return false;
		}
	}
	return true;
}

/* One step; false: what came out differs, and `out` says how. */
KP_UNUSED static bool walk_step(struct walk *w, struct kp_buf *out)
{
	KP_AUTO(arena)
	struct kp_arena *a = kp_arena_create(256 << 20), *b = kp_arena_create(256 << 20);
	struct walk_result x, y;
	walk_edit(w);
	struct kp_rng rng = w->rng;
	walk_render(w, true, a, &x);
	w->rng = rng;
	walk_render(w, false, b, &y);
	w->renders++;
	if (walk_same(&x, &y)) {
		return true;
	}
	kp_buf_printf(out, "render %llu, variant %u, messages", (unsigned long long)w->renders,
		w->variant);
	for (uint32_t i = 0; i < w->n; i++) {
		kp_buf_printf(out, " %" KP_FMT, KP_ARG(w->pool[w->at[i]]));
	}
	kp_buf_printf(out, "\nwith memory: %s%.*s\nwithout: %s%.*s\n", x.err.msg,
		x.rc ? 0 : (int)KP_MIN(x.text.s.n, (size_t)20000), x.text.s.p, y.err.msg,
		y.rc ? 0 : (int)KP_MIN(y.text.s.n, (size_t)20000), y.text.s.p);
	return false;
}

#endif
