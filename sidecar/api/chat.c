/* DESIGN: chat.completion and chat.completion.chunk. What is the same in every chunk is made once;
   a token costs its own bytes and two copies. Log-probabilities come as an event before the text
   they belong to and wait in `logprobs` for it. */
#include "json/write.h"
#include "parse/message.h"
#include "sidecar/api/generate.h"

enum { MAX_ANSWER = 64 << 20 };

struct choice {
	size_t n_calls; /* streamed: begun so far */
	/* Of an answer that is not streamed. */
	struct kp_message message;
	struct kp_buf logprobs, ids;
	struct kp_buf finish; /* "finish_reason" and what follows it */
};
struct state {
	const struct kp_turn *turn;
	kp_str head;
	struct kp_buf logprobs, ids; /* streamed: entries for the next text chunk */
	struct kp_buf prompt;        /* members of the answer that tell of it, not written yet */
	bool has_prompt;
	struct kp_usage usage;
	struct choice *choices;
	size_t n_choices;
};

static struct state *open_state(
	const struct kp_turn *turn, const char *before, const char *object, struct kp_err *err)
{
	struct state *s = kp_arena_new(turn->arena, struct state);
	s->turn = turn;
	s->head = kp_answer_head(turn, before, object, err);
	kp_buf_init(&s->logprobs, MAX_ANSWER);
	kp_buf_init(&s->ids, MAX_ANSWER);
	kp_buf_init(&s->prompt, MAX_ANSWER);
	return s->head.p ? s : NULL;
}

static void put_logprobs_member(
	struct kp_buf *out, const struct state *s, const struct kp_buf *entries)
{
	if (!s->turn->want_logprobs) {
		kp_buf_lit(out, ",\"logprobs\":null");
		return;
	}
	kp_buf_lit(out, ",\"logprobs\":{\"content\":[");
	kp_buf_add(out, kp_buf_str(entries));
	kp_buf_lit(out, "],\"refusal\":null}");
}

/* vLLM's extras: once in an answer, all choices have the same prompt. */
static void put_prompt(struct state *s, const struct kp_event *ev)
{
	if (ev->kind == KP_EV_ROLE && s->turn->want_ids && !s->has_prompt) {
		KP_AUTO(buf) struct kp_buf ids;
		kp_buf_init(&ids, MAX_ANSWER);
		kp_put_ids(&ids, ev->prompt.ids, ev->prompt.n_ids);
		s->has_prompt = true;
		kp_buf_lit(&s->prompt, ",\"prompt_token_ids\":[");
		kp_buf_add(&s->prompt, kp_buf_str(&ids));
		kp_buf_addc(&s->prompt, ']');
	} else if (ev->kind == KP_EV_PROMPT_LOGPROBS && ev->choice == 0) {
		kp_buf_lit(&s->prompt, ",\"prompt_logprobs\":");
		kp_put_prompt_logprobs(&s->prompt, ev);
	}
}

static void put_ids_member(struct kp_buf *out, const struct state *s, const struct kp_buf *ids)
{
	if (s->turn->want_ids) {
		kp_buf_lit(out, ",\"token_ids\":[");
		kp_buf_add(out, kp_buf_str(ids));
		kp_buf_addc(out, ']');
	}
}

static int open_choices(struct state *s, size_t n, struct kp_err *err)
{
	s->choices = kp_arena_calloc(s->turn->arena, n, sizeof(*s->choices));
	s->n_choices = s->choices ? n : 0;
	return s->choices ? 0 : kp_arena_full(err, "choices");
}

/* A call that was asked for by name is no surprise: OpenAI says `stop`. */
static void put_finish(const struct state *s, struct kp_buf *out, const struct kp_event *ev)
{
	struct kp_event shown = *ev;
	if (s->turn->chat.tool_choice == KP_TOOL_CHOICE_NAMED) {
		shown.finish.tool_calls = false;
	}
	kp_put_finish(out, &shown);
}

