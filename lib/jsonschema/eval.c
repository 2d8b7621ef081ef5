/* DESIGN: see run.h. A failure climbs from its evaluation towards the root as long as it decides the parent too; where it does not, it stays there as a count or a flag. One
   that arrives at a firm evaluation is told. At a value's end its evaluations close from the last to the first, children before parents. */
#include "jsonschema/run.h"

static struct kp_js_eval *eval_at(struct kp_jsonschema_run *r, uint32_t i)
{
	return &r->evals.p[i];
}

static struct kp_js_frame *top(struct kp_jsonschema_run *r)
{
	return r->frames[r->n_frames - 1];
}

/* Does it still count? Passes its parent's failure on to it. */
static bool alive(struct kp_jsonschema_run *r, uint32_t i)
{
	struct kp_js_eval *e = eval_at(r, i);
	if (!e->failed && e->parent != JS_NONE && eval_at(r, e->parent)->failed) {
		e->failed = true;
	}
	return !e->failed;
}

/* The bit of a name; the second half of the words is of dependent schemas that failed. */
static uint64_t *name_word(
	struct kp_jsonschema_run *r, const struct kp_js_eval *e, uint32_t name, bool dependent)
{
	uint32_t half = (e->node->object->n_names + 63) / 64;
	return &r->words.p[e->words + (dependent ? half : 0) + name / 64];
}

static bool has_bit(const uint64_t *word, uint32_t i)
{
	return *word >> i % 64 & 1;
}

static void set_bit(uint64_t *word, uint32_t i)
{
	*word |= UINT64_C(1) << i % 64;
}

static bool name_came(struct kp_jsonschema_run *r, const struct kp_js_eval *e, uint32_t name)
{
	return has_bit(name_word(r, e, name, false), name);
}

static void mark(struct kp_jsonschema_run *r, uint32_t eval, uint32_t ordinal, bool failed)
{
	struct kp_js_mark m = { eval, ordinal, failed };
	struct kp_js_frame *f = r->frames[eval_at(r, eval)->frame];
	if (kp_js_take_for(r, f, sizeof(m))) {
		kp_vec_push(&f->marks, m);
	}
}

/* --- failures ---------------------------------------------------------------------------------------------------- */

/* What the failure of e does to its parent: true, it fails too. */
static bool decides(struct kp_jsonschema_run *r, const struct kp_js_eval *e, struct kp_js_eval *p)
{
	switch ((enum kp_js_role)e->role) {
	case ROLE_ALL:
		return true;
	case ROLE_ANY:
		r->cause.group = "anyOf";
		return --p->any_left == 0;
	case ROLE_ONE:
		r->cause.group = "oneOf";
		return --p->one_left == 0;
	case ROLE_IF:
		p->if_state = IF_FALSE;
		if (p->else_failed) {
			r->cause = (struct kp_js_cause){ .node = p->node,
				.keyword = "else",
				.what = "neither `if` nor `else` holds",
				.frame = p->frame };
		}
		return p->else_failed;
	case ROLE_THEN:
		p->then_failed = true;
		return p->if_state == IF_TRUE;
	case ROLE_ELSE:
		p->else_failed = true;
		return p->if_state == IF_FALSE;
	case ROLE_DEPENDENT:
		set_bit(name_word(r, p, e->slot, true), e->slot);
		return name_came(r, p, e->slot);
	case ROLE_UNEVALUATED:
		mark(r, e->parent, e->slot, true);
		return false;
	case ROLE_NOT:
	case ROLE_CONTAINS:
		break;
	}
	return false;
}

static void climb(struct kp_jsonschema_run *r, uint32_t i)
{
	for (;;) {
		struct kp_js_eval *e = eval_at(r, i);
		if (e->failed) {
			return;
		}
		if (e->firm) {
			kp_js_report(r);
			return;
		}
		e->failed = true;
		if (e->parent == JS_NONE || !decides(r, e, eval_at(r, e->parent))) {
			return;
		}
		i = e->parent;
	}
}

