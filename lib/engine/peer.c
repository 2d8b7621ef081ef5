/* DESIGN: one struct per generation (kp_engine_call), checked message by message as remote.c does it
   with engines: an owner is trusted with the request, not with what it sends back. A message makes
   at most one call of the sink, and that call is the last thing done, because the sink may cancel.

   Questions (health, info, loads, tokenizer) are in peer_ask.c.

   Everything is on the loop's thread. The engine outlives its destruction until the last open call
   has ended. */
#include "engine/peer.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core/identity.h"
#include "engine/check.h"
#include "engine/peer_engine.h"

#define SILENCE_NS  (500 * KP_NS_PER_MS)
#define PATIENCE_NS KP_NS_PER_S
#define CONNECT_NS  (1500 * KP_NS_PER_MS)

enum { WINDOW = 256 << 10 }; /* tokens are small: this is tens of thousands of them */

struct kp_engine_call {
	struct kp_peer *e;
	struct kp_grpc_call *grpc; /* NULL: never started, `refused` is scheduled */
	struct kp_engine_sink sink;
	void *user;
	struct kp_defer refused;
	struct kp_err refusal;
	struct kp_asked asked;
	uint64_t n_left; /* tokens that may still come */
	bool is_finished;
	kp_id stop_ids[];
};

void kp_peer_put(struct kp_peer *e)
{
	if (--e->n_open > 0 || !e->is_destroyed) {
		return;
	}
	kp_peer_response_decoder_fini(&e->decoder);
	kp_buf_fini(&e->scratch);
	kp_free(&e->id);
	kp_free(&e->engine);
	kp_free(&e->address);
	kp_mem_free(e);
}

/* --- the end of a call --- */

void kp_peer_blame(const struct kp_peer *e, struct kp_err *err)
{
	if (kp_str_has(kp_str_c(err->msg), kp_str_c(e->address))) {
		kp_err_wrap(err, "gateway `%s`", e->id); /* the owner named the engine */
	} else {
		kp_err_wrap(err, "gateway `%s`, engine `%s`", e->id, e->address);
	}
}

static void read_load(
	struct kp_peer *e, const struct kp_header *trailers, size_t n, struct kp_peer_end *ret)
{
	kp_str text = kp_header_get(trailers, n, KP_S(KP_PEER_TRAILER_LOAD));
	struct kp_err ignored;
	if (!text.p || kp_peer_parse_load(text, &ret->load, &ignored) < 0) {
		return;
	}
	ret->has_load = true;
	ret->load.at_ns = kp_loop_now(e->base.loop);
	if (e->load && !e->is_destroyed) {
		e->load(e->user, &ret->load);
	}
}

/* An owner that does not let us in (whose certificate it does not take) never got to its engine. */
static bool is_shut_out(const struct kp_err *status)
{
	return status->code == KP_PERMISSION_DENIED || status->code == KP_UNAUTHENTICATED;
}

void kp_peer_read_end(struct kp_peer *e, const struct kp_err *status, bool processed,
	const struct kp_header *trailers, size_t n_trailers, struct kp_peer_end *ret)
{
	kp_str word = kp_header_get(trailers, n_trailers, KP_S(KP_PEER_TRAILER_REASON));
	const char *reason = status->code == KP_OK ? NULL : kp_peer_reason(word);
	*ret = (struct kp_peer_end){ .status = *status };
	read_load(e, trailers, n_trailers, ret);
	if (reason || is_shut_out(status)) {
		ret->is_retryable = true;
		if (status->code != KP_RESOURCE_EXHAUSTED) {
			ret->status.code = KP_UNAVAILABLE;
		}
		kp_peer_blame(e, &ret->status);
		ret->status.reason = reason ? reason : "refused";
		return;
	}
	ret->is_retryable = !processed;
	if (kp_check_status(&ret->status, e->is_destroyed)) {
		kp_peer_blame(e, &ret->status);
	}
}

/* --- one generation --- */

