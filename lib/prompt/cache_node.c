/* DESIGN: a node is one block of memory: the struct, then slots, ids, cuts, runs, text, scope. Matching goes from the node upwards, each node of the line giving the
   stretch up to where the next one begins; the common part ends within the lowest node, or the look-up's hash was wrong and nothing matches. */
#include "prompt/cache_node.h"

#include "base/mem.h"
#include "wire/list.h"

#include <string.h>

/* Index of the first run that is not over at `at`. */
static size_t run_at(const struct kp_run *runs, size_t n, uint32_t at)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (runs[mid].end <= at) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

/* Text without runs is all trusted. */
static struct kp_text with_runs(const struct kp_text *text, struct kp_run *whole)
{
	*whole = (struct kp_run){ .end = (uint32_t)text->s.n, .origin = KP_ORIGIN_TRUSTED };
	return text->n_runs
		       ? *text
		       : (struct kp_text){ .s = text->s, .runs = whole, .n_runs = text->s.n != 0 };
}

/* A stretch of the block that is being laid out. */
static size_t part(size_t *bytes, size_t n)
{
	size_t at = *bytes;
	*bytes = at + ((n + 7) & ~(size_t)7);
	return at;
}

static void put(void *to, const void *from, size_t n)
{
	if (n) {
		memcpy(to, from, n);
	}
}

/* Bytes of all packed ids of n's prompt before id number `to`, one of n's own. */
static size_t packed_to(const struct kp_prompt_node *n, uint32_t to)
{
	size_t k = to - n->from.ids, rest = n->n_ids - to, at = n->packed.n;
	if (k < rest) {
		return n->from_packed + kp_wire_varints_size(n->packed, k);
	}
	while (rest) { /* the place is mostly near the end: back over the last byte of each */
		at--;
		while (at && n->packed.p[at - 1] & 0x80) {
			at--;
		}
		rest--;
	}
	return n->from_packed + at;
}

struct kp_prompt_node *kp_prompt_node_create(const struct kp_prompt_place *at, kp_str scope,
	const struct kp_text *given, const struct kp_ids *ids, kp_str packed,
	const struct kp_cuts *cuts, const uint64_t *hashes, size_t n_hashes, size_t max_bytes)
{
	struct kp_run whole;
	struct kp_text text = with_runs(given, &whole);
	struct kp_cut from = at->node ? at->cut : (struct kp_cut){ 0, 0 };
	size_t first = run_at(text.runs, text.n_runs, from.text),
	       bytes = sizeof(struct kp_prompt_node);
	size_t n_runs = text.n_runs - first, n_text = text.s.n - from.text,
	       n_ids = ids->p ? ids->n - from.ids : 0,
	       before = at->node && ids->p ? packed_to(at->node, from.ids) : 0;
	/* No overflow: all of it is in memory already. */
	size_t slots_at = part(&bytes, n_hashes * sizeof(struct kp_prompt_slot)),
	       ids_at = part(&bytes, n_ids * sizeof(kp_id)),
	       cuts_at = part(&bytes, cuts->n * sizeof(struct kp_cut)),
	       runs_at = part(&bytes, n_runs * sizeof(struct kp_run)),
	       text_at = part(&bytes, n_text), packed_at = part(&bytes, packed.n - before),
	       scope_at = part(&bytes, at->node ? 0 : scope.n),
	       depth = at->node ? at->node->depth + 1 : 0,
	       line_at = part(&bytes, depth * sizeof(struct kp_prompt_node *));
	char *p = bytes <= max_bytes ? kp_try_malloc(bytes) : NULL;
	if (!p) {
		return NULL;
	}
	struct kp_prompt_node *n = (void *)p;
	*n = (struct kp_prompt_node){ .parent = at->node,
		.depth = (unsigned)depth,
		.line = (void *)(p + line_at),
		.bytes = bytes,
		.from = from,
		.end = (uint32_t)text.s.n,
		.n_ids = (uint32_t)ids->n,
		.text = p + text_at,
		.runs = (const void *)(p + runs_at),
		.ids = (const void *)(p + ids_at),
		.cuts = (const void *)(p + cuts_at),
		.packed = { p + packed_at, packed.n - before },
		.from_packed = before,
		.n_runs = n_runs,
		.n_cuts = cuts->n,
		.slots = (void *)(p + slots_at),
		.n_slots = n_hashes };
	kp_ref_init(&n->ref);
	put(p + ids_at, n_ids ? ids->p + from.ids : NULL, n_ids * sizeof(kp_id));
	put(p + cuts_at, cuts->p, cuts->n * sizeof(struct kp_cut));
	put(p + runs_at, text.runs + first, n_runs * sizeof(struct kp_run));
	put(p + text_at, text.s.p + from.text, n_text);
	put(p + packed_at, packed.p + before, packed.n - before);
	if (at->node) {
		put(p + line_at, at->node->line, (depth - 1) * sizeof(struct kp_prompt_node *));
		memcpy(p + line_at + (depth - 1) * sizeof(struct kp_prompt_node *), &at->node,
			sizeof(at->node));
		kp_ref_get(&at->node->ref);
	} else {
		put(p + scope_at, scope.p, scope.n);
		n->scope = kp_str_n(p + scope_at, scope.n);
	}
	for (size_t i = 0; i < n_hashes; i++) {
		n->slots[i] = (struct kp_prompt_slot){ .hash = hashes[i], .node = n };
	}
	return n;
}

