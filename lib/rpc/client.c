/* DESIGN: each stream has a channel of its own, so that each attempt connects at once, with the files as
   they are then, and gRPC's own back-off and sharing of connections stay out of it. */
#include "rpc/internal.h"

#include "net/addr.h"

#include <grpc/grpc_security.h>
#include <stdio.h>

enum { CONNECT_MS = 5000, LOOKAHEAD_BYTES = 1 << 20 };

struct kp_rpc_client {
	struct kp_rpc_side side;
	char *address, *target, *method, *tls_dir, *server_name;
	struct kp_rpc_files *files;
};

/* As gRPC wants it: a number is not looked up. Nor is "localhost": c-ares 1.18 leaks a few bytes at each
   look-up that ends in the hosts file. */
static char *target_of(const char *address, const struct kp_addr *a)
{
	char text[KP_ADDR_HOST_MAX + 32];
	if (a->is_unix) {
		return kp_xstrdup(address);
	}
	if (strcmp(a->host, "localhost") == 0) {
		snprintf(text, sizeof(text), "ipv4:127.0.0.1:%u", a->port);
	} else if (a->socklen && a->sock.ss_family == AF_INET) {
		snprintf(text, sizeof(text), "ipv4:%s:%u", a->host, a->port);
	} else if (a->socklen) {
		snprintf(text, sizeof(text), "ipv6:%%5B%s%%5D:%u", a->host, a->port);
	} else {
		snprintf(text, sizeof(text), "dns:///%s:%u", a->host, a->port);
	}
	return kp_xstrdup(text);
}

int kp_rpc_client_create(struct kp_loop *loop, const char *address, const char *method,
	const struct kp_rpc_tls *tls, const char *server_name, const struct kp_rpc_limits *limits,
	struct kp_rpc_client **ret, struct kp_err *err)
{
	struct kp_addr a;
	if (kp_rpc_check_address(address, tls, &a, err) < 0) {
		return -1;
	}
	if (!a.is_unix && (a.host[0] == '\0' || a.port == 0)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"use address `%s`: a host and a port are needed", address);
	}
	struct kp_rpc_client *c = kp_new(struct kp_rpc_client);
	kp_rpc_side_init(&c->side, loop, limits);
	c->address = kp_xstrdup(address);
	c->target = target_of(address, &a);
	c->method = kp_xstrdup(method);
	c->tls_dir = tls && tls->dir ? kp_xstrdup(tls->dir) : NULL;
	c->server_name = server_name ? kp_xstrdup(server_name) : kp_xstrdup(a.host);
	kp_rpc_side_run(&c->side);
	*ret = c;
	return 0;
}

static grpc_channel *create_channel(struct kp_rpc_client *c, grpc_channel_credentials *credentials)
{
	struct kp_rpc_args a;
	kp_rpc_args_init(&a, &c->side.limits);
	kp_rpc_arg_int(&a, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
	kp_rpc_arg_int(&a, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
		CONNECT_MS); /* also: how long one attempt may take */
	kp_rpc_arg_int(&a, GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, CONNECT_MS);
	kp_rpc_arg_int(&a, GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, LOOKAHEAD_BYTES);
	kp_rpc_arg_int(&a, GRPC_ARG_ENABLE_RETRIES, 0);
	kp_rpc_arg_int(&a, GRPC_ARG_ENABLE_HTTP_PROXY, 0);
	kp_rpc_arg_int(&a, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
	if (c->tls_dir) {
		kp_rpc_arg_str(&a, GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, c->server_name);
	}
	const grpc_channel_args args = { a.n, a.p };
	return grpc_channel_create(c->target, credentials, &args);
}

/* gRPC's words for a failed handshake name neither a file nor a certificate. */
static char *about_tls(const struct kp_rpc_client *c)
{
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 16384);
	if (c->tls_dir) {
		kp_buf_printf(&text, " (TLS with `%s`, for `%s`)", c->tls_dir, c->server_name);
	}
	return kp_str_z(kp_buf_str(&text));
}

struct kp_rpc_stream *kp_rpc_client_open(
	struct kp_rpc_client *c, const struct kp_rpc_stream_ops *ops, void *user)
{
	kp_assert_on(c->side.loop);
	KP_BUG_ON(c->side.is_stopping);
	struct kp_rpc_stream *s = kp_rpc_stream_create(&c->side, false);
	const struct kp_rpc_tls tls = { .dir = c->tls_dir };
	struct kp_err err = KP_ERR_INIT;
	s->ops = *ops;
	s->user = user;
	s->peer = kp_xstrdup(c->address);
	s->tls = about_tls(c);
	grpc_channel_credentials *credentials = kp_rpc_channel_credentials(&tls, &c->files, &err);
	if (!credentials) {
		kp_err_wrap(&err, "stream to `%s`", c->address);
		s->status = err;
		s->has_status = true;
		kp_rpc_stream_stillborn(s);
		return s;
	}
	s->channel = create_channel(c, credentials);
	grpc_channel_credentials_release(credentials);
	s->call = grpc_channel_create_call(s->channel, NULL, GRPC_PROPAGATE_DEFAULTS, c->side.queue,
		grpc_slice_from_static_string(c->method), NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC),
		NULL);
	kp_rpc_stream_start(s);
	kp_rpc_stream_receive(s);
	return s;
}

void kp_rpc_client_destroy(struct kp_rpc_client *c)
{
	if (!c) {
		return;
	}
	kp_assert_on(c->side.loop);
	kp_rpc_side_fini(&c->side);
	kp_rpc_files_destroy(c->files);
	char **texts[] = { &c->address, &c->target, &c->method, &c->tls_dir, &c->server_name };
	for (size_t i = 0; i < KP_LEN(texts); i++) {
		kp_free(texts[i]);
	}
	kp_mem_free(c);
}
