/* DESIGN: one question to the operator; its answer (docs/status.md) as tables. */
#include "cli/answers.h"
#include "cli/cli.h"
#include "cli/print.h"

int kp_ask_operator(struct kp_cli *cli, struct kp_fetched *ret, struct kp_err *err)
{
	*ret = (struct kp_fetched){ 0 };
	if (kp_fetch_url(cli->arena, cli->server, "status", KP_STR_NULL, &ret->url, err)) {
		return -1;
	}
	kp_fetch_all(ret, 1);
	if (!ret->json) {
		*err = ret->err;
		return err->code == KP_UNAVAILABLE
			       ? kp_err_wrap(err, "the operator (--server, KELPIE_SERVER)")
			       : -1;
	}
	if (!kp_at_list(ret->json, "engines")) {
		kp_fetch_fini(ret, 1);
		return kp_err_set(err, KP_DATA_LOSS, "ask `%s`: the answer is no operator's status",
			ret->url);
	}
	return 0;
}

kp_str kp_joined_name(struct kp_arena *a, const json_t *object, const char *name)
{
	kp_str ns = kp_at_str(object, "namespace"), n = kp_at_str(object, name);
	return kp_arena_printf(a, "%" KP_FMT "/%" KP_FMT, KP_ARG(ns), KP_ARG(n));
}

bool kp_is_routable(const json_t *endpoint)
{
	return kp_str_eq(kp_at_str(endpoint, "state"), KP_S("routable"));
}

kp_str kp_routable_part(struct kp_arena *a, const json_t *engine)
{
	size_t i, routable = 0;
	const json_t *e, *all = kp_at_list(engine, "endpoints");
	json_array_foreach(all, i, e)
	{
		routable += kp_is_routable(e);
	}
	return kp_arena_printf(a, "%zu/%zu", routable, json_array_size(all));
}

kp_str kp_revision_text(struct kp_arena *a, const json_t *object)
{
	const json_t *r = json_object_get(object, "revision");
	kp_str n = kp_at_str(r, "number"), hash = kp_str_sub(kp_at_str(r, "hash"), 0, 8);
	return n.n ? kp_arena_printf(a, "%" KP_FMT " %" KP_FMT, KP_ARG(n), KP_ARG(hash))
		   : KP_STR_NULL;
}

const json_t *kp_condition(const json_t *object, kp_str type)
{
	size_t i;
	const json_t *c, *all = kp_at_list(object, "conditions");
	json_array_foreach(all, i, c)
	{
		if (kp_str_eq(kp_at_str(c, "type"), type)) {
			return c;
		}
	}
	return NULL;
}

static bool is_wide(const struct kp_cli *cli)
{
	return cli->output == KP_CLI_WIDE;
}

static void operator_table(struct kp_cli *cli, const json_t *status)
{
	static const char *const columns[] = { "OPERATOR", "VERSION", "READY", "AGE", "EPOCH",
		NULL };
	const json_t *o = json_object_get(status, "operator");
	struct kp_table t;
	kp_table_init(&t, cli->arena, columns, is_wide(cli) ? 0 : 4);
	kp_table_add(&t, kp_at_str(o, "id"));
	kp_table_add(&t, kp_at_str(o, "version"));
	kp_table_add(&t, kp_at_bool(o, "ready") ? KP_S("True") : KP_S("False"));
	kp_table_add(&t, kp_at_age(cli->arena, o, "startTime", cli->now_ns));
	kp_table_add(&t, kp_at_str(o, "epoch"));
	kp_table_end_row(&t);
	kp_table_print(&t, "", &cli->out);
	kp_str why = kp_at_str(o, "reason");
	if (why.n) {
		kp_buf_lit(&cli->out, "not ready: ");
		kp_print_text(&cli->out, why);
		kp_buf_addc(&cli->out, '\n');
	}
}

static void manifest_errors(struct kp_cli *cli, const json_t *status)
{
	size_t i;
	const json_t *m = json_object_get(status, "manifests"), *errors = kp_at_list(m, "errors"),
		     *v;
	kp_str age = kp_at_age(cli->arena, m, "acceptedTime", cli->now_ns);
	if (json_array_size(errors) == 0) {
		return;
	}
	kp_buf_lit(&cli->out, "\nMANIFESTS REFUSED: ");
	kp_print_text(&cli->out, kp_at_str(m, "path"));
	kp_buf_printf(
		&cli->out, "; what was accepted %" KP_FMT " ago stays in force\n", KP_ARG(age));
	json_array_foreach(errors, i, v)
	{
		kp_buf_lit(&cli->out, "  ");
		kp_print_text(&cli->out, kp_str_n(json_string_value(v), json_string_length(v)));
		kp_buf_addc(&cli->out, '\n');
	}
}

