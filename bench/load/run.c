/* DESIGN: one connection struct per slot of the concurrency. A slot sends a request, reads the answer to its end, and sends the next on the same connection; a
   failed request closes it. The answer's framing is read strictly (status line, Content-Length or chunked, nothing behind the end): an answer that is
   framed wrong is a failed request. Event streams are cut into lines, "data:" lines into events.

   Warm-up and measurement are two rounds of the same loop; the processes are looked at between them and at the end.

   Limits: 64 KiB of head, 16 MiB a line, 60 s a request. */
#include "load.h"
#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, HEAD_MAX = 64 << 10, LINE_MAX_BYTES = 16 << 20 };
#define REQUEST_LIMIT (60 * KP_NS_PER_S)

enum state {
	IDLE = 0,
	SENDING,
	HEAD,
	BODY_LENGTH,
	CHUNK_SIZE,
	CHUNK_DATA,
	CHUNK_END,
	TRAILERS,
	DONE
};

struct conn {
	int fd; /* -1: closed */
	enum state state;
	bool wants_write, is_stream, has_first, has_done, has_failed, keep_alive;
	struct kp_buf out,
		line; /* line: head line or event line that is not complete yet, or a body to be looked at whole */
	size_t out_at;
	enum state
		framing; /* what follows the head: BODY_LENGTH or CHUNK_SIZE; IDLE: not said yet */
	char size[9];    /* chunk size under way */
	size_t n_size;
	uint64_t left; /* of the body or chunk */
	int status;
	int64_t begun_ns, last_ns;
	uint64_t tokens, events;
};

struct run {
	const struct kp_load_opts *o;
	struct kp_load_results *r;
	struct kp_load_prompts prompts;
	struct conn *conns;
	struct sockaddr_storage address;
	socklen_t address_len;
	int epoll;
	uint64_t to_start, running;
	int64_t stop_ns; /* 0: by number */
	bool is_measured;
	int64_t now_ns;
	char read[READ_BYTES];
};

/* --- addresses ----------------------------------------------------------------------------------------------------- */

static int parse_address(struct run *u, struct kp_err *err)
{
	kp_str text = kp_str_c(u->o->address);
	ptrdiff_t colon = kp_str_rfind_char(text, ':');
	uint64_t port = 0;
	char host[64] = { 0 };
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	if (colon <= 0 || colon >= (ptrdiff_t)sizeof(host) ||
		!kp_str_u64(kp_str_skip(text, (size_t)colon + 1), 65535, &port) || port == 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "parse address `%s`: not HOST:PORT",
			u->o->address);
	}
	memcpy(host, text.p, (size_t)colon);
	if (inet_pton(AF_INET, host, &v4.sin_addr) == 1 && ntohl(v4.sin_addr.s_addr) >> 24 == 127) {
		v4.sin_port = htons((uint16_t)port);
		memcpy(&u->address, &v4, sizeof(v4));
		u->address_len = sizeof(v4);
		return 0;
	}
	if (kp_str_eq(kp_str_c(host), KP_S("[::1]"))) {
		v6.sin6_addr = in6addr_loopback;
		v6.sin6_port = htons((uint16_t)port);
		memcpy(&u->address, &v6, sizeof(v6));
		u->address_len = sizeof(v6);
		return 0;
	}
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"parse address `%s`: only loopback addresses (127.0.0.1:PORT, [::1]:PORT) are loaded",
		u->o->address);
}

static int open_conn(struct run *u, struct conn *c)
{
	int one = 1;
	c->fd = socket(u->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0) {
		return -1;
	}
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(c->fd, (const struct sockaddr *)&u->address, u->address_len) < 0 &&
		errno != EINPROGRESS) {
		return -1;
	}
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT, .data.ptr = c };
	c->wants_write = true;
	return epoll_ctl(u->epoll, EPOLL_CTL_ADD, c->fd, &ev);
}

static void close_conn(struct conn *c)
{
	if (c->fd >= 0) {
		close(c->fd);
	}
	c->fd = -1;
}

