/* DESIGN: `system` and `messages` are kept as values until both are there, then walked once, block by block. What a run of messages of one
   role has so far waits in `texts`, `thoughts` and `calls`; the next role closes it. Results leave at once, so they stand before the
   text of their run. */
#include "prompt/anthropic_internal.h"

#include "base/map.h"
#include "prompt/messages.h"

#include <stdio.h>

enum role { NOBODY = 0, USER, ASSISTANT, SYSTEM };

struct walk {
	struct kp_maker make;
	struct kp_made_list out;                    /* messages as OpenAI has them */
	struct kp_made_list texts, thoughts, calls; /* of the open run */
	enum role role;                             /* of the open run */
	struct kp_map names;                        /* of calls, by their id: kp_str */
	char place[64];                             /* of the block */
};

/* --- values ------------------------------------------------------------------------------------------------------------------------- */

static int bad(struct walk *w, const char *reason, const char *what, const char *member)
{
	return kp_make_bad(w->make.err, reason, what, "%s%s", w->place, member);
}

/* --- messages ----------------------------------------------------------------------------------------------------------------------- */

static int put_message(struct walk *w, const char *role, const struct kp_made_list *texts)
{
	struct kp_jv message;
	return kp_make_message(
		       &w->make, kp_str_c(role), texts, &w->thoughts, &w->calls, &message) ||
			       kp_make_push(&w->make, &w->out, &message)
		       ? -1
		       : 0;
}

/* Ends the open run. One of results alone has no text. */
static int close_run(struct walk *w)
{
	enum role role = w->role;
	bool has_message = role == ASSISTANT || (role == USER && w->texts.n);
	if (has_message && put_message(w, role == USER ? "user" : "assistant", &w->texts)) {
		return -1;
	}
	w->texts = w->thoughts = w->calls = (struct kp_made_list){ .n = 0 };
	w->role = NOBODY;
	return 0;
}

/* --- blocks ------------------------------------------------------------------------------------------------------------------------- */

/* A STRING member of the block at the walk's place; *ret stays when it may be missing and is. */
static int text_member(struct walk *w, const struct kp_jv *block, const char *member, bool needed,
	struct kp_jv *ret)
{
	const struct kp_jv *v = kp_jv_get(block, kp_str_c(member));
	char name[32];
	if (!kp_is_given(v) && !needed) {
		return 0;
	}
	if (!kp_jv_is(v, KP_JSON_STRING)) {
		snprintf(name, sizeof(name), ".%s", member);
		return bad(w, NULL, v ? "expected a string" : "missing", name);
	}
	*ret = *v;
	return 0;
}

static int take_text(struct walk *w, const struct kp_jv *block)
{
	struct kp_jv text = { .type = KP_JSON_NONE };
	if (text_member(w, block, "text", true, &text)) {
		return -1;
	}
	return text.s.n ? kp_make_push(&w->make, &w->texts, &text) : 0;
}

static int take_thinking(struct walk *w, const struct kp_jv *block)
{
	struct kp_jv text = { .type = KP_JSON_NONE };
	if (text_member(w, block, "thinking", true, &text)) {
		return -1;
	}
	return text.s.n ? kp_make_push(&w->make, &w->thoughts, &text) : 0;
}

static int take_nothing(struct walk *w, const struct kp_jv *block)
{
	(void)w;
	(void)block;
	return 0;
}

static int take_tool_use(struct walk *w, const struct kp_jv *block)
{
	struct kp_jv id = { .type = KP_JSON_NONE }, name = { .type = KP_JSON_NONE }, call;
	const struct kp_jv *input = kp_jv_get(block, KP_S("input"));
	if (text_member(w, block, "id", true, &id) || text_member(w, block, "name", true, &name)) {
		return -1;
	}
	if (name.s.n == 0) {
		return bad(w, NULL, "must not be empty", ".name");
	}
	if (kp_is_given(input) && input->type != KP_JSON_OBJECT) {
		return bad(w, NULL, "expected an object", ".input");
	}
	const struct kp_jv empty = kp_made_text(KP_S("{}"));
	const struct kp_jv *arguments = kp_is_given(input) && input->n ? input : &empty;
	kp_str *known = kp_arena_alloc(w->make.a, sizeof(*known));
	if (!known) {
		return kp_arena_full(w->make.err, "messages");
	}
	*known = name.s;
	kp_map_set(&w->names, id.s, known);
	return kp_make_call(&w->make, id.s, name.s, arguments, &call) ||
			       kp_make_push(&w->make, &w->calls, &call)
		       ? -1
		       : 0;
}

