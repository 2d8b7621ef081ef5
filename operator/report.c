/* DESIGN: the plan says what shall be, the programs what is in force, the records of the gateways what
   they say; here they are put side by side. Everything is copied, since the admin thread keeps it. Since
   when something is so, only this file remembers: by what it is, the value seen last. */
#include "operator/internal.h"

#include "base/version.h"
#include "operator/control/counts.h"
#include "operator/plan/conditions.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum state { NO_OWNER, UNKNOWN, DISCOVERED, ANSWERING, ROUTABLE, DRAINING, DOWN, N_STATES };
static const char *const states[] = { "no_owner", "unknown", "discovered", "answering", "routable",
	"draining", "down" };

_Static_assert(N_STATES == KP_LEN(states), "each state has its word");
_Static_assert(N_STATES == KP_LEN(((struct kp_operator *)NULL)->endpoints), "and its gauge");

struct row {
	const struct kp_gateway_record *gateway;
	size_t next_report; /* where to look first */
};
struct reporter {
	struct kp_operator *o;
	struct kp_status *status;
	struct kp_arena *arena;
	const struct kp_programs *programs;
	struct row *rows; /* by id */
	size_t n_rows;
	int64_t now_ns, now_wall_ns;
	int64_t n_by_state[N_STATES];
	struct kp_err none; /* code OK */
};

/* --- since when --- */

struct since {
	uint64_t round; /* when it was seen last */
	int64_t wall_ns;
	char *value;
};

static void since_destroy(void *p)
{
	struct since *s = p;
	kp_mem_free(s->value);
	kp_mem_free(s);
}

void kp_operator_report_init(struct kp_operator *o)
{
	kp_map_init(&o->since);
	for (size_t i = 0; i < N_STATES; i++) {
		const struct kp_label label = { "state", kp_str_c(states[i]) };
		o->endpoints[i] = kp_metrics_gauge(o->metrics, "kelpie_operator_endpoints",
			"Endpoints of the plan, by what their owners say of them.", &label, 1);
	}
}

void kp_operator_report_fini(struct kp_operator *o)
{
	kp_map_fini(&o->since, since_destroy);
}

static int64_t since(struct reporter *r, kp_str key, kp_str value)
{
	struct since *s = kp_map_get(&r->o->since, key);
	if (!s) {
		s = kp_new(struct since);
		kp_map_set(&r->o->since, key, s);
	}
	if (!s->value || !kp_str_eq(kp_str_c(s->value), value)) {
		kp_mem_free(s->value);
		s->value = kp_str_z(value);
		s->wall_ns = r->now_wall_ns;
	}
	s->round = r->o->n_shown;
	return s->wall_ns;
}

static void forget_what_is_gone(struct reporter *r)
{
	struct kp_map_entry *e;
	for (size_t pos = 0; (e = kp_map_next(&r->o->since, &pos)) != NULL;) {
		struct since *s = e->value;
		if (s->round != r->o->n_shown) {
			since_destroy(kp_map_del(&r->o->since, e->key));
		}
	}
}

/* --- small things --- */

static void *list(struct reporter *r, size_t n, size_t size)
{
	return kp_arena_xalloc(r->arena, (n + 1) * size);
}

static kp_str copy(struct reporter *r, kp_str s)
{
	return kp_str_n(kp_arena_strz(r->arena, s), s.n);
}

static struct kp_status_revision revision(struct reporter *r, const struct kp_revision *from)
{
	char hex[KP_HASH_TEXT_MAX];
	struct kp_status_revision to = { .epoch = from->epoch, .n = from->n };
	if (from->is_set) {
		to.hash = copy(r, kp_str_c(kp_hash_text(from->hash, 64, hex)));
	}
	return to;
}

/* "default/demo" */
static kp_str part(struct reporter *r, kp_str name, bool is_namespace)
{
	size_t slash = (size_t)kp_str_find_char(name, '/');
	return copy(r, is_namespace ? kp_str_sub(name, 0, slash) : kp_str_skip(name, slash + 1));
}

