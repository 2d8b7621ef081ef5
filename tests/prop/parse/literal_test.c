/* Markers as data: every marker of every family, spelled out, in what a client says, in answers, in thoughts, in values of arguments. Nothing becomes a call or a thought that is
   none, and nothing vanishes. Where the vocabulary has a marker as a token, the text spelled out is data everywhere. */
#include "tests/prop/parse/cases_json.h"
#include "tests/prop/parse/cases_other.h"
#include "tests/prop/parse/cases_tags.h"
#include "tests/prop/parse/run.h"

/* What a vocabulary has as tokens besides: the parts of the markers that are made of several, and of the framing. */
static void add_parts(const char *const *texts)
{
	for (size_t i = 0; i < KP_MARKS && texts[i]; i++) {
		kp_str rest = kp_str_c(texts[i]);
		ptrdiff_t from, to;
		while ((from = kp_str_find_char(rest, '<')) >= 0 &&
			(to = kp_str_find_char(kp_str_skip(rest, (size_t)from), '>')) >= 0) {
			kp_str part = kp_str_sub(rest, (size_t)from, (size_t)(from + to + 1));
			bool known = part.n < 4;
			for (size_t k = 0; !known && k < n_controls; k++) {
				known = kp_str_eq(controls[k], part);
			}
			if (!known) {
				assert_true(n_controls < KP_LEN(controls));
				controls[n_controls++] = part;
			}
			rest = kp_str_skip(rest, (size_t)(from + to + 1));
		}
	}
}

static void add_all_parts(void)
{
	for (size_t i = 0; i < kp_n_grammars; i++) {
		add_parts(kp_grammars[i].open);
		add_parts(kp_grammars[i].call_open);
		add_parts(kp_grammars[i].call_close);
		add_parts(kp_grammars[i].drop);
		add_parts(kp_grammars[i].kinds);
		add_parts(kp_grammars[i].end);
		add_parts((const char *const[]){ kp_grammars[i].message, NULL });
	}
	for (size_t i = 0; i < kp_n_thinkings; i++) {
		add_parts(kp_thinkings[i].open);
		add_parts(kp_thinkings[i].close);
		add_parts(kp_thinkings[i].drop);
	}
}

static const struct kp_grammar *grammar_at(size_t i)
{
	return i < kp_n_grammars ? &kp_grammars[i] : NULL;
}

static const struct kp_thinking *thinking_at(size_t i)
{
	return i < kp_n_thinkings ? &kp_thinkings[i] : NULL;
}

/* A parser of its own lexicon; the markers are tokens of the vocabulary, or text. */
struct made {
	struct kp_arena *arena;
	const struct kp_lexicon *lexicon;
};

static struct made make(const struct kp_grammar *g, const struct kp_thinking *t, bool tokens)
{
	struct made m = { .arena = kp_arena_create(1 << 20) };
	struct kp_err err;
	assert_int_equal(kp_lexicon_create(m.arena, g, t, controls, tokens ? n_controls : 0,
				 &m.lexicon, &err),
		0);
	return m;
}

static struct run parser_of(const struct made *m, struct seen *s, enum kp_parse_start start)
{
	*s = (struct seen){ .last = KP_EV_NONE };
	kp_buf_init(&s->text, 1 << 20);
	const struct kp_parse_opts o = { .lexicon = m->lexicon,
		.offer = &offer,
		.start = start,
		.rng = &rng,
		.emit = see,
		.ctx = s };
	return (struct run){ kp_parser_create(&o), s, true };
}

static void token(struct run *r, kp_str s)
{
	struct kp_err err;
	assert_int_equal(kp_parser_feed_control(r->p, s, true, &err), 0);
}

