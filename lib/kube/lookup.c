/* DESIGN: one request after the other, a pause between them. What is put into a path was looked at before. */
#include "kube/lookup.h"

#include "base/clock.h"
#include "json/jansson.h"
#include "kube/backoff.h"

#include <stdio.h>

#define FIRST_NS KP_NS_PER_S
#define MOST_NS  (60 * KP_NS_PER_S)

struct kp_kube_lookup {
	struct kp_kube *k;
	void (*changed)(void *ctx);
	void *ctx;
	char *api_version, *group, *kind, *plural; /* plural: NULL, not found yet */
	struct kp_kube_kind is;                    /* made of them */
	struct kp_err err;
	struct kp_kube_backoff backoff;
	struct kp_kube_call *call;
	struct kp_timer timer;
};

/* A name in a path: group, version or plural. */
static bool is_name(kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.')) {
			return false;
		}
	}
	return s.n > 0 && s.n < 254 && s.p[0] != '.' && s.p[0] != '-';
}

kp_str kp_kube_lookup_read(const json_t *list, kp_str kind)
{
	const json_t *resources = json_object_get(list, "resources");
	for (size_t i = 0; i < json_array_size(resources); i++) {
		const json_t *r = json_array_get(resources, i);
		kp_str name = kp_doc_str(r, "name"); /* one with a slash is a subresource */
		if (kp_str_eq(kp_doc_str(r, "kind"), kind) && is_name(name) &&
			json_is_true(json_object_get(r, "namespaced"))) {
			return name;
		}
	}
	return KP_S("");
}

static void on_timer(struct kp_timer *t);

static void set_error(struct kp_kube_lookup *l, const struct kp_err *err)
{
	bool is_other =
		l->err.code != err->code || !kp_str_eq(kp_str_c(l->err.msg), kp_str_c(err->msg));
	int64_t wait = kp_kube_backoff_next(&l->backoff, kp_kube_rng(l->k));
	l->err = *err;
	kp_timer_start(
		kp_kube_loop(l->k), &l->timer, kp_loop_now(kp_kube_loop(l->k)) + wait, on_timer);
	if (is_other) {
		l->changed(l->ctx);
	}
}

static void found(struct kp_kube_lookup *l, kp_str plural)
{
	const struct kp_err none = KP_ERR_INIT;
	ptrdiff_t slash = kp_str_find_char(kp_str_c(l->api_version), '/');
	l->plural = kp_str_z(plural);
	l->is = (struct kp_kube_kind){ .group = l->group,
		.version = l->api_version + slash + 1,
		.plural = l->plural,
		.kind = l->kind };
	l->err = none;
	l->changed(l->ctx);
}

static void on_answer(void *ctx, const struct kp_kube_answer *answer)
{
	struct kp_kube_lookup *l = ctx;
	struct kp_err err;
	l->call = NULL;
	json_t *list = answer->failure ? NULL : kp_kube_answer_json(answer, &err);
	kp_str plural = kp_kube_lookup_read(list, kp_str_c(l->kind));
	if (plural.n) {
		found(l, plural);
	} else if (list || (answer->failure && answer->failure->http == 404)) {
		kp_err_set(&err, KP_NOT_FOUND,
			"the API server has no kind `%s` of `%s` with namespaces: is its CustomResourceDefinition installed?",
			l->kind, l->api_version);
		set_error(l, &err);
	} else {
		set_error(l, answer->failure ? &answer->failure->err : &err);
	}
	json_decref(list);
}

static void ask(struct kp_kube_lookup *l)
{
	char path[600];
	struct kp_err err;
	kp_str of = kp_str_c(l->api_version);
	ptrdiff_t slash = kp_str_find_char(of, '/');
	if (!is_name(kp_str_skip(of, (size_t)(slash + 1))) ||
		(slash >= 0 && !is_name(kp_str_c(l->group)))) {
		kp_err_set(&err, KP_INVALID_ARGUMENT, "`%s` is no API version", l->api_version);
		set_error(l, &err);
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", slash < 0 ? "/api" : "/apis", l->api_version);
	const struct kp_kube_request r = {
		.method = "GET", .path = path, .done = on_answer, .ctx = l
	};
	l->call = kp_kube_send(l->k, &r);
}

static void on_timer(struct kp_timer *t)
{
	ask(KP_CONTAINER(t, struct kp_kube_lookup, timer));
}

struct kp_kube_lookup *kp_kube_lookup_create(
	struct kp_kube *k, kp_str api_version, kp_str kind, void (*changed)(void *ctx), void *ctx)
{
	struct kp_kube_lookup *l = kp_new(struct kp_kube_lookup);
	ptrdiff_t slash = kp_str_find_char(api_version, '/');
	*l = (struct kp_kube_lookup){ .k = k,
		.changed = changed,
		.ctx = ctx,
		.api_version = kp_str_z(api_version),
		.group = kp_str_z(kp_str_sub(api_version, 0, slash < 0 ? 0 : (size_t)slash)),
		.kind = kp_str_z(kind),
		.err = KP_ERR_INIT,
		.backoff = { .first_ns = FIRST_NS, .most_ns = MOST_NS } };
	kp_timer_start(kp_kube_loop(k), &l->timer, kp_loop_now(kp_kube_loop(k)), on_timer);
	return l;
}

void kp_kube_lookup_destroy(struct kp_kube_lookup *l)
{
	if (!l) {
		return;
	}
	if (l->call) {
		kp_kube_cancel(l->call);
	}
	kp_timer_stop(kp_kube_loop(l->k), &l->timer);
	kp_mem_free(l->api_version);
	kp_mem_free(l->group);
	kp_mem_free(l->kind);
	kp_mem_free(l->plural);
	kp_mem_free(l);
}

const struct kp_kube_kind *kp_kube_lookup_kind(const struct kp_kube_lookup *l)
{
	return l->plural ? &l->is : NULL;
}

const struct kp_err *kp_kube_lookup_error(const struct kp_kube_lookup *l)
{
	return &l->err;
}