static int compare_rows(const void *a, const void *b)
{
	const struct kp_gateway_record *x = ((const struct row *)a)->gateway,
				       *y = ((const struct row *)b)->gateway;
	int order = kp_str_cmp(x->is.id, y->is.id);
	return order ? order : kp_str_cmp(x->ns, y->ns);
}

static void list_rows(struct reporter *r, const struct kp_gateways *g)
{
	const struct kp_map_entry *e;
	r->rows = list(r, g->by_name.n, sizeof(*r->rows));
	for (size_t pos = 0; (e = kp_map_next(&g->by_name, &pos)) != NULL;) {
		r->rows[r->n_rows++].gateway = e->value;
	}
	qsort(r->rows, r->n_rows, sizeof(*r->rows), compare_rows);
}

static struct row *find_row(struct reporter *r, kp_str ns, kp_str id)
{
	const struct kp_gateway_record record = { .is = { .id = id }, .ns = ns };
	const struct row key = { .gateway = &record };
	return r->n_rows ? bsearch(&key, r->rows, r->n_rows, sizeof(key), compare_rows) : NULL;
}

/* What the owner says of an endpoint; NULL: nothing that counts. Owners report in the program's order, so
 * the next one is mostly the one. */
static const struct kp_endpoint_report *find_report(
	struct reporter *r, struct row *owner, kp_str engine, kp_str address)
{
	const struct kp_report *report = &owner->gateway->report;
	if (!owner->gateway->is_connected || kp_gateway_is_silent(owner->gateway, r->now_ns)) {
		return NULL;
	}
	for (size_t i = 0; i < report->n_endpoints; i++) {
		size_t at = (owner->next_report + i) % report->n_endpoints;
		const struct kp_endpoint_report *e = &report->endpoints[at];
		if (kp_str_eq(e->engine, engine) && kp_str_eq(e->address, address)) {
			owner->next_report = at + 1;
			return e;
		}
	}
	return NULL;
}

/* --- conditions --- */

static void set_conditions(struct reporter *r, const char *kind, kp_str name,
	const struct kp_condition *from, size_t n, const struct kp_status_condition **ret,
	size_t *ret_n)
{
	struct kp_status_condition *to = list(r, n, sizeof(*to));
	for (size_t i = 0; i < n; i++) {
		kp_str key = kp_arena_printf(
			       r->arena, "%s %" KP_FMT " %s", kind, KP_ARG(name), from[i].type),
		       status = from[i].is_true ? KP_S("True") : KP_S("False");
		to[i] = (struct kp_status_condition){ .type = kp_str_c(from[i].type),
			.status = status,
			.reason = kp_str_c(from[i].reason),
			.message = copy(r, kp_str_c(from[i].message)),
			.last_transition_ns = since(r, key, status) };
	}
	*ret = to;
	*ret_n = n;
}

/* The first gateway that refuses the program in force. */
static void find_refusal(struct reporter *r, kp_str ns, struct kp_engine_facts *f)
{
	for (size_t i = 0; i < r->n_rows; i++) {
		const struct kp_gateway_record *g = r->rows[i].gateway;
		if (g->is_connected && g->nack_reason.n && kp_str_eq(g->ns, ns)) {
			f->refused_by = g->is.id;
			f->refused_why = kp_arena_printf(r->arena, "%" KP_FMT ": %" KP_FMT,
				KP_ARG(g->nack_reason), KP_ARG(g->nack_message));
			return;
		}
	}
}

/* --- engines and pools --- */

static enum state endpoint_state(const struct kp_endpoint_report *e)
{
	for (enum state s = DISCOVERED; e && s < N_STATES; s++) {
		if (kp_str_eq(e->state, kp_str_c(states[s]))) {
			return s;
		}
	}
	return UNKNOWN;
}

static kp_str claim_problem(struct reporter *r, const struct kp_claim_problem *p)
{
	KP_AUTO(buf) struct kp_buf text = { 0 };
	kp_buf_init(&text, 8192);
	kp_claim_problem_write(p, &text);
	return copy(r, kp_buf_str(&text));
}

/* It is claimed, but its address has another owner: that is said of the engine, too. Likewise that the gateway which is to own it
   was refused a certificate. */
