/* DESIGN: a record for each thing said, found by what makes it the same. It is first written as an Event; after that
   only its count and time change, by a merge patch. A timer looks at all records once in a while: it writes those that
   changed and forgets those that were quiet. */
#include "kube/recorder.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/utf8.h"
#include "kube/write.h"

#include <stdio.h>

#define SERIES_NS (30 * KP_NS_PER_S)
#define FORGET_NS (360 * KP_NS_PER_S)
enum { NOTE_MAX = 1024, INSTANCE_MAX = 128, OBJECT_BURST = 10, ALL_BURST = 100 };
#define OBJECT_EACH_NS (30 * KP_NS_PER_S)
#define ALL_EACH_NS    (KP_NS_PER_S / 5)

/* A bucket as the time at which it would be full: what is taken moves it on. */
struct bucket {
	int64_t full_ns;
};
struct record {
	struct kp_kube_recorder *r;
	struct kp_kube_call *call;
	json_t *event; /* as it was made, to write it again if the server forgot it */
	char *ns, *name;
	uint64_t count, written;
	int64_t last_ns, last_wall_ns, next_write_ns;
	bool is_there; /* on the server */
};
struct kp_kube_recorder {
	struct kp_kube *k;
	struct kp_kube_recorder_opts opts;
	char *instance;
	struct kp_map records, objects; /* struct record; struct bucket by object */
	struct bucket all;
	struct kp_timer look;
	struct kp_counter *written, *dropped, *failed;
};

static bool take(struct bucket *b, int64_t now, int64_t each_ns, int64_t burst)
{
	int64_t full = KP_MAX(b->full_ns, now);
	if (full + each_ns > now + burst * each_ns) {
		return false;
	}
	b->full_ns = full + each_ns;
	return true;
}

static bool may_say(struct kp_kube_recorder *r, kp_str object, int64_t now)
{
	struct bucket *b = kp_map_get(&r->objects, object);
	if (!b && r->objects.n < KP_KUBE_RECORDER_KEYS_MAX) {
		b = kp_new(struct bucket);
		kp_map_set(&r->objects, object, b);
	}
	return b && take(b, now, OBJECT_EACH_NS, OBJECT_BURST) &&
	       take(&r->all, now, ALL_EACH_NS, ALL_BURST);
}

static void free_record(void *value)
{
	struct record *e = value;
	if (e->call) {
		kp_kube_cancel(e->call);
	}
	json_decref(e->event);
	kp_mem_free(e->ns);
	kp_mem_free(e->name);
	kp_mem_free(e);
}

/* --- writing --- */

static void on_written(void *ctx, const struct kp_kube_answer *a)
{
	struct record *e = ctx;
	e->call = NULL;
	if (!a->failure) {
		kp_counter_add(e->r->written, 1);
		e->is_there = true;
	} else {
		kp_counter_add(e->r->failed, 1);
		/* The server keeps Events for an hour; then it is a new one. */
		e->is_there = e->is_there && a->failure->http != 404;
		e->written = 0;
	}
}

static void post(struct record *e)
{
	const struct kp_kube_write w = { .ref = { .kind = &kp_kube_kind_event,
						 .ns = kp_str_c(e->ns) },
		.done = on_written,
		.ctx = e };
	char name[300];
	snprintf(name, sizeof(name), "%.220s.%llx", e->name, (unsigned long long)kp_wall_ns());
	json_object_set_new(json_object_get(e->event, "metadata"), "name", json_string(name));
	e->written = e->count = 1;
	e->call = kp_kube_create_object(e->r->k, &w, e->event);
}

static void patch(struct record *e)
{
	const json_t *m = json_object_get(e->event, "metadata");
	const struct kp_kube_write w = { .ref = { .kind = &kp_kube_kind_event,
						 .ns = kp_str_c(e->ns),
						 .name = kp_doc_str(m, "name") },
		.done = on_written,
		.ctx = e };
	char when[KP_KUBE_TIME_MAX];
	kp_kube_time(e->last_wall_ns, when);
	json_t *p = json_pack(
		"{s:{s:I,s:s}}", "series", "count", (json_int_t)e->count, "lastObservedTime", when);
	KP_BUG_ON(!p);
	e->written = e->count;
	e->call = kp_kube_merge_patch(e->r->k, &w, p);
	json_decref(p);
}

static void write(struct record *e, int64_t now)
{
	e->next_write_ns = now + e->r->opts.series_ns;
	if (e->is_there) {
		patch(e);
	} else {
		post(e);
	}
}

static void on_look(struct kp_timer *t)
{
	struct kp_kube_recorder *r = KP_CONTAINER(t, struct kp_kube_recorder, look);
	int64_t now = kp_loop_now(kp_kube_loop(r->k));
	struct kp_map_entry *at;
	for (size_t i = 0; (at = kp_map_next(&r->records, &i));) {
		struct record *e = at->value;
		if (!e->call && e->count > e->written && now >= e->next_write_ns &&
			(e->is_there || e->count > 1)) {
			write(e, now);
		}
	}
	for (size_t i = 0; (at = kp_map_next(&r->records, &i));) {
		struct record *e = at->value;
		if (!e->call && now - e->last_ns >= r->opts.forget_ns) {
			kp_map_del(&r->records, at->key);
			free_record(e);
		}
	}
	for (size_t i = 0; (at = kp_map_next(&r->objects, &i));) {
		struct bucket *b = at->value;
		if (b->full_ns < now) {
			kp_map_del(&r->objects, at->key);
			kp_mem_free(b);
		}
	}
	if (r->records.n || r->objects.n) {
		kp_timer_start(kp_kube_loop(r->k), t, now + r->opts.series_ns / 4, on_look);
	}
}

