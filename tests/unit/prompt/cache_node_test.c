/* Matching against the obvious way: what a line of nodes has in common with a text, whatever a hash said. And that a table whose hashes all meet gives
   nothing wrong, keeps its budget and its order. */
#include "base/mem.h"
#include "prompt/cache_hash.h"
#include "prompt/cache_table.h"
#include "wire/list.h"
#include "tests/test.h"

enum { TEXT = 400, LINE = 5 };

/* A prompt with origins, ids and cuts that are made up: id i stands for the bytes up to the i-th even place. */
struct prompt {
	char s[TEXT];
	struct kp_run runs[TEXT];
	kp_id id[TEXT / 2 + 1];
	struct kp_cut cut[TEXT];
	struct kp_text text;
	struct kp_ids ids;
	size_t n_cuts;
};

static uint32_t origin_of(const struct prompt *p, size_t at)
{
	size_t i = 0;
	while (p->runs[i].end <= at) {
		i++;
	}
	return p->runs[i].origin;
}

/* The first `keep` bytes are `from`'s, ids and cuts depend on what stands before them. */
static void make(struct prompt *p, struct kp_rng *r, const struct prompt *from, size_t keep)
{
	size_t n = keep + 1 + kp_rng_below(r, TEXT - keep - 1), n_runs = 0;
	uint32_t origin[TEXT];
	memset(p, 0, sizeof(*p));
	for (size_t i = 0; i < n; i++) {
		p->s[i] = i < keep ? from->s[i] : (char)('a' + kp_rng_below(r, 2));
		origin[i] = i < keep                  ? origin_of(from, i)
			    : i && kp_rng_below(r, 8) ? origin[i - 1]
						      : (uint32_t)kp_rng_below(r, 2);
	}
	for (size_t i = 1; i <= n; i++) {
		if (i == n || origin[i] != origin[i - 1] || kp_rng_below(r, 50) == 0) {
			p->runs[n_runs++] = (struct kp_run){ (uint32_t)i, origin[i - 1] };
		}
	}
	uint32_t sum = 0;
	for (size_t i = 0; i < n; i++) {
		sum = sum * 31 + (uint8_t)p->s[i] + origin[i];
		if (i % 2) {
			p->id[p->ids.n++] = sum;
		}
		if (i % 2 && sum % 10 == 0) {
			p->cut[p->n_cuts++] =
				(struct kp_cut){ (uint32_t)i + 1, (uint32_t)p->ids.n };
		}
	}
	p->ids.p = p->id;
	p->text = (struct kp_text){ kp_str_n(p->s, n), p->runs, n_runs };
}

static size_t common(const struct prompt *a, const struct prompt *b)
{
	size_t i = 0;
	while (i < a->text.s.n && i < b->text.s.n && a->s[i] == b->s[i] &&
		origin_of(a, i) == origin_of(b, i)) {
		i++;
	}
	return i;
}

/* A child of `at`, or a root. */
static struct kp_prompt_node *node(const struct prompt *p, const struct kp_prompt_place *at)
{
	static const uint64_t hash = 1;
	struct kp_cut rest[TEXT];
	struct kp_cuts cuts = { .p = rest };
	for (size_t i = 0; i < p->n_cuts; i++) {
		if (p->cut[i].text > at->cut.text) {
			rest[cuts.n++] = p->cut[i];
		}
	}
	KP_AUTO(buf) struct kp_buf packed;
	kp_buf_init(&packed, TEXT * 5);
	kp_wire_add_varints(&packed, p->ids.p, p->ids.n);
	return kp_prompt_node_create(at, KP_S("scope"), &p->text, &p->ids, kp_buf_str(&packed),
		&cuts, &hash, 1, SIZE_MAX);
}

