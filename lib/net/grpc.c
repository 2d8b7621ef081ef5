/* DESIGN: a channel is a state machine around at most one current link (grpc_link.c: connection +
   session), plus retired links (GOAWAY) that live until their calls are done.

	IDLE --first call, connect--> CONNECTING --SETTINGS--> READY --lost--> IDLE
	CONNECTING --failed--> BACKOFF --timer--> CONNECTING if calls wait, else IDLE
   A link that is lost before it was of any use (grpc_link.h, was_good) counts as a failed attempt,
   so that a server that accepts and hangs up is not hammered.

   A call is in exactly one list: pending (waits for a link or for a free stream), active (open on a
   link, or over with messages held), due (failed early, `end` is called at the end of the
   iteration), dead (user has been told or has cancelled; freed at the end of the iteration, so
   every pointer that a running callback holds stays good). All work that answers to something is
   done once per iteration in `work`: due ends, released calls, opening pending calls, writing,
   freeing. User callbacks may call everything, kp_grpc_channel_destroy included: after each
   call-out that can reach the user, is_destroyed is looked at.

   With `connected` a current link takes calls only when it was admitted: another process may listen
   at the address by now, which only the channel's owner can find out.

   Limits: max_pending_calls; messages, headers and held bytes in the session; one timer per call
   with a deadline. */
#include "net/grpc.h"
#include "base/clock.h"
#include "base/rand.h"
#include "net/addr.h"
#include "net/grpc_link.h"
#include "net/tls.h"

#define BACKOFF_MIN_NS   (100 * KP_NS_PER_MS)
#define BACKOFF_MAX_NS   (5 * KP_NS_PER_S)
#define KEEPALIVE_MAX_NS (3600 * KP_NS_PER_S)
#define USER_AGENT       "grpc-kelpie/1"

enum { STREAM_WINDOW = 1 << 20, STREAM_WINDOW_MIN = 65535, CONNECTION_WINDOW = 16 << 20 };

struct kp_grpc_channel {
	struct kp_loop *loop;
	char *address, *authority, *tls_name;
	struct kp_grpc_link_opts link_opts;
	size_t max_message, max_pending;
	int64_t keepalive_ns;
	uint64_t n_connections;
	enum kp_grpc_state state;
	struct kp_grpc_link *current; /* CONNECTING and READY only */
	struct kp_list links;         /* current and retired ones */
	struct kp_list pending, active, due, dead;
	struct kp_list released; /* by release_link: calls that may hand out messages again */
	size_t n_calls, n_pending;
	unsigned n_failures; /* attempts in a row */
	struct kp_err last_failure;
	struct kp_rng rng;
	struct kp_timer backoff;
	struct kp_defer work;
	void (*connected)(void *user);
	bool is_admitted; /* the current link: calls may use it */
	bool is_destroyed;
};

struct kp_grpc_call {
	struct kp_grpc_stream stream;
	struct kp_grpc_channel *channel;
	struct kp_list link, release_link;
	const struct kp_grpc_call_ops *ops;
	void *user;
	struct kp_timer deadline;
	int64_t deadline_ns;
	kp_str path;
	size_t n_metadata;
	bool wait_for_ready, is_pending, is_over;
	struct kp_header metadata[]; /* checked, "-bin" values encoded; behind them all bytes:
					request, path, names, values */
};

static void work(struct kp_defer *d);

static void schedule(struct kp_grpc_channel *c)
{
	kp_loop_defer(c->loop, &c->work, work);
}

/* --- the end of a call
 * ------------------------------------------------------------------------------------ */

/* Out of every list and timer; memory goes at the end of the iteration. */
static void bury(struct kp_grpc_call *call)
{
	struct kp_grpc_channel *c = call->channel;
	call->is_over = true;
	c->n_calls--;
	c->n_pending -= call->is_pending;
	call->is_pending = false;
	kp_timer_stop(c->loop, &call->deadline);
	kp_list_del(&call->link);
	kp_list_del(&call->release_link);
	kp_list_push(&c->dead, &call->link);
	schedule(c);
}

