/* DESIGN: a map by "namespace/id", since a certificate speaks for an id in one namespace only. What a
   record holds of messages lies in three arenas of its own (hello, refusal, report), each replaced as a
   whole. */
#include "operator/control/gateways.h"

#define PAUSE_NS (5 * KP_NS_PER_S) /* a loop that is late by this much did not run */

void kp_gateways_init(struct kp_gateways *g, int64_t now_ns)
{
	*g = (struct kp_gateways){ .started_ns = now_ns, .settled_ns = now_ns };
	kp_map_init(&g->by_name);
	kp_map_init(&g->known);
}

static void destroy(void *value)
{
	struct kp_gateway_record *r = value;
	kp_arena_destroy(r->arena);
	kp_arena_destroy(r->nack_arena);
	kp_arena_destroy(r->report_arena);
	kp_mem_free(r);
}

void kp_gateways_fini(struct kp_gateways *g)
{
	kp_map_fini(&g->by_name, destroy);
	kp_map_fini(&g->known, kp_mem_free);
}

static void write_name(struct kp_buf *out, kp_str ns, kp_str id)
{
	kp_buf_init(out, 1024);
	kp_buf_printf(out, "%" KP_FMT "/%" KP_FMT, KP_ARG(ns), KP_ARG(id));
}

struct kp_gateway_record *kp_gateways_find(const struct kp_gateways *g, kp_str ns, kp_str id)
{
	KP_AUTO(buf) struct kp_buf name;
	write_name(&name, ns, id);
	return kp_map_get(&g->by_name, kp_buf_str(&name));
}

/* --- what it says of itself --- */

static int dup_gateway(struct kp_arena *a, const struct kp_program_gateway *from,
	struct kp_program_gateway *to, struct kp_err *err)
{
	kp_str *own = kp_arena_calloc(a, from->n_own, sizeof(*own));
	if (!own) {
		return kp_arena_full(err, "gateway");
	}
	for (size_t i = 0; i < from->n_own; i++) {
		if (kp_arena_dup(a, from->own[i], &own[i], err)) {
			return -1;
		}
	}
	to->own = own;
	to->n_own = from->n_own;
	return kp_arena_dup(a, from->id, &to->id, err) ||
			       kp_arena_dup(a, from->peer, &to->peer, err) ||
			       kp_arena_dup(a, from->node, &to->node, err)
		       ? -1
		       : 0;
}

static void forget(struct kp_gateways *g, struct kp_gateway_record *r)
{
	KP_AUTO(buf) struct kp_buf name;
	write_name(&name, r->ns, r->is.id);
	g->report_bytes -= r->report_arena ? kp_arena_used(r->report_arena) : 0;
	kp_map_del(&g->by_name, kp_buf_str(&name));
	destroy(r);
}

/* Who speaks for itself takes the place of one that others only speak of. */
static bool make_room(struct kp_gateways *g)
{
	struct kp_map_entry *e;
	for (size_t pos = 0;
		g->by_name.n >= KP_GATEWAYS_MAX && (e = kp_map_next(&g->by_name, &pos)) != NULL;) {
		struct kp_gateway_record *r = e->value;
		if (r->is_second_hand) {
			forget(g, r);
			break;
		}
	}
	return g->by_name.n < KP_GATEWAYS_MAX;
}

/* The record of that name, made if need be, with this description of it. */
static int describe(struct kp_gateways *g, const struct kp_program_gateway *is, kp_str ns,
	kp_str admin, kp_str version, struct kp_gateway_record **ret, struct kp_err *err)
{
	struct kp_gateway_record *r = kp_gateways_find(g, ns, is->id), new = { 0 };
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	if (dup_gateway(a, is, &new.is, err) || kp_arena_dup(a, ns, &new.ns, err) ||
		kp_arena_dup(a, admin, &new.admin, err) ||
		kp_arena_dup(a, version, &new.version, err)) {
		return -1;
	}
	if (!r) {
		KP_AUTO(buf) struct kp_buf name;
		write_name(&name, ns, is->id);
		r = kp_new(struct kp_gateway_record);
		kp_map_set(&g->by_name, kp_buf_str(&name), r);
	}
	kp_arena_destroy(r->arena);
	r->arena = kp_steal(a);
	r->is = new.is;
	r->ns = new.ns;
	r->admin = new.admin;
	r->version = new.version;
	*ret = r;
	return 0;
}

static bool is_newer(const struct kp_revision *a, const struct kp_revision *b)
{
	return a->epoch != b->epoch ? a->epoch > b->epoch : a->n > b->n;
}

