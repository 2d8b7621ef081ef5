/* DESIGN: two things are put off so that much that happens together is done once: planning, at most
   every PLAN_INTERVAL_NS, and showing, at most every SHOW_INTERVAL_NS; where there is so much of
   everything that they take long, less often, so that the loop is free for the gateways: by the time
   they compute, as a process that is frozen in the middle would pause for minutes. A plan that
   cannot be made changes nothing; the last one stays.

   A program costs up to 50 us for each gateway that it is sent to, and when many gateways come at once
   each plan would be sent to all that came before. So what gateways cause waits PLAN_GATEWAY_NS for
   each of them (ten: 50 ms, a thousand: half a second); what people change does not. */
#include "operator/internal.h"

#include "base/process.h"
#include "base/version.h"
#include "kube/lease.h"
#include "operator/control/epoch.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PLAN_INTERVAL_NS  (50 * KP_NS_PER_MS)
#define PLAN_GATEWAY_NS   (KP_NS_PER_MS / 2)
#define SHOW_INTERVAL_NS  (500 * KP_NS_PER_MS)
#define FIRST_INTERVAL_NS (100 * KP_NS_PER_MS) /* of what is said of an object first */
enum { PLAN_PART = 4, SHOW_PART = 20 };        /* of the time, the one part that each may take */

static const double plan_bounds[] = { 0.0001, 0.001, 0.01, 0.1, 1 };

/* --- showing --- */

static void on_show(struct kp_timer *t);

static void show_at(struct kp_operator *o, int64_t at_ns)
{
	at_ns = KP_MAX(at_ns, o->next_show_ns);
	if (!o->show.heap_index || at_ns < o->show.due_ns) {
		kp_timer_start(o->loop, &o->show, at_ns, on_show);
	}
}

static void on_show(struct kp_timer *t)
{
	struct kp_operator *o = KP_CONTAINER(t, struct kp_operator, show);
	int64_t begin = kp_now_ns(), computed = kp_cpu_ns();
	struct kp_status *s = kp_operator_report(o);
	int64_t due_ns = kp_operator_publish(o, s);
	kp_status_listener_publish(o->listener, s);
	int64_t took = kp_cpu_ns() - computed;
	o->next_show_ns = begin + KP_MAX(SHOW_INTERVAL_NS, took * SHOW_PART);
	o->next_first_ns = begin + KP_MAX(FIRST_INTERVAL_NS, took * PLAN_PART);
	if (o->https && !kp_https_is_ready(o->https)) { /* nobody tells: look again */
		due_ns = o->next_show_ns;
	}
	if (due_ns != INT64_MAX) {
		show_at(o, due_ns);
	}
}

static void show(void *ctx)
{
	struct kp_operator *o = ctx;
	show_at(o, kp_loop_now(o->loop));
}

/* What was never said of an object, or not of what it asks for now, is said before anything is made for it: until then it
   looks to others as if all were well. */
static void show_first(struct kp_operator *o, const struct kp_world *w)
{
	bool is_new = false;
	for (size_t i = 0; i < w->n_engines && !is_new; i++) {
		const struct kp_world_engine *e = &w->engines[i];
		const json_t *seen =
			json_object_get(json_object_get(e->json, "status"), "observedGeneration");
		is_new = !e->is_ending && json_integer_value(seen) != e->generation;
	}
	if (is_new && kp_loop_now(o->loop) >= o->next_first_ns && o->listener) {
		kp_timer_stop(o->loop, &o->show);
		on_show(&o->show);
	}
}

/* --- planning --- */

static void on_replan(struct kp_timer *t);

static void replan_at(struct kp_operator *o, int64_t at_ns)
{
	at_ns = KP_MAX(at_ns, o->next_plan_ns);
	if (!o->replan.heap_index || at_ns < o->replan.due_ns) {
		kp_timer_start(o->loop, &o->replan, at_ns, on_replan);
	}
}

static void on_gateways(void *ctx)
{
	struct kp_operator *o = ctx;
	replan_at(o, KP_MAX(kp_loop_now(o->loop), o->next_gateways_ns));
}

