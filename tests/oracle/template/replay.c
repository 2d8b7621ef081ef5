/* Renders packaged templates with what is remembered of messages, beside renders without (tests/prop/template/walk.h). One JSON object a line on stdin:
     {"source": "...", "pool": [message, ...], "variants": [{variables}, ...], "seed": n, "steps": n}
   and one a line on stdout: {"renders": n, "texts": n, "messages": n, "replayed": n, "bytes": n} or {"error": "..."}. */
#include "json/write.h"
#include "tests/prop/template/walk.h"

#include <stdio.h>

enum { MAX_LINE = 64 << 20 };

static uint64_t number(const struct kp_jv *v, const char *key)
{
	const struct kp_jv *m = kp_jv_get(v, kp_str_c(key));
	uint64_t n;
	return kp_jv_is(m, KP_JSON_NUMBER) && kp_str_u64(m->s, UINT64_MAX, &n) ? n : 0;
}

static bool walk(const struct kp_jv *req, const struct kp_template *t, struct kp_buf *out)
{
	const struct kp_jv *pool = kp_jv_get(req, KP_S("pool"));
	struct walk *w = kp_new(struct walk);
	KP_AUTO(buf) struct kp_buf texts;
	bool same = true;
	kp_buf_init(&texts, MAX_LINE);
	w->t = t;
	w->variants = kp_jv_get(req, KP_S("variants"));
	kp_rng_seed(&w->rng, number(req, "seed"));
	for (uint32_t i = 0; i < pool->n; i++) {
		kp_jv_write(&pool->items[i], &texts);
		kp_buf_addc(&texts, '\n');
	}
	kp_str rest = kp_buf_str(&texts);
	for (; w->n_pool < KP_MIN(pool->n, (uint32_t)WALK_POOL); w->n_pool++) {
		size_t n = (size_t)((const char *)memchr(rest.p, '\n', rest.n) - rest.p);
		w->pool[w->n_pool] = kp_str_sub(rest, 0, n);
		rest = kp_str_skip(rest, n + 1);
	}
	for (uint64_t i = number(req, "steps"); same && i; i--) {
		same = walk_step(w, out);
	}
	if (same) {
		kp_buf_printf(out,
			"{\"renders\":%llu,\"texts\":%llu,\"messages\":%llu,\"replayed\":%llu,\"bytes\":%zu}\n",
			(unsigned long long)w->renders, (unsigned long long)w->texts,
			(unsigned long long)w->messages, (unsigned long long)w->replayed,
			w->most_bytes);
	}
	walk_fini(w);
	kp_mem_free(w);
	return same;
}

static void answer_error(struct kp_buf *out, kp_str what)
{
	kp_buf_lit(out, "{\"error\":");
	kp_json_w_str(out, what);
	kp_buf_lit(out, "}\n");
}

static void answer(kp_str line, struct kp_buf *out)
{
	KP_AUTO(arena) struct kp_arena *in = kp_arena_create(1U << 30);
	KP_AUTO(template) struct kp_template *t = NULL;
	KP_AUTO(buf) struct kp_buf said;
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv req;
	kp_buf_init(&said, MAX_LINE);
	if (kp_jv_parse(line, in, &req, &err) ||
		kp_template_compile(kp_jv_str(&req, KP_S("source")), &t, &err)) {
		answer_error(out, kp_str_c(err.msg));
	} else if (walk(&req, t, &said)) {
		kp_buf_add(out, kp_buf_str(&said));
	} else {
		answer_error(out, kp_buf_str(&said));
	}
}

int main(void)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	struct kp_buf out;
	kp_buf_init(&out, 1U << 30);
	while ((n = getline(&line, &cap, stdin)) > 0) {
		kp_buf_reset(&out);
		answer(kp_str_n(line, (size_t)n), &out);
		if (!kp_buf_ok(&out) || fwrite(out.p, 1, out.n, stdout) != out.n ||
			fflush(stdout)) {
			return 1;
		}
	}
	kp_buf_fini(&out);
	free(line);
	return 0;
}