/* --- streamed --- */

static void *streamed_open(const struct kp_turn *turn, size_t n_choices, struct kp_err *err)
{
	struct state *s = open_state(turn, "data: ", "chat.completion.chunk", err);
	return s && open_choices(s, n_choices, err) == 0 ? s : NULL;
}

static void chunk_begin(struct state *s, uint32_t choice, struct kp_buf *out)
{
	kp_buf_add(out, s->head);
	kp_buf_lit(out, "{\"index\":");
	kp_buf_u64(out, choice);
}

static void chunk_end(struct state *s, struct kp_buf *out)
{
	kp_buf_lit(out, "}]");
	kp_buf_add(out, kp_buf_str(&s->prompt));
	kp_buf_reset(&s->prompt);
	if (s->turn->include_usage) {
		kp_buf_lit(out, ",\"usage\":null}\n\n");
	} else {
		kp_buf_lit(out, "}\n\n");
	}
}

static void put_delta(struct state *s, const struct kp_event *ev, struct kp_buf *out)
{
	size_t *n_calls = &s->choices[ev->choice].n_calls;
	*n_calls += ev->kind == KP_EV_TOOL_START;
	chunk_begin(s, ev->choice, out);
	kp_buf_lit(out, ",\"delta\":{");
	kp_message_delta(ev, *n_calls, s->turn->reasoning_field, out);
	kp_buf_addc(out, '}');
	put_logprobs_member(out, s, &s->logprobs);
	put_ids_member(out, s, &s->ids);
	kp_buf_reset(&s->logprobs);
	kp_buf_reset(&s->ids);
	kp_buf_lit(out, ",\"finish_reason\":null");
	chunk_end(s, out);
}

static void streamed_event(void *state, const struct kp_event *ev, struct kp_buf *out)
{
	struct state *s = state;
	switch (ev->kind) {
	case KP_EV_ROLE:
		put_prompt(s, ev);
		chunk_begin(s, ev->choice, out);
		kp_buf_lit(out,
			",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null");
		chunk_end(s, out);
		break;
	case KP_EV_LOGPROBS:
		kp_put_logprobs(&s->logprobs, ev);
		break;
	case KP_EV_IDS:
		kp_put_ids(&s->ids, ev->ids.p, ev->ids.n);
		break;
	case KP_EV_TEXT:
	case KP_EV_REASONING:
	case KP_EV_TOOL_START:
	case KP_EV_TOOL_ARGUMENTS:
		put_delta(s, ev, out);
		break;
	case KP_EV_FINISH:
		chunk_begin(s, ev->choice, out);
		kp_buf_lit(out, ",\"delta\":{},\"logprobs\":null,\"finish_reason\":");
		put_finish(s, out, ev);
		chunk_end(s, out);
		break;
	case KP_EV_USAGE:
		if (s->turn->include_usage) {
			kp_buf_add(out, s->head);
			kp_buf_lit(out, "],\"usage\":");
			kp_put_usage(out, &ev->usage);
			kp_buf_lit(out, "}\n\n");
		}
		break;
	case KP_EV_ERROR:
		kp_put_sse_error(out, ev->error);
		break;
	case KP_EV_TOOL_END: /* the next one's begin, or the finish, says it */
	case KP_EV_NONE:
	case KP_EV_PROMPT_LOGPROBS:
	case KP_EV_REFUSAL:
		break; /* no stage makes these yet */
	}
}

static void streamed_end(void *state, struct kp_buf *out)
{
	(void)state;
	kp_buf_lit(out, "data: [DONE]\n\n");
}

static void streamed_close(void *state)
{
	struct state *s = state;
	kp_buf_fini(&s->logprobs);
	kp_buf_fini(&s->ids);
	kp_buf_fini(&s->prompt);
}

