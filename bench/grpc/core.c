/* The load of bench/grpc through gRPC core's own client, as one would write it: one completion queue, one thread, one connection. A wave of calls first
   that is not counted. */
#include "bench/grpc/load.h"
#include "base/mem.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

enum step { SENT, RECEIVED, STATUS };

struct call;
struct tag {
	struct call *call;
	enum step step;
};
struct call {
	struct tag tags[STATUS + 1];
	grpc_call *call;
	grpc_metadata_array head, trailers;
	grpc_byte_buffer *request, *reply;
	grpc_status_code status;
	grpc_slice details;
	int n_pending; /* batches */
	bool has_status;
};

static struct load load;
static grpc_completion_queue *cq;
static grpc_channel *channel;
static void *method;
static uint64_t started, ended, messages, bad, sum;

static void batch(struct call *c, enum step step, const grpc_op *ops, size_t n)
{
	c->n_pending++;
	if (grpc_call_start_batch(c->call, ops, n, &c->tags[step], NULL) != GRPC_CALL_OK) {
		abort();
	}
}

static void receive(struct call *c)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };
	op.data.recv_message.recv_message = &c->reply;
	batch(c, RECEIVED, &op, 1);
}

static void start(void)
{
	struct call *c = kp_new(struct call);
	started++;
	for (int i = 0; i <= STATUS; i++) {
		c->tags[i] = (struct tag){ c, (enum step)i };
	}
	grpc_slice s = grpc_slice_from_static_string(load.request);
	c->request = grpc_raw_byte_buffer_create(&s, 1);
	c->call = grpc_channel_create_registered_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, cq,
		method, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	grpc_op ops[4] = { { .op = GRPC_OP_SEND_INITIAL_METADATA }, { .op = GRPC_OP_SEND_MESSAGE },
		{ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT }, { .op = GRPC_OP_RECV_INITIAL_METADATA } };
	ops[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY;
	ops[1].data.send_message.send_message = c->request;
	ops[3].data.recv_initial_metadata.recv_initial_metadata = &c->head;
	batch(c, SENT, ops, KP_LEN(ops));
	grpc_op status = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT };
	status.data.recv_status_on_client.trailing_metadata = &c->trailers;
	status.data.recv_status_on_client.status = &c->status;
	status.data.recv_status_on_client.status_details = &c->details;
	batch(c, STATUS, &status, 1);
	receive(c);
}

static void finish(struct call *c)
{
	ended++;
	bad += c->status != GRPC_STATUS_OK;
	grpc_byte_buffer_destroy(c->request);
	grpc_metadata_array_destroy(&c->head);
	grpc_metadata_array_destroy(&c->trailers);
	grpc_slice_unref(c->details);
	grpc_call_unref(c->call);
	kp_mem_free(c);
}

static void on_message(struct call *c)
{
	const grpc_slice_buffer *b = &c->reply->data.raw.slice_buffer;
	messages++;
	sum += b->count && GRPC_SLICE_LENGTH(b->slices[0]) ? GRPC_SLICE_START_PTR(b->slices[0])[0]
							   : 0;
	grpc_byte_buffer_destroy(c->reply);
	c->reply = NULL;
	receive(c);
}

static void run(uint64_t limit)
{
	started = ended = messages = bad = 0;
	while (started < load.concurrency && started < limit) {
		start();
	}
	while (ended < limit) {
		grpc_event e =
			grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
		const struct tag *t = e.tag;
		struct call *c = t->call;
		c->n_pending--;
		if (t->step == RECEIVED && c->reply) {
			on_message(c);
		} else if (t->step == STATUS) {
			c->has_status = true;
		}
		if (c->has_status && c->n_pending == 0) {
			finish(c);
			if (started < limit) {
				start();
			}
		}
	}
}

int main(int argc, char **argv)
{
	load = load_options(argc, argv);
	grpc_init();
	cq = grpc_completion_queue_create_for_next(NULL);
	grpc_channel_credentials *creds = grpc_insecure_credentials_create();
	channel = grpc_channel_create(load.address, creds, NULL);
	grpc_channel_credentials_release(creds);
	method = grpc_channel_register_call(channel, "/kelpie.bench.Stream/Run", NULL, NULL);
	run(load.concurrency);
	struct load_mark begin = load_mark();
	run(load.calls);
	load_report(begin, ended, messages, bad);
	int failed = bad || !sum;
	grpc_channel_destroy(channel);
	grpc_completion_queue_shutdown(cq);
	while (grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type !=
		GRPC_QUEUE_SHUTDOWN) {
	}
	grpc_completion_queue_destroy(cq);
	grpc_shutdown_blocking();
	return failed;
}