/* --- one request --------------------------------------------------------------------------------------------------- */

static void start(struct run *u, struct conn *c);

static void note_error(struct run *u, struct conn *c, const char *what, kp_str detail)
{
	c->has_failed = true;
	if (!u->r->first_error[0]) {
		snprintf(u->r->first_error, sizeof(u->r->first_error), "%s: %" KP_FMT, what,
			KP_ARG(detail));
	}
}

static void finish(struct run *u, struct conn *c)
{
	const struct kp_load_opts *o = u->o;
	if (!c->has_failed && c->is_stream && !c->has_done) {
		note_error(u, c, "the stream ended without [DONE]", KP_STR_NULL);
	}
	if (!c->has_failed && c->tokens == 0 && (o->usage || !c->is_stream)) {
		note_error(u, c, "the answer has no usage", KP_STR_NULL);
	}
	if (u->is_measured && !c->has_failed) {
		u->r->ok++;
		u->r->tokens += c->tokens ? c->tokens : o->max_tokens;
		u->r->events += c->events;
		kp_load_add(&u->r->total, u->now_ns - c->begun_ns);
	}
	/* A warm-up that fails counts too: nothing may hide there. */
	u->r->failed += c->has_failed;
	if (c->has_failed || !c->keep_alive) {
		close_conn(c);
	}
	c->state = IDLE;
	u->running--;
	start(u, c);
}

static void fail(struct run *u, struct conn *c, const char *what, kp_str detail)
{
	note_error(u, c, what, detail);
	finish(u, c);
}

static void set_write(struct run *u, struct conn *c, bool on)
{
	if (c->wants_write != on) {
		struct epoll_event ev = { .events = on ? EPOLLIN | EPOLLOUT : EPOLLIN,
			.data.ptr = c };
		c->wants_write = on;
		(void)epoll_ctl(u->epoll, EPOLL_CTL_MOD, c->fd, &ev);
	}
}

static void flush(struct run *u, struct conn *c)
{
	while (c->out_at < c->out.n) {
		ssize_t n = send(c->fd, c->out.p + c->out_at, c->out.n - c->out_at, MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) {
			set_write(u, c, true);
			return;
		}
		if (n < 0) {
			fail(u, c, "send", kp_str_c(strerror(errno)));
			return;
		}
		c->out_at += (size_t)n;
	}
	set_write(u, c, false);
	c->state = c->state == SENDING ? HEAD : c->state;
}

static void start(struct run *u, struct conn *c)
{
	if (u->to_start == 0 || (u->stop_ns && u->now_ns >= u->stop_ns)) {
		return;
	}
	u->to_start--;
	u->running++;
	kp_buf_reset(&c->out);
	kp_buf_reset(&c->line);
	*c = (struct conn){ .fd = c->fd,
		.wants_write = c->wants_write,
		.state = SENDING,
		.out = c->out,
		.line = c->line,
		.keep_alive = true };
	kp_load_request(&u->prompts, &c->out);
	c->begun_ns = c->last_ns = kp_now_ns();
	if (c->fd >= 0) {
		flush(u, c);
	} else if (open_conn(u, c) < 0) {
		/* Not through fail(): that would start the next at once, and so on for ever. */
		note_error(u, c, "connect", kp_str_c(strerror(errno)));
		close_conn(c);
		u->r->failed++;
		u->running--;
	}
}

/* --- the answer ---------------------------------------------------------------------------------------------------- */

/* "completion_tokens":N, wherever it stands. */
static void find_usage(struct conn *c, kp_str text)
{
	static const kp_str key = { "\"completion_tokens\":", 20 };
	ptrdiff_t at = kp_str_find(text, key);
	if (at < 0) {
		return;
	}
	kp_str rest = kp_str_skip(text, (size_t)at + key.n);
	while (rest.n && rest.p[0] == ' ') {
		rest = kp_str_skip(rest, 1);
	}
	size_t n = 0;
	while (n < rest.n && kp_is_digit(rest.p[n])) {
		n++;
	}
	(void)kp_str_u64(kp_str_sub(rest, 0, n), 1000000000, &c->tokens);
}