/* The texts of a list of blocks that may be of text only. */
static int text_blocks(struct walk *w, const struct kp_jv *list, struct kp_made_list *ret)
{
	char place[sizeof(w->place)];
	memcpy(place, w->place, sizeof(place));
	for (uint32_t i = 0; i < list->n; i++) {
		const struct kp_jv *block = &list->items[i];
		kp_str type = kp_jv_str(block, KP_S("type"));
		struct kp_jv text = { .type = KP_JSON_NONE };
		snprintf(w->place, sizeof(w->place), "%.48s[%u]", place, i);
		if (block->type != KP_JSON_OBJECT) {
			return bad(w, NULL, "expected an object", "");
		}
		if (!kp_str_eq(type, KP_S("text"))) {
			return bad(w, type.n ? "unsupported_parameter" : NULL,
				type.n ? "only text blocks are supported here" : "missing",
				".type");
		}
		if (text_member(w, block, "text", true, &text) ||
			(text.s.n && kp_make_push(&w->make, ret, &text))) {
			return -1;
		}
	}
	memcpy(w->place, place, sizeof(place));
	return 0;
}

/* The model reads what failed in the text: no template has a place for it. */
static int mark_error(struct walk *w, struct kp_made_list *texts)
{
	const struct kp_jv word = kp_made_text(texts->n ? KP_S("Error: ") : KP_S("Error"));
	struct kp_made_list both = { .n = 0 };
	struct kp_jv first;
	if (kp_make_push(&w->make, &both, &word) ||
		(texts->n && kp_make_push(&w->make, &both, &texts->items[0])) ||
		kp_make_joined(&w->make, &both, &first)) {
		return -1;
	}
	if (texts->n) {
		texts->items[0] = first;
		return 0;
	}
	return kp_make_push(&w->make, texts, &first);
}

static int take_tool_result(struct walk *w, const struct kp_jv *block)
{
	struct kp_jv id = { .type = KP_JSON_NONE }, message, content;
	const struct kp_jv *said = kp_jv_get(block, KP_S("content")),
			   *failed = kp_jv_get(block, KP_S("is_error"));
	struct kp_made_list texts = { .n = 0 };
	if (text_member(w, block, "tool_use_id", true, &id)) {
		return -1;
	}
	if (kp_is_given(failed) && failed->type != KP_JSON_TRUE && failed->type != KP_JSON_FALSE) {
		return bad(w, NULL, "expected a boolean", ".is_error");
	}
	if (kp_jv_is(said, KP_JSON_STRING)) {
		if (said->s.n && kp_make_push(&w->make, &texts, said)) {
			return -1;
		}
	} else if (kp_jv_is(said, KP_JSON_ARRAY)) {
		size_t n = strlen(w->place);
		snprintf(w->place + n, sizeof(w->place) - n, ".content");
		if (text_blocks(w, said, &texts)) {
			return -1;
		}
	} else if (kp_is_given(said)) {
		return bad(w, NULL, "expected a string or a list of blocks", ".content");
	}
	if ((kp_jv_is(failed, KP_JSON_TRUE) && mark_error(w, &texts)) ||
		kp_make_content(&w->make, &texts, &content)) {
		return -1;
	}
	const kp_str *name = kp_map_get(&w->names, id.s);
	return kp_make_result(&w->make, id.s, &content, name ? *name : KP_STR_NULL, &message) ||
			       kp_make_push(&w->make, &w->out, &message)
		       ? -1
		       : 0;
}

