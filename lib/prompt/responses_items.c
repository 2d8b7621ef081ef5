/* DESIGN: two walks over the items. The first notes which calls have results and which approvals were answered, the second makes messages. What a run of the
   assistant's has so far waits in `texts`, `thoughts` and `calls`, results of calls that the gateway ran in `results`; whatever is not the
   assistant's, or is its next message, closes the run. A call that will never have a result gets one that says so, if it is the gateway's to know; of a client
   that is an error. */
#include "prompt/responses.h"

#include "base/map.h"
#include "json/reader.h"
#include "prompt/make.h"
#include "prompt/messages.h"

#include <stdio.h>

struct call {
	kp_str name; /* KP_STR_NULL until it was seen */
	bool has_result;
};
enum verdict { UNANSWERED = 0, APPROVED, DENIED, DONE /* an mcp_call tells of it */ };
struct approval {
	enum verdict verdict;
	kp_str reason;
};

struct walk {
	struct kp_maker make;
	const struct kp_responses_entry *entry;
	struct kp_made_list out, texts, thoughts, calls, results;
	struct kp_map by_id;     /* struct call */
	struct kp_map approvals; /* struct approval, by the request's id */
	bool has_approved;       /* a call that is not made yet */
};

static bool is_empty(const struct walk *w)
{
	return !w->texts.n && !w->thoughts.n && !w->calls.n;
}

static int bad(struct walk *w, const char *reason, const char *what, const char *member)
{
	return kp_make_bad(w->make.err, reason, what, "%s[%u]%s",
		w->entry->is_kept ? "previous_response_id" : "input", w->entry->index, member);
}

/* A STRING member of the item; *ret stays when it may be missing and is. */
static int text_member(struct walk *w, const char *member, bool needed, kp_str *ret)
{
	const struct kp_jv *v = kp_jv_get(w->entry->item, kp_str_c(member));
	char place[40];
	if (!kp_is_given(v) && !needed) {
		return 0;
	}
	if (!kp_jv_is(v, KP_JSON_STRING)) {
		snprintf(place, sizeof(place), ".%s", member);
		return bad(w, NULL, v ? "expected a string" : "missing", place);
	}
	*ret = v->s;
	return 0;
}

/* --- runs ---------------------------------------------------------------------------------------- */

static int close_run(struct walk *w)
{
	struct kp_jv message;
	if (!is_empty(w) && (kp_make_message(&w->make, KP_S("assistant"), &w->texts, &w->thoughts,
				     &w->calls, &message) ||
				    kp_make_push(&w->make, &w->out, &message))) {
		return -1;
	}
	for (uint32_t i = 0; i < w->results.n; i++) {
		if (kp_make_push(&w->make, &w->out, &w->results.items[i])) {
			return -1;
		}
	}
	w->texts = w->thoughts = w->calls = w->results = (struct kp_made_list){ .n = 0 };
	return 0;
}

static int push_result(struct walk *w, struct kp_made_list *to, kp_str id,
	const struct kp_jv *content, kp_str name)
{
	struct kp_jv result;
	return kp_make_result(&w->make, id, content, name, &result) ||
			       kp_make_push(&w->make, to, &result)
		       ? -1
		       : 0;
}

/* A model may write anything for arguments. Most templates take JSON alone, and a conversation must not end where a call went wrong: its result says that. */
static int push_call(struct walk *w, kp_str id, kp_str name, kp_str arguments)
{
	struct kp_err err;
	bool is_json = kp_json_check(arguments, w->make.a, NULL, &err) == 0;
	const struct kp_jv text = kp_made_text(is_json ? arguments : KP_S("{}"));
	struct kp_jv call;
	return kp_make_call(&w->make, id, name, &text, &call) ||
			       kp_make_push(&w->make, &w->calls, &call)
		       ? -1
		       : 0;
}

/* --- content ------------------------------------------------------------------------------------- */

