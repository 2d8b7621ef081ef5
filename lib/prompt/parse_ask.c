/* DESIGN: the request is read whole, its pieces are fed one after the other, each event becomes a chunk's choice and a part of the message. */
#include "prompt/parse_ask.h"

#include "json/write.h"
#include "parse/message.h"
#include "prompt/tools.h"

enum { ARENA = 64 << 20, MAX_NODES = 1 << 20, ANSWER_PART = 64 << 20 };

struct request {
	kp_str model, parser, reasoning_parser, text, tail, finish;
	struct kp_jv ids, tools, kwargs, splits;
};

static int read_string(struct kp_json *j, kp_str *ret, struct kp_err *err)
{
	return kp_json_string(j, ret, err);
}

static int read_member(struct kp_json *j, kp_str name, struct request *r, struct kp_err *err)
{
	const struct {
		const char *name;
		kp_str *text;
		struct kp_jv *value;
		enum kp_json_type type;
	} members[] = { { "model", &r->model, NULL, 0 }, { "parser", &r->parser, NULL, 0 },
		{ "reasoning_parser", &r->reasoning_parser, NULL, 0 },
		{ "text", &r->text, NULL, 0 }, { "prompt_tail", &r->tail, NULL, 0 },
		{ "finish_reason", &r->finish, NULL, 0 },
		{ "token_ids", NULL, &r->ids, KP_JSON_ARRAY },
		{ "tools", NULL, &r->tools, KP_JSON_ARRAY },
		{ "chat_template_kwargs", NULL, &r->kwargs, KP_JSON_OBJECT },
		{ "splits", NULL, &r->splits, KP_JSON_ARRAY } };
	int null = kp_json_try_null(j, err);
	if (null) {
		return null < 0 ? -1 : 0;
	}
	for (size_t i = 0; i < KP_LEN(members); i++) {
		if (kp_str_eq(name, kp_str_c(members[i].name))) {
			return members[i].text ? read_string(j, members[i].text, err)
					       : kp_jv_read_as(j, members[i].type, MAX_NODES,
							 members[i].value, err);
		}
	}
	kp_json_fail(j, err, "unknown parameter");
	err->reason = "unknown_parameter";
	return -1;
}

static int read_request(kp_str body, struct kp_arena *a, struct request *r, struct kp_err *err)
{
	struct kp_json j;
	kp_str name;
	int more;
	*r = (struct request){ .finish = KP_S("stop") };
	kp_json_init(&j, body, a);
	if (kp_json_body(&j, err)) {
		return -1;
	}
	while ((more = kp_json_member(&j, &name, err)) > 0) {
		if (read_member(&j, name, r, err)) {
			return -1;
		}
	}
	if (more < 0 || kp_json_end(&j, err)) {
		return -1;
	}
	if (!kp_str_eq(r->finish, KP_S("stop")) && !kp_str_eq(r->finish, KP_S("length")) &&
		!kp_str_eq(r->finish, KP_S("abort"))) {
		return kp_err_param(
			err, "finish_reason", "`finish_reason` must be stop, length or abort");
	}
	if (r->tools.type && kp_tools_check(&r->tools, err)) {
		return -1;
	}
	if (!r->text.p == !r->ids.type) {
		return kp_err_param(err, r->text.p ? "token_ids" : "text",
			r->text.p ? "`text` and `token_ids`: only one of them"
				  : "`text` or `token_ids` is missing");
	}
	return 0;
}

/* Strictly increasing, inside of what is split. */
static int read_splits(const struct request *r, size_t length, struct kp_arena *a, size_t **ret,
	struct kp_err *err)
{
	uint64_t last = 0, at;
	size_t *splits = kp_arena_calloc(a, r->splits.n + 1u, sizeof(*splits));
	if (!splits) {
		return kp_arena_full(err, "splits");
	}
	for (size_t i = 0; i < r->splits.n; i++) {
		const struct kp_jv *v = &r->splits.items[i];
		bool good = v->type == KP_JSON_NUMBER && kp_str_u64(v->s, length, &at) &&
			    (i == 0 || at > last);
		if (!good) {
			return kp_err_param(err, "splits",
				"`splits[%zu]`: offsets must increase and be at most %zu", i,
				length);
		}
		splits[i] = (size_t)(last = at);
	}
	splits[r->splits.n] = length;
	*ret = splits;
	return 0;
}

