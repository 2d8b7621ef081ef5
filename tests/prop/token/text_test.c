/* Properties of a BPE over text that is cut into pieces (borders.h): the ids are those of merging each line as a whole, the obvious way, for vocabularies whose
   merges of blanks come first, as Gemma's, and for others. Line ends are added tokens, so pieces of several lines are looked up together; in some vocabularies so are rows of them,
   of which some need not be searched for (rows.c): with and without that the ids are the same, whoever may write which row. */
#include "tests/unit/token/naive.h"

enum { MAX = 1024 };
static struct made made;
static uint16_t rank[MAX][MAX]; /* UINT16_MAX: never */
static const char *const chars[] = { "▁", "a", "b", "c", "(", "-", "é", "中", "я", "_", "=" };
enum { FIRST = 257, NEWLINE = 256, MOST_LINES = KP_ROW_MIN + 2 };
static uint32_t lines[MOST_LINES + 1]; /* ids of rows of line ends */
static size_t n_lines;
/* One row that may keep all of them from being pieces: it is matched otherwise (KP_ADDED_*), is no added token, or there is one that goes on with "(". */
static struct {
	size_t line;
	uint8_t flags;
	bool goes_on;
} odd;

static void add_token(kp_str s)
{
	made.token[made.n_tokens++] = kp_arena_printf(made.arena, "%" KP_FMT, KP_ARG(s));
}

static void join_blanks(struct kp_rng *r, size_t most)
{
	uint32_t row[16] = { 0, FIRST };
	for (size_t n = 2; n <= most; n++) {
		row[n] = (uint32_t)made.n_tokens;
		for (size_t k = 1; k < n; k++) {
			if (k == 1 || kp_rng_below(r, 4)) {
				made_join(&made, row[n - k], row[k]);
			}
		}
	}
	for (size_t i = made.n_merges; kp_rng_below(r, 2) && i > 1; i--) {
		size_t k = kp_rng_below(r, i);
		struct made_merge x = made.merge[i - 1];
		made.merge[i - 1] = made.merge[k];
		made.merge[k] = x;
	}
}

/* Rows of line ends up to `most`, of which not all are what merging gives if some merges are missing. */
static void join_lines(struct kp_rng *r, size_t most, bool all)
{
	lines[1] = NEWLINE;
	for (n_lines = 1; n_lines < most; n_lines++) {
		lines[n_lines + 1] = (uint32_t)made.n_tokens;
		for (size_t k = 1; k <= n_lines; k++) {
			if (k == 1 || all || kp_rng_below(r, 2)) {
				made_join(&made, lines[n_lines + 1 - k], lines[k]);
			}
		}
	}
}

/* Pairs of letters of as many alphabets as have tables: what comes later has none. */
static void fill_tables(void)
{
	uint32_t first = (uint32_t)made.n_tokens;
	for (uint32_t i = 0; i < 17; i++) {
		char text[4];
		add_token(kp_str_n(text, kp_utf8_encode(0x1000 + 128 * i, text)));
	}
	for (uint32_t i = 0; i < 17 * 17; i++) {
		made_join(&made, first + i / 17, first + i % 17);
	}
}

