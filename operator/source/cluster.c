/* DESIGN: a store for each kind and namespace. When one of our objects changes, a moment later all of them are read and
   checked anew, as files are; that costs what reading as many manifests costs, and there is one way from objects to
   programs. When anything else changes, a moment later that is put into the world, or taken out of it; where it is much at once (a list
   that came, a server that was away), the world is put together anew from what the stores have. */
#include "operator/source/cluster.h"

#include "base/clock.h"
#include "base/vec.h"
#include "kube/lookup.h"
#include "kube/store.h"
#include "obs/log.h"
#include "operator/plan/kinds.h"
#include "operator/source/objects.h"
#include "operator/source/trim.h"

#include <stdio.h>
#include <stdlib.h>

#define GATHER_NS (50 * KP_NS_PER_MS)
enum {
	ERRORS_TEXT_MAX = 1 << 18,
	WORKLOAD_KINDS_MAX = 16,
	CHANGES_MAX = 256, /* each moves half of a list; beyond, all is sorted once */
};

#define OURS KP_LABEL_MANAGED "=" KP_MANAGED_BY

/* What is watched. The first ones are needed before anything is said. */
static const struct watched {
	const struct kp_kube_kind *kind;
	enum kp_kind type; /* one of our objects */
	const char *labels;
	void (*trim)(json_t *object);
} watched[] = {
	{ &kp_kind_pool, KP_KIND_INFERENCE_POOL, "", NULL },
	{ &kp_kind_engine, KP_KIND_INFERENCE_ENGINE, "", NULL },
	{ &kp_kind_tool_server, KP_KIND_TOOL_SERVER, "", NULL },
	{ &kp_kind_pod, KP_KIND_NONE, KP_INJECT_LABEL, kp_trim_pod },
	{ &kp_kind_pod, KP_KIND_NONE, KP_INJECT_NODE_LABEL, kp_trim_pod },
	{ &kp_kind_deployment, KP_KIND_NONE, OURS, kp_trim_owned },
	{ &kp_kind_daemonset, KP_KIND_NONE, OURS, kp_trim_owned },
	{ &kp_kind_service, KP_KIND_NONE, OURS, kp_trim_owned },
	{ &kp_kind_node, KP_KIND_NONE, "", kp_trim_node },
};
/* A kind that a workloadRef names: looked up when an engine names it first, then watched until the operator ends. */
struct workloads {
	struct kp_cluster *c;
	char *api_version, *kind;
	struct kp_kube_lookup *lookup;
	struct watched what;
	bool is_watched;
	char problem[KP_ERR_MSG];
};

struct source {
	struct kp_cluster *c;
	const struct watched *what;
	int workload;   /* of the kinds that workloadRefs name; -1: something else */
	const char *ns; /* "": all */
	struct kp_kube_store *store;
};
/* Of an object; each side may be NULL. References. */
struct change {
	const struct source *s;
	json_t *before, *now;
};
struct kp_cluster {
	struct kp_loop *loop;
	struct kp_cluster_opts opts;
	struct kp_kube_config *config;
	struct kp_kube *kube;
	struct source *sources;
	size_t n_sources;
	struct workloads workloads[WORKLOAD_KINDS_MAX];
	struct kp_world_kind kinds[WORKLOAD_KINDS_MAX]; /* the same, as the world has them */
	size_t n_workloads;
	bool is_stale; /* our objects are to be read anew, not only the world */
	bool is_anew;  /* the world is to be made of all that the stores have */
	KP_VEC(struct change)
	changes; /* else: what it lacks, in the order of their coming */
	struct kp_timer gather;
	struct kp_objects objects; /* as read last */
	struct kp_object_set *set; /* accepted last; the world has it once there is one */
	struct kp_world *world;    /* NULL: not yet */
	struct kp_buf all; /* lines: objects that are left out, and what cannot be watched */
	size_t n_all;
	int64_t accepted_wall_ns;
	struct kp_counter *loads_accepted, *loads_refused;
	struct kp_gauge *errors;
};

/* --- what people see --- */

