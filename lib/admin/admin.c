/* DESIGN: one lws context, one virtual host, one protocol; every answer is built whole when the
   request head (of a POST: the body) is there, then written in pieces as the socket takes it. Debian's lws 4.1.6 repeats
   HTTP_BODY_COMPLETION when bytes follow a POST body, and waits for ever for one without a length (docs/THREATS.md): a body needs its length, only
   the first completion counts, and the connection is closed behind the answer. Other methods, and POST where no route takes it, are answered 405 and the
   connection closed; an upgrade to anything but the feed's WebSocket
   is refused, so that its HTTP/2 is not reached either.

   Connections: those that are not feeds stand in a list, by when they last did something. When all but an
   eighth of what there may be are taken, each new one ends the one at its head, so that whoever sends a
   request is answered at once, however many others send none, or do not take their answers. When answers that
   were not taken yet are too large together, those of whom did nothing for longest are dropped in the same way.

   A handler that has no answer yet is asked again by a timer of the connection, which is in no list meanwhile: few may wait, and nobody ends them.

   The feed: a publisher leaves its text in `pending`, under the mutex, and wakes the thread; the
   thread takes it, makes it the current one and asks for a writable callback of every client. Each
   client knows the number of the last text it was sent. libwebsockets copies what a socket does not
   take at once and does not call back before that is gone: one text per client, at most. */
#include "admin/admin.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "json/write.h"
#include "net/addr.h"
#include "obs/log.h"

#include <libwebsockets.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MAX_ANSWER = 16 << 20,
	MAX_ANSWERS = 128 << 20, /* that were not taken yet */
	WRITE_BYTES = 32 << 10,
	MAX_HEAD = 4096, /* of one request: lws refuses what is longer */
	PING_S = 20,     /* a feed client that says nothing for so long is asked, */
	HANGUP_S = 40    /* and given up after so long */
};

struct waiting { /* a request that is asked again */
	const struct kp_admin_route *route;
	struct kp_admin_query query;
	char text[MAX_HEAD + KP_ADMIN_MAX_ARGS]; /* that the query points into */
	int64_t since_ns;
	bool is_head;
};

struct session { /* lws zeroes it at connection */
	struct kp_buf body;
	size_t sent;
	bool has_body;
	const struct kp_admin_post *post; /* of a POST, also when it was answered */
	struct kp_buf posted;             /* its body */
	bool is_answered;
	struct waiting *waiting; /* NULL: none */
	struct kp_list feed;     /* in kp_admin.clients while it is one */
	uint64_t seen;           /* number of the text it was sent */
	struct lws *wsi;
};

struct connection {          /* its wsi's opaque data */
	struct kp_list link; /* in kp_admin.connections; not in it: a feed's, or being closed */
	struct lws *wsi;
	size_t held; /* bytes of its answer */
};

struct kp_admin {
	struct kp_admin_opts opts;
	struct lws_context *context;
	struct lws_vhost *vhost;
	pthread_t thread;
	atomic_bool stopping;
	bool is_running;

	/* The thread's. */
	struct kp_list connections; /* who did nothing for longest first */
	unsigned n_connections, max_connections,
		n_waiting; /* those that wait are not in the list */
	size_t held;       /* of those in the list */
	struct kp_list clients;
	size_t n_clients;
	struct kp_buf current; /* LWS_PRE bytes, then the text */
	uint64_t number;       /* of the current text; 0: none yet */

	pthread_mutex_t mutex; /* guards `pending` */
	struct kp_buf pending;
	bool has_pending;
};

/* --- connections -------------------------------------------------------------------------------- */

static void unlist(struct kp_admin *a, struct connection *c)
{
	if (kp_list_linked(&c->link)) {
		kp_list_del(&c->link);
		a->n_connections--;
		a->held -= c->held;
	}
}

static void list_last(struct kp_admin *a, struct connection *c)
{
	kp_list_push(&a->connections, &c->link);
	a->n_connections++;
	a->held += c->held;
}

