/* DESIGN: everything is copied into the catalog's arena, the program may go. Whether something changed is seen by a hash of all texts in the order they were
   copied: files of Secrets are read again every few seconds, and mostly they are what they were. */
#include "sidecar/control/catalog.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/map.h"
#include "obs/log.h"

#include <stdio.h>

enum { CATALOG_BYTES = 64 << 20 };

struct maker {
	struct kp_arena *a;
	struct kp_tool_catalog *c;
	const char *secrets;
	const struct kp_tool_catalog *before;
};

static void mix(struct maker *m, const void *p, size_t n)
{
	const uint64_t both[2] = { m->c->digest, kp_hash(kp_str_n(p, n)) };
	m->c->digest = kp_hash(kp_str_n(both, sizeof(both)));
}

static kp_str keep(struct maker *m, kp_str s)
{
	kp_str copy = { kp_arena_strz(m->a, s), s.n };
	mix(m, copy.p, copy.n);
	return copy;
}

static const kp_str *keep_names(struct maker *m, const kp_str *names, size_t n)
{
	kp_str *copy = kp_arena_xalloc(m->a, (n + 1) * sizeof(*copy));
	for (size_t i = 0; i < n; i++) {
		copy[i] = keep(m, names[i]);
	}
	mix(m, &n, sizeof(n));
	return copy;
}

/* A Secret's value, without the line feed that editors and `echo` leave at its end. */
static int read_secret(
	struct maker *m, const struct kp_program_tool_header *h, kp_str *ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf b;
	char path[4096];
	kp_buf_init(&b, KP_TOOL_SECRET_MAX);
	m->c->has_secrets = true;
	if (!m->secrets) {
		return kp_err_set(err, KP_FAILED_PRECONDITION,
			"the gateway has no --tool-secrets, and Secret `%" KP_FMT "` is needed",
			KP_ARG(h->secret));
	}
	snprintf(path, sizeof(path), "%s/%.*s/%.*s", m->secrets, KP_ARG(h->secret), KP_ARG(h->key));
	if (kp_fs_read(path, &b, err)) {
		return -1;
	}
	kp_str value = kp_buf_str(&b);
	while (value.n && (value.p[value.n - 1] == '\n' || value.p[value.n - 1] == '\r')) {
		value.n--;
	}
	*ret = keep(m, value);
	return 0;
}

static void complain(struct maker *m, const struct kp_tool_entry *e)
{
	const struct kp_tool_entry *old = kp_tool_catalog_find(m->before, e->label);
	if (!old || !old->why_not || strcmp(old->why_not, e->why_not) != 0) {
		kp_log(KP_LOG_WARN, "tool server cannot be used", kp_f_str("server", e->name),
			kp_f_z("why", e->why_not));
	}
}

static void set_headers(
	struct maker *m, const struct kp_program_tool_server *t, struct kp_tool_entry *e)
{
	struct kp_fetch_header *headers =
		kp_arena_xalloc(m->a, (t->n_headers + 1) * sizeof(*headers));
	for (size_t i = 0; i < t->n_headers; i++) {
		struct kp_err err;
		headers[i].name = keep(m, t->headers[i].name);
		if (!t->headers[i].secret.n) {
			headers[i].value = keep(m, t->headers[i].value);
		} else if (read_secret(m, &t->headers[i], &headers[i].value, &err)) {
			e->why_not = keep(m, kp_str_c(err.msg)).p;
		}
	}
	e->config.headers = headers;
	e->config.n_headers = t->n_headers;
}

static void set_approval(
	struct maker *m, const struct kp_program_tool_server *t, struct kp_tool_entry *e)
{
	const struct kp_mcp_filter except = { .names = keep_names(m, t->except, t->n_except),
		.n_names = t->n_except,
		.has_names = true };
	if (t->asks_never) {
		e->approval.rule = KP_MCP_APPROVAL_NEVER;
		e->approval.always = except;
	} else {
		e->approval.rule = KP_MCP_APPROVAL_BY_TOOL;
		e->approval.never = except;
	}
	mix(m, &e->approval.rule, sizeof(e->approval.rule));
}

static void add(struct maker *m, const struct kp_program_tool_server *t, struct kp_tool_entry *e)
{
	const int64_t seconds[] = { t->connect_s, t->list_s, t->call_s, t->call_total_s,
		t->is_private };
	e->name = e->config.name = keep(m, t->name);
	e->label = e->config.label = keep(m, t->label);
	e->config.url = keep(m, t->url);
	e->config.policy.allows_private = t->is_private;
	e->config.connect_ns = seconds[0] * KP_NS_PER_S;
	e->config.list_ns = seconds[1] * KP_NS_PER_S;
	e->config.call_ns = seconds[2] * KP_NS_PER_S;
	e->config.call_total_ns = seconds[3] * KP_NS_PER_S;
	mix(m, seconds, sizeof(seconds));
	e->forward = keep_names(m, t->forward, t->n_forward);
	e->n_forward = t->n_forward;
	e->allowed = (struct kp_mcp_filter){ .names = keep_names(m, t->allowed, t->n_allowed),
		.n_names = t->n_allowed,
		.has_names = true };
	e->has_allowed = t->n_allowed > 0;
	set_approval(m, t, e);
	set_headers(m, t, e);
	if (e->why_not) {
		complain(m, e);
	}
}

struct kp_tool_catalog *kp_tool_catalog_create(
	const struct kp_program *p, const char *secrets, const struct kp_tool_catalog *before)
{
	struct kp_arena *a = kp_arena_create(CATALOG_BYTES);
	struct kp_tool_catalog *c = kp_arena_new(a, struct kp_tool_catalog);
	struct maker m = { .a = a, .c = c, .secrets = secrets, .before = before };
	size_t n = p ? p->n_tool_servers : 0;
	struct kp_tool_entry *items = kp_arena_xalloc(a, (n + 1) * sizeof(*items));
	kp_ref_init(&c->refs);
	c->arena = a;
	c->items = items;
	c->n = n;
	for (size_t i = 0; i < n; i++) {
		add(&m, &p->tool_servers[i], &items[i]);
	}
	return c;
}

struct kp_tool_catalog *kp_tool_catalog_ref(struct kp_tool_catalog *c)
{
	kp_ref_get(&c->refs);
	return c;
}

void kp_tool_catalog_unref(struct kp_tool_catalog *c)
{
	if (c && kp_ref_put(&c->refs)) {
		kp_arena_destroy(c->arena); /* it lies in it */
	}
}

const struct kp_tool_entry *kp_tool_catalog_find(const struct kp_tool_catalog *c, kp_str label)
{
	for (size_t i = 0; c && i < c->n; i++) {
		if (kp_str_eq(c->items[i].label, label)) {
			return &c->items[i];
		}
	}
	return NULL;
}

void kp_tool_catalog_report(const struct kp_tool_catalog *c, struct kp_buf *out)
{
	for (size_t i = 0; c && i < c->n; i++) {
		const struct kp_tool_entry *e = &c->items[i];
		kp_buf_printf(out, "[%c]tool server %" KP_FMT " (%" KP_FMT "): %s\n",
			e->why_not ? '-' : '+', KP_ARG(e->name), KP_ARG(e->label),
			e->why_not ? e->why_not : "known");
	}
}
