/* DESIGN: one pass over the messages. Each message's members are copied into a list of its own the first time one of them has to change;
   messages that need nothing stay where they are, and so does the whole array if all of them do. */
#include "template/adapt.h"

#include "template/interp.h"
#include "template/rewrite.h"

#include <stdio.h>

enum { MAX_ADDED = 3 }; /* members that a message may get: reasoning_content, thinking, content */

struct adapter {
	const struct kp_template_shape *shape;
	struct kp_arena *a;
	struct kp_err *err;
	uint32_t index; /* of the message */
};
/* A message being rewritten: `m` holds all members so far once something changed. */
struct rewrite {
	const struct kp_jv *from;
	struct kp_jmember *m;
	uint32_t n;
	bool changed;
};

static void *alloc(struct adapter *d, size_t count, size_t size)
{
	size_t n;
	void *p = kp_size_mul(count, size, &n) ? kp_arena_alloc(d->a, n) : NULL;
	if (!p) {
		kp_arena_full(d->err, "messages");
	}
	return p;
}

static struct kp_jv text_value(kp_str s)
{
	return (struct kp_jv){ .type = KP_JSON_STRING, .s = s };
}

static int bad_input(struct adapter *d, kp_str place, const char *what)
{
	char param[KP_ERR_PARAM];
	snprintf(param, sizeof(param), "messages[%u].%" KP_FMT, d->index, KP_ARG(place));
	return kp_err_param(d->err, param, "`%s`: %s", param, what);
}

/* --- content ------------------------------------------------------------------------------------------------------------------------ */

/* The parts' texts, a newline between them. */
static int join_parts(struct adapter *d, const struct kp_jv *parts, struct kp_jv *ret)
{
	size_t n = 0;
	for (uint32_t i = 0; i < parts->n; i++) {
		const struct kp_jv *text = kp_jv_get(&parts->items[i], KP_S("text"));
		if (!kp_jv_is(text, KP_JSON_STRING)) {
			char place[32];
			snprintf(place, sizeof(place), "content[%u]", i);
			return bad_input(d, kp_str_c(place),
				"the model's chat template takes only text here");
		}
		n += text->s.n + (i > 0);
	}
	char *p = alloc(d, n, 1), *at = p;
	if (!p) {
		return -1;
	}
	for (uint32_t i = 0; i < parts->n; i++) {
		kp_str s = kp_jv_get(&parts->items[i], KP_S("text"))->s;
		if (i) {
			*at++ = '\n';
		}
		if (s.n) {
			memcpy(at, s.p, s.n);
			at += s.n;
		}
	}
	*ret = text_value(kp_str_n(p, n));
	return 0;
}

static int wrap_text(struct adapter *d, const struct kp_jv *text, struct kp_jv *ret)
{
	struct kp_jmember *m = alloc(d, 2, sizeof(*m));
	struct kp_jv *part = alloc(d, 1, sizeof(*part));
	if (!m || !part) {
		return -1;
	}
	m[0] = (struct kp_jmember){ KP_S("type"), text_value(KP_S("text")) };
	m[1] = (struct kp_jmember){ KP_S("text"), *text };
	*part = (struct kp_jv){ .type = KP_JSON_OBJECT, .n = 2, .members = m };
	*ret = (struct kp_jv){ .type = KP_JSON_ARRAY, .n = 1, .items = part };
	return 0;
}

static enum kp_shape_content content_of_role(const struct kp_template_shape *s, kp_str role)
{
	static const struct {
		const char *name;
		enum kp_shape_role role;
	} roles[] = { { "user", KP_SHAPE_USER }, { "assistant", KP_SHAPE_ASSISTANT },
		{ "system", KP_SHAPE_SYSTEM }, { "developer", KP_SHAPE_SYSTEM },
		{ "tool", KP_SHAPE_TOOL } };
	for (size_t i = 0; i < KP_LEN(roles); i++) {
		if (kp_str_eq(role, kp_str_c(roles[i].name))) {
			return s->content[roles[i].role];
		}
	}
	return KP_CONTENT_EITHER;
}