static void end_oldest(struct kp_admin *a)
{
	struct connection *c = KP_CONTAINER(a->connections.next, struct connection, link);
	unlist(a, c);
	lws_set_timeout(c->wsi, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
}

static void on_connection(struct kp_admin *a, struct lws *wsi)
{
	struct connection *c = kp_new(struct connection);
	c->wsi = wsi;
	lws_set_opaque_user_data(wsi, c);
	list_last(a, c);
	if (a->n_connections > a->max_connections - a->max_connections / 8 -
				       (unsigned)a->n_clients - a->n_waiting) {
		end_oldest(a);
	}
}

/* It did something, and holds so much of its answer now. */
static void on_progress(struct kp_admin *a, struct lws *wsi, size_t held)
{
	struct connection *c = lws_get_opaque_user_data(wsi);
	if (c && kp_list_linked(&c->link)) {
		unlist(a, c);
		c->held = held;
		list_last(a, c);
	}
	while (a->held > MAX_ANSWERS) {
		end_oldest(a);
	}
}

static void on_disconnection(struct kp_admin *a, struct lws *wsi)
{
	struct connection *c = lws_get_opaque_user_data(wsi);
	if (c) {
		unlist(a, c);
		lws_set_opaque_user_data(wsi, NULL);
		kp_mem_free(c);
	}
}

/* --- requests ----------------------------------------------------------------------------------- */

/* lws has split the query at & and decoded each part; text holds the parts. */
static int read_query(struct lws *wsi, char text[MAX_HEAD + KP_ADMIN_MAX_ARGS],
	struct kp_admin_query *q, struct kp_err *err)
{
	size_t used = 0;
	int n;
	q->n = 0;
	for (int i = 0; (n = lws_hdr_copy_fragment(wsi, text + used,
				 (int)(MAX_HEAD + KP_ADMIN_MAX_ARGS - used),
				 WSI_TOKEN_HTTP_URI_ARGS, i)) >= 0;
		i++) {
		kp_str part = { text + used, (size_t)n };
		ptrdiff_t eq = kp_str_find_char(part, '=');
		if (n == 0) {
			continue;
		}
		if (q->n == KP_ADMIN_MAX_ARGS) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read the query: more than %d parameters", KP_ADMIN_MAX_ARGS);
		}
		q->args[q->n].name = eq < 0 ? part : kp_str_sub(part, 0, (size_t)eq);
		q->args[q->n].value = kp_str_skip(part, eq < 0 ? part.n : (size_t)eq + 1);
		q->n++;
		used += (size_t)n + 1;
	}
	return 0;
}

/* A browser says which page asks; what is no browser says nothing. */
static bool is_same_origin(struct lws *wsi)
{
	char origin[300], host[300];
	int n = lws_hdr_copy(wsi, origin, sizeof(origin), WSI_TOKEN_ORIGIN);
	if (n == 0) {
		return true;
	}
	if (n < 0 || lws_hdr_copy(wsi, host, sizeof(host), WSI_TOKEN_HOST) <= 0) {
		return false;
	}
	kp_str o = kp_str_c(origin);
	ptrdiff_t scheme = kp_str_find(o, KP_S("://"));
	return scheme > 0 && kp_str_ieq(kp_str_skip(o, (size_t)scheme + 3), kp_str_c(host));
}

/* Pages can have any address loaded, as a picture for example, without telling their origin. Of this machine,
   which is where kubectl port-forward puts us, browsers at least say that it was another site's page. */
static bool is_asked_by_others(struct lws *wsi)
{
	static const char name[] = "sec-fetch-site:";
	char site[32];
	int n = lws_hdr_custom_length(wsi, name, sizeof(name) - 1);
	if (n <= 0) {
		return !is_same_origin(wsi);
	}
	return lws_hdr_custom_copy(wsi, site, sizeof(site), name, sizeof(name) - 1) < 0 ||
	       !(kp_str_eq(kp_str_c(site), KP_S("same-origin")) ||
		       kp_str_eq(kp_str_c(site), KP_S("none")));
}