static void fail_with(struct kp_jsonschema_run *r, uint32_t i, const char *keyword,
	const char *what, kp_str detail, const struct kp_decimal *bound)
{
	struct kp_js_eval *e = eval_at(r, i);
	r->cause = (struct kp_js_cause){ .node = e->node,
		.keyword = keyword,
		.what = what,
		.detail = detail,
		.bound = bound,
		.frame = e->frame };
	climb(r, i);
}

static void fail(struct kp_jsonschema_run *r, uint32_t i, const char *keyword, const char *what)
{
	fail_with(r, i, keyword, what, KP_STR_NULL, NULL);
}

static void fail_count(struct kp_jsonschema_run *r, uint32_t i, const char *keyword,
	const char *what, uint64_t count)
{
	struct kp_js_eval *e = eval_at(r, i);
	r->cause = (struct kp_js_cause){ .node = e->node,
		.keyword = keyword,
		.what = what,
		.has_count = true,
		.count = count,
		.frame = e->frame };
	climb(r, i);
}

/* --- begin ------------------------------------------------------------------------------------------------------- */

static uint32_t enter_scope(struct kp_jsonschema_run *r, uint32_t scope, uint32_t resource)
{
	uint32_t i = scope, passed = 0;
	if (r->schema->n_dynamic == 0) {
		return JS_NONE;
	}
	while (i != JS_NONE && r->scopes.p[i].resource != resource) {
		i = r->scopes.p[i].parent;
		passed++;
	}
	if (!kp_js_spend(r, passed / 16) || i != JS_NONE) {
		return scope; /* only the outermost of each counts */
	}
	struct kp_js_scope s = { scope, resource };
	kp_vec_push(&r->scopes, s);
	return (uint32_t)r->scopes.n - 1;
}

void kp_js_push_eval(struct kp_jsonschema_run *r, const struct kp_js_node *node, uint32_t parent,
	enum kp_js_role role, uint32_t slot)
{
	struct kp_js_eval e = { .node = node,
		.parent = parent,
		.scope = JS_NONE,
		.slot = slot,
		.role = (uint8_t)role,
		.firm = role == ROLE_ALL };
	e.frame = (uint8_t)(r->n_frames - 1);
	if (!kp_js_spend(r, 1) || !kp_js_take(r, sizeof(e) + sizeof(struct kp_js_scope))) {
		return;
	}
	if (parent != JS_NONE) {
		const struct kp_js_eval *p = eval_at(r, parent);
		e.firm = e.firm && p->firm;
		e.chain = p->frame == e.frame ? p->chain + 1 : 0;
		e.track = p->frame == e.frame && p->track;
		e.scope = p->scope;
	}
	e.scope = enter_scope(r, e.scope, node->resource);
	if (e.chain > 2 * JS_CHAIN_MAX) {
		r->budget = "references that lead back to themselves";
		return;
	}
	kp_vec_push(&r->evals, e);
}

static void start(struct kp_jsonschema_run *r, uint32_t i);

/* A schema on the same value. */
static void inplace(struct kp_jsonschema_run *r, uint32_t i, const struct kp_js_node *node,
	enum kp_js_role role, uint32_t slot)
{
	if (node && !r->budget && !r->stopped && !eval_at(r, i)->failed) {
		uint32_t at = (uint32_t)r->evals.n;
		kp_js_push_eval(r, node, i, role, slot);
		if (!r->budget) {
			start(r, at);
		}
	}
}

static const struct kp_js_node *dynamic_target(
	struct kp_jsonschema_run *r, const struct kp_js_inplace *in, uint32_t scope)
{
	const struct kp_js_node *found = in->dynamic;
	for (; in->dynamic_name.p && scope != JS_NONE &&
		kp_js_spend(r, 1 + r->schema->n_dynamic / 16);
		scope = r->scopes.p[scope].parent) {
		for (uint32_t k = 0; k < r->schema->n_dynamic; k++) {
			const struct kp_js_dynamic *d = &r->schema->dynamic[k];
			if (d->resource == r->scopes.p[scope].resource &&
				kp_str_eq(d->name, in->dynamic_name)) {
				found = d->node;
			}
		}
	}
	return found;
}

