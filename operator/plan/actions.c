/* DESIGN: one function for each kind of object; each makes the whole intent of a server-side apply, so that what is not in it
   any more goes. The digest is taken of the intent without itself. */
#include "operator/plan/actions.h"

#include "base/vec.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	ARENA_BYTES = 64 << 20,
	REVISION_DIGITS = 10,
	GRACE_MARGIN_S =
		15, /* beyond the drain budget: for the engine to end and its gateway after it */
};

/* --- small things --- */

static void hex_of(const json_t *v, size_t digits, char *ret)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char *text = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	KP_BUG_ON(!text);
	SHA256((const unsigned char *)text, strlen(text), hash);
	kp_mem_free(text);
	for (size_t i = 0; i < digits; i++) {
		ret[i] = "0123456789abcdef"[i % 2 ? hash[i / 2] & 15 : hash[i / 2] >> 4];
	}
	ret[digits] = '\0';
}

void kp_actions_digest(const json_t *v, char ret[KP_DIGEST_MAX])
{
	hex_of(v, KP_DIGEST_MAX - 1, ret);
}

kp_str kp_actions_revision(const struct kp_world_engine *e, struct kp_arena *a)
{
	const json_t *template = kp_doc_at(e->json, "spec.template");
	char hex[REVISION_DIGITS + 1];
	if (!template) {
		return KP_S("");
	}
	hex_of(template, REVISION_DIGITS, hex);
	return kp_str_c(kp_arena_strz(a, kp_str_c(hex)));
}

static json_t *text(kp_str s)
{
	json_t *v = json_stringn(s.p, s.n);
	KP_BUG_ON(!v);
	return v;
}

static void set(json_t *object, const char *key, json_t *v)
{
	KP_BUG_ON(json_object_set_new(object, key, v));
}

static json_t *owner(
	const char *api_version, const char *kind, kp_str name, kp_str uid, bool is_one)
{
	json_t *o = json_pack("{s:s,s:s,s:o,s:o}", "apiVersion", api_version, "kind", kind, "name",
		text(name), "uid", text(uid));
	KP_BUG_ON(!o);
	if (is_one) {
		set(o, "controller", json_true());
	}
	return o;
}

/* metadata of something of ours; `owners` is taken. */
static json_t *meta_of(kp_str ns, kp_str name, const char *label, kp_str value, json_t *owners)
{
	json_t *m = json_pack("{s:o,s:o,s:{s:s,s:o},s:o}", "name", text(name), "namespace",
		text(ns), "labels", KP_LABEL_MANAGED, KP_MANAGED_BY, label, text(value),
		"ownerReferences", owners);
	KP_BUG_ON(!m);
	return m;
}

struct maker {
	const struct kp_world *w;
	struct kp_arena *arena;
	KP_VEC(struct kp_action)
	actions;
};

/* Takes the intent, whose annotation says its digest. */
static void add(struct maker *m, struct kp_action one, json_t *intent)
{
	json_t *meta = json_object_get(intent, "metadata");
	kp_actions_digest(intent, one.digest);
	set(meta, "annotations", json_pack("{s:s}", KP_ANNOTATION_APPLIED, one.digest));
	one.intent = intent;
	kp_vec_push(&m->actions, one);
}

/* --- Deployments --- */

/* A member that is an object, made if it is not there; NULL: it is something else, which the server will refuse. */
static json_t *object_in(json_t *v, const char *key)
{
	json_t *member = json_object_get(v, key);
	if (!member) {
		set(v, key, json_object());
		member = json_object_get(v, key);
	}
	return json_is_object(member) ? member : NULL;
}

/* The user's, with our labels, and with enough time to end in if it says nothing itself. */
static json_t *pod_template(const struct kp_world_engine *e, kp_str revision)
{
	json_t *t = json_deep_copy(kp_doc_at(e->json, "spec.template"));
	KP_BUG_ON(!t);
	json_t *meta = object_in(t, "metadata"), *labels = meta ? object_in(meta, "labels") : NULL,
	       *spec = object_in(t, "spec");
	if (labels) {
		set(labels, KP_INJECT_LABEL, text(e->name));
		set(labels, KP_LABEL_REVISION, text(revision));
	}
	if (spec && !json_object_get(spec, "terminationGracePeriodSeconds")) {
		set(spec, "terminationGracePeriodSeconds",
			json_integer(e->spec->drain.budget_seconds + GRACE_MARGIN_S));
	}
	return t;
}