static void make(struct kp_rng *r, unsigned v)
{
	bool first = v % 4, full = v % 5 == 0;
	char name[8];
	made = (struct made){ .arena = kp_arena_create(16 << 20) };
	for (unsigned c = 0; c < 256; c++) {
		int n = snprintf(name, sizeof(name), "<0x%02X>", c);
		add_token(kp_str_n(name, (size_t)n));
	}
	add_token(KP_S("\n"));
	for (size_t i = 0; i < KP_LEN(chars) - 1; i++) { /* "=" is not known */
		add_token(kp_str_c(chars[i]));
	}
	join_lines(r, v % 3 ? KP_ROW_MIN - 1 + kp_rng_below(r, 4) : 1, v % 7 != 0);
	if (full) {
		fill_tables();
	}
	if (first) {
		join_blanks(r, 2 + kp_rng_below(r, 14));
	}
	size_t n = made.n_merges + kp_rng_below(r, 120);
	while (made.n_merges < n) {
		uint32_t side[2];
		for (size_t k = 0; k < 2; k++) {
			bool one = kp_rng_below(r, 3);
			side[k] = (uint32_t)(FIRST + kp_rng_below(r, one ? KP_LEN(chars) - 1
									 : made.n_tokens - FIRST));
		}
		kp_str l = made.token[side[0]], m = made.token[side[1]];
		bool has_line = kp_str_find(l, KP_S("\n")) >= 0 || kp_str_find(m, KP_S("\n")) >= 0;
		if (l.n + m.n <= 24 && (v % 6 == 5 || !has_line)) {
			made_join(&made, side[0], side[1]);
		}
	}
	memset(rank, 0xff, sizeof(rank));
	for (size_t i = 0; i < made.n_merges; i++) {
		rank[made.merge[i].left][made.merge[i].right] = (uint16_t)i;
	}
}

static const char *flag(size_t line, uint8_t which)
{
	return line == odd.line && (odd.flags & which) ? "true" : "false";
}

static void added_token(struct kp_buf *json, size_t line, size_t id, kp_str content)
{
	kp_buf_printf(
		json, "%s{\"id\":%zu,\"content\":", json->p[json->n - 1] == '[' ? "" : ",", id);
	kp_json_w_str(json, content);
	kp_buf_printf(json,
		",\"single_word\":%s,\"lstrip\":%s,\"rstrip\":%s,\"normalized\":%s,\"special\":false}",
		flag(line, KP_ADDED_WORD), flag(line, KP_ADDED_LSTRIP), flag(line, KP_ADDED_RSTRIP),
		flag(line, KP_ADDED_NORMALIZED));
}

static struct kp_tokenizer *load(void)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	struct kp_buf json;
	kp_buf_init(&json, 1 << 20);
	kp_buf_lit(&json, "{\"version\":\"1.0\",\"added_tokens\":[");
	for (size_t i = 1; i <= n_lines; i++) {
		if (i != odd.line || odd.flags) {
			added_token(&json, i, lines[i], made.token[lines[i]]);
		}
	}
	if (odd.goes_on) {
		added_token(&json, MAX, made.n_tokens, KP_S("\n("));
	}
	kp_buf_lit(&json,
		"],\"normalizer\":{\"type\":\"Replace\",\"pattern\":"
		"{\"String\":\" \"},\"content\":\"▁\"},\"pre_tokenizer\":null,\"decoder\":null,\"model\":{\"type\":\"BPE\","
		"\"byte_fallback\":true,\"unk_token\":null,\"vocab\":{");
	for (size_t i = 0; i < made.n_tokens; i++) {
		kp_buf_printf(&json, i ? "," : "");
		kp_json_w_str(&json, made.token[i]);
		kp_buf_printf(&json, ":%zu", i);
	}
	kp_buf_lit(&json, "},\"merges\":[");
	for (size_t i = 0; i < made.n_merges; i++) {
		kp_buf_printf(&json, i ? ",[" : "[");
		kp_json_w_str(&json, made.token[made.merge[i].left]);
		kp_buf_lit(&json, ",");
		kp_json_w_str(&json, made.token[made.merge[i].right]);
		kp_buf_lit(&json, "]");
	}
	kp_buf_lit(&json, "]}}");
	if (kp_tokenizer_from_hf(kp_buf_str(&json), KP_STR_NULL, &t, &err)) {
		print_error("%s\n", err.msg);
		fail();
	}
	kp_buf_fini(&json);
	assert_true(t->cut_text);
	return t;
}

