/* Times lib/token over a corpus of corpus.py: tokenizer_bench TOKENIZER CORPUS [SCRATCH_BYTES] [CASE]. One line per case, "case value unit"; peers.py runs
   the same cases on other tokenizers and puts them side by side. CPU time of this thread; a repeated case is the best of three. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/vec.h"
#include "token/tokenizer.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PROMPT = 32 << 10, MESSAGE = 800, WARM = 2 << 20, RUN = 256 << 10 };

struct doc {
	char kind;
	kp_str text;
};

static struct kp_tokenizer *tokenizer;
static size_t scratch_bytes = 4 << 20;
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

/* Cuts docs of a kind into pieces of about n bytes at character borders, the first `skip` bytes left out (warm-up). */
static size_t cut(const struct doc *docs, size_t n_docs, char kind, size_t n, size_t skip,
	kp_str *out, size_t max, kp_str *warm)
{
	/* The documents of a kind lie one behind the other only with their heads between them, so texts are joined first. */
	static struct kp_buf joined[3];
	struct kp_buf *b = &joined[kind == 'e' ? 0 : kind == 'c' ? 1 : 2];
	if (b->max == 0) {
		kp_buf_init(b, 64 << 20);
		for (size_t i = 0; i < n_docs; i++) {
			if (docs[i].kind == kind) {
				kp_buf_add(b, docs[i].text);
			}
		}
	}
	*warm = kp_str_sub(kp_buf_str(b), 0, KP_MIN(skip, b->n / 2));
	while (warm->n < b->n && ((uint8_t)b->p[warm->n] & 0xc0) == 0x80) {
		warm->n++;
	}
	size_t at = warm->n, k = 0;
	while (k < max && at + n + 4 < b->n) {
		size_t end = at + n;
		while (((uint8_t)b->p[end] & 0xc0) == 0x80) {
			end++;
		}
		out[k++] = kp_str_n(b->p + at, end - at);
		at = end;
	}
	return k;
}

