/* DESIGN: nghttp2 does HTTP/2 (framing, HPACK, flow control, the rules of RFC 9113); this file
   makes calls of its streams.

   Who owns what: a stream is embedded in the owner's call; nghttp2 knows it as stream user data,
   which is cleared the moment the call is over for us
   (`detach`), so that nothing that still comes for it reaches freed memory. Streams that are over
   for us but not for the server are counted in n_open until nghttp2 closes them, since the server
   counts them too.

   Flow control: credit is given by hand. The connection's always and at once (a held stream must
   not stop the others: its bytes lie in its deframer, at most one stream window of them); a
   stream's only while it is not held. Credit is collected and given to nghttp2 in steps of 1/8
   window, which keeps two hash look-ups per DATA frame out of the hot path.

   How a call ends: (1) a header block with END_STREAM: grpc-status, or the HTTP status mapped; (2)
   END_STREAM on DATA: no status came; (3) RST_STREAM, GOAWAY below its id, or a protocol error that
   nghttp2 answers with RST_STREAM: stream_closed; (4) we refuse something: refuse; (5) the
   connection goes: kp_grpc_session_fail. Whatever comes first wins, `detach` makes the rest silent.

   Limits: header bytes, message length, held bytes, and nghttp2's own against floods of SETTINGS,
   PING and CONTINUATION. */
#include "net/grpc_session.h"
#include "base/mem.h"

#include <nghttp2/nghttp2.h>

struct kp_grpc_session {
	nghttp2_session *h2;
	struct kp_list streams; /* attached ones */
	struct kp_grpc_session_info info;
	size_t unconsumed, connection_step, stream_step;
	uint32_t sent_goaway;   /* error of the GOAWAY we sent, NO_ERROR: none */
	int32_t last_stream_id; /* of the server's GOAWAY */
	bool is_failed;
	const char *scheme;
	char *authority, *user_agent;
};

/* The last ids are left unused: a session is retired before nghttp2 runs out of them. */
enum { LAST_STREAM_ID = INT32_MAX - 1024 };

/* --- one stream
 * ------------------------------------------------------------------------------------------ */

void kp_grpc_stream_init(struct kp_grpc_stream *st, const struct kp_grpc_stream_ops *ops,
	kp_str framed_request, size_t max_message, size_t stream_window)
{
	*st = (struct kp_grpc_stream){ .ops = ops, .request = framed_request };
	kp_grpc_deframer_init(&st->in, max_message, stream_window);
}

void kp_grpc_stream_fini(struct kp_grpc_stream *st)
{
	KP_BUG_ON(st->session != NULL);
	kp_grpc_deframer_fini(&st->in);
	kp_vec_fini(&st->trailers);
	kp_arena_destroy(kp_steal(st->arena));
}

/* From here on nghttp2 and the session do not know the stream any more. */
static void detach(struct kp_grpc_stream *st)
{
	struct kp_grpc_session *s = st->session;
	if (s) {
		nghttp2_session_set_stream_user_data(s->h2, st->id, NULL);
		kp_list_del(&st->link);
		s->info.n_streams--;
		st->session = NULL;
	}
}

static void rst(struct kp_grpc_session *s, int32_t id, uint32_t error)
{
	/* Fails only when memory is gone; the server's next frame for it is then ignored all the
	 * same. */
	(void)nghttp2_submit_rst_stream(s->h2, NGHTTP2_FLAG_NONE, id, error);
}

static void call_end(struct kp_grpc_stream *st)
{
	if (st->status.code == KP_OK && kp_grpc_deframer_left(&st->in) != 0) {
		kp_err_set(&st->status, KP_INTERNAL, "read message: the answer ended inside it");
	}
	st->is_ending = false;
	st->ops->end(st);
}

/* The call is over with st->status; `end` now, or behind the messages that are held. */
static void finish(struct kp_grpc_stream *st)
{
	detach(st);
	if (st->in.is_held && kp_grpc_deframer_left(&st->in) != 0) {
		st->is_ending = true;
		return;
	}
	call_end(st);
}

/* We end it: the server is told to stop. */
static void refuse(struct kp_grpc_stream *st)
{
	if (st->session) {
		rst(st->session, st->id, NGHTTP2_CANCEL);
	}
	st->is_processed = true;
	finish(st);
}

static bool on_message(void *user, kp_str bytes)
{
	struct kp_grpc_stream *st = user;
	const struct kp_grpc_stream_ops *ops = st->ops;
	ops->message(st, bytes);
	return st->ops != NULL && !(st->session && st->session->info.is_killed);
}

