/* DESIGN: engine output to events: ids -> bytes (detokenizer) -> stop strings (of a chat: parser, then stop strings, parse.c) -> events -> the
   encoder's bytes, all appended to the loop's scratch buffer and handed to the stream once per
   engine message; the stream sends what gathered in this iteration of the loop in one go. A choice
   that is done takes nothing more; when all choices of a generation are done before the engine ends
   (a stop string matched), its call is cancelled. Back-pressure: above the stream's high-water mark
   the engine calls are paused until it is writable again. */
#include "sidecar/flow/output.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "sidecar/flow/media.h"
#include "sidecar/flow/stages.h"
#include "sidecar/flow/validate.h"
#include "sidecar/metrics.h"

enum { QUEUE_HIGH_WATER = 256 << 10, MAX_ECHO = 64 << 20 };

static void show(struct kp_flow *f, const struct kp_event *ev)
{
	f->encoder->event(f->encoder_state, ev, &f->l->scratch_buf);
}

void kp_flow_emit(struct kp_flow *f, const struct kp_event *ev)
{
	if (f->schemas && ev->kind != KP_EV_USAGE) {
		kp_output_check_event(f->choices[ev->choice].check, ev);
	}
	show(f, ev);
}

/* length -1: as long as it takes (a streamed answer). */
static void send_head(struct kp_flow *f, kp_str type, int64_t length)
{
	struct kp_header headers[3 + KP_ID_HEADERS] = { { KP_S("content-type"), type },
		{ KP_S("cache-control"), KP_S("no-cache") },
		{ KP_S("x-accel-buffering"), KP_S("no") } };
	size_t n = 3 + kp_id_headers(f->api->dialect, f->turn.request_id, &headers[3]);
	f->has_head = true;
	kp_stream_respond(f->stream, 200, headers, n, length);
}

static void pause_all(struct kp_flow *f)
{
	f->is_paused = true;
	for (size_t i = 0; i < f->n_choices; i++) {
		if (f->choices[i].call) {
			f->choices[i].lane->engine->ops->pause(f->choices[i].call, true);
		}
	}
}

void kp_flow_flush(struct kp_flow *f)
{
	struct kp_buf *out = &f->l->scratch_buf;
	if (out->failed) {
		struct kp_err err;
		kp_err_set(&err, KP_RESOURCE_EXHAUSTED, "an answer of more than %zu bytes at once",
			out->max);
		kp_buf_reset(out);
		kp_flow_fail(f, &err);
		return;
	}
	if (out->n == 0 || !f->stream) {
		kp_buf_reset(out);
		return;
	}
	if (!f->has_head) {
		send_head(f, kp_str_c(f->encoder->content_type),
			f->encoder->is_streamed ? -1 : (int64_t)out->n);
	}
	kp_stream_write(f->stream, kp_buf_str(out));
	kp_buf_reset(out);
	f->active_ns = kp_loop_now(f->l->loop);
	if (!f->is_paused && kp_stream_queued(f->stream) > QUEUE_HIGH_WATER) {
		pause_all(f);
	}
}

/* No choice is started again, and an engine that answers has what it was sent (lib/engine sees to it). */
static void release_media(struct kp_flow *f)
{
	bool is_needed = f->schemas != NULL;
	for (size_t i = 0; f->media && !is_needed && i < f->n_choices; i++) {
		is_needed = !f->choices[i].is_open;
	}
	if (f->media && !is_needed) {
		kp_flow_media_release(f->media, f->l);
	}
}

/* true: this was its begin. */
static bool open_choice(struct kp_choice *c)
{
	const struct kp_flow_prompt *p = c->prompt;
	if (c->is_open) {
		return false;
	}
	c->is_open = true;
	kp_flow_media_arrived(c);
	release_media(c->flow);
	struct kp_event ev = { .kind = KP_EV_ROLE, .choice = c->index };
	ev.prompt.usage = (struct kp_usage){ .prompt_tokens = (uint32_t)p->ids.n,
		.cached_tokens = p->cached_tokens };
	ev.prompt.ids = p->ids.p;
	ev.prompt.n_ids = p->ids.n;
	kp_flow_emit(c->flow, &ev);
	return true;
}

