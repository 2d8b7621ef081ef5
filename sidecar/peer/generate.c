/* DESIGN: one struct per forwarded generation, between a call of the peer port and a call of the
   loop's lane to the engine. Either may end first: the engine's end ends the gRPC call, the gRPC
   call's `closed` cancels what the engine still does; `closed` is the last of both and frees.

   Back-pressure: above the port's high-water mark the engine's stream is paused until the other
   gateway has taken what is queued. The engine's own callbacks never come from inside pause or
   cancel, nor does `closed` from inside a send, so nothing here is reentered. */
#include "base/clock.h"
#include "obs/log.h"
#include "sidecar/control/control.h"
#include "sidecar/peer/internal.h"

struct forward {
	struct kp_list link; /* server->forwards */
	struct kp_peer_server *s;
	struct kp_grpc_serving *serving; /* NULL: closed */
	struct kp_lane *lane;            /* while call runs */
	struct kp_engine_call *call;     /* NULL: over */
	int64_t heard_ns;                /* the engine's last message, or the start */
	bool has_answer, is_paused;
};

/* --- what a call's end says --- */

static enum kp_peer_result result_of(const struct kp_err *status)
{
	static const char *const words[] = { KP_PEER_DRAINING, KP_PEER_NOT_OWNER, KP_PEER_DOWN,
		KP_PEER_STALE, KP_PEER_OVERLOADED, KP_PEER_UNSUPPORTED };
	if (status->code == KP_OK) {
		return KP_PEER_RESULT_OK;
	}
	for (size_t i = 0; status->reason && i < KP_LEN(words); i++) {
		if (kp_str_eq(kp_str_c(status->reason), kp_str_c(words[i]))) {
			return (enum kp_peer_result)(KP_PEER_RESULT_DRAINING + i);
		}
	}
	return KP_PEER_RESULT_ERROR;
}

static void count(struct kp_peer_server *s, enum kp_peer_result result)
{
	kp_counter_add(s->results[result], 1);
}

/* The engine's call is over, by itself or cancelled; gives back what it held. */
static struct kp_endpoint *let_lane_go(struct forward *f)
{
	struct kp_lane *lane = kp_steal(f->lane);
	struct kp_endpoint *e = lane->endpoint;
	f->call = NULL;
	atomic_fetch_sub_explicit(&e->in_flight, 1, memory_order_relaxed);
	kp_lane_release(
		f->s->l, lane); /* the lane, and e with it, goes at the end of the iteration */
	return e;
}

/* --- the engine's side --- */

static void on_delta(void *user, const struct kp_engine_delta *d)
{
	struct forward *f = user;
	struct kp_buf *out = &f->s->out;
	f->heard_ns = kp_loop_now(f->s->l->loop);
	f->has_answer = true;
	kp_grpc_serving_drop(f->serving);
	kp_buf_reset(out);
	kp_peer_encode_response(out, d);
	if (!kp_buf_ok(out)) {
		struct kp_err err;
		kp_err_set(&err, KP_RESOURCE_EXHAUSTED, "an answer of more than %zu bytes at once",
			out->max);
		f->lane->engine->ops->cancel(f->call);
		kp_peer_end(f->serving, &err, let_lane_go(f));
		count(f->s, KP_PEER_RESULT_ERROR);
		return;
	}
	kp_grpc_serving_send(f->serving, kp_buf_str(out));
	if (!f->is_paused && kp_grpc_serving_queued(f->serving) > KP_PEER_HIGH_WATER) {
		f->is_paused = true;
		f->lane->engine->ops->pause(f->call, true);
	}
}

static void on_end(void *user, const struct kp_err *status, bool retryable)
{
	struct forward *f = user;
	struct kp_err err = *status;
	struct kp_endpoint *e = let_lane_go(f);
	if (!err.reason) {
		kp_endpoint_learn(e, &err);
	}
	if (err.code == KP_UNAVAILABLE) {
		kp_control_suspect(f->s->l->gateway->control, e);
	}
	/* Only what the engine certainly never took: a retry of anything else might make it twice. */
	err.reason = !retryable                          ? NULL
		     : err.reason                        ? err.reason
		     : err.code == KP_UNAVAILABLE        ? KP_PEER_DOWN
		     : err.code == KP_RESOURCE_EXHAUSTED ? KP_PEER_OVERLOADED
							 : NULL;
	kp_peer_end(f->serving, &err, e);
	count(f->s, result_of(&err));
}

static const struct kp_engine_sink sink = { on_delta, on_end };

/* --- the other gateway's side --- */

static void on_writable(void *user)
{
	struct forward *f = user;
	if (f->is_paused) {
		f->is_paused = false;
		if (f->call) {
			f->lane->engine->ops->pause(f->call, false);
		}
	}
}

static void on_closed(void *user, enum kp_stream_end why)
{
	struct forward *f = user;
	(void)why;
	if (f->call) {
		f->lane->engine->ops->cancel(f->call);
		let_lane_go(f);
		count(f->s, KP_PEER_RESULT_GONE);
	}
	atomic_fetch_sub(&f->s->l->gateway->in_flight, 1);
	kp_list_del(&f->link);
	kp_mem_free(f);
}

static const struct kp_grpc_serving_ops serving_ops = { on_writable, on_closed };

/* --- the start --- */