static void start_inplace(struct kp_jsonschema_run *r, uint32_t i, const struct kp_js_inplace *in)
{
	eval_at(r, i)->any_left = in->any_of.n;
	eval_at(r, i)->one_left = in->one_of.n;
	inplace(r, i, in->ref, ROLE_ALL, 0);
	if (in->dynamic) {
		inplace(r, i, dynamic_target(r, in, eval_at(r, i)->scope), ROLE_ALL, 0);
	}
	for (uint32_t k = 0; k < in->all_of.n; k++) {
		inplace(r, i, in->all_of.p[k], ROLE_ALL, 0);
	}
	for (uint32_t k = 0; k < in->any_of.n; k++) {
		inplace(r, i, in->any_of.p[k], ROLE_ANY, k);
	}
	for (uint32_t k = 0; k < in->one_of.n; k++) {
		inplace(r, i, in->one_of.p[k], ROLE_ONE, k);
	}
	inplace(r, i, in->not_, ROLE_NOT, 0);
	inplace(r, i, in->if_, ROLE_IF, 0);
	inplace(r, i, in->then_, ROLE_THEN, 0);
	inplace(r, i, in->else_, ROLE_ELSE, 0);
}

/* Does the type alone decide? */
static bool type_fits(struct kp_jsonschema_run *r, uint32_t i, uint8_t bits)
{
	const struct kp_js_node *n = eval_at(r, i)->node;
	if (n->always_false) {
		fail(r, i, NULL, "nothing is allowed here");
	} else if (!(n->types & bits)) {
		fail(r, i, "type", NULL);
	} else if (n->enum_ && !(n->enum_->types & bits)) {
		fail(r, i, "enum", "none of the values has this type");
	} else if (n->const_ && !(n->const_->types & bits)) {
		fail(r, i, "const", "the value has another type");
	} else {
		return true;
	}
	eval_at(r, i)->failed = true;
	return false;
}

static void start_object(struct kp_jsonschema_run *r, uint32_t i, const struct kp_js_object *o)
{
	uint32_t n = (o->n_names + 63) / 64 * (o->n_dependent ? 2 : 1);
	if (!kp_js_take(r, n * sizeof(uint64_t)) || !kp_js_spend(r, n)) {
		return;
	}
	eval_at(r, i)->words = (uint32_t)r->words.n;
	for (uint32_t k = 0; k < n; k++) {
		kp_vec_push(&r->words, 0);
	}
	if (o->unevaluated) {
		eval_at(r, i)->track = true;
		top(r)->tracks = true;
	}
	for (uint32_t k = 0; o->n_dependent && k < o->n_names; k++) {
		inplace(r, i, o->names[k].dependent, ROLE_DEPENDENT, k);
	}
}

static void start(struct kp_jsonschema_run *r, uint32_t i)
{
	struct kp_js_frame *f = top(r);
	const struct kp_js_node *n = eval_at(r, i)->node;
	if (!type_fits(r, i, kp_js_types_of(f->type))) {
		return;
	}
	f->hashing = f->hashing || n->enum_ || n->const_;
	if (f->type == KP_JSON_STRING && n->string) {
		f->need_text = f->need_text || n->string->pattern || n->string->format;
		f->limit = KP_MIN(f->limit, n->string->max);
	} else if (f->type == KP_JSON_ARRAY && n->array) {
		f->unique = f->unique || n->array->unique;
		eval_at(r, i)->track = eval_at(r, i)->track || n->array->unevaluated;
	} else if (f->type == KP_JSON_OBJECT && n->object) {
		start_object(r, i, n->object);
	}
	if (n->inplace && !r->budget) {
		start_inplace(r, i, n->inplace);
	}
}

void kp_js_start(struct kp_jsonschema_run *r)
{
	uint32_t n = (uint32_t)r->evals.n;
	for (uint32_t i = top(r)->evals; i < n && !r->budget && !r->stopped; i++) {
		if (alive(r, i)) {
			start(r, i);
		}
	}
}