static void check(struct kp_prompt_node *n, const struct prompt *kept, const struct prompt *asked)
{
	struct kp_prompt_place at = kp_prompt_node_match(n, KP_S("scope"), &asked->text);
	size_t same = common(kept, asked), want = 0;
	bool exact = same == kept->text.s.n && same == asked->text.s.n;
	for (size_t i = 0; i < kept->n_cuts; i++) {
		want = kept->cut[i].text <= same ? kept->cut[i].text : want;
	}
	/* What differs above the node is nothing it can be asked for. */
	if (!exact && n->parent && same < n->from.text) {
		want = 0;
	}
	want = exact ? same : want;
	assert_int_equal(at.node ? at.cut.text : 0, want);
	assert_int_equal(at.node && at.is_exact, exact);
	if (at.node) {
		struct kp_ids ids;
		kp_ids_init(&ids, TEXT);
		KP_AUTO(buf) struct kp_buf packed;
		KP_AUTO(buf) struct kp_buf want_packed;
		kp_buf_init(&packed, TEXT * 5);
		kp_buf_init(&want_packed, TEXT * 5);
		kp_prompt_place_ids(&at, &ids, &packed);
		assert_int_equal(ids.n, exact ? asked->ids.n : want / 2);
		assert_memory_equal(ids.p, asked->id, ids.n * sizeof(kp_id));
		kp_wire_add_varints(&want_packed, ids.p, ids.n);
		assert_true(kp_str_eq(kp_buf_str(&packed), kp_buf_str(&want_packed)));
		kp_ids_fini(&ids);
		struct kp_cut cuts[TEXT];
		size_t n_cuts = kp_prompt_place_n_cuts(&at);
		kp_prompt_place_cuts(&at, cuts);
		for (size_t i = 0; i < n_cuts; i++) {
			assert_memory_equal(&cuts[i], &kept->cut[i], sizeof(cuts[i]));
		}
		assert_true(n_cuts == kept->n_cuts || kept->cut[n_cuts].text > at.cut.text);
	}
	assert_null(kp_prompt_node_match(n, KP_S("Scope"), &asked->text).node);
	assert_null(kp_prompt_node_match(n, KP_S("scop"), &asked->text).node);
}

/* What is asked of a node by who knows how much a text has in common with it. */
static void check_known(struct kp_prompt_node *n, const struct prompt *kept,
	const struct prompt *asked, struct kp_rng *r)
{
	size_t same = common(kept, asked), end = KP_MIN(kept->text.s.n, asked->text.s.n),
	       to = kp_rng_below(r, end + 1), from = kp_rng_below(r, to + 1), want = 0;
	bool exact = same == kept->text.s.n && same == asked->text.s.n, agrees = true;
	for (size_t i = from; i < to; i++) {
		agrees = agrees && kept->s[i] == asked->s[i] &&
			 origin_of(kept, i) == origin_of(asked, i);
	}
	assert_int_equal(kp_prompt_node_agrees(n, &asked->text, from, to), agrees);
	for (size_t i = 0; i < kept->n_cuts; i++) {
		want = kept->cut[i].text <= same ? kept->cut[i].text : want;
	}
	struct kp_prompt_place at = kp_prompt_node_place(n, &asked->text, same);
	assert_int_equal(at.node ? at.cut.text : 0, exact ? same : want);
	assert_int_equal(at.node && at.is_exact, exact);
	char out[TEXT + 1] = { 0 }, is[TEXT + 1] = { 0 };
	memcpy(is + from, kept->s + from, to - from);
	kp_prompt_node_copy(n, out, from, to);
	assert_memory_equal(out, is, sizeof(out));
	assert_str_lit(kp_prompt_node_scope(n), "scope");
}

static void matches_the_obvious_way(void **state)
{
	(void)state;
	static struct prompt p[LINE], asked;
	struct kp_rng r;
	size_t exact = 0;
	kp_rng_seed(&r, test_seed());
	for (int k = 0; k < 3000; k++) {
		struct kp_prompt_node *n[LINE];
		struct kp_prompt_place at = { 0 };
		size_t lines = 0;
		make(&p[0], &r, NULL, 0);
		n[lines++] = node(&p[0], &at);
		while (lines < LINE) {
			const struct prompt *above = &p[lines - 1];
			if (above->n_cuts == 0) {
				break;
			}
			struct kp_cut cut = above->cut[kp_rng_below(&r, above->n_cuts)];
			if (cut.text > TEXT - 50 || cut.text < n[lines - 1]->from.text) {
				break;
			}
			make(&p[lines], &r, above, cut.text);
			struct prompt want = p[lines];
			at = kp_prompt_node_match(n[lines - 1], KP_S("scope"), &want.text);
			if (!at.node || at.is_exact) {
				break;
			}
			n[lines] = node(&p[lines], &at);
			lines++;
		}
		for (size_t i = 0; i < lines; i++) {
			for (int times = 0; times < 6; times++) {
				const struct prompt *from = &p[kp_rng_below(&r, lines)];
				size_t keep =
					kp_rng_below(&r, KP_MIN(from->text.s.n, (size_t)TEXT - 2));
				make(&asked, &r, from, keep);
				check(n[i], &p[i], times ? &asked : &p[i]);
				check_known(n[i], &p[i], times ? &asked : &p[i], &r);
				exact += times == 0;
			}
		}
		for (size_t i = 0; i < lines; i++) {
			kp_prompt_node_unref(n[i]);
		}
	}
	assert_true(exact > 3000);
}

