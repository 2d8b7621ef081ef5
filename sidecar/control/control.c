/* DESIGN: one thread with a loop of its own. Three causes lead to a new snapshot: the program
   changed, an engine changed, a text stack was loaded; each marks the state dirty, and one deferred
   call per loop iteration publishes. What other threads read (readiness) is a text under a mutex,
   replaced with each publication. */
#include "sidecar/control/control.h"

#include "base/clock.h"
#include "obs/log.h"
#include "sidecar/control/departed.h"
#include "sidecar/control/engines.h"
#include "sidecar/control/source.h"
#include "sidecar/gwloop.h"

#include <pthread.h>
#include <stdio.h>

#define WATCHDOG_PERIOD_NS (100 * KP_NS_PER_MS)
#define STUCK_NS           (250 * KP_NS_PER_MS)
#define SECRETS_PERIOD_NS  (5 * KP_NS_PER_S)
#define TLS_PERIOD_NS      (2 * KP_NS_PER_S)

struct kp_control {
	struct kp_gateway *gateway;
	struct kp_loop *loop;
	pthread_t thread;
	bool is_started; /* the thread */
	bool is_running; /* the thread says so itself */
	struct kp_engines *engines;
	struct kp_source *source;
	struct kp_program *program; /* the accepted one; NULL: none yet */
	struct kp_timer watchdog, tls;
	uint64_t tls_signature;
	uint64_t version;
	int64_t created_wall_s;
	struct kp_defer publish;
	bool *loop_was_stuck;
	struct kp_gauge *version_gauge;

	pthread_mutex_t lock; /* leaf: guards the four below */
	struct kp_snapshot *snapshot;
	struct kp_buf report;
	bool is_ready;
	struct kp_departed departed;
	struct kp_tool_catalog *tools; /* of the program; NULL: there is none yet */
	struct kp_timer secrets;       /* when their files are looked at again */
};

/* --- publishing --- */

static void publish(struct kp_defer *d)
{
	struct kp_control *c = KP_CONTAINER(d, struct kp_control, publish);
	struct kp_snapshot *s = kp_engines_snapshot(c->engines, ++c->version, c->created_wall_s);
	s->has_program = c->program != NULL;
	s->tools = c->tools ? kp_tool_catalog_ref(c->tools) : NULL;
	for (size_t i = 0; i < c->gateway->n_loops; i++) {
		kp_gwloop_publish(c->gateway->loops[i], kp_snapshot_ref(s));
	}
	kp_gauge_set(c->version_gauge, (int64_t)c->version);

	struct kp_buf report;
	kp_buf_init(&report, 1 << 20);
	kp_buf_lit(&report, "[+]listening: ok\n");
	c->source->ops->report(c->source, &report);
	bool ready = kp_engines_report(c->engines, &report);
	kp_tool_catalog_report(c->tools, &report);
	pthread_mutex_lock(&c->lock);
	struct kp_buf old = c->report;
	struct kp_snapshot *before = c->snapshot;
	kp_departed_note(&c->departed, before, s, kp_now_ns());
	c->snapshot = s;
	c->report = report;
	c->is_ready = ready;
	pthread_mutex_unlock(&c->lock);
	kp_buf_fini(&old);
	kp_snapshot_unref(before);
}

struct kp_snapshot *kp_control_snapshot(struct kp_control *c)
{
	pthread_mutex_lock(&c->lock);
	struct kp_snapshot *s = c->snapshot ? kp_snapshot_ref(c->snapshot) : NULL;
	pthread_mutex_unlock(&c->lock);
	return s;
}

bool kp_control_holds(struct kp_control *c, kp_str key)
{
	pthread_mutex_lock(&c->lock);
	bool holds = !c->snapshot || !c->snapshot->has_program ||
		     kp_departed_is_named(c->snapshot, key) ||
		     kp_departed_is_busy(&c->departed, key, kp_now_ns());
	pthread_mutex_unlock(&c->lock);
	return holds;
}

static void on_changed(void *arg)
{
	struct kp_control *c = arg;
	kp_loop_defer(c->loop, &c->publish, publish);
	if (c->source && c->source->ops->engines_changed) {
		c->source->ops->engines_changed(c->source);
	}
}

bool kp_control_ready(struct kp_control *c, bool verbose, struct kp_buf *out)
{
	bool draining = atomic_load(&c->gateway->draining);
	pthread_mutex_lock(&c->lock);
	bool ready = c->is_ready && !draining;
	if (verbose) {
		kp_buf_add(out, kp_buf_str(&c->report));
		kp_buf_add(out, draining ? KP_S("[-]draining\n") : KP_S(""));
	}
	pthread_mutex_unlock(&c->lock);
	kp_buf_add(out, ready ? KP_S("ok\n") : KP_S("not ready\n"));
	return ready;
}

struct drains {
	struct kp_msg msg;
	struct kp_control *c;
};

static void on_drains(struct kp_msg *msg)
{
	struct drains *d = KP_CONTAINER(msg, struct drains, msg);
	if (d->c->engines) {
		on_changed(d->c);
	}
	kp_mem_free(d);
}

