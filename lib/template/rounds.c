/* DESIGN: a round of a loop over messages is a program whose input is the message and the answers to its questions (rounds_find.c), and whose output is its text, what it stored into namespaces, and how it
   ended. A round that runs beside a memory is noted: questions with their answers and stores, in the order in which they came, and where its text begins and ends. A later round with the same message
   asks the same questions again, makes the same stores between them (they may be asked for later), and if all answers are the same, takes the text instead of running the body: it is the same program on the
   same values. Kept rounds of one message and loop ask the same questions as far as they gave the same answers, so all of them are tried on one way down. If none fits, the stores are
   taken back and the body runs.

   An answer is compared as it could be told apart by the body: type, bytes, origins. Of another message (`messages[loop.index0 - 1]`) the memory's number is compared instead of the value. What can neither be
   copied nor compared makes a round that is not kept: lists and dicts that are large (kept.c), `messages` and slices of it, namespaces and `loop` as a whole, iterators; so do the clock, a namespace's new attribute, an error, and a question
   that reads from an iterator made before it. An error while asking again says nothing but that the body has to run, and to fail by itself.

   Of a list outside that the body reads at a number or key of its own, or goes over from some element on until it leaves, only the elements that it got are asked (GETITEM and SLICE with
   KP_NF_PART). Variables of the render that are none, as most that a body stores in an `if` were, are compared as one set of bits instead of one by one.

   Budgets: a replayed round takes the steps from the budget that the body took, and where steps or room for text would not do, the body runs and fails where it always does. */
#include "template/rounds.h"

/* Rounds in a row that cannot be kept: then a loop is not noted any more in this render. */
enum { MAX_BAD = 4 };

struct kp_tpl_note {
	struct kp_tpl_step *steps;
	uint32_t n, stored; /* stored: steps up to the last store */
	uint64_t absent;    /* as in kp_tpl_kept */
	bool bad;
};
struct undo {
	struct kp_tpl_entry *entry;
	struct kp_tv old;
};
struct kp_tpl_replay {
	const struct kp_jv *messages;
	struct kp_tpl_memory *const *remembered;
	struct kp_tpl_rendered *rendered;
	const struct kp_tpl_rendered *expected;
	const struct kp_tpl_buf *text; /* the render's own output */
	uint32_t n_remembered, n_expected, message, bad;
	uint32_t near; /* where a message that is an answer may be */
	uint64_t
		absent; /* which of the first 64 variables that the template knows the render does not have */
	struct kp_act functions[KP_TPL_MAX_FUNCTIONS]; /* without variables of their own */
	/* of the round */
	struct kp_tv item;
	struct kp_tpl_step steps[KP_TPL_MAX_STEPS];
	struct kp_tv answers[KP_TPL_MAX_STEPS];
	const void *asked[KP_TPL_MAX_STEPS]; /* kp_tpl_step.what of each answer */
	struct undo undo[KP_TPL_MAX_STEPS];
	uint32_t n_answers, n_undo;
	struct kp_err err; /* of questions */
};

int kp_tpl_replay_start(struct kp_interp *I, const struct kp_template_opts *opts)
{
	const struct kp_jv *messages = NULL;
	for (size_t i = 0; opts->n_remembered && i < opts->n_vars; i++) {
		if (opts->vars[i].value && kp_str_eq(opts->vars[i].name, KP_S("messages"))) {
			messages = opts->vars[i].value;
		}
	}
	if (opts->rendered) {
		memset(opts->rendered, 0, opts->n_remembered * sizeof(*opts->rendered));
	}
	if (!kp_jv_is(messages, KP_JSON_ARRAY) || !I->t->has_rounds) {
		return 0;
	}
	struct kp_tpl_replay *rp = kp_arena_alloc(I->a, sizeof(*rp));
	if (!rp) {
		return kp_tpl_fail_memory(I);
	}
	rp->messages = messages;
	rp->remembered = opts->remembered;
	rp->rendered = opts->rendered;
	rp->n_remembered = KP_MIN(opts->n_remembered, messages->n);
	rp->expected = opts->expected;
	rp->n_expected = opts->rendered ? KP_MIN(opts->n_expected, rp->n_remembered) : 0;
	rp->text = I->out;
	rp->bad = 0;
	rp->absent = 0;
	for (uint32_t i = 0; i < KP_MIN(I->t->n_context, 64U); i++) {
		rp->absent |= (uint64_t)(I->context[i].type == KP_TV_MISSING) << i;
	}
	rp->functions[0] = *I->root;
	for (int i = 1; i < KP_TPL_MAX_FUNCTIONS; i++) {
		rp->functions[i] = (struct kp_act){ .parent = &rp->functions[i - 1] };
	}
	I->replay = rp;
	return 0;
}

