/* DESIGN: one object per engine of the program, under it one per endpoint with a connection of its
   own for questions. A question's answer may come after the endpoint was taken out of the program:
   destroying the kp_engine ends its calls at once, with CANCELLED, and `is_gone` makes nothing of
   that.

   What the program does not name any more goes at once, with one exception: an endpoint that still
   serves a model which none of the program's endpoints serves yet stays until one does, at most
   LEAVE_NS. Else an edit that puts one engine in the place of another would fail the requests that
   come before the new one has been asked what it is.

   Who listens at an address is known only as long as a connection lasts. Each loop holds a new
   connection back and asks here; a health check that is sent after that, and answered by the process
   whose tokenizer is known, says that the loop's connection leads to the same one (a process that
   stops listening ends its connections, or says GOAWAY on them). The loops are told what is served
   there, with the time of the question: connections that are younger wait for the next.

   An endpoint of another gateway is asked through that gateway, and seldom while it is routable:
   each call says how it is, and N gateways must not poll M engines. */
#include "sidecar/control/engines.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "obs/log.h"
#include "sidecar/control/dial.h"
#include "sidecar/control/engines_internal.h"
#include "sidecar/gwloop.h"

#include <stdio.h>

#define ASK_DEADLINE_NS       (3 * KP_NS_PER_S)
#define TOKENIZER_DEADLINE_NS (60 * KP_NS_PER_S)
#define HEALTHY_PERIOD_NS     (2 * KP_NS_PER_S)
#define REMOTE_PERIOD_NS      (30 * KP_NS_PER_S) /* and half of it more, by chance */
#define DOWN_PERIOD_NS        (500 * KP_NS_PER_MS)
#define STALLED_NS            (10 * KP_NS_PER_S)
#define LEAVE_NS              (10 * KP_NS_PER_S)

static void let_go(struct kp_engines *es);
static void on_let_go(struct kp_defer *d)
{
	let_go(KP_CONTAINER(d, struct kp_engines, let_go));
}

#define IDENTIFY_NS KP_NS_PER_S

static void ask_health(struct endpoint *p);

static void on_timer(struct kp_timer *t)
{
	ask_health(KP_CONTAINER(t, struct endpoint, timer));
}

static void ask_again_in(struct endpoint *p, int64_t ns)
{
	struct kp_loop *loop = p->engine->owner->loop;
	kp_timer_start(loop, &p->timer, kp_loop_now(loop) + ns, on_timer);
}

static void set_state(struct endpoint *p, enum kp_endpoint_state state, const char *why)
{
	enum kp_endpoint_state before =
		(enum kp_endpoint_state)atomic_exchange(&p->shared->state, (int)state);
	bool is_new_reason = !kp_str_eq(kp_str_c(p->why), kp_str_c(why));
	snprintf(p->why, sizeof(p->why), "%s", why);
	if (before == KP_ENDPOINT_DOWN && state == KP_ENDPOINT_ROUTABLE) {
		kp_endpoint_trust(p->shared); /* it starts anew */
	}
	kp_gauge_set(p->up, state == KP_ENDPOINT_ROUTABLE);
	if (before == state && !is_new_reason) {
		return;
	}
	bool is_bad = state == KP_ENDPOINT_DOWN || (state == KP_ENDPOINT_ANSWERING && why[0]);
	kp_log(is_bad ? KP_LOG_WARN : KP_LOG_INFO, "engine", kp_f_z("engine", p->engine->name),
		kp_f_z("address", p->shared->address),
		kp_f_z("state", kp_endpoint_state_name(state)),
		kp_f_z("reason", why[0] ? why : "-"));
	struct kp_engines *es = p->engine->owner;
	kp_loop_defer(es->loop, &es->let_go, on_let_go); /* not now: p is in use */
	es->changed(es->arg);
}

/* Requests that wait for their first token there need not wait for the connection to be found dead;
   those under way end when it has been silent for long. */
static void tell_loops(struct endpoint *p)
{
	const struct kp_gateway *g = p->engine->owner->gateway;
	int64_t now = kp_loop_now(p->engine->owner->loop);
	bool is_first = !p->down_ns;
	bool is_stalled = p->down_ns && now - p->down_ns >= STALLED_NS;
	p->down_ns = is_first ? now : p->down_ns;
	for (size_t i = 0; (is_first || is_stalled) && i < g->n_loops; i++) {
		kp_gwloop_engine_down(g->loops[i], p->shared, is_stalled);
	}
}

