/* DESIGN: who is there, by age; then each namespace by itself, with its own gateways: endpoints (discover.h), owners
   (control/ownership.h), items (control/items.h). A namespace's program follows from the intent, the endpoints that were discovered
   and its gateways; the last two are hashed, and where the hash is the one of before, so is the program: it is moved over when
   all others are made. So a change costs what its namespace is, not what the cluster is. */
#include "operator/plan/plan.h"

#include "base/vec.h"
#include "operator/plan/discover.h"

#include <openssl/evp.h>
#include <stdlib.h>

enum { DISCOVER_BYTES = 64 << 20 };

struct planner {
	struct kp_plan *plan;
	const struct kp_plan_gateway **known; /* not gone, by namespace */
	size_t n_known;
	const struct kp_world *world;
	int64_t now_ns;
	struct kp_plan *before; /* NULL: none */
};

static int compare(const void *a, const void *b)
{
	const struct kp_plan_gateway *x = *(const struct kp_plan_gateway *const *)a,
				     *y = *(const struct kp_plan_gateway *const *)b;
	int order = kp_str_cmp(x->ns, y->ns);
	return order ? order : kp_str_cmp(x->is.id, y->is.id);
}

static bool is_silent(const struct planner *p, const struct kp_plan_gateway *g)
{
	return p->now_ns - g->heard_ns >= KP_PLAN_SILENT_NS;
}

static void take_known(struct planner *p, const struct kp_plan_gateway *gateways, size_t n)
{
	p->known = kp_xcalloc(n + 1, sizeof(*p->known));
	for (size_t i = 0; i < n; i++) {
		const struct kp_plan_gateway *g = &gateways[i];
		if (p->now_ns - g->heard_ns >= KP_PLAN_GONE_NS) {
			continue;
		}
		int64_t next =
			g->heard_ns + (is_silent(p, g) ? KP_PLAN_GONE_NS : KP_PLAN_SILENT_NS);
		p->plan->due_ns = KP_MIN(p->plan->due_ns, next);
		p->known[p->n_known++] = g;
	}
	qsort(p->known, p->n_known, sizeof(*p->known), compare);
}

/* --- what a program is made of --- */

static void hash_str(EVP_MD_CTX *c, kp_str s)
{
	uint64_t n = s.n;
	KP_BUG_ON(!EVP_DigestUpdate(c, &n, sizeof(n)) || !EVP_DigestUpdate(c, s.p, s.n));
}

static void hash_size(EVP_MD_CTX *c, size_t n)
{
	KP_BUG_ON(!EVP_DigestUpdate(c, &n, sizeof(n)));
}

static void hash_gateway(EVP_MD_CTX *c, const struct kp_program_gateway *g)
{
	hash_str(c, g->id);
	hash_str(c, g->peer);
	hash_str(c, g->node);
	hash_size(c, g->yields);
	hash_size(c, g->n_own);
	for (size_t i = 0; i < g->n_own; i++) {
		hash_str(c, g->own[i]);
	}
}

/* All that differs while the intent is the same: see discover.h and struct kp_program_gateway. */
static void hash_all(const struct kp_program *p, const struct kp_program_gateway *gateways,
	size_t n, uint8_t ret[KP_HASH_BYTES])
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	KP_BUG_ON(!c || !EVP_DigestInit_ex(c, EVP_sha256(), NULL));
	hash_size(c, p->n_engines);
	for (size_t i = 0; i < p->n_engines; i++) {
		hash_size(c, p->engines[i].n_endpoints);
		for (size_t k = 0; k < p->engines[i].n_endpoints; k++) {
			const struct kp_program_endpoint *e = &p->engines[i].endpoints[k];
			hash_str(c, e->address);
			hash_str(c, e->local);
			hash_str(c, e->instance);
			hash_str(c, e->wants);
		}
	}
	for (size_t i = 0; i < n; i++) {
		hash_gateway(c, &gateways[i]);
	}
	KP_BUG_ON(!EVP_DigestFinal_ex(c, ret, NULL));
	EVP_MD_CTX_free(c);
}

/* As it was: NULL, it was not. */
static struct kp_plan_namespace *same_as_before(
	const struct planner *p, const struct kp_plan_namespace *to)
{
	struct kp_plan_namespace *was =
		p->before ? kp_unconst(kp_plan_find(p->before, to->name)) : NULL;
	return was && memcmp(was->made_of, to->made_of, KP_HASH_BYTES) == 0 ? was : NULL;
}

/* --- a namespace --- */