static void tell(struct kp_grpc_call *call, const struct kp_err *status, bool processed)
{
	struct kp_grpc_stream *st = &call->stream;
	bury(call);
	call->ops->end(call->user, status, processed, st->trailers.p, st->trailers.n);
}

/* The call ends by our decision, whatever the server does. */
static void give_up(struct kp_grpc_call *call, const struct kp_err *status)
{
	bool processed = call->stream.is_sent;
	kp_grpc_stream_reset(&call->stream);
	tell(call, status, processed);
}

static void on_message(struct kp_grpc_stream *st, kp_str bytes)
{
	struct kp_grpc_call *call = KP_CONTAINER(st, struct kp_grpc_call, stream);
	call->ops->message(call->user, bytes);
}

static void on_end(struct kp_grpc_stream *st)
{
	struct kp_grpc_call *call = KP_CONTAINER(st, struct kp_grpc_call, stream);
	struct kp_err status = st->status;
	if (status.code == KP_CANCELLED && call->deadline_ns &&
		kp_loop_now(call->channel->loop) >= call->deadline_ns) {
		/* The server's clock was first: it reset the stream for its copy of the deadline.
		 */
		status.code = KP_DEADLINE_EXCEEDED;
	}
	tell(call, &status, st->is_processed);
}

static const struct kp_grpc_stream_ops stream_ops = { .message = on_message, .end = on_end };

static void on_deadline(struct kp_timer *timer)
{
	struct kp_grpc_call *call = KP_CONTAINER(timer, struct kp_grpc_call, deadline);
	const struct kp_err *failure = &call->channel->last_failure;
	struct kp_err status;
	if (call->stream.is_sent) {
		kp_err_set(&status, KP_DEADLINE_EXCEEDED, "call `%" KP_FMT "`: the deadline passed",
			KP_ARG(call->path));
	} else {
		kp_err_set(&status, KP_DEADLINE_EXCEEDED,
			"call `%" KP_FMT "`: the deadline passed while it waited to be sent%s%s",
			KP_ARG(call->path), failure->code ? "; last failure: " : "",
			failure->code ? failure->msg : "");
	}
	give_up(call, &status);
}

/* `end` comes at the end of this iteration. */
static void fail_early(struct kp_grpc_call *call, const struct kp_err *status)
{
	struct kp_grpc_channel *c = call->channel;
	call->stream.status = *status;
	c->n_pending -= call->is_pending;
	call->is_pending = false;
	kp_list_del(&call->link);
	kp_list_push(&c->due, &call->link);
	schedule(c);
}

/* --- links
 * ------------------------------------------------------------------------------------------------
 */

static void link_activity(struct kp_grpc_link *l)
{
	schedule(l->user);
}

static void link_lost(struct kp_grpc_link *l, const struct kp_err *why);
static const struct kp_grpc_link_ops link_ops = { .activity = link_activity, .lost = link_lost };

static void connect_now(struct kp_grpc_channel *c)
{
	kp_timer_stop(c->loop, &c->backoff);
	c->state = KP_GRPC_CONNECTING;
	c->is_admitted = !c->connected;
	c->n_connections++;
	c->current = kp_grpc_link_open(c->loop, &c->link_opts, c->keepalive_ns, &link_ops, c);
	kp_list_push(&c->links, &c->current->link);
}

static void on_backoff(struct kp_timer *timer)
{
	struct kp_grpc_channel *c = KP_CONTAINER(timer, struct kp_grpc_channel, backoff);
	c->state = KP_GRPC_IDLE;
	if (!kp_list_empty(&c->pending)) {
		connect_now(c);
	}
}

static int64_t backoff_ns(struct kp_grpc_channel *c)
{
	int64_t ns = BACKOFF_MIN_NS;
	for (unsigned i = 1; i < c->n_failures && ns < BACKOFF_MAX_NS; i++) {
		ns *= 2;
	}
	ns = KP_MIN(ns, BACKOFF_MAX_NS);
	/* 80..120 %, so that many clients of one server do not come back together. */
	return ns / 5 * 4 + (int64_t)kp_rng_below(&c->rng, (uint64_t)(ns / 5 * 2));
}

