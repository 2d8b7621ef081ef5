/* bench/json: request bodies read by lib/json's pull reader and by jansson, in turn in one run.
 * Prints one line per case: the best of several rounds in MB/s, and the ratio. */
#include "base/clock.h"
#include "base/mem.h"
#include "json/value.h"
#include "json/write.h"

#include <jansson.h>
#include <stdio.h>

enum { ROUNDS = 7 };

static double ours(kp_str text)
{
	struct kp_arena *a = kp_arena_create((size_t)1 << 30);
	struct kp_jv v;
	struct kp_err err;
	int64_t t = kp_now_ns();
	KP_BUG_ON(kp_jv_parse(text, a, &v, &err) != 0);
	t = kp_now_ns() - t;
	kp_arena_destroy(a);
	return (double)text.n / (double)t * 1e3;
}

static double theirs(kp_str text)
{
	json_error_t e;
	int64_t t = kp_now_ns();
	json_t *v = json_loadb(text.p, text.n, JSON_ALLOW_NUL, &e);
	t = kp_now_ns() - t;
	KP_BUG_ON(!v);
	json_decref(v);
	return (double)text.n / (double)t * 1e3;
}

static void run(const char *name, kp_str text)
{
	double best_ours = 0, best_theirs = 0;
	for (int i = 0; i < ROUNDS; i++) {
		double o = ours(text), t = theirs(text);
		best_ours = o > best_ours ? o : best_ours;
		best_theirs = t > best_theirs ? t : best_theirs;
	}
	printf("%-28s %9zu bytes  kelpie %8.0f MB/s  jansson %8.0f MB/s  ratio %6.1f\n", name,
		text.n, best_ours, best_theirs, best_ours / best_theirs);
}

/* {"messages":[{"role":"user","content":"..."}]} around `piece` repeated to about n bytes. */
static void chat(struct kp_buf *b, const char *piece, size_t n)
{
	kp_buf_reset(b);
	kp_buf_lit(b, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"");
	while (b->n < n) {
		kp_json_w_esc(b, kp_str_c(piece));
	}
	kp_buf_lit(b, "\"}],\"temperature\":0.7,\"stream\":true}");
	KP_BUG_ON(b->failed);
}

int main(void)
{
	struct kp_buf b;
	kp_buf_init(&b, 64 << 20);
	chat(&b, "The quick brown fox jumps over the lazy dog while 42 engineers look on. ",
		66 << 10);
	run("ASCII prompt", kp_buf_str(&b));
	chat(&b, "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk", 8 << 20);
	run("base64, 8 MiB", kp_buf_str(&b));
	chat(&b, "def f(x):\n\treturn \"a\" + x\n\n", 66 << 10);
	run("code (many escapes)", kp_buf_str(&b));
	chat(&b, "Съешь же ещё этих мягких французских булок, да выпей чаю. 吾輩は猫である。",
		66 << 10);
	run("Russian and Japanese", kp_buf_str(&b));
	kp_buf_reset(&b);
	kp_buf_lit(&b, "[");
	for (int i = 0; i < 20000; i++) {
		kp_buf_printf(&b, "%s%d", i ? "," : "", i * 7919 % 151936);
	}
	kp_buf_lit(&b, "]");
	run("20,000 token ids", kp_buf_str(&b));
	kp_buf_fini(&b);
	return 0;
}
