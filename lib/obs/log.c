/* DESIGN: a ring of bytes (256 KiB) under one mutex; the writer swaps it against an empty one and
   writes unlocked. A line that does not fit is dropped and counted; the writer reports the count
   with the next batch. A line is at most 4 KiB; longer values are cut. Lock order: leaf. */
#include "obs/log.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { QUEUE_BYTES = 256 << 10, LINE_BYTES = 4096, VALUE_BYTES = 1024 };

enum kp_log_level kp_log_min = KP_LOG_INFO;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	pthread_t thread;
	bool running, stopping;
	enum kp_log_format format;
	struct kp_buf queue;
	atomic_bool is_ending;
	atomic_uint_fast64_t dropped;
} g = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

const char *const kp_log_level_names[] = { "debug", "info", "warn", "error", NULL };
const char *const kp_log_format_names[] = { "logfmt", "json", NULL };

static void quote(struct kp_buf *b, kp_str s)
{
	s = kp_str_sub(s, 0, VALUE_BYTES);
	s.n -= kp_utf8_incomplete_tail(s);
	kp_buf_addc(b, '"');
	for (size_t i = 0; i < s.n;) {
		uint32_t cp;
		size_t len = kp_utf8_decode(s.p + i, s.n - i, &cp);
		if (len == 0) {
			kp_buf_lit(b, "\xef\xbf\xbd");
			i++;
			continue;
		}
		if (cp == '"' || cp == '\\') {
			kp_buf_addc(b, '\\');
			kp_buf_addc(b, (char)cp);
		} else if (cp == '\n') {
			kp_buf_lit(b, "\\n");
		} else if (cp < 0x20 || cp == 0x7f) {
			kp_buf_printf(b, "\\u%04x", cp);
		} else {
			kp_buf_add(b, kp_str_n(s.p + i, len));
		}
		i += len;
	}
	kp_buf_addc(b, '"');
}

static bool is_bare(kp_str s) /* needs no quotes in logfmt */
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7f) {
			return false;
		}
	}
	return s.n > 0 && s.n <= VALUE_BYTES;
}

static void put_value(struct kp_buf *b, const struct kp_field *f, bool json)
{
	switch (f->type) {
	case KP_FIELD_STR:
		if (!json && is_bare(f->s)) {
			kp_buf_add(b, f->s);
		} else {
			quote(b, f->s);
		}
		break;
	case KP_FIELD_I64:
		kp_buf_i64(b, f->i);
		break;
	case KP_FIELD_F64:
		kp_buf_printf(b, "%.6g", f->f);
		break;
	case KP_FIELD_BOOL:
		kp_buf_addz(b, f->b ? "true" : "false");
		break;
	}
}

static void put_line(struct kp_buf *b, enum kp_log_level level, const char *msg,
	const struct kp_field *fields, size_t n)
{
	bool json = g.format == KP_LOG_JSON;
	char time[25];
	kp_time_rfc3339(kp_wall_ns(), time);
	const struct kp_field head[] = { kp_f_z("time", time),
		kp_f_z("level", kp_log_level_names[level]), kp_f_z("msg", msg) };
	for (size_t i = 0; i < KP_LEN(head) + n; i++) {
		const struct kp_field *f = i < KP_LEN(head) ? &head[i] : &fields[i - KP_LEN(head)];
		if (json) {
			kp_buf_addz(b, i ? "," : "{");
			quote(b, kp_str_c(f->key));
			kp_buf_addc(b, ':');
		} else {
			kp_buf_addz(b, i ? " " : "");
			kp_buf_addz(b, f->key);
			kp_buf_addc(b, '=');
		}
		put_value(b, f, json);
	}
	kp_buf_addz(b, json ? "}\n" : "\n");
}

