/* DESIGN: stores of the four kinds that matter, and a queue of what is to be looked at: "secret", "webhook", "map/NAMESPACE".
   Looking compares what is there with what should be, and writes the difference; every event only says "look". The state is
   never changed in memory: it is what the Secret says, read anew at each change of it; a step is made on a copy, written, and
   counts once the watch brings it back. */
#include "operator/trust/trust.h"

#include "base/clock.h"
#include "base/map.h"
#include "kube/queue.h"
#include "kube/recorder.h"
#include "kube/store.h"
#include "kube/write.h"
#include "inject/inject.h"
#include "obs/log.h"
#include "operator/plan/kinds.h"
#include "operator/trust/authority.h"

#include <stdio.h>

enum {
	WORKERS = 4,
	OWN_NAMES = 4,
	BUNDLE_TEXT_MAX = 1 << 20,
	NS_MAX = 63,
};
#define RETRY_FIRST_NS (100 * KP_NS_PER_MS)
#define RETRY_MOST_NS  (60 * KP_NS_PER_S)
#define MAP_KEY        "map/"

static const struct kp_kube_kind kind_secret = { "", "v1", "secrets", "Secret", false },
				 kind_map = { "", "v1", "configmaps", "ConfigMap", false },
				 kind_webhook = { "admissionregistration.k8s.io", "v1",
					 "mutatingwebhookconfigurations",
					 "MutatingWebhookConfiguration", true };

struct kp_trust {
	struct kp_loop *loop;
	struct kp_trust_opts opts;
	char *ns;
	char *own_names[OWN_NAMES];
	kp_str names[OWN_NAMES + KP_STRINGS_MAX];
	size_t n_names;
	struct kp_kube_store *secret, *webhook;
	struct {
		struct kp_kube_store *maps, *engines, *pods;
	} * watched; /* for each namespace that is watched */
	size_t n_watched;
	struct kp_map namespaces; /* name -> how many engines and pods it has */
	struct kp_kube_queue *queue;
	struct kp_kube_recorder *recorder;
	struct kp_timer due;
	bool is_leading;
	bool is_secret_known;        /* it was listed once */
	struct kp_trust_state state; /* what the Secret says; empty: there is none */
	struct kp_buf bundle;        /* of the state: PEM */
	char *bundle64;              /* and as the webhook and the Secret have it */
	char *said;                  /* the last problem that was logged */
	struct kp_list writes;       /* under way */
	struct kp_counter *made, *signs, *issued;
	struct kp_gauge *authorities, *expiry, *behind;
};

struct write {
	struct kp_list link;
	struct kp_kube_call *call;
	struct kp_trust *t;
	char *key; /* in the queue */
	const char *what;
};

static void look(struct kp_trust *t, const char *key)
{
	kp_kube_queue_add(t->queue, kp_str_c(key));
}
static void look_map(struct kp_trust *t, kp_str ns)
{
	char key[sizeof(MAP_KEY) + NS_MAX];
	snprintf(key, sizeof(key), MAP_KEY "%" KP_FMT, KP_ARG(kp_str_sub(ns, 0, NS_MAX)));
	look(t, key);
}
static void look_at_all(struct kp_trust *t)
{
	const struct kp_map_entry *e;
	look(t, "secret");
	look(t, "webhook");
	for (size_t i = 0; (e = kp_map_next(&t->namespaces, &i));) {
		look_map(t, e->key);
	}
}

/* The same problem is said once. */
static void say_problem(struct kp_trust *t, const char *what, const struct kp_err *err)
{
	if (!t->said || !kp_str_eq(kp_str_c(t->said), kp_str_c(err->msg))) {
		kp_free(&t->said);
		t->said = kp_xstrdup(err->msg);
		kp_log(KP_LOG_ERROR, what, kp_f_err(err));
	}
}

/* --- what is there, and should be --- */

static kp_str name_of(const json_t *object, const char *member)
{
	return kp_doc_str(json_object_get(object, "metadata"), member);
}

static const json_t *map_of(const struct kp_trust *t, kp_str ns)
{
	const json_t *found = NULL;
	for (size_t i = 0; i < t->n_watched && !found; i++) {
		found = kp_kube_store_get(t->watched[i].maps, ns, KP_S(KP_TRUST_MAP));
	}
	return found;
}