bool kp_tpl_rounds_of(struct kp_interp *I, const struct kp_node *loop, const struct kp_tv *iterable,
	struct kp_tpl_rounds *ret)
{
	const struct kp_jv *all = I->replay->messages;
	if (iterable->type != KP_TV_LIST || !(iterable->flags & KP_TVF_JV) || !iterable->n ||
		(loop->flags & KP_NF_RECURSIVE) || !loop->loop_slots ||
		iterable->jitems < all->items || iterable->jitems >= all->items + all->n) {
		return false;
	}
	ret->next = (uint32_t)(iterable->jitems - all->items);
	I->replay->bad = 0;
	return ret->next < I->replay->n_remembered;
}

/* --- answers ----------------------------------------------------------------------------------------------------------------------------- */

/* The memory's number, where the value is a message near the one of the round, or at an end, that is remembered; else 0. */
static uint64_t message_of(const struct kp_tpl_replay *rp, const struct kp_tv *v)
{
	uint32_t n = rp->messages->n, i = rp->message;
	const uint32_t places[] = { rp->near, i, i - 1, i + 1, 0, n - 1, i - 2, i + 2, n - 2, 1 };
	for (size_t k = 0; k < KP_LEN(places); k++) {
		uint32_t at = places[k];
		if (at < rp->n_remembered && rp->messages->items[at].type == KP_JSON_OBJECT &&
			rp->messages->items[at].members == v->jmembers) {
			return rp->remembered[at] ? kp_tpl_memory_serial(rp->remembered[at]) : 0;
		}
	}
	return 0;
}

/* Messages from one on, as a list? They are too many to compare. */
static bool is_messages(const struct kp_tpl_replay *rp, const struct kp_tv *v)
{
	return v->type == KP_TV_LIST && (v->flags & KP_TVF_JV) && v->n &&
	       v->jitems >= rp->messages->items &&
	       v->jitems < rp->messages->items + rp->messages->n;
}

/* Makes a step of an answer; false: it could not be compared. */
static bool answer_step(const struct kp_interp *I, const struct kp_tv *v, struct kp_tpl_step *s)
{
	s->v = *v;
	s->is_message = false;
	switch (v->type) {
	case KP_TV_FUNC:
		return true;
	case KP_TV_MACRO:
		s->v.s = (const char *)v->macro->node; /* the macro itself is this render's */
		return v->macro->parent == I->root;
	case KP_TV_DICT: {
		uint64_t serial = (v->flags & KP_TVF_JV) && v->n ? message_of(I->replay, v) : 0;
		s->is_message = serial != 0;
		if (serial) {
			s->v.i = (int64_t)serial;
			return true;
		}
		return kp_tpl_can_keep(v);
	}
	default:
		return !is_messages(I->replay, v) && kp_tpl_can_keep(v);
	}
}

/* Would a body see a difference between what was answered then and what is now? */
static bool same(const struct kp_interp *I, const struct kp_tpl_step *then, const struct kp_tv *now)
{
	const struct kp_tv *v = &then->v;
	if (v->type == KP_TV_FUNC && now->type == KP_TV_FUNC) {
		return v->def == now->def;
	}
	if (v->type == KP_TV_MACRO && now->type == KP_TV_MACRO) {
		return v->s == (const char *)now->macro->node && now->macro->parent == I->root;
	}
	if (then->is_message) {
		return now->type == KP_TV_DICT && (now->flags & KP_TVF_JV) && now->n &&
		       v->origin == now->origin && (uint64_t)v->i == message_of(I->replay, now);
	}
	return kp_tpl_same_value(v, now);
}

