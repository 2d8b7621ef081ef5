/* DESIGN: a table of routes; ctx is the gateway. */
#include "sidecar/admin/admin.h"

#include "base/clock.h"
#include "obs/log.h"
#include "sidecar/admin/explain.h"
#include "sidecar/admin/parse.h"
#include "sidecar/control/control.h"

static const struct kp_admin_answer text = { .status = 200, .type = "text/plain; charset=utf-8" };

static struct kp_admin_answer readyz(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out)
{
	struct kp_gateway *g = ctx;
	struct kp_admin_answer ans = text;
	bool verbose = kp_admin_arg(query, "verbose").p != NULL;
	ans.status = kp_control_ready(g->control, verbose, out) ? 200 : 503;
	return ans;
}

static struct kp_admin_answer metrics(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out)
{
	struct kp_gateway *g = ctx;
	(void)query;
	kp_metrics_render(g->metrics, out);
	return (struct kp_admin_answer){ .status = 200,
		.type = "text/plain; version=0.0.4; charset=utf-8" };
}

/* For a preStop hook, which can only GET: from now on new work goes elsewhere. */
static struct kp_admin_answer drain(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out)
{
	struct kp_gateway *g = ctx;
	(void)query;
	kp_gateway_drain(g);
	kp_buf_printf(out, "draining, %d requests in flight\n", atomic_load(&g->in_flight));
	return text;
}

static int read_seconds(const struct kp_admin_query *query, const char *name, uint64_t otherwise,
	uint64_t *ret, struct kp_err *err)
{
	kp_str s = kp_admin_arg(query, name);
	*ret = otherwise;
	return !s.p || kp_str_u64(s, 86400, ret)
		       ? 0
		       : kp_err_set(err, KP_INVALID_ARGUMENT,
				 "`%s`: expected a number of seconds from 0 to 86400", name);
}

/* The same, of a pod whose gateway is its node's: this one, which does not drain. It waits until the operator has taken the pod's engine
   out of the program and nothing runs there, `budget` seconds at most. */
static struct kp_admin_answer pod_drained(struct kp_gateway *g, kp_str key, uint64_t min_s,
	const struct kp_admin_query *query, struct kp_buf *out)
{
	uint64_t budget_s;
	struct kp_err err;
	if (read_seconds(query, "budget", KP_DRAIN_PATIENCE_S, &budget_s, &err)) {
		return kp_admin_error(out, &err);
	}
	bool is_late = query->waited_ns >= (int64_t)budget_s * KP_NS_PER_S;
	bool is_over = is_late || !kp_control_holds(g->control, key);
	if (!is_over || query->waited_ns < (int64_t)min_s * KP_NS_PER_S) {
		return (struct kp_admin_answer){ .status = 0 };
	}
	kp_log(is_late ? KP_LOG_WARN : KP_LOG_INFO, "the engine may end", kp_f_str("pod", key),
		kp_f_z("drain", is_late ? "the time is over" : "drained"),
		kp_f_int("ms", query->waited_ns / KP_NS_PER_MS));
	kp_buf_addz(out, is_late ? "the time is over\n" : "drained\n");
	return text;
}

/* The engine's preStop hook. Anybody may ask: it only waits. */
static struct kp_admin_answer drained(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out)
{
	static const char *const words[] = { "not draining", "under way", "drained",
		"the time is over" };
	struct kp_gateway *g = ctx;
	kp_str key = kp_admin_arg(query, "pod");
	uint64_t min_s;
	struct kp_err err;
	if (read_seconds(query, "min", 0, &min_s, &err)) {
		return kp_admin_error(out, &err);
	}
	if (key.p) {
		return pod_drained(g, key, min_s, query, out);
	}
	enum kp_drain_state state = kp_gateway_drained(g, kp_now_ns());
	bool is_over = state == KP_DRAIN_NONE
			       ? query->waited_ns >= KP_DRAIN_PATIENCE_S * KP_NS_PER_S
			       : state != KP_DRAIN_UNDER_WAY;
	if (!is_over || query->waited_ns < (int64_t)min_s * KP_NS_PER_S) {
		return (struct kp_admin_answer){ .status = 0 };
	}
	int in_flight = atomic_load(&g->in_flight);
	kp_log(in_flight ? KP_LOG_WARN : KP_LOG_INFO, "the engine may end",
		kp_f_z("drain", words[state]), kp_f_int("in_flight", in_flight));
	kp_buf_printf(out, "%s, %d requests in flight\n", words[state], in_flight);
	return text;
}

static const struct kp_admin_route routes[] = { { "/livez", kp_admin_livez, false },
	{ "/readyz", readyz, false }, { "/metrics", metrics, false },
	{ "/version", kp_admin_version, false }, { "/drain", drain, true },
	{ "/explain", kp_admin_explain, false } };
static const struct kp_admin_post posts[] = { { "/parse", kp_admin_parse, KP_ADMIN_PARSE_MAX } };

int kp_gateway_admin_start(struct kp_gateway *g, struct kp_admin **ret, struct kp_err *err)
{
	const struct kp_admin_opts opts = { .address = g->config.admin_listen,
		.routes = routes,
		.n_routes = KP_LEN(routes),
		.posts = posts,
		.n_posts = KP_LEN(posts),
		.ctx = g };
	return kp_admin_start(&opts, ret, err);
}

static const struct kp_admin_route probes[] = { { "/livez", kp_admin_livez, false },
	{ "/readyz", readyz, false }, { "/metrics", metrics, false },
	{ "/drained", drained, false } };

int kp_gateway_probes_start(struct kp_gateway *g, struct kp_admin **ret, struct kp_err *err)
{
	const struct kp_admin_opts opts = { .address = g->config.probe_listen,
		.routes = probes,
		.n_routes = KP_LEN(probes),
		.ctx = g };
	if (kp_admin_start(&opts, ret, err)) {
		return kp_err_wrap(err, "`--probe-listen`");
	}
	kp_log(KP_LOG_INFO, "probes listening", kp_f_int("port", kp_admin_port(*ret)));
	return 0;
}