/* Whose parsers: the model's, or those that are named. */
static int choose(const struct request *r, const struct kp_text_stack *model, struct kp_arena *a,
	struct kp_parsers *ret, struct kp_err *err)
{
	*ret = model ? model->parsers : (struct kp_parsers){ .tools = NULL };
	if (!model && !r->parser.p && !r->reasoning_parser.p) {
		return kp_err_param(
			err, "parser", "`model`, `parser` or `reasoning_parser` is missing");
	}
	static const char *const what[] = { "parser", "reasoning_parser" };
	if (kp_parsers_named(ret, r->parser, r->reasoning_parser, what, err)) {
		return -1;
	}
	if (r->parser.p && !r->reasoning_parser.p && !model) {
		ret->thinking = NULL;
	}
	/* A text has no tokens: its markers are text. */
	return kp_parsers_compile(ret, r->ids.type && model ? model->tokenizer : NULL, a, err);
}

static enum kp_parse_start start_of(const struct request *r, const struct kp_thinking *t)
{
	if (!t) {
		return KP_PARSE_IN_TEXT;
	}
	struct kp_text tail = kp_text_trusted(r->tail);
	enum kp_parse_start said = kp_parse_start_of(t, &tail);
	if (said != KP_PARSE_AUTO) {
		return said;
	}
	kp_str rest = kp_str_c(t->kwarg), name;
	while (t->kwarg && kp_str_split(&rest, ' ', &name)) {
		const struct kp_jv *v = kp_jv_get(&r->kwargs, name);
		if (v && (v->type == KP_JSON_TRUE || v->type == KP_JSON_FALSE)) {
			return v->type == KP_JSON_TRUE && t->opens ? KP_PARSE_IN_THOUGHT
								   : KP_PARSE_IN_TEXT;
		}
	}
	return KP_PARSE_AUTO;
}

/* --- the answer --------------------------------------------------------------------------------- */

struct answer {
	struct kp_buf events;
	struct kp_message message;
};

static void put_choice(struct kp_buf *out, const char *finish)
{
	kp_buf_lit(out, "},\"logprobs\":null,\"finish_reason\":");
	kp_buf_printf(out, finish ? "\"%s\"}" : "null}", finish);
}

static void take(void *ctx, const struct kp_event *ev)
{
	struct answer *a = ctx;
	size_t before = a->events.n;
	kp_message_add(&a->message, ev);
	kp_buf_lit(&a->events, ",{\"index\":0,\"delta\":{");
	if (kp_message_delta(ev, a->message.n_calls, KP_REASONING_FIELD, &a->events)) {
		put_choice(&a->events, NULL);
	} else {
		a->events.n = before;
	}
}

static int feed_ids(const struct request *r, const struct kp_parsers *p, struct kp_parser *parser,
	const struct kp_text_stack *model, const size_t *splits, struct kp_err *err)
{
	struct kp_detok detok;
	uint64_t id = 0;
	size_t at = 0;
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, ANSWER_PART);
	kp_detok_init(&detok, model->tokenizer, true);
	for (size_t i = 0; i <= r->splits.n; i++) {
		for (; at < splits[i]; at++) {
			const struct kp_jv *v = &r->ids.items[at];
			if (v->type != KP_JSON_NUMBER ||
				!kp_str_u64(v->s, model->info->vocab_size - 1, &id)) {
				return kp_err_param(err, "token_ids",
					"`token_ids[%zu]`: not an id of the model's vocabulary",
					at);
			}
			if (kp_parsers_feed(p, &detok, parser, (kp_id)id, &text, err)) {
				return -1;
			}
		}
		kp_parser_flush(parser);
	}
	kp_detok_finish(&detok, &text);
	return kp_parser_feed(parser, kp_buf_str(&text), err);
}