static bool is_on_nodes(const struct kp_world_engine *e)
{
	return e->spec && !e->problem.n && !e->is_ending && kp_engine_is_in_pods(e->spec) &&
	       e->spec->gateway.mode == KP_INFERENCE_ENGINE_GATEWAY_MODE_NODE;
}

/* One pod more than asked for at a time, and none less: the old ones serve until the new ones take requests, which their
   readiness gate says. */
static void add_deployment(struct maker *m, const struct kp_world_engine *e)
{
	kp_str revision = kp_actions_revision(e, m->arena);
	json_t *owners = json_pack(
		"[o]", owner("kelpie.dev/v1alpha1", "InferenceEngine", e->name, e->uid, true));
	json_t *intent = json_pack("{s:s,s:s,s:o,s:{s:i,s:{s:{s:o}},s:{s:s,s:{s:i,s:i}},s:o}}",
		"apiVersion", "apps/v1", "kind", "Deployment", "metadata",
		meta_of(e->ns, e->name, KP_INJECT_LABEL, e->name, owners), "spec", "replicas",
		(int)e->spec->replicas, "selector", "matchLabels", KP_INJECT_LABEL, text(e->name),
		"strategy", "type", "RollingUpdate", "rollingUpdate", "maxSurge", 1,
		"maxUnavailable", 0, "template", pod_template(e, revision));
	KP_BUG_ON(!intent);
	add(m,
		(struct kp_action){ .kind = &kp_kind_deployment,
			.ns = e->ns,
			.name = e->name,
			.owner_uid = e->uid,
			.is_late =
				is_on_nodes(e) }, /* after the Service that its pods' ends ask at */
		intent);
}

/* --- Services --- */

static void add_service(struct maker *m, const struct kp_world_pool *p)
{
	json_t *ports = json_array(), *selector = json_object();
	KP_BUG_ON(!ports || !selector);
	const char *protocol =
		p->spec->app_protocol == KP_INFERENCE_POOL_APP_PROTOCOL_KUBERNETES_IO_H2C
			? "kubernetes.io/h2c"
			: "http";
	for (size_t i = 0; i < p->spec->n_target_ports; i++) {
		char name[32];
		int port = p->spec->target_ports[i].number;
		snprintf(name, sizeof(name), "http-%zu", i);
		json_array_append_new(ports,
			json_pack("{s:s,s:i,s:i,s:s,s:s}", "name", name, "port", port, "targetPort",
				port, "protocol", "TCP", "appProtocol", protocol));
	}
	for (size_t i = 0; i < p->spec->selector.n_match_labels; i++) {
		const struct kp_kv *kv = &p->spec->selector.match_labels[i];
		json_object_setn_new(selector, kv->key.p, kv->key.n, text(kv->value));
	}
	json_t *owners = json_pack("[o]",
		owner("inference.networking.k8s.io/v1", "InferencePool", p->name, p->uid, true));
	json_t *intent = json_pack("{s:s,s:s,s:o,s:{s:o,s:o}}", "apiVersion", "v1", "kind",
		"Service", "metadata", meta_of(p->ns, p->name, "kelpie.dev/pool", p->name, owners),
		"spec", "selector", selector, "ports", ports);
	KP_BUG_ON(!intent);
	add(m,
		(struct kp_action){ .kind = &kp_kind_service,
			.ns = p->ns,
			.name = p->name,
			.owner_uid = p->uid },
		intent);
}

/* --- node gateways --- */

/* Where kubelet asks the gateway of its own node whether a pod may end; also one that is not ready, or is ending. `owners` is
   taken. */