static void forget_second_hand(struct kp_gateways *g, kp_str ns)
{
	struct kp_map_entry *e;
	for (size_t pos = 0; (e = kp_map_next(&g->by_name, &pos)) != NULL;) {
		struct kp_gateway_record *r = e->value;
		if (r->is_second_hand && kp_str_eq(r->ns, ns)) {
			forget(g, r);
		}
	}
}

/* Those that its program names, if that is the newest one seen. Who was heard of by itself is known
 * better than that; who makes no sense is left out. Returns how many there were no room for. */
static size_t take_known(struct kp_gateways *g, const struct kp_hello *h, int64_t now, int64_t wall)
{
	size_t n = 0;
	struct kp_revision *counts = kp_map_get(&g->known, h->ns);
	if (!h->revision.is_set || now - g->started_ns >= KP_PLAN_GONE_NS ||
		(counts && !is_newer(&h->revision, counts)) ||
		(!counts && g->known.n >= KP_GATEWAYS_MAX)) {
		return 0;
	}
	if (!counts) {
		counts = kp_new(struct kp_revision);
		kp_map_set(&g->known, h->ns, counts);
	}
	*counts = h->revision;
	forget_second_hand(g, h->ns);
	for (size_t i = 0; i < h->n_known; i++) {
		struct kp_gateway_record *r;
		struct kp_err ignored = KP_ERR_INIT;
		if (kp_hello_check_gateway(&h->known[i], &ignored) ||
			kp_gateways_find(g, h->ns, h->known[i].id)) {
			continue;
		}
		if (n == KP_GATEWAYS_KNOWN_MAX || g->by_name.n >= KP_GATEWAYS_MAX) {
			return h->n_known - i;
		}
		if (describe(g, &h->known[i], h->ns, KP_S(""), KP_S(""), &r, &ignored) == 0) {
			n++;
			r->is_second_hand = true;
			r->heard_ns = g->started_ns;
			r->since_wall_ns = wall;
		}
	}
	return 0;
}

int kp_gateways_hello(struct kp_gateways *g, const struct kp_hello *h, int64_t now_ns,
	int64_t wall_ns, struct kp_gateway_record **ret, struct kp_err *err)
{
	const struct kp_program_gateway is = {
		.id = h->id, .peer = h->peer, .node = h->node, .own = h->own, .n_own = h->n_own
	};
	if (!kp_gateways_find(g, h->ns, h->id) && !make_room(g)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"hello: %d gateways are known already", KP_GATEWAYS_MAX);
	}
	if (describe(g, &is, h->ns, h->admin, h->version, ret, err)) {
		return -1;
	}
	struct kp_gateway_record *r = *ret;
	r->n_replaced += r->is_connected;
	r->is_connected = true;
	r->is_second_hand = false;
	r->heard_ns = now_ns;
	r->since_wall_ns = wall_ns;
	r->runs = h->revision;
	r->report.draining = false;
	r->n_left_out = take_known(g, h, now_ns, wall_ns);
	return 0;
}

void kp_gateway_lost(struct kp_gateway_record *r, int64_t now_ns, int64_t wall_ns)
{
	r->is_connected = false;
	r->stream = NULL;
	r->held_epoch = 0;
	r->since_wall_ns = wall_ns;
	r->heard_ns = r->report.draining ? now_ns - KP_PLAN_SILENT_NS : now_ns;
}

/* --- reports and answers --- */

static int dup_report(
	struct kp_arena *a, const struct kp_report *from, struct kp_report *to, struct kp_err *err)
{
	struct kp_endpoint_report *endpoints =
		kp_arena_calloc(a, from->n_endpoints, sizeof(*endpoints));
	if (!endpoints) {
		return kp_arena_full(err, "report");
	}
	for (size_t i = 0; i < from->n_endpoints; i++) {
		struct kp_endpoint_report *e = &endpoints[i];
		*e = from->endpoints[i];
		if (kp_arena_dup(a, e->engine, &e->engine, err) ||
			kp_arena_dup(a, e->address, &e->address, err) ||
			kp_arena_dup(a, e->state, &e->state, err) ||
			kp_arena_dup(a, e->reason, &e->reason, err) ||
			kp_arena_dup(a, e->model, &e->model, err) ||
			kp_arena_dup(a, e->tokenizer_error, &e->tokenizer_error, err)) {
			return -1;
		}
	}
	to->endpoints = endpoints;
	to->n_endpoints = from->n_endpoints;
	return kp_arena_dup(a, from->state_error, &to->state_error, err);
}