static void pool_table(struct kp_cli *cli, const json_t *status)
{
	static const char *const columns[] = { "POOL", "PORTS", "ENGINES", NULL };
	size_t i, k;
	const json_t *p, *port, *e, *engines = kp_at_list(status, "engines"),
				    *pools = kp_at_list(status, "pools");
	struct kp_table t;
	kp_table_init(&t, cli->arena, columns, 0);
	json_array_foreach(pools, i, p)
	{
		KP_AUTO(buf) struct kp_buf ports;
		const json_t *list = kp_at_list(p, "targetPorts");
		size_t n = 0;
		kp_buf_init(&ports, 4096);
		json_array_foreach(list, k, port)
		{
			kp_buf_addz(&ports, k ? "," : "");
			kp_buf_i64(&ports, json_integer_value(port));
		}
		json_array_foreach(engines, k, e)
		{
			n += kp_str_eq(kp_at_str(e, "pool"), kp_at_str(p, "name")) &&
			     kp_str_eq(kp_at_str(e, "namespace"), kp_at_str(p, "namespace"));
		}
		kp_table_add(&t, kp_joined_name(cli->arena, p, "name"));
		kp_table_add(&t, kp_buf_str(&ports));
		kp_table_addf(&t, "%zu", n);
		kp_table_end_row(&t);
	}
	kp_buf_addz(&cli->out, t.cells.n ? "\n" : "");
	kp_table_print(&t, "", &cli->out);
}

static void model_table(struct kp_cli *cli, const json_t *status)
{
	static const char *const columns[] = { "MODEL", "ENGINE", "PROTOCOL", "ROUTABLE", "READY",
		"REASON", "POOL", "TOKENIZER", "ALIASES", NULL };
	size_t i;
	const json_t *e, *engines = kp_at_list(status, "engines");
	struct kp_table t;
	kp_table_init(&t, cli->arena, columns, is_wide(cli) ? 0 : 6);
	json_array_foreach(engines, i, e)
	{
		const json_t *ready = kp_condition(e, KP_S("Ready"));
		kp_table_add(&t, kp_at_str(e, "model"));
		kp_table_add(&t, kp_joined_name(cli->arena, e, "name"));
		kp_table_add(&t, kp_at_str(e, "protocol"));
		kp_table_add(&t, kp_routable_part(cli->arena, e));
		kp_table_add(&t, kp_at_str(ready, "status"));
		kp_table_add(&t, kp_at_str(ready, "reason"));
		kp_table_add(&t, kp_at_str(e, "pool"));
		kp_table_add(&t, kp_at_str(e, "tokenizer"));
		kp_table_add(&t, kp_at_joined(cli->arena, e, "aliases"));
		kp_table_end_row(&t);
	}
	kp_buf_addz(&cli->out, t.cells.n ? "\n" : "");
	kp_table_print(&t, "", &cli->out);
}

static void endpoint_table(struct kp_cli *cli, const json_t *status)
{
	static const char *const columns[] = { "ENDPOINT", "ADDRESS", "STATE", "OWNER", "IN-FLIGHT",
		"AGE", "RUNNING", "WAITING", "KV-CACHE", "SERVES", "REASON", NULL };
	size_t i, k;
	const json_t *e, *p, *engines = kp_at_list(status, "engines");
	struct kp_table t;
	kp_table_init(&t, cli->arena, columns, is_wide(cli) ? 0 : 6);
	json_array_foreach(engines, i, e)
	{
		const json_t *endpoints = kp_at_list(e, "endpoints");
		kp_str name = kp_joined_name(cli->arena, e, "name");
		json_array_foreach(endpoints, k, p)
		{
			kp_table_addf(&t, "%" KP_FMT "/%lld", KP_ARG(kp_str_sub(name, 0, 200)),
				(long long)kp_at_int(p, "index"));
			kp_table_add(&t, kp_at_str(p, "address"));
			kp_table_add(&t, kp_at_str(p, "state"));
			kp_table_add(&t, kp_at_str(p, "owner"));
			kp_table_addf(&t, "%lld", (long long)kp_at_int(p, "inFlight"));
			kp_table_add(&t, kp_at_age(cli->arena, p, "since", cli->now_ns));
			kp_table_addf(&t, "%lld", (long long)kp_at_int(p, "running"));
			kp_table_addf(&t, "%lld", (long long)kp_at_int(p, "waiting"));
			kp_table_addf(&t, "%.0f%%", 100 * kp_at_real(p, "kvUsage"));
			kp_table_add(&t, kp_at_str(p, "model"));
			kp_table_add(&t, kp_at_str(p, "reason"));
			kp_table_end_row(&t);
		}
	}
	kp_buf_addz(&cli->out, t.cells.n ? "\n" : "");
	kp_table_print(&t, "", &cli->out);
}

static kp_str gateway_state(const json_t *g)
{
	if (!kp_at_bool(g, "connected")) {
		return kp_at_bool(g, "draining") ? KP_S("Ended") : KP_S("Lost");
	}
	if (json_object_get(g, "refused")) {
		return KP_S("Refuses");
	}
	if (kp_at_bool(g, "draining")) {
		return KP_S("Draining");
	}
	return kp_at_bool(g, "current") ? KP_S("Current") : KP_S("Behind");
}

