/* grpc_core_client ADDRESS: a client on gRPC core's own API, for tests/integ/grpc/test_server.py. Commands and answers are those of grpc_probe, as far as
   they are about calls: start (timeout_ms, pad, md, pause_after, cancel_after), cancel, resume; progress, end (without processed and ms).

   DESIGN: one thread, one completion queue, which is left every 10 ms to look at standard input. A call is freed when its three batches are back. */
#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum step { SENT, RECEIVED, STATUS };
enum { MAX_MD = 16, MAX_MESSAGE = 64 << 20 };

struct call;
struct tag {
	struct call *call;
	enum step step;
};
struct call {
	struct kp_list link;
	struct tag tags[STATUS + 1];
	grpc_call *call;
	grpc_metadata_array head, trailers;
	grpc_metadata md[MAX_MD];
	size_t n_md;
	grpc_byte_buffer *request, *reply;
	grpc_status_code status;
	grpc_slice details;
	int n_pending; /* batches */
	bool is_paused;
	uint64_t n_messages, n_bytes, pause_after, cancel_after, next_progress;
	uint32_t crc;
	char id[32];
};

static grpc_completion_queue *cq;
static grpc_channel *channel;
static struct kp_list calls;
static struct kp_buf input;

static void die(const char *what)
{
	fprintf(stderr, "grpc_core_client: %s\n", what);
	exit(2);
}

static kp_str slice_str(const grpc_slice *s)
{
	return kp_str_n(GRPC_SLICE_START_PTR(*s), GRPC_SLICE_LENGTH(*s));
}

static uint32_t crc32(uint32_t crc, kp_str bytes)
{
	static uint32_t table[256];
	for (uint32_t i = 0; i < 256 && !table[255]; i++) {
		uint32_t v = i;
		for (int bit = 0; bit < 8; bit++) {
			v = v & 1 ? v >> 1 ^ 0xedb88320 : v >> 1;
		}
		table[i] = v;
	}
	crc = ~crc;
	for (size_t i = 0; i < bytes.n; i++) {
		crc = crc >> 8 ^ table[(crc ^ (unsigned char)bytes.p[i]) & 0xff];
	}
	return ~crc;
}

/* ---- answers ---- */

static void print_json_string(kp_str s)
{
	putchar('"');
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c == '"' || c == '\\' || c < 0x20) {
			printf("\\u%04x", c);
		} else {
			putchar(c);
		}
	}
	putchar('"');
}

static void progress(const struct call *c)
{
	printf("{\"event\": \"progress\", \"id\": \"%s\", \"messages\": %llu}\n", c->id,
		(unsigned long long)c->n_messages);
	fflush(stdout);
}

static void print_end(const struct call *c)
{
	static const char *const codes[] = { "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
		"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED" };
	printf("{\"event\": \"end\", \"id\": \"%s\", \"code\": \"%s\", \"message\": ", c->id,
		codes[c->status]);
	print_json_string(slice_str(&c->details));
	printf(", \"messages\": %llu, \"bytes\": %llu, \"crc\": %u, \"trailers\": [",
		(unsigned long long)c->n_messages, (unsigned long long)c->n_bytes, c->crc);
	for (size_t i = 0; i < c->trailers.count; i++) {
		kp_str name = slice_str(&c->trailers.metadata[i].key);
		kp_str value = slice_str(&c->trailers.metadata[i].value);
		printf(i ? ", [" : "[");
		print_json_string(name);
		printf(", ");
		if (kp_str_ends(name, KP_S("-bin"))) {
			putchar('"');
			for (size_t k = 0; k < value.n; k++) {
				printf("%02x", (unsigned char)value.p[k]);
			}
			putchar('"');
		} else {
			print_json_string(value);
		}
		putchar(']');
	}
	printf("]}\n");
	fflush(stdout);
}

/* ---- calls ---- */

static void batch(struct call *c, enum step step, const grpc_op *ops, size_t n)
{
	c->n_pending++;
	if (grpc_call_start_batch(c->call, ops, n, &c->tags[step], NULL) != GRPC_CALL_OK) {
		die("batch refused");
	}
}

static void receive(struct call *c)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };
	op.data.recv_message.recv_message = &c->reply;
	batch(c, RECEIVED, &op, 1);
}