/* Merges the symbols from `from` on. */
static void merge_line(struct kp_ids *ids, size_t from)
{
	for (;;) {
		size_t at = 0, best = UINT16_MAX;
		for (size_t i = from; i + 1 < ids->n; i++) {
			uint16_t x = rank[ids->p[i]][ids->p[i + 1]];
			at = x < best ? i : at;
			best = KP_MIN(best, (size_t)x);
		}
		if (best == UINT16_MAX) {
			return;
		}
		ids->p[at] = made.merge[best].product;
		memmove(ids->p + at + 1, ids->p + at + 2, (ids->n - at - 2) * sizeof(kp_id));
		ids->n--;
	}
}

/* Some line ends, perhaps behind others: the longest token again and again. */
static void add_lines(struct kp_rng *r, struct kp_buf *text, struct kp_ids *want)
{
	size_t n = kp_rng_below(r, 2) ? 1 : 1 + kp_rng_below(r, kp_rng_below(r, 2) ? 20 : 100);
	size_t before = 0;
	while (before < text->n && text->p[text->n - 1 - before] == '\n') {
		before++;
	}
	for (size_t i = 0; i < n; i++) {
		kp_buf_addc(text, '\n');
	}
	want->n -= (before + n_lines - 1) / n_lines;
	n += before;
	for (size_t k; n; n -= k) {
		k = KP_MIN(n, n_lines);
		kp_ids_add(want, lines[k]);
	}
}

/* A text and what it becomes. */
static void random_text(struct kp_rng *r, size_t n, struct kp_buf *text, struct kp_ids *want)
{
	size_t begin = 0;
	kp_buf_reset(text);
	kp_ids_reset(want);
	/* A word of one to three letters that is one piece, perhaps. */
	size_t letters = 1 + kp_rng_below(r, 3);
	for (size_t k = n % 32 ? 0 : kp_rng_below(r, n ? 700 : 2500); k; k--) {
		size_t c = kp_rng_below(r, 1000) ? 1 + kp_rng_below(r, letters) : 6;
		kp_buf_addz(text, chars[c]);
		kp_ids_add(want, (kp_id)(FIRST + c));
	}
	while (n--) {
		uint64_t kind = kp_rng_below(r, 40);
		if (kind == 0) { /* perhaps beside others */
			merge_line(want, begin);
			add_lines(r, text, want);
			begin = want->n;
			continue;
		}
		size_t c = kp_rng_below(r, kind < 3 ? KP_LEN(chars) : 6);
		size_t times = kind < 30 ? 1 : kp_rng_below(r, kind < 38 ? 12 : 70);
		for (c = times == 1 ? c : 0; times; times--) {
			kp_buf_addz(text, c ? chars[c] : " ");
			kp_ids_add(want, c == KP_LEN(chars) - 1 ? (kp_id)'=' : (kp_id)(FIRST + c));
		}
	}
	merge_line(want, begin);
}

static void pieces_are_as_the_whole(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_rng r;
	struct kp_ids want, got;
	struct kp_buf text;
	size_t cut = 0, full = 0, rows = 0;
	kp_rng_seed(&r, test_seed());
	kp_ids_init(&want, 1 << 20);
	kp_ids_init(&got, 1 << 20);
	kp_buf_init(&text, 1 << 20);
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	odd.line = 0;
	odd.goes_on = false;
	for (int v = 0; v < 200; v++) {
		make(&r, (unsigned)v);
		struct kp_tokenizer *t = load();
		cut += t->model.borders.blanks > 0;
		rows += t->n_rows;
		full += t->model.borders.n_blocks == KP_BORDER_BLOCKS;
		for (int k = 0; k < 60; k++) {
			random_text(&r, kp_rng_below(&r, k % 8 ? 60 : 600), &text, &want);
			struct kp_text x = kp_text_trusted(kp_buf_str(&text));
			kp_ids_reset(&got);
			assert_int_equal(
				kp_tokenizer_encode(t, s, &x,
					&(struct kp_encode_opts){ .policy = NULL }, &got, &err),
				0);
			assert_ids(&got, &want, x.s);
		}
		kp_tokenizer_unref(t);
		kp_arena_destroy(made.arena);
	}
	assert_in_range(cut, 20, 180);
	assert_int_equal(full, 40);
	assert_in_range(rows, 50, 150);
	kp_token_scratch_destroy(s);
	kp_ids_fini(&want);
	kp_ids_fini(&got);
	kp_buf_fini(&text);
}

