/* How families of models write tool calls and thoughts: tables. A family is a row here and a case in tests/prop/parse; the machines that read the rows are
   shared (machine.h). docs/parsers.md explains the design, docs/models.md is printed from these rows. */
#ifndef KP_PARSE_GRAMMAR_H
#define KP_PARSE_GRAMMAR_H

#include "base/str.h"

enum { KP_MARKS = 6 };

/* What stands inside a call. */
enum kp_body {
	KP_BODY_NONE = 0,
	KP_BODY_JSON,     /* objects that hold name and arguments, alone or in an array */
	KP_BODY_HEAD,     /* a name, a marker, the arguments as JSON */
	KP_BODY_TAGS,     /* a name, then parameters as tags with plain text in them */
	KP_BODY_PYTHON,   /* f(a=1, b="x") */
	KP_BODY_BRACES,   /* name{key:value}, strings between marks (Gemma) */
	KP_BODY_CHANNELS, /* messages with headers (harmony, Inkling) */
	KP_BODY_TREE      /* a name, then parameters as elements, in one another (MiniMax M3) */
};

/* Identifiers of calls. */
enum kp_call_ids {
	KP_IDS_CALL = 0, /* call_ and 24 characters */
	KP_IDS_NINE, /* nine letters and digits, as Mistral's templates demand; the model's own where it gives one */
	KP_IDS_KIMI /* functions.NAME:N; the model's own */
};

/* How the name of a call, or of a parameter, stands in its head. */
enum kp_head {
	KP_HEAD_PLAIN = 0,
	KP_HEAD_ATTRIBUTES, /* name="get_weather" (single quotes or none, too), of a tag */
	KP_HEAD_KIMI        /* functions.get_weather:0 */
};

/* A tool marker in the middle of a thought. */
enum kp_in_thought {
	KP_THOUGHT_CONTROL =
		0, /* ends it only as a control token of the vocabulary; written out it is part of the thought */
	KP_THOUGHT_ENDS, /* ends it */
	KP_THOUGHT_NEVER
};

/* How a constraint makes the family's calls, in the words of its template. In head and tail \1 stands for the name, \2 for a number, \3 for nine letters
   and digits, \4 for a line end that may be there. */
struct kp_call_form {
	const char *needs;       /* only with this token in the vocabulary; NULL: always */
	const char *style;       /* how the arguments are written, in xgrammar's words */
	const char *begin, *end; /* around all calls; NULL: nothing */
	const char *head, *tail; /* around the arguments of each; head NULL: no form */
	const char *between;     /* NULL: one call only */
};
enum { KP_FORMS = 2 };

struct kp_grammar {
	const char *name,
		*aliases; /* names of parsers in other servers that mean this one, blanks between them */
	const char *models, *note; /* for docs/models.md */
	const char *verified;      /* by which other programs; NULL: by none */
	enum kp_body body;
	enum kp_call_ids ids;
	enum kp_in_thought in_thought;
	/* Lists end with NULL. \1 in a marker stands for a word. The first is what the model's template writes, the others are seen besides. */
	const char *open[KP_MARKS],
		*close[KP_MARKS]; /* around all calls, or around one when there is no inner pair */
	const char *call_open[KP_MARKS], *call_close[KP_MARKS]; /* around each */
	const char *drop[KP_MARKS]; /* framing around text, shown to nobody */
	/* JSON */
	const char *names, *arguments, *ids_key; /* keys, blanks between them */
	const char *
		start; /* a call may stand without a marker at the begin of the answer when it begins with one of these bytes */
	bool separated;   /* calls may follow each other without a marker: "; " */
	bool name_is_key; /* {"get_weather": {...}} */
	bool loose;       /* inner pairs are calls without the outer one */
	bool builtins;    /* f.call(a=1) may stand behind the marker (Llama 3) */
	bool suffixed; /* all markers of a vocabulary may end in one suffix: <tool_calls:6124c78e> */
	/* HEAD, TAGS, BRACES */
	enum kp_head head, key_head;
	const char *name_end[KP_MARKS];
	const char *id_mark; /* between name and arguments: an identifier follows */
	bool id_first;       /* it stands between identifier and name */
	const char *fence_open, *fence_close; /* around the arguments */
	/* TAGS */
	const char *key_open[KP_MARKS], *key_end[KP_MARKS], *value_open, *value_close[KP_MARKS];
	const char *type_open,
		*type_close; /* between key and value, where the family may say the type */
	bool json_body;      /* one JSON object may stand for all parameters */
	bool trim_lines;     /* a line end at each end of a value belongs to the markup */
	/* BRACES */
	const char *quote;
	/* CHANNELS */
	const char *message, *kinds[KP_MARKS],
		*end[KP_MARKS]; /* of a message, what it is, its end; NULL: harmony's */
	/* TREE */
	const char *element; /* stands before each tag */
	/* The first whose `needs` are met; none: calls of this family cannot be put into a constraint. */
	struct kp_call_form forms[KP_FORMS];
};

/* How a family writes thoughts. */
struct kp_thinking {
	const char *name, *aliases, *models;
	const char *open[KP_MARKS], *close[KP_MARKS];
	const char *drop[KP_MARKS];  /* framing of what is not a thought */
	const char *turns[KP_MARKS]; /* where the prompt's last turn begins */
	const char *kwarg;           /* chat_template_kwargs that switches it, NULL: nothing does */
	bool is_default;             /* on when the kwarg is not given */
	bool opens; /* when on, the template opens it in the prompt (or the model leaves the begin out) */
	bool reopens;    /* thoughts may come again behind text */
	bool bare_lines; /* line ends inside the markers belong to the thought */
	bool suffixed;   /* as in struct kp_grammar */
};

extern const struct kp_grammar kp_grammars[];
extern const size_t kp_n_grammars;
/* No model's own: what a constraint makes of models whose calls cannot be put into one. A list of objects with name and arguments is the whole answer. */
extern const struct kp_grammar kp_grammar_list;
extern const struct kp_thinking kp_thinkings[];
extern const size_t kp_n_thinkings;

/* By name or alias, whichever way it is written (`deepseek-v3`, `DeepSeekV3`); NULL: none of that name. */
const struct kp_grammar *kp_grammar_find(kp_str name);
const struct kp_thinking *kp_thinking_find(kp_str name);

#endif
