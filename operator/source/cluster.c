/* DESIGN: a store for each kind and namespace. When one changes, a moment later all objects are read and checked anew, as
   files are; that costs what reading as many manifests costs, and there is one way from objects to programs. An object
   that cannot be read is a problem of its own. Rules between objects may name more: those are left out too, and the rest
   is tried again, until nothing is named. */
#include "operator/source/cluster.h"

#include "base/clock.h"
#include "json/jansson.h"
#include "kube/store.h"
#include "obs/log.h"
#include "schema/errors.h"

#include <stdio.h>
#include <stdlib.h>

#define GATHER_NS (50 * KP_NS_PER_MS)
enum {
	ARENA_MAX = 256 << 20,
	SCRATCH_MAX = 8 << 20,
	FIELD_ERRORS_MAX = 16,
	ROUNDS_MAX = 200, /* of leaving objects out */
	ERRORS_TEXT_MAX = 1 << 18,
	LABEL_MAX = 400,
};

static const struct kp_kube_kind kinds[] = {
	{ "inference.networking.k8s.io", "v1", "inferencepools", "InferencePool", false },
	{ "kelpie.dev", "v1alpha1", "inferenceengines", "InferenceEngine", false },
};
static const enum kp_kind types[] = { KP_KIND_INFERENCE_POOL, KP_KIND_INFERENCE_ENGINE };

struct source {
	struct kp_cluster *c;
	enum kp_kind type;
	const struct kp_kube_kind *kind;
	const char *ns; /* "": all */
	struct kp_kube_store *store;
};
struct kp_cluster {
	struct kp_loop *loop;
	struct kp_cluster_opts opts;
	struct kp_kube_config *config;
	struct kp_kube *kube;
	struct source *sources;
	size_t n_sources, n_synced;
	struct kp_timer gather;
	struct kp_buf left_out; /* lines: of objects */
	size_t n_left_out;
	struct kp_buf all; /* and of what cannot be watched */
	size_t n_all;
	int64_t accepted_wall_ns;
	struct kp_counter *loads_accepted, *loads_refused;
	struct kp_gauge *errors;
};

/* --- what people see --- */

static void add_line(struct kp_buf *b, size_t *n, kp_str line)
{
	if (b->n + line.n + 6 <= b->max) {
		kp_buf_lit(b, "    ");
		kp_buf_add(b, line);
		kp_buf_addc(b, '\n');
	}
	++*n;
}

static void list_problems(struct kp_cluster *c)
{
	kp_buf_reset(&c->all);
	kp_buf_add(&c->all, kp_buf_str(&c->left_out));
	c->n_all = c->n_left_out;
	for (size_t i = 0; i < c->n_sources; i++) {
		const struct source *s = &c->sources[i];
		const struct kp_kube_store_state *st =
			s->store ? kp_kube_store_state(s->store) : NULL;
		if (st && st->err.code != KP_OK) {
			char line[KP_ERR_MSG + 200];
			snprintf(line, sizeof(line), "error: watch `%s`%s%s: %s%s", s->kind->plural,
				s->ns[0] ? " of " : "", s->ns, st->err.msg,
				st->err.code == KP_NOT_FOUND
					? ": is its CustomResourceDefinition installed?"
					: "");
			add_line(&c->all, &c->n_all, kp_str_c(line));
		}
	}
	kp_gauge_set(c->errors, (int64_t)c->n_all);
	c->opts.shown(c->opts.ctx);
}

/* --- objects into a set --- */

struct reading {
	struct kp_cluster *c;
	struct kp_object_set set;
	struct kp_problems problems;
	struct kp_buf left_out; /* lines */
	size_t n_left_out;
	size_t cap;
};

static void take_problems(struct reading *r)
{
	for (size_t i = 0; i < r->problems.n; i++) {
		KP_AUTO(buf) struct kp_buf line;
		kp_buf_init(&line, 8192);
		kp_problem_write(&r->problems.p[i], &line);
		if (!r->problems.p[i].warning) {
			add_line(&r->left_out, &r->n_left_out, kp_buf_str(&line));
		}
	}
}

