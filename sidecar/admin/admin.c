/* DESIGN: one lws context, one virtual host, one protocol; every answer is built whole when the
   request head is there, then written in pieces as the socket takes it. Debian's lws 4.1.6 repeats
   HTTP_BODY_COMPLETION when bytes follow a POST body (docs/THREATS.md), so anything but GET and
   HEAD is answered 405 and the connection closed. */
#include "sidecar/admin/admin.h"

#include "sidecar/version.h"
#include "net/addr.h"
#include "obs/log.h"
#include "sidecar/errors.h"
#include "sidecar/control/control.h"

#include <libwebsockets.h>

#include <pthread.h>

enum { MAX_ANSWER = 16 << 20, WRITE_BYTES = 32 << 10, MAX_PATH = 1024 };

struct session { /* lws zeroes it at connection */
	struct kp_buf body;
	size_t sent;
	bool has_body;
};

struct kp_admin {
	struct kp_gateway *gateway;
	struct lws_context *context;
	struct lws_vhost *vhost;
	pthread_t thread;
	atomic_bool stopping;
	bool is_running;
};

struct answer {
	unsigned status;
	const char *type;
};

static struct answer build(struct kp_admin *a, kp_str path, kp_str query, struct kp_buf *out)
{
	struct answer ok = { 200, "text/plain; charset=utf-8" };
	if (kp_str_eq(path, KP_S("/livez"))) {
		kp_buf_lit(out, "ok\n");
		return ok;
	}
	if (kp_str_eq(path, KP_S("/readyz"))) {
		ok.status = kp_control_ready(
				    a->gateway->control, kp_str_starts(query, KP_S("verbose")), out)
				    ? 200
				    : 503;
		return ok;
	}
	if (kp_str_eq(path, KP_S("/metrics"))) {
		ok.type = "text/plain; version=0.0.4; charset=utf-8";
		kp_metrics_render(a->gateway->metrics, out);
		return ok;
	}
	if (kp_str_eq(path, KP_S("/version"))) {
		ok.type = "application/json";
		kp_sidecar_version_json(out);
		return ok;
	}
	struct kp_err err;
	kp_err_set(&err, KP_NOT_FOUND, "no such path: `%" KP_FMT "`",
		KP_ARG(kp_str_sub(path, 0, 200)));
	kp_error_json(out, &err);
	return (struct answer){ 404, "application/json" };
}

static int send_head(struct lws *wsi, const struct answer *ans, size_t length)
{
	unsigned char head[LWS_PRE + 1024], *start = head + LWS_PRE, *p = start,
					    *end = head + sizeof(head);
	if (lws_add_http_common_headers(wsi, ans->status, ans->type, length, &p, end) ||
		lws_finalize_write_http_header(wsi, start, &p, end)) {
		return -1;
	}
	return 0;
}

static int on_request(struct kp_admin *a, struct lws *wsi, struct session *s)
{
	char path[MAX_PATH], query[MAX_PATH];
	int get = lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI),
	    head = lws_hdr_total_length(wsi, WSI_TOKEN_HEAD_URI);
	struct answer ans = { 405, "application/json" };
	kp_buf_init(&s->body, MAX_ANSWER);
	s->has_body = true;
	s->sent = 0;
	int n = lws_hdr_copy(
		wsi, path, sizeof(path), get > 0 ? WSI_TOKEN_GET_URI : WSI_TOKEN_HEAD_URI);
	if ((get > 0 || head > 0) && n > 0) {
		int q = lws_hdr_copy(wsi, query, sizeof(query), WSI_TOKEN_HTTP_URI_ARGS);
		ans = build(a, kp_str_c(path), q > 0 ? kp_str_c(query) : KP_STR_NULL, &s->body);
	} else {
		struct kp_err err;
		kp_err_set(&err, KP_METHOD_NOT_ALLOWED, "only GET and HEAD are allowed here");
		kp_error_json(&s->body, &err);
	}
	if (s->body.failed || send_head(wsi, &ans, s->body.n)) {
		return -1;
	}
	if (head > 0) {
		s->sent = s->body.n;
	}
	lws_callback_on_writable(wsi);
	return 0;
}

