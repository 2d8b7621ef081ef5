/* steps COUNT SEED PATH...: random edits of random conversations over the models at PATH, each step encoded with the prompt cache and without; COUNT steps in all. Prints for each
   model its tokens by where they came from, messages that were known, bytes of prompts that were not rendered again; status 1 at the first difference, which it shows. What stands between is the real thing: the model's own template, its
   policy, its tokenizer. */
#include "prompt/known.h"
#include "prompt/text_stack.h"

#include "base/rand.h"
#include "base/vec.h"
#include "wire/list.h"

#include <stdio.h>
#include <stdlib.h>

enum { CHATS = 8, MESSAGES = 17, PIECES = 6 };

struct chat {
	struct kp_buf text[MESSAGES]; /* of a system message, then user and assistant in turn */
	size_t n;
	bool has_system;
};

struct world {
	struct kp_rng r;
	struct kp_text_stack *stack;
	struct kp_prompt_cache *cache;
	struct kp_token_scratch *scratch;
	struct kp_arena *arena;
	struct chat chat[CHATS];
	struct kp_ids want, got;
	struct kp_buf packed, want_packed, body;
	struct kp_prompt_use sum;
	size_t steps, refused, known, left_out;
	KP_VEC(kp_str)
	added; /* what is to be found in text, and what templates write */
};

static void die(const struct kp_err *err)
{
	fprintf(stderr, "steps: %s\n", err->msg);
	exit(1);
}

static kp_str any(struct world *w)
{
	static const char *const part[] = { "the quick brown fox", " ", "\n", "\n\n", "  ", "\t",
		"1234567", "def f(x):\n    return x\n", "Привет, мир", "漢字かな",
		"e\xcc\x81\xcc\xa7", "👩‍👩‍👧", "\xcc\xb8", "<|", "|>", "<think>",
		"</think>\n", "'ll", "a", "{\"k\": [1, 2]}", "\xc2\xa0",
		"====================", "\xef\xbc\xa1", "▁", "İ", "# Title\n\n* item\n* item\n" };
	if (w->added.n && kp_rng_below(&w->r, 8) == 0) {
		return w->added.p[kp_rng_below(&w->r, w->added.n)];
	}
	return kp_str_c(part[kp_rng_below(&w->r, KP_LEN(part))]);
}

static void write_text(struct world *w, struct kp_buf *b)
{
	kp_buf_fini(b);
	kp_buf_init(b, 1 << 20);
	for (size_t n = 1 + kp_rng_below(&w->r, kp_rng_below(&w->r, 10) ? PIECES : 60); n; n--) {
		kp_buf_add(b, any(w));
	}
}

static void shorten(struct chat *c, size_t n)
{
	c->n = n;
	c->has_system = n && c->has_system;
}

static void edit(struct world *w, struct chat *c)
{
	size_t what = kp_rng_below(&w->r, 10);
	if (c->n == 0) {
		c->has_system = kp_rng_below(&w->r, 2);
		write_text(w, &c->text[c->n++]);
	}
	if (c->n == MESSAGES) {
		shorten(c, 1 + kp_rng_below(&w->r, MESSAGES - 1));
	}
	if (what < 6) {
		write_text(w, &c->text[c->n++]);
	} else if (what == 6) {
		write_text(w, &c->text[kp_rng_below(&w->r, c->n)]);
	} else if (what == 7) {
		shorten(c, 1 + kp_rng_below(&w->r, c->n));
	} else if (what == 8) { /* a fork of another one */
		const struct chat *from = &w->chat[kp_rng_below(&w->r, CHATS)];
		if (from->n == 0 || from == c) {
			return;
		}
		for (size_t i = 0; i < from->n; i++) {
			kp_buf_fini(&c->text[i]);
			kp_buf_init(&c->text[i], 1 << 20);
			kp_buf_add(&c->text[i], kp_buf_str(&from->text[i]));
		}
		c->n = from->n;
		c->has_system = from->has_system;
	} /* else: the same again, or with other arguments */
}

static struct kp_jv string(kp_str s)
{
	return (struct kp_jv){ .type = KP_JSON_STRING, .s = s };
}

