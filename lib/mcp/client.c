/* DESIGN: a map from everything that makes a session its own (server, credentials, tenant, rules) to the session. One that nobody holds is in `idle`, oldest
   first, and goes after idle_ns, or when there are too many: a DELETE is sent, and it is freed when that is answered or too late. */
#include "mcp/internal.h"

#include <stdio.h>

#define IDLE_NS (300 * KP_NS_PER_S)
/* A session has a pair of sockets of libcurl's, and the connections that it keeps. */
enum { CONFIG_MAX = 256 << 10, IDLE_CONNECTIONS = 2, SESSION_FDS = 2 + IDLE_CONNECTIONS };

static void add_str(struct kp_buf *b, kp_str s)
{
	kp_buf_u64(b, s.n);
	kp_buf_addc(b, ':');
	kp_buf_add(b, s);
}

/* Everything in which two sessions may differ. */
static void write_key(struct kp_buf *b, const struct kp_mcp_config *c)
{
	const int64_t numbers[] = { c->connect_ns, c->list_ns, c->call_ns, c->call_total_ns,
		c->list_ttl_ns, (int64_t)c->max_output_bytes, c->policy.allows_private,
		c->policy.https_only, (int64_t)c->policy.n_hosts, (int64_t)c->policy.n_allow };
	add_str(b, c->tenant);
	add_str(b, c->name);
	add_str(b, c->series);
	add_str(b, c->url);
	add_str(b, c->ca_pem);
	for (size_t i = 0; i < KP_LEN(numbers); i++) {
		kp_buf_i64(b, numbers[i]);
		kp_buf_addc(b, ',');
	}
	for (size_t i = 0; i < c->policy.n_hosts; i++) {
		add_str(b, c->policy.hosts[i]);
	}
	for (size_t i = 0; i < c->policy.n_allow; i++) {
		add_str(b, kp_str_n(&c->policy.allow[i], sizeof(struct kp_cidr)));
	}
	for (size_t i = 0; i < c->n_headers; i++) {
		add_str(b, c->headers[i].name);
		add_str(b, c->headers[i].value);
	}
}

bool kp_mcp_header_is_own(kp_str name)
{
	static const char *const ours[] = { "accept", "content-type", "content-length", "host",
		"connection", "transfer-encoding", "te", "upgrade", "expect", "mcp-session-id",
		"mcp-protocol-version", "last-event-id", "user-agent", "accept-encoding" };
	for (size_t i = 0; i < KP_LEN(ours); i++) {
		if (kp_str_ieq(name, kp_str_c(ours[i]))) {
			return true;
		}
	}
	return false;
}

static int check_headers(const struct kp_mcp_config *c, struct kp_err *err)
{
	if (c->n_headers > KP_MCP_HEADERS_MAX) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"the tool server `%" KP_FMT "` has more than %d headers", KP_ARG(c->name),
			KP_MCP_HEADERS_MAX);
	}
	for (size_t i = 0; i < c->n_headers; i++) {
		if (kp_mcp_header_is_own(c->headers[i].name)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"the header `%" KP_FMT "` of the tool server `%" KP_FMT
				"` is the gateway's own",
				KP_ARG(c->headers[i].name), KP_ARG(c->name));
		}
	}
	return 0;
}

static kp_str copy(struct kp_arena *a, kp_str s)
{
	return (kp_str){ kp_arena_strz(a, s), s.n };
}

