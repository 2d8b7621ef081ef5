/* DESIGN: a stream has at most one operation of each kind under way: start (headers), receive, send,
   finish (a server's status), and `last`, which is under way from the beginning and comes back when
   everything is over. When `last` and all others are back, `closed` is called and the stream freed; so
   it lives through every callback that its owner gets.

   The next message is asked for when the owner has had the one before: what it does not read waits in
   HTTP/2's windows, at the sender. What is to be sent waits here, counted. */
#include "rpc/internal.h"

#include "base/clock.h"
#include "base/ref.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <stdio.h>

enum { QUEUED_COST = 128 };         /* of a waiting message, beside its bytes */
#define LINGER_NS (5 * KP_NS_PER_S) /* for the rest of the queue to leave after close */

struct kp_rpc_shared {
	struct kp_refcount refs;
	size_t n;
	char bytes[];
};
struct queued {
	struct kp_list link;
	struct kp_rpc_shared *bytes;
};

struct kp_rpc_shared *kp_rpc_shared_create(kp_str bytes)
{
	struct kp_rpc_shared *s = kp_xmalloc(sizeof(*s) + bytes.n);
	kp_ref_init(&s->refs);
	s->n = bytes.n;
	if (bytes.n) {
		memcpy(s->bytes, bytes.p, bytes.n);
	}
	return s;
}
void kp_rpc_shared_unref(struct kp_rpc_shared *s)
{
	if (s && kp_ref_put(&s->refs)) {
		kp_mem_free(s);
	}
}
static void release(void *shared) /* on any thread */
{
	kp_rpc_shared_unref(shared);
}

/* --- life --- */

static void on_start(struct kp_rpc_op *op, bool ok);
static void on_receive(struct kp_rpc_op *op, bool ok);
static void on_send(struct kp_rpc_op *op, bool ok);
static void on_finish(struct kp_rpc_op *op, bool ok);
static void on_last(struct kp_rpc_op *op, bool ok);

struct kp_rpc_stream *kp_rpc_stream_create(struct kp_rpc_side *side, bool is_server)
{
	struct kp_rpc_stream *s = kp_new(struct kp_rpc_stream);
	s->side = side;
	s->is_server = is_server;
	s->start.done = on_start;
	s->receive.done = on_receive;
	s->send.done = on_send;
	s->finish.done = on_finish;
	s->last.done = on_last;
	s->details = grpc_empty_slice();
	grpc_metadata_array_init(&s->initial);
	grpc_metadata_array_init(&s->trailing);
	kp_list_init(&s->queue);
	kp_list_push(&side->streams, &s->link);
	side->n_streams++;
	return s;
}

static void begin(struct kp_rpc_stream *s, const grpc_op *ops, size_t n, struct kp_rpc_op *tag)
{
	KP_BUG_ON(grpc_call_start_batch(s->call, ops, n, tag, NULL) != GRPC_CALL_OK);
	s->n_under_way++;
}

static void drop_queue(struct kp_rpc_stream *s)
{
	struct kp_list *node;
	while ((node = kp_list_pop(&s->queue))) {
		struct queued *q = KP_CONTAINER(node, struct queued, link);
		kp_rpc_shared_unref(q->bytes);
		kp_mem_free(q);
	}
	s->queued_bytes = 0;
}

static void set_status(struct kp_rpc_stream *s, const struct kp_err *status)
{
	if (!s->has_status) {
		s->has_status = true;
		s->status = status ? *status : KP_ERR_INIT;
	}
}

/* What gRPC says, where we did not end it ourselves. */
static void read_status(struct kp_rpc_stream *s)
{
	const char *peer = s->peer ? s->peer : "";
	struct kp_err err = KP_ERR_INIT;
	if (s->is_server && s->cancelled) {
		kp_err_set(&err, KP_CANCELLED,
			"stream of `%s`: cancelled, or the connection was lost", peer);
	} else if (!s->is_server && s->code != GRPC_STATUS_OK) {
		enum kp_code code = s->code > 0 && s->code <= GRPC_STATUS_UNAUTHENTICATED
					    ? (enum kp_code)s->code
					    : KP_UNKNOWN;
		/* Before it answers, it may be that one of the two does not take the other's certificate. */
		bool is_told = code == KP_UNAVAILABLE && !s->has_answer;
		kp_err_set(&err, code, "stream to `%s`%s: %.*s", peer, is_told ? s->tls : "",
			(int)KP_MIN(GRPC_SLICE_LENGTH(s->details), (size_t)KP_ERR_MSG),
			(const char *)GRPC_SLICE_START_PTR(s->details));
	}
	set_status(s, &err);
}

