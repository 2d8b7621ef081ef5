/* DESIGN: text to ids and back, by a tokenizer that is read here (--path) or by a gateway's /v1/tokenize and /v1/detokenize. Both ways end in the
   same JSON answer, which is printed as it is (-o json), as ids or text alone, or as a table. */
#include "cli/answers.h"
#include "cli/cli.h"
#include "cli/fetch.h"
#include "cli/print.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/utf8.h"
#include "json/jansson.h"
#include "json/write.h"
#include "token/pieces.h"

#include <unistd.h>

enum { INPUT_MAX = 256 << 20, IDS_MAX = 64 << 20, ANSWER_MAX = 1 << 30, SCRATCH = 4 << 20 };
#define GATEWAY "http://127.0.0.1:8080"
static const struct kp_doc_limits limits = {
	.max_bytes = ANSWER_MAX, .max_nodes = 64 << 20, .max_depth = 8, .max_docs = 1
};

/* The operand, the file, or standard input. */
int kp_cli_input(struct kp_cli *cli, struct kp_buf *ret, struct kp_err *err)
{
	kp_buf_init(ret, INPUT_MAX);
	if (cli->operand && !kp_str_eq(kp_str_c(cli->operand), KP_S("-"))) {
		kp_buf_addz(ret, cli->operand);
		return kp_buf_finish(ret, "text", err);
	}
	return kp_fs_read(
		cli->file && !kp_str_eq(kp_str_c(cli->file), KP_S("-")) ? cli->file : "/dev/stdin",
		ret, err);
}

/* What a gateway answers to body, which is JSON. */
int kp_ask_gateway(
	struct kp_cli *cli, const char *what, kp_str body, json_t **ret, struct kp_err *err)
{
	struct kp_fetched f = { .body = body };
	if (kp_fetch_url(cli->arena, cli->gateway ? cli->gateway : GATEWAY, what, KP_S(""), &f.url,
		    err)) {
		return -1;
	}
	kp_fetch_all(&f, 1);
	if (!f.json) {
		*err = f.err;
		return -1;
	}
	*ret = f.json;
	return 0;
}

static void begin_body(const struct kp_cli *cli, struct kp_buf *body)
{
	kp_buf_init(body, ANSWER_MAX);
	kp_buf_addc(body, '{');
	if (cli->model) {
		kp_buf_lit(body, "\"model\":");
		kp_json_w_str(body, kp_str_c(cli->model));
		kp_buf_addc(body, ',');
	}
}

/* --- tokenize ----------------------------------------------------------------------------------- */

struct local {
	struct kp_tokenizer *t;
	struct kp_ids ids;
	int64_t load_ns, encode_ns;
};

static int encode_here(struct kp_cli *cli, kp_str text, struct local *l, struct kp_err *err)
{
	struct kp_encode_opts opts = { .add_special = !cli->no_special };
	struct kp_text in = kp_text_trusted(text);
	int64_t begin_ns = kp_now_ns();
	if (kp_tokenizer_from_path(cli->path, &l->t, err)) {
		return -1;
	}
	l->load_ns = kp_now_ns() - begin_ns;
	kp_ids_init(&l->ids, IDS_MAX);
	struct kp_token_scratch *s = kp_token_scratch_create(SCRATCH);
	begin_ns = kp_now_ns();
	int r = kp_tokenizer_encode(l->t, s, &in, &opts, &l->ids, err);
	l->encode_ns = kp_now_ns() - begin_ns;
	kp_token_scratch_destroy(s);
	return r;
}

/* As a gateway answers. */
static void write_answer(const struct local *l, kp_str text, bool explain, struct kp_buf *out)
{
	struct kp_text in = kp_text_trusted(text);
	kp_buf_printf(out, "{\"count\":%zu,\"max_model_len\":null,\"tokens\":[", l->ids.n);
	for (size_t i = 0; i < l->ids.n; i++) {
		kp_buf_addz(out, i ? "," : "");
		kp_buf_u64(out, l->ids.p[i]);
	}
	kp_buf_lit(out, "],\"token_strs\":null");
	if (!explain) {
		kp_buf_addc(out, '}');
		return;
	}
	kp_buf_lit(out, ",\"explain\":{\"tokenizer\":");
	kp_json_w_str(out, kp_tokenizer_info(l->t)->kind);
	kp_buf_printf(out,
		",\"bytes\":%zu,\"load_seconds\":%.9f,\"seconds\":%.9f,\"pieces\":", text.n,
		(double)l->load_ns / 1e9, (double)l->encode_ns / 1e9);
	kp_token_pieces(l->t, &in, l->ids.p, l->ids.n, out);
	kp_buf_lit(out, "}}");
}