static bool is_map_right(const struct kp_trust *t, kp_str ns)
{
	const json_t *data = json_object_get(map_of(t, ns), "data");
	return kp_str_eq(kp_doc_str(data, "ca.crt"), kp_buf_str(&t->bundle));
}

static const json_t *webhooks_of(const struct kp_trust *t)
{
	const json_t *o = kp_kube_store_get(t->webhook, KP_STR_NULL, KP_S(KP_TRUST_WEBHOOK));
	return json_object_get(o, "webhooks");
}

static bool is_webhook_right(const struct kp_trust *t, const json_t *webhook)
{
	kp_str have = kp_doc_str(json_object_get(webhook, "clientConfig"), "caBundle");
	return kp_str_eq(have, kp_str_c(t->bundle64));
}

static size_t count_behind(const struct kp_trust *t)
{
	const json_t *webhooks = webhooks_of(t);
	const struct kp_map_entry *e;
	size_t n = 0;
	for (size_t i = 0; i < json_array_size(webhooks); i++) {
		n += !is_webhook_right(t, json_array_get(webhooks, i));
	}
	for (size_t i = 0; (e = kp_map_next(&t->namespaces, &i));) {
		n += !is_map_right(t, e->key);
	}
	return n;
}

/* --- writing --- */

static void free_write(struct write *w)
{
	kp_list_del(&w->link);
	kp_mem_free(w->key);
	kp_mem_free(w);
}

static void on_written(void *ctx, const struct kp_kube_answer *a)
{
	struct write *w = ctx;
	struct kp_trust *t = w->t;
	kp_str key = kp_str_c(w->key);
	if (!a->failure) {
		kp_log(KP_LOG_INFO, w->what, kp_f_z("object", w->key));
		kp_free(&t->said);
		kp_kube_queue_done(t->queue, key);
	} else if (a->failure->err.code == KP_CONFLICT ||
		   a->failure->err.code == KP_ALREADY_EXISTS) {
		/* Somebody else was first: the watch brings what they wrote. */
		kp_log(KP_LOG_DEBUG, "another one was first", kp_f_z("object", w->key));
		kp_kube_queue_done(t->queue, key);
	} else {
		say_problem(t, "cannot write what certificates need", &a->failure->err);
		kp_kube_queue_failed(t->queue, key, a->failure->retry_after_ns);
	}
	free_write(w);
}

static struct kp_kube_write begin_write(struct kp_trust *t, kp_str key, const char *what,
	const struct kp_kube_kind *kind, kp_str ns, kp_str name)
{
	struct write *w = kp_new(struct write);
	*w = (struct write){ .t = t, .key = kp_str_z(key), .what = what };
	kp_list_push(&t->writes, &w->link);
	return (struct kp_kube_write){
		.ref = { .kind = kind, .ns = ns, .name = name }, .done = on_written, .ctx = w
	};
}

static void began(const struct kp_kube_write *w, struct kp_kube_call *call)
{
	struct write *of = w->ctx;
	of->call = call;
}

/* --- the Secret --- */

/* A kind that the server does not have has no objects. */
static bool is_listed(const struct kp_kube_store *s)
{
	const struct kp_kube_store_state *st = kp_kube_store_state(s);
	return st->is_synced || st->err.code == KP_NOT_FOUND;
}

static bool is_distributed(const struct kp_trust *t)
{
	bool is = is_listed(t->webhook);
	for (size_t i = 0; i < t->n_watched && is; i++) {
		is = is_listed(t->watched[i].maps) && is_listed(t->watched[i].engines) &&
		     is_listed(t->watched[i].pods);
	}
	return is && count_behind(t) == 0;
}

static struct kp_trust_wish wish_of(const struct kp_trust *t)
{
	const struct kp_trust_periods *p = &t->opts.periods;
	return (struct kp_trust_wish){ .period_s = p->rotate_ns / KP_NS_PER_S,
		.overlap_s = p->overlap_ns / KP_NS_PER_S,
		.lifetime_s = p->lifetime_ns / KP_NS_PER_S,
		.names = t->names,
		.n_names = t->n_names,
		.is_distributed = is_distributed(t) };
}

static void on_due(struct kp_timer *timer)
{
	struct kp_trust *t = KP_CONTAINER(timer, struct kp_trust, due);
	look(t, "secret");
}

