/* DESIGN: one struct per generation (kp_engine_call), checked message by message: the counters and
   flags here are what is believed of an engine, nothing it sends is passed on unchecked. A message
   makes at most one call of the sink, and that call is the last thing done, because the sink may
   cancel.

   Which ids are new: a chunk's. The `complete` of a streamed choice repeats the last chunk's ids
   (and log-probabilities; the text of SGLang's protocol even allows all of them), so its own count
   only for a choice that had no chunk, which is how an answer that is not streamed looks. The same
   rule serves both, and every engine.

   Engines give more than was asked: SGLang reports as many alternatives for the prompt as for the
   output, and a matched stop id also for the model's own end. What nobody asked for is taken away
   here.

   Which process listens (remote.h): the channel holds calls back until it is told to admit its
   connection; those that wait then, and those that begin later, are compared with what it was
   admitted for. So ids never reach a process that was not asked, whatever happened in between.

   Questions (health, info, loads, tokenizer) are in remote_ask.c.

   Everything is on the loop's thread. The engine outlives its destruction until the last open call
   has ended. */
#include "engine/protocol.h"
#include "engine/check.h"
#include "engine/request.h"
#include "base/clock.h"
#include "base/mem.h"

static const int64_t ABORT_NS = 5 * KP_NS_PER_S; /* the most an Abort may take */

struct choice {
	bool has_chunk, is_finished;
};

struct kp_engine_call {
	struct kp_list link; /* e->calls */
	struct kp_remote *e;
	struct kp_grpc_call *grpc; /* NULL: never started, `refused` is scheduled */
	struct kp_engine_sink sink;
	void *user;
	struct kp_defer refused;
	struct kp_err refusal; /* with a reason: retryable */
	uint64_t text;         /* fingerprint of what made the ids, 0: not known */
	struct kp_asked asked;
	uint32_t n, n_finished;
	struct choice *choices; /* behind stop_ids */
	kp_str request_id;      /* behind them */
	kp_id stop_ids[];
};

void kp_remote_put(struct kp_remote *e)
{
	if (--e->n_open > 0 || !e->is_destroyed) {
		return;
	}
	kp_response_decoder_fini(&e->decoder);
	kp_buf_fini(&e->scratch);
	kp_free(&e->address);
	kp_mem_free(e);
}

/* --- errors --- */

void kp_remote_blame(const struct kp_remote *e, struct kp_err *err)
{
	if (!kp_str_has(kp_str_c(err->msg), kp_str_c(e->address))) { /* the channel names it too */
		kp_err_wrap(err, "engine `%s`", e->address);
	}
}

void kp_remote_map_status(const struct kp_remote *e, struct kp_err *status)
{
	if (kp_check_status(status, e->is_destroyed)) {
		kp_remote_blame(e, status);
	}
}

/* --- one generation --- */

static void end_call(struct kp_engine_call *c, const struct kp_err *status, bool retryable)
{
	struct kp_engine_sink sink = c->sink;
	void *user = c->user;
	struct kp_remote *e = c->e;
	struct kp_err copy = *status; /* may lie inside c */
	kp_loop_undefer(&c->refused);
	kp_list_del(&c->link);
	kp_mem_free(c);
	sink.end(user, &copy, retryable);
	kp_remote_put(e);
}

static void on_abort_answer(void *user, kp_str bytes)
{
	(void)user;
	(void)bytes;
}
static void on_abort_end(void *user, const struct kp_err *status, bool processed,
	const struct kp_header *trailers, size_t n_trailers)
{
	(void)status;
	(void)processed;
	(void)trailers;
	(void)n_trailers;
	kp_remote_put(user);
}
static const struct kp_grpc_call_ops abort_ops = { .message = on_abort_answer,
	.end = on_abort_end };