static int tokens_here(struct kp_cli *cli, kp_str text, json_t **ret, struct kp_err *err)
{
	struct local l = { .t = NULL };
	KP_AUTO(buf) struct kp_buf answer;
	kp_buf_init(&answer, ANSWER_MAX);
	int r = encode_here(cli, text, &l, err);
	if (r == 0 && !cli->explain && cli->output != KP_CLI_JSON) {
		for (size_t i = 0; i < l.ids.n; i++) { /* nothing more is asked for */
			kp_buf_printf(&cli->out, "%s%u", i ? " " : "", l.ids.p[i]);
		}
		kp_buf_addc(&cli->out, '\n');
	} else if (r == 0) {
		write_answer(&l, text, cli->explain, &answer);
		r = kp_buf_finish(&answer, "answer", err) ||
				    kp_doc_json(kp_buf_str(&answer), "answer", &limits, ret, err)
			    ? -1
			    : 0;
	}
	kp_ids_fini(&l.ids);
	kp_tokenizer_unref(l.t);
	return r;
}

static int tokens_of_gateway(struct kp_cli *cli, kp_str text, json_t **ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf body;
	size_t ok = kp_utf8_valid_prefix(text);
	begin_body(cli, &body);
	if (ok != text.n) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "encode text: invalid UTF-8 at byte `%zu`", ok);
	}
	kp_buf_lit(&body, "\"prompt\":");
	kp_json_w_str(&body, text);
	kp_buf_printf(&body, ",\"add_special_tokens\":%s,\"explain\":%s}",
		cli->no_special ? "false" : "true", cli->explain ? "true" : "false");
	return kp_buf_finish(&body, "request", err) ||
			       kp_ask_gateway(cli, "v1/tokenize", kp_buf_str(&body), ret, err)
		       ? -1
		       : 0;
}

static void add_seconds(struct kp_cli *cli, int width, const char *name, double s)
{
	kp_print_line(&cli->out, width, name,
		s < 1e-3 ? kp_arena_printf(cli->arena, "%.1f us", s * 1e6)
			 : kp_arena_printf(cli->arena, "%.1f ms", s * 1e3));
}

void kp_print_pieces(struct kp_cli *cli, const json_t *answer)
{
	enum { WIDTH = 12 };
	static const char *const columns[] = { "ID", "TOKEN", "BYTES", "KIND", "ORIGIN", NULL };
	const json_t *e = json_object_get(answer, "explain"), *p, *byte;
	size_t i, k;
	struct kp_table t;
	kp_table_init(&t, cli->arena, columns, 0);
	json_array_foreach(kp_at_list(e, "pieces"), i, p)
	{
		KP_AUTO(buf) struct kp_buf hex;
		kp_buf_init(&hex, INPUT_MAX);
		json_array_foreach(kp_at_list(p, "bytes"), k, byte)
		{
			kp_buf_printf(&hex, "%s%02x", k ? " " : "",
				(unsigned)json_integer_value(byte) & 0xff);
		}
		kp_table_addf(&t, "%lld", (long long)kp_at_int(p, "id"));
		kp_table_add(&t, kp_at_str(p, "token"));
		kp_table_add(&t, kp_buf_str(&hex));
		kp_table_add(&t, kp_at_bool(p, "special") ? KP_S("special")
				 : kp_at_bool(p, "added") ? KP_S("added")
							  : KP_S("vocabulary"));
		kp_table_add(&t, kp_at_str(p, "origin"));
		kp_table_end_row(&t);
	}
	kp_table_print(&t, "", &cli->out);
	kp_buf_addc(&cli->out, '\n');
	kp_print_line(&cli->out, WIDTH, "Tokens:",
		kp_arena_printf(cli->arena, "%lld of %lld bytes",
			(long long)kp_at_int(answer, "count"), (long long)kp_at_int(e, "bytes")));
	kp_print_line(&cli->out, WIDTH, "Tokenizer:", kp_at_str(e, "tokenizer"));
	if (json_object_get(e, "load_seconds")) {
		add_seconds(cli, WIDTH, "Load:", kp_at_real(e, "load_seconds"));
	}
	add_seconds(cli, WIDTH, "Time:", kp_at_real(e, "seconds"));
}

