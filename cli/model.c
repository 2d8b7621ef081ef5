/* DESIGN: the engines behind a model's name as the operator tells of them, and what one gateway serves under
   it. */
#include "cli/answers.h"
#include "cli/print.h"

static void line(struct kp_cli *cli, const char *name, kp_str text)
{
	kp_print_line(&cli->out, 17, name, text);
}

static bool has_alias(const json_t *engine, kp_str name)
{
	size_t i;
	const json_t *v, *aliases = kp_at_list(engine, "aliases");
	json_array_foreach(aliases, i, v)
	{
		if (json_is_string(v) &&
			kp_str_eq(kp_str_n(json_string_value(v), json_string_length(v)), name)) {
			return true;
		}
	}
	return false;
}

static void print_conditions(struct kp_cli *cli, const json_t *engine)
{
	static const char *const columns[] = { "CONDITION", "STATUS", "AGE", "REASON", "MESSAGE",
		NULL };
	size_t i;
	const json_t *c, *all = kp_at_list(engine, "conditions");
	struct kp_table t;
	kp_table_init(&t, cli->arena, columns, 0);
	json_array_foreach(all, i, c)
	{
		kp_table_add(&t, kp_at_str(c, "type"));
		kp_table_add(&t, kp_at_str(c, "status"));
		kp_table_add(&t, kp_at_age(cli->arena, c, "lastTransitionTime", cli->now_ns));
		kp_table_add(&t, kp_at_str(c, "reason"));
		kp_table_add(&t, kp_at_str(c, "message"));
		kp_table_end_row(&t);
	}
	kp_table_print(&t, "  ", &cli->out);
}

/* Why an endpoint is not routable: its own reason, or what follows from its state. */
static kp_str why_not(const json_t *endpoint)
{
	kp_str reason = kp_at_str(endpoint, "reason"), state = kp_at_str(endpoint, "state");
	if (kp_is_routable(endpoint)) {
		return KP_S("-");
	}
	if (reason.n) {
		return reason;
	}
	if (kp_at_str(endpoint, "owner").n == 0) {
		return KP_S("no gateway owns it");
	}
	return kp_str_eq(state, KP_S("discovered")) ? KP_S("nothing was heard of it yet")
						    : KP_STR_NULL;
}

static void print_endpoints(struct kp_cli *cli, const json_t *engine)
{
	static const char *const columns[] = { "ENDPOINT", "STATE", "OWNER", "IN-FLIGHT", "AGE",
		"WHY NOT ROUTABLE", NULL };
	size_t i;
	const json_t *e, *all = kp_at_list(engine, "endpoints");
	struct kp_table t;
	kp_table_init(&t, cli->arena, columns, 0);
	json_array_foreach(all, i, e)
	{
		kp_table_add(&t, kp_at_str(e, "address"));
		kp_table_add(&t, kp_at_str(e, "state"));
		kp_table_add(&t, kp_at_str(e, "owner"));
		kp_table_addf(&t, "%lld", (long long)kp_at_int(e, "inFlight"));
		kp_table_add(&t, kp_at_age(cli->arena, e, "since", cli->now_ns));
		kp_table_add(&t, why_not(e));
		kp_table_end_row(&t);
	}
	kp_table_print(&t, "  ", &cli->out);
}

static void print_engine(struct kp_cli *cli, const json_t *status, const json_t *engine)
{
	size_t i;
	const json_t *p, *programs = kp_at_list(status, "programs");
	struct kp_arena *a = cli->arena;
	line(cli, "Engine:", kp_joined_name(a, engine, "name"));
	line(cli, "  Pool:", kp_at_str(engine, "pool"));
	line(cli, "  Protocol:", kp_at_str(engine, "protocol"));
	line(cli, "  Tokenizer:", kp_at_str(engine, "tokenizer"));
	line(cli, "  Routable:", kp_routable_part(a, engine));
	json_array_foreach(programs, i, p)
	{
		if (kp_str_eq(kp_at_str(p, "namespace"), kp_at_str(engine, "namespace"))) {
			kp_str revision = kp_revision_text(a, p);
			line(cli, "  Program:",
				kp_arena_printf(a,
					"%" KP_FMT ", acknowledged by %lld of %lld gateways",
					KP_ARG(revision), (long long)kp_at_int(p, "acknowledged"),
					(long long)kp_at_int(p, "gateways")));
		}
	}
	kp_buf_addc(&cli->out, '\n');
	print_conditions(cli, engine);
	kp_buf_addc(&cli->out, '\n');
	print_endpoints(cli, engine);
}

