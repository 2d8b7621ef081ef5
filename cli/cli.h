/* kubectl-kelpie, the person's tool: one process per command, one thread. What its parts share. All that a
   command reads and makes lies in one arena until the process ends. Servers are asked over HTTP and not
   trusted: their answers have limits, and their text is cleaned before it reaches a terminal. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/arena.h"
#include "base/buf.h"

/* What the process exits with; the code of an error decides (kp_cli_exit). */
enum kp_cli_exit {
	KP_CLI_OK = 0,
	KP_CLI_FAILED = 1,
	KP_CLI_USAGE = 2,
	KP_CLI_UNKNOWN = 3,     /* no such model, no such request */
	KP_CLI_UNREACHABLE = 4, /* a server does not answer */
	KP_CLI_BAD_ANSWER = 5   /* it answers what it should not */
};
/* Marks an error as one of the command line, whatever its code: the process exits with KP_CLI_USAGE. Returns -1. */
int kp_cli_usage(struct kp_err *err);
bool kp_cli_is_usage(const struct kp_err *err);
enum kp_cli_output { KP_CLI_TABLE = 0, KP_CLI_WIDE, KP_CLI_JSON };

struct kp_cli {
	struct kp_arena *arena;
	struct kp_buf out;   /* standard output, written at the end of the command */
	const char *server;  /* of the operator */
	const char *gateway; /* --gateway; NULL: not given */
	const char *operand; /* the MODEL or REQUEST-ID; text or ids, NULL: standard input */
	const char *path, *model, *file; /* tokenize, detokenize; NULL: not given */
	bool explain, no_special;        /* tokenize */
	const char *image, *operator_ns; /* inject; NULL: as this version's operator has it */
	enum kp_cli_output output;
	int64_t now_ns; /* wall time, for ages */
};

/* 0: run the command named *ret_command; -1: err is a usage error. Options may stand anywhere, as
   kubectl's: `-o wide`, `-owide`, `--output=wide`. */
int kp_cli_parse(int argc, char **argv, struct kp_cli *cli, const char **ret_command,
	struct kp_err *err) KP_MUST_USE;

/* The commands. */
int kp_cli_status(struct kp_cli *cli, struct kp_err *err) KP_MUST_USE;
int kp_cli_explain(struct kp_cli *cli, struct kp_err *err) KP_MUST_USE;
int kp_cli_tokenize(struct kp_cli *cli, struct kp_err *err) KP_MUST_USE;
int kp_cli_detokenize(struct kp_cli *cli, struct kp_err *err) KP_MUST_USE;
int kp_cli_parse_text(struct kp_cli *cli, struct kp_err *err) KP_MUST_USE;
int kp_cli_render(struct kp_cli *cli, struct kp_err *err) KP_MUST_USE;
int kp_cli_inject(struct kp_cli *cli, struct kp_err *err) KP_MUST_USE;

/* The operand, the file, or standard input. */
int kp_cli_input(struct kp_cli *cli, struct kp_buf *ret, struct kp_err *err) KP_MUST_USE;

#endif