/* What it serves, for connections that are older than the last question. */
static void tell_served(struct endpoint *p)
{
	const struct kp_gateway *g = p->engine->owner->gateway;
	p->told_text = p->engine->text->fingerprint;
	for (size_t i = 0; i < g->n_loops; i++) {
		kp_gwloop_engine_serves(g->loops[i], p->shared, p->told_text, p->asked_ns);
	}
}

/* It answers, but is not who it was, or does not say who it is: what waits for that goes elsewhere. */
static void tell_not_served(struct endpoint *p)
{
	const struct kp_gateway *g = p->engine->owner->gateway;
	p->told_text = 0;
	for (size_t i = 0; i < g->n_loops; i++) {
		kp_gwloop_engine_down(g->loops[i], p->shared, false);
	}
}

static void went_down(struct endpoint *p, const struct kp_err *status)
{
	p->told_text = 0;
	bool drains = status->reason && kp_str_eq(kp_str_c(status->reason), KP_S("draining"));
	p->is_asking = false;
	p->has_info = false;
	if (drains) {
		set_state(p, KP_ENDPOINT_DRAINING, "");
		ask_again_in(p, HEALTHY_PERIOD_NS);
		return;
	}
	set_state(p, KP_ENDPOINT_DOWN, status->msg);
	tell_loops(p);
	if (!p->engine->text &&
		!p->engine->path) { /* else it says why its files could not be read */
		snprintf(p->engine->why, sizeof(p->engine->why),
			"engine `%s` does not answer: %.200s", p->engine->name, status->msg);
	}
	ask_again_in(p, DOWN_PERIOD_NS);
}

static void is_up(struct endpoint *p)
{
	struct kp_engines *es = p->engine->owner;
	char why[KP_ERR_MSG];
	p->is_asking = false;
	p->down_ns = 0;
	if (p->shared->is_own && p->has_info &&
		p->connections != p->probe->ops->connections(p->probe)) {
		p->is_wanted |= p->is_answer_wanted;
		ask_again_in(p, DOWN_PERIOD_NS); /* its answers may be those of two processes */
		return;
	}
	kp_endpoint_why_not_routable(p, why);
	set_state(p, why[0] ? KP_ENDPOINT_ANSWERING : KP_ENDPOINT_ROUTABLE, why);
	if (why[0] && p->told_text) {
		tell_not_served(p);
	} else if (!why[0] && p->shared->is_own &&
		   (p->is_answer_wanted || p->told_text != p->engine->text->fingerprint)) {
		tell_served(p);
	}
	ask_again_in(p,
		p->is_wanted ? 0
		: p->shared->is_own || why[0]
			? HEALTHY_PERIOD_NS
			: REMOTE_PERIOD_NS + (int64_t)kp_rng_below(&es->rng, REMOTE_PERIOD_NS / 2));
}

/* It was started again and has not said yet what it serves; a tokenizer may take long to come. */
static void on_slow(struct kp_timer *t)
{
	struct endpoint *p = KP_CONTAINER(t, struct endpoint, timer);
	if (kp_endpoint_state(p->shared) == KP_ENDPOINT_ROUTABLE) {
		set_state(p, KP_ENDPOINT_ANSWERING, "it has not said yet what it serves");
		tell_not_served(p);
	}
}

static void on_tokenizer(void *user, const struct kp_err *status, kp_str zip)
{
	struct endpoint *p = user;
	if (!p->is_gone) {
		kp_endpoint_take_tokenizer(p, status, zip);
		is_up(p);
	}
}

static void on_info(void *user, const struct kp_err *status, const struct kp_engine_info *info)
{
	struct endpoint *p = user;
	struct engine *e = p->engine;
	if (p->is_gone) {
		return;
	}
	if (status->code != KP_OK) {
		went_down(p, status);
		return;
	}
	p->has_info = true;
	p->connections = p->probe->ops->connections(p->probe);
	p->max_context = info->max_context;
	p->vocab_size = info->vocab_size;
	kp_mem_free(p->model);
	p->model = kp_str_z(info->served_name.n ? info->served_name : info->model);
	kp_endpoint_facts_destroy(p->facts);
	p->facts = kp_endpoint_facts_create(info, "", false);
	e->owner->changed(e->owner->arg);
	atomic_store_explicit(&p->shared->vocab_size, info->vocab_size, memory_order_relaxed);
	atomic_store_explicit(&p->shared->normalizes, info->normalizes, memory_order_relaxed);
	if (e->path) {
		is_up(p);
		return;
	}
	p->probe->ops->tokenizer(
		p->probe, kp_loop_now(e->owner->loop) + TOKENIZER_DEADLINE_NS, on_tokenizer, p);
}