/* The turn of a chat: its messages, and arguments that templates look at. */
static struct kp_turn turn_of(struct world *w, const struct chat *c)
{
	static const char *const roles[] = { "user", "assistant" };
	static struct kp_jv items[MESSAGES];
	static struct kp_jmember members[MESSAGES][2], thinking;
	for (size_t i = 0; i < c->n; i++) {
		const char *role =
			i == 0 && c->has_system ? "system" : roles[(i - c->has_system) % 2];
		members[i][0] = (struct kp_jmember){ KP_S("role"), string(kp_str_c(role)) };
		members[i][1] =
			(struct kp_jmember){ KP_S("content"), string(kp_buf_str(&c->text[i])) };
		items[i] = (struct kp_jv){ .type = KP_JSON_OBJECT, .members = members[i], .n = 2 };
	}
	struct kp_turn t = { .arena = w->arena, .kind = KP_TURN_CHAT, .model = KP_S("m") };
	t.chat.messages =
		(struct kp_jv){ .type = KP_JSON_ARRAY, .items = items, .n = (uint32_t)c->n };
	t.chat.add_generation_prompt = kp_rng_below(&w->r, 5) > 0;
	if (kp_rng_below(&w->r, 6) == 0) {
		thinking =
			(struct kp_jmember){ KP_S("enable_thinking"), { .type = KP_JSON_FALSE } };
		t.chat.kwargs =
			(struct kp_jv){ .type = KP_JSON_OBJECT, .members = &thinking, .n = 1 };
	}
	return t;
}

static void differ(const struct world *w, const struct kp_text *text)
{
	size_t i = 0;
	while (i < w->want.n && i < w->got.n && w->want.p[i] == w->got.p[i]) {
		i++;
	}
	printf("%.*s: ids differ at %zu (%zu with the cache, %zu without) for: %.*s\n",
		(int)w->stack->info->kind.n, w->stack->info->kind.p, i, w->got.n, w->want.n,
		(int)text->s.n, text->s.p);
	exit(1);
}

static bool same_origins(const struct kp_text *a, const struct kp_text *b)
{
	return a->s.n == b->s.n && a->n_runs == b->n_runs &&
	       memcmp(a->runs, b->runs, a->n_runs * sizeof(*a->runs)) == 0;
}

/* The same turn as the gateway takes it: its messages recognised in their JSON text, rendered with what earlier renders remember, encoded from where the prompt of an earlier turn ends to be the
   same. `want`: what it has to come to. */
static int encode_known(struct world *w, const struct kp_turn *given, const struct kp_text *want,
	const struct kp_prompt_scope *scope, const struct kp_encode_opts *opts,
	struct kp_prompt_use *use, struct kp_err *err)
{
	struct kp_turn turn = *given;
	struct kp_prompt_hint hint;
	struct kp_text text;
	turn.cache = w->cache;
	turn.cache_salt = scope->salt;
	turn.chat.messages = (struct kp_jv){ .type = KP_JSON_NONE };
	kp_buf_reset(&w->body);
	kp_jv_write(&given->chat.messages, &w->body);
	if (kp_known_read(kp_buf_str(&w->body), &turn)) {
		return kp_err_set(err, KP_INTERNAL, "the messages cannot be read");
	}
	w->known += kp_known_count(&turn);
	if (kp_text_stack_render(w->stack, &turn, 0, &text, err)) {
		return -1;
	}
	kp_known_hint(&turn, &text, &hint);
	w->left_out += hint.same;
	if (kp_prompt_cache_encode_by(w->cache, scope, w->stack->tokenizer, w->scratch, &text, opts,
		    &hint, &w->got, &w->packed, use, err)) {
		return -1;
	}
	if (!same_origins(&text, want)) {
		return kp_err_set(err, KP_INTERNAL, "origins differ");
	}
	kp_known_keep(&turn, &hint.link);
	return 0;
}

