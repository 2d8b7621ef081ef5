/* DESIGN: the array is read as values first (order and unknown members survive for the template),
 * then each message is checked; one whose content is a list of parts, or that has null members, is
 * rebuilt. */
#include "prompt/messages.h"

#include <stdio.h>

static int bad(
	struct kp_err *err, const char *reason, uint32_t i, const char *member, const char *what)
{
	char param[128];
	snprintf(param, sizeof(param), "messages[%u]%s%s", i, member[0] ? "." : "", member);
	kp_err_param(err, param, "`%s`: %s", param, what);
	err->reason = reason;
	return -1;
}

static int check_role(const struct kp_jv *m, uint32_t i, struct kp_err *err)
{
	static const char *const roles[] = { "system", "developer", "user", "assistant" };
	const struct kp_jv *role = kp_jv_get(m, KP_S("role"));
	if (!kp_jv_is(role, KP_JSON_STRING)) {
		return bad(err, NULL, i, "role", role ? "expected a string" : "missing");
	}
	for (size_t k = 0; k < KP_LEN(roles); k++) {
		if (kp_str_eq(role->s, kp_str_c(roles[k]))) {
			return 0;
		}
	}
	if (kp_str_eq(role->s, KP_S("tool")) || kp_str_eq(role->s, KP_S("function"))) {
		return bad(err, "unsupported_parameter", i, "role",
			"tool results are not supported yet");
	}
	return bad(err, NULL, i, "role", "expected system, developer, user or assistant");
}

/* Joins text parts. */
static int join_parts(
	const struct kp_jv *parts, struct kp_arena *a, uint32_t i, kp_str *ret, struct kp_err *err)
{
	size_t n = 0;
	for (uint32_t k = 0; k < parts->n; k++) {
		const struct kp_jv *part = &parts->items[k], *text = kp_jv_get(part, KP_S("text"));
		char member[48];
		kp_str type = kp_jv_str(part, KP_S("type"));
		if (!kp_str_eq(type, KP_S("text")) && !(part->type == KP_JSON_STRING)) {
			snprintf(member, sizeof(member), "content[%u].type", k);
			return bad(err, "unsupported_parameter", i, member,
				type.n ? "only text parts are supported yet" : "missing");
		}
		if (part->type == KP_JSON_STRING) {
			text = part;
		}
		if (!kp_jv_is(text, KP_JSON_STRING)) {
			snprintf(member, sizeof(member), "content[%u].text", k);
			return bad(err, NULL, i, member, text ? "expected a string" : "missing");
		}
		n += text->s.n + 1;
	}
	char *p = kp_arena_alloc(a, n), *at = p;
	if (!p) {
		return kp_arena_full(err, "message");
	}
	for (uint32_t k = 0; k < parts->n; k++) {
		const struct kp_jv *part = &parts->items[k];
		kp_str s = part->type == KP_JSON_STRING ? part->s : kp_jv_str(part, KP_S("text"));
		if (k) {
			*at++ = '\n';
		}
		memcpy(at, s.n ? s.p : "", s.n);
		at += s.n;
	}
	*ret = kp_str_n(p, (size_t)(at - p));
	return 0;
}

/* The message with its `content` replaced by a string. */
static int with_content(const struct kp_jv *m, kp_str content, struct kp_arena *a,
	struct kp_jv *ret, struct kp_err *err)
{
	struct kp_jmember *members = kp_arena_alloc(a, m->n * sizeof(*members));
	if (!members) {
		return kp_arena_full(err, "message");
	}
	memcpy(members, m->members, m->n * sizeof(*members));
	for (uint32_t k = 0; k < m->n; k++) {
		if (kp_str_eq(members[k].key, KP_S("content"))) {
			members[k].value = (struct kp_jv){ .type = KP_JSON_STRING, .s = content };
		}
	}
	*ret = (struct kp_jv){ .type = KP_JSON_OBJECT, .n = m->n, .members = members };
	return 0;
}

static int check_content(struct kp_jv *m, struct kp_arena *a, uint32_t i, struct kp_err *err)
{
	const struct kp_jv *content = kp_jv_get(m, KP_S("content"));
	bool is_assistant = kp_str_eq(kp_jv_str(m, KP_S("role")), KP_S("assistant"));
	kp_str joined = KP_STR_NULL;
	if (!content || content->type == KP_JSON_NULL) {
		return is_assistant ? 0
				    : bad(err, NULL, i, "content",
					      content ? "must not be null" : "missing");
	}
	if (content->type == KP_JSON_STRING) {
		return 0;
	}
	if (content->type != KP_JSON_ARRAY) {
		return bad(err, NULL, i, "content", "expected a string or an array of parts");
	}
	if (join_parts(content, a, i, &joined, err)) {
		return -1;
	}
	return with_content(m, joined, a, m, err);
}

/* Members that are null are left out, as transformers 5 does before it renders: `content: null`
   prints nothing, not "None". */
static int drop_nulls(struct kp_jv *m, struct kp_arena *a, struct kp_err *err)
{
	uint32_t n = 0;
	for (uint32_t k = 0; k < m->n; k++) {
		n += m->members[k].value.type != KP_JSON_NULL;
	}
	if (n == m->n) {
		return 0;
	}
	struct kp_jmember *members = kp_arena_calloc(a, n, sizeof(*members));
	if (!members) {
		return kp_arena_full(err, "message");
	}
	n = 0;
	for (uint32_t k = 0; k < m->n; k++) {
		if (m->members[k].value.type != KP_JSON_NULL) {
			members[n++] = m->members[k];
		}
	}
	m->members = members;
	m->n = n;
	return 0;
}

static int check_message(struct kp_jv *m, struct kp_arena *a, uint32_t i, struct kp_err *err)
{
	static const char *const not_yet[] = { "tool_calls", "function_call", "tool_call_id",
		"audio" };
	if (m->type != KP_JSON_OBJECT) {
		return bad(err, NULL, i, "", "expected an object");
	}
	if (check_role(m, i, err)) {
		return -1;
	}
	for (size_t k = 0; k < KP_LEN(not_yet); k++) {
		const struct kp_jv *v = kp_jv_get(m, kp_str_c(not_yet[k]));
		if (v && v->type != KP_JSON_NULL && !(v->type == KP_JSON_ARRAY && v->n == 0)) {
			return bad(
				err, "unsupported_parameter", i, not_yet[k], "not supported yet");
		}
	}
	return check_content(m, a, i, err) ? -1 : drop_nulls(m, a, err);
}

int kp_messages_read(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_jv list;
	if (kp_json_peek(j) != KP_JSON_ARRAY) {
		return kp_json_fail(
			j, err, "expected an array, got %s", kp_json_type_name(kp_json_peek(j)));
	}
	if (kp_jv_read(j, KP_MAX_VALUES, &list, err)) {
		return -1;
	}
	if (list.n == 0) {
		return kp_json_fail(j, err, "must not be empty");
	}
	if (list.n > KP_MAX_MESSAGES) {
		return kp_json_fail(j, err, "at most %d messages, got %u", KP_MAX_MESSAGES, list.n);
	}
	struct kp_jv *items = kp_arena_alloc(turn->arena, list.n * sizeof(*items));
	if (!items) {
		return kp_arena_full(err, "messages");
	}
	memcpy(items, list.items, list.n * sizeof(*items));
	for (uint32_t i = 0; i < list.n; i++) {
		if (check_message(&items[i], turn->arena, i, err)) {
			return -1;
		}
	}
	list.items = items;
	turn->chat.messages = list;
	return 0;
}
