/* DESIGN: a map from namespace to its program. When the content changes, the old one becomes the newest
   base, and every message made so far is dropped: they all led to the old one. A base costs the memory
   of its items, so there are few, and they are few bytes together. */
#include "operator/control/programs.h"

enum { DIFF_BYTES = 64 << 20 }; /* pointers to KP_ITEMS_MAX items, twice */

void kp_programs_init(struct kp_programs *p, uint64_t epoch)
{
	*p = (struct kp_programs){ .epoch = epoch };
	kp_map_init(&p->by_namespace);
}

static void drop_encoded(struct kp_encoded *e)
{
	kp_rpc_shared_unref(e->bytes);
	*e = (struct kp_encoded){ 0 };
}

static void drop_messages(struct kp_ns_program *p)
{
	drop_encoded(&p->full);
	drop_encoded(&p->notice);
	for (size_t i = 0; i < p->n_bases; i++) {
		drop_encoded(&p->bases[i].delta);
	}
}

static void destroy(void *value)
{
	struct kp_ns_program *p = value;
	drop_messages(p);
	for (size_t i = 0; i < p->n_bases; i++) {
		kp_items_unref(p->bases[i].items);
	}
	kp_items_unref(p->items);
	kp_mem_free(kp_unconst(p->name.p));
	kp_mem_free(p);
}

void kp_programs_fini(struct kp_programs *p)
{
	kp_map_fini(&p->by_namespace, destroy);
}

struct kp_ns_program *kp_programs_find(const struct kp_programs *p, kp_str ns)
{
	return kp_map_get(&p->by_namespace, ns);
}

/* --- changes --- */

static void drop_base(struct kp_ns_program *p, size_t i)
{
	kp_items_unref(p->bases[i].items);
	memmove(&p->bases[i], &p->bases[i + 1], (--p->n_bases - i) * sizeof(p->bases[0]));
}

/* What was in force becomes the newest base. */
static void push_base(struct kp_ns_program *p)
{
	size_t bytes = p->items->bytes;
	if (p->n_bases == KP_PROGRAMS_KEPT) {
		drop_base(p, KP_PROGRAMS_KEPT - 1);
	}
	memmove(&p->bases[1], &p->bases[0], p->n_bases++ * sizeof(p->bases[0]));
	p->bases[0] = (struct kp_base){ .items = kp_steal(p->items) };
	for (size_t i = 1; i < p->n_bases; i++) {
		bytes += p->bases[i].items->bytes;
		if (bytes > KP_PROGRAMS_KEPT_BYTES) {
			while (p->n_bases > i) {
				drop_base(p, p->n_bases - 1);
			}
		}
	}
}

static void renumber(
	struct kp_programs *p, struct kp_ns_program *ns, int64_t now_ns, int64_t wall_ns)
{
	ns->revision = (struct kp_revision){ .is_set = true, .epoch = p->epoch, .n = ++p->n };
	memcpy(ns->revision.hash, ns->items->hash, KP_HASH_BYTES);
	ns->since_ns = now_ns;
	ns->since_wall_ns = wall_ns;
	ns->is_everywhere = false;
}

static void set_items(struct kp_ns_program *ns, struct kp_items *items)
{
	drop_messages(ns);
	if (ns->items) {
		push_base(ns);
	}
	ns->items = kp_items_ref(items);
	for (size_t i = 0; i < ns->n_bases; i++) {
		if (kp_items_same(ns->bases[i].items, items)) { /* it was so before */
			drop_base(ns, i--);
		}
	}
}

static struct kp_ns_program *add(struct kp_programs *p, kp_str name)
{
	struct kp_ns_program *ns = kp_new(struct kp_ns_program);
	char *copy = kp_xmalloc(name.n + 1);
	memcpy(copy, name.p, name.n);
	copy[name.n] = '\0';
	ns->name = kp_str_n(copy, name.n);
	kp_map_set(&p->by_namespace, name, ns);
	return ns;
}