static const char *hint(const struct source *s, const struct kp_err *err)
{
	if (err->code != KP_NOT_FOUND || s->what->type == KP_KIND_NONE) {
		return "";
	}
	return s->what->type == KP_KIND_INFERENCE_POOL
		       ? ": is its CustomResourceDefinition installed? It is the standard one of the Gateway API "
			 "Inference Extension, which this operator never installs"
		       : ": is its CustomResourceDefinition installed?";
}

static void list_problems(struct kp_cluster *c)
{
	kp_buf_reset(&c->all);
	kp_buf_add(&c->all, kp_buf_str(&c->objects.left_out));
	c->n_all = c->objects.n_left_out;
	for (size_t i = 0; i < c->n_sources; i++) {
		const struct source *s = &c->sources[i];
		const struct kp_kube_store_state *st =
			s->store ? kp_kube_store_state(s->store) : NULL;
		if (st && st->err.code != KP_OK) {
			char line[KP_ERR_MSG + 300];
			snprintf(line, sizeof(line), "error: watch `%s`%s%s%s%s: %s%s",
				s->what->kind->plural, s->what->labels[0] ? " with " : "",
				s->what->labels, s->ns[0] ? " of " : "", s->ns, st->err.msg,
				hint(s, &st->err));
			kp_objects_add_line(&c->all, &c->n_all, kp_str_c(line));
		}
	}
	kp_gauge_set(c->errors, (int64_t)c->n_all);
	c->opts.shown(c->opts.ctx);
}

/* Said once, not with each reading. */
static void log_new(kp_str before, kp_str now)
{
	kp_str rest = now, line;
	while (rest.n && kp_str_split(&rest, '\n', &line)) {
		if (line.n && !kp_str_has(before, line)) {
			kp_log(KP_LOG_ERROR, "object left out",
				kp_f_str("problem", kp_str_trim(line)));
		}
	}
}

/* --- our objects --- */

static void read_objects(struct kp_cluster *c)
{
	KP_VEC(struct kp_objects_input)
	in = { 0 };
	struct kp_objects now;
	struct kp_err err = KP_ERR_INIT;
	for (size_t i = 0; i < c->n_sources; i++) {
		const struct source *s = &c->sources[i];
		const json_t *v;
		for (size_t at = 0;
			s->what->type != KP_KIND_NONE && (v = kp_kube_store_next(s->store, &at));) {
			struct kp_objects_input one = { s->what->type, v };
			kp_vec_push(&in, one);
		}
	}
	bool is_taken = kp_objects_read(in.p, in.n, c->opts.check, c->opts.ctx, &now, &err) == 0;
	kp_vec_fini(&in);
	kp_counter_add(is_taken ? c->loads_accepted : c->loads_refused, 1);
	if (!is_taken) {
		kp_log(KP_LOG_ERROR, "objects refused, the last good program stays",
			kp_f_err(&err));
	}
	log_new(kp_buf_str(&c->objects.left_out), kp_buf_str(&now.left_out));
	kp_objects_fini(&c->objects);
	c->objects = now;
	c->is_stale = false;
	if (is_taken) {
		c->set = kp_steal(c->objects.set);
		c->accepted_wall_ns = kp_wall_ns();
	}
}

/* --- the world --- */

static void add_ours(struct kp_cluster *c, struct kp_world *w, enum kp_kind kind, const json_t *v)
{
	const json_t *m = json_object_get(v, "metadata");
	kp_str ns = kp_doc_str(m, "namespace"), name = kp_doc_str(m, "name");
	const struct kp_object *o = kp_object_set_find(w->set, kind, ns, name);
	if (kind == KP_KIND_INFERENCE_ENGINE) {
		kp_world_add_engine(w, v, o, kp_objects_problem(&c->objects, kind, ns, name));
	} else if (o && kind == KP_KIND_INFERENCE_POOL) {
		kp_world_add_pool(w, v, o); /* of tool servers programs alone know, by the set */
	}
}

