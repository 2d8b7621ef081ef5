/* kube_probe [--pod DIR HOST PORT | KUBECONFIG] [PROBE_AFTER_MS PROBE_TIMEOUT_MS CONNECT_MS]: lib/kube as a program, for
   tests/integ/kube and by hand. Commands are JSON objects, one a line, on standard input; what happens comes out the
   same way. At the end of its input everything is taken down, so that a leak shows under ASan. Commands (`op`), with the
   members each reads, are the functions below; `id` names what they make and comes back in the events. */
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "kube/event.h"
#include "kube/lease.h"
#include "kube/recorder.h"
#include "kube/store.h"
#include "kube/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <uv.h>

struct thing {
	struct kp_list link;
	char *id;
	struct kp_kube_kind *kind;
	struct kp_kube_store *store;
	struct kp_kube_lease *lease;
	struct kp_kube_recorder *recorder;
	struct kp_kube_call *call;
	bool is_quiet, drop_at_change;
	size_t n_changes;
};

static struct kp_loop *loop;
static struct kp_kube *kube;
static struct kp_metrics *metrics;
static struct kp_arena *arena;
static struct kp_list things;
static uv_pipe_t input;
static struct kp_buf line;

static void say(json_t *v)
{
	char *z = json_dumps(v, JSON_COMPACT);
	puts(z);
	fflush(stdout);
	free(z);
	json_decref(v);
}

static json_t *event(const struct thing *t, const char *what)
{
	return json_pack("{s:s,s:s}", "event", what, "id", t->id);
}

static void set_str(json_t *v, const char *key, kp_str s)
{
	json_object_set_new(v, key, json_stringn(s.n ? s.p : "", s.n));
}

static void set_err(json_t *v, const struct kp_err *err)
{
	json_object_set_new(v, "code", json_string(err->code ? kp_code_name(err->code) : ""));
	json_object_set_new(v, "message", json_string(err->code ? err->msg : ""));
}

/* --- stores --- */

static void on_changed(void *ctx, const json_t *before, const json_t *now)
{
	struct thing *t = ctx;
	struct kp_kube_meta m = kp_kube_meta_of(now ? now : before);
	t->n_changes++;
	if (!t->is_quiet) {
		json_t *v = event(t, "changed");
		const char *what = !before ? "added" : now ? "updated" : "deleted";
		json_object_set_new(v, "what", json_string(what));
		set_str(v, "name", m.name);
		set_str(v, "ns", m.ns);
		set_str(v, "uid", m.uid);
		set_str(v, "version", m.version);
		say(v);
	}
	if (t->drop_at_change) {
		kp_kube_store_destroy(t->store);
		t->store = NULL;
	}
}

static void on_synced(void *ctx)
{
	struct thing *t = ctx;
	json_t *v = event(t, "synced");
	json_object_set_new(v, "count", json_integer((json_int_t)t->n_changes));
	say(v);
}

static void on_state(void *ctx)
{
	struct thing *t = ctx;
	if (t->store) {
		const struct kp_kube_store_state *st = kp_kube_store_state(t->store);
		json_t *v = event(t, "state");
		json_object_set_new(v, "connected", json_boolean(st->is_connected));
		set_err(v, &st->err);
		say(v);
	}
}
static const struct kp_kube_store_ops store_ops = { on_changed, on_synced, on_state };

static int64_t ms(const json_t *c, const char *key)
{
	return json_integer_value(json_object_get(c, key)) * KP_NS_PER_MS;
}

static const char *text(const json_t *c, const char *key)
{
	kp_str s = kp_doc_str(c, key);
	return s.n ? kp_arena_strz(arena, s) : "";
}

static void do_store(struct thing *t, const json_t *c)
{
	const struct kp_kube_store_opts opts = { .kind = t->kind,
		.ns = kp_doc_str(c, "ns"),
		.labels = kp_doc_str(c, "labels"),
		.fields = kp_doc_str(c, "fields"),
		.page = (uint32_t)json_integer_value(json_object_get(c, "page")),
		.is_paged = json_is_true(json_object_get(c, "paged")),
		.max_objects = (size_t)json_integer_value(json_object_get(c, "max_objects")),
		.watch_s = (uint32_t)json_integer_value(json_object_get(c, "watch_s")),
		.idle_ns = ms(c, "idle_ms"),
		.ops = &store_ops,
		.ctx = t };
	t->is_quiet = json_is_true(json_object_get(c, "quiet"));
	t->drop_at_change = json_is_true(json_object_get(c, "drop_at_change"));
	t->store = kp_kube_store_create(kube, &opts);
}