static int adapt_content(
	struct adapter *d, kp_str role, const struct kp_jv *v, struct kp_jv *ret, bool *changed)
{
	enum kp_shape_content form = content_of_role(d->shape, role);
	if (form == KP_CONTENT_TEXT && v->type == KP_JSON_ARRAY) {
		*changed = true;
		return join_parts(d, v, ret);
	}
	if (form == KP_CONTENT_PARTS && v->type == KP_JSON_STRING) {
		*changed = true;
		return wrap_text(d, v, ret);
	}
	return 0;
}

/* --- tool calls --------------------------------------------------------------------------------------------------------------------- */

/* An object as the templates' own `tojson` writes it. */
static int object_text(struct adapter *d, const struct kp_jv *v, struct kp_jv *ret)
{
	enum { MAX_STEPS = 50000000, MAX_TEXT = 64 << 20 };
	struct kp_interp I = {
		.a = d->a, .err = d->err, .later_steps = MAX_STEPS, .max_output = MAX_TEXT
	};
	struct kp_tv x = kp_tv_from_jv(v, KP_ORIGIN_ASSISTANT), text;
	const struct kp_tv none[KP_TPL_MAX_PARAMS] = { 0 };
	if (kp_tpl_filter_tojson(&I, &x, none, &text)) {
		return -1;
	}
	*ret = text_value(kp_tv_bytes(&text));
	return 0;
}

static int object_value(struct adapter *d, uint32_t call, kp_str text, struct kp_jv *ret)
{
	struct kp_err err = KP_ERR_INIT;
	char place[96];
	*ret = (struct kp_jv){ .type = KP_JSON_OBJECT };
	if (kp_str_trim(text).n == 0) {
		return 0;
	}
	if (kp_jv_parse(text, d->a, ret, &err)) {
		if (err.code != KP_INVALID_ARGUMENT) {
			*d->err = err;
			return -1;
		}
		snprintf(place, sizeof(place), "tool_calls[%u].function.arguments", call);
		return bad_input(d, kp_str_c(place), err.msg); /* broken, or too deep */
	}
	if (ret->type != KP_JSON_OBJECT) {
		*ret = (struct kp_jv){ .type = KP_JSON_OBJECT };
	}
	return 0;
}

static int adapt_arguments(
	struct adapter *d, uint32_t call, const struct kp_jv *v, struct kp_jv *ret, bool *changed)
{
	*ret = *v;
	if (d->shape->args == KP_ARGS_TEXT && v->type == KP_JSON_OBJECT) {
		*changed = true;
		return object_text(d, v, ret);
	}
	if (d->shape->args == KP_ARGS_TEXT &&
		(v->type == KP_JSON_NULL || (v->type == KP_JSON_STRING && v->s.n == 0))) {
		*changed = true;
		*ret = text_value(KP_S("{}"));
		return 0;
	}
	if (d->shape->args == KP_ARGS_OBJECT && v->type != KP_JSON_OBJECT) {
		*changed = true;
		return object_value(d, call, v->type == KP_JSON_STRING ? v->s : KP_S(""), ret);
	}
	return 0;
}

static int adapt_calls(
	struct adapter *d, const struct kp_jv *calls, struct kp_jv *ret, bool *changed)
{
	struct kp_jv *items = NULL;
	for (uint32_t i = 0; i < calls->n; i++) {
		const struct kp_jv *function = kp_jv_get(&calls->items[i], KP_S("function")),
				   *arguments = kp_jv_get(function, KP_S("arguments"));
		struct kp_jv args, f;
		bool new_args = false;
		if (!arguments) {
			continue;
		}
		if (adapt_arguments(d, i, arguments, &args, &new_args)) {
			return -1;
		}
		if (!new_args) {
			continue;
		}
		if ((!items && kp_tpl_jv_copy_items(calls, d->a, &items, d->err)) ||
			kp_tpl_jv_replace(function, KP_S("arguments"), &args, d->a, &f, d->err) ||
			kp_tpl_jv_replace(
				&calls->items[i], KP_S("function"), &f, d->a, &items[i], d->err)) {
			return -1;
		}
	}
	if (items) {
		*changed = true;
		*ret = *calls;
		ret->items = items;
	}
	return 0;
}

