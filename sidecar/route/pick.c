/* DESIGN: passes over the endpoints, a handful. Round robin advances one shared counter and takes
   the k-th of the routable ones, so that the share of one that is down falls evenly on the others.
 */
#include "sidecar/route/pick.h"

const char *const kp_routing_policy_names[] = { "least_load", "round_robin", NULL };

bool kp_pick_takes(const struct kp_pick *how, const struct kp_endpoint *e)
{
	return !how->takes || how->takes(how->user, e);
}

static const struct kp_pick any = { .takes = NULL };

static bool is_candidate(const struct kp_pick *how, const struct kp_endpoint *e,
	const struct kp_endpoint *avoid, bool leave_own)
{
	return e != avoid && kp_endpoint_state(e) == KP_ENDPOINT_ROUTABLE &&
	       !(leave_own && e->is_own) && kp_pick_takes(how, e);
}

static size_t n_candidates(const struct kp_model_revision *r, const struct kp_pick *how,
	const struct kp_endpoint *avoid, bool leave_own)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n_endpoints; i++) {
		n += is_candidate(how, r->endpoints[i], avoid, leave_own);
	}
	return n;
}

bool kp_has_other(const struct kp_model_revision *r, const struct kp_endpoint *e)
{
	return n_candidates(r, &any, e, false) > 0;
}

int kp_pick_score(const struct kp_pick *how, const struct kp_endpoint *e)
{
	return kp_endpoint_load(e, how->now_ns) + (int)(how->margin * (unsigned)e->distance);
}

static struct kp_endpoint *least_load(const struct kp_model_revision *r, const struct kp_pick *how,
	const struct kp_endpoint *avoid, bool leave_own, struct kp_rng *rng)
{
	struct kp_endpoint *best = NULL;
	int best_score = 0;
	uint64_t ties = 0;
	for (size_t i = 0; i < r->n_endpoints; i++) {
		struct kp_endpoint *e = r->endpoints[i];
		if (!is_candidate(how, e, avoid, leave_own)) {
			continue;
		}
		int score = kp_pick_score(how, e);
		if (!best || score < best_score) {
			best = e;
			best_score = score;
			ties = 1;
		} else if (score == best_score &&
			   kp_rng_below(rng, ++ties) ==
				   0) { /* each of k equal ones with chance 1/k */
			best = e;
		}
	}
	return best;
}

static struct kp_endpoint *round_robin(struct kp_model_revision *r, const struct kp_pick *how,
	const struct kp_endpoint *avoid, bool leave_own)
{
	unsigned from = atomic_fetch_add_explicit(&r->turn_counter, 1, memory_order_relaxed);
	size_t n = n_candidates(r, how, avoid, leave_own);
	if (n == 0) {
		return NULL;
	}
	size_t k = from % n;
	for (size_t i = 0; i < r->n_endpoints; i++) {
		if (is_candidate(how, r->endpoints[i], avoid, leave_own) && k-- == 0) {
			return r->endpoints[i];
		}
	}
	return NULL; /* one went down between the two passes */
}

static struct kp_endpoint *pick(struct kp_model_revision *r, const struct kp_pick *how,
	const struct kp_endpoint *avoid, bool leave_own, struct kp_rng *rng)
{
	return how->policy == KP_ROUTE_ROUND_ROBIN ? round_robin(r, how, avoid, leave_own)
						   : least_load(r, how, avoid, leave_own, rng);
}

struct kp_endpoint *kp_pick(struct kp_model_revision *r, const struct kp_pick *how,
	const struct kp_endpoint *avoid, struct kp_rng *rng)
{
	struct kp_endpoint *e = pick(r, how, avoid, how->leave_own, rng);
	if (!e && how->leave_own) {
		e = pick(r, how, avoid, false, rng);
	}
	return e || !avoid ? e : pick(r, how, NULL, false, rng);
}

struct kp_model_revision *kp_pick_revision(const struct kp_model *m, struct kp_rng *rng)
{
	struct kp_model_revision *chosen = NULL;
	uint64_t seen = 0;
	if (m->n_revisions == 1) {
		return kp_model_text_revision(m);
	}
	for (size_t i = 0; i < m->n_revisions; i++) {
		uint64_t n = m->revisions[i]->text
				     ? n_candidates(m->revisions[i], &any, NULL, false)
				     : 0;
		seen += n;
		if (n && kp_rng_below(rng, seen) <
				 n) { /* one of `seen` endpoints so far, uniformly */
			chosen = m->revisions[i];
		}
	}
	return chosen ? chosen : kp_model_text_revision(m);
}