/* --- children ---------------------------------------------------------------------------------------------------- */

void kp_js_select_item(struct kp_jsonschema_run *r, uint32_t array)
{
	struct kp_js_frame *f = r->frames[array];
	uint32_t ordinal = f->n++, end = top(r)->evals;
	for (uint32_t i = f->evals; i < end && !r->budget && !r->stopped; i++) {
		const struct kp_js_array *a = eval_at(r, i)->node->array;
		if (!a || !alive(r, i) || !kp_js_spend(r, 1)) {
			continue;
		}
		if (f->n > a->max) {
			fail_count(r, i, "maxItems", "more items than", a->max);
			continue;
		}
		const struct kp_js_node *child =
			ordinal < a->prefix.n ? a->prefix.p[ordinal] : a->rest;
		if (child) {
			if (eval_at(r, i)->track) {
				mark(r, i, ordinal, false);
			}
			kp_js_push_eval(r, child, i, ROLE_ALL, ordinal);
		} else if (a->unevaluated) {
			kp_js_push_eval(r, a->unevaluated, i, ROLE_UNEVALUATED, ordinal);
		}
		if (a->contains) {
			kp_js_push_eval(r, a->contains, i, ROLE_CONTAINS, ordinal);
		}
	}
}

uint32_t kp_js_select_names(struct kp_jsonschema_run *r, uint32_t object)
{
	uint32_t n = 0, end = top(r)->evals;
	for (uint32_t i = r->frames[object]->evals; i < end && !r->budget; i++) {
		const struct kp_js_object *o = eval_at(r, i)->node->object;
		if (o && o->names_schema && alive(r, i)) {
			kp_js_push_eval(r, o->names_schema, i, ROLE_ALL, 0);
			n++;
		}
	}
	return n;
}

/* The name came: dependent schemas count from now on. */
static void name_comes(struct kp_jsonschema_run *r, uint32_t i, const struct kp_js_object *o,
	const struct kp_js_name *name)
{
	struct kp_js_eval *e = eval_at(r, i);
	uint32_t k = (uint32_t)(name - o->names);
	set_bit(name_word(r, e, k, false), k);
	if (name->dependent && has_bit(name_word(r, e, k, true), k)) {
		fail_with(r, i, "dependentSchemas", "does not fit what is asked for with",
			name->name, NULL);
	}
}

enum { DEAR_MATCH = 20000, CHEAP_MATCH = 4 }; /* steps */

/* 1, 0; with the budget used up 0 too. */
static int find_regex(struct kp_jsonschema_run *r, const struct kp_js_regex *re, kp_str s)
{
	bool dear;
	if (!kp_js_spend(r, CHEAP_MATCH + s.n / 16)) {
		return 0;
	}
	int found = kp_js_regex_find(re, s, &dear);
	if (found < 0) {
		r->budget = "backtracking of a pattern";
		return 0;
	}
	return dear && !kp_js_spend(r, DEAR_MATCH) ? 0 : found;
}

static void member(struct kp_jsonschema_run *r, uint32_t i, kp_str name, uint32_t ordinal)
{
	const struct kp_js_object *o = eval_at(r, i)->node->object;
	const struct kp_js_name *known = kp_js_object_find(o, name);
	bool matched = false;
	if (ordinal >= o->max) {
		fail_count(r, i, "maxProperties", "more members than", o->max);
		return;
	}
	if (known) {
		name_comes(r, i, o, known);
		if (known->property) {
			matched = true;
			kp_js_push_eval(r, known->property, i, ROLE_ALL, ordinal);
		}
	}
	for (uint32_t k = 0; k < o->n_patterns && !r->budget; k++) {
		if (find_regex(r, o->patterns[k].regex, name)) {
			matched = true;
			kp_js_push_eval(r, o->patterns[k].node, i, ROLE_ALL, ordinal);
		}
	}
	if (r->budget) {
		return;
	}
	if (!matched && o->additional) {
		matched = true;
		kp_js_push_eval(r, o->additional, i, ROLE_ALL, ordinal);
	}
	if (matched && !r->budget && eval_at(r, i)->track) {
		mark(r, i, ordinal, false);
	} else if (!matched && o->unevaluated) {
		kp_js_push_eval(r, o->unevaluated, i, ROLE_UNEVALUATED, ordinal);
	}
}