/* Our call is over before the engine said so: it shall stop. Nobody waits for the answer. */
static void abort_request(struct kp_engine_call *c)
{
	struct kp_remote *e = c->e;
	if (!e->protocol->abort || !e->channel || !c->grpc || c->n_finished == c->n ||
		c->request_id.n == 0) {
		return;
	}
	kp_buf_reset(&e->scratch);
	e->protocol->encode_abort(&e->scratch, c->request_id);
	e->n_open++;
	kp_grpc_start(e->channel, e->protocol->abort, NULL, 0, kp_buf_str(&e->scratch),
		kp_loop_now(e->base.loop) + ABORT_NS, false, &abort_ops, e);
}

/* The engine broke the protocol: it loses the call. */
static void accuse(struct kp_engine_call *c, struct kp_err *err)
{
	kp_remote_blame(c->e, err);
	kp_grpc_cancel(c->grpc);
	abort_request(c);
	end_call(c, err, false);
}

static int check_choice(
	const struct kp_engine_call *c, const struct kp_response *r, struct kp_err *err)
{
	if (r->kind == KP_RESPONSE_NOTHING) {
		return kp_err_set(
			err, KP_INTERNAL, "sent a message with neither chunk nor complete");
	}
	if (r->choice >= c->n) {
		return kp_err_set(
			err, KP_INTERNAL, "sent choice %u, but %u were asked for", r->choice, c->n);
	}
	if (c->choices[r->choice].is_finished) {
		return kp_err_set(
			err, KP_INTERNAL, "sent more for choice %u after its end", r->choice);
	}
	/* vLLM's own server makes this a 500 too; whatever came before it is no answer. */
	if (r->kind == KP_RESPONSE_COMPLETE && c->e->protocol->finish(r) == KP_FINISH_ERROR) {
		return kp_err_set(err, KP_INTERNAL, "says that it failed at choice %u", r->choice);
	}
	return 0;
}

/* Lists that do not belong to the ids beside them cannot be shown to anybody. */
static int check_lists(
	const struct kp_engine_call *c, const struct kp_response *r, struct kp_err *err)
{
	uint32_t vocab_size = c->e->vocab_size;
	if (r->n_logprobs && r->n_logprobs != r->n_ids) {
		return kp_err_set(err, KP_INTERNAL,
			"sent log-probabilities of %zu tokens with %zu tokens", r->n_logprobs,
			r->n_ids);
	}
	if (kp_check_prompt_logprobs(r->n_prompt_logprobs, c->asked.n_prompt, err) < 0 ||
		kp_check_logprobs(r->logprobs, r->n_logprobs, r->ids, vocab_size, err) < 0) {
		return -1;
	}
	return kp_check_logprobs(r->prompt_logprobs, r->n_prompt_logprobs, NULL, vocab_size, err);
}

static int check_tokens(
	const struct kp_engine_call *c, const struct kp_response *r, struct kp_err *err)
{
	if (kp_check_ids(r->ids, r->n_ids, c->e->vocab_size, err) < 0) {
		return -1;
	}
	return KP_UNLIKELY(r->n_logprobs || r->n_prompt_logprobs) ? check_lists(c, r, err) : 0;
}

static void on_message(void *user, kp_str bytes)
{
	struct kp_engine_call *c = user;
	struct kp_remote *e = c->e;
	struct kp_response r;
	struct kp_err err = KP_ERR_INIT;
	if (!kp_grpc_is_sent(c->grpc)) {
		kp_err_set(&err, KP_INTERNAL, "answered before it had the request");
		accuse(c, &err);
		return;
	}
	if (kp_response_decode(&e->decoder, &e->protocol->response, bytes, &r, &err) < 0 ||
		check_choice(c, &r, &err) < 0) {
		accuse(c, &err);
		return;
	}
	struct choice *choice = &c->choices[r.choice];
	struct kp_engine_delta d = { .choice = r.choice,
		.prompt_tokens = r.prompt_tokens,
		.cached_tokens = r.cached_tokens };
	if (!choice->has_chunk || r.kind == KP_RESPONSE_CHUNK) {
		if (check_tokens(c, &r, &err) < 0) {
			accuse(c, &err);
			return;
		}
		d.ids = r.ids;
		d.n_ids = r.n_ids;
		d.logprobs = r.n_logprobs ? r.logprobs : NULL;
		d.prompt_logprobs = r.prompt_logprobs;
		d.n_prompt_logprobs = r.n_prompt_logprobs;
	}
	if (r.kind == KP_RESPONSE_CHUNK) {
		choice->has_chunk = true;
	} else {
		choice->is_finished = true;
		c->n_finished++;
		d.finish = e->protocol->finish(&r);
		d.has_matched_id = r.has_matched_id;
		d.matched_id = r.matched_id;
	}
	kp_asked_trim(&c->asked, &d);
	c->sink.delta(c->user, &d);
}

