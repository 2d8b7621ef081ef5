/* DESIGN: the text of the messages, without the array's brackets, is kept as texts of prompts are (cache_node.h): a node for what each turn added, with a cut behind each message, and in place of ids the
   number of messages. What a node knows besides are their values, copied into one block that refers to the node's text where a string stands there as it is. A request
   holds the node that it found, and so those above it, until its prompt is made. */
#include "prompt/known.h"

#include "base/mem.h"
#include "prompt/known_internal.h"
#include "prompt/messages.h"
#include "template/rewrite.h"

enum {
	ARRAY_DEPTH = 2, /* in a request's object */
	/* No value has less than one byte, and one between it and the next: so many bytes have no more than KP_MAX_VALUES. */
	TEXT_MAX = 2 * KP_MAX_VALUES,
};

static void let_go(void *p)
{
	struct kp_known *k = p;
	for (uint32_t i = 0; i < k->n_own; i++) {
		kp_tpl_memory_destroy(k->own[i]);
	}
	k->n_own = 0;
	kp_prompt_node_unref(kp_steal(k->ask.held));
	kp_prompt_node_unref(kp_steal(k->prompt));
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
	for (const struct kp_prompt_node *n = at->node; n; n = n->parent) {
		kp_prefetch(n->more, sizeof(struct kp_known_values) + 3 * 64);
	}
	size_t to = at->cut.ids;
	for (const struct kp_prompt_node *n = at->node; n; n = n->parent) {
		const struct kp_known_values *v = n->more;
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

void kp_known_let_go(struct kp_turn *turn)
{
	if (turn->chat.known) {
		let_go(kp_steal(turn->chat.known));
		turn->chat.messages = (struct kp_jv){ .type = KP_JSON_ARRAY };
	}
}

uint32_t kp_known_count(const struct kp_turn *turn)
{
	return turn->chat.known ? turn->chat.known->n_known : 0;
}

/* --- rendering ---------------------------------------------------------------------------------------------------------------------- */

static bool same_shape(const struct kp_template_shape *a, const struct kp_template_shape *b)
{
	_Static_assert(sizeof(*a) == 7 * sizeof(int) + 4 * sizeof(bool), "no gaps");
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Puts the known messages in that shape into out; false: some of them are kept in another one. */
static bool put_shaped(
	const struct kp_prompt_place *at, const struct kp_template_shape *shape, struct kp_jv *out)
{
	size_t to = at->cut.ids;
	for (const struct kp_prompt_node *n = at->node; n; n = n->parent) {
		const struct kp_known_values *v = n->more;
		if (!same_shape(&v->shape, shape)) {
			return false;
		}
		memcpy(out + n->from.ids, v->shaped, (to - n->from.ids) * sizeof(*out));
		to = n->from.ids;
	}
	return true;
}

int kp_known_adapt(const struct kp_turn *turn, const struct kp_template_shape *shape,
	struct kp_jv *ret, struct kp_err *err)
{
	struct kp_known *k = turn->chat.known;
	struct kp_jv list = turn->chat.messages, *items;
	uint32_t from = 0;
	if (k) {
		if (kp_tpl_jv_copy_items(&list, turn->arena, &items, err)) {
			return -1;
		}
		if (put_shaped(&k->ask.at, shape, items)) {
			from = k->n_known;
			list.items = items;
		}
	}
	if (kp_template_adapt_rest(shape, &list, from, turn->arena, ret, err)) {
		return -1;
	}
	if (k) {
		k->shaped = ret->items;
		k->shape = *shape;
	}
	return 0;
}

static void put_memories(const struct kp_known *k, struct kp_tpl_memory **out)
{
	size_t to = k->n_known;
	for (const struct kp_prompt_node *n = k->ask.at.node; n; n = n->parent) {
		const struct kp_known_values *v = n->more;
		memcpy(out + n->from.ids, v->memories,
			(to - n->from.ids) * sizeof(struct kp_tpl_memory *));
		to = n->from.ids;
	}
}

void kp_known_remember(const struct kp_turn *turn, struct kp_template_opts *opts)
{
	struct kp_known *k = turn->chat.known;
	if (!k) {
		return;
	}
	struct kp_tpl_memory **m = kp_arena_calloc(turn->arena, k->n_keep, sizeof(*m));
	struct kp_tpl_rendered *rendered =
		kp_arena_calloc(turn->arena, k->n_keep, sizeof(*rendered));
	if (!m || !rendered || k->n_own) {
		return;
	}
	put_memories(k, m);
	kp_tpl_memory_prefetch(m, k->n_known);
	for (uint32_t i = 0; i < k->n_known; i++) {
		kp_prefetch(k->shaped[i].members, 1);
	}
	k->own = m + k->n_known;
	while (k->n_known + k->n_own < k->n_keep) {
		k->own[k->n_own++] = kp_tpl_memory_create();
	}
	opts->remembered = m;
	opts->n_remembered = k->n_keep;
	opts->rendered = k->rendered = rendered;
	const struct kp_known_values *v = k->ask.at.node ? k->ask.at.node->more : NULL;
	k->prompt = v && v->n_rendered ? kp_prompt_cache_recall(turn->cache, &v->prompt) : NULL;
	if (k->prompt) {
		opts->expected = v->rendered;
		opts->n_expected = KP_MIN(k->n_known, v->n_rendered);
	}
}

/* How far the text is that of the earlier prompt: over messages that came to the same at the same places, and what stands between them. */
static size_t same_text(const struct kp_known *k, const struct kp_text *text)
{
	const struct kp_known_values *v = k->ask.at.node->more;
	uint32_t n = KP_MIN(k->n_known, v->n_rendered);
	size_t same = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct kp_tpl_rendered *is = &k->rendered[i], *was = &v->rendered[i];
		if (is->end == 0 && was->end == 0) {
			continue; /* it came to nothing */
		}
		if (!is->kept || is->kept != was->kept || is->start != was->start ||
			is->end != was->end || is->start < same ||
			!kp_prompt_node_agrees(k->prompt, text, same, is->start)) {
			break;
		}
		same = is->end;
	}
	return same;
}

void kp_known_hint(
	const struct kp_turn *turn, const struct kp_text *text, struct kp_prompt_hint *ret)
{
	const struct kp_known *k = turn->chat.known;
	*ret = (struct kp_prompt_hint){ 0 };
	if (!k || !k->prompt) {
		return;
	}
	ret->node = k->prompt;
	ret->room = kp_unconst(text->s.p);
	ret->same = same_text(k, text);
	/* Behind that it is another text, but for what was left out. */
	for (uint32_t i = 0; i < k->n_known; i++) {
		const struct kp_tpl_rendered *is = &k->rendered[i];
		if (is->left_out && is->end > ret->same) {
			kp_prompt_node_copy(k->prompt, ret->room, is->start, is->end);
		}
	}
}
