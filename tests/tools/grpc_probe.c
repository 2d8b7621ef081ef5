/* grpc_probe ADDRESS [option=value...]: makes the gRPC calls it is told on standard input, one command a line, and prints what happens as JSON, one object
   a line. For tests/integ/grpc. Ends at the end of its input or at `quit`.

   Options: keepalive_ms, keepalive_timeout_ms, connect_timeout_ms, window, max_message, max_pending, authority, ca (PEM file: TLS), insecure=1, cert, key, name (of the
   server in its certificate), keepalive_always=1.
   Commands:
	start ID METHOD [option=value...] [-- TEXT]   calls METHOD with TEXT (to the end of the line) as message
	    options: timeout_ms, wait=1 (for ready), pad=N (N bytes 'x' behind TEXT), md=NAME:VALUE (repeatable; "-bin" names: VALUE is hex),
	    show=1 (print each message), pause_after=N, cancel_after=N, destroy_after=N (inside the N-th message)
	pause ID | resume ID | cancel ID (nothing happens when the call has ended) | connect | state | destroy | quit
   Answers:
	{"event": "message", "id", "bytes", "text"}		only with show
	{"event": "progress", "id", "messages"}			at powers of ten, and where a call pauses or cancels itself
	{"event": "end", "id", "code", "message", "processed", "messages", "bytes", "crc", "ms", "trailers": [[name, value]...]}
	{"event": "state", "state", "calls", "ms"}
   "crc" is the CRC-32 (zlib's) over each message's length, 4 bytes big-endian, and bytes. "-bin" trailers are shown as hex. "ms" counts from the start of the call
   (of the probe, for state). */
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "json/write.h"
#include "net/grpc.h"
#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

enum { MAX_CALLS = 4096, MAX_METADATA = 16, LINE_MAX_BYTES = 1 << 20 };

struct probe_call {
	struct kp_grpc_call *call; /* NULL: not running */
	char id[32];
	bool show;
	uint64_t n_messages, n_bytes, next_progress;
	uint32_t crc;
	uint64_t pause_after, cancel_after, destroy_after;
	int64_t begun_ns;
};

static struct kp_loop *loop;
static struct kp_grpc_channel *channel;
static struct probe_call calls[MAX_CALLS];
static int64_t begun_ns;
static struct kp_buf input;
static uv_poll_t input_poll;

static void die(const char *what, const char *operand)
{
	fprintf(stderr, "grpc_probe: %s `%s`\n", what, operand);
	exit(2);
}

static void print_line(struct kp_buf *b)
{
	kp_buf_lit(b, "}\n");
	KP_BUG_ON(!kp_buf_ok(b));
	fwrite(b->p, 1, b->n, stdout);
	fflush(stdout);
}

static void begin(struct kp_buf *b, const char *event, const struct probe_call *c)
{
	kp_buf_init(b, 64 << 20);
	kp_buf_printf(b, "{\"event\": \"%s\"", event);
	if (c) {
		kp_buf_printf(b, ", \"id\": \"%s\"", c->id);
	}
}

static void field(struct kp_buf *b, const char *name, kp_str value)
{
	kp_buf_printf(b, ", \"%s\": ", name);
	kp_json_w_str(b, value);
}

static void add_hex(struct kp_buf *b, kp_str bytes)
{
	for (size_t i = 0; i < bytes.n; i++) {
		kp_buf_printf(b, "%02x", (unsigned char)bytes.p[i]);
	}
}

/* --- calls --- */

static void progress(const struct probe_call *c)
{
	KP_AUTO(buf) struct kp_buf b;
	begin(&b, "progress", c);
	kp_buf_printf(&b, ", \"messages\": %llu", (unsigned long long)c->n_messages);
	print_line(&b);
}

static uint32_t crc32(uint32_t crc, kp_str bytes)
{
	static uint32_t table[256];
	if (!table[1]) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t v = i;
			for (int bit = 0; bit < 8; bit++) {
				v = v & 1 ? v >> 1 ^ 0xedb88320 : v >> 1;
			}
			table[i] = v;
		}
	}
	crc = ~crc;
	for (size_t i = 0; i < bytes.n; i++) {
		crc = crc >> 8 ^ table[(crc ^ (unsigned char)bytes.p[i]) & 0xff];
	}
	return ~crc;
}

