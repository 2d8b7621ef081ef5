/* DESIGN: families in registration order, children in a list per family, found by "name{labels}" in
   one map; all under one mutex that only look-ups and rendering take. Children are never removed,
   so pointers stay valid. */
#include "obs/metrics.h"
#include "base/map.h"
#include "base/vec.h"

#include <pthread.h>
#include <stdio.h>

enum type { COUNTER, GAUGE, HISTOGRAM };
enum { MAX_CHILDREN = 1000 };

const double kp_bounds_seconds[14] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
	2.5, 5, 10, 60 };

struct child {
	char *labels; /* `a="b",c="d"` or "" */
	union {
		struct kp_counter counter;
		struct kp_gauge gauge;
		struct kp_histogram histogram;
	};
};
struct family {
	const char *name, *help;
	enum type type;
	KP_VEC(struct child *)
	children;
};
struct hook {
	void (*fn)(void *);
	void *arg;
};
struct kp_metrics {
	pthread_mutex_t lock;
	KP_VEC(struct family *)
	families;
	struct kp_map families_by_name;
	struct kp_map children_by_key; /* "name{labels}" */
	KP_VEC(struct hook)
	hooks;
};

struct kp_metrics *kp_metrics_create(void)
{
	struct kp_metrics *m = kp_new(struct kp_metrics);
	pthread_mutex_init(&m->lock, NULL);
	return m;
}

void kp_metrics_destroy(struct kp_metrics *m)
{
	if (!m) {
		return;
	}
	for (size_t i = 0; i < m->families.n; i++) {
		struct family *f = m->families.p[i];
		for (size_t k = 0; k < f->children.n; k++) {
			kp_mem_free(f->children.p[k]->labels);
			kp_mem_free(f->children.p[k]);
		}
		kp_vec_fini(&f->children);
		kp_mem_free(f);
	}
	kp_vec_fini(&m->families);
	kp_vec_fini(&m->hooks);
	kp_map_fini(&m->families_by_name, NULL);
	kp_map_fini(&m->children_by_key, NULL);
	pthread_mutex_destroy(&m->lock);
	kp_mem_free(m);
}

static void put_label_value(struct kp_buf *b, kp_str v)
{
	for (size_t i = 0; i < v.n; i++) {
		char c = v.p[i];
		if (c == '\n') {
			kp_buf_lit(b, "\\n");
			continue;
		}
		if (c == '"' || c == '\\') {
			kp_buf_addc(b, '\\');
		}
		kp_buf_addc(b, c);
	}
}

static struct family *family_get(
	struct kp_metrics *m, const char *name, const char *help, enum type type)
{
	struct family *f = kp_map_get(&m->families_by_name, kp_str_c(name));
	if (!f) {
		f = kp_new(struct family);
		*f = (struct family){ .name = name, .help = help, .type = type };
		kp_vec_push(&m->families, f);
		kp_map_set(&m->families_by_name, kp_str_c(name), f);
	}
	KP_BUG_ON(f->type != type);
	return f;
}

/* With the lock held. */
static struct child *child_get(struct kp_metrics *m, struct family *f, kp_str labels)
{
	struct kp_buf key;
	kp_buf_init(&key, 8192);
	kp_buf_addz(&key, f->name);
	kp_buf_addc(&key, '{');
	kp_buf_add(&key, labels);
	struct child *c = kp_map_get(&m->children_by_key, kp_buf_str(&key));
	if (!c && f->children.n < MAX_CHILDREN + 1) {
		c = kp_new(struct child);
		c->labels = kp_xmalloc(labels.n + 1);
		memcpy(c->labels, labels.n ? labels.p : "", labels.n);
		c->labels[labels.n] = '\0';
		kp_vec_push(&f->children, c);
		kp_map_set(&m->children_by_key, kp_buf_str(&key), c);
	}
	kp_buf_fini(&key);
	return c;
}

static struct child *lookup(struct kp_metrics *m, const char *name, const char *help,
	enum type type, const struct kp_label *labels, size_t n)
{
	struct kp_buf text;
	kp_buf_init(&text, 4096);
	for (size_t i = 0; i < n; i++) {
		kp_buf_addz(&text, i ? "," : "");
		kp_buf_addz(&text, labels[i].name);
		kp_buf_lit(&text, "=\"");
		put_label_value(&text, labels[i].value);
		kp_buf_addc(&text, '"');
	}
	pthread_mutex_lock(&m->lock);
	struct family *f = family_get(m, name, help, type);
	struct child *c = NULL;
	if (!text.failed && f->children.n < MAX_CHILDREN) {
		c = child_get(m, f, kp_buf_str(&text));
	} else if (!text.failed) {
		struct kp_buf key;
		kp_buf_init(&key, 8192);
		kp_buf_printf(&key, "%s{%" KP_FMT, f->name, KP_ARG(kp_buf_str(&text)));
		c = kp_map_get(&m->children_by_key, kp_buf_str(&key));
		kp_buf_fini(&key);
	}
	if (!c) {
		c = child_get(m, f, KP_S("overflow=\"true\""));
	}
	pthread_mutex_unlock(&m->lock);
	kp_buf_fini(&text);
	return c;
}

