/* DESIGN: one function for each link. What is not known yet (there is no pod, no pool) breaks nothing. */
#include "operator/plan/engine.h"

#include "operator/plan/actions.h"
#include "operator/plan/obstacle.h"
#include "operator/plan/placement.h"

#include <stdarg.h>
#include <stdio.h>

enum { NOT_MADE_MAX = 300 };

struct looker {
	const struct kp_world *w;
	const struct kp_world_engine *e;
	const struct kp_world_pool *pool; /* NULL: not there */
	const struct kp_world_pod *pods;
	size_t n_pods; /* ending ones too */
	struct kp_arena *arena;
	struct kp_engine_pods *to;
};

static void set(struct kp_condition *c, const char *type, bool is_true, const char *reason,
	const char *fmt, ...) KP_PRINTF(5, 6);

static void set(struct kp_condition *c, const char *type, bool is_true, const char *reason,
	const char *fmt, ...)
{
	va_list ap;
	*c = (struct kp_condition){ .type = type, .is_true = is_true, .reason = reason };
	va_start(ap, fmt);
	vsnprintf(c->message, sizeof(c->message), fmt, ap);
	va_end(ap);
}

static bool is_node_mode(const struct looker *l)
{
	return l->e->spec->gateway.mode == KP_INFERENCE_ENGINE_GATEWAY_MODE_NODE;
}

/* --- the pool --- */

/* The labels that the pool must select: of a pod, or of the template while there is none. In mode Node the node gateway's. */
static const json_t *labels_at(const struct looker *l, size_t i, kp_str *ret_name)
{
	const struct kp_world_pod *pod = i < l->n_pods ? &l->pods[i] : NULL;
	if (pod && is_node_mode(l)) {
		pod = kp_world_node_gateway(l->w, pod->ns, pod->node);
	}
	*ret_name = pod ? pod->name : KP_S("the template");
	if (pod) {
		return pod->labels;
	}
	return i == 0 && l->n_pods == 0 && !is_node_mode(l)
		       ? kp_doc_at(l->e->json, "spec.template.metadata.labels")
		       : NULL;
}

static const struct kp_world_pool *other_pool(const struct looker *l, const json_t *labels)
{
	for (size_t i = 0; i < l->w->n_pools; i++) {
		const struct kp_world_pool *p = &l->w->pools[i];
		if (p != l->pool && kp_str_eq(p->ns, l->e->ns) &&
			kp_world_selects(&p->spec->selector, labels)) {
			return p;
		}
	}
	return NULL;
}

static void look_at_pool(struct looker *l, struct kp_condition *c)
{
	const char *type = "PoolSelects";
	bool has_template = l->e->spec->has_template;
	kp_str pool = l->e->spec->pool_ref.name, name;
	for (size_t i = 0; l->pool && i < KP_MAX(l->n_pods, (size_t)1); i++) {
		const json_t *labels = labels_at(l, i, &name);
		const struct kp_world_pool *other;
		if ((i < l->n_pods && l->pods[i].is_ending) ||
			(!labels && (l->n_pods || !has_template || is_node_mode(l)))) {
			continue;
		}
		if (!kp_world_selects(&l->pool->spec->selector, labels)) {
			set(c, type, false, "SelectorMisses",
				"pool `%" KP_FMT "` does not select `%" KP_FMT
				"`: its labels do not have what spec.selector asks for",
				KP_ARG(pool), KP_ARG(name));
			return;
		}
		if ((other = other_pool(l, labels))) {
			set(c, type, false, "SeveralPools",
				"`%" KP_FMT "` is selected by the pools `%" KP_FMT "` and `%" KP_FMT
				"`: a pod belongs to one",
				KP_ARG(name), KP_ARG(pool), KP_ARG(other->name));
			return;
		}
	}
	set(c, type, true, "Selected", "pool `%" KP_FMT "` selects what it should", KP_ARG(pool));
}

/* --- ports, the end, injection --- */

static void look_at_ports(struct looker *l, struct kp_condition *c)
{
	int port = l->e->spec->engine.port;
	for (size_t i = 0; l->pool && !is_node_mode(l) && i < l->pool->spec->n_target_ports; i++) {
		if (l->pool->spec->target_ports[i].number == port) {
			set(c, "PortsFree", false, "PortClash",
				"port %d is the engine's and a target port of pool `%" KP_FMT
				"`, on which the pod's gateway listens",
				port, KP_ARG(l->pool->name));
			return;
		}
	}
	set(c, "PortsFree", true, "NoClash", "the engine's port is its own");
}

