/* What a prompt costs, with the cache and without: prompt-bench MODEL FILE. FILE is {"messages": [...], "next": ["text", ...], "replays": [[message, ...], ...]}.

   next: each text once as a user's message behind `messages`; microseconds of the median and of the best of them for the render, the encode, both,
   and both with the cache, which has `messages` and what was asked before.
   new: the same conversation behind another system message each time, encoded without the cache and with it.
   replays: conversations, turn by turn in turn; tokens that came out of the cache, the same of those that the turn before begins with, and microseconds of
   all turns with the cache and without.
   stages: the same, each turn from its messages' text on: microseconds of reading, rendering, encoding and keeping the messages in the last turn, and how they grow with 1,000 tokens of the
   prompt, with what is known of messages and without; bytes of the cache then.
   One line per figure, "name value"; bench/prompt/run puts other programs beside it. */
#include "base/clock.h"
#include "base/fs.h"
#include "json/skim.h"
#include "prompt/cache.h"
#include "prompt/known.h"
#include "prompt/messages.h"
#include "prompt/text_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_NEXT = 1024, CACHE_BYTES = 64 << 20, MAX_REPLAYS = 64 };

static struct kp_text_stack *stack;
static struct kp_arena *arena;
static struct kp_token_scratch *scratch;
static struct kp_ids ids;
static struct kp_buf packed;

static void die(const struct kp_err *err)
{
	fprintf(stderr, "prompt-bench: %s\n", err->msg);
	exit(1);
}

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static struct kp_text render(const struct kp_jv *messages, size_t n)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_text text;
	kp_arena_reset(arena);
	struct kp_turn turn = { .arena = arena, .kind = KP_TURN_CHAT, .model = KP_S("m") };
	turn.chat.messages = *messages;
	turn.chat.messages.n = (uint32_t)n;
	turn.chat.add_generation_prompt = true;
	if (kp_text_stack_render(stack, &turn, 0, &text, &err)) {
		die(&err);
	}
	return text;
}

static struct kp_prompt_use encode_by(
	struct kp_prompt_cache *c, const struct kp_text *text, struct kp_prompt_hint *hint)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_prompt_use use;
	const struct kp_prompt_scope scope = { .fingerprint = stack->fingerprint,
		.model = KP_S("m") };
	kp_ids_reset(&ids);
	kp_buf_reset(&packed);
	if (kp_prompt_cache_encode_by(c, &scope, stack->tokenizer, scratch, text,
		    &(struct kp_encode_opts){ .policy = stack->policy }, hint, &ids, &packed, &use,
		    &err)) {
		die(&err);
	}
	return use;
}

