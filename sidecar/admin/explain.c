/* DESIGN: a request is looked up in each loop's ring, a model in the snapshot that is served from. */
#include "sidecar/admin/explain.h"

#include "base/clock.h"
#include "json/write.h"
#include "sidecar/control/control.h"
#include "sidecar/gwloop.h"

static const struct kp_admin_answer json = { .status = 200, .type = "application/json" };

static struct kp_admin_answer request(struct kp_gateway *g, kp_str id, struct kp_buf *out)
{
	for (size_t i = 0; i < g->n_loops; i++) {
		if (kp_explain_ring_find(&g->loops[i]->explain, id, out)) {
			kp_buf_addc(out, '\n');
			return json;
		}
	}
	struct kp_err err;
	kp_err_set(&err, KP_NOT_FOUND,
		"request `%" KP_FMT "` is not among the last that this gateway served",
		KP_ARG(kp_str_sub(id, 0, 100)));
	err.reason = "request_not_found";
	return kp_admin_error(out, &err);
}

static void member(struct kp_buf *out, const char *name, const char *value)
{
	kp_buf_printf(out, "\"%s\":", name);
	kp_json_w_str(out, kp_str_c(value));
	kp_buf_addc(out, ',');
}

static void put_endpoint(struct kp_buf *out, const struct kp_endpoint *e)
{
	kp_buf_addc(out, '{');
	member(out, "endpoint", e->key);
	member(out, "engine", e->engine);
	member(out, "address", e->address);
	member(out, "owner", e->owner);
	member(out, "peer", e->peer);
	member(out, "distance", kp_distance_name(e->distance));
	member(out, "protocol", kp_engine_protocol_name(e->protocol));
	member(out, "state", kp_endpoint_state_name(kp_endpoint_state(e)));
	kp_buf_printf(out, "\"inFlight\":%d,\"penalty\":%d,\"load\":%d}",
		atomic_load_explicit(&e->in_flight, memory_order_relaxed),
		atomic_load_explicit(&e->penalty, memory_order_relaxed),
		kp_endpoint_load(e, kp_now_ns()));
}

static void put_revision(struct kp_buf *out, const struct kp_model_revision *r)
{
	kp_buf_addc(out, '{');
	member(out, "engine", r->engine);
	if (r->text) {
		kp_buf_lit(out, "\"tokenizer\":");
		kp_json_w_str(out, r->text->info->kind);
		kp_buf_printf(out, ",\"vocabulary\":%zu,\"cutTokens\":%zu,",
			r->text->info->vocab_size, r->text->info->n_cuts);
		kp_text_stack_json(r->text, out);
		kp_buf_addc(out, ',');
	} else {
		member(out, "whyNot", r->why_not ? r->why_not : "");
	}
	kp_buf_printf(out, "\"maxContext\":%u,\"endpoints\":[", r->max_context);
	for (size_t i = 0; i < r->n_endpoints; i++) {
		kp_buf_addz(out, i ? "," : "");
		put_endpoint(out, r->endpoints[i]);
	}
	kp_buf_lit(out, "]}");
}

static struct kp_admin_answer model(struct kp_gateway *g, kp_str name, struct kp_buf *out)
{
	struct kp_snapshot *s = kp_control_snapshot(g->control);
	const struct kp_model *m = s ? kp_snapshot_find(s, name) : NULL;
	struct kp_admin_answer ans = json;
	if (m) {
		kp_buf_addc(out, '{');
		member(out, "model", m->name);
		member(out, "gateway", g->config.id);
		member(out, "pool", m->pool);
		kp_buf_printf(out, "\"alias\":%s,\"revisions\":[", m->is_alias ? "true" : "false");
		for (size_t i = 0; i < m->n_revisions; i++) {
			kp_buf_addz(out, i ? "," : "");
			put_revision(out, m->revisions[i]);
		}
		kp_buf_lit(out, "]}\n");
	} else {
		struct kp_err err;
		kp_err_set(&err, KP_NOT_FOUND, "the model `%" KP_FMT "` does not exist",
			KP_ARG(kp_str_sub(name, 0, 100)));
		err.reason = "model_not_found";
		ans = kp_admin_error(out, &err);
	}
	kp_snapshot_unref(s);
	return ans;
}

struct kp_admin_answer kp_admin_explain(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out)
{
	kp_str id = kp_admin_arg(query, "request"), name = kp_admin_arg(query, "model");
	struct kp_err err;
	if (id.n) {
		return request(ctx, id, out);
	}
	if (name.n) {
		return model(ctx, name, out);
	}
	kp_err_set(&err, KP_INVALID_ARGUMENT, "say `?request=ID` or `?model=NAME`");
	return kp_admin_error(out, &err);
}
