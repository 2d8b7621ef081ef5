/* DESIGN: one pass over argv: options by a table, the rest are the command and its operand. */
#include "cli/cli.h"

#include <stdlib.h>

enum {
	STATUS = 1,
	EXPLAIN = 2,
	TOKENIZE = 4,
	DETOKENIZE = 8,
	RENDER = 16,
	INJECT = 32,
	PARSE = 64,
	TEXT = TOKENIZE | DETOKENIZE | RENDER
};

struct option {
	const char *name;
	char letter;   /* "-o"; 0: none */
	bool is_flag;  /* it takes no value */
	unsigned of;   /* the commands that have it */
	size_t offset; /* of a const char * in struct given */
};
struct given {
	const char *output, *server, *gateway, *path, *model, *file, *explain, *no_special, *image,
		*operator_ns;
};
#define AT(member) offsetof(struct given, member)
static const struct option options[] = {
	{ "--output", 'o', false, STATUS | EXPLAIN | TEXT | INJECT | PARSE, AT(output) },
	{ "--server", 's', false, STATUS | EXPLAIN, AT(server) },
	{ "--gateway", 0, false, EXPLAIN | TEXT | PARSE, AT(gateway) },
	{ "--path", 0, false, TEXT | PARSE, AT(path) },
	{ "--model", 'm', false, TEXT, AT(model) },
	{ "--file", 'f', false, TEXT | INJECT | PARSE, AT(file) },
	{ "--explain", 0, true, TOKENIZE | RENDER, AT(explain) },
	{ "--no-special-tokens", 0, true, TOKENIZE, AT(no_special) },
	{ "--gateway-image", 0, false, INJECT, AT(image) },
	{ "--operator-namespace", 0, false, INJECT, AT(operator_ns) },
};

static const struct {
	const char *name, *operand; /* operand: NULL: it takes none */
	unsigned command;
	bool optional, many; /* its operand; more of them are joined by blanks */
} commands[] = { { "status", NULL, STATUS, false, false },
	{ "explain", "MODEL or REQUEST-ID", EXPLAIN, false, false },
	{ "tokenize", "TEXT", TOKENIZE, true, false },
	{ "detokenize", "IDS", DETOKENIZE, true, true },
	{ "render", "REQUEST", RENDER, true, false }, { "parse", "REQUEST", PARSE, true, false },
	{ "inject", NULL, INJECT, false, false }, { "version", NULL, 0, false, false },
	{ "help", NULL, 0, false, false } };

static size_t command_index(const char *command)
{
	size_t i = 0;
	while (i < KP_LEN(commands) && !kp_str_eq(kp_str_c(command), kp_str_c(commands[i].name))) {
		i++;
	}
	return i;
}

/* The option in `arg`; *ret_value: what is attached to it, NULL: the next argument is it. */
static const struct option *find(kp_str arg, const char **ret_value)
{
	for (size_t i = 0; i < KP_LEN(options); i++) {
		kp_str name = kp_str_c(options[i].name);
		if (kp_str_starts(arg, name) && (arg.n == name.n || arg.p[name.n] == '=')) {
			*ret_value = arg.n == name.n ? NULL : arg.p + name.n + 1;
			return &options[i];
		}
		if (options[i].letter && arg.n >= 2 && arg.p[0] == '-' &&
			arg.p[1] == options[i].letter) {
			size_t skip = arg.n > 2 && arg.p[2] == '=' ? 3 : 2;
			*ret_value = arg.n == 2 ? NULL : arg.p + skip;
			return &options[i];
		}
	}
	return NULL;
}

