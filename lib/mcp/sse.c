/* DESIGN: a line is collected until CR, LF or both end it; a line that came in one piece is read where it stands. */
#include "mcp/sse.h"

void kp_sse_init(struct kp_sse *s, size_t max_bytes, int (*event)(void *, kp_str, struct kp_err *),
	void *ctx)
{
	*s = (struct kp_sse){ .event = event, .ctx = ctx };
	kp_buf_init(&s->line, max_bytes + 16);
	kp_buf_init(&s->data, max_bytes);
}

void kp_sse_fini(struct kp_sse *s)
{
	kp_buf_fini(&s->line);
	kp_buf_fini(&s->data);
}

static int too_large(const struct kp_sse *s, struct kp_err *err)
{
	return kp_err_set(err, KP_TOO_LARGE,
		"read the event stream: an event has more than %zu bytes", s->data.max);
}

static int end_event(struct kp_sse *s, struct kp_err *err)
{
	int rc = 0;
	if (s->has_data && !s->is_other) {
		rc = s->event(s->ctx, kp_buf_str(&s->data), err);
	}
	kp_buf_reset(&s->data);
	s->has_data = s->is_other = false;
	return rc;
}

static int take_line(struct kp_sse *s, kp_str line, struct kp_err *err)
{
	if (!s->is_begun) {
		s->is_begun = true;
		line = kp_str_starts(line, KP_S("\xef\xbb\xbf")) ? kp_str_skip(line, 3) : line;
	}
	if (line.n == 0) {
		return end_event(s, err);
	}
	ptrdiff_t colon = kp_str_find_char(line, ':');
	kp_str name = colon < 0 ? line : kp_str_sub(line, 0, (size_t)colon);
	kp_str value = colon < 0 ? KP_S("") : kp_str_skip(line, (size_t)colon + 1);
	value = kp_str_starts(value, KP_S(" ")) ? kp_str_skip(value, 1) : value;
	if (kp_str_eq(name, KP_S("data"))) {
		if (s->has_data) {
			kp_buf_addc(&s->data, '\n');
		}
		s->has_data = true;
		kp_buf_add(&s->data, value);
	} else if (kp_str_eq(name, KP_S("event"))) {
		s->is_other = value.n > 0 && !kp_str_eq(value, KP_S("message"));
	}
	return s->data.failed ? too_large(s, err) : 0;
}

int kp_sse_feed(struct kp_sse *s, kp_str bytes, struct kp_err *err)
{
	while (bytes.n) {
		size_t n = 0;
		if (s->after_cr && bytes.p[0] == '\n') {
			bytes = kp_str_skip(bytes, 1);
			s->after_cr = false;
			continue;
		}
		s->after_cr = false;
		while (n < bytes.n && bytes.p[n] != '\n' && bytes.p[n] != '\r') {
			n++;
		}
		if (n == bytes.n || s->line.n) {
			kp_buf_add(&s->line, kp_str_sub(bytes, 0, n));
		}
		if (s->line.failed) {
			return too_large(s, err);
		}
		if (n == bytes.n) {
			return 0;
		}
		s->after_cr = bytes.p[n] == '\r';
		if (take_line(s, s->line.n ? kp_buf_str(&s->line) : kp_str_sub(bytes, 0, n), err)) {
			return -1;
		}
		kp_buf_reset(&s->line);
		bytes = kp_str_skip(bytes, n + 1);
	}
	return 0;
}
