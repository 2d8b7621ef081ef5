/* Markers as tokens of a vocabulary. */
#ifndef TESTS_PROP_PARSE_CONTROLS_H
#define TESTS_PROP_PARSE_CONTROLS_H

#include "parse/grammar.h"

/* The markers of all grammars, as a vocabulary could have them. */
static kp_str controls[512];
static size_t n_controls;

static void add_controls(const char *const *list)
{
	for (size_t i = 0; i < KP_MARKS && list[i]; i++) {
		kp_str s = kp_str_c(list[i]);
		bool known = s.n < 4 || (s.p[0] != '<' && s.p[0] != '[') || s.p[s.n - 1] == '=' ||
			     kp_str_has(s, KP_S("\n"));
		for (size_t k = 0; !known && k < n_controls; k++) {
			known = kp_str_eq(controls[k], s);
		}
		if (!known) {
			controls[n_controls++] = s;
		}
	}
}

KP_UNUSED static void make_controls(void)
{
	for (size_t i = 0; i < kp_n_grammars; i++) {
		const struct kp_grammar *g = &kp_grammars[i];
		add_controls(g->open);
		add_controls(g->close);
		add_controls(g->call_open);
		add_controls(g->call_close);
		add_controls(g->name_end);
		add_controls(g->key_open);
		add_controls(g->key_end);
		add_controls(g->value_close);
		add_controls((const char *const[]){ g->value_open, NULL });
		add_controls((const char *const[]){ g->quote, NULL });
		add_controls((const char *const[]){ g->id_mark, NULL });
	}
	for (size_t i = 0; i < kp_n_thinkings; i++) {
		add_controls(kp_thinkings[i].open);
		add_controls(kp_thinkings[i].close);
	}
	static const char *const harmony[][2] = { { "<|start|>" }, { "<|channel|>" },
		{ "<|message|>" }, { "<|constrain|>" }, { "<|end|>" }, { "<|call|>" },
		{ "<|return|>" } };
	for (size_t i = 0; i < KP_LEN(harmony); i++) {
		add_controls(harmony[i]);
	}
}

#endif