static void gateway_table(struct kp_cli *cli, const json_t *status)
{
	static const char *const columns[] = { "GATEWAY", "NAMESPACE", "STATE", "PROGRAM",
		"IN-FLIGHT", "AGE", "OWNS", "NODE", "PEER", "ADMIN", "VERSION", "REQUESTS",
		"ERRORS", "TOKENS", "REASON", NULL };
	size_t i;
	const json_t *g, *gateways = kp_at_list(status, "gateways");
	struct kp_table t;
	kp_table_init(&t, cli->arena, columns, is_wide(cli) ? 0 : 6);
	json_array_foreach(gateways, i, g)
	{
		const json_t *refused = json_object_get(g, "refused");
		kp_table_add(&t, kp_at_str(g, "id"));
		kp_table_add(&t, kp_at_str(g, "namespace"));
		kp_table_add(&t, gateway_state(g));
		kp_table_add(&t, kp_revision_text(cli->arena, g));
		kp_table_addf(&t, "%lld", (long long)kp_at_int(g, "inFlight"));
		kp_table_add(&t, kp_at_age(cli->arena, g, "since", cli->now_ns));
		kp_table_add(&t, kp_at_joined(cli->arena, g, "own"));
		kp_table_add(&t, kp_at_str(g, "node"));
		kp_table_add(&t, kp_at_str(g, "peerAddress"));
		kp_table_add(&t, kp_at_str(g, "adminAddress"));
		kp_table_add(&t, kp_at_str(g, "version"));
		kp_table_addf(&t, "%lld", (long long)kp_at_int(g, "requests"));
		kp_table_addf(&t, "%lld", (long long)kp_at_int(g, "errors"));
		kp_table_addf(&t, "%lld", (long long)kp_at_int(g, "tokens"));
		kp_str why = kp_at_str(refused, "message"), state = kp_at_str(g, "stateError"),
		       problems = kp_at_joined(cli->arena, g, "problems");
		kp_table_add(&t, why.n ? why : state.n ? state : problems);
		kp_table_end_row(&t);
	}
	kp_buf_addz(&cli->out, t.cells.n ? "\n" : "");
	kp_table_print(&t, "", &cli->out);
}

static void problem(struct kp_table *t, const json_t *gateway, kp_str what)
{
	if (what.n) {
		kp_table_add(t, kp_joined_name(t->arena, gateway, "id"));
		kp_table_add(t, what);
		kp_table_end_row(t);
	}
}

/* What somebody should look at: conflicts of claims above all. */
static void problem_table(struct kp_cli *cli, const json_t *status)
{
	static const char *const columns[] = { "GATEWAY", "PROBLEM", NULL };
	size_t i, k;
	const json_t *g, *v, *gateways = kp_at_list(status, "gateways");
	struct kp_table t;
	kp_table_init(&t, cli->arena, columns, 0);
	json_array_foreach(gateways, i, g)
	{
		const json_t *problems = kp_at_list(g, "problems");
		problem(&t, g, kp_at_str(json_object_get(g, "refused"), "message"));
		problem(&t, g, kp_at_str(g, "stateError"));
		json_array_foreach(problems, k, v)
		{
			problem(&t, g, kp_str_n(json_string_value(v), json_string_length(v)));
		}
	}
	if (t.cells.n) {
		kp_buf_printf(&cli->out, "\nWARNING: %zu problems of gateways\n", t.cells.n / 2);
	}
	kp_table_print(&t, "  ", &cli->out);
}

void kp_print_json(struct kp_cli *cli, const json_t *v)
{
	/* Only ASCII, and DEL escaped: nothing in it can move a terminal's cursor. */
	char *text = json_dumps(v, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
	KP_BUG_ON(!text);
	for (const char *p = text; *p; p++) {
		if (*p == 0x7f) {
			kp_buf_lit(&cli->out, "\\u007f");
		} else {
			kp_buf_addc(&cli->out, *p);
		}
	}
	kp_buf_addc(&cli->out, '\n');
	kp_mem_free(text);
}

void kp_print_status(struct kp_cli *cli, const json_t *status)
{
	operator_table(cli, status);
	manifest_errors(cli, status);
	pool_table(cli, status);
	model_table(cli, status);
	endpoint_table(cli, status);
	gateway_table(cli, status);
	problem_table(cli, status);
}

int kp_cli_status(struct kp_cli *cli, struct kp_err *err)
{
	struct kp_fetched f;
	if (kp_ask_operator(cli, &f, err)) {
		return -1;
	}
	if (cli->output == KP_CLI_JSON) {
		kp_print_json(cli, f.json);
	} else {
		kp_print_status(cli, f.json);
	}
	kp_fetch_fini(&f, 1);
	return 0;
}