/* A pod with both labels is a node's gateway, and is taken from that store alone. */
static bool is_others(const struct source *s, const json_t *v)
{
	return s->what->kind == &kp_kind_pod &&
	       kp_world_is_gateway(v) !=
		       kp_str_eq(kp_str_c(s->what->labels), KP_S(KP_INJECT_NODE_LABEL));
}

static void add(struct kp_cluster *c, struct kp_world *w, const struct source *s, const json_t *v)
{
	if (is_others(s, v)) {
		return;
	}
	if (s->what->type != KP_KIND_NONE) {
		add_ours(c, w, s->what->type, v);
	} else if (s->what->kind == &kp_kind_pod) {
		kp_world_add_pod(w, v);
	} else if (s->what->kind == &kp_kind_node) {
		kp_world_add_node(w, v);
	} else if (s->workload >= 0) {
		kp_world_add_workload(w, s->workload, v);
	} else {
		kp_world_add_owned(w, s->what->kind->kind, v);
	}
}

static void drop(struct kp_world *w, const struct source *s, const json_t *v)
{
	if (is_others(s, v)) {
		return;
	}
	if (s->what->type == KP_KIND_INFERENCE_ENGINE) {
		(void)kp_world_drop_engine(w, v);
	} else if (s->what->type == KP_KIND_INFERENCE_POOL) {
		(void)kp_world_drop_pool(w, v); /* one that makes no sense is not there */
	} else if (s->what->type == KP_KIND_TOOL_SERVER) {
		return;
	} else if (s->what->kind == &kp_kind_pod) {
		(void)kp_world_drop_pod(w, v);
	} else if (s->what->kind == &kp_kind_node) {
		(void)kp_world_drop_node(w, v);
	} else if (s->workload >= 0) {
		(void)kp_world_drop_workload(w, s->workload, v);
	} else {
		(void)kp_world_drop_owned(w, s->what->kind->kind, v);
	}
}

static void look_up_workloads(struct kp_cluster *c);

/* How a kind of workloads stands: what cannot be asked, or not be watched. */
static void set_kind(struct kp_cluster *c, size_t at)
{
	struct workloads *k = &c->workloads[at];
	struct kp_world_kind *to = &c->kinds[at];
	const struct kp_err *err = kp_kube_lookup_error(k->lookup);
	*to = (struct kp_world_kind){ .api_version = kp_str_c(k->api_version),
		.kind = kp_str_c(k->kind),
		.is_known = k->is_watched,
		.is_missing = err->code == KP_NOT_FOUND || err->code == KP_INVALID_ARGUMENT };
	for (size_t i = 0; i < c->n_sources; i++) {
		const struct source *s = &c->sources[i];
		if (s->workload == (int)at && !kp_kube_store_state(s->store)->is_synced) {
			err = &kp_kube_store_state(s->store)->err;
			to->is_known = false;
		}
	}
	snprintf(k->problem, sizeof(k->problem), "%s", err->code == KP_OK ? "" : err->msg);
	to->problem = kp_str_c(k->problem);
}

static void set_known(struct kp_cluster *c, struct kp_world *w)
{
	w->has_nodes = c->opts.names->n == 0;
	w->podless.n = 0;
	for (size_t i = 0; i < c->n_sources; i++) {
		const struct source *s = &c->sources[i];
		bool is_known = kp_kube_store_state(s->store)->is_synced;
		if (s->what->kind == &kp_kind_pod && !is_known) {
			kp_vec_push(&w->podless, kp_str_c(s->ns));
		}
		w->has_nodes &= is_known || s->what->kind != &kp_kind_node;
	}
	for (size_t i = 0; i < c->n_workloads; i++) {
		set_kind(c, i);
	}
	w->kinds = c->kinds;
	w->n_kinds = c->n_workloads;
}

static void forget_changes(struct kp_cluster *c)
{
	for (size_t i = 0; i < c->changes.n; i++) {
		json_decref(c->changes.p[i].before);
		json_decref(c->changes.p[i].now);
	}
	c->changes.n = 0;
}

