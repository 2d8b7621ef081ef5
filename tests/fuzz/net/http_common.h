/* One server for all runs of a fuzz target, a connection without a socket for each. The first input byte chooses how the rest is cut. */
#ifndef KP_TESTS_FUZZ_HTTP_COMMON_H
#define KP_TESTS_FUZZ_HTTP_COMMON_H

#include "tests/unit/net/memory_server.h"

static void http_fuzz(kp_str before, const uint8_t *data, size_t size)
{
	static struct memory_server m;
	static const struct kp_http_limits limits = { .max_head_bytes = 2000,
		.max_target_bytes = 300,
		.max_headers = 20,
		.max_body_bytes = 3000,
		.max_streams = 8,
		.high_water = 1000,
		.low_water = 100 };
	if (!m.loop) {
		memory_server_open(&m, &limits);
	} else {
		m.n_requests = 0;
		m.conn = kp_http_server_memory(m.server, &m.sent);
	}
	uint8_t choice = size ? data[0] : 0;
	kp_str in = size ? kp_str_n(data + 1, size - 1) : KP_STR_NULL;
	bool alive = before.n == 0 || memory_server_feed(&m, before);
	for (unsigned turn = 0; alive && in.n > 0; turn++) {
		size_t n = choice == 0 ? in.n : 1 + (choice * (turn + 7)) % 61;
		kp_conn_memory_stall(
			m.conn, (choice & 0x80) &&
					turn % 5 == 1); /* the client reads nothing for a while */
		alive = memory_server_feed(&m, kp_str_sub(in, 0, n));
		in = kp_str_skip(in, n);
		if (turn % 3 == choice % 3u) {
			memory_server_spin(&m);
			alive = memory_server_alive(&m);
		}
	}
	if (alive) {
		kp_conn_memory_stall(m.conn, false);
	}
	memory_server_eof(&m);
	KP_BUG_ON(memory_server_alive(&m) || m.n_open != 0);
	KP_BUG_ON(!kp_buf_ok(&m.sent) || !kp_buf_ok(&m.log));
	kp_buf_reset(&m.sent);
	kp_buf_reset(&m.log);
}

#endif