/* There is no current link any more. Calls nobody else. */
static void without_link(struct kp_grpc_channel *c, bool was_good, const struct kp_err *why)
{
	c->current = NULL;
	c->state = KP_GRPC_IDLE;
	if (was_good) {
		c->n_failures = 0;
		if (!kp_list_empty(&c->pending)) {
			connect_now(c);
		}
		return;
	}
	c->n_failures++;
	c->last_failure = *why;
	c->state = KP_GRPC_BACKOFF;
	kp_timer_start(c->loop, &c->backoff, kp_loop_now(c->loop) + backoff_ns(c), on_backoff);
	kp_list_each_safe (node, &c->pending) {
		struct kp_grpc_call *call = KP_CONTAINER(node, struct kp_grpc_call, link);
		if (!call->wait_for_ready) {
			fail_early(call, why);
		}
	}
}

static void link_lost(struct kp_grpc_link *l, const struct kp_err *why)
{
	struct kp_grpc_channel *c = l->user;
	if (c->is_destroyed) {
		return; /* `work` closes it */
	}
	struct kp_err err = *why;
	kp_err_wrap(&err, "channel `%s`", c->address);
	if (l == c->current) {
		without_link(c, kp_grpc_link_was_good(l), &err);
	}
	kp_grpc_session_fail(l->session, &err);
	if (!c->is_destroyed) {
		kp_grpc_link_close(l);
	}
}

/* The server said GOAWAY: the link stays for the calls it has. */
static void retire(struct kp_grpc_channel *c, struct kp_grpc_link *l)
{
	const struct kp_grpc_session_info *i = kp_grpc_session_info(l->session);
	if (kp_str_eq(kp_str_c(i->goaway_text), KP_S("too_many_pings"))) {
		c->keepalive_ns =
			KP_MIN(c->keepalive_ns * 2, KP_MAX(c->keepalive_ns, KEEPALIVE_MAX_NS));
	}
	struct kp_err err;
	kp_err_set(&err, KP_UNAVAILABLE, "channel `%s`: the server is going away (%s)", c->address,
		kp_grpc_session_end_reason(l->session));
	without_link(c, kp_grpc_link_was_good(l), &err);
}

/* --- the end of an iteration
 * ------------------------------------------------------------------------------ */

/* How many calls may be begun now. */
static size_t room(const struct kp_grpc_channel *c)
{
	return c->state == KP_GRPC_READY && c->is_admitted
		       ? kp_grpc_session_room(c->current->session)
		       : 0;
}

static void open_pending(struct kp_grpc_channel *c)
{
	struct kp_grpc_link *l = c->current;
	while (!kp_list_empty(&c->pending) && room(c) > 0) {
		struct kp_grpc_call *call =
			KP_CONTAINER(c->pending.next, struct kp_grpc_call, link);
		int64_t timeout = 0;
		if (call->deadline_ns) {
			timeout = KP_MAX(call->deadline_ns - kp_loop_now(c->loop), 1);
		}
		struct kp_err err;
		if (kp_grpc_stream_open(l->session, &call->stream, call->path, call->metadata,
			    call->n_metadata, timeout, &err) < 0) {
			fail_early(call, &err);
			continue;
		}
		call->is_pending = false;
		c->n_pending--;
		kp_list_del(&call->link);
		kp_list_push(&c->active, &call->link);
		kp_grpc_link_watch(l);
	}
}

static void look_at_current(struct kp_grpc_channel *c)
{
	struct kp_grpc_link *l = c->current;
	if (l->is_ready && c->state == KP_GRPC_CONNECTING) {
		c->state = KP_GRPC_READY;
		c->last_failure = KP_ERR_INIT;
		if (c->connected) {
			c->connected(c->link_opts.check_user);
		}
	}
	if (kp_grpc_session_info(l->session)->is_retired) {
		retire(c, l);
	} else {
		open_pending(c);
	}
}