/* The specs lie in the set that was accepted last, which goes on from world to world. */
static void make_world(struct kp_cluster *c)
{
	struct kp_object_set *set = c->set;
	c->set = NULL;
	if (!set) {
		set = kp_steal(c->world->set);
	}
	struct kp_world *w = kp_world_create(set);
	for (size_t i = 0; i < c->n_sources; i++) {
		const struct source *s = &c->sources[i];
		const json_t *v;
		for (size_t at = 0; (v = kp_kube_store_next(s->store, &at));) {
			add(c, w, s, v);
		}
	}
	kp_world_sort(w);
	kp_world_destroy(c->world);
	c->world = w;
	c->is_anew = false;
	forget_changes(c);
	look_up_workloads(c);
	set_known(c, w);
}

/* Returns whether anything but pods and nodes is another. */
static bool change_world(struct kp_cluster *c)
{
	bool is_more = false;
	for (size_t i = 0; i < c->changes.n; i++) {
		const struct change *one = &c->changes.p[i];
		if (one->before) {
			drop(c->world, one->s, one->before);
		}
		if (one->now) {
			add(c, c->world, one->s, one->now);
		}
		is_more |=
			one->s->what->kind != &kp_kind_pod && one->s->what->kind != &kp_kind_node;
	}
	forget_changes(c);
	set_known(c, c->world);
	return is_more;
}

/* --- when something changed --- */

static void on_gather(struct kp_timer *t)
{
	struct kp_cluster *c = KP_CONTAINER(t, struct kp_cluster, gather);
	bool was_stale = c->is_stale;
	if (was_stale) {
		read_objects(c);
	}
	if (c->set && was_stale) {
		make_world(c);
		c->opts.accepted(c->opts.ctx);
	} else if (c->world && (was_stale || c->is_anew)) {
		make_world(c);
		c->opts.moved(c->opts.ctx, true);
	} else if (c->world) {
		c->opts.moved(c->opts.ctx, change_world(c));
	}
	list_problems(c);
}

static bool may_gather(const struct kp_cluster *c)
{
	for (size_t i = 0; i < c->n_sources; i++) {
		const struct source *s = &c->sources[i];
		const struct kp_kube_store_state *st =
			s->store ? kp_kube_store_state(s->store) : NULL;
		/* Where nobody defined tool servers, or this operator may not see them, the rest goes on. */
		bool is_without =
			s->what->type == KP_KIND_TOOL_SERVER && st &&
			(st->err.code == KP_NOT_FOUND || st->err.code == KP_PERMISSION_DENIED);
		if (s->what->type != KP_KIND_NONE && !(st && st->is_synced) && !is_without) {
			return false;
		}
	}
	return true;
}

static void gather_soon(struct kp_cluster *c)
{
	if (may_gather(c) && !c->gather.heap_index) {
		kp_timer_start(c->loop, &c->gather, kp_loop_now(c->loop) + GATHER_NS, on_gather);
	}
}

/* Until there is a world nothing is lacking. */
static void note(struct source *s, const json_t *before, const json_t *now)
{
	struct kp_cluster *c = s->c;
	c->is_anew |= c->is_stale || c->changes.n == CHANGES_MAX;
	if (c->is_anew) {
		forget_changes(c);
	} else if (c->world) {
		const struct change one = { .s = s,
			.before = json_incref(kp_unconst(before)),
			.now = json_incref(kp_unconst(now)) };
		kp_vec_push(&c->changes, one);
	}
}

static void on_changed(void *ctx, const json_t *before, const json_t *now)
{
	struct source *s = ctx;
	bool is_ours = s->what->type != KP_KIND_NONE;
	if (is_ours && before && now &&
		json_equal(json_object_get(before, "spec"), json_object_get(now, "spec"))) {
		/* Its status, which is ours, or its labels: no reason to read everything. */
	} else if (is_ours) {
		s->c->is_stale = true;
	} else if (before && now && kp_trim_same(before, now)) {
		return; /* the world keeps the one of before, which is as good */
	}
	note(s, before, now);
	gather_soon(s->c);
}

static void on_synced(void *ctx)
{
	struct source *s = ctx;
	s->c->is_stale |= s->what->type != KP_KIND_NONE;
	gather_soon(s->c);
}