/* Whether the event carries text: "content":"x or "text":"x, not the opening event with an empty one. */
static bool has_text(kp_str event)
{
	static const kp_str keys[] = { { "\"content\":\"", 11 }, { "\"text\":\"", 8 } };
	for (size_t i = 0; i < KP_LEN(keys); i++) {
		ptrdiff_t at = kp_str_find(event, keys[i]);
		if (at >= 0) {
			kp_str rest = kp_str_skip(event, (size_t)at + keys[i].n);
			return rest.n && rest.p[0] != '"';
		}
	}
	return false;
}

static void event(struct run *u, struct conn *c, kp_str data)
{
	if (kp_str_eq(data, KP_S("[DONE]"))) {
		c->has_done = true;
		return;
	}
	if (kp_str_starts(data, KP_S("{\"error\""))) {
		note_error(u, c, "an error event", data);
		return;
	}
	c->events++;
	if (!c->has_first && has_text(data)) {
		c->has_first = true;
		c->last_ns = u->now_ns;
		if (u->is_measured) {
			kp_load_add(&u->r->ttft, u->now_ns - c->begun_ns);
		}
	} else if (c->has_first) {
		if (u->is_measured) {
			kp_load_add(&u->r->gap, u->now_ns - c->last_ns);
		}
		c->last_ns = u->now_ns;
	}
	if (u->o->usage) {
		find_usage(c, data);
	}
}

/* Appends to the line under way, or uses the bytes where they are; false: the line goes on. */
static bool whole_line(struct conn *c, kp_str *rest, kp_str *ret)
{
	ptrdiff_t end = kp_str_find_char(*rest, '\n');
	kp_str part = end < 0 ? *rest : kp_str_sub(*rest, 0, (size_t)end);
	*rest = kp_str_skip(*rest, end < 0 ? rest->n : (size_t)end + 1);
	if (end < 0 || c->line.n) {
		kp_buf_add(&c->line, part);
		part = kp_buf_str(&c->line);
	}
	if (end < 0) {
		return false;
	}
	*ret = part.n && part.p[part.n - 1] == '\r' ? kp_str_sub(part, 0, part.n - 1) : part;
	return true;
}

static void body(struct run *u, struct conn *c, kp_str bytes)
{
	if (u->is_measured) {
		u->r->body_bytes += bytes.n;
	}
	if (!c->is_stream || c->status != 200) {
		kp_buf_add(&c->line, bytes); /* whole, looked at when the end has come */
		return;
	}
	kp_str line;
	while (bytes.n && whole_line(c, &bytes, &line)) {
		if (kp_str_starts(line, KP_S("data:"))) {
			event(u, c, kp_str_trim(kp_str_skip(line, 5)));
		}
		kp_buf_reset(&c->line);
	}
}

static void end_of_body(struct run *u, struct conn *c)
{
	if (c->status != 200) {
		char what[40];
		snprintf(what, sizeof(what), "HTTP status %d", c->status);
		note_error(u, c, what, kp_str_sub(kp_buf_str(&c->line), 0, 300));
	} else if (!c->is_stream) {
		find_usage(c, kp_buf_str(&c->line));
		if (u->is_measured) {
			kp_load_add(&u->r->ttft, u->now_ns - c->begun_ns);
		}
	}
	c->state = DONE;
}

