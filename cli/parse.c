/* DESIGN: a request as POST /parse takes it, to a gateway's admin listener or to the parsers in here (--path, or a parser named in the request). Prints what the
   client would see, or (-o json) the whole answer. */
#include "cli/answers.h"
#include "cli/cli.h"
#include "cli/print.h"

#include "base/rand.h"
#include "json/jansson.h"
#include "prompt/parse_ask.h"

static const struct kp_doc_limits limits = {
	.max_bytes = 256 << 20, .max_nodes = 8 << 20, .max_depth = 64, .max_docs = 1
};

static int from_path(void *ctx, kp_str name, struct kp_text_stack **ret, struct kp_err *err)
{
	struct kp_text_stack *model = ctx;
	if (name.p && !model) {
		kp_err_param(err, "model",
			"`model`: only a gateway knows models by name: say `--gateway` or `--path`");
		return kp_cli_usage(err);
	}
	*ret = model;
	return 0;
}

static int parse_here(struct kp_cli *cli, kp_str body, json_t **ret, struct kp_err *err)
{
	KP_AUTO(text_stack) struct kp_text_stack *model = NULL;
	KP_AUTO(buf) struct kp_buf answer;
	const struct kp_text_options opts = { .chat_template = KP_S("") };
	struct kp_rng rng;
	uint64_t seed;
	kp_random_bytes(&seed, sizeof(seed));
	kp_rng_seed(&rng, seed);
	kp_buf_init(&answer, limits.max_bytes);
	if (cli->path && kp_text_stack_from_path(cli->path, &opts, &model, err)) {
		return -1;
	}
	const struct kp_parse_ask ask = { .model = from_path, .ctx = model, .rng = &rng };
	return kp_parse_answer(&ask, body, &answer, err) ||
			       kp_doc_json(kp_buf_str(&answer), "answer", &limits, ret, err)
		       ? -1
		       : 0;
}

static void print_part(struct kp_cli *cli, const char *name, kp_str text)
{
	kp_str line;
	if (text.n == 0) {
		return;
	}
	kp_buf_printf(&cli->out, "%s:\n", name);
	while (kp_str_split(&text, '\n', &line)) {
		kp_buf_lit(&cli->out, "  ");
		kp_print_text(&cli->out, line);
		kp_buf_addc(&cli->out, '\n');
	}
}

static void print_answer(struct kp_cli *cli, const json_t *answer)
{
	size_t i;
	const json_t *call;
	if (cli->output == KP_CLI_JSON) {
		kp_print_json(cli, answer);
		return;
	}
	print_part(cli, "Reasoning", kp_at_str(answer, "reasoning_content"));
	print_part(cli, "Content", kp_at_str(answer, "content"));
	json_array_foreach(kp_at_list(answer, "tool_calls"), i, call)
	{
		const json_t *function = json_object_get(call, "function");
		kp_buf_lit(&cli->out, "Call ");
		kp_print_text(&cli->out, kp_at_str(call, "id"));
		kp_buf_lit(&cli->out, ":\n  ");
		kp_print_text(&cli->out, kp_at_str(function, "name"));
		kp_buf_addc(&cli->out, ' ');
		kp_print_text(&cli->out, kp_at_str(function, "arguments"));
		kp_buf_addc(&cli->out, '\n');
	}
	kp_buf_lit(&cli->out, "Finish reason: ");
	kp_print_text(&cli->out, kp_at_str(answer, "finish_reason"));
	kp_buf_addc(&cli->out, '\n');
}

int kp_cli_parse_text(struct kp_cli *cli, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf text;
	json_t *answer = NULL;
	if (kp_cli_input(cli, &text, err)) {
		return -1;
	}
	int r = cli->gateway ? kp_ask_gateway(cli, "parse", kp_buf_str(&text), &answer, err)
			     : parse_here(cli, kp_buf_str(&text), &answer, err);
	if (r == 0) {
		print_answer(cli, answer);
		json_decref(answer);
	}
	return r;
}