static json_t *secret_object(const struct kp_trust *t, const json_t *there, json_t *data)
{
	json_t *o = there ? json_deep_copy(there)
			  : json_pack("{s:s,s:s,s:s,s:{s:s,s:s,s:{s:s}}}", "apiVersion", "v1",
				    "kind", "Secret", "type", "Opaque", "metadata", "name",
				    KP_TRUST_SECRET, "namespace", t->ns, "labels",
				    "app.kubernetes.io/managed-by", "kelpie-operator");
	KP_BUG_ON(!o);
	json_object_set_new(o, "data", data);
	return o;
}

static void write_secret(struct kp_trust *t, kp_str key, json_t *data)
{
	const json_t *there = kp_kube_store_get(t->secret, kp_str_c(t->ns), KP_S(KP_TRUST_SECRET));
	json_t *o = secret_object(t, there, data);
	const struct kp_kube_write w = begin_write(t, key, "certificates written", &kind_secret,
		kp_str_c(t->ns), KP_S(KP_TRUST_SECRET));
	began(&w, there ? kp_kube_replace(t->opts.kube, &w, o)
			: kp_kube_create_object(t->opts.kube, &w, o));
	json_decref(o);
}

static void count_step(struct kp_trust *t, const struct kp_trust_state *draft)
{
	const struct kp_authority *was = kp_trust_state_signer(&t->state),
				  *is = kp_trust_state_signer(draft);
	if (is && (!was || !kp_str_eq(kp_str_c(was->cert), kp_str_c(is->cert)))) {
		kp_counter_add(t->signs, 1);
		kp_log(KP_LOG_INFO, was ? "the next authority signs" : "an authority is made");
	} else if (kp_trust_state_is_rotating(draft) && !kp_trust_state_is_rotating(&t->state)) {
		kp_counter_add(t->made, 1);
		kp_log(KP_LOG_INFO, "the next authority is made");
	}
}

/* A step on a copy; what changed is written. */
static int step(struct kp_trust *t, json_t **ret_data, struct kp_err *err)
{
	const json_t *there = kp_kube_store_get(t->secret, kp_str_c(t->ns), KP_S(KP_TRUST_SECRET));
	const struct kp_trust_wish w = wish_of(t);
	int64_t now_s = kp_wall_ns() / KP_NS_PER_S, due_s;
	struct kp_trust_state draft = { 0 };
	bool changed;
	int r = kp_trust_state_read(json_object_get(there, "data"), &draft, err);
	r = r ? r : kp_trust_state_step(&draft, &w, now_s, &changed, &due_s, err);
	*ret_data = NULL;
	if (r == 0 && changed) {
		r = kp_trust_state_write(&draft, now_s, ret_data, err);
		if (r == 0) {
			count_step(t, &draft);
		}
	} else if (r == 0) {
		kp_timer_start(t->loop, &t->due,
			kp_loop_now(t->loop) + (due_s - now_s) * KP_NS_PER_S, on_due);
	}
	kp_trust_state_fini(&draft);
	return r;
}

static bool has_state(const struct kp_trust *t)
{
	return t->state.cert && t->bundle.n;
}

/* A Secret that makes no sense: said in the log, and to whoever looks at it. */
static void say_unusable(struct kp_trust *t, const struct kp_err *err)
{
	const json_t *there = kp_kube_store_get(t->secret, kp_str_c(t->ns), KP_S(KP_TRUST_SECRET));
	const char *then =
		err->code == KP_UNIMPLEMENTED ? "a newer operator made it"
		: has_state(t)
			? "the last ones stay, and who leads writes them back"
			: "this operator is not ready until it is put right, or deleted: then a new authority is made";
	char note[KP_ERR_MSG + 200];
	snprintf(note, sizeof(note), "%s; %s", err->msg, then);
	const struct kp_kube_said said = { .kind = &kind_secret,
		.ns = kp_str_c(t->ns),
		.name = KP_S(KP_TRUST_SECRET),
		.uid = name_of(there, "uid"),
		.is_warning = true,
		.reason = err->code == KP_UNIMPLEMENTED ? "CertificatesNewer"
							: "CertificatesUnusable",
		.action = "Read",
		.note = kp_str_c(note) };
	kp_kube_say(t->recorder, &said);
	struct kp_err whole = *err;
	kp_err_wrap(&whole, "Secret `%s/" KP_TRUST_SECRET "`", t->ns);
	say_problem(t,
		has_state(t) ? "cannot use the certificates, the last ones stay"
			     : "cannot use the certificates",
		&whole);
}