static void end_due(struct kp_grpc_channel *c)
{
	struct kp_list due;
	kp_list_take(&due, &c->due);
	while (!kp_list_empty(&due)) {
		struct kp_grpc_call *call = KP_CONTAINER(due.next, struct kp_grpc_call, link);
		struct kp_err status = call->stream.status;
		tell(call, &status, false);
	}
}

static void hand_out_released(struct kp_grpc_channel *c)
{
	struct kp_list released, *node;
	kp_list_take(&released, &c->released);
	while ((node = kp_list_pop(&released))) {
		struct kp_grpc_call *call = KP_CONTAINER(node, struct kp_grpc_call, release_link);
		kp_grpc_stream_release(&call->stream);
	}
}

static void pump(struct kp_grpc_channel *c)
{
	kp_list_each_safe (node, &c->links) {
		struct kp_grpc_link *l = KP_CONTAINER(node, struct kp_grpc_link, link);
		struct kp_err err;
		int rc = kp_grpc_link_pump(l, &err);
		if (l != c->current && kp_grpc_session_info(l->session)->n_streams == 0) {
			kp_grpc_link_close(l);
		} else if (rc < 0) {
			link_lost(l, &err);
			if (c->is_destroyed) {
				return;
			}
		}
	}
}

static void free_dead(struct kp_grpc_channel *c)
{
	struct kp_list *node;
	while ((node = kp_list_pop(&c->dead))) {
		struct kp_grpc_call *call = KP_CONTAINER(node, struct kp_grpc_call, link);
		kp_grpc_stream_fini(&call->stream);
		kp_mem_free(call);
	}
}

static void free_channel(struct kp_grpc_channel *c)
{
	kp_list_each_safe (node, &c->links) {
		kp_grpc_link_close(KP_CONTAINER(node, struct kp_grpc_link, link));
	}
	free_dead(c);
	kp_loop_undefer(&c->work);
	kp_tls_unref(c->link_opts.tls);
	kp_free(&c->address);
	kp_free(&c->authority);
	kp_free(&c->tls_name);
	kp_mem_free(c);
}

static void work(struct kp_defer *d)
{
	struct kp_grpc_channel *c = KP_CONTAINER(d, struct kp_grpc_channel, work);
	end_due(c);
	if (c->is_destroyed) {
		/* `end` may have started another call, in vain: it is told next time. */
		if (kp_list_empty(&c->due)) {
			free_channel(c);
		}
		return;
	}
	hand_out_released(c);
	if (!c->is_destroyed && c->current) {
		look_at_current(c);
	}
	if (!c->is_destroyed) {
		pump(c);
	}
	free_dead(c);
}

/* --- calls
 * -------------------------------------------------------------------------------------------------
 */

/* The bytes of a call that follow its struct. -1: more than can be sent. */
static int call_bytes(const struct kp_header *md, size_t n_md, size_t n_path, kp_str message,
	size_t n_tail, size_t *ret_bytes, struct kp_err *err)
{
	if (n_md > KP_GRPC_METADATA_MAX) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"send metadata: %zu headers, the limit is %d", n_md, KP_GRPC_METADATA_MAX);
	}
	size_t bytes = n_md * sizeof(*md) + n_path + KP_GRPC_PREFIX;
	for (size_t i = 0; i < n_md; i++) {
		if (kp_grpc_metadata_check(md[i].name, md[i].value, err) < 0) {
			return -1;
		}
		bytes += md[i].name.n + (kp_grpc_is_binary(md[i].name) ? md[i].value.n / 3 * 4 + 4
								       : md[i].value.n);
		if (bytes > KP_GRPC_HEAD_BYTES_MAX) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"send metadata: more than %d bytes", KP_GRPC_HEAD_BYTES_MAX);
		}
	}
	size_t total;
	if (!kp_size_add(message.n, n_tail, &total) || total > UINT32_MAX) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"send message of %zu bytes and %zu more: too long", message.n, n_tail);
	}
	*ret_bytes = bytes + message.n;
	return 0;
}

static kp_str put(char **at, kp_str s)
{
	kp_str copy = { *at, s.n };
	if (s.n) {
		memcpy(*at, s.p, s.n);
		*at += s.n;
	}
	return copy;
}