static struct kp_prompt_use encode(struct kp_prompt_cache *c, const struct kp_text *text)
{
	struct kp_prompt_hint none = { 0 };
	return encode_by(c, text, &none);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void show(const char *name, double *us, size_t n)
{
	qsort(us, n, sizeof(*us), by_value);
	printf("%s-median %.2f\n%s-best %.2f\n", name, us[n / 2], name, us[0]);
}

static void next_message(const struct kp_jv *root)
{
	static double us[5][MAX_NEXT];
	const struct kp_jv *base = kp_jv_get(root, KP_S("messages")),
			   *next = kp_jv_get(root, KP_S("next"));
	size_t n = KP_MIN(next->n, (uint32_t)MAX_NEXT), tokens = 0, bytes = 0, known = 0;
	struct kp_jv *items = kp_xcalloc(base->n + 1, sizeof(*items)), messages = *base;
	struct kp_prompt_cache *c = kp_prompt_cache_create(CACHE_BYTES);
	for (uint32_t i = 0; i < base->n; i++) {
		items[i] = base->items[i];
	}
	messages.items = items;
	struct kp_text text = render(&messages, base->n);
	(void)encode(c, &text);
	for (size_t i = 0; i < n; i++) {
		struct kp_jmember m[2] = { { KP_S("role"),
						   { .type = KP_JSON_STRING, .s = KP_S("user") } },
			{ KP_S("content"), next->items[i] } };
		items[base->n] = (struct kp_jv){ .type = KP_JSON_OBJECT, .members = m, .n = 2 };
		struct kp_prompt_use use;
		double t0 = now_us();
		text = render(&messages, base->n + 1);
		double t1 = now_us();
		/* The second to be asked would find its pieces in the thread's caches, so only the first one counts. */
		if (i % 2) {
			use = encode(c, &text);
			us[3][i / 2] = now_us() - t0;
		} else {
			(void)encode(NULL, &text);
			double t2 = now_us();
			us[1][i / 2] = t2 - t1;
			us[2][i / 2] = t2 - t0;
			use = encode(c, &text);
		}
		us[0][i] = t1 - t0;
		known += use.prefix;
		tokens += ids.n;
		bytes += text.s.n;
		double t3 = now_us();
		(void)encode(c, &text);
		us[4][i] = now_us() - t3;
	}
	printf("bytes %zu\ntokens %zu\nknown %.2f\n", bytes / n, tokens / n,
		100.0 * (double)known / (double)tokens);
	show("render", us[0], n);
	show("encode", us[1], n / 2);
	show("both", us[2], n / 2);
	show("both-cached", us[3], n / 2);
	show("exact", us[4], n);
	kp_prompt_cache_destroy(c);
	kp_free(&items);
}

/* Prompts of that length that have nothing in common with one another: what looking and keeping cost on top. */
static void new_prompts(const struct kp_jv *root)
{
	static double us[2][MAX_NEXT];
	const struct kp_jv *base = kp_jv_get(root, KP_S("messages")),
			   *next = kp_jv_get(root, KP_S("next"));
	size_t n = KP_MIN(next->n, (uint32_t)MAX_NEXT);
	struct kp_prompt_cache *c = kp_prompt_cache_create(CACHE_BYTES);
	struct kp_jv *content = kp_unconst(kp_jv_get(&base->items[0], KP_S("content"))),
		     was = *content;
	for (size_t i = 0; i < n; i++) {
		*content = next->items[i];
		struct kp_text text = render(base, base->n);
		double t = now_us();
		(void)encode(i % 2 ? c : NULL, &text);
		us[i % 2][i / 2] = now_us() - t;
	}
	*content = was;
	show("new", us[0], n / 2);
	show("new-cached", us[1], n / 2);
	kp_prompt_cache_destroy(c);
}

static size_t common(const struct kp_ids *a, const struct kp_ids *b)
{
	size_t n = 0;
	while (n < a->n && n < b->n && a->p[n] == b->p[n]) {
		n++;
	}
	return n;
}

static void replays(const struct kp_jv *root)
{
	const struct kp_jv *all = kp_jv_get(root, KP_S("replays"));
	size_t n = KP_MIN(all->n, (uint32_t)MAX_REPLAYS), tokens = 0, known = 0, seen = 0;
	struct kp_ids before[MAX_REPLAYS];
	struct kp_prompt_cache *c = kp_prompt_cache_create(CACHE_BYTES);
	struct kp_prompt_cache_stats stats;
	double cached = 0, plain = 0;
	for (size_t i = 0; i < n; i++) {
		kp_ids_init(&before[i], SIZE_MAX / 8);
	}
	for (size_t turn = 2; turn <= all->items[0].n; turn += 2) {
		for (size_t i = 0; i < n; i++) {
			struct kp_text text = render(&all->items[i], turn);
			double t = now_us();
			struct kp_prompt_use use = encode(c, &text);
			cached += now_us() - t;
			known += use.exact + use.prefix;
			tokens += ids.n;
			/* The first turn: what the system message shares. */
			seen += common(&ids, &before[turn == 2 && i ? i - 1 : i]);
			kp_ids_reset(&before[i]);
			for (size_t k = 0; k < ids.n; k++) {
				kp_ids_add(&before[i], ids.p[k]);
			}
			t = now_us();
			(void)encode(NULL, &text);
			plain += now_us() - t;
		}
	}
	kp_prompt_cache_stats(c, &stats);
	printf("replay-tokens %zu\nreplay-known %.2f\nreplay-seen %.2f\nreplay-encode %.0f\nreplay-cached %.0f\nreplay-bytes %zu\n",
		tokens, 100.0 * (double)known / (double)tokens,
		100.0 * (double)known / (double)seen, plain, cached, stats.bytes);
	for (size_t i = 0; i < n; i++) {
		kp_ids_fini(&before[i]);
	}
	kp_prompt_cache_destroy(c);
}

/* A turn's body, as a client writes it. */
static kp_str body_of(const struct kp_jv *messages, size_t n, struct kp_buf *out)
{
	struct kp_jv some = *messages;
	some.n = (uint32_t)n;
	kp_buf_reset(out);
	kp_jv_write(&some, out);
	return kp_buf_str(out);
}

enum { READ, RENDER, ENCODE, KEEP, STAGES };

/* One turn, from its messages' text on; adds to us. */
static void turn_stages(struct kp_prompt_cache *c, bool knows, kp_str text, double *us)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_prompt_hint hint;
	struct kp_text prompt;
	struct kp_json j;
	double t[STAGES + 1];
	kp_arena_reset(arena);
	struct kp_turn turn = {
		.arena = arena, .kind = KP_TURN_CHAT, .model = KP_S("m"), .cache = c
	};
	turn.chat.add_generation_prompt = true;
	t[READ] = now_us();
	kp_json_init(&j, text, arena);
	if (knows ? kp_json_skim(j.p, j.end) != j.end || kp_known_read(text, &turn)
		  : kp_messages_read(&j, &turn, &err)) {
		die(&err);
	}
	t[RENDER] = now_us();
	if (kp_text_stack_render(stack, &turn, 0, &prompt, &err)) {
		die(&err);
	}
	t[ENCODE] = now_us();
	kp_known_hint(&turn, &prompt, &hint);
	(void)encode_by(c, &prompt, &hint);
	t[KEEP] = now_us();
	kp_known_keep(&turn, &hint.link);
	t[STAGES] = now_us();
	for (size_t i = 0; i < STAGES; i++) {
		us[i] += t[i + 1] - t[i];
	}
}

