/* DESIGN: a table of members, one small reader each. */
#include "prompt/chat.h"

#include "prompt/messages.h"
#include "prompt/tools.h"

#include <stdio.h>

static int read_documents(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_jv list;
	if (kp_jv_read_as(j, KP_JSON_ARRAY, KP_MAX_VALUES, &list, err)) {
		return -1;
	}
	for (uint32_t i = 0; i < list.n; i++) {
		if (list.items[i].type != KP_JSON_OBJECT) {
			char param[32];
			snprintf(param, sizeof(param), "documents[%u]", i);
			return kp_err_param(err, param, "`%s`: expected an object", param);
		}
	}
	turn->chat.documents = list;
	return 0;
}

static int read_kwargs(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	static const char *const reserved[] = { "messages", "tools", "documents",
		"add_generation_prompt", "continue_final_message", "tokenize", "chat_template" };
	if (kp_jv_read_as(j, KP_JSON_OBJECT, KP_MAX_VALUES, &turn->chat.kwargs, err)) {
		return -1;
	}
	for (size_t i = 0; i < KP_LEN(reserved); i++) {
		if (kp_jv_get(&turn->chat.kwargs, kp_str_c(reserved[i]))) {
			return kp_json_fail(j, err, "`%s` cannot be set here", reserved[i]);
		}
	}
	return 0;
}

static int read_generation_prompt(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	turn->chat.has_generation_prompt = true;
	return kp_json_bool(j, &turn->chat.add_generation_prompt, err);
}

static int read_continue(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	return kp_json_bool(j, &turn->chat.continue_final_message, err);
}

static int read_effort(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	if (kp_json_string(j, &turn->chat.reasoning_effort, err)) {
		return -1;
	}
	turn->chat.thinking = kp_str_eq(turn->chat.reasoning_effort, KP_S("none"))
				      ? KP_THINKING_OFF
				      : KP_THINKING_UNSET;
	return 0;
}

static int read_template(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	return kp_json_string(j, &turn->chat.template_source, err);
}

static const struct {
	const char *name;
	int (*read)(struct kp_json *j, struct kp_turn *turn, struct kp_err *err);
} members[] = { { "messages", kp_messages_read }, { "tools", kp_tools_read },
	{ "tool_choice", kp_tool_choice_read }, { "documents", read_documents },
	{ "chat_template", read_template }, { "chat_template_kwargs", read_kwargs },
	{ "reasoning_effort", read_effort }, { "add_generation_prompt", read_generation_prompt },
	{ "continue_final_message", read_continue } };

int kp_chat_member(struct kp_json *j, kp_str name, struct kp_turn *turn, struct kp_err *err)
{
	for (size_t i = 0; i < KP_LEN(members); i++) {
		if (kp_str_eq(name, kp_str_c(members[i].name))) {
			return members[i].read(j, turn, err);
		}
	}
	return 1;
}

int kp_chat_settle(struct kp_turn *turn, struct kp_err *err)
{
	struct kp_chat *c = &turn->chat;
	if (c->messages.n == 0) {
		return kp_err_param(err, "messages", "`messages`: missing");
	}
	if (kp_tool_choice_settle(c, err)) {
		return -1;
	}
	if (c->continue_final_message) {
		if (c->has_generation_prompt && c->add_generation_prompt) {
			return kp_err_param(err, "continue_final_message",
				"`continue_final_message`: excludes `add_generation_prompt`");
		}
		c->add_generation_prompt = false;
	}
	return 0;
}
