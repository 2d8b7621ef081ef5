/* DESIGN: gateways are many, the programs that they run few; so gateways are looked at once, and what they know is asked of the
   programs. */
#include "operator/control/counts.h"

static void count(struct kp_ns_program *p, const struct kp_gateway_record *r)
{
	p->n_gateways++;
	p->n_current += kp_revision_same(&r->runs, &p->revision);
	if (r->runs.is_set && memcmp(r->runs.hash, p->items->hash, KP_HASH_BYTES) == 0) {
		p->n_same++;
		return;
	}
	for (size_t i = 0; r->runs.is_set && i < p->n_bases; i++) {
		if (memcmp(r->runs.hash, p->bases[i].items->hash, KP_HASH_BYTES) == 0) {
			p->bases[i].n_gateways++;
			return;
		}
	}
}

void kp_counts_take(struct kp_programs *p, const struct kp_gateways *g, int64_t now_ns,
	struct kp_service_counts *ret)
{
	struct kp_map_entry *e;
	*ret = (struct kp_service_counts){ .epoch = p->epoch };
	for (size_t pos = 0; (e = kp_map_next(&p->by_namespace, &pos)) != NULL;) {
		struct kp_ns_program *ns = e->value;
		ns->n_gateways = ns->n_current = ns->n_same = 0;
		for (size_t i = 0; i < ns->n_bases; i++) {
			ns->bases[i].n_gateways = 0;
		}
	}
	for (size_t pos = 0; (e = kp_map_next(&g->by_name, &pos)) != NULL;) {
		const struct kp_gateway_record *r = e->value;
		struct kp_ns_program *ns = kp_programs_find(p, r->ns);
		bool is_there = r->is_connected && !kp_gateway_is_silent(r, now_ns);
		ret->connected += is_there;
		ret->silent += r->is_connected && !is_there;
		ret->lost += !r->is_connected && !r->is_second_hand;
		ret->second_hand += r->is_second_hand;
		ret->behind += is_there && !(ns && kp_revision_same(&r->runs, &ns->revision));
		if (ns && is_there) {
			count(ns, r);
		}
	}
}

/* --- what a program has --- */

static bool has_item(const struct kp_items *items, const struct kp_item *item)
{
	const struct kp_item *has = kp_items_find(items, item->kind, item->key);
	return has && kp_str_eq(has->value, item->value);
}

bool kp_counts_all_know(const struct kp_ns_program *p, const struct kp_item *item)
{
	size_t n = p->n_same;
	for (size_t i = 0; i < p->n_bases; i++) {
		n += p->bases[i].n_gateways && has_item(p->bases[i].items, item)
			     ? p->bases[i].n_gateways
			     : 0;
	}
	return n == p->n_gateways;
}

/* The endpoints of an engine: those whose key is its name, a slash and more. */
static const struct kp_item *endpoints_of(
	const struct kp_items *items, kp_str engine, size_t *ret_n)
{
	size_t from = 0, to = items->n, end;
	while (from < to) {
		size_t mid = from + (to - from) / 2;
		const struct kp_item *i = &items->p[mid];
		bool is_before = i->kind < KP_ITEM_ENDPOINT ||
				 (i->kind == KP_ITEM_ENDPOINT && kp_str_cmp(i->key, engine) <= 0);
		from = is_before ? mid + 1 : from;
		to = is_before ? to : mid;
	}
	for (; from < items->n && items->p[from].kind == KP_ITEM_ENDPOINT &&
		kp_str_starts(items->p[from].key, engine) && items->p[from].key.p[engine.n] < '/';
		from++) { /* of an engine whose name goes on with `-` or `.` */
	}
	for (end = from;
		end < items->n && items->p[end].kind == KP_ITEM_ENDPOINT &&
		kp_str_starts(items->p[end].key, engine) && items->p[end].key.p[engine.n] == '/';
		end++) {
	}
	*ret_n = end - from;
	return items->p + from;
}

static bool has_same_engine(
	const struct kp_items *items, const struct kp_items *in_force, kp_str engine, kp_str pool)
{
	const struct kp_item *e = kp_items_find(in_force, KP_ITEM_ENGINE, engine),
			     *q = kp_items_find(in_force, KP_ITEM_POOL, pool);
	size_t n, n_has;
	const struct kp_item *has = endpoints_of(items, engine, &n_has),
			     *wants = endpoints_of(in_force, engine, &n);
	bool is_same = e && q && n == n_has && has_item(items, e) && has_item(items, q);
	for (size_t i = 0; is_same && i < n; i++) {
		is_same = kp_str_eq(has[i].key, wants[i].key) &&
			  kp_str_eq(has[i].value, wants[i].value);
	}
	return is_same;
}

size_t kp_counts_of_engine(const struct kp_ns_program *p, kp_str engine, kp_str pool)
{
	size_t n = p->n_same;
	for (size_t i = 0; i < p->n_bases; i++) {
		n += p->bases[i].n_gateways &&
				     has_same_engine(p->bases[i].items, p->items, engine, pool)
			     ? p->bases[i].n_gateways
			     : 0;
	}
	return n;
}