static void step(struct world *w)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_text text;
	struct kp_prompt_use use;
	struct chat *c = &w->chat[kp_rng_below(&w->r, CHATS)];
	struct kp_encode_opts opts = { .policy = w->stack->policy,
		.add_special = kp_rng_below(&w->r, 8) == 0 };
	struct kp_prompt_scope scope = { .fingerprint = w->stack->fingerprint,
		.model = KP_S("m"),
		.salt = kp_rng_below(&w->r, 16) ? KP_S("") : KP_S("salt") };
	kp_arena_reset(w->arena);
	edit(w, c);
	struct kp_turn turn = turn_of(w, c);
	bool raw = !w->stack->chat || kp_rng_below(&w->r, 10) == 0;
	if (raw) { /* a completion's prompt: all trusted */
		opts.policy = NULL;
		text = kp_text_trusted(kp_buf_str(&c->text[c->n - 1]));
	} else if (kp_text_stack_render(w->stack, &turn, 0, &text, &err)) {
		w->refused++; /* a template that wants other roles */
		return;
	}
	kp_ids_reset(&w->want);
	kp_ids_reset(&w->got);
	kp_buf_reset(&w->packed);
	kp_buf_reset(&w->want_packed);
	bool is_known = !raw && kp_rng_below(&w->r, 8);
	if (kp_tokenizer_encode(w->stack->tokenizer, w->scratch, &text, &opts, &w->want, &err) ||
		(is_known ? encode_known(w, &turn, &text, &scope, &opts, &use, &err)
			  : kp_prompt_cache_encode(w->cache, &scope, w->stack->tokenizer,
				    w->scratch, &text, &opts, &w->got, &w->packed, &use, &err))) {
		die(&err);
	}
	kp_wire_add_varints(&w->want_packed, w->want.p, w->want.n);
	bool is_packed =
		!w->packed.n || kp_str_eq(kp_buf_str(&w->packed), kp_buf_str(&w->want_packed));
	if (!is_packed || w->want.n != w->got.n ||
		memcmp(w->want.p, w->got.p, w->got.n * sizeof(kp_id)) != 0) {
		differ(w, &text);
	}
	w->steps++;
	w->sum.exact += use.exact;
	w->sum.prefix += use.prefix;
	w->sum.encoded += use.encoded;
}

static void run(const char *path, uint64_t seed, size_t count)
{
	static struct world w;
	struct kp_err err = KP_ERR_INIT;
	kp_id id;
	kp_str text;
	bool special;
	memset(&w, 0, sizeof(w));
	kp_rng_seed(&w.r, seed);
	if (kp_text_stack_from_path(path, &(struct kp_text_options){ 0 }, &w.stack, &err)) {
		die(&err);
	}
	for (size_t i = 0; kp_tokenizer_added(w.stack->tokenizer, i, &id, &text, &special); i++) {
		if (i < 8 || kp_rng_below(&w.r, 40) == 0) {
			kp_vec_push(&w.added, text);
		}
	}
	w.scratch = kp_token_scratch_create(1 << 20);
	w.arena = kp_arena_create(64 << 20);
	kp_ids_init(&w.want, 1 << 20);
	kp_ids_init(&w.got, 1 << 20);
	kp_buf_init(&w.packed, 8 << 20);
	kp_buf_init(&w.want_packed, 8 << 20);
	kp_buf_init(&w.body, 64 << 20);
	for (size_t i = 0; i < count; i++) {
		if (i % 50000 == 0) { /* tiny, middle, roomy */
			static const size_t budgets[] = { 32 << 10, 256 << 10, 16 << 20 };
			kp_prompt_cache_destroy(w.cache);
			w.cache = kp_prompt_cache_create(
				budgets[(i / 50000 + seed) % KP_LEN(budgets)]);
		}
		step(&w);
	}
	printf("%zu %zu %zu %zu %zu %zu %zu %s\n", w.steps, w.refused, w.sum.exact, w.sum.prefix,
		w.sum.encoded, w.known, w.left_out, path);
	for (size_t i = 0; i < CHATS; i++) {
		for (size_t k = 0; k < MESSAGES; k++) {
			kp_buf_fini(&w.chat[i].text[k]);
		}
	}
	kp_prompt_cache_destroy(w.cache);
	kp_token_scratch_destroy(w.scratch);
	kp_arena_destroy(w.arena);
	kp_ids_fini(&w.want);
	kp_ids_fini(&w.got);
	kp_buf_fini(&w.packed);
	kp_buf_fini(&w.want_packed);
	kp_buf_fini(&w.body);
	kp_vec_fini(&w.added);
	kp_text_stack_unref(w.stack);
}

int main(int argc, char **argv)
{
	uint64_t count, seed;
	if (argc < 4 || !kp_str_u64(kp_str_c(argv[1]), UINT32_MAX, &count) ||
		!kp_str_u64(kp_str_c(argv[2]), UINT64_MAX, &seed)) {
		fprintf(stderr, "usage: steps COUNT SEED PATH...\n");
		return 2;
	}
	for (int i = 3; i < argc; i++) {
		run(argv[i], seed, (size_t)count / (size_t)(argc - 3));
	}
	return 0;
}