static void no_sense(struct reading *r, const struct source *s, const json_t *v,
	const struct kp_field_errors *errs)
{
	const json_t *m = json_object_get(v, "metadata");
	const struct kp_object o = { .kind = s->type,
		.file = "cluster",
		.meta = {
			.name = kp_doc_str(m, "name"), .namespace_ = kp_doc_str(m, "namespace") } };
	kp_problems_init(&r->problems);
	for (size_t i = 0; i < errs->n; i++) {
		kp_problem_object(&r->problems, &o, errs->p[i].path, "%s", errs->p[i].text);
	}
	take_problems(r);
	kp_problems_fini(&r->problems);
}

static int read_object(
	struct reading *r, const struct source *s, const json_t *object, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(SCRATCH_MAX);
	struct kp_field_errors errs;
	struct kp_object o;
	json_t *v = json_deep_copy(object);
	if (!v) {
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "read `%s`: out of memory", s->kind->plural);
	}
	int got = kp_field_errors_init(&errs, scratch, FIELD_ERRORS_MAX, err) ||
				  kp_object_load(
					  s->type, v, KP_STR_NULL, r->set.arena, &o, &errs, err)
			  ? -1
			  : 0;
	if (got == 0 && errs.n) {
		no_sense(r, s, v, &errs);
	} else if (got == 0) {
		o.file = "cluster";
		r->set.objects[r->set.n++] = o;
	}
	json_decref(v);
	return got;
}

static int compare(const void *a, const void *b)
{
	const struct kp_object *x = a, *y = b;
	int r = (x->kind > y->kind) - (x->kind < y->kind);
	r = r ? r : kp_str_cmp(x->meta.namespace_, y->meta.namespace_);
	return r ? r : kp_str_cmp(x->meta.name, y->meta.name);
}

static int read_all(struct reading *r, struct kp_err *err)
{
	struct kp_cluster *c = r->c;
	size_t n = 0;
	for (size_t i = 0; i < c->n_sources; i++) {
		n += kp_kube_store_count(c->sources[i].store);
	}
	if (n > KP_MANIFEST_MAX_OBJECTS) {
		return kp_err_set(
			err, KP_TOO_LARGE, "more than %d objects", KP_MANIFEST_MAX_OBJECTS);
	}
	r->set.arena = kp_arena_create(ARENA_MAX);
	r->set.objects = kp_arena_calloc(r->set.arena, n + 1, sizeof(*r->set.objects));
	if (!r->set.objects) {
		return kp_arena_full(err, "objects");
	}
	for (size_t i = 0; i < c->n_sources; i++) {
		const json_t *v;
		for (size_t at = 0; (v = kp_kube_store_next(c->sources[i].store, &at));) {
			if (read_object(r, &c->sources[i], v, err)) {
				return -1;
			}
		}
	}
	qsort(r->set.objects, r->set.n, sizeof(*r->set.objects), compare);
	return 0;
}

static bool is_named(const struct reading *r, const struct kp_object *o)
{
	char label[LABEL_MAX];
	snprintf(label, sizeof(label), "%s %" KP_FMT "/%" KP_FMT, kp_kinds[o->kind].kind,
		KP_ARG(o->meta.namespace_), KP_ARG(o->meta.name));
	for (size_t i = 0; i < r->problems.n; i++) {
		if (!r->problems.p[i].warning &&
			kp_str_eq(kp_str_c(r->problems.p[i].object), kp_str_c(label))) {
			return true;
		}
	}
	return false;
}

/* Whether there was one. */
static bool leave_out(struct reading *r)
{
	size_t kept = 0, before = r->set.n;
	for (size_t i = 0; i < before; i++) {
		if (!is_named(r, &r->set.objects[i])) {
			r->set.objects[kept++] = r->set.objects[i];
		}
	}
	r->set.n = kept;
	return kept < before;
}

/* Leaves out what the rules name until they name nothing. */
static int check(struct reading *r, struct kp_err *err)
{
	const struct kp_cluster_opts *o = &r->c->opts;
	for (int round = 0; round < ROUNDS_MAX; round++) {
		kp_problems_init(&r->problems);
		int got = o->check(o->ctx, &r->set, &r->problems, err);
		bool is_less = got != 0 && leave_out(r);
		take_problems(r);
		kp_problems_fini(&r->problems);
		if (got == 0 || !is_less) {
			return got;
		}
	}
	return -1; /* err is the last round's */
}