/* The handler wants to be asked again: the query is kept, at a place of its own. */
static struct kp_admin_answer wait(struct kp_admin *a, struct lws *wsi, struct session *s,
	const struct kp_admin_route *route, const struct kp_admin_query *query, const char *text,
	struct kp_buf *out)
{
	struct kp_err err;
	kp_buf_reset(out);
	if (a->n_waiting >= KP_MIN((unsigned)KP_ADMIN_MAX_WAITING, a->max_connections / 4)) {
		kp_err_set(&err, KP_UNAVAILABLE, "`%s`: %u wait for it already", route->path,
			a->n_waiting);
		return kp_admin_error(out, &err);
	}
	s->waiting = kp_new(struct waiting);
	*s->waiting = (struct waiting){ .route = route, .query = *query, .since_ns = kp_now_ns() };
	memcpy(s->waiting->text, text, sizeof(s->waiting->text));
	for (size_t i = 0; i < query->n; i++) {
		kp_str *parts[] = { &s->waiting->query.args[i].name,
			&s->waiting->query.args[i].value };
		for (size_t k = 0; k < KP_LEN(parts); k++) {
			parts[k]->p = parts[k]->p ? s->waiting->text + (parts[k]->p - text) : NULL;
		}
	}
	a->n_waiting++;
	unlist(a, lws_get_opaque_user_data(wsi));
	lws_set_timeout(wsi, NO_PENDING_TIMEOUT, 0);
	lws_set_timer_usecs(wsi, KP_ADMIN_AGAIN_MS * LWS_US_PER_MS);
	return (struct kp_admin_answer){ .status = 0 };
}

static void stop_waiting(struct kp_admin *a, struct session *s)
{
	if (s->waiting) {
		a->n_waiting--;
		kp_free(&s->waiting);
	}
}

static struct kp_admin_answer serve(struct kp_admin *a, struct lws *wsi, struct session *s,
	const struct kp_admin_route *route, struct kp_buf *out)
{
	char text[MAX_HEAD + KP_ADMIN_MAX_ARGS] = { 0 };
	struct kp_admin_query query = { .n = 0 };
	struct kp_err err;
	if (route->acts && is_asked_by_others(wsi)) {
		kp_err_set(&err, KP_PERMISSION_DENIED, "`%s`: a page of another origin asks",
			route->path);
		return kp_admin_error(out, &err);
	}
	if (read_query(wsi, text, &query, &err)) {
		return kp_admin_error(out, &err);
	}
	struct kp_admin_answer ans = route->handle(a->opts.ctx, &query, out);
	return ans.status ? ans : wait(a, wsi, s, route, &query, text, out);
}

static struct kp_admin_answer build(
	struct kp_admin *a, struct lws *wsi, struct session *s, kp_str path, struct kp_buf *out)
{
	struct kp_err err;
	for (size_t i = 0; i < a->opts.n_routes; i++) {
		if (kp_str_eq(path, kp_str_c(a->opts.routes[i].path))) {
			return serve(a, wsi, s, &a->opts.routes[i], out);
		}
	}
	for (size_t i = 0; i < a->opts.n_posts; i++) {
		if (kp_str_eq(path, kp_str_c(a->opts.posts[i].path))) {
			kp_err_set(&err, KP_METHOD_NOT_ALLOWED, "`%s`: only POST is allowed here",
				a->opts.posts[i].path);
			return kp_admin_error(out, &err);
		}
	}
	if (a->opts.feed_path && kp_str_eq(path, kp_str_c(a->opts.feed_path))) {
		kp_err_set(&err, KP_FAILED_PRECONDITION, "`%s` is a WebSocket: ask for an upgrade",
			a->opts.feed_path);
	} else {
		kp_err_set(&err, KP_NOT_FOUND, "no such path: `%" KP_FMT "`",
			KP_ARG(kp_str_sub(path, 0, 200)));
	}
	return kp_admin_error(out, &err);
}

/* Puts the head into `head`, returns its length, 0 if it does not fit. */
static size_t make_head(struct lws *wsi, const struct kp_admin_answer *ans, size_t length,
	bool last, unsigned char *head, size_t room)
{
	static const char *const csp = "content-security-policy:";
	unsigned char *p = head, *end = head + room;
	if (lws_add_http_common_headers(wsi, ans->status, ans->type, length, &p, end) ||
		lws_add_http_header_by_name(wsi, (const unsigned char *)"x-content-type-options:",
			(const unsigned char *)"nosniff", 7, &p, end) ||
		lws_add_http_header_by_name(wsi, (const unsigned char *)"cache-control:",
			(const unsigned char *)"no-store", 8, &p, end) ||
		(last && lws_add_http_header_by_name(wsi, (const unsigned char *)"connection:",
				 (const unsigned char *)"close", 5, &p, end)) ||
		(ans->csp &&
			lws_add_http_header_by_name(wsi, (const unsigned char *)csp,
				(const unsigned char *)ans->csp, (int)strlen(ans->csp), &p, end)) ||
		lws_finalize_http_header(wsi, &p, end)) {
		return 0;
	}
	return (size_t)(p - head);
}