static void on_replan(struct kp_timer *t)
{
	struct kp_operator *o = KP_CONTAINER(t, struct kp_operator, replan);
	int64_t now = kp_loop_now(o->loop), begin = kp_now_ns(), computed = kp_cpu_ns(), took;
	struct kp_plan *plan = NULL;
	const struct kp_world *world = o->cluster ? kp_cluster_world(o->cluster) : NULL;
	size_t n;
	struct kp_plan_gateway *gateways =
		kp_gateways_list(kp_service_gateways(o->service, now), &n);
	struct kp_err err = KP_ERR_INIT;
	int r = kp_plan_make(o->intent, world, gateways, n, now,
		o->is_intent_planned ? o->plan : NULL, &plan, &err);
	kp_mem_free(gateways);
	took = kp_cpu_ns() - computed;
	kp_histogram_observe(o->plan_seconds, (double)(kp_now_ns() - begin) / 1e9);
	kp_counter_add(r < 0 ? o->plans_failed : o->plans_made, 1);
	o->next_plan_ns = begin + KP_MAX(PLAN_INTERVAL_NS, took * PLAN_PART);
	o->next_gateways_ns = begin + (int64_t)n * PLAN_GATEWAY_NS;
	o->plan_error = err;
	if (r < 0) {
		kp_log(KP_LOG_ERROR, "cannot plan, the last plan stays", kp_f_err(&err));
		replan_at(o, now + KP_PLAN_SILENT_NS);
	} else {
		replan_at(o, plan->due_ns);
		kp_plan_destroy(o->plan);
		o->plan = plan;
		o->is_planned = o->is_intent_planned = true;
		kp_counter_add(o->namespaces_planned, plan->n_made);
	}
	kp_service_publish(o->service, plan);
	if (o->is_moved && o->apply && world && kp_operator_leads(o)) {
		show_first(o, world);
		o->is_moved = false;
		struct kp_inject_settings gateway = kp_inject_defaults();
		gateway.image = o->config.gateway_image ? o->config.gateway_image : gateway.image;
		kp_apply_objects(o->apply, kp_actions_make(world, &gateway));
	}
	show(o);
}

/* --- manifests and objects --- */

static int check(void *ctx, const struct kp_object_set *set, struct kp_problems *problems,
	struct kp_err *err)
{
	struct kp_operator *o = ctx;
	kp_intent_destroy(kp_steal(o->checked));
	if (!set->n && o->config.manifests) { /* truncated; a cluster may well be empty */
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "load manifests: there is no InferencePool");
	}
	return kp_intent_build(set, problems, &o->checked, err);
}

static void on_moved(void *ctx, bool is_more);

static void on_accepted(void *ctx)
{
	struct kp_operator *o = ctx;
	kp_intent_destroy(o->intent);
	o->intent = kp_steal(o->checked);
	o->is_intent_planned = false;
	on_moved(o, true);
}

/* What shall be there follows from no pod and no node. */
static void on_moved(void *ctx, bool is_more)
{
	struct kp_operator *o = ctx;
	o->is_moved |= is_more;
	o->is_planned = false;
	replan_at(o, kp_loop_now(o->loop));
	show(o);
}

/* --- life --- */

static void on_ended(void *ctx)
{
	struct kp_operator *o = ctx;
	kp_loop_stop(o->loop);
}

static void on_released(void *ctx)
{
	struct kp_operator *o = ctx;
	kp_service_end(o->service, on_ended);
}

static void on_signal(uv_poll_t *handle, int status, int events)
{
	struct kp_operator *o = handle->data;
	(void)status;
	(void)events;
	if (o->is_ending) {
		return;
	}
	kp_log(KP_LOG_INFO, "stopping");
	o->is_ending = true;
	uv_poll_stop(handle);
	on_show(&o->show); /* not ready from here on */
	kp_timer_stop(o->loop, &o->replan);
	if (o->lease) { /* first, so that another can take over at once */
		kp_kube_lease_release(o->lease, on_released, o);
	} else {
		kp_service_end(o->service, on_ended);
	}
}

void kp_operator_leader_changed(struct kp_operator *o)
{
	if (o->https) {
		kp_https_lead(o->https, kp_operator_leads(o));
	}
	on_moved(o, true);
}