static void do_keys(struct thing *t, const json_t *c)
{
	(void)c;
	const struct kp_kube_store_state *st = kp_kube_store_state(t->store);
	json_t *v = event(t, "keys"), *keys = json_array();
	const json_t *o;
	for (size_t i = 0; (o = kp_kube_store_next(t->store, &i));) {
		json_array_append_new(
			keys, json_stringn(kp_kube_meta_of(o).name.p, kp_kube_meta_of(o).name.n));
	}
	json_object_set_new(v, "keys", keys);
	json_object_set_new(v, "lists", json_integer((json_int_t)st->lists));
	json_object_set_new(v, "watches", json_integer((json_int_t)st->watches));
	json_object_set_new(v, "connected", json_boolean(st->is_connected));
	say(v);
}

static void free_thing(struct thing *t)
{
	if (t->call) {
		kp_kube_cancel(t->call);
	}
	kp_kube_store_destroy(t->store);
	kp_kube_lease_destroy(t->lease);
	kp_kube_recorder_destroy(t->recorder);
	kp_list_del(&t->link);
	kp_mem_free(t->id);
	kp_mem_free(t);
}

static void do_drop(struct thing *t, const json_t *c)
{
	(void)c;
	free_thing(t);
}

/* --- requests --- */

static void on_answer(void *ctx, const struct kp_kube_answer *a)
{
	struct thing *t = ctx;
	struct kp_err err = KP_ERR_INIT;
	json_t *v = event(t, "answer"), *body = a->failure ? NULL : kp_kube_answer_json(a, &err);
	t->call = NULL;
	json_object_set_new(v, "http", json_integer(a->http));
	set_err(v, a->failure ? &a->failure->err : &err);
	if (a->failure) {
		json_object_set_new(v, "reason", json_string(a->failure->reason));
		json_object_set_new(v, "retry_after_ms",
			json_integer(a->failure->retry_after_ns / KP_NS_PER_MS));
		json_object_set(v, "details", a->failure->details);
	}
	if (body && kp_str_eq(kp_doc_str(body, "kind"), KP_S("TokenReview"))) {
		set_str(v, "user", kp_kube_token_user(body, &err));
		set_err(v, &err);
	}
	if (body) {
		json_object_set_new(v, "body", body);
	}
	say(v);
	free_thing(t);
}

static void do_write(struct thing *t, const json_t *c)
{
	kp_str op = kp_doc_str(c, "op");
	const json_t *body = json_object_get(c, "body");
	const char *sub = text(c, "subresource");
	const struct kp_kube_write w = { .ref = { .kind = t->kind,
						 .ns = kp_doc_str(c, "ns"),
						 .name = kp_doc_str(c, "name"),
						 .subresource = sub[0] ? sub : NULL },
		.timeout_ns = ms(c, "timeout_ms"),
		.once = json_is_true(json_object_get(c, "once")),
		.is_dry_run = json_is_true(json_object_get(c, "dry_run")),
		.done = on_answer,
		.ctx = t };
	const char *propagation = text(c, "propagation");
	const struct kp_kube_delete how = { .uid = kp_doc_str(c, "uid"),
		.version = kp_doc_str(c, "if_version"),
		.propagation = propagation[0] ? propagation : NULL,
		.grace_s = -1 };
	if (kp_str_eq(op, KP_S("get"))) {
		t->call = kp_kube_get(kube, &w);
	} else if (kp_str_eq(op, KP_S("apply"))) {
		t->call = kp_kube_apply(kube, &w, body, json_is_true(json_object_get(c, "force")));
	} else if (kp_str_eq(op, KP_S("create"))) {
		t->call = kp_kube_create_object(kube, &w, body);
	} else if (kp_str_eq(op, KP_S("replace"))) {
		t->call = kp_kube_replace(kube, &w, body);
	} else if (kp_str_eq(op, KP_S("json_patch"))) {
		t->call = kp_kube_json_patch(kube, &w, body);
	} else if (kp_str_eq(op, KP_S("merge_patch"))) {
		t->call = kp_kube_merge_patch(kube, &w, body);
	} else if (kp_str_eq(op, KP_S("scale"))) {
		t->call = kp_kube_scale(
			kube, &w, (uint32_t)json_integer_value(json_object_get(c, "replicas")));
	} else if (kp_str_eq(op, KP_S("delete"))) {
		t->call = kp_kube_delete(kube, &w, &how);
	} else {
		fprintf(stderr, "kube_probe: op %" KP_FMT "\n", KP_ARG(op));
		exit(2);
	}
}

