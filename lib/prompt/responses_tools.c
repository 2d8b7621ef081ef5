/* DESIGN: functions lose their wrapper's absence: {"type", "name", ...} becomes {"type", "function": {"name", ...}}, which the turn has; tools that the
   gateway runs stand behind them in the same shape. The choice is read last, since it may name any of them. */
#include "prompt/responses.h"

#include "base/map.h"
#include "mcp/tools.h"
#include "prompt/make.h"
#include "prompt/tools.h"

#include <stdio.h>

int kp_responses_tool_name(
	struct kp_arena *a, kp_str label, kp_str name, kp_str *ret, struct kp_err *err)
{
	char text[KP_MCP_EXPOSED_MAX + 1];
	kp_mcp_expose(label, name, text);
	return kp_arena_dup(a, kp_str_c(text), ret, err);
}

/* --- tools --------------------------------------------------------------------------------------- */

static int bad(
	struct kp_err *err, const char *reason, const char *what, uint32_t i, const char *member)
{
	return kp_make_bad(err, reason, what, "tools[%u]%s", i, member);
}

static int wrap(const struct kp_maker *m, const struct kp_jmember *f, uint32_t n, struct kp_jv *ret)
{
	struct kp_jv function;
	if (kp_make_object(m, f, n, &function)) {
		return -1;
	}
	const struct kp_jmember wrapped[] = {
		{ KP_S("type"), kp_made_text(KP_S("function")) },
		{ KP_S("function"), function },
	};
	return kp_make_object(m, wrapped, KP_LEN(wrapped), ret);
}

static int take_function(
	const struct kp_maker *m, const struct kp_jv *tool, uint32_t i, struct kp_jv *ret)
{
	const struct kp_jv *name = kp_jv_get(tool, KP_S("name")),
			   *description = kp_jv_get(tool, KP_S("description")),
			   *parameters = kp_jv_get(tool, KP_S("parameters")),
			   *strict = kp_jv_get(tool, KP_S("strict"));
	struct kp_jmember f[4];
	uint32_t n = 1;
	if (!kp_jv_is(name, KP_JSON_STRING) || name->s.n == 0) {
		return bad(m->err, NULL, name ? "expected a name" : "missing", i, ".name");
	}
	if (kp_is_given(description) && description->type != KP_JSON_STRING) {
		return bad(m->err, NULL, "expected a string", i, ".description");
	}
	if (kp_is_given(parameters) && parameters->type != KP_JSON_OBJECT) {
		return bad(m->err, NULL, "expected an object", i, ".parameters");
	}
	if (kp_is_given(strict) && strict->type != KP_JSON_TRUE && strict->type != KP_JSON_FALSE) {
		return bad(m->err, NULL, "expected a boolean", i, ".strict");
	}
	f[0] = (struct kp_jmember){ KP_S("name"), *name };
	if (kp_is_given(description)) {
		f[n++] = (struct kp_jmember){ KP_S("description"), *description };
	}
	if (kp_is_given(parameters)) {
		f[n++] = (struct kp_jmember){ KP_S("parameters"), *parameters };
	}
	if (kp_jv_is(strict, KP_JSON_TRUE)) {
		f[n++] = (struct kp_jmember){ KP_S("strict"), *strict };
	}
	return wrap(m, f, n, ret);
}

static int take_own(
	const struct kp_maker *m, const struct kp_responses_tool *tool, struct kp_jv *ret)
{
	struct kp_jmember f[3] = { { KP_S("name"), kp_made_text(tool->exposed) } };
	uint32_t n = 1;
	if (tool->description.p) {
		f[n++] =
			(struct kp_jmember){ KP_S("description"), kp_made_text(tool->description) };
	}
	f[n++] = (struct kp_jmember){ KP_S("parameters"), tool->schema };
	return wrap(m, f, n, ret);
}