static bool head_line(struct run *u, struct conn *c, kp_str line)
{
	uint64_t v = 0;
	kp_str name = KP_STR_NULL;
	if (c->status == 0) {
		if (!kp_str_starts(line, KP_S("HTTP/1.1 ")) ||
			!kp_str_u64(kp_str_sub(line, 9, 12), 599, &v) || v < 200) {
			note_error(u, c, "not a status line", kp_str_sub(line, 0, 100));
			return false;
		}
		c->status = (int)v;
		return true;
	}
	if (line.n == 0) {
		c->state = c->framing;
		if (c->framing == IDLE) {
			note_error(u, c, "an answer without framing", KP_STR_NULL);
			return false;
		}
		return true;
	}
	kp_str_split(&line, ':', &name);
	kp_str value = kp_str_trim(line);
	if (kp_str_ieq(name, KP_S("content-length")) && kp_str_u64(value, UINT32_MAX, &v)) {
		c->framing = BODY_LENGTH;
		c->left = v;
	} else if (kp_str_ieq(name, KP_S("transfer-encoding")) &&
		   kp_str_ieq(value, KP_S("chunked"))) {
		c->framing = CHUNK_SIZE;
	} else if (kp_str_ieq(name, KP_S("content-type"))) {
		c->is_stream = kp_str_starts(value, KP_S("text/event-stream"));
	} else if (kp_str_ieq(name, KP_S("connection")) && kp_str_ieq(value, KP_S("close"))) {
		c->keep_alive = false;
	}
	return true;
}

/* Head lines until the empty one. */
static bool read_head(struct run *u, struct conn *c, kp_str *rest)
{
	kp_str line;
	while (c->state == HEAD && whole_line(c, rest, &line)) {
		if (!head_line(u, c, line)) {
			return false;
		}
		kp_buf_reset(&c->line);
	}
	if (c->state == HEAD && c->line.n > HEAD_MAX) {
		note_error(u, c, "a head line without end", KP_STR_NULL);
		return false;
	}
	if (c->state == BODY_LENGTH && c->left == 0) {
		end_of_body(u, c);
	}
	return true;
}

static bool chunk_size(struct run *u, struct conn *c, kp_str *rest)
{
	char ch = rest->p[0];
	*rest = kp_str_skip(*rest, 1);
	if (ch == '\r') {
		return true;
	}
	if (ch != '\n' && c->n_size < sizeof(c->size)) {
		c->size[c->n_size++] = ch;
		return true;
	}
	kp_str text = kp_str_n(c->size, c->n_size);
	uint64_t v = 0;
	if (ch != '\n' || !kp_str_hex64(text, &v)) {
		note_error(u, c, "a chunk size", text);
		return false;
	}
	c->n_size = 0;
	c->left = v;
	c->state = v ? CHUNK_DATA : TRAILERS;
	return true;
}

/* One step over what has arrived; false: the answer is framed wrong. */
static bool step(struct run *u, struct conn *c, kp_str *rest)
{
	switch (c->state) {
	case BODY_LENGTH:
	case CHUNK_DATA: {
		kp_str part = kp_str_sub(*rest, 0, (size_t)KP_MIN((uint64_t)rest->n, c->left));
		*rest = kp_str_skip(*rest, part.n);
		c->left -= part.n;
		body(u, c, part);
		if (c->left == 0 && c->state == CHUNK_DATA) {
			c->state = CHUNK_END;
		} else if (c->left == 0) {
			end_of_body(u, c);
		}
		return true;
	}
	case CHUNK_SIZE:
		return chunk_size(u, c, rest);
	case CHUNK_END:
	case TRAILERS: { /* CR LF; no trailers are expected */
		char ch = rest->p[0];
		*rest = kp_str_skip(*rest, 1);
		if (ch == '\n' && c->state == CHUNK_END) {
			c->state = CHUNK_SIZE;
		} else if (ch == '\n') {
			end_of_body(u, c);
		} else if (ch != '\r') {
			note_error(u, c, "bytes behind a chunk", KP_STR_NULL);
			return false;
		}
		return true;
	}
	case HEAD:
		return read_head(u, c, rest);
	case IDLE:
	case SENDING:
	case DONE:
		break;
	}
	note_error(u, c, "bytes that nobody asked for", kp_str_sub(*rest, 0, 100));
	return false;
}

