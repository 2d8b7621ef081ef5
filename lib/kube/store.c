/* DESIGN: one call at a time is under way, a page or a watch, or a timer runs until the next. Each listing is a
   round; whatever a list or a WatchList's beginning names is marked with the round's number, and at its end what
   has an older mark is gone. An object of the same name with another uid is the old one's end and a new one.

   What a failure does: a version that is too old, or an answer that makes no sense, lists anew; a kind that is not
   there lists anew too, later; everything else asks for the same again, after a growing pause. */
#include "kube/store.h"

#include "base/clock.h"
#include "base/map.h"
#include "kube/backoff.h"
#include "kube/event.h"
#include "obs/log.h"

#include <stdio.h>

#define PAGE_TIMEOUT_NS (60 * KP_NS_PER_S)
#define IDLE_NS         (150 * KP_NS_PER_S)
#define SHORT_WATCH_NS  KP_NS_PER_S
enum { PAGE = 500, OBJECTS_MAX = 200000, WATCH_S = 300, EXPIRED_MAX = 3, KEY_MAX = 512 };

struct entry {
	json_t *object;
	uint64_t round;
};

struct kp_kube_store {
	struct kp_kube *k;
	struct kp_kube_store_opts opts;
	char *ns, *labels, *fields;
	struct kp_map objects; /* "ns/name" -> struct entry */
	struct kp_kube_store_state state;
	struct kp_kube_call *call;
	struct kp_kube_lines lines;
	struct kp_timer again;
	struct kp_kube_backoff backoff;
	uint64_t round;
	kp_str version;   /* to watch from; "": list. Ours */
	kp_str continue_; /* the next page; ours */
	uint32_t page;
	unsigned n_expired; /* listings in a row that were too old before their last page */
	unsigned n_busy;    /* calls of ours that may call out */
	bool is_initial;    /* a WatchList's beginning */
	bool is_paged;
	bool is_dead;
	int64_t opened_ns;
	uint64_t n_events; /* of this watch */
	struct kp_counter *lists, *watches, *events;
	struct kp_gauge *connected, *count;
};

static void list(struct kp_kube_store *s);
static void watch(struct kp_kube_store *s);

static void keep(kp_str *at, kp_str s)
{
	char *copy = s.n ? kp_str_z(s) : NULL;
	kp_mem_free(kp_unconst(at->p));
	*at = (kp_str){ copy, s.n };
}

/* --- callbacks, in which the store may be destroyed --- */

static void enter(struct kp_kube_store *s)
{
	s->n_busy++;
}

static void leave(struct kp_kube_store *s)
{
	if (--s->n_busy == 0 && s->is_dead) {
		kp_kube_store_destroy(s);
	}
}

static void set_state(struct kp_kube_store *s, bool is_connected, const struct kp_err *err)
{
	struct kp_kube_store_state *st = &s->state;
	if (s->is_dead) {
		return;
	}
	if (st->is_connected != is_connected) {
		st->is_connected = is_connected;
		st->since_ns = kp_loop_now(kp_kube_loop(s->k));
		kp_gauge_add(s->connected, is_connected ? 1 : -1);
	}
	st->err = err ? *err : KP_ERR_INIT;
	if (s->opts.ops->state) {
		s->opts.ops->state(s->opts.ctx);
	}
}

static void told(struct kp_kube_store *s, const json_t *before, const json_t *now)
{
	if (!s->is_dead) {
		s->opts.ops->changed(s->opts.ctx, before, now);
	}
}

/* --- objects --- */

static kp_str key_of(const struct kp_kube_meta *m, char buf[KEY_MAX])
{
	int n = snprintf(buf, KEY_MAX, "%" KP_FMT "/%" KP_FMT, KP_ARG(m->ns), KP_ARG(m->name));
	return kp_str_n(buf, KP_MIN((size_t)n, (size_t)KEY_MAX - 1));
}

static void free_entry(void *value)
{
	struct entry *e = value;
	json_decref(e->object);
	kp_mem_free(e);
}

