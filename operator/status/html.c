/* DESIGN: tables, written row after row. Everything that comes from outside goes through esc(), in text and
   in attributes alike. Each cell carries its column's name, by which style.css turns rows into cards on
   a narrow screen. script.js puts the <main> of a newer page in place of the one shown, so there is one
   renderer: this. */
#include "operator/status/status.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <stdio.h>

struct page {
	struct kp_buf *out;
	int64_t now_ns;
	const char *const *columns; /* of the open table */
	size_t column;              /* of the next cell */
};

/* --- text --------------------------------------------------------------------------------------- */

static const char *entity_of(unsigned char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default: /* HTML knows no control characters but white space */
		return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ? "\xef\xbf\xbd" : NULL;
	}
}

/* Text, for between tags and for quoted attributes; invalid UTF-8 comes out as U+FFFD. */
static void esc(struct kp_buf *b, kp_str s)
{
	for (size_t at = 0; at < s.n;) {
		size_t end = at;
		const char *entity = NULL;
		while (end < s.n && !(entity = entity_of((unsigned char)s.p[end]))) {
			end++;
		}
		/* What is cut at is ASCII: no character is cut. */
		kp_utf8_add_lossy(b, kp_str_sub(s, at, end));
		if (entity) {
			kp_buf_addz(b, entity);
		}
		at = end + 1;
	}
}

static void age(const struct page *p, int64_t since_ns)
{
	char date[25], text[KP_AGE_TEXT_MAX];
	if (since_ns <= 0) {
		return;
	}
	kp_time_rfc3339(since_ns, date);
	kp_age_text(p->now_ns - since_ns, text);
	kp_buf_printf(
		p->out, "<time datetime=\"%.19sZ\" title=\"%.19sZ\">%s</time>", date, date, text);
}

/* --- tables ------------------------------------------------------------------------------------- */

static void open_table(
	struct page *p, const char *id, const char *title, const char *const *columns)
{
	p->columns = columns;
	kp_buf_printf(p->out,
		"<section><h2 id=\"%s\">%s</h2><div class=\"wide\"><table aria-labelledby=\"%s\">"
		"<thead><tr>",
		id, title, id);
	for (size_t i = 0; columns[i]; i++) {
		kp_buf_printf(p->out, "<th scope=\"col\">%s</th>", columns[i]);
	}
	kp_buf_lit(p->out, "</tr></thead><tbody>\n");
}

static void close_table(struct page *p, size_t rows)
{
	kp_buf_lit(p->out, "</tbody></table></div>");
	if (rows == 0) {
		kp_buf_lit(p->out, "<p class=\"none\">None.</p>");
	} else if (rows > KP_STATUS_MAX_ROWS) {
		kp_buf_printf(p->out,
			"<p class=\"none\">%zu more are not shown here; <a href=\"status\">as JSON</a> "
			"all are.</p>",
			rows - KP_STATUS_MAX_ROWS);
	}
	kp_buf_lit(p->out, "</section>\n");
}

static void open_row(struct page *p)
{
	p->column = 0;
	kp_buf_lit(p->out, "<tr>");
}

static void open_cell(struct page *p, const char *class)
{
	const char *column = p->columns[p->column++];
	kp_buf_printf(p->out, "<td data-label=\"%s\"", column);
	if (class) {
		kp_buf_printf(p->out, " class=\"%s\"", class);
	}
	kp_buf_addc(p->out, '>');
}

static void cell(struct page *p, kp_str text)
{
	open_cell(p, text.n ? NULL : "empty");
	esc(p->out, text);
	kp_buf_lit(p->out, "</td>");
}

/* "namespace/name" */
static void name_cell(struct page *p, kp_str ns, kp_str name)
{
	open_cell(p, "name");
	esc(p->out, ns);
	kp_buf_addc(p->out, '/');
	esc(p->out, name);
	kp_buf_lit(p->out, "</td>");
}

static void number_cell(struct page *p, uint64_t n)
{
	open_cell(p, "number");
	kp_buf_u64(p->out, n);
	kp_buf_lit(p->out, "</td>");
}

