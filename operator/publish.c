/* DESIGN: each time something was shown, the status that an object shall have is compared with the one that it has, and only
   those that differ are handed to apply/. One that differs in its count of gateways alone waits: each gateway that comes or goes, also
   one that another takes the place of, moves the counts of all engines of its namespace. When `status` of a condition changed is kept in the object itself, so times survive
   operators. Of what changed in it Events tell, once. */
#include "operator/internal.h"

#include "base/vec.h"
#include "operator/control/counts.h"
#include "operator/plan/discover.h"

#include <stdlib.h>

#define COUNTS_NS (3 * KP_NS_PER_S) /* that a status may be behind in its count of gateways */

struct publisher {
	struct kp_operator *o;
	const struct kp_status *shown;
	const struct kp_world *w;
	const struct kp_programs *programs;
	const struct kp_gateways *gateways;
	int64_t now_ns;
	struct kp_arena *arena;
	char now[KP_KUBE_TIME_MAX]; /* whole seconds: metav1.Time */
	int64_t due_ns;             /* when one that waits is to be written; INT64_MAX: none */
	KP_VEC(struct kp_apply_status)
	statuses;
};

static json_t *text(kp_str s)
{
	json_t *v = json_stringn(s.p ? s.p : "", s.n);
	KP_BUG_ON(!v);
	return v;
}

static void set(json_t *object, const char *key, json_t *v)
{
	KP_BUG_ON(json_object_set_new(object, key, v));
}

static void set_count(json_t *object, const char *key, size_t n)
{
	set(object, key, json_integer((json_int_t)n));
}

/* --- conditions --- */

static const json_t *find_condition(const json_t *list, kp_str type)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *c = json_array_get(list, i);
		if (kp_str_eq(kp_doc_str(c, "type"), type)) {
			return c;
		}
	}
	return NULL;
}

/* Reconciling and Stalled are there only while they are true. */
static void add_condition(json_t *list, const struct kp_world_engine *e, kp_str type, bool is_true,
	kp_str reason, kp_str message)
{
	bool is_abnormal = kp_str_eq(type, KP_S("Reconciling")) || kp_str_eq(type, KP_S("Stalled"));
	if (is_abnormal && !is_true) {
		return;
	}
	json_t *c = json_pack("{s:o,s:s,s:o,s:o,s:I}", "type", text(type), "status",
		is_true ? "True" : "False", "reason", text(reason), "message", text(message),
		"observedGeneration", (json_int_t)e->generation);
	KP_BUG_ON(!c || json_array_append_new(list, c));
}

/* One that is in no program: it makes no sense, or what it needs is not known. */
static void add_left_out(json_t *list, const struct publisher *p, const struct kp_world_engine *e)
{
	kp_str pool = kp_doc_str(kp_doc_at(e->json, "spec.poolRef"), "name");
	bool has_pool = kp_world_pool(p->w, e->ns, pool) != NULL;
	kp_str reason = !e->problem.n ? KP_S("PodsUnknown")
			: has_pool    ? KP_S("Invalid")
				      : KP_S("PoolNotFound");
	kp_str message = e->problem.n ? kp_str_sub(e->problem, 0, 1000)
				      : KP_S("the pods of the cluster are not known yet");
	add_condition(list, e, KP_S("Accepted"), !e->problem.n, reason, message);
	add_condition(list, e, KP_S("Ready"), false, reason, message);
	add_condition(list, e, e->problem.n ? KP_S("Stalled") : KP_S("Reconciling"), true, reason,
		message);
}

/* --- an engine's status --- */

static int compare_engine(const void *key, const void *engine)
{
	const struct kp_world_engine *x = key;
	const struct kp_status_engine *y = engine;
	int r = kp_str_cmp(x->ns, y->ns);
	return r ? r : kp_str_cmp(x->name, y->name);
}

/* NULL: it is in no program. */
static const struct kp_status_engine *shown_engine(
	const struct publisher *p, const struct kp_world_engine *e)
{
	return p->shown->n_engines ? bsearch(e, p->shown->engines, p->shown->n_engines,
					     sizeof(*p->shown->engines), compare_engine)
				   : NULL;
}

