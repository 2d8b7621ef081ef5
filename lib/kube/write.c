/* DESIGN: a path, a body, a content type each. A body that does not fit, or a path, fails as a call does: through
   `done`, which kp_kube_send sees to by its own limit. */
#include "kube/write.h"

#include "base/mem.h"

#include <stdlib.h>

static int dump(const char *p, size_t n, void *ctx)
{
	kp_buf_add(ctx, kp_str_n(p, n));
	return 0;
}

/* YAML's c-printable (1.2, chapter 5.1), without its line breaks. Bytes are valid UTF-8. */
static bool must_escape(uint32_t c)
{
	return (c >= 0x7f && c <= 0x9f) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
	       c == 0xfffe || c == 0xffff;
}

int kp_kube_write_yaml_safe(const json_t *v, struct kp_buf *b, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf plain;
	kp_buf_init(&plain, KP_KUBE_BODY_MAX);
	json_dump_callback(v, dump, &plain, JSON_COMPACT | JSON_ENCODE_ANY);
	if (kp_buf_finish(&plain, "body", err)) {
		return -1;
	}
	const unsigned char *p = (const unsigned char *)plain.p;
	for (size_t i = 0; i < plain.n;) {
		uint32_t c = p[i];
		size_t n = 1;
		if (c >= 0xe0 && c < 0xf0 && plain.n - i >= 3) {
			c = (c & 0xfU) << 12 | (p[i + 1] & 0x3fU) << 6 | (p[i + 2] & 0x3fU);
			n = 3;
		} else if (c >= 0xc0 && c < 0xe0 && plain.n - i >= 2) {
			c = (c & 0x1fU) << 6 | (p[i + 1] & 0x3fU);
			n = 2;
		} else if (c >= 0xf0) {
			n = KP_MIN((size_t)4, plain.n - i);
		}
		if (n < 4 && must_escape(c)) {
			kp_buf_printf(b, "\\u%04x", c);
		} else {
			kp_buf_add(b, kp_str_n(p + i, n));
		}
		i += n;
	}
	return kp_buf_finish(b, "body", err);
}

struct body {
	const char *method, *content_type;
	const json_t *value; /* NULL: none */
	const char *query[2][2];
};

static struct kp_kube_call *send(
	struct kp_kube *k, const struct kp_kube_write *w, const struct body *body)
{
	KP_AUTO(buf) struct kp_buf path, text;
	struct kp_err err;
	kp_buf_init(&path, 16384);
	/* One more than it takes: too much is told of by kp_kube_send. */
	kp_buf_init(&text, KP_KUBE_BODY_MAX + 1);
	kp_kube_path(&path, &w->ref);
	for (size_t i = 0; i < KP_LEN(body->query) && body->query[i][0]; i++) {
		kp_kube_query(&path, body->query[i][0], kp_str_c(body->query[i][1]));
	}
	if (w->is_dry_run) {
		kp_kube_query(&path, "dryRun", KP_S("All"));
	}
	struct kp_kube_request r = { .method = body->method,
		.path = kp_buf_cstr(&path),
		.timeout_ns = w->timeout_ns,
		.once = w->once,
		.done = w->done,
		.ctx = w->ctx };
	KP_BUG_ON(!r.path); /* names are far shorter */
	if (body->value) {
		bool is_too_large = kp_kube_write_yaml_safe(body->value, &text, &err) != 0;
		r.content_type = body->content_type;
		r.body = kp_buf_str(&text);
		r.body.n = is_too_large ? (size_t)KP_KUBE_BODY_MAX + 1 : r.body.n;
	}
	return kp_kube_send(k, &r);
}

struct kp_kube_call *kp_kube_get(struct kp_kube *k, const struct kp_kube_write *w)
{
	const struct body b = { .method = "GET" };
	return send(k, w, &b);
}

struct kp_kube_call *kp_kube_apply(
	struct kp_kube *k, const struct kp_kube_write *w, const json_t *intent, bool is_forced)
{
	const struct body b = { .method = "PATCH",
		.content_type = "application/apply-patch+yaml",
		.value = intent,
		.query = { { "fieldManager", KP_KUBE_FIELD_MANAGER },
			{ is_forced ? "force" : NULL, "true" } } };
	return send(k, w, &b);
}

static struct kp_kube_call *send_json(struct kp_kube *k, const struct kp_kube_write *w,
	const char *method, const char *content_type, const json_t *v)
{
	const struct body b = { .method = method,
		.content_type = content_type,
		.value = v,
		.query = { { "fieldManager", KP_KUBE_FIELD_MANAGER } } };
	return send(k, w, &b);
}

struct kp_kube_call *kp_kube_create_object(
	struct kp_kube *k, const struct kp_kube_write *w, const json_t *object)
{
	struct kp_kube_write to_all = *w;
	to_all.ref.name = KP_STR_NULL;
	return send_json(k, &to_all, "POST", "application/json", object);
}

