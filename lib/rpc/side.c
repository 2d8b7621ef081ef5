/* DESIGN: a thread sits in grpc_completion_queue_next all the time, because gRPC core makes progress on
   connections only while some thread does. It does nothing but to post what came back into a mailbox,
   which the loop drains; so all of the rest runs on the loop, and gRPC's calls are made from there.

   The mailbox is our own, not the loop's: at the end it must be drained here and now.

   gRPC 1.51 makes its event engine (three descriptors and some threads) for the first channel or server
   that needs it, and destroys it with the last; and where it can have no descriptor for it, it aborts the
   process. So each side holds a channel that is never used: the engine is made at the start, and stays. */
#include "rpc/internal.h"

#include "net/addr.h"
#include "obs/log.h"

#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <uv.h>

enum {
	MESSAGE_MAX = 64 << 20,
	QUEUE_MAX = 128 << 20,
	STREAMS_MAX = 4096,
	/* A dead other side is noticed after the sum of both, in the worst case. */
	PING_AFTER_MS = 2500,
	PING_TIMEOUT_MS = 2500,
	METADATA_MAX = 16 << 10,
};

static atomic_uint accept_failures;

unsigned kp_rpc_accept_failures(void)
{
	return atomic_load_explicit(&accept_failures, memory_order_relaxed);
}

/* gRPC's own log, on any thread. What it calls errors is mostly what a stranger's connection did, and
   what happens to our streams comes as their status; only that a server stopped listening is said nowhere
   else. */
static void on_log(gpr_log_func_args *args)
{
	if (kp_str_starts(kp_str_c(args->message), KP_S("Failed accept4"))) {
		atomic_fetch_add_explicit(&accept_failures, 1, memory_order_relaxed);
	}
	kp_log(args->severity == GPR_LOG_SEVERITY_ERROR ? KP_LOG_INFO : KP_LOG_DEBUG, "gRPC",
		kp_f_z("message", args->message), kp_f_z("file", args->file),
		kp_f_int("line", args->line));
}

/* A finished operation on its way to the loop. */
struct event {
	struct kp_msg msg;
	struct kp_rpc_op *op;
	bool ok;
};

static void run_event(struct kp_msg *msg)
{
	struct event *e = KP_CONTAINER(msg, struct event, msg);
	struct kp_rpc_op *op = e->op;
	bool ok = e->ok;
	kp_mem_free(e);
	op->done(op, ok);
}

void kp_rpc_op_back(struct kp_rpc_side *side, struct kp_rpc_op *op, bool ok)
{
	struct event *e = kp_new(struct event);
	e->msg.run = run_event;
	e->op = op;
	e->ok = ok;
	kp_mailbox_post(side->box, &e->msg);
}