static void give_credit(struct kp_grpc_stream *st, size_t step)
{
	if (st->session && !st->in.is_held && st->unconsumed >= step) {
		/* Fails only when memory is gone, or for a stream that is closed: no credit needed.
		 */
		(void)nghttp2_session_consume_stream(st->session->h2, st->id, st->unconsumed);
		st->unconsumed = 0;
	}
}

void kp_grpc_stream_reset(struct kp_grpc_stream *st)
{
	if (st->session) {
		rst(st->session, st->id, NGHTTP2_CANCEL);
		detach(st);
	}
	st->is_ending = false;
	st->ops = NULL; /* tells on_message that the call is gone */
}

void kp_grpc_stream_hold(struct kp_grpc_stream *st)
{
	kp_grpc_deframer_hold(&st->in);
}

void kp_grpc_stream_release(struct kp_grpc_stream *st)
{
	struct kp_err err;
	int rc = kp_grpc_deframer_release(&st->in, on_message, st, &err);
	if (!st->ops) {
		return;
	}
	if (rc < 0 && (st->session || st->is_ending)) {
		st->status = err;
		refuse(st);
		return;
	}
	give_credit(st, 1);
	if (st->is_ending && !st->in.is_held) {
		call_end(st);
	}
}

/* --- what the server says about a call
 * ------------------------------------------------------------------ */

static void add_trailer(struct kp_grpc_stream *st, kp_str name, kp_str value)
{
	KP_AUTO(buf) struct kp_buf raw;
	kp_buf_init(&raw, KP_GRPC_HEAD_BYTES_MAX);
	if (kp_grpc_is_binary(name)) {
		if (!kp_grpc_base64_decode(&raw, value)) {
			return; /* not what its name says: left out */
		}
		value = kp_buf_str(&raw);
	}
	if (!st->arena) {
		/* Copies carry a NUL and alignment each, and a block holds at most HEAD_BYTES_MAX /
		 * 32 headers. */
		st->arena = kp_arena_create(4 * KP_GRPC_HEAD_BYTES_MAX);
	}
	struct kp_header h;
	struct kp_err err;
	if (kp_arena_dup(st->arena, name, &h.name, &err) == 0 &&
		kp_arena_dup(st->arena, value, &h.value, &err) == 0) {
		kp_vec_push(&st->trailers, h);
	}
}

static void set_message(struct kp_grpc_stream *st, kp_str value)
{
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 3 * KP_GRPC_HEAD_BYTES_MAX);
	kp_grpc_percent_decode(&text, value);
	enum kp_code code =
		st->status.code; /* may still be unset: the message can come before the code */
	kp_err_set(&st->status, KP_UNKNOWN, "%" KP_FMT, KP_ARG(kp_buf_str(&text)));
	st->status.code = code;
}

/* A header of the block that ends the stream: trailers, or the only block there is. */
static void last_header(struct kp_grpc_stream *st, kp_str name, kp_str value)
{
	if (kp_str_eq(name, KP_S("grpc-status"))) {
		if (!st->has_status) {
			st->has_status = true;
			st->status.code = kp_grpc_status(value);
		}
	} else if (kp_str_eq(name, KP_S("grpc-message"))) {
		if (value.n && !st->status.msg[0]) {
			set_message(st, value);
		}
	} else if (kp_str_eq(name, KP_S("content-type"))) {
		st->is_grpc = st->is_grpc || kp_grpc_is_content_type(value);
	} else {
		add_trailer(st, name, value);
	}
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
	size_t n_name, const uint8_t *value, size_t n_value, uint8_t flags, void *user)
{
	(void)flags;
	(void)user;
	struct kp_grpc_stream *st = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
	if (!st || frame->hd.type != NGHTTP2_HEADERS) {
		return 0;
	}
	st->head_bytes += n_name + n_value + 32; /* as RFC 9113 section 6.5.2 counts them */
	if (st->head_bytes > KP_GRPC_HEAD_BYTES_MAX) {
		kp_err_set(&st->status, KP_INTERNAL, "read headers: more than %d bytes",
			KP_GRPC_HEAD_BYTES_MAX);
		refuse(st);
		return 0;
	}
	kp_str k = kp_str_n(name, n_name);
	kp_str v = kp_str_n(value, n_value);
	uint64_t status;
	if (k.n && k.p[0] == ':') {
		if (kp_str_eq(k, KP_S(":status")) && kp_str_u64(v, 999, &status)) {
			st->http_status = (int)status;
		}
	} else if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
		last_header(st, k, v);
	} else if (kp_str_eq(k, KP_S("content-type"))) {
		st->is_grpc = kp_grpc_is_content_type(v);
	}
	return 0;
}