static int start_service(struct kp_operator *o, struct kp_err *err)
{
	struct kp_service_opts opts = { .address = o->config.control_listen,
		.tls_dir = o->config.tls_dir,
		.tls_keys = o->keys,
		.state_dir = o->config.state_dir,
		.id = o->config.id,
		.metrics = o->metrics,
		.raised = kp_operator_epoch_raised,
		.changed = on_gateways,
		.shown = show,
		.ctx = o };
	if ((!o->config.leader_elect &&
		    kp_epoch_start(o->config.state_dir, kp_wall_ns(), &opts.epoch, err)) ||
		kp_service_create(o->loop, &opts, &o->service, err)) {
		return -1;
	}
	kp_log(KP_LOG_INFO, "control listening", kp_f_z("address", o->config.control_listen),
		kp_f_int("port", kp_service_port(o->service)),
		kp_f_bool("tls", o->config.tls_dir || o->keys), kp_f_z("id", o->config.id),
		kp_f_int("epoch", (int64_t)opts.epoch));
	return 0;
}

static int start_files(struct kp_operator *o, struct kp_err *err)
{
	const struct kp_files_opts files = { .path = o->config.manifests,
		.ns = kp_str_c(o->config.namespace),
		.metrics = o->metrics,
		.check = check,
		.accepted = on_accepted,
		.refused = show,
		.ctx = o };
	if (kp_files_create(o->loop, &files, &o->files, err)) {
		return -1;
	}
	o->intent = kp_steal(o->checked);
	return 0;
}

static bool may_write(void *ctx)
{
	return kp_operator_leads(ctx);
}

static const struct kp_kube_store *find_store(void *ctx, const struct kp_kube_kind *kind, kp_str ns)
{
	struct kp_operator *o = ctx;
	return kp_cluster_store(o->cluster, kind, ns);
}

/* Its objects come later: until then there is nothing to send, and gateways keep what they have. */
static int start_cluster(struct kp_operator *o, struct kp_err *err)
{
	const struct kp_object_set nothing = { 0 };
	const struct kp_cluster_opts cluster = { .kubeconfig = o->config.kubeconfig,
		.names = &o->config.watch_namespaces,
		.user_agent = o->user_agent,
		.metrics = o->metrics,
		.check = check,
		.accepted = on_accepted,
		.moved = on_moved,
		.shown = show,
		.ctx = o };
	struct kp_problems problems;
	kp_problems_init(&problems);
	int r = kp_intent_build(&nothing, &problems, &o->intent, err);
	kp_problems_fini(&problems);
	snprintf(o->user_agent, sizeof(o->user_agent), "kelpie-operator/%s", kp_version());
	if (r || kp_cluster_create(o->loop, &cluster, &o->cluster, err)) {
		return -1;
	}
	const struct kp_apply_opts apply = { .kube = kp_cluster_kube(o->cluster),
		.may_write = may_write,
		.store = find_store,
		.changed = show,
		.ctx = o };
	const struct kp_kube_recorder_opts recorder = { .controller = "kelpie.dev/operator",
		.instance = o->config.id };
	o->apply = kp_apply_create(&apply);
	o->recorder = kp_kube_recorder_create(apply.kube, &recorder);
	return 0;
}

static void on_asked(void *ctx, const struct kp_https_asked *a)
{
	struct kp_operator *o = ctx;
	if (!o->is_ending) {
		kp_refusals_note(&o->refusals, a->uid, a->address, a->why, kp_loop_now(o->loop));
		show(o);
	}
}

/* The pod's own namespace, as a Deployment tells it. */
static int start_https(struct kp_operator *o, struct kp_err *err)
{
	const struct kp_operator_config *c = &o->config;
	struct kp_https_opts opts = { .address = c->https_listen,
		.kubeconfig = c->kubeconfig,
		.ns = getenv("POD_NAMESPACE"),
		.user_agent = o->user_agent,
		.id = c->id,
		.namespaces = &c->watch_namespaces,
		.names = &c->serving_names,
		.periods = { c->ca_rotate_ns, c->ca_overlap_ns, c->certificate_lifetime_ns },
		.inject = kp_inject_defaults(),
		.is_standby = c->leader_elect,
		.metrics = o->metrics,
		.mailbox = kp_loop_mailbox(o->loop),
		.asked = on_asked,
		.ctx = o };
	if (!c->https_listen) {
		return 0;
	}
	if (opts.ns) {
		kp_inject_settings_namespace(&opts.inject, opts.ns);
	}
	opts.inject.image = c->gateway_image ? c->gateway_image : opts.inject.image;
	opts.keys = o->keys = kp_rpc_keys_create();
	if (kp_https_start(&opts, &o->https, err)) {
		return -1;
	}
	kp_log(KP_LOG_INFO, "https listening", kp_f_z("address", c->https_listen),
		kp_f_int("port", kp_https_port(o->https)));
	return 0;
}

