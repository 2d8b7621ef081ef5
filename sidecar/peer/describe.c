/* DESIGN: Describe is answered from the snapshot and the endpoint's counters, the engine is not asked:
   any number of gateways may ask often. GetTokenizer asks the engine each time and hands its archive
   on piece by piece as the other side takes it; few may run at once, since each holds an archive. */
#include "base/clock.h"
#include "engine/remote.h"
#include "sidecar/peer/internal.h"

enum { MAX_TOKENIZERS = 2, PIECE = 64 << 10 };

#define TOKENIZER_DEADLINE_NS (60 * KP_NS_PER_S)

/* --- Describe --- */

static void describe(
	struct kp_peer_server *s, struct kp_grpc_serving *c, const struct kp_peer_own *own)
{
	const struct kp_endpoint *e = own->endpoint;
	const struct kp_text_stack *text = own->revision->text;
	bool drains = kp_gateway_refuses(s->l->gateway, kp_loop_now(s->l->loop));
	enum kp_endpoint_state state = drains ? KP_ENDPOINT_DRAINING : kp_endpoint_state(e);
	struct kp_peer_description d = { .state = kp_str_c(kp_endpoint_state_name(state)),
		.reason = own->facts->why,
		.info = own->facts->info };
	d.info.text_fingerprint = text ? text->fingerprint : 0;
	kp_buf_reset(&s->out);
	kp_peer_encode_description(&s->out, &d);
	KP_BUG_ON(!kp_buf_ok(&s->out));
	kp_grpc_serving_send(c, kp_buf_str(&s->out));
}

static const struct kp_grpc_serving_ops nothing;

void kp_peer_describe(
	struct kp_peer_server *s, struct kp_grpc_serving *c, const struct kp_grpc_request *r)
{
	struct kp_peer_endpoint which;
	struct kp_err err = KP_ERR_INIT;
	const struct kp_peer_own *own = NULL;
	kp_grpc_serving_accept(c, &nothing, NULL);
	if (kp_peer_decode_endpoint(r->message, &which, &err) == 0 &&
		(own = kp_peer_find(s, which.engine, which.address, &err))) {
		describe(s, c, own);
	}
	kp_peer_end(c, &err, own ? own->endpoint : NULL);
}

/* --- GetTokenizer --- */

/* Lives until the engine has answered and the call is closed, whichever comes last. */
struct bundle {
	struct kp_gwloop *l;
	struct kp_peer_server *s;        /* as long as serving */
	struct kp_grpc_serving *serving; /* NULL: closed */
	struct kp_lane *lane;            /* until the engine has answered */
	struct kp_endpoint *endpoint;    /* a reference */
	struct kp_buf zip;
	size_t sent;
};

static void put_bundle(struct bundle *b)
{
	if (b->serving || b->lane) {
		return;
	}
	kp_endpoint_unref(b->endpoint);
	kp_buf_fini(&b->zip);
	kp_mem_free(b);
}

static void send_pieces(struct bundle *b)
{
	struct kp_buf *out = &b->s->out;
	const struct kp_err ok = KP_ERR_INIT;
	while (b->sent < b->zip.n && kp_grpc_serving_queued(b->serving) <= KP_PEER_HIGH_WATER) {
		kp_str piece = kp_str_sub(kp_buf_str(&b->zip), b->sent, b->sent + PIECE);
		kp_buf_reset(out);
		kp_peer_encode_chunk(out, piece);
		kp_grpc_serving_send(b->serving, kp_buf_str(out));
		b->sent += piece.n;
	}
	if (b->sent == b->zip.n) {
		kp_peer_end(b->serving, &ok, b->endpoint);
	}
}

static void on_tokenizer(void *user, const struct kp_err *status, kp_str zip)
{
	struct bundle *b = user;
	struct kp_err err = *status;
	kp_lane_release(b->l, kp_steal(b->lane));
	if (b->serving && err.code == KP_OK) {
		kp_buf_add(&b->zip, zip);
		if (kp_buf_finish(&b->zip, "tokenizer archive", &err) == 0) {
			send_pieces(b);
		}
	}
	if (b->serving && err.code != KP_OK) {
		kp_peer_end(b->serving, &err, b->endpoint);
	}
	put_bundle(b);
}

static void on_writable(void *user)
{
	struct bundle *b = user;
	if (b->sent < b->zip.n) {
		send_pieces(b);
	}
}

static void on_closed(void *user, enum kp_stream_end why)
{
	struct bundle *b = user;
	(void)why;
	b->serving = NULL;
	b->s->n_tokenizers--;
	put_bundle(b);
}

static const struct kp_grpc_serving_ops bundle_ops = { on_writable, on_closed };

static int check(const struct kp_peer_server *s, const struct kp_peer_own *own, struct kp_err *err)
{
	const struct kp_endpoint *e = own->endpoint;
	if (!own->facts->has_own_tokenizer) {
		return kp_err_set(err, KP_FAILED_PRECONDITION,
			"the tokenizer of engine `%s` comes from a path, which each gateway reads itself",
			e->engine);
	}
	if (s->n_tokenizers >= MAX_TOKENIZERS) {
		return kp_peer_refuse(err, KP_RESOURCE_EXHAUSTED, KP_PEER_OVERLOADED,
			"%u tokenizers are being sent already", s->n_tokenizers);
	}
	return 0;
}

static void start(struct kp_peer_server *s, struct kp_grpc_serving *c, int64_t deadline_ns,
	struct kp_endpoint *e)
{
	struct bundle *b = kp_new(struct bundle);
	int64_t limit = kp_loop_now(s->l->loop) + TOKENIZER_DEADLINE_NS;
	b->l = s->l;
	b->s = s;
	b->serving = c;
	b->endpoint = kp_endpoint_ref(e);
	kp_buf_init(&b->zip, KP_ENGINE_MAX_TOKENIZER);
	s->n_tokenizers++;
	kp_grpc_serving_accept(c, &bundle_ops, b);
	b->lane = kp_lane_acquire(s->l, e);
	b->lane->engine->ops->tokenizer(
		b->lane->engine, deadline_ns ? KP_MIN(deadline_ns, limit) : limit, on_tokenizer, b);
}

void kp_peer_get_tokenizer(
	struct kp_peer_server *s, struct kp_grpc_serving *c, const struct kp_grpc_request *r)
{
	struct kp_peer_endpoint which;
	struct kp_err err = KP_ERR_INIT;
	const struct kp_peer_own *own = NULL;
	if (kp_peer_decode_endpoint(r->message, &which, &err) == 0 &&
		(own = kp_peer_find(s, which.engine, which.address, &err)) &&
		check(s, own, &err) == 0) {
		start(s, c, r->deadline_ns, own->endpoint);
		return;
	}
	kp_peer_end(c, &err, own ? own->endpoint : NULL);
}