void kp_js_select_member(struct kp_jsonschema_run *r, uint32_t object, kp_str name)
{
	struct kp_js_frame *f = r->frames[object];
	uint32_t ordinal = f->n++, end = top(r)->evals;
	if (f->tracks && kp_js_take(r, name.n + sizeof(size_t))) {
		kp_buf_add(&f->names, name);
		kp_vec_push(&f->name_ends, f->names.n);
	}
	for (uint32_t i = f->evals; i < end && !r->budget && !r->stopped; i++) {
		if (eval_at(r, i)->node->object && alive(r, i) && kp_js_spend(r, 1)) {
			member(r, i, name, ordinal);
		}
	}
}

void kp_js_too_long(struct kp_jsonschema_run *r)
{
	struct kp_js_frame *f = top(r);
	uint64_t passed = f->limit;
	f->limit = UINT64_MAX;
	for (uint32_t i = f->evals; i < r->evals.n && !r->stopped && kp_js_spend(r, 1); i++) {
		const struct kp_js_string *s = eval_at(r, i)->node->string;
		if (!s || !alive(r, i)) {
			continue;
		}
		if (s->max <= passed) {
			fail_count(r, i, "maxLength", "longer than", s->max);
		} else {
			f->limit = KP_MIN(f->limit, s->max);
		}
	}
}

void kp_js_repeated(struct kp_jsonschema_run *r, uint32_t array)
{
	struct kp_js_frame *f = r->frames[array];
	for (uint32_t i = f->evals; i < r->evals.n && eval_at(r, i)->frame == array && !r->stopped;
		i++) {
		const struct kp_js_array *a = eval_at(r, i)->node->array;
		if (a && a->unique && alive(r, i)) {
			fail(r, i, "uniqueItems", "an item is there twice");
		}
	}
}

/* --- end --------------------------------------------------------------------------------------------------------- */

static bool among(const struct kp_js_values *v, struct kp_js_hash h)
{
	uint32_t low = 0, high = v->n;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		int c = kp_js_hash_cmp(&v->p[mid], &h);
		if (c == 0) {
			return true;
		}
		low = c < 0 ? mid + 1 : low;
		high = c < 0 ? high : mid;
	}
	return false;
}

static void close_number(struct kp_jsonschema_run *r, uint32_t i)
{
	const struct kp_js_node *n = eval_at(r, i)->node;
	const struct kp_decimal *d = &r->number;
	if (!(n->types & JS_NUMBER) && !kp_decimal_is_integer(d)) {
		fail(r, i, "type", "expected an integer, got a fraction");
		return;
	}
	const struct kp_js_number *c = n->number;
	if (!c) {
		return;
	}
	if (c->minimum && kp_decimal_cmp(d, c->minimum) < 0) {
		fail_with(r, i, "minimum", "below", KP_STR_NULL, c->minimum);
	}
	if (c->maximum && kp_decimal_cmp(d, c->maximum) > 0) {
		fail_with(r, i, "maximum", "above", KP_STR_NULL, c->maximum);
	}
	if (c->above && kp_decimal_cmp(d, c->above) <= 0) {
		fail_with(r, i, "exclusiveMinimum", "not above", KP_STR_NULL, c->above);
	}
	if (c->below && kp_decimal_cmp(d, c->below) >= 0) {
		fail_with(r, i, "exclusiveMaximum", "not below", KP_STR_NULL, c->below);
	}
	if (c->multiple && !kp_decimal_is_multiple(d, c->multiple)) {
		fail_with(r, i, "multipleOf", "no multiple of", KP_STR_NULL, c->multiple);
	}
}