size_t kp_programs_update(
	struct kp_programs *p, const struct kp_plan *plan, int64_t now_ns, int64_t wall_ns)
{
	size_t changed = 0;
	struct kp_map_entry *e;
	for (size_t pos = 0; (e = kp_map_next(&p->by_namespace, &pos)) != NULL;) {
		if (!kp_plan_find(plan, e->key)) {
			destroy(kp_map_del(
				&p->by_namespace, ((struct kp_ns_program *)e->value)->name));
			changed++;
		}
	}
	for (size_t i = 0; i < plan->n; i++) {
		const struct kp_plan_namespace *from = &plan->namespaces[i];
		struct kp_ns_program *ns = kp_programs_find(p, from->name);
		if (ns && kp_items_same(ns->items, from->items)) {
			continue;
		}
		ns = ns ? ns : add(p, from->name);
		set_items(ns, from->items);
		renumber(p, ns, now_ns, wall_ns);
		changed++;
	}
	return changed;
}

void kp_programs_raise(struct kp_programs *p, uint64_t epoch, int64_t now_ns, int64_t wall_ns)
{
	KP_BUG_ON(epoch <= p->epoch);
	p->epoch = epoch;
	struct kp_map_entry *e;
	for (size_t pos = 0; (e = kp_map_next(&p->by_namespace, &pos)) != NULL;) {
		drop_messages(e->value);
		renumber(p, e->value, now_ns, wall_ns);
	}
}

/* --- messages --- */

static struct kp_base *find_base(struct kp_ns_program *p, const struct kp_revision *base)
{
	for (size_t i = 0; i < p->n_bases; i++) {
		if (memcmp(p->bases[i].items->hash, base->hash, KP_HASH_BYTES) == 0) {
			return &p->bases[i];
		}
	}
	return NULL;
}

bool kp_ns_program_has_base(const struct kp_ns_program *p, const struct kp_revision *base)
{
	return base->is_set && find_base(kp_unconst(p), base) != NULL;
}

int kp_ns_program_compose(const struct kp_ns_program *p, enum kp_send as,
	const struct kp_revision *base, struct kp_arena *arena, struct kp_program_message *ret,
	struct kp_err *err)
{
	struct kp_program_message m = { .revision = p->revision };
	if (as == KP_SEND_FULL) {
		m.delta =
			(struct kp_items_delta){ .upserts = p->items->p, .n_upserts = p->items->n };
	} else if (as == KP_SEND_NOTICE) {
		m.base = p->revision;
	} else {
		const struct kp_base *from = find_base(kp_unconst(p), base);
		KP_BUG_ON(!from);
		m.base = *base;
		if (kp_items_diff(from->items, p->items, arena, &m.delta, err)) {
			return -1;
		}
	}
	*ret = m;
	return 0;
}

int kp_ns_program_encode(struct kp_ns_program *p, enum kp_send as, const struct kp_revision *base,
	const struct kp_encoded **ret, struct kp_err *err)
{
	struct kp_operator_message m = { .type = KP_OPERATOR_PROGRAM };
	struct kp_encoded *e = as == KP_SEND_FULL     ? &p->full
			       : as == KP_SEND_NOTICE ? &p->notice
						      : &find_base(p, base)->delta;
	KP_AUTO(buf) struct kp_buf bytes = { 0 };
	KP_AUTO(arena) struct kp_arena *a = NULL;
	*ret = e;
	if (e->bytes) {
		return 0;
	}
	a = kp_arena_create(DIFF_BYTES);
	kp_buf_init(&bytes, KP_CONTROL_TO_GATEWAY_MAX);
	if (kp_ns_program_compose(p, as, base, a, &m.program, err)) {
		return -1;
	}
	kp_control_write_to_gateway(&bytes, &m);
	if (kp_buf_finish(&bytes, "program", err)) {
		return -1;
	}
	e->n = bytes.n;
	e->bytes = kp_rpc_shared_create(kp_buf_str(&bytes));
	return 0;
}