static kp_str why_no_owner(struct reporter *r, const struct kp_plan_namespace *ns,
	const struct kp_program_engine *engine, kp_str address, kp_str wants,
	struct kp_engine_facts *f)
{
	kp_str name = kp_arena_printf(
		r->arena, "%" KP_FMT "/%" KP_FMT, KP_ARG(engine->name), KP_ARG(address));
	for (size_t i = 0; i < ns->n_problems; i++) {
		const struct kp_claim_problem *p = &ns->problems[i];
		if (p->why == KP_CLAIM_ADDRESS && kp_str_eq(p->claim, name)) {
			f->taken = claim_problem(r, p);
			return f->taken;
		}
	}
	ptrdiff_t port = kp_str_rfind_char(address, ':');
	kp_str refused = kp_refusals_find(&r->o->refusals, wants,
		kp_str_sub(address, 0, port < 0 ? address.n : (size_t)port), r->now_ns);
	if (!refused.n) {
		return KP_S("no gateway claims it");
	}
	kp_str why = kp_arena_printf(
		r->arena, "its gateway was refused a certificate: %" KP_FMT, KP_ARG(refused));
	f->no_owner = f->no_owner.n ? f->no_owner : why;
	return why;
}

static void add_endpoint(struct reporter *r, const struct kp_plan_namespace *ns,
	const struct kp_program_engine *engine, size_t index, struct kp_status_endpoint *to,
	struct kp_engine_facts *f)
{
	const struct kp_program_endpoint *from = &engine->endpoints[index];
	struct row *owner = from->owner ? find_row(r, ns->name, from->owner->id) : NULL;
	const struct kp_endpoint_report *said =
		owner ? find_report(r, owner, engine->name, from->address) : NULL;
	enum state state = from->owner ? endpoint_state(said) : NO_OWNER;
	*to = (struct kp_status_endpoint){ .index = index,
		.address = copy(r, from->address),
		.owner = from->owner ? copy(r, from->owner->id) : KP_S(""),
		.state = kp_str_c(states[state]) };
	if (said) {
		to->state = copy(r, said->state);
		to->reason = copy(r, said->reason);
		to->model = copy(r, said->model);
		to->in_flight = said->in_flight;
		to->running = said->running;
		to->waiting = said->waiting;
		to->kv_usage = (double)said->kv_usage;
	} else {
		to->reason = from->owner
				     ? KP_S("its owner has said nothing of it")
				     : why_no_owner(r, ns, engine, from->address, from->wants, f);
	}
	to->since_ns = since(r,
		kp_arena_printf(r->arena, "endpoint %" KP_FMT "/%zu/%" KP_FMT, KP_ARG(engine->name),
			index, KP_ARG(from->address)),
		to->state);
	r->n_by_state[state]++;
	f->n_owned += from->owner != NULL;
	f->n_attached += owner && owner->gateway->is_connected && owner->gateway->runs.is_set &&
			 !kp_gateway_is_silent(owner->gateway, r->now_ns);
	/* A gateway of an older version says nothing of it; what is routable has one. */
	f->n_loaded += said && (said->tokenizer_loaded || state == ROUTABLE);
	if (said && said->tokenizer_error.n && !f->broken.n) {
		f->broken = copy(r, said->tokenizer_error);
	}
	f->n_routable += state == ROUTABLE;
	if (state != ROUTABLE && !f->waiting.n) {
		f->waiting = to->address;
		f->waiting_why = kp_arena_printf(r->arena, "%" KP_FMT "%s%" KP_FMT,
			KP_ARG(to->state), to->reason.n ? ": " : "", KP_ARG(to->reason));
	}
}

enum { OF_PODS = KP_ENGINE_LINKS + 4, CONDITIONS_MAX = KP_CONDITIONS + OF_PODS };

static void say(struct kp_condition *c, const char *type, bool is_true, const char *yes,
	const char *no, const char *fmt, ...) KP_PRINTF(6, 7);

static void say(struct kp_condition *c, const char *type, bool is_true, const char *yes,
	const char *no, const char *fmt, ...)
{
	va_list ap;
	*c = (struct kp_condition){
		.type = type, .is_true = is_true, .reason = is_true ? yes : no
	};
	va_start(ap, fmt);
	vsnprintf(c->message, sizeof(c->message), fmt, ap);
	va_end(ap);
}