/* Every hash the same: all texts meet, all are compared. */
static void hashes_that_meet_are_harmless(void **state)
{
	(void)state;
	static struct prompt p[40];
	static const uint64_t hashes[] = { 7, 7, 7, 7 };
	struct kp_rng r;
	struct kp_prompt_cache_stats stats;
	kp_rng_seed(&r, test_seed());
	struct kp_prompt_table *t = kp_prompt_table_create(64 << 10);
	struct kp_prompt_place none = { 0 };
	for (size_t i = 0; i < KP_LEN(p); i++) {
		make(&p[i], &r, NULL, 0);
		struct kp_prompt_node *found[KP_PROMPT_FOUND];
		size_t n = kp_prompt_table_find(t, hashes, KP_LEN(hashes), found);
		assert_int_equal(n, i ? 1 : 0);
		for (size_t k = 0; k < n; k++) {
			check(found[k], &p[0], &p[i]);
			kp_prompt_node_unref(found[k]);
		}
		struct kp_prompt_node *kept = node(&p[i], &none);
		kept->slots[0].hash = 7;
		kp_prompt_table_add(t, hashes, KP_LEN(hashes), kept);
		kp_prompt_table_stats(t, &stats);
		assert_int_equal(stats.entries, 1); /* the whole seems to be there */
	}
	kp_prompt_table_destroy(t);
}

/* The one that was not used for the longest time goes first, whatever shard it is in; a node with others below it never before them. */
static void the_oldest_goes_first(void **state)
{
	(void)state;
	enum { N = 64 };
	static struct prompt p[N];
	struct kp_rng r;
	struct kp_prompt_cache_stats stats;
	size_t last_use[N] = { 0 };
	bool there[N];
	kp_rng_seed(&r, test_seed());
	struct kp_prompt_table *t = kp_prompt_table_create(24 << 10);
	struct kp_prompt_place none = { 0 };
	for (size_t now = 1; now < 3000; now++) {
		size_t i = kp_rng_below(&r, N);
		uint64_t hash = (uint64_t)i << 33 | i;
		struct kp_prompt_node *found[KP_PROMPT_FOUND];
		if (!kp_prompt_table_find(t, &hash, 1, found)) {
			make(&p[i], &r, NULL, 0);
			struct kp_prompt_node *n = node(&p[i], &none);
			n->slots[0].hash = hash;
			kp_prompt_table_add(t, &hash, 1, n);
		} else {
			kp_prompt_node_unref(found[0]);
		}
		last_use[i] = now;
		kp_prompt_table_stats(t, &stats);
		assert_true(stats.bytes <= 24 << 10);
		if (now % 100) {
			continue;
		}
		/* Those that are there were all used later than those that are not. */
		size_t gone = 0, kept = SIZE_MAX, order[N], n = 0;
		for (size_t k = 0; k < N; k++) {
			order[n++] = k;
		}
		for (size_t a = 0; a < n;
			a++) { /* asks in the order of use, so that asking changes nothing */
			for (size_t b = a + 1; b < n; b++) {
				if (last_use[order[b]] < last_use[order[a]]) {
					size_t x = order[a];
					order[a] = order[b];
					order[b] = x;
				}
			}
			size_t k = order[a];
			hash = (uint64_t)k << 33 | k;
			there[k] = kp_prompt_table_find(t, &hash, 1, found) > 0;
			if (there[k]) {
				kp_prompt_node_unref(found[0]);
				kept = KP_MIN(kept, last_use[k]);
			} else {
				gone = KP_MAX(gone, last_use[k]);
			}
		}
		assert_true(gone < kept);
	}
	assert_true(stats.evictions > 100 && stats.entries > 5);
	kp_prompt_table_destroy(t);
}

