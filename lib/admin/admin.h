/* The admin listener of every program: health, metrics, status, for probes and people. libwebsockets,
   in a thread of its own, so that it answers while every loop is busy. Plain HTTP/1.1, GET and HEAD, and
   POST where a route takes a body (of known length; the connection ends with the answer); keep it off the public network. Errors are JSON (json/write.h).

   Limits: path and query together 4 KiB of header, KP_ADMIN_MAX_ARGS parameters, answers of 16 MiB, 128 MiB of those that were not taken yet,
   KP_ADMIN_MAX_CONNECTIONS connections, or an eighth of the descriptors (a new one ends the one that did nothing for
   longest, feeds aside), 15 s for a request's head, 60 s between requests.

   The feed: a WebSocket on one path that shows the latest text and then each change. A text that is
   replaced before a client took it is skipped, so a slow client costs no memory and sees the newest.
   A page of another origin is refused (a browser's Origin must be the Host that was asked). */
#ifndef KP_ADMIN_ADMIN_H
#define KP_ADMIN_ADMIN_H

#include "base/buf.h"

enum {
	KP_ADMIN_MAX_ARGS = 8,
	KP_ADMIN_MAX_CONNECTIONS = 512,
	KP_ADMIN_MAX_FEED_CLIENTS = 64,
	KP_ADMIN_MAX_FEED_BYTES = 64 << 10,
	KP_ADMIN_MAX_WAITING = 64,
	KP_ADMIN_AGAIN_MS = 50
};

struct kp_admin;

/* What stood behind the `?`, percent-decoded. Borrowed from the request. */
struct kp_admin_query {
	struct {
		kp_str name, value;
	} args[KP_ADMIN_MAX_ARGS];
	size_t n;
	int64_t waited_ns; /* since it was asked first; 0: this is the first time */
};
/* KP_STR_NULL when absent; p is set, n 0, when it has no value ("?verbose"). */
kp_str kp_admin_arg(const struct kp_admin_query *q, const char *name);

struct kp_admin_answer {
	unsigned
		status; /* 0: not yet: the same is asked again after KP_ADMIN_AGAIN_MS, with what it appended
			     thrown away. KP_ADMIN_MAX_WAITING may wait; beyond, 503 */
	const char *type; /* static */
	const char *csp;  /* Content-Security-Policy, static, for pages; NULL: none */
};
/* On the admin thread; appends the body to out. May not block: probes wait behind it. */
typedef struct kp_admin_answer kp_admin_handler(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out);
/* POST: the same with a body, of at most the route's max_body. */
typedef struct kp_admin_answer kp_admin_poster(void *ctx, kp_str body, struct kp_buf *out);
/* The answer to an error: its JSON in out, its code's status. */
struct kp_admin_answer kp_admin_error(struct kp_buf *out, const struct kp_err *err);

/* Routes that every program has: "ok"; version and commit as JSON. */
kp_admin_handler kp_admin_livez, kp_admin_version;

struct kp_admin_route {
	const char *path; /* "/metrics", exactly */
	kp_admin_handler *handle;
	bool acts; /* it changes something: refused when a browser asks for another site's page */
};
struct kp_admin_post {
	const char *path;
	kp_admin_poster *handle;
	size_t max_body;
};
struct kp_admin_opts {
	const char *address; /* "127.0.0.1:9090", "[::1]:9090", ":9090"; port 0: a free one */
	const struct kp_admin_route *routes; /* static */
	size_t n_routes;
	const struct kp_admin_post *posts; /* static; paths of their own */
	size_t n_posts;
	void *ctx;             /* of the handlers */
	const char *feed_path; /* static; NULL: no feed */
};

/* Listens and starts the thread. */
int kp_admin_start(
	const struct kp_admin_opts *opts, struct kp_admin **ret, struct kp_err *err) KP_MUST_USE;
int kp_admin_port(const struct kp_admin *a);
/* Any thread, until kp_admin_stop. Copies text: UTF-8, at most KP_ADMIN_MAX_FEED_BYTES. */
void kp_admin_feed_publish(struct kp_admin *a, kp_str text);
void kp_admin_stop(struct kp_admin *a); /* joins the thread; NULL is fine */

#endif