/* What a client wrote, by somebody whose rows of so many line ends (0: none) clients may not write. */
static void encode(const struct kp_tokenizer *t, struct kp_token_scratch *s, kp_str text,
	size_t ruled, bool guard, struct kp_ids *ret)
{
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(token_policy) struct kp_token_policy *p = NULL;
	const kp_id *id = &lines[ruled];
	const struct kp_run run = { (uint32_t)text.n, KP_ORIGIN_CLIENT };
	const struct kp_text x = { .s = text, .runs = &run, .n_runs = 1 };
	size_t n = ruled && !guard;
	assert_int_equal(kp_token_policy_create(t, KP_POLICY_MARKERS, id, n, NULL, 0, &p, &err), 0);
	if (ruled && guard) {
		bool is_added = ruled != odd.line || odd.flags;
		assert_int_equal(kp_token_policy_guard(p, t, *id), is_added);
	}
	kp_ids_reset(ret);
	assert_int_equal(
		kp_tokenizer_encode(t, s, &x, &(struct kp_encode_opts){ .policy = p }, ret, &err),
		0);
}

/* One that is as it should be in half of the cases. */
static void make_odd(struct kp_rng *r)
{
	static const uint8_t flags[] = { 0, KP_ADDED_WORD, KP_ADDED_LSTRIP, KP_ADDED_RSTRIP,
		KP_ADDED_NORMALIZED };
	uint64_t kind = kp_rng_below(r, 4);
	odd.flags = flags[kp_rng_below(r, KP_LEN(flags))];
	odd.line = kind || n_lines == 1 ? 0 : odd.flags ? 1 + kp_rng_below(r, 2) : n_lines - 1;
	odd.goes_on = kind == 1;
}

static void rows_are_as_searched(void **state)
{
	(void)state;
	struct kp_rng r;
	struct kp_ids want, got, none;
	struct kp_buf text;
	size_t rows = 0;
	kp_rng_seed(&r, test_seed());
	kp_ids_init(&want, 1 << 20);
	kp_ids_init(&got, 1 << 20);
	kp_ids_init(&none, 1 << 20);
	kp_buf_init(&text, 1 << 20);
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	for (int v = 0; v < 200; v++) {
		make(&r, (unsigned)v);
		make_odd(&r);
		struct kp_tokenizer *t = load(), *searched = load();
		rows += t->n_rows;
		searched->n_rows = 0;
		searched->sparse = searched->raw;
		for (int k = 0; k < 40; k++) {
			random_text(&r, kp_rng_below(&r, 60), &text, &none);
			size_t ruled = kp_rng_below(&r, 2) ? 0 : kp_rng_below(&r, n_lines + 1);
			bool guard = kp_rng_below(&r, 2);
			encode(searched, s, kp_buf_str(&text), ruled, guard, &want);
			encode(t, s, kp_buf_str(&text), ruled, guard, &got);
			assert_ids(&got, &want, kp_buf_str(&text));
		}
		kp_tokenizer_unref(t);
		kp_tokenizer_unref(searched);
		kp_arena_destroy(made.arena);
	}
	assert_in_range(rows, 15, 100);
	kp_token_scratch_destroy(s);
	kp_ids_fini(&want);
	kp_ids_fini(&got);
	kp_ids_fini(&none);
	kp_buf_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_as_the_whole),
		cmocka_unit_test(rows_are_as_searched),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
