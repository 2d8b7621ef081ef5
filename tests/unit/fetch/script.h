/* A scripted HTTP server for tests: a thread that takes one connection after the other on 127.0.0.1 and answers each request by the
   next step of its script. What it was asked is kept. */
#ifndef KP_TESTS_FETCH_SCRIPT_H
#define KP_TESTS_FETCH_SCRIPT_H

#include "base/buf.h"
#include "base/clock.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

struct script_step {
	const char *
		answer; /* as it goes over the wire; `@` stands for the server's port, `^` for 77,000 bytes of headers. NULL: none */
	size_t filler;  /* bytes 'x' behind it */
	unsigned wait_ms;   /* before the answer */
	bool closes;        /* the connection, after it */
	unsigned linger_ms; /* before the connection is closed */
	const char *wants;  /* what must stand in the request; NULL: anything */
};
enum { SCRIPT_ASKED_MAX = 32 };
struct script {
	const struct script_step *steps;
	size_t n_steps;
	int fd;
	uint16_t port;
	pthread_t thread;
	size_t n_asked; /* after script_end */
	unsigned n_connections;
	char *asked[SCRIPT_ASKED_MAX];
	struct kp_buf in;
	const char *missing; /* what a step wanted and did not get */
};

static size_t script_request_end(kp_str s)
{
	ptrdiff_t head = kp_str_find(s, KP_S("\r\n\r\n"));
	if (head < 0) {
		return 0;
	}
	size_t end = (size_t)head + 4;
	for (kp_str rest = kp_str_sub(s, 0, end), line; kp_str_split(&rest, '\n', &line);) {
		uint64_t n;
		if (line.n > 15 && kp_str_ieq(kp_str_sub(line, 0, 15), KP_S("content-length:")) &&
			kp_str_u64(kp_str_trim(kp_str_skip(line, 15)), 1 << 30, &n)) {
			end += n;
		}
	}
	return end <= s.n ? end : 0;
}

/* false: the connection is over. */
static bool script_read(struct script *s, int fd)
{
	char piece[4096];
	while (!script_request_end(kp_buf_str(&s->in))) {
		ssize_t n = recv(fd, piece, sizeof(piece), 0);
		if (n <= 0) {
			return false;
		}
		kp_buf_add(&s->in, kp_str_n(piece, (size_t)n));
	}
	size_t end = script_request_end(kp_buf_str(&s->in));
	s->asked[s->n_asked % SCRIPT_ASKED_MAX] = kp_str_z(kp_str_sub(kp_buf_str(&s->in), 0, end));
	kp_buf_consume(&s->in, end);
	return true;
}

static void script_write(struct script *s, int fd, const struct script_step *step)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 64 << 20);
	for (const char *z = step->answer ? step->answer : ""; *z; z++) {
		if (*z == '@') {
			kp_buf_u64(&b, s->port);
		} else if (*z == '^') {
			for (int i = 0; i < 7000; i++) {
				kp_buf_lit(&b, "X: 123456\r\n");
			}
		} else {
			kp_buf_addc(&b, *z);
		}
	}
	for (size_t i = 0; i < step->filler; i++) {
		kp_buf_addc(&b, 'x');
	}
	for (kp_str rest = kp_buf_str(&b); rest.n;) {
		ssize_t n = send(fd, rest.p, rest.n, MSG_NOSIGNAL);
		if (n <= 0) {
			return;
		}
		rest = kp_str_skip(rest, (size_t)n);
	}
}

static void *script_run(void *ctx)
{
	struct script *s = ctx;
	while (s->n_asked < s->n_steps) {
		int fd = accept(s->fd, NULL, NULL);
		if (fd < 0) {
			break;
		}
		s->n_connections++;
		kp_buf_reset(&s->in);
		while (s->n_asked < s->n_steps && script_read(s, fd)) {
			const struct script_step *step = &s->steps[s->n_asked];
			const char *got = s->asked[s->n_asked++];
			if (step->wants && !strstr(got, step->wants)) {
				s->missing = step->wants;
			}
			usleep(step->wait_ms * 1000);
			script_write(s, fd, step);
			if (step->closes) {
				usleep(step->linger_ms * 1000);
				break;
			}
		}
		close(fd);
	}
	return NULL;
}

static void script_begin(struct script *s, const struct script_step *steps, size_t n_steps)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);
	*s = (struct script){ .steps = steps, .n_steps = n_steps };
	kp_buf_init(&s->in, 1 << 20);
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(s->fd, 16), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&a, &n), 0);
	s->port = ntohs(a.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, script_run, s), 0);
}

static void script_end(struct script *s)
{
	shutdown(s->fd, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->fd);
	kp_buf_fini(&s->in);
	if (s->missing) {
		fail_msg("no request had `%s`", s->missing);
	}
}
static void script_free(struct script *s)
{
	for (size_t i = 0; i < SCRIPT_ASKED_MAX; i++) {
		free(s->asked[i]);
	}
}

#endif
