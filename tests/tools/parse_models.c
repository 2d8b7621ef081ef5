/* Prints docs/models.md from the tables of lib/parse. */
#include "parse/grammar.h"

#include <stdio.h>

static const char *const bodies[] = { "", "JSON", "HEAD", "TAGS", "PYTHON", "BRACES", "CHANNELS",
	"TREE" };
static const char *const ids[] = { "`call_…`", "nine characters", "`functions.NAME:N`" };
static const char *const in_thought[] = { "as a token", "ends it", "never" };

static void put(const char *text)
{
	for (; *text; text++) {
		if (*text == '\n') {
			fputs("⏎", stdout);
		} else {
			fputs(*text == '|' ? "\\|" : (const char[]){ *text, 0 }, stdout);
		}
	}
}

static void put_code(const char *text)
{
	printf("<code>");
	for (const char *p = text; *p; p++) {
		switch (*p) {
		case '<':
			fputs("&lt;", stdout);
			break;
		case '|':
			fputs("&#124;", stdout);
			break;
		default:
			put((const char[]){ *p, 0 });
		}
	}
	printf("</code>");
}

static void put_list(const char *const *list)
{
	for (size_t i = 0; i < KP_MARKS && list[i]; i++) {
		printf("%s", i ? " " : "");
		put_code(list[i]);
	}
}

int main(void)
{
	printf("# Families of models\n\n"
	       "How the families' tool calls and thoughts are written, and how that was tested. Made from the tables that the parsers use (`make regen`); what the words mean is in\n"
	       "[parsers.md](parsers.md). Every family is tested in every cut (`tests/prop/parse`); *verified* says by what besides:\n"
	       "*its template*: calls that the model's own chat template renders into history are parsed back (`tests/oracle/prompt/test_parse_round_trip.py`). *vLLM*: its parser says the same of the same text (`hack/check-vllm`). *SGLang*: so does its (`tests/oracle/prompt/test_parse_sglang.py`). *transformers*, *mistral-common*, *openai-harmony*: so do theirs, in every run "
	       "(`test_parse_transformers.py`, `test_parse_mistral.py`, `test_parse_harmony.py`).\n\n"
	       "*Constraint*: how arguments stand in calls that must be made, in xgrammar's words; *a list*: such calls are not the family's own ([structured-output.md](structured-output.md)).\n\n"
	       "## Tool calls\n\n"
	       "| parser | models | markers | body | constraint | identifiers | in thoughts | verified | other names |\n|---|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < kp_n_grammars; i++) {
		const struct kp_grammar *g = &kp_grammars[i];
		printf("| `%s` | ", g->name);
		put(g->models);
		if (g->note) {
			printf("; ");
			put(g->note);
		}
		printf(" | ");
		put_list(g->open);
		printf("%s", g->call_open[0] ? " " : "");
		put_list(g->call_open);
		printf(" | %s | %s | %s | %s | %s | %s |\n", bodies[g->body],
			g->forms[0].head ? g->forms[0].style : "a list", ids[g->ids],
			in_thought[g->in_thought], g->verified ? g->verified : "unverified",
			g->aliases ? g->aliases : "");
	}
	printf("\n## Thoughts\n\n| parser | models | markers | switch | again behind text | other names |\n|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < kp_n_thinkings; i++) {
		const struct kp_thinking *t = &kp_thinkings[i];
		printf("| `%s` | ", t->name);
		put(t->models);
		printf(" | ");
		put_list(t->open);
		printf(" ");
		put_list(t->close);
		printf(" | %s%s%s | %s | %s |\n", t->kwarg ? t->kwarg : "",
			t->kwarg && t->is_default ? ", " : "", t->is_default ? "on by default" : "",
			t->reopens ? "yes" : "no", t->aliases ? t->aliases : "");
	}
	return 0;
}
