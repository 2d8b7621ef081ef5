/* Calls of a gRPC client, good and bad, in any pieces. The input is a script, since bytes that a fuzzer changes in a header block are seldom a header block any more (http2.c
   tries those): the first byte says how the frames are cut, then each record is a frame: what it is and how many of the following bytes it takes. */
#include "tests/unit/net/grpc_memory.h"
#include "tests/unit/net/h2_peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum op { CALL = 0, BAD_CALL, DATA, LAST_DATA, MESSAGE, RST, OTHER, RAW };

struct script {
	struct h2_peer p;
	kp_str in;
	int32_t next_id;
};

static unsigned char next_byte(struct script *s)
{
	unsigned char c = s->in.n ? (unsigned char)s->in.p[0] : 0;
	s->in = kp_str_skip(s->in, KP_MIN(s->in.n, (size_t)1));
	return c;
}

static kp_str next_bytes(struct script *s)
{
	size_t n = next_byte(s);
	kp_str bytes = kp_str_sub(s->in, 0, n);
	s->in = kp_str_skip(s->in, bytes.n);
	return bytes;
}

/* One of the headers that the server looks at has another value, or a second one. */
static void bad_call(struct script *s)
{
	static const char *const names[] = { ":method", ":path", "te", "content-type",
		"grpc-timeout", "grpc-encoding", "content-length", "priority" };
	const char *pairs[] = { ":method", "POST", ":scheme", "http", ":path", "/a.B/C",
		":authority", "x", "te", "trailers", "content-type", "application/grpc", "x", "y",
		NULL, NULL };
	unsigned char choice = next_byte(s);
	const char *name = names[choice % KP_LEN(names)];
	kp_str bytes = next_bytes(s);
	char value[256] = "";
	size_t n = 0;
	for (size_t i = 0; i < bytes.n; i++) {
		value[n] = bytes.p[i];
		n += value[n] != '\0';
	}
	value[n] = '\0';
	size_t at = 12;
	for (size_t i = 0; i < 12 && choice < 0x80; i += 2) {
		at = strcmp(pairs[i], name) == 0 ? i : at;
	}
	pairs[at] = name;
	pairs[at + 1] = value;
	h2_headers(&s->p, s->next_id, choice & 0x40, pairs);
	s->next_id += 2;
}

static void add_frame(struct script *s)
{
	unsigned char c = next_byte(s);
	int32_t id = KP_MAX(s->next_id - 2 - 2 * (c >> 3 & 7), 1); /* one of the last eight */
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	switch ((enum op)(c & 7)) {
	case CALL:
		H2_HEADERS(&s->p, s->next_id, c & 0x80, ":method", "POST", ":scheme", "http",
			":path", "/a.B/C", ":authority", "x", "te", "trailers", "content-type",
			"application/grpc");
		s->next_id += 2;
		break;
	case BAD_CALL:
		bad_call(s);
		break;
	case DATA:
	case LAST_DATA:
		h2_data(&s->p, id, (c & 7) == LAST_DATA, next_bytes(s));
		break;
	case MESSAGE:
		h2_message(&b, next_bytes(s));
		h2_data(&s->p, id, c & 0x80, kp_buf_str(&b));
		break;
	case RST:
		h2_rst(&s->p, id, next_byte(s));
		break;
	case OTHER:
		h2_u32(&b, 1 + next_byte(s) * 256U);
		h2_frame(&s->p, NGHTTP2_WINDOW_UPDATE, 0, c & 0x80 ? 0 : id, kp_buf_str(&b));
		break;
	case RAW:
		kp_buf_add(&s->p.out, next_bytes(s));
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct grpc_memory m;
	static const struct kp_grpc_server_limits limits = { .max_message_bytes = 300,
		.max_arriving_bytes = 1000,
		.http = { .max_head_bytes = 2000,
			.max_streams = 6,
			.high_water = 200,
			.low_water = 50 } };
	if (!m.loop) {
		grpc_memory_open(&m, &limits);
		m.is_kept = true;
	} else {
		grpc_memory_connect(&m);
	}
	struct script s = { .in = kp_str_n(data, size), .next_id = 1 };
	unsigned char cut = next_byte(&s);
	h2_peer_init(&s.p);
	kp_buf_lit(&s.p.out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	h2_settings(&s.p, 0);
	bool alive = true;
	for (unsigned turn = 0; alive && (s.in.n > 0 || s.p.out.n > 0); turn++) {
		for (unsigned i = 0; i < 1 + cut % 5u && s.in.n > 0; i++) {
			add_frame(&s);
		}
		size_t n = cut < 0x40 ? s.p.out.n : 1 + (cut * (turn + 7)) % 61;
		kp_str piece = kp_str_sub(kp_buf_str(&s.p.out), 0, n);
		kp_conn_memory_stall(m.conn, (cut & 0x80) && turn % 5 == 1);
		alive = grpc_memory_feed(&m, piece);
		kp_buf_consume(&s.p.out, piece.n);
		if (turn % 3 == cut % 3u) {
			grpc_memory_spin(&m);
			alive = alive && grpc_memory_alive(&m);
		}
	}
	if (alive) {
		kp_conn_memory_stall(m.conn, false);
		grpc_memory_spin(&m);
	}
	grpc_memory_eof(&m);
	KP_BUG_ON(grpc_memory_alive(&m) || m.n_open != 0 || kp_grpc_server_calls(m.server) != 0);
	KP_BUG_ON(!kp_buf_ok(&m.sent) || !kp_buf_ok(&m.log));
	kp_buf_reset(&m.sent);
	kp_buf_reset(&m.log);
	h2_peer_fini(&s.p);
	return 0;
}