/* What it said last is written back, so that operators that start find it. One of a newer version is for those who can read it. */
static bool put_back(struct kp_trust *t, kp_str key, const struct kp_err *why)
{
	struct kp_err err;
	json_t *data;
	if (why->code == KP_UNIMPLEMENTED || !has_state(t) ||
		kp_trust_state_write(&t->state, kp_wall_ns() / KP_NS_PER_S, &data, &err)) {
		return false;
	}
	kp_log(KP_LOG_WARN, "the Secret is put back to what it said last", kp_f_err(why));
	write_secret(t, key, data);
	return true;
}

static void work_secret(struct kp_trust *t, kp_str key)
{
	struct kp_err err;
	json_t *data;
	if (!t->is_leading || !t->is_secret_known) {
		kp_kube_queue_done(t->queue, key);
	} else if (step(t, &data, &err)) {
		if (!put_back(t, key, &err)) {
			say_unusable(t, &err);
			kp_kube_queue_failed(t->queue, key, 0);
		}
	} else if (data) {
		write_secret(t, key, data);
	} else {
		kp_kube_queue_done(t->queue, key);
	}
}

/* --- who is told --- */

static void work_map(struct kp_trust *t, kp_str key)
{
	kp_str ns = kp_str_skip(key, strlen(MAP_KEY));
	if (!t->is_leading || !t->bundle.n || !kp_map_get(&t->namespaces, ns) ||
		is_map_right(t, ns)) {
		kp_kube_queue_done(t->queue, key);
		return;
	}
	json_t *o = json_pack("{s:s,s:s,s:{s:s,s:{s:s}},s:{s:s%}}", "apiVersion", "v1", "kind",
		"ConfigMap", "metadata", "name", KP_TRUST_MAP, "labels",
		"app.kubernetes.io/managed-by", "kelpie-operator", "data", "ca.crt", t->bundle.p,
		t->bundle.n);
	KP_BUG_ON(!o);
	const struct kp_kube_write w =
		begin_write(t, key, "authorities told", &kind_map, ns, KP_S(KP_TRUST_MAP));
	began(&w, kp_kube_apply(t->opts.kube, &w, o, true));
	json_decref(o);
}

/* Each with a test, so that nothing is written into a webhook that is another one by now. */
static json_t *webhook_patch(const struct kp_trust *t, const json_t *webhooks)
{
	json_t *patch = json_array();
	for (size_t i = 0; i < json_array_size(webhooks); i++) {
		const json_t *webhook = json_array_get(webhooks, i);
		kp_str name = kp_doc_str(webhook, "name");
		char path[80];
		if (is_webhook_right(t, webhook)) {
			continue;
		}
		snprintf(path, sizeof(path), "/webhooks/%zu/name", i);
		json_array_append_new(patch, json_pack("{s:s,s:s,s:s%}", "op", "test", "path", path,
						     "value", name.n ? name.p : "", name.n));
		snprintf(path, sizeof(path), "/webhooks/%zu/clientConfig/caBundle", i);
		json_array_append_new(patch, json_pack("{s:s,s:s,s:s}", "op", "add", "path", path,
						     "value", t->bundle64));
	}
	return patch;
}

static void work_webhook(struct kp_trust *t, kp_str key)
{
	json_t *patch = t->is_leading && t->bundle.n ? webhook_patch(t, webhooks_of(t)) : NULL;
	if (json_array_size(patch) == 0) {
		kp_kube_queue_done(t->queue, key);
	} else {
		const struct kp_kube_write w = begin_write(t, key, "authorities told",
			&kind_webhook, KP_STR_NULL, KP_S(KP_TRUST_WEBHOOK));
		began(&w, kp_kube_json_patch(t->opts.kube, &w, patch));
	}
	json_decref(patch);
}

static void work(void *ctx, kp_str key)
{
	struct kp_trust *t = ctx;
	if (kp_str_eq(key, KP_S("secret"))) {
		work_secret(t, key);
	} else if (kp_str_eq(key, KP_S("webhook"))) {
		work_webhook(t, key);
	} else {
		work_map(t, key);
	}
	kp_gauge_set(t->behind, t->bundle.n ? (int64_t)count_behind(t) : 0);
}

