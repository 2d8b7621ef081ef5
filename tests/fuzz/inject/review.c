/* Fuzz target: any bytes as the webhook's body. What comes out is JSON, the same for the same bytes; an injected pod is injected once: the answer for it is empty. */
#include "inject/internal.h"
#include "inject/review.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void find(void *ctx, kp_str ns, kp_str name, struct kp_inject_engine *ret)
{
	static const struct kp_inference_engine_spec engine = { .engine = { .port = 50051 },
		.drain = { .budget_seconds = 30 } };
	static const struct kp_inference_pool_target_port target = { 8080 };
	static const struct kp_inference_pool_spec pool = { .target_ports = &target,
		.n_target_ports = 1 };
	(void)ctx;
	(void)ns;
	if (name.n % 2) {
		*ret = (struct kp_inject_engine){
			.engine = &engine, .pool = &pool, .node_gateway = KP_S("10.96.0.7")
		};
	}
}

static void twice(const json_t *pod)
{
	struct kp_inject_settings s = kp_inject_defaults();
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(16 << 20);
	struct kp_inject_notes notes = { .n = 0 };
	struct kp_inject_engine known = { .engine = NULL };
	struct kp_err err = KP_ERR_INIT;
	json_t *once = NULL, *again = NULL;
	find(NULL, KP_S(""), kp_inject_engine_name(pod), &known);
	known.key = KP_S("u");
	if (kp_inject_pod(pod, &known, &s, a, &notes, &once, &err) == 0) {
		KP_BUG_ON(kp_inject_pod(once, &known, &s, a, &notes, &again, &err) != 0);
		KP_BUG_ON(!json_equal(once, again));
	}
	json_decref(once);
	json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct kp_doc_limits limits = { .max_bytes = KP_REVIEW_MAX_BYTES,
		.max_nodes = 400000,
		.max_depth = 64,
		.max_docs = 1 };
	struct kp_inject_settings s = kp_inject_defaults();
	struct kp_err err = KP_ERR_INIT;
	json_t *body = NULL, *answer = NULL;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, KP_REVIEW_MAX_ANSWER);
	struct kp_review r = kp_inject_review(kp_str_n(data, size), &s, find, NULL, &out);
	KP_BUG_ON(kp_doc_json(kp_buf_str(&out), "answer", &limits, &answer, &err) != 0);
	KP_BUG_ON((r.http_status == 200) != (r.verdict != KP_REVIEW_BAD));
	if (r.verdict == KP_REVIEW_INJECTED) {
		KP_BUG_ON(kp_doc_json(kp_str_n(data, size), "body", &limits, &body, &err) != 0);
		twice(kp_doc_at(body, "request.object"));
	}
	json_decref(body);
	json_decref(answer);
	return 0;
}