static void on_loads(void *user, const struct kp_err *status, const struct kp_engine_loads *loads)
{
	struct endpoint *p = user;
	if (p->is_gone) {
		return;
	}
	if (status->code == KP_OK) {
		p->loads = *loads;
		kp_endpoint_loads(p->shared, loads);
		kp_gauge_set(p->running, loads->running);
		kp_gauge_set(p->waiting, loads->waiting);
	}
	kp_endpoint_forgive(p->shared);
	is_up(p); /* an engine without loads is healthy all the same */
}

static void on_health(void *user, const struct kp_err *status)
{
	struct endpoint *p = user;
	int64_t deadline = kp_loop_now(p->engine->owner->loop) + ASK_DEADLINE_NS;
	if (p->is_gone) {
		return;
	}
	/* A new connection may lead to an engine that was started again with another model. */
	p->has_info = p->has_info && p->connections == p->probe->ops->connections(p->probe) &&
		      !kp_endpoint_may_take_another(p) && !kp_endpoint_is_behind(p);
	if (status->code != KP_OK) {
		went_down(p, status);
	} else if (!p->has_info) {
		if (p->shared->is_own) {
			struct kp_loop *loop = p->engine->owner->loop;
			kp_timer_start(loop, &p->timer, kp_loop_now(loop) + IDENTIFY_NS, on_slow);
		}
		p->probe->ops->info(p->probe, deadline, on_info, p);
	} else {
		p->probe->ops->loads(p->probe, deadline, on_loads, p);
	}
}

static void ask_health(struct endpoint *p)
{
	if (p->is_asking || !p->probe) {
		return;
	}
	p->is_asking = true;
	p->is_answer_wanted = p->is_wanted;
	p->is_wanted = false;
	p->asked_ns = kp_now_ns();
	p->probe->ops->health(
		p->probe, kp_loop_now(p->engine->owner->loop) + ASK_DEADLINE_NS, on_health, p);
}

static struct endpoint *find_endpoint(struct kp_engines *e, const struct kp_endpoint *shared)
{
	for (size_t i = 0; i < e->engines.n; i++) {
		for (size_t k = 0; k < e->engines.p[i]->endpoints.n; k++) {
			struct endpoint *p = e->engines.p[i]->endpoints.p[k];
			if (p->shared == shared) {
				return p;
			}
		}
	}
	return NULL;
}

void kp_engines_suspect(struct kp_engines *e, const struct kp_endpoint *endpoint)
{
	struct endpoint *p = find_endpoint(e, endpoint);
	if (p) {
		/* Its owner may have been told of another model meanwhile. */
		p->has_info = p->has_info && endpoint->is_own;
		ask_health(p);
	}
}

void kp_engines_identify(struct kp_engines *e, const struct kp_endpoint *endpoint)
{
	struct endpoint *p = find_endpoint(e, endpoint);
	if (p) {
		p->is_wanted =
			true; /* asked again when a question is under way: that one is older */
		ask_health(p);
	}
}

/* --- taking over a program --- */

static void endpoint_destroy(struct kp_engines *es, struct endpoint *p)
{
	p->is_gone = true; /* questions under way end now, with CANCELLED */
	if (p->probe) {
		p->probe->ops->destroy(p->probe);
	}
	kp_timer_stop(es->loop, &p->timer);
	kp_gauge_set(p->up, 0);
	kp_endpoint_unref(p->shared);
	kp_endpoint_facts_destroy(p->facts);
	kp_mem_free(p->model);
	kp_mem_free(p->broken);
	kp_mem_free(p);
}