/* No grpc-status came and none will be believed: make one of what is there. */
static void status_of_http(struct kp_grpc_stream *st)
{
	enum kp_code code = kp_grpc_code_of_http(st->http_status);
	if (st->http_status != 200) {
		kp_err_set(&st->status, code, "read answer: HTTP status %d without a gRPC status",
			st->http_status);
	} else if (!st->is_grpc) {
		kp_err_set(
			&st->status, code, "read answer: the content type is not application/grpc");
	} else {
		kp_err_set(&st->status, code, "read answer: it ended without a gRPC status");
	}
}

static void stream_ended(struct kp_grpc_session *s, struct kp_grpc_stream *st)
{
	if (!st->has_status) {
		status_of_http(st);
	}
	st->is_processed = true;
	if (!kp_grpc_stream_is_sent(st)) {
		rst(s, st->id, NGHTTP2_NO_ERROR); /* answered before it took the whole request */
	}
	finish(st);
}

/* The first block of an answer is complete and more is to come. */
static void head_complete(struct kp_grpc_stream *st)
{
	if (st->http_status >= 100 && st->http_status < 200) {
		st->http_status = 0; /* informational: the real one follows */
	} else if (st->http_status != 200 || !st->is_grpc) {
		status_of_http(st);
		refuse(st);
	}
}

/* --- nghttp2's callbacks
 * -------------------------------------------------------------------------------- */