/* --- noting ------------------------------------------------------------------------------------------------------------------------------ */

void kp_tpl_note_bad(struct kp_interp *I)
{
	if (I->note) {
		I->note->bad = true;
	}
}

bool kp_tpl_used_up(struct kp_interp *I)
{
	kp_tpl_note_bad(I);
	return !I->note && kp_tpl_fail(I, "asked for what can be read once");
}

static void add_step(struct kp_interp *I, const struct kp_tpl_step *s)
{
	struct kp_tpl_note *note = I->note;
	for (uint32_t i = note->stored; s->kind == KP_STEP_ASK && i < note->n; i++) {
		if (note->steps[i].what == s->what) { /* nothing can have changed */
			return;
		}
	}
	if (note->n == KP_TPL_MAX_STEPS) {
		note->bad = true;
		return;
	}
	note->steps[note->n++] = *s;
	if (s->kind == KP_STEP_STORE || s->kind == KP_STEP_STORE_ITEM) {
		note->stored = note->n;
	}
}

static void add_answer(struct kp_interp *I, struct kp_tpl_step *s, const struct kp_tv *v)
{
	if (answer_step(I, v, s) && kp_tpl_can_keep(&s->key)) {
		add_step(I, s);
	} else {
		I->note->bad = true;
	}
}

int kp_tpl_note_ask(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tpl_step s = { .kind = KP_STEP_ASK, .depth = n->n_ops, .what = n };
	if (kp_tpl_answer(I, act, n, ret)) {
		return -1;
	}
	add_answer(I, &s, ret);
	return 0;
}

/* Which message an element of a list would be. */
static void look_at(struct kp_tpl_replay *rp, const struct kp_tv *of, const struct kp_tv *key)
{
	if (is_messages(rp, of) && key->type == KP_TV_INT) {
		int64_t i = key->i + (key->i < 0 ? of->n : 0);
		rp->near = (uint32_t)(of->jitems - rp->messages->items) + (uint32_t)i;
	}
}

void kp_tpl_note_item(struct kp_interp *I, const struct kp_node *n, const struct kp_tv *of,
	const struct kp_tv *key, const struct kp_tv *v)
{
	struct kp_tpl_step s = { .kind = KP_STEP_ITEM, .depth = n->n_ops, .what = n, .key = *key };
	look_at(I->replay, of, key);
	add_answer(I, &s, v);
}

int kp_tpl_note_slice(struct kp_interp *I, struct kp_act *act, const struct kp_node *slice,
	struct kp_tpl_source *s)
{
	struct kp_tv start = kp_tv_int(0, KP_ORIGIN_TRUSTED);
	if (slice->items[0] && kp_tpl_eval(I, act, slice->items[0], &start)) {
		return -1;
	}
	if (s->it.src.type == KP_TV_LIST && start.type == KP_TV_INT && start.i >= 0) {
		s->rest = slice;
		s->rest_from = start.i;
	} else {
		I->note->bad = true;
	}
	return 0;
}

void kp_tpl_note_rest(struct kp_interp *I, const struct kp_tpl_source *s, const struct kp_tv *v)
{
	const struct kp_tv none = { .type = KP_TV_MISSING };
	const struct kp_tv *of = &s->it.src;
	struct kp_tv at = kp_tv_int((int64_t)s->it.pos - (v != NULL), KP_ORIGIN_TRUSTED);
	struct kp_tpl_step step = { .kind = KP_STEP_REST,
		.depth = s->rest->n_ops,
		.what = s->rest,
		.key = kp_tv_int(s->rest_from + at.i, KP_ORIGIN_TRUSTED) };
	if (v) {
		look_at(I->replay, of, &at);
	}
	add_answer(I, &step, v ? v : &none);
}

/* A variable of the render that is none now, of those which are compared at once. */
static bool is_absent(const struct kp_tpl_replay *rp, const struct kp_load *l)
{
	return !l->has_from && l->context < 64 && rp->absent >> l->context & 1;
}