static void age_cell(struct page *p, int64_t since_ns)
{
	open_cell(p, since_ns > 0 ? "number" : "empty");
	age(p, since_ns);
	kp_buf_lit(p->out, "</td>");
}

/* One word with its colour; what it says is in the word. */
static void mark(struct page *p, const char *class, kp_str word)
{
	kp_buf_printf(p->out, "<span class=\"mark %s\">", class);
	esc(p->out, word);
	kp_buf_lit(p->out, "</span>");
}

/* --- what things mean --------------------------------------------------------------------------- */

static bool is_routable(const struct kp_status_endpoint *e)
{
	return kp_str_eq(e->state, KP_S("routable"));
}

static size_t count_routable(const struct kp_status_engine *e)
{
	size_t n = 0;
	for (size_t i = 0; i < e->n_endpoints; i++) {
		n += is_routable(&e->endpoints[i]);
	}
	return n;
}

static const char *state_class(const struct kp_status_endpoint *e)
{
	if (is_routable(e)) {
		return "good";
	}
	return kp_str_eq(e->state, KP_S("down")) ? "bad" : "fair";
}

/* Ready is good when it is true; of kstatus' other two it is the other way round. */
static const char *condition_class(const struct kp_status_condition *c)
{
	bool is_true = kp_str_eq(c->status, KP_S("True")),
	     is_false = kp_str_eq(c->status, KP_S("False"));
	if (kp_str_eq(c->type, KP_S("Stalled"))) {
		return is_true ? "bad" : is_false ? "good" : "fair";
	}
	if (kp_str_eq(c->type, KP_S("Reconciling"))) {
		return is_false ? "good" : "fair";
	}
	return is_true ? "good" : is_false ? "bad" : "fair";
}

static void conditions_cell(struct page *p, const struct kp_status_condition *c, size_t n)
{
	open_cell(p, n ? "conditions" : "empty");
	for (size_t i = 0; i < n; i++) {
		const char *class = condition_class(&c[i]);
		kp_buf_lit(p->out, "<div>");
		kp_buf_printf(p->out, "<span class=\"mark %s\">", class);
		esc(p->out, c[i].type);
		kp_buf_lit(p->out, ": ");
		esc(p->out, c[i].status);
		kp_buf_lit(p->out, "</span> ");
		if (!kp_str_eq(kp_str_c(class), KP_S("good"))) {
			kp_buf_lit(p->out, "<b>");
			esc(p->out, c[i].reason);
			kp_buf_lit(p->out, "</b> ");
			esc(p->out, c[i].message);
			kp_buf_addc(p->out, ' ');
		}
		age(p, c[i].last_transition_ns);
		kp_buf_lit(p->out, "</div>");
	}
	kp_buf_lit(p->out, "</td>");
}

/* "3 of 4", with the colour of how much that is. */
static void part_of_cell(struct page *p, size_t n, size_t of)
{
	open_cell(p, "number");
	kp_buf_printf(p->out, "<span class=\"mark %s\">%zu of %zu</span></td>",
		n == of && of ? "good"
		: n           ? "fair"
			      : "bad",
		n, of);
}

static void strs_cell(struct page *p, const kp_str *v, size_t n)
{
	open_cell(p, n ? NULL : "empty");
	for (size_t i = 0; i < n; i++) {
		kp_buf_addz(p->out, i ? ", " : "");
		esc(p->out, v[i]);
	}
	kp_buf_lit(p->out, "</td>");
}

/* --- the tables --------------------------------------------------------------------------------- */