static int finish_choice(struct kp_choice *c, const struct kp_engine_delta *d, struct kp_err *err)
{
	struct kp_output_fault fault;
	struct kp_event ev = { .kind = KP_EV_FINISH, .choice = c->index };
	ev.finish.reason = d->finish;
	if (c->stop.matched >= 0) {
		ev.finish.reason = KP_FINISH_STOP;
		ev.finish.stop_text = kp_stop_text(c->flow->stops, c->stop.matched);
	} else if (d->has_matched_id) {
		ev.finish.has_stop_id = true;
		ev.finish.stop_id = d->matched_id;
	}
	ev.finish.tool_calls =
		c->parser && kp_parser_n_calls(c->parser) && ev.finish.reason == KP_FINISH_STOP;
	c->is_done = true;
	if (kp_flow_judge(c, &ev, &fault, err)) {
		return -1;
	}
	if (!c->is_again) {
		show(c->flow, &ev);
	}
	return 0;
}

/* An event of n positions, each with as many alternatives as were asked for. */
static int emit_positions(struct kp_choice *c, enum kp_event_kind kind,
	const struct kp_token_logprob *positions, size_t n, int32_t most, struct kp_err *err)
{
	struct kp_flow *f = c->flow;
	const struct kp_tokenizer *t = f->revision->text->tokenizer;
	size_t total = n, chars = c->n_chars;
	for (size_t i = 0; i < n; i++) {
		total += positions[i].n_top;
	}
	struct kp_event_logprob *items = kp_try_malloc(total * sizeof(*items)), *tops = items + n;
	if (!items) {
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "out of memory for log-probabilities");
	}
	for (size_t i = 0; i < n; i++) {
		const struct kp_token_logprob *p = &positions[i];
		uint32_t n_top = KP_MIN(p->n_top, (uint32_t)most);
		items[i] = (struct kp_event_logprob){ .bytes = kp_tokenizer_token_bytes(t, p->id),
			.logprob = p->logprob,
			.id = p->id,
			.is_absent = p->is_absent,
			.top = tops,
			.n_top = n_top,
			.text_offset = (uint32_t)chars };
		chars += kp_utf8_count(items[i].bytes);
		for (uint32_t k = 0; k < n_top; k++) {
			*tops++ = (struct kp_event_logprob){ .bytes = kp_tokenizer_token_bytes(
								     t, p->top[k].id),
				.logprob = p->top[k].logprob,
				.id = p->top[k].id };
		}
	}
	struct kp_event ev = { .kind = kind, .choice = c->index };
	ev.logprobs.items = items;
	ev.logprobs.n = n;
	kp_flow_emit(f, &ev);
	kp_mem_free(items);
	return 0;
}

int kp_flow_emit_logprobs(struct kp_choice *c, const struct kp_engine_delta *d, size_t from,
	size_t n, struct kp_err *err)
{
	return emit_positions(
		c, KP_EV_LOGPROBS, &d->logprobs[from], n, c->flow->turn.sampling.logprobs, err);
}

void kp_flow_emit_ids(struct kp_choice *c, const kp_id *ids, size_t n)
{
	if (c->flow->turn.want_ids && n) {
		struct kp_event ev = { .kind = KP_EV_IDS, .choice = c->index };
		ev.ids.p = ids;
		ev.ids.n = n;
		kp_flow_emit(c->flow, &ev);
	}
}

/* The prompt's text; of ids what they decode to. */
static int echo_text(struct kp_choice *c, struct kp_buf *text, struct kp_err *err)
{
	const struct kp_flow_prompt *p = c->prompt;
	if (p->text.s.p) {
		kp_buf_add(text, p->text.s);
		return 0;
	}
	return kp_tokenizer_decode(c->flow->revision->text->tokenizer, p->ids.p, p->ids.n,
		c->flow->turn.sampling.skip_special_tokens, text, err);
}

/* What a choice shows of its prompt, once: log-probabilities, and with `echo` the text behind them. */
static int emit_prompt(struct kp_choice *c, const struct kp_engine_delta *d, struct kp_err *err)
{
	const struct kp_turn *turn = &c->flow->turn;
	enum kp_event_kind kind = turn->echo ? KP_EV_LOGPROBS : KP_EV_PROMPT_LOGPROBS;
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, MAX_ECHO);
	if (turn->sampling.set & KP_SET_PROMPT_LOGPROBS && d->prompt_logprobs &&
		emit_positions(c, kind, d->prompt_logprobs, d->n_prompt_logprobs,
			turn->sampling.prompt_logprobs, err)) {
		return -1;
	}
	if (!turn->echo) {
		return 0;
	}
	if (echo_text(c, &text, err)) {
		return -1;
	}
	show(c->flow, /* the model did not write it: nothing to check */
		&(struct kp_event){
			.kind = KP_EV_TEXT, .choice = c->index, .text = kp_buf_str(&text) });
	c->n_chars += (uint32_t)kp_utf8_count(kp_buf_str(&text));
	return kp_buf_finish(&text, "prompt", err);
}