static int on_writable(struct lws *wsi, struct session *s)
{
	unsigned char piece[LWS_PRE + WRITE_BYTES];
	size_t n = KP_MIN(s->body.n - s->sent, (size_t)WRITE_BYTES);
	bool last = s->sent + n == s->body.n;
	memcpy(piece + LWS_PRE, s->body.p + s->sent, n);
	s->sent += n;
	if (lws_write(wsi, piece + LWS_PRE, n, last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) !=
		(int)n) {
		return -1;
	}
	if (!last) {
		lws_callback_on_writable(wsi);
		return 0;
	}
	kp_buf_fini(&s->body);
	s->has_body = false;
	return lws_http_transaction_completed(wsi) ? -1 : 0;
}

static int on_lws(
	struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct session *s = user;
	int r = 0;
	(void)in;
	(void)len;
	if (reason == LWS_CALLBACK_HTTP) {
		if (s->has_body) {
			kp_buf_fini(&s->body);
		}
		r = on_request(lws_context_user(lws_get_context(wsi)), wsi, s);
	} else if (reason == LWS_CALLBACK_HTTP_WRITEABLE) {
		r = s && s->has_body ? on_writable(wsi, s) : -1;
	} else if (reason == LWS_CALLBACK_HTTP_BODY ||
		   reason == LWS_CALLBACK_HTTP_BODY_COMPLETION) {
		r = -1; /* nothing here takes a body */
	} else if (reason == LWS_CALLBACK_CLOSED_HTTP ||
		   reason == LWS_CALLBACK_HTTP_DROP_PROTOCOL) {
		if (s && s->has_body) {
			kp_buf_fini(&s->body);
			s->has_body = false;
		}
	}
	return r;
}

static const struct lws_protocols protocols[] = {
	{ "http", on_lws, sizeof(struct session), 0, 0, NULL, 0 }, { NULL, NULL, 0, 0, 0, NULL, 0 }
};

static void lws_log(int level, const char *line)
{
	kp_str s = kp_str_trim(kp_str_c(line));
	kp_log(level == LLL_ERR ? KP_LOG_WARN : KP_LOG_DEBUG, "admin listener",
		kp_f_str("text", s));
}

static void *thread_main(void *arg)
{
	struct kp_admin *a = arg;
	while (!atomic_load(&a->stopping) && lws_service(a->context, 0) >= 0) {
	}
	return NULL;
}

int kp_admin_start(
	struct kp_gateway *g, const char *address, struct kp_admin **ret, struct kp_err *err)
{
	struct kp_addr addr;
	if (kp_addr_parse(address, &addr, err)) {
		return kp_err_wrap(err, "admin listener");
	}
	struct kp_admin *a = kp_new(struct kp_admin);
	bool has_ipv6 = kp_str_find_char(kp_str_c(addr.host), ':') >= 0;
	lws_set_log_level(LLL_ERR | LLL_WARN, lws_log);
	struct lws_context_creation_info info = { .port = CONTEXT_PORT_NO_LISTEN,
		.protocols = protocols,
		.user = a,
		.gid = -1,
		.uid = -1,
		.timeout_secs = 15,
		.keepalive_timeout = 60,
		.options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
			   (has_ipv6 ? 0 : LWS_SERVER_OPTION_DISABLE_IPV6) };
	a->gateway = g;
	a->context = lws_create_context(&info);
	if (a->context) {
		info.port = addr.port;
		info.iface = addr.host[0] ? addr.host : NULL;
		a->vhost = lws_create_vhost(a->context, &info);
	}
	/* 4.1.6 may return a virtual host that does not listen: the port tells. */
	if (!a->vhost || lws_get_vhost_listen_port(a->vhost) <= 0) {
		kp_err_set(err, KP_ALREADY_EXISTS,
			"listen on `%s` (admin): the address cannot be bound", address);
		kp_admin_stop(a);
		return -1;
	}
	if (pthread_create(&a->thread, NULL, thread_main, a) != 0) {
		kp_bug(__FILE__, __LINE__, "cannot start the admin thread");
	}
	a->is_running = true;
	*ret = a;
	return 0;
}

int kp_admin_port(const struct kp_admin *a)
{
	return lws_get_vhost_listen_port(a->vhost);
}

void kp_admin_stop(struct kp_admin *a)
{
	if (!a) {
		return;
	}
	atomic_store(&a->stopping, true);
	if (a->is_running) {
		lws_cancel_service(a->context);
		pthread_join(a->thread, NULL);
	}
	if (a->context) {
		lws_context_destroy(a->context);
	}
	kp_mem_free(a);
}