static void add_gpus(json_t *status, const struct kp_engine_pods *pods)
{
	json_t *list = json_array();
	for (size_t i = 0; i < pods->n_gpus; i++) {
		const struct kp_engine_gpu *g = &pods->gpus[i];
		json_t *one = json_pack("{s:o,s:I}", "name", text(g->name), "perReplica",
			(json_int_t)g->per_replica);
		if (g->allocatable >= 0) {
			set(one, "allocatable", json_integer(g->allocatable));
		}
		json_array_append_new(list, one);
	}
	if (pods->n_gpus) {
		set(status, "gpus", list);
	} else {
		json_decref(list);
	}
}

static void add_counts(const struct publisher *p, json_t *status, const struct kp_world_engine *e,
	const struct kp_status_engine *shown)
{
	const struct kp_engine_pods *pods = shown->pods;
	size_t n = pods ? pods->n : shown->n_endpoints;
	set_count(status, "replicas", n);
	set_count(status, "readyReplicas", pods ? pods->n_ready : shown->n_routable);
	set_count(status, "updatedReplicas", pods ? pods->n_updated : n);
	set_count(status, "routableReplicas", shown->n_routable);
	set(status, "gateways",
		json_pack("{s:I,s:I}", "desired", (json_int_t)shown->n_gateways, "acked",
			(json_int_t)shown->n_acked));
	if (pods) {
		set(status, "selector",
			text(kp_arena_printf(
				p->arena, KP_INJECT_LABEL "=%" KP_FMT, KP_ARG(e->name))));
		add_gpus(status, pods);
	}
	if (pods && pods->update_revision.n) {
		set(status, "updateRevision", text(pods->update_revision));
		set(status, "currentRevision", text(pods->current_revision));
	}
}

/* Without times. */
static json_t *status_of(const struct publisher *p, const struct kp_world_engine *e)
{
	const struct kp_status_engine *shown = shown_engine(p, e);
	json_t *status = json_object(), *list = json_array();
	KP_BUG_ON(!status || !list);
	set(status, "observedGeneration", json_integer(e->generation));
	set(status, "conditions", list);
	if (!shown) {
		add_left_out(list, p, e);
		return status;
	}
	add_counts(p, status, e, shown);
	for (size_t i = 0; i < shown->n_conditions; i++) {
		const struct kp_status_condition *c = &shown->conditions[i];
		add_condition(list, e, c->type, kp_str_eq(c->status, KP_S("True")), c->reason,
			c->message);
	}
	return status;
}

/* The same thing whatever the order of its conditions and their times. */
static json_t *canonical(const json_t *status)
{
	json_t *copy = json_deep_copy(status), *by_type = json_object();
	const json_t *list = json_object_get(status, "conditions");
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *c = json_deep_copy(json_array_get(list, i));
		kp_str type = kp_doc_str(c, "type");
		json_object_del(c, "lastTransitionTime");
		json_object_setn_new(by_type, type.p ? type.p : "", type.n, c);
	}
	if (json_is_object(copy)) {
		json_object_set(copy, "conditions", by_type);
	}
	json_decref(by_type);
	return copy;
}

static void set_times(const struct publisher *p, json_t *status, const json_t *before)
{
	json_t *list = json_object_get(status, "conditions");
	const json_t *old = json_object_get(before, "conditions");
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *c = json_array_get(list, i);
		const json_t *was = find_condition(old, kp_doc_str(c, "type"));
		kp_str time = kp_doc_str(was, "lastTransitionTime");
		bool is_same = was && time.n &&
			       kp_str_eq(kp_doc_str(was, "status"), kp_doc_str(c, "status"));
		set(c, "lastTransitionTime", text(is_same ? time : kp_str_c(p->now)));
	}
}

/* --- Events --- */

static void say(const struct publisher *p, const struct kp_world_engine *e, const json_t *c,
	bool is_warning)
{
	const struct kp_kube_said said = { .kind = &kp_kind_engine,
		.ns = e->ns,
		.name = e->name,
		.uid = e->uid,
		.is_warning = is_warning,
		.reason = kp_arena_strz(p->arena, kp_doc_str(c, "reason")),
		.action = "Reconcile",
		.note = kp_doc_str(c, "message") };
	kp_kube_say(p->o->recorder, &said);
}