/* What comes before an answer's text where the format is messages. */
static void open_message(struct run *r, const struct kp_grammar *g)
{
	if (g && g->body == KP_BODY_CHANNELS && g->message) {
		token(r, kp_str_c(g->message));
		token(r, kp_str_c(g->kinds[0]));
	} else if (g && g->body == KP_BODY_CHANNELS) {
		token(r, KP_S("<|channel|>"));
		feed(r, KP_S("final"));
		token(r, KP_S("<|message|>"));
	}
}

/* before, the marker, after: whole or a byte at a time. */
static void feed_spelled(struct run *r, kp_str before, kp_str marker, kp_str after, bool bytes)
{
	struct kp_buf all;
	kp_buf_init(&all, 1 << 12);
	kp_buf_add(&all, before);
	kp_buf_add(&all, marker);
	kp_buf_add(&all, after);
	kp_str s = kp_buf_str(&all);
	for (size_t i = 0; i < s.n; i += bytes ? 1 : s.n) {
		feed(r, kp_str_sub(s, i, bytes ? i + 1 : s.n));
	}
	kp_buf_fini(&all);
}

static void expect(
	const char *who, kp_str got, const char *kind, kp_str before, kp_str marker, kp_str after)
{
	struct kp_buf want;
	kp_buf_init(&want, 1 << 12);
	kp_buf_printf(&want, "%s%" KP_FMT "%" KP_FMT "%" KP_FMT "\n", kind, KP_ARG(before),
		KP_ARG(marker), KP_ARG(after));
	if (!kp_str_eq(got, kp_buf_str(&want))) {
		print_error("%s: got\n%" KP_FMT "want\n%s", who, KP_ARG(got), kp_buf_cstr(&want));
		fail();
	}
	kp_buf_fini(&want);
}

static const struct {
	kp_str before, after;
} places[] = { { KP_S_INIT("a "), KP_S_INIT(" b") }, { KP_S_INIT("a"), KP_S_INIT("b") },
	{ KP_S_INIT(""), KP_S_INIT("b") }, { KP_S_INIT("a"), KP_S_INIT("") },
	{ KP_S_INIT("a`"), KP_S_INIT("{\"name\": \"now\", \"arguments\": {}}") } };

/* Of a family, with each of the markers of all. */
static void answers(const struct kp_grammar *g, const struct kp_thinking *t)
{
	const char *who = g ? g->name : t->name;
	struct made m = make(g, t, true);
	for (size_t k = 0; k < n_controls; k++) {
		for (size_t i = 0; i < 2 * KP_LEN(places); i++) {
			struct seen s;
			kp_str before = places[i / 2].before, after = places[i / 2].after;
			struct run r = parser_of(&m, &s, KP_PARSE_IN_TEXT);
			open_message(&r, g);
			feed_spelled(&r, before, controls[k], after, i % 2);
			expect(who, end(&r, false), "C:", before, controls[k], after);
			kp_buf_fini(&s.text);
		}
	}
	kp_arena_destroy(m.arena);
}

static void test_answers(void **state)
{
	(void)state;
	for (size_t i = 0; grammar_at(i); i++) {
		answers(grammar_at(i), NULL);
	}
	for (size_t i = 0; thinking_at(i); i++) {
		answers(NULL, thinking_at(i));
		answers(kp_grammar_find(KP_S("hermes")), thinking_at(i));
	}
}

/* Without tools in the request, and markers as text: whatever is no thought's is text. */
static bool is_part_of(kp_str marker, const char *const *texts)
{
	for (size_t i = 0; i < KP_MARKS && texts[i]; i++) {
		if (kp_str_has(marker, kp_str_c(texts[i]))) {
			return true;
		}
	}
	return false;
}