/* An error that ends the connection, in one write: where lws knows too little of the request, or would
   read on. Returns -1. */
static int refuse(struct lws *wsi, const struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf body, out;
	kp_buf_init(&body, 2048);
	kp_buf_init(&out, LWS_PRE + 4096);
	kp_json_w_err(&body, err);
	for (int i = 0; i < LWS_PRE; i++) {
		kp_buf_addc(&out, 0);
	}
	kp_buf_printf(&out,
		"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n"
		"connection: close\r\n\r\n",
		kp_code_http(err->code), kp_code_reason(err->code), body.n);
	kp_buf_add(&out, kp_buf_str(&body));
	if (!body.failed && !out.failed) {
		(void)lws_write(wsi, (unsigned char *)out.p + LWS_PRE, out.n - LWS_PRE,
			LWS_WRITE_HTTP_HEADERS);
	}
	return -1;
}

/* s->body is the answer's. */
static int respond(struct lws *wsi, struct session *s, struct kp_admin_answer ans, const char *what,
	bool is_head)
{
	unsigned char head[LWS_PRE + 2048];
	struct kp_err err;
	if (kp_buf_finish(&s->body, what, &err)) {
		kp_buf_reset(&s->body);
		err.code = KP_INTERNAL;
		ans = kp_admin_error(&s->body, &err);
	}
	size_t length = make_head(
		wsi, &ans, s->body.n, s->post != NULL, head + LWS_PRE, sizeof(head) - LWS_PRE);
	if (length == 0 ||
		lws_write(wsi, head + LWS_PRE, length, LWS_WRITE_HTTP_HEADERS) != (int)length) {
		return -1;
	}
	if (is_head) {
		s->sent = s->body.n;
	}
	lws_callback_on_writable(wsi);
	return 0;
}