/* Ready in any way that is new, and every other condition that turned False. */
static void tell(const struct publisher *p, const struct kp_world_engine *e, const json_t *status,
	const json_t *before)
{
	const json_t *list = json_object_get(status, "conditions"),
		     *old = json_object_get(before, "conditions");
	bool is_stalled = find_condition(list, KP_S("Stalled")) != NULL;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *c = json_array_get(list, i);
		kp_str type = kp_doc_str(c, "type");
		const json_t *was = find_condition(old, type);
		bool is_false = kp_str_eq(kp_doc_str(c, "status"), KP_S("False"));
		bool has_turned =
			!was || !kp_str_eq(kp_doc_str(was, "status"), kp_doc_str(c, "status"));
		bool is_new = has_turned ||
			      !kp_str_eq(kp_doc_str(was, "reason"), kp_doc_str(c, "reason"));
		if (kp_str_eq(type, KP_S("Ready")) && is_new) {
			say(p, e, c, is_stalled);
		} else if (was && has_turned && is_false) {
			say(p, e, c, true);
		}
	}
}

/* Of an engine, what the operator remembers. */
struct said {
	char digest[KP_DIGEST_MAX]; /* of the status that Events told of */
	int64_t behind_ns;          /* since when the count of gateways is another; 0: it is not */
	uint64_t round;             /* when it was published last */
};

static struct said *said_of(struct kp_operator *o, const struct kp_world_engine *e)
{
	char key[700];
	snprintf(key, sizeof(key), "%" KP_FMT "/%" KP_FMT, KP_ARG(e->ns), KP_ARG(e->name));
	struct said *s = kp_map_get(&o->said, kp_str_c(key));
	if (!s) {
		s = kp_new(struct said);
		kp_map_set(&o->said, kp_str_c(key), s);
	}
	s->round = o->n_published;
	return s;
}

/* Of engines that are gone. */
static void forget_others(struct kp_operator *o)
{
	const struct kp_map_entry *e;
	for (size_t pos = 0; (e = kp_map_next(&o->said, &pos));) {
		if (((const struct said *)e->value)->round != o->n_published) {
			kp_mem_free(kp_map_del(&o->said, e->key));
		}
	}
}

/* Both canonical. */
static bool differs_in_gateways_alone(const json_t *was, const json_t *is)
{
	const json_t *gateways = json_object_get(is, "gateways");
	json_t *as = json_copy(kp_unconst(was));
	if (gateways && json_object_get(was, "gateways")) {
		json_object_set(as, "gateways", kp_unconst(gateways));
	}
	bool is_alone = json_equal(as, is);
	json_decref(as);
	return is_alone;
}

static bool may_wait(struct publisher *p, struct said *s, const json_t *was, const json_t *is)
{
	if (!differs_in_gateways_alone(was, is)) {
		return false;
	}
	s->behind_ns = s->behind_ns ? s->behind_ns : p->now_ns;
	int64_t due_ns = s->behind_ns + COUNTS_NS;
	if (p->now_ns >= due_ns) {
		return false;
	}
	p->due_ns = KP_MIN(p->due_ns, due_ns);
	return true;
}

/* Takes the status. */
static void write_status(struct publisher *p, const struct kp_world_engine *e, struct said *s,
	const json_t *canonical_, json_t *status)
{
	const json_t *before = json_object_get(e->json, "status");
	struct kp_apply_status one = { .kind = &kp_kind_engine, .ns = e->ns, .name = e->name };
	kp_actions_digest(canonical_, one.digest);
	if (!kp_str_eq(kp_str_c(s->digest), kp_str_c(one.digest))) { /* Events tell once */
		memcpy(s->digest, one.digest, sizeof(s->digest));
		tell(p, e, status, before);
	}
	set_times(p, status, before);
	one.intent = json_pack("{s:s,s:s,s:{s:o,s:o,s:o},s:o}", "apiVersion", "kelpie.dev/v1alpha1",
		"kind", "InferenceEngine", "metadata", "name", text(e->name), "namespace",
		text(e->ns), "uid", text(e->uid), "status", status);
	KP_BUG_ON(!one.intent);
	kp_vec_push(&p->statuses, one);
}

static void publish_engine(struct publisher *p, const struct kp_world_engine *e)
{
	const json_t *before = json_object_get(e->json, "status");
	struct said *s = said_of(p->o, e);
	json_t *status = status_of(p, e), *was = canonical(before), *is = canonical(status);
	bool is_same = json_equal(was, is);
	if (is_same) {
		s->behind_ns = 0;
	}
	if (is_same || may_wait(p, s, was, is)) {
		json_decref(status);
	} else {
		write_status(p, e, s, is, status);
	}
	json_decref(was);
	json_decref(is);
}

/* --- readiness gates --- */

