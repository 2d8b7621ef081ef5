/* DESIGN: a published status waits in `pending`, under the mutex, until the admin thread takes it for the
   next request; from then on it is that thread's alone. The feed says only that there is another one
   (its number): who follows asks for what it wants to see, as often as it likes, and no client of the
   feed holds a copy of a large status. */
#include "operator/status/listener.h"

#include "admin/admin.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>

static const char csp[] =
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
	"connect-src 'self'; base-uri 'none'; form-action 'none'; "
	"frame-ancestors 'none'";

static const char style[] = {
#include "operator/status/style.css.h"
};
static const char script[] = {
#include "operator/status/script.js.h"
};
static const char icon[] = {
#include "operator/status/icon.svg.h"
};

struct kp_status_listener {
	struct kp_admin *admin;
	struct kp_metrics *metrics;
	unsigned long long started_ms; /* numbers of another life of the operator are others */

	struct kp_status *current; /* the admin thread's */
	uint64_t current_n;

	pthread_mutex_t mutex; /* guards the two */
	struct kp_status *pending;
	uint64_t n; /* statuses published */
};

/* The newest; NULL: none yet. */
static const struct kp_status *take(struct kp_status_listener *l)
{
	struct kp_status *old = NULL;
	pthread_mutex_lock(&l->mutex);
	if (l->pending) {
		old = l->current;
		l->current = kp_steal(l->pending);
		l->current_n = l->n;
	}
	pthread_mutex_unlock(&l->mutex);
	kp_status_destroy(old);
	return l->current;
}

static kp_str resource_version(const struct kp_status_listener *l, uint64_t n, char buf[48])
{
	int length = snprintf(buf, 48, "%llu.%llu", l->started_ms, (unsigned long long)n);
	return kp_str_n(buf, (size_t)length);
}

static struct kp_admin_answer starting(struct kp_buf *out)
{
	struct kp_err err;
	kp_err_set(&err, KP_UNAVAILABLE, "the operator is starting");
	return kp_admin_error(out, &err);
}

static struct kp_admin_answer get_page(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out)
{
	struct kp_status_listener *l = ctx;
	const struct kp_status *s = take(l);
	char buf[48];
	(void)query;
	if (!s) {
		return starting(out);
	}
	kp_status_html(s, resource_version(l, l->current_n, buf), kp_wall_ns(), out);
	return (struct kp_admin_answer){
		.status = 200, .type = "text/html; charset=utf-8", .csp = csp
	};
}

static struct kp_admin_answer get_status(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out)
{
	struct kp_status_listener *l = ctx;
	const struct kp_status *s = take(l);
	char buf[48];
	(void)query;
	if (!s) {
		return starting(out);
	}
	kp_status_json(s, resource_version(l, l->current_n, buf), out);
	kp_buf_addc(out, '\n');
	return (struct kp_admin_answer){ .status = 200, .type = "application/json" };
}

static struct kp_admin_answer get_readyz(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out)
{
	const struct kp_status *s = take(ctx);
	kp_str why = s ? s->not_ready : KP_S("the operator is starting");
	kp_buf_addz(out, why.n ? "not ready" : "ok");
	if (why.n && kp_admin_arg(query, "verbose").p) {
		kp_buf_lit(out, ": ");
		kp_buf_add(out, why);
	}
	kp_buf_addc(out, '\n');
	return (struct kp_admin_answer){ .status = why.n ? 503 : 200,
		.type = "text/plain; charset=utf-8" };
}

static struct kp_admin_answer get_metrics(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out)
{
	struct kp_status_listener *l = ctx;
	(void)query;
	kp_metrics_render(l->metrics, out);
	return (struct kp_admin_answer){ .status = 200,
		.type = "text/plain; version=0.0.4; charset=utf-8" };
}

/* A handler for a file of the page's. */
#define GET_FILE(bytes, mime)                                                      \
	static struct kp_admin_answer get_##bytes(                                 \
		void *ctx, const struct kp_admin_query *query, struct kp_buf *out) \
	{                                                                          \
		(void)ctx;                                                         \
		(void)query;                                                       \
		kp_buf_add(out, kp_str_n(bytes, sizeof(bytes)));                   \
		return (struct kp_admin_answer){ .status = 200, .type = (mime) };  \
	}
GET_FILE(style, "text/css; charset=utf-8")
GET_FILE(script, "text/javascript; charset=utf-8")
GET_FILE(icon, "image/svg+xml")

static const struct kp_admin_route routes[] = { { "/", get_page, false },
	{ "/style.css", get_style, false }, { "/script.js", get_script, false },
	{ "/icon.svg", get_icon, false }, { "/status", get_status, false },
	{ "/livez", kp_admin_livez, false }, { "/readyz", get_readyz, false },
	{ "/metrics", get_metrics, false }, { "/version", kp_admin_version, false } };

int kp_status_listener_start(const char *address, struct kp_metrics *metrics,
	struct kp_status_listener **ret, struct kp_err *err)
{
	struct kp_status_listener *l = kp_new(struct kp_status_listener);
	const struct kp_admin_opts opts = { .address = address,
		.routes = routes,
		.n_routes = KP_LEN(routes),
		.ctx = l,
		.feed_path = "/status/feed" };
	l->metrics = metrics;
	l->started_ms = (unsigned long long)(kp_wall_ns() / KP_NS_PER_MS);
	pthread_mutex_init(&l->mutex, NULL);
	if (kp_admin_start(&opts, &l->admin, err)) {
		kp_status_listener_stop(l);
		return -1;
	}
	*ret = l;
	return 0;
}

int kp_status_listener_port(const struct kp_status_listener *l)
{
	return kp_admin_port(l->admin);
}

void kp_status_listener_publish(struct kp_status_listener *l, struct kp_status *s)
{
	char version[48], text[80];
	pthread_mutex_lock(&l->mutex);
	struct kp_status *old = l->pending;
	l->pending = s;
	l->n++;
	kp_str v = resource_version(l, l->n, version);
	int n = snprintf(text, sizeof(text), "{\"resourceVersion\":\"%" KP_FMT "\"}", KP_ARG(v));
	kp_admin_feed_publish(l->admin, kp_str_n(text, (size_t)n));
	pthread_mutex_unlock(&l->mutex);
	kp_status_destroy(old);
}

void kp_status_listener_stop(struct kp_status_listener *l)
{
	if (!l) {
		return;
	}
	kp_admin_stop(l->admin);
	kp_status_destroy(l->current);
	kp_status_destroy(l->pending);
	pthread_mutex_destroy(&l->mutex);
	kp_mem_free(l);
}