static int feed(const struct request *r, const struct kp_parsers *p, struct kp_parser *parser,
	const struct kp_text_stack *model, const size_t *splits, struct kp_err *err)
{
	size_t from = 0;
	if (r->ids.type) {
		return feed_ids(r, p, parser, model, splits, err);
	}
	for (size_t i = 0; i <= r->splits.n; i++) {
		if (kp_parser_feed(parser, kp_str_sub(r->text, from, splits[i]), err)) {
			return -1;
		}
		kp_parser_flush(parser);
		from = splits[i];
	}
	return 0;
}

static void put_parser(struct kp_buf *out, const char *key, const char *name)
{
	kp_buf_printf(out, name ? ",\"%s\":\"%s\"" : ",\"%s\":null", key, name);
}

static int write_answer(const struct request *r, const struct kp_parsers *p, const struct answer *a,
	struct kp_buf *out, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf finish;
	kp_buf_init(&finish, 16);
	kp_buf_add(&finish, r->finish);
	const char *reason = kp_message_finish(kp_buf_cstr(&finish), a->message.n_calls);
	kp_buf_addc(out, '{');
	out->failed |= !kp_message_write(&a->message, KP_REASONING_FIELD, true, out);
	kp_buf_lit(out, ",\"finish_reason\":");
	kp_json_w_str(out, kp_str_c(reason));
	put_parser(out, "parser", p->tools ? p->tools->name : NULL);
	put_parser(out, "reasoning_parser", p->thinking ? p->thinking->name : NULL);
	kp_buf_lit(out,
		",\"events\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"");
	put_choice(out, NULL);
	kp_buf_add(out, kp_buf_str(&a->events));
	kp_buf_lit(out, ",{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":");
	kp_json_w_str(out, kp_str_c(reason));
	kp_buf_lit(out, "}]}");
	out->failed |= a->events.failed;
	return kp_buf_finish(out, "answer", err);
}

static int run(const struct kp_parse_ask *ask, const struct request *r, struct kp_arena *arena,
	struct kp_text_stack *model, struct kp_parsers *parsers, struct answer *a,
	struct kp_err *err)
{
	struct kp_tool_offer offer;
	size_t *splits = NULL, length = r->ids.type ? r->ids.n : r->text.n;
	if (r->ids.type && !model) {
		return kp_err_param(
			err, "token_ids", "`token_ids`: needs a `model` with a tokenizer");
	}
	if (choose(r, model, arena, parsers, err) ||
		kp_tool_offer_create(arena, &r->tools, &offer, err) ||
		read_splits(r, length, arena, &splits, err)) {
		return -1;
	}
	const struct kp_parse_opts opts = { .lexicon = parsers->lexicon,
		.offer = &offer,
		.start = start_of(r, parsers->thinking),
		.rng = ask->rng,
		.emit = take,
		.ctx = a };
	KP_AUTO(parser) struct kp_parser *parser = kp_parser_create(&opts);
	return feed(r, parsers, parser, model, splits, err) ||
			       kp_parser_finish(parser, kp_str_eq(r->finish, KP_S("length")), err)
		       ? -1
		       : 0;
}

int kp_parse_answer(
	const struct kp_parse_ask *ask, kp_str body, struct kp_buf *out, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(ARENA);
	struct kp_text_stack *model = NULL;
	struct request r;
	struct answer a;
	struct kp_parsers parsers;
	if (read_request(body, arena, &r, err) || ask->model(ask->ctx, r.model, &model, err)) {
		return -1;
	}
	kp_buf_init(&a.events, ANSWER_PART);
	kp_message_init(&a.message, ANSWER_PART);
	int failed = run(ask, &r, arena, model, &parsers, &a, err) ||
		     write_answer(&r, &parsers, &a, out, err);
	kp_buf_fini(&a.events);
	kp_message_fini(&a.message);
	return failed ? -1 : 0;
}