void kp_control_drains(struct kp_control *c)
{
	struct drains *d = kp_new(struct drains);
	*d = (struct drains){ .msg = { .run = on_drains }, .c = c };
	kp_mailbox_post(kp_loop_mailbox(c->loop), &d->msg);
}

struct about {
	struct kp_msg msg;
	struct kp_control *c;
	struct kp_endpoint *e;
};

static void post_about(struct kp_control *c, struct kp_endpoint *e, void (*run)(struct kp_msg *msg))
{
	struct about *a = kp_new(struct about);
	*a = (struct about){ .msg = { .run = run }, .c = c, .e = kp_endpoint_ref(e) };
	kp_mailbox_post(kp_loop_mailbox(c->loop), &a->msg);
}

static void on_suspect(struct kp_msg *msg)
{
	struct about *a = KP_CONTAINER(msg, struct about, msg);
	atomic_store(&a->e->suspected, false);
	if (a->c->engines) {
		kp_engines_suspect(a->c->engines, a->e);
	}
	kp_endpoint_unref(a->e);
	kp_mem_free(a);
}

static void on_identify(struct kp_msg *msg)
{
	struct about *a = KP_CONTAINER(msg, struct about, msg);
	if (a->c->engines) {
		kp_engines_identify(a->c->engines, a->e);
	}
	kp_endpoint_unref(a->e);
	kp_mem_free(a);
}

void kp_control_suspect(struct kp_control *c, struct kp_endpoint *e)
{
	if (atomic_exchange(&e->suspected, true)) {
		return; /* under way */
	}
	post_about(c, e, on_suspect);
}

void kp_control_identify(struct kp_control *c, struct kp_endpoint *e)
{
	post_about(c, e, on_identify);
}

/* --- tool servers --- */

static void on_secrets(struct kp_timer *t);

static void take_tools(struct kp_control *c)
{
	struct kp_tool_catalog *fresh =
		kp_tool_catalog_create(c->program, c->gateway->config.tool_secrets, c->tools);
	if (c->tools && fresh->digest == c->tools->digest) {
		kp_tool_catalog_unref(fresh);
	} else {
		kp_tool_catalog_unref(c->tools);
		c->tools = fresh;
		on_changed(c);
	}
	if (c->tools->has_secrets) {
		kp_timer_start(
			c->loop, &c->secrets, kp_loop_now(c->loop) + SECRETS_PERIOD_NS, on_secrets);
	}
}

static void on_secrets(struct kp_timer *t)
{
	take_tools(KP_CONTAINER(t, struct kp_control, secrets));
}

/* --- the program --- */

static void on_program(void *arg, struct kp_program *p, int64_t created_wall_s)
{
	struct kp_control *c = arg;
	kp_program_destroy(c->program);
	c->program = p;
	c->created_wall_s = created_wall_s;
	if (c->is_running) {
		uint16_t ports[KP_MAX_LISTEN];
		kp_engines_apply(c->engines, p);
		take_tools(c);
		kp_gateway_listen(
			c->gateway, ports, kp_control_target_ports(c, ports, KP_MAX_LISTEN));
	}
}

static void on_fill(void *arg, struct kp_arena *a, struct kp_report *ret)
{
	struct kp_control *c = arg;
	struct kp_gateway *g = c->gateway;
	kp_engines_fill(c->engines, a, ret);
	ret->draining = atomic_load(&g->draining);
	ret->in_flight = (uint32_t)KP_MAX(atomic_load(&g->in_flight), 0);
	ret->requests = (uint64_t)atomic_load(&g->served.requests);
	ret->errors = (uint64_t)atomic_load(&g->served.errors);
	ret->tokens = (uint64_t)atomic_load(&g->served.tokens);
}

size_t kp_control_target_ports(const struct kp_control *c, uint16_t *ports, size_t max)
{
	const struct kp_program_pool *pool =
		c->program && c->program->n_pools ? &c->program->pools[0] : NULL;
	size_t n = pool ? KP_MIN(max, pool->n_target_ports) : 0;
	for (size_t i = 0; i < n; i++) {
		ports[i] = pool->target_ports[i];
	}
	return n;
}

/* --- life --- */

static void on_watchdog(struct kp_timer *t)
{
	struct kp_control *c = KP_CONTAINER(t, struct kp_control, watchdog);
	int64_t now = kp_now_ns();
	for (size_t i = 0; i < c->gateway->n_loops; i++) {
		int64_t since = kp_loop_busy_since(c->gateway->loops[i]->loop);
		bool stuck = since && now - since > STUCK_NS;
		if (stuck && !c->loop_was_stuck[i]) {
			kp_log(KP_LOG_WARN, "a loop is stuck", kp_f_int("loop", (int64_t)i),
				kp_f_int("ms", (now - since) / KP_NS_PER_MS));
		}
		c->loop_was_stuck[i] = stuck;
	}
	kp_timer_start(c->loop, t, kp_loop_now(c->loop) + WATCHDOG_PERIOD_NS, on_watchdog);
}