static void *run(void *arg)
{
	struct kp_rpc_side *side = arg;
	pthread_setname_np(pthread_self(), "kp-rpc");
	for (;;) {
		grpc_event e = grpc_completion_queue_next(
			side->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
		if (e.type == GRPC_QUEUE_SHUTDOWN) {
			return NULL;
		}
		kp_rpc_op_back(side, e.tag, e.success != 0);
	}
}

static void wake_loop(void *arg)
{
	uv_async_send(arg);
}
static void on_wake(uv_async_t *handle)
{
	struct kp_rpc_side *side = handle->data;
	(void)kp_loop_now(side->loop); /* the busy clock starts */
	kp_mailbox_drain(side->box);
}
static void free_wake(uv_handle_t *handle)
{
	kp_mem_free(handle);
}

void kp_rpc_side_init(
	struct kp_rpc_side *side, struct kp_loop *loop, const struct kp_rpc_limits *limits)
{
	static const struct kp_rpc_limits defaults = { MESSAGE_MAX, QUEUE_MAX, STREAMS_MAX };
	*side = (struct kp_rpc_side){ .loop = loop, .limits = limits ? *limits : defaults };
	side->limits.max_message_bytes = side->limits.max_message_bytes
						 ? side->limits.max_message_bytes
						 : defaults.max_message_bytes;
	side->limits.max_queue_bytes = side->limits.max_queue_bytes ? side->limits.max_queue_bytes
								    : defaults.max_queue_bytes;
	side->limits.max_streams =
		side->limits.max_streams ? side->limits.max_streams : defaults.max_streams;
	kp_list_init(&side->streams);
	side->wake = kp_new(uv_async_t);
	KP_BUG_ON(uv_async_init(kp_loop_uv(loop), side->wake, on_wake) != 0);
	side->wake->data = side;
	side->box = kp_mailbox_create(wake_loop, side->wake);
	gpr_set_log_function(on_log);
	gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
	grpc_init();
	side->queue = grpc_completion_queue_create_for_next(NULL);
	grpc_channel_credentials *none = grpc_insecure_credentials_create();
	side->keeper = grpc_channel_create("unix:/dev/null", none, NULL);
	grpc_channel_credentials_release(none);
}

void kp_rpc_side_run(struct kp_rpc_side *side)
{
	KP_BUG_ON(pthread_create(&side->thread, NULL, run, side) != 0);
	side->is_running = true;
}

void kp_rpc_side_fini(struct kp_rpc_side *side)
{
	side->is_stopping = true;
	kp_list_each (node, &side->streams) {
		struct kp_rpc_stream *s = KP_CONTAINER(node, struct kp_rpc_stream, link);
		if (s->call) {
			grpc_call_cancel(s->call, NULL);
		}
	}
	if (!side->is_running) {
		kp_rpc_side_run(side); /* somebody must see the queue end */
	}
	grpc_completion_queue_shutdown(side->queue);
	pthread_join(side->thread, NULL);
	kp_mailbox_destroy(side->box); /* runs what is in it */
	KP_BUG_ON(!kp_list_empty(&side->streams));
	grpc_completion_queue_destroy(side->queue);
	grpc_channel_destroy(side->keeper);
	uv_close((uv_handle_t *)side->wake, free_wake);
	grpc_shutdown_blocking();
}

static bool is_loopback(const struct kp_addr *a)
{
	const struct sockaddr_in *v4 = (const void *)&a->sock;
	const struct sockaddr_in6 *v6 = (const void *)&a->sock;
	if (a->is_unix || strcmp(a->host, "localhost") == 0) {
		return true;
	}
	if (a->socklen && a->sock.ss_family == AF_INET) {
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	}
	return a->socklen && a->sock.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

int kp_rpc_check_address(
	const char *text, const struct kp_rpc_tls *tls, struct kp_addr *ret, struct kp_err *err)
{
	struct kp_addr a;
	if (kp_addr_parse(text, &a, err) < 0) {
		return -1;
	}
	if (!kp_rpc_is_secure(tls) && !is_loopback(&a)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"use address `%s`: without certificates only a loopback address or a Unix socket is allowed",
			text);
	}
	*ret = a;
	return 0;
}

void kp_rpc_arg_int(struct kp_rpc_args *a, const char *key, int value)
{
	KP_BUG_ON(a->n == KP_RPC_ARGS_MAX);
	a->p[a->n++] = (grpc_arg){
		.type = GRPC_ARG_INTEGER, .key = kp_unconst(key), .value.integer = value
	};
}
void kp_rpc_arg_str(struct kp_rpc_args *a, const char *key, const char *value)
{
	KP_BUG_ON(a->n == KP_RPC_ARGS_MAX);
	a->p[a->n++] = (grpc_arg){
		.type = GRPC_ARG_STRING, .key = kp_unconst(key), .value.string = kp_unconst(value)
	};
}

void kp_rpc_args_init(struct kp_rpc_args *a, const struct kp_rpc_limits *limits)
{
	a->n = 0;
	kp_rpc_arg_int(a, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)limits->max_message_bytes);
	kp_rpc_arg_int(a, GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
	kp_rpc_arg_int(a, GRPC_ARG_MAX_METADATA_SIZE, METADATA_MAX);
	/* Pings, whether or not there is data, in both directions and as often as the other side likes. */
	kp_rpc_arg_int(a, GRPC_ARG_KEEPALIVE_TIME_MS, PING_AFTER_MS);
	kp_rpc_arg_int(a, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PING_TIMEOUT_MS);
	kp_rpc_arg_int(a, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
	kp_rpc_arg_int(a, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
	kp_rpc_arg_int(a, GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
	kp_rpc_arg_int(a, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
	kp_rpc_arg_int(a, GRPC_ARG_HTTP2_BDP_PROBE, 0);
	/* A compressed message could become any size in memory. */
	kp_rpc_arg_int(a, GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
	kp_rpc_arg_int(a, GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
	kp_rpc_arg_int(a, GRPC_ARG_ENABLE_CHANNELZ, 0);
}