/* --- saying --- */

static json_t *text(kp_str s, size_t max)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4 * NOTE_MAX);
	kp_utf8_add_lossy(&b, kp_str_sub(s, 0, max));
	size_t n = KP_MIN(b.n, max);
	while (n && n < b.n && ((unsigned char)b.p[n] & 0xc0) == 0x80) {
		n--; /* not inside a character */
	}
	json_t *v = json_stringn(b.p, n);
	return v ? v : json_string("");
}

static json_t *make(const struct kp_kube_recorder *r, const struct kp_kube_said *s, const char *ns)
{
	char when[KP_KUBE_TIME_MAX], version[256];
	kp_kube_time(kp_wall_ns(), when);
	snprintf(version, sizeof(version), "%s%s%s", s->kind->group, s->kind->group[0] ? "/" : "",
		s->kind->version);
	json_t *v = json_pack("{s:s,s:s,s:{s:s},s:s,s:s,s:s,s:s,s:s,s:s}", "apiVersion",
		"events.k8s.io/v1", "kind", "Event", "metadata", "namespace", ns, "eventTime", when,
		"reportingController", r->opts.controller, "reportingInstance", r->instance, "type",
		s->is_warning ? "Warning" : "Normal", "reason", s->reason, "action", s->action);
	json_t *of = json_pack("{s:s,s:s}", "apiVersion", version, "kind", s->kind->kind);
	KP_BUG_ON(!v || !of);
	json_object_set_new(of, "name", text(s->name, 253));
	if (s->ns.n) {
		json_object_set_new(of, "namespace", text(s->ns, 63));
	}
	if (s->uid.n) {
		json_object_set_new(of, "uid", text(s->uid, 128));
	}
	json_object_set_new(v, "regarding", of);
	json_object_set_new(v, "note", text(s->note, NOTE_MAX));
	return v;
}

void kp_kube_say(struct kp_kube_recorder *r, const struct kp_kube_said *s)
{
	int64_t now = kp_loop_now(kp_kube_loop(r->k));
	KP_AUTO(buf) struct kp_buf key;
	kp_buf_init(&key, 4096);
	kp_buf_printf(&key, "%s\n%" KP_FMT "\n%" KP_FMT "\n%" KP_FMT "\n", s->kind->plural,
		KP_ARG(s->ns), KP_ARG(s->name), KP_ARG(s->uid));
	size_t n_object = key.n;
	kp_buf_printf(&key, "%d\n%s\n%s", s->is_warning, s->reason, s->action);
	struct record *e = kp_map_get(&r->records, kp_buf_str(&key));
	if (!e) {
		if (key.failed || r->records.n >= KP_KUBE_RECORDER_KEYS_MAX ||
			!may_say(r, kp_str_sub(kp_buf_str(&key), 0, n_object), now)) {
			kp_counter_add(r->dropped, 1);
			return;
		}
		e = kp_new(struct record);
		e->r = r;
		e->ns = s->ns.n ? kp_str_z(s->ns) : kp_xstrdup("default");
		e->name = kp_str_z(s->name);
		e->event = make(r, s, e->ns);
		kp_map_set(&r->records, kp_buf_str(&key), e);
		write(e, now);
	} else {
		e->count++;
	}
	e->last_ns = now;
	e->last_wall_ns = kp_wall_ns();
	if (!r->look.heap_index) {
		kp_timer_start(kp_kube_loop(r->k), &r->look, now + r->opts.series_ns / 4, on_look);
	}
}

/* --- life --- */

struct kp_kube_recorder *kp_kube_recorder_create(
	struct kp_kube *k, const struct kp_kube_recorder_opts *opts)
{
	struct kp_kube_recorder *r = kp_new(struct kp_kube_recorder);
	struct kp_metrics *m = kp_kube_metrics(k);
	const struct kp_label written = { "result", KP_S("written") },
			      dropped = { "result", KP_S("dropped") },
			      failed = { "result", KP_S("failed") };
	const char *name = "kelpie_kube_events_said_total",
		   *help = "Events for people, by what became of them.";
	r->k = k;
	r->opts = *opts;
	r->opts.series_ns = opts->series_ns ? opts->series_ns : SERIES_NS;
	r->opts.forget_ns = opts->forget_ns ? opts->forget_ns : FORGET_NS;
	r->instance = kp_str_z(kp_str_sub(kp_str_c(opts->instance), 0, INSTANCE_MAX));
	r->written = kp_metrics_counter(m, name, help, &written, 1);
	r->dropped = kp_metrics_counter(m, name, help, &dropped, 1);
	r->failed = kp_metrics_counter(m, name, help, &failed, 1);
	kp_map_init(&r->records);
	kp_map_init(&r->objects);
	return r;
}

void kp_kube_recorder_destroy(struct kp_kube_recorder *r)
{
	if (r) {
		kp_timer_stop(kp_kube_loop(r->k), &r->look);
		kp_map_fini(&r->records, free_record);
		kp_map_fini(&r->objects, kp_mem_free);
		kp_mem_free(r->instance);
		kp_mem_free(r);
	}
}