struct kp_kube_call *kp_kube_replace(
	struct kp_kube *k, const struct kp_kube_write *w, const json_t *object)
{
	return send_json(k, w, "PUT", "application/json", object);
}

struct kp_kube_call *kp_kube_json_patch(
	struct kp_kube *k, const struct kp_kube_write *w, const json_t *operations)
{
	return send_json(k, w, "PATCH", "application/json-patch+json", operations);
}

struct kp_kube_call *kp_kube_merge_patch(
	struct kp_kube *k, const struct kp_kube_write *w, const json_t *patch)
{
	return send_json(k, w, "PATCH", "application/merge-patch+json", patch);
}

struct kp_kube_call *kp_kube_scale(
	struct kp_kube *k, const struct kp_kube_write *w, uint32_t replicas)
{
	struct kp_kube_write to_scale = *w;
	json_t *patch = json_pack("{s:{s:I}}", "spec", "replicas", (json_int_t)replicas);
	KP_BUG_ON(!patch);
	to_scale.ref.subresource = "scale";
	struct kp_kube_call *c = kp_kube_merge_patch(k, &to_scale, patch);
	json_decref(patch);
	return c;
}

struct kp_kube_call *kp_kube_delete(
	struct kp_kube *k, const struct kp_kube_write *w, const struct kp_kube_delete *how)
{
	json_t *options = json_pack("{s:s,s:s}", "kind", "DeleteOptions", "apiVersion", "v1");
	json_t *only = json_object();
	KP_BUG_ON(!options || !only);
	if (how->uid.n) {
		json_object_set_new(only, "uid", json_stringn(how->uid.p, how->uid.n));
	}
	if (how->version.n) {
		json_object_set_new(
			only, "resourceVersion", json_stringn(how->version.p, how->version.n));
	}
	if (json_object_size(only)) {
		json_object_set(options, "preconditions", only);
	}
	if (how->propagation) {
		json_object_set_new(options, "propagationPolicy", json_string(how->propagation));
	}
	if (how->grace_s >= 0) {
		json_object_set_new(options, "gracePeriodSeconds", json_integer(how->grace_s));
	}
	const struct body b = {
		.method = "DELETE", .content_type = "application/json", .value = options
	};
	struct kp_kube_call *c = send(k, w, &b);
	json_decref(only);
	json_decref(options);
	return c;
}

struct kp_kube_call *kp_kube_review_token(struct kp_kube *k, kp_str token,
	const char *const *audiences, size_t n_audiences, kp_kube_done *done, void *ctx)
{
	const struct kp_kube_write w = {
		.ref.kind = &kp_kube_kind_token_review, .done = done, .ctx = ctx
	};
	json_t *list = json_array(), *spec = json_object();
	for (size_t i = 0; i < n_audiences; i++) {
		json_array_append_new(list, json_string(audiences[i]));
	}
	/* A token that is no text is nobody's; the server says so of an empty one. */
	json_t *text = json_stringn(token.n ? token.p : "", token.n);
	json_object_set_new(spec, "token", text ? text : json_string(""));
	json_object_set_new(spec, "audiences", list);
	json_t *review = json_pack("{s:s,s:s,s:o}", "apiVersion", "authentication.k8s.io/v1",
		"kind", "TokenReview", "spec", spec);
	KP_BUG_ON(!review);
	struct kp_kube_call *c = kp_kube_create_object(k, &w, review);
	json_decref(review);
	return c;
}

static bool is_meant(const json_t *asked, const json_t *given)
{
	for (size_t i = 0; i < json_array_size(asked); i++) {
		for (size_t n = 0; n < json_array_size(given); n++) {
			if (json_equal(json_array_get(asked, i), json_array_get(given, n))) {
				return true;
			}
		}
	}
	return json_array_size(asked) == 0;
}

kp_str kp_kube_token_user(const json_t *review, struct kp_err *err)
{
	const json_t *status = json_object_get(review, "status");
	const json_t *asked = kp_doc_at(review, "spec.audiences");
	kp_str why = kp_doc_str(status, "error");
	kp_str name = kp_doc_str(json_object_get(status, "user"), "username");
	if (!json_is_true(json_object_get(status, "authenticated")) || !name.n) {
		kp_err_set(err, KP_UNAUTHENTICATED, "review token: %" KP_FMT,
			KP_ARG(why.n ? why : KP_S("it is not valid")));
		return KP_STR_NULL;
	}
	if (!is_meant(asked, json_object_get(status, "audiences"))) {
		kp_err_set(err, KP_UNAUTHENTICATED, "review token: it is for another audience");
		return KP_STR_NULL;
	}
	return name;
}
