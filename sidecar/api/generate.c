/* DESIGN: POST /v1/chat/completions, /v1/completions /v1/messages and /v1/responses: they differ in their parameters (params.c), in the shape of their
   answers (chat.c, completions.c, messages.c, responses.c) and of their errors, nothing else. */
#include "sidecar/api/generate.h"

#include "sidecar/api/http.h"
#include "sidecar/api/params.h"
#include "sidecar/flow/stages.h"

static int read_messages(kp_str body, struct kp_turn *turn, struct kp_err *err)
{
	return kp_params_read_api(body, KP_PARAMS_MESSAGES, turn, err);
}

static const struct kp_flow_api chat = { "chat", "chatcmpl-", KP_TURN_CHAT, kp_params_read,
	kp_generate_stages, &kp_chat_streamed, &kp_chat_whole, KP_DIALECT_OPENAI, NULL, 0, NULL };
static const struct kp_flow_api completions = { "completions", "cmpl-", KP_TURN_COMPLETION,
	kp_params_read, kp_generate_stages, &kp_completions_streamed, &kp_completions_whole,
	KP_DIALECT_OPENAI, NULL, 0, NULL };
static const struct kp_flow_api messages = { "messages", "msg_", KP_TURN_CHAT, read_messages,
	kp_generate_stages, &kp_messages_streamed, &kp_messages_whole, KP_DIALECT_ANTHROPIC, NULL,
	0, NULL };

struct kp_flow *kp_api_flow(struct kp_api_call *c, const struct kp_flow_api *api)
{
	c->flow = kp_flow_create(c->l, c->stream, api, &c->body, c->request_id);
	c->flow->turn.tenant = kp_str_c(kp_arena_strz(c->flow->turn.arena, c->tenant));
	return c->flow;
}

void kp_api_start(struct kp_api_call *c, const struct kp_flow_api *api)
{
	kp_flow_run(kp_api_flow(c, api));
}

void kp_api_chat(struct kp_api_call *c)
{
	kp_api_start(c, &chat);
}

void kp_api_completions(struct kp_api_call *c)
{
	kp_api_start(c, &completions);
}

void kp_api_messages(struct kp_api_call *c)
{
	kp_api_start(c, &messages);
}
