/* A model's own sampling stands in for what a request leaves open, and for nothing else. */
#include "core/sampling.h"
#include "tests/test.h"

static void what_is_said_stays_and_the_rest_is_filled(void **state)
{
	(void)state;
	struct kp_sampling s = { .set = KP_SET_TEMPERATURE | KP_SET_TOP_K | KP_SET_MAX_TOKENS,
		.temperature = 0,
		.top_k = -1,
		.max_tokens = 7,
		.n = 2 };
	const struct kp_sampling defaults = { .set = UINT32_MAX & ~KP_SET_PRESENCE_PENALTY,
		.temperature = 0.6,
		.top_p = 0.9,
		.top_k = 20,
		.min_p = 0.1,
		.frequency_penalty = 0.2,
		.presence_penalty = 0.3,
		.repetition_penalty = 1.1,
		.seed = 5,
		.max_tokens = 100,
		.logprobs = 3,
		.n = 9 };
	kp_sampling_fill(&s, &defaults);
	assert_int_equal(s.set, KP_SET_TEMPERATURE | KP_SET_TOP_K | KP_SET_MAX_TOKENS |
					KP_SET_TOP_P | KP_SET_MIN_P | KP_SET_FREQUENCY_PENALTY |
					KP_SET_REPETITION_PENALTY);
	assert_true(s.temperature == 0 && s.top_k == -1);
	assert_true(s.top_p == 0.9 && s.min_p == 0.1 && s.frequency_penalty == 0.2 &&
		    s.repetition_penalty == 1.1);
	assert_true(s.presence_penalty == 0 && s.seed == 0 && s.logprobs == 0);
	assert_int_equal(s.max_tokens, 7);
	assert_int_equal(s.n, 2);
}

static void a_model_without_any_changes_nothing(void **state)
{
	(void)state;
	struct kp_sampling s = { .set = KP_SET_TOP_P, .top_p = 0.5 };
	const struct kp_sampling defaults = { .temperature = 0.6 }; /* not set */
	kp_sampling_fill(&s, &defaults);
	assert_int_equal(s.set, KP_SET_TOP_P);
	assert_true(s.temperature == 0 && s.top_p == 0.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_stays_and_the_rest_is_filled),
		cmocka_unit_test(a_model_without_any_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
