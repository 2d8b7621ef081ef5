/* DESIGN: two passes over the gateways, sorted by id: claims on single endpoints, then claims on
   engines; then the same for those that yield. So the first claim that reaches an endpoint is the one
   that holds, and a later one of the same pass is a conflict; of an earlier pass, it is as meant. Then
   endpoints of one address are one engine process, and of their owners one stays. */
#include "control/ownership.h"
#include "control/tool_server.h"

#include "base/map.h"
#include "base/vec.h"

#include <stdlib.h>

enum { PROGRAM_BYTES = 256 << 20 };

struct owned {
	struct kp_program_endpoint *endpoints; /* of one engine */
	bool *is_exact;                        /* of each: owned by a claim on it alone */
};
struct decision {
	struct kp_program *p;
	struct kp_arena *arena;
	struct owned *owned; /* by engine */
	KP_VEC(struct kp_claim_problem)
	problems;
	struct kp_err *err;
};

/* --- the copy --- */

static int copy_strs(struct decision *d, const kp_str *from, size_t n, const kp_str **ret)
{
	kp_str *to = kp_arena_calloc(d->arena, n, sizeof(*to));
	if (!to) {
		return kp_arena_full(d->err, "program");
	}
	for (size_t i = 0; i < n; i++) {
		if (kp_arena_dup(d->arena, from[i], &to[i], d->err) < 0) {
			return -1;
		}
	}
	*ret = to;
	return 0;
}

static int copy_pools(struct decision *d, const struct kp_program *from)
{
	struct kp_program_pool *pools = kp_arena_calloc(d->arena, from->n_pools, sizeof(*pools));
	if (!pools) {
		return kp_arena_full(d->err, "program");
	}
	for (size_t i = 0; i < from->n_pools; i++) {
		size_t n = from->pools[i].n_target_ports;
		uint16_t *ports = kp_arena_calloc(d->arena, n, sizeof(*ports));
		if (!ports) {
			return kp_arena_full(d->err, "program");
		}
		for (size_t k = 0; k < n; k++) {
			ports[k] = from->pools[i].target_ports[k];
		}
		pools[i].target_ports = ports;
		pools[i].n_target_ports = n;
		if (kp_arena_dup(d->arena, from->pools[i].name, &pools[i].name, d->err) < 0) {
			return -1;
		}
	}
	d->p->pools = pools;
	d->p->n_pools = from->n_pools;
	return 0;
}

static int copy_tool_servers(struct decision *d, const struct kp_program *from)
{
	struct kp_program_tool_server *to =
		kp_arena_calloc(d->arena, from->n_tool_servers, sizeof(*to));
	if (!to) {
		return kp_arena_full(d->err, "program");
	}
	for (size_t i = 0; i < from->n_tool_servers; i++) {
		if (kp_tool_server_copy(&from->tool_servers[i], d->arena, &to[i], d->err)) {
			return -1;
		}
	}
	d->p->tool_servers = to;
	d->p->n_tool_servers = from->n_tool_servers;
	return 0;
}

static int copy_engine(struct decision *d, const struct kp_program_engine *from,
	struct kp_program_engine *to, struct owned *owned)
{
	*to = *from;
	owned->endpoints = kp_arena_calloc(d->arena, from->n_endpoints, sizeof(*owned->endpoints));
	owned->is_exact = kp_arena_calloc(d->arena, from->n_endpoints, sizeof(bool));
	if (!owned->endpoints || !owned->is_exact) {
		return kp_arena_full(d->err, "program");
	}
	to->endpoints = owned->endpoints;
	for (size_t i = 0; i < from->n_endpoints; i++) {
		const struct kp_program_endpoint *e = &from->endpoints[i];
		struct kp_program_endpoint *copy = &owned->endpoints[i];
		if (kp_arena_dup(d->arena, e->address, &copy->address, d->err) < 0 ||
			kp_arena_dup(d->arena, e->local, &copy->local, d->err) < 0 ||
			kp_arena_dup(d->arena, e->instance, &copy->instance, d->err) < 0 ||
			kp_arena_dup(d->arena, e->wants, &copy->wants, d->err) < 0) {
			return -1;
		}
	}
	return kp_arena_dup(d->arena, from->name, &to->name, d->err) < 0 ||
			       kp_arena_dup(d->arena, from->pool, &to->pool, d->err) < 0 ||
			       kp_arena_dup(d->arena, from->model, &to->model, d->err) < 0 ||
			       kp_arena_dup(d->arena, from->tokenizer_path, &to->tokenizer_path,
				       d->err) < 0 ||
			       kp_arena_dup(d->arena, from->chat_template, &to->chat_template,
				       d->err) < 0 ||
			       kp_arena_dup(d->arena, from->tool_parser, &to->tool_parser, d->err) <
				       0 ||
			       kp_arena_dup(d->arena, from->reasoning_parser, &to->reasoning_parser,
				       d->err) < 0 ||
			       copy_strs(d, from->aliases, from->n_aliases, &to->aliases) < 0
		       ? -1
		       : 0;
}