static kp_str put_value(char **at, const struct kp_header *h)
{
	if (!kp_grpc_is_binary(h->name)) {
		return put(at, h->value);
	}
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, h->value.n / 3 * 4 + 4);
	kp_grpc_base64(&b, h->value);
	return put(at, kp_buf_str(&b));
}

static void fill(struct kp_grpc_call *call, kp_str path, const struct kp_header *md, size_t n_md,
	kp_str message, size_t n_tail, kp_str *ret_request)
{
	size_t n = message.n + n_tail;
	char *at = (char *)&call->metadata[n_md];
	call->n_metadata = n_md;
	unsigned char prefix[KP_GRPC_PREFIX] = { 0, (unsigned char)(n >> 24),
		(unsigned char)(n >> 16), (unsigned char)(n >> 8), (unsigned char)n };
	kp_str framed = put(&at, kp_str_n(prefix, sizeof(prefix)));
	framed.n += put(&at, message).n;
	call->path = put(&at, path);
	for (size_t i = 0; i < n_md; i++) {
		call->metadata[i].name = put(&at, md[i].name);
		call->metadata[i].value = put_value(&at, &md[i]);
	}
	*ret_request = framed;
}

/* A call in no list. *ret_ok is false when it can only fail, with *err. */
static struct kp_grpc_call *create_call(struct kp_grpc_channel *c, kp_str path,
	const struct kp_header *md, size_t n_md, kp_str message, kp_str tail, bool *ret_ok,
	struct kp_err *err)
{
	size_t bytes = 0;
	bool ok = call_bytes(md, n_md, path.n, message, tail.n, &bytes, err) == 0;
	struct kp_grpc_call *call = ok ? kp_try_malloc(sizeof(*call) + bytes) : NULL;
	if (ok && !call) {
		kp_err_set(err, KP_RESOURCE_EXHAUSTED, "send message of %zu bytes: no memory",
			message.n);
		ok = false;
	}
	if (!call) {
		call = kp_new(struct kp_grpc_call);
	}
	*call = (struct kp_grpc_call){ .channel = c };
	kp_str request = KP_STR_NULL;
	if (ok) {
		fill(call, path, md, n_md, message, tail.n, &request);
	}
	kp_grpc_stream_init(&call->stream, &stream_ops, request, c->max_message,
		c->link_opts.session.stream_window);
	call->stream.tail = ok ? tail : KP_STR_NULL;
	*ret_ok = ok;
	return call;
}

/* Whether the channel takes another call now. */
static int admit(struct kp_grpc_channel *c, const struct kp_grpc_call *call, struct kp_err *err)
{
	if (c->is_destroyed) {
		return kp_err_set(err, KP_CANCELLED, "start call: the channel is closed");
	}
	if (call->deadline_ns && call->deadline_ns <= kp_loop_now(c->loop)) {
		return kp_err_set(err, KP_DEADLINE_EXCEEDED,
			"start call `%" KP_FMT "`: the deadline has passed", KP_ARG(call->path));
	}
	if (c->state == KP_GRPC_BACKOFF && !call->wait_for_ready) {
		*err = c->last_failure;
		return -1;
	}
	if (c->n_pending >= c->max_pending && c->n_pending - c->max_pending >= room(c)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"start call on `%s`: %zu calls are waiting already", c->address,
			c->n_pending);
	}
	return 0;
}

static struct kp_grpc_call *start(struct kp_grpc_channel *c, const char *path,
	const struct kp_header *metadata, size_t n_metadata, kp_str message, kp_str tail,
	int64_t deadline_ns, bool wait_for_ready, const struct kp_grpc_call_ops *ops, void *user)
{
	kp_assert_on(c->loop);
	KP_BUG_ON(path[0] != '/');
	struct kp_err err;
	bool ok;
	struct kp_grpc_call *call =
		create_call(c, kp_str_c(path), metadata, n_metadata, message, tail, &ok, &err);
	call->ops = ops;
	call->user = user;
	call->deadline_ns = deadline_ns;
	call->wait_for_ready = wait_for_ready;
	c->n_calls++;
	if (!ok || admit(c, call, &err) < 0) {
		fail_early(call, &err);
		return call;
	}
	call->is_pending = true;
	c->n_pending++;
	kp_list_push(&c->pending, &call->link);
	if (deadline_ns) {
		kp_timer_start(c->loop, &call->deadline, deadline_ns, on_deadline);
	}
	if (c->state == KP_GRPC_IDLE) {
		connect_now(c);
	} else if (c->state == KP_GRPC_READY) {
		schedule(c);
	}
	return call;
}

