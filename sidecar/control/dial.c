/* DESIGN: the one place that knows every kind of engine. */
#include "sidecar/control/dial.h"

#include "base/clock.h"
#include "engine/peer.h"
#include "engine/sglang.h"
#include "engine/vllm.h"

static void on_load(void *user, const struct kp_engine_loads *loads)
{
	kp_endpoint_reported(user, loads->in_flight, kp_now_ns());
}

struct kp_engine *kp_dial(struct kp_loop *loop, struct kp_endpoint *e,
	const struct kp_peer_tls *tls, void (*connected)(void *user), void *user)
{
	if (!e->is_own) {
		const struct kp_engine_peer_opts peer = { .peer = e->peer,
			.id = e->owner,
			.engine = e->engine,
			.address = e->address,
			.tls = tls->client,
			.load = on_load,
			.user = e };
		return kp_engine_peer_create(loop, &peer);
	}
	const struct kp_engine_opts opts = { .connected = connected, .user = user };
	if (e->protocol == KP_PROTOCOL_SGLANG) {
		return kp_engine_sglang_create(loop, e->dial, &opts);
	}
	return kp_engine_vllm_create(loop, e->dial, &opts);
}

void kp_dial_serves(struct kp_engine *engine, const struct kp_endpoint *e,
	uint64_t text_fingerprint, int64_t asked_ns)
{
	if (e->is_own) {
		kp_engine_serves(engine, text_fingerprint, asked_ns);
	}
}

void kp_dial_set_tls(
	struct kp_engine *engine, const struct kp_endpoint *e, const struct kp_peer_tls *tls)
{
	if (!e->is_own && tls->client) {
		kp_engine_peer_set_tls(engine, tls->client);
	}
}
