/* kubectl-kelpie: reads the command, runs it, prints, exits with what the error says. */
#include "base/clock.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/print.h"

#include <curl/curl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>

enum { ARENA_BYTES = 1 << 30, OUTPUT_BYTES = 512 << 20 };

static const char help[] =
	"kubectl-kelpie: what Kelpie's operator and gateways do, and why\n"
	"\n"
	"usage: kubectl kelpie COMMAND [OPTION...]\n"
	"\n"
	"  status                 the operator, pools, models, endpoints, gateways\n"
	"  explain MODEL          which engines serve a model, and why endpoints are not routable\n"
	"  explain REQUEST-ID     why a request went where it went (the id of its answer, or the\n"
	"                         client's x-request-id)\n"
	"  tokenize [TEXT]        the token ids of a text, or of standard input\n"
	"  detokenize [IDS]       the text of token ids, as the model's tokenizer decodes them\n"
	"  render [REQUEST]       the prompt of a chat: a request as OpenAI's API takes it, or a list of\n"
	"                         messages; given as JSON, in a file (-f) or on standard input\n"
	"  parse [REQUEST]        thoughts and tool calls in what a model wrote: a request as POST /parse\n"
	"                         of a gateway's admin listener takes it (docs/parsers.md)\n"
	"  inject                 manifests with the gateway put into the pods that opt in (-f, or\n"
	"                         standard input), as the webhook puts it\n"
	"  version                versions of this program and of its libraries\n"
	"  help                   this text\n"
	"\n"
	"  -o, --output wide|json more columns; what the servers said\n"
	"  -s, --server URL       the operator's admin listener (default $KELPIE_SERVER, else\n"
	"                         http://127.0.0.1:9091)\n"
	"  --gateway URL          explain: ask only this gateway's admin listener, not the operator;\n"
	"                         tokenize: the gateway's public listener (default\n"
	"                         http://127.0.0.1:8080); parse: ask this gateway's admin listener,\n"
	"                         not this program\n"
	"\n"
	"tokenize, detokenize, render and parse:\n"
	"  --path PATH            read the tokenizer here (a model's directory, a GGUF file) instead of\n"
	"                         asking a gateway\n"
	"  -m, --model NAME       which of the gateway's models (default: the only one);\n"
	"                         not of parse, which has `model` in its request\n"
	"  -f, --file FILE        read the text or the ids from a file\n"
	"  --explain              tokenize: each token with its bytes, who wrote it, and the time;\n"
	"                         render: also the template, its shape, and who wrote which text\n"
	"  --no-special-tokens    tokenize: without those that the tokenizer puts around a text\n"
	"\n"
	"inject:\n"
	"  -o, --output json      JSON instead of YAML\n"
	"  --gateway-image IMAGE  of the gateway (default: kelpie.dev/sidecar of this version)\n"
	"  --operator-namespace NAME\n"
	"                         where the operator runs (default kelpie-system)\n"
	"\n"
	"Exit status: 0 done; 1 failed; 2 wrong usage; 3 no such model or request; 4 a server does not\n"
	"answer; 5 its answer makes no sense.\n";

static enum kp_cli_exit exit_of(const struct kp_err *err)
{
	static const struct {
		enum kp_code code;
		enum kp_cli_exit status;
	} table[] = { { KP_NOT_FOUND, KP_CLI_UNKNOWN }, { KP_UNAVAILABLE, KP_CLI_UNREACHABLE },
		{ KP_DATA_LOSS, KP_CLI_BAD_ANSWER } };
	if (kp_cli_is_usage(err)) {
		return KP_CLI_USAGE;
	}
	for (size_t i = 0; i < KP_LEN(table); i++) {
		if (table[i].code == err->code) {
			return table[i].status;
		}
	}
	return KP_CLI_FAILED;
}

/* What a server said may be in it. */
static void complain(const struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 4096);
	kp_print_text(&text, kp_str_c(err->msg));
	fprintf(stderr, "kubectl-kelpie: %" KP_FMT "\n", KP_ARG(kp_buf_str(&text)));
	if (kp_cli_is_usage(err)) {
		fprintf(stderr, "`kubectl kelpie help` says what can be asked\n");
	}
}

static int version(struct kp_cli *cli)
{
	const struct kp_library libraries[] = { { "jansson", jansson_version_str() },
		{ "libcurl", curl_version() } };
	kp_version_text(&cli->out, "kubectl-kelpie", libraries, KP_LEN(libraries));
	return 0;
}

static int run(struct kp_cli *cli, int argc, char **argv, struct kp_err *err)
{
	const char *command = NULL;
	if (kp_cli_parse(argc, argv, cli, &command, err)) {
		return kp_cli_usage(err);
	}
	kp_str c = kp_str_c(command);
	if (kp_str_eq(c, KP_S("status"))) {
		return kp_cli_status(cli, err);
	}
	if (kp_str_eq(c, KP_S("explain"))) {
		return kp_cli_explain(cli, err);
	}
	if (kp_str_eq(c, KP_S("tokenize"))) {
		return kp_cli_tokenize(cli, err);
	}
	if (kp_str_eq(c, KP_S("detokenize"))) {
		return kp_cli_detokenize(cli, err);
	}
	if (kp_str_eq(c, KP_S("render"))) {
		return kp_cli_render(cli, err);
	}
	if (kp_str_eq(c, KP_S("inject"))) {
		return kp_cli_inject(cli, err);
	}
	if (kp_str_eq(c, KP_S("parse"))) {
		return kp_cli_parse_text(cli, err);
	}
	if (kp_str_eq(c, KP_S("version"))) {
		return version(cli);
	}
	kp_buf_addz(&cli->out, help);
	return 0;
}

int main(int argc, char **argv)
{
	struct kp_cli cli = { .arena = kp_arena_create(ARENA_BYTES), .now_ns = kp_wall_ns() };
	struct kp_err err = KP_ERR_INIT;
	enum kp_cli_exit status = KP_CLI_OK;
	signal(SIGPIPE, SIG_IGN);
	kp_buf_init(&cli.out, OUTPUT_BYTES);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (run(&cli, argc, argv, &err) || kp_buf_finish(&cli.out, "output", &err)) {
		complain(&err);
		status = exit_of(&err);
	} else if (fwrite(cli.out.p, 1, cli.out.n, stdout) != cli.out.n || fflush(stdout)) {
		perror("kubectl-kelpie: write `standard output`");
		status = KP_CLI_FAILED;
	}
	curl_global_cleanup();
	kp_buf_fini(&cli.out);
	kp_arena_destroy(cli.arena);
	return (int)status;
}
