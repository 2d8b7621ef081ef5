/* DESIGN: the pod of a node's gateway is the injected container without an engine beside it, put together from what all engines of the namespace in mode
   Node ask for: the most of each resource, the longest drain, all labels. It runs where a pod of one of them may run. The same engines in the same order
   give the same bytes, so a DaemonSet is rolled only when they change. */
#include "inject/inject.h"
#include "inject/internal.h"

enum { MAX_KINDS = 16 }; /* of resources, of all engines together */

struct merged {
	struct kp_kv kv[MAX_KINDS];
	size_t n;
};

static void merge(struct merged *m, const struct kp_kv *kv, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;
		int64_t had = 0, wants = 0;
		while (k < m->n && !kp_str_eq(m->kv[k].key, kv[i].key)) {
			k++;
		}
		if (k == MAX_KINDS || !kp_quantity_milli(kv[i].value, &wants)) {
			continue;
		}
		if (k == m->n) {
			m->kv[m->n++] = kv[i];
		} else if (kp_quantity_milli(m->kv[k].value, &had) && wants > had) {
			m->kv[k] = kv[i];
		}
	}
}

static void merge_resources(
	const struct kp_inject_node *n, struct merged *requests, struct merged *limits)
{
	for (size_t i = 0; i < n->n_engines; i++) {
		const struct kp_inference_engine_spec *e = n->engines[i].facts.engine;
		if (e->gateway.resources) {
			merge(requests, e->gateway.resources->requests,
				e->gateway.resources->n_requests);
			merge(limits, e->gateway.resources->limits, e->gateway.resources->n_limits);
		}
	}
}

/* One engine's request may be above another's limit. */
static void lift(struct merged *limits, const struct merged *requests)
{
	for (size_t i = 0; i < limits->n; i++) {
		for (size_t k = 0; k < requests->n; k++) {
			if (kp_str_eq(limits->kv[i].key, requests->kv[k].key)) {
				merge(limits, &requests->kv[k], 1);
			}
		}
	}
}

/* --- where it runs --- */

/* One term for each engine; NULL: some engine may run anywhere, or nobody knows where. */
static json_t *terms_of(const struct kp_inject_node *n)
{
	json_t *terms = json_array();
	for (size_t i = 0; i < n->n_engines; i++) {
		json_t *selector = json_object_get(
			       json_object_get(n->engines[i].template, "spec"), "nodeSelector"),
		       *wants = json_array(), *v;
		const char *key;
		json_object_foreach(selector, key, v)
		{
			kp_push(wants, json_pack("{s:s, s:s, s:[O]}", "key", key, "operator", "In",
					       "values", v));
		}
		if (json_array_size(wants) == 0) {
			json_decref(wants);
			json_decref(terms);
			return NULL;
		}
		kp_push(terms, json_pack("{s:o}", "matchExpressions", wants));
	}
	return terms;
}

static bool has(const json_t *list, const json_t *v)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (json_equal(json_array_get(list, i), v)) {
			return true;
		}
	}
	return false;
}

/* Nodes with accelerators are often closed to others. */
static json_t *tolerations_of(const struct kp_inject_node *n)
{
	json_t *list = json_pack("[{s:s, s:s}, {s:s, s:s}]", "key", "nvidia.com/gpu", "operator",
		"Exists", "key", "amd.com/gpu", "operator", "Exists");
	for (size_t i = 0; i < n->n_engines; i++) {
		const json_t *theirs = json_object_get(
			json_object_get(n->engines[i].template, "spec"), "tolerations");
		for (size_t k = 0; k < json_array_size(theirs); k++) {
			json_t *v = json_array_get(theirs, k);
			if (!has(list, v)) {
				kp_push(list, json_incref(v));
			}
		}
	}
	return list;
}

/* --- the whole --- */