void kp_tpl_note_load(struct kp_interp *I, const struct kp_load *l, const struct kp_tv *v)
{
	struct kp_tpl_step s = { .kind = KP_STEP_LOAD, .depth = l->depth, .what = l };
	if (is_absent(I->replay, l)) {
		I->note->absent |= UINT64_C(1)
				   << l->context; /* the usual case: all are compared at once */
	} else {
		add_answer(I, &s, v);
	}
}

void kp_tpl_note_store(struct kp_interp *I, const struct kp_node *target, const struct kp_tv *ns,
	const struct kp_tv *v)
{
	const struct kp_tv *item = &I->replay->item;
	struct kp_tv before;
	struct kp_tpl_step s = {
		.kind = KP_STEP_STORE, .depth = target->n_ops, .what = target, .v = *v
	};
	if (v->type == KP_TV_DICT && (v->flags & KP_TVF_JV) && item->type == KP_TV_DICT && v->n &&
		v->jmembers == item->jmembers) {
		s.kind = KP_STEP_STORE_ITEM;
		s.v = kp_tv_none();
	} else if (is_messages(I->replay, v) || !kp_tpl_can_keep(v)) {
		I->note->bad = true;
		return;
	}
	if (kp_tv_dict_get_str(ns, target->attr, &before)) {
		add_step(I, &s);
	} else {
		I->note->bad = true;
	}
}

/* --- asking again ------------------------------------------------------------------------------------------------------------------------ */

static struct kp_tpl_entry *entry_of(const struct kp_tv *ns, kp_str name)
{
	for (uint32_t i = 0; i < ns->dict->n; i++) {
		struct kp_tpl_entry *e = &ns->dict->entries[i];
		if (e->key.type == KP_TV_STR && kp_str_eq(kp_tv_bytes(&e->key), name)) {
			return e;
		}
	}
	return NULL;
}

/* An element of what was answered. */
static bool take_part(struct kp_interp *I, const struct kp_tpl_step *s, struct kp_tv *answer)
{
	struct kp_tv of = *answer;
	if (s->kind == KP_STEP_ASK) {
		return true;
	}
	look_at(I->replay, &of, &s->key);
	if (s->kind == KP_STEP_ITEM) {
		return kp_tpl_getitem(I, &of, &s->key, answer) == 0;
	}
	*answer = of.type == KP_TV_LIST && s->key.i < of.n
			  ? kp_tv_item(&of, (uint32_t)s->key.i)
			  : (struct kp_tv){ .type = KP_TV_MISSING };
	return of.type == KP_TV_LIST;
}

/* Takes a step that nobody took yet; false: there is no going on. */
static bool take_step(struct kp_interp *I, const struct kp_tpl_step *s)
{
	struct kp_tpl_replay *rp = I->replay;
	struct kp_act *act = &rp->functions[s->depth];
	struct kp_tv *answer = &rp->answers[rp->n_answers];
	if (s->kind == KP_STEP_ASK || s->kind == KP_STEP_ITEM || s->kind == KP_STEP_REST) {
		if (kp_tpl_answer(I, act, s->what, answer) || !take_part(I, s, answer)) {
			return false;
		}
	} else if (s->kind == KP_STEP_LOAD) {
		const struct kp_load *l = s->what;
		*answer = l->has_from ? *kp_tpl_slot(act, l->from) : I->context[l->context];
	} else {
		const struct kp_node *target = s->what;
		const struct kp_tv *ns = kp_tpl_slot(act, target->ref);
		struct kp_tpl_entry *e = ns->type == KP_TV_NS ? entry_of(ns, target->attr) : NULL;
		if (!e) {
			return false;
		}
		rp->undo[rp->n_undo++] = (struct undo){ e, e->value };
		e->value = s->kind == KP_STEP_STORE ? s->v : rp->item;
	}
	rp->asked[rp->n_answers++] = s->what;
	return true;
}

