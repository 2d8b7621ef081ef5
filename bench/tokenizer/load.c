/* Loads tokenizers and says what that cost: tokenizer-load [--images DIR] [--threads N] [--hold] TOKENIZER... Lines "case value unit" as of bench.c:
   CPU and wall time of each load, resident memory of all of them together, of which in tables that other processes may share, and what N threads
   that encode with every one of them add. --hold: stays until its input ends. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "token/images.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MAX = 16 };
static struct kp_tokenizer *tokenizer[MAX];
static int n_tokenizers;

static double cpu_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* A line of smaps_rollup, in MB. */
static double memory_mb(const char *line)
{
	struct kp_err err = KP_ERR_INIT;
	uint64_t kb = 0;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 16);
	if (kp_fs_read("/proc/self/smaps_rollup", &b, &err)) {
		return 0;
	}
	kp_str rest = kp_buf_str(&b), row, number;
	while (kp_str_split(&rest, '\n', &row)) {
		kp_str value = kp_str_starts(row, kp_str_c(line))
				       ? kp_str_trim(kp_str_skip(row, strlen(line)))
				       : KP_STR_NULL;
		if (value.p && kp_str_split(&value, ' ', &number)) {
			(void)kp_str_u64(number, UINT64_MAX, &kb);
		}
	}
	return (double)kb * 1024 / 1e6;
}

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static void *encode_all(void *arg)
{
	static const char text[] =
		"It's 12 tokens\n\n of some text \xe4\xb8\xad\xe6\x96\x87, def f(x): return x + 1";
	struct kp_err err = KP_ERR_INIT;
	struct kp_token_scratch *s = kp_token_scratch_create(64 << 10);
	struct kp_ids ids;
	kp_ids_init(&ids, 1 << 20);
	for (int i = 0; i < n_tokenizers; i++) {
		struct kp_tokenizer *t = kp_tokenizer_ref(tokenizer[i]);
		struct kp_text in = kp_text_trusted(kp_str_c(text));
		kp_ids_reset(&ids);
		if (kp_tokenizer_encode(
			    t, s, &in, &(struct kp_encode_opts){ .policy = NULL }, &ids, &err)) {
			fail(err.msg);
		}
		kp_tokenizer_unref(t);
	}
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(s);
	return arg;
}

static void threads(int n)
{
	pthread_t thread[64];
	for (int i = 0; i < n; i++) {
		if (pthread_create(&thread[i], NULL, encode_all, NULL)) {
			fail("no thread");
		}
	}
	for (int i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
	}
}

static void load(struct kp_token_images *images, const char *path)
{
	struct kp_err err = KP_ERR_INIT;
	int64_t wall = kp_now_ns();
	double t = cpu_ms();
	if (kp_token_images_path(images, path, &tokenizer[n_tokenizers], &err)) {
		fail(err.msg);
	}
	printf("load-%d %.2f ms\nload-wall-%d %.2f ms\n", n_tokenizers, cpu_ms() - t, n_tokenizers,
		(double)(kp_now_ns() - wall) / 1e6);
	n_tokenizers++;
}

int main(int argc, char **argv)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_token_images *images = NULL;
	int n = 0, at = 1;
	bool hold = false;
	for (; at < argc && argv[at][0] == '-'; at++) {
		uint64_t v;
		if (strcmp(argv[at], "--hold") == 0) {
			hold = true;
		} else if (strcmp(argv[at], "--images") == 0 && at + 1 < argc) {
			if (kp_token_images_open(argv[++at], &images, &err)) {
				fail(err.msg);
			}
		} else if (strcmp(argv[at], "--threads") == 0 && at + 1 < argc &&
			   kp_str_u64(kp_str_c(argv[++at]), 64, &v)) {
			n = (int)v;
		} else {
			fail("usage: tokenizer-load [--images DIR] [--threads N] [--hold] TOKENIZER...");
		}
	}
	double before = memory_mb("Rss:");
	for (; at < argc && n_tokenizers < MAX; at++) {
		load(images, argv[at]);
	}
	malloc_trim(0);
	printf("resident %.1f MB\n", memory_mb("Rss:") - before);
	if (n) {
		threads(n);
		malloc_trim(0);
		printf("resident-threads %.1f MB\n", memory_mb("Rss:") - before);
	}
	printf("private-dirty %.1f MB\n", memory_mb("Private_Dirty:"));
	if (images) {
		const struct kp_token_images_info *i = kp_token_images_info(images);
		printf("mapped %llu images\nbuilt %llu images\nrefused %llu images\n",
			(unsigned long long)i->mapped, (unsigned long long)i->built,
			(unsigned long long)i->refused);
		if (i->last.msg[0]) {
			fprintf(stderr, "%s\n", i->last.msg);
		}
	}
	fflush(stdout);
	while (hold && getchar() != EOF) {
	}
	printf("proportional %.1f MB\n", memory_mb("Pss:"));
	for (int i = 0; i < n_tokenizers; i++) {
		kp_tokenizer_unref(tokenizer[i]);
	}
	kp_token_images_close(images);
	return 0;
}