static void look_at_end(struct looker *l, struct kp_condition *c)
{
	int budget = l->e->spec->drain.budget_seconds;
	const json_t *said =
		kp_doc_at(l->e->json, "spec.template.spec.terminationGracePeriodSeconds");
	int64_t shortest = INT64_MAX;
	if (json_is_integer(said)) {
		shortest = json_integer_value(said);
	}
	for (size_t i = 0; i < l->n_pods; i++) {
		shortest = l->pods[i].is_ending ? shortest : KP_MIN(shortest, l->pods[i].grace_s);
	}
	if (shortest <= budget) {
		set(c, "DrainFits", false, "GracePeriodTooShort",
			"terminationGracePeriodSeconds is %lld, but spec.drain.budgetSeconds %d: requests "
			"that take longer are cut",
			(long long)shortest, budget);
		return;
	}
	set(c, "DrainFits", true, "GracePeriodFits", "requests may take %d s to end", budget);
}

static void look_at_injection(struct looker *l, struct kp_condition *c)
{
	const struct kp_engine_pods *p = l->to;
	if (is_node_mode(l)) {
		set(c, "Injected", true, "NodeMode", "the gateway of its node serves a pod");
	} else if (p->n_injected < p->n) {
		set(c, "Injected", false, "NoGateway",
			"%zu of %zu pods have no gateway: they were made without the webhook",
			p->n - p->n_injected, p->n);
	} else {
		set(c, "Injected", true, p->n ? "Injected" : "NoPods",
			"%zu of %zu pods have a gateway", p->n_injected, p->n);
	}
}

/* --- a workload of somebody else --- */

/* There is one of that kind and name. */
static void look_at_templates(
	struct looker *l, const struct kp_world_workload *w, struct kp_condition *c)
{
	const struct kp_inference_engine_workload_ref *r = l->e->spec->workload_ref;
	bool is_labelled = kp_world_is_labelled(w, l->e->name);
	if (!is_labelled && w->n_templates) {
		set(c, "WorkloadFound", false, "WorkloadNotLabelled",
			"spec.workloadRef: the pod template of %" KP_FMT " `%" KP_FMT
			"` does not have the label `" KP_INJECT_LABEL "` with `%" KP_FMT "`",
			KP_ARG(r->kind), KP_ARG(r->name), KP_ARG(l->e->name));
	} else {
		set(c, "WorkloadFound", true, "Found", "%" KP_FMT " `%" KP_FMT "` %s",
			KP_ARG(r->kind), KP_ARG(r->name),
			is_labelled
				? "makes its pods"
				: "is there; it has no pod template, so its pods' label counts");
	}
}

/* Returns whether anything is known of it. Without pods it is what keeps the engine from serving. */
static bool look_at_workload(struct looker *l, struct kp_condition *c)
{
	const struct kp_inference_engine_workload_ref *r = l->e->spec->workload_ref;
	int at = kp_world_workload_kind(l->w, l->e->spec);
	const struct kp_world_kind *kind = at < 0 ? NULL : &l->w->kinds[at];
	const struct kp_world_workload *w;
	if (!r || (kind && !kind->is_known && !kind->problem.n)) {
		return false;
	}
	if (!kind) {
		set(c, "WorkloadFound", true, "NotLookedUp",
			"its pods' label counts; %zu kinds of workloads are looked up, and no more",
			l->w->n_kinds);
	} else if (kind->is_missing) {
		set(c, "WorkloadFound", false, "KindNotFound", "spec.workloadRef: %" KP_FMT,
			KP_ARG(kind->problem));
	} else if (!kind->is_known) {
		set(c, "WorkloadFound", true, "NotLookedUp",
			"its pods' label counts; %" KP_FMT " `%" KP_FMT
			"` cannot be read: %" KP_FMT,
			KP_ARG(r->kind), KP_ARG(r->name), KP_ARG(kind->problem));
	} else if (!(w = kp_world_workload(l->w, at, l->e->ns, r->name))) {
		set(c, "WorkloadFound", false, "WorkloadNotFound",
			"spec.workloadRef: there is no %" KP_FMT " `%" KP_FMT
			"` in namespace `%" KP_FMT "`",
			KP_ARG(r->kind), KP_ARG(r->name), KP_ARG(l->e->ns));
	} else {
		look_at_templates(l, w, c);
	}
	return true;
}

/* --- pods and accelerators --- */

static void count_pods(struct looker *l)
{
	struct kp_engine_pods *to = l->to;
	to->update_revision = kp_actions_revision(l->e, l->arena);
	to->current_revision = to->update_revision;
	for (size_t i = 0; i < l->n_pods; i++) {
		const struct kp_world_pod *p = &l->pods[i];
		if (p->is_ending) {
			continue;
		}
		bool is_new = !to->update_revision.n || kp_str_eq(p->revision, to->update_revision);
		to->n++;
		to->n_ready += p->is_ready;
		to->n_injected += p->is_injected;
		to->n_updated += is_new;
		to->current_revision = is_new ? to->current_revision : p->revision;
	}
	to->n_wanted = l->e->spec->has_template ? (size_t)l->e->spec->replicas : to->n;
	const struct kp_world_owned *made =
		kp_world_owned(l->w, "Deployment", l->e->ns, l->e->name);
	kp_str why = made && l->e->spec->has_template ? kp_world_says(made, KP_S("ReplicaFailure"))
						      : KP_S("");
	to->not_made = kp_str_c(kp_arena_strz(l->arena, kp_str_sub(why, 0, NOT_MADE_MAX)));
}