static int on_data(
	nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user)
{
	(void)flags;
	struct kp_grpc_session *s = user;
	s->unconsumed += n;
	if (s->unconsumed >= s->connection_step) {
		(void)nghttp2_session_consume_connection(h2, s->unconsumed);
		s->unconsumed = 0;
	}
	s->info.n_answers++;
	struct kp_grpc_stream *st = nghttp2_session_get_stream_user_data(h2, id);
	if (!st) {
		return 0;
	}
	st->unconsumed += n;
	struct kp_err err;
	if (kp_grpc_deframer_feed(&st->in, kp_str_n(p, n), on_message, st, &err) < 0 &&
		st->session) {
		st->status = err;
		refuse(st);
	}
	if (s->info.is_killed) {
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	give_credit(st, s->stream_step);
	return 0;
}

static void goaway_received(struct kp_grpc_session *s, const nghttp2_goaway *g)
{
	s->info.is_retired = true;
	s->info.goaway_error = g->error_code;
	s->last_stream_id = g->last_stream_id;
	struct kp_err clean;
	kp_err_set(&clean, KP_UNAVAILABLE, "%" KP_FMT,
		KP_ARG(kp_str_n(g->opaque_data, g->opaque_data_len)));
	size_t n = KP_MIN(strlen(clean.msg), sizeof(s->info.goaway_text) - 1);
	memcpy(s->info.goaway_text, clean.msg, n);
	s->info.goaway_text[n] = '\0';
}

static int on_frame_recv(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	struct kp_grpc_session *s = user;
	struct kp_grpc_stream *st;
	uint8_t type = frame->hd.type;
	if (type == NGHTTP2_DATA || type == NGHTTP2_HEADERS) {
		bool is_last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
		if (type == NGHTTP2_DATA && !is_last) {
			return 0;
		}
		s->info.n_answers++;
		st = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
		if (st && is_last) {
			stream_ended(s, st);
		} else if (st) {
			head_complete(st);
		}
	} else if (type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
		s->info.is_ready = true;
		s->info.max_open = nghttp2_session_get_remote_settings(
			h2, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
	} else if (type == NGHTTP2_GOAWAY) {
		goaway_received(s, &frame->goaway);
	}
	return s->info.is_killed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_frame_send(nghttp2_session *h2, const nghttp2_frame *frame, void *user)
{
	struct kp_grpc_session *s = user;
	if (frame->hd.type == NGHTTP2_HEADERS) {
		struct kp_grpc_stream *st =
			nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
		if (st) {
			st->is_sent = true;
		}
	} else if (frame->hd.type == NGHTTP2_GOAWAY) {
		s->sent_goaway = frame->goaway.error_code;
	}
	return 0;
}

/* The stream is gone for HTTP/2. Whoever is still attached did not end well. */
static int on_stream_close(nghttp2_session *h2, int32_t id, uint32_t error, void *user)
{
	struct kp_grpc_session *s = user;
	struct kp_grpc_stream *st = nghttp2_session_get_stream_user_data(h2, id);
	s->info.n_open--;
	if (!st) {
		return 0;
	}
	st->is_processed = st->is_sent && error != NGHTTP2_REFUSED_STREAM;
	if (!st->is_sent) {
		kp_err_set(&st->status, KP_UNAVAILABLE,
			"send call: the connection takes no more calls");
	} else if (s->info.is_retired && id > s->last_stream_id) {
		kp_err_set(&st->status, KP_UNAVAILABLE,
			"send call: the server is going away (%s%s%s)",
			nghttp2_http2_strerror(s->info.goaway_error),
			s->info.goaway_text[0] ? ": " : "", s->info.goaway_text);
	} else {
		kp_err_set(&st->status, kp_grpc_code_of_h2(error),
			"read answer: the stream was reset (%s)", nghttp2_http2_strerror(error));
	}
	finish(st);
	return s->info.is_killed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static ssize_t on_request_body(nghttp2_session *h2, int32_t id, uint8_t *buf, size_t n,
	uint32_t *flags, nghttp2_data_source *source, void *user)
{
	(void)source;
	(void)user;
	/* Not source->ptr: a call that is over may be freed before its stream is. */
	struct kp_grpc_stream *st = nghttp2_session_get_stream_user_data(h2, id);
	if (!st) {
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	bool in_tail = st->request_sent >= st->request.n;
	kp_str rest = in_tail ? kp_str_skip(st->tail, st->request_sent - st->request.n)
			      : kp_str_skip(st->request, st->request_sent);
	n = KP_MIN(n, rest.n);
	memcpy(buf, rest.p, n);
	st->request_sent += n;
	if (kp_grpc_stream_is_sent(st)) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	}
	return (ssize_t)n;
}

/* --- the session
 * ---------------------------------------------------------------------------------------- */

static char *copy_text(kp_str s)
{
	char *z = kp_xmalloc(s.n + 1);
	memcpy(z, s.p, s.n);
	z[s.n] = '\0';
	return z;
}

/* nghttp2 returns an error only when memory is gone or for our own mistake. */
static void must(int rc)
{
	KP_BUG_ON(rc != 0);
}

struct kp_grpc_session *kp_grpc_session_create(const struct kp_grpc_session_opts *o)
{
	struct kp_grpc_session *s = kp_new(struct kp_grpc_session);
	kp_list_init(&s->streams);
	s->scheme = o->is_tls ? "https" : "http";
	s->authority = copy_text(o->authority);
	s->user_agent = copy_text(o->user_agent);
	s->stream_step = o->stream_window / 8;
	s->connection_step = o->connection_window / 8;
	s->last_stream_id = INT32_MAX;

	nghttp2_session_callbacks *cb = NULL;
	nghttp2_option *option = NULL;
	must(nghttp2_session_callbacks_new(&cb));
	must(nghttp2_option_new(&option));
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
	must(nghttp2_session_client_new2(&s->h2, cb, s, option));
	nghttp2_session_callbacks_del(cb);
	nghttp2_option_del(option);

	nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)o->stream_window },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, KP_GRPC_HEAD_BYTES_MAX },
	};
	must(nghttp2_submit_settings(s->h2, NGHTTP2_FLAG_NONE, settings, KP_LEN(settings)));
	must(nghttp2_session_set_local_window_size(
		s->h2, NGHTTP2_FLAG_NONE, 0, (int32_t)o->connection_window));
	return s;
}

void kp_grpc_session_destroy(struct kp_grpc_session *s)
{
	if (s) {
		KP_BUG_ON(!kp_list_empty(&s->streams));
		nghttp2_session_del(s->h2);
		kp_free(&s->authority);
		kp_free(&s->user_agent);
		kp_mem_free(s);
	}
}

const struct kp_grpc_session_info *kp_grpc_session_info(const struct kp_grpc_session *s)
{
	return &s->info;
}

const char *kp_grpc_session_end_reason(const struct kp_grpc_session *s)
{
	return nghttp2_http2_strerror(s->sent_goaway ? s->sent_goaway : s->info.goaway_error);
}

static void check_over(struct kp_grpc_session *s)
{
	s->info.is_over = !nghttp2_session_want_read(s->h2) && !nghttp2_session_want_write(s->h2);
}

int kp_grpc_session_recv(struct kp_grpc_session *s, kp_str bytes, struct kp_err *err)
{
	ssize_t n = 0;
	if (!s->info.is_killed) {
		n = nghttp2_session_mem_recv(s->h2, (const uint8_t *)bytes.p, bytes.n);
	}
	if (s->info.is_killed) {
		return kp_err_set(err, KP_CANCELLED, "read answer: the channel was closed");
	}
	if (n < 0) {
		return kp_err_set(err, KP_UNAVAILABLE, "read answer: %s", nghttp2_strerror((int)n));
	}
	check_over(s);
	return 0;
}