struct kp_counter *kp_metrics_counter(struct kp_metrics *m, const char *name, const char *help,
	const struct kp_label *labels, size_t n)
{
	return &lookup(m, name, help, COUNTER, labels, n)->counter;
}

struct kp_gauge *kp_metrics_gauge(struct kp_metrics *m, const char *name, const char *help,
	const struct kp_label *labels, size_t n)
{
	return &lookup(m, name, help, GAUGE, labels, n)->gauge;
}

struct kp_histogram *kp_metrics_histogram(struct kp_metrics *m, const char *name, const char *help,
	const double *bounds, size_t n_bounds, const struct kp_label *labels, size_t n)
{
	KP_BUG_ON(n_bounds > KP_HISTOGRAM_MAX);
	struct kp_histogram *h = &lookup(m, name, help, HISTOGRAM, labels, n)->histogram;
	pthread_mutex_lock(&m->lock);
	h->bounds = bounds;
	h->n = n_bounds;
	pthread_mutex_unlock(&m->lock);
	return h;
}

void kp_histogram_observe(struct kp_histogram *h, double v)
{
	size_t i = 0;
	while (i < h->n && v > h->bounds[i]) {
		i++;
	}
	atomic_fetch_add_explicit(&h->counts[i], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(
		&h->sum_micro, v > 0 ? (uint64_t)(v * 1e6) : 0, memory_order_relaxed);
}

void kp_metrics_on_render(struct kp_metrics *m, void (*fn)(void *), void *arg)
{
	pthread_mutex_lock(&m->lock);
	kp_vec_push(&m->hooks, ((struct hook){ fn, arg }));
	pthread_mutex_unlock(&m->lock);
}

static void put_name(struct kp_buf *out, const struct family *f, const char *suffix,
	const char *labels, const char *le)
{
	kp_buf_addz(out, f->name);
	kp_buf_addz(out, suffix);
	if (labels[0] || le) {
		kp_buf_addc(out, '{');
		kp_buf_addz(out, labels);
		if (le) {
			kp_buf_printf(out, "%sle=\"%s\"", labels[0] ? "," : "", le);
		}
		kp_buf_addc(out, '}');
	}
	kp_buf_addc(out, ' ');
}

static void put_histogram(struct kp_buf *out, const struct family *f, struct child *c)
{
	struct kp_histogram *h = &c->histogram;
	uint64_t total = 0;
	for (size_t i = 0; i <= h->n; i++) {
		char le[32] = "+Inf";
		if (i < h->n) {
			snprintf(le, sizeof(le), "%g", h->bounds[i]);
		}
		total += atomic_load_explicit(&h->counts[i], memory_order_relaxed);
		put_name(out, f, "_bucket", c->labels, le);
		kp_buf_u64(out, total);
		kp_buf_addc(out, '\n');
	}
	put_name(out, f, "_sum", c->labels, NULL);
	kp_buf_printf(out, "%.6f\n",
		(double)atomic_load_explicit(&h->sum_micro, memory_order_relaxed) / 1e6);
	put_name(out, f, "_count", c->labels, NULL);
	kp_buf_u64(out, total);
	kp_buf_addc(out, '\n');
}

void kp_metrics_render(struct kp_metrics *m, struct kp_buf *out)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };
	pthread_mutex_lock(&m->lock);
	size_t n_hooks = m->hooks.n;
	pthread_mutex_unlock(&m->lock);
	for (size_t i = 0; i < n_hooks;
		i++) { /* hooks are only added at start-up; they may look metrics up */
		m->hooks.p[i].fn(m->hooks.p[i].arg);
	}
	pthread_mutex_lock(&m->lock);
	for (size_t i = 0; i < m->families.n; i++) {
		struct family *f = m->families.p[i];
		kp_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name,
			types[f->type]);
		for (size_t k = 0; k < f->children.n; k++) {
			struct child *c = f->children.p[k];
			if (f->type == HISTOGRAM) {
				put_histogram(out, f, c);
				continue;
			}
			put_name(out, f, "", c->labels, NULL);
			if (f->type == COUNTER) {
				kp_buf_u64(out,
					atomic_load_explicit(&c->counter.v, memory_order_relaxed));
			} else {
				kp_buf_i64(out,
					atomic_load_explicit(&c->gauge.v, memory_order_relaxed));
			}
			kp_buf_addc(out, '\n');
		}
	}
	pthread_mutex_unlock(&m->lock);
}