static void close_string(struct kp_jsonschema_run *r, uint32_t i, const struct kp_js_string *c)
{
	kp_str text = kp_buf_str(&r->text);
	if (top(r)->length < c->min) {
		fail_count(r, i, "minLength", "shorter than", c->min);
	}
	if (c->pattern && !find_regex(r, c->pattern, text) && !r->budget) {
		fail(r, i, "pattern", "the pattern is not found");
	}
	if (c->format && !kp_js_format_ok(c->format, text)) {
		fail(r, i, "format", "not of this format");
	}
}

/* Do what e evaluated and its parent go together? All of them are closed. */
static bool contributes(struct kp_jsonschema_run *r, const struct kp_js_eval *e)
{
	const struct kp_js_eval *p = eval_at(r, e->parent);
	switch ((enum kp_js_role)e->role) {
	case ROLE_THEN:
		return !e->failed && p->if_state == IF_TRUE;
	case ROLE_ELSE:
		return !e->failed && p->if_state == IF_FALSE;
	case ROLE_DEPENDENT:
		return !e->failed && name_came(r, p, e->slot);
	case ROLE_NOT:
	case ROLE_CONTAINS:
	case ROLE_UNEVALUATED:
		return false;
	case ROLE_ALL:
	case ROLE_ANY:
	case ROLE_ONE:
	case ROLE_IF:
		break;
	}
	return !e->failed;
}

/* Did `by` evaluate on behalf of i: is every one on the way up to it good? */
static bool counts_for(struct kp_jsonschema_run *r, uint32_t by, uint32_t i)
{
	while (by != i && kp_js_spend(r, 1)) {
		const struct kp_js_eval *e = eval_at(r, by);
		if (e->frame != eval_at(r, i)->frame || e->parent == JS_NONE || e->parent < i ||
			!contributes(r, e)) {
			return false;
		}
		by = e->parent;
	}
	return by == i;
}

/* unevaluatedProperties, unevaluatedItems. */
static void close_unevaluated(struct kp_jsonschema_run *r, uint32_t i,
	const struct kp_js_node *schema, const char *keyword)
{
	struct kp_js_frame *f = top(r);
	size_t n_words = f->n / 64 + 1;
	bool all = false;
	if (!kp_js_spend(r, n_words + f->marks.n) || !kp_js_take(r, n_words * sizeof(uint64_t))) {
		return;
	}
	r->scratch.n = 0;
	kp_vec_reserve(&r->scratch, n_words);
	memset(r->scratch.p, 0, n_words * sizeof(uint64_t));
	for (size_t k = 0; k < f->marks.n; k++) {
		const struct kp_js_mark *m = &f->marks.p[k];
		if (!m->failed && counts_for(r, m->eval, i)) {
			all = all || m->ordinal == JS_NONE;
			if (m->ordinal != JS_NONE) {
				set_bit(&r->scratch.p[m->ordinal / 64], m->ordinal);
			}
		}
	}
	for (size_t k = 0; k < f->marks.n && !all; k++) {
		const struct kp_js_mark *m = &f->marks.p[k];
		if (m->failed && m->eval == i &&
			!has_bit(&r->scratch.p[m->ordinal / 64], m->ordinal)) {
			kp_str name = KP_STR_NULL;
			if (f->type == KP_JSON_OBJECT && m->ordinal < f->name_ends.n) {
				size_t from = m->ordinal ? f->name_ends.p[m->ordinal - 1] : 0;
				name = kp_str_sub(
					kp_buf_str(&f->names), from, f->name_ends.p[m->ordinal]);
			}
			fail_with(r, i, keyword,
				schema->always_false ? "no schema speaks of" : "does not fit:",
				name, NULL);
			return;
		}
	}
	if (!eval_at(r, i)->failed) {
		mark(r, i, JS_NONE, false);
	}
}

static void close_array(struct kp_jsonschema_run *r, uint32_t i, const struct kp_js_array *c)
{
	if (top(r)->n < c->min) {
		fail_count(r, i, "minItems", "fewer items than", c->min);
	}
	if (c->contains && eval_at(r, i)->n_contains < c->min_contains) {
		fail(r, i, c->min_contains == 1 ? "contains" : "minContains", "too few items fit");
	}
	if (c->unevaluated && !eval_at(r, i)->failed) {
		close_unevaluated(r, i, c->unevaluated, "unevaluatedItems");
	}
}

