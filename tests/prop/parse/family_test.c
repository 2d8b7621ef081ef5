/* Every case of every family, in every cut: whole, per byte, every division in two, divisions at random; with the markers as text and as added tokens; and
   ended after every byte. All ways must tell the same. Prints how many pairs of case and cut were compared. */
#include "tests/prop/parse/cases_json.h"
#include "tests/prop/parse/cases_other.h"
#include "tests/prop/parse/cases_tags.h"
#include "tests/prop/parse/run.h"

/* Random cuts of each case: 300, and 10,000 with KP_LONG. */
static uint64_t n_random = 300;

static const struct {
	const struct parse_case *rows;
	size_t n;
} tables[] = {
	{ json_cases, KP_LEN(json_cases) },
	{ tags_cases, KP_LEN(tags_cases) },
	{ other_cases, KP_LEN(other_cases) },
};

/* The i-th of all; NULL: past the end. */
static const struct parse_case *case_at(size_t i)
{
	for (size_t t = 0; t < KP_LEN(tables); t++) {
		if (i < tables[t].n) {
			return &tables[t].rows[i];
		}
		i -= tables[t].n;
	}
	return NULL;
}

/* Text that may hold added tokens, which come whole. */
static void feed_tokens(struct run *r, kp_str s)
{
	struct kp_err err;
	size_t from = 0;
	for (size_t i = 0; i < s.n;) {
		size_t best = 0;
		for (size_t k = 0; k < n_controls; k++) {
			if (kp_str_starts(kp_str_skip(s, i), controls[k]) && controls[k].n > best) {
				best = controls[k].n;
			}
		}
		if (best) {
			feed(r, kp_str_sub(s, from, i));
			assert_int_equal(kp_parser_feed_control(
						 r->p, kp_str_sub(s, i, i + best), false, &err),
				0);
			from = i + best;
		}
		i += best ? best : 1;
	}
	feed(r, kp_str_skip(s, from));
}

static void at_random(
	const struct parse_case *c, kp_str text, uint64_t seed, bool tokens, kp_str want)
{
	struct seen s;
	struct kp_rng r;
	struct run run = begin(c, &s, tokens);
	kp_rng_seed(&r, seed);
	for (size_t at = 0; at < text.n;) {
		size_t n =
			KP_MIN(1 + (size_t)kp_rng_below(&r, 1 + kp_rng_below(&r, 12)), text.n - at);
		feed(&run, kp_str_sub(text, at, at + n));
		at += n;
	}
	same(c, end(&run, false), want, "at random", seed);
	kp_buf_fini(&s.text);
}

static void test_all_cuts(void **state)
{
	(void)state;
	const struct parse_case *c;
	for (size_t i = 0; (c = case_at(i)); i++) {
		kp_str text = kp_str_c(c->text), want = kp_str_c(c->means);
		struct seen s;
		struct run r = begin(c, &s, false);
		feed(&r, text);
		same(c, end(&r, false), want, "whole", 0);
		kp_buf_fini(&s.text);
		per_byte(c, text, false, want);
		for (size_t at = 1; at < text.n; at++) {
			in_two(c, text, at, false, want);
		}
		for (uint64_t seed = 0; seed < n_random; seed++) {
			at_random(c, text, seed, false, want);
		}
	}
}

/* Markers as added tokens: the same meaning, but for cases that are about markers as text. */
static void test_all_cuts_of_tokens(void **state)
{
	(void)state;
	const struct parse_case *c;
	for (size_t i = 0; (c = case_at(i)); i++) {
		if (c->start != KP_PARSE_AUTO && c->tools == NULL) {
			continue;
		}
		struct seen whole;
		struct run r = begin(c, &whole, true);
		feed_tokens(&r, kp_str_c(c->text));
		kp_str want = end(&r, false);
		kp_str text = kp_str_c(c->text);
		for (size_t at = 1; at < text.n; at++) {
			struct seen s;
			/* A cut inside of a token cannot be. */
			bool inside = false;
			for (size_t k = 0; k < n_controls; k++) {
				size_t n = controls[k].n;
				for (size_t back = 1; back < n && back <= at; back++) {
					inside = inside ||
						 kp_str_starts(
							 kp_str_skip(text, at - back), controls[k]);
				}
			}
			if (!inside) {
				r = begin(c, &s, true);
				feed_tokens(&r, kp_str_sub(text, 0, at));
				feed_tokens(&r, kp_str_skip(text, at));
				same(c, end(&r, false), want, "tokens in two", at);
				kp_buf_fini(&s.text);
			}
		}
		kp_buf_fini(&whole.text);
	}
}