/* --- what the Secret says --- */

static void publish(struct kp_trust *t)
{
	struct kp_pki_facts f;
	struct kp_err err;
	const struct kp_trust_keys keys = { kp_str_c(t->state.cert), kp_str_c(t->state.key),
		kp_buf_str(&t->bundle) };
	if (kp_pki_cert_facts(keys.cert, &f, &err) == 0) {
		kp_gauge_set(t->expiry, f.not_after_s);
	}
	kp_gauge_set(t->authorities, (int64_t)t->state.authorities.n);
	t->opts.changed(t->opts.ctx, &keys);
}

static int take_state(struct kp_trust *t, const json_t *secret, struct kp_err *err)
{
	const json_t *data = json_object_get(secret, "data");
	struct kp_trust_state s;
	struct kp_buf bundle;
	kp_buf_init(&bundle, KP_PKI_BUNDLE_MAX);
	if (kp_trust_state_read(data, &s, err)) {
		return -1;
	}
	if (kp_trust_state_bundle(&s, kp_wall_ns() / KP_NS_PER_S, &bundle, err)) {
		kp_trust_state_fini(&s);
		kp_buf_fini(&bundle);
		return -1;
	}
	kp_trust_state_fini(&t->state);
	kp_buf_fini(&t->bundle);
	kp_free(&t->bundle64);
	t->state = s;
	t->bundle = bundle;
	t->bundle64 = kp_str_z(kp_doc_str(data, "ca.crt"));
	return 0;
}

/* One that cannot be read changes nothing: the last good one stays in force. */
static void on_secret(void *ctx, const json_t *before, const json_t *now)
{
	struct kp_trust *t = ctx;
	struct kp_err err;
	(void)before;
	if (now && take_state(t, now, &err)) {
		say_unusable(t, &err);
		look(t, "secret");
		return;
	}
	if (now && t->state.cert && t->bundle.n) {
		publish(t);
	}
	look_at_all(t);
}

static void on_secret_synced(void *ctx)
{
	struct kp_trust *t = ctx;
	t->is_secret_known = true;
	look(t, "secret");
}

/* --- the other objects --- */

static void on_map(void *ctx, const json_t *before, const json_t *now)
{
	struct kp_trust *t = ctx;
	look_map(t, name_of(now ? now : before, "namespace"));
	look(t, "secret"); /* perhaps that was the last that had to know */
}

static void on_webhook(void *ctx, const json_t *before, const json_t *now)
{
	struct kp_trust *t = ctx;
	(void)before;
	(void)now;
	look(t, "webhook");
	look(t, "secret");
}

static void on_user(void *ctx, const json_t *before, const json_t *now)
{
	struct kp_trust *t = ctx;
	kp_str ns = name_of(now ? now : before, "namespace");
	uintptr_t n = (uintptr_t)kp_map_get(&t->namespaces, ns);
	n += !before && now ? 1 : before && !now ? (uintptr_t)-1 : 0;
	if (n == 0) {
		kp_map_del(&t->namespaces, ns);
	} else {
		kp_map_set(&t->namespaces, ns, (void *)n);
	}
	look_map(t, ns);
}

static void on_synced(void *ctx)
{
	(void)ctx;
}

static void trim(json_t *object)
{
	static const char *const parts[] = { "spec", "status" };
	for (size_t i = 0; i < KP_LEN(parts); i++) {
		json_object_del(object, parts[i]);
	}
}

static const struct kp_kube_store_ops secret_ops = { on_secret, on_secret_synced, NULL },
				      map_ops = { on_map, on_synced, NULL },
				      webhook_ops = { on_webhook, on_synced, NULL },
				      user_ops = { on_user, on_synced, NULL };

static struct kp_kube_store *watch(struct kp_trust *t, const struct kp_kube_kind *kind, kp_str ns,
	kp_str labels, kp_str fields, const struct kp_kube_store_ops *ops)
{
	const struct kp_kube_store_opts opts = { .kind = kind,
		.ns = ns,
		.labels = labels,
		.fields = fields,
		.trim = ops == &user_ops ? trim : NULL,
		.ops = ops,
		.ctx = t };
	return kp_kube_store_create(t->opts.kube, &opts);
}