static void print_served_endpoints(struct kp_cli *cli, const json_t *revision)
{
	static const char *const columns[] = { "ENDPOINT", "OWNER", "DISTANCE", "STATE",
		"IN-FLIGHT", "PENALTY", "LOAD", NULL };
	size_t i;
	const json_t *e, *all = kp_at_list(revision, "endpoints");
	struct kp_table t;
	kp_table_init(&t, cli->arena, columns, 0);
	json_array_foreach(all, i, e)
	{
		kp_table_add(&t, kp_at_str(e, "endpoint"));
		kp_table_add(&t, kp_at_str(e, "owner"));
		kp_table_add(&t, kp_at_str(e, "distance"));
		kp_table_add(&t, kp_at_str(e, "state"));
		kp_table_addf(&t, "%lld", (long long)kp_at_int(e, "inFlight"));
		kp_table_addf(&t, "%lld", (long long)kp_at_int(e, "penalty"));
		kp_table_addf(&t, "%lld", (long long)kp_at_int(e, "load"));
		kp_table_end_row(&t);
	}
	kp_table_print(&t, "  ", &cli->out);
}

void kp_print_template(struct kp_cli *cli, const json_t *revision)
{
	static const struct {
		const char *name, *title;
	} words[] = { { "system", "system" }, { "user", "user" }, { "assistant", "assistant" },
		{ "tool", "tool" }, { "arguments", "arguments" }, { "tools", "tools" },
		{ "besideCalls", "beside calls" } };
	static const struct {
		const char *name, *what;
	} flags[] = { { "parallelCalls", "parallel calls" }, { "developer", "developers" },
		{ "reasoning", "reasoning beside calls" },
		{ "pastReasoning", "reasoning of earlier turns" } };
	const json_t *shape = json_object_get(revision, "shape");
	kp_str shown = KP_S("");
	line(cli, "  Chat template:", kp_at_str(revision, "chatTemplate"));
	if (!shape) {
		return;
	}
	line(cli, "  Text policy:", kp_at_str(revision, "textPolicy"));
	const json_t *parsers = json_object_get(revision, "parsers");
	if (parsers) {
		kp_str tools = kp_at_str(parsers, "tools"),
		       thoughts = kp_at_str(parsers, "reasoning"), why = kp_at_str(parsers, "why");
		line(cli, "  Parsers:",
			kp_arena_printf(cli->arena,
				"tool calls %" KP_FMT "%s%" KP_FMT "%s, thoughts %" KP_FMT,
				KP_ARG(tools), why.n ? " (" : "", KP_ARG(why), why.n ? ")" : "",
				KP_ARG(thoughts)));
	}
	for (size_t i = 0; i < KP_LEN(words); i++) {
		shown = kp_arena_printf(cli->arena, "%" KP_FMT "%s%s %" KP_FMT, KP_ARG(shown),
			i ? ", " : "", words[i].title, KP_ARG(kp_at_str(shape, words[i].name)));
	}
	line(cli, "  Its messages:", shown);
	shown = KP_S("");
	for (size_t i = 0; i < KP_LEN(flags); i++) {
		if (kp_at_bool(shape, flags[i].name)) {
			shown = kp_arena_printf(cli->arena, "%" KP_FMT "%s%s", KP_ARG(shown),
				shown.n ? ", " : "", flags[i].what);
		}
	}
	line(cli, "  It shows:", shown.n ? shown : KP_S("none of the rest"));
}

void kp_print_served(struct kp_cli *cli, const json_t *answer)
{
	size_t i;
	const json_t *r, *all = kp_at_list(answer, "revisions");
	kp_str gateway = kp_at_str(answer, "gateway");
	json_array_foreach(all, i, r)
	{
		kp_str tokenizer = kp_at_str(r, "tokenizer"), why = kp_at_str(r, "whyNot");
		kp_buf_addz(&cli->out, cli->out.n ? "\n" : "");
		line(cli, "Served by:", gateway);
		line(cli, "  Pool:", kp_at_str(answer, "pool"));
		line(cli, "  Revision:", kp_at_str(r, "engine"));
		line(cli, "  Tokenizer:",
			tokenizer.n ? kp_arena_printf(cli->arena, "%" KP_FMT ", %lld tokens",
					      KP_ARG(kp_str_sub(tokenizer, 0, 200)),
					      (long long)kp_at_int(r, "vocabulary"))
				    : why);
		kp_print_template(cli, r);
		line(cli, "  Context:",
			kp_arena_printf(
				cli->arena, "%lld tokens", (long long)kp_at_int(r, "maxContext")));
		print_served_endpoints(cli, r);
	}
}

size_t kp_print_engines(struct kp_cli *cli, const json_t *status, json_t *found)
{
	size_t i, n = 0;
	const json_t *all = kp_at_list(status, "engines");
	json_t *e;
	kp_str name = kp_str_c(cli->operand);
	json_array_foreach(all, i, e)
	{
		bool alias = has_alias(e, name);
		if (!alias && !kp_str_eq(kp_at_str(e, "model"), name)) {
			continue;
		}
		if (found) {
			json_array_append(found, e);
		} else {
			kp_buf_addz(&cli->out, n ? "\n" : "");
			line(cli, "Model:",
				alias ? kp_arena_printf(cli->arena, "%s, an alias of %" KP_FMT,
						cli->operand,
						KP_ARG(kp_str_sub(kp_at_str(e, "model"), 0, 1000)))
				      : name);
			print_engine(cli, status, e);
		}
		n++;
	}
	return n;
}
