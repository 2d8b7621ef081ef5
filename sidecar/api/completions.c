/* DESIGN: text_completion, streamed (same object, one per piece) and whole. Its log-probabilities
   are four parallel lists; while a piece waits they are kept as the insides of these lists, so that
   joining pieces is joining text. */
#include "base/utf8.h"
#include "json/write.h"
#include "sidecar/api/generate.h"

enum { MAX_ANSWER = 64 << 20 };

struct lists { /* insides of the four JSON lists */
	struct kp_buf tokens, token_logprobs, top_logprobs, text_offset;
};
struct choice {
	struct kp_buf text, finish;
	struct kp_buf ids;    /* not written yet */
	struct kp_buf prompt; /* members that tell of it, not written yet */
	struct lists logprobs;
};
struct state {
	const struct kp_turn *turn;
	kp_str head;
	struct kp_usage usage;
	struct choice *choices;
	size_t n_choices;
};

static void lists_init(struct lists *l)
{
	kp_buf_init(&l->tokens, MAX_ANSWER);
	kp_buf_init(&l->token_logprobs, MAX_ANSWER);
	kp_buf_init(&l->top_logprobs, MAX_ANSWER);
	kp_buf_init(&l->text_offset, MAX_ANSWER);
}

static void lists_fini(struct lists *l)
{
	kp_buf_fini(&l->tokens);
	kp_buf_fini(&l->token_logprobs);
	kp_buf_fini(&l->top_logprobs);
	kp_buf_fini(&l->text_offset);
}

static void lists_reset(struct lists *l)
{
	kp_buf_reset(&l->tokens);
	kp_buf_reset(&l->token_logprobs);
	kp_buf_reset(&l->top_logprobs);
	kp_buf_reset(&l->text_offset);
}

static void *open_state(
	const struct kp_turn *turn, const char *before, size_t n_choices, struct kp_err *err)
{
	struct state *s = kp_arena_new(turn->arena, struct state);
	s->turn = turn;
	s->head = kp_answer_head(turn, before, "text_completion", err);
	s->choices = kp_arena_calloc(turn->arena, n_choices, sizeof(*s->choices));
	if (!s->head.p) {
		return NULL;
	}
	if (!s->choices) {
		kp_arena_full(err, "choices");
		return NULL;
	}
	s->n_choices = n_choices;
	for (size_t i = 0; i < n_choices; i++) {
		kp_buf_init(&s->choices[i].text, MAX_ANSWER);
		kp_buf_init(&s->choices[i].finish, 16384);
		kp_buf_init(&s->choices[i].ids, MAX_ANSWER);
		kp_buf_init(&s->choices[i].prompt, MAX_ANSWER);
		lists_init(&s->choices[i].logprobs);
	}
	return s;
}

static void close_state(void *state)
{
	struct state *s = state;
	for (size_t i = 0; i < s->n_choices; i++) {
		kp_buf_fini(&s->choices[i].text);
		kp_buf_fini(&s->choices[i].finish);
		kp_buf_fini(&s->choices[i].ids);
		kp_buf_fini(&s->choices[i].prompt);
		lists_fini(&s->choices[i].logprobs);
	}
}

/* Parts of characters look alike once they stand in JSON, and a name must not come twice. */
static bool is_same_name(kp_str a, kp_str b)
{
	if (kp_str_eq(a, b) || (kp_utf8_ok(a) && kp_utf8_ok(b))) {
		return kp_str_eq(a, b);
	}
	KP_AUTO(buf) struct kp_buf x, y;
	kp_buf_init(&x, 4096);
	kp_buf_init(&y, 4096);
	kp_json_w_str(&x, a);
	kp_json_w_str(&y, b);
	return kp_str_eq(kp_buf_str(&x), kp_buf_str(&y));
}

static bool in_top(const struct kp_event_logprob *p, size_t before, kp_str bytes)
{
	for (size_t i = 0; i < before; i++) {
		if (is_same_name(p->top[i].bytes, bytes)) {
			return true;
		}
	}
	return false;
}

/* {"token": logprob, ...}: the alternatives, then the sampled token when it is none of them. Two
 * ids with one text: the likelier, which comes first. */