static void start(struct kp_trust *t)
{
	const struct kp_strings *only = t->opts.namespaces;
	t->secret = watch(t, &kind_secret, kp_str_c(t->ns), KP_STR_NULL,
		KP_S("metadata.name=" KP_TRUST_SECRET), &secret_ops);
	t->webhook = watch(t, &kind_webhook, KP_STR_NULL, KP_STR_NULL,
		KP_S("metadata.name=" KP_TRUST_WEBHOOK), &webhook_ops);
	t->n_watched = KP_MAX(only->n, (size_t)1);
	t->watched = kp_xcalloc(t->n_watched, sizeof(*t->watched));
	for (size_t i = 0; i < t->n_watched; i++) {
		kp_str ns = kp_str_c(only->n ? only->p[i] : "");
		t->watched[i].maps = watch(t, &kind_map, ns, KP_STR_NULL,
			KP_S("metadata.name=" KP_TRUST_MAP), &map_ops);
		t->watched[i].engines =
			watch(t, &kp_kind_engine, ns, KP_STR_NULL, KP_STR_NULL, &user_ops);
		t->watched[i].pods =
			watch(t, &kp_kind_pod, ns, KP_S(KP_INJECT_LABEL), KP_STR_NULL, &user_ops);
	}
}

/* --- life --- */

int kp_trust_check_periods(const struct kp_trust_periods *p, struct kp_err *err)
{
	if (p->overlap_ns >= p->rotate_ns) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--ca-overlap` must be shorter than `--ca-rotate`");
	}
	/* Those that are believed still, the one that signs, the next one, and one to spare. */
	if (p->lifetime_ns / p->rotate_ns + 4 > KP_AUTHORITIES_MAX) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--certificate-lifetime` must be shorter than %d times `--ca-rotate`: so many authorities are believed at most",
			KP_AUTHORITIES_MAX - 3);
	}
	return 0;
}

static void set_names(struct kp_trust *t)
{
	static const char *const tails[OWN_NAMES] = { NULL, "", ".svc", ".svc.cluster.local" };
	for (size_t i = 0; i < OWN_NAMES; i++) {
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, 512);
		kp_buf_addz(&b, KP_TRUST_SERVICE);
		if (tails[i]) {
			kp_buf_printf(&b, ".%s%s", t->ns, tails[i]);
		}
		t->own_names[i] = kp_str_z(kp_buf_str(&b));
		t->names[t->n_names++] = kp_str_c(t->own_names[i]);
	}
	for (size_t i = 0; i < t->opts.names->n; i++) {
		t->names[t->n_names++] = kp_str_c(t->opts.names->p[i]);
	}
}

static void init_metrics(struct kp_trust *t)
{
	struct kp_metrics *m = t->opts.metrics;
	t->made = kp_metrics_counter(m, "kelpie_operator_authorities_made_total",
		"Authorities that this replica made to follow another one.", NULL, 0);
	t->signs = kp_metrics_counter(m, "kelpie_operator_authority_changes_total",
		"Times that this replica let another authority sign.", NULL, 0);
	t->issued = kp_metrics_counter(m, "kelpie_operator_certificates_issued_total",
		"Certificates signed for gateways.", NULL, 0);
	t->authorities = kp_metrics_gauge(
		m, "kelpie_operator_authorities", "Authorities that are believed.", NULL, 0);
	t->expiry = kp_metrics_gauge(m, "kelpie_operator_certificate_expiry_timestamp_seconds",
		"When the certificate of the operator's listeners is over.", NULL, 0);
	t->behind = kp_metrics_gauge(m, "kelpie_operator_authorities_untold",
		"Namespaces and webhooks that do not have the authorities that are believed.", NULL,
		0);
}

struct kp_trust *kp_trust_create(struct kp_loop *loop, const struct kp_trust_opts *opts)
{
	struct kp_trust *t = kp_new(struct kp_trust);
	t->loop = loop;
	t->opts = *opts;
	t->ns = kp_str_z(opts->ns);
	t->is_leading = !opts->is_standby;
	kp_list_init(&t->writes);
	kp_buf_init(&t->bundle, KP_PKI_BUNDLE_MAX);
	kp_map_init(&t->namespaces);
	set_names(t);
	init_metrics(t);
	const struct kp_kube_queue_opts queue = { .name = "trust",
		.workers = WORKERS,
		.first_ns = RETRY_FIRST_NS,
		.most_ns = RETRY_MOST_NS,
		.metrics = opts->metrics,
		.work = work,
		.ctx = t };
	t->queue = kp_kube_queue_create(loop, &queue);
	const struct kp_kube_recorder_opts recorder = { .controller = "kelpie.dev/operator",
		.instance = opts->id };
	t->recorder = kp_kube_recorder_create(opts->kube, &recorder);
	start(t);
	return t;
}