static void end_call(struct kp_engine_call *c, const struct kp_err *status, bool retryable)
{
	struct kp_engine_sink sink = c->sink;
	void *user = c->user;
	struct kp_peer *e = c->e;
	struct kp_err copy = *status; /* may lie inside c */
	kp_loop_undefer(&c->refused);
	kp_mem_free(c);
	sink.end(user, &copy, retryable);
	kp_peer_put(e);
}

static int check_delta(
	const struct kp_engine_call *c, const struct kp_engine_delta *d, struct kp_err *err)
{
	uint32_t vocab_size = c->e->vocab_size;
	if (c->is_finished) {
		return kp_err_set(err, KP_INTERNAL, "sent more after the end");
	}
	if (d->finish == KP_FINISH_ERROR) {
		return kp_err_set(err, KP_INTERNAL, "called a failure an answer");
	}
	if (d->n_ids > c->n_left) {
		return kp_err_set(err, KP_INTERNAL, "sent more tokens than were asked for");
	}
	if (kp_check_ids(d->ids, d->n_ids, vocab_size, err) < 0) {
		return -1;
	}
	if (KP_LIKELY(!d->logprobs && !d->prompt_logprobs)) {
		return 0;
	}
	if (kp_check_prompt_logprobs(d->n_prompt_logprobs, c->asked.n_prompt, err) < 0 ||
		kp_check_logprobs(
			d->logprobs, d->logprobs ? d->n_ids : 0, d->ids, vocab_size, err) < 0) {
		return -1;
	}
	return kp_check_logprobs(d->prompt_logprobs, d->n_prompt_logprobs, NULL, vocab_size, err);
}

static void on_message(void *user, kp_str bytes)
{
	struct kp_engine_call *c = user;
	struct kp_engine_delta d;
	struct kp_err err = KP_ERR_INIT;
	bool is_early = !kp_grpc_is_sent(c->grpc);
	if (is_early) {
		kp_err_set(&err, KP_INTERNAL, "answered before it had the request");
	}
	if (is_early || kp_peer_decode_response(&c->e->decoder, bytes, &d, &err) < 0 ||
		check_delta(c, &d, &err) < 0) { /* it broke the protocol: it loses the call */
		kp_peer_blame(c->e, &err);
		kp_grpc_cancel(c->grpc);
		end_call(c, &err, false);
		return;
	}
	c->n_left -= d.n_ids;
	c->is_finished = d.finish != KP_FINISH_NONE;
	kp_asked_trim(&c->asked, &d);
	c->sink.delta(c->user, &d);
}

static void on_end(void *user, const struct kp_err *status, bool processed,
	const struct kp_header *trailers, size_t n_trailers)
{
	struct kp_engine_call *c = user;
	struct kp_peer_end end;
	kp_peer_read_end(c->e, status, processed, trailers, n_trailers, &end);
	if (c->is_finished) {
		/* All has arrived; how the call went on to end no longer matters. */
		end.status = KP_ERR_INIT;
		end.is_retryable = false;
	} else if (status->code == KP_OK) {
		kp_err_set(&end.status, KP_DATA_LOSS, "ended the stream without a finish");
		kp_peer_blame(c->e, &end.status);
	}
	end_call(c, &end.status, end.is_retryable);
}

static const struct kp_grpc_call_ops call_ops = { .message = on_message, .end = on_end };

static void on_refused(struct kp_defer *d)
{
	struct kp_engine_call *c = KP_CONTAINER(d, struct kp_engine_call, refused);
	end_call(c, &c->refusal, false);
}