static int copy_engines(struct decision *d, const struct kp_program *from)
{
	struct kp_program_engine *engines =
		kp_arena_calloc(d->arena, from->n_engines, sizeof(*engines));
	d->owned = kp_arena_calloc(d->arena, from->n_engines, sizeof(*d->owned));
	if (!engines || !d->owned) {
		return kp_arena_full(d->err, "program");
	}
	for (size_t i = 0; i < from->n_engines; i++) {
		if (copy_engine(d, &from->engines[i], &engines[i], &d->owned[i]) < 0) {
			return -1;
		}
	}
	d->p->engines = engines;
	d->p->n_engines = from->n_engines;
	return 0;
}

static int compare_id(const void *a, const void *b)
{
	const struct kp_program_gateway *x = a, *y = b;
	return kp_str_cmp(x->id, y->id);
}

static int copy_gateways(struct decision *d, const struct kp_program_gateway *from, size_t n)
{
	struct kp_program_gateway *gateways = kp_arena_calloc(d->arena, n, sizeof(*gateways));
	if (!gateways) {
		return kp_arena_full(d->err, "program");
	}
	for (size_t i = 0; i < n; i++) {
		gateways[i].n_own = from[i].n_own;
		gateways[i].yields = from[i].yields;
		if (kp_arena_dup(d->arena, from[i].id, &gateways[i].id, d->err) < 0 ||
			kp_arena_dup(d->arena, from[i].peer, &gateways[i].peer, d->err) < 0 ||
			kp_arena_dup(d->arena, from[i].node, &gateways[i].node, d->err) < 0 ||
			copy_strs(d, from[i].own, from[i].n_own, &gateways[i].own) < 0) {
			return -1;
		}
	}
	qsort(gateways, n, sizeof(*gateways), compare_id);
	for (size_t i = 1; i < n; i++) {
		if (kp_str_eq(gateways[i - 1].id, gateways[i].id)) {
			return kp_err_set(d->err, KP_INVALID_ARGUMENT,
				"decide owners: gateway `%" KP_FMT "` is there twice",
				KP_ARG(gateways[i].id));
		}
	}
	d->p->gateways = gateways;
	d->p->n_gateways = n;
	return 0;
}

/* --- the decision --- */

struct claim {
	kp_str text, engine;
	bool is_exact;
	uint64_t index;
};

static bool parse(kp_str text, struct claim *ret)
{
	kp_str rest = text, ns, name, index;
	*ret = (struct claim){ .text = text };
	if (!kp_str_split(&rest, '/', &ns) || !kp_str_split(&rest, '/', &name) || !ns.n ||
		!name.n) {
		return false;
	}
	ret->engine = kp_str_sub(text, 0, ns.n + 1 + name.n);
	ret->is_exact = kp_str_split(&rest, '/', &index);
	return !ret->is_exact || (kp_str_u64(index, UINT32_MAX, &ret->index) && !rest.p);
}

static void report(
	struct decision *d, enum kp_claim_why why, const struct kp_program_gateway *g, kp_str claim)
{
	struct kp_claim_problem problem = { .why = why, .gateway = g->id, .claim = claim };
	if (d->problems.n < KP_CLAIM_PROBLEMS_MAX) {
		kp_vec_push(&d->problems, problem);
	}
}

static void report_conflict(struct decision *d, const struct kp_program_gateway *g,
	const struct claim *c, const struct kp_program_endpoint *e)
{
	if (d->problems.n < KP_CLAIM_PROBLEMS_MAX) {
		report(d, KP_CLAIM_CONFLICT, g, c->text);
		kp_vec_last(&d->problems)->winner = e->owner->id;
		kp_vec_last(&d->problems)->endpoint = kp_arena_printf(
			d->arena, "%" KP_FMT "/%" KP_FMT, KP_ARG(c->engine), KP_ARG(e->address));
	}
}