static void engine_destroy(struct engine *e)
{
	for (size_t i = 0; i < e->endpoints.n; i++) {
		endpoint_destroy(e->owner, e->endpoints.p[i]);
	}
	for (size_t i = 0; i < e->aliases.n; i++) {
		kp_mem_free(e->aliases.p[i]);
	}
	kp_vec_fini(&e->endpoints);
	kp_vec_fini(&e->aliases);
	kp_text_stack_unref(e->text);
	kp_mem_free(e->name);
	kp_mem_free(e->pool);
	kp_mem_free(e->model);
	kp_mem_free(e->path);
	kp_mem_free(e->chat_template);
	kp_mem_free(e->tool_parser);
	kp_mem_free(e->reasoning_parser);
	kp_mem_free(e);
}

/* With manifests the gateway owns every endpoint; a program of the operator names the owner. */
static bool is_ours(const struct kp_engines *es, const struct kp_program_endpoint *want)
{
	const struct kp_config *c = &es->gateway->config;
	return !c->control || (want->owner && kp_str_eq(want->owner->id, kp_str_c(c->id)));
}

static struct endpoint *endpoint_create(struct engine *e, const struct kp_program_engine *engine,
	const struct kp_program_endpoint *want)
{
	struct kp_engines *es = e->owner;
	struct kp_metrics *m = es->gateway->metrics;
	struct endpoint *p = kp_new(struct endpoint);
	const struct kp_label labels[] = { { "engine", engine->name },
		{ "address", want->address } };
	p->engine = e;
	p->shared = kp_endpoint_create(
		engine, want, is_ours(es, want), kp_str_c(es->gateway->config.node));
	p->up = kp_metrics_gauge(
		m, "kelpie_engine_up", "1 while the endpoint is routable.", labels, 2);
	p->running = kp_metrics_gauge(m, "kelpie_engine_requests_running",
		"Requests the engine says it runs.", labels, 2);
	p->waiting = kp_metrics_gauge(m, "kelpie_engine_requests_waiting",
		"Requests the engine says wait in its queue.", labels, 2);
	if (!p->shared->is_own && !p->shared->peer[0]) {
		snprintf(p->why, sizeof(p->why), "no gateway is known to own it");
		return p; /* nobody to ask */
	}
	p->probe = kp_dial(es->loop, p->shared, &es->peer_tls, NULL, NULL);
	ask_again_in(p, 0);
	return p;
}

/* Does an endpoint of the program serve the model: `routable`: now, else: at all. */
static bool is_served(const struct kp_engines *es, const char *model, bool routable)
{
	for (size_t i = 0; i < es->engines.n; i++) {
		const struct engine *e = es->engines.p[i];
		bool is_its = e->keep && kp_str_eq(kp_str_c(e->model), kp_str_c(model));
		for (size_t k = 0; is_its && k < e->endpoints.n; k++) {
			const struct endpoint *p = e->endpoints.p[k];
			if (!p->leave_ns && (!routable || kp_endpoint_state(p->shared) ==
								  KP_ENDPOINT_ROUTABLE)) {
				return true;
			}
		}
	}
	return false;
}

static bool must_go(const struct kp_engines *es, const struct endpoint *p)
{
	const char *model = p->engine->model;
	return p->leave_ns && (kp_loop_now(es->loop) >= p->leave_ns ||
				      kp_endpoint_state(p->shared) != KP_ENDPOINT_ROUTABLE ||
				      !is_served(es, model, false) || is_served(es, model, true));
}

static void on_leave(struct kp_timer *t)
{
	let_go(KP_CONTAINER(t, struct kp_engines, leave));
}

static void let_go(struct kp_engines *es)
{
	int64_t next = INT64_MAX;
	size_t n = 0, n_gone = 0;
	for (size_t i = 0; i < es->engines.n; i++) {
		struct engine *e = es->engines.p[i];
		for (size_t k = 0; k < e->endpoints.n;) {
			struct endpoint *p = e->endpoints.p[k];
			if (!must_go(es, p)) {
				next = p->leave_ns ? KP_MIN(next, p->leave_ns) : next;
				k++;
				continue;
			}
			/* Out of the list first: must_go looks at all of them. */
			e->endpoints.n--;
			memmove(&e->endpoints.p[k], &e->endpoints.p[k + 1],
				(e->endpoints.n - k) * sizeof(e->endpoints.p[0]));
			/* Who has an older snapshot starts nothing there any more; what runs goes on. */
			atomic_store(&p->shared->state, (int)KP_ENDPOINT_DRAINING);
			endpoint_destroy(es, p);
			n_gone++;
		}
	}
	for (size_t i = 0; i < es->engines.n; i++) {
		struct engine *e = es->engines.p[i];
		if (e->keep || e->endpoints.n) {
			es->engines.p[n++] = e;
		} else {
			engine_destroy(e);
			n_gone++;
		}
	}
	es->engines.n = n;
	if (next != INT64_MAX) {
		kp_timer_start(es->loop, &es->leave, next, on_leave);
	}
	if (n_gone) {
		es->changed(es->arg);
	}
}