/* Texts of a message's parts or a result's. */
static int part_text(struct walk *w, const struct kp_jv *part, const char *place, kp_str *ret)
{
	static const char *const types[][2] = { { "input_text", "text" }, { "output_text", "text" },
		{ "text", "text" }, { "refusal", "refusal" } };
	const struct kp_jv *type = kp_jv_get(part, KP_S("type"));
	char what[128], at[80];
	if (part->type != KP_JSON_OBJECT) {
		return bad(w, NULL, "expected an object", place);
	}
	snprintf(at, sizeof(at), "%s.type", place);
	if (!kp_jv_is(type, KP_JSON_STRING)) {
		return bad(w, NULL, type ? "expected a string" : "missing", at);
	}
	for (size_t i = 0; i < KP_LEN(types); i++) {
		const struct kp_jv *text = kp_jv_get(part, kp_str_c(types[i][1]));
		if (!kp_str_eq(type->s, kp_str_c(types[i][0]))) {
			continue;
		}
		if (!kp_jv_is(text, KP_JSON_STRING)) {
			snprintf(at, sizeof(at), "%s.%s", place, types[i][1]);
			return bad(w, NULL, text ? "expected a string" : "missing", at);
		}
		*ret = text->s;
		return 0;
	}
	snprintf(what, sizeof(what), "parts of type `%" KP_FMT "` are not supported",
		KP_ARG(kp_str_sub(type->s, 0, 40)));
	return bad(w, "unsupported_parameter", what, at);
}

/* A string, or a list of parts of text. */
static int texts_of(struct walk *w, const char *member, struct kp_made_list *ret)
{
	const struct kp_jv *v = kp_jv_get(w->entry->item, kp_str_c(member));
	char place[48];
	snprintf(place, sizeof(place), ".%s", member);
	if (kp_jv_is(v, KP_JSON_STRING)) {
		return kp_make_push(&w->make, ret, v);
	}
	if (!kp_jv_is(v, KP_JSON_ARRAY)) {
		return bad(w, NULL, v ? "expected a string or a list of parts" : "missing", place);
	}
	for (uint32_t i = 0; i < v->n; i++) {
		kp_str text = KP_STR_NULL;
		snprintf(place, sizeof(place), ".%s[%u]", member, i);
		if (part_text(w, &v->items[i], place, &text)) {
			return -1;
		}
		const struct kp_jv value = kp_made_text(text);
		if (kp_make_push(&w->make, ret, &value)) {
			return -1;
		}
	}
	return 0;
}

/* --- items --------------------------------------------------------------------------------------- */

static int take_message(struct walk *w)
{
	struct kp_made_list texts = { .n = 0 };
	struct kp_jv message;
	kp_str role = KP_STR_NULL;
	if (text_member(w, "role", true, &role)) {
		return -1;
	}
	bool is_assistant = kp_str_eq(role, KP_S("assistant"));
	if (!is_assistant && !kp_str_eq(role, KP_S("user")) && !kp_str_eq(role, KP_S("system")) &&
		!kp_str_eq(role, KP_S("developer"))) {
		return bad(w, NULL, "expected user, assistant, system or developer", ".role");
	}
	if (texts_of(w, "content", &texts)) {
		return -1;
	}
	if (is_assistant) {
		if ((w->texts.n || w->calls.n) && close_run(w)) {
			return -1;
		}
		w->texts = texts;
		return texts.n ? 0
			       : kp_make_push(&w->make, &w->texts,
					 &(struct kp_jv){ .type = KP_JSON_STRING, .s = KP_S("") });
	}
	return close_run(w) || kp_make_message(&w->make, role, &texts, NULL, NULL, &message) ||
			       kp_make_push(&w->make, &w->out, &message)
		       ? -1
		       : 0;
}

/* What it thought, or else what a summary says of it. */
static int take_reasoning(struct walk *w)
{
	static const char *const members[] = { "content", "summary" };
	if ((w->texts.n || w->calls.n) && close_run(w)) {
		return -1;
	}
	for (size_t i = 0; i < KP_LEN(members); i++) {
		const struct kp_jv *list = kp_jv_get(w->entry->item, kp_str_c(members[i]));
		bool found = false;
		for (uint32_t k = 0; kp_jv_is(list, KP_JSON_ARRAY) && k < list->n; k++) {
			const struct kp_jv *text = kp_jv_get(&list->items[k], KP_S("text"));
			if (kp_jv_is(text, KP_JSON_STRING) && text->s.n) {
				found = true;
				if (kp_make_push(&w->make, &w->thoughts, text)) {
					return -1;
				}
			}
		}
		if (found) {
			break;
		}
	}
	return 0;
}