/* Does the kept round fit? 1, 0, -1: neither does any other. */
static int fits(struct kp_interp *I, const struct kp_tpl_kept *k)
{
	struct kp_tpl_replay *rp = I->replay;
	for (uint32_t i = 0; i < k->n_steps; i++) {
		const struct kp_tpl_step *s = &k->steps[i];
		if (s->kind == KP_STEP_LOAD && is_absent(rp, s->what)) {
			return 0; /* as it is none, it is no step of those that fit */
		}
		if (i == rp->n_answers && !take_step(I, s)) {
			return -1;
		}
		if (rp->asked[i] != s->what) {
			return 0;
		}
		if (s->kind < KP_STEP_STORE && !same(I, s, &rp->answers[i])) {
			return 0;
		}
	}
	return 1;
}

static const struct kp_tpl_kept *recall(
	struct kp_interp *I, const struct kp_node *loop, const struct kp_tpl_memory *m)
{
	struct kp_tpl_replay *rp = I->replay;
	struct kp_err *err = I->err;
	uint64_t steps = I->steps, later_steps = I->later_steps;
	int r = 0;
	rp->n_answers = rp->n_undo = 0;
	I->err = &rp->err;
	const struct kp_tpl_kept *k = kp_tpl_memory_kept(m);
	for (; k; k = k->older) {
		if (k->template_serial != I->t->serial || k->loop != loop->loop_slots ||
			k->origin != rp->item.origin || (k->absent & ~rp->absent) ||
			k->cost > steps + later_steps ||
			k->text.n > I->max_output - KP_MIN((size_t)I->out->n, I->max_output)) {
			continue;
		}
		r = fits(I, k);
		if (r) {
			break;
		}
	}
	I->err = err;
	I->steps = steps;
	I->later_steps = later_steps;
	I->ask = 0;
	if (r > 0) {
		return k;
	}
	while (rp->n_undo) {
		struct undo *u = &rp->undo[--rp->n_undo];
		u->entry->value = u->old;
	}
	return NULL;
}

/* --- rounds ------------------------------------------------------------------------------------------------------------------------------ */

/* Is it what the caller has at this place already? */
static bool is_expected(const struct kp_interp *I, const struct kp_tpl_kept *k)
{
	const struct kp_tpl_replay *rp = I->replay;
	uint32_t i = rp->message;
	if (i >= rp->n_expected || I->out != rp->text || !k->text.n) {
		return false;
	}
	const struct kp_tpl_rendered *e = &rp->expected[i];
	return e->kept == k->nth && e->start == I->out->n && e->end - e->start == k->text.n;
}

static int append(struct kp_interp *I, const struct kp_tpl_kept *k, bool left_out)
{
	struct kp_tpl_buf *b = I->out;
	uint32_t start = b->n, i = 0;
	if (!k->text.n) {
		return 0;
	}
	if (b->cap - b->n < k->text.n && kp_tpl_buf_grow(I, b, k->text.n)) {
		return -1;
	}
	if (!left_out) {
		memcpy(b->p + start, k->text.p, k->text.n);
	}
	b->n += (uint32_t)k->text.n;
	if (b->n_runs && b->runs[b->n_runs - 1].origin == k->runs[0].origin) {
		b->runs[b->n_runs - 1].end = start + k->runs[0].end;
		i++;
	}
	if (b->cap_runs - b->n_runs < k->n_runs && kp_tpl_buf_grow_runs(I, b, k->n_runs)) {
		return -1;
	}
	struct kp_run *to = b->runs + b->n_runs - i;
	b->n_runs += k->n_runs - i;
	for (; i < k->n_runs; i++) {
		to[i] = (struct kp_run){ start + k->runs[i].end, k->runs[i].origin };
	}
	return 0;
}

static enum kp_exec run_body(struct kp_interp *I, struct kp_act *act, const struct kp_node *loop)
{
	kp_tpl_enter(I, act, loop->frame);
	return kp_tpl_exec(I, act, loop->c);
}