/* What was given is under CONFIG_MAX, so the arena is large enough. */
static void copy_config(struct kp_mcp *m, const struct kp_mcp_config *c)
{
	struct kp_arena *a = m->arena;
	struct kp_fetch_header *headers = kp_arena_xalloc(a, (c->n_headers + 1) * sizeof(*headers));
	kp_str *hosts = kp_arena_xalloc(a, (c->policy.n_hosts + 1) * sizeof(*hosts));
	struct kp_cidr *allow = kp_arena_xalloc(a, (c->policy.n_allow + 1) * sizeof(*allow));
	m->c = *c;
	m->c.name = copy(a, c->name);
	m->c.series = copy(a, c->series.n ? c->series : c->name);
	m->c.label = copy(a, c->label);
	m->c.url = copy(a, c->url);
	m->c.tenant = copy(a, c->tenant);
	m->c.ca_pem = copy(a, c->ca_pem);
	for (size_t i = 0; i < c->n_headers; i++) {
		headers[i] = (struct kp_fetch_header){ copy(a, c->headers[i].name),
			copy(a, c->headers[i].value) };
	}
	for (size_t i = 0; i < c->policy.n_hosts; i++) {
		hosts[i] = copy(a, c->policy.hosts[i]);
	}
	for (size_t i = 0; i < c->policy.n_allow; i++) {
		allow[i] = c->policy.allow[i];
	}
	m->c.headers = headers;
	m->c.policy.hosts = hosts;
	m->c.policy.allow = allow;
	m->c.connect_ns = c->connect_ns ? c->connect_ns : 10 * KP_NS_PER_S;
	m->c.list_ns = c->list_ns ? c->list_ns : 30 * KP_NS_PER_S;
	m->c.call_ns = c->call_ns ? c->call_ns : 60 * KP_NS_PER_S;
	m->c.call_total_ns = c->call_total_ns ? c->call_total_ns : 600 * KP_NS_PER_S;
	m->c.list_ttl_ns = c->list_ttl_ns ? c->list_ttl_ns : 300 * KP_NS_PER_S;
	m->c.max_output_bytes =
		c->max_output_bytes ? c->max_output_bytes : (size_t)KP_MCP_OUTPUT_MAX;
}

static struct kp_mcp *make(struct kp_mcp_pool *p, const struct kp_mcp_config *c)
{
	struct kp_mcp *m = kp_new(struct kp_mcp);
	m->pool = p;
	m->arena = kp_arena_create(4 * CONFIG_MAX);
	kp_list_init(&m->posts);
	kp_list_init(&m->waiting);
	kp_list_init(&m->sent);
	kp_list_init(&m->listers);
	kp_list_init(&m->failed);
	copy_config(m, c);
	const struct kp_fetch_opts o = { .policy = &m->c.policy,
		.user_agent = p->user_agent,
		.ca_pem = m->c.ca_pem,
		.max_idle = IDLE_CONNECTIONS };
	m->fetch = kp_fetch_create(p->loop, &o);
	return m;
}

static void destroy(struct kp_mcp *m)
{
	struct kp_list *node;
	KP_BUG_ON(m->n_asks > 0);
	while ((node = m->posts.next) != &m->posts) {
		kp_mcp_post_cancel(KP_CONTAINER(node, struct kp_mcp_post, link));
	}
	kp_loop_undefer(&m->turn);
	kp_list_del(&m->idle);
	kp_fetch_destroy(m->fetch);
	kp_mcp_tools_unref(m->tools);
	kp_mcp_tools_unref(m->coming);
	kp_mem_free(m->session_id);
	kp_arena_destroy(m->arena);
	kp_mem_free(m);
}

/* --- the pool --- */

static void on_timer(struct kp_timer *t);

static void arm(struct kp_mcp_pool *p)
{
	int64_t due = INT64_MAX;
	if (!kp_list_empty(&p->idle)) {
		due = KP_CONTAINER(p->idle.next, struct kp_mcp, idle)->idle_since_ns +
		      p->opts.idle_ns;
	}
	if (!kp_list_empty(&p->ending)) {
		bool are_many = p->n_ending > p->max_sessions / 4;
		due = KP_MIN(due, kp_loop_now(p->loop) + (are_many ? 0 : KP_NS_PER_S));
	}
	if (due != INT64_MAX) {
		kp_timer_start(p->loop, &p->timer, due, on_timer);
	}
}

/* Whoever wants it now gets another one. */
static void end_session(struct kp_mcp *m)
{
	struct kp_mcp_pool *p = m->pool;
	kp_map_del(&p->by_key, m->key);
	kp_list_del(&m->idle);
	m->idle_since_ns = kp_loop_now(p->loop);
	kp_list_push(&p->ending, &m->idle);
	p->n_ending++;
	kp_gauge_set(p->sessions, (int64_t)p->by_key.n);
	kp_mcp_session_end(m);
}

static void on_timer(struct kp_timer *t)
{
	struct kp_mcp_pool *p = KP_CONTAINER(t, struct kp_mcp_pool, timer);
	int64_t now = kp_loop_now(p->loop);
	kp_list_each_safe (node, &p->ending) {
		struct kp_mcp *m = KP_CONTAINER(node, struct kp_mcp, idle);
		if (kp_list_empty(&m->posts) || now - m->idle_since_ns >= 10 * KP_NS_PER_S ||
			p->n_ending > p->max_sessions / 4) {
			p->n_ending--;
			destroy(m);
		}
	}
	while (!kp_list_empty(&p->idle)) {
		struct kp_mcp *m = KP_CONTAINER(p->idle.next, struct kp_mcp, idle);
		if (now - m->idle_since_ns < p->opts.idle_ns) {
			break;
		}
		end_session(m);
	}
	arm(p);
}