static int take_call(struct walk *w)
{
	kp_str id = KP_STR_NULL, name = KP_STR_NULL, arguments = KP_STR_NULL;
	char what[128];
	if (text_member(w, "call_id", true, &id) || text_member(w, "name", true, &name) ||
		text_member(w, "arguments", false, &arguments)) {
		return -1;
	}
	if (!name.n) {
		return bad(w, NULL, "must not be empty", ".name");
	}
	struct call *c = kp_map_get(&w->by_id, id);
	c->name = name;
	if (push_call(w, id, name, arguments)) {
		return -1;
	}
	if (c->has_result) {
		return 0;
	}
	if (!w->entry->is_kept) {
		snprintf(what, sizeof(what), "no output was given for the call `%" KP_FMT "`",
			KP_ARG(kp_str_sub(id, 0, 60)));
		return bad(w, NULL, what, ".call_id");
	}
	const struct kp_jv none = kp_made_text(KP_S("No result: the call was not answered."));
	return push_result(w, &w->results, id, &none, name);
}

static int take_output(struct walk *w)
{
	struct kp_made_list texts = { .n = 0 };
	struct kp_jv content;
	kp_str id = KP_STR_NULL;
	char what[128];
	if (text_member(w, "call_id", true, &id) || texts_of(w, "output", &texts)) {
		return -1;
	}
	const struct call *c = kp_map_get(&w->by_id, id);
	if (!c || !c->name.p) {
		snprintf(what, sizeof(what), "there is no call `%" KP_FMT "` before it",
			KP_ARG(kp_str_sub(id, 0, 60)));
		return bad(w, NULL, what, ".call_id");
	}
	return close_run(w) || kp_make_content(&w->make, &texts, &content) ||
			       push_result(w, &w->out, id, &content, c->name)
		       ? -1
		       : 0;
}

/* --- items of the gateway's own tools ------------------------------------------------------------ */

/* What the model reads of a call that failed: text of it, whatever its shape. */
static int error_text(struct walk *w, const struct kp_jv *error, struct kp_jv *ret)
{
	const struct kp_jv word = kp_made_text(KP_S("Error: "));
	const struct kp_jv *content = kp_jv_get(error, KP_S("content"));
	struct kp_made_list all = { .n = 0 };
	struct kp_jv text = kp_made_text(kp_jv_str(error, KP_S("message")));
	if (error->type == KP_JSON_STRING) {
		text = *error;
	}
	if (kp_make_push(&w->make, &all, &word) ||
		(text.s.n && kp_make_push(&w->make, &all, &text))) {
		return -1;
	}
	for (uint32_t i = 0; kp_jv_is(content, KP_JSON_ARRAY) && i < content->n; i++) {
		const struct kp_jv part = kp_made_text(kp_jv_str(&content->items[i], KP_S("text")));
		if (part.s.n && kp_make_push(&w->make, &all, &part)) {
			return -1;
		}
	}
	return kp_make_joined(&w->make, &all, ret);
}

static int names_of(struct walk *w, kp_str *ret_id, kp_str *ret_exposed, kp_str *ret_arguments)
{
	kp_str label = KP_STR_NULL, name = KP_STR_NULL;
	return text_member(w, "id", true, ret_id) || text_member(w, "server_label", true, &label) ||
			       text_member(w, "name", true, &name) ||
			       text_member(w, "arguments", false, ret_arguments)
		       ? -1
		       : kp_responses_tool_name(w->make.a, label, name, ret_exposed, w->make.err);
}

static int take_mcp_call(struct walk *w)
{
	const struct kp_jv *error = kp_jv_get(w->entry->item, KP_S("error"));
	kp_str id = KP_STR_NULL, exposed, arguments = KP_STR_NULL, output = KP_STR_NULL;
	struct kp_jv content;
	if (names_of(w, &id, &exposed, &arguments) || text_member(w, "output", false, &output)) {
		return -1;
	}
	content = kp_made_text(output.p ? output : KP_S("No result: the call was not answered."));
	if (kp_is_given(error) && error_text(w, error, &content)) {
		return -1;
	}
	return push_call(w, id, exposed, arguments) ||
			       push_result(w, &w->results, id, &content, exposed)
		       ? -1
		       : 0;
}