static json_t *labels_of(const struct kp_inject_node *n, struct kp_arena *a)
{
	json_t *labels = json_object();
	for (size_t i = 0; i < n->n_engines; i++) {
		const struct kp_inference_engine_spec *e = n->engines[i].facts.engine;
		for (size_t k = 0; e->gateway.node && k < e->gateway.node->n_labels; k++) {
			const struct kp_kv *kv = &e->gateway.node->labels[k];
			kp_put(labels, kp_arena_strz(a, kv->key),
				json_stringn(kv->value.p, kv->value.n));
		}
	}
	kp_put(labels, KP_INJECT_NODE_LABEL, json_stringn(n->ns.p, n->ns.n));
	return labels;
}

static json_t *container_of(const struct kp_inject_node *n, struct kp_inject_wishes *w,
	const struct kp_inject_settings *settings, struct kp_arena *a)
{
	struct merged requests = { .n = 0 }, limits = { .n = 0 };
	merge_resources(n, &requests, &limits);
	lift(&limits, &requests);
	w->requests = requests.kv, w->n_requests = requests.n;
	w->limits = limits.kv, w->n_limits = limits.n;
	/* A pod with a container that has no limits: so the gateway needs none either. */
	json_t *spec = json_pack("{s:[{}]}", "containers");
	const struct kp_inject_place place = { .spec = spec, .pool = n->engines[0].facts.pool };
	json_t *c = kp_inject_gateway(&place, w, settings, a);
	json_decref(spec);
	json_object_del(c, "restartPolicy"); /* no init container here */
	return c;
}

/* The first one's, with the longest drain of all. What is wrong with one of them is never mixed with what others ask for. */
static int read_all(const struct kp_inject_node *n, struct kp_inject_wishes *ret,
	struct kp_arena *a, struct kp_err *err)
{
	struct kp_inject_notes notes = { .n = 0 };
	json_t *pod = json_object();
	int r = 0;
	for (size_t i = 0; i < n->n_engines && r == 0; i++) {
		struct kp_inject_wishes w;
		r = kp_inject_read_wishes(pod, &n->engines[i].facts, &w, &notes, a, err);
		if (r) {
			kp_err_wrap(err, "engine `%" KP_FMT "`", KP_ARG(n->engines[i].name));
		}
		*ret = i == 0 ? w : *ret;
		ret->drain_s = KP_MAX(ret->drain_s, w.drain_s);
	}
	json_decref(pod);
	return r;
}

int kp_inject_node_gateway(const struct kp_inject_node *n,
	const struct kp_inject_settings *settings, struct kp_arena *a, json_t **ret,
	struct kp_err *err)
{
	KP_BUG_ON(n->n_engines == 0);
	struct kp_inject_wishes w;
	if (read_all(n, &w, a, err)) {
		return -1;
	}
	json_t *spec = json_pack("{s:b, s:b, s:i, s:{s:b, s:{s:s}}, s:[o], s:[o, o, o], s:o}",
		"automountServiceAccountToken", 0, "enableServiceLinks", 0,
		"terminationGracePeriodSeconds", w.drain_s + KP_INJECT_ENGINE_STOP_S,
		"securityContext", "runAsNonRoot", 1, "seccompProfile", "type", "RuntimeDefault",
		"containers", container_of(n, &w, settings, a), "volumes",
		kp_inject_identity_volume(), kp_inject_memory_volume("kelpie-state", "256Mi"),
		kp_inject_memory_volume("kelpie-nothing", "1Mi"), "tolerations", tolerations_of(n));
	KP_BUG_ON(!spec);
	json_t *terms = terms_of(n);
	if (terms) {
		kp_put(spec, "affinity",
			json_pack("{s:{s:{s:o}}}", "nodeAffinity",
				"requiredDuringSchedulingIgnoredDuringExecution",
				"nodeSelectorTerms", terms));
	}
	*ret = json_pack("{s:{s:{s:s#}}, s:{s:s, s:{s:i}}, s:{s:{s:o}, s:o}}", "selector",
		"matchLabels", KP_INJECT_NODE_LABEL, n->ns.p, (int)n->ns.n, "updateStrategy",
		"type", "RollingUpdate", "rollingUpdate", "maxUnavailable", 1, "template",
		"metadata", "labels", labels_of(n, a), "spec", spec);
	KP_BUG_ON(!*ret);
	return 0;
}