static bool has_id(const kp_id *ids, size_t n, kp_id id)
{
	for (size_t i = 0; i < n; i++) {
		if (ids[i] == id) {
			return true;
		}
	}
	return false;
}

/* The token that ends a choice, a stop id of the client's or the model's own end, counts but is
 * text only when asked for, as in vLLM. Engines choose neither before min_tokens. */
bool kp_flow_is_shown(const struct kp_flow *f, kp_id id)
{
	const struct kp_sampling *s = &f->turn.sampling;
	const struct kp_tokenizer_info *t = f->revision->text->info;
	return s->include_stop_str || !(has_id(s->stop_ids, s->n_stop_ids, id) ||
					      (!s->ignore_eos && has_id(t->eog, t->n_eog, id)));
}

/* The delta's ids through detokenizer and stop strings into `text`; *ret_n: how many ids were used
 * (all, unless a stop string matched). */
static void detokenize(
	struct kp_choice *c, const struct kp_engine_delta *d, struct kp_buf *text, size_t *ret_n)
{
	struct kp_flow *f = c->flow;
	struct kp_err ignored;
	KP_AUTO(buf) struct kp_buf raw;
	kp_buf_init(&raw, 1 << 20);
	*ret_n = d->n_ids;
	for (size_t i = 0; i < d->n_ids; i++) {
		if (kp_flow_is_shown(f, d->ids[i]) &&
			kp_detok_feed(&c->detok, d->ids[i], f->stops ? &raw : text, &ignored)) {
			/* A row that pads the model's vocabulary: no text, as in the reference. */
		}
		c->n_tokens++;
		f->completion_tokens++;
		if (!f->stops) {
			continue;
		}
		bool hit = kp_stop_feed(
			&c->stop, kp_buf_str(&raw), f->turn.sampling.include_stop_str, text);
		kp_buf_reset(&raw);
		if (hit) {
			*ret_n = i + 1;
			return;
		}
	}
}

/* Ids that neither the engine's model nor the tokenizer has. */
static int check_ids(const struct kp_choice *c, const struct kp_engine_delta *d, struct kp_err *err)
{
	const struct kp_endpoint *e = c->lane->endpoint;
	uint32_t vocab_size = atomic_load_explicit(&e->vocab_size, memory_order_relaxed);
	size_t known = KP_MAX(c->flow->revision->text->info->vocab_size, (size_t)vocab_size);
	for (size_t i = 0; i < d->n_ids; i++) {
		if (d->ids[i] >= known) {
			return kp_err_set(err, KP_INTERNAL,
				"engine `%s`: sent token id %u, but its vocabulary has %zu",
				e->address, d->ids[i], known);
		}
	}
	return 0;
}

/* What the detokenizer and the stop strings held back, at the engine's end of the choice. */
static void release_held(struct kp_choice *c, struct kp_buf *text)
{
	KP_AUTO(buf) struct kp_buf tail;
	kp_buf_init(&tail, 64);
	kp_detok_finish(&c->detok, &tail);
	if (!kp_stop_feed(
		    &c->stop, kp_buf_str(&tail), c->flow->turn.sampling.include_stop_str, text)) {
		kp_stop_finish(&c->stop, text);
	}
}

static void first_token(struct kp_flow *f)
{
	if (!f->first_ns) {
		f->first_ns = kp_now_ns();
		kp_metrics_first_token(f->l->gateway, f);
	}
}

/* Events of one delta. */
static int emit_delta(struct kp_choice *c, const struct kp_engine_delta *d, struct kp_err *err)
{
	struct kp_flow *f = c->flow;
	KP_AUTO(buf) struct kp_buf text;
	size_t n_used;
	kp_buf_init(&text, 1 << 20);
	detokenize(c, d, &text, &n_used);
	if (d->finish != KP_FINISH_NONE && c->stop.matched < 0) {
		release_held(c, &text);
	}
	bool has_logprobs = f->turn.want_logprobs && d->logprobs && n_used;
	kp_flow_emit_ids(c, d->ids, n_used);
	if (has_logprobs && kp_flow_emit_logprobs(c, d, 0, n_used, err)) {
		return -1;
	}
	if (text.n || has_logprobs || (f->turn.want_ids && n_used)) {
		kp_flow_emit(f, &(struct kp_event){ .kind = KP_EV_TEXT,
					.choice = c->index,
					.text = kp_buf_str(&text) });
		c->n_chars += (uint32_t)kp_utf8_count(kp_buf_str(&text));
	}
	bool is_over = c->stop.matched >= 0 || d->finish != KP_FINISH_NONE;
	return kp_buf_finish(&text, "text of one engine message", err) ||
			       (is_over && finish_choice(c, d, err))
		       ? -1
		       : 0;
}