/* Every gateway of the namespace that is heard of knows the endpoint, and one of them is its owner. */
static bool is_known_everywhere(struct publisher *p, const struct kp_ns_program *program,
	const struct kp_item *item, kp_str owner)
{
	const struct kp_gateway_record *g = kp_gateways_find(p->gateways, program->name, owner);
	return g && g->is_connected && !kp_gateway_is_silent(g, p->now_ns) &&
	       kp_counts_all_know(program, item);
}

/* Its owner says that it takes requests. Else an update would end the old pods while the new ones load their model: nothing else in
   a pod need say so, and a gateway is ready as soon as there is any engine that it can send requests to. */
static bool takes_requests(
	const struct publisher *p, const struct kp_world_engine *e, kp_str address)
{
	const struct kp_status_engine *shown = shown_engine(p, e);
	for (size_t i = 0; shown && i < shown->n_endpoints; i++) {
		const struct kp_status_endpoint *one = &shown->endpoints[i];
		if (kp_str_eq(one->address, address)) {
			return kp_str_eq(one->state, KP_S("routable"));
		}
	}
	return false;
}

static void publish_gate(struct publisher *p, const struct kp_world_pod *pod)
{
	const struct kp_world_engine *e = kp_world_engine(p->w, pod->ns, pod->engine);
	const struct kp_ns_program *program = kp_programs_find(p->programs, pod->ns);
	if (!e || !e->spec || !program || !kp_discover_is_endpoint(pod)) {
		return;
	}
	kp_str address = kp_discover_address(e, pod, p->arena);
	kp_str key = kp_arena_printf(p->arena, "%" KP_FMT "/%" KP_FMT "/%" KP_FMT, KP_ARG(e->ns),
		KP_ARG(e->name), KP_ARG(address));
	const struct kp_item *item = kp_items_find(program->items, KP_ITEM_ENDPOINT, key);
	if (!item || !takes_requests(p, e, address) ||
		!is_known_everywhere(p, program, item, kp_discover_owner(p->w, e, pod))) {
		return;
	}
	struct kp_apply_status one = { .kind = &kp_kind_pod, .ns = pod->ns, .name = pod->name };
	snprintf(one.digest, sizeof(one.digest), "%.16s", pod->uid.p);
	one.intent = json_pack("{s:s,s:s,s:{s:o,s:o,s:o},s:{s:[{s:s,s:s,s:s,s:s,s:s}]}}",
		"apiVersion", "v1", "kind", "Pod", "metadata", "name", text(pod->name), "namespace",
		text(pod->ns), "uid", text(pod->uid), "status", "conditions", "type",
		KP_INJECT_GATE, "status", "True", "reason", "Acknowledged", "message",
		"every gateway that must know it does", "lastTransitionTime", p->now);
	KP_BUG_ON(!one.intent);
	kp_vec_push(&p->statuses, one);
}

/* --- all --- */

int64_t kp_operator_publish(struct kp_operator *o, const struct kp_status *s)
{
	struct publisher p = { .o = o, .shown = s, .due_ns = INT64_MAX };
	p.w = o->cluster ? kp_cluster_world(o->cluster) : NULL;
	if (!p.w || !o->is_planned || !kp_operator_leads(o)) {
		return INT64_MAX;
	}
	p.arena = kp_arena_create((size_t)256 << 20);
	p.now_ns = kp_loop_now(o->loop);
	p.gateways = kp_service_gateways(o->service, p.now_ns);
	p.programs = kp_service_programs(o->service, p.now_ns);
	kp_kube_time(kp_wall_ns(), p.now);
	memcpy(p.now + 19, "Z", 2); /* "2026-11-29T16:12:06" and no fraction */
	o->n_published++;
	for (size_t i = 0; i < p.w->n_engines; i++) {
		if (!p.w->engines[i].is_ending || shown_engine(&p, &p.w->engines[i])) {
			publish_engine(&p, &p.w->engines[i]);
		}
	}
	forget_others(o);
	for (size_t i = 0; i < p.w->n_pods; i++) {
		if (p.w->pods[i].has_gate && !p.w->pods[i].is_routable) {
			publish_gate(&p, &p.w->pods[i]);
		}
	}
	int64_t again_ns = kp_apply_statuses(o->apply, p.statuses.p, p.statuses.n);
	kp_vec_fini(&p.statuses);
	kp_arena_destroy(p.arena);
	return KP_MIN(p.due_ns, again_ns);
}