/* Members of a list have no type of their own. */
static void complete(struct kp_kube_store *s, json_t *object)
{
	const struct kp_kube_kind *k = s->opts.kind;
	json_object_del(json_object_get(object, "metadata"), "managedFields");
	if (!json_object_get(object, "kind")) {
		char version[256];
		snprintf(version, sizeof(version), "%s%s%s", k->group, k->group[0] ? "/" : "",
			k->version);
		json_object_set_new(object, "apiVersion", json_string(version));
		json_object_set_new(object, "kind", json_string(k->kind));
	}
	if (s->opts.trim) {
		s->opts.trim(object);
	}
}

static int add_entry(struct kp_kube_store *s, kp_str key, json_t *object, struct kp_err *err)
{
	if (s->objects.n >= s->opts.max_objects) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "watch `%s`: more than %zu objects",
			s->opts.kind->plural, s->opts.max_objects);
	}
	struct entry *e = kp_new(struct entry);
	*e = (struct entry){ .object = json_incref(object), .round = s->round };
	complete(s, object);
	kp_map_set(&s->objects, key, e);
	kp_gauge_add(s->count, 1);
	told(s, NULL, object);
	return 0;
}

static int upsert(struct kp_kube_store *s, json_t *object, struct kp_err *err)
{
	char buf[KEY_MAX];
	struct kp_kube_meta m = kp_kube_meta_of(object), old;
	kp_str key = key_of(&m, buf);
	struct entry *e = kp_map_get(&s->objects, key);
	if (!m.name.n || !m.version.n) {
		return kp_err_set(err, KP_DATA_LOSS, "watch `%s`: an object without a name",
			s->opts.kind->plural);
	}
	if (!e) {
		return add_entry(s, key, object, err);
	}
	e->round = s->round;
	old = kp_kube_meta_of(e->object);
	bool is_same = kp_str_eq(old.uid, m.uid);
	if (is_same && kp_str_eq(old.version, m.version)) {
		return 0;
	}
	complete(s, object);
	json_t *before = e->object;
	e->object = json_incref(object);
	if (is_same) {
		told(s, before, object);
	} else {
		told(s, before, NULL);
		told(s, NULL, object);
	}
	json_decref(before);
	return 0;
}

static void drop(struct kp_kube_store *s, kp_str key)
{
	struct entry *e = kp_map_del(&s->objects, key);
	if (e) {
		kp_gauge_add(s->count, -1);
		told(s, e->object, NULL);
		free_entry(e);
	}
}

/* A listing is complete: what it did not name is gone. */
static void complete_round(struct kp_kube_store *s)
{
	struct kp_map_entry *at;
	for (size_t i = 0; !s->is_dead && (at = kp_map_next(&s->objects, &i));) {
		if (((const struct entry *)at->value)->round != s->round) {
			drop(s, at->key);
		}
	}
	s->n_expired = 0;
	if (!s->state.is_synced && !s->is_dead) {
		s->state.is_synced = true;
		s->opts.ops->synced(s->opts.ctx);
	}
}

/* --- what comes next --- */

static void go_on(struct kp_kube_store *s)
{
	if (s->is_dead) {
		return;
	}
	if (s->version.n) {
		watch(s);
	} else {
		list(s);
	}
}

static void on_again(struct kp_timer *t)
{
	go_on(KP_CONTAINER(t, struct kp_kube_store, again));
}

static void go_on_later(struct kp_kube_store *s, int64_t at_least_ns)
{
	int64_t wait = kp_kube_backoff_next(&s->backoff, kp_kube_rng(s->k));
	struct kp_loop *loop = kp_kube_loop(s->k);
	if (!s->is_dead) {
		kp_timer_start(
			loop, &s->again, kp_loop_now(loop) + KP_MAX(wait, at_least_ns), on_again);
	}
}

static void list_anew(struct kp_kube_store *s)
{
	keep(&s->version, KP_STR_NULL);
	keep(&s->continue_, KP_STR_NULL);
}

static void failed(struct kp_kube_store *s, const struct kp_err *err, int64_t at_least_ns)
{
	if (err->code == KP_NOT_FOUND || err->code == KP_DATA_LOSS ||
		err->code == KP_RESOURCE_EXHAUSTED) {
		list_anew(s);
	}
	set_state(s, false, err);
	go_on_later(s, at_least_ns);
}

static void hang_up(struct kp_kube_store *s)
{
	if (s->call) {
		kp_kube_cancel(s->call);
		s->call = NULL;
	}
}

