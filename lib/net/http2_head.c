/* DESIGN: from the fields of an HTTP/2 header block to a request. The fields gather in one text; the stream gets a copy with its
   slices beside it, in one allocation. nghttp2 has already refused what is malformed as HTTP/2 (pseudo-headers, upper case, connection headers, control bytes); what is
   checked here is what it leaves to the application, by the same rules as HTTP/1 (head.h). Pure but for the loop's spare buffer. */
#include "net/server_internal.h"

void kp_http2_head_begin(struct kp_http2_head *h, struct kp_http_server *s)
{
	if (h->text.cap == 0) {
		kp_loop_take_spare(s->loop, &h->text, s->limits.max_head_bytes);
	}
	kp_buf_reset(&h->text);
	h->fields.n = 0;
	h->refusal = (struct kp_refusal){ .status = 0 };
	h->bytes = h->count = 0;
}

void kp_http2_head_end(struct kp_http2_head *h, struct kp_http_server *s)
{
	kp_loop_give_spare(s->loop, &h->text);
}

bool kp_http2_head_add(struct kp_http2_head *h, const struct kp_http_limits *l, bool is_request,
	struct kp_header x)
{
	enum { PSEUDO = 4, OVERHEAD = 32 /* per field, as SETTINGS_MAX_HEADER_LIST_SIZE counts */ };
	h->count++;
	h->bytes += x.name.n + x.value.n + OVERHEAD;
	bool too_large = h->bytes > l->max_head_bytes || h->count > l->max_headers + PSEUDO;
	if (too_large && (!is_request || h->bytes > 4 * l->max_head_bytes)) {
		return false;
	}
	if (too_large) {
		h->refusal = kp_refuse(431, "the request head is too large");
	} else if (is_request) {
		struct kp_http2_field f = { (uint32_t)h->text.n, (uint32_t)x.name.n,
			(uint32_t)x.value.n };
		kp_buf_add(&h->text, x.name);
		kp_buf_add(&h->text, x.value);
		kp_vec_push(&h->fields, f);
	}
	return true;
}

static struct kp_refusal take_field(
	struct kp_stream *s, struct kp_header x, struct kp_header *headers, kp_str *host)
{
	struct kp_http_request *r = &s->req;
	struct kp_refusal ok = { .status = 0 };
	if (x.name.p[0] == ':') {
		if (kp_str_eq(x.name, KP_S(":method"))) {
			r->method = x.value;
		} else if (kp_str_eq(x.name, KP_S(":path"))) {
			r->target = x.value;
		} else if (kp_str_eq(x.name, KP_S(":authority"))) {
			r->authority = x.value;
		} else if (kp_str_eq(x.name, KP_S(":scheme"))) {
			r->scheme = x.value;
		}
	} else if (kp_str_eq(x.name, KP_S("host"))) {
		*host = x.value;
	} else if (kp_str_eq(x.name, KP_S("content-length"))) {
		uint64_t n;
		if (!kp_str_u64(x.value, INT64_MAX, &n)) {
			return kp_refuse(400, "Content-Length must be one decimal number");
		}
		r->content_length = (int64_t)n;
	} else if (kp_str_eq(x.name, KP_S("expect"))) {
		s->expect = true;
		if (!kp_str_ieq(x.value, KP_S("100-continue"))) {
			return kp_refuse(417, "the only expectation met is 100-continue");
		}
	} else if (kp_str_eq(x.name, KP_S("te"))) {
		r->te_trailers = true; /* nghttp2 lets no other value through */
	} else {
		headers[r->n_headers++] = x;
	}
	return ok;
}

static struct kp_refusal check_head(
	struct kp_stream *s, const struct kp_http_limits *l, kp_str host)
{
	struct kp_http_request *r = &s->req;
	if (r->authority.n == 0) {
		r->authority = host;
	} else if (host.n && !kp_str_ieq(host, r->authority)) {
		return kp_refuse(400, "Host and :authority differ");
	}
	if (!kp_head_is_authority(r->authority)) {
		return kp_refuse(400, "malformed :authority");
	}
	if (kp_str_eq(r->method, KP_S("CONNECT"))) {
		return kp_refuse(501, "CONNECT is not supported");
	}
	if (r->target.n > l->max_target_bytes) {
		return kp_refuse(414, "the request target is too long");
	}
	if (r->method.n > 32 || !kp_head_is_token(r->method)) {
		return kp_refuse(400, "malformed request method");
	}
	if (!kp_head_split_target(r->target, &r->path, &r->query) ||
		(r->target.p[0] == '*' && !kp_str_eq(r->method, KP_S("OPTIONS")))) {
		return kp_refuse(400, "malformed request target");
	}
	if (r->content_length > 0 && (uint64_t)r->content_length > l->max_body_bytes) {
		return kp_refuse(413, "the request body is too large");
	}
	return (struct kp_refusal){ .status = 0 };
}

struct kp_stream *kp_http2_head_stream(
	struct kp_http2_head *h, struct kp_http_conn *hc, struct kp_refusal *ret_refusal)
{
	size_t headers_bytes = h->fields.n * sizeof(struct kp_header);
	struct kp_stream *s =
		kp_buf_ok(&h->text) ? kp_stream_new(hc, headers_bytes + h->text.n) : NULL;
	if (!s) {
		return NULL;
	}
	struct kp_header *headers = (struct kp_header *)(s + 1);
	char *text = (char *)headers + headers_bytes;
	kp_str host = KP_STR_NULL;
	struct kp_refusal r = h->refusal;
	memcpy(text, h->text.p, h->text.n);
	s->req.version = 20;
	s->req.headers = headers;
	for (size_t i = 0; i < h->fields.n && !r.status; i++) {
		const struct kp_http2_field *f = &h->fields.p[i];
		const char *name = text + f->name;
		r = take_field(s,
			(struct kp_header){ { name, f->n_name }, { name + f->n_name, f->n_value } },
			headers, &host);
	}
	*ret_refusal = r.status ? r : check_head(s, &hc->server->limits, host);
	return s;
}