/* A call that somebody was to allow. What was allowed is an mcp_call behind it. */
static int take_request(struct walk *w)
{
	kp_str id = KP_STR_NULL, exposed, arguments = KP_STR_NULL;
	if (names_of(w, &id, &exposed, &arguments)) {
		return -1;
	}
	const struct approval *a = kp_map_get(&w->approvals, id);
	struct kp_made_list said = { .n = 0 };
	struct kp_jv content = kp_made_text(KP_S("No result: nobody has allowed the call."));
	if (a->verdict == DONE || a->verdict == APPROVED) {
		w->has_approved |= a->verdict == APPROVED;
		return 0;
	}
	if (a->verdict == DENIED) {
		const struct kp_jv parts[] = { kp_made_text(
						       KP_S("The user did not allow the call.")),
			kp_made_text(KP_S(" Reason: ")), kp_made_text(a->reason) };
		for (size_t i = 0; i < (a->reason.n ? KP_LEN(parts) : 1); i++) {
			if (kp_make_push(&w->make, &said, &parts[i])) {
				return -1;
			}
		}
		if (kp_make_joined(&w->make, &said, &content)) {
			return -1;
		}
	}
	return push_call(w, id, exposed, arguments) ||
			       push_result(w, &w->results, id, &content, exposed)
		       ? -1
		       : 0;
}

static int take_response(struct walk *w)
{
	kp_str id = KP_STR_NULL;
	char what[128];
	if (text_member(w, "approval_request_id", true, &id)) {
		return -1;
	}
	const struct kp_jv *approve = kp_jv_get(w->entry->item, KP_S("approve"));
	if (!kp_jv_is(approve, KP_JSON_TRUE) && !kp_jv_is(approve, KP_JSON_FALSE)) {
		return bad(w, NULL, approve ? "expected a boolean" : "missing", ".approve");
	}
	const struct approval *a = kp_map_get(&w->approvals, id);
	if (a->verdict == UNANSWERED) { /* the first walk found no request */
		snprintf(what, sizeof(what), "there is no approval request `%" KP_FMT "` before it",
			KP_ARG(kp_str_sub(id, 0, 60)));
		return bad(w, NULL, what, ".approval_request_id");
	}
	return 0;
}

static int take_nothing(struct walk *w)
{
	(void)w;
	return 0;
}

static int take_reference(struct walk *w)
{
	kp_str id = KP_STR_NULL;
	char what[128];
	if (text_member(w, "id", true, &id)) {
		return -1;
	}
	snprintf(what, sizeof(what), "no item `%" KP_FMT "` is kept here",
		KP_ARG(kp_str_sub(id, 0, 60)));
	return bad(w, NULL, what, ".id");
}

static const struct {
	const char *type;
	int (*take)(struct walk *w);
} types[] = {
	{ "message", take_message },
	{ "function_call", take_call },
	{ "function_call_output", take_output },
	{ "reasoning", take_reasoning },
	{ "mcp_call", take_mcp_call },
	{ "mcp_list_tools", take_nothing },
	{ "mcp_approval_request", take_request },
	{ "mcp_approval_response", take_response },
	{ "item_reference", take_reference },
};

static kp_str type_of(const struct kp_jv *item)
{
	kp_str type = kp_jv_str(item, KP_S("type"));
	if (kp_is_given(kp_jv_get(item, KP_S("type")))) {
		return type;
	}
	return kp_is_given(kp_jv_get(item, KP_S("role"))) ? KP_S("message")
	       : kp_is_given(kp_jv_get(item, KP_S("id"))) ? KP_S("item_reference")
							  : KP_STR_NULL;
}

static int take_item(struct walk *w)
{
	const struct kp_jv *item = w->entry->item;
	char what[128];
	if (item->type != KP_JSON_OBJECT) {
		return bad(w, NULL, "expected an object", "");
	}
	kp_str type = type_of(item);
	if (!type.p) {
		return bad(w, NULL,
			kp_is_given(kp_jv_get(item, KP_S("type"))) ? "expected a string"
								   : "missing",
			".type");
	}
	if (w->entry->begins && close_run(w)) {
		return -1;
	}
	for (size_t i = 0; i < KP_LEN(types); i++) {
		if (kp_str_eq(type, kp_str_c(types[i].type))) {
			return types[i].take(w);
		}
	}
	snprintf(what, sizeof(what), "items of type `%" KP_FMT "` are not supported",
		KP_ARG(kp_str_sub(type, 0, 40)));
	return bad(w, "unsupported_parameter", what, ".type");
}