static void add_selection(const struct kp_kube_store *s, struct kp_buf *b)
{
	const struct kp_kube_ref ref = { .kind = s->opts.kind, .ns = s->opts.ns };
	kp_kube_path(b, &ref);
	if (s->opts.labels.n) {
		kp_kube_query(b, "labelSelector", s->opts.labels);
	}
	if (s->opts.fields.n) {
		kp_kube_query(b, "fieldSelector", s->opts.fields);
	}
}

static void send(struct kp_kube_store *s, struct kp_buf *path, struct kp_kube_request *r)
{
	r->method = "GET";
	r->path = kp_buf_cstr(path);
	r->ctx = s;
	KP_BUG_ON(!r->path);
	s->call = kp_kube_send(s->k, r);
}

/* --- pages --- */

static int take_page(struct kp_kube_store *s, const struct kp_kube_answer *a, struct kp_err *err)
{
	json_t *v = kp_kube_answer_json(a, err);
	const json_t *items = json_object_get(v, "items");
	int r = v ? 0 : -1;
	if (r == 0 && items && !json_is_null(items) && !json_is_array(items)) {
		r = kp_err_set(
			err, KP_DATA_LOSS, "list `%s`: `items` is no list", s->opts.kind->plural);
	}
	for (size_t i = 0; r == 0 && !s->is_dead && i < json_array_size(items); i++) {
		r = upsert(s, json_array_get(items, i), err);
	}
	struct kp_kube_meta m = kp_kube_meta_of(v);
	keep(&s->continue_, r == 0 ? m.continue_ : KP_STR_NULL);
	keep(&s->version, r == 0 && !m.continue_.n ? m.version : KP_STR_NULL);
	json_decref(v);
	return r;
}

static void page_failed(struct kp_kube_store *s, const struct kp_kube_failure *f)
{
	if (f->err.code == KP_TOO_LARGE && s->page > 1) {
		s->page /= 2;
		go_on(s);
	} else if (kp_kube_failure_is_expired(f) && s->continue_.n) {
		s->n_expired++;
		list_anew(s);
		go_on(s);
	} else {
		failed(s, &f->err, f->retry_after_ns);
	}
}

static void on_page(void *ctx, const struct kp_kube_answer *a)
{
	struct kp_kube_store *s = ctx;
	struct kp_err err;
	s->call = NULL;
	enter(s);
	if (a->failure) {
		page_failed(s, a->failure);
	} else if (take_page(s, a, &err)) {
		failed(s, &err, 0);
	} else {
		if (!s->continue_.n) {
			complete_round(s);
		}
		go_on(s);
	}
	leave(s);
}

static void ask_page(struct kp_kube_store *s)
{
	struct kp_kube_request r = { .timeout_ns = PAGE_TIMEOUT_NS, .done = on_page };
	KP_AUTO(buf) struct kp_buf path;
	kp_buf_init(&path, 64 << 10);
	add_selection(s, &path);
	/* A listing that is always too old before it ends is asked for in one. */
	if (s->n_expired < EXPIRED_MAX) {
		char n[16];
		snprintf(n, sizeof(n), "%u", s->page);
		kp_kube_query(&path, "limit", kp_str_c(n));
	}
	if (s->continue_.n) {
		kp_kube_query(&path, "continue", s->continue_);
	}
	send(s, &path, &r);
}

static void list(struct kp_kube_store *s)
{
	if (!s->continue_.n) {
		s->round++;
		s->state.lists++;
		kp_counter_add(s->lists, 1);
	}
	s->is_initial = !s->is_paged;
	if (s->is_paged) {
		ask_page(s);
	} else {
		watch(s);
	}
}

/* --- the watch --- */

static void on_initial_end(struct kp_kube_store *s)
{
	s->is_initial = false;
	complete_round(s);
	set_state(s, true, NULL);
}

static int take_error(struct kp_kube_store *s, const json_t *status, struct kp_err *err)
{
	struct kp_kube_failure f;
	kp_kube_failure_from_status(&f, 500, status, "watch");
	if (kp_kube_failure_is_expired(&f)) {
		list_anew(s);
	}
	*err = f.err;
	kp_kube_failure_fini(&f);
	return -1;
}

