/* DESIGN: messages with headers. harmony (gpt-oss): <|start|>role<|channel|>name to=receiver <|constrain|>json<|message|>text<|end|>. What is between two messages is a header, also
   when it has junk in it; the header says what the text is. The answer begins inside of a header, whose <|start|>assistant the prompt had. Inkling:
   <|message_model|>name<|content_text|>text<|end_message|>, where the marker behind the header says it. What goes to a tool that the model has built in is a call
   if the client offers a tool of that name, else a thought; Python's code, which is no JSON, becomes {"code": ".."}. */
#include "parse/machine.h"

enum { HEADER_MAX = 4096 };

void kp_channels_begin(struct kp_parser *p)
{
	p->mode = KP_M_HEADER;
	p->in_section = true;
}

/* The word behind `after`, up to white space or a marker. */
static kp_str word_behind(kp_str header, kp_str after)
{
	ptrdiff_t at = kp_str_find(header, after);
	if (at < 0) {
		return KP_STR_NULL;
	}
	header = kp_str_skip(header, (size_t)at + after.n);
	size_t n = 0;
	while (n < header.n && !kp_is_space(header.p[n]) && header.p[n] != '<') {
		n++;
	}
	return kp_str_sub(header, 0, n);
}

/* Arguments that are plain text: the one string in an object. */
static void text_begin(struct kp_parser *p, const char *key)
{
	kp_tags_begin(p);
	kp_object_key(p, kp_str_c(key));
	kp_call_args(p, KP_S("\""));
	p->has_args = true;
	p->mode = KP_M_MESSAGE;
	p->message_kind = KP_EV_TOOL_ARGUMENTS;
}

static void call_begin(struct kp_parser *p, kp_str name, const char *text_key)
{
	char copy[KP_NAME_MAX + 1];
	size_t n = KP_MIN(name.n, sizeof(copy));
	memcpy(copy, name.p, n);
	kp_buf_reset(&p->raw);
	p->is_bare = false;
	if (!kp_call_start(p, kp_str_n(copy, n))) {
		return;
	}
	p->has_args = false;
	if (text_key) {
		text_begin(p, text_key);
	} else {
		kp_jscan_init(&p->scan);
		p->mode = KP_M_ARGS;
	}
}

static void harmony_begin(struct kp_parser *p, kp_str header)
{
	kp_str to = word_behind(header, KP_S("to=")),
	       channel = word_behind(header, KP_S("<|channel|>"));
	bool function = kp_str_starts(to, KP_S("functions.")),
	     final = kp_str_eq(channel, KP_S("final"));
	bool built_in = to.n && !function && p->offer && kp_tool_offer_find(p->offer, to);
	if (!final && ((function && p->offer && p->offer->n) || built_in)) {
		call_begin(p, kp_str_skip(to, function ? 10 : 0),
			kp_str_eq(to, KP_S("python")) ? "code" : NULL);
	} else if (kp_str_eq(channel, KP_S("analysis")) || (to.n && !function)) {
		p->message_kind = KP_EV_REASONING;
	}
}

static void block_begin(struct kp_parser *p, kp_str header, kp_str kind)
{
	bool offered = p->offer && p->offer->n;
	if (kp_str_has(kind, KP_S("thinking"))) {
		p->message_kind = KP_EV_REASONING;
	} else if (offered && kp_str_has(kind, KP_S("json"))) {
		kp_buf_reset(&p->raw);
		kp_buf_add(&p->raw, kind);
		p->is_bare = p->in_array = false;
		p->n_calls_before = p->n_calls;
		kp_json_body_begin(p);
	} else if (offered && kp_str_has(kind, KP_S("invoke")) &&
		   kp_name_is_good(kp_str_trim(header))) {
		call_begin(p, kp_str_trim(header), "text");
	}
}

/* kind: the marker that ends the header. */
static void message_begin(struct kp_parser *p, kp_str kind)
{
	kp_str header = kp_buf_str(&p->header);
	p->mode = KP_M_MESSAGE;
	p->message_kind = KP_EV_TEXT;
	kp_buf_reset(&p->space);
	if (p->g->message) {
		block_begin(p, header, kind);
	} else {
		harmony_begin(p, header);
	}
	kp_buf_reset(&p->header);
}

static void end_call(struct kp_parser *p, bool truncated)
{
	if (p->confirmed && p->mode == KP_M_MESSAGE && !truncated) {
		kp_call_args(p, KP_S("\"}"));
	} else if (p->mode == KP_M_JSON && !p->confirmed && p->raw.n) {
		kp_calls_reject(p);
	}
	if (p->confirmed && !p->has_args && !truncated) {
		kp_call_args(p, KP_S("{}"));
	}
	kp_call_end(p);
}

static void message_end(struct kp_parser *p)
{
	end_call(p, false);
	kp_buf_reset(&p->header);
	p->mode = KP_M_HEADER;
}

size_t kp_channels_data(struct kp_parser *p, kp_str run)
{
	switch (p->mode) {
	case KP_M_HEADER:
		if (p->header.n + run.n > HEADER_MAX) { /* no header is so long: text */
			p->message_kind = KP_EV_TEXT;
			p->mode = KP_M_MESSAGE;
			kp_out(p, KP_EV_TEXT, kp_buf_str(&p->header));
			kp_buf_reset(&p->header);
			return 0;
		}
		kp_buf_add(&p->header, run);
		return run.n;
	case KP_M_MESSAGE:
		p->has_text = p->has_text || p->message_kind == KP_EV_TEXT;
		if (p->message_kind == KP_EV_TOOL_ARGUMENTS) {
			kp_put_escaped(p, run);
			return run.n;
		}
		kp_out(p, p->message_kind, run);
		return run.n;
	default:
		return kp_calls_data(p, run);
	}
}

void kp_channels_mark(struct kp_parser *p, enum kp_mark kind, kp_str text)
{
	if (p->mode != KP_M_HEADER) {
		switch ((int)kind) {
		case KP_K_MESSAGE:
		case KP_K_CONSTRAIN: /* not where they belong */
			p->n_dropped += text.n;
			return;
		default:
			message_end(p);
			if (kind == KP_K_CHANNEL) {
				kp_buf_add(&p->header, text);
			}
			return;
		}
	}
	switch ((int)kind) {
	case KP_K_MESSAGE:
		message_begin(p, text);
		break;
	case KP_K_START:
	case KP_K_END:
		p->n_dropped += p->header.n;
		kp_buf_reset(&p->header);
		break;
	default:
		kp_buf_add(&p->header, text);
	}
}

void kp_channels_finish(struct kp_parser *p, bool truncated)
{
	kp_str header = kp_buf_str(&p->header);
	if (p->mode == KP_M_HEADER && header.n && !kp_str_has(header, KP_S("<|")) && !p->has_text) {
		kp_out(p, KP_EV_TEXT, header); /* an answer without any markup */
	}
	end_call(p, truncated); /* its <|call|> is a stop token, which no parser sees */
}
