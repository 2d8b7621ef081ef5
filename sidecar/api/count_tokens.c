/* DESIGN: POST /v1/messages/count_tokens: the way of a message as far as its prompt; the last stage answers how many ids that has. */
#include "sidecar/api/http.h"
#include "sidecar/api/params.h"
#include "sidecar/flow/stages.h"

static int read_count(kp_str body, struct kp_turn *turn, struct kp_err *err)
{
	return kp_params_read_api(body, KP_PARAMS_COUNT, turn, err);
}

static enum kp_step answer(struct kp_flow *f, struct kp_err *err)
{
	(void)err;
	kp_flow_reply(
		f, kp_arena_printf(f->turn.arena, "{\"input_tokens\":%zu}", f->prompts[0].ids.n));
	return KP_STEP_NEXT;
}

static const struct kp_stage stages[] = { { "read", kp_stage_read }, { "await", kp_stage_await },
	{ "resolve", kp_stage_resolve }, { "fetch", kp_stage_fetch }, { "media", kp_stage_media },
	{ "prompt", kp_stage_prompt }, { "answer", answer }, { NULL, NULL } };
static const struct kp_flow_api count_tokens = { "count_tokens", "count_", KP_TURN_CHAT, read_count,
	stages, NULL, NULL, KP_DIALECT_ANTHROPIC, NULL, 0, NULL };

void kp_api_count_tokens(struct kp_api_call *c)
{
	kp_api_start(c, &count_tokens);
}