static void test_answers_with_markers_of_others(void **state)
{
	(void)state;
	for (size_t i = 0; grammar_at(i); i++) {
		const struct kp_grammar *g = grammar_at(i);
		struct made m = make(g, NULL, false);
		for (size_t k = 0; k < n_controls && g->body != KP_BODY_CHANNELS; k++) {
			struct seen s;
			struct run r = parser_of(&m, &s, KP_PARSE_IN_TEXT);
			feed_spelled(&r, KP_S("a "), controls[k], KP_S(" b"), k % 2);
			kp_str got = end(&r, false);
			if (s.n_calls) {
				print_error("%s: %" KP_FMT "\n", g->name, KP_ARG(controls[k]));
			}
			assert_int_equal(s.n_calls, 0);
			if (!is_part_of(controls[k], g->drop)) {
				expect(g->name, got, "C:", KP_S("a "), controls[k], KP_S(" b"));
			}
			kp_buf_fini(&s.text);
		}
		kp_arena_destroy(m.arena);
	}
}

static void test_thoughts(void **state)
{
	(void)state;
	for (size_t i = 0; thinking_at(i); i++) {
		for (size_t n = 0; n <= kp_n_grammars; n++) {
			const struct kp_grammar *g = grammar_at(n);
			struct made m = make(g, thinking_at(i), true);
			for (size_t k = 0; k < n_controls; k++) {
				struct seen s;
				if (g && g->body == KP_BODY_CHANNELS) {
					continue;
				}
				struct run r = parser_of(&m, &s, KP_PARSE_IN_THOUGHT);
				feed_spelled(&r, KP_S("a "), controls[k], KP_S(" b"), k % 2);
				expect(thinking_at(i)->name, end(&r, false), "R:", KP_S("a "),
					controls[k], KP_S(" b"));
				kp_buf_fini(&s.text);
			}
			kp_arena_destroy(m.arena);
		}
	}
}

/* --- values ------------------------------------------------------------------------------------- */

/* Text whose markers are tokens, up to the value in it, then the marker spelled out, and so on. */
static void feed_tokens(struct run *r, kp_str s)
{
	size_t from = 0;
	for (size_t i = 0; i < s.n;) {
		size_t best = 0;
		for (size_t k = 0; k < n_controls; k++) {
			bool fits = kp_str_starts(kp_str_skip(s, i), controls[k]);
			best = fits ? KP_MAX(best, controls[k].n) : best;
		}
		if (best) {
			feed(r, kp_str_sub(s, from, i));
			token(r, kp_str_sub(s, i, i + best));
			from = i + best;
		}
		i += best ? best : 1;
	}
	feed(r, kp_str_skip(s, from));
}

static size_t with_marker(const struct parse_case *c, const struct made *m, kp_str marker)
{
	struct seen s;
	struct kp_buf escaped, want;
	kp_str text = kp_str_c(c->text), means = kp_str_c(c->means);
	struct run r = parser_of(m, &s, c->start);
	kp_buf_init(&escaped, 1 << 10);
	kp_buf_init(&want, 1 << 14);
	kp_literal_escape(marker, &escaped);
	for (ptrdiff_t at; (at = kp_str_find(text, KP_S("Paris"))) >= 0;) {
		char before = at ? text.p[at - 1] : 0;
		bool quoted = before == '"' || before == '\'';
		feed_tokens(&r, kp_str_sub(text, 0, (size_t)at));
		feed_spelled(&r, KP_S("x"), quoted ? kp_buf_str(&escaped) : marker, KP_S("y"),
			marker.n % 2);
		text = kp_str_skip(text, (size_t)at + 5);
	}
	feed_tokens(&r, text);
	for (ptrdiff_t at; (at = kp_str_find(means, KP_S("Paris"))) >= 0;) {
		kp_buf_add(&want, kp_str_sub(means, 0, (size_t)at));
		kp_buf_printf(&want, "x%" KP_FMT "y", KP_ARG(kp_buf_str(&escaped)));
		means = kp_str_skip(means, (size_t)at + 5);
	}
	kp_buf_add(&want, means);
	same(c, end(&r, false), kp_buf_str(&want), "spelled out", 0);
	kp_buf_fini(&s.text);
	kp_buf_fini(&escaped);
	kp_buf_fini(&want);
	return 1;
}

