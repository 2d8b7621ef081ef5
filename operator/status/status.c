/* DESIGN: a status lives in one arena. The JSON is written member after member; what is not known is left
   out. */
#include "operator/status/status.h"

#include "base/clock.h"
#include "json/write.h"

/* Manifests are 16 MiB at most, an endpoint in them some 30 bytes: far below. */
enum { MAX_STATUS = 1 << 30 };

struct kp_status *kp_status_create(void)
{
	struct kp_arena *a = kp_arena_create(MAX_STATUS);
	struct kp_status *s = kp_arena_new(a, struct kp_status);
	s->arena = a;
	return s;
}

void kp_status_destroy(struct kp_status *s)
{
	if (s) {
		kp_arena_destroy(s->arena);
	}
}

/* --- JSON --------------------------------------------------------------------------------------- */

/* A comma, unless it is the first of its object or list. */
static void next(struct kp_buf *b)
{
	if (b->n && b->p[b->n - 1] != '{' && b->p[b->n - 1] != '[') {
		kp_buf_addc(b, ',');
	}
}
static void key(struct kp_buf *b, const char *name)
{
	next(b);
	kp_json_w_str(b, kp_str_c(name));
	kp_buf_addc(b, ':');
}
static void put_str(struct kp_buf *b, const char *name, kp_str v)
{
	if (v.n) {
		key(b, name);
		kp_json_w_str(b, v);
	}
}
static void put_u64(struct kp_buf *b, const char *name, uint64_t v)
{
	key(b, name);
	kp_buf_u64(b, v);
}
static void put_bool(struct kp_buf *b, const char *name, bool v)
{
	key(b, name);
	kp_buf_addz(b, v ? "true" : "false");
}
/* metav1.Time: whole seconds. */
static void put_time(struct kp_buf *b, const char *name, int64_t ns)
{
	char text[25];
	if (ns > 0) {
		kp_time_rfc3339(ns, text);
		key(b, name);
		kp_buf_printf(b, "\"%.19sZ\"", text);
	}
}
static void put_strs(struct kp_buf *b, const char *name, const kp_str *v, size_t n)
{
	if (n == 0) {
		return;
	}
	key(b, name);
	kp_buf_addc(b, '[');
	for (size_t i = 0; i < n; i++) {
		next(b);
		kp_json_w_str(b, v[i]);
	}
	kp_buf_addc(b, ']');
}
static void open_item(struct kp_buf *b)
{
	next(b);
	kp_buf_addc(b, '{');
}
static void open_list(struct kp_buf *b, const char *name)
{
	key(b, name);
	kp_buf_addc(b, '[');
}

static void put_conditions(struct kp_buf *b, const struct kp_status_condition *c, size_t n)
{
	if (n == 0) {
		return;
	}
	open_list(b, "conditions");
	for (size_t i = 0; i < n; i++) {
		open_item(b);
		put_str(b, "type", c[i].type);
		put_str(b, "status", c[i].status);
		put_str(b, "reason", c[i].reason);
		key(b, "message"); /* required by metav1.Condition, also when empty */
		kp_json_w_str(b, c[i].message);
		put_time(b, "lastTransitionTime", c[i].last_transition_ns);
		if (c[i].observed_generation) {
			put_u64(b, "observedGeneration", (uint64_t)c[i].observed_generation);
		}
		kp_buf_addc(b, '}');
	}
	kp_buf_addc(b, ']');
}

/* Epochs have more digits than a double holds for sure: a string, as Kubernetes does it with 64 bits. */
static void put_revision(struct kp_buf *b, const struct kp_status_revision *r)
{
	if (r->epoch == 0) {
		return;
	}
	key(b, "revision");
	kp_buf_printf(b, "{\"epoch\":\"%llu\",\"number\":\"%llu\"", (unsigned long long)r->epoch,
		(unsigned long long)r->n);
	put_str(b, "hash", r->hash);
	kp_buf_addc(b, '}');
}

static void put_programs(struct kp_buf *b, const struct kp_status *s)
{
	open_list(b, "programs");
	for (size_t i = 0; i < s->n_programs; i++) {
		const struct kp_status_program *p = &s->programs[i];
		open_item(b);
		put_str(b, "namespace", p->ns);
		put_revision(b, &p->revision);
		put_time(b, "since", p->since_ns);
		put_u64(b, "gateways", p->gateways);
		put_u64(b, "acknowledged", p->acked);
		kp_buf_addc(b, '}');
	}
	kp_buf_addc(b, ']');
}

static void put_pools(struct kp_buf *b, const struct kp_status *s)
{
	open_list(b, "pools");
	for (size_t i = 0; i < s->n_pools; i++) {
		const struct kp_status_pool *p = &s->pools[i];
		open_item(b);
		put_str(b, "namespace", p->ns);
		put_str(b, "name", p->name);
		open_list(b, "targetPorts");
		for (size_t k = 0; k < p->n_target_ports; k++) {
			next(b);
			kp_buf_u64(b, p->target_ports[k]);
		}
		kp_buf_addc(b, ']');
		put_conditions(b, p->conditions, p->n_conditions);
		kp_buf_addc(b, '}');
	}
	kp_buf_addc(b, ']');
}