/* --- messages ----------------------------------------------------------------------------------------------------------------------- */

/* From here on the message's members are a list of its own: those before member `upto` as they came. */
static int start(struct adapter *d, struct rewrite *w, uint32_t upto)
{
	if (w->changed) {
		return 0;
	}
	w->m = alloc(d, (size_t)w->from->n + MAX_ADDED, sizeof(*w->m));
	if (!w->m) {
		return -1;
	}
	if (upto) {
		memcpy(w->m, w->from->members, upto * sizeof(*w->m));
	}
	w->n = upto;
	w->changed = true;
	return 0;
}

static const struct kp_jv *not_null(const struct kp_jv *m, kp_str key)
{
	const struct kp_jv *v = kp_jv_get(m, key);
	return v && v->type != KP_JSON_NULL ? v : NULL;
}

/* One member: `drop` or its new value. */
static int adapt_member(struct adapter *d, kp_str role, const struct kp_jmember *member,
	struct kp_jv *value, bool *drop, bool *changed)
{
	const struct kp_jv *v = &member->value;
	*value = *v;
	*drop = v->type == KP_JSON_NULL;
	if (*drop) {
		return 0;
	}
	if (kp_str_eq(member->key, KP_S("content"))) {
		return adapt_content(d, role, v, value, changed);
	}
	if (kp_str_eq(member->key, KP_S("tool_calls")) && v->type == KP_JSON_ARRAY) {
		*drop = v->n == 0;
		return adapt_calls(d, v, value, changed);
	}
	if (kp_str_eq(member->key, KP_S("role")) && kp_str_eq(role, KP_S("developer")) &&
		!d->shape->developer_role) {
		*value = text_value(KP_S("system"));
		*changed = true;
	}
	return 0;
}

static void set(struct rewrite *w, kp_str key, const struct kp_jv *value)
{
	for (uint32_t i = 0; i < w->n; i++) {
		if (kp_str_eq(w->m[i].key, key)) {
			w->m[i].value = *value;
			return;
		}
	}
	w->m[w->n++] = (struct kp_jmember){ key, *value };
}

/* The content that the template wants beside calls that come without one. */
static int add_content(struct adapter *d, struct rewrite *w, kp_str role)
{
	const struct kp_jv *calls = kp_jv_get(w->from, KP_S("tool_calls")),
			   *content = not_null(w->from, KP_S("content"));
	struct kp_jv value = text_value(KP_S(""));
	if (d->shape->beside_calls == KP_BESIDE_NOTHING || !kp_jv_is(calls, KP_JSON_ARRAY) ||
		!calls->n || !kp_str_eq(role, KP_S("assistant"))) {
		return 0;
	}
	if (d->shape->beside_calls == KP_BESIDE_NULL) {
		value = (struct kp_jv){ .type = KP_JSON_NULL };
		if (content && !(content->type == KP_JSON_STRING && content->s.n == 0)) {
			return 0;
		}
	} else if (content) {
		return 0;
	}
	if (start(d, w, w->from->n)) {
		return -1;
	}
	set(w, KP_S("content"), &value);
	return 0;
}

/* What transformers and we add: both names of the reasoning, a content where calls need one. */
static int add_members(struct adapter *d, struct rewrite *w, kp_str role)
{
	const struct kp_jv *from = w->from, *r = not_null(from, KP_S("reasoning_content"));
	r = r ? r : not_null(from, KP_S("thinking"));
	r = r ? r : not_null(from, KP_S("reasoning"));
	if (r && !(not_null(from, KP_S("reasoning_content")) && not_null(from, KP_S("thinking")))) {
		if (start(d, w, from->n)) {
			return -1;
		}
		if (!not_null(from, KP_S("thinking"))) { /* in front, as transformers has it */
			memmove(w->m + 1, w->m, w->n * sizeof(*w->m));
			w->m[0] = (struct kp_jmember){ KP_S("thinking"), *r };
			w->n++;
		}
		set(w, KP_S("reasoning_content"), r);
	}
	return add_content(d, w, role);
}