/* lws does not look at a connection whose request it has handed over, until that is answered. */
static bool has_left(struct lws *wsi)
{
	char byte;
	return recv(lws_get_socket_fd(wsi), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Time to ask again. */
static int on_timer(struct kp_admin *a, struct lws *wsi, struct session *s)
{
	struct waiting *w = s->waiting;
	if (has_left(wsi)) {
		return -1;
	}
	w->query.waited_ns = KP_MAX(kp_now_ns() - w->since_ns, INT64_C(1));
	struct kp_admin_answer ans = w->route->handle(a->opts.ctx, &w->query, &s->body);
	if (ans.status == 0) {
		kp_buf_reset(&s->body);
		lws_set_timer_usecs(wsi, KP_ADMIN_AGAIN_MS * LWS_US_PER_MS);
		return 0;
	}
	const char *path = w->route->path;
	bool is_head = w->is_head;
	stop_waiting(a, s);
	list_last(a, lws_get_opaque_user_data(wsi));
	int r = respond(wsi, s, ans, path, is_head);
	on_progress(a, wsi, s->body.cap);
	return r;
}

/* --- bodies ------------------------------------------------------------------------------------- */

/* 0: the body may come. */
static int on_post(struct kp_admin *a, struct lws *wsi, struct session *s)
{
	char path[MAX_HEAD + 1], length[32];
	uint64_t n = 0;
	struct kp_err err;
	const struct kp_admin_post *route = NULL;
	int n_path = lws_hdr_copy(wsi, path, sizeof(path), WSI_TOKEN_POST_URI);
	for (size_t i = 0; n_path > 0 && i < a->opts.n_posts; i++) {
		if (kp_str_eq(kp_str_c(path), kp_str_c(a->opts.posts[i].path))) {
			route = &a->opts.posts[i];
		}
	}
	if (s->post) { /* a second request behind the first one's body */
		return -1;
	}
	if (!route) {
		kp_err_set(&err, KP_METHOD_NOT_ALLOWED, "only GET and HEAD are allowed here");
		return refuse(wsi, &err);
	}
	int n_length = lws_hdr_copy(wsi, length, sizeof(length), WSI_TOKEN_HTTP_CONTENT_LENGTH);
	if (lws_hdr_total_length(wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0 || n_length <= 0 ||
		!kp_str_u64(kp_str_c(length), UINT64_MAX, &n) || n == 0) {
		kp_err_set(&err, KP_INVALID_ARGUMENT,
			"`%s`: a body with a Content-Length is needed", route->path);
		return refuse(wsi, &err);
	}
	if (n > route->max_body) {
		kp_err_set(&err, KP_TOO_LARGE, "`%s`: a body of more than %zu bytes", route->path,
			route->max_body);
		return refuse(wsi, &err);
	}
	s->post = route;
	s->is_answered = false;
	kp_buf_init(&s->posted, route->max_body);
	return 0;
}

static int on_posted(struct kp_admin *a, struct lws *wsi, struct session *s)
{
	if (s->is_answered) {
		return 0;
	}
	s->is_answered = true;
	kp_buf_init(&s->body, MAX_ANSWER);
	s->has_body = true;
	s->sent = 0;
	struct kp_admin_answer ans = s->post->handle(a->opts.ctx, kp_buf_str(&s->posted), &s->body);
	kp_buf_fini(&s->posted);
	return respond(wsi, s, ans, s->post->path, false);
}

static int on_request(struct kp_admin *a, struct lws *wsi, struct session *s)
{
	char path[MAX_HEAD + 1];
	int get = lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI),
	    is_head = lws_hdr_total_length(wsi, WSI_TOKEN_HEAD_URI);
	struct kp_admin_answer ans;
	int n = lws_hdr_copy(
		wsi, path, sizeof(path), get > 0 ? WSI_TOKEN_GET_URI : WSI_TOKEN_HEAD_URI);
	struct kp_err err;
	if (lws_hdr_total_length(wsi, WSI_TOKEN_POST_URI) > 0) {
		return on_post(a, wsi, s);
	}
	if ((get <= 0 && is_head <= 0) || n <= 0 || s->post) {
		kp_err_set(&err, KP_METHOD_NOT_ALLOWED, "only GET and HEAD are allowed here");
		return refuse(wsi, &err);
	}
	kp_buf_init(&s->body, MAX_ANSWER);
	s->has_body = true;
	s->sent = 0;
	ans = build(a, wsi, s, kp_str_c(path), &s->body);
	if (s->waiting) {
		s->waiting->is_head = is_head > 0;
		return 0;
	}
	return respond(wsi, s, ans, path, is_head > 0);
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
	return s->post || lws_http_transaction_completed(wsi) ? -1 : 0;
}

/* --- the feed ----------------------------------------------------------------------------------- */

static int check_upgrade(struct kp_admin *a, struct lws *wsi, const char *to, struct kp_err *err)
{
	char path[MAX_HEAD + 1];
	int n = lws_hdr_copy(wsi, path, sizeof(path), WSI_TOKEN_GET_URI);
	if (!kp_str_ieq(kp_str_c(to), KP_S("websocket"))) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"upgrade to `%.40s`: only `websocket` is known here", to);
	}
	if (n <= 0 || !a->opts.feed_path ||
		!kp_str_eq(kp_str_c(path), kp_str_c(a->opts.feed_path))) {
		return kp_err_set(err, KP_NOT_FOUND, "no WebSocket at `%.200s`", path);
	}
	if (!is_same_origin(wsi)) {
		return kp_err_set(err, KP_PERMISSION_DENIED,
			"open `%s`: the page's origin is not this server", a->opts.feed_path);
	}
	if (a->n_clients >=
		KP_MIN((size_t)KP_ADMIN_MAX_FEED_CLIENTS, (size_t)a->max_connections / 4)) {
		return kp_err_set(err, KP_UNAVAILABLE, "open `%s`: %zu clients follow it already",
			a->opts.feed_path, a->n_clients);
	}
	return 0;
}

/* 0: go on with the upgrade; -1: answered, close it. */
static int on_upgrade(struct kp_admin *a, struct lws *wsi, const char *to)
{
	struct kp_err err;
	return check_upgrade(a, wsi, to, &err) ? refuse(wsi, &err) : 0;
}

static void on_feed_open(struct kp_admin *a, struct lws *wsi, struct session *s)
{
	s->wsi = wsi;
	s->seen = 0;
	unlist(a,
		lws_get_opaque_user_data(wsi)); /* there are few, and they may be quiet for long */
	kp_list_push(&a->clients, &s->feed);
	a->n_clients++;
	if (a->number) {
		lws_callback_on_writable(wsi);
	}
}

static int on_feed_writable(struct kp_admin *a, struct lws *wsi, struct session *s)
{
	size_t n = a->current.n - LWS_PRE;
	if (s->seen == a->number) {
		return 0;
	}
	s->seen = a->number;
	return lws_write(wsi, (unsigned char *)a->current.p + LWS_PRE, n, LWS_WRITE_TEXT) < (int)n
		       ? -1
		       : 0;
}