static void test_cut_short_anywhere(void **state)
{
	(void)state;
	const struct parse_case *c;
	for (size_t i = 0; (c = case_at(i)); i++) {
		kp_str text = kp_str_c(c->text);
		for (size_t n = 0; n <= text.n; n++) {
			kp_str part = kp_str_sub(text, 0, n);
			struct seen s;
			if (!kp_utf8_ok(
				    part)) { /* a detokenizer gives whole characters in the end */
				continue;
			}
			struct run r = begin(c, &s, false);
			feed(&r, part);
			kp_str want = end(&r, true);
			per_byte(c, part, true, want);
			in_two(c, part, n / 2, true, want);
			in_two(c, part, n ? n - 1 : 0, true, want);
			kp_buf_fini(&s.text);
		}
	}
}

/* Every marker of every family, in the place of a value: data, also where it is the family's own. */
static bool put_instead(kp_str text, kp_str marker, bool is_json, struct kp_buf *out)
{
	bool any = false;
	for (ptrdiff_t at; (at = kp_str_find(text, KP_S("Paris"))) >= 0; any = true) {
		char before = at ? text.p[at - 1] : 0;
		kp_buf_add(out, kp_str_sub(text, 0, (size_t)at));
		kp_buf_addc(out, 'x');
		if (is_json || before == '"' || before == '\'') {
			kp_literal_escape(marker, out);
		} else {
			kp_buf_add(out, marker);
		}
		kp_buf_addc(out, 'y');
		text = kp_str_skip(text, (size_t)at + 5);
	}
	kp_buf_add(out, text);
	return any;
}

/* Nothing but the marker itself can say where such a value ends. */
static bool is_end(const struct kp_grammar *g, kp_str marker, kp_str text)
{
	const char *const *ends = g->body == KP_BODY_TAGS && !g->call_close[0] ? g->close : NULL;
	bool quoted = kp_str_has(text, KP_S("\"Paris")) || kp_str_has(text, KP_S("'Paris"));
	for (size_t i = 0; ends && !quoted && i < KP_MARKS && ends[i]; i++) {
		if (kp_str_has(marker, kp_str_c(ends[i]))) {
			return true;
		}
	}
	return g->quote && kp_str_eq(marker, kp_str_c(g->quote));
}

static void test_markers_inside_of_values(void **state)
{
	(void)state;
	const struct parse_case *one;
	size_t n = 0;
	for (size_t i = 0; (one = case_at(i)); i++) {
		struct parse_case c = *one;
		const struct kp_grammar *g = c.tools ? kp_grammar_find(kp_str_c(c.tools)) : NULL;
		if (!g || !kp_str_has(kp_str_c(c.means), KP_S("T:get_weather"))) {
			continue;
		}
		for (size_t k = 0; k < n_controls; k++) {
			struct kp_buf text, means;
			kp_buf_init(&text, 1 << 16);
			kp_buf_init(&means, 1 << 16);
			if (!is_end(g, controls[k], kp_str_c(c.text)) &&
				put_instead(kp_str_c(c.text), controls[k], false, &text) &&
				put_instead(kp_str_c(c.means), controls[k], true, &means)) {
				struct parse_case changed = c;
				struct seen s;
				changed.text = kp_buf_cstr(&text);
				changed.means = kp_buf_cstr(&means);
				struct run r = begin(&changed, &s, false);
				feed(&r, kp_buf_str(&text));
				same(&changed, end(&r, false), kp_buf_str(&means), "marker as data",
					k);
				kp_buf_fini(&s.text);
				per_byte(&changed, kp_buf_str(&text), false, kp_buf_str(&means));
				n++;
			}
			kp_buf_fini(&text);
			kp_buf_fini(&means);
		}
	}
	assert_true(n > 3000);
}

static const struct parse_case hermes = { "hermes", NULL, 0, NULL, NULL };

/* A special token is shown nowhere, and in the middle of a string it is still a marker; a token that is shown is part of the string. */
static void test_special_tokens(void **state)
{
	(void)state;
	for (int hidden = 0; hidden < 2; hidden++) {
		struct seen s;
		struct kp_err err;
		struct run r = begin(&hermes, &s, true);
		feed(&r, KP_S("a"));
		assert_int_equal(kp_parser_feed_control(r.p, KP_S("<|x|>"), hidden, &err), 0);
		feed_tokens(&r, KP_S("b<tool_call>"));
		feed(&r, KP_S("{\"name\": \"get_time\", \"arguments\": {\"tz\": \"C"));
		assert_int_equal(
			kp_parser_feed_control(r.p, KP_S("</tool_call>"), hidden, &err), 0);
		feed(&r, KP_S("ET"));
		assert_string_equal(end(&r, true).p ? kp_buf_cstr(&s.text) : "",
			hidden ? "C:ab\nT:get_time {\"tz\": \"C\nC:ET\n"
			       : "C:a<|x|>b\nT:get_time {\"tz\": \"C</tool_call>ET\n");
		kp_buf_fini(&s.text);
	}
}