struct kp_mcp_pool *kp_mcp_pool_create(struct kp_loop *loop, const struct kp_mcp_pool_opts *opts)
{
	struct kp_mcp_pool *p = kp_new(struct kp_mcp_pool);
	KP_AUTO(buf) struct kp_buf b;
	p->loop = loop;
	p->opts = *opts;
	p->opts.idle_ns = opts->idle_ns ? opts->idle_ns : IDLE_NS;
	size_t fds = opts->max_descriptors ? opts->max_descriptors : KP_MCP_DESCRIPTORS_MAX;
	p->max_posts = KP_MAX(fds / 2, (size_t)8);
	p->max_sessions =
		KP_MIN(KP_MAX(fds / 2 / SESSION_FDS, (size_t)2), (size_t)KP_MCP_SESSIONS_MAX);
	kp_buf_init(&b, 256);
	kp_buf_printf(&b, "kelpie/%s", opts->version);
	p->user_agent = kp_str_z(kp_buf_str(&b));
	kp_map_init(&p->by_key);
	kp_list_init(&p->idle);
	kp_list_init(&p->ending);
	p->sessions = kp_metrics_gauge(opts->metrics, "kelpie_mcp_sessions",
		"Sessions with MCP servers that are kept, by loop.",
		&(struct kp_label){ "loop", kp_str_c(kp_loop_name(loop)) }, 1);
	return p;
}

void kp_mcp_pool_destroy(struct kp_mcp_pool *p)
{
	struct kp_list *node;
	if (!p) {
		return;
	}
	while ((node = kp_list_pop(&p->idle)) || (node = kp_list_pop(&p->ending))) {
		struct kp_mcp *m = KP_CONTAINER(node, struct kp_mcp, idle);
		kp_map_del(&p->by_key, m->key);
		destroy(m);
	}
	KP_BUG_ON(p->by_key.n > 0);
	kp_timer_stop(p->loop, &p->timer);
	kp_map_fini(&p->by_key, NULL);
	kp_mem_free(p->user_agent);
	kp_mem_free(p);
}

/* Room for one more; false: all are in use. */
static bool make_room(struct kp_mcp_pool *p)
{
	if (p->by_key.n >= p->max_sessions && !kp_list_empty(&p->idle)) {
		end_session(KP_CONTAINER(p->idle.next, struct kp_mcp, idle));
		arm(p);
	}
	return p->by_key.n < p->max_sessions;
}

struct kp_mcp *kp_mcp_get(
	struct kp_mcp_pool *p, const struct kp_mcp_config *config, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf key;
	CURLU *url = NULL;
	kp_assert_on(p->loop);
	kp_buf_init(&key, CONFIG_MAX);
	write_key(&key, config);
	if (kp_buf_finish(&key, "tool server", err)) {
		return NULL;
	}
	struct kp_mcp *m = kp_map_get(&p->by_key, kp_buf_str(&key));
	if (!m) {
		if (check_headers(config, err) ||
			kp_fetch_url_parse(&config->policy, config->url, &url, err)) {
			kp_err_wrap(err, "tool server `%" KP_FMT "`", KP_ARG(config->name));
			return NULL;
		}
		curl_url_cleanup(url);
		if (!make_room(p)) {
			kp_err_set(err, KP_RESOURCE_EXHAUSTED,
				"more than %zu sessions with tool servers", p->max_sessions);
			return NULL;
		}
		m = make(p, config);
		m->key = copy(m->arena, kp_buf_str(&key));
		kp_map_set(&p->by_key, m->key, m);
		kp_gauge_set(p->sessions, (int64_t)p->by_key.n);
	}
	kp_list_del(&m->idle);
	m->holders++;
	return m;
}

void kp_mcp_put(struct kp_mcp *m)
{
	struct kp_mcp_pool *p = m->pool;
	KP_BUG_ON(m->holders == 0);
	if (--m->holders == 0) {
		m->idle_since_ns = kp_loop_now(p->loop);
		kp_list_push(&p->idle, &m->idle);
		arm(p);
	}
}
