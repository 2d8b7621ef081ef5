/* What kp_constrain makes of requests, and what the parser that goes with it reads of outputs, for test_constrain.py: a line of JSON in, one out.
     {"tools": family, "thinking": family, "start": "auto"|"text"|"thought" (or "prompt_tail"), "controls": [text, ...], "chat": {tools, tool_choice, parallel_tool_calls},
      "format": {"kind": number, "text"|"schema"|"choices": ...}, "outputs": [[id, ...], ...]}
   Ids below 256 are bytes, 256 + i is controls[i]. Out: {"kind", "text", "messages"}, or {"error", "param"}. */
#include "base/rand.h"
#include "json/write.h"
#include "parse/constrain.h"
#include "parse/message.h"
#include "prompt/tools.h"

#include <stdio.h>
#include <stdlib.h>

struct ask {
	struct kp_arena *a;
	struct kp_jv v;
	struct kp_chat chat;
	struct kp_output_format format;
	struct kp_tool_offer offer;
	struct kp_constrain_opts o;
	const struct kp_lexicon *lexicon;
};

static void die(const char *what, const struct kp_err *err)
{
	fprintf(stderr, "%s: %s\n", what, err ? err->msg : "");
	exit(1);
}

static kp_str text_of(const struct kp_jv *v, struct kp_arena *a)
{
	struct kp_buf b;
	kp_str ret;
	struct kp_err err;
	kp_buf_init(&b, 1 << 22);
	kp_jv_write(v, &b);
	if (kp_arena_dup(a, kp_buf_str(&b), &ret, &err)) {
		die("arena", &err);
	}
	kp_buf_fini(&b);
	return ret;
}

/* The member read by the reader of the API. */
static int read_with(struct ask *ask, const char *member,
	int (*read)(struct kp_json *j, struct kp_turn *t, struct kp_err *err), struct kp_turn *t,
	struct kp_err *err)
{
	const struct kp_jv *v = kp_jv_get(kp_jv_get(&ask->v, KP_S("chat")), kp_str_c(member));
	struct kp_json j;
	if (!v) {
		return 0;
	}
	kp_json_init(&j, text_of(v, ask->a), ask->a);
	return read(&j, t, err);
}

static void read_lists(struct ask *ask)
{
	const struct kp_jv *controls = kp_jv_get(&ask->v, KP_S("controls"));
	size_t n = controls ? controls->n : 0;
	kp_str *texts = kp_arena_xalloc(ask->a, (n + 1) * sizeof(*texts));
	kp_id *ids = kp_arena_xalloc(ask->a, (n + 1) * sizeof(*ids));
	for (size_t i = 0; i < n; i++) {
		texts[i] = controls->items[i].s;
		ids[i] = (kp_id)(256 + i);
	}
	ask->o.controls = texts;
	ask->o.control_ids = ids;
	ask->o.n_controls = n;
}

static void read_format(struct ask *ask)
{
	const struct kp_jv *f = kp_jv_get(&ask->v, KP_S("format")),
			   *kind = kp_jv_get(f, KP_S("kind")),
			   *schema = kp_jv_get(f, KP_S("schema")),
			   *choices = kp_jv_get(f, KP_S("choices"));
	uint64_t number = 0;
	if (!f || !kp_str_u64(kind->s, 9, &number)) {
		return;
	}
	ask->format.kind = (enum kp_constraint_kind)number;
	ask->format.param = "response_format";
	ask->format.text = kp_jv_str(f, KP_S("text"));
	ask->format.schema = schema ? *schema : (struct kp_jv){ .type = KP_JSON_NONE };
	kp_str *list = kp_arena_xalloc(ask->a, (choices ? choices->n + 1 : 1) * sizeof(*list));
	for (uint32_t i = 0; choices && i < choices->n; i++) {
		list[i] = choices->items[i].s;
	}
	ask->format.choices = list;
	ask->format.n_choices = choices ? choices->n : 0;
}

