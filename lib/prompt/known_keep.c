/* DESIGN: what a turn added becomes a node, once it was rendered: its text, its values, the same in the shape that the template wanted, and what renders remember of each message. All of it but the
   last is immutable; memories grow while the node is kept (template/replay.h), which is told to the table, so that it counts. */
#include "prompt/known.h"

#include "base/mem.h"
#include "prompt/known_internal.h"

enum { MAX_RENDERED = 512 };

static void free_values(void *more)
{
	struct kp_known_values *v = more;
	for (uint32_t i = 0; i < v->n; i++) {
		kp_tpl_memory_destroy(v->memories[i]);
	}
	kp_mem_free(v);
}

/* The values of the messages from number `from` on, as the node keeps them: one block, but for what renders remember. */
static struct kp_known_values *copy_values(const struct kp_known *k, uint32_t from, kp_str was,
	const struct kp_prompt_node *n, size_t max_bytes)
{
	uint32_t count = k->n_keep - from;
	const struct kp_jv *items = k->items + from,
			   *shaped = (k->shaped ? k->shaped : k->items) + from;
	/* A few thousand messages would be written down again each turn. */
	uint32_t n_rendered =
		k->rendered && from == k->n_known && k->n_keep <= MAX_RENDERED ? k->n_keep : 0;
	size_t bytes = sizeof(struct kp_known_values) +
		       n_rendered * sizeof(struct kp_tpl_rendered) +
		       count * (2 * sizeof(struct kp_jv) + sizeof(struct kp_tpl_memory *)) +
		       kp_jv_pack_size(items, count, was);
	for (uint32_t i = 0; i < count; i++) {
		bytes += shaped[i].members == items[i].members
				 ? 0
				 : kp_jv_pack_size(&shaped[i], 1, was);
	}
	struct kp_known_values *v = bytes <= max_bytes ? kp_try_malloc(bytes) : NULL;
	if (!v) {
		return NULL;
	}
	struct kp_jv *own = (void *)(v + 1), *own_shaped = own + count;
	*v = (struct kp_known_values){ .n = count,
		.shape = k->shape,
		.items = own,
		.shaped = own_shaped,
		.memories = (void *)(own_shaped + count) };
	struct kp_tpl_rendered *rendered = (void *)(v->memories + count);
	v->rendered = rendered;
	v->n_rendered = n_rendered;
	if (n_rendered) {
		memcpy(rendered, k->rendered, n_rendered * sizeof(*rendered));
	}
	char *block = kp_jv_pack(items, count, was, n->text, own, (char *)(rendered + n_rendered));
	for (uint32_t i = 0; i < count; i++) {
		own_shaped[i] = own[i];
		if (shaped[i].members != items[i].members) {
			block = kp_jv_pack(&shaped[i], 1, was, n->text, &own_shaped[i], block);
		}
	}
	v->bytes = bytes;
	return v;
}

/* What the turn's render remembers of its messages becomes the node's; of those that other nodes have, nothing yet. */
static void take_memories(struct kp_known *k, struct kp_known_values *v)
{
	uint32_t before = v->n - (k->n_keep - k->n_known);
	for (uint32_t i = 0; i < v->n; i++) {
		bool is_own = i >= before && k->n_own;
		v->memories[i] = is_own ? k->own[i - before] : kp_tpl_memory_create();
	}
	k->n_own = 0;
}

static size_t memory_bytes(const struct kp_known_values *v)
{
	size_t bytes = 0;
	for (uint32_t i = 0; i < v->n; i++) {
		bytes += kp_tpl_memory_bytes(v->memories[i]);
	}
	return bytes;
}

/* Renders may have learned more of messages that are kept already. */
static void count_more(struct kp_known *k)
{
	bool learned = false;
	for (uint32_t i = 0; k->rendered && i < k->n_known; i++) {
		learned = learned || (k->rendered[i].kept && !k->rendered[i].replayed);
	}
	for (struct kp_prompt_node *n = learned ? k->ask.at.node : NULL; n; n = n->parent) {
		const struct kp_known_values *v = n->more;
		kp_prompt_table_resize(k->ask.c->table, n, v->bytes + memory_bytes(v));
	}
}

/* The ends of the messages behind the known ones, as cuts. */
static void put_ends(const struct kp_known *k, struct kp_cut *out)
{
	for (uint32_t i = k->n_known; i < k->n_keep; i++) {
		const kp_str s = k->rest[i - k->n_known].key;
		*out++ = (struct kp_cut){ .text = (uint32_t)(s.p + s.n - k->text.s.p),
			.ids = i + 1 };
	}
}

/* A node with the text; NULL: no memory, or it would be more than max_bytes. */
static struct kp_prompt_node *make_node(struct kp_known *k, const struct kp_prompt_place *at,
	const struct kp_cuts *cuts, size_t max_bytes)
{
	const struct kp_prompt_ask *q = &k->ask;
	const struct kp_ids counted = { .n = k->n_keep };
	size_t first = at->cut.text / KP_PROMPT_BLOCK;
	kp_str was = kp_str_skip(k->text.s, at->cut.text);
	struct kp_prompt_node *n = kp_prompt_node_create(at, q->scope, &k->text, &counted,
		KP_STR_NULL, cuts, q->hashes + first, q->n_hashes - first, max_bytes);
	struct kp_known_values *v =
		n ? copy_values(k, at->cut.ids, was, n, max_bytes - n->bytes) : NULL;
	if (!v) {
		kp_prompt_node_unref(n);
		return NULL;
	}
	take_memories(k, v);
	n->more = v;
	n->more_free = free_values;
	v->bytes += n->bytes;
	n->bytes = v->bytes + memory_bytes(v);
	return n;
}

void kp_known_keep(const struct kp_turn *turn, const struct kp_prompt_link *prompt)
{
	struct kp_known *k = turn->chat.known;
	if (!k) {
		return;
	}
	count_more(k);
	if (k->n_keep == k->n_known) {
		return;
	}
	struct kp_prompt_ask *q = &k->ask;
	struct kp_prompt_place at = q->at;
	/* A line of nodes that is long enough is made one, which needs all cuts. */
	bool alone = at.node && at.node->depth + 1 >= KP_PROMPT_DEPTH;
	size_t before = alone ? kp_prompt_place_n_cuts(&at) : 0;
	struct kp_cuts cuts = { .n = before + k->n_keep - k->n_known };
	cuts.p = kp_try_malloc(cuts.n * sizeof(*cuts.p));
	if (!cuts.p) {
		return;
	}
	put_ends(k, cuts.p + before);
	if (alone) {
		kp_prompt_place_cuts(&at, cuts.p);
		at = (struct kp_prompt_place){ 0 };
	}
	if (cuts.p[cuts.n - 1].text != k->text.s.n) { /* less than was looked up */
		k->text.s.n = cuts.p[cuts.n - 1].text;
		q->n_hashes = kp_prompt_hash(&q->c->key, q->scope, &k->text, q->hashes);
	}
	struct kp_prompt_node *n =
		make_node(k, &at, &cuts, kp_prompt_table_max(q->c->table) / KP_PROMPT_KEPT_SHARE);
	kp_mem_free(cuts.p);
	if (n) {
		struct kp_known_values *v = n->more;
		v->prompt = prompt ? *prompt : v->prompt;
		(void)kp_prompt_table_add(q->c->table, q->hashes, q->n_hashes, n);
	}
	k->n_keep = k->n_known; /* once */
}
