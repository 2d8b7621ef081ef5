/* What a client sent to an h2_peer, as one line of text per frame. */
#ifndef KP_TESTS_H2_TAKE_H
#define KP_TESTS_H2_TAKE_H

#include "h2_peer.h"

static void h2_log_block(struct h2_peer *p, kp_str block)
{
	for (;;) {
		nghttp2_nv nv;
		int flags = 0;
		ssize_t used = nghttp2_hd_inflate_hd2(
			p->inflater, &nv, &flags, (const uint8_t *)block.p, block.n, 1);
		KP_BUG_ON(used < 0);
		block = kp_str_skip(block, (size_t)used);
		if (flags & NGHTTP2_HD_INFLATE_EMIT) {
			kp_buf_printf(&p->log, " %.*s=%.*s", (int)nv.namelen, (const char *)nv.name,
				(int)nv.valuelen, (const char *)nv.value);
		}
		if (flags & NGHTTP2_HD_INFLATE_FINAL) {
			nghttp2_hd_inflate_end_headers(p->inflater);
			return;
		}
		KP_BUG_ON(block.n == 0 && !(flags & NGHTTP2_HD_INFLATE_EMIT));
	}
}

static uint32_t h2_get32(kp_str s, size_t at)
{
	const unsigned char *u = (const unsigned char *)s.p + at;
	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static void h2_log_frame(
	struct h2_peer *p, uint8_t type, uint8_t flags, uint32_t id, kp_str payload)
{
	const char *last = flags & NGHTTP2_FLAG_END_STREAM ? " end" : "";
	const char *ack = flags & NGHTTP2_FLAG_ACK ? " ack" : "";
	switch (type) {
	case NGHTTP2_HEADERS:
		kp_buf_printf(&p->log, "headers %u%s:", id, last);
		h2_log_block(p, payload);
		break;
	case NGHTTP2_DATA:
		kp_buf_printf(&p->log, "data %u%s: %zu", id, last, payload.n);
		kp_buf_add(&p->body, payload);
		break;
	case NGHTTP2_RST_STREAM:
		kp_buf_printf(
			&p->log, "rst %u: %s", id, nghttp2_http2_strerror(h2_get32(payload, 0)));
		break;
	case NGHTTP2_WINDOW_UPDATE:
		kp_buf_printf(&p->log, "window %u: %u", id, h2_get32(payload, 0));
		break;
	case NGHTTP2_GOAWAY:
		kp_buf_printf(&p->log, "goaway: %s", nghttp2_http2_strerror(h2_get32(payload, 4)));
		break;
	case NGHTTP2_PING:
		kp_buf_printf(&p->log, "ping%s", ack);
		break;
	case NGHTTP2_SETTINGS:
		kp_buf_printf(&p->log, "settings%s:", ack);
		for (size_t i = 0; i + 6 <= payload.n; i += 6) {
			kp_buf_printf(&p->log, " %u=%u", (unsigned)(unsigned char)payload.p[i + 1],
				h2_get32(payload, i + 2));
		}
		break;
	default:
		kp_buf_printf(&p->log, "frame %u", (unsigned)type);
	}
	kp_buf_addc(&p->log, '\n');
}

/* What the client sent, in any pieces. */
KP_UNUSED static void h2_take(struct h2_peer *p, kp_str bytes)
{
	static const kp_str preface = { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24 };
	kp_buf_add(&p->in, bytes);
	if (!p->has_preface && p->in.n >= preface.n) {
		KP_BUG_ON(!kp_str_starts(kp_buf_str(&p->in), preface));
		kp_buf_consume(&p->in, preface.n);
		p->has_preface = true;
	}
	while (p->has_preface && p->in.n >= 9) {
		uint32_t head = h2_get32(kp_buf_str(&p->in), 0);
		size_t len = head >> 8;
		if (p->in.n < 9 + len) {
			return;
		}
		h2_log_frame(p, (uint8_t)head, (uint8_t)p->in.p[4], h2_get32(kp_buf_str(&p->in), 5),
			kp_str_n(p->in.p + 9, len));
		kp_buf_consume(&p->in, 9 + len);
	}
}

#endif