/* --- when something changed --- */

static void log_new(const struct kp_cluster *c, const struct reading *r)
{
	kp_str rest = kp_buf_str(&r->left_out), line;
	if (kp_str_eq(rest, kp_buf_str(&c->left_out))) {
		return;
	}
	while (rest.n && kp_str_split(&rest, '\n', &line)) {
		if (line.n && !kp_str_has(kp_buf_str(&c->left_out), line)) {
			kp_log(KP_LOG_ERROR, "object left out",
				kp_f_str("problem", kp_str_trim(line)));
		}
	}
}

static void on_gather(struct kp_timer *t)
{
	struct kp_cluster *c = KP_CONTAINER(t, struct kp_cluster, gather);
	struct reading r = { .c = c };
	struct kp_err err = KP_ERR_INIT;
	kp_buf_init(&r.left_out, ERRORS_TEXT_MAX);
	bool is_taken = read_all(&r, &err) == 0 && check(&r, &err) == 0;
	kp_counter_add(is_taken ? c->loads_accepted : c->loads_refused, 1);
	if (!is_taken) {
		kp_log(KP_LOG_ERROR, "objects refused, the last good program stays",
			kp_f_err(&err));
		add_line(&r.left_out, &r.n_left_out, kp_str_c(err.msg));
	}
	log_new(c, &r);
	kp_buf_fini(&c->left_out);
	c->left_out = r.left_out;
	c->n_left_out = r.n_left_out;
	kp_object_set_fini(&r.set);
	if (is_taken) {
		c->accepted_wall_ns = kp_wall_ns();
		c->opts.accepted(c->opts.ctx);
	}
	list_problems(c);
}

static void gather_soon(struct kp_cluster *c)
{
	if (c->n_synced == c->n_sources && !c->gather.heap_index) {
		kp_timer_start(c->loop, &c->gather, kp_loop_now(c->loop) + GATHER_NS, on_gather);
	}
}

static void on_changed(void *ctx, const json_t *before, const json_t *now)
{
	const struct source *s = ctx;
	/* Its status is ours: not a reason to look. */
	if (!before || !now ||
		!json_equal(json_object_get(before, "spec"), json_object_get(now, "spec"))) {
		gather_soon(s->c);
	}
}

static void on_synced(void *ctx)
{
	struct source *s = ctx;
	s->c->n_synced++;
	gather_soon(s->c);
}

static void on_state(void *ctx)
{
	struct source *s = ctx;
	const struct kp_kube_store_state *st = kp_kube_store_state(s->store);
	if (st->err.code != KP_OK) {
		kp_log(KP_LOG_WARN, "cannot watch", kp_f_z("resource", s->kind->plural),
			kp_f_z("namespace", s->ns), kp_f_err(&st->err));
	}
	list_problems(s->c);
}

static const struct kp_kube_store_ops store_ops = { on_changed, on_synced, on_state };

/* --- life --- */

static void start(struct kp_cluster *c)
{
	size_t n = KP_MAX(c->opts.names->n, (size_t)1);
	c->sources = kp_xcalloc(n * KP_LEN(kinds), sizeof(*c->sources));
	for (size_t i = 0; i < n * KP_LEN(kinds); i++) {
		struct source *s = &c->sources[c->n_sources++];
		s->c = c;
		s->kind = &kinds[i % KP_LEN(kinds)];
		s->type = types[i % KP_LEN(kinds)];
		s->ns = c->opts.names->n ? c->opts.names->p[i / KP_LEN(kinds)] : "";
		const struct kp_kube_store_opts opts = { .kind = s->kind,
			.ns = kp_str_c(s->ns),
			.max_objects = KP_MANIFEST_MAX_OBJECTS,
			.ops = &store_ops,
			.ctx = s };
		s->store = kp_kube_store_create(c->kube, &opts);
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
	kp_buf_init(&c->left_out, ERRORS_TEXT_MAX);
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
	kp_kube_destroy(c->kube);
	kp_kube_config_destroy(c->config);
	kp_mem_free(c->sources);
	kp_buf_fini(&c->left_out);
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