static const struct {
	const char *type;
	enum role of; /* NOBODY: anybody's */
	int (*take)(struct walk *w, const struct kp_jv *block);
} blocks[] = {
	{ "text", NOBODY, take_text },
	{ "thinking", ASSISTANT, take_thinking },
	{ "redacted_thinking", ASSISTANT, take_nothing },
	{ "tool_use", ASSISTANT, take_tool_use },
	{ "tool_result", USER, take_tool_result },
};

static int take_block(struct walk *w, const struct kp_jv *block)
{
	const struct kp_jv *type = kp_jv_get(block, KP_S("type"));
	char what[128];
	if (block->type != KP_JSON_OBJECT) {
		return bad(w, NULL, "expected an object", "");
	}
	if (!kp_jv_is(type, KP_JSON_STRING)) {
		return bad(w, NULL, type ? "expected a string" : "missing", ".type");
	}
	for (size_t i = 0; i < KP_LEN(blocks); i++) {
		if (!kp_str_eq(type->s, kp_str_c(blocks[i].type))) {
			continue;
		}
		if (blocks[i].of && blocks[i].of != w->role) {
			snprintf(what, sizeof(what), "`%s` is only for the %s's messages",
				blocks[i].type, blocks[i].of == USER ? "user" : "assistant");
			return bad(w, NULL, what, ".type");
		}
		return blocks[i].take(w, block);
	}
	snprintf(what, sizeof(what), "blocks of type `%" KP_FMT "` are not supported",
		KP_ARG(kp_str_sub(type->s, 0, 40)));
	return bad(w, "unsupported_parameter", what, ".type");
}

/* --- the walk ----------------------------------------------------------------------------------------------------------------------- */

/* `ctx` and `msg` are what some versions of a coding agent send for what the user's side adds by itself; vLLM takes them the same way. */
static enum role role_of(kp_str name)
{
	static const struct {
		const char *name;
		enum role role;
	} roles[] = { { "user", USER }, { "assistant", ASSISTANT }, { "system", SYSTEM },
		{ "ctx", USER }, { "msg", USER } };
	for (size_t i = 0; i < KP_LEN(roles); i++) {
		if (kp_str_eq(name, kp_str_c(roles[i].name))) {
			return roles[i].role;
		}
	}
	return NOBODY;
}

static int take_content(struct walk *w, const struct kp_jv *content, uint32_t i)
{
	if (kp_jv_is(content, KP_JSON_STRING)) {
		return content->s.n ? kp_make_push(&w->make, &w->texts, content) : 0;
	}
	if (!kp_jv_is(content, KP_JSON_ARRAY)) {
		return kp_make_bad(w->make.err, NULL,
			content ? "expected a string or a list of blocks" : "missing",
			"messages[%u].content", i);
	}
	for (uint32_t k = 0; k < content->n; k++) {
		snprintf(w->place, sizeof(w->place), "messages[%u].content[%u]", i, k);
		if (take_block(w, &content->items[k])) {
			return -1;
		}
	}
	return 0;
}

/* A system prompt, at its start or in between: a string or text blocks. A coding agent's own header, which differs with each request, is left out, as vLLM
   does: it says nothing to a model, and no two prompts would begin alike. */
static int take_system(struct walk *w, const struct kp_jv *system)
{
	struct kp_made_list texts = { .n = 0 }, kept = { .n = 0 };
	if (kp_jv_is(system, KP_JSON_STRING)) {
		if (kp_make_push(&w->make, &texts, system)) {
			return -1;
		}
	} else if (!kp_jv_is(system, KP_JSON_ARRAY)) {
		return bad(w, NULL, "expected a string or a list of text blocks", "");
	} else if (text_blocks(w, system, &texts)) {
		return -1;
	}
	for (uint32_t i = 0; i < texts.n; i++) {
		kp_str s = texts.items[i].s;
		if (s.n && !kp_str_starts(s, KP_S("x-anthropic-billing-header")) &&
			kp_make_push(&w->make, &kept, &texts.items[i])) {
			return -1;
		}
	}
	return kept.n ? put_message(w, "system", &kept) : 0;
}

