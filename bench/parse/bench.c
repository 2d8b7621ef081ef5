/* The parsers by themselves: bench DIR. Each DIR/FAMILY.SIZE holds what a model wrote, a zero byte behind each token; DIR/tools.json the tools. Prints a line for
   each: family, size, tokens, bytes, ns for a token, bytes of arguments that came out. */
#include "base/mem.h"
#include "base/rand.h"
#include "parse/parser.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_FILE = 64 << 20, ENOUGH_MS = 100 };

struct bench {
	struct kp_arena *arena;
	struct kp_tool_offer offer;
	struct kp_rng rng;
	size_t n_out;
};

/* Of this thread: others may be busy. */
static int64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static char *read_file(const char *dir, const char *name, size_t *ret_n)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "rb");
	char *p = f ? kp_xmalloc(MAX_FILE) : NULL;
	if (!f) {
		fprintf(stderr, "parse-bench: cannot read %s\n", path);
		exit(1);
	}
	*ret_n = fread(p, 1, MAX_FILE, f);
	fclose(f);
	return p;
}

static void take(void *ctx, const struct kp_event *ev)
{
	struct bench *b = ctx;
	b->n_out += ev->kind == KP_EV_TOOL_ARGUMENTS ? ev->text.n : 0;
}

static size_t once(struct bench *b, const struct kp_lexicon *lexicon, kp_str tokens)
{
	const struct kp_parse_opts o = { .lexicon = lexicon,
		.offer = &b->offer,
		.start = KP_PARSE_IN_TEXT,
		.rng = &b->rng,
		.emit = take,
		.ctx = b };
	KP_AUTO(parser) struct kp_parser *p = kp_parser_create(&o);
	struct kp_err err;
	kp_str one;
	size_t n = 0;
	b->n_out = 0;
	while (kp_str_split(&tokens, '\0', &one)) {
		if (kp_parser_feed(p, one, &err)) {
			fprintf(stderr, "parse-bench: %s\n", err.msg);
			exit(1);
		}
		kp_parser_flush(p);
		n++;
	}
	if (kp_parser_finish(p, false, &err)) {
		exit(1);
	}
	return n;
}

static void run(struct bench *b, const char *dir, const char *name)
{
	const char *dot = strrchr(name, '.');
	const struct kp_grammar *g = kp_grammar_find(kp_str_n(name, (size_t)(dot - name)));
	const struct kp_lexicon *lexicon;
	struct kp_err err;
	size_t bytes, n = 0, runs = 0;
	if (!g || kp_lexicon_create(b->arena, g, NULL, NULL, 0, &lexicon, &err)) {
		fprintf(stderr, "parse-bench: no parser for %s\n", name);
		exit(1);
	}
	char *p = read_file(dir, name, &bytes);
	int64_t best = INT64_MAX, all = cpu_ns();
	do {
		int64_t from = cpu_ns();
		n = once(b, lexicon, kp_str_n(p, bytes));
		best = KP_MIN(best, cpu_ns() - from);
		runs++;
	} while (cpu_ns() - all < ENOUGH_MS * INT64_C(1000000) || runs < 3);
	printf("%s %s %zu %zu %.1f %zu\n", g->name, dot + 1, n, bytes - n, (double)best / (double)n,
		b->n_out);
	kp_mem_free(p);
}

int main(int argc, char **argv)
{
	struct bench b = { .arena = kp_arena_create(64 << 20) };
	struct kp_err err;
	size_t n_tools;
	DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
	if (!folder) {
		fprintf(stderr, "usage: parse-bench DIR\n");
		return 2;
	}
	char *text = read_file(argv[1], "tools.json", &n_tools);
	struct kp_jv tools;
	kp_rng_seed(&b.rng, 1);
	if (kp_jv_parse(kp_str_n(text, n_tools), b.arena, &tools, &err) ||
		kp_tool_offer_create(b.arena, &tools, &b.offer, &err)) {
		fprintf(stderr, "parse-bench: %s\n", err.msg);
		return 1;
	}
	for (const struct dirent *d; (d = readdir(folder));) {
		if (d->d_name[0] != '.' && strcmp(d->d_name, "tools.json") != 0) {
			run(&b, argv[1], d->d_name);
		}
	}
	closedir(folder);
	kp_mem_free(text);
	kp_arena_destroy(b.arena);
	return 0;
}
