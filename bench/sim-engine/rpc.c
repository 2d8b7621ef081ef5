/* DESIGN: gRPC core by its surface API. What is started as a batch ends with exactly one tag in the queue; a call has two kinds of batches of its own: one
   RECV_CLOSE from its first moment on (so a cancellation is seen at once), and sends, of which one is under way at a time. Everything a batch points at
   lives in struct kp_sim_rpc until the batch is over.

   Some requests for new calls of each method are posted in advance, so that a burst of calls does not wait for this thread between one and the next. */
#include "protocol.h"
#include "base/clock.h"
#include "base/mem.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>

enum { POSTED = 8, MAX_MESSAGE = 1 << 30 };

/* --- messages ------------------------------------------------------------------------------------------------------ */

grpc_byte_buffer *kp_sim_bytes(const void *p, size_t n)
{
	grpc_slice slice = grpc_slice_from_copied_buffer(p, n);
	grpc_byte_buffer *b = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	return b;
}

grpc_byte_buffer *kp_sim_pack(const ProtobufCMessage *m)
{
	grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(m));
	protobuf_c_message_pack(m, GRPC_SLICE_START_PTR(slice));
	grpc_byte_buffer *b = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	return b;
}

/* --- one call ------------------------------------------------------------------------------------------------------ */

static void maybe_destroy(struct kp_sim_rpc *r)
{
	if (!r->is_closed || r->is_sending) {
		return;
	}
	grpc_slice_unref(r->status_text);
	grpc_metadata_array_destroy(&r->metadata);
	grpc_call_unref(r->call);
	r->destroy(r);
}

static void on_closed(struct kp_sim_tag *t, bool ok)
{
	struct kp_sim_rpc *r = KP_CONTAINER(t, struct kp_sim_rpc, closed);
	(void)ok;
	r->is_closed = true;
	if (r->is_cancelled && !r->is_finished) {
		r->on_cancelled(r);
	}
	maybe_destroy(r);
}

static void on_sent(struct kp_sim_tag *t, bool ok)
{
	struct kp_sim_rpc *r = KP_CONTAINER(t, struct kp_sim_rpc, sent);
	r->is_sending = false;
	if (r->message) {
		grpc_byte_buffer_destroy(r->message);
		r->message = NULL;
	}
	if (ok && !r->is_finished && !r->is_closed) {
		r->on_sent(r);
	}
	maybe_destroy(r);
}

void kp_sim_rpc_init(
	struct kp_sim_rpc *r, struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata)
{
	r->sim = s;
	r->call = call;
	r->metadata = metadata;
	r->status_text = grpc_empty_slice();
	r->closed.fn = on_closed;
	r->sent.fn = on_sent;
	grpc_op op = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };
	op.data.recv_close_on_server.cancelled = &r->is_cancelled;
	KP_BUG_ON(grpc_call_start_batch(call, &op, 1, &r->closed, NULL) != GRPC_CALL_OK);
}

static void start(struct kp_sim_rpc *r, grpc_byte_buffer *message, bool more, const grpc_op *last)
{
	grpc_op ops[3] = { 0 };
	size_t n = 0;
	KP_BUG_ON(r->is_sending || r->is_finished);
	r->is_sending = true;
	r->message = message;
	if (!r->has_started) {
		/* A batch with the initial metadata is over when that is written, and core starts no write for a message that may wait. */
		more = false;
		r->has_started = true;
		ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
	}
	if (message) {
		ops[n].op = GRPC_OP_SEND_MESSAGE;
		ops[n].flags = more ? GRPC_WRITE_BUFFER_HINT : 0;
		ops[n++].data.send_message.send_message = message;
	}
	if (last) {
		r->is_finished = true;
		ops[n++] = *last;
	}
	KP_BUG_ON(grpc_call_start_batch(r->call, ops, n, &r->sent, NULL) != GRPC_CALL_OK);
}

