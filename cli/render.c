/* DESIGN: a chat request to its prompt, by a model that is read here (--path) or by a gateway's /v1/tokenize. Of the request, as OpenAI's API takes it
   (or a list of messages alone), what makes the prompt is read and checked here; the rest is passed over. Both ways end in the JSON that
   /v1/tokenize answers with `explain`, which is printed as it is (-o json), as the text alone, or (--explain) with who wrote what. */
#include "cli/answers.h"
#include "cli/cli.h"
#include "cli/print.h"

#include "base/clock.h"
#include "json/jansson.h"
#include "json/write.h"
#include "prompt/chat.h"
#include "prompt/text_stack.h"
#include "token/pieces.h"

#include <stdlib.h>
#include <unistd.h>

enum { ANSWER_MAX = 1 << 30, IDS_MAX = 64 << 20, SCRATCH = 4 << 20, TEMPLATE_MEMORY = 256 << 20 };
static const struct kp_doc_limits limits = {
	.max_bytes = ANSWER_MAX, .max_nodes = 64 << 20, .max_depth = 8, .max_docs = 1
};

/* --- the request -------------------------------------------------------------------------------- */

static void add_member(struct kp_buf *body, kp_str name, kp_str raw)
{
	kp_json_w_str(body, name);
	kp_buf_addc(body, ':');
	kp_buf_add(body, raw);
	kp_buf_addc(body, ',');
}

/* One member into the turn, and as it is written into the body for a gateway. */
static int read_member(
	struct kp_json *j, kp_str name, struct kp_turn *t, struct kp_buf *body, struct kp_err *err)
{
	struct kp_json at = *j;
	kp_str raw;
	int null = kp_json_try_null(j, err);
	if (null) {
		return null < 0 ? -1 : 0;
	}
	if (kp_json_skip(j, &raw, err)) {
		return -1;
	}
	int r = kp_str_eq(name, KP_S("model")) ? kp_json_string(&at, &t->model, err)
					       : kp_chat_member(&at, name, t, err);
	if (r == 0 && !kp_str_eq(name, KP_S("model"))) {
		add_member(body, name, raw);
	}
	return r < 0 ? -1 : 0;
}

static int read_request(kp_str text, struct kp_turn *t, struct kp_buf *body, struct kp_err *err)
{
	struct kp_json j;
	kp_str name;
	int more = 0;
	kp_buf_addc(body, '{');
	t->chat.add_generation_prompt = true;
	kp_json_init(&j, text, t->arena);
	if (kp_json_peek(&j) == KP_JSON_ARRAY) {
		if (read_member(&j, KP_S("messages"), t, body, err)) {
			return err->param[0] ? -1 : kp_err_wrap(err, "`messages`");
		}
	} else {
		enum kp_json_type type = kp_json_peek(&j);
		if (kp_json_object(&j, err)) {
			return type == KP_JSON_NONE
				       ? -1
				       : kp_err_set(err, KP_INVALID_ARGUMENT,
						 "request: expected an object, or a list of messages, got %s",
						 kp_json_type_name(type));
		}
		while ((more = kp_json_member(&j, &name, err)) > 0) {
			if (read_member(&j, name, t, body, err)) {
				return -1;
			}
		}
	}
	return more < 0 || kp_json_end(&j, err) || kp_chat_settle(t, err) ? -1 : 0;
}

/* --- both ways ---------------------------------------------------------------------------------- */

/* As a gateway answers. */
static void write_answer(const struct kp_text_stack *s, const struct kp_text *text,
	const struct kp_ids *ids, int64_t ns, struct kp_buf *out)
{
	kp_buf_printf(out, "{\"count\":%zu,\"max_model_len\":null,\"tokens\":[", ids->n);
	for (size_t i = 0; i < ids->n; i++) {
		kp_buf_addz(out, i ? "," : "");
		kp_buf_u64(out, ids->p[i]);
	}
	kp_buf_lit(out, "],\"token_strs\":null,\"explain\":{\"tokenizer\":");
	kp_json_w_str(out, s->info->kind);
	kp_buf_printf(
		out, ",\"bytes\":%zu,\"seconds\":%.9f,\"pieces\":", text->s.n, (double)ns / 1e9);
	kp_token_pieces(s->tokenizer, text, ids->p, ids->n, out);
	kp_buf_addc(out, ',');
	kp_text_stack_json(s, out);
	kp_buf_addc(out, ',');
	kp_text_json(text, out);
	kp_buf_lit(out, "}}");
}

static int render_with(const struct kp_text_stack *s, const struct kp_turn *t,
	struct kp_token_scratch *scratch, struct kp_ids *ids, json_t **ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf answer;
	const struct kp_encode_opts opts = { .policy = s->policy };
	struct kp_text text;
	int64_t begin_ns = kp_now_ns();
	kp_buf_init(&answer, ANSWER_MAX);
	if (kp_text_stack_render(s, t, kp_wall_ns(), &text, err) ||
		kp_tokenizer_encode(s->tokenizer, scratch, &text, &opts, ids, err)) {
		return -1;
	}
	write_answer(s, &text, ids, kp_now_ns() - begin_ns, &answer);
	return kp_buf_finish(&answer, "answer", err) ||
			       kp_doc_json(kp_buf_str(&answer), "answer", &limits, ret, err)
		       ? -1
		       : 0;
}

