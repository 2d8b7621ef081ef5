/* DESIGN: a few calls are always asked for from gRPC; each that comes becomes a stream, which its owner
   accepts or refuses. All methods are taken, because gRPC would let a call of an unknown one wait for
   ever; those that are not ours are refused here.

   gRPC 1.51 never accepts a connection again after accept failed once, as it does when the process has no
   descriptor left. It says so in its log only. Then its server is replaced: the old one keeps its streams until
   they end, the new one listens where it did. */
#include "rpc/internal.h"

#include "base/clock.h"
#include "base/vec.h"
#include "net/addr.h"
#include "obs/log.h"

#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
	ASKED = 16,             /* calls asked for at a time */
	CONNECTION_STREAMS = 4, /* a gateway has one */
	CONNECTION_IDLE_MS = 30000,
	HANDSHAKE_MS = 5000,
};
#define LOOK_NS KP_NS_PER_S /* whether it still accepts */

/* A server of gRPC's: the one that listens, or one before it that still has streams. */
struct listener {
	struct kp_list link;
	struct kp_rpc_server *server;
	grpc_server *grpc;
	struct kp_rpc_watch *watch;
	struct kp_rpc_op shutdown;
	bool is_retired;
};
struct slot {
	struct kp_rpc_op op;
	struct kp_rpc_server *server;
	bool is_asked;
	grpc_call *call;
	grpc_call_details details;
	grpc_metadata_array metadata;
};
struct kp_rpc_server {
	struct kp_rpc_side side;
	struct kp_list listeners;
	struct listener *current; /* NULL: none listens, one will be made */
	char *address, *method, *tls_dir;
	struct kp_rpc_keys *tls_keys;
	kp_rpc_accept *accept;
	void *ctx;
	int port;
	struct kp_timer look;
	unsigned failures; /* kp_rpc_accept_failures when the current one began */
	struct slot slots[ASKED];
};

/* --- who it is --- */

struct names {
	KP_VEC(kp_str)
	list;
	grpc_auth_context *auth;
};

static void names_read(struct names *n, grpc_call *call)
{
	static const char *const kinds[] = { GRPC_PEER_DNS_PROPERTY_NAME,
		GRPC_PEER_URI_PROPERTY_NAME };
	*n = (struct names){ .auth = grpc_call_auth_context(call) };
	if (!n->auth) {
		return;
	}
	for (size_t i = 0; i < KP_LEN(kinds); i++) {
		grpc_auth_property_iterator it =
			grpc_auth_context_find_properties_by_name(n->auth, kinds[i]);
		const grpc_auth_property *p;
		while ((p = grpc_auth_property_iterator_next(&it))) {
			kp_vec_push(&n->list, kp_str_n(p->value, p->value_length));
		}
	}
}
static void names_fini(struct names *n)
{
	kp_vec_fini(&n->list);
	if (n->auth) {
		grpc_auth_context_release(n->auth);
	}
}

/* --- accepting --- */

static void ask(struct slot *slot)
{
	struct kp_rpc_server *s = slot->server;
	grpc_call_details_init(&slot->details);
	grpc_metadata_array_init(&slot->metadata);
	slot->is_asked = true;
	KP_BUG_ON(
		grpc_server_request_call(s->current->grpc, &slot->call, &slot->details,
			&slot->metadata, s->side.queue, s->side.queue, &slot->op) != GRPC_CALL_OK);
}

static int accept_call(
	struct kp_rpc_server *server, struct kp_rpc_stream *s, kp_str method, struct kp_err *err)
{
	if (!kp_str_eq(method, kp_str_c(server->method))) {
		return kp_err_set(
			err, KP_UNIMPLEMENTED, "method `%" KP_FMT "` is not known", KP_ARG(method));
	}
	if (server->side.n_streams > server->side.limits.max_streams) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"accept stream of `%s`: there are %u already", s->peer,
			server->side.limits.max_streams);
	}
	struct names names;
	struct kp_rpc_stream_ops ops = { NULL, NULL };
	void *user = NULL;
	names_read(&names, s->call);
	const struct kp_rpc_peer peer = {
		.names = names.list.p, .n_names = names.list.n, .address = kp_str_c(s->peer)
	};
	int r = server->accept(server->ctx, s, &peer, &ops, &user, err);
	names_fini(&names);
	if (r == 0) {
		s->ops = ops;
		s->user = user;
	}
	return r;
}

