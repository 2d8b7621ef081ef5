/* Turns whose messages are looked up are read as turns whose messages are not: the same values and images, and both or neither refused; and what is rendered and encoded with what is remembered
   comes to the same ids. Conversations grow, are edited, forked and broken, in caches from tiny to roomy, by one thread and by several. */
#include "prompt/known.h"

#include "json/skim.h"
#include "parse/parser.h"
#include "prompt/cache.h"
#include "prompt/messages.h"
#include "tests/prop/prompt/talk.h"
#include "tests/unit/token/naive.h"

#include <pthread.h>

enum { TALKS = 6, MEMORY = 16 << 20, THREADS = 4 };
#ifdef __SANITIZE_THREAD__
enum { STEPS = 800, SHARED_STEPS = 100 };
#else
enum { STEPS = 6000, SHARED_STEPS = 400 };
#endif

struct world {
	struct kp_rng r;
	struct kp_prompt_cache *cache;
	struct talk talk[TALKS];
	struct kp_buf text, want, got;
	struct kp_arena *a, *b;
	struct kp_token_scratch *scratch;
	struct kp_ids want_ids, got_ids;
	struct kp_buf packed;
	size_t read, refused, known, expected, same, wrong;
};

/* Of all worlds. */
static struct made made;
static struct kp_tokenizer *tokenizers[2]; /* the same, but for the ids of what is added */
static struct kp_template *templates[2];   /* the same, but for the shape that each takes */

static const char source[] =
	"{{ front }}{% for m in messages %}<s>{{ m.role }}{% if loop.first %}, first{% endif %}{{ mark }}\n"
	"{% if m.content is string %}{{ m.content }}{% elif m.content %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}"
	"{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{% if loop.last and m.role == 'user' %}?{% endif %}<e>\n{% endfor %}<s>b\n";
static const char added[] = "{\"id\":%zu,\"content\":\"%s\",\"special\":true,\"normalized\":false},"
			    "{\"id\":%zu,\"content\":\"%s\",\"special\":true,\"normalized\":false}";

static int load(void **state)
{
	(void)state;
	struct kp_rng r;
	struct kp_err err;
	char list[256];
	kp_rng_seed(&r, 1);
	made_init(&made, &r, 150, false);
	for (size_t i = 0; i < KP_LEN(tokenizers); i++) {
		snprintf(list, sizeof(list), added, made.n_tokens, i ? "<e>" : "<s>",
			made.n_tokens + 1, i ? "<s>" : "<e>");
		tokenizers[i] = made_load(&made, made_pretoks[0], false, false, list);
	}
	return kp_template_compile(kp_str_c(source), &templates[0], &err) ||
	       kp_template_compile(kp_str_c(source), &templates[1], &err);
}

static int unload(void **state)
{
	(void)state;
	kp_template_destroy(templates[0]);
	kp_template_destroy(templates[1]);
	kp_tokenizer_unref(tokenizers[0]);
	kp_tokenizer_unref(tokenizers[1]);
	kp_arena_destroy(made.arena);
	return 0;
}

static void world_init(struct world *w, uint64_t seed, struct kp_prompt_cache *c)
{
	*w = (struct world){ .cache = c };
	kp_rng_seed(&w->r, seed);
	kp_buf_init(&w->text, MEMORY);
	kp_buf_init(&w->want, MEMORY);
	kp_buf_init(&w->got, MEMORY);
	w->a = kp_arena_create(MEMORY);
	w->b = kp_arena_create(MEMORY);
	w->scratch = kp_token_scratch_create(1 << 20);
	kp_ids_init(&w->want_ids, 1 << 20);
	kp_ids_init(&w->got_ids, 1 << 20);
	kp_buf_init(&w->packed, MEMORY);
}

static void world_fini(struct world *w)
{
	for (size_t i = 0; i < TALKS; i++) {
		talk_clear(&w->talk[i], 0);
	}
	kp_buf_fini(&w->text);
	kp_buf_fini(&w->want);
	kp_buf_fini(&w->got);
	kp_arena_destroy(w->a);
	kp_arena_destroy(w->b);
	kp_token_scratch_destroy(w->scratch);
	kp_ids_fini(&w->want_ids);
	kp_ids_fini(&w->got_ids);
	kp_buf_fini(&w->packed);
}

