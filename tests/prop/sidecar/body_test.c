/* Bodies that are read with what is known of messages are read as without: the same turn, or the same error with the same place, wherever `messages` stand among the other members and
   whatever is wrong with any of them. */
#include "prompt/cache.h"
#include "prompt/known.h"
#include "sidecar/api/params.h"
#include "tests/prop/prompt/talk.h"
#include "tests/test.h"

enum { TALKS = 4, STEPS = 12000, MEMORY = 16 << 20 };

static const char *const members[] = { "\"model\":\"m\"", "\"model\" : \"m\"",
	"\"model\":\"other\"", "\"cache_salt\":\"s\"", "\"stream\":true", "\"max_tokens\":5",
	"\"stop\":[\"]\",\"}\"]", "\"temperature\":0.5", "\"user\":\"\\\"[\"",
	"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]" };
/* Each refused, or unusual. */
static const char *const odd[] = { "\"model\":7", "\"model\":null", "\"unknown\":1",
	"\"messages\":null", "\"messages\":[]",
	"\"messages\":[{\"role\":\"user\",\"content\":\"b\"}]", "\"messages\":{}",
	"\"mess\\u0061ges\":[{\"role\":\"user\",\"content\":\"c\"}]", "\"temperature\":3",
	"\"cache_salt\":\"\"", "\"max_tokens\":0", "\"tools\":[1]", "\"n\":2,", "\"x\"",
	"\"top_logprobs\":3", "\"stream_options\":{}" };

static void write_body(const struct talk *t, struct kp_rng *r, struct kp_buf *out)
{
	bool has_messages = false;
	kp_buf_reset(out);
	kp_buf_addc(out, '{');
	for (size_t k = 1 + kp_rng_below(r, 4); k || !has_messages;) {
		const char *one = members[kp_rng_below(r, KP_LEN(members))];
		kp_buf_addz(out, out->n > 1 ? ", " : "");
		if (!has_messages && (k == 0 || kp_rng_below(r, 3) == 0)) {
			has_messages = true;
			kp_buf_lit(out, "\"messages\": ");
			talk_write(t, r, out);
			continue;
		}
		one = kp_rng_below(r, 30) ? one : odd[kp_rng_below(r, KP_LEN(odd))];
		kp_buf_addz(out, one);
		k--;
	}
	kp_buf_addz(out, kp_rng_below(r, 60) ? "}" : kp_rng_below(r, 2) ? "" : "} x");
	if (kp_rng_below(r, 60) == 0) {
		out->p[kp_rng_below(r, out->n)] = "x\"\\[]{},\xff"[kp_rng_below(r, 9)];
	}
}

static void assert_same_turn(const struct kp_turn *a, const struct kp_turn *b)
{
	assert_str(b->model, a->model);
	assert_str(b->cache_salt, a->cache_salt);
	assert_true(kp_jv_eq(&a->chat.messages, &b->chat.messages));
	assert_int_equal(b->chat.tools.n, a->chat.tools.n);
	assert_int_equal(b->chat.n_media, a->chat.n_media);
	assert_int_equal(b->sampling.set, a->sampling.set);
	assert_int_equal(b->sampling.n_stop, a->sampling.n_stop);
	assert_int_equal(b->sampling.max_tokens, a->sampling.max_tokens);
	assert_int_equal(b->stream, a->stream);
	for (size_t i = 0; i < a->chat.n_media; i++) {
		assert_int_equal(b->chat.media[i].message, a->chat.media[i].message);
		assert_str(b->chat.media[i].url, a->chat.media[i].url);
	}
}

static void test_bodies(void **state)
{
	(void)state;
	struct kp_rng r;
	struct talk talk[TALKS] = { 0 };
	struct kp_buf body;
	struct kp_arena *a = kp_arena_create(MEMORY), *b = kp_arena_create(MEMORY);
	struct kp_prompt_cache *c = kp_prompt_cache_create(300 << 10);
	size_t read = 0, refused = 0, known = 0;
	kp_rng_seed(&r, test_seed());
	kp_buf_init(&body, MEMORY);
	for (size_t k = 0; k < STEPS; k++) {
		struct talk *t = &talk[kp_rng_below(&r, TALKS)];
		struct kp_err want = KP_ERR_INIT, got = KP_ERR_INIT;
		talk_edit(t, &talk[kp_rng_below(&r, TALKS)], &r);
		write_body(t, &r, &body);
		kp_arena_reset(a);
		kp_arena_reset(b);
		struct kp_turn without = { .arena = a, .kind = KP_TURN_CHAT },
			       with = { .arena = b, .kind = KP_TURN_CHAT, .cache = c };
		int ra = kp_params_read(kp_buf_str(&body), &without, &want),
		    rb = kp_params_read(kp_buf_str(&body), &with, &got);
		if (ra != rb ||
			(ra && (strcmp(want.msg, got.msg) != 0 ||
				       strcmp(want.param, got.param) != 0 ||
				       want.code != got.code || want.reason != got.reason))) {
			fail_msg("%d %s / %d %s: %" KP_FMT, ra, want.msg, rb, got.msg,
				KP_ARG(kp_buf_str(&body)));
		}
		read += ra == 0;
		refused += ra != 0;
		if (ra == 0) {
			assert_same_turn(&without, &with);
			known += kp_known_count(&with);
			kp_known_keep(&with, NULL);
		}
	}
	print_message("# %zu read, %zu refused, %zu messages known\n", read, refused, known);
	assert_true(read && refused && known > read);
	for (size_t i = 0; i < TALKS; i++) {
		talk_clear(&talk[i], 0);
	}
	kp_arena_destroy(a);
	kp_arena_destroy(b);
	kp_buf_fini(&body);
	kp_prompt_cache_destroy(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_bodies) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