void kp_sim_send(struct kp_sim_rpc *r, grpc_byte_buffer *message, bool more)
{
	start(r, message, more, NULL);
}

void kp_sim_finish(
	struct kp_sim_rpc *r, grpc_byte_buffer *message, grpc_status_code code, const char *text)
{
	grpc_op last = { .op = GRPC_OP_SEND_STATUS_FROM_SERVER };
	r->status_text = grpc_slice_from_copied_string(text);
	last.data.send_status_from_server.status = code;
	last.data.send_status_from_server.status_details = *text ? &r->status_text : NULL;
	start(r, message, false, &last);
}

/* --- new calls ----------------------------------------------------------------------------------------------------- */

struct acceptor {
	struct kp_sim_tag tag;
	struct kp_sim *sim;
	const struct kp_sim_protocol *protocol; /* NULL: of unknown methods */
	const struct kp_sim_method *method;
	void *registered;
	grpc_call *call;
	gpr_timespec deadline;
	grpc_metadata_array metadata;
	grpc_call_details details; /* of unknown methods */
	grpc_byte_buffer *payload;
};

static void post(struct acceptor *a)
{
	grpc_call_error rc;
	a->call = NULL;
	a->payload = NULL;
	grpc_metadata_array_init(&a->metadata);
	if (a->method->path) {
		rc = grpc_server_request_registered_call(a->sim->server, a->registered, &a->call,
			&a->deadline, &a->metadata, &a->payload, a->sim->cq, a->sim->cq, &a->tag);
	} else {
		grpc_call_details_init(&a->details);
		rc = grpc_server_request_call(a->sim->server, &a->call, &a->details, &a->metadata,
			a->sim->cq, a->sim->cq, &a->tag);
	}
	KP_BUG_ON(rc != GRPC_CALL_OK);
}

static void on_accept(struct kp_sim_tag *t, bool ok)
{
	struct acceptor *a = KP_CONTAINER(t, struct acceptor, tag);
	grpc_slice bytes = grpc_empty_slice();
	if (!a->method->path) {
		grpc_call_details_destroy(&a->details);
	}
	if (!ok) { /* shutting down */
		grpc_metadata_array_destroy(&a->metadata);
		kp_mem_free(a);
		return;
	}
	if (a->payload) {
		grpc_byte_buffer_reader reader;
		if (grpc_byte_buffer_reader_init(&reader, a->payload)) {
			bytes = grpc_byte_buffer_reader_readall(&reader);
			grpc_byte_buffer_reader_destroy(&reader);
		}
		grpc_byte_buffer_destroy(a->payload);
	}
	a->method->begin(a->sim, a->protocol, a->call, a->metadata,
		kp_str_n(GRPC_SLICE_START_PTR(bytes), GRPC_SLICE_LENGTH(bytes)));
	grpc_slice_unref(bytes);
	post(a);
}

/* --- the server ---------------------------------------------------------------------------------------------------- */