static const struct kp_err *write_problem(const struct reporter *r, const struct kp_world_engine *e)
{
	const struct kp_err *err = &r->none;
	if (r->o->apply && e->spec->has_template) {
		err = kp_apply_problem(r->o->apply, "Deployment", e->ns, e->name);
	}
	if (r->o->apply && err->code == KP_OK &&
		e->spec->gateway.mode == KP_INFERENCE_ENGINE_GATEWAY_MODE_NODE) {
		err = kp_apply_problem(r->o->apply, "DaemonSet", e->ns, KP_S(KP_NODE_GATEWAYS));
	}
	return err;
}

/* Its pool's. One of somebody else is as good. */
static void say_of_service(
	struct reporter *r, const struct kp_world_engine *e, struct kp_condition *c)
{
	kp_str pool = e->spec->pool_ref.name;
	const struct kp_err *err =
		r->o->apply ? kp_apply_problem(r->o->apply, "Service", e->ns, pool) : &r->none;
	bool is_others = err->code == KP_ALREADY_EXISTS;
	say(c, "ServiceApplied", err->code == KP_OK || is_others,
		is_others ? "SomebodyElses" : "Applied", kp_code_reason(err->code), "%s",
		err->code == KP_OK ? "the pool has a Service" : err->msg);
}

/* What is true of its pods, its Deployment and their gateways: the first things that keep it from serving go into the facts,
   before the rest is decided. */
static struct kp_engine_pods *add_pods(struct reporter *r, const struct kp_world_engine *e,
	struct kp_engine_facts *f, struct kp_condition *workload)
{
	struct kp_engine_pods *p = list(r, 1, sizeof(*p));
	const struct kp_err *err = write_problem(r, e);
	kp_engine_pods(kp_cluster_world(r->o->cluster), e, r->arena, p);
	say(workload, "WorkloadApplied", err->code == KP_OK, "Applied", kp_code_reason(err->code),
		"%s",
		err->code != KP_OK      ? err->msg
		: e->spec->has_template ? "what is made for it is as it shall be"
					: "somebody else's workload");
	f->is_template = e->spec->has_template;
	f->n_pods = p->n;
	f->n_wanted = p->n_wanted;
	f->not_made = p->not_made;
	f->stuck = p->stuck;
	f->n_updated = p->n_updated;
	if (err->code != KP_OK) {
		f->broken_link = workload->reason;
		f->broken_why = copy(r, kp_str_c(workload->message));
	} else if (p->broken) {
		f->broken_link = p->broken->reason;
		f->broken_why = copy(r, kp_str_c(p->broken->message));
	}
	return p;
}

/* Injected, attached and used are three things, and each may fail alone. */
static void say_of_pods(
	const struct kp_engine_facts *f, const struct kp_engine_pods *p, struct kp_condition *c)
{
	memcpy(c, p->links, p->n_links * sizeof(p->links[0]));
	if (kp_engine_is_at_zero(f)) { /* or going to zero would look like a fault */
		say(&c[p->n_links], "Attached", true, "ScaledToZero", "", "no pod is wanted");
		say(&c[p->n_links + 1], "Routable", true, "ScaledToZero", "", "no pod is wanted");
		return;
	}
	say(&c[p->n_links], "Attached", p->n > 0 && f->n_attached == p->n, "Attached",
		"NotConnected",
		"%zu of %zu pods have a gateway that is connected and runs a program",
		f->n_attached, p->n);
	say(&c[p->n_links + 1], "Routable", f->n_endpoints && f->n_routable == f->n_endpoints,
		"Routable", "NotRoutable", "%zu of %zu endpoints take requests", f->n_routable,
		f->n_endpoints);
}

/* Who keeps an engine that is deleted. */
static kp_str holders(struct reporter *r, const struct kp_world_engine *e)
{
	const json_t *list = kp_doc_at(e->json, "metadata.finalizers");
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 4096);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));
		kp_buf_printf(&text, "%s`%s`", i ? ", " : "", name ? name : "");
	}
	return text.n && !text.failed ? copy(r, kp_buf_str(&text)) : KP_S("Kubernetes");
}