static void do_review(struct thing *t, const json_t *c)
{
	const char *audience = text(c, "audience");
	t->call = kp_kube_review_token(
		kube, kp_doc_str(c, "token"), &audience, audience[0] ? 1 : 0, on_answer, t);
}

/* --- leases --- */

static void on_acquired(void *ctx, uint64_t term)
{
	json_t *v = event(ctx, "acquired");
	json_object_set_new(v, "term", json_integer((json_int_t)term));
	json_object_set_new(
		v, "held", json_boolean(kp_kube_lease_is_held(((struct thing *)ctx)->lease)));
	say(v);
}

static void on_lost(void *ctx, const struct kp_err *why)
{
	json_t *v = event(ctx, "lost");
	set_err(v, why);
	say(v);
}

static void on_seen(void *ctx, kp_str holder)
{
	json_t *v = event(ctx, "seen");
	set_str(v, "holder", holder);
	say(v);
}

static void do_lease(struct thing *t, const json_t *c)
{
	const struct kp_kube_lease_opts opts = { .ns = kp_doc_str(c, "ns"),
		.name = kp_doc_str(c, "name"),
		.identity = text(c, "identity"),
		.duration_ns = ms(c, "duration_ms"),
		.renew_ns = ms(c, "renew_ms"),
		.retry_ns = ms(c, "retry_ms"),
		.acquired = on_acquired,
		.lost = on_lost,
		.seen = on_seen,
		.ctx = t };
	t->lease = kp_kube_lease_create(kube, &opts);
}

static void on_released(void *ctx)
{
	say(event(ctx, "released"));
}

static void do_release(struct thing *t, const json_t *c)
{
	(void)c;
	kp_kube_lease_release(t->lease, on_released, t);
}

static void do_is_held(struct thing *t, const json_t *c)
{
	json_t *v = event(t, "is_held");
	(void)c;
	json_object_set_new(v, "held", json_boolean(kp_kube_lease_is_held(t->lease)));
	say(v);
}

/* --- events, metrics --- */

static void do_recorder(struct thing *t, const json_t *c)
{
	const struct kp_kube_recorder_opts opts = { .controller = "kelpie.dev/probe",
		.instance = "probe-1",
		.series_ns = ms(c, "series_ms"),
		.forget_ns = ms(c, "forget_ms") };
	t->recorder = kp_kube_recorder_create(kube, &opts);
}

static void do_say(struct thing *t, const json_t *c)
{
	const struct kp_kube_said s = { .kind = t->kind,
		.ns = kp_doc_str(c, "ns"),
		.name = kp_doc_str(c, "name"),
		.uid = kp_doc_str(c, "uid"),
		.is_warning = json_is_true(json_object_get(c, "warning")),
		.reason = text(c, "reason"),
		.action = "Test",
		.note = kp_doc_str(c, "note") };
	json_int_t n = json_integer_value(json_object_get(c, "times"));
	for (json_int_t i = 0; i < KP_MAX(n, 1); i++) {
		kp_kube_say(t->recorder, &s);
	}
}

/* Of this program alone; getrusage counts what ran before exec, too. */
static json_int_t most_memory_kib(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char z[256];
	long long kib = 0;
	while (f && fgets(z, sizeof(z), f)) {
		(void)!sscanf(z, "VmHWM: %lld", &kib);
	}
	if (f) {
		fclose(f);
	}
	return kib;
}

static void do_metrics(struct thing *t, const json_t *c)
{
	KP_AUTO(buf) struct kp_buf b;
	struct rusage u;
	json_t *v = event(t, "metrics");
	(void)c;
	kp_buf_init(&b, 1 << 20);
	kp_metrics_render(metrics, &b);
	getrusage(RUSAGE_SELF, &u);
	set_str(v, "text", kp_buf_str(&b));
	json_object_set_new(v, "max_rss_kib", json_integer(most_memory_kib()));
	json_object_set_new(
		v, "user_ms", json_integer(u.ru_utime.tv_sec * 1000 + u.ru_utime.tv_usec / 1000));
	say(v);
	free_thing(t);
}

/* --- commands --- */

static const struct {
	const char *op;
	void (*run)(struct thing *t, const json_t *c);
	bool is_old; /* the id names a thing that is there */
} ops[] = {
	{ "store", do_store, false },
	{ "keys", do_keys, true },
	{ "drop", do_drop, true },
	{ "review", do_review, false },
	{ "lease", do_lease, false },
	{ "release", do_release, true },
	{ "is_held", do_is_held, true },
	{ "recorder", do_recorder, false },
	{ "say", do_say, true },
	{ "metrics", do_metrics, false },
};

