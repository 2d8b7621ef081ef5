/* DESIGN: see make.h. Lists grow in the arena; everything else is a copy of what is given. */
#include "prompt/make.h"

#include <stdio.h>

int kp_make_bad(struct kp_err *err, const char *reason, const char *what, const char *fmt, ...)
{
	char param[128];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(param, sizeof(param), fmt, ap);
	va_end(ap);
	kp_err_param(err, param, "`%s`: %s", param, what);
	err->reason = reason;
	return -1;
}

int kp_make_only(
	struct kp_err *err, const struct kp_jv *object, const char *names, const char *where)
{
	if (object->type != KP_JSON_OBJECT) {
		return kp_make_bad(err, NULL, "expected an object", "%s", where);
	}
	for (uint32_t i = 0; i < object->n; i++) {
		kp_str key = object->members[i].key, rest = kp_str_c(names), name;
		bool is_known = false;
		while (!is_known && kp_str_split(&rest, ' ', &name)) {
			is_known = kp_str_eq(key, name);
		}
		if (!is_known) {
			return kp_make_bad(err, "unknown_parameter", "unknown parameter",
				"%s.%" KP_FMT, where, KP_ARG(kp_str_sub(key, 0, 80)));
		}
	}
	return 0;
}

int kp_make_object(
	const struct kp_maker *m, const struct kp_jmember *members, uint32_t n, struct kp_jv *ret)
{
	struct kp_jmember *copy = kp_arena_alloc(m->a, n * sizeof(*copy));
	if (!copy) {
		return kp_arena_full(m->err, "messages");
	}
	memcpy(copy, members, n * sizeof(*copy));
	*ret = (struct kp_jv){ .type = KP_JSON_OBJECT, .n = n, .members = copy };
	return 0;
}

int kp_make_push(const struct kp_maker *m, struct kp_made_list *l, const struct kp_jv *v)
{
	if (l->n == l->cap) {
		uint32_t cap = l->cap ? l->cap * 2 : 8;
		struct kp_jv *items = kp_arena_grow(
			m->a, l->items, l->cap * sizeof(*items), cap * sizeof(*items));
		if (!items) {
			return kp_arena_full(m->err, "messages");
		}
		l->items = items;
		l->cap = cap;
	}
	l->items[l->n++] = *v;
	return 0;
}

int kp_make_content(const struct kp_maker *m, const struct kp_made_list *texts, struct kp_jv *ret)
{
	struct kp_made_list parts = { .n = 0 };
	if (texts->n < 2) {
		*ret = texts->n ? texts->items[0] : kp_made_text(KP_S(""));
		return 0;
	}
	for (uint32_t i = 0; i < texts->n; i++) {
		const struct kp_jmember members[] = {
			{ KP_S("type"), kp_made_text(KP_S("text")) },
			{ KP_S("text"), texts->items[i] },
		};
		struct kp_jv part;
		if (kp_make_object(m, members, KP_LEN(members), &part) ||
			kp_make_push(m, &parts, &part)) {
			return -1;
		}
	}
	*ret = kp_made_array(&parts);
	return 0;
}

int kp_make_joined(const struct kp_maker *m, const struct kp_made_list *texts, struct kp_jv *ret)
{
	size_t n = 0;
	for (uint32_t i = 0; i < texts->n; i++) {
		n += texts->items[i].s.n;
	}
	char *p = kp_arena_alloc(m->a, n), *at = p;
	if (!p) {
		return kp_arena_full(m->err, "messages");
	}
	for (uint32_t i = 0; i < texts->n; i++) {
		if (texts->items[i].s.n) {
			memcpy(at, texts->items[i].s.p, texts->items[i].s.n);
			at += texts->items[i].s.n;
		}
	}
	*ret = kp_made_text(kp_str_n(p, n));
	return 0;
}

int kp_make_message(const struct kp_maker *m, kp_str role, const struct kp_made_list *texts,
	const struct kp_made_list *thoughts, const struct kp_made_list *calls, struct kp_jv *ret)
{
	struct kp_jmember members[4] = { { KP_S("role"), kp_made_text(role) },
		{ KP_S("content"), { .type = KP_JSON_NULL } } };
	bool has_calls = calls && calls->n;
	uint32_t n = 2;
	if ((texts->n || !has_calls) && kp_make_content(m, texts, &members[1].value)) {
		return -1;
	}
	if (thoughts && thoughts->n) {
		members[n].key = KP_S("reasoning_content");
		if (kp_make_joined(m, thoughts, &members[n++].value)) {
			return -1;
		}
	}
	if (has_calls) {
		members[n++] = (struct kp_jmember){ KP_S("tool_calls"), kp_made_array(calls) };
	}
	return kp_make_object(m, members, n, ret);
}

int kp_make_call(const struct kp_maker *m, kp_str id, kp_str name, const struct kp_jv *arguments,
	struct kp_jv *ret)
{
	struct kp_jv function;
	const struct kp_jmember f[] = {
		{ KP_S("name"), kp_made_text(name) },
		{ KP_S("arguments"), *arguments },
	};
	if (kp_make_object(m, f, KP_LEN(f), &function)) {
		return -1;
	}
	const struct kp_jmember call[] = {
		{ KP_S("id"), kp_made_text(id) },
		{ KP_S("type"), kp_made_text(KP_S("function")) },
		{ KP_S("function"), function },
	};
	return kp_make_object(m, call, KP_LEN(call), ret);
}

int kp_make_result(const struct kp_maker *m, kp_str id, const struct kp_jv *content, kp_str name,
	struct kp_jv *ret)
{
	const struct kp_jmember result[] = {
		{ KP_S("role"), kp_made_text(KP_S("tool")) },
		{ KP_S("tool_call_id"), kp_made_text(id) },
		{ KP_S("content"), *content },
		{ KP_S("name"), kp_made_text(name) },
	};
	return kp_make_object(m, result, name.p ? 4 : 3, ret);
}