static void take_call(struct slot *slot)
{
	struct kp_rpc_server *server = slot->server;
	struct kp_rpc_stream *s = kp_rpc_stream_create(&server->side, true);
	kp_str method = kp_str_n(GRPC_SLICE_START_PTR(slot->details.method),
		GRPC_SLICE_LENGTH(slot->details.method));
	char *peer = grpc_call_get_peer(slot->call);
	struct kp_err err = KP_ERR_INIT;
	s->call = slot->call;
	s->peer = kp_xstrdup(peer);
	gpr_free(peer);
	kp_rpc_stream_start(s);
	if (accept_call(server, s, method, &err) < 0) {
		kp_rpc_stream_close(s, &err);
	} else {
		kp_rpc_stream_receive(s);
	}
}

static void on_call(struct kp_rpc_op *op, bool ok)
{
	struct slot *slot = KP_CONTAINER(op, struct slot, op);
	bool is_stopping = slot->server->side.is_stopping;
	if (ok && is_stopping) {
		grpc_call_unref(slot->call); /* cancelled by then, and nobody has seen it */
	} else if (ok) {
		take_call(slot);
	}
	grpc_call_details_destroy(&slot->details);
	grpc_metadata_array_destroy(&slot->metadata);
	slot->is_asked = false;
	if (!is_stopping && slot->server->current) {
		ask(slot);
	}
}

/* --- listening --- */

static void listener_destroy(struct listener *l)
{
	kp_list_del(&l->link);
	grpc_server_destroy(l->grpc);
	kp_rpc_watch_destroy(l->watch);
	kp_mem_free(l);
}

static void on_shutdown(struct kp_rpc_op *op, bool ok)
{
	(void)ok;
	struct listener *l = KP_CONTAINER(op, struct listener, shutdown);
	if (!l->server->side.is_stopping) {
		listener_destroy(l); /* its last stream has ended */
	}
}

/* It does not listen any more; its streams go on. */
static void retire(struct listener *l)
{
	if (!l->is_retired) {
		l->is_retired = true;
		grpc_server_shutdown_and_notify(l->grpc, l->server->side.queue, &l->shutdown);
	}
}