static int take_event(struct kp_kube_store *s, struct kp_kube_event_line *e, struct kp_err *err)
{
	struct kp_kube_meta m = kp_kube_meta_of(e->object);
	char buf[KEY_MAX];
	int r = 0;
	if (e->type == KP_KUBE_EVENT_ERROR) {
		return take_error(s, e->object, err);
	}
	s->n_events++;
	kp_counter_add(s->events, 1);
	if (!s->is_initial) { /* or a list that always fails would be asked for all the time */
		kp_kube_backoff_reset(&s->backoff);
	}
	if (e->type == KP_KUBE_EVENT_DELETED) {
		drop(s, key_of(&m, buf));
	} else if (e->type != KP_KUBE_EVENT_BOOKMARK) {
		r = upsert(s, e->object, err);
	}
	if (s->is_dead || r) {
		return r;
	}
	bool is_end =
		e->type == KP_KUBE_EVENT_BOOKMARK && s->is_initial &&
		kp_str_eq(kp_kube_annotation(e->object, "k8s.io/initial-events-end"), KP_S("true"));
	/* In a WatchList's beginning the objects come in no order of versions. */
	if (!s->is_initial || is_end) {
		keep(&s->version, m.version);
	}
	if (is_end) {
		on_initial_end(s);
	}
	return 0;
}

static int on_line(void *ctx, kp_str line, struct kp_err *err)
{
	struct kp_kube_store *s = ctx;
	struct kp_kube_event_line e;
	if (kp_kube_event_parse(line, &e, err)) {
		return -1;
	}
	int r = take_event(s, &e, err);
	kp_kube_event_line_fini(&e);
	return s->is_dead ? 1 : r;
}

static void on_data(void *ctx, kp_str bytes)
{
	struct kp_kube_store *s = ctx;
	struct kp_err err;
	enter(s);
	if (kp_kube_lines_feed(&s->lines, bytes, on_line, s, &err) < 0) {
		hang_up(s);
		failed(s, &err, 0);
	}
	leave(s);
}

static void on_opened(void *ctx)
{
	struct kp_kube_store *s = ctx;
	enter(s);
	s->opened_ns = kp_loop_now(kp_kube_loop(s->k));
	if (!s->is_initial) {
		set_state(s, true, NULL);
	}
	leave(s);
}

/* The server knows no WatchList: it says so, or sends what an old one makes of the question. */
static bool has_no_watch_list(const struct kp_kube_store *s, const struct kp_kube_failure *f)
{
	return s->is_initial && (!f || f->http == 400 || f->http == 422 ||
					(s->opened_ns && f->err.code == KP_DEADLINE_EXCEEDED));
}

static void on_watch_end(void *ctx, const struct kp_kube_answer *a)
{
	struct kp_kube_store *s = ctx;
	struct kp_kube_failure *f = a->failure;
	int64_t now = kp_loop_now(kp_kube_loop(s->k));
	s->call = NULL;
	enter(s);
	if (has_no_watch_list(s, f)) {
		s->is_paged = true;
		go_on(s);
	} else if (f && kp_kube_failure_is_expired(f)) {
		list_anew(s);
		failed(s, &f->err, f->retry_after_ns);
	} else if (f) {
		failed(s, &f->err, f->retry_after_ns);
	} else if (now - s->opened_ns < SHORT_WATCH_NS && !s->n_events) {
		go_on_later(s, 0);
	} else {
		go_on(s);
	}
	leave(s);
}

static uint32_t watch_seconds(struct kp_kube_store *s)
{
	return s->opts.watch_s ? s->opts.watch_s
			       : WATCH_S + (uint32_t)kp_rng_below(kp_kube_rng(s->k), WATCH_S + 1);
}

static void watch(struct kp_kube_store *s)
{
	struct kp_kube_request r = { .opened = on_opened,
		.data = on_data,
		.done = on_watch_end,
		.idle_ns = s->opts.idle_ns };
	char seconds[16];
	KP_AUTO(buf) struct kp_buf path;
	kp_buf_init(&path, 64 << 10);
	add_selection(s, &path);
	snprintf(seconds, sizeof(seconds), "%u", watch_seconds(s));
	kp_kube_query(&path, "watch", KP_S("1"));
	kp_kube_query(&path, "allowWatchBookmarks", KP_S("true"));
	kp_kube_query(&path, "timeoutSeconds", kp_str_c(seconds));
	if (s->is_initial) {
		kp_kube_query(&path, "sendInitialEvents", KP_S("true"));
		kp_kube_query(&path, "resourceVersionMatch", KP_S("NotOlderThan"));
	} else {
		kp_kube_query(&path, "resourceVersion", s->version);
	}
	s->state.watches++;
	s->n_events = 0;
	s->opened_ns = 0;
	kp_counter_add(s->watches, 1);
	kp_kube_lines_reset(&s->lines);
	send(s, &path, &r);
}