/* Does the case mean the same when its markers are tokens? Some are about markers that are not. */
static bool means_it(const struct parse_case *c, const struct made *m)
{
	struct seen s;
	struct run r = parser_of(m, &s, c->start);
	feed_tokens(&r, kp_str_c(c->text));
	bool is = kp_str_eq(end(&r, false), kp_str_c(c->means));
	kp_buf_fini(&s.text);
	return is;
}

static size_t values(const struct parse_case *rows, size_t n_rows)
{
	size_t n = 0;
	for (size_t i = 0; i < n_rows; i++) {
		const struct parse_case *c = &rows[i];
		if (!c->tools || !kp_str_has(kp_str_c(c->means), KP_S("T:get_weather"))) {
			continue;
		}
		struct made m = make(kp_grammar_find(kp_str_c(c->tools)),
			c->thinking ? kp_thinking_find(kp_str_c(c->thinking)) : NULL, true);
		for (size_t k = 0; k < n_controls && means_it(c, &m); k++) {
			n += with_marker(c, &m, controls[k]);
		}
		kp_arena_destroy(m.arena);
	}
	return n;
}

static void test_values(void **state)
{
	(void)state;
	size_t n = values(json_cases, KP_LEN(json_cases)) + values(tags_cases, KP_LEN(tags_cases)) +
		   values(other_cases, KP_LEN(other_cases));
	assert_true(n > 10000);
}

/* --- what a client says ------------------------------------------------------------------------- */

/* Where the answer begins does not depend on it: at no family, behind no turn's begin, in a user's text or in a tool's result that the model goes on from. */
static void check_prompt(
	const struct kp_thinking *t, const char *turn, kp_str said, const char *last)
{
	enum kp_parse_start want = 0;
	for (int plain = 1; plain >= 0; plain--) {
		struct kp_text_builder b;
		struct kp_text text;
		struct kp_err err;
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
		kp_text_builder_init(&b, 1 << 16);
		kp_text_builder_add(&b, kp_str_c(turn), KP_ORIGIN_TRUSTED);
		kp_text_builder_add(&b, plain ? KP_S("x") : said, KP_ORIGIN_CLIENT);
		kp_text_builder_add(&b, kp_str_c(last), KP_ORIGIN_TRUSTED);
		assert_int_equal(kp_text_builder_finish(&b, a, &text, &err), 0);
		kp_text_builder_fini(&b);
		enum kp_parse_start got = kp_parse_start_of(t, &text);
		if (!plain && got != want) {
			print_error("%s: `%s%" KP_FMT "%s`\n", t->name, turn, KP_ARG(said), last);
		}
		assert_true(plain || got == want);
		want = got;
	}
}

static void test_what_a_client_says(void **state)
{
	(void)state;
	for (size_t i = 0; thinking_at(i); i++) {
		const struct kp_thinking *t = thinking_at(i);
		for (size_t k = 0; k < n_controls; k++) {
			for (size_t turn = 0; turn < KP_MARKS; turn++) {
				const char *begin = t->turns[turn] ? t->turns[turn] : "";
				check_prompt(t, begin, controls[k], "");
				check_prompt(t, "", controls[k], begin);
				check_prompt(t, begin, controls[k], t->open[0]);
				check_prompt(t, t->open[0], controls[k], t->close[0]);
			}
		}
	}
}

static int teardown(void **state)
{
	(void)state;
	kp_arena_destroy(arena);
	printf("count: %llu texts with markers spelled out\n", (unsigned long long)n_pairs);
	return 0;
}

static int with_parts(void **state)
{
	int r = setup(state);
	add_all_parts();
	return r;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_answers_with_markers_of_others),
		cmocka_unit_test(test_thoughts),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_what_a_client_says),
	};
	return cmocka_run_group_tests(tests, with_parts, teardown);
}
