/* DESIGN: the text of the messages, without the array's brackets, is kept as texts of prompts are (cache_node.h): a node for what each turn added, with a cut behind each message, and in place of ids the
   number of messages. What a node knows besides are their values, copied into one block that refers to the node's text where a string stands there as it is. A request
   holds the node that it found, and so those above it, until its arena ends. */
#include "prompt/known.h"

#include "base/mem.h"
#include "prompt/cache_internal.h"
#include "prompt/messages.h"

enum {
	ARRAY_DEPTH = 2, /* in a request's object */
	/* No value has less than one byte, and one between it and the next: so many bytes have no more than KP_MAX_VALUES. */
	TEXT_MAX = 2 * KP_MAX_VALUES,
};

/* A node's `more`: values of the messages from its begin on. */
struct values {
	size_t bytes;
	struct kp_jv items[];
};

struct kp_known {
	struct kp_prompt_ask ask; /* counts a node until the arena ends */
	struct kp_text text;      /* all messages, in the body */
	uint32_t n_known, n_keep;
	const struct kp_jv *items;     /* the turn's */
	const struct kp_jmember *rest; /* behind the known ones */
};

static void let_go(void *p)
{
	struct kp_known *k = p;
	kp_prompt_node_unref(k->ask.held);
}

/* What stands between the brackets, without white space at its end. */
static kp_str inside(kp_str array)
{
	kp_str s = kp_str_sub(array, 1, array.n - 1);
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\n' || s.p[s.n - 1] == '\r' ||
			      s.p[s.n - 1] == '\t')) {
		s.n--;
	}
	return s;
}

static bool look_up(struct kp_known *k, const struct kp_turn *turn)
{
	static const uint64_t numbers[4] = { 0, 0, 0, 2 };
	struct kp_err err;
	KP_AUTO(buf) struct kp_buf scope;
	kp_buf_init(&scope, KP_PROMPT_SCOPE_MAX);
	size_t room = k->text.s.n / KP_PROMPT_BLOCK + 1;
	k->ask.c = turn->cache;
	k->ask.text = &k->text;
	k->ask.hashes = kp_arena_alloc(turn->arena, room * sizeof(*k->ask.hashes));
	if (!k->ask.hashes ||
		!kp_prompt_put_scope(
			&scope, numbers, turn->model, turn->tenant, turn->cache_salt) ||
		kp_arena_dup(turn->arena, kp_buf_str(&scope), &k->ask.scope, &err)) {
		return false;
	}
	kp_prompt_look_up(&k->ask);
	k->n_known = k->ask.at.cut.ids;
	return true;
}

/* The messages up to the place that was found. */
static void put_known(const struct kp_prompt_place *at, struct kp_jv *out)
{
	size_t to = at->cut.ids;
	for (const struct kp_prompt_node *n = at->node; n; n = n->parent) {
		const struct values *v = n->more;
		memcpy(out + n->from.ids, v->items, (to - n->from.ids) * sizeof(*out));
		to = n->from.ids;
	}
}

int kp_known_read(kp_str array, struct kp_turn *turn)
{
	struct kp_err err;
	struct kp_json j;
	struct kp_messages_rest rest;
	if (array.n < 2 || array.n > TEXT_MAX) {
		return -1;
	}
	struct kp_known *k = kp_arena_new(turn->arena, struct kp_known);
	k->text = kp_text_trusted(inside(array));
	if (!look_up(k, turn)) {
		return -1;
	}
	kp_arena_defer(turn->arena, let_go, k);
	kp_json_init(&j, array, turn->arena);
	kp_json_reopen_array(&j, array.p + 1 + k->ask.at.cut.text, ARRAY_DEPTH, k->n_known == 0);
	if (kp_messages_read_rest(&j, k->n_known, turn, &rest, &err) || j.p != j.end) {
		return -1;
	}
	put_known(&k->ask.at, rest.items);
	k->items = rest.items;
	k->rest = rest.rest;
	k->n_keep = rest.n_apart;
	turn->chat.known = k;
	return 0;
}

uint32_t kp_known_count(const struct kp_turn *turn)
{
	return turn->chat.known ? turn->chat.known->n_known : 0;
}

/* --- keeping ------------------------------------------------------------------------------------------------------------------------ */

static void free_values(void *more)
{
	kp_mem_free(more);
}

/* The values of the messages from number `from` on, as the node keeps them. */
static struct values *copy_values(const struct kp_known *k, uint32_t from, kp_str was,
	const struct kp_prompt_node *n, size_t max_bytes)
{
	uint32_t count = k->n_keep - from;
	size_t items = sizeof(struct values) + count * sizeof(struct kp_jv),
	       bytes = items + kp_jv_pack_size(k->items + from, count, was);
	struct values *v = bytes <= max_bytes ? kp_try_malloc(bytes) : NULL;
	if (v) {
		v->bytes = bytes;
		kp_jv_pack(k->items + from, count, was, n->text, v->items, (char *)v + items);
	}
	return v;
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
static struct kp_prompt_node *make_node(const struct kp_known *k, const struct kp_prompt_place *at,
	const struct kp_cuts *cuts, size_t max_bytes)
{
	const struct kp_prompt_ask *q = &k->ask;
	const struct kp_ids counted = { .n = k->n_keep };
	size_t first = at->cut.text / KP_PROMPT_BLOCK;
	kp_str was = kp_str_skip(k->text.s, at->cut.text);
	struct kp_prompt_node *n = kp_prompt_node_create(at, q->scope, &k->text, &counted,
		KP_STR_NULL, cuts, q->hashes + first, q->n_hashes - first, max_bytes);
	struct values *v = n ? copy_values(k, at->cut.ids, was, n, max_bytes - n->bytes) : NULL;
	if (!v) {
		kp_prompt_node_unref(n);
		return NULL;
	}
	n->more = v;
	n->more_free = free_values;
	n->bytes += v->bytes;
	return n;
}

void kp_known_keep(struct kp_turn *turn)
{
	struct kp_known *k = turn->chat.known;
	if (!k || k->n_keep <= k->n_known) {
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
		kp_prompt_table_add(q->c->table, q->hashes, q->n_hashes, n);
	}
	k->n_keep = 0; /* once */
}
