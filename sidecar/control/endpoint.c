/* DESIGN: see endpoint.h. The owner's count of what runs there comes with the end of each forwarded
   call; it is believed for OTHERS_NS, since it says nothing of what the others start later. */
#include "sidecar/control/endpoint.h"

#include "base/clock.h"

enum { PENALTY = 8, PENALTY_MAX = 64 };
#define OTHERS_NS (5 * KP_NS_PER_S)

const char *kp_endpoint_state_name(enum kp_endpoint_state s)
{
	switch (s) {
	case KP_ENDPOINT_DISCOVERED:
		return "discovered";
	case KP_ENDPOINT_ANSWERING:
		return "answering";
	case KP_ENDPOINT_ROUTABLE:
		return "routable";
	case KP_ENDPOINT_DRAINING:
		return "draining";
	case KP_ENDPOINT_DOWN:
		return "down";
	}
	return "unknown";
}

const char *kp_distance_name(enum kp_distance d)
{
	return d == KP_DISTANCE_OWN ? "own" : d == KP_DISTANCE_NODE ? "node" : "pool";
}

static enum kp_distance distance(const struct kp_program_endpoint *e, bool is_ours, kp_str node)
{
	if (is_ours) {
		return KP_DISTANCE_OWN;
	}
	return e->owner && node.n && kp_str_eq(e->owner->node, node) ? KP_DISTANCE_NODE
								     : KP_DISTANCE_POOL;
}

static kp_str owner_id(const struct kp_program_endpoint *e)
{
	return e->owner ? e->owner->id : KP_S("");
}

static kp_str owner_peer(const struct kp_program_endpoint *e)
{
	return e->owner ? e->owner->peer : KP_S("");
}

static kp_str dial(const struct kp_program_endpoint *e)
{
	return e->local.n ? e->local : e->address;
}

struct kp_endpoint *kp_endpoint_create(const struct kp_program_engine *engine,
	const struct kp_program_endpoint *want, bool is_ours, kp_str node)
{
	struct kp_endpoint *e = kp_new(struct kp_endpoint);
	KP_AUTO(buf) struct kp_buf key;
	kp_ref_init(&e->ref);
	kp_buf_init(&key, 4096);
	kp_buf_printf(&key, "%" KP_FMT "/%" KP_FMT, KP_ARG(engine->name), KP_ARG(want->address));
	e->key = kp_str_z(kp_buf_str(&key));
	e->engine = kp_str_z(engine->name);
	e->address = kp_str_z(want->address);
	e->dial = kp_str_z(dial(want));
	e->instance = kp_str_z(want->instance);
	e->owner = kp_str_z(owner_id(want));
	e->peer = kp_str_z(owner_peer(want));
	e->distance = distance(want, is_ours, node);
	e->is_own = e->distance == KP_DISTANCE_OWN;
	e->protocol = engine->protocol;
	return e;
}

struct kp_endpoint *kp_endpoint_ref(struct kp_endpoint *e)
{
	kp_ref_get(&e->ref);
	return e;
}

void kp_endpoint_unref(struct kp_endpoint *e)
{
	if (e && kp_ref_put(&e->ref)) {
		kp_mem_free(e->key);
		kp_mem_free(e->engine);
		kp_mem_free(e->address);
		kp_mem_free(e->dial);
		kp_mem_free(e->instance);
		kp_mem_free(e->owner);
		kp_mem_free(e->peer);
		kp_mem_free(e);
	}
}

bool kp_endpoint_is(const struct kp_endpoint *e, const struct kp_program_engine *engine,
	const struct kp_program_endpoint *want, bool is_ours, kp_str node)
{
	return kp_str_eq(kp_str_c(e->address), want->address) && e->protocol == engine->protocol &&
	       kp_str_eq(kp_str_c(e->dial), dial(want)) &&
	       kp_str_eq(kp_str_c(e->instance), want->instance) &&
	       e->distance == distance(want, is_ours, node) &&
	       kp_str_eq(kp_str_c(e->owner), owner_id(want)) &&
	       kp_str_eq(kp_str_c(e->peer), owner_peer(want));
}

kp_str kp_endpoint_key(const struct kp_endpoint *e)
{
	kp_str rest = kp_str_c(e->instance), part;
	kp_str_split(&rest, '/', &part);
	kp_str_split(&rest, '/', &part);
	return rest.n ? rest : KP_S("");
}

int kp_endpoint_load(const struct kp_endpoint *e, int64_t now_ns)
{
	int load = atomic_load_explicit(&e->in_flight, memory_order_relaxed) +
		   atomic_load_explicit(&e->penalty, memory_order_relaxed);
	if (!e->is_own) {
		int64_t at = atomic_load_explicit(&e->others_ns, memory_order_relaxed);
		load += at && now_ns - at < OTHERS_NS
				? atomic_load_explicit(&e->others, memory_order_relaxed)
				: 0;
	}
	return load;
}

void kp_endpoint_reported(struct kp_endpoint *e, uint32_t in_flight, int64_t now_ns)
{
	/* The call that brings the report still counts here, not there any more. */
	int ours = atomic_load_explicit(&e->in_flight, memory_order_relaxed) - 1;
	int all = (int)KP_MIN(in_flight, 1000000u);
	atomic_store_explicit(&e->others, KP_MAX(all - KP_MAX(ours, 0), 0), memory_order_relaxed);
	atomic_store_explicit(&e->others_ns, now_ns, memory_order_relaxed);
}

void kp_endpoint_loads(struct kp_endpoint *e, const struct kp_engine_loads *l)
{
	float kv = l->kv_usage > 0 ? KP_MIN(l->kv_usage, 1.0f) : 0; /* NaN: 0 */
	atomic_store_explicit(&e->running, l->running, memory_order_relaxed);
	atomic_store_explicit(&e->waiting, l->waiting, memory_order_relaxed);
	atomic_store_explicit(&e->kv_permille, (unsigned)(kv * 1000), memory_order_relaxed);
}

void kp_endpoint_turned_away(struct kp_endpoint *e)
{
	int routable = KP_ENDPOINT_ROUTABLE;
	atomic_compare_exchange_strong(&e->state, &routable, (int)KP_ENDPOINT_DRAINING);
}

/* An engine that fails at once always has the least load: each failure counts as PENALTY requests
   in flight, at most PENALTY_MAX, and every health check that passes takes one failure back. */
static void add_penalty(struct kp_endpoint *e, int n)
{
	int now = atomic_load_explicit(&e->penalty, memory_order_relaxed);
	int next;
	do {
		next = KP_MIN(KP_MAX(now + n, 0), (int)PENALTY_MAX);
	} while (!atomic_compare_exchange_weak(&e->penalty, &now, next));
}

void kp_endpoint_blame(struct kp_endpoint *e)
{
	add_penalty(e, PENALTY);
}

void kp_endpoint_forgive(struct kp_endpoint *e)
{
	add_penalty(e, -PENALTY);
}

void kp_endpoint_trust(struct kp_endpoint *e)
{
	atomic_store_explicit(&e->penalty, 0, memory_order_relaxed);
}

bool kp_is_engine_fault(const struct kp_err *status)
{
	return status->code == KP_UNAVAILABLE || status->code == KP_RESOURCE_EXHAUSTED ||
	       status->code == KP_INTERNAL || status->code == KP_DATA_LOSS;
}

void kp_endpoint_learn(struct kp_endpoint *e, const struct kp_err *status)
{
	if (kp_is_engine_fault(status)) {
		kp_endpoint_blame(e);
	} else if (status->code == KP_OK) {
		kp_endpoint_trust(e);
	}
}