/* --- the first walk ------------------------------------------------------------------------------ */

/* The value of `map` for the id, made when there is none. NULL: the arena is full, or there is no id. */
static void *find(struct walk *w, struct kp_map *map, kp_str id, size_t size)
{
	void *known = id.p ? kp_map_get(map, id) : NULL;
	if (!known && id.p && (known = kp_arena_calloc(w->make.a, 1, size))) {
		kp_map_set(map, id, known);
	}
	return known;
}

/* An id that is no string is found in the second walk. */
static int note(struct walk *w)
{
	const struct kp_jv *item = w->entry->item;
	kp_str type = kp_jv_str(item, KP_S("type")), id = KP_STR_NULL;
	struct approval *a = NULL;
	struct call *c = NULL;
	if (kp_str_eq(type, KP_S("function_call")) ||
		kp_str_eq(type, KP_S("function_call_output"))) {
		id = kp_jv_str(item, KP_S("call_id"));
		c = find(w, &w->by_id, id, sizeof(*c));
	} else if (kp_str_eq(type, KP_S("mcp_approval_request"))) {
		id = kp_jv_str(item, KP_S("id"));
		a = find(w, &w->approvals, id, sizeof(*a));
	} else if (kp_str_eq(type, KP_S("mcp_approval_response"))) {
		id = kp_jv_str(item, KP_S("approval_request_id"));
		bool is_known = id.p && kp_map_get(&w->approvals, id);
		a = find(w, &w->approvals, id, sizeof(*a));
		if (a && is_known && a->verdict != DONE) {
			a->verdict = kp_jv_is(kp_jv_get(item, KP_S("approve")), KP_JSON_TRUE)
					     ? APPROVED
					     : DENIED;
			a->reason = kp_jv_str(item, KP_S("reason"));
		}
	} else if (kp_str_eq(type, KP_S("mcp_call"))) {
		id = kp_jv_str(item, KP_S("approval_request_id"));
		a = find(w, &w->approvals, id, sizeof(*a));
		if (a) {
			a->verdict = DONE;
		}
	}
	if (c && kp_str_eq(type, KP_S("function_call_output"))) {
		c->has_result = true;
	}
	return id.p && !a && !c ? kp_arena_full(w->make.err, "input") : 0;
}

static int walk_all(struct walk *w, const struct kp_responses *r,
	const struct kp_responses_entry *entries, size_t n)
{
	struct kp_jv message;
	for (size_t i = 0; i < n; i++) {
		w->entry = &entries[i];
		if (note(w)) {
			return -1;
		}
	}
	if (r->instructions.n) {
		struct kp_jv text = kp_made_text(r->instructions);
		const struct kp_made_list texts = { .items = &text, .n = 1 };
		if (kp_make_message(&w->make, KP_S("system"), &texts, NULL, NULL, &message) ||
			kp_make_push(&w->make, &w->out, &message)) {
			return -1;
		}
	}
	for (size_t i = 0; i < n; i++) {
		w->entry = &entries[i];
		if (take_item(w)) {
			return -1;
		}
	}
	return close_run(w);
}

int kp_responses_messages(const struct kp_responses *r, const struct kp_responses_entry *entries,
	size_t n, struct kp_turn *turn, struct kp_err *err)
{
	struct walk w = { .make = { turn->arena, err } };
	if (n > KP_RESPONSES_MAX_ITEMS) {
		return kp_err_param(err, "input", "`input`: a conversation of more than %d items",
			KP_RESPONSES_MAX_ITEMS);
	}
	kp_map_init(&w.by_id);
	kp_map_init(&w.approvals);
	int rc = walk_all(&w, r, entries, n);
	kp_map_fini(&w.by_id, NULL);
	kp_map_fini(&w.approvals, NULL);
	if (rc == 0 && w.out.n == 0 && !w.has_approved) {
		rc = kp_err_param(
			err, "input", "`input`: %s", r->input.type ? "it says nothing" : "missing");
	}
	turn->chat.messages = kp_made_array(&w.out);
	return rc;
}