static void take_message(struct call *c)
{
	KP_AUTO(buf) struct kp_buf b;
	grpc_byte_buffer_reader r;
	grpc_slice s;
	kp_buf_init(&b, MAX_MESSAGE);
	grpc_byte_buffer_reader_init(&r, c->reply);
	while (grpc_byte_buffer_reader_next(&r, &s)) {
		kp_buf_add(&b, slice_str(&s));
		grpc_slice_unref(s);
	}
	grpc_byte_buffer_reader_destroy(&r);
	grpc_byte_buffer_destroy(c->reply);
	c->reply = NULL;
	char length[4] = { (char)(b.n >> 24), (char)(b.n >> 16), (char)(b.n >> 8), (char)b.n };
	c->crc = crc32(crc32(c->crc, kp_str_n(length, sizeof(length))), kp_buf_str(&b));
	c->n_messages++;
	c->n_bytes += b.n;
	if (c->n_messages == c->next_progress) {
		c->next_progress *= 10;
		progress(c);
	}
	if (c->n_messages == c->cancel_after) {
		grpc_call_cancel(c->call, NULL);
	}
	c->is_paused = c->n_messages == c->pause_after;
	if (c->is_paused) {
		progress(c);
	} else {
		receive(c);
	}
}

static void on_event(const struct tag *t)
{
	struct call *c = t->call;
	c->n_pending--;
	if (t->step == RECEIVED && c->reply) {
		take_message(c);
	}
	if (c->n_pending > 0 || c->is_paused) {
		return;
	}
	print_end(c);
	kp_list_del(&c->link);
	grpc_byte_buffer_destroy(c->request);
	grpc_metadata_array_destroy(&c->head);
	grpc_metadata_array_destroy(&c->trailers);
	for (size_t i = 0; i < c->n_md; i++) {
		grpc_slice_unref(c->md[i].key);
		grpc_slice_unref(c->md[i].value);
	}
	grpc_slice_unref(c->details);
	grpc_call_unref(c->call);
	kp_mem_free(c);
}

static void begin(struct call *c)
{
	grpc_op ops[4] = { { .op = GRPC_OP_SEND_INITIAL_METADATA }, { .op = GRPC_OP_SEND_MESSAGE },
		{ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT }, { .op = GRPC_OP_RECV_INITIAL_METADATA } };
	ops[0].data.send_initial_metadata.metadata = c->md;
	ops[0].data.send_initial_metadata.count = c->n_md;
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

/* ---- commands ---- */

static bool number_option(kp_str word, const char *name, uint64_t *ret)
{
	kp_str n = kp_str_c(name);
	return kp_str_starts(word, n) && word.n > n.n && word.p[n.n] == '=' &&
	       kp_str_u64(kp_str_skip(word, n.n + 1), UINT64_MAX, ret);
}

/* md=NAME:VALUE; the value of a "-bin" name is hex. */
static void add_metadata(struct call *c, kp_str text)
{
	ptrdiff_t colon = kp_str_find_char(text, ':');
	if (colon < 0 || c->n_md == MAX_MD) {
		die("bad md");
	}
	kp_str name = kp_str_sub(text, 0, (size_t)colon);
	kp_str value = kp_str_skip(text, (size_t)colon + 1);
	KP_AUTO(buf) struct kp_buf raw;
	kp_buf_init(&raw, value.n);
	for (size_t i = 0; kp_str_ends(name, KP_S("-bin")) && i + 2 <= value.n; i += 2) {
		uint64_t byte;
		if (!kp_str_hex64(kp_str_sub(value, i, i + 2), &byte)) {
			die("no hex in md");
		}
		kp_buf_addc(&raw, (char)byte);
	}
	if (kp_str_ends(name, KP_S("-bin"))) {
		value = kp_buf_str(&raw);
	}
	c->md[c->n_md].key = grpc_slice_from_copied_buffer(name.p, name.n);
	c->md[c->n_md++].value = grpc_slice_from_copied_buffer(value.p, value.n);
}

static void start(kp_str line)
{
	kp_str id = KP_STR_NULL, method = KP_STR_NULL, word, text = KP_STR_NULL;
	uint64_t timeout_ms = 0, pad = 0;
	struct call *c = kp_new(struct call);
	(void)kp_str_split(&line, ' ', &id);
	(void)kp_str_split(&line, ' ', &method);
	memcpy(c->id, id.p, KP_MIN(id.n, sizeof(c->id) - 1));
	c->next_progress = 1;
	while (kp_str_split(&line, ' ', &word)) {
		if (kp_str_eq(word, KP_S("--"))) {
			text = line;
			break;
		}
		if (kp_str_starts(word, KP_S("md="))) {
			add_metadata(c, kp_str_skip(word, 3));
		} else if (!number_option(word, "timeout_ms", &timeout_ms) &&
			   !number_option(word, "pad", &pad) &&
			   !number_option(word, "pause_after", &c->pause_after) &&
			   !number_option(word, "cancel_after", &c->cancel_after)) {
			die("bad option in start");
		}
	}
	for (int i = 0; i <= STATUS; i++) {
		c->tags[i] = (struct tag){ c, (enum step)i };
	}
	KP_AUTO(buf) struct kp_buf message;
	kp_buf_init(&message, SIZE_MAX);
	kp_buf_add(&message, text);
	for (uint64_t i = 0; i < pad; i++) {
		kp_buf_addc(&message, 'x');
	}
	grpc_slice s = grpc_slice_from_copied_buffer(message.p, message.n);
	c->request = grpc_raw_byte_buffer_create(&s, 1);
	grpc_slice_unref(s);
	gpr_timespec deadline =
		timeout_ms ? gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
				     gpr_time_from_millis((int64_t)timeout_ms, GPR_TIMESPAN))
			   : gpr_inf_future(GPR_CLOCK_MONOTONIC);
	grpc_slice path = grpc_slice_from_copied_buffer(method.p, method.n);
	c->call = grpc_channel_create_call(
		channel, NULL, GRPC_PROPAGATE_DEFAULTS, cq, path, NULL, deadline, NULL);
	grpc_slice_unref(path);
	kp_list_push(&calls, &c->link);
	begin(c);
}