static void destroy(struct kp_rpc_stream *s)
{
	kp_timer_stop(s->side->loop, &s->linger);
	kp_list_del(&s->link);
	s->side->n_streams--;
	drop_queue(s);
	if (s->call) {
		grpc_call_unref(s->call);
	}
	if (s->channel) {
		grpc_channel_destroy(s->channel);
	}
	grpc_metadata_array_destroy(&s->initial);
	grpc_metadata_array_destroy(&s->trailing);
	grpc_slice_unref(s->details);
	kp_free(&s->peer);
	kp_free(&s->tls);
	kp_mem_free(s);
}

/* Last line of every operation's return. */
static void came_back(struct kp_rpc_stream *s)
{
	KP_BUG_ON(s->n_under_way == 0);
	if (--s->n_under_way || !s->is_over) {
		return;
	}
	read_status(s);
	if (s->ops.closed) {
		s->ops.closed(s->user, &s->status);
	}
	destroy(s);
}

static grpc_status_code code_on_the_wire(enum kp_code code)
{
	return code <= KP_UNAUTHENTICATED ? (grpc_status_code)code : GRPC_STATUS_UNKNOWN;
}

/* Ends the stream now, from our side; what waits to be sent is lost. */
static void abandon(struct kp_rpc_stream *s, const struct kp_err *status)
{
	set_status(s, status);
	s->is_closing = true;
	s->is_abandoned = true;
	drop_queue(s);
	if (s->call && !s->is_over) {
		grpc_call_cancel_with_status(s->call,
			status->code ? code_on_the_wire(status->code) : GRPC_STATUS_CANCELLED,
			status->msg, NULL);
	}
}

/* --- beginning and end --- */

void kp_rpc_stream_start(struct kp_rpc_stream *s)
{
	grpc_op headers[2] = { { .op = GRPC_OP_SEND_INITIAL_METADATA },
		{ .op = GRPC_OP_RECV_INITIAL_METADATA } };
	grpc_op last = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };
	headers[1].data.recv_initial_metadata.recv_initial_metadata = &s->initial;
	if (s->is_server) {
		last.data.recv_close_on_server.cancelled = &s->cancelled;
	} else {
		last.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
		last.data.recv_status_on_client.trailing_metadata = &s->trailing;
		last.data.recv_status_on_client.status = &s->code;
		last.data.recv_status_on_client.status_details = &s->details;
	}
	begin(s, &last, 1, &s->last);
	begin(s, headers, s->is_server ? 1 : 2, &s->start);
}

void kp_rpc_stream_stillborn(struct kp_rpc_stream *s)
{
	s->n_under_way++;
	kp_rpc_op_back(s->side, &s->last, false);
}

static void on_start(struct kp_rpc_op *op, bool ok)
{
	(void)ok;
	came_back(KP_CONTAINER(op, struct kp_rpc_stream, start));
}

static void on_last(struct kp_rpc_op *op, bool ok)
{
	(void)ok;
	struct kp_rpc_stream *s = KP_CONTAINER(op, struct kp_rpc_stream, last);
	s->is_over = true;
	drop_queue(s);
	came_back(s);
}

static void on_finish(struct kp_rpc_op *op, bool ok)
{
	(void)ok;
	came_back(KP_CONTAINER(op, struct kp_rpc_stream, finish));
}

/* A server's stream: the status, once everything before it has left. */
static void finish_if_sent(struct kp_rpc_stream *s)
{
	if (!s->is_closing || s->is_abandoned || s->is_over || s->side->is_stopping || s->sending ||
		!kp_list_empty(&s->queue)) {
		return;
	}
	grpc_slice message = grpc_slice_from_copied_string(s->status.msg);
	grpc_op op = { .op = GRPC_OP_SEND_STATUS_FROM_SERVER };
	op.data.send_status_from_server.status = code_on_the_wire(s->status.code);
	op.data.send_status_from_server.status_details = &message;
	begin(s, &op, 1, &s->finish);
	grpc_slice_unref(message);
}

static void on_linger(struct kp_timer *t)
{
	struct kp_rpc_stream *s = KP_CONTAINER(t, struct kp_rpc_stream, linger);
	abandon(s, &s->status);
}

/* A server's stream: nothing more is taken, what is queued leaves, then the status. */
static void wind_down(struct kp_rpc_stream *s)
{
	s->is_closing = true;
	kp_timer_start(
		s->side->loop, &s->linger, kp_loop_now(s->side->loop) + LINGER_NS, on_linger);
	finish_if_sent(s);
}