static ptrdiff_t find_engine(const struct kp_program *p, kp_str name)
{
	for (size_t from = 0, to = p->n_engines; from < to;) {
		size_t mid = from + (to - from) / 2;
		int order = kp_str_cmp(name, p->engines[mid].name);
		if (order == 0) {
			return (ptrdiff_t)mid;
		}
		from = order > 0 ? mid + 1 : from;
		to = order > 0 ? to : mid;
	}
	return -1;
}

/* One claim of a gateway, in its pass. */
static void take(struct decision *d, const struct kp_program_gateway *g, const struct claim *c)
{
	ptrdiff_t at = find_engine(d->p, c->engine);
	if (at < 0 || (c->is_exact && c->index >= d->p->engines[at].n_endpoints)) {
		report(d, KP_CLAIM_NOTHING, g, c->text);
		return;
	}
	struct owned *o = &d->owned[at];
	size_t from = c->is_exact ? (size_t)c->index : 0;
	size_t to = c->is_exact ? from + 1 : d->p->engines[at].n_endpoints;
	bool is_told = false;
	for (size_t i = from; i < to; i++) {
		struct kp_program_endpoint *e = &o->endpoints[i];
		if (e->instance.n) {
			/* the pod says whose it is */
		} else if (!e->owner) {
			e->owner = g;
			o->is_exact[i] = c->is_exact;
		} else if (e->owner != g && o->is_exact[i] == c->is_exact &&
			   e->owner->yields == g->yields && !is_told) {
			report_conflict(d, g, c, e);
			is_told = true;
		}
	}
}

static const struct kp_program_gateway *find_gateway(const struct kp_program *p, kp_str id)
{
	const struct kp_program_gateway key = { .id = id };
	return p->n_gateways ? bsearch(&key, p->gateways, p->n_gateways, sizeof(key), compare_id)
			     : NULL;
}

static void decide_pods(struct decision *d)
{
	for (size_t i = 0; i < d->p->n_engines; i++) {
		for (size_t k = 0; k < d->p->engines[i].n_endpoints; k++) {
			struct kp_program_endpoint *e = &d->owned[i].endpoints[k];
			e->owner = e->instance.n ? find_gateway(d->p, e->wants) : NULL;
		}
	}
}

static void decide_pass(struct decision *d, bool exact, bool yields)
{
	for (size_t i = 0; i < d->p->n_gateways; i++) {
		const struct kp_program_gateway *g = &d->p->gateways[i];
		for (size_t k = 0; k < g->n_own && g->yields == yields; k++) {
			struct claim c;
			bool is_claim = parse(g->own[k], &c);
			if (!is_claim && exact) {
				report(d, KP_CLAIM_MALFORMED, g, g->own[k]);
			} else if (is_claim && c.is_exact == exact) {
				take(d, g, &c);
			}
		}
	}
}

/* --- one address, one owner --- */

struct place {
	kp_str engine;
	struct kp_program_endpoint *endpoint;
};

/* Loopback addresses are another engine on another machine: that of a gateway is told by its node, or by
   the host of its peer port. *ret is empty when it is not known. */
static void write_place(struct kp_buf *ret, kp_str address, const struct kp_program_gateway *owner)
{
	ptrdiff_t colon = kp_str_rfind_char(owner->peer, ':');
	kp_str peer = kp_str_sub(owner->peer, 0, (size_t)KP_MAX(colon, (ptrdiff_t)0));
	kp_str machine = owner->node.n ? owner->node : peer;
	bool is_local = kp_str_starts(address, KP_S("127.")) ||
			kp_str_starts(address, KP_S("[::1]:")) ||
			kp_str_starts(address, KP_S("localhost:"));
	kp_buf_reset(ret);
	if (!is_local || machine.n) {
		kp_buf_add(ret, address);
		kp_buf_addc(ret, ' ');
		kp_buf_add(ret, is_local ? machine : KP_S(""));
	}
}

static kp_str endpoint_name(struct decision *d, const struct place *p)
{
	return kp_arena_printf(
		d->arena, "%" KP_FMT "/%" KP_FMT, KP_ARG(p->engine), KP_ARG(p->endpoint->address));
}

