/* DESIGN: a choice's tokens through its parser: thoughts, text, tool calls. Stop strings are matched in the visible text only, behind the parser, so neither a
   thought nor a call's arguments are cut by them. Where log-probabilities or ids are wanted each token is given out by itself, behind its own. */
#include "sidecar/flow/output.h"

static void emit_text(struct kp_choice *c, const struct kp_event *ev)
{
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, ev->text.n + KP_STOP_MAX_BYTES);
	kp_stop_feed(&c->stop, ev->text, c->flow->turn.sampling.include_stop_str, &text);
	if (text.n) {
		struct kp_event shown = *ev;
		shown.text = kp_buf_str(&text);
		c->has_shown = true;
		kp_flow_emit(c->flow, &shown);
	}
}

/* Text that may have become a stop string: what follows it is none. */
static void release_text(struct kp_choice *c)
{
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, KP_STOP_MAX_BYTES);
	kp_stop_finish(&c->stop, &text);
	if (text.n) {
		c->has_shown = true;
		kp_flow_emit(c->flow, &(struct kp_event){ .kind = KP_EV_TEXT,
					      .choice = c->index,
					      .text = kp_buf_str(&text) });
	}
}

static void take(void *ctx, const struct kp_event *ev)
{
	struct kp_choice *c = ctx;
	if (c->stop.matched >= 0) {
		return;
	}
	if (ev->kind == KP_EV_TEXT && c->flow->stops) {
		emit_text(c, ev);
		return;
	}
	if (ev->kind != KP_EV_TEXT && c->flow->stops) {
		release_text(c);
	}
	c->has_shown = true;
	kp_flow_emit(c->flow, ev);
}

void kp_flow_parser_open(struct kp_choice *c)
{
	const struct kp_flow *f = c->flow;
	const struct kp_parsers *p = &f->revision->text->parsers;
	bool calls = f->offer.n && (p->tools || f->lexicon != p->lexicon);
	bool channels = p->tools && p->tools->body == KP_BODY_CHANNELS;
	if (f->turn.kind != KP_TURN_CHAT || !(p->thinking || channels || calls)) {
		return;
	}
	const struct kp_parse_opts opts = { .lexicon = f->lexicon,
		.offer = &f->offer,
		.start = kp_parse_start_of(p->thinking, &f->prompts[0].text),
		.one_call = f->turn.chat.one_call,
		.choice = c->index,
		.rng = &f->l->rng,
		.emit = take,
		.ctx = c };
	c->parser = kp_parser_create(&opts);
}

static int feed(struct kp_choice *c, kp_id id, struct kp_err *err)
{
	bool thinks = kp_parser_in_thought(c->parser);
	const struct kp_parsers *p = &c->flow->revision->text->parsers;
	if (kp_flow_is_shown(c->flow, id) &&
		kp_parsers_feed(p, &c->detok, c->parser, id, NULL, err)) {
		return -1;
	}
	c->flow->reasoning_tokens += thinks || kp_parser_in_thought(c->parser);
	c->n_tokens++;
	c->flow->completion_tokens++;
	return 0;
}

static int finish(struct kp_choice *c, const struct kp_engine_delta *d, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf tail;
	kp_buf_init(&tail, 64 << 10);
	kp_detok_finish(&c->detok, &tail);
	if (kp_parser_feed(c->parser, kp_buf_str(&tail), err) ||
		kp_parser_finish(c->parser, d->finish == KP_FINISH_LENGTH, err)) {
		return -1;
	}
	if (c->stop.matched < 0) {
		release_text(c);
	}
	return 0;
}

int kp_flow_parse(struct kp_choice *c, const struct kp_engine_delta *d, struct kp_err *err)
{
	struct kp_flow *f = c->flow;
	bool logprobs = f->turn.want_logprobs && d->logprobs;
	bool each = logprobs || f->turn.want_ids;
	for (size_t i = 0; i < d->n_ids && c->stop.matched < 0; i++) {
		if (logprobs && kp_flow_emit_logprobs(c, d, i, 1, err)) {
			return -1;
		}
		kp_flow_emit_ids(c, &d->ids[i], 1);
		c->has_shown = false;
		if (feed(c, d->ids[i], err)) {
			return -1;
		}
		if (each || f->stops) {
			kp_parser_flush(c->parser);
		}
		if (each && !c->has_shown) { /* they must not wait for another choice's text */
			kp_flow_emit(f, &(struct kp_event){ .kind = kp_parser_in_thought(c->parser)
									    ? KP_EV_REASONING
									    : KP_EV_TEXT,
						.choice = c->index,
						.text = KP_S("") });
		}
	}
	if (d->finish != KP_FINISH_NONE && c->stop.matched < 0) {
		return finish(c, d, err);
	}
	kp_parser_flush(c->parser);
	return 0;
}