struct kp_grpc_call *kp_grpc_start(struct kp_grpc_channel *c, const char *path,
	const struct kp_header *metadata, size_t n_metadata, kp_str message, int64_t deadline_ns,
	bool wait_for_ready, const struct kp_grpc_call_ops *ops, void *user)
{
	return start(c, path, metadata, n_metadata, message, KP_STR_NULL, deadline_ns,
		wait_for_ready, ops, user);
}

struct kp_grpc_call *kp_grpc_start_long(struct kp_grpc_channel *c, const char *path, kp_str message,
	kp_str tail, int64_t deadline_ns, bool wait_for_ready, const struct kp_grpc_call_ops *ops,
	void *user)
{
	return start(c, path, NULL, 0, message, tail, deadline_ns, wait_for_ready, ops, user);
}

bool kp_grpc_is_sent(const struct kp_grpc_call *call)
{
	return kp_grpc_stream_is_sent(&call->stream);
}

void kp_grpc_cancel(struct kp_grpc_call *call)
{
	kp_assert_on(call->channel->loop);
	if (!call->is_over) {
		kp_grpc_stream_reset(&call->stream);
		bury(call);
	}
}

bool kp_grpc_is_waiting(const struct kp_grpc_call *call)
{
	return call->is_pending;
}

void kp_grpc_pause(struct kp_grpc_call *call, bool paused)
{
	struct kp_grpc_channel *c = call->channel;
	kp_assert_on(c->loop);
	if (call->is_over) {
		return;
	}
	if (paused) {
		kp_grpc_stream_hold(&call->stream);
		kp_list_del(&call->release_link);
	} else if (call->stream.in.is_held && !kp_list_linked(&call->release_link)) {
		kp_list_push(&c->released, &call->release_link);
		schedule(c);
	}
}

/* --- the channel
 * ------------------------------------------------------------------------------------------- */

/* The host of "host:port"; all of it when it is something else. */
static char *host_of(const char *authority)
{
	struct kp_addr a;
	struct kp_err ignored;
	return kp_xstrdup(kp_addr_parse(authority, &a, &ignored) == 0 ? a.host : authority);
}

struct kp_grpc_channel *kp_grpc_channel_create(struct kp_loop *loop, const struct kp_grpc_opts *o)
{
	struct kp_grpc_channel *c = kp_new(struct kp_grpc_channel);
	struct kp_list *const lists[] = { &c->links, &c->pending, &c->active, &c->due, &c->dead,
		&c->released };
	for (size_t i = 0; i < KP_LEN(lists); i++) {
		kp_list_init(lists[i]);
	}
	c->loop = loop;
	c->address = kp_xstrdup(o->address);
	if (o->authority) {
		c->authority = kp_xstrdup(o->authority);
		c->tls_name = host_of(o->authority);
	} else {
		bool is_unix = kp_str_starts(kp_str_c(o->address), KP_S("unix:"));
		c->authority = kp_xstrdup(is_unix ? "localhost" : o->address);
	}
	if (o->tls_name) {
		kp_free(&c->tls_name);
		c->tls_name = kp_xstrdup(o->tls_name);
	}
	c->max_message = o->max_message_bytes ? o->max_message_bytes : (size_t)64 << 20;
	c->max_pending = o->max_pending_calls ? o->max_pending_calls : 1024;
	c->keepalive_ns = o->keepalive_time_ns ? o->keepalive_time_ns : 20 * KP_NS_PER_S;
	uint64_t seed = o->seed;
	if (!seed) {
		kp_random_bytes(&seed, sizeof(seed));
	}
	kp_rng_seed(&c->rng, seed);
	c->connected = o->connected;
	size_t window = o->stream_window_bytes ? o->stream_window_bytes : (size_t)STREAM_WINDOW;
	window = KP_MIN(KP_MAX(window, (size_t)STREAM_WINDOW_MIN), (size_t)INT32_MAX / 2);
	c->link_opts = (struct kp_grpc_link_opts){
		.address = c->address,
		.tls_name = c->tls_name,
		.check_names = o->check_names,
		.check_user = o->user,
		.tls = o->tls ? kp_tls_ref(o->tls) : NULL,
		.connect_timeout_ns =
			o->connect_timeout_ns ? o->connect_timeout_ns : 5 * KP_NS_PER_S,
		.keepalive_timeout_ns =
			o->keepalive_timeout_ns ? o->keepalive_timeout_ns : 10 * KP_NS_PER_S,
		.keepalive_always = o->keepalive_always,
		.session =
			{
				.is_tls = o->tls != NULL,
				.authority = kp_str_c(c->authority),
				.user_agent = KP_S(USER_AGENT),
				.stream_window = window,
				/* Credit of the connection is given at once, so this only has to
				   cover what is on the way. */
				.connection_window = KP_MAX(2 * window, (size_t)CONNECTION_WINDOW),
			},
	};
	return c;
}