/* Certificates that were there at the start and cannot be read later are kept. */
static int load_tls(struct kp_control *c, struct kp_err *err)
{
	struct kp_peer_tls tls;
	c->tls_signature = kp_peer_tls_signature(c->gateway->config.tls_dir);
	if (kp_peer_tls_load(c->gateway->config.tls_dir, &tls, err)) {
		return -1;
	}
	kp_engines_set_peer_tls(c->engines, &tls);
	for (size_t i = 0; i < c->gateway->n_loops; i++) {
		kp_gwloop_set_peer_tls(c->gateway->loops[i], kp_peer_tls_ref(&tls));
	}
	kp_peer_tls_unref(&tls);
	return 0;
}

static void on_tls(struct kp_timer *t)
{
	struct kp_control *c = KP_CONTAINER(t, struct kp_control, tls);
	const char *dir = c->gateway->config.tls_dir;
	struct kp_err err;
	if (kp_peer_tls_signature(dir) != c->tls_signature) {
		if (load_tls(c, &err)) {
			kp_log(KP_LOG_ERROR, "cannot load certificates, the old ones stay",
				kp_f_err(&err));
		} else {
			kp_log(KP_LOG_INFO, "certificates loaded", kp_f_z("dir", dir));
		}
	}
	kp_timer_start(c->loop, t, kp_loop_now(c->loop) + TLS_PERIOD_NS, on_tls);
}

static void *thread_main(void *arg)
{
	struct kp_control *c = arg;
	c->is_running = true;
	if (c->program) {
		kp_engines_apply(c->engines, c->program);
		take_tools(c);
	}
	c->source->ops->start(c->source);
	if (c->gateway->config.tls_dir) {
		kp_timer_start(c->loop, &c->tls, kp_loop_now(c->loop) + TLS_PERIOD_NS, on_tls);
	}
	on_changed(c);
	kp_timer_start(c->loop, &c->watchdog, 0, on_watchdog);
	kp_loop_run(c->loop);
	return NULL;
}

int kp_control_create(struct kp_gateway *g, struct kp_control **ret, struct kp_err *err)
{
	struct kp_control *c = kp_new(struct kp_control);
	c->gateway = g;
	pthread_mutex_init(&c->lock, NULL);
	kp_buf_init(&c->report, 1 << 20);
	c->version_gauge = kp_metrics_gauge(g->metrics, "kelpie_snapshot_version",
		"Number of the snapshot the loops serve from.", NULL, 0);
	c->loop = kp_loop_create("control");
	c->engines = kp_engines_create(g, c->loop, on_changed, c);
	kp_engines_set_peer_tls(c->engines, &g->peer_tls);
	c->tls_signature = kp_peer_tls_signature(g->config.tls_dir);
	c->loop_was_stuck = kp_xcalloc(g->config.loops, sizeof(bool));
	const struct kp_source_sink sink = { on_program, on_changed, on_fill, c };
	if (g->config.control ? kp_source_operator_create(g, c->loop, &sink, &c->source, err)
			      : kp_source_files_create(g, c->loop, &sink, &c->source, err)) {
		kp_control_destroy(c);
		return -1;
	}
	*ret = c;
	return 0;
}

void kp_control_start(struct kp_control *c)
{
	if (pthread_create(&c->thread, NULL, thread_main, c) != 0) {
		kp_bug(__FILE__, __LINE__, "cannot start the control thread");
	}
	c->is_started = true;
}

struct stop {
	struct kp_msg msg;
	struct kp_control *c;
};

static void on_stop(struct kp_msg *msg)
{
	struct stop *s = KP_CONTAINER(msg, struct stop, msg);
	struct kp_control *c = s->c;
	kp_mem_free(s);
	if (c->source) {
		c->source->ops->destroy(c->source);
	}
	kp_timer_stop(c->loop, &c->watchdog);
	kp_timer_stop(c->loop, &c->tls);
	kp_timer_stop(c->loop, &c->secrets);
	kp_loop_undefer(&c->publish);
	kp_engines_destroy(kp_steal(c->engines));
	kp_loop_stop(c->loop);
}

void kp_control_stop(struct kp_control *c)
{
	if (!c || !c->engines) {
		return;
	}
	struct stop *s = kp_new(struct stop);
	*s = (struct stop){ .msg = { .run = on_stop }, .c = c };
	kp_mailbox_post(kp_loop_mailbox(c->loop), &s->msg);
	if (c->is_started) {
		pthread_join(c->thread, NULL);
	} else {
		kp_loop_run(c->loop);
	}
}

void kp_control_destroy(struct kp_control *c)
{
	if (!c) {
		return;
	}
	kp_control_stop(c);
	kp_loop_destroy(c->loop);
	kp_program_destroy(c->program);
	kp_snapshot_unref(c->snapshot);
	kp_tool_catalog_unref(c->tools);
	kp_departed_fini(&c->departed);
	kp_buf_fini(&c->report);
	kp_mem_free(c->loop_was_stuck);
	pthread_mutex_destroy(&c->lock);
	kp_mem_free(c);
}