static int emit_parsed(struct kp_choice *c, const struct kp_engine_delta *d, struct kp_err *err)
{
	if (kp_flow_parse(c, d, err)) {
		return -1;
	}
	bool is_over = c->stop.matched >= 0 || d->finish != KP_FINISH_NONE;
	return is_over ? finish_choice(c, d, err) : 0;
}

void kp_flow_delta(struct kp_choice *c, const struct kp_engine_delta *d)
{
	struct kp_flow *f = c->flow;
	struct kp_err err;
	if (f->is_over || c->is_done) {
		return;
	}
	if (check_ids(c, d, &err)) {
		kp_choice_failed(c, &err);
		return;
	}
	if (d->finish == KP_FINISH_ABORT &&
		(f->api->dialect == KP_DIALECT_ANTHROPIC || f->turn.response)) {
		/* Chats have a word for it; here it would look like an end. */
		kp_err_set(&err, KP_ABORTED, "the engine aborted the answer");
		kp_choice_failed(c, &err);
		return;
	}
	first_token(f);
	c->heard_ns = kp_loop_now(f->l->loop);
	c->prompt->cached_tokens = KP_MAX(c->prompt->cached_tokens, d->cached_tokens);
	bool begins = open_choice(c);
	struct kp_engine_delta shown = *d;
	if (f->turn.echo_only) { /* engines make one token at least */
		shown.n_ids = 0;
		shown.logprobs = NULL;
	}
	if ((begins && emit_prompt(c, d, &err)) ||
		(c->parser ? emit_parsed(c, &shown, &err) : emit_delta(c, &shown, &err)) ||
		kp_flow_judge_early(c, &err)) {
		kp_flow_fail(f, &err);
		return;
	}
	if (f->encoder->is_streamed) {
		kp_flow_flush(f);
	}
	if (c->is_done && d->finish == KP_FINISH_NONE &&
		!f->is_over) { /* ended here: the engine would go on */
		kp_choice_stop(c);
		kp_choice_over(c);
	}
}

void kp_choice_over(struct kp_choice *c)
{
	if (c->is_again) {
		kp_flow_again(c);
	} else if (--c->flow->choices_left == 0) {
		kp_flow_complete(c->flow);
	}
}

static void over(struct kp_flow *f)
{
	f->is_over = true;
	kp_timer_stop(f->l->loop, &f->timer);
	kp_flow_ended(f, 200);
	if (f->stream) {
		kp_stream_finish(f->stream);
	}
}

void kp_flow_reply(struct kp_flow *f, kp_str json)
{
	kp_str type = KP_S("application/json");
	if (f->stream) {
		send_head(f, type, (int64_t)json.n);
		kp_stream_write(f->stream, json);
	}
	over(f);
}

static void finish(struct kp_flow *f)
{
	f->encoder->end(f->encoder_state, &f->l->scratch_buf);
	kp_flow_flush(f);
	if (!f->is_over) {
		over(f);
	}
}

static void tell_usage(struct kp_flow *f)
{
	struct kp_event ev = { .kind = KP_EV_USAGE };
	for (size_t i = 0; i < f->n_prompts; i++) {
		ev.usage.prompt_tokens += (uint32_t)f->prompts[i].ids.n;
		ev.usage.cached_tokens += f->prompts[i].cached_tokens;
	}
	ev.usage.prompt_tokens += f->earlier.prompt_tokens;
	ev.usage.cached_tokens += f->earlier.cached_tokens;
	ev.usage.completion_tokens = f->completion_tokens;
	ev.usage.reasoning_tokens = f->reasoning_tokens;
	kp_flow_emit(f, &ev);
}

void kp_flow_cut(struct kp_flow *f)
{
	for (size_t i = 0; i < f->n_prompts; i++) { /* no engine has read it */
		f->prompts[i].ids.n = 0;
		f->prompts[i].cached_tokens = 0;
	}
	tell_usage(f);
	f->stages = f->api->ending;
	f->stage = SIZE_MAX; /* the caller goes on with the next one */
}

void kp_flow_complete(struct kp_flow *f)
{
	tell_usage(f);
	if (f->api->ending) {
		kp_flow_run_stages(f, f->api->ending);
	} else {
		finish(f);
	}
}

enum kp_step kp_stage_end(struct kp_flow *f, struct kp_err *err)
{
	(void)err;
	finish(f);
	return KP_STEP_NEXT;
}
