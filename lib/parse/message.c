/* DESIGN: append only. The first delta of a call has its id, type and whole name, the later ones its index and a piece of the arguments. */
#include "parse/message.h"

#include "json/write.h"

static void put_call(const struct kp_event *ev, struct kp_buf *out)
{
	kp_buf_lit(out, "\"id\":");
	kp_json_w_str(out, ev->tool.id);
	kp_buf_lit(out, ",\"type\":\"function\",\"function\":{\"name\":");
	kp_json_w_str(out, ev->tool.name);
	kp_buf_lit(out, ",\"arguments\":");
}

bool kp_message_delta(
	const struct kp_event *ev, size_t n_calls, const char *reasoning_field, struct kp_buf *out)
{
	switch ((int)ev->kind) {
	case KP_EV_TEXT:
	case KP_EV_REASONING:
		kp_buf_printf(out, "\"%s\":", ev->kind == KP_EV_TEXT ? "content" : reasoning_field);
		kp_json_w_str(out, ev->text);
		return true;
	case KP_EV_TOOL_START:
		kp_buf_printf(out, "\"tool_calls\":[{\"index\":%u,", ev->tool.index);
		put_call(ev, out);
		kp_buf_lit(out, "\"\"}}]");
		return true;
	case KP_EV_TOOL_ARGUMENTS:
		kp_buf_printf(out,
			"\"tool_calls\":[{\"index\":%zu,\"function\":{\"arguments\":", n_calls - 1);
		kp_json_w_str(out, ev->text);
		kp_buf_lit(out, "}}]");
		return true;
	default:
		return false;
	}
}

void kp_message_init(struct kp_message *m, size_t max_bytes)
{
	*m = (struct kp_message){ .n_calls = 0 };
	kp_buf_init(&m->text, max_bytes);
	kp_buf_init(&m->reasoning, max_bytes);
	kp_buf_init(&m->calls, max_bytes);
	kp_buf_init(&m->arguments, max_bytes);
}

void kp_message_fini(struct kp_message *m)
{
	kp_buf_fini(&m->text);
	kp_buf_fini(&m->reasoning);
	kp_buf_fini(&m->calls);
	kp_buf_fini(&m->arguments);
}

void kp_message_add(struct kp_message *m, const struct kp_event *ev)
{
	switch ((int)ev->kind) {
	case KP_EV_TEXT:
		kp_buf_add(&m->text, ev->text);
		break;
	case KP_EV_REASONING:
		kp_buf_add(&m->reasoning, ev->text);
		break;
	case KP_EV_TOOL_START:
		kp_buf_addz(&m->calls, m->n_calls++ ? ",{" : "{");
		put_call(ev, &m->calls);
		kp_buf_reset(&m->arguments);
		break;
	case KP_EV_TOOL_ARGUMENTS:
		kp_buf_add(&m->arguments, ev->text);
		break;
	case KP_EV_TOOL_END:
		kp_json_w_str(&m->calls, kp_buf_str(&m->arguments));
		kp_buf_lit(&m->calls, "}}");
		break;
	default:
		break;
	}
}

bool kp_message_write(
	const struct kp_message *m, const char *reasoning_field, bool all, struct kp_buf *out)
{
	kp_buf_lit(out, "\"content\":");
	if (m->text.n || !(m->reasoning.n || m->n_calls)) {
		kp_json_w_str(out, kp_buf_str(&m->text));
	} else {
		kp_buf_lit(out, "null");
	}
	if (m->reasoning.n || all) {
		kp_buf_printf(out, ",\"%s\":", reasoning_field);
		if (m->reasoning.n) {
			kp_json_w_str(out, kp_buf_str(&m->reasoning));
		} else {
			kp_buf_lit(out, "null");
		}
	}
	if (m->n_calls || all) {
		kp_buf_lit(out, ",\"tool_calls\":[");
		kp_buf_add(out, kp_buf_str(&m->calls));
		kp_buf_addc(out, ']');
	}
	return !m->text.failed && !m->reasoning.failed && !m->calls.failed && !m->arguments.failed;
}

const char *kp_message_finish(const char *reason, size_t n_calls)
{
	return n_calls && strcmp(reason, "stop") == 0 ? "tool_calls" : reason;
}