static int render_here(struct kp_cli *cli, struct kp_turn *t, json_t **ret, struct kp_err *err)
{
	KP_AUTO(text_stack) struct kp_text_stack *model = NULL;
	KP_AUTO(text_stack) struct kp_text_stack *own = NULL;
	const struct kp_text_options opts = { .chat_template = KP_S("") };
	kp_str source = t->chat.template_source;
	struct kp_ids ids;
	t->model = kp_str_c(cli->path);
	if (kp_text_stack_from_path(cli->path, &opts, &model, err) ||
		(source.p && !kp_text_stack_has(model, source) &&
			kp_text_stack_with_template(model, source, TEMPLATE_MEMORY, &own, err))) {
		return -1;
	}
	struct kp_token_scratch *scratch = kp_token_scratch_create(SCRATCH);
	kp_ids_init(&ids, IDS_MAX);
	int r = render_with(own ? own : model, t, scratch, &ids, ret, err);
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(scratch);
	return r;
}

static int render_there(struct kp_cli *cli, const struct kp_turn *t, struct kp_buf *body,
	json_t **ret, struct kp_err *err)
{
	kp_str model = cli->model ? kp_str_c(cli->model) : t->model;
	if (model.p) {
		kp_buf_lit(body, "\"model\":");
		kp_json_w_str(body, model);
		kp_buf_addc(body, ',');
	}
	kp_buf_lit(body, "\"explain\":true}");
	return kp_buf_finish(body, "request", err) ||
			       kp_ask_gateway(cli, "v1/tokenize", kp_buf_str(body), ret, err)
		       ? -1
		       : 0;
}

/* --- for people --------------------------------------------------------------------------------- */

struct style {
	const char *begin, *end;
};
/* Colours on a terminal, unless NO_COLOR says no; marks elsewhere. */
static struct style style_of(kp_str origin, bool colours)
{
	if (kp_str_eq(origin, KP_S("client"))) {
		return colours ? (struct style){ "\033[33m", "\033[0m" }
			       : (struct style){ "⟦", "⟧" };
	}
	if (kp_str_eq(origin, KP_S("assistant"))) {
		return colours ? (struct style){ "\033[36m", "\033[0m" }
			       : (struct style){ "⟪", "⟫" };
	}
	return (struct style){ "", "" };
}

/* Cleaned, but for line ends, which stay. */
static void print_lines(struct kp_cli *cli, kp_str text)
{
	kp_str line;
	for (bool first = true; kp_str_split(&text, '\n', &line); first = false) {
		kp_buf_addz(&cli->out, first ? "" : "\n");
		kp_print_text(&cli->out, line);
	}
}

static void print_prompt(struct kp_cli *cli, const json_t *explain)
{
	const char *none = getenv("NO_COLOR");
	bool colours = isatty(STDOUT_FILENO) && !(none && none[0]);
	kp_str prompt = kp_at_str(explain, "prompt");
	const json_t *run;
	size_t i, at = 0;
	kp_buf_addz(&cli->out,
		colours ? "\n\033[33mclient's\033[0m, \033[36massistant's\033[0m, the template's:\n\n"
			: "\n⟦client's⟧, ⟪assistant's⟫, the template's:\n\n");
	json_array_foreach(kp_at_list(explain, "runs"), i, run)
	{
		int64_t said = kp_at_int(run, "end");
		size_t end = said < 0 ? at : KP_MIN(KP_MAX((size_t)said, at), prompt.n);
		struct style style = style_of(kp_at_str(run, "origin"), colours);
		kp_buf_addz(&cli->out, style.begin);
		print_lines(cli, kp_str_sub(prompt, at, end));
		kp_buf_addz(&cli->out, style.end);
		at = end;
	}
	kp_buf_lit(&cli->out, "\n\n");
}

static void print_answer(struct kp_cli *cli, const json_t *answer)
{
	const json_t *explain = json_object_get(answer, "explain");
	if (cli->output == KP_CLI_JSON) {
		kp_print_json(cli, answer);
	} else if (!cli->explain && !isatty(STDOUT_FILENO)) {
		kp_buf_add(&cli->out, kp_at_str(explain, "prompt"));
	} else if (!cli->explain) {
		print_lines(cli, kp_at_str(explain, "prompt"));
		kp_buf_addc(&cli->out, '\n');
	} else {
		kp_print_template(cli, explain);
		print_prompt(cli, explain);
		kp_print_pieces(cli, answer);
	}
}

int kp_cli_render(struct kp_cli *cli, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf text;
	KP_AUTO(buf) struct kp_buf body;
	struct kp_turn turn = { .arena = cli->arena, .kind = KP_TURN_CHAT };
	json_t *answer = NULL;
	kp_buf_init(&body, ANSWER_MAX);
	if (kp_cli_input(cli, &text, err) || read_request(kp_buf_str(&text), &turn, &body, err) ||
		(cli->path ? render_here(cli, &turn, &answer, err)
			   : render_there(cli, &turn, &body, &answer, err))) {
		return -1;
	}
	print_answer(cli, answer);
	json_decref(answer);
	return 0;
}