static void on_state(void *ctx)
{
	struct source *s = ctx;
	const struct kp_kube_store_state *st = kp_kube_store_state(s->store);
	if (st->err.code != KP_OK) {
		kp_log(KP_LOG_WARN, "cannot watch", kp_f_z("resource", s->what->kind->plural),
			kp_f_z("namespace", s->ns), kp_f_err(&st->err));
	}
	list_problems(s->c);
	if (s->workload >= 0 ||
		s->what->type == KP_KIND_TOOL_SERVER) { /* conditions say so; it may be missing */
		gather_soon(s->c);
	}
}

static const struct kp_kube_store_ops store_ops = { on_changed, on_synced, on_state };

/* --- life --- */

static void start_source(
	struct kp_cluster *c, const struct watched *what, int workload, const char *ns)
{
	struct source *s = &c->sources[c->n_sources++];
	*s = (struct source){ .c = c, .what = what, .workload = workload, .ns = ns };
	const struct kp_kube_store_opts opts = { .kind = what->kind,
		.ns = kp_str_c(ns),
		.labels = kp_str_c(what->labels),
		.max_objects = what->type == KP_KIND_NONE ? 0 : KP_MANIFEST_MAX_OBJECTS,
		.trim = what->trim,
		.ops = &store_ops,
		.ctx = s };
	s->store = kp_kube_store_create(c->kube, &opts);
}

/* Twice; each object is to come from one store. */
static bool is_named(const struct kp_cluster *c, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (kp_str_eq(kp_str_c(c->opts.names->p[i]), kp_str_c(c->opts.names->p[at]))) {
			return true;
		}
	}
	return false;
}

static void watch_workloads(struct workloads *k)
{
	struct kp_cluster *c = k->c;
	k->what = (struct watched){ kp_kube_lookup_kind(k->lookup), KP_KIND_NONE, "",
		kp_trim_workload };
	k->is_watched = true;
	for (size_t i = 0; i < KP_MAX(c->opts.names->n, (size_t)1); i++) {
		if (!is_named(c, i)) {
			start_source(c, &k->what, (int)(k - c->workloads),
				c->opts.names->n ? c->opts.names->p[i] : "");
		}
	}
}

static void on_looked_up(void *ctx)
{
	struct workloads *k = ctx;
	if (kp_kube_lookup_kind(k->lookup)) {
		watch_workloads(k);
	}
	gather_soon(k->c);
}

static void look_up_workloads(struct kp_cluster *c)
{
	c->world->kinds = c->kinds;
	for (size_t i = 0; i < c->world->n_engines; i++) {
		const struct kp_inference_engine_spec *spec = c->world->engines[i].spec;
		const struct kp_inference_engine_workload_ref *r = spec ? spec->workload_ref : NULL;
		c->world->n_kinds = c->n_workloads;
		if (!r || kp_world_workload_kind(c->world, spec) >= 0 ||
			c->n_workloads == WORKLOAD_KINDS_MAX) {
			continue;
		}
		struct workloads *k = &c->workloads[c->n_workloads++];
		*k = (struct workloads){
			.c = c, .api_version = kp_str_z(r->api_version), .kind = kp_str_z(r->kind)
		};
		k->lookup =
			kp_kube_lookup_create(c->kube, r->api_version, r->kind, on_looked_up, k);
		set_kind(c, c->n_workloads - 1);
	}
}

static void start(struct kp_cluster *c)
{
	size_t n = KP_MAX(c->opts.names->n, (size_t)1);
	c->sources = kp_xcalloc(n * (KP_LEN(watched) + WORKLOAD_KINDS_MAX), sizeof(*c->sources));
	for (size_t i = 0; i < n; i++) {
		const char *ns = c->opts.names->n ? c->opts.names->p[i] : "";
		for (size_t k = 0; k < KP_LEN(watched) && !is_named(c, i); k++) {
			/* What has no namespace is for those who may see all of them. */
			if (!watched[k].kind->is_cluster || !ns[0]) {
				start_source(c, &watched[k], -1, ns);
			}
		}
	}
	kp_log(KP_LOG_INFO, "watching", kp_f_z("server", c->config->server),
		kp_f_z("namespaces", c->opts.names->n ? "some" : "all"));
}