/* The owner that yields loses, else that of the engine whose name is higher. */
static void settle(struct decision *d, struct place *first, struct place *second)
{
	const struct kp_program_gateway *a = first->endpoint->owner, *b = second->endpoint->owner;
	if (a == b) {
		return;
	}
	if (a->yields && !b->yields) {
		struct place swapped = *first;
		*first = *second;
		*second = swapped;
	}
	if (d->problems.n < KP_CLAIM_PROBLEMS_MAX) {
		report(d, KP_CLAIM_ADDRESS, second->endpoint->owner, endpoint_name(d, second));
		kp_vec_last(&d->problems)->winner = first->endpoint->owner->id;
		kp_vec_last(&d->problems)->endpoint = endpoint_name(d, first);
	}
	second->endpoint->owner = NULL;
}

static void settle_addresses(struct decision *d)
{
	KP_AUTO(buf) struct kp_buf key;
	struct kp_map seen;
	kp_map_init(&seen);
	kp_buf_init(&key, 4096);
	for (size_t i = 0; i < d->p->n_engines; i++) {
		for (size_t k = 0; k < d->p->engines[i].n_endpoints; k++) {
			struct place here = { d->p->engines[i].name, &d->owned[i].endpoints[k] };
			struct place *first;
			if (!here.endpoint->owner || here.endpoint->instance.n) {
				continue;
			}
			write_place(&key, here.endpoint->address, here.endpoint->owner);
			if (key.n && (first = kp_map_get(&seen, kp_buf_str(&key)))) {
				settle(d, first, &here);
			} else if (key.n) {
				first = kp_new(struct place);
				*first = here;
				kp_map_set(&seen, kp_buf_str(&key), first);
			}
		}
	}
	kp_map_fini(&seen, kp_mem_free);
}

static int compare_problem(const void *a, const void *b)
{
	const struct kp_claim_problem *x = a, *y = b;
	int order = kp_str_cmp(x->gateway, y->gateway);
	return order ? order : kp_str_cmp(x->claim, y->claim);
}

int kp_program_with_owners(const struct kp_program *p, const struct kp_program_gateway *gateways,
	size_t n, struct kp_program **ret, const struct kp_claim_problem **ret_problems,
	size_t *ret_n_problems, struct kp_err *err)
{
	struct decision d = { .arena = kp_arena_create(PROGRAM_BYTES), .err = err };
	d.p = kp_arena_new(d.arena, struct kp_program);
	d.p->arena = d.arena;
	if (copy_pools(&d, p) < 0 || copy_tool_servers(&d, p) < 0 || copy_engines(&d, p) < 0 ||
		copy_gateways(&d, gateways, n) < 0) {
		kp_program_destroy(d.p);
		return -1;
	}
	decide_pods(&d);
	decide_pass(&d, true, false);
	decide_pass(&d, false, false);
	decide_pass(&d, true, true);
	decide_pass(&d, false, true);
	settle_addresses(&d);
	size_t bytes = d.problems.n * sizeof(*d.problems.p);
	struct kp_claim_problem *problems = kp_arena_xalloc(d.arena, bytes + 1);
	if (bytes) {
		qsort(d.problems.p, d.problems.n, sizeof(*d.problems.p), compare_problem);
		memcpy(problems, d.problems.p, bytes);
	}
	*ret = d.p;
	*ret_problems = problems;
	*ret_n_problems = d.problems.n;
	kp_vec_fini(&d.problems);
	return 0;
}

void kp_claim_problem_write(const struct kp_claim_problem *p, struct kp_buf *out)
{
	kp_buf_printf(out, "gateway `%" KP_FMT "` claims `%" KP_FMT "`: ", KP_ARG(p->gateway),
		KP_ARG(p->claim));
	if (p->why == KP_CLAIM_ADDRESS) {
		kp_buf_printf(out,
			"gateway `%" KP_FMT "` has the same engine as `%" KP_FMT
			"`, and an address has one owner",
			KP_ARG(p->winner), KP_ARG(p->endpoint));
	} else if (p->why == KP_CLAIM_CONFLICT) {
		kp_buf_printf(out, "gateway `%" KP_FMT "` has `%" KP_FMT "` by an equal claim",
			KP_ARG(p->winner), KP_ARG(p->endpoint));
	} else if (p->why == KP_CLAIM_NOTHING) {
		kp_buf_lit(out, "there is no such endpoint");
	} else {
		kp_buf_lit(out, "not NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX");
	}
}
