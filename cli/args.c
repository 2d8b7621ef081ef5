/* DESIGN: one pass over argv: options by a table, the rest are the command and its operand. */
#include "cli/cli.h"

#include <stdlib.h>

struct option {
	const char *name;
	char letter;      /* "-o"; 0: none */
	const char *only; /* the command that has it; NULL: every one that asks a server */
	size_t offset;    /* of a const char * in struct given */
};
struct given {
	const char *output, *server, *gateway;
};
static const struct option options[] = {
	{ "--output", 'o', NULL, offsetof(struct given, output) },
	{ "--server", 's', NULL, offsetof(struct given, server) },
	{ "--gateway", 0, "explain", offsetof(struct given, gateway) },
};

static const struct {
	const char *name, *operand; /* operand: NULL: it takes none */
	bool asks;
} commands[] = { { "status", NULL, true }, { "explain", "MODEL or REQUEST-ID", true },
	{ "version", NULL, false }, { "help", NULL, false } };

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

static int set_output(struct kp_cli *cli, const char *value, struct kp_err *err)
{
	static const char *const names[] = { "wide", "json" };
	for (int i = 0; value && i < 2; i++) {
		if (kp_str_eq(kp_str_c(value), kp_str_c(names[i]))) {
			cli->output = KP_CLI_WIDE + i;
			return 0;
		}
	}
	return value ? kp_err_set(err, KP_INVALID_ARGUMENT,
			       "`--output`: unknown format `%s`: wide or json", value)
		     : 0;
}

static int check_command(
	struct kp_cli *cli, const char *command, const struct given *g, struct kp_err *err)
{
	for (size_t i = 0; i < KP_LEN(commands); i++) {
		if (!kp_str_eq(kp_str_c(command), kp_str_c(commands[i].name))) {
			continue;
		}
		if (commands[i].operand && !cli->operand) {
			return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: %s is missing", command,
				commands[i].operand);
		}
		if (!commands[i].operand && cli->operand) {
			return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: what is `%s`?", command,
				cli->operand);
		}
		for (size_t k = 0; k < KP_LEN(options); k++) {
			const char *value;
			memcpy(&value, (const char *)g + options[k].offset, sizeof(value));
			const char *only = options[k].only;
			if (value && (!commands[i].asks || (only && !kp_str_eq(kp_str_c(only),
									    kp_str_c(command))))) {
				return kp_err_set(err, KP_INVALID_ARGUMENT,
					"`%s` has no option `%s`", command, options[k].name);
			}
		}
		return 0;
	}
	return kp_err_set(err, KP_INVALID_ARGUMENT, "unknown command `%s`", command);
}

int kp_cli_parse(
	int argc, char **argv, struct kp_cli *cli, const char **ret_command, struct kp_err *err)
{
	const char *command = NULL, *value;
	struct given g = { 0 };
	for (int i = 1; i < argc; i++) {
		kp_str arg = kp_str_c(argv[i]);
		if (kp_str_eq(arg, KP_S("--help")) || kp_str_eq(arg, KP_S("-h"))) {
			*ret_command = "help";
			return 0;
		}
		if (kp_str_eq(arg, KP_S("--version")) && !command) {
			*ret_command = "version";
			return 0;
		}
		const struct option *o = arg.n > 1 && arg.p[0] == '-' ? find(arg, &value) : NULL;
		if (o) {
			if (!value && ++i == argc) {
				return kp_err_set(
					err, KP_INVALID_ARGUMENT, "`%s`: needs a value", o->name);
			}
			value = value ? value : argv[i];
			memcpy((char *)&g + o->offset, &value, sizeof(value));
		} else if (arg.n > 1 && arg.p[0] == '-') {
			return kp_err_set(err, KP_INVALID_ARGUMENT, "unknown option `%s`", argv[i]);
		} else if (!command) {
			command = argv[i];
		} else if (!cli->operand) {
			cli->operand = argv[i];
		} else {
			return kp_err_set(
				err, KP_INVALID_ARGUMENT, "`%s`: what is `%s`?", command, argv[i]);
		}
	}
	if (!command) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "what is to be done?");
	}
	if (check_command(cli, command, &g, err) || set_output(cli, g.output, err)) {
		return -1;
	}
	const char *env = getenv("KELPIE_SERVER");
	cli->server = g.server ? g.server : env && env[0] ? env : "http://127.0.0.1:9091";
	cli->gateway = g.gateway;
	*ret_command = command;
	return 0;
}