static void whole_corpus(const struct doc *docs, size_t n)
{
	size_t bytes = 0, tokens = 0;
	struct kp_token_scratch *s = kp_token_scratch_create(scratch_bytes);
	for (int pass = 0; pass < 2; pass++) {
		bytes = tokens = 0;
		double t = cpu_seconds();
		for (size_t i = 0; i < n; i++) {
			encode(s, docs[i].text);
			bytes += docs[i].text.n;
			tokens += ids.n;
		}
		printf("%s %.1f MB/s\n", pass ? "corpus-second" : "corpus-cold",
			(double)bytes / 1e6 / (cpu_seconds() - t));
	}
	printf("corpus-tokens %zu tokens\n", tokens);
	kp_token_scratch_destroy(s);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void prompts(const struct doc *docs, size_t n, char kind, const char *name)
{
	static kp_str p[512], m[4096];
	static double us[4096];
	kp_str warm;
	struct kp_token_scratch *s = kp_token_scratch_create(scratch_bytes);
	size_t k = cut(docs, n, kind, PROMPT, WARM, p, 64, &warm), bytes = 0;
	encode(s, warm);
	double t = cpu_seconds();
	for (size_t i = 0; i < k; i++) {
		encode(s, p[i]);
		bytes += p[i].n;
	}
	printf("prompt-new-%s %.1f MB/s\n", name, (double)bytes / 1e6 / (cpu_seconds() - t));
	double best = 1e9;
	for (int r = 0; r < 3; r++) {
		t = cpu_seconds();
		for (size_t i = 0; i < 8; i++) {
			encode(s, p[0]);
		}
		best = KP_MIN(best, (cpu_seconds() - t) / 8);
	}
	printf("prompt-again-%s %.1f MB/s\n", name, (double)p[0].n / 1e6 / best);
	kp_token_scratch_destroy(s);
	s = kp_token_scratch_create(scratch_bytes);
	k = cut(docs, n, kind, MESSAGE, WARM, m, KP_LEN(m), &warm);
	encode(s, warm);
	for (size_t i = 0; i < k; i++) {
		int64_t begin = kp_now_ns();
		encode(s, m[i]);
		us[i] = (double)(kp_now_ns() - begin) / 1e3;
	}
	qsort(us, k, sizeof(*us), by_value);
	printf("message-p50-%s %.1f us\nmessage-p99-%s %.1f us\n", name, us[k / 2], name,
		us[k * 99 / 100]);
	kp_token_scratch_destroy(s);
}

static void run(const char *name, kp_str text)
{
	double best = 1e9;
	for (int r = 0; r < 3; r++) {
		struct kp_token_scratch *s = kp_token_scratch_create(scratch_bytes);
		double t = cpu_seconds();
		encode(s, text);
		best = KP_MIN(best, cpu_seconds() - t);
		kp_token_scratch_destroy(s);
	}
	printf("run-%s %.1f MB/s\n", name, (double)text.n / 1e6 / best);
}

static void runs(void)
{
	static char text[RUN + 4];
	struct kp_rng rng;
	kp_rng_seed(&rng, 7);
	const struct {
		const char *name;
		char c;
	} same[] = { { "a", 'a' }, { "space", ' ' }, { "equals", '=' }, { "digits", 0 },
		{ "letters", 1 } };
	for (size_t i = 0; i < KP_LEN(same); i++) {
		for (size_t k = 0; k < RUN; k++) {
			text[k] = same[i].c > 1 ? same[i].c
				  : same[i].c   ? (char)('a' + kp_rng_below(&rng, 26))
						: (char)('0' + kp_rng_below(&rng, 10));
		}
		run(same[i].name, kp_str_n(text, RUN));
	}
	size_t n = 0;
	while (n + 3 <= RUN) {
		uint32_t cp = 0x4e00 + (uint32_t)kp_rng_below(&rng, 0x5000);
		text[n++] = (char)(0xe0 | cp >> 12);
		text[n++] = (char)(0x80 | (cp >> 6 & 63));
		text[n++] = (char)(0x80 | (cp & 63));
	}
	run("han", kp_str_n(text, n));
}

static void decoding(const struct doc *docs, size_t n)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_token_scratch *s = kp_token_scratch_create(scratch_bytes);
	struct kp_buf out;
	kp_buf_init(&out, 1 << 20);
	size_t tokens = 0;
	double seconds = 0;
	for (size_t i = 0; i < n; i++) {
		encode(s, docs[i].text);
		kp_buf_reset(&out);
		struct kp_detok d;
		kp_detok_init(&d, tokenizer, true);
		double t = cpu_seconds();
		for (size_t k = 0; k < ids.n; k++) {
			if (kp_detok_feed(&d, ids.p[k], &out, &err)) {
				exit(1);
			}
		}
		kp_detok_finish(&d, &out);
		seconds += cpu_seconds() - t;
		tokens += ids.n;
	}
	printf("detokenize %.1f ns/token\n", seconds * 1e9 / (double)tokens);
	kp_buf_fini(&out);
	kp_token_scratch_destroy(s);
}

int main(int argc, char **argv)
{
	struct kp_err err = KP_ERR_INIT;
	uint64_t bytes = scratch_bytes;
	if (argc < 3 || (argc > 3 && !kp_str_u64(kp_str_c(argv[3]), 1 << 30, &bytes))) {
		fprintf(stderr, "usage: tokenizer_bench TOKENIZER CORPUS [SCRATCH_BYTES [CASE]]\n");
		return 2;
	}
	scratch_bytes = (size_t)bytes;
	only = argc > 4 ? argv[4] : NULL;
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
		whole_corpus(docs.p, docs.n);
	}
	const char *const kinds[] = { "english", "code", "multi" };
	for (size_t i = 0; i < 3; i++) {
		if (wanted(kinds[i])) {
			prompts(docs.p, docs.n, "ecm"[i], kinds[i]);
		}
	}
	if (wanted("run")) {
		runs();
	}
	if (wanted("detokenize")) {
		decoding(docs.p, docs.n);
	}
	return 0;
}