static int plan_namespace(struct planner *p, const struct kp_intent_namespace *from,
	const struct kp_plan_gateway *const *known, size_t n, struct kp_err *err)
{
	struct kp_plan_namespace *to = &p->plan->namespaces[p->plan->n++];
	struct kp_program_gateway *gateways = kp_xcalloc(n + 1, sizeof(*gateways));
	for (size_t i = 0; i < n; i++) {
		gateways[i] = known[i]->is;
		gateways[i].yields = is_silent(p, known[i]) || known[i]->is_draining;
	}
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(DISCOVER_BYTES);
	struct kp_program with_pods = *from->program;
	to->name = kp_str_c(kp_xstrdup(from->name.p)); /* an arena's strings end with NUL */
	int r = p->world ? kp_discover(p->world, from->name, from->program, a, &with_pods, err) : 0;
	if (r == 0) {
		hash_all(&with_pods, gateways, n, to->made_of);
	}
	if (r == 0 && !same_as_before(p, to)) {
		p->plan->n_made++;
		r = kp_program_with_owners(&with_pods, gateways, n, &to->program, &to->problems,
			    &to->n_problems, err) ||
				    kp_items_from_program(to->program, &to->items, err)
			    ? -1
			    : 0;
	}
	kp_mem_free(gateways);
	return r ? kp_err_wrap(err, "plan namespace `%" KP_FMT "`", KP_ARG(from->name)) : 0;
}

/* Until its pods are known its gateways go on with what they have. */
static bool is_known(const struct planner *p, const struct kp_intent_namespace *ns)
{
	bool needs_pods = false;
	for (size_t i = 0; i < ns->program->n_engines; i++) {
		needs_pods |= ns->program->engines[i].in_pods;
	}
	return !needs_pods || !p->world || kp_world_has_pods(p->world, ns->name);
}

static int plan_all(struct planner *p, const struct kp_intent *intent, struct kp_err *err)
{
	size_t at = 0; /* both are sorted by namespace */
	for (size_t i = 0; i < intent->n; i++) {
		const struct kp_intent_namespace *ns = &intent->namespaces[i];
		while (at < p->n_known && kp_str_cmp(p->known[at]->ns, ns->name) < 0) {
			at++;
		}
		size_t end = at;
		while (end < p->n_known && kp_str_eq(p->known[end]->ns, ns->name)) {
			end++;
		}
		if (is_known(p, ns) && plan_namespace(p, ns, p->known + at, end - at, err)) {
			return -1;
		}
		at = end;
	}
	return 0;
}

static void take_over(struct planner *p)
{
	for (size_t i = 0; i < p->plan->n; i++) {
		struct kp_plan_namespace *to = &p->plan->namespaces[i];
		struct kp_plan_namespace *was = to->program ? NULL : same_as_before(p, to);
		if (was) {
			to->program = kp_steal(was->program);
			to->items = kp_steal(was->items);
			to->problems = was->problems;
			to->n_problems = was->n_problems;
		}
	}
}

int kp_plan_make(const struct kp_intent *intent, const struct kp_world *world,
	const struct kp_plan_gateway *gateways, size_t n, int64_t now_ns, struct kp_plan *before,
	struct kp_plan **ret, struct kp_err *err)
{
	struct planner p = {
		.plan = kp_new(struct kp_plan), .world = world, .now_ns = now_ns, .before = before
	};
	p.plan->due_ns = INT64_MAX;
	p.plan->namespaces = kp_xcalloc(intent->n, sizeof(*p.plan->namespaces));
	take_known(&p, gateways, n);
	int r = plan_all(&p, intent, err);
	kp_mem_free(p.known);
	if (r < 0) {
		kp_plan_destroy(p.plan);
		return -1;
	}
	take_over(&p);
	*ret = p.plan;
	return 0;
}

void kp_plan_destroy(struct kp_plan *p)
{
	if (p) {
		for (size_t i = 0; i < p->n; i++) {
			kp_items_unref(p->namespaces[i].items);
			kp_program_destroy(p->namespaces[i].program);
			kp_mem_free(kp_unconst(p->namespaces[i].name.p));
		}
		kp_mem_free(p->namespaces);
		kp_mem_free(p);
	}
}

static int compare_names(const void *name, const void *ns)
{
	return kp_str_cmp(*(const kp_str *)name, ((const struct kp_plan_namespace *)ns)->name);
}

const struct kp_plan_namespace *kp_plan_find(const struct kp_plan *p, kp_str ns)
{
	return p->n ? bsearch(&ns, p->namespaces, p->n, sizeof(*p->namespaces), compare_names)
		    : NULL;
}