static struct thing *find(const char *id)
{
	kp_list_each (node, &things) {
		struct thing *t = KP_CONTAINER(node, struct thing, link);
		if (kp_str_eq(kp_str_c(t->id), kp_str_c(id))) {
			return t;
		}
	}
	fprintf(stderr, "kube_probe: there is no %s\n", id);
	exit(2);
}

static struct thing *make(const char *id)
{
	struct thing *t = kp_new(struct thing);
	t->id = kp_xstrdup(id);
	kp_list_push(&things, &t->link);
	return t;
}

static void set_kind(struct thing *t, const json_t *c)
{
	if (json_object_get(c, "plural")) {
		t->kind = kp_arena_new(arena, struct kp_kube_kind);
		*t->kind = (struct kp_kube_kind){ text(c, "group"), text(c, "version"),
			text(c, "plural"), text(c, "kind"),
			json_is_true(json_object_get(c, "cluster")) };
	}
}

static void command(kp_str z)
{
	json_t *c;
	struct kp_err err;
	if (kp_doc_json(z, "command", &kp_kube_limits, &c, &err)) {
		fprintf(stderr, "kube_probe: %s\n", err.msg);
		exit(2);
	}
	const char *id = text(c, "id");
	size_t i = 0;
	while (i < KP_LEN(ops) && !kp_str_eq(kp_doc_str(c, "op"), kp_str_c(ops[i].op))) {
		i++;
	}
	struct thing *t = i < KP_LEN(ops) && ops[i].is_old ? find(id) : make(id);
	set_kind(t, c);
	if (i < KP_LEN(ops)) {
		ops[i].run(t, c);
	} else {
		do_write(t, c);
	}
	json_decref(c);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	(void)s;
	kp_loop_now(loop);
	if (n < 0) {
		kp_list_each_safe (node, &things) {
			free_thing(KP_CONTAINER(node, struct thing, link));
		}
		kp_kube_destroy(kube);
		uv_close((uv_handle_t *)&input, NULL);
		kp_loop_stop(loop);
	} else {
		kp_buf_add(&line, kp_str_n(buf->base, (size_t)n));
		kp_str rest = kp_buf_str(&line);
		ptrdiff_t end;
		while ((end = kp_str_find_char(rest, '\n')) >= 0) {
			command(kp_str_sub(rest, 0, (size_t)end));
			rest = kp_str_skip(rest, (size_t)end + 1);
		}
		kp_buf_consume(&line, line.n - rest.n);
	}
	kp_mem_free(buf->base);
}

static void on_alloc(uv_handle_t *h, size_t n, uv_buf_t *buf)
{
	(void)h;
	*buf = uv_buf_init(kp_xmalloc(n), (unsigned)n);
}

static int64_t option(int argc, char **argv, int i)
{
	uint64_t v = 0;
	return i < argc && kp_str_u64(kp_str_c(argv[i]), 1 << 30, &v) ? (int64_t)v * KP_NS_PER_MS
								      : 0;
}

int main(int argc, char **argv)
{
	struct kp_kube_config *config = NULL;
	struct kp_err err = KP_ERR_INIT;
	int at = argc > 4 && kp_str_eq(kp_str_c(argv[1]), KP_S("--pod")) ? 5 : 2;
	if (argc < at || (at == 5 ? kp_kube_config_in_pod(argv[2], argv[3], argv[4], &config, &err)
				  : kp_kube_config_load(argv[1], NULL, &config, &err))) {
		fprintf(stderr, "kube_probe: %s\n", err.msg);
		return 1;
	}
	kp_list_init(&things);
	kp_buf_init(&line, 32 << 20);
	arena = kp_arena_create(64 << 20);
	loop = kp_loop_create("probe");
	metrics = kp_metrics_create();
	const struct kp_kube_opts opts = { .config = config,
		.user_agent = "kube_probe",
		.metrics = metrics,
		.probe_after_ns = option(argc, argv, at),
		.probe_timeout_ns = option(argc, argv, at + 1),
		.connect_ns = option(argc, argv, at + 2) };
	if (kp_kube_create(loop, &opts, &kube, &err)) {
		fprintf(stderr, "kube_probe: %s\n", err.msg);
		return 1;
	}
	uv_pipe_init(kp_loop_uv(loop), &input, 0);
	uv_pipe_open(&input, 0);
	uv_read_start((uv_stream_t *)&input, on_alloc, on_read);
	puts("{\"event\":\"ready\"}");
	fflush(stdout);
	kp_loop_run(loop);
	kp_loop_destroy(loop);
	kp_metrics_destroy(metrics);
	kp_kube_config_destroy(config);
	kp_buf_fini(&line);
	kp_arena_destroy(arena);
	return 0;
}