static void take_pending(struct kp_admin *a)
{
	pthread_mutex_lock(&a->mutex);
	bool has = a->has_pending;
	if (has) {
		kp_buf_fini(&a->current);
		a->current = a->pending;
		a->pending = (struct kp_buf){ 0 };
		a->has_pending = false;
	}
	pthread_mutex_unlock(&a->mutex);
	if (!has) {
		return;
	}
	a->number++;
	kp_list_each (node, &a->clients) {
		lws_callback_on_writable(KP_CONTAINER(node, struct session, feed)->wsi);
	}
}

void kp_admin_feed_publish(struct kp_admin *a, kp_str text)
{
	static const char headroom[LWS_PRE];
	struct kp_buf b;
	KP_BUG_ON(text.n > KP_ADMIN_MAX_FEED_BYTES);
	kp_buf_init(&b, LWS_PRE + KP_ADMIN_MAX_FEED_BYTES);
	kp_buf_add(&b, kp_str_n(headroom, LWS_PRE));
	kp_buf_add(&b, text);
	if (b.failed) { /* no memory: the next one will come */
		kp_buf_fini(&b);
		return;
	}
	pthread_mutex_lock(&a->mutex);
	bool wake = !a->has_pending;
	struct kp_buf old = a->pending;
	a->pending = b;
	a->has_pending = true;
	pthread_mutex_unlock(&a->mutex);
	kp_buf_fini(&old);
	if (wake) {
		lws_cancel_service(a->context);
	}
}

/* --- libwebsockets ------------------------------------------------------------------------------ */

static void on_closed(struct kp_admin *a, struct session *s)
{
	if (s && s->has_body) {
		kp_buf_fini(&s->body);
		s->has_body = false;
	}
	if (s) {
		stop_waiting(a, s);
	}
	if (s && s->post) {
		kp_buf_fini(&s->posted);
	}
	if (s && kp_list_linked(&s->feed)) {
		kp_list_del(&s->feed);
		a->n_clients--;
	}
}

static int on_lws(
	struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct kp_admin *a = lws_context_user(lws_get_context(wsi));
	struct session *s = user;
	int r = 0;
	if (reason == LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED) {
		on_connection(a, wsi);
	} else if (reason == LWS_CALLBACK_WSI_DESTROY) {
		on_disconnection(a, wsi);
	} else if (reason == LWS_CALLBACK_HTTP) {
		stop_waiting(a, s); /* one at a time: lws reads no second one before */
		if (s->has_body) {
			kp_buf_fini(&s->body);
		}
		r = on_request(a, wsi, s);
		on_progress(a, wsi, s->body.cap);
	} else if (reason == LWS_CALLBACK_TIMER) {
		r = s && s->waiting ? on_timer(a, wsi, s) : 0;
	} else if (reason == LWS_CALLBACK_HTTP_WRITEABLE && s && s->waiting) {
		r = 0; /* it has nothing to say yet */
	} else if (reason == LWS_CALLBACK_HTTP_WRITEABLE) {
		on_progress(a, wsi, s ? s->body.cap : 0);
		r = s && s->has_body ? on_writable(wsi, s) : -1; /* s may be gone */
	} else if (reason == LWS_CALLBACK_HTTP_CONFIRM_UPGRADE) {
		r = on_upgrade(a, wsi, in);
	} else if (reason == LWS_CALLBACK_ESTABLISHED) {
		on_feed_open(a, wsi, s);
	} else if (reason == LWS_CALLBACK_SERVER_WRITEABLE) {
		r = on_feed_writable(a, wsi, s);
	} else if (reason == LWS_CALLBACK_EVENT_WAIT_CANCELLED) {
		take_pending(a);
	} else if (reason == LWS_CALLBACK_HTTP_BODY && s && s->post) {
		if (!s->is_answered) {
			kp_buf_add(&s->posted, kp_str_n(in, len));
			on_progress(a, wsi, s->posted.cap);
		}
	} else if (reason == LWS_CALLBACK_HTTP_BODY_COMPLETION && s && s->post) {
		r = on_posted(a, wsi, s);
		on_progress(a, wsi, s->body.cap);
	} else if (reason == LWS_CALLBACK_HTTP_BODY ||
		   reason == LWS_CALLBACK_HTTP_BODY_COMPLETION || reason == LWS_CALLBACK_RECEIVE) {
		r = -1; /* nothing here takes a body or a message */
	} else if (reason == LWS_CALLBACK_CLOSED_HTTP || reason == LWS_CALLBACK_CLOSED ||
		   reason == LWS_CALLBACK_HTTP_DROP_PROTOCOL) {
		on_progress(a, wsi, 0);
		on_closed(a, s);
	}
	return r;
}