static void pools(struct page *p, const struct kp_status *s)
{
	static const char *const columns[] = { "Pool", "Ports", "Engines", "Routable", "Conditions",
		NULL };
	open_table(p, "pools", "Pools", columns);
	for (size_t i = 0; i < s->n_pools && i < KP_STATUS_MAX_ROWS; i++) {
		const struct kp_status_pool *pool = &s->pools[i];
		size_t engines = 0, routable = 0, endpoints = 0;
		for (size_t k = 0; k < s->n_engines; k++) {
			const struct kp_status_engine *e = &s->engines[k];
			if (kp_str_eq(e->ns, pool->ns) && kp_str_eq(e->pool, pool->name)) {
				engines++;
				routable += count_routable(e);
				endpoints += e->n_endpoints;
			}
		}
		open_row(p);
		name_cell(p, pool->ns, pool->name);
		open_cell(p, NULL);
		for (size_t k = 0; k < pool->n_target_ports; k++) {
			kp_buf_printf(p->out, "%s%u", k ? ", " : "", pool->target_ports[k]);
		}
		kp_buf_lit(p->out, "</td>");
		number_cell(p, engines);
		part_of_cell(p, routable, endpoints);
		conditions_cell(p, pool->conditions, pool->n_conditions);
		kp_buf_lit(p->out, "</tr>\n");
	}
	close_table(p, s->n_pools);
}

static void engines(struct page *p, const struct kp_status *s)
{
	static const char *const columns[] = { "Model", "Aliases", "Engine", "Pool", "Protocol",
		"Tokenizer", "Routable", "Conditions", NULL };
	open_table(p, "models", "Models", columns);
	for (size_t i = 0; i < s->n_engines && i < KP_STATUS_MAX_ROWS; i++) {
		const struct kp_status_engine *e = &s->engines[i];
		open_row(p);
		open_cell(p, "name");
		esc(p->out, e->model);
		kp_buf_lit(p->out, "</td>");
		strs_cell(p, e->aliases, e->n_aliases);
		name_cell(p, e->ns, e->name);
		cell(p, e->pool);
		cell(p, e->protocol);
		cell(p, e->tokenizer);
		part_of_cell(p, count_routable(e), e->n_endpoints);
		conditions_cell(p, e->conditions, e->n_conditions);
		kp_buf_lit(p->out, "</tr>\n");
	}
	close_table(p, s->n_engines);
}

static void endpoint(
	struct page *p, const struct kp_status_engine *e, const struct kp_status_endpoint *at)
{
	open_row(p);
	open_cell(p, "name");
	esc(p->out, e->ns);
	kp_buf_addc(p->out, '/');
	esc(p->out, e->name);
	kp_buf_printf(p->out, "/%llu</td>", (unsigned long long)at->index);
	cell(p, at->address);
	open_cell(p, NULL);
	mark(p, state_class(at), at->state);
	kp_buf_addc(p->out, ' ');
	esc(p->out, at->reason);
	kp_buf_lit(p->out, "</td>");
	cell(p, at->owner);
	number_cell(p, at->in_flight);
	number_cell(p, at->running);
	number_cell(p, at->waiting);
	open_cell(p, "number");
	kp_buf_printf(p->out, "%.0f %%</td>", 100 * at->kv_usage);
	age_cell(p, at->since_ns);
	kp_buf_lit(p->out, "</tr>\n");
}

static void endpoints(struct page *p, const struct kp_status *s)
{
	static const char *const columns[] = { "Endpoint", "Address", "State", "Owner", "In flight",
		"Running", "Waiting", "KV cache", "Since", NULL };
	size_t rows = 0;
	open_table(p, "endpoints", "Endpoints", columns);
	for (size_t i = 0; i < s->n_engines; i++) {
		for (size_t k = 0; k < s->engines[i].n_endpoints; k++) {
			if (rows++ < KP_STATUS_MAX_ROWS) {
				endpoint(p, &s->engines[i], &s->engines[i].endpoints[k]);
			}
		}
	}
	close_table(p, rows);
}

static void revision_cell(struct page *p, const struct kp_status_revision *r)
{
	open_cell(p, r->epoch ? NULL : "empty");
	if (r->epoch) {
		kp_buf_printf(
			p->out, "<span title=\"epoch %llu, hash ", (unsigned long long)r->epoch);
		esc(p->out, r->hash);
		kp_buf_printf(p->out, "\">%llu", (unsigned long long)r->n);
		kp_buf_lit(p->out, " <code>");
		esc(p->out, kp_str_sub(r->hash, 0, 8));
		kp_buf_lit(p->out, "</code></span>");
	}
	kp_buf_lit(p->out, "</td>");
}