static int start_parts(struct kp_operator *o, struct kp_err *err)
{
	if ((o->config.manifests ? start_files(o, err) : start_cluster(o, err)) ||
		start_https(o, err) || start_service(o, err)) {
		return -1;
	}
	if (o->config.leader_elect) {
		kp_operator_lead_start(o);
	}
	on_replan(&o->replan);
	if (kp_status_listener_start(o->config.admin_listen, o->metrics, &o->listener, err)) {
		return -1;
	}
	on_show(&o->show);
	kp_log(KP_LOG_INFO, "admin listening",
		kp_f_int("port", kp_status_listener_port(o->listener)));
	return 0;
}

static void on_render(void *arg)
{
	struct kp_metrics *m = arg;
	struct kp_counter *c = kp_metrics_counter(m, "kelpie_log_lines_dropped_total",
		"Log lines that did not fit into the queue.", NULL, 0);
	atomic_store_explicit(&c->v, kp_log_dropped(), memory_order_relaxed);
}

static void init_metrics(struct kp_operator *o)
{
	const struct kp_label made = { "result", KP_S("made") },
			      failed = { "result", KP_S("failed") };
	const char *help = "Plans, by result.";
	o->metrics = kp_metrics_create();
	o->plans_made =
		kp_metrics_counter(o->metrics, "kelpie_operator_plans_total", help, &made, 1);
	o->plans_failed =
		kp_metrics_counter(o->metrics, "kelpie_operator_plans_total", help, &failed, 1);
	o->namespaces_planned =
		kp_metrics_counter(o->metrics, "kelpie_operator_namespaces_planned_total",
			"Namespaces whose program was made anew, of all plans.", NULL, 0);
	o->plan_seconds = kp_metrics_histogram(o->metrics, "kelpie_operator_plan_seconds",
		"Time that making a plan took.", plan_bounds, KP_LEN(plan_bounds), NULL, 0);
	o->leader = kp_metrics_gauge(o->metrics, "kelpie_operator_leader",
		"1 while this operator leads: it programs gateways.", NULL, 0);
	kp_gauge_set(o->leader, !o->config.leader_elect);
	kp_metrics_on_render(o->metrics, on_render, o->metrics);
}

int kp_operator_start(
	const struct kp_operator_config *config, struct kp_operator **ret, struct kp_err *err)
{
	struct kp_operator *o = kp_new(struct kp_operator);
	o->config = *config;
	o->started_wall_ns = kp_wall_ns();
	o->loop = kp_loop_create("operator");
	o->signal_fd = kp_process_end_fd();
	o->signals.data = o;
	KP_BUG_ON(uv_poll_init(kp_loop_uv(o->loop), &o->signals, o->signal_fd) != 0);
	KP_BUG_ON(uv_poll_start(&o->signals, UV_READABLE, on_signal) != 0);
	init_metrics(o);
	kp_operator_report_init(o);
	if (start_parts(o, err)) {
		kp_operator_destroy(o);
		return -1;
	}
	*ret = o;
	return 0;
}

void kp_operator_run(struct kp_operator *o)
{
	kp_loop_run(o->loop);
}

void kp_operator_destroy(struct kp_operator *o)
{
	if (!o) {
		return;
	}
	o->is_ending = true;
	kp_kube_lease_destroy(o->lease);
	kp_apply_destroy(o->apply);
	kp_kube_recorder_destroy(o->recorder);
	kp_map_fini(&o->said, kp_mem_free);
	kp_refusals_fini(&o->refusals);
	kp_service_destroy(o->service);
	kp_https_stop(o->https);
	kp_rpc_keys_destroy(o->keys);
	kp_status_listener_stop(o->listener);
	kp_files_destroy(o->files);
	kp_cluster_destroy(o->cluster);
	kp_timer_stop(o->loop, &o->replan);
	kp_timer_stop(o->loop, &o->show);
	uv_close((uv_handle_t *)&o->signals, NULL);
	kp_loop_destroy(o->loop);
	close(o->signal_fd);
	kp_plan_destroy(o->plan);
	kp_intent_destroy(o->intent);
	kp_intent_destroy(o->checked);
	kp_operator_report_fini(o);
	kp_metrics_destroy(o->metrics);
	kp_mem_free(o);
}
