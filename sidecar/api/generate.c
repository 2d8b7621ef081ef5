/* DESIGN: POST /v1/chat/completions and /v1/completions: body -> turn -> flow. The two differ in
   their parameters (params.c), the shape of their answers (chat.c, completions.c) and nothing else.
 */
#include "base/clock.h"
#include "sidecar/api/errors.h"
#include "sidecar/api/generate.h"
#include "sidecar/api/http.h"
#include "sidecar/api/params.h"
#include "sidecar/flow/flow.h"

static void make_id(struct kp_flow *f, const char *prefix, kp_str client_id)
{
	char random[25];
	kp_random_id(random, 24);
	f->turn.id = kp_arena_printf(f->turn.arena, "%s%s", prefix, random);
	f->request_id =
		client_id.n ? kp_str_c(kp_arena_strz(f->turn.arena, client_id)) : f->turn.id;
}

static void start(struct kp_api_call *c, enum kp_turn_kind kind, const char *api,
	const char *prefix, const struct kp_encoder *streamed, const struct kp_encoder *whole)
{
	struct kp_err err;
	struct kp_flow *f = kp_flow_create(c->l, c->stream, api, kind);
	kp_buf_fini(&f->body);
	f->body = c->body;
	kp_buf_init(&c->body, 0);
	f->turn.arena = kp_arena_create(KP_FLOW_ARENA_BASE + KP_FLOW_ARENA_FACTOR * f->body.n);
	f->turn.created_s = kp_wall_ns() / KP_NS_PER_S;
	make_id(f, prefix, c->request_id);
	c->flow = f;
	if (kp_params_read(kp_buf_str(&f->body), &f->turn, &err)) {
		kp_flow_fail(f, &err);
		return;
	}
	f->encoder = f->turn.stream ? streamed : whole;
	kp_flow_run(f);
}

void kp_api_chat(struct kp_api_call *c)
{
	start(c, KP_TURN_CHAT, "chat", "chatcmpl-", &kp_chat_streamed, &kp_chat_whole);
}

void kp_api_completions(struct kp_api_call *c)
{
	start(c, KP_TURN_COMPLETION, "completions", "cmpl-", &kp_completions_streamed,
		&kp_completions_whole);
}