/* facts: what all engines of the namespace have in common. Returns whether one of its endpoints is
 * routable. */
static bool add_engine(struct reporter *r, const struct kp_plan_namespace *ns,
	const struct kp_engine_facts *facts, const struct kp_program_engine *from,
	struct kp_status_engine *to)
{
	struct kp_condition conditions[CONDITIONS_MAX], workload, service;
	size_t n_conditions = KP_CONDITIONS;
	struct kp_engine_facts f = *facts;
	const struct kp_world *w = r->o->cluster ? kp_cluster_world(r->o->cluster) : NULL;
	const struct kp_world_engine *e =
		w ? kp_world_engine(w, ns->name, kp_str_skip(from->name, ns->name.n + 1)) : NULL;
	const struct kp_engine_pods *pods = NULL;
	f.in_pods = from->in_pods;
	f.has_cluster = w != NULL;
	f.n_endpoints = from->n_endpoints;
	f.held_by = e && e->is_ending ? holders(r, e) : KP_S("");
	if (e && e->spec && from->in_pods) {
		pods = add_pods(r, e, &f, &workload);
		say_of_service(r, e, &service);
	}
	struct kp_status_endpoint *endpoints = list(r, from->n_endpoints, sizeof(*endpoints));
	kp_str *aliases = list(r, from->n_aliases, sizeof(*aliases));
	for (size_t i = 0; i < from->n_aliases; i++) {
		aliases[i] = copy(r, from->aliases[i]);
	}
	for (size_t i = 0; i < from->n_endpoints; i++) {
		add_endpoint(r, ns, from, i, &endpoints[i], &f);
	}
	*to = (struct kp_status_engine){ .ns = copy(r, ns->name),
		.name = part(r, from->name, false),
		.pool = part(r, from->pool, false),
		.model = copy(r, from->model),
		.aliases = aliases,
		.n_aliases = from->n_aliases,
		.protocol = kp_str_c(kp_engine_protocol_name(from->protocol)),
		.tokenizer = from->tokenizer == KP_TOKENIZER_PATH ? copy(r, from->tokenizer_path)
								  : KP_S("Engine"),
		.endpoints = endpoints,
		.n_endpoints = from->n_endpoints };
	kp_engine_conditions(&f, conditions);
	if (pods) {
		say_of_pods(&f, pods, conditions + KP_CONDITIONS);
		n_conditions += pods->n_links + 2;
		conditions[n_conditions++] = service;
		conditions[n_conditions++] = workload;
	}
	to->pods = pods;
	to->n_routable = f.n_routable;
	to->n_gateways = f.n_gateways;
	to->n_acked = f.n_acked;
	set_conditions(r, "engine", from->name, conditions, n_conditions, &to->conditions,
		&to->n_conditions);
	return f.n_routable > 0;
}

static void add_pool(struct reporter *r, const struct kp_plan_namespace *ns,
	const struct kp_program_pool *from, const bool *is_serving, struct kp_status_pool *to)
{
	struct kp_condition conditions[KP_POOL_CONDITIONS];
	struct kp_pool_facts f = { 0 };
	uint16_t *ports = list(r, from->n_target_ports, sizeof(*ports));
	for (size_t i = 0; i < from->n_target_ports; i++) {
		ports[i] = from->target_ports[i];
	}
	for (size_t i = 0; i < ns->program->n_engines; i++) {
		if (kp_str_eq(ns->program->engines[i].pool, from->name)) {
			f.n_engines++;
			f.n_serving += is_serving[i];
		}
	}
	*to = (struct kp_status_pool){ .ns = copy(r, ns->name),
		.name = part(r, from->name, false),
		.target_ports = ports,
		.n_target_ports = from->n_target_ports };
	kp_pool_conditions(&f, conditions);
	set_conditions(r, "pool", from->name, conditions, KP_POOL_CONDITIONS, &to->conditions,
		&to->n_conditions);
}