static void on_readable(struct run *u, struct conn *c)
{
	for (;;) {
		ssize_t n = recv(c->fd, u->read, READ_BYTES, 0);
		if (n < 0 && errno == EAGAIN) {
			return;
		}
		if (n <= 0 &&
			c->state == IDLE) { /* an idle connection may be closed by the server */
			close_conn(c);
			return;
		}
		if (n <= 0) {
			close_conn(c);
			fail(u, c, "the connection ended in an answer",
				kp_str_c(n < 0 ? strerror(errno) : ""));
			return;
		}
		kp_str rest = kp_str_n(u->read, (size_t)n);
		bool framed = true;
		while (framed && rest.n) {
			framed = step(u, c, &rest);
		}
		if (!framed) {
			close_conn(c);
			finish(u, c);
			return;
		}
		if (c->state == DONE) {
			finish(u, c);
			return;
		}
		if ((size_t)n < READ_BYTES) {
			return;
		}
	}
}

/* --- rounds -------------------------------------------------------------------------------------------------------- */

static void check_limits(struct run *u)
{
	for (uint32_t i = 0; i < u->o->concurrency; i++) {
		struct conn *c = &u->conns[i];
		if (c->state != IDLE && u->now_ns - c->begun_ns > REQUEST_LIMIT) {
			close_conn(c);
			fail(u, c, "no answer within 60 s", KP_STR_NULL);
		}
	}
}

static int round_of(struct run *u, uint64_t requests, int64_t stop_ns, struct kp_err *err)
{
	struct epoll_event events[64];
	u->to_start = requests;
	u->stop_ns = stop_ns;
	u->now_ns = kp_now_ns();
	for (uint32_t i = 0; i < u->o->concurrency; i++) {
		start(u, &u->conns[i]);
	}
	int64_t next_check = u->now_ns + KP_NS_PER_S;
	while (u->running) {
		int n = epoll_wait(u->epoll, events, KP_LEN(events), 1000);
		if (n < 0 && errno != EINTR) {
			return kp_err_sys(err, errno, "epoll_wait");
		}
		u->now_ns = kp_now_ns();
		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			if (c->fd >= 0 && events[i].events & EPOLLOUT) {
				flush(u, c);
			}
			if (c->fd >= 0 && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
				on_readable(u, c);
			}
		}
		if (u->now_ns >= next_check) {
			next_check = u->now_ns + KP_NS_PER_S;
			check_limits(u);
		}
	}
	return 0;
}

static int run_rounds(struct run *u, struct kp_err *err)
{
	const struct kp_load_opts *o = u->o;
	struct kp_load_results *r = u->r;
	if (round_of(u, o->warmup, 0, err) < 0 ||
		kp_load_proc_read(o->pids, o->n_pids, &r->before, err) < 0) {
		return -1;
	}
	u->is_measured = true;
	r->begun_ns = kp_now_ns();
	int64_t stop = o->requests ? 0 : r->begun_ns + (int64_t)(o->seconds * (double)KP_NS_PER_S);
	if (round_of(u, o->requests ? o->requests : UINT64_MAX, stop, err) < 0) {
		return -1;
	}
	r->ended_ns = kp_now_ns();
	return kp_load_proc_read(o->pids, o->n_pids, &r->after, err);
}

int kp_load_run(const struct kp_load_opts *o, struct kp_load_results *ret, struct kp_err *err)
{
	struct run *u = kp_new(struct run);
	u->o = o;
	u->r = ret;
	u->epoll = epoll_create1(EPOLL_CLOEXEC);
	u->conns = kp_xcalloc(o->concurrency, sizeof(*u->conns));
	for (uint32_t i = 0; i < o->concurrency; i++) {
		u->conns[i].fd = -1;
		kp_buf_init(&u->conns[i].out, 256 << 20);
		kp_buf_init(&u->conns[i].line, LINE_MAX_BYTES);
	}
	int rc = -1;
	if (parse_address(u, err) == 0 && kp_load_prompts_init(&u->prompts, o, err) == 0) {
		rc = run_rounds(u, err);
	}
	for (uint32_t i = 0; i < o->concurrency; i++) {
		close_conn(&u->conns[i]);
		kp_buf_fini(&u->conns[i].out);
		kp_buf_fini(&u->conns[i].line);
	}
	kp_load_prompts_fini(&u->prompts);
	close(u->epoll);
	kp_free(&u->conns);
	kp_mem_free(u);
	return rc;
}
