/* DESIGN: one write per line (O_APPEND), so that a test that reads the file sees whole lines at once. "t" is the monotonic clock in seconds. */
#include "sim.h"
#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <unistd.h>

/* Request ids come from outside: what would break the line becomes '?'. */
static void add_quoted(struct kp_buf *b, kp_str s)
{
	kp_buf_addc(b, '"');
	for (size_t i = 0; i < s.n && i < 256; i++) {
		char c = s.p[i];
		kp_buf_addc(b, c < 0x20 || c == '"' || c == '\\' || c == 0x7f ? '?' : c);
	}
	kp_buf_addc(b, '"');
}

void kp_sim_log(struct kp_sim *s, const char *event, kp_str request_id, const char *extra, ...)
{
	if (s->log_fd < 0) {
		return;
	}
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 32 << 20);
	kp_buf_printf(&b, "{\"t\":%.6f,\"event\":\"%s\",\"request_id\":", (double)kp_now_ns() / 1e9,
		event);
	add_quoted(&b, request_id);
	va_list ap;
	va_start(ap, extra);
	char *text = NULL;
	int n = vasprintf(&text, extra, ap);
	va_end(ap);
	if (n >= 0) {
		kp_buf_add(&b, kp_str_n(text, (size_t)n));
		kp_mem_free(text);
	}
	kp_buf_lit(&b, "}\n");
	if (kp_buf_ok(&b) && write(s->log_fd, b.p, b.n) < 0) {
		perror("sim-engine: write log");
	}
}