static void leave(struct endpoint *p)
{
	if (!p->leave_ns) {
		p->leave_ns = kp_loop_now(p->engine->owner->loop) + LEAVE_NS;
	}
}

/* The endpoints the program names, then those that leave. Those that were there are kept, known by
 * address, owner and protocol: one that moves up in the list, because another was taken out, goes on
 * serving. */
static void apply_endpoints(struct engine *e, const struct kp_program_engine *want)
{
	KP_VEC(struct endpoint *)
	next = { 0 };
	for (size_t i = 0; i < want->n_endpoints; i++) {
		const struct kp_program_endpoint *w = &want->endpoints[i];
		struct endpoint *p = NULL;
		for (size_t k = 0; k < e->endpoints.n && !p; k++) {
			const struct endpoint *old = e->endpoints.p[k];
			if (old && kp_endpoint_is(old->shared, want, w, is_ours(e->owner, w),
					   kp_str_c(e->owner->gateway->config.node))) {
				p = kp_steal(e->endpoints.p[k]);
				p->leave_ns = 0;
			}
		}
		kp_vec_push(&next, p ? p : endpoint_create(e, want, w));
	}
	for (size_t k = 0; k < e->endpoints.n; k++) {
		if (e->endpoints.p[k]) {
			leave(e->endpoints.p[k]);
			kp_vec_push(&next, e->endpoints.p[k]);
		}
	}
	kp_vec_fini(&e->endpoints);
	e->endpoints.p = next.p;
	e->endpoints.n = next.n;
	e->endpoints.cap = next.cap;
}

static struct engine *find_engine(struct kp_engines *es, const struct kp_program_engine *want)
{
	for (size_t i = 0; i < es->engines.n; i++) {
		struct engine *e = es->engines.p[i];
		bool same_source =
			want->tokenizer == KP_TOKENIZER_PATH
				? e->path && kp_str_eq(kp_str_c(e->path), want->tokenizer_path)
				: !e->path;
		bool same_text = kp_str_eq(kp_str_c(e->chat_template), want->chat_template) &&
				 e->text_policy == want->text_policy &&
				 kp_str_eq(kp_str_c(e->tool_parser), want->tool_parser) &&
				 kp_str_eq(kp_str_c(e->reasoning_parser), want->reasoning_parser);
		if (kp_str_eq(kp_str_c(e->name), want->name) && same_source && same_text) {
			return e;
		}
	}
	return NULL;
}

static void apply_engine(struct kp_engines *es, const struct kp_program_engine *want)
{
	struct engine *e = find_engine(es, want);
	if (!e) {
		e = kp_new(struct engine);
		e->owner = es;
		e->name = kp_str_z(want->name);
		e->path = want->tokenizer == KP_TOKENIZER_PATH ? kp_str_z(want->tokenizer_path)
							       : NULL;
		e->chat_template = kp_str_z(want->chat_template);
		e->text_policy = want->text_policy;
		e->tool_parser = kp_str_z(want->tool_parser);
		e->reasoning_parser = kp_str_z(want->reasoning_parser);
		snprintf(e->why, sizeof(e->why), "waiting for engine `%s`", e->name);
		kp_vec_push(&es->engines, e);
	}
	e->keep = true;
	e->validation = want->validation;
	e->strict_schemas = want->strict_schemas;
	kp_mem_free(e->pool);
	kp_mem_free(e->model);
	e->pool = kp_str_z(want->pool);
	e->model = kp_str_z(want->model);
	for (size_t i = 0; i < e->aliases.n; i++) {
		kp_mem_free(e->aliases.p[i]);
	}
	e->aliases.n = 0;
	for (size_t i = 0; i < want->n_aliases; i++) {
		kp_vec_push(&e->aliases, kp_str_z(want->aliases[i]));
	}
	kp_engine_load_path(e);
	apply_endpoints(e, want);
}