static void add_plan(struct reporter *r, const struct kp_plan *plan)
{
	size_t n_pools = 0, n_engines = 0;
	for (size_t i = 0; i < plan->n; i++) {
		n_pools += plan->namespaces[i].program->n_pools;
		n_engines += plan->namespaces[i].program->n_engines;
	}
	struct kp_status_pool *pools = list(r, n_pools, sizeof(*pools));
	struct kp_status_engine *engines = list(r, n_engines, sizeof(*engines));
	bool *is_serving = list(r, n_engines, sizeof(*is_serving));
	for (size_t i = 0; i < plan->n; i++) {
		const struct kp_plan_namespace *ns = &plan->namespaces[i];
		const struct kp_ns_program *program = kp_programs_find(r->programs, ns->name);
		struct kp_engine_facts facts = { .n_gateways = program ? program->n_gateways : 0 };
		find_refusal(r, ns->name, &facts);
		for (size_t k = 0; k < ns->program->n_engines; k++) {
			const struct kp_program_engine *e = &ns->program->engines[k];
			facts.n_acked =
				program ? kp_counts_of_engine(program, e->name, e->pool) : 0;
			is_serving[k] =
				add_engine(r, ns, &facts, e, &engines[r->status->n_engines++]);
		}
		for (size_t k = 0; k < ns->program->n_pools; k++) {
			add_pool(r, ns, &ns->program->pools[k], is_serving,
				&pools[r->status->n_pools++]);
		}
	}
	r->status->pools = pools;
	r->status->engines = engines;
}

/* --- gateways and programs --- */

static void add_problem(
	struct reporter *r, struct kp_status_gateway *to, kp_str *problems, kp_str text)
{
	enum { MAX = 16 };
	if (to->n_problems < MAX) {
		problems[to->n_problems++] = copy(r, text);
	} else if (to->n_problems == MAX) {
		problems[to->n_problems++] = KP_S("there are more");
	}
}

static void add_problems(
	struct reporter *r, const struct kp_gateway_record *from, struct kp_status_gateway *to)
{
	const struct kp_plan *plan = r->o->plan;
	const struct kp_plan_namespace *ns = plan ? kp_plan_find(plan, from->ns) : NULL;
	kp_str *problems = list(r, 17, sizeof(*problems));
	to->problems = problems;
	if (!ns) {
		add_problem(r, to, problems,
			kp_arena_printf(r->arena, "there is no pool in namespace `%" KP_FMT "`",
				KP_ARG(from->ns)));
	}
	if (from->held_epoch) {
		add_problem(r, to, problems,
			kp_arena_printf(r->arena,
				"another operator programs it, of epoch %llu, ours is %llu",
				(unsigned long long)from->held_epoch,
				(unsigned long long)r->programs->epoch));
	}
	if (from->is_connected && kp_gateway_is_silent(from, r->now_ns)) {
		add_problem(r, to, problems, KP_S("it is silent"));
	}
	if (from->is_second_hand) {
		add_problem(r, to, problems, KP_S("known from other gateways only"));
	}
	if (from->n_replaced) {
		add_problem(r, to, problems,
			kp_arena_printf(r->arena,
				"a newer stream of the same id took its place %u times",
				from->n_replaced));
	}
	for (size_t i = 0; ns && i < ns->n_problems; i++) {
		if (kp_str_eq(ns->problems[i].gateway, from->is.id)) {
			add_problem(r, to, problems, claim_problem(r, &ns->problems[i]));
		}
	}
}

static void add_gateway(
	struct reporter *r, const struct kp_gateway_record *from, struct kp_status_gateway *to)
{
	const struct kp_ns_program *program = kp_programs_find(r->programs, from->ns);
	kp_str *own = list(r, from->is.n_own, sizeof(*own));
	for (size_t i = 0; i < from->is.n_own; i++) {
		own[i] = copy(r, from->is.own[i]);
	}
	*to = (struct kp_status_gateway){ .id = copy(r, from->is.id),
		.ns = copy(r, from->ns),
		.node = copy(r, from->is.node),
		.peer_address = copy(r, from->is.peer),
		.admin_address = copy(r, from->admin),
		.version = copy(r, from->version),
		.is_connected = from->is_connected,
		.since_ns = from->since_wall_ns,
		.revision = revision(r, &from->runs),
		.acked_ns = from->acked_wall_ns,
		.is_current = program && kp_revision_same(&from->runs, &program->revision),
		.nack_reason = copy(r, from->nack_reason),
		.nack_message = copy(r, from->nack_message),
		.nack_ns = from->nack_wall_ns,
		.state_error = copy(r, from->report.state_error),
		.own = own,
		.n_own = from->is.n_own,
		.is_draining = from->report.draining,
		.in_flight = from->report.in_flight,
		.requests = from->report.requests,
		.errors = from->report.errors,
		.tokens = from->report.tokens };
	add_problems(r, from, to);
}