static void init_metrics(struct kp_cluster *c)
{
	const struct kp_label accepted = { "result", KP_S("accepted") },
			      refused = { "result", KP_S("refused") };
	const char *name = "kelpie_operator_object_loads_total",
		   *help = "Times the objects of the cluster were read, by result.";
	c->loads_accepted = kp_metrics_counter(c->opts.metrics, name, help, &accepted, 1);
	c->loads_refused = kp_metrics_counter(c->opts.metrics, name, help, &refused, 1);
	c->errors = kp_metrics_gauge(c->opts.metrics, "kelpie_operator_object_errors",
		"What is wrong in objects of the cluster, and watches that fail.", NULL, 0);
}

int kp_cluster_create(struct kp_loop *loop, const struct kp_cluster_opts *opts,
	struct kp_cluster **ret, struct kp_err *err)
{
	struct kp_cluster *c = kp_new(struct kp_cluster);
	c->loop = loop;
	c->opts = *opts;
	kp_buf_init(&c->all, 2 * ERRORS_TEXT_MAX);
	int r = opts->kubeconfig ? kp_kube_config_load(opts->kubeconfig, NULL, &c->config, err)
				 : kp_kube_config_in_pod(NULL, getenv("KUBERNETES_SERVICE_HOST"),
					   getenv("KUBERNETES_SERVICE_PORT"), &c->config, err);
	const struct kp_kube_opts kube = {
		.config = c->config, .user_agent = opts->user_agent, .metrics = opts->metrics
	};
	if (r || kp_kube_create(loop, &kube, &c->kube, err)) {
		kp_cluster_destroy(c);
		return -1;
	}
	init_metrics(c);
	start(c);
	*ret = c;
	return 0;
}

void kp_cluster_destroy(struct kp_cluster *c)
{
	if (!c) {
		return;
	}
	kp_timer_stop(c->loop, &c->gather);
	for (size_t i = 0; i < c->n_sources; i++) {
		kp_kube_store_destroy(c->sources[i].store);
	}
	for (size_t i = 0; i < c->n_workloads; i++) {
		kp_kube_lookup_destroy(c->workloads[i].lookup);
		kp_mem_free(c->workloads[i].api_version);
		kp_mem_free(c->workloads[i].kind);
	}
	kp_kube_destroy(c->kube);
	kp_kube_config_destroy(c->config);
	forget_changes(c);
	kp_vec_fini(&c->changes);
	kp_mem_free(c->sources);
	kp_world_destroy(c->world);
	kp_objects_fini(&c->objects);
	kp_buf_fini(&c->all);
	kp_mem_free(c);
}

struct kp_kube *kp_cluster_kube(const struct kp_cluster *c)
{
	return c->kube;
}

const char *kp_cluster_server(const struct kp_cluster *c)
{
	return c->config->server;
}

bool kp_cluster_is_synced(const struct kp_cluster *c)
{
	return c->accepted_wall_ns != 0;
}

kp_str kp_cluster_problems(const struct kp_cluster *c, size_t *ret_n)
{
	*ret_n = c->n_all;
	return kp_buf_str(&c->all);
}

int64_t kp_cluster_accepted_wall_ns(const struct kp_cluster *c)
{
	return c->accepted_wall_ns;
}

const struct kp_world *kp_cluster_world(const struct kp_cluster *c)
{
	return c->world;
}

const struct kp_kube_store *kp_cluster_store(
	const struct kp_cluster *c, const struct kp_kube_kind *kind, kp_str ns)
{
	for (size_t i = 0; i < c->n_sources; i++) {
		const struct source *s = &c->sources[i];
		if (s->what->kind == kind && (!s->ns[0] || kp_str_eq(kp_str_c(s->ns), ns))) {
			return s->store;
		}
	}
	return NULL;
}