/* How y grows with x. */
static double slope(const double *x, const double *y, size_t n)
{
	double sx = 0, sy = 0, sxx = 0, sxy = 0;
	for (size_t i = 0; i < n; i++) {
		sx += x[i];
		sy += y[i];
		sxx += x[i] * x[i];
		sxy += x[i] * y[i];
	}
	return (sxy * (double)n - sx * sy) / (sxx * (double)n - sx * sx);
}

enum { MAX_TURNS = 256 };

static void show_stages(const char *way, double (*us)[STAGES], const double *tokens, size_t n)
{
	static const char *const names[] = { "read", "render", "encode", "keep" };
	double y[MAX_TURNS];
	for (size_t k = 0; k < STAGES; k++) {
		for (size_t i = 0; i < n; i++) {
			y[i] = us[i][k];
		}
		printf("stages-%s-%s %.2f\nstages-%s-%s-slope %.2f\n", way, names[k], y[n - 1], way,
			names[k], 1000 * slope(tokens, y, n));
	}
}

static void stages(const struct kp_jv *root)
{
	static double us[2][MAX_TURNS][STAGES], tokens[MAX_TURNS];
	const struct kp_jv *all = kp_jv_get(root, KP_S("replays"));
	size_t turns = KP_MIN(all->items[0].n / 2, (uint32_t)MAX_TURNS);
	KP_AUTO(buf) struct kp_buf body;
	kp_buf_init(&body, 1U << 30);
	for (size_t k = 0; k < 2; k++) {
		struct kp_prompt_cache *c = kp_prompt_cache_create(CACHE_BYTES);
		struct kp_prompt_cache_stats stats;
		for (size_t turn = 0; turn < turns; turn++) {
			tokens[turn] = 0;
			for (size_t i = 0; i < all->n; i++) {
				kp_str text = body_of(&all->items[i], 2 * turn + 2, &body);
				turn_stages(c, k == 1, text, us[k][turn]);
				tokens[turn] += (double)ids.n / all->n;
			}
			for (size_t i = 0; i < STAGES; i++) {
				us[k][turn][i] /= all->n;
			}
		}
		show_stages(k ? "known" : "plain", us[k], tokens, turns);
		kp_prompt_cache_stats(c, &stats);
		printf("stages-%s-bytes %zu\n", k ? "known" : "plain", stats.bytes);
		kp_prompt_cache_destroy(c);
	}
}

int main(int argc, char **argv)
{
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(buf) struct kp_buf file;
	KP_AUTO(arena) struct kp_arena *in = kp_arena_create(1U << 30);
	struct kp_jv root;
	kp_buf_init(&file, 1U << 30);
	if (argc != 3) {
		fprintf(stderr, "usage: prompt-bench MODEL FILE\n");
		return 2;
	}
	if (kp_fs_read(argv[2], &file, &err) || kp_jv_parse(kp_buf_str(&file), in, &root, &err) ||
		kp_text_stack_from_path(argv[1], &(struct kp_text_options){ 0 }, &stack, &err)) {
		die(&err);
	}
	arena = kp_arena_create(64U << 20);
	scratch = kp_token_scratch_create(4 << 20);
	kp_ids_init(&ids, SIZE_MAX / 8);
	kp_buf_init(&packed, SIZE_MAX / 8);
	next_message(&root);
	new_prompts(&root);
	replays(&root);
	stages(&root);
	return 0;
}
