/* Renders one conversation again and again and prints nanoseconds per render: bench/template/run puts jinja2 beside it.
   template-bench FILE MILLISECONDS: FILE is {"source": "...", "vars": {...}}; "messages", "tools" and "documents" are the client's. Prints the
   best and the median batch, bytes of text, bytes of arena, and microseconds to compile; then the best and the median with all messages remembered, how many
   of them were replayed, and the bytes of what is remembered. */
#include "base/clock.h"
#include "base/fs.h"
#include "template/template.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_VARS = 32, BATCHES = 101, MAX_MESSAGES = 4096 };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int fail(const struct kp_err *err)
{
	fprintf(stderr, "template-bench: %s\n", err->msg);
	return 1;
}

static bool is_client(kp_str name)
{
	return kp_str_eq(name, KP_S("messages")) || kp_str_eq(name, KP_S("tools")) ||
	       kp_str_eq(name, KP_S("documents"));
}

/* Renders for so long; sets the best and the median batch. */
static int measure(const struct kp_template *t, const struct kp_template_opts *opts,
	int64_t batch_ns, struct kp_arena *a, struct kp_text *text, double ret[2],
	struct kp_err *err)
{
	double ns[BATCHES];
	for (int i = 0; i < BATCHES; i++) {
		int64_t n = 0, start = kp_now_ns(), now = 0;
		do {
			kp_arena_reset(a);
			if (kp_template_render(t, opts, a, text, err)) {
				return -1;
			}
			n++;
			now = kp_now_ns();
		} while (now - start < batch_ns);
		ns[i] = (double)(now - start) / (double)n;
	}
	qsort(ns, BATCHES, sizeof(ns[0]), by_value);
	ret[0] = ns[0];
	ret[1] = ns[BATCHES / 2];
	return 0;
}

/* The same with a memory beside each message. */
static int measure_remembered(const struct kp_template *t, struct kp_template_opts *opts,
	int64_t batch_ns, struct kp_arena *a, struct kp_err *err)
{
	static struct kp_tpl_memory *remembered[MAX_MESSAGES];
	static struct kp_tpl_rendered rendered[MAX_MESSAGES];
	double ns[2];
	uint32_t replayed = 0;
	size_t bytes = 0;
	struct kp_text text;
	for (size_t i = 0; i < opts->n_vars; i++) {
		if (kp_str_eq(opts->vars[i].name, KP_S("messages"))) {
			opts->n_remembered = KP_MIN(opts->vars[i].value->n, (uint32_t)MAX_MESSAGES);
		}
	}
	for (uint32_t i = 0; i < opts->n_remembered; i++) {
		remembered[i] = kp_tpl_memory_create();
	}
	opts->remembered = remembered;
	opts->rendered = rendered;
	int r = measure(t, opts, batch_ns, a, &text, ns, err);
	for (uint32_t i = 0; i < opts->n_remembered; i++) {
		replayed += rendered[i].replayed;
		bytes += kp_tpl_memory_bytes(remembered[i]);
		kp_tpl_memory_destroy(remembered[i]);
	}
	if (r == 0) {
		printf(" %.0f %.0f %u %zu\n", ns[0], ns[1], replayed, bytes);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(buf) struct kp_buf file;
	KP_AUTO(arena)
	struct kp_arena *in = kp_arena_create(1U << 30), *a = kp_arena_create(1U << 30);
	KP_AUTO(template) struct kp_template *t = NULL;
	struct kp_jv root;
	struct kp_template_var v[MAX_VARS];
	struct kp_template_opts opts = { .vars = v };
	struct kp_text text = { 0 };
	double ns[2];
	kp_buf_init(&file, 1U << 30);
	if (argc != 3 || kp_fs_read(argv[1], &file, &err) ||
		kp_jv_parse(kp_buf_str(&file), in, &root, &err)) {
		return fail(&err);
	}
	int64_t start = kp_now_ns();
	if (kp_template_compile(kp_jv_str(&root, KP_S("source")), &t, &err)) {
		return fail(&err);
	}
	double compile_us = (double)(kp_now_ns() - start) / 1000;
	const struct kp_jv *vars = kp_jv_get(&root, KP_S("vars"));
	for (uint32_t i = 0; vars && i < vars->n && i < MAX_VARS; i++) {
		const struct kp_jmember *m = &vars->members[i];
		v[opts.n_vars++] = (struct kp_template_var){ m->key, &m->value,
			is_client(m->key) ? KP_ORIGIN_CLIENT : KP_ORIGIN_TRUSTED };
	}
	uint64_t ms;
	if (!kp_str_u64(kp_str_c(argv[2]), 60000, &ms)) {
		return 2;
	}
	int64_t batch_ns = (int64_t)ms * 1000000 / BATCHES;
	if (measure(t, &opts, batch_ns, a, &text, ns, &err)) {
		return fail(&err);
	}
	printf("%.0f %.0f %zu %zu %.0f", ns[0], ns[1], text.s.n, kp_arena_used(a), compile_us);
	return measure_remembered(t, &opts, batch_ns, a, &err) ? fail(&err) : 0;
}