void kp_engines_apply(struct kp_engines *es, const struct kp_program *p)
{
	for (size_t i = 0; i < es->engines.n; i++) {
		es->engines.p[i]->keep = false;
	}
	for (size_t i = 0; i < p->n_engines; i++) {
		apply_engine(es, &p->engines[i]);
	}
	for (size_t i = 0; i < es->engines.n; i++) {
		struct engine *e = es->engines.p[i];
		for (size_t k = 0; !e->keep && k < e->endpoints.n; k++) {
			leave(e->endpoints.p[k]);
		}
	}
	let_go(es);
	es->changed(es->arg);
}

struct kp_engines *kp_engines_create(
	struct kp_gateway *g, struct kp_loop *loop, void (*changed)(void *), void *arg)
{
	struct kp_engines *es = kp_new(struct kp_engines);
	kp_rng_seed(&es->rng, (uint64_t)kp_now_ns());
	es->gateway = g;
	es->loop = loop;
	es->changed = changed;
	es->arg = arg;
	es->texts = kp_texts_create(g);
	return es;
}

void kp_engines_destroy(struct kp_engines *es)
{
	if (!es) {
		return;
	}
	kp_loop_undefer(&es->let_go);
	kp_timer_stop(es->loop, &es->leave);
	for (size_t i = 0; i < es->engines.n; i++) {
		engine_destroy(es->engines.p[i]);
	}
	kp_vec_fini(&es->engines);
	kp_peer_tls_unref(&es->peer_tls);
	kp_texts_destroy(es->texts);
	kp_mem_free(es);
}

void kp_engines_set_peer_tls(struct kp_engines *es, const struct kp_peer_tls *tls)
{
	kp_peer_tls_unref(&es->peer_tls);
	es->peer_tls = kp_peer_tls_ref(tls);
	for (size_t i = 0; i < es->engines.n; i++) {
		for (size_t k = 0; k < es->engines.p[i]->endpoints.n; k++) {
			struct endpoint *p = es->engines.p[i]->endpoints.p[k];
			if (p->probe) {
				kp_dial_set_tls(p->probe, p->shared, tls);
			}
		}
	}
}

/* --- what the loops and people see --- */

/* A revision made before in this snapshot for the same pool and model, with the same text stack and settings. */
static struct kp_model_revision *same_revision(const struct kp_engines *es, size_t upto,
	const struct engine *e, struct kp_model_revision *const *made)
{
	for (size_t i = 0; i < upto; i++) {
		const struct engine *other = es->engines.p[i];
		bool same_text =
			e->text ? other->text && other->text->fingerprint == e->text->fingerprint
				: !other->text;
		if (same_text && other->validation == e->validation &&
			other->strict_schemas == e->strict_schemas &&
			kp_str_eq(kp_str_c(other->pool), kp_str_c(e->pool)) &&
			kp_str_eq(kp_str_c(other->model), kp_str_c(e->model))) {
			return made[i];
		}
	}
	return NULL;
}

static uint32_t smaller(uint32_t a, uint32_t b) /* 0: not known */
{
	return !a ? b : !b ? a : KP_MIN(a, b);
}

/* Does the program know the name: engines that leave serve no other. */
static bool is_name(const struct kp_engines *es, const char *name)
{
	for (size_t i = 0; i < es->engines.n; i++) {
		const struct engine *e = es->engines.p[i];
		if (!e->keep) {
			continue;
		}
		if (kp_str_eq(kp_str_c(e->model), kp_str_c(name))) {
			return true;
		}
		for (size_t k = 0; k < e->aliases.n; k++) {
			if (kp_str_eq(kp_str_c(e->aliases.p[k]), kp_str_c(name))) {
				return true;
			}
		}
	}
	return false;
}

static void add_name(const struct kp_engines *es, struct kp_snapshot *s, const struct engine *e,
	const char *name, struct kp_model_revision *r)
{
	if (is_name(es, name)) {
		kp_snapshot_add(s, name, e->pool, name != e->model, r);
	}
}

static struct kp_endpoint_facts *facts_of(const struct endpoint *p)
{
	return p->shared->is_own ? kp_endpoint_facts_create(p->facts ? &p->facts->info : NULL,
					   p->why, !p->engine->path)
				 : NULL;
}