void kp_grpc_channel_destroy(struct kp_grpc_channel *c)
{
	if (!c || c->is_destroyed) {
		return;
	}
	kp_assert_on(c->loop);
	c->is_destroyed = true;
	c->link_opts.check_names = NULL; /* its user goes with the channel's owner */
	kp_timer_stop(c->loop, &c->backoff);
	kp_list_each (node, &c->links) {
		struct kp_grpc_link *l = KP_CONTAINER(node, struct kp_grpc_link, link);
		if (l->is_receiving) {
			kp_grpc_session_kill(l->session);
		}
	}
	struct kp_err status;
	kp_err_set(&status, KP_CANCELLED, "channel `%s`: closed", c->address);
	struct kp_list *const from[] = { &c->pending, &c->active, &c->due };
	struct kp_list calls;
	for (size_t i = 0; i < KP_LEN(from); i++) {
		kp_list_take(&calls, from[i]);
		while (!kp_list_empty(&calls)) {
			give_up(KP_CONTAINER(calls.next, struct kp_grpc_call, link), &status);
		}
	}
	schedule(c);
}

void kp_grpc_channel_set_tls(struct kp_grpc_channel *c, struct kp_tls_context *tls)
{
	kp_assert_on(c->loop);
	KP_BUG_ON(!c->link_opts.tls || !tls);
	struct kp_tls_context *old = c->link_opts.tls;
	c->link_opts.tls = kp_tls_ref(tls);
	kp_tls_unref(old);
}

enum kp_grpc_state kp_grpc_channel_state(const struct kp_grpc_channel *c)
{
	return c->state;
}

void kp_grpc_channel_connect(struct kp_grpc_channel *c)
{
	bool can = c->state == KP_GRPC_IDLE || c->state == KP_GRPC_BACKOFF;
	if (can && !c->is_destroyed) {
		kp_timer_stop(c->loop, &c->backoff);
		c->state = KP_GRPC_IDLE;
		connect_now(c);
	}
}

void kp_grpc_channel_admit(struct kp_grpc_channel *c)
{
	if (c->state == KP_GRPC_READY) {
		c->is_admitted = true;
		schedule(c);
	}
}

bool kp_grpc_channel_is_admitted(const struct kp_grpc_channel *c)
{
	return c->state == KP_GRPC_READY && c->is_admitted;
}

void kp_grpc_channel_renew(struct kp_grpc_channel *c)
{
	if (c->current) {
		without_link(c, true, NULL); /* `work` closes it when its calls are over */
		schedule(c);
	}
}

uint64_t kp_grpc_channel_connections(const struct kp_grpc_channel *c)
{
	return c->n_connections;
}

size_t kp_grpc_channel_calls(const struct kp_grpc_channel *c)
{
	return c->n_calls;
}