/* Of a client's tool: *ret_is_function false when it is one that the gateway runs. */
static int kind_of(const struct kp_jv *tool, uint32_t i, bool *ret_is_function, struct kp_err *err)
{
	const struct kp_jv *type = kp_jv_get(tool, KP_S("type"));
	char what[128];
	if (tool->type != KP_JSON_OBJECT) {
		return bad(err, NULL, "expected an object", i, "");
	}
	if (!kp_jv_is(type, KP_JSON_STRING)) {
		return bad(err, NULL, type ? "expected a string" : "missing", i, ".type");
	}
	*ret_is_function = kp_str_eq(type->s, KP_S("function"));
	if (*ret_is_function || kp_str_eq(type->s, KP_S("mcp"))) {
		return 0;
	}
	snprintf(what, sizeof(what), "tools of type `%" KP_FMT "` are not supported",
		KP_ARG(kp_str_sub(type->s, 0, 40)));
	return bad(err, "unsupported_parameter", what, i, ".type");
}

/* The same name twice would be two tools with one voice. */
static int check_names(const struct kp_jv *tools, struct kp_err *err)
{
	struct kp_map names;
	int r = 0;
	kp_map_init(&names);
	for (uint32_t i = 0; r == 0 && i < tools->n; i++) {
		const struct kp_jv *f = kp_jv_get(&tools->items[i], KP_S("function"));
		kp_str name = kp_jv_str(f, KP_S("name"));
		if (kp_map_set(&names, name, &names)) {
			r = kp_err_param(err, "tools", "`tools`: two are called `%" KP_FMT "`",
				KP_ARG(kp_str_sub(name, 0, 80)));
		}
	}
	kp_map_fini(&names, NULL);
	return r;
}

/* --- tool_choice --------------------------------------------------------------------------------- */

struct choice {
	const struct kp_responses *r;
	const struct kp_responses_tool *own;
	size_t n_own;
	struct kp_turn *turn;
	struct kp_err *err;
	kp_str *names;
	size_t n, cap;
};

static int bad_choice(struct choice *c, const char *reason, const char *what)
{
	return kp_make_bad(c->err, reason, what, "%s", "tool_choice");
}

static int add_name(struct choice *c, kp_str name)
{
	for (size_t i = 0; i < c->n; i++) {
		if (kp_str_eq(c->names[i], name)) {
			return 0;
		}
	}
	if (c->n == c->cap) {
		return bad_choice(c, NULL, "names too many tools");
	}
	c->names[c->n++] = name;
	return 0;
}

/* {"type": "function", "name"} or {"type": "mcp", "server_label", "name"?}. */
static int add_tool(struct choice *c, const struct kp_jv *tool)
{
	kp_str type = kp_jv_str(tool, KP_S("type")), name = kp_jv_str(tool, KP_S("name")),
	       label = kp_jv_str(tool, KP_S("server_label"));
	size_t before = c->n;
	if (kp_str_eq(type, KP_S("function"))) {
		return name.n ? add_name(c, name) : bad_choice(c, NULL, "`name` is missing");
	}
	if (!kp_str_eq(type, KP_S("mcp"))) {
		return bad_choice(c, "unsupported_parameter",
			"only tools of type `function` and `mcp` can be chosen");
	}
	for (size_t i = 0; i < c->n_own; i++) {
		if (kp_str_eq(c->own[i].label, label) &&
			(!name.p || kp_str_eq(c->own[i].name, name)) &&
			add_name(c, c->own[i].exposed)) {
			return -1;
		}
	}
	return c->n == before ? bad_choice(c, NULL, "no such tool of an MCP server") : 0;
}