struct kp_snapshot *kp_engines_snapshot(
	const struct kp_engines *es, uint64_t version, int64_t created_wall_s)
{
	struct kp_snapshot *s = kp_snapshot_create(version, created_wall_s);
	struct kp_model_revision **made =
		kp_xcalloc(es->engines.n, sizeof(struct kp_model_revision *));
	for (size_t i = 0; i < es->engines.n; i++) {
		const struct engine *e = es->engines.p[i];
		struct kp_model_revision *r = same_revision(es, i, e, made);
		if (!r) {
			r = kp_snapshot_revision(s, e->name);
			r->text = e->text ? kp_text_stack_ref(e->text) : NULL;
			r->validation = e->validation;
			r->strict_schemas = e->strict_schemas;
			r->why_not = e->text ? NULL : kp_xstrdup(e->why);
		}
		made[i] = r;
		for (size_t k = 0; k < e->endpoints.n; k++) {
			const struct endpoint *p = e->endpoints.p[k];
			char why[KP_ERR_MSG];
			kp_endpoint_why_not_routable(p, why);
			if (!why[0]) { /* one that does not fit says nothing about the others */
				r->max_context = smaller(r->max_context, p->max_context);
				r->vocab_size = smaller(r->vocab_size, p->vocab_size);
			}
			kp_revision_add_endpoint(r, p->shared, facts_of(p));
		}
		add_name(es, s, e, e->model, r);
		for (size_t k = 0; k < e->aliases.n; k++) {
			add_name(es, s, e, e->aliases.p[k], r);
		}
	}
	kp_mem_free(made);
	kp_snapshot_seal(s);
	return s;
}

bool kp_engines_report(const struct kp_engines *es, struct kp_buf *out)
{
	bool any = false;
	for (size_t i = 0; i < es->engines.n; i++) {
		const struct engine *e = es->engines.p[i];
		for (size_t k = 0; k < e->endpoints.n; k++) {
			const struct endpoint *p = e->endpoints.p[k];
			enum kp_endpoint_state state = kp_endpoint_state(p->shared);
			bool ok = state == KP_ENDPOINT_ROUTABLE;
			any |= ok;
			kp_buf_printf(out, "[%c]engine %s %s: %s%s%s%s\n", ok ? '+' : '-', e->name,
				p->shared->address, kp_endpoint_state_name(state),
				p->leave_ns ? ", leaving" : "", p->why[0] ? ": " : "", p->why);
		}
	}
	return any;
}

/* Of a gateway that drains nothing takes requests any more. */
static enum kp_endpoint_state told_state(const struct kp_engines *es, const struct endpoint *p)
{
	enum kp_endpoint_state state = kp_endpoint_state(p->shared);
	return state == KP_ENDPOINT_ROUTABLE && atomic_load(&es->gateway->draining)
		       ? KP_ENDPOINT_DRAINING
		       : state;
}

void kp_engines_fill(const struct kp_engines *es, struct kp_arena *a, struct kp_report *ret)
{
	size_t n = 0, max = 0;
	for (size_t i = 0; i < es->engines.n; i++) {
		max += es->engines.p[i]->endpoints.n;
	}
	struct kp_endpoint_report *r = kp_arena_calloc(a, max, sizeof(*r));
	for (size_t i = 0; r && i < es->engines.n; i++) {
		const struct engine *e = es->engines.p[i];
		for (size_t k = 0; k < e->endpoints.n; k++) {
			const struct endpoint *p = e->endpoints.p[k];
			if (!p->shared->is_own || p->leave_ns) {
				continue;
			}
			r[n++] = (struct kp_endpoint_report){ .engine = kp_str_c(e->name),
				.address = kp_str_c(p->shared->address),
				.state = kp_str_c(kp_endpoint_state_name(told_state(es, p))),
				.reason = kp_str_c(p->why),
				.model = kp_str_c(p->model ? p->model : ""),
				.tokenizer_loaded = e->text && !p->broken,
				.tokenizer_error = kp_str_c(p->broken             ? p->broken
							    : e->path && !e->text ? e->why
										  : ""),
				.in_flight =
					(uint32_t)KP_MAX(atomic_load_explicit(&p->shared->in_flight,
								 memory_order_relaxed),
						0),
				.running = p->loads.running,
				.waiting = p->loads.waiting,
				.kv_usage = p->loads.kv_usage };
		}
	}
	ret->endpoints = r;
	ret->n_endpoints = n;
}