static struct kp_engine_gpu *gpu(struct looker *l, kp_str name)
{
	struct kp_engine_pods *to = l->to;
	for (size_t i = 0; i < to->n_gpus; i++) {
		if (kp_str_eq(to->gpus[i].name, name)) {
			return &to->gpus[i];
		}
	}
	if (to->n_gpus == KP_ENGINE_GPUS_MAX) {
		return NULL;
	}
	struct kp_engine_gpu *g = &to->gpus[to->n_gpus++];
	*g = (struct kp_engine_gpu){ .name = kp_str_n(kp_arena_strz(l->arena, name), name.n),
		.allocatable = -1 };
	return g;
}

/* A name with a domain that is not Kubernetes' own: what a device plugin advertises. */
static bool is_extended(kp_str name)
{
	ptrdiff_t slash = kp_str_find_char(name, '/');
	return slash > 0 && !kp_str_ends(kp_str_sub(name, 0, (size_t)slash), KP_S("kubernetes.io"));
}

static void find_gpus(struct looker *l)
{
	const json_t *spec = kp_doc_at(l->e->json, "spec.template.spec");
	spec = spec ? spec : l->n_pods ? json_object_get(l->pods[0].json, "spec") : NULL;
	const json_t *containers = json_object_get(spec, "containers"),
		     *claims = json_object_get(spec, "resourceClaims");
	for (size_t i = 0; i < json_array_size(containers); i++) {
		json_t *limits =
			kp_unconst(kp_doc_at(json_array_get(containers, i), "resources.limits"));
		for (void *it = json_object_iter(limits); it;
			it = json_object_iter_next(limits, it)) {
			kp_str name =
				kp_str_n(json_object_iter_key(it), json_object_iter_key_len(it));
			struct kp_engine_gpu *g = is_extended(name) ? gpu(l, name) : NULL;
			if (g) {
				g->per_replica += kp_placement_amount(json_object_iter_value(it));
			}
		}
	}
	for (size_t i = 0; i < l->to->n_gpus && l->w->has_nodes; i++) {
		struct kp_engine_gpu *g = &l->to->gpus[i];
		g->allocatable = 0;
		for (size_t k = 0; k < l->w->n_nodes; k++) {
			g->allocatable += kp_placement_amount(
				json_object_getn(l->w->nodes[k].allocatable, g->name.p, g->name.n));
		}
	}
	for (size_t i = 0; i < json_array_size(claims); i++) {
		kp_str name = kp_doc_str(json_array_get(claims, i), "name");
		struct kp_engine_gpu *g = gpu(l, kp_arena_printf(l->arena, "claim:%" KP_FMT,
							 KP_ARG(kp_str_sub(name, 0, 200))));
		if (g) {
			g->per_replica++;
		}
	}
}

void kp_engine_pods(const struct kp_world *w, const struct kp_world_engine *e, struct kp_arena *a,
	struct kp_engine_pods *ret)
{
	struct looker l = { .w = w,
		.e = e,
		.pool = kp_world_pool(w, e->ns, e->spec->pool_ref.name),
		.arena = a,
		.to = ret };
	*ret = (struct kp_engine_pods){ 0 };
	l.pods = kp_world_pods(w, e->ns, e->name, &l.n_pods);
	count_pods(&l);
	find_gpus(&l);
	for (size_t i = 0; i < l.n_pods && !ret->stuck.n; i++) {
		ret->stuck = kp_obstacle_of_pod(&l.pods[i], a);
	}
	look_at_pool(&l, &ret->links[0]);
	look_at_ports(&l, &ret->links[1]);
	look_at_end(&l, &ret->links[2]);
	look_at_injection(&l, &ret->links[3]);
	bool is_looked_for = look_at_workload(&l, &ret->links[4]);
	ret->n_links = is_looked_for ? 5 : 4;
	ret->n_links += kp_placement_look(w, e, ret, &ret->links[ret->n_links]);
	for (size_t i = 0; i < 2 && !ret->broken; i++) {
		ret->broken = ret->links[i].is_true ? NULL : &ret->links[i];
	}
	if (!ret->broken && is_looked_for && ret->n == 0 && !ret->links[4].is_true) {
		ret->broken = &ret->links[4];
	}
}
