/* DESIGN: hash (cache_hash.h) → nodes that may match (cache_table.h) → compare (cache_node.h) → encode from the cut that both have → keep what is new as a child of what matched. Everything
   but the table works on nodes that are counted and never change, so nothing is locked meanwhile. A prompt that is there as a whole is not kept again. When memory for keeping is gone, or hashes do
   not find room, the prompt is encoded as without a cache. */
#include "prompt/cache.h"

#include "base/mem.h"
#include "parse/parser.h"
#include "prompt/cache_internal.h"
#include "wire/list.h"

enum {
	MIN_TEXT = 48,      /* bytes: less is encoded as fast as it is looked up */
	HASHES = 512,       /* on the stack: texts of up to 64 KiB */
	CUT_BYTES = 32,     /* bytes of new text for which there is room for one cut */
	CUTS_MAX = 1 << 16, /* kept of one node */
};

struct kp_prompt_cache *kp_prompt_cache_create(size_t max_bytes)
{
	struct kp_prompt_cache *c = kp_new(struct kp_prompt_cache);
	kp_prompt_hash_key_make(&c->key);
	c->table = kp_prompt_table_create(max_bytes);
	return c;
}

void kp_prompt_cache_destroy(struct kp_prompt_cache *c)
{
	if (c) {
		kp_prompt_table_destroy(c->table);
		kp_mem_free(c);
	}
}

void kp_prompt_cache_stats(struct kp_prompt_cache *c, struct kp_prompt_cache_stats *ret)
{
	kp_prompt_table_stats(c->table, ret);
}

static void put_part(struct kp_buf *b, kp_str s)
{
	uint32_t n = (uint32_t)s.n;
	kp_buf_add(b, kp_str_n(&n, sizeof(n)));
	kp_buf_add(b, s);
}

bool kp_prompt_put_scope(
	struct kp_buf *b, const uint64_t numbers[4], kp_str model, kp_str tenant, kp_str salt)
{
	kp_buf_add(b, kp_str_n(numbers, 4 * sizeof(*numbers)));
	put_part(b, model);
	put_part(b, tenant);
	put_part(b, salt);
	return kp_buf_ok(b);
}

/* Everything beside the text that ids depend on, and whose they are; different ones are different bytes. */
static bool put_scope(struct kp_buf *b, const struct kp_prompt_scope *scope,
	const struct kp_tokenizer *t, const struct kp_encode_opts *opts)
{
	const uint64_t numbers[] = { scope->fingerprint, kp_tokenizer_info(t)->fingerprint,
		kp_token_policy_digest(opts->policy), opts->add_special };
	return kp_prompt_put_scope(b, numbers, scope->model, scope->tenant, scope->salt);
}

void kp_prompt_look_up(struct kp_prompt_ask *q)
{
	q->n_hashes = kp_prompt_hash(&q->c->key, q->scope, q->text, q->hashes);
	struct kp_prompt_node *found[KP_PROMPT_FOUND];
	size_t n = kp_prompt_table_find(q->c->table, q->hashes, q->n_hashes, found);
	for (size_t i = 0; i < n; i++) {
		struct kp_prompt_place at = kp_prompt_node_match(found[i], q->scope, q->text);
		bool better =
			at.node && (at.is_exact || at.cut.text > q->at.cut.text) && !q->at.is_exact;
		if (better) {
			kp_prompt_node_unref(q->held);
			q->at = at;
			q->held = found[i];
		} else {
			kp_prompt_node_unref(found[i]);
		}
	}
}

/* Encodes what follows q->at and keeps the prompt. */
static int encode_rest(struct kp_prompt_ask *q, const struct kp_tokenizer *t,
	struct kp_token_scratch *s, const struct kp_encode_opts *given, struct kp_ids *ids,
	struct kp_err *err)
{
	struct kp_encode_opts opts = *given;
	/* A line of nodes that is long enough is made one, which needs all cuts. */
	bool alone = q->at.node && q->at.node->depth + 1 >= KP_PROMPT_DEPTH;
	size_t before = alone ? kp_prompt_place_n_cuts(&q->at) : 0;
	size_t max = KP_MIN((q->text->s.n - q->at.cut.text) / CUT_BYTES + 16, (size_t)CUTS_MAX);
	struct kp_cut *room = kp_try_malloc((before + max) * sizeof(*room));
	struct kp_cuts cuts = { .p = room + before, .max = max };
	opts.from = q->at.cut;
	opts.cuts = room ? &cuts : NULL;
	if (kp_tokenizer_encode(t, s, q->text, &opts, ids, err)) {
		kp_mem_free(room);
		return -1;
	}
	kp_wire_add_varints(q->packed, ids->p + opts.from.ids, ids->n - opts.from.ids);
	if (!room || q->packed->failed) {
		kp_mem_free(room);
		return 0;
	}
	if (alone) {
		kp_prompt_place_cuts(&q->at, room);
		cuts = (struct kp_cuts){ .p = room, .n = before + cuts.n };
		q->at = (struct kp_prompt_place){ 0 };
	}
	size_t first = q->at.cut.text / KP_PROMPT_BLOCK;
	struct kp_prompt_node *n = kp_prompt_node_create(&q->at, q->scope, q->text, ids,
		kp_buf_str(q->packed), &cuts, q->hashes + first, q->n_hashes - first,
		kp_prompt_table_max(q->c->table) / KP_PROMPT_KEPT_SHARE);
	if (n) {
		q->link = kp_prompt_table_add(q->c->table, q->hashes, q->n_hashes, n);
	}
	kp_mem_free(room);
	return 0;
}