static void show(const struct kp_turn *t, struct kp_buf *out)
{
	kp_buf_reset(out);
	kp_jv_write(&t->chat.messages, out);
	for (size_t i = 0; i < t->chat.n_media; i++) {
		const struct kp_media_part *m = &t->chat.media[i];
		kp_buf_printf(out, "%u %u %" KP_FMT, m->message, m->part, KP_ARG(m->url));
	}
}

/* What a prompt is made with, besides messages. */
struct way {
	struct kp_jv front, mark; /* what stands in front of the messages, and in each */
	const struct kp_template *template;
	struct kp_template_shape shape;
	const struct kp_tokenizer *t;
	size_t max_ids;
};

static struct way plain_way(void)
{
	return (struct way){ .front = { .type = KP_JSON_STRING, .s = KP_S("front") },
		.mark = { .type = KP_JSON_STRING, .s = KP_S("m") },
		.template = templates[0],
		.shape = { .args = KP_ARGS_OBJECT, .reasoning = true },
		.t = tokenizers[0],
		.max_ids = 1 << 20 };
}

static struct way any_way(struct kp_rng *r)
{
	/* As long as another one, and its beginning. */
	static const char *const fronts[] = { "front", "other", "fronts" };
	struct way way = plain_way();
	if (kp_rng_below(r, 6) == 0) {
		way.front.s = kp_str_c(fronts[kp_rng_below(r, KP_LEN(fronts))]);
	}
	if (kp_rng_below(r, 12) == 0) {
		way.mark.s = KP_S("n");
	}
	if (kp_rng_below(r, 12) == 0) {
		way.template = templates[1];
		way.shape.args = KP_ARGS_TEXT;
	}
	way.t = tokenizers[kp_rng_below(r, 12) == 0];
	way.max_ids = kp_rng_below(r, 20) ? way.max_ids : kp_rng_below(r, 1000);
	return way;
}

/* Bytes that the render left out are any. */
static void spoil(const struct kp_template_opts *opts, struct kp_text *text)
{
	for (uint32_t i = 0; i < opts->n_remembered; i++) {
		const struct kp_tpl_rendered *r = &opts->rendered[i];
		if (r->left_out) {
			memset((char *)kp_unconst(text->s.p) + r->start, '#', r->end - r->start);
		}
	}
}

/* The ids of a turn, with what is known of it where it has a cache, which is then kept. */
static int make_prompt(struct world *w, const struct kp_turn *t, const struct way *way, bool keep,
	struct kp_ids *ids, struct kp_text *text, struct kp_err *err)
{
	struct kp_jv messages;
	struct kp_prompt_hint hint;
	struct kp_prompt_use use;
	const struct kp_template_var vars[] = { { KP_S("messages"), &messages, KP_ORIGIN_CLIENT },
		{ KP_S("front"), &way->front, KP_ORIGIN_CLIENT },
		{ KP_S("mark"), &way->mark, KP_ORIGIN_CLIENT } };
	struct kp_template_opts opts = { .vars = vars, .n_vars = KP_LEN(vars) };
	struct kp_prompt_scope scope = { .salt = t->cache_salt };
	struct kp_encode_opts how = { .policy = NULL };
	kp_ids_reset(ids);
	ids->max = way->max_ids;
	kp_buf_reset(&w->packed);
	if (kp_known_adapt(t, &way->shape, &messages, err)) {
		return -1;
	}
	kp_known_remember(t, &opts);
	w->expected += opts.n_expected;
	if (kp_template_render(way->template, &opts, t->arena, text, err)) {
		return -1;
	}
	spoil(&opts, text);
	kp_known_hint(t, text, &hint);
	w->same += hint.same;
	if (kp_prompt_cache_encode_by(t->cache, &scope, way->t, w->scratch, text, &how, &hint, ids,
		    &w->packed, &use, err)) {
		return -1;
	}
	if (keep) {
		kp_known_keep(t, &hint.link);
	}
	return 0;
}