static void add_gateways(struct reporter *r)
{
	struct kp_status_gateway *gateways = list(r, r->n_rows, sizeof(*gateways));
	for (size_t i = 0; i < r->n_rows; i++) {
		add_gateway(r, r->rows[i].gateway, &gateways[i]);
	}
	r->status->gateways = gateways;
	r->status->n_gateways = r->n_rows;
}

static void add_programs(struct reporter *r, const struct kp_plan *plan)
{
	struct kp_status_program *programs = list(r, plan->n, sizeof(*programs));
	for (size_t i = 0; i < plan->n; i++) {
		const struct kp_ns_program *from =
			kp_programs_find(r->programs, plan->namespaces[i].name);
		if (from) {
			programs[r->status->n_programs++] =
				(struct kp_status_program){ .ns = copy(r, from->name),
					.revision = revision(r, &from->revision),
					.since_ns = from->since_wall_ns,
					.gateways = from->n_gateways,
					.acked = from->n_current };
		}
	}
	r->status->programs = programs;
}

/* --- the whole --- */

static void add_manifests(struct reporter *r)
{
	const struct kp_operator *o = r->o;
	struct kp_status *s = r->status;
	size_t n_errors, n = 0;
	kp_str rest = o->cluster ? kp_cluster_problems(o->cluster, &n_errors)
				 : kp_files_problems(o->files, &n_errors),
	       line;
	kp_str *lines = list(r, n_errors, sizeof(*lines));
	while (n < n_errors && rest.n && kp_str_split(&rest, '\n', &line)) {
		lines[n++] = copy(r, kp_str_trim(line));
	}
	s->manifests_path =
		copy(r, kp_str_c(o->cluster ? kp_cluster_server(o->cluster) : o->config.manifests));
	s->manifests_ns = o->cluster ? kp_cluster_accepted_wall_ns(o->cluster)
				     : kp_files_accepted_wall_ns(o->files);
	s->manifest_errors = lines;
	s->n_manifest_errors = n;
}

struct kp_status *kp_operator_report(struct kp_operator *o)
{
	struct reporter r = { .o = o,
		.status = kp_status_create(),
		.now_ns = kp_loop_now(o->loop),
		.now_wall_ns = kp_wall_ns() };
	struct kp_status *s = r.status;
	r.arena = s->arena;
	r.programs = kp_service_programs(o->service, r.now_ns);
	o->n_shown++;
	list_rows(&r, kp_service_gateways(o->service, r.now_ns));
	s->id = copy(&r, kp_str_c(o->config.id));
	s->version = kp_str_c(kp_version());
	s->epoch = r.programs->epoch;
	s->leader = copy(&r, kp_service_leader(o->service));
	s->started_ns = o->started_wall_ns;
	s->not_ready = o->is_ending ? KP_S("the operator ends")
		       : !o->plan   ? KP_S("there is no plan yet")
		       : o->cluster && !kp_cluster_is_synced(o->cluster)
			       ? KP_S("the objects of the cluster are not known yet")
		       : o->https && !kp_https_is_ready(o->https)
			       ? KP_S("the webhook and its certificate are not ready yet")
		       : o->plan_error.code != 0 ? copy(&r, kp_str_c(o->plan_error.msg))
						 : KP_S("");
	add_manifests(&r);
	if (o->plan) {
		add_programs(&r, o->plan);
		add_plan(&r, o->plan);
	}
	add_gateways(&r);
	forget_what_is_gone(&r);
	for (size_t i = 0; i < N_STATES; i++) {
		kp_gauge_set(o->endpoints[i], r.n_by_state[i]);
	}
	return s;
}