static struct kp_engine_call *start(struct kp_engine *base, const struct kp_engine_request *r,
	const struct kp_engine_sink *sink, void *user)
{
	struct kp_peer *e = KP_CONTAINER(base, struct kp_peer, base);
	kp_assert_on(e->base.loop);
	struct kp_engine_call *c =
		kp_xcalloc(1, sizeof(*c) + r->sampling->n_stop_ids * sizeof(kp_id));
	*c = (struct kp_engine_call){ .e = e,
		.sink = *sink,
		.user = user,
		.n_left = r->sampling->set & KP_SET_MAX_TOKENS ? r->sampling->max_tokens
							       : UINT64_MAX };
	c->asked = kp_asked_of(r, c->stop_ids);
	e->n_open++;
	kp_buf_reset(&e->scratch);
	if (kp_peer_encode_generate(
		    &e->scratch, r, kp_str_c(e->engine), kp_str_c(e->address), &c->refusal) < 0) {
		kp_loop_defer(e->base.loop, &c->refused, on_refused);
		return c;
	}
	kp_grpc_channel_connect(e->channel); /* who calls us believes that the owner is up */
	c->grpc = kp_grpc_start_long(e->channel, KP_PEER_METHOD("Generate"),
		kp_buf_str(&e->scratch), r->media ? r->media->pixels.bytes : KP_STR_NULL,
		r->deadline_ns, false, &call_ops, c);
	return c;
}

static void cancel(struct kp_engine_call *c)
{
	struct kp_peer *e = c->e;
	if (c->grpc) {
		kp_grpc_cancel(c->grpc);
	}
	kp_loop_undefer(&c->refused);
	kp_mem_free(c);
	kp_peer_put(e);
}

static void pause_call(struct kp_engine_call *c, bool paused)
{
	if (c->grpc) {
		kp_grpc_pause(c->grpc, paused);
	}
}

/* --- the engine --- */

static void destroy(struct kp_engine *base)
{
	struct kp_peer *e = KP_CONTAINER(base, struct kp_peer, base);
	e->is_destroyed = true;
	kp_grpc_channel_destroy(kp_steal(e->channel));
	kp_peer_put(e);
}

static uint64_t connections(const struct kp_engine *base)
{
	const struct kp_peer *e = KP_CONTAINER(base, struct kp_peer, base);
	return kp_grpc_channel_connections(e->channel);
}

static const struct kp_engine_ops ops = {
	.destroy = destroy,
	.start = start,
	.cancel = cancel,
	.pause = pause_call,
	.connections = connections,
	.health = kp_peer_health,
	.info = kp_peer_info,
	.loads = kp_peer_loads,
	.tokenizer = kp_peer_tokenizer,
};

/* Ids are unique within a namespace only: the owner must be of the engine's, "default/demo". */
static int check_owner(void *user, const kp_str *names, size_t n, struct kp_err *err)
{
	const struct kp_peer *e = user;
	kp_str ns, rest = kp_str_c(e->engine);
	(void)kp_str_split(&rest, '/', &ns);
	return kp_identity_check_namespace(names, n, ns, err);
}

struct kp_engine *kp_engine_peer_create(struct kp_loop *loop, const struct kp_engine_peer_opts *o)
{
	struct kp_peer *e = kp_new(struct kp_peer);
	e->base = (struct kp_engine){ .ops = &ops, .loop = loop };
	e->id = kp_xstrdup(o->id);
	e->engine = kp_xstrdup(o->engine);
	e->address = kp_xstrdup(o->address);
	e->vocab_size = o->vocab_size;
	e->load = o->load;
	e->user = o->user;
	e->n_open = 1; /* its owner's */
	kp_peer_response_decoder_init(&e->decoder);
	kp_buf_init(&e->scratch, KP_PEER_MAX_MESSAGE);
	const struct kp_grpc_opts grpc = { .address = o->peer,
		.tls = o->tls,
		.tls_name = o->tls ? e->id : NULL,
		.check_names = check_owner,
		.user = e,
		.max_message_bytes = KP_PEER_MAX_MESSAGE,
		.connect_timeout_ns = CONNECT_NS,
		.keepalive_time_ns = SILENCE_NS,
		.keepalive_timeout_ns = PATIENCE_NS,
		.keepalive_always = true,
		.stream_window_bytes = WINDOW };
	e->channel = kp_grpc_channel_create(loop, &grpc);
	return &e->base;
}

void kp_engine_peer_set_tls(struct kp_engine *base, struct kp_tls_context *tls)
{
	struct kp_peer *e = KP_CONTAINER(base, struct kp_peer, base);
	KP_BUG_ON(base->ops != &ops);
	kp_grpc_channel_set_tls(e->channel, tls);
}
