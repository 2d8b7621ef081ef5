/* DESIGN: the stages of POST /v1/responses: those of a chat, and before the prompt one that makes items into messages. */
#include "sidecar/api/responses.h"

#include "sidecar/api/http.h"
#include "sidecar/api/params.h"
#include "sidecar/flow/flow.h"

static int read_request(kp_str body, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_response *r = kp_arena_new(turn->arena, struct kp_response);
	turn->response = &r->ask;
	return kp_params_read_api(body, KP_PARAMS_RESPONSES, turn, err);
}

/* The request's own items; a string is what a user says. */
static int input_entries(const struct kp_responses *ask, struct kp_arena *a,
	struct kp_responses_entry **ret, size_t *ret_n, struct kp_err *err)
{
	const struct kp_jv *in = &ask->input;
	size_t n = in->type == KP_JSON_ARRAY ? in->n : in->type == KP_JSON_STRING;
	struct kp_responses_entry *entries = kp_arena_calloc(a, n + 1, sizeof(*entries));
	struct kp_jmember *m = kp_arena_calloc(a, 2, sizeof(*m));
	struct kp_jv *said = kp_arena_calloc(a, 1, sizeof(*said));
	if (!entries || !m || !said) {
		return kp_arena_full(err, "input");
	}
	if (in->type == KP_JSON_STRING) {
		m[0] = (struct kp_jmember){ KP_S("role"),
			{ .type = KP_JSON_STRING, .s = KP_S("user") } };
		m[1] = (struct kp_jmember){ KP_S("content"), *in };
		*said = (struct kp_jv){ .type = KP_JSON_OBJECT, .n = 2, .members = m };
		entries[0].item = said;
	}
	for (uint32_t i = 0; in->type == KP_JSON_ARRAY && i < in->n; i++) {
		entries[i] = (struct kp_responses_entry){ .item = &in->items[i], .index = i };
	}
	*ret = entries;
	*ret_n = n;
	return 0;
}

static int make_messages(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	struct kp_responses_entry *entries = NULL;
	size_t n = 0;
	(void)scratch;
	if (r->ask.previous_id.n) {
		return kp_err_param(err, "previous_response_id",
			"`previous_response_id`: responses are not kept");
	}
	if (input_entries(&r->ask, f->turn.arena, &entries, &n, err)) {
		return -1;
	}
	return kp_responses_messages(&r->ask, entries, n, &f->turn, err) ||
			       kp_responses_tools(&r->ask, r->own, r->n_own, &f->turn, err)
		       ? -1
		       : kp_params_check_form(&f->turn, err);
}

static enum kp_step stage_items(struct kp_flow *f, struct kp_err *err)
{
	return kp_flow_work(f, make_messages, err);
}

static const struct kp_stage stages[] = {
	{ "read", kp_stage_read },
	{ "resolve", kp_stage_resolve },
	{ "items", stage_items }, /* to messages and tools, as chats have them */
	{ "prompt", kp_stage_prompt },
	{ "constrain", kp_stage_constrain },
	{ "validate", kp_stage_validate },
	{ "fit", kp_stage_fit },
	{ "start", kp_stage_start },
	{ NULL, NULL },
};
static const struct kp_flow_api responses = { "responses", "resp_", KP_TURN_CHAT, read_request,
	stages, &kp_responses_streamed, &kp_responses_whole, KP_DIALECT_OPENAI };

void kp_api_responses(struct kp_api_call *c)
{
	kp_api_start(c, &responses);
}