static kp_str tail(const struct kp_text *text)
{
	return kp_str_skip(text->s, text->s.n - KP_MIN(text->s.n, (size_t)KP_PARSE_TAIL));
}

static bool same_prompts(struct world *w, const struct kp_turn *want, const struct kp_turn *got,
	const struct way *way, bool keep)
{
	struct kp_err a = KP_ERR_INIT, b = KP_ERR_INIT;
	struct kp_text x = { 0 }, y = { 0 };
	int ra = make_prompt(w, want, way, false, &w->want_ids, &x, &a),
	    rb = make_prompt(w, got, way, keep, &w->got_ids, &y, &b);
	if (ra || rb) {
		return ra == rb && strcmp(a.msg, b.msg) == 0;
	}
	return x.s.n == y.s.n && kp_str_eq(tail(&x), tail(&y)) && w->want_ids.n == w->got_ids.n &&
	       memcmp(w->want_ids.p, w->got_ids.p, w->got_ids.n * sizeof(kp_id)) == 0;
}

/* Whether both ways of reading w->text agree. */
static bool agree(struct world *w, kp_str salt, const struct way *way, bool keep)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_json j;
	kp_arena_reset(w->a);
	kp_arena_reset(w->b);
	struct kp_turn want = { .arena = w->a },
		       got = { .arena = w->b, .cache = w->cache, .cache_salt = salt };
	kp_str text = kp_buf_str(&w->text);
	kp_json_init(&j, text, w->a);
	kp_json_reopen_array(&j, j.p, 1, true); /* as deep as it is in a body */
	bool reads = kp_messages_read(&j, &want, &err) == 0 && j.p == j.end;
	bool ends = kp_json_skim(text.p, text.p + text.n) == text.p + text.n;
	if (reads != (ends && kp_known_read(text, &got) == 0)) {
		return false;
	}
	w->read += reads;
	w->refused += !reads;
	if (!reads) {
		return true;
	}
	w->known += kp_known_count(&got);
	show(&want, &w->want);
	show(&got, &w->got);
	return kp_str_eq(kp_buf_str(&w->want), kp_buf_str(&w->got)) &&
	       kp_jv_eq(&want.chat.messages, &got.chat.messages) &&
	       same_prompts(w, &want, &got, way, keep);
}

static void step(struct world *w)
{
	struct talk *t = &w->talk[kp_rng_below(&w->r, TALKS)];
	talk_edit(t, &w->talk[kp_rng_below(&w->r, TALKS)], &w->r);
	kp_buf_reset(&w->text);
	talk_write(t, &w->r, &w->text);
	if (kp_rng_below(&w->r, 50) == 0) {
		w->text.p[1 + kp_rng_below(&w->r, w->text.n - 1)] =
			"x\"\\[]{},\xff"[kp_rng_below(&w->r, 9)];
	}
	kp_str salt = kp_rng_below(&w->r, 20) ? KP_STR_NULL : KP_S("salt");
	const struct way way = any_way(&w->r);
	w->wrong += !agree(w, salt, &way, kp_rng_below(&w->r, 10) != 0);
}

static void test_read_as_without(void **state)
{
	(void)state;
	static const size_t budgets[] = { 20 << 10, 100 << 10, 600 << 10, 32 << 20 };
	uint64_t seed = test_seed(), evictions = 0;
	size_t read = 0, refused = 0, known = 0, expected = 0, same = 0;
	for (size_t i = 0; i < KP_LEN(budgets); i++) {
		struct kp_prompt_cache *c = kp_prompt_cache_create(budgets[i]);
		struct kp_prompt_cache_stats stats;
		struct world w;
		world_init(&w, seed + i, c);
		for (size_t k = 0; k < STEPS / KP_LEN(budgets); k++) {
			step(&w);
			if (w.wrong) {
				fail_msg("step %zu: %" KP_FMT, k, KP_ARG(kp_buf_str(&w.text)));
			}
			kp_prompt_cache_stats(c, &stats);
			assert_true(stats.bytes <= budgets[i]);
		}
		read += w.read;
		refused += w.refused;
		known += w.known;
		expected += w.expected;
		same += w.same;
		evictions += stats.evictions;
		world_fini(&w);
		kp_prompt_cache_destroy(c);
	}
	print_message(
		"# %zu read, %zu refused, %zu messages known, %zu expected, %zu bytes not rendered, %zu evictions\n",
		read, refused, known, expected, same, (size_t)evictions);
	assert_true(read > refused && known > read && expected > read && same > read && evictions);
}