static void make_server(struct kp_sim *s)
{
	static char key_receive[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
		    key_ping[] = GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
		    key_reuse[] = GRPC_ARG_ALLOW_REUSEPORT,
		    key_streams[] = GRPC_ARG_MAX_CONCURRENT_STREAMS;
	grpc_arg args[] = {
		{ .type = GRPC_ARG_INTEGER, .key = key_receive, .value.integer = MAX_MESSAGE },
		{ .type = GRPC_ARG_INTEGER, .key = key_ping, .value.integer = 5000 },
		{ .type = GRPC_ARG_INTEGER, .key = key_reuse, .value.integer = 0 },
		{ .type = GRPC_ARG_INTEGER,
			.key = key_streams,
			.value.integer = (int)s->opts->max_streams },
	};
	grpc_channel_args all = { .num_args = s->opts->max_streams ? 4 : 3, .args = args };
	s->cq = grpc_completion_queue_create_for_next(NULL);
	s->server = grpc_server_create(&all, NULL);
	grpc_server_register_completion_queue(s->server, s->cq, NULL);
}

/* One method of a protocol, or (NULL) all that are no protocol's. */
struct served {
	const struct kp_sim_protocol *protocol;
	const struct kp_sim_method *method;
	void *registered;
};

static size_t list_methods(const struct kp_sim *s, struct served *list, size_t max)
{
	static const struct kp_sim_method unknown = { NULL, kp_sim_unknown };
	const struct kp_sim_protocol *const protocols[] = {
		s->opts->protocols & KP_SIM_VLLM ? &kp_sim_vllm : NULL,
		s->opts->protocols & KP_SIM_SGLANG ? &kp_sim_sglang : NULL,
	};
	size_t n = 0;
	for (size_t p = 0; p < KP_LEN(protocols); p++) {
		for (size_t i = 0; protocols[p] && protocols[p]->methods[i].path; i++) {
			KP_BUG_ON(n + 1 == max);
			list[n++] =
				(struct served){ protocols[p], &protocols[p]->methods[i], NULL };
		}
	}
	list[n++] = (struct served){ NULL, &unknown, NULL };
	return n;
}

static void accept_calls(struct kp_sim *s, const struct served *m)
{
	for (int k = 0; k < POSTED; k++) {
		struct acceptor *a = kp_new(struct acceptor);
		a->tag.fn = on_accept;
		a->sim = s;
		a->protocol = m->protocol;
		a->method = m->method;
		a->registered = m->registered;
		post(a);
	}
}

int kp_sim_listen(struct kp_sim *s, int *ret_port, struct kp_err *err)
{
	struct served list[32];
	size_t n = list_methods(s, list, KP_LEN(list));
	make_server(s);
	for (size_t i = 0; i < n; i++) {
		const char *path = list[i].method->path;
		list[i].registered = path ? grpc_server_register_method(s->server, path, NULL,
						    GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0)
					  : NULL;
	}
	grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
	int port = grpc_server_add_http2_port(s->server, s->opts->listen, creds);
	grpc_server_credentials_release(creds);
	if (port <= 0) {
		return kp_err_set(err, KP_UNAVAILABLE, "listen on `%s`: in use, or not an address",
			s->opts->listen);
	}
	grpc_server_start(s->server);
	for (size_t i = 0; i < n; i++) {
		accept_calls(s, &list[i]);
	}
	*ret_port = port;
	return 0;
}

static gpr_timespec timespec_of(int64_t ns)
{
	return (gpr_timespec){ .tv_sec = ns / KP_NS_PER_S,
		.tv_nsec = (int32_t)(ns % KP_NS_PER_S),
		.clock_type = GPR_CLOCK_MONOTONIC };
}

void kp_sim_serve_until(struct kp_sim *s, int64_t until_ns)
{
	grpc_event ev = grpc_completion_queue_next(s->cq, timespec_of(until_ns), NULL);
	if (ev.type == GRPC_OP_COMPLETE) {
		struct kp_sim_tag *t = ev.tag;
		t->fn(t, ev.success != 0);
	}
}

static void ignore(struct kp_sim_tag *t, bool ok)
{
	(void)t;
	(void)ok;
}

void kp_sim_shutdown(struct kp_sim *s)
{
	static struct kp_sim_tag done = { .fn = ignore };
	grpc_server_shutdown_and_notify(s->server, s->cq, &done);
	grpc_server_cancel_all_calls(s->server);
	for (;;) { /* all calls end with a tag, and the shutdown after them */
		grpc_event ev = grpc_completion_queue_next(s->cq, timespec_of(INT64_MAX / 2), NULL);
		struct kp_sim_tag *t = ev.tag;
		if (ev.type != GRPC_OP_COMPLETE) {
			break;
		}
		t->fn(t, ev.success != 0);
		if (t == &done) {
			grpc_completion_queue_shutdown(s->cq);
		}
	}
	grpc_server_destroy(s->server);
	grpc_completion_queue_destroy(s->cq);
}