static void on_message(void *user, kp_str bytes)
{
	struct probe_call *c = user;
	char length[4] = { (char)(bytes.n >> 24), (char)(bytes.n >> 16), (char)(bytes.n >> 8),
		(char)bytes.n };
	c->crc = crc32(crc32(c->crc, kp_str_n(length, sizeof(length))), bytes);
	c->n_messages++;
	c->n_bytes += bytes.n;
	if (c->show) {
		KP_AUTO(buf) struct kp_buf b;
		begin(&b, "message", c);
		kp_buf_printf(&b, ", \"bytes\": %zu", bytes.n);
		field(&b, "text", kp_str_sub(bytes, 0, 200));
		print_line(&b);
	}
	if (c->n_messages == c->next_progress) {
		c->next_progress *= 10;
		progress(c);
	}
	if (c->n_messages == c->pause_after) {
		kp_grpc_pause(c->call, true);
		progress(c);
	}
	if (c->n_messages == c->cancel_after) {
		kp_grpc_cancel(kp_steal(c->call));
		progress(c);
	}
	if (c->n_messages == c->destroy_after) {
		kp_grpc_channel_destroy(kp_steal(channel));
	}
}

static void on_end(void *user, const struct kp_err *status, bool processed,
	const struct kp_header *trailers, size_t n)
{
	struct probe_call *c = user;
	c->call = NULL;
	KP_AUTO(buf) struct kp_buf b;
	begin(&b, "end", c);
	field(&b, "code", kp_str_c(kp_code_name(status->code)));
	field(&b, "message", kp_str_c(status->msg));
	kp_buf_printf(&b,
		", \"processed\": %s, \"messages\": %llu, \"bytes\": %llu, \"crc\": %u, \"ms\": %lld",
		processed ? "true" : "false", (unsigned long long)c->n_messages,
		(unsigned long long)c->n_bytes, c->crc,
		(long long)((kp_now_ns() - c->begun_ns) / KP_NS_PER_MS));
	kp_buf_lit(&b, ", \"trailers\": [");
	for (size_t i = 0; i < n; i++) {
		kp_buf_addz(&b, i ? ", [" : "[");
		kp_json_w_str(&b, trailers[i].name);
		kp_buf_lit(&b, ", ");
		if (kp_str_ends(trailers[i].name, KP_S("-bin"))) {
			kp_buf_addc(&b, '"');
			add_hex(&b, trailers[i].value);
			kp_buf_addc(&b, '"');
		} else {
			kp_json_w_str(&b, trailers[i].value);
		}
		kp_buf_addc(&b, ']');
	}
	kp_buf_addc(&b, ']');
	print_line(&b);
}

static const struct kp_grpc_call_ops call_ops = { .message = on_message, .end = on_end };

/* "name=value" -> value, when the name is this one. */
static bool option(kp_str word, const char *name, kp_str *ret_value)
{
	kp_str n = kp_str_c(name);
	if (!kp_str_starts(word, n) || word.n <= n.n || word.p[n.n] != '=') {
		return false;
	}
	*ret_value = kp_str_skip(word, n.n + 1);
	return true;
}

static bool number_option(kp_str word, const char *name, uint64_t *ret)
{
	kp_str v;
	return option(word, name, &v) && kp_str_u64(v, UINT64_MAX, ret);
}

/* NAME:VALUE; a "-bin" value is hex and is decoded in place. */
static struct kp_header metadata_of(kp_str text)
{
	ptrdiff_t colon = kp_str_find_char(text, ':');
	if (colon < 0) {
		die("no colon in md", "");
	}
	struct kp_header h = { kp_str_sub(text, 0, (size_t)colon),
		kp_str_skip(text, (size_t)colon + 1) };
	if (kp_str_ends(h.name, KP_S("-bin"))) {
		char *out = kp_unconst(h.value.p);
		for (size_t i = 0; i + 2 <= h.value.n; i += 2) {
			uint64_t byte;
			if (!kp_str_hex64(kp_str_sub(h.value, i, i + 2), &byte)) {
				die("no hex in md", "");
			}
			out[i / 2] = (char)byte;
		}
		h.value.n /= 2;
	}
	return h;
}