static void add_node_service(struct maker *m, kp_str ns, json_t *owners)
{
	if (kp_world_pool(m->w, ns, KP_S(KP_NODE_GATEWAYS))) {
		json_decref(owners); /* its own Service has that name: ends of pods only sleep */
		return;
	}
	json_t *intent = json_pack("{s:s,s:s,s:o,s:{s:{s:o},s:s,s:b,s:[{s:s,s:i,s:i,s:s}]}}",
		"apiVersion", "v1", "kind", "Service", "metadata",
		meta_of(ns, KP_S(KP_NODE_GATEWAYS), KP_INJECT_NODE_LABEL, ns, owners), "spec",
		"selector", KP_INJECT_NODE_LABEL, text(ns), "internalTrafficPolicy", "Local",
		"publishNotReadyAddresses", 1, "ports", "name", "probes", "port",
		KP_INJECT_PROBE_PORT, "targetPort", KP_INJECT_PROBE_PORT, "protocol", "TCP");
	KP_BUG_ON(!intent);
	add(m,
		(struct kp_action){ .kind = &kp_kind_service,
			.ns = ns,
			.name = KP_S(KP_NODE_GATEWAYS),
			.owner_uid = KP_S("") },
		intent);
}

/* One for all engines of mode Node of a namespace, which own it together. */
static void add_daemonset(struct maker *m, const struct kp_inject_settings *settings,
	const struct kp_world_engine *first, const struct kp_world_engine *end)
{
	struct kp_inject_node_engine *engines = kp_xcalloc((size_t)(end - first), sizeof(*engines));
	struct kp_inject_node node = { .ns = first->ns, .engines = engines };
	struct kp_action one = { .kind = &kp_kind_daemonset,
		.ns = first->ns,
		.name = KP_S(KP_NODE_GATEWAYS),
		.owner_uid = KP_S("") };
	json_t *owners = json_array(), *spec = NULL;
	struct kp_err err;
	for (const struct kp_world_engine *e = first; e < end; e++) {
		if (is_on_nodes(e)) {
			const struct kp_world_pool *pool =
				kp_world_pool(m->w, e->ns, e->spec->pool_ref.name);
			engines[node.n_engines++] = (struct kp_inject_node_engine){ .name = e->name,
				.facts = { .engine = e->spec, .pool = pool ? pool->spec : NULL },
				.template = kp_doc_at(e->json, "spec.template") };
			json_array_append_new(
				owners, owner("kelpie.dev/v1alpha1", "InferenceEngine", e->name,
						e->uid, false));
		}
	}
	if (node.n_engines && kp_inject_node_gateway(&node, settings, m->arena, &spec, &err)) {
		struct kp_err *why = kp_arena_new(m->arena, struct kp_err);
		*why = err;
		one.cannot = why;
		kp_vec_push(&m->actions, one);
	} else if (node.n_engines) {
		json_t *intent = json_pack("{s:s,s:s,s:o,s:o}", "apiVersion", "apps/v1", "kind",
			"DaemonSet", "metadata",
			meta_of(first->ns, KP_S(KP_NODE_GATEWAYS), KP_INJECT_NODE_LABEL, first->ns,
				json_incref(owners)),
			"spec", spec);
		KP_BUG_ON(!intent);
		add(m, one, intent);
		add_node_service(m, first->ns, json_incref(owners));
	}
	json_decref(owners);
	kp_mem_free(engines);
}

static void add_daemonsets(struct maker *m, const struct kp_inject_settings *settings)
{
	const struct kp_world_engine *engines = m->w->engines;
	for (size_t i = 0, next = 0; i < m->w->n_engines; i = next) {
		while (next < m->w->n_engines && kp_str_eq(engines[next].ns, engines[i].ns)) {
			next++;
		}
		add_daemonset(m, settings, engines + i, engines + next);
	}
}

/* --- what is not wanted --- */

