/* DESIGN: a table of routes; ctx is the gateway. */
#include "sidecar/admin/admin.h"

#include "obs/log.h"
#include "sidecar/admin/explain.h"
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

static const struct kp_admin_route routes[] = { { "/livez", kp_admin_livez, false },
	{ "/readyz", readyz, false }, { "/metrics", metrics, false },
	{ "/version", kp_admin_version, false }, { "/drain", drain, true },
	{ "/explain", kp_admin_explain, false } };

int kp_gateway_admin_start(struct kp_gateway *g, struct kp_admin **ret, struct kp_err *err)
{
	const struct kp_admin_opts opts = { .address = g->config.admin_listen,
		.routes = routes,
		.n_routes = KP_LEN(routes),
		.ctx = g };
	return kp_admin_start(&opts, ret, err);
}