static int read_ask(struct ask *ask, kp_str line, struct kp_err *err)
{
	struct kp_turn t = { .arena = ask->a, .kind = KP_TURN_CHAT };
	if (kp_jv_parse(line, ask->a, &ask->v, err)) {
		die("line", err);
	}
	kp_str tools = kp_jv_str(&ask->v, KP_S("tools")),
	       thinking = kp_jv_str(&ask->v, KP_S("thinking")),
	       start = kp_jv_str(&ask->v, KP_S("start"));
	const struct kp_jv *parallel =
		kp_jv_get(kp_jv_get(&ask->v, KP_S("chat")), KP_S("parallel_tool_calls"));
	if (read_with(ask, "tools", kp_tools_read, &t, err) ||
		read_with(ask, "tool_choice", kp_tool_choice_read, &t, err) ||
		kp_tool_choice_settle(&t.chat, err)) {
		return -1;
	}
	ask->chat = t.chat;
	ask->chat.one_call = kp_jv_is(parallel, KP_JSON_FALSE);
	read_lists(ask);
	read_format(ask);
	if (kp_tool_offer_create(ask->a, &ask->chat.tools, &ask->offer, err)) {
		return -1;
	}
	ask->o.tools = tools.p ? kp_grammar_find(tools) : NULL;
	ask->o.thinking = thinking.p ? kp_thinking_find(thinking) : NULL;
	ask->o.start = kp_str_eq(start, KP_S("thought")) ? KP_PARSE_IN_THOUGHT
		       : kp_str_eq(start, KP_S("text"))  ? KP_PARSE_IN_TEXT
							 : KP_PARSE_AUTO;
	if (kp_jv_get(&ask->v, KP_S("prompt_tail"))) {
		struct kp_text tail = kp_text_trusted(kp_jv_str(&ask->v, KP_S("prompt_tail")));
		ask->o.start = kp_parse_start_of(ask->o.thinking, &tail);
	}
	ask->o.offer = &ask->offer;
	ask->o.chat = &ask->chat;
	ask->o.format = &ask->format;
	return 0;
}

static void add(void *ctx, const struct kp_event *ev)
{
	kp_message_add(ctx, ev);
}

static void parse(const struct ask *ask, const struct kp_jv *ids, struct kp_buf *out)
{
	struct kp_message m;
	struct kp_rng rng;
	struct kp_err err;
	kp_rng_seed(&rng, 1);
	kp_message_init(&m, 1 << 22);
	const struct kp_parse_opts opts = { .lexicon = ask->lexicon,
		.offer = &ask->offer,
		.start = ask->o.start,
		.one_call = ask->chat.one_call,
		.rng = &rng,
		.emit = add,
		.ctx = &m };
	KP_AUTO(parser) struct kp_parser *p = kp_parser_create(&opts);
	for (uint32_t i = 0; i < ids->n; i++) {
		uint64_t id;
		char byte;
		if (!kp_str_u64(ids->items[i].s, 1 << 20, &id)) {
			die("id", NULL);
		}
		byte = (char)id;
		if (id >= 256 ? kp_parser_feed_control(p, ask->o.controls[id - 256], false, &err)
			      : kp_parser_feed(p, kp_str_n(&byte, 1), &err)) {
			die("feed", &err);
		}
	}
	if (kp_parser_finish(p, false, &err)) {
		die("finish", &err);
	}
	kp_buf_addc(out, '{');
	if (!kp_message_write(&m, KP_REASONING_FIELD, true, out)) {
		die("write", NULL);
	}
	kp_buf_addc(out, '}');
	kp_message_fini(&m);
}

static void answer(kp_str line, struct kp_buf *out)
{
	struct ask ask = { .a = kp_arena_create(64 << 20) };
	struct kp_err err = KP_ERR_INIT;
	struct kp_constraint c;
	const struct kp_grammar *reads = NULL;
	const struct kp_jv *outputs;
	if (read_ask(&ask, line, &err) || kp_constrain(&ask.o, ask.a, &c, &reads, &err)) {
		kp_buf_lit(out, "{\"error\":");
		kp_json_w_str(out, kp_str_c(err.msg));
		kp_buf_lit(out, ",\"param\":");
		kp_json_w_str(out, kp_str_c(err.param));
		kp_buf_lit(out, "}\n");
		kp_arena_destroy(ask.a);
		return;
	}
	kp_buf_printf(out, "{\"kind\":%d,\"text\":", c.kind);
	kp_json_w_str(out, c.text);
	kp_buf_lit(out, ",\"messages\":[");
	outputs = kp_jv_get(&ask.v, KP_S("outputs"));
	if (kp_lexicon_create(ask.a, reads ? reads : ask.o.tools, ask.o.thinking, ask.o.controls,
		    ask.o.n_controls, &ask.lexicon, &err)) {
		die("lexicon", &err);
	}
	for (uint32_t i = 0; outputs && i < outputs->n; i++) {
		kp_buf_addz(out, i ? "," : "");
		parse(&ask, &outputs->items[i], out);
	}
	kp_buf_lit(out, "]}\n");
	kp_arena_destroy(ask.a);
}

int main(void)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t n;
	struct kp_buf out;
	kp_buf_init(&out, 64 << 20);
	while ((n = getline(&line, &size, stdin)) > 0) {
		kp_buf_reset(&out);
		answer(kp_str_n(line, (size_t)n), &out);
		fwrite(out.p, 1, out.n, stdout);
		fflush(stdout);
	}
	free(line);
	kp_buf_fini(&out);
	return 0;
}