void kp_prompt_node_unref(struct kp_prompt_node *n)
{
	while (n && kp_ref_put(&n->ref)) {
		struct kp_prompt_node *parent = n->parent;
		if (n->more) {
			n->more_free(n->more);
		}
		kp_mem_free(n);
		n = parent;
	}
}

/* How many bytes of a and b agree. */
static size_t agree(const char *a, const char *b, size_t n)
{
	enum { STEP = 512 };
	size_t at = 0;
	while (n - at > STEP && memcmp(a + at, b + at, STEP) == 0) {
		at += STEP;
	}
	if (n - at <= STEP && memcmp(a + at, b + at, n - at) == 0) {
		return n;
	}
	while (a[at] == b[at]) { /* they differ before n */
		at++;
	}
	return at;
}

/* The first place in [at, to) where the origins of n's text and of `text` differ; `to`: none. */
static size_t agree_origins(
	const struct kp_prompt_node *n, const struct kp_text *text, size_t at, size_t to)
{
	size_t i = run_at(n->runs, n->n_runs, (uint32_t)at),
	       k = run_at(text->runs, text->n_runs, (uint32_t)at);
	while (at < to) {
		const struct kp_run *a = &n->runs[i], *b = &text->runs[k];
		if (a->origin != b->origin) {
			return at;
		}
		at = KP_MIN(a->end, b->end);
		while (i < n->n_runs && n->runs[i].end <= at) {
			i++;
		}
		while (k < text->n_runs && text->runs[k].end <= at) {
			k++;
		}
	}
	return to;
}

/* Up to which place n's text is `text`'s, from n's begin to `to` at most. */
static size_t common(const struct kp_prompt_node *n, const struct kp_text *text, size_t to)
{
	size_t at = n->from.text;
	to = at + agree(n->text, text->s.p + at, to - at);
	return agree_origins(n, text, at, to);
}

/* The last cut of n that is not behind `same`; n's begin: there is none. */
static struct kp_cut last_cut(const struct kp_prompt_node *n, size_t same)
{
	size_t lo = 0, hi = n->n_cuts;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (n->cuts[mid].text <= same) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo ? n->cuts[lo - 1] : n->from;
}

/* A node's begin is a cut of its parent; a root's is none. */
static struct kp_prompt_place settle(struct kp_prompt_place at)
{
	while (!at.is_exact && at.node->parent && at.cut.text == at.node->from.text) {
		at.node = at.node->parent;
	}
	return at.cut.text ? at : (struct kp_prompt_place){ 0 };
}

/* All texts down to n. */
static void prefetch_texts(const struct kp_prompt_node *n)
{
	for (size_t i = n->depth; i-- > 0;) {
		kp_prefetch(n->line[i], sizeof(*n));
	}
	kp_prefetch(n->text, n->end - n->from.text);
	for (size_t i = n->depth; i-- > 0;) {
		const struct kp_prompt_node *above = n->line[i];
		kp_prefetch(above->text, above->end - above->from.text);
	}
}

struct kp_prompt_place kp_prompt_node_match(
	struct kp_prompt_node *n, kp_str scope, const struct kp_text *given)
{
	struct kp_run whole;
	struct kp_text text = with_runs(given, &whole);
	struct kp_prompt_place none = { 0 }, at = { .node = n, .cut = n->from };
	if (n->from.text > text.s.n) {
		return none;
	}
	prefetch_texts(n);
	size_t same = common(n, &text, KP_MIN((size_t)n->end, text.s.n));
	if (same == n->end && same == text.s.n) {
		at.is_exact = true;
		at.cut = (struct kp_cut){ .text = n->end, .ids = n->n_ids };
	} else {
		at.cut = last_cut(n, same);
	}
	/* The stretch of each node above, up to where the one below begins. */
	for (size_t to = n->from.text; n->parent; to = n->from.text) {
		n = n->parent;
		if (common(n, &text, to) != to) {
			return none;
		}
	}
	if (!kp_str_eq(n->scope, scope)) {
		return none;
	}
	return settle(at);
}