/* Puts the bytes from `from` on there that the hint says are not. */
static void fill(const struct kp_prompt_hint *hint, size_t from)
{
	if (hint->room) {
		kp_prompt_node_copy(hint->node, hint->room, from, hint->same);
	}
}

/* Takes the place from the hint, without looking at what it says is known; false: it has to be looked up. */
static bool take_hint(struct kp_prompt_ask *q, const struct kp_prompt_hint *hint, size_t max_ids)
{
	if (!hint->node || hint->same < KP_PROMPT_BLOCK ||
		!kp_str_eq(kp_prompt_node_scope(hint->node), q->scope)) {
		return false;
	}
	size_t n = q->text->s.n;
	bool is_all =
		n == hint->node->end && kp_prompt_node_agrees(hint->node, q->text, hint->same, n);
	struct kp_prompt_place at =
		kp_prompt_node_place(hint->node, q->text, is_all ? n : hint->same);
	size_t blocks = at.cut.text / KP_PROMPT_BLOCK;
	if (!blocks || at.cut.ids > max_ids ||
		(!at.is_exact && at.node->depth + 1 >= KP_PROMPT_DEPTH)) {
		return false;
	}
	q->at = at;
	q->held = hint->node;
	kp_ref_get(&q->held->ref);
	/* A character before the cut may be looked at. */
	fill(hint, KP_MIN((blocks - 1) * KP_PROMPT_BLOCK, n - KP_MIN(n, (size_t)KP_PARSE_TAIL)));
	if (at.is_exact) {
		q->link = kp_prompt_table_link(at.node);
		return true;
	}
	uint64_t before = kp_prompt_node_hash(at.node, blocks);
	q->n_hashes = blocks +
		      kp_prompt_hash_rest(&q->c->key, before, blocks, q->text, q->hashes + blocks);
	return true;
}

static int encode_kept(struct kp_prompt_ask *q, const struct kp_tokenizer *t,
	struct kp_token_scratch *s, const struct kp_encode_opts *opts,
	const struct kp_prompt_hint *hint, struct kp_ids *ids, struct kp_prompt_use *ret,
	struct kp_err *err)
{
	int r = 0;
	if (!take_hint(q, hint, ids->max)) {
		fill(hint, 0);
		kp_prompt_look_up(q);
		if (q->at.is_exact) {
			q->link = kp_prompt_table_link(q->at.node);
		}
	}
	size_t known = q->at.cut.ids;
	if (known > ids->max) { /* too many anyway: the encoder says how many it may */
		r = kp_tokenizer_encode(t, s, q->text, opts, ids, err);
	} else {
		kp_prompt_place_ids(&q->at, ids, q->packed);
		if (ids->failed) {
			r = kp_err_set(err, KP_RESOURCE_EXHAUSTED,
				"encode text: no memory for `%zu` tokens", known);
		} else if (!q->at.is_exact) {
			r = encode_rest(q, t, s, opts, ids, err);
		}
		ret->exact = q->at.is_exact ? known : 0;
		ret->prefix = known - ret->exact;
	}
	if (q->packed->failed) { /* the ids alone will do */
		kp_buf_fini(q->packed);
		q->packed->failed = false;
	}
	kp_prompt_node_unref(q->held);
	return r;
}

int kp_prompt_cache_encode(struct kp_prompt_cache *c, const struct kp_prompt_scope *scope,
	const struct kp_tokenizer *t, struct kp_token_scratch *s, const struct kp_text *text,
	const struct kp_encode_opts *opts, struct kp_ids *ids, struct kp_buf *packed,
	struct kp_prompt_use *ret, struct kp_err *err)
{
	struct kp_prompt_hint none = { 0 };
	return kp_prompt_cache_encode_by(c, scope, t, s, text, opts, &none, ids, packed, ret, err);
}

struct kp_prompt_node *kp_prompt_cache_recall(
	struct kp_prompt_cache *c, const struct kp_prompt_link *link)
{
	return link->serial ? kp_prompt_table_get(c->table, link) : NULL;
}

int kp_prompt_cache_encode_by(struct kp_prompt_cache *c, const struct kp_prompt_scope *scope,
	const struct kp_tokenizer *t, struct kp_token_scratch *s, const struct kp_text *text,
	const struct kp_encode_opts *opts, struct kp_prompt_hint *hint, struct kp_ids *ids,
	struct kp_buf *packed, struct kp_prompt_use *ret, struct kp_err *err)
{
	struct kp_prompt_ask q = { .c = c, .text = text, .packed = packed };
	uint64_t few[HASHES];
	struct kp_prompt_use use = { 0 };
	KP_AUTO(buf) struct kp_buf scope_bytes;
	kp_buf_init(&scope_bytes, KP_PROMPT_SCOPE_MAX);
	size_t room = text->s.n / KP_PROMPT_BLOCK + 1;
	int r;
	KP_BUG_ON(ids->n || opts->cuts || opts->from.text || opts->file_limits);
	q.hashes = !c || text->s.n < MIN_TEXT || !put_scope(&scope_bytes, scope, t, opts) ? NULL
		   : room <= HASHES                                                       ? few
				    : kp_try_malloc(room * sizeof(*q.hashes));
	if (q.hashes) {
		q.scope = kp_buf_str(&scope_bytes);
		r = encode_kept(&q, t, s, opts, hint, ids, &use, err);
		hint->link = q.link;
	} else {
		fill(hint, 0);
		r = kp_tokenizer_encode(t, s, text, opts, ids, err);
	}
	if (q.hashes != few) {
		kp_mem_free(q.hashes);
	}
	if (r == 0) {
		use.encoded = ids->n - use.exact - use.prefix;
		*ret = use;
	}
	return r;
}