static int take_message(struct walk *w, const struct kp_jv *m, uint32_t i)
{
	const struct kp_jv *role = kp_jv_get(m, KP_S("role"));
	snprintf(w->place, sizeof(w->place), "messages[%u]", i);
	if (m->type != KP_JSON_OBJECT) {
		return bad(w, NULL, "expected an object", "");
	}
	if (!kp_jv_is(role, KP_JSON_STRING)) {
		return bad(w, NULL, role ? "expected a string" : "missing", ".role");
	}
	enum role r = role_of(role->s);
	if (!r) {
		return bad(w, NULL, "expected user or assistant", ".role");
	}
	if (r != w->role && close_run(w)) {
		return -1;
	}
	w->role = r;
	if (r == SYSTEM) {
		snprintf(w->place, sizeof(w->place), "messages[%u].content", i);
		return take_system(w, kp_jv_get(m, KP_S("content")));
	}
	return take_content(w, kp_jv_get(m, KP_S("content")), i);
}

/* A last message of the assistant's is what its answer begins with. */
static int prefill(struct walk *w, struct kp_chat *chat, uint32_t n)
{
	if (w->role != ASSISTANT) {
		return 0;
	}
	if (w->calls.n || !w->texts.n) {
		return kp_make_bad(w->make.err, NULL,
			w->calls.n ? "ends with a call that has no result"
				   : "has no text to go on with",
			"messages[%u]", n - 1);
	}
	chat->continue_final_message = true;
	chat->add_generation_prompt = false;
	return 0;
}

static int walk_all(struct walk *w, const struct kp_anthropic *a, struct kp_chat *chat)
{
	if (kp_is_given(&a->system) && a->system.type) {
		snprintf(w->place, sizeof(w->place), "system");
		if (take_system(w, &a->system)) {
			return -1;
		}
	}
	for (uint32_t i = 0; i < a->messages.n; i++) {
		if (take_message(w, &a->messages.items[i], i)) {
			return -1;
		}
	}
	return prefill(w, chat, a->messages.n) || close_run(w) ? -1 : 0;
}

int kp_anthropic_settle(const struct kp_anthropic *a, struct kp_turn *turn, struct kp_err *err)
{
	struct walk w = { .make = { turn->arena, err } };
	if (a->messages.type != KP_JSON_ARRAY || a->messages.n == 0) {
		return kp_err_param(err, "messages", "`messages`: %s",
			a->messages.type ? "must not be empty" : "missing");
	}
	if (a->messages.n > KP_MAX_MESSAGES) {
		return kp_err_param(err, "messages", "`messages`: at most %d messages, got %u",
			KP_MAX_MESSAGES, a->messages.n);
	}
	kp_map_init(&w.names);
	int r = walk_all(&w, a, &turn->chat);
	kp_map_fini(&w.names, NULL);
	if (r == 0 && w.out.n == 0) {
		r = kp_err_param(err, "messages", "`messages`: they say nothing");
	}
	turn->chat.messages = kp_made_array(&w.out);
	return r;
}

/* --- members of the request --------------------------------------------------------------------------------------------------------- */

static int read_system(struct kp_json *j, struct kp_anthropic *a, struct kp_err *err)
{
	return kp_jv_read(j, KP_MAX_VALUES, &a->system, err);
}

static int read_messages(struct kp_json *j, struct kp_anthropic *a, struct kp_err *err)
{
	return kp_jv_read_as(j, KP_JSON_ARRAY, KP_MAX_VALUES, &a->messages, err);
}