static void write_out(kp_str s)
{
	while (s.n) {
		/* At most PIPE_BUF at a time: a pipe that poll calls writable takes that much
		   without blocking. While the program ends, a reader that takes nothing for a
		   second is given up. */
		struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
		int ready = poll(&p, 1, 1000);
		if (ready == 0 && !atomic_load(&g.is_ending)) {
			continue;
		}
		if (ready == 0) {
			return;
		}
		ssize_t k = write(STDERR_FILENO, s.p, KP_MIN(s.n, (size_t)PIPE_BUF));
		if (k < 0 && errno != EINTR && errno != EAGAIN) {
			return; /* nowhere left to complain */
		}
		s = kp_str_skip(s, k > 0 ? (size_t)k : 0);
	}
}

static void *writer(void *arg)
{
	(void)arg;
	struct kp_buf batch;
	uint64_t reported = 0;
	kp_buf_init(&batch, QUEUE_BYTES);
	pthread_mutex_lock(&g.lock);
	while (!g.stopping || g.queue.n) {
		if (g.queue.n == 0) {
			pthread_cond_wait(&g.more, &g.lock);
			continue;
		}
		struct kp_buf full = g.queue;
		g.queue = batch;
		pthread_mutex_unlock(&g.lock);
		write_out(kp_buf_str(&full));
		kp_buf_reset(&full);
		uint64_t dropped = kp_log_dropped();
		if (dropped != reported) {
			const struct kp_field f = kp_f_int("lines", (int64_t)(dropped - reported));
			put_line(&full, KP_LOG_WARN, "log lines dropped", &f, 1);
			write_out(kp_buf_str(&full));
			kp_buf_reset(&full);
			reported = dropped;
		}
		batch = full;
		pthread_mutex_lock(&g.lock);
	}
	pthread_mutex_unlock(&g.lock);
	kp_buf_fini(&batch);
	return NULL;
}

void kp_log_start(enum kp_log_level min, enum kp_log_format format)
{
	KP_BUG_ON(g.running);
	kp_log_min = min;
	g.format = format;
	g.stopping = false;
	atomic_store(&g.is_ending, false);
	kp_buf_init(&g.queue, QUEUE_BYTES);
	if (pthread_create(&g.thread, NULL, writer, NULL) != 0) {
		kp_bug(__FILE__, __LINE__, "cannot start the log thread");
	}
	g.running = true;
}

void kp_log_stop(void)
{
	if (!g.running) {
		return;
	}
	atomic_store(&g.is_ending, true);
	pthread_mutex_lock(&g.lock);
	g.stopping = true;
	pthread_cond_signal(&g.more);
	pthread_mutex_unlock(&g.lock);
	pthread_join(g.thread, NULL);
	g.running = false;
	kp_buf_fini(&g.queue);
}

uint64_t kp_log_dropped(void)
{
	return atomic_load_explicit(&g.dropped, memory_order_relaxed);
}

void kp_log_emit(enum kp_log_level level, const char *msg, const struct kp_field *fields, size_t n)
{
	struct kp_buf line;
	kp_buf_init(&line, LINE_BYTES);
	put_line(&line, level, msg, fields, n);
	if (line.failed) { /* too long: the event without its fields is better than nothing */
		kp_buf_reset(&line);
		const struct kp_field cut = kp_f_bool("cut", true);
		put_line(&line, level, msg, &cut, 1);
	}
	if (!g.running) {
		write_out(kp_buf_str(&line));
	} else {
		pthread_mutex_lock(&g.lock);
		bool was_empty = g.queue.n == 0;
		if (g.queue.max - g.queue.n >= line.n) {
			kp_buf_add(&g.queue, kp_buf_str(&line));
		} else {
			atomic_fetch_add_explicit(&g.dropped, 1, memory_order_relaxed);
		}
		if (was_empty) {
			pthread_cond_signal(&g.more);
		}
		pthread_mutex_unlock(&g.lock);
	}
	kp_buf_fini(&line);
}

bool kp_log_allow(
	struct kp_log_limit *l, int64_t now_ns, int64_t interval_ns, uint64_t *ret_suppressed)
{
	if (now_ns < l->next_ns) {
		l->suppressed++;
		return false;
	}
	*ret_suppressed = l->suppressed;
	*l = (struct kp_log_limit){ .next_ns = now_ns + interval_ns };
	return true;
}