static struct probe_call *find_call(kp_str id)
{
	for (size_t i = 0; i < MAX_CALLS; i++) {
		if (calls[i].call && kp_str_eq(kp_str_c(calls[i].id), id)) {
			return &calls[i];
		}
	}
	return NULL;
}

static struct probe_call *free_call(kp_str id)
{
	for (size_t i = 0; i < MAX_CALLS; i++) {
		if (!calls[i].call) {
			calls[i] =
				(struct probe_call){ .next_progress = 1, .begun_ns = kp_now_ns() };
			memcpy(calls[i].id, id.p, KP_MIN(id.n, sizeof(calls[i].id) - 1));
			return &calls[i];
		}
	}
	die("too many calls at", "start");
	return NULL;
}

static void start(kp_str line)
{
	kp_str id, method, word, text = KP_STR_NULL;
	if (!kp_str_split(&line, ' ', &id) || !kp_str_split(&line, ' ', &method)) {
		die("bad command", "start");
	}
	struct probe_call *c = free_call(id);
	struct kp_header md[MAX_METADATA];
	size_t n_md = 0;
	uint64_t timeout_ms = 0, wait = 0, pad = 0, show = 0;
	while (kp_str_split(&line, ' ', &word)) {
		kp_str v;
		if (kp_str_eq(word, KP_S("--"))) {
			text = line;
			break;
		}
		if (option(word, "md", &v) && n_md < MAX_METADATA) {
			md[n_md++] = metadata_of(v);
		} else if (!number_option(word, "timeout_ms", &timeout_ms) &&
			   !number_option(word, "wait", &wait) &&
			   !number_option(word, "pad", &pad) &&
			   !number_option(word, "show", &show) &&
			   !number_option(word, "pause_after", &c->pause_after) &&
			   !number_option(word, "cancel_after", &c->cancel_after) &&
			   !number_option(word, "destroy_after", &c->destroy_after)) {
			die("bad option in", "start");
		}
	}
	c->show = show != 0;
	KP_AUTO(buf) struct kp_buf message, path;
	kp_buf_init(&message, SIZE_MAX);
	kp_buf_init(&path, 1000);
	kp_buf_add(&message, text);
	for (uint64_t i = 0; i < pad; i++) {
		kp_buf_addc(&message, 'x');
	}
	kp_buf_add(&path, method);
	int64_t deadline = timeout_ms ? kp_now_ns() + (int64_t)timeout_ms * KP_NS_PER_MS : 0;
	c->call = kp_grpc_start(channel, kp_buf_cstr(&path), md, n_md, kp_buf_str(&message),
		deadline, wait != 0, &call_ops, c);
}

static void print_state(void)
{
	static const char *const names[] = { "idle", "connecting", "ready", "backoff" };
	KP_AUTO(buf) struct kp_buf b;
	begin(&b, "state", NULL);
	field(&b, "state", kp_str_c(channel ? names[kp_grpc_channel_state(channel)] : "destroyed"));
	kp_buf_printf(&b, ", \"calls\": %zu, \"ms\": %lld",
		channel ? kp_grpc_channel_calls(channel) : 0,
		(long long)((kp_now_ns() - begun_ns) / KP_NS_PER_MS));
	print_line(&b);
}

static void finish(void)
{
	if (channel) {
		kp_grpc_channel_destroy(kp_steal(channel));
	}
	if (!uv_is_closing((uv_handle_t *)&input_poll)) {
		uv_close((uv_handle_t *)&input_poll, NULL);
	}
	kp_loop_stop(loop);
}