static void print_tokens(struct kp_cli *cli, const json_t *answer)
{
	const json_t *id;
	size_t i;
	if (cli->output == KP_CLI_JSON) {
		kp_print_json(cli, answer);
		return;
	}
	if (cli->explain) {
		kp_print_pieces(cli, answer);
		return;
	}
	json_array_foreach(kp_at_list(answer, "tokens"), i, id)
	{
		kp_buf_printf(&cli->out, "%s%lld", i ? " " : "", (long long)json_integer_value(id));
	}
	kp_buf_addc(&cli->out, '\n');
}

int kp_cli_tokenize(struct kp_cli *cli, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf text;
	json_t *answer = NULL;
	if (kp_cli_input(cli, &text, err) ||
		(cli->path ? tokens_here(cli, kp_buf_str(&text), &answer, err)
			   : tokens_of_gateway(cli, kp_buf_str(&text), &answer, err))) {
		return -1;
	}
	if (answer) {
		print_tokens(cli, answer);
	}
	json_decref(answer);
	return 0;
}

/* --- detokenize --------------------------------------------------------------------------------- */

/* Numbers with anything between them that a list may have: "1 2", "[1, 2]", lines. */
static int read_ids(kp_str s, struct kp_ids *ret, struct kp_err *err)
{
	kp_ids_init(ret, IDS_MAX);
	while (s.n) {
		size_t n = 0;
		uint64_t id;
		if (kp_str_find_char(KP_S(" \t\r\n,[]"), s.p[0]) >= 0) {
			s = kp_str_skip(s, 1);
			continue;
		}
		while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9') {
			n++;
		}
		if (n == 0 || !kp_str_u64(kp_str_sub(s, 0, n), UINT32_MAX - 1, &id)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read ids: `%" KP_FMT "` is no token id",
				KP_ARG(kp_str_sub(s, 0, KP_MIN(s.n, (size_t)20))));
		}
		kp_ids_add(ret, (kp_id)id);
		s = kp_str_skip(s, n);
	}
	return ret->failed ? kp_err_set(err, KP_TOO_LARGE, "read ids: more than `%d`", IDS_MAX) : 0;
}

static int text_here(struct kp_cli *cli, const struct kp_ids *ids, json_t **ret, struct kp_err *err)
{
	struct kp_tokenizer *t = NULL;
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, ANSWER_MAX);
	int r = kp_tokenizer_from_path(cli->path, &t, err) ||
				kp_tokenizer_decode(t, ids->p, ids->n, false, &text, err)
			? -1
			: 0;
	kp_tokenizer_unref(t);
	if (r == 0) {
		*ret = json_pack("{s:o}", "prompt", json_stringn(text.p, text.n));
	}
	return r;
}

static int text_of_gateway(
	struct kp_cli *cli, const struct kp_ids *ids, json_t **ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf body;
	begin_body(cli, &body);
	kp_buf_lit(&body, "\"tokens\":[");
	for (size_t i = 0; i < ids->n; i++) {
		kp_buf_printf(&body, "%s%u", i ? "," : "", ids->p[i]);
	}
	kp_buf_lit(&body, "]}");
	return kp_buf_finish(&body, "request", err) ||
			       kp_ask_gateway(cli, "v1/detokenize", kp_buf_str(&body), ret, err)
		       ? -1
		       : 0;
}

/* As it is where a program reads it; cleaned, and with a line end, where a person does. */
static void print_text(struct kp_cli *cli, kp_str text)
{
	kp_str line;
	if (!isatty(STDOUT_FILENO)) {
		kp_buf_add(&cli->out, text);
		return;
	}
	while (kp_str_split(&text, '\n', &line)) {
		kp_print_text(&cli->out, line);
		kp_buf_addc(&cli->out, '\n');
	}
}

int kp_cli_detokenize(struct kp_cli *cli, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf text;
	struct kp_ids ids = { 0 };
	json_t *answer = NULL;
	int r = kp_cli_input(cli, &text, err) || read_ids(kp_buf_str(&text), &ids, err) ? -1 : 0;
	if (r == 0) {
		r = cli->path ? text_here(cli, &ids, &answer, err)
			      : text_of_gateway(cli, &ids, &answer, err);
	}
	if (r == 0 && cli->output == KP_CLI_JSON) {
		kp_print_json(cli, answer);
	} else if (r == 0) {
		print_text(cli, kp_at_str(answer, "prompt"));
	}
	json_decref(answer);
	kp_ids_fini(&ids);
	return r;
}