static void close_object(struct kp_jsonschema_run *r, uint32_t i, const struct kp_js_object *c)
{
	if (top(r)->n < c->min) {
		fail_count(r, i, "minProperties", "fewer members than", c->min);
	}
	if (!kp_js_spend(r, c->n_names / 4)) {
		return;
	}
	for (uint32_t k = 0; k < c->n_names && !eval_at(r, i)->failed; k++) {
		const struct kp_js_name *name = &c->names[k];
		if (!name->required && !name->n_needs) {
			continue;
		}
		bool came = name_came(r, eval_at(r, i), k);
		if (name->required && !came) {
			fail_with(r, i, "required", "there is no member", name->name, NULL);
		}
		for (uint32_t d = 0; came && d < name->n_needs && kp_js_spend(r, 1); d++) {
			if (!name_came(r, eval_at(r, i), name->needs[d])) {
				fail_with(r, i, "dependentRequired", "there is no member",
					c->names[name->needs[d]].name, NULL);
			}
		}
	}
	if (c->unevaluated && !eval_at(r, i)->failed) {
		close_unevaluated(r, i, c->unevaluated, "unevaluatedProperties");
	}
}

static void check_end(struct kp_jsonschema_run *r, uint32_t i, struct kp_js_hash h)
{
	const struct kp_js_node *n = eval_at(r, i)->node;
	if (n->enum_ && !among(n->enum_, h)) {
		fail(r, i, "enum", "not one of the values");
	}
	if (n->const_ && !among(n->const_, h)) {
		fail(r, i, "const", "not the value");
	}
	switch (top(r)->type) {
	case KP_JSON_NUMBER:
		close_number(r, i);
		break;
	case KP_JSON_STRING:
		if (n->string) {
			close_string(r, i, n->string);
		}
		break;
	case KP_JSON_ARRAY:
		if (n->array) {
			close_array(r, i, n->array);
		}
		break;
	case KP_JSON_OBJECT:
		if (n->object) {
			close_object(r, i, n->object);
		}
		break;
	case KP_JSON_NONE:
	case KP_JSON_NULL:
	case KP_JSON_TRUE:
	case KP_JSON_FALSE:
		break;
	}
}

/* The value fits i: what that means for its parent. */
static void succeed(struct kp_jsonschema_run *r, uint32_t i)
{
	const struct kp_js_eval *e = eval_at(r, i);
	if (e->parent == JS_NONE) {
		return;
	}
	struct kp_js_eval *p = eval_at(r, e->parent);
	if (e->role == ROLE_ONE && ++p->one_ok == 2) {
		fail(r, e->parent, "oneOf", "more than one alternative fits");
	} else if (e->role == ROLE_NOT) {
		fail(r, e->parent, "not", "it fits what it must not");
	} else if (e->role == ROLE_IF) {
		p->if_state = IF_TRUE;
		if (p->then_failed) {
			fail(r, e->parent, "then", "`if` holds, and this does not");
		}
	} else if (e->role == ROLE_CONTAINS) {
		if (p->track) {
			mark(r, e->parent, e->slot, false);
		}
		if (++p->n_contains > p->node->array->max_contains) {
			fail(r, e->parent, "maxContains", "too many items fit");
		}
	}
}

void kp_js_close(struct kp_jsonschema_run *r, struct kp_js_hash h)
{
	uint32_t from = top(r)->evals;
	for (uint32_t i = from; i < r->evals.n; i++) {
		(void)alive(r, i);
	}
	for (uint32_t i = (uint32_t)r->evals.n; i-- > from && !r->budget && !r->stopped;) {
		if (!eval_at(r, i)->failed) {
			check_end(r, i, h);
		}
		if (!eval_at(r, i)->failed) {
			succeed(r, i);
		}
	}
}