/* One that said it drains before its stream ended has not been lost. */
static kp_str gateway_word(const struct kp_status_gateway *g, const char **ret_mark)
{
	if (!g->is_connected) {
		*ret_mark = g->is_draining ? "fair" : "bad";
		return g->is_draining ? KP_S("ended") : KP_S("lost");
	}
	*ret_mark = g->is_current ? "good" : "fair";
	return g->is_current ? KP_S("current") : KP_S("behind");
}

static void gateway_state(struct page *p, const struct kp_status_gateway *g)
{
	const char *class;
	kp_str word = gateway_word(g, &class);
	open_cell(p, NULL);
	mark(p, class, word);
	if (g->is_connected && g->is_draining) {
		kp_buf_addc(p->out, ' ');
		mark(p, "fair", KP_S("draining"));
	}
	if (g->nack_reason.n) {
		kp_buf_lit(p->out, " refused its program: <b>");
		esc(p->out, g->nack_reason);
		kp_buf_lit(p->out, "</b> ");
		esc(p->out, g->nack_message);
	}
	if (g->state_error.n) {
		kp_buf_lit(p->out, " keeps no copy of it: ");
		esc(p->out, g->state_error);
	}
	for (size_t i = 0; i < g->n_problems; i++) {
		kp_buf_lit(p->out, "<div>");
		esc(p->out, g->problems[i]);
		kp_buf_lit(p->out, "</div>");
	}
	kp_buf_lit(p->out, "</td>");
}

static void gateways(struct page *p, const struct kp_status *s)
{
	static const char *const columns[] = { "Gateway", "Namespace", "State", "Acknowledged",
		"Node", "Peer address", "Owns", "In flight", "Requests", "Errors", "Tokens",
		"Since", NULL };
	open_table(p, "gateways", "Gateways", columns);
	for (size_t i = 0; i < s->n_gateways && i < KP_STATUS_MAX_ROWS; i++) {
		const struct kp_status_gateway *g = &s->gateways[i];
		open_row(p);
		open_cell(p, "name");
		esc(p->out, g->id);
		kp_buf_lit(p->out, "</td>");
		cell(p, g->ns);
		gateway_state(p, g);
		revision_cell(p, &g->revision);
		cell(p, g->node);
		cell(p, g->peer_address);
		strs_cell(p, g->own, g->n_own);
		number_cell(p, g->in_flight);
		number_cell(p, g->requests);
		number_cell(p, g->errors);
		number_cell(p, g->tokens);
		age_cell(p, g->since_ns);
		kp_buf_lit(p->out, "</tr>\n");
	}
	close_table(p, s->n_gateways);
}

static void programs(struct page *p, const struct kp_status *s)
{
	static const char *const columns[] = { "Namespace", "Program", "Acknowledged by", "Since",
		NULL };
	open_table(p, "programs", "Programs", columns);
	for (size_t i = 0; i < s->n_programs && i < KP_STATUS_MAX_ROWS; i++) {
		const struct kp_status_program *g = &s->programs[i];
		open_row(p);
		cell(p, g->ns);
		revision_cell(p, &g->revision);
		part_of_cell(p, (size_t)g->acked, (size_t)g->gateways);
		age_cell(p, g->since_ns);
		kp_buf_lit(p->out, "</tr>\n");
	}
	close_table(p, s->n_programs);
}

/* --- the page ----------------------------------------------------------------------------------- */