const struct kp_encoder kp_chat_streamed = { "text/event-stream", true, streamed_open,
	streamed_event, streamed_end, streamed_close, ": keep-alive\n\n", NULL };

/* --- whole --- */

static void *whole_open(const struct kp_turn *turn, size_t n_choices, struct kp_err *err)
{
	struct state *s = open_state(turn, "", "chat.completion", err);
	if (!s || open_choices(s, n_choices, err)) {
		return NULL;
	}
	for (size_t i = 0; i < n_choices; i++) {
		kp_message_init(&s->choices[i].message, MAX_ANSWER);
		kp_buf_init(&s->choices[i].logprobs, MAX_ANSWER);
		kp_buf_init(&s->choices[i].ids, MAX_ANSWER);
		kp_buf_init(&s->choices[i].finish, 16384);
	}
	return s;
}

static void whole_event(void *state, const struct kp_event *ev, struct kp_buf *out)
{
	struct state *s = state;
	struct choice *c = s->choices ? &s->choices[ev->choice] : NULL;
	(void)out;
	if (ev->kind == KP_EV_USAGE) {
		s->usage = ev->usage;
	} else if (ev->kind == KP_EV_LOGPROBS) {
		kp_put_logprobs(&c->logprobs, ev);
	} else if (ev->kind == KP_EV_IDS) {
		kp_put_ids(&c->ids, ev->ids.p, ev->ids.n);
	} else if (ev->kind == KP_EV_ROLE || ev->kind == KP_EV_PROMPT_LOGPROBS) {
		put_prompt(s, ev);
	} else if (ev->kind == KP_EV_FINISH) {
		put_finish(s, &c->finish, ev);
	} else if (c) {
		kp_message_add(&c->message, ev);
	}
}

static void whole_end(void *state, struct kp_buf *out)
{
	struct state *s = state;
	kp_buf_add(out, s->head);
	for (size_t i = 0; i < s->n_choices; i++) {
		struct choice *c = &s->choices[i];
		kp_buf_printf(out, "%s{\"index\":%zu,\"message\":{\"role\":\"assistant\",",
			i ? "," : "", i);
		out->failed |= !kp_message_write(&c->message, s->turn->reasoning_field, false, out);
		kp_buf_lit(out, ",\"refusal\":null}");
		put_logprobs_member(out, s, &c->logprobs);
		put_ids_member(out, s, &c->ids);
		kp_buf_lit(out, ",\"finish_reason\":");
		kp_buf_add(out, kp_buf_str(&c->finish));
		kp_buf_addc(out, '}');
		out->failed |= c->logprobs.failed || c->ids.failed;
	}
	out->failed |= s->prompt.failed;
	kp_buf_addc(out, ']');
	kp_buf_add(out, kp_buf_str(&s->prompt));
	kp_buf_lit(out, ",\"usage\":");
	kp_put_usage(out, &s->usage);
	kp_buf_addc(out, '}');
}

static void whole_forget(void *state, uint32_t choice)
{
	struct state *s = state;
	struct choice *c = &s->choices[choice];
	kp_message_fini(&c->message);
	kp_message_init(&c->message, MAX_ANSWER);
	kp_buf_reset(&c->logprobs);
	kp_buf_reset(&c->ids);
	kp_buf_reset(&c->finish);
	if (choice == 0) { /* it tells of the prompt */
		kp_buf_reset(&s->prompt);
		s->has_prompt = false;
	}
}

static void whole_close(void *state)
{
	struct state *s = state;
	streamed_close(s);
	for (size_t i = 0; i < s->n_choices; i++) {
		kp_message_fini(&s->choices[i].message);
		kp_buf_fini(&s->choices[i].logprobs);
		kp_buf_fini(&s->choices[i].ids);
		kp_buf_fini(&s->choices[i].finish);
	}
}

const struct kp_encoder kp_chat_whole = { "application/json", false, whole_open, whole_event,
	whole_end, whole_close, NULL, whole_forget };
