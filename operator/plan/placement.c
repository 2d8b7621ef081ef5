/* DESIGN: each node is asked for all that a pod needs. Where none has it, the first resource that no node has enough of is named,
   with the node that has most. */
#include "operator/plan/placement.h"

#include "inject/quantity.h"

#include <stdio.h>

int64_t kp_placement_amount(const json_t *v)
{
	int64_t milli;
	if (json_is_integer(v)) {
		return KP_MAX(json_integer_value(v), INT64_C(0));
	}
	return json_is_string(v) && kp_quantity_milli(
					    kp_str_n(json_string_value(v), json_string_length(v)),
					    &milli)
		       ? milli / 1000
		       : 0;
}

static bool is_claim(const struct kp_engine_gpu *g)
{
	return kp_str_starts(g->name, KP_S("claim:"));
}

static int64_t has(const struct kp_world_node *n, const struct kp_engine_gpu *g)
{
	return kp_placement_amount(json_object_getn(n->allocatable, g->name.p, g->name.n));
}

static bool is_selected(const struct kp_world_node *n, const json_t *selector)
{
	const json_t *labels = kp_doc_at(n->json, "metadata.labels");
	json_t *all = kp_unconst(selector);
	for (void *it = json_object_iter(all); it; it = json_object_iter_next(all, it)) {
		if (!json_equal(json_object_get(labels, json_object_iter_key(it)),
			    json_object_iter_value(it))) {
			return false;
		}
	}
	return true;
}

static bool fits(const struct kp_world_node *n, const struct kp_engine_pods *p)
{
	for (size_t i = 0; i < p->n_gpus; i++) {
		if (!is_claim(&p->gpus[i]) && has(n, &p->gpus[i]) < p->gpus[i].per_replica) {
			return false;
		}
	}
	return true;
}

struct found {
	const json_t *selector;
	size_t n_selected, n_fit;
};

/* Of the nodes that are selected, the one with most of it. */
static const struct kp_world_node *most(
	const struct kp_world *w, const struct found *f, const struct kp_engine_gpu *g)
{
	const struct kp_world_node *best = NULL;
	for (size_t i = 0; i < w->n_nodes; i++) {
		const struct kp_world_node *n = &w->nodes[i];
		if (is_selected(n, f->selector) && (!best || has(n, g) > has(best, g))) {
			best = n;
		}
	}
	return best;
}

static void say_why_not(const struct kp_world *w, const struct found *f,
	const struct kp_engine_pods *p, struct kp_condition *ret)
{
	for (size_t i = 0; i < p->n_gpus && f->n_selected; i++) {
		const struct kp_engine_gpu *g = &p->gpus[i];
		const struct kp_world_node *n = most(w, f, g);
		if (!is_claim(g) && has(n, g) < g->per_replica) {
			snprintf(ret->message, sizeof(ret->message),
				"a pod needs %lld `%" KP_FMT
				"`; of %zu nodes that it may run on `%" KP_FMT "` has most, %lld",
				(long long)g->per_replica, KP_ARG(g->name), f->n_selected,
				KP_ARG(n->name), (long long)has(n, g));
			return;
		}
	}
	snprintf(ret->message, sizeof(ret->message), "%s",
		f->n_selected ? "no node has all the accelerators together that a pod needs"
			      : "no node has the labels of the template's nodeSelector");
}

bool kp_placement_look(const struct kp_world *w, const struct kp_world_engine *e,
	const struct kp_engine_pods *p, struct kp_condition *ret)
{
	struct found f = { .selector = kp_doc_at(e->json, "spec.template.spec.nodeSelector") };
	bool asks = false;
	for (size_t i = 0; i < p->n_gpus; i++) {
		asks |= !is_claim(&p->gpus[i]);
	}
	if (!asks || !w->has_nodes || !w->n_nodes) {
		return false;
	}
	for (size_t i = 0; i < w->n_nodes; i++) {
		bool is_one = is_selected(&w->nodes[i], f.selector);
		f.n_selected += is_one;
		f.n_fit += is_one && fits(&w->nodes[i], p);
	}
	*ret = (struct kp_condition){ .type = "NodeFits",
		.is_true = f.n_fit > 0,
		.reason = f.n_fit ? "Fits" : "NoNodeFits" };
	if (f.n_fit) {
		snprintf(ret->message, sizeof(ret->message),
			"%zu of %zu nodes have the accelerators that a pod needs", f.n_fit,
			w->n_nodes);
	} else {
		say_why_not(w, &f, p, ret);
	}
	return true;
}