static void head(struct page *p, const struct kp_status *s, size_t routable, size_t all)
{
	kp_buf_printf(p->out,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
		"<meta name=\"color-scheme\" content=\"light dark\">"
		"<title>Kelpie: %zu of %zu endpoints routable</title>"
		"<link rel=\"icon\" type=\"image/svg+xml\" href=\"icon.svg\">"
		"<link rel=\"stylesheet\" href=\"style.css\">"
		"<script src=\"script.js\" defer></script></head>\n<body>\n",
		routable, all);
	kp_buf_lit(p->out, "<header><h1><img src=\"icon.svg\" alt=\"\" width=\"32\" height=\"32\">"
			   "Kelpie</h1><p>operator <b>");
	esc(p->out, s->id);
	kp_buf_lit(p->out, "</b> ");
	esc(p->out, s->version);
	kp_buf_lit(p->out, "</p><p id=\"follows\" role=\"status\">"
			   "<noscript>Load the page again to see what changed.</noscript>"
			   "</p></header>\n");
}

/* In a place of its own, so that what stands behind it stays where it is when they come and go. */
static void problems(struct page *p, const struct kp_status *s)
{
	kp_buf_lit(p->out, "<div>");
	if (s->not_ready.n) {
		kp_buf_lit(p->out, "<section class=\"problem\"><h2>Not ready</h2><p>");
		esc(p->out, s->not_ready);
		kp_buf_lit(p->out, "</p></section>\n");
	}
	if (s->n_manifest_errors) {
		kp_buf_lit(p->out, "<section class=\"problem\"><h2>Manifests refused</h2><p>");
		esc(p->out, s->manifests_path);
		kp_buf_lit(p->out, " is not taken; what was accepted ");
		age(p, s->manifests_ns);
		kp_buf_lit(p->out, " ago stays in force:</p><pre>");
		for (size_t i = 0; i < s->n_manifest_errors && i < KP_STATUS_MAX_ROWS; i++) {
			esc(p->out, s->manifest_errors[i]);
			kp_buf_addc(p->out, '\n');
		}
		kp_buf_lit(p->out, "</pre></section>\n");
	}
	kp_buf_lit(p->out, "</div>\n");
}

static void summary_item(
	struct page *p, const char *href, size_t n, const char *of, const char *what)
{
	kp_buf_printf(p->out, "<li><a href=\"#%s\"><b>%zu</b>%s %s</a></li>", href, n, of, what);
}

static void summary(struct page *p, const struct kp_status *s, size_t routable, size_t all)
{
	char of[32];
	size_t current = 0;
	for (size_t i = 0; i < s->n_gateways; i++) {
		current += s->gateways[i].is_connected && s->gateways[i].is_current;
	}
	kp_buf_lit(p->out, "<ul class=\"summary\">");
	summary_item(p, "pools", s->n_pools, "", s->n_pools == 1 ? "pool" : "pools");
	summary_item(p, "models", s->n_engines, "", s->n_engines == 1 ? "engine" : "engines");
	snprintf(of, sizeof(of), " of %zu", all);
	summary_item(p, "endpoints", routable, of, "endpoints routable");
	snprintf(of, sizeof(of), " of %zu", s->n_gateways);
	summary_item(p, "gateways", current, of, "gateways current");
	kp_buf_lit(p->out, "</ul>\n");
}

void kp_status_html(
	const struct kp_status *s, kp_str resource_version, int64_t now_ns, struct kp_buf *out)
{
	struct page p = { .out = out, .now_ns = now_ns };
	size_t routable = 0, all = 0;
	for (size_t i = 0; i < s->n_engines; i++) {
		routable += count_routable(&s->engines[i]);
		all += s->engines[i].n_endpoints;
	}
	head(&p, s, routable, all);
	kp_buf_lit(out, "<main data-version=\"");
	esc(out, resource_version);
	kp_buf_lit(out, "\">\n");
	summary(&p, s, routable, all);
	problems(&p, s);
	pools(&p, s);
	engines(&p, s);
	endpoints(&p, s);
	gateways(&p, s);
	programs(&p, s);
	kp_buf_lit(out, "<footer><p>Started ");
	age(&p, s->started_ns);
	kp_buf_lit(out,
		" ago. <a href=\"status\">The same as JSON</a>, <a href=\"metrics\">metrics</a>, "
		"<a href=\"readyz?verbose\">readiness</a>.</p></footer>\n</main>\n</body></html>\n");
}
