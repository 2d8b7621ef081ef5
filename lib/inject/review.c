/* DESIGN: read, decide, write; the arena of one review holds texts only, the values are jansson's and go at the end. */
#include "inject/review.h"

#include "inject/internal.h"
#include "json/write.h"

#include <stdio.h>

enum { ARENA = 32 << 20 };
static const struct kp_doc_limits limits = {
	.max_bytes = KP_REVIEW_MAX_BYTES, .max_nodes = 400000, .max_depth = 64, .max_docs = 1
};

const char *kp_review_verdict_name(enum kp_review_verdict v)
{
	static const char *const names[] = { "bad", "untouched", "injected", "unchanged",
		"refused" };
	return names[v];
}

static void keep(char *to, size_t size, kp_str s)
{
	snprintf(to, size, "%" KP_FMT, KP_ARG(s));
}

static void write_base64(struct kp_buf *out, const char *p, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *b = (const unsigned char *)p;
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)b[i] << 16 | (i + 1 < n ? (uint32_t)b[i + 1] << 8 : 0) |
			     (i + 2 < n ? (uint32_t)b[i + 2] : 0);
		kp_buf_addc(out, digits[v >> 18]);
		kp_buf_addc(out, digits[v >> 12 & 63]);
		kp_buf_addc(out, i + 1 < n ? digits[v >> 6 & 63] : '=');
		kp_buf_addc(out, i + 2 < n ? digits[v & 63] : '=');
	}
}

static int take(const char *text, size_t n, void *to)
{
	kp_buf_add(to, kp_str_n(text, n));
	return 0;
}

static void write_patch(struct kp_buf *out, const json_t *ops)
{
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, KP_REVIEW_MAX_ANSWER);
	json_dump_callback(ops, take, &text, JSON_COMPACT);
	out->failed = out->failed || text.failed;
	kp_buf_lit(out, ",\"patchType\":\"JSONPatch\",\"patch\":\"");
	write_base64(out, text.p, text.n);
	kp_buf_addc(out, '"');
}

/* Lists what people should know; an API server shows it to whoever asked. */
static void write_warnings(struct kp_buf *out, kp_str engine, const struct kp_inject_notes *notes)
{
	for (size_t i = 0; i < notes->n; i++) {
		char text[320];
		snprintf(text, sizeof(text), "kelpie: %" KP_FMT ": %s",
			KP_ARG(kp_str_sub(engine, 0, 63)), notes->p[i]);
		kp_buf_addz(out, i ? "," : ",\"warnings\":[");
		kp_json_w_str(out, kp_str_c(text));
	}
	kp_buf_addz(out, notes->n ? "]" : "");
}

static void write_head(struct kp_buf *out, kp_str uid, bool allowed)
{
	kp_buf_lit(out, "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\","
			"\"response\":{\"uid\":");
	kp_json_w_str(out, uid);
	kp_buf_addz(out, allowed ? ",\"allowed\":true" : ",\"allowed\":false");
}

static void write_refusal(struct kp_buf *out, const struct kp_err *err)
{
	kp_buf_printf(out, ",\"status\":{\"code\":%d,\"reason\":\"%s\",\"message\":",
		err->code == KP_RESOURCE_EXHAUSTED ? 500 : 422,
		err->code == KP_RESOURCE_EXHAUSTED ? "InternalError" : "Invalid");
	char text[KP_ERR_MSG + 16];
	snprintf(text, sizeof(text), "kelpie: %s", err->msg);
	kp_json_w_str(out, kp_str_c(text));
	kp_buf_addc(out, '}');
}

/* Is it about a pod that is created? Others reach us only through a webhook configuration that is not ours. */
static bool is_created_pod(const json_t *request)
{
	const json_t *resource = json_object_get(request, "resource");
	kp_str sub = kp_doc_str(request, "subResource");
	return kp_str_eq(kp_doc_str(request, "operation"), KP_S("CREATE")) && sub.n == 0 &&
	       kp_doc_str(resource, "group").n == 0 &&
	       kp_str_eq(kp_doc_str(resource, "resource"), KP_S("pods"));
}