/* --- life --- */

static void init_metrics(struct kp_kube_store *s)
{
	struct kp_metrics *m = kp_kube_metrics(s->k);
	const struct kp_label of[] = { { "resource", kp_str_c(s->opts.kind->plural) } };
	s->lists = kp_metrics_counter(
		m, "kelpie_kube_lists_total", "Listings of a resource that were begun.", of, 1);
	s->watches = kp_metrics_counter(
		m, "kelpie_kube_watches_total", "Watches of a resource that were begun.", of, 1);
	s->events = kp_metrics_counter(
		m, "kelpie_kube_events_total", "Events of watches, bookmarks included.", of, 1);
	s->connected = kp_metrics_gauge(m, "kelpie_kube_watches_connected",
		"Watches of a resource that are complete and followed now.", of, 1);
	s->count = kp_metrics_gauge(
		m, "kelpie_kube_objects", "Objects of a resource that are kept.", of, 1);
}

struct kp_kube_store *kp_kube_store_create(struct kp_kube *k, const struct kp_kube_store_opts *opts)
{
	struct kp_kube_store *s = kp_new(struct kp_kube_store);
	struct kp_loop *loop = kp_kube_loop(k);
	s->k = k;
	s->opts = *opts;
	s->opts.ns.p = s->ns = kp_str_z(opts->ns);
	s->opts.labels.p = s->labels = kp_str_z(opts->labels);
	s->opts.fields.p = s->fields = kp_str_z(opts->fields);
	s->opts.max_objects = opts->max_objects ? opts->max_objects : OBJECTS_MAX;
	s->opts.idle_ns = opts->idle_ns ? opts->idle_ns : IDLE_NS;
	s->page = opts->page ? opts->page : PAGE;
	s->is_paged = opts->is_paged;
	s->backoff = (struct kp_kube_backoff){ .first_ns = 800 * KP_NS_PER_MS,
		.most_ns = 30 * KP_NS_PER_S };
	s->state.since_ns = kp_loop_now(loop);
	kp_map_init(&s->objects);
	kp_kube_lines_init(&s->lines, KP_KUBE_LINE_MAX);
	init_metrics(s);
	kp_timer_start(loop, &s->again, kp_loop_now(loop), on_again);
	return s;
}

void kp_kube_store_destroy(struct kp_kube_store *s)
{
	if (!s) {
		return;
	}
	hang_up(s);
	kp_timer_stop(kp_kube_loop(s->k), &s->again);
	s->is_dead = true;
	if (s->n_busy) {
		return;
	}
	kp_gauge_add(s->connected, s->state.is_connected ? -1 : 0);
	kp_gauge_add(s->count, -(int64_t)s->objects.n);
	kp_map_fini(&s->objects, free_entry);
	kp_kube_lines_fini(&s->lines);
	keep(&s->version, KP_STR_NULL);
	keep(&s->continue_, KP_STR_NULL);
	kp_mem_free(s->ns);
	kp_mem_free(s->labels);
	kp_mem_free(s->fields);
	kp_mem_free(s);
}

const json_t *kp_kube_store_get(const struct kp_kube_store *s, kp_str ns, kp_str name)
{
	const struct kp_kube_meta m = { .ns = ns, .name = name };
	char buf[KEY_MAX];
	const struct entry *e = kp_map_get(&s->objects, key_of(&m, buf));
	return e ? e->object : NULL;
}

const json_t *kp_kube_store_next(const struct kp_kube_store *s, size_t *pos)
{
	const struct kp_map_entry *at = kp_map_next(&s->objects, pos);
	return at ? ((const struct entry *)at->value)->object : NULL;
}

size_t kp_kube_store_count(const struct kp_kube_store *s)
{
	return s->objects.n;
}

const struct kp_kube_store_state *kp_kube_store_state(const struct kp_kube_store *s)
{
	return &s->state;
}