int kp_grpc_session_send(struct kp_grpc_session *s, kp_str *ret_piece, struct kp_err *err)
{
	const uint8_t *p;
	ssize_t n = nghttp2_session_mem_send(s->h2, &p);
	if (n < 0) {
		return kp_err_set(err, KP_UNAVAILABLE, "send call: %s", nghttp2_strerror((int)n));
	}
	if (n == 0) {
		check_over(s);
	}
	*ret_piece = kp_str_n(p, (size_t)n);
	return 0;
}

void kp_grpc_session_fail(struct kp_grpc_session *s, const struct kp_err *why)
{
	s->is_failed = true;
	while (!kp_list_empty(&s->streams)) {
		struct kp_grpc_stream *st =
			KP_CONTAINER(s->streams.next, struct kp_grpc_stream, link);
		st->is_processed = st->is_sent;
		st->status = *why;
		finish(st);
	}
}

void kp_grpc_session_kill(struct kp_grpc_session *s)
{
	s->info.is_killed = true;
	s->info.is_over = true;
}

void kp_grpc_session_ping(struct kp_grpc_session *s)
{
	(void)nghttp2_submit_ping(s->h2, NGHTTP2_FLAG_NONE, NULL);
}

void kp_grpc_session_goodbye(struct kp_grpc_session *s)
{
	s->is_failed = true;
	/* Not nghttp2_session_terminate_session: that would drop the RST_STREAMs which are still to go. */
	(void)nghttp2_submit_goaway(s->h2, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0);
}

size_t kp_grpc_session_room(const struct kp_grpc_session *s)
{
	const struct kp_grpc_session_info *i = &s->info;
	if (!i->is_ready || i->is_retired || s->is_failed || s->info.is_killed ||
		i->n_open >= i->max_open) {
		return 0;
	}
	return i->max_open - i->n_open;
}

/* --- opening a call
 * -------------------------------------------------------------------------------------- */

enum { FIXED_HEADERS = 8 };

/* Text that nghttp2 need not copy: constants, and what lives as long as the session. */
static nghttp2_nv lasting(const char *name, const char *value)
{
	return (nghttp2_nv){ kp_unconst(name), kp_unconst(value), strlen(name), strlen(value),
		NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE };
}

static nghttp2_nv copied(kp_str name, kp_str value, uint8_t flags)
{
	return (nghttp2_nv){ kp_unconst(name.p), kp_unconst(value.p), name.n, value.n, flags };
}

int kp_grpc_stream_open(struct kp_grpc_session *s, struct kp_grpc_stream *st, kp_str path,
	const struct kp_header *metadata, size_t n_metadata, int64_t timeout_ns, struct kp_err *err)
{
	KP_BUG_ON(kp_grpc_session_room(s) == 0 || st->session || n_metadata > KP_GRPC_METADATA_MAX);
	nghttp2_nv nv[FIXED_HEADERS + KP_GRPC_METADATA_MAX];
	char timeout[KP_GRPC_TIMEOUT_MAX];
	size_t n = 0;
	nv[n++] = lasting(":method", "POST");
	nv[n++] = lasting(":scheme", s->scheme);
	nv[n++] = copied(KP_S(":path"), path, NGHTTP2_NV_FLAG_NONE);
	nv[n++] = lasting(":authority", s->authority);
	nv[n++] = lasting("te", "trailers");
	nv[n++] = lasting("content-type", "application/grpc");
	nv[n++] = lasting("user-agent", s->user_agent);
	if (timeout_ns > 0) {
		/* Different each time: kept out of the compression table. */
		kp_str v = { timeout, kp_grpc_timeout(timeout_ns, timeout) };
		nv[n++] = copied(KP_S("grpc-timeout"), v, NGHTTP2_NV_FLAG_NO_INDEX);
	}
	for (size_t i = 0; i < n_metadata; i++) {
		nv[n++] = copied(metadata[i].name, metadata[i].value, NGHTTP2_NV_FLAG_NONE);
	}
	nghttp2_data_provider body = { .read_callback = on_request_body };
	int32_t id = nghttp2_submit_request(s->h2, NULL, nv, n, &body, st);
	if (id < 0) {
		return kp_err_set(err, KP_UNAVAILABLE, "send call: %s", nghttp2_strerror(id));
	}
	st->id = id;
	st->session = s;
	kp_list_push(&s->streams, &st->link);
	s->info.n_streams++;
	s->info.n_open++;
	s->info.is_retired = s->info.is_retired || id >= LAST_STREAM_ID;
	return 0;
}