static void put_top(struct kp_buf *out, const struct kp_event_logprob *p)
{
	size_t n = 0;
	kp_buf_addc(out, '{');
	for (size_t k = 0; k <= p->n_top; k++) {
		const struct kp_event_logprob *t = k < p->n_top ? &p->top[k] : p;
		if (!in_top(p, k, t->bytes)) {
			kp_buf_addz(out, n++ ? "," : "");
			kp_json_w_str(out, t->bytes);
			kp_buf_addc(out, ':');
			kp_put_logprob(out, t->logprob);
		}
	}
	kp_buf_addc(out, '}');
}

static void put_logprobs(struct lists *l, const struct kp_event *ev)
{
	for (size_t i = 0; i < ev->logprobs.n; i++) {
		const struct kp_event_logprob *p = &ev->logprobs.items[i];
		const char *comma = l->tokens.n ? "," : "";
		kp_buf_addz(&l->tokens, comma);
		kp_json_w_str(&l->tokens, p->bytes);
		kp_buf_addz(&l->token_logprobs, comma);
		if (p->is_absent) {
			kp_buf_lit(&l->token_logprobs, "null");
		} else {
			kp_put_logprob(&l->token_logprobs, p->logprob);
		}
		kp_buf_addz(&l->top_logprobs, comma);
		if (p->is_absent) {
			kp_buf_lit(&l->top_logprobs, "null");
		} else {
			put_top(&l->top_logprobs, p);
		}
		kp_buf_addz(&l->text_offset, comma);
		kp_buf_u64(&l->text_offset, p->text_offset);
	}
}

static void put_logprobs_member(struct kp_buf *out, const struct state *s, const struct lists *l)
{
	if (!s->turn->want_logprobs) {
		kp_buf_lit(out, ",\"logprobs\":null");
		return;
	}
	kp_buf_lit(out, ",\"logprobs\":{\"tokens\":[");
	kp_buf_add(out, kp_buf_str(&l->tokens));
	kp_buf_lit(out, "],\"token_logprobs\":[");
	kp_buf_add(out, kp_buf_str(&l->token_logprobs));
	kp_buf_lit(out, "],\"top_logprobs\":[");
	kp_buf_add(out, kp_buf_str(&l->top_logprobs));
	kp_buf_lit(out, "],\"text_offset\":[");
	kp_buf_add(out, kp_buf_str(&l->text_offset));
	kp_buf_lit(out, "]}");
}

/* vLLM's extras: what a choice tells of ids and of its prompt. */
static void take_ids(struct choice *c, const struct kp_event *ev, bool want_ids)
{
	if (ev->kind == KP_EV_IDS) {
		kp_put_ids(&c->ids, ev->ids.p, ev->ids.n);
	} else if (ev->kind == KP_EV_ROLE && want_ids) {
		KP_AUTO(buf) struct kp_buf ids;
		kp_buf_init(&ids, MAX_ANSWER);
		kp_put_ids(&ids, ev->prompt.ids, ev->prompt.n_ids);
		kp_buf_lit(&c->prompt, ",\"prompt_token_ids\":[");
		kp_buf_add(&c->prompt, kp_buf_str(&ids));
		kp_buf_addc(&c->prompt, ']');
	} else if (ev->kind == KP_EV_PROMPT_LOGPROBS) {
		kp_buf_lit(&c->prompt, ",\"prompt_logprobs\":");
		kp_put_prompt_logprobs(&c->prompt, ev);
	}
}

static void put_ids_members(struct kp_buf *out, const struct state *s, struct choice *c)
{
	if (s->turn->want_ids) {
		kp_buf_lit(out, ",\"token_ids\":[");
		kp_buf_add(out, kp_buf_str(&c->ids));
		kp_buf_addc(out, ']');
	}
	kp_buf_add(out, kp_buf_str(&c->prompt));
	out->failed |= c->ids.failed || c->prompt.failed;
	kp_buf_reset(&c->ids);
	kp_buf_reset(&c->prompt);
}

static void put_choice(struct kp_buf *out, const struct state *s, uint32_t index, kp_str text,
	const struct lists *l)
{
	kp_buf_lit(out, "{\"index\":");
	kp_buf_u64(out, index);
	kp_buf_lit(out, ",\"text\":");
	kp_json_w_str(out, text);
	put_logprobs_member(out, s, l);
	put_ids_members(out, s, &s->choices[index]);
	kp_buf_lit(out, ",\"finish_reason\":");
}

