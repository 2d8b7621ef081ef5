/* DESIGN: the text is written until it is full; what does not fit is counted, so that the model is told how much it does not see. */
#include "mcp/message.h"

#include "base/utf8.h"

#include <stdio.h>

struct writer {
	struct kp_buf *out;
	size_t begin, max;
	uint64_t total; /* bytes there would be */
};

static bool is_control(uint32_t cp)
{
	return (cp < 0x20 && cp != '\t' && cp != '\n') || (cp >= 0x7f && cp < 0xa0);
}

void kp_mcp_text_add(struct kp_buf *out, kp_str s)
{
	size_t from = 0;
	for (size_t i = 0; i < s.n;) {
		unsigned char c = (unsigned char)s.p[i];
		uint32_t cp = c;
		size_t n = c < 0x80 ? 1 : kp_utf8_decode(s.p + i, s.n - i, &cp);
		n = n ? n : 1;
		if (is_control(cp)) {
			kp_buf_add(out, kp_str_sub(s, from, i));
			if (cp != '\r' || i + 1 >= s.n || s.p[i + 1] != '\n') {
				kp_buf_lit(out, "\xef\xbf\xbd");
			}
			from = i + n;
		}
		i += n;
	}
	kp_buf_add(out, kp_str_skip(s, from));
}

static void write_text(struct writer *w, kp_str s)
{
	size_t before = w->out->n, used = before - w->begin,
	       room = w->max > used ? w->max - used : 0;
	size_t n = s.n;
	if (s.n > room) {
		s = kp_str_sub(s, 0, room);
		s = kp_str_sub(s, 0, s.n - kp_utf8_incomplete_tail(s));
	}
	kp_mcp_text_add(w->out, s);
	w->total += w->out->n - before + (n - s.n);
	if (w->out->n - before > room) { /* U+FFFD is longer than what it stands for */
		kp_str kept = kp_str_n(w->out->p + before, room);
		w->out->n = before + room - kp_utf8_incomplete_tail(kept);
	}
}

static void write_binary(struct writer *w, const char *what, kp_str type, size_t base64_bytes)
{
	char text[200];
	type = kp_str_sub(type, 0, 80);
	type = kp_str_sub(type, 0, type.n - kp_utf8_incomplete_tail(type));
	snprintf(text, sizeof(text), "[%s%s%.*s, about %zu bytes: not shown]", what,
		type.n ? " of type " : "", KP_ARG(type), base64_bytes / 4 * 3);
	write_text(w, kp_str_c(text));
}

static void write_part(struct writer *w, const struct kp_jv *part)
{
	kp_str type = kp_jv_str(part, KP_S("type")), mime = kp_jv_str(part, KP_S("mimeType"));
	if (kp_str_eq(type, KP_S("text"))) {
		write_text(w, kp_jv_str(part, KP_S("text")));
	} else if (kp_str_eq(type, KP_S("image"))) {
		write_binary(w, "an image", mime, kp_jv_str(part, KP_S("data")).n);
	} else if (kp_str_eq(type, KP_S("audio"))) {
		write_binary(w, "a sound", mime, kp_jv_str(part, KP_S("data")).n);
	} else if (kp_str_eq(type, KP_S("resource_link"))) {
		write_text(w, KP_S("[a resource: "));
		write_text(w, kp_jv_str(part, KP_S("uri")));
		write_text(w, KP_S("]"));
	} else if (kp_str_eq(type, KP_S("resource"))) {
		const struct kp_jv *r = kp_jv_get(part, KP_S("resource"));
		const struct kp_jv *text = kp_jv_get(r, KP_S("text"));
		if (kp_jv_is(text, KP_JSON_STRING)) {
			write_text(w, text->s);
		} else {
			write_binary(w, "a resource", kp_jv_str(r, KP_S("mimeType")),
				kp_jv_str(r, KP_S("blob")).n);
		}
	} else {
		write_text(w, KP_S("[content of another kind: not shown]"));
	}
}

int kp_mcp_result_text(const struct kp_jv *result, size_t max_bytes, struct kp_buf *out,
	struct kp_mcp_text *ret, struct kp_err *err)
{
	struct writer w = { .out = out, .begin = out->n, .max = max_bytes };
	const struct kp_jv *content = kp_jv_get(result, KP_S("content")),
			   *structured = kp_jv_get(result, KP_S("structuredContent"));
	bool has_content = kp_jv_is(content, KP_JSON_ARRAY);
	if (!has_content && !structured) {
		return kp_err_set(err, KP_DATA_LOSS, "read the result: it has no `content`");
	}
	if (has_content && content->n) {
		for (uint32_t i = 0; i < content->n; i++) {
			if (i) {
				write_text(&w, KP_S("\n"));
			}
			write_part(&w, &content->items[i]);
		}
	} else if (structured) {
		KP_AUTO(buf) struct kp_buf text;
		kp_buf_init(&text, KP_MCP_MESSAGE_ARENA);
		kp_jv_write(structured, &text);
		write_text(&w, kp_buf_str(&text));
	}
	ret->is_error = kp_jv_is(kp_jv_get(result, KP_S("isError")), KP_JSON_TRUE);
	ret->is_cut = w.total > max_bytes;
	if (ret->is_cut) {
		kp_buf_printf(out, "\n[cut: %zu of %llu bytes are shown]", out->n - w.begin,
			(unsigned long long)w.total);
	}
	return kp_buf_finish(out, "result", err);
}