static int set_output(
	struct kp_cli *cli, const char *command, const char *value, struct kp_err *err)
{
	bool is_inject = kp_str_eq(kp_str_c(command), KP_S("inject"));
	kp_str v = kp_str_c(value);
	if (!value || (is_inject && kp_str_eq(v, KP_S("yaml")))) {
		return 0;
	}
	if (kp_str_eq(v, KP_S("json"))) {
		cli->output = KP_CLI_JSON;
	} else if (!is_inject && kp_str_eq(v, KP_S("wide"))) {
		cli->output = KP_CLI_WIDE;
	} else {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--output`: unknown format `%s`: %s or json", value,
			is_inject ? "yaml" : "wide");
	}
	return 0;
}

static int check_command(
	struct kp_cli *cli, const char *command, const struct given *g, struct kp_err *err)
{
	size_t i = command_index(command);
	if (i == KP_LEN(commands)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "unknown command `%s`", command);
	}
	if (commands[i].operand && !commands[i].optional && !cli->operand) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: %s is missing", command,
			commands[i].operand);
	}
	if (!commands[i].operand && cli->operand) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "`%s`: what is `%s`?", command, cli->operand);
	}
	for (size_t k = 0; k < KP_LEN(options); k++) {
		const char *value;
		memcpy(&value, (const char *)g + options[k].offset, sizeof(value));
		if (value && !(options[k].of & commands[i].command)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s` has no option `%s`",
				command, options[k].name);
		}
	}
	if (g->path && (g->gateway || g->model)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--path` reads files here; `--gateway` and `--model` ask a gateway");
	}
	if (g->file && cli->operand) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: both %s and `--file`", command,
			commands[i].operand);
	}
	return 0;
}

/* What is no option. */
static int take_word(struct kp_cli *cli, const char **command, const char *word, struct kp_err *err)
{
	size_t i = *command ? command_index(*command) : 0;
	if (!*command) {
		*command = word;
	} else if (!cli->operand) {
		cli->operand = word;
	} else if (i < KP_LEN(commands) && commands[i].many) {
		cli->operand = kp_arena_strz(
			cli->arena, kp_arena_printf(cli->arena, "%s %s", cli->operand, word));
	} else {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: what is `%s`?", *command, word);
	}
	return 0;
}

static const char usage[] = "usage"; /* the reason of such an error */

int kp_cli_usage(struct kp_err *err)
{
	err->reason = usage;
	return -1;
}

bool kp_cli_is_usage(const struct kp_err *err)
{
	return err->reason == usage;
}

int kp_cli_parse(
	int argc, char **argv, struct kp_cli *cli, const char **ret_command, struct kp_err *err)
{
	const char *command = NULL, *value;
	struct given g = { 0 };
	bool only_words = false; /* behind `--` */
	for (int i = 1; i < argc; i++) {
		kp_str arg = kp_str_c(argv[i]);
		if (!only_words && (kp_str_eq(arg, KP_S("--help")) || kp_str_eq(arg, KP_S("-h")))) {
			*ret_command = "help";
			return 0;
		}
		if (kp_str_eq(arg, KP_S("--version")) && !command) {
			*ret_command = "version";
			return 0;
		}
		if (kp_str_eq(arg, KP_S("--")) && !only_words) {
			only_words = true;
			continue;
		}
		bool is_option = !only_words && arg.n > 1 && arg.p[0] == '-';
		const struct option *o = is_option ? find(arg, &value) : NULL;
		if (o && o->is_flag && value) {
			return kp_err_set(
				err, KP_INVALID_ARGUMENT, "`%s`: takes no value", o->name);
		}
		if (o) {
			value = o->is_flag ? o->name : value;
			if (!value && ++i == argc) {
				return kp_err_set(
					err, KP_INVALID_ARGUMENT, "`%s`: needs a value", o->name);
			}
			value = value ? value : argv[i];
			memcpy((char *)&g + o->offset, &value, sizeof(value));
		} else if (is_option) {
			return kp_err_set(err, KP_INVALID_ARGUMENT, "unknown option `%s`", argv[i]);
		} else if (take_word(cli, &command, argv[i], err)) {
			return -1;
		}
	}
	if (!command) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "what is to be done?");
	}
	if (check_command(cli, command, &g, err) || set_output(cli, command, g.output, err)) {
		return -1;
	}
	const char *env = getenv("KELPIE_SERVER");
	cli->server = g.server ? g.server : env && env[0] ? env : "http://127.0.0.1:9091";
	cli->gateway = g.gateway;
	cli->path = g.path;
	cli->model = g.model;
	cli->file = g.file;
	cli->explain = g.explain != NULL;
	cli->no_special = g.no_special != NULL;
	cli->image = g.image;
	cli->operator_ns = g.operator_ns;
	*ret_command = command;
	return 0;
}