/* gRPC does not say why it could not listen; a socket of our own finds out. */
static int why_not(const char *address, const struct kp_addr *a, struct kp_err *err)
{
	int fd = a->socklen ? socket(a->sock.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
	int e = fd >= 0 && bind(fd, (const struct sockaddr *)&a->sock, a->socklen) != 0 ? errno : 0;
	if (fd >= 0) {
		close(fd);
	}
	return e ? kp_err_sys(err, e, "listen on `%s`", address)
		 : kp_err_set(err, KP_UNAVAILABLE, "listen on `%s`: not possible", address);
}

static int listen_on(struct listener *l, grpc_server_credentials *credentials, struct kp_err *err)
{
	struct kp_rpc_server *s = l->server;
	char target[KP_ADDR_HOST_MAX + 32];
	const char *z = target;
	struct kp_addr a;
	if (kp_addr_parse(s->address, &a, err) < 0) {
		return -1;
	}
	unsigned port = s->port > 0 ? (unsigned)s->port : a.port; /* the same again */
	if (a.is_unix) {
		z = s->address;
	} else {
		bool is_v6 = strchr(a.host, ':') != NULL;
		snprintf(target, sizeof(target), "%s%s%s:%u", is_v6 ? "[" : "",
			a.host[0] ? a.host : "[::]", is_v6 ? "]" : "", port);
	}
	int got = grpc_server_add_http2_port(l->grpc, z, credentials);
	if (got <= 0) {
		return why_not(s->address, &a, err);
	}
	s->port = got;
	return 0;
}

static grpc_server *create(const struct kp_rpc_limits *limits)
{
	struct kp_rpc_args a;
	kp_rpc_args_init(&a, limits);
	kp_rpc_arg_int(
		&a, GRPC_ARG_ALLOW_REUSEPORT, 0); /* or a second server would share the port */
	kp_rpc_arg_int(&a, GRPC_ARG_MAX_CONCURRENT_STREAMS, CONNECTION_STREAMS);
	kp_rpc_arg_int(&a, GRPC_ARG_MAX_CONNECTION_IDLE_MS, CONNECTION_IDLE_MS);
	kp_rpc_arg_int(&a, GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS);
	const grpc_channel_args args = { a.n, a.p };
	return grpc_server_create(&args, NULL);
}

static int start(struct kp_rpc_server *s, struct kp_err *err)
{
	const struct kp_rpc_tls tls = { .dir = s->tls_dir, .keys = s->tls_keys };
	struct listener *l = kp_new(struct listener);
	kp_list_push(&s->listeners, &l->link);
	l->server = s;
	l->shutdown.done = on_shutdown;
	l->grpc = create(&s->side.limits);
	grpc_server_register_completion_queue(l->grpc, s->side.queue, NULL);
	s->failures = kp_rpc_accept_failures();
	grpc_server_credentials *credentials = kp_rpc_server_credentials(&tls, &l->watch, err);
	int r = credentials ? listen_on(l, credentials, err) : -1;
	if (credentials) {
		grpc_server_credentials_release(credentials);
	}
	grpc_server_start(
		l->grpc); /* also without a port: a server that was not cannot be shut down */
	if (r < 0) {
		retire(l);
		return -1;
	}
	s->current = l;
	for (size_t i = 0; i < ASKED; i++) {
		if (!s->slots[i].is_asked) {
			ask(&s->slots[i]);
		}
	}
	return 0;
}

static void on_look(struct kp_timer *t)
{
	struct kp_rpc_server *s = KP_CONTAINER(t, struct kp_rpc_server, look);
	struct kp_err err = KP_ERR_INIT;
	if (s->current && s->failures != kp_rpc_accept_failures()) {
		kp_log(KP_LOG_WARN, "no connection could be accepted, listening anew",
			kp_f_z("address", s->address));
		retire(kp_steal(s->current));
	} else if (!s->current && start(s, &err) < 0) {
		kp_log(KP_LOG_WARN, "cannot listen", kp_f_err(&err));
	}
	kp_timer_start(s->side.loop, t, kp_loop_now(s->side.loop) + LOOK_NS, on_look);
}

/* --- life --- */

int kp_rpc_server_create(struct kp_loop *loop, const char *address, const char *method,
	const struct kp_rpc_tls *tls, const struct kp_rpc_limits *limits, kp_rpc_accept *accept,
	void *ctx, struct kp_rpc_server **ret, struct kp_err *err)
{
	struct kp_addr a;
	if (kp_rpc_check_address(address, tls, &a, err) < 0) {
		return -1;
	}
	struct kp_rpc_server *s = kp_new(struct kp_rpc_server);
	kp_rpc_side_init(&s->side, loop, limits);
	kp_list_init(&s->listeners);
	s->address = kp_xstrdup(address);
	s->method = kp_xstrdup(method);
	s->tls_dir = tls && tls->dir ? kp_xstrdup(tls->dir) : NULL;
	s->tls_keys = tls ? tls->keys : NULL;
	s->accept = accept;
	s->ctx = ctx;
	for (size_t i = 0; i < ASKED; i++) {
		s->slots[i].op.done = on_call;
		s->slots[i].server = s;
	}
	if (start(s, err) < 0) {
		kp_rpc_server_destroy(s);
		return -1;
	}
	kp_timer_start(loop, &s->look, kp_now_ns() + LOOK_NS, on_look);
	kp_rpc_side_run(&s->side);
	*ret = s;
	return 0;
}

int kp_rpc_server_port(const struct kp_rpc_server *s)
{
	return s->port;
}

void kp_rpc_server_destroy(struct kp_rpc_server *s)
{
	if (!s) {
		return;
	}
	kp_assert_on(s->side.loop);
	kp_timer_stop(s->side.loop, &s->look);
	s->current = NULL;
	kp_list_each (node, &s->listeners) {
		struct listener *l = KP_CONTAINER(node, struct listener, link);
		retire(l);
		grpc_server_cancel_all_calls(l->grpc);
	}
	kp_rpc_side_fini(&s->side);
	kp_list_each_safe (node, &s->listeners) {
		listener_destroy(KP_CONTAINER(node, struct listener, link));
	}
	kp_free(&s->address);
	kp_free(&s->method);
	kp_free(&s->tls_dir);
	kp_mem_free(s);
}