static void on_end(void *user, const struct kp_err *status, bool processed,
	const struct kp_header *trailers, size_t n_trailers)
{
	struct kp_engine_call *c = user;
	(void)trailers;
	(void)n_trailers;
	struct kp_err err = KP_ERR_INIT;
	if (c->n_finished == c->n) {
		/* Everything asked for has arrived; how the call went on to end no longer matters.
		 */
		end_call(c, &err, false);
	} else if (status->code == KP_OK) {
		kp_err_set(&err, KP_DATA_LOSS, "ended the stream without a finish");
		kp_remote_blame(c->e, &err);
		end_call(c, &err, false);
	} else {
		err = *status;
		if (status->code == KP_DEADLINE_EXCEEDED) {
			abort_request(c);
		}
		kp_remote_map_status(c->e, &err);
		end_call(c, &err, !processed);
	}
}

static const struct kp_grpc_call_ops call_ops = { .message = on_message, .end = on_end };

static void on_refused(struct kp_defer *d)
{
	struct kp_engine_call *c = KP_CONTAINER(d, struct kp_engine_call, refused);
	end_call(c, &c->refusal, c->refusal.reason != NULL);
}

static bool is_stale(const struct kp_remote *e, const struct kp_engine_call *c)
{
	return e->connected && c->text && c->text != e->text;
}

/* `end` comes at the end of this iteration. */
static void refuse_stale(struct kp_engine_call *c)
{
	struct kp_remote *e = c->e;
	kp_err_set(&c->refusal, KP_UNAVAILABLE,
		e->text ? "engine `%s` serves with another tokenizer than the one that made the ids"
			: "engine `%s` was taken out before it had the request",
		e->address);
	c->refusal.reason = KP_ENGINE_STALE;
	kp_loop_defer(e->base.loop, &c->refused, on_refused);
}

static void on_connected(void *user)
{
	struct kp_remote *e = user;
	e->connected_ns = kp_now_ns();
	e->connected(e->connected_user);
}

void kp_engine_serves(struct kp_engine *base, uint64_t text, int64_t asked_ns)
{
	struct kp_remote *e = KP_CONTAINER(base, struct kp_remote, base);
	if (kp_grpc_channel_state(e->channel) != KP_GRPC_READY || asked_ns <= e->connected_ns) {
		return;
	}
	if (kp_grpc_channel_is_admitted(e->channel)) {
		if (text && e->text != text) {
			kp_grpc_channel_renew(e->channel);
		}
		return;
	}
	e->text = text;
	kp_list_each (node, &e->calls) {
		struct kp_engine_call *c = KP_CONTAINER(node, struct kp_engine_call, link);
		if (c->grpc && kp_grpc_is_waiting(c->grpc) && is_stale(e, c)) {
			kp_grpc_cancel(kp_steal(c->grpc));
			refuse_stale(c);
		}
	}
	kp_grpc_channel_admit(e->channel);
}