void kp_rpc_stream_close(struct kp_rpc_stream *s, const struct kp_err *status)
{
	kp_assert_on(s->side->loop);
	if (s->is_closing) {
		return;
	}
	if (!s->is_server) {
		static const struct kp_err cancelled = { .code = KP_CANCELLED,
			.msg = "the stream was closed on this side" };
		abandon(s, status ? status : &cancelled);
		return;
	}
	set_status(s, status);
	wind_down(s);
}

/* --- receiving --- */

void kp_rpc_stream_receive(struct kp_rpc_stream *s)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };
	op.data.recv_message.recv_message = &s->received;
	begin(s, &op, 1, &s->receive);
}

static void deliver(struct kp_rpc_stream *s, grpc_byte_buffer *b)
{
	grpc_byte_buffer_reader reader;
	if (!grpc_byte_buffer_reader_init(&reader, b)) {
		const struct kp_err err = { .code = KP_INTERNAL,
			.msg = "read message: not readable" };
		abandon(s, &err);
		return;
	}
	grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	s->ops.message(s->user, kp_str_n(GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all)));
	grpc_slice_unref(all);
}

static void on_receive(struct kp_rpc_op *op, bool ok)
{
	(void)ok; /* without a message it says nothing more */
	struct kp_rpc_stream *s = KP_CONTAINER(op, struct kp_rpc_stream, receive);
	grpc_byte_buffer *b = s->received;
	s->received = NULL;
	s->has_answer = s->has_answer || b;
	if (!b && s->is_server && !s->is_closing) {
		wind_down(s); /* the client has no more to say, or is gone: `last` tells */
	}
	if (b && b->data.raw.compression != GRPC_COMPRESS_NONE) {
		struct kp_err err = KP_ERR_INIT;
		kp_err_set(
			&err, KP_UNIMPLEMENTED, "read message of `%s`: it is compressed", s->peer);
		abandon(s, &err);
	} else if (b && !s->is_closing) {
		deliver(s, b);
	}
	if (b) {
		grpc_byte_buffer_destroy(b);
	}
	if (b && !s->is_closing && !s->side->is_stopping) {
		kp_rpc_stream_receive(s);
	}
	came_back(s);
}

/* --- sending --- */

static void send_next(struct kp_rpc_stream *s)
{
	struct kp_list *node;
	if (s->sending || s->is_over || s->side->is_stopping || !(node = kp_list_pop(&s->queue))) {
		return;
	}
	struct queued *q = KP_CONTAINER(node, struct queued, link);
	grpc_slice slice =
		grpc_slice_new_with_user_data(q->bytes->bytes, q->bytes->n, release, q->bytes);
	s->sending_bytes = q->bytes->n + QUEUED_COST;
	s->sending = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	kp_mem_free(q);
	grpc_op op = { .op = GRPC_OP_SEND_MESSAGE };
	op.data.send_message.send_message = s->sending;
	begin(s, &op, 1, &s->send);
}

static void on_send(struct kp_rpc_op *op, bool ok)
{
	struct kp_rpc_stream *s = KP_CONTAINER(op, struct kp_rpc_stream, send);
	grpc_byte_buffer_destroy(s->sending);
	s->sending = NULL;
	s->queued_bytes -= KP_MIN(s->sending_bytes, s->queued_bytes);
	if (!ok) {
		drop_queue(s); /* `last` says why */
	}
	send_next(s);
	if (s->is_server) {
		finish_if_sent(s);
	}
	came_back(s);
}

void kp_rpc_stream_send_shared(struct kp_rpc_stream *s, struct kp_rpc_shared *bytes)
{
	kp_assert_on(s->side->loop);
	if (s->is_closing || s->is_over || s->side->is_stopping || !s->call) {
		return;
	}
	size_t cost = bytes->n + QUEUED_COST;
	if (cost > s->side->limits.max_queue_bytes - s->queued_bytes) {
		struct kp_err err = KP_ERR_INIT;
		kp_err_set(&err, KP_RESOURCE_EXHAUSTED,
			"send to `%s`: %zu bytes, while %zu wait already, at most %zu allowed",
			s->peer, bytes->n, s->queued_bytes, s->side->limits.max_queue_bytes);
		abandon(s, &err);
		return;
	}
	struct queued *q = kp_new(struct queued);
	q->bytes = bytes;
	kp_ref_get(&bytes->refs);
	s->queued_bytes += cost;
	kp_list_push(&s->queue, &q->link);
	send_next(s);
}

void kp_rpc_stream_send(struct kp_rpc_stream *s, kp_str bytes)
{
	struct kp_rpc_shared *shared = kp_rpc_shared_create(bytes);
	kp_rpc_stream_send_shared(s, shared);
	kp_rpc_shared_unref(shared);
}