struct kp_prompt_place kp_prompt_node_place(
	struct kp_prompt_node *n, const struct kp_text *text, size_t same)
{
	struct kp_prompt_place at = { .node = n };
	if (same == n->end && same == text->s.n) {
		at.is_exact = true;
		at.cut = (struct kp_cut){ .text = n->end, .ids = n->n_ids };
		return at;
	}
	while (at.node->parent && at.node->from.text > same) {
		at.node = at.node->parent;
	}
	at.cut = last_cut(at.node, same);
	return settle(at);
}

bool kp_prompt_node_agrees(
	const struct kp_prompt_node *n, const struct kp_text *given, size_t from, size_t to)
{
	struct kp_run whole;
	struct kp_text text = with_runs(given, &whole);
	/* From the root on, since most is asked of the begin; those between lie anywhere in memory. */
	for (size_t i = 0; from < to && i <= n->depth; i++) {
		const struct kp_prompt_node *m = i < n->depth ? n->line[i] : n,
					    *next = i + 1 < n->depth ? n->line[i + 1] : n;
		size_t end = KP_MIN(to, m == n ? n->end : next->from.text);
		if (from < end) {
			if (memcmp(m->text + (from - m->from.text), text.s.p + from, end - from) !=
					0 ||
				agree_origins(m, &text, from, end) != end) {
				return false;
			}
			from = end;
		}
	}
	return from >= to;
}

void kp_prompt_node_copy(const struct kp_prompt_node *n, char *out, size_t from, size_t to)
{
	for (; n && from < to; n = n->parent) {
		size_t begin = KP_MAX(from, (size_t)n->from.text);
		if (begin < to) {
			memcpy(out + begin, n->text + (begin - n->from.text), to - begin);
			to = begin;
		}
	}
}

uint64_t kp_prompt_node_hash(const struct kp_prompt_node *n, size_t n_blocks)
{
	while (n->parent && n_blocks * KP_PROMPT_BLOCK <= n->from.text) {
		n = n->parent;
	}
	return n->slots[n_blocks - 1 - n->from.text / KP_PROMPT_BLOCK].hash;
}

kp_str kp_prompt_node_scope(const struct kp_prompt_node *n)
{
	return n->depth ? n->line[0]->scope : n->scope;
}

/* The packed ids up to the place. */
static void put_packed(const struct kp_prompt_place *at, struct kp_buf *out)
{
	size_t to = at->node ? packed_to(at->node, at->cut.ids) : 0;
	if (!kp_buf_reserve(out, to)) {
		return;
	}
	char *base = out->p + out->n;
	out->n += to;
	for (const struct kp_prompt_node *n = at->node; n; n = n->parent) {
		put(base + n->from_packed, n->packed.p, to - n->from_packed);
		to = n->from_packed;
	}
}

void kp_prompt_place_ids(
	const struct kp_prompt_place *at, struct kp_ids *out, struct kp_buf *packed)
{
	if (!kp_ids_reserve(out, at->cut.ids)) {
		return;
	}
	for (const struct kp_prompt_node *n = at->node; n; n = n->parent) {
		kp_prefetch(n->ids, (n->n_ids - n->from.ids) * sizeof(kp_id));
		kp_prefetch(n->packed.p, packed ? n->packed.n : 0);
	}
	if (packed) {
		put_packed(at, packed);
	}
	size_t to = at->cut.ids;
	for (const struct kp_prompt_node *n = at->node; n; n = n->parent) {
		put(out->p + out->n + n->from.ids, n->ids, (to - n->from.ids) * sizeof(kp_id));
		to = n->from.ids;
	}
	out->n += at->cut.ids;
}

/* How many of n's cuts are not behind `text`. */
static size_t cuts_to(const struct kp_prompt_node *n, uint32_t text)
{
	size_t k = n->n_cuts;
	while (k && n->cuts[k - 1].text > text) {
		k--;
	}
	return k;
}

size_t kp_prompt_place_n_cuts(const struct kp_prompt_place *at)
{
	size_t count = 0;
	uint32_t to = at->cut.text;
	for (const struct kp_prompt_node *n = at->node; n; n = n->parent) {
		count += cuts_to(n, to);
		to = n->from.text;
	}
	return count;
}

void kp_prompt_place_cuts(const struct kp_prompt_place *at, struct kp_cut *out)
{
	size_t end = kp_prompt_place_n_cuts(at);
	uint32_t to = at->cut.text;
	for (const struct kp_prompt_node *n = at->node; n; n = n->parent) {
		size_t k = cuts_to(n, to);
		end -= k;
		put(out + end, n->cuts, k * sizeof(*out));
		to = n->from.text;
	}
}