static int choose_allowed(struct choice *c, const struct kp_jv *v)
{
	const struct kp_jv *tools = kp_jv_get(v, KP_S("tools"));
	kp_str mode = kp_jv_str(v, KP_S("mode"));
	bool required = kp_str_eq(mode, KP_S("required"));
	if (!required && !kp_str_eq(mode, KP_S("auto"))) {
		return bad_choice(c, NULL, "`mode` must be `auto` or `required`");
	}
	if (!kp_jv_is(tools, KP_JSON_ARRAY) || tools->n == 0) {
		return bad_choice(c, NULL, "`tools` must be a list that is not empty");
	}
	for (uint32_t i = 0; i < tools->n; i++) {
		if (add_tool(c, &tools->items[i])) {
			return -1;
		}
	}
	c->turn->chat.tool_choice = required ? KP_TOOL_CHOICE_REQUIRED : KP_TOOL_CHOICE_AUTO;
	return 0;
}

static int choose(struct choice *c)
{
	static const struct {
		const char *word;
		enum kp_tool_choice choice;
	} words[] = { { "none", KP_TOOL_CHOICE_NONE }, { "auto", KP_TOOL_CHOICE_AUTO },
		{ "required", KP_TOOL_CHOICE_REQUIRED } };
	const struct kp_jv *v = &c->r->tool_choice;
	struct kp_chat *chat = &c->turn->chat;
	for (size_t i = 0; v->type == KP_JSON_STRING && i < KP_LEN(words); i++) {
		if (kp_str_eq(v->s, kp_str_c(words[i].word))) {
			bool is_default = words[i].choice == KP_TOOL_CHOICE_AUTO;
			chat->tool_choice = is_default ? KP_TOOL_CHOICE_UNSET : words[i].choice;
			return 0;
		}
	}
	if (v->type != KP_JSON_OBJECT) {
		return bad_choice(
			c, NULL, "expected none, auto, required or an object with a type");
	}
	c->cap = chat->tools.n;
	c->names = kp_arena_calloc(c->turn->arena, c->cap + 1, sizeof(*c->names));
	if (!c->names) {
		return kp_arena_full(c->err, "tool_choice");
	}
	if (kp_str_eq(kp_jv_str(v, KP_S("type")), KP_S("allowed_tools"))) {
		if (choose_allowed(c, v)) {
			return -1;
		}
	} else {
		c->cap = c->cap ? c->cap : 1;
		if (add_tool(c, v)) {
			return -1;
		}
		chat->tool_choice = c->n == 1 ? KP_TOOL_CHOICE_NAMED : KP_TOOL_CHOICE_REQUIRED;
	}
	chat->allowed = c->names;
	chat->n_allowed = c->n;
	return 0;
}

int kp_responses_tools(const struct kp_responses *r, const struct kp_responses_tool *own, size_t n,
	struct kp_turn *turn, struct kp_err *err)
{
	const struct kp_maker make = { turn->arena, err };
	struct kp_jv *items = kp_arena_calloc(turn->arena, r->tools.n + n + 1, sizeof(*items));
	struct choice c = { .r = r, .own = own, .n_own = n, .turn = turn, .err = err };
	uint32_t k = 0;
	if (r->tools.n + n > KP_MAX_TOOLS) {
		return kp_err_param(err, "tools", "`tools`: at most %d tools, got %zu",
			KP_MAX_TOOLS, r->tools.n + n);
	}
	if (!items) {
		return kp_arena_full(err, "tools");
	}
	for (uint32_t i = 0; i < r->tools.n; i++) {
		bool is_function = false;
		if (kind_of(&r->tools.items[i], i, &is_function, err) ||
			(is_function && take_function(&make, &r->tools.items[i], i, &items[k++]))) {
			return -1;
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (take_own(&make, &own[i], &items[k++])) {
			return -1;
		}
	}
	turn->chat.tools = k ? (struct kp_jv){ .type = KP_JSON_ARRAY, .n = k, .items = items }
			     : (struct kp_jv){ .type = KP_JSON_NONE };
	turn->chat.allowed = NULL;
	turn->chat.n_allowed = 0;
	turn->chat.tool_choice = KP_TOOL_CHOICE_UNSET;
	if (check_names(&turn->chat.tools, err) || (r->tool_choice.type && choose(&c))) {
		return -1;
	}
	return kp_tool_choice_settle(&turn->chat, err);
}
