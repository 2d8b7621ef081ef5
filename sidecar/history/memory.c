/* DESIGN: a map by tenant and id, another one by tenant and item, and a list in the order of arrival, which is the order in which records go. A record has its
   strings in one buffer, with the keys by which both maps know it. One thread. */
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "sidecar/history/history.h"

struct record {
	struct kp_list link;
	kp_str key; /* tenant NUL id */
	kp_str tenant;
	struct kp_history_record r;
	struct kp_buf text; /* everything that is pointed to */
	kp_str *item_keys;
};
struct memory {
	struct kp_history base;
	struct kp_history_limits limits;
	struct kp_map by_id, by_item;
	struct kp_list all;
	uint64_t bytes;
};

static void drop(struct memory *m, struct record *x)
{
	kp_map_del(&m->by_id, x->key);
	for (size_t i = 0; i < x->r.n_item_ids; i++) {
		if (kp_map_get(&m->by_item, x->item_keys[i]) == x) {
			kp_map_del(&m->by_item, x->item_keys[i]);
		}
	}
	m->bytes -= x->r.body.n;
	kp_list_del(&x->link);
	kp_buf_fini(&x->text);
	kp_mem_free(x->item_keys);
	kp_mem_free(x);
}

static bool is_old(const struct memory *m, const struct record *x)
{
	return m->limits.max_age_s && m->limits.now_s() - x->r.created_s > m->limits.max_age_s;
}

static void make_room(struct memory *m, uint64_t more)
{
	struct kp_list *first;
	while (!kp_list_empty(&m->all)) {
		first = m->all.next;
		struct record *x = KP_CONTAINER(first, struct record, link);
		if (m->bytes + more <= m->limits.max_bytes && !is_old(m, x)) {
			return;
		}
		drop(m, x);
	}
}

/* Appends "tenant NUL id"; where it begins. */
static void add_key(struct kp_buf *text, kp_str tenant, kp_str id)
{
	kp_buf_add(text, tenant);
	kp_buf_addc(text, '\0');
	kp_buf_add(text, id);
}

static kp_str take(const char **at, size_t n)
{
	kp_str s = kp_str_n(*at, n);
	*at += n;
	return s;
}

static void *find(const struct kp_map *map, kp_str tenant, kp_str id)
{
	KP_AUTO(buf) struct kp_buf key;
	kp_buf_init(&key, 2 * (KP_HISTORY_MAX_TENANT + KP_HISTORY_MAX_ID));
	add_key(&key, tenant, id);
	return key.failed ? NULL : kp_map_get(map, kp_buf_str(&key));
}

static struct record *make(kp_str tenant, const struct kp_history_record *r, struct kp_err *err)
{
	struct record *x = kp_new(struct record);
	kp_buf_init(&x->text, (size_t)2 * KP_HISTORY_MAX_RECORD);
	add_key(&x->text, tenant, r->id);
	kp_buf_add(&x->text, r->previous_id);
	kp_buf_add(&x->text, r->body);
	for (size_t i = 0; i < r->n_item_ids; i++) {
		add_key(&x->text, tenant, r->item_ids[i]);
	}
	if (kp_buf_finish(&x->text, "record", err)) {
		kp_buf_fini(&x->text);
		kp_mem_free(x);
		return NULL;
	}
	const char *at = x->text.p;
	x->key = take(&at, tenant.n + 1 + r->id.n);
	x->tenant = kp_str_sub(x->key, 0, tenant.n);
	x->r = (struct kp_history_record){ .id = kp_str_skip(x->key, tenant.n + 1),
		.created_s = r->created_s,
		.n_item_ids = r->n_item_ids };
	kp_str previous = take(&at, r->previous_id.n);
	x->r.previous_id = previous.n ? previous : KP_STR_NULL;
	x->r.body = take(&at, r->body.n);
	x->item_keys = kp_xcalloc(r->n_item_ids + 1, sizeof(*x->item_keys));
	for (size_t i = 0; i < r->n_item_ids; i++) {
		x->item_keys[i] = take(&at, tenant.n + 1 + r->item_ids[i].n);
	}
	return x;
}

static int memory_put(
	struct kp_history *h, kp_str tenant, const struct kp_history_record *r, struct kp_err *err)
{
	struct memory *m = KP_CONTAINER(h, struct memory, base);
	if (r->body.n > KP_HISTORY_MAX_RECORD || r->body.n > m->limits.max_bytes) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "a record of %zu bytes is too large",
			r->body.n);
	}
	if (find(&m->by_id, tenant, r->id)) {
		return kp_err_set(
			err, KP_ALREADY_EXISTS, "`%" KP_FMT "` is kept already", KP_ARG(r->id));
	}
	struct record *x = make(tenant, r, err);
	if (!x) {
		return -1;
	}
	make_room(m, r->body.n);
	kp_list_push(&m->all, &x->link);
	kp_map_set(&m->by_id, x->key, x);
	for (size_t i = 0; i < r->n_item_ids; i++) {
		kp_map_set(&m->by_item, x->item_keys[i], x);
	}
	m->bytes += r->body.n;
	return 0;
}

static int copy(const struct memory *m, const struct record *x, struct kp_arena *a,
	struct kp_history_record *ret, struct kp_err *err)
{
	if (!x || is_old(m, x)) {
		return 1;
	}
	struct kp_history_record r = { .created_s = x->r.created_s };
	if (kp_arena_dup(a, x->r.id, &r.id, err) || kp_arena_dup(a, x->r.body, &r.body, err) ||
		(x->r.previous_id.p && kp_arena_dup(a, x->r.previous_id, &r.previous_id, err))) {
		return -1;
	}
	*ret = r;
	return 0;
}

static int memory_get(struct kp_history *h, kp_str tenant, kp_str id, struct kp_arena *a,
	struct kp_history_record *ret, struct kp_err *err)
{
	struct memory *m = KP_CONTAINER(h, struct memory, base);
	return copy(m, find(&m->by_id, tenant, id), a, ret, err);
}

static int memory_item(struct kp_history *h, kp_str tenant, kp_str item_id, struct kp_arena *a,
	struct kp_history_record *ret, struct kp_err *err)
{
	struct memory *m = KP_CONTAINER(h, struct memory, base);
	return copy(m, find(&m->by_item, tenant, item_id), a, ret, err);
}

static int memory_del(struct kp_history *h, kp_str tenant, kp_str id, struct kp_err *err)
{
	struct memory *m = KP_CONTAINER(h, struct memory, base);
	struct record *x = find(&m->by_id, tenant, id);
	(void)err;
	bool was_there = x && !is_old(m, x);
	if (x) {
		drop(m, x);
	}
	return !was_there;
}

static uint64_t memory_bytes(const struct kp_history *h)
{
	return ((const struct memory *)h)->bytes;
}

static void memory_close(struct kp_history *h)
{
	struct memory *m = KP_CONTAINER(h, struct memory, base);
	while (!kp_list_empty(&m->all)) {
		drop(m, KP_CONTAINER(m->all.next, struct record, link));
	}
	kp_map_fini(&m->by_id, NULL);
	kp_map_fini(&m->by_item, NULL);
	kp_mem_free(m);
}

struct kp_history *kp_history_memory(const struct kp_history_limits *limits)
{
	static const struct kp_history_ops ops = { memory_put, memory_get, memory_item, memory_del,
		memory_bytes, memory_close };
	struct memory *m = kp_new(struct memory);
	m->base.ops = &ops;
	m->limits = *limits;
	kp_list_init(&m->all);
	kp_map_init(&m->by_id);
	kp_map_init(&m->by_item);
	return &m->base;
}
