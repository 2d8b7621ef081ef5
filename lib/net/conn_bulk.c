/* DESIGN: bytes of a socket that a worker receives, straight into the memory where they stay. On the loop a long body costs two copies and
   the page faults of fresh memory, 2 ms for 2.8 MB, and everybody else on the loop waits; here it costs the loop a message for each piece.

   A job takes what is there, MOST at a time, and never waits: the loop watches the socket until something comes, submits one job, and watches
   again when that is back. While it runs, descriptor and buffer are the job's: the loop neither reads nor closes the socket. A connection that
   ends meanwhile leaves both to the job, whose message gives them back to the loop. When the workers' queue is full, the loop itself does a small job. */
#include "net/conn_internal.h"

#include "base/mem.h"
#include "base/workers.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MOST = 1 << 20,
	STEP = 64 << 10, /* of one call of the kernel, which is not interrupted on every kernel */
};

struct kp_conn_bulk {
	struct kp_job job;
	struct kp_conn *conn; /* NULL: gone, and the descriptor is ours to close */
	struct kp_workers *workers;
	struct kp_buf into;
	size_t want; /* bytes that may come */
	int fd;
	bool running;
	/* what the job found */
	size_t got;
	int sys; /* errno */
	bool eof;
};

/* Memory for all that may come. Not by realloc, which would grow the loop's heap under its lock. */
static void make_room(struct kp_conn_bulk *b)
{
	struct kp_buf all;
	if (b->into.cap - b->into.n >= b->want) {
		return;
	}
	kp_buf_init(&all, b->into.max);
	if (kp_buf_reserve(&all, b->into.n + b->want)) {
		kp_buf_add(&all, kp_buf_str(&b->into));
	}
	kp_buf_fini(&b->into);
	b->into = all;
}

static void receive(struct kp_conn_bulk *b, size_t most)
{
	make_room(b);
	while (b->got < most && kp_buf_ok(&b->into)) {
		ssize_t n = recv(b->fd, b->into.p + b->into.n, KP_MIN(most - b->got, (size_t)STEP),
			MSG_DONTWAIT);
		if (n > 0) {
			b->got += (size_t)n;
			b->into.n += (size_t)n;
		} else if (n == 0) {
			b->eof = true;
			break;
		} else if (errno != EINTR) {
			b->sys = errno == EAGAIN || errno == EWOULDBLOCK ? 0 : errno;
			break;
		}
	}
}

static void work(struct kp_job *job)
{
	struct kp_conn_bulk *b = KP_CONTAINER(job, struct kp_conn_bulk, job);
	receive(b, KP_MIN(b->want, (size_t)MOST));
}

static void drop(struct kp_conn_bulk *b)
{
	kp_buf_fini(&b->into);
	kp_mem_free(b);
}

/* The owner gets its buffer, then what the end of the bytes means. */
static void hand_back(struct kp_conn *c)
{
	struct kp_conn_bulk *b = kp_steal(c->bulk);
	c->heard = true;
	if (c->state == KP_CONN_OPEN && c->ops && c->ops->received) {
		c->ops->received(c->user, &b->into, b->got);
	}
	if (c->state != KP_CONN_DEAD && b->eof) {
		kp_conn_take_eof(c);
	} else if (c->state != KP_CONN_DEAD && b->sys) {
		kp_conn_receive_failed(c, b->sys);
	}
	if (c->state != KP_CONN_DEAD) {
		kp_conn_watch(c);
	}
	drop(b);
}

static void done(struct kp_msg *msg)
{
	struct kp_job *job = KP_CONTAINER(msg, struct kp_job, done);
	struct kp_conn_bulk *b = KP_CONTAINER(job, struct kp_conn_bulk, job);
	b->running = false;
	if (b->conn) {
		hand_back(b->conn);
	} else {
		close(b->fd);
		drop(b);
	}
}

bool kp_conn_receive(struct kp_conn *c, struct kp_workers *workers, struct kp_buf *into, size_t n)
{
	if (c->tls || c->memory || c->bulk || c->eof_read || c->state != KP_CONN_OPEN) {
		return false;
	}
	struct kp_conn_bulk *b = c->bulk = kp_new(struct kp_conn_bulk);
	b->conn = c;
	b->workers = workers;
	b->want = n;
	b->into = *into;
	kp_buf_init(into, into->max);
	return true;
}

void kp_conn_bulk_readable(struct kp_conn *c)
{
	struct kp_conn_bulk *b = c->bulk;
	b->fd = c->fd;
	b->job = (struct kp_job){
		.done = { .run = done }, .work = work, .reply = kp_loop_mailbox(c->loop)
	};
	b->running = kp_workers_submit(b->workers, &b->job);
	if (!b->running) {
		receive(b, KP_MIN(b->want, (size_t)STEP));
		hand_back(c);
	}
}

bool kp_conn_bulk_runs(const struct kp_conn *c)
{
	return c->bulk && c->bulk->running;
}

void kp_conn_bulk_destroy(struct kp_conn *c)
{
	struct kp_conn_bulk *b = kp_steal(c->bulk);
	if (b && b->running) {
		b->conn = NULL;
		c->fd = -1;
	} else if (b) {
		drop(b);
	}
}
