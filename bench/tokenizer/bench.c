/* Times lib/token over a corpus of corpus.py: tokenizer_bench TOKENIZER CORPUS [SCRATCH_BYTES [CASE [IDS]]]. One line per case, "case value unit";
   peers.py runs the same cases on other tokenizers and `run` puts them side by side. CPU time of this thread. IDS: a file for the checksum of each
   document's ids. CASE: only the cases that begin so; loop-KIND times new prompts again and again, for a profiler. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/vec.h"
#include "parse/stop.h"
#include "token/tokenizer.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum {
	PROMPT = 32 << 10,
	MESSAGE = 800,
	WARM = 2 << 20,
	RUN = 256 << 10,
	MAX_PROMPTS = 40,
	MAX_MESSAGES = 1500,
	LOOPS = 30,
};

struct doc {
	char kind;
	kp_str text;
};

static struct kp_tokenizer *tokenizer;
static size_t scratch_bytes = 8 << 20; /* as a loop of the gateway */
static struct kp_ids ids;
static const char *only;

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double resident_mb(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*d %ld", &pages) != 1) {
		pages = 0;
	}
	if (f) {
		fclose(f);
	}
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static void encode(struct kp_token_scratch *s, kp_str text)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_text t = kp_text_trusted(text);
	kp_ids_reset(&ids);
	if (kp_tokenizer_encode(
		    tokenizer, s, &t, &(struct kp_encode_opts){ .policy = NULL }, &ids, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
}

static bool wanted(const char *name)
{
	return !only || strncmp(name, only, strlen(only)) == 0;
}

/* Documents of a kind joined: warm-up, then prompts, then messages, cut at character borders. */
struct texts {
	kp_str warm, prompt[MAX_PROMPTS], message[MAX_MESSAGES];
	size_t n_prompts, n_messages, prompt_bytes;
};

static size_t cut(kp_str s, size_t *at, size_t n, kp_str *out, size_t max)
{
	size_t k = 0;
	while (k < max && *at + n + 4 < s.n) {
		size_t end = *at + n;
		while (((uint8_t)s.p[end] & 0xc0) == 0x80) {
			end++;
		}
		out[k++] = kp_str_sub(s, *at, end);
		*at = end;
	}
	return k;
}

static void cut_texts(const struct doc *docs, size_t n, char kind, struct texts *t)
{
	static struct kp_buf joined;
	kp_buf_fini(&joined);
	kp_buf_init(&joined, 64 << 20);
	for (size_t i = 0; i < n; i++) {
		if (docs[i].kind == kind) {
			kp_buf_add(&joined, docs[i].text);
		}
	}
	kp_str s = kp_buf_str(&joined);
	size_t at = 0;
	*t = (struct texts){ 0 };
	if (cut(s, &at, KP_MIN((size_t)WARM, s.n / 2), &t->warm, 1)) {
		t->n_prompts = cut(s, &at, PROMPT, t->prompt, MAX_PROMPTS);
		t->n_messages = cut(s, &at, MESSAGE, t->message, MAX_MESSAGES);
	}
	for (size_t i = 0; i < t->n_prompts; i++) {
		t->prompt_bytes += t->prompt[i].n;
	}
}

static void whole_corpus(const struct doc *docs, size_t n, const char *ids_file)
{
	size_t bytes = 0;
	double seconds = 0;
	struct kp_token_scratch *s = kp_token_scratch_create(scratch_bytes);
	FILE *f = ids_file ? fopen(ids_file, "w") : NULL;
	for (size_t i = 0; i < n; i++) {
		double t = cpu_seconds();
		encode(s, docs[i].text);
		seconds += cpu_seconds() - t;
		bytes += docs[i].text.n;
		if (f) {
			fprintf(f, "%lu\n",
				crc32_z(0, (const Bytef *)ids.p, ids.n * sizeof(*ids.p)));
		}
	}
	if (f && fclose(f)) {
		exit(1);
	}
	printf("corpus-cold %.1f MB/s\n", (double)bytes / 1e6 / seconds);
	kp_token_scratch_destroy(s);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double new_prompts(struct kp_token_scratch *s, const struct texts *t)
{
	encode(s, t->warm);
	double begin = cpu_seconds();
	for (size_t i = 0; i < t->n_prompts; i++) {
		encode(s, t->prompt[i]);
	}
	return cpu_seconds() - begin;
}

static void prompts(struct kp_token_scratch *s, const struct texts *t, const char *name)
{
	static double us[MAX_MESSAGES];
	if (!t->n_messages) {
		return;
	}
	printf("new-%s %.1f MB/s\n", name, (double)t->prompt_bytes / 1e6 / new_prompts(s, t));
	double best = 1e9;
	for (int r = 0; r < 3; r++) {
		double begin = cpu_seconds();
		for (size_t i = 0; i < 8; i++) {
			encode(s, t->prompt[0]);
		}
		best = KP_MIN(best, (cpu_seconds() - begin) / 8);
	}
	printf("again-%s %.1f MB/s\n", name, (double)t->prompt[0].n / 1e6 / best);
	for (size_t i = 0; i < t->n_messages; i++) {
		double begin = cpu_seconds();
		encode(s, t->message[i]);
		us[i] = (cpu_seconds() - begin) * 1e6;
	}
	qsort(us, t->n_messages, sizeof(*us), by_value);
	printf("p50-%s %.1f us\np99-%s %.1f us\n", name, us[t->n_messages / 2], name,
		us[t->n_messages * 99 / 100]);
}

/* The same with a fresh scratch, LOOPS times, and the best time of each prompt: what else runs on the machine disturbs this least. */
static void loop(const struct texts *t)
{
	double best[MAX_PROMPTS], seconds = 0;
	for (int r = 0; r < LOOPS; r++) {
		struct kp_token_scratch *s = kp_token_scratch_create(scratch_bytes);
		encode(s, t->warm);
		for (size_t i = 0; i < t->n_prompts; i++) {
			double begin = cpu_seconds();
			encode(s, t->prompt[i]);
			double x = cpu_seconds() - begin;
			best[i] = r ? KP_MIN(best[i], x) : x;
		}
		kp_token_scratch_destroy(s);
	}
	for (size_t i = 0; i < t->n_prompts; i++) {
		seconds += best[i];
	}
	printf("loop-new %.1f MB/s\n", (double)t->prompt_bytes / 1e6 / seconds);
}

static void run(const char *name, kp_str text)
{
	struct kp_token_scratch *s = kp_token_scratch_create(scratch_bytes);
	double t = cpu_seconds();
	encode(s, text);
	printf("run-%s %.1f MB/s\n", name, (double)text.n / 1e6 / (cpu_seconds() - t));
	kp_token_scratch_destroy(s);
}

static void runs(void)
{
	static char text[RUN];
	struct kp_rng rng;
	kp_rng_seed(&rng, 7);
	static const char kind[] = "a =";
	static const char *const name[] = { "a", "space", "equals" };
	for (size_t i = 0; i < KP_LEN(name); i++) {
		memset(text, kind[i], RUN);
		run(name[i], kp_str_n(text, RUN));
	}
	for (size_t k = 0; k < RUN; k++) {
		text[k] = (char)('a' + kp_rng_below(&rng, 26));
	}
	run("letters", kp_str_n(text, RUN));
	size_t n = 0;
	while (n + 3 <= RUN) {
		uint32_t cp = 0x4e00 + (uint32_t)kp_rng_below(&rng, 0x5000);
		text[n++] = (char)(0xe0 | cp >> 12);
		text[n++] = (char)(0x80 | (cp >> 6 & 63));
		text[n++] = (char)(0x80 | (cp & 63));
	}
	run("han", kp_str_n(text, n));
}

/* Each id on its own, as an engine streams them, through detokenizer and stop matcher. */
static void decoding(const struct doc *docs, size_t n)
{
	const kp_str strings[] = { KP_S("</s>"), KP_S("\n\nUser:"), KP_S("Observation:"),
		KP_S("<|im_end|>") };
	struct kp_err err = KP_ERR_INIT;
	struct kp_token_scratch *s = kp_token_scratch_create(scratch_bytes);
	struct kp_arena *arena = kp_arena_create(1 << 20);
	const struct kp_stop_set *set;
	struct kp_buf text, out;
	kp_buf_init(&text, 1 << 20);
	kp_buf_init(&out, 1 << 20);
	if (kp_stop_set_create(arena, strings, KP_LEN(strings), &set, &err)) {
		exit(1);
	}
	size_t tokens = 0;
	double detok = 0, both = 0;
	for (size_t i = 0; i < n; i += 2) {
		encode(s, docs[i].text);
		for (int stops = 0; stops < 2; stops++) {
			struct kp_detok d;
			struct kp_stop stop;
			kp_detok_init(&d, tokenizer, true);
			kp_stop_init(&stop, stops ? set : NULL);
			kp_buf_reset(&out);
			double t = cpu_seconds();
			for (size_t k = 0; k < ids.n; k++) {
				kp_buf_reset(&text);
				if (kp_detok_feed(&d, ids.p[k], &text, &err)) {
					exit(1);
				}
				if (kp_stop_feed(&stop, kp_buf_str(&text), false, &out)) {
					break;
				}
			}
			*(stops ? &both : &detok) += cpu_seconds() - t;
			kp_stop_fini(&stop);
		}
		tokens += ids.n;
	}
	printf("detok %.1f ns\ndetok-stop %.1f ns\n", detok * 1e9 / (double)tokens,
		both * 1e9 / (double)tokens);
	kp_buf_fini(&text);
	kp_buf_fini(&out);
	kp_arena_destroy(arena);
	kp_token_scratch_destroy(s);
}

int main(int argc, char **argv)
{
	struct kp_err err = KP_ERR_INIT;
	uint64_t bytes = scratch_bytes;
	if (argc < 3 || (argc > 3 && !kp_str_u64(kp_str_c(argv[3]), 1 << 30, &bytes))) {
		fprintf(stderr,
			"usage: tokenizer_bench TOKENIZER CORPUS [SCRATCH_BYTES [CASE [IDS]]]\n");
		return 2;
	}
	scratch_bytes = bytes ? (size_t)bytes : scratch_bytes;
	only = argc > 4 && *argv[4] ? argv[4] : NULL;
	double before = resident_mb(), t = cpu_seconds();
	if (kp_tokenizer_from_path(argv[1], &tokenizer, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	printf("load %.1f ms\n", (cpu_seconds() - t) * 1e3);
	malloc_trim(0);
	printf("load-rss %.1f MB\n", resident_mb() - before);
	struct kp_mapping m;
	if (kp_fs_map(argv[2], SIZE_MAX, &m, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	KP_VEC(struct doc)
	docs = { 0 };
	for (size_t at = 0; at + 5 <= m.bytes.n;) {
		uint32_t n;
		memcpy(&n, m.bytes.p + at + 1, 4);
		kp_vec_push(&docs,
			((struct doc){ m.bytes.p[at], kp_str_sub(m.bytes, at + 5, at + 5 + n) }));
		at += 5 + n;
	}
	kp_ids_init(&ids, SIZE_MAX / 8);
	if (wanted("corpus")) {
		whole_corpus(docs.p, docs.n, argc > 5 ? argv[5] : NULL);
	}
	static const char *const kinds[] = { "english", "code", "multi" };
	static struct texts texts;
	struct kp_token_scratch *s = kp_token_scratch_create(scratch_bytes);
	for (size_t i = 0; i < KP_LEN(kinds); i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "loop-%s", kinds[i]);
		bool again = only && wanted(name);
		if (again || wanted(kinds[i])) {
			cut_texts(docs.p, docs.n, "ecm"[i], &texts);
		}
		if (again) {
			loop(&texts);
		} else if (wanted(kinds[i])) {
			prompts(s, &texts, kinds[i]);
		}
	}
	kp_token_scratch_destroy(s);
	if (wanted("run")) {
		runs();
	}
	if (wanted("detokenize")) {
		decoding(docs.p, docs.n);
	}
	return 0;
}