static int check(const json_t *root, const json_t **ret_request, struct kp_err *err)
{
	const json_t *request = json_object_get(root, "request");
	kp_str uid = kp_doc_str(request, "uid");
	if (!kp_str_eq(kp_doc_str(root, "kind"), KP_S("AdmissionReview")) ||
		!kp_str_eq(kp_doc_str(root, "apiVersion"), KP_S("admission.k8s.io/v1"))) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"read the review: expected an AdmissionReview of admission.k8s.io/v1");
	}
	if (uid.n == 0 || uid.n > 128) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "read the review: no `request.uid`");
	}
	if (is_created_pod(request) && !json_is_object(json_object_get(request, "object"))) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "read the review: no `request.object`");
	}
	*ret_request = request;
	return 0;
}

static void decide(const json_t *request, const struct kp_inject_settings *settings,
	kp_inject_find *find, void *ctx, struct kp_review *r, struct kp_buf *out)
{
	const json_t *pod = json_object_get(request, "object");
	kp_str uid = kp_doc_str(request, "uid"), engine = kp_inject_engine_name(pod);
	struct kp_inject_notes notes = { .n = 0 };
	struct kp_inject_engine known = { .engine = NULL };
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(ARENA);
	json_t *injected = NULL;
	r->verdict = KP_REVIEW_UNTOUCHED;
	if (!is_created_pod(request) || !engine.p) {
		write_head(out, uid, true);
	} else {
		find(ctx, kp_doc_str(request, "namespace"), engine, &known);
		known.key = uid; /* the request's: no two pods have one */
		if (kp_inject_pod(pod, &known, settings, a, &notes, &injected, &r->err)) {
			r->verdict = KP_REVIEW_REFUSED;
			write_head(out, uid, false);
			write_refusal(out, &r->err);
		} else {
			json_t *ops = kp_json_diff(pod, injected);
			write_head(out, uid, true);
			r->verdict = KP_REVIEW_UNCHANGED;
			if (json_array_size(ops)) {
				r->verdict = KP_REVIEW_INJECTED;
				write_patch(out, ops);
			}
			write_warnings(out, engine, &notes);
			json_decref(ops);
		}
	}
	kp_buf_lit(out, "}}");
	json_decref(injected);
}

struct kp_review kp_inject_review(kp_str body, const struct kp_inject_settings *settings,
	kp_inject_find *find, void *ctx, struct kp_buf *out)
{
	struct kp_review r = { .http_status = 200, .err = KP_ERR_INIT };
	json_t *root = NULL;
	const json_t *request = NULL;
	if (kp_doc_json(body, "AdmissionReview", &limits, &root, &r.err) == 0 &&
		check(root, &request, &r.err) == 0) {
		const json_t *pod = json_object_get(request, "object");
		kp_str name = kp_doc_str(json_object_get(pod, "metadata"), "name");
		kp_str base = kp_doc_str(json_object_get(pod, "metadata"), "generateName");
		r.is_dry_run = json_is_true(json_object_get(request, "dryRun"));
		keep(r.ns, sizeof(r.ns), kp_doc_str(request, "namespace"));
		keep(r.pod, sizeof(r.pod), name.n ? name : base);
		keep(r.engine, sizeof(r.engine), kp_inject_engine_name(pod));
		decide(request, settings, find, ctx, &r, out);
		if (kp_buf_finish(out, "answer", &r.err)) {
			r.verdict = KP_REVIEW_BAD;
		}
	}
	if (r.verdict == KP_REVIEW_BAD) {
		kp_buf_reset(out);
		kp_json_w_err(out, &r.err);
		r.http_status = (unsigned)kp_code_http(r.err.code);
	}
	json_decref(root);
	return r;
}