static bool is_wanted(const struct maker *m, const struct kp_world_owned *o)
{
	for (size_t i = 0; i < m->actions.n; i++) {
		const struct kp_action *a = &m->actions.p[i];
		if (kp_str_eq(kp_str_c(a->kind->kind), kp_str_c(o->kind)) &&
			kp_str_eq(a->ns, o->ns) && kp_str_eq(a->name, o->name)) {
			return true;
		}
	}
	return false;
}

/* All its engines are there and none is of mode Node. What belongs to an engine that is gone Kubernetes takes away by
   itself; while an engine makes no sense, what it had goes on. */
static bool is_left_over(const struct kp_world *w, const struct kp_world_owned *o)
{
	const json_t *owners = kp_doc_at(o->json, "metadata.ownerReferences");
	for (size_t i = 0; i < json_array_size(owners); i++) {
		const json_t *r = json_array_get(owners, i);
		const struct kp_world_engine *e = kp_world_engine(w, o->ns, kp_doc_str(r, "name"));
		if (!kp_str_eq(kp_doc_str(r, "kind"), KP_S("InferenceEngine")) || !e ||
			!kp_str_eq(e->uid, kp_doc_str(r, "uid")) || e->problem.n || !e->spec ||
			is_on_nodes(e)) {
			return false;
		}
	}
	return json_array_size(owners) > 0;
}

static void add_left_overs(struct maker *m)
{
	for (size_t i = 0; i < m->w->n_owned; i++) {
		const struct kp_world_owned *o = &m->w->owned[i];
		if (kp_str_eq(kp_str_c(o->kind), KP_S("DaemonSet")) && !is_wanted(m, o) &&
			is_left_over(m->w, o)) {
			const struct kp_action one = { .kind = &kp_kind_daemonset,
				.ns = o->ns,
				.name = o->name,
				.uid = o->uid,
				.owner_uid = KP_S("") };
			kp_vec_push(&m->actions, one);
		}
	}
}

/* --- all --- */

static int compare(const void *a, const void *b)
{
	const struct kp_action *x = a, *y = b;
	int r = kp_str_cmp(kp_str_c(x->kind->kind), kp_str_c(y->kind->kind));
	r = r ? r : kp_str_cmp(x->ns, y->ns);
	return r ? r : kp_str_cmp(x->name, y->name);
}

/* Texts outlive the world. */
static void copy_texts(struct maker *m)
{
	for (size_t i = 0; i < m->actions.n; i++) {
		struct kp_action *a = &m->actions.p[i];
		a->ns = kp_str_n(kp_arena_strz(m->arena, a->ns), a->ns.n);
		a->name = kp_str_n(kp_arena_strz(m->arena, a->name), a->name.n);
		a->uid = kp_str_n(kp_arena_strz(m->arena, a->uid), a->uid.n);
		a->owner_uid = kp_str_n(kp_arena_strz(m->arena, a->owner_uid), a->owner_uid.n);
	}
}

struct kp_actions *kp_actions_make(
	const struct kp_world *w, const struct kp_inject_settings *gateway)
{
	struct maker m = { .w = w, .arena = kp_arena_create(ARENA_BYTES) };
	for (size_t i = 0; i < w->n_engines; i++) {
		const struct kp_world_engine *e = &w->engines[i];
		if (e->spec && e->spec->has_template && !e->problem.n && !e->is_ending) {
			add_deployment(&m, e);
		}
	}
	for (size_t i = 0; i < w->n_pools; i++) {
		add_service(&m, &w->pools[i]);
	}
	add_daemonsets(&m, gateway);
	add_left_overs(&m);
	copy_texts(&m);
	if (m.actions.n) {
		qsort(m.actions.p, m.actions.n, sizeof(*m.actions.p), compare);
	}
	struct kp_actions *a = kp_new(struct kp_actions);
	*a = (struct kp_actions){ .arena = m.arena, .p = m.actions.p, .n = m.actions.n };
	return a;
}

void kp_actions_destroy(struct kp_actions *a)
{
	if (a) {
		for (size_t i = 0; i < a->n; i++) {
			json_decref(a->p[i].intent);
		}
		kp_mem_free(a->p);
		kp_arena_destroy(a->arena);
		kp_mem_free(a);
	}
}
