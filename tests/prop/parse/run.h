/* What family_test.c and faults_test.c share: a case through its family's parser, and what came out, as cases.h writes it. */
#ifndef TESTS_PROP_PARSE_RUN_H
#define TESTS_PROP_PARSE_RUN_H

#include "base/utf8.h"
#include "parse/literal.h"
#include "tests/prop/parse/cases.h"
#include "tests/prop/parse/controls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/rand.h"

static struct kp_arena *arena;
static struct kp_tool_offer offer;
static struct kp_rng rng;
static uint64_t n_pairs;

struct seen {
	struct kp_buf text;
	enum kp_event_kind last;
	bool in_call, ended;
	size_t n_calls, n_bytes;
};

static void see(void *ctx, const struct kp_event *ev)
{
	struct seen *s = ctx;
	static const char *const names[] = { [KP_EV_TEXT] = "C:", [KP_EV_REASONING] = "R:" };
	assert_true(
		ev->kind == KP_EV_TOOL_START || ev->kind == KP_EV_TOOL_END || kp_utf8_ok(ev->text));
	switch ((int)ev->kind) {
	case KP_EV_TEXT:
	case KP_EV_REASONING:
		assert_true(ev->text.n > 0);
		assert_false(s->in_call);
		if (s->last != ev->kind) {
			kp_buf_addz(&s->text, s->text.n ? "\n" : "");
			kp_buf_addz(&s->text, names[ev->kind]);
		}
		kp_buf_add(&s->text, ev->text);
		break;
	case KP_EV_TOOL_START:
		assert_false(s->in_call);
		assert_int_equal(ev->tool.index, s->n_calls);
		assert_true(ev->tool.id.n > 0 && ev->tool.name.n > 0);
		kp_buf_printf(
			&s->text, "%sT:%" KP_FMT " ", s->text.n ? "\n" : "", KP_ARG(ev->tool.name));
		s->in_call = true;
		s->n_calls++;
		break;
	case KP_EV_TOOL_ARGUMENTS:
		assert_true(s->in_call && ev->text.n > 0);
		kp_buf_add(&s->text, ev->text);
		break;
	case KP_EV_TOOL_END:
		assert_true(s->in_call);
		assert_int_equal(ev->tool.index, s->n_calls - 1);
		s->in_call = false;
		break;
	default:
		fail();
	}
	s->last = ev->kind;
}

/* Of the case's family, as a model has it: made once. */
static const struct kp_lexicon *lexicon_of(const struct parse_case *c, bool tokens)
{
	static struct {
		const struct kp_grammar *g;
		const struct kp_thinking *t;
		bool tokens;
		const struct kp_lexicon *lexicon;
	} made[256];
	static size_t n_made;
	const struct kp_grammar *g = c->tools ? kp_grammar_find(kp_str_c(c->tools)) : NULL;
	const struct kp_thinking *t = c->thinking ? kp_thinking_find(kp_str_c(c->thinking)) : NULL;
	struct kp_err err;
	for (size_t i = 0; i < n_made; i++) {
		if (made[i].g == g && made[i].t == t && made[i].tokens == tokens) {
			return made[i].lexicon;
		}
	}
	assert_true(n_made < KP_LEN(made) && (!c->tools || g) && (!c->thinking || t));
	made[n_made].g = g;
	made[n_made].t = t;
	made[n_made].tokens = tokens;
	assert_int_equal(kp_lexicon_create(arena, g, t, controls, tokens ? n_controls : 0,
				 &made[n_made].lexicon, &err),
		0);
	return made[n_made++].lexicon;
}

struct run {
	struct kp_parser *p;
	struct seen *seen;
	bool tokens;
};

KP_UNUSED static struct run begin(const struct parse_case *c, struct seen *s, bool tokens)
{
	*s = (struct seen){ .last = KP_EV_NONE };
	kp_buf_init(&s->text, 1 << 20);
	kp_rng_seed(&rng, 1);
	const struct kp_parse_opts o = { .lexicon = lexicon_of(c, tokens),
		.offer = &offer,
		.start = c->start,
		.rng = &rng,
		.emit = see,
		.ctx = s };
	return (struct run){ kp_parser_create(&o), s, tokens };
}

KP_UNUSED static void feed(struct run *r, kp_str s)
{
	struct kp_err err;
	assert_int_equal(kp_parser_feed(r->p, s, &err), 0);
	kp_parser_flush(r->p);
}

KP_UNUSED static kp_str end(struct run *r, bool truncated)
{
	struct kp_err err;
	assert_int_equal(kp_parser_finish(r->p, truncated, &err), 0);
	assert_false(r->seen->in_call);
	assert_int_equal(r->seen->n_calls, kp_parser_n_calls(r->p));
	kp_parser_destroy(r->p);
	kp_buf_addz(&r->seen->text, r->seen->text.n ? "\n" : "");
	n_pairs++;
	return kp_buf_str(&r->seen->text);
}

KP_UNUSED static void same(
	const struct parse_case *c, kp_str got, kp_str want, const char *how, size_t at)
{
	if (!kp_str_eq(got, want)) {
		print_error("%s, %s at %zu of:\n%s\ngot:\n%" KP_FMT "want:\n%" KP_FMT,
			c->tools ? c->tools : c->thinking, how, at, c->text, KP_ARG(got),
			KP_ARG(want));
		fail();
	}
}

KP_UNUSED static void in_two(
	const struct parse_case *c, kp_str text, size_t at, bool truncated, kp_str want)
{
	struct seen s;
	struct run r = begin(c, &s, false);
	feed(&r, kp_str_sub(text, 0, at));
	feed(&r, kp_str_skip(text, at));
	same(c, end(&r, truncated), want, "in two", at);
	kp_buf_fini(&s.text);
}

KP_UNUSED static void per_byte(const struct parse_case *c, kp_str text, bool truncated, kp_str want)
{
	struct seen s;
	struct run r = begin(c, &s, false);
	for (size_t i = 0; i < text.n; i++) {
		feed(&r, kp_str_sub(text, i, i + 1));
	}
	same(c, end(&r, truncated), want, "per byte", text.n);
	kp_buf_fini(&s.text);
}

KP_UNUSED static int setup(void **state)
{
	struct kp_err err;
	struct kp_jv *tools;
	(void)state;
	arena = kp_arena_create(64 << 20);
	tools = kp_arena_new(arena, struct kp_jv);
	make_controls();
	return kp_jv_parse(kp_str_c(parse_tools), arena, tools, &err) ||
			       kp_tool_offer_create(arena, tools, &offer, &err)
		       ? -1
		       : 0;
}

#endif