static int check_ids(
	const struct kp_endpoint *e, const struct kp_peer_request *r, struct kp_err *err)
{
	uint32_t vocab_size = atomic_load_explicit(&e->vocab_size, memory_order_relaxed);
	for (size_t i = 0; vocab_size && i < r->n_ids; i++) {
		if (KP_UNLIKELY(r->ids[i] >= vocab_size)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"token id %u is beyond the vocabulary, which has %u", r->ids[i],
				vocab_size);
		}
	}
	return 0;
}

static int check(const struct kp_peer_server *s, const struct kp_peer_own *own,
	const struct kp_peer_request *r, struct kp_err *err)
{
	const struct kp_gateway *g = s->l->gateway;
	const struct kp_endpoint *e = own->endpoint;
	uint64_t ours = own->revision->text ? own->revision->text->fingerprint : 0;
	if (kp_gateway_refuses(g, kp_loop_now(s->l->loop))) {
		return kp_peer_refuse(
			err, KP_UNAVAILABLE, KP_PEER_DRAINING, "the gateway is draining");
	}
	if (kp_endpoint_state(e) != KP_ENDPOINT_ROUTABLE) {
		return kp_peer_refuse(err, KP_UNAVAILABLE, KP_PEER_DOWN, "engine `%s` is %s",
			e->address, kp_endpoint_state_name(kp_endpoint_state(e)));
	}
	if (r->text_fingerprint && ours && r->text_fingerprint != ours) {
		return kp_peer_refuse(err, KP_UNAVAILABLE, KP_PEER_STALE,
			"the tokenizer that made the ids (%016llx) is not that of engine `%s` (%016llx)",
			(unsigned long long)r->text_fingerprint, e->address,
			(unsigned long long)ours);
	}
	if (atomic_load_explicit(&g->in_flight, memory_order_relaxed) >=
		(int)g->config.max_requests) {
		return kp_peer_refuse(err, KP_RESOURCE_EXHAUSTED, KP_PEER_OVERLOADED,
			"too many requests in flight (at most %u)", g->config.max_requests);
	}
	if (r->media && (r->media->pixels.type == KP_TENSOR_U8) !=
				atomic_load_explicit(&e->normalizes, memory_order_relaxed)) {
		return kp_peer_refuse(err, KP_UNIMPLEMENTED, KP_PEER_UNSUPPORTED,
			"engine `%s` takes no pixels of that type", e->address);
	}
	return check_ids(e, r, err);
}

static void start(struct kp_peer_server *s, struct kp_grpc_serving *c,
	const struct kp_peer_request *r, int64_t deadline_ns, const struct kp_peer_own *own)
{
	struct forward *f = kp_new(struct forward);
	struct kp_endpoint *e = own->endpoint;
	struct kp_sampling sampling = r->sampling;
	kp_sampling_fill(&sampling, &own->facts->info.defaults);
	const struct kp_engine_request request = { .request_id = r->request_id,
		.ids = r->ids,
		.n_ids = r->n_ids,
		.sampling = &sampling,
		.text_fingerprint = r->text_fingerprint,
		.media = r->media,
		.deadline_ns = deadline_ns,
		.stream = true };
	f->s = s;
	f->serving = c;
	f->heard_ns = kp_loop_now(s->l->loop);
	kp_list_push(&s->forwards, &f->link);
	atomic_fetch_add(&s->l->gateway->in_flight, 1);
	atomic_fetch_add_explicit(&e->in_flight, 1, memory_order_relaxed);
	kp_grpc_serving_accept(c, &serving_ops, f);
	if (r->media) {
		kp_grpc_serving_keep(c); /* the engine's call sends the pixels from there */
	}
	f->lane = kp_lane_acquire(s->l, e);
	f->call = f->lane->engine->ops->start(f->lane->engine, &request, &sink, f);
}

void kp_peer_generate(
	struct kp_peer_server *s, struct kp_grpc_serving *c, const struct kp_grpc_request *r)
{
	struct kp_peer_request request;
	struct kp_err err = KP_ERR_INIT;
	const struct kp_peer_own *own = NULL;
	if (kp_peer_decode_generate(&s->decoder, r->message, &request, &err) < 0) {
		err.reason = err.code == KP_UNIMPLEMENTED ? KP_PEER_UNSUPPORTED : NULL;
	} else if ((own = kp_peer_find(s, request.engine, request.address, &err)) &&
		   check(s, own, &request, &err) == 0) {
		start(s, c, &request, r->deadline_ns, own);
		return;
	}
	kp_peer_end(c, &err, own ? own->endpoint : NULL);
	count(s, result_of(&err));
}

void kp_peer_end_forwards(struct kp_peer_server *s, const struct kp_endpoint *e,
	int64_t heard_before_ns, const struct kp_err *why)
{
	kp_list_each_safe (node, &s->forwards) {
		struct forward *f = KP_CONTAINER(node, struct forward, link);
		bool is_silent = f->heard_ns < heard_before_ns;
		if (!f->call || (e && f->lane->endpoint != e) || (f->has_answer && !is_silent)) {
			continue;
		}
		f->lane->engine->ops->cancel(f->call);
		kp_peer_end(f->serving, why, let_lane_go(f));
		count(s, KP_PEER_RESULT_ERROR);
	}
}