static const struct lws_protocols protocols[] = {
	{ "http", on_lws, sizeof(struct session), 0, 0, NULL, 0 }, { NULL, NULL, 0, 0, 0, NULL, 0 }
};

static void lws_log(int level, const char *line)
{
	static _Thread_local struct kp_log_limit limit; /* a failing accept is said each time */
	uint64_t suppressed;
	if (kp_log_allow(&limit, kp_now_ns(), KP_NS_PER_S, &suppressed)) {
		kp_log(level == LLL_ERR ? KP_LOG_WARN : KP_LOG_DEBUG, "admin listener",
			kp_f_str("text", kp_str_trim(kp_str_c(line))),
			kp_f_int("suppressed", (int64_t)suppressed));
	}
}

static void *thread_main(void *arg)
{
	struct kp_admin *a = arg;
	while (!atomic_load(&a->stopping) && lws_service(a->context, 0) >= 0) {
	}
	return NULL;
}

static const lws_retry_bo_t idle = { .secs_since_valid_ping = PING_S,
	.secs_since_valid_hangup = HANGUP_S };

/* An eighth of the descriptors at most: those who come here must not take what the program works with. */
static unsigned max_connections(void)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur == RLIM_INFINITY) {
		return KP_ADMIN_MAX_CONNECTIONS;
	}
	return (unsigned)KP_MIN(
		KP_MAX(r.rlim_cur / 8, (rlim_t)8), (rlim_t)KP_ADMIN_MAX_CONNECTIONS);
}

/* lws asks the kernel for IPv6 or not; every address is both, where the kernel has both. */
static bool wants_ipv6(struct kp_addr addr)
{
	int fd = addr.socklen ? kp_addr_socket(&addr, SOCK_CLOEXEC) : -1;
	if (fd >= 0) {
		close(fd);
	}
	return addr.socklen && addr.sock.ss_family == AF_INET6;
}

static int listen_on(struct kp_admin *a, const struct kp_addr *addr)
{
	bool has_ipv6 = wants_ipv6(*addr);
	a->max_connections = max_connections();
	struct lws_context_creation_info info = { .port = CONTEXT_PORT_NO_LISTEN,
		.protocols = protocols,
		.user = a,
		.gid = -1,
		.uid = -1,
		.timeout_secs = 15,
		.keepalive_timeout = 60,
		.max_http_header_data = MAX_HEAD,
		.fd_limit_per_thread = a->max_connections,
		.retry_and_idle_policy = &idle,
		.options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
			   (has_ipv6 ? 0 : LWS_SERVER_OPTION_DISABLE_IPV6) };
	lws_set_log_level(LLL_ERR | LLL_WARN, lws_log);
	a->context = lws_create_context(&info);
	if (a->context) {
		info.port = addr->port;
		info.iface = addr->host[0] ? addr->host : NULL;
		a->vhost = lws_create_vhost(a->context, &info);
	}
	/* 4.1.6 may return a virtual host that does not listen: the port tells. */
	return a->vhost && lws_get_vhost_listen_port(a->vhost) > 0 ? 0 : -1;
}

int kp_admin_start(const struct kp_admin_opts *opts, struct kp_admin **ret, struct kp_err *err)
{
	struct kp_addr addr;
	if (kp_addr_parse(opts->address, &addr, err)) {
		return kp_err_wrap(err, "admin listener");
	}
	struct kp_admin *a = kp_new(struct kp_admin);
	a->opts = *opts;
	kp_list_init(&a->connections);
	kp_list_init(&a->clients);
	pthread_mutex_init(&a->mutex, NULL);
	if (listen_on(a, &addr)) {
		kp_err_set(err, KP_ALREADY_EXISTS,
			"listen on `%s` (admin): the address cannot be bound", opts->address);
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
	pthread_mutex_destroy(&a->mutex);
	kp_buf_fini(&a->current);
	kp_buf_fini(&a->pending);
	kp_mem_free(a);
}
