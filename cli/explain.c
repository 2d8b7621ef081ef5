/* DESIGN: what is explained is a model or a request; the word itself tells (our ids have a prefix), else a
   model is looked for first, then a request with that id of the client's. The operator knows engines and
   endpoints, a gateway what it serves and where its last requests went. */
#include "cli/answers.h"
#include "cli/cli.h"
#include "cli/print.h"

/* A gateway that can be asked. */
struct gateways {
	struct kp_fetched *list;
	size_t n;
};

/* --- asking gateways ---------------------------------------------------------------------------- */

/* "what" + operand at each gateway that the operator names, or at --gateway alone. Current ones first:
   they know most. */
static int list_gateways(struct kp_cli *cli, const json_t *status, const char *what,
	struct gateways *ret, struct kp_err *err)
{
	size_t i;
	const json_t *g, *all = kp_at_list(status, "gateways");
	kp_str operand = kp_str_c(cli->operand);
	ret->n = 0;
	ret->list = kp_arena_xalloc(cli->arena, (json_array_size(all) + 1) * sizeof(*ret->list));
	if (cli->gateway) {
		ret->n = 1;
		return kp_fetch_url(
			cli->arena, cli->gateway, what, operand, &ret->list[0].url, err);
	}
	for (int current = 1; current >= 0; current--) {
		json_array_foreach(all, i, g)
		{
			kp_str address = kp_at_str(g, "adminAddress");
			if (kp_at_bool(g, "current") != (bool)current || address.n == 0 ||
				kp_str_find(address, KP_S("/")) >= 0) {
				continue;
			}
			if (kp_fetch_url(cli->arena, kp_arena_strz(cli->arena, address), what,
				    operand, &ret->list[ret->n].url, err)) {
				return -1;
			}
			ret->n++;
		}
	}
	return 0;
}

/* --- a model ---------------------------------------------------------------------------------- */

/* Asks gateways, one after the other, until one knows the model. */
static int ask_model(struct kp_cli *cli, const json_t *status, json_t *ret, struct kp_err *err)
{
	enum { TRIES = 4 };
	struct gateways g;
	if (list_gateways(cli, status, "explain?model=", &g, err)) {
		return -1;
	}
	kp_err_set(err, KP_UNAVAILABLE, "explain `%s`: no gateway is known", cli->operand);
	for (size_t i = 0; i < g.n && i < TRIES; i++) {
		kp_fetch_all(&g.list[i], 1);
		if (g.list[i].json) {
			json_array_append_new(ret, g.list[i].json);
			return 0;
		}
		*err = g.list[i].err;
	}
	return -1;
}

/* 1: there is no such model. */
static int explain_model(struct kp_cli *cli, const json_t *status, struct kp_err *err)
{
	json_t *engines = json_array(), *served = json_array();
	bool is_json = cli->output == KP_CLI_JSON;
	size_t n = kp_print_engines(cli, status, is_json ? engines : NULL);
	int r = 0;
	if (n || cli->gateway) {
		r = ask_model(cli, status, served, err);
	} else {
		r = 1;
	}
	if (r < 0 && n) { /* the operator's half is worth printing */
		if (!is_json) {
			kp_buf_lit(&cli->out, "\nwhat a gateway serves is not known: ");
			kp_print_text(&cli->out, kp_str_c(err->msg));
			kp_buf_addc(&cli->out, '\n');
		}
		r = 0;
	} else if (r < 0 && err->code == KP_NOT_FOUND) {
		r = 1;
	}
	if (r == 0 && is_json) {
		json_t *all = json_pack("{s:O,s:O}", "engines", engines, "served", served);
		kp_print_json(cli, all);
		json_decref(all);
	} else if (r == 0) {
		kp_print_served(cli, json_array_get(served, 0));
	}
	json_decref(engines);
	json_decref(served);
	return r;
}

/* --- a request ---------------------------------------------------------------------------------- */

/* 1: none of those who answered knows it. *ret_asked: how many answered. */
static int explain_request(
	struct kp_cli *cli, const json_t *status, size_t *ret_asked, struct kp_err *err)
{
	struct gateways g;
	size_t found = 0, answered = 0;
	const struct kp_err *failed = NULL;
	if (list_gateways(cli, status, "explain?request=", &g, err)) {
		return -1;
	}
	kp_fetch_all(g.list, g.n);
	for (size_t i = 0; i < g.n; i++) {
		if (g.list[i].json && cli->output == KP_CLI_JSON) {
			kp_print_json(cli, g.list[i].json);
		} else if (g.list[i].json) {
			kp_buf_addz(&cli->out, found ? "\n" : "");
			kp_print_request(cli, g.list[i].json);
		}
		found += g.list[i].json != NULL;
		if (g.list[i].json || g.list[i].err.code == KP_NOT_FOUND) {
			answered++;
		} else {
			failed = &g.list[i].err;
		}
	}
	kp_fetch_fini(g.list, g.n);
	*ret_asked = answered;
	if (found) {
		return 0;
	}
	if (failed) { /* that one may have known it */
		*err = *failed;
		return answered ? kp_err_wrap(err,
					  "request `%s` is not known to %zu of %zu gateways",
					  cli->operand, answered, g.n)
				: -1;
	}
	return 1;
}

/* --- both --------------------------------------------------------------------------------------- */

static bool is_request_id(const char *word)
{
	kp_str w = kp_str_c(word);
	return kp_str_starts(w, KP_S("chatcmpl-")) || kp_str_starts(w, KP_S("cmpl-"));
}

int kp_cli_explain(struct kp_cli *cli, struct kp_err *err)
{
	struct kp_fetched f = { 0 };
	size_t asked = 0;
	int r = 1;
	bool is_request = is_request_id(cli->operand);
	if (!cli->gateway && kp_ask_operator(cli, &f, err)) {
		return -1;
	}
	if (!is_request) {
		r = explain_model(cli, f.json, err);
	}
	if (r == 1) {
		r = explain_request(cli, f.json, &asked, err);
	}
	kp_fetch_fini(&f, 1);
	if (r == 1) {
		return kp_err_set(err, KP_NOT_FOUND,
			"explain `%s`: %s%zu gateway%s asked: none knows a request of that id",
			cli->operand, is_request ? "" : "there is no such model, and of ", asked,
			asked == 1 ? "" : "s");
	}
	return r;
}