static void command(kp_str line)
{
	kp_str verb = KP_STR_NULL;
	kp_str_split(&line, ' ', &verb);
	struct probe_call *c = line.p ? find_call(line) : NULL;
	if (kp_str_eq(verb, KP_S("start"))) {
		start(line);
	} else if (kp_str_eq(verb, KP_S("state"))) {
		print_state();
	} else if (kp_str_eq(verb, KP_S("connect"))) {
		kp_grpc_channel_connect(channel);
	} else if (kp_str_eq(verb, KP_S("destroy"))) {
		kp_grpc_channel_destroy(kp_steal(channel));
	} else if (kp_str_eq(verb, KP_S("quit"))) {
		finish();
	} else if (kp_str_eq(verb, KP_S("cancel"))) {
		if (c) {
			kp_grpc_cancel(kp_steal(c->call));
		}
	} else if (kp_str_eq(verb, KP_S("pause")) || kp_str_eq(verb, KP_S("resume"))) {
		if (c) {
			kp_grpc_pause(c->call, kp_str_eq(verb, KP_S("pause")));
		}
	} else {
		die("bad command", "");
	}
}

static void on_input(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	kp_loop_now(loop);
	if (!kp_buf_reserve(&input, 65536)) {
		die("line too long", "stdin");
	}
	ssize_t n = read(0, input.p + input.n, 65536);
	if (n < 0 && errno != EAGAIN) {
		die("cannot read", "stdin");
	}
	input.n += n > 0 ? (size_t)n : 0;
	ptrdiff_t end;
	while ((end = kp_str_find_char(kp_buf_str(&input), '\n')) >= 0) {
		command(kp_str_sub(kp_buf_str(&input), 0, (size_t)end));
		kp_buf_consume(&input, (size_t)end + 1);
	}
	if (n == 0 && !uv_is_closing((uv_handle_t *)poll)) {
		finish();
	}
}

static struct kp_grpc_channel *create_channel(
	int argc, char **argv, struct kp_tls_context **ret_tls)
{
	struct kp_grpc_opts o = { .address = argv[1] };
	struct kp_tls_opts t = { .insecure = false };
	struct kp_err err;
	for (int i = 2; i < argc; i++) {
		kp_str word = kp_str_c(argv[i]);
		kp_str text;
		uint64_t v = 0;
		if (option(word, "authority", &text)) {
			o.authority = text.p;
		} else if (option(word, "ca", &text)) {
			t.ca_file = text.p;
		} else if (option(word, "cert", &text)) {
			t.cert_file = text.p;
		} else if (option(word, "key", &text)) {
			t.key_file = text.p;
		} else if (option(word, "name", &text)) {
			o.tls_name = text.p;
		} else if (number_option(word, "keepalive_always", &v)) {
			o.keepalive_always = v != 0;
		} else if (number_option(word, "insecure", &v)) {
			t.insecure = v != 0;
		} else if (number_option(word, "keepalive_ms", &v)) {
			o.keepalive_time_ns = (int64_t)v * KP_NS_PER_MS;
		} else if (number_option(word, "keepalive_timeout_ms", &v)) {
			o.keepalive_timeout_ns = (int64_t)v * KP_NS_PER_MS;
		} else if (number_option(word, "connect_timeout_ms", &v)) {
			o.connect_timeout_ns = (int64_t)v * KP_NS_PER_MS;
		} else if (number_option(word, "window", &v)) {
			o.stream_window_bytes = v;
		} else if (number_option(word, "max_message", &v)) {
			o.max_message_bytes = v;
		} else if (number_option(word, "max_pending", &v)) {
			o.max_pending_calls = v;
		} else {
			die("bad option", argv[i]);
		}
	}
	if (t.ca_file || t.insecure) {
		*ret_tls = o.tls = kp_tls_client(&t, &err);
		if (!o.tls) {
			die(err.msg, "tls");
		}
	}
	return kp_grpc_channel_create(loop, &o);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		die("usage:", "grpc_probe ADDRESS [option=value...]");
	}
	begun_ns = kp_now_ns();
	loop = kp_loop_create("probe");
	struct kp_tls_context *tls = NULL;
	channel = create_channel(argc, argv, &tls);
	kp_buf_init(&input, LINE_MAX_BYTES);
	if (fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK) < 0 ||
		uv_poll_init(kp_loop_uv(loop), &input_poll, 0) != 0) {
		die("cannot poll", "stdin");
	}
	uv_poll_start(&input_poll, UV_READABLE, on_input);
	kp_loop_run(loop);
	kp_loop_destroy(loop);
	kp_tls_unref(tls);
	kp_buf_fini(&input);
	return 0;
}