static bool endpoint_same(const struct kp_endpoint_report *a, const struct kp_endpoint_report *b)
{
	return kp_str_eq(a->engine, b->engine) && kp_str_eq(a->address, b->address) &&
	       kp_str_eq(a->state, b->state) && kp_str_eq(a->reason, b->reason) &&
	       kp_str_eq(a->model, b->model) && a->tokenizer_loaded == b->tokenizer_loaded &&
	       kp_str_eq(a->tokenizer_error, b->tokenizer_error) && a->in_flight == b->in_flight &&
	       a->running == b->running && a->waiting == b->waiting &&
	       memcmp(&a->kv_usage, &b->kv_usage, sizeof(a->kv_usage)) == 0;
}

bool kp_report_same(const struct kp_report *a, const struct kp_report *b)
{
	if (a->n_endpoints != b->n_endpoints || a->draining != b->draining ||
		a->in_flight != b->in_flight || a->requests != b->requests ||
		a->errors != b->errors || a->tokens != b->tokens ||
		!kp_str_eq(a->state_error, b->state_error)) {
		return false;
	}
	for (size_t i = 0; i < a->n_endpoints; i++) {
		if (!endpoint_same(&a->endpoints[i], &b->endpoints[i])) {
			return false;
		}
	}
	return true;
}

bool kp_gateways_report(
	struct kp_gateways *g, struct kp_gateway_record *r, const struct kp_report *report)
{
	struct kp_err ignored = KP_ERR_INIT;
	g->report_bytes -= r->report_arena ? kp_arena_used(r->report_arena) : 0;
	kp_arena_destroy(r->report_arena);
	r->report_arena = NULL;
	size_t room = KP_REPORTS_BYTES_MAX - KP_MIN(g->report_bytes, (size_t)KP_REPORTS_BYTES_MAX);
	struct kp_arena *a = kp_arena_create(KP_MIN(room, (size_t)KP_REPORT_BYTES_MAX));
	struct kp_report kept = *report;
	bool fits = dup_report(a, report, &kept, &ignored) == 0;
	if (!fits) {
		kp_arena_destroy(a);
		a = NULL;
		kept.endpoints = NULL;
		kept.n_endpoints = 0;
		kept.state_error = KP_S("");
	}
	r->report = kept;
	r->report_arena = a;
	r->has_report = true;
	g->report_bytes += a ? kp_arena_used(a) : 0;
	return fits;
}

void kp_gateway_answered(struct kp_gateway_record *r, const struct kp_nack *nack, int64_t wall_ns)
{
	struct kp_err ignored = KP_ERR_INIT;
	kp_arena_destroy(r->nack_arena);
	r->nack_arena = NULL;
	r->nack_reason = r->nack_message = KP_S("");
	*(nack ? &r->nack_wall_ns : &r->acked_wall_ns) = wall_ns;
	if (nack) {
		r->nack_arena = kp_arena_create(64 << 10);
		if (kp_arena_dup(r->nack_arena, nack->reason, &r->nack_reason, &ignored) ||
			kp_arena_dup(r->nack_arena, nack->message, &r->nack_message, &ignored)) {
			r->nack_message = KP_S("");
		}
	}
}

/* --- time --- */

size_t kp_gateways_settle(struct kp_gateways *g, int64_t now_ns)
{
	int64_t pause = now_ns - g->settled_ns;
	size_t n = 0;
	struct kp_map_entry *e;
	g->settled_ns = now_ns;
	pause = pause >= PAUSE_NS ? pause : 0;
	g->started_ns += pause;
	for (size_t pos = 0; (e = kp_map_next(&g->by_name, &pos)) != NULL;) {
		struct kp_gateway_record *r = e->value;
		r->heard_ns = KP_MIN(r->heard_ns + pause, now_ns);
		if (!r->is_connected && now_ns - r->heard_ns >= KP_PLAN_GONE_NS) {
			forget(g, r);
			n++;
		}
	}
	return n;
}

bool kp_gateway_is_silent(const struct kp_gateway_record *r, int64_t now_ns)
{
	return now_ns - r->heard_ns >= KP_PLAN_SILENT_NS;
}

struct kp_plan_gateway *kp_gateways_list(const struct kp_gateways *g, size_t *ret_n)
{
	struct kp_plan_gateway *list = kp_xcalloc(g->by_name.n + 1, sizeof(*list));
	const struct kp_map_entry *e;
	size_t n = 0;
	for (size_t pos = 0; (e = kp_map_next(&g->by_name, &pos)) != NULL;) {
		const struct kp_gateway_record *r = e->value;
		list[n++] = (struct kp_plan_gateway){ .is = r->is,
			.ns = r->ns,
			.heard_ns = r->heard_ns,
			.is_draining = r->report.draining };
	}
	*ret_n = n;
	return list;
}