void kp_trust_destroy(struct kp_trust *t)
{
	if (!t) {
		return;
	}
	kp_list_each_safe (node, &t->writes) {
		struct write *w = KP_CONTAINER(node, struct write, link);
		kp_kube_cancel(w->call);
		free_write(w);
	}
	kp_timer_stop(t->loop, &t->due);
	kp_kube_store_destroy(t->secret);
	kp_kube_store_destroy(t->webhook);
	for (size_t i = 0; i < t->n_watched; i++) {
		kp_kube_store_destroy(t->watched[i].maps);
		kp_kube_store_destroy(t->watched[i].engines);
		kp_kube_store_destroy(t->watched[i].pods);
	}
	kp_mem_free(t->watched);
	kp_kube_queue_destroy(t->queue);
	kp_kube_recorder_destroy(t->recorder);
	kp_map_fini(&t->namespaces, NULL);
	kp_trust_state_fini(&t->state);
	kp_buf_fini(&t->bundle);
	for (size_t i = 0; i < OWN_NAMES; i++) {
		kp_mem_free(t->own_names[i]);
	}
	kp_mem_free(t->bundle64);
	kp_mem_free(t->said);
	kp_mem_free(t->ns);
	kp_mem_free(t);
}

void kp_trust_lead(struct kp_trust *t, bool is_leading)
{
	t->is_leading = is_leading;
	if (is_leading) {
		look_at_all(t);
	}
}

bool kp_trust_is_ready(const struct kp_trust *t)
{
	return t->state.cert && kp_trust_state_signer(&t->state);
}

int kp_trust_issue(struct kp_trust *t, const struct kp_pki_csr *csr, kp_str uid, kp_str ns,
	kp_str account, struct kp_trust_issued *ret, struct kp_err *err)
{
	const struct kp_authority *a = kp_trust_state_signer(&t->state);
	KP_AUTO(pki_key) struct kp_pki_key *key = NULL;
	KP_AUTO(buf) struct kp_buf uri, name;
	int64_t now_s = kp_wall_ns() / KP_NS_PER_S;
	kp_buf_init(&uri, 1024);
	kp_buf_init(&name, 256);
	if (!a) {
		return kp_err_set(err, KP_UNAVAILABLE, "the operator has no authority yet");
	}
	kp_buf_printf(&uri, "spiffe://kelpie.dev/ns/%" KP_FMT "/sa/%" KP_FMT, KP_ARG(ns),
		KP_ARG(account));
	kp_buf_add(&name, uid);
	const struct kp_pki_leaf leaf = { .name = kp_buf_cstr(&name),
		.uri = kp_buf_cstr(&uri),
		.names = &uid,
		.n_names = 1,
		.not_after_s = now_s + t->opts.periods.lifetime_ns / KP_NS_PER_S };
	if (!leaf.name || !leaf.uri) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "sign a certificate: names too long");
	}
	struct kp_trust_issued i = { 0 };
	kp_buf_init(&i.cert, KP_PKI_REQUEST_MAX);
	kp_buf_init(&i.bundle, KP_PKI_BUNDLE_MAX);
	kp_buf_add(&i.bundle, kp_buf_str(&t->bundle));
	if (kp_pki_key_read(kp_str_c(a->key), &key, err) ||
		kp_pki_sign(kp_str_c(a->cert), key, &leaf, csr, NULL, now_s, &i.cert, err) ||
		kp_pki_cert_facts(kp_buf_str(&i.cert), &i.facts, err) ||
		kp_buf_finish(&i.bundle, "authorities", err)) {
		kp_trust_issued_fini(&i);
		return -1;
	}
	kp_counter_add(t->issued, 1);
	*ret = i;
	return 0;
}

void kp_trust_issued_fini(struct kp_trust_issued *i)
{
	kp_buf_fini(&i->cert);
	kp_buf_fini(&i->bundle);
}