static void command(kp_str line)
{
	kp_str verb = KP_STR_NULL;
	kp_str_split(&line, ' ', &verb);
	if (kp_str_eq(verb, KP_S("start"))) {
		start(line);
		return;
	}
	kp_list_each_safe (node, &calls) {
		struct call *c = KP_CONTAINER(node, struct call, link);
		if (!kp_str_eq(kp_str_c(c->id), line)) {
			continue;
		}
		if (kp_str_eq(verb, KP_S("cancel"))) {
			grpc_call_cancel(c->call, NULL);
		} else if (kp_str_eq(verb, KP_S("resume")) && c->is_paused) {
			c->is_paused = false;
			receive(c);
		}
	}
}

/* false: the end of it. */
static bool read_input(void)
{
	ssize_t n = -1;
	if (kp_buf_reserve(&input, 65536)) {
		n = read(0, input.p + input.n, 65536);
	}
	input.n += n > 0 ? (size_t)n : 0;
	ptrdiff_t end;
	while ((end = kp_str_find_char(kp_buf_str(&input), '\n')) >= 0) {
		command(kp_str_sub(kp_buf_str(&input), 0, (size_t)end));
		kp_buf_consume(&input, (size_t)end + 1);
	}
	return n > 0 || (n < 0 && errno == EAGAIN);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		die("usage: grpc_core_client ADDRESS");
	}
	grpc_init();
	kp_list_init(&calls);
	kp_buf_init(&input, 1 << 20);
	grpc_arg arg = { .type = GRPC_ARG_INTEGER,
		.key = kp_unconst(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH),
		.value.integer = MAX_MESSAGE };
	const grpc_channel_args args = { 1, &arg };
	grpc_channel_credentials *creds = grpc_insecure_credentials_create();
	channel = grpc_channel_create(argv[1], creds, &args);
	grpc_channel_credentials_release(creds);
	cq = grpc_completion_queue_create_for_next(NULL);
	if (fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK) < 0) {
		die("cannot poll stdin");
	}
	bool is_open = true;
	while (is_open || !kp_list_empty(&calls)) {
		if (is_open && !read_input()) {
			is_open = false;
			kp_list_each (node, &calls) {
				struct call *c = KP_CONTAINER(node, struct call, link);
				grpc_call_cancel(c->call, NULL);
				if (c->is_paused) {
					c->is_paused = false;
					receive(c);
				}
			}
		}
		gpr_timespec soon = gpr_time_add(
			gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(10, GPR_TIMESPAN));
		grpc_event e = grpc_completion_queue_next(cq, soon, NULL);
		if (e.type == GRPC_OP_COMPLETE) {
			on_event(e.tag);
		}
	}
	grpc_channel_destroy(channel);
	grpc_completion_queue_shutdown(cq);
	while (grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
		GRPC_QUEUE_SHUTDOWN) {
	}
	grpc_completion_queue_destroy(cq);
	grpc_shutdown_blocking();
	kp_buf_fini(&input);
	return 0;
}