static struct kp_engine_call *start(struct kp_engine *base, const struct kp_engine_request *r,
	const struct kp_engine_sink *sink, void *user)
{
	struct kp_remote *e = KP_CONTAINER(base, struct kp_remote, base);
	const struct kp_sampling *s = r->sampling;
	kp_assert_on(e->base.loop);
	uint32_t n = KP_MAX(s->n, 1u);
	bool n_ok = n <= KP_ENGINE_MAX_CHOICES;
	size_t stop_bytes = s->n_stop_ids * sizeof(kp_id);
	size_t choice_bytes = (n_ok ? n : 0) * sizeof(struct choice);
	struct kp_engine_call *c =
		kp_xcalloc(1, sizeof(*c) + stop_bytes + choice_bytes + r->request_id.n);
	*c = (struct kp_engine_call){
		.e = e, .sink = *sink, .user = user, .n = n, .text = r->text_fingerprint
	};
	kp_list_push(&e->calls, &c->link);
	c->asked = kp_asked_of(r, c->stop_ids);
	c->choices = (struct choice *)(c->stop_ids + s->n_stop_ids);
	if (r->request_id.n) {
		char *id = (char *)c->choices + choice_bytes;
		memcpy(id, r->request_id.p, r->request_id.n);
		c->request_id = kp_str_n(id, r->request_id.n);
	}
	e->n_open++;
	kp_buf_reset(&e->scratch);
	if (!n_ok) {
		kp_err_set(&c->refusal, KP_INVALID_ARGUMENT, "n is %u, at most %d", n,
			KP_ENGINE_MAX_CHOICES);
	} else if (kp_grpc_channel_is_admitted(e->channel) && is_stale(e, c)) {
		refuse_stale(c);
		return c;
	} else if (e->protocol->encode(&e->scratch, r, &c->refusal) == 0) {
		kp_grpc_channel_connect(
			e->channel); /* who calls us believes that the engine is up */
		c->grpc = kp_grpc_start_long(e->channel, e->protocol->generate,
			kp_buf_str(&e->scratch), kp_request_tail(r), r->deadline_ns, false,
			&call_ops, c);
		return c;
	}
	kp_loop_defer(e->base.loop, &c->refused, on_refused);
	return c;
}

static void cancel(struct kp_engine_call *c)
{
	struct kp_remote *e = c->e;
	if (c->grpc) {
		kp_grpc_cancel(c->grpc);
		abort_request(c);
	}
	kp_loop_undefer(&c->refused);
	kp_list_del(&c->link);
	kp_mem_free(c);
	kp_remote_put(e);
}

static void pause_call(struct kp_engine_call *c, bool paused)
{
	if (c->grpc) {
		kp_grpc_pause(c->grpc, paused);
	}
}

static void destroy(struct kp_engine *base)
{
	struct kp_remote *e = KP_CONTAINER(base, struct kp_remote, base);
	e->is_destroyed = true;
	kp_grpc_channel_destroy(kp_steal(e->channel));
	kp_remote_put(e);
}

static uint64_t connections(const struct kp_engine *base)
{
	const struct kp_remote *e = KP_CONTAINER(base, struct kp_remote, base);
	return kp_grpc_channel_connections(e->channel);
}

static const struct kp_engine_ops ops = {
	.destroy = destroy,
	.start = start,
	.cancel = cancel,
	.pause = pause_call,
	.connections = connections,
	.health = kp_remote_health,
	.info = kp_remote_info,
	.loads = kp_remote_loads,
	.tokenizer = kp_remote_tokenizer,
};

struct kp_engine *kp_remote_create(struct kp_loop *loop, const char *address,
	const struct kp_engine_opts *o, const struct kp_protocol *protocol)
{
	struct kp_remote *e = kp_new(struct kp_remote);
	e->base = (struct kp_engine){ .ops = &ops, .loop = loop };
	e->protocol = protocol;
	e->address = kp_xstrdup(address);
	e->vocab_size = o ? o->vocab_size : 0;
	e->n_open = 1; /* its owner's */
	kp_response_decoder_init(&e->decoder);
	kp_buf_init(&e->scratch, 64 << 20);
	kp_list_init(&e->calls);
	e->connected = o ? o->connected : NULL;
	e->connected_user = o ? o->user : NULL;
	const struct kp_grpc_opts grpc = { .address = e->address,
		.tls = o ? o->tls : NULL,
		.connected = e->connected ? on_connected : NULL,
		.user = e,
		.max_message_bytes = 64 << 20 };
	e->channel = kp_grpc_channel_create(loop, &grpc);
	return &e->base;
}