/* A turn knows all that the turn before had, for longer than nodes hang on one another; another salt, model or tenant knows nothing. */
static void test_what_is_known(void **state)
{
	(void)state;
	struct world w;
	struct kp_turn t;
	world_init(&w, test_seed(), kp_prompt_cache_create(4 << 20));
	for (uint32_t turn = 0; turn < 100; turn++) {
		kp_buf_printf(&w.text, "%s{\"role\":\"user\",\"content\":\"", turn ? ", " : "[");
		for (int k = 0; k < 40; k++) {
			kp_buf_printf(&w.text, "%llx \\n", (unsigned long long)kp_rng_next(&w.r));
		}
		kp_buf_lit(&w.text, "\"}]");
		for (int who = 0; who < 4; who++) {
			kp_arena_reset(w.b);
			t = (struct kp_turn){ .arena = w.b, .cache = w.cache };
			*(who == 1         ? &t.model
				: who == 2 ? &t.tenant
					   : &t.cache_salt) = who ? KP_S("x") : KP_S("");
			assert_int_equal(kp_known_read(kp_buf_str(&w.text), &t), 0);
			assert_int_equal(t.chat.messages.n, turn + 1);
			assert_int_equal(kp_known_count(&t), who ? 0 : turn);
			if (who == 0) {
				kp_known_keep(&t, NULL);
			}
		}
		w.text.n--;
	}
	kp_prompt_cache_destroy(w.cache);
	w.cache = NULL;
	kp_arena_reset(w.b);
	world_fini(&w);
}

/* A conversation that only grows, for longer than nodes hang on one another, and goes to the other tokenizer now and then. */
static void test_long(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, test_seed(), kp_prompt_cache_create(16 << 20));
	kp_buf_lit(&w.text, "[");
	for (size_t turn = 0; turn < 100; turn++) {
		w.text.n -= turn ? 1 : 0;
		kp_buf_printf(&w.text, "%s{\"role\":\"user\",\"content\":", turn ? "," : "");
		talk_string(&w.r, 100, &w.text);
		kp_buf_lit(&w.text, "}]");
		struct way way = plain_way();
		way.t = tokenizers[turn % 8 == 7];
		assert_true(agree(&w, KP_STR_NULL, &way, true));
	}
	assert_true(w.same > w.known);
	kp_prompt_cache_destroy(w.cache);
	world_fini(&w);
}

/* A list with n bytes, or with n messages. */
static void write_list(struct kp_buf *b, size_t bytes, size_t n)
{
	kp_buf_reset(b);
	kp_buf_lit(b, "[{\"role\":\"user\",\"content\":\"");
	while (b->n + 3 < bytes) {
		kp_buf_addc(b, 'x');
	}
	kp_buf_lit(b, "\"}");
	for (size_t i = 1; i < n; i++) {
		kp_buf_lit(b, ",{\"role\":\"user\",\"content\":\"\"}");
	}
	kp_buf_addc(b, ']');
}

/* Bytes that are kept behind a turn of one message; mark "": one that is not rendered. */
static size_t bytes_kept(struct world *w, bool is_known, const char *mark)
{
	struct kp_turn t = { .arena = w->b, .cache = w->cache };
	const struct kp_template_shape shape = { .args = KP_ARGS_OBJECT };
	const struct kp_jv v = { .type = KP_JSON_STRING, .s = kp_str_c(mark) };
	struct kp_jv messages;
	struct kp_text text;
	struct kp_err err;
	const struct kp_template_var vars[] = { { KP_S("messages"), &messages, KP_ORIGIN_CLIENT },
		{ KP_S("mark"), &v, KP_ORIGIN_CLIENT } };
	struct kp_template_opts opts = { .vars = vars, .n_vars = mark[0] ? 2 : 0 };
	struct kp_prompt_cache_stats stats;
	kp_arena_reset(w->b);
	assert_int_equal(kp_known_read(kp_buf_str(&w->text), &t), 0);
	assert_int_equal(kp_known_count(&t), is_known);
	assert_int_equal(kp_known_adapt(&t, &shape, &messages, &err), 0);
	if (opts.n_vars) {
		kp_known_remember(&t, &opts);
		assert_int_equal(kp_template_render(templates[0], &opts, w->b, &text, &err), 0);
	}
	kp_known_keep(&t, NULL);
	kp_prompt_cache_stats(w->cache, &stats);
	return stats.bytes;
}

