/* DESIGN: harmony (gpt-oss): <|start|>role<|channel|>name to=receiver <|constrain|>json<|message|>text<|end|>. What is between two messages is a header, also
   when it has junk in it; the header says what the text is. The answer begins inside of a header, whose <|start|>assistant the prompt had. */
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

static void message_begin(struct kp_parser *p)
{
	kp_str header = kp_buf_str(&p->header);
	kp_str to = word_behind(header, KP_S("to=")),
	       channel = word_behind(header, KP_S("<|channel|>"));
	bool function = kp_str_starts(to, KP_S("functions.")),
	     final = kp_str_eq(channel, KP_S("final"));
	p->mode = KP_M_MESSAGE;
	p->message_kind = KP_EV_TEXT;
	kp_buf_reset(&p->space);
	if (function && !final && p->offer && p->offer->n) {
		kp_buf_reset(&p->raw);
		p->is_bare = false;
		if (kp_call_start(p, kp_str_skip(to, 10))) {
			kp_jscan_init(&p->scan);
			p->has_args = false;
			p->mode = KP_M_ARGS;
		} else {
			p->mode = KP_M_MESSAGE;
		}
	} else if (kp_str_eq(channel, KP_S("analysis")) || (to.n && !function)) {
		p->message_kind =
			KP_EV_REASONING; /* and what goes to tools that the model has built in */
	}
	kp_buf_reset(&p->header);
}

static void end_call(struct kp_parser *p, bool truncated)
{
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
		message_begin(p);
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