/* --- streamed --- */

static void *streamed_open(const struct kp_turn *turn, size_t n_choices, struct kp_err *err)
{
	return open_state(turn, "data: ", n_choices, err);
}

static void streamed_event(void *state, const struct kp_event *ev, struct kp_buf *out)
{
	struct state *s = state;
	const char *end = s->turn->include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n";
	struct lists *l = s->choices ? &s->choices[ev->choice].logprobs : NULL;
	if (ev->kind == KP_EV_LOGPROBS) {
		put_logprobs(l, ev);
	} else if (ev->kind == KP_EV_TEXT) {
		kp_buf_add(out, s->head);
		put_choice(out, s, ev->choice, ev->text, l);
		kp_buf_lit(out, "null");
		kp_buf_addz(out, end);
		lists_reset(l);
	} else if (ev->kind == KP_EV_FINISH) {
		kp_buf_add(out, s->head);
		kp_buf_lit(out, "{\"index\":");
		kp_buf_u64(out, ev->choice);
		kp_buf_lit(out, ",\"text\":\"\",\"logprobs\":null,\"finish_reason\":");
		kp_put_finish(out, ev);
		kp_buf_addz(out, end);
	} else if (ev->kind == KP_EV_USAGE && s->turn->include_usage) {
		kp_buf_add(out, s->head);
		kp_buf_lit(out, "],\"usage\":");
		kp_put_usage(out, &ev->usage);
		kp_buf_lit(out, "}\n\n");
	} else if (ev->kind == KP_EV_ERROR) {
		kp_put_sse_error(out, ev->error);
	} else {
		take_ids(&s->choices[ev->choice], ev, s->turn->want_ids);
	}
}

static void streamed_end(void *state, struct kp_buf *out)
{
	(void)state;
	kp_buf_lit(out, "data: [DONE]\n\n");
}

const struct kp_encoder kp_completions_streamed = { "text/event-stream", true, streamed_open,
	streamed_event, streamed_end, close_state, ": keep-alive\n\n", NULL };

/* --- whole --- */

static void *whole_open(const struct kp_turn *turn, size_t n_choices, struct kp_err *err)
{
	return open_state(turn, "", n_choices, err);
}

static void whole_event(void *state, const struct kp_event *ev, struct kp_buf *out)
{
	struct state *s = state;
	struct choice *c = &s->choices[ev->choice];
	(void)out;
	if (ev->kind == KP_EV_USAGE) {
		s->usage = ev->usage;
	} else if (ev->kind == KP_EV_TEXT) {
		kp_buf_add(&c->text, ev->text);
	} else if (ev->kind == KP_EV_LOGPROBS) {
		put_logprobs(&c->logprobs, ev);
	} else if (ev->kind == KP_EV_FINISH) {
		kp_put_finish(&c->finish, ev);
	} else {
		take_ids(c, ev, s->turn->want_ids);
	}
}

static void whole_end(void *state, struct kp_buf *out)
{
	struct state *s = state;
	kp_buf_add(out, s->head);
	for (size_t i = 0; i < s->n_choices; i++) {
		const struct choice *c = &s->choices[i];
		kp_buf_addz(out, i ? "," : "");
		put_choice(out, s, (uint32_t)i, kp_buf_str(&c->text), &c->logprobs);
		kp_buf_add(out, kp_buf_str(&c->finish));
		kp_buf_addc(out, '}');
		out->failed |= c->text.failed || c->logprobs.tokens.failed ||
			       c->logprobs.top_logprobs.failed;
	}
	kp_buf_lit(out, "],\"usage\":");
	kp_put_usage(out, &s->usage);
	kp_buf_addc(out, '}');
}

static void whole_forget(void *state, uint32_t choice)
{
	struct choice *c = &((struct state *)state)->choices[choice];
	kp_buf_reset(&c->text);
	kp_buf_reset(&c->finish);
	kp_buf_reset(&c->ids);
	kp_buf_reset(&c->prompt);
	lists_reset(&c->logprobs);
}

const struct kp_encoder kp_completions_whole = { "application/json", false, whole_open, whole_event,
	whole_end, close_state, NULL, whole_forget };