/* The runs of what was printed since `start`, as those of a text of its own. */
static const struct kp_run *runs_since(struct kp_interp *I, uint32_t start, uint32_t *ret_n)
{
	const struct kp_tpl_buf *b = I->out;
	uint32_t first = b->n_runs;
	while (b->n > start && first && b->runs[first - 1].end > start) {
		first--;
	}
	*ret_n = b->n_runs - first;
	struct kp_run *runs = kp_arena_alloc(I->a, (*ret_n + 1) * sizeof(*runs));
	for (uint32_t i = 0; runs && i < *ret_n; i++) {
		runs[i] = (struct kp_run){ b->runs[first + i].end - start,
			b->runs[first + i].origin };
	}
	return runs;
}

/* Runs the body, and keeps what it came to. */
static enum kp_exec run_noted(struct kp_interp *I, struct kp_act *act, const struct kp_node *loop,
	struct kp_tpl_memory *m, const struct kp_tpl_kept **ret)
{
	struct kp_tpl_replay *rp = I->replay;
	struct kp_tpl_note note = { .steps = rp->steps };
	struct kp_tpl_kept k = { .template_serial = I->t->serial,
		.loop = loop->loop_slots,
		.origin = rp->item.origin,
		.cost = I->steps + I->later_steps };
	uint32_t start = I->out->n;
	I->note = &note;
	enum kp_exec e = run_body(I, act, loop);
	I->note = NULL;
	if (e == KP_EXEC_ERR || note.bad) {
		rp->bad++;
		return e;
	}
	rp->bad = 0;
	k.cost -= I->steps + I->later_steps;
	k.line = I->line;
	k.outcome = (uint8_t)e;
	k.n_steps = note.n;
	k.absent = note.absent;
	k.text = kp_str_n(I->out->p + start, I->out->n - start);
	k.runs = runs_since(I, start, &k.n_runs);
	*ret = k.runs ? kp_tpl_memory_keep(m, &k, note.steps) : NULL;
	return e;
}

static enum kp_exec replay_round(struct kp_interp *I, const struct kp_tpl_kept *k, bool left_out)
{
	I->line = k->line;
	return kp_tpl_charge(I, k->cost) || append(I, k, left_out) ? KP_EXEC_ERR
								   : (enum kp_exec)k->outcome;
}

/* Where the message's text is now. What it printed before is put into the text, since nobody will know of its place. */
static void note_place(struct kp_tpl_replay *rp, const struct kp_tpl_memory *m, uint32_t i,
	const struct kp_tpl_rendered *now)
{
	if (!now->left_out) {
		rp->n_expected = 0; /* from here on it is another text */
	}
	if (!rp->rendered) {
		return;
	}
	const struct kp_tpl_rendered *was = &rp->rendered[i];
	const struct kp_tpl_kept *k = was->left_out ? kp_tpl_memory_kept(m) : NULL;
	while (k && k->nth != was->kept) {
		k = k->older;
	}
	if (k) {
		memcpy(rp->text->p + was->start, k->text.p, k->text.n);
	}
	rp->rendered[i] = *now;
}

enum kp_exec kp_tpl_round(struct kp_interp *I, struct kp_act *act, const struct kp_node *loop,
	struct kp_tpl_rounds *r, const struct kp_tv *item)
{
	struct kp_tpl_replay *rp = I->replay;
	uint32_t i = rp->message = r->next++, start = I->out->n;
	struct kp_tpl_memory *m = i < rp->n_remembered ? rp->remembered[i] : NULL;
	enum kp_exec e;
	if (!m) {
		return run_body(I, act, loop);
	}
	rp->item = *item;
	const struct kp_tpl_kept *k = recall(I, loop, m);
	bool replayed = k != NULL, left_out = replayed && is_expected(I, k);
	if (k) {
		e = replay_round(I, k, left_out);
	} else if (rp->bad < MAX_BAD && kp_tpl_memory_has_room(m)) {
		e = run_noted(I, act, loop, m, &k);
	} else {
		e = run_body(I, act, loop);
	}
	if (I->out == rp->text && I->out->n > start) {
		const struct kp_tpl_rendered now = { .kept = k ? k->nth : 0,
			.replayed = replayed,
			.left_out = left_out,
			.start = start,
			.end = I->out->n };
		note_place(rp, m, i, &now);
	}
	return e;
}