/* {"type": "enabled", "budget_tokens": n}, {"type": "adaptive"} (or "between_tools"), {"type": "disabled"}: for templates that have a switch. */
static int read_thinking(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_chat *chat = &turn->chat;
	struct kp_jv v;
	uint64_t budget;
	if (kp_jv_read_as(j, KP_JSON_OBJECT, KP_MAX_VALUES, &v, err)) {
		return -1;
	}
	if (kp_make_only(err, &v, "type budget_tokens display block_binding", "thinking")) {
		return -1;
	}
	kp_str type = kp_jv_str(&v, KP_S("type"));
	const struct kp_jv *n = kp_jv_get(&v, KP_S("budget_tokens"));
	chat->thinking_budget = 0;
	if (kp_str_eq(type, KP_S("disabled"))) {
		chat->thinking = KP_THINKING_OFF;
		return 0;
	}
	bool is_enabled = kp_str_eq(type, KP_S("enabled"));
	if (!is_enabled && !kp_str_eq(type, KP_S("adaptive")) &&
		!kp_str_eq(type, KP_S("between_tools"))) {
		return kp_json_fail(
			j, err, "`type` must be enabled, adaptive, between_tools or disabled");
	}
	chat->thinking = KP_THINKING_ON;
	if (!kp_is_given(n)) {
		return is_enabled ? kp_json_fail(j, err, "`budget_tokens` is missing") : 0;
	}
	if (n->type != KP_JSON_NUMBER || !kp_str_u64(n->s, INT32_MAX, &budget) || budget == 0) {
		return kp_json_fail(j, err, "`budget_tokens` must be an integer above 0");
	}
	chat->thinking_budget = (uint32_t)budget;
	return 0;
}

static int read_format(const struct kp_jv *format, struct kp_turn *turn, struct kp_err *err)
{
	const struct kp_jv *schema = kp_jv_get(format, KP_S("schema"));
	if (kp_make_only(err, format, "type schema", "output_config.format")) {
		return -1;
	}
	if (!kp_str_eq(kp_jv_str(format, KP_S("type")), KP_S("json_schema"))) {
		return kp_make_bad(
			err, NULL, "only `json_schema` is supported", "output_config.format.type");
	}
	if (!kp_jv_is(schema, KP_JSON_OBJECT)) {
		return kp_make_bad(err, NULL, schema ? "expected an object" : "missing",
			"output_config.format.schema");
	}
	turn->format = (struct kp_output_format){ .kind = KP_CONSTRAINT_JSON_SCHEMA,
		.param = "output_config",
		.schema = *schema,
		.strict = true };
	return 0;
}

static int read_output_config(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_jv v;
	if (kp_jv_read_as(j, KP_JSON_OBJECT, KP_MAX_VALUES, &v, err)) {
		return -1;
	}
	if (kp_make_only(err, &v, "effort format", "output_config")) {
		return -1;
	}
	const struct kp_jv *effort = kp_jv_get(&v, KP_S("effort"));
	const struct kp_jv *format = kp_jv_get(&v, KP_S("format"));
	if (kp_is_given(format) && read_format(format, turn, err)) {
		return -1;
	}
	if (!kp_is_given(effort)) {
		return 0;
	}
	if (effort->type != KP_JSON_STRING) {
		return kp_make_bad(err, NULL, "expected a string", "output_config.effort");
	}
	turn->chat.reasoning_effort = effort->s;
	turn->chat.effort_is_a_wish = true;
	return 0;
}

int kp_anthropic_member(struct kp_json *j, kp_str name, struct kp_anthropic *a,
	struct kp_turn *turn, struct kp_err *err)
{
	static const struct {
		const char *name;
		int (*keep)(struct kp_json *j, struct kp_anthropic *a, struct kp_err *err);
		int (*read)(struct kp_json *j, struct kp_turn *turn, struct kp_err *err);
	} members[] = { { "system", read_system, NULL }, { "messages", read_messages, NULL },
		{ "tools", NULL, kp_anthropic_tools },
		{ "tool_choice", NULL, kp_anthropic_tool_choice },
		{ "thinking", NULL, read_thinking },
		{ "output_config", NULL, read_output_config } };
	for (size_t i = 0; i < KP_LEN(members); i++) {
		if (kp_str_eq(name, kp_str_c(members[i].name))) {
			return members[i].keep ? members[i].keep(j, a, err)
					       : members[i].read(j, turn, err);
		}
	}
	return 1;
}