/* What renders remember counts, when it is kept and when they learn more; values that take too much are not kept. */
static void test_bytes(void **state)
{
	(void)state;
	enum { LENGTH = 10000, ROOM = 400 << 10 };
	struct world w;
	world_init(&w, test_seed(), kp_prompt_cache_create(ROOM));
	write_list(&w.text, LENGTH, 1);
	size_t plain = bytes_kept(&w, false, "");
	assert_true(plain > LENGTH);
	kp_prompt_cache_destroy(w.cache);
	w.cache = kp_prompt_cache_create(ROOM);
	size_t once = bytes_kept(&w, false, "a");
	assert_true(once > plain + LENGTH);
	assert_int_equal(bytes_kept(&w, true, "a"), once);
	size_t twice = bytes_kept(&w, true, "b");
	assert_true(twice > once + LENGTH);
	kp_buf_reset(&w.text);
	kp_buf_lit(&w.text, "[{\"role\":\"user\",\"content\":\"c\",\"x\":[1");
	for (int i = 0; i < LENGTH / 2; i++) {
		kp_buf_lit(&w.text, ",1");
	}
	kp_buf_lit(&w.text, "]}]");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(bytes_kept(&w, false, "a"), twice);
	}
	kp_prompt_cache_destroy(w.cache);
	w.cache = NULL;
	kp_arena_reset(w.b);
	world_fini(&w);
}

/* Longer lists are left to who reads all of it. */
static void test_limits(void **state)
{
	(void)state;
	static const struct {
		size_t bytes, n;
	} most[] = { { 2 * KP_MAX_VALUES, 1 }, { 0, KP_MAX_MESSAGES } };
	struct world w;
	world_init(&w, test_seed(), kp_prompt_cache_create(16 << 20));
	for (size_t i = 0; i < KP_LEN(most); i++) {
		for (size_t more = 0; more < 2; more++) {
			struct kp_turn t = { .arena = w.a, .cache = w.cache };
			write_list(&w.text, most[i].bytes + (most[i].bytes ? more : 0),
				most[i].n + (most[i].bytes ? 0 : more));
			assert_int_equal(kp_known_read(kp_buf_str(&w.text), &t), more ? -1 : 0);
			if (!more) {
				kp_known_keep(&t, NULL);
			}
			kp_arena_reset(w.a);
		}
	}
	kp_prompt_cache_destroy(w.cache);
	world_fini(&w);
}

static void *run(void *arg)
{
	struct world *w = arg;
	for (size_t k = 0; k < SHARED_STEPS; k++) {
		step(w);
	}
	return NULL;
}

/* Several threads with the same beginnings, and nodes that go all the time. */
static void test_threads(void **state)
{
	(void)state;
	struct kp_prompt_cache *c = kp_prompt_cache_create(200 << 10);
	static struct world w[THREADS];
	pthread_t id[THREADS];
	size_t known = 0;
	uint64_t seed = test_seed();
	for (size_t i = 0; i < THREADS; i++) {
		world_init(&w[i], seed + i / 2, c); /* two of them say the same */
		assert_int_equal(pthread_create(&id[i], NULL, run, &w[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(id[i], NULL);
		assert_int_equal(w[i].wrong, 0);
		known += w[i].known;
		world_fini(&w[i]);
	}
	assert_true(known);
	kp_prompt_cache_destroy(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_as_without),
		cmocka_unit_test(test_what_is_known),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests(tests, load, unload);
}