static int adapt_message(struct adapter *d, struct rewrite *w)
{
	kp_str role = kp_jv_str(w->from, KP_S("role"));
	for (uint32_t i = 0; i < w->from->n; i++) {
		const struct kp_jmember *member = &w->from->members[i];
		struct kp_jv value;
		bool drop, changed = false;
		if (adapt_member(d, role, member, &value, &drop, &changed) ||
			((drop || changed) && start(d, w, i))) {
			return -1;
		}
		if (w->changed && !drop) {
			w->m[w->n++] = (struct kp_jmember){ member->key, value };
		}
	}
	return add_members(d, w, role);
}

/* A role and a text, as most messages of a conversation are, where the template takes a text: nothing below changes it. */
static bool stays(const struct kp_template_shape *shape, const struct kp_jv *m)
{
	if (m->n != 2 || m->members[0].value.type != KP_JSON_STRING ||
		m->members[1].value.type != KP_JSON_STRING ||
		!kp_str_eq_name(m->members[0].key, KP_S("role")) ||
		!kp_str_eq_name(m->members[1].key, KP_S("content"))) {
		return false;
	}
	kp_str role = m->members[0].value.s;
	enum kp_shape_role of = kp_str_eq_name(role, KP_S("user"))        ? KP_SHAPE_USER
				: kp_str_eq_name(role, KP_S("assistant")) ? KP_SHAPE_ASSISTANT
									  : KP_SHAPE_ROLES;
	return of != KP_SHAPE_ROLES && shape->content[of] != KP_CONTENT_PARTS;
}

int kp_template_adapt_rest(const struct kp_template_shape *shape, const struct kp_jv *messages,
	uint32_t from, struct kp_arena *a, struct kp_jv *ret, struct kp_err *err)
{
	struct adapter d = { .shape = shape, .a = a, .err = err };
	struct kp_jv *items = NULL;
	for (uint32_t i = from; i < messages->n; i++) {
		struct rewrite w = { .from = &messages->items[i] };
		d.index = i;
		if (w.from->type != KP_JSON_OBJECT || stays(shape, w.from)) {
			continue;
		}
		if (adapt_message(&d, &w)) {
			return -1;
		}
		if (!w.changed) {
			continue;
		}
		if (!items && kp_tpl_jv_copy_items(messages, a, &items, err)) {
			return -1;
		}
		items[i] = (struct kp_jv){ .type = KP_JSON_OBJECT, .n = w.n, .members = w.m };
	}
	*ret = *messages;
	ret->items = items ? items : messages->items;
	return 0;
}

int kp_template_adapt_messages(const struct kp_template_shape *shape, const struct kp_jv *messages,
	struct kp_arena *a, struct kp_jv *ret, struct kp_err *err)
{
	return kp_template_adapt_rest(shape, messages, 0, a, ret, err);
}

int kp_template_adapt_tools(const struct kp_template_shape *shape, const struct kp_jv *tools,
	struct kp_arena *a, struct kp_jv *ret, struct kp_err *err)
{
	*ret = *tools;
	if (shape->tools != KP_TOOLS_FLAT) {
		return 0;
	}
	struct kp_jv *items;
	if (kp_tpl_jv_copy_items(tools, a, &items, err)) {
		return -1;
	}
	for (uint32_t i = 0; i < tools->n; i++) {
		const struct kp_jv *function = kp_jv_get(&tools->items[i], KP_S("function"));
		if (kp_jv_is(function, KP_JSON_OBJECT)) {
			items[i] = *function;
		}
	}
	ret->items = items;
	return 0;
}