static void put_endpoints(struct kp_buf *b, const struct kp_status_engine *e)
{
	open_list(b, "endpoints");
	for (size_t i = 0; i < e->n_endpoints; i++) {
		const struct kp_status_endpoint *p = &e->endpoints[i];
		open_item(b);
		put_u64(b, "index", p->index);
		put_str(b, "address", p->address);
		put_str(b, "owner", p->owner);
		put_str(b, "state", p->state);
		put_str(b, "reason", p->reason);
		put_time(b, "since", p->since_ns);
		put_str(b, "model", p->model);
		put_u64(b, "inFlight", p->in_flight);
		put_u64(b, "running", p->running);
		put_u64(b, "waiting", p->waiting);
		key(b, "kvUsage");
		kp_json_w_f32(b, (float)p->kv_usage);
		kp_buf_addc(b, '}');
	}
	kp_buf_addc(b, ']');
}

static void put_engines(struct kp_buf *b, const struct kp_status *s)
{
	open_list(b, "engines");
	for (size_t i = 0; i < s->n_engines; i++) {
		const struct kp_status_engine *e = &s->engines[i];
		open_item(b);
		put_str(b, "namespace", e->ns);
		put_str(b, "name", e->name);
		put_str(b, "pool", e->pool);
		put_str(b, "model", e->model);
		put_strs(b, "aliases", e->aliases, e->n_aliases);
		put_str(b, "protocol", e->protocol);
		put_str(b, "tokenizer", e->tokenizer);
		if (e->generation) {
			put_u64(b, "generation", (uint64_t)e->generation);
		}
		put_conditions(b, e->conditions, e->n_conditions);
		put_endpoints(b, e);
		kp_buf_addc(b, '}');
	}
	kp_buf_addc(b, ']');
}

static void put_nack(struct kp_buf *b, const struct kp_status_gateway *g)
{
	if (!g->nack_reason.n) {
		return;
	}
	key(b, "refused");
	kp_buf_addc(b, '{');
	put_str(b, "reason", g->nack_reason);
	put_str(b, "message", g->nack_message);
	put_time(b, "time", g->nack_ns);
	kp_buf_addc(b, '}');
}

static void put_gateways(struct kp_buf *b, const struct kp_status *s)
{
	open_list(b, "gateways");
	for (size_t i = 0; i < s->n_gateways; i++) {
		const struct kp_status_gateway *g = &s->gateways[i];
		open_item(b);
		put_str(b, "id", g->id);
		put_str(b, "namespace", g->ns);
		put_str(b, "node", g->node);
		put_str(b, "peerAddress", g->peer_address);
		put_str(b, "adminAddress", g->admin_address);
		put_str(b, "version", g->version);
		put_bool(b, "connected", g->is_connected);
		put_time(b, "since", g->since_ns);
		put_revision(b, &g->revision);
		put_time(b, "acknowledgedTime", g->acked_ns);
		put_bool(b, "current", g->is_current);
		put_nack(b, g);
		put_str(b, "stateError", g->state_error);
		put_strs(b, "problems", g->problems, g->n_problems);
		put_strs(b, "own", g->own, g->n_own);
		put_bool(b, "draining", g->is_draining);
		put_u64(b, "inFlight", g->in_flight);
		put_u64(b, "requests", g->requests);
		put_u64(b, "errors", g->errors);
		put_u64(b, "tokens", g->tokens);
		kp_buf_addc(b, '}');
	}
	kp_buf_addc(b, ']');
}

void kp_status_json(const struct kp_status *s, kp_str resource_version, struct kp_buf *out)
{
	kp_buf_addc(out, '{');
	put_str(out, "resourceVersion", resource_version);
	key(out, "operator");
	kp_buf_addc(out, '{');
	put_str(out, "id", s->id);
	put_str(out, "version", s->version);
	key(out, "epoch");
	kp_buf_printf(out, "\"%llu\"", (unsigned long long)s->epoch);
	put_str(out, "leader", s->leader);
	put_time(out, "startTime", s->started_ns);
	put_bool(out, "ready", s->not_ready.n == 0);
	put_str(out, "reason", s->not_ready);
	kp_buf_addc(out, '}');
	key(out, "manifests");
	kp_buf_addc(out, '{');
	put_str(out, "path", s->manifests_path);
	put_time(out, "acceptedTime", s->manifests_ns);
	put_strs(out, "errors", s->manifest_errors, s->n_manifest_errors);
	kp_buf_addc(out, '}');
	put_programs(out, s);
	put_pools(out, s);
	put_engines(out, s);
	put_gateways(out, s);
	kp_buf_addc(out, '}');
}