/* Lines of nodes, used in turn: whoever was used last stays longest, of a line the end goes first, and all of it before anything of the next one. */
static void lines_go_from_their_ends(void **state)
{
	(void)state;
	enum { LINES = 6, DEEP = 4, MORE = 200 };
	struct prompt p[DEEP];
	struct kp_prompt_node *of[LINES][DEEP], *found[KP_PROMPT_FOUND];
	struct kp_rng r;
	kp_rng_seed(&r, test_seed());
	struct kp_prompt_table *t = kp_prompt_table_create(256 << 10);
	for (size_t i = 0; i < LINES; i++) {
		uint64_t hashes[DEEP];
		struct kp_prompt_place at = { 0 };
		for (size_t k = 0; k < DEEP; k++) {
			hashes[k] = (uint64_t)(i % 3) << 33 | (i * DEEP + k + 1);
			do {
				make(&p[k], &r, k ? &p[k - 1] : NULL, at.cut.text);
			} while (!p[k].n_cuts || p[k].cut[p[k].n_cuts - 1].text <= at.cut.text);
			struct kp_prompt_node *n = of[i][k] = node(&p[k], &at);
			size_t nearest = 0;
			while (p[k].cut[nearest].text <= at.cut.text) {
				nearest++;
			}
			at = (struct kp_prompt_place){ .node = n, .cut = p[k].cut[nearest] };
			n->slots[0].hash = hashes[k];
			kp_ref_get(&n->ref);
			kp_prompt_table_add(t, hashes, k + 1, n);
			assert_true(n->is_kept);
		}
	}
	/* The even ones are used again, the last of them first. */
	for (size_t i = LINES; i >= 2; i -= 2) {
		uint64_t hash[] = { (uint64_t)((i - 2) % 3) << 33 | ((i - 2) * DEEP + 1),
			(uint64_t)((i - 2) % 3) << 33 | ((i - 2) * DEEP + DEEP) };
		assert_int_equal(kp_prompt_table_find(t, hash, 2, found), 1);
		kp_prompt_node_unref(found[0]);
	}
	static const size_t order[LINES] = { 1, 3, 5, 4, 2, 0 };
	size_t gone = 0;
	for (size_t m = 0; m < MORE; m++) {
		const struct kp_prompt_place none = { 0 };
		uint64_t hash = (uint64_t)(m % 16) << 32 | (1000 + m);
		make(&p[0], &r, NULL, 0);
		struct kp_prompt_node *n = node(&p[0], &none);
		n->slots[0].hash = hash;
		kp_prompt_table_add(t, &hash, 1, n);
		bool is_there = false;
		gone = 0;
		for (size_t i = 0; i < LINES; i++) {
			for (size_t k = DEEP; k-- > 0;) {
				const struct kp_prompt_node *x = of[order[i]][k];
				assert_true(x->is_kept || !is_there);
				is_there |= x->is_kept;
				gone += !x->is_kept;
				assert_int_equal(
					kp_list_linked(&x->lru), x->is_kept && !x->n_children);
			}
		}
	}
	assert_int_equal(gone, LINES * DEEP);
	for (size_t i = 0; i < LINES * DEEP; i++) {
		kp_prompt_node_unref(of[i / DEEP][i % DEEP]);
	}
	kp_prompt_table_destroy(t);
}

/* A line of nodes knows the hash of each block, wherever they begin; and what follows is hashed from there. */
static void hashes_of_beginnings(void **state)
{
	(void)state;
	enum { LONG = 4000 };
	char s[LONG];
	struct kp_rng r;
	struct kp_prompt_hash_key key;
	uint64_t want[LONG / KP_PROMPT_BLOCK + 1], rest[LONG / KP_PROMPT_BLOCK + 1];
	const struct kp_ids none = { 0 };
	const struct kp_cuts no_cuts = { 0 };
	kp_rng_seed(&r, test_seed());
	kp_prompt_hash_key_make(&key);
	for (size_t i = 0; i < LONG; i++) {
		s[i] = (char)kp_rng_below(&r, 256);
	}
	for (int times = 0; times < 1000; times++) {
		struct kp_prompt_place at = { 0 };
		while (!at.node || at.node->depth < LINE) {
			size_t end = KP_MIN(at.cut.text + 1 + kp_rng_below(&r, 900), (size_t)LONG),
			       first = at.cut.text / KP_PROMPT_BLOCK;
			const struct kp_text text = kp_text_trusted(kp_str_n(s, end));
			size_t n = kp_prompt_hash(&key, KP_S("scope"), &text, want);
			struct kp_prompt_node *node =
				kp_prompt_node_create(&at, KP_S("scope"), &text, &none, KP_STR_NULL,
					&no_cuts, want + first, n - first, SIZE_MAX);
			for (size_t k = 1; k < n; k++) {
				assert_int_equal(kp_prompt_node_hash(node, k), want[k - 1]);
				assert_int_equal(
					kp_prompt_hash_rest(&key, want[k - 1], k, &text, rest),
					n - k);
				assert_memory_equal(rest, want + k, (n - k) * sizeof(*rest));
			}
			kp_prompt_node_unref(at.node);
			at.node = node;
			at.cut.text += (uint32_t)kp_rng_below(&r, end - at.cut.text + 1);
		}
		kp_prompt_node_unref(at.node);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches_the_obvious_way),
		cmocka_unit_test(hashes_of_beginnings),
		cmocka_unit_test(hashes_that_meet_are_harmless),
		cmocka_unit_test(the_oldest_goes_first),
		cmocka_unit_test(lines_go_from_their_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
