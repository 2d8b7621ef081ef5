/* The load of bench/grpc through lib/net's client, one loop, one connection. A wave of calls first that is not counted. */
#include "bench/grpc/load.h"
#include "net/grpc.h"

static struct load load;
static struct kp_loop *loop;
static struct kp_grpc_channel *channel;
static struct load_mark begin;
static uint64_t started, ended, messages, bad, limit, sum;
static bool is_warm;

static void on_message(void *user, kp_str bytes)
{
	(void)user;
	messages++;
	sum += bytes.n ? (unsigned char)bytes.p[0] : 0;
}

static void start(void);

static void on_end(void *user, const struct kp_err *status, bool processed,
	const struct kp_header *trailers, size_t n)
{
	(void)user;
	(void)processed;
	(void)trailers;
	(void)n;
	ended++;
	if (status->code != KP_OK) {
		bad++;
		fprintf(stderr, "%s\n", status->msg);
	}
	if (started < limit) {
		start();
	} else if (ended == limit && is_warm) {
		load_report(begin, ended, messages, bad);
		kp_loop_stop(loop);
	} else if (ended == limit) {
		is_warm = true;
		started = ended = messages = bad = 0;
		limit = load.calls;
		begin = load_mark();
		for (uint64_t i = 0; i < load.concurrency && started < limit; i++) {
			start();
		}
	}
}

static const struct kp_grpc_call_ops ops = { .message = on_message, .end = on_end };

static void start(void)
{
	started++;
	kp_grpc_start(channel, "/kelpie.bench.Stream/Run", NULL, 0, kp_str_c(load.request), 0, true,
		&ops, NULL);
}

int main(int argc, char **argv)
{
	load = load_options(argc, argv);
	loop = kp_loop_create("bench");
	const struct kp_grpc_opts o = { .address = load.address,
		.stream_window_bytes = load.window };
	channel = kp_grpc_channel_create(loop, &o);
	limit = load.concurrency;
	for (uint64_t i = 0; i < load.concurrency; i++) {
		start();
	}
	kp_loop_run(loop);
	kp_grpc_channel_destroy(channel);
	kp_loop_destroy(loop);
	return bad || !sum;
}