static struct kp_parse_opts plain_opts(struct seen *s)
{
	*s = (struct seen){ .last = KP_EV_NONE };
	kp_buf_init(&s->text, 1 << 20);
	return (struct kp_parse_opts){ .lexicon = lexicon_of(&hermes, false),
		.offer = &offer,
		.rng = &rng,
		.emit = see,
		.ctx = s };
}

static void test_only_one_call(void **state)
{
	struct seen s;
	struct kp_parse_opts o = plain_opts(&s);
	(void)state;
	o.one_call = true;
	struct run r = { kp_parser_create(&o), &s, false };
	feed(&r, KP_S("a<tool_call>" JA "</tool_call><tool_call>" JB "</tool_call>b"));
	assert_true(kp_str_eq(end(&r, false), KP_S("C:a\n" A)));
	kp_buf_fini(&s.text);
}

/* Arguments before the name are held: up to max_bytes. */
static void test_what_is_held_has_a_limit(void **state)
{
	(void)state;
	for (size_t n = 900; n <= 1100; n += 200) {
		struct seen s;
		struct kp_err err = KP_ERR_INIT;
		struct kp_parse_opts o = plain_opts(&s);
		o.max_bytes = 1000;
		KP_AUTO(parser) struct kp_parser *p = kp_parser_create(&o);
		int r = kp_parser_feed(p, KP_S("<tool_call>{\"arguments\": {\"city\": \""), &err);
		for (size_t i = 0; i < n && r == 0; i++) {
			r = kp_parser_feed(p, KP_S("x"), &err);
		}
		assert_int_equal(r, n > 1000 ? -1 : 0);
		if (r) {
			assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
			assert_string_equal(
				err.msg, "build `what may be a tool call`: more than 1000 bytes");
		}
		kp_buf_fini(&s.text);
	}
}

/* Deeper than anything is tracked: JSON passes to the call's end, a Python call ends there and the rest is text. */
static void test_deep_arguments(void **state)
{
	static const struct {
		const char *tools, *before, *after, *means, *end;
	} deep[] = {
		{ "hermes", "<tool_call>{\"name\": \"now\", \"arguments\": ", "</tool_call>",
			"T:now ", "\n" },
		{ "olmo3", "<function_calls>now(a=", "</function_calls>", "T:now {\"a\":", "" },
	};
	(void)state;
	for (size_t i = 0; i < KP_LEN(deep); i++) {
		struct parse_case c = { deep[i].tools, NULL, 0, NULL, NULL };
		struct seen s;
		struct run r = begin(&c, &s, false);
		size_t n = 5000, got = 0;
		feed(&r, kp_str_c(deep[i].before));
		for (size_t k = 0; k < n; k++) {
			feed(&r, KP_S("["));
		}
		feed(&r, kp_str_c(deep[i].after));
		kp_str all = end(&r, false);
		assert_true(kp_str_starts(all, kp_str_c(deep[i].means)));
		assert_true(kp_str_ends(all, kp_str_c(deep[i].end)));
		for (size_t k = 0; k < all.n; k++) {
			got += all.p[k] == '[';
		}
		assert_int_equal(got, n);
		kp_buf_fini(&s.text);
	}
}

static int teardown(void **state)
{
	size_t n_cases = 0;
	(void)state;
	kp_arena_destroy(arena);
	for (size_t t = 0; t < KP_LEN(tables); t++) {
		n_cases += tables[t].n;
	}
	printf("count: %llu pairs of case and cut, %zu cases\n", (unsigned long long)n_pairs,
		n_cases);
	return 0;
}

int main(void)
{
	n_random = getenv("KP_LONG") ? 10000 : 300;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_cuts),
		cmocka_unit_test(test_all_cuts_of_tokens),
		cmocka_unit_test(test_cut_short_anywhere),
		cmocka_unit_test(test_markers_inside_of_values),
		cmocka_unit_test(test_special_tokens),
		cmocka_unit_test(test_only_one_call),
		cmocka_unit_test(test_what_is_held_has_a_limit),
		cmocka_unit_test(test_deep_arguments),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
