/* DESIGN: a list of a few, searched from its beginning. A loop goes on with its snapshot until the message with the next one has come: so
   what has just gone counts as busy for SETTLE_NS, however little runs there. */
#include "sidecar/control/departed.h"

#include "base/clock.h"

#define SETTLE_NS KP_NS_PER_S

static bool has_key(const struct kp_endpoint *e, kp_str key)
{
	return e->is_own && kp_str_eq(kp_endpoint_key(e), key);
}

static bool is_running(const struct kp_endpoint *e)
{
	return atomic_load_explicit(&e->in_flight, memory_order_relaxed) > 0;
}

/* Is it in there, or (e NULL) one with the key that may run something? */
static bool finds(const struct kp_snapshot *s, const struct kp_endpoint *e, kp_str key)
{
	for (size_t i = 0; i < s->n_revisions; i++) {
		for (size_t k = 0; k < s->revisions[i]->n_endpoints; k++) {
			const struct kp_endpoint *other = s->revisions[i]->endpoints[k];
			bool is_up = kp_endpoint_state(other) != KP_ENDPOINT_DOWN;
			if (e ? other == e : has_key(other, key) && (is_up || is_running(other))) {
				return true;
			}
		}
	}
	return false;
}

static bool is_busy(const struct kp_departed_one *one, int64_t now_ns)
{
	return now_ns - one->since_ns < SETTLE_NS || is_running(one->endpoint);
}

static void let_go(struct kp_departed *d, int64_t now_ns)
{
	size_t n = 0;
	for (size_t i = 0; i < d->list.n; i++) {
		if (is_busy(&d->list.p[i], now_ns)) {
			d->list.p[n++] = d->list.p[i];
		} else {
			kp_endpoint_unref(d->list.p[i].endpoint);
		}
	}
	d->list.n = n;
}

void kp_departed_note(struct kp_departed *d, const struct kp_snapshot *before,
	const struct kp_snapshot *now, int64_t now_ns)
{
	let_go(d, now_ns);
	for (size_t i = 0; before && i < before->n_revisions; i++) {
		for (size_t k = 0; k < before->revisions[i]->n_endpoints; k++) {
			struct kp_endpoint *e = before->revisions[i]->endpoints[k];
			if (e->is_own && kp_endpoint_key(e).n && !finds(now, e, KP_STR_NULL)) {
				kp_vec_push(&d->list,
					((struct kp_departed_one){ kp_endpoint_ref(e), now_ns }));
			}
		}
	}
}

bool kp_departed_is_busy(const struct kp_departed *d, kp_str key, int64_t now_ns)
{
	for (size_t i = 0; i < d->list.n; i++) {
		if (has_key(d->list.p[i].endpoint, key) && is_busy(&d->list.p[i], now_ns)) {
			return true;
		}
	}
	return false;
}

bool kp_departed_is_named(const struct kp_snapshot *s, kp_str key)
{
	return finds(s, NULL, key);
}

void kp_departed_fini(struct kp_departed *d)
{
	for (size_t i = 0; i < d->list.n; i++) {
		kp_endpoint_unref(d->list.p[i].endpoint);
	}
	kp_vec_fini(&d->list);
}
