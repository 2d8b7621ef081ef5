/* DESIGN: numbers are copied when a choice is made, since they are others a moment later; text is made
   once, at the end. The ring owns its texts and drops the oldest; its lock is held for copying one. */
#include "sidecar/route/explain.h"

#include "base/clock.h"
#include "json/write.h"

struct kp_explain_kept {
	char *id, *client_id;
	struct kp_buf json;
};

void kp_explain_pick(struct kp_explain_trace *t, struct kp_arena *a,
	const struct kp_model_revision *r, const struct kp_pick *how,
	const struct kp_endpoint *avoided, const struct kp_endpoint *picked, const char *because)
{
	size_t n = KP_MIN(r->n_endpoints, (size_t)KP_EXPLAIN_CANDIDATES);
	struct kp_explain_attempt *at = kp_arena_calloc(a, 1, sizeof(*at));
	if (!at) {
		return;
	}
	*at = (struct kp_explain_attempt){ .picked = picked,
		.because = because,
		.avoided = avoided,
		.start_ns = how->now_ns,
		.leave_own = how->leave_own,
		.why = "",
		.n_endpoints = r->n_endpoints,
		.candidates = kp_arena_calloc(a, n, sizeof(*at->candidates)) };
	at->n_candidates = at->candidates ? n : 0;
	for (size_t i = 0; i < at->n_candidates; i++) {
		const struct kp_endpoint *e = r->endpoints[i];
		at->candidates[i] = (struct kp_explain_candidate){ .endpoint = e,
			.state = kp_endpoint_state(e),
			.load = kp_endpoint_load(e, how->now_ns),
			.score = kp_pick_score(how, e),
			.penalty = atomic_load_explicit(&e->penalty, memory_order_relaxed),
			.takes = kp_pick_takes(how, e) };
	}
	if (t->last) {
		t->last->next = at;
	} else {
		t->first = at;
	}
	t->last = at;
}

void kp_explain_end(
	struct kp_explain_trace *t, struct kp_arena *a, const struct kp_err *status, int64_t now_ns)
{
	if (t->last && !t->last->end_ns) {
		kp_str why = kp_str_c(status->code == KP_OK ? "" : status->msg), copy;
		struct kp_err full;
		t->last->end_ns = now_ns;
		t->last->code = status->code;
		/* The arena ends its strings with a NUL. */
		t->last->why = kp_arena_dup(a, why, &copy, &full) ? "" : copy.p;
	}
}

static void put_endpoint(struct kp_buf *out, const struct kp_endpoint *e)
{
	kp_buf_lit(out, "\"endpoint\":");
	kp_json_w_str(out, kp_str_c(e->key));
	kp_buf_lit(out, ",\"owner\":");
	kp_json_w_str(out, kp_str_c(e->owner));
	kp_buf_printf(out, ",\"distance\":\"%s\"", kp_distance_name(e->distance));
}

static const char *excluded(
	const struct kp_explain_attempt *at, const struct kp_explain_candidate *c)
{
	if (c->state != KP_ENDPOINT_ROUTABLE) {
		return kp_endpoint_state_name(c->state);
	}
	if (!c->takes) {
		return "it cannot be sent these images";
	}
	if (c->endpoint == at->avoided && c->endpoint != at->picked) {
		return "it failed this request before";
	}
	return at->leave_own && c->endpoint->is_own && c->endpoint != at->picked
		       ? "this gateway drains"
		       : NULL;
}

static void put_candidates(struct kp_buf *out, const struct kp_explain_attempt *at)
{
	kp_buf_lit(out, ",\"candidates\":[");
	for (size_t i = 0; i < at->n_candidates; i++) {
		const struct kp_explain_candidate *c = &at->candidates[i];
		const char *why = excluded(at, c);
		kp_buf_addz(out, i ? ",{" : "{");
		put_endpoint(out, c->endpoint);
		kp_buf_printf(out, ",\"state\":\"%s\",\"load\":%d,\"penalty\":%d,\"score\":%d",
			kp_endpoint_state_name(c->state), c->load - c->penalty, c->penalty,
			c->score);
		if (why) {
			kp_buf_lit(out, ",\"excluded\":");
			kp_json_w_str(out, kp_str_c(why));
		}
		kp_buf_addc(out, '}');
	}
	kp_buf_printf(out, "],\"endpoints\":%zu", at->n_endpoints);
}

