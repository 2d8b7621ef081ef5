/* Renders one conversation again and again and prints nanoseconds per render: bench/template/run puts jinja2 beside it.
   template-bench FILE SECONDS: FILE is {"source": "...", "vars": {...}}; "messages", "tools" and "documents" are the client's. Prints the
   best and the median batch, bytes of text, bytes of arena, and microseconds to compile. */
#include "base/clock.h"
#include "base/fs.h"
#include "template/template.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_VARS = 32, BATCHES = 101 };

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
	double ns[BATCHES];
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
	size_t used = 0;
	for (int i = 0; i < BATCHES; i++) {
		int64_t n = 0, now = 0;
		start = kp_now_ns();
		do {
			kp_arena_reset(a);
			if (kp_template_render(t, &opts, a, &text, &err)) {
				return fail(&err);
			}
			used = kp_arena_used(a);
			n++;
			now = kp_now_ns();
		} while (now - start < batch_ns);
		ns[i] = (double)(now - start) / (double)n;
	}
	qsort(ns, BATCHES, sizeof(ns[0]), by_value);
	printf("%.0f %.0f %zu %zu %.0f\n", ns[0], ns[BATCHES / 2], text.s.n, used, compile_us);
	return 0;
}
