/* The other end of a gRPC client session, in bytes: writes any HTTP/2 frame a test asks for, legal or not; what the client sends is
   read by h2_take.h. HPACK is nghttp2's. Frames are built by hand so that a test can also send what no server library would. */
#ifndef KP_TESTS_H2_PEER_H
#define KP_TESTS_H2_PEER_H

#include "base/buf.h"
#include "net/http.h"

#include <nghttp2/nghttp2.h>

struct h2_peer {
	struct kp_buf out;  /* bytes for the client */
	struct kp_buf in;   /* the client's bytes, not parsed yet */
	struct kp_buf log;  /* what the client sent, a line a frame */
	struct kp_buf body; /* all DATA of the client, every stream */
	nghttp2_hd_deflater *deflater;
	nghttp2_hd_inflater *inflater;
	bool has_preface;
};

KP_UNUSED static void h2_peer_init(struct h2_peer *p)
{
	*p = (struct h2_peer){ .has_preface = false };
	kp_buf_init(&p->out, SIZE_MAX);
	kp_buf_init(&p->in, SIZE_MAX);
	kp_buf_init(&p->log, SIZE_MAX);
	kp_buf_init(&p->body, SIZE_MAX);
	KP_BUG_ON(nghttp2_hd_deflate_new(&p->deflater, 4096) != 0);
	KP_BUG_ON(nghttp2_hd_inflate_new(&p->inflater) != 0);
}

KP_UNUSED static void h2_peer_fini(struct h2_peer *p)
{
	kp_buf_fini(&p->out);
	kp_buf_fini(&p->in);
	kp_buf_fini(&p->log);
	kp_buf_fini(&p->body);
	nghttp2_hd_deflate_del(p->deflater);
	nghttp2_hd_inflate_del(p->inflater);
}

KP_UNUSED static void h2_u32(struct kp_buf *b, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8) {
		kp_buf_addc(b, (char)(v >> shift));
	}
}

KP_UNUSED static void h2_frame(
	struct h2_peer *p, uint8_t type, uint8_t flags, int32_t id, kp_str payload)
{
	kp_buf_addc(&p->out, (char)(payload.n >> 16));
	kp_buf_addc(&p->out, (char)(payload.n >> 8));
	kp_buf_addc(&p->out, (char)payload.n);
	kp_buf_addc(&p->out, (char)type);
	kp_buf_addc(&p->out, (char)flags);
	h2_u32(&p->out, (uint32_t)id);
	kp_buf_add(&p->out, payload);
}

/* max_streams 0: the setting is not sent. */
KP_UNUSED static void h2_settings(struct h2_peer *p, uint32_t max_streams)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 6);
	if (max_streams) {
		kp_buf_addc(&b, 0);
		kp_buf_addc(&b, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
		h2_u32(&b, max_streams);
	}
	h2_frame(p, NGHTTP2_SETTINGS, 0, 0, kp_buf_str(&b));
}

/* Name, value, name, value, ..., NULL. A block longer than a frame is cut into CONTINUATIONs. */
KP_UNUSED static void h2_headers(
	struct h2_peer *p, int32_t id, bool is_last, const char *const *pairs)
{
	nghttp2_nv nv[4096];
	size_t n = 0;
	for (; pairs[2 * n]; n++) {
		nv[n] = (nghttp2_nv){ kp_unconst(pairs[2 * n]), kp_unconst(pairs[2 * n + 1]),
			strlen(pairs[2 * n]), strlen(pairs[2 * n + 1]), NGHTTP2_NV_FLAG_NONE };
	}
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, SIZE_MAX);
	size_t bound = nghttp2_hd_deflate_bound(p->deflater, nv, n);
	KP_BUG_ON(!kp_buf_reserve(&b, bound));
	ssize_t used = nghttp2_hd_deflate_hd(p->deflater, (uint8_t *)b.p, bound, nv, n);
	KP_BUG_ON(used < 0);
	kp_str rest = { b.p, (size_t)used };
	uint8_t type = NGHTTP2_HEADERS;
	do {
		kp_str part = kp_str_sub(rest, 0, 16384);
		rest = kp_str_skip(rest, part.n);
		uint8_t flags = rest.n ? 0 : NGHTTP2_FLAG_END_HEADERS;
		if (type == NGHTTP2_HEADERS && is_last) {
			flags |= NGHTTP2_FLAG_END_STREAM;
		}
		h2_frame(p, type, flags, id, part);
		type = NGHTTP2_CONTINUATION;
	} while (rest.n);
}
#define H2_HEADERS(p, id, is_last, ...) \
	h2_headers((p), (id), (is_last), (const char *const[]){ __VA_ARGS__, NULL, NULL })
/* The usual first block and the usual trailers. */
#define H2_HEAD(p, id) \
	H2_HEADERS((p), (id), false, ":status", "200", "content-type", "application/grpc")
#define H2_STATUS(p, id, s) H2_HEADERS((p), (id), true, "grpc-status", (s))

KP_UNUSED static void h2_data(struct h2_peer *p, int32_t id, bool is_last, kp_str bytes)
{
	h2_frame(p, NGHTTP2_DATA, is_last ? NGHTTP2_FLAG_END_STREAM : 0, id, bytes);
}

/* A message with its prefix, into b. */
KP_UNUSED static void h2_message(struct kp_buf *b, kp_str message)
{
	kp_buf_addc(b, 0);
	h2_u32(b, (uint32_t)message.n);
	kp_buf_add(b, message);
}

/* One message in one DATA frame. */
KP_UNUSED static void h2_send(struct h2_peer *p, int32_t id, kp_str message)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, SIZE_MAX);
	h2_message(&b, message);
	h2_data(p, id, false, kp_buf_str(&b));
}

KP_UNUSED static void h2_rst(struct h2_peer *p, int32_t id, uint32_t error)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4);
	h2_u32(&b, error);
	h2_frame(p, NGHTTP2_RST_STREAM, 0, id, kp_buf_str(&b));
}

KP_UNUSED static void h2_goaway(struct h2_peer *p, int32_t last_id, uint32_t error, kp_str text)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, SIZE_MAX);
	h2_u32(&b, (uint32_t)last_id);
	h2_u32(&b, error);
	kp_buf_add(&b, text);
	h2_frame(p, NGHTTP2_GOAWAY, 0, 0, kp_buf_str(&b));
}

/* More of the client's bytes on a stream and its connection. */
KP_UNUSED static void h2_window(struct h2_peer *p, int32_t id, uint32_t n)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4);
	h2_u32(&b, n);
	h2_frame(p, NGHTTP2_WINDOW_UPDATE, 0, id, kp_buf_str(&b));
	h2_frame(p, NGHTTP2_WINDOW_UPDATE, 0, 0, kp_buf_str(&b));
}

#endif