static void put_attempt(
	struct kp_buf *out, const struct kp_explain_attempt *at, const struct kp_explain_request *r)
{
	int64_t end_ns = at->end_ns ? at->end_ns : r->end_ns;
	kp_buf_addc(out, '{');
	if (at->picked) {
		put_endpoint(out, at->picked);
		kp_buf_addc(out, ',');
	}
	kp_buf_lit(out, "\"because\":");
	kp_json_w_str(out, kp_str_c(at->because));
	put_candidates(out, at);
	kp_buf_lit(out, ",\"outcome\":");
	if (!at->end_ns) {
		kp_buf_lit(out, "\"ended with the request\"");
	} else if (at->code == KP_OK) {
		kp_buf_lit(out, "\"ok\"");
	} else {
		KP_AUTO(buf) struct kp_buf text;
		kp_buf_init(&text, 2048);
		kp_buf_printf(&text, "%s: %s", kp_code_name(at->code), at->why);
		kp_json_w_str(out, kp_buf_str(&text));
	}
	kp_buf_printf(out, ",\"startMs\":%lld,\"ms\":%lld}",
		(long long)((at->start_ns - r->start_ns) / KP_NS_PER_MS),
		(long long)((end_ns - at->start_ns) / KP_NS_PER_MS));
}

static void put_member(struct kp_buf *out, const char *name, kp_str value)
{
	kp_buf_printf(out, "\"%s\":", name);
	kp_json_w_str(out, value);
	kp_buf_addc(out, ',');
}

void kp_explain_open(struct kp_buf *out, const struct kp_explain_request *r)
{
	kp_buf_addc(out, '{');
	put_member(out, "request", r->id);
	put_member(out, "clientRequestId", r->client_id);
	put_member(out, "gateway", kp_str_c(r->gateway));
	put_member(out, "model", r->model);
	if (r->resolved) {
		put_member(out, "pool", kp_str_c(r->resolved->pool));
	}
	if (r->revision) {
		put_member(out, "revision", kp_str_c(r->revision->engine));
	}
	kp_buf_printf(out, "\"prompt\":{\"exact\":%zu,\"prefix\":%zu,\"encoded\":%zu},",
		r->prompt.exact, r->prompt.prefix, r->prompt.encoded);
	kp_buf_printf(out, "\"knownMessages\":%u,", r->known_messages);
	kp_buf_lit(out, "\"choices\":[");
}

void kp_explain_choice(struct kp_buf *out, const struct kp_explain_request *r, size_t index,
	const struct kp_explain_trace *t)
{
	kp_buf_printf(out, "%s{\"index\":%zu,\"attempts\":[", index ? "," : "", index);
	for (const struct kp_explain_attempt *at = t->first; at; at = at->next) {
		put_attempt(out, at, r);
		kp_buf_addz(out, at->next ? "," : "");
	}
	kp_buf_lit(out, "]}");
}

void kp_explain_close(struct kp_buf *out, const struct kp_explain_request *r)
{
	kp_buf_printf(out, "],\"status\":%d,\"outcome\":\"%s\",\"ms\":%lld}", r->http_status,
		r->http_status == 200   ? "ok"
		: r->http_status == 499 ? "the client left"
					: "error",
		(long long)((r->end_ns - r->start_ns) / KP_NS_PER_MS));
}

void kp_explain_ring_init(struct kp_explain_ring *r)
{
	*r = (struct kp_explain_ring){ 0 };
	pthread_mutex_init(&r->lock, NULL);
}

static void kept_fini(struct kp_explain_kept *k)
{
	kp_mem_free(k->id);
	kp_mem_free(k->client_id);
	kp_buf_fini(&k->json);
}

void kp_explain_ring_fini(struct kp_explain_ring *r)
{
	for (size_t i = 0; r->kept && i < KP_EXPLAIN_KEPT; i++) {
		kept_fini(&r->kept[i]);
	}
	kp_mem_free(r->kept);
	pthread_mutex_destroy(&r->lock);
}

void kp_explain_ring_add(struct kp_explain_ring *r, kp_str id, kp_str client_id, kp_str json)
{
	struct kp_explain_kept k = { .id = kp_str_z(id), .client_id = kp_str_z(client_id) }, old;
	kp_buf_init(&k.json, json.n + 1);
	kp_buf_add(&k.json, json);
	pthread_mutex_lock(&r->lock);
	if (!r->kept) {
		r->kept = kp_xcalloc(KP_EXPLAIN_KEPT, sizeof(*r->kept));
	}
	old = r->kept[r->next];
	r->kept[r->next] = k;
	r->next = (r->next + 1) % KP_EXPLAIN_KEPT;
	pthread_mutex_unlock(&r->lock);
	kept_fini(&old);
}

bool kp_explain_ring_find(struct kp_explain_ring *r, kp_str id, struct kp_buf *out)
{
	bool found = false;
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; r->kept && i < KP_EXPLAIN_KEPT && !found; i++) {
		const struct kp_explain_kept *k =
			&r->kept[(r->next + KP_EXPLAIN_KEPT - 1 - i) % KP_EXPLAIN_KEPT];
		found = k->id &&
			(kp_str_eq(kp_str_c(k->id), id) || kp_str_eq(kp_str_c(k->client_id), id));
		if (found) {
			kp_buf_add(out, kp_buf_str(&k->json));
		}
	}
	pthread_mutex_unlock(&r->lock);
	return found;
}
