/* DESIGN: Anthropic's message, streamed and whole. One walk over the events for both: blocks begin, grow and end, one at a time; the two differ in what they
   write for that (`is_streamed`). White space before a text is held until the text comes, so that what stands between two calls makes no block; of
   more than MAX_HELD bytes it is text. The stop reason waits for the usage, which the same event tells. */
#include "json/write.h"
#include "sidecar/api/generate.h"
#include "sidecar/errors.h"

enum { MAX_ANSWER = 64 << 20, MAX_HELD = 256, SCRATCH = 64 << 20 };
enum block { NO_BLOCK = 0, TEXT, THINKING, TOOL_USE };

struct state {
	const struct kp_turn *turn;
	bool is_streamed;
	enum block open;
	uint32_t n_blocks; /* begun */
	struct kp_buf held;
	struct kp_usage usage;
	const char *stop_reason;
	kp_str stop_sequence;
	struct kp_output_fault fault; /* result NONE: none */
	/* Of an answer that is not streamed. */
	struct kp_buf content; /* blocks, commas between */
	struct kp_buf input;   /* of the open tool_use */
};

static void *open_state(const struct kp_turn *turn, bool is_streamed)
{
	struct state *s = kp_arena_new(turn->arena, struct state);
	*s = (struct state){ .turn = turn, .is_streamed = is_streamed, .stop_reason = "end_turn" };
	kp_buf_init(&s->held, MAX_HELD + 1);
	kp_buf_init(&s->content, MAX_ANSWER);
	kp_buf_init(&s->input, MAX_ANSWER);
	return s;
}

static void close_state(void *state)
{
	struct state *s = state;
	kp_buf_fini(&s->held);
	kp_buf_fini(&s->content);
	kp_buf_fini(&s->input);
}

/* --- pieces ----------------------------------------------------------------------------------------------------------------------- */

static void put_event(struct kp_buf *out, const char *type)
{
	kp_buf_lit(out, "event: ");
	kp_buf_addz(out, type);
	kp_buf_lit(out, "\ndata: {\"type\":\"");
	kp_buf_addz(out, type);
	kp_buf_addc(out, '"');
}

static void end_event(struct kp_buf *out)
{
	kp_buf_lit(out, "}\n\n");
}

static void put_usage(struct kp_buf *out, const struct kp_usage *u)
{
	uint32_t cached = KP_MIN(u->cached_tokens, u->prompt_tokens);
	kp_buf_printf(out,
		"{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%u,\"output_tokens\":%u",
		u->prompt_tokens - cached, cached, u->completion_tokens);
	if (u->reasoning_tokens) {
		kp_buf_printf(out, ",\"output_tokens_details\":{\"thinking_tokens\":%u}",
			u->reasoning_tokens);
	}
	kp_buf_addc(out, '}');
}

/* Opaque to clients, which have to hand it back, and to us: a thought in the history is taken as it is. */
static void put_signature(struct kp_buf *out, const struct state *s)
{
	kp_json_w_str(out, s->turn->id);
}

static void put_message(struct kp_buf *out, const struct state *s, kp_str content, bool is_over)
{
	kp_buf_lit(out, "{\"id\":");
	kp_json_w_str(out, s->turn->id);
	kp_buf_lit(out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
	kp_json_w_str(out, s->turn->model);
	kp_buf_lit(out, ",\"content\":[");
	kp_buf_add(out, content);
	kp_buf_lit(out, "]");
	if (!is_over) {
		kp_buf_lit(out, ",\"stop_reason\":null,\"stop_sequence\":null");
	}
}

static void put_stop(struct kp_buf *out, const struct state *s)
{
	kp_buf_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", s->stop_reason);
	if (s->stop_sequence.p) {
		kp_json_w_str(out, s->stop_sequence);
	} else {
		kp_buf_lit(out, "null");
	}
}

static void put_fault_of(struct kp_buf *out, const struct state *s)
{
	if (s->fault.result) {
		kp_buf_addc(out, ',');
		kp_put_fault(out, &s->fault);
	}
}

/* --- blocks ----------------------------------------------------------------------------------------------------------------------- */

static void put_tool(struct kp_buf *out, const struct kp_event *ev)
{
	kp_buf_lit(out, "{\"type\":\"tool_use\",\"id\":");
	kp_json_w_str(out, ev->tool.id);
	kp_buf_lit(out, ",\"name\":");
	kp_json_w_str(out, ev->tool.name);
	kp_buf_lit(out, ",\"input\":");
}

/* Is it one JSON object? Of a call that was cut off it is not. */
static bool is_object(kp_str text)
{
	enum kp_json_type type;
	struct kp_err err;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(SCRATCH);
	return kp_json_check(text, a, &type, &err) == 0 && type == KP_JSON_OBJECT;
}

/* What is no object is handed on as text, under the name that Anthropic's documents give it. */
static void put_input(struct state *s, struct kp_buf *out)
{
	if (s->input.n == 0) {
		kp_buf_lit(out, "{}");
	} else if (is_object(kp_buf_str(&s->input))) {
		kp_buf_add(out, kp_buf_str(&s->input));
	} else {
		kp_buf_lit(out, "{\"INVALID_JSON\":");
		kp_json_w_str(out, kp_buf_str(&s->input));
		kp_buf_addc(out, '}');
	}
	s->content.failed |= s->input.failed;
	kp_buf_reset(&s->input);
}

static void begin_delta(struct state *s, const char *type, const char *member, struct kp_buf *out)
{
	put_event(out, "content_block_delta");
	kp_buf_lit(out, ",\"index\":");
	kp_buf_u64(out, s->n_blocks - 1);
	kp_buf_lit(out, ",\"delta\":{\"type\":\"");
	kp_buf_addz(out, type);
	kp_buf_lit(out, "\",\"");
	kp_buf_addz(out, member);
	kp_buf_lit(out, "\":");
}

static void end_block(struct state *s, struct kp_buf *out)
{
	enum block was = s->open;
	s->open = NO_BLOCK;
	if (!was) {
		return;
	}
	if (s->is_streamed) {
		if (was == THINKING) {
			begin_delta(s, "signature_delta", "signature", out);
			put_signature(out, s);
			kp_buf_addc(out, '}');
			end_event(out);
		}
		put_event(out, "content_block_stop");
		kp_buf_printf(out, ",\"index\":%u", s->n_blocks - 1);
		end_event(out);
		return;
	}
	if (was == TOOL_USE) {
		put_input(s, out);
	} else {
		kp_buf_addc(out, '"');
	}
	if (was == THINKING) {
		kp_buf_lit(out, ",\"signature\":");
		put_signature(out, s);
	}
	kp_buf_addc(out, '}');
}

static void begin_block(
	struct state *s, enum block kind, const struct kp_event *tool, struct kp_buf *out)
{
	end_block(s, out);
	s->open = kind;
	s->n_blocks++;
	if (s->is_streamed) {
		put_event(out, "content_block_start");
		kp_buf_printf(out, ",\"index\":%u,\"content_block\":", s->n_blocks - 1);
	} else if (s->n_blocks > 1) {
		kp_buf_addc(out, ',');
	}
	if (kind == TOOL_USE) {
		put_tool(out, tool);
		kp_buf_addz(out, s->is_streamed ? "{}}" : "");
	} else if (kind == THINKING) {
		kp_buf_lit(out, "{\"type\":\"thinking\",\"thinking\":\"");
		kp_buf_addz(out, s->is_streamed ? "\",\"signature\":\"\"}" : "");
	} else {
		kp_buf_lit(out, "{\"type\":\"text\",\"text\":\"");
		kp_buf_addz(out, s->is_streamed ? "\"}" : "");
	}
	if (s->is_streamed) {
		end_event(out);
	}
}

static void put_delta(struct state *s, kp_str text, struct kp_buf *out)
{
	static const char *const names[][2] = { [TEXT] = { "text_delta", "text" },
		[THINKING] = { "thinking_delta", "thinking" },
		[TOOL_USE] = { "input_json_delta", "partial_json" } };
	if (text.n == 0) {
		return;
	}
	if (!s->is_streamed) {
		if (s->open == TOOL_USE) {
			kp_buf_add(&s->input, text);
		} else {
			kp_json_w_esc(out, text);
		}
		return;
	}
	begin_delta(s, names[s->open][0], names[s->open][1], out);
	kp_json_w_str(out, text);
	kp_buf_addc(out, '}');
	end_event(out);
}

static void take_text(struct state *s, kp_str text, struct kp_buf *out)
{
	if (s->open == TEXT) {
		put_delta(s, text, out);
		return;
	}
	size_t n = kp_leading_space(text, MAX_HELD - s->held.n);
	kp_buf_add(&s->held, kp_str_sub(text, 0, n));
	if (n < text.n) {
		begin_block(s, TEXT, NULL, out);
		put_delta(s, kp_buf_str(&s->held), out);
		put_delta(s, kp_str_skip(text, n), out);
		kp_buf_reset(&s->held);
	}
}

/* --- events ----------------------------------------------------------------------------------------------------------------------- */

static void take_finish(struct state *s, const struct kp_event *ev)
{
	struct kp_err err;
	kp_str text = KP_STR_NULL;
	if (ev->finish.fault) {
		s->fault = *ev->finish.fault;
	}
	if (ev->finish.stop_text.p) {
		s->stop_reason = "stop_sequence";
		if (kp_arena_dup(s->turn->arena, ev->finish.stop_text, &text, &err) == 0) {
			s->stop_sequence = text;
		}
	} else if (ev->finish.tool_calls) {
		s->stop_reason = "tool_use";
	} else if (ev->finish.reason == KP_FINISH_LENGTH) {
		s->stop_reason = "max_tokens";
	}
}

/* What both have in common: the content. */
static void take_content(struct state *s, const struct kp_event *ev, struct kp_buf *out)
{
	if (ev->kind != KP_EV_TEXT) {
		kp_buf_reset(&s->held);
	}
	switch ((int)ev->kind) {
	case KP_EV_TEXT:
		take_text(s, ev->text, out);
		break;
	case KP_EV_REASONING:
		if (s->open != THINKING && ev->text.n) {
			begin_block(s, THINKING, NULL, out);
		}
		put_delta(s, ev->text, out);
		break;
	case KP_EV_TOOL_START:
		begin_block(s, TOOL_USE, ev, out);
		break;
	case KP_EV_TOOL_ARGUMENTS:
		put_delta(s, ev->text, out);
		break;
	case KP_EV_TOOL_END:
		end_block(s, out);
		break;
	case KP_EV_FINISH:
		end_block(s, out);
		take_finish(s, ev);
		break;
	default:
		break;
	}
}

/* --- streamed --- */

static void *streamed_open(const struct kp_turn *turn, size_t n_choices, struct kp_err *err)
{
	(void)n_choices;
	(void)err;
	return open_state(turn, true);
}

static void streamed_event(void *state, const struct kp_event *ev, struct kp_buf *out)
{
	struct state *s = state;
	if (ev->kind == KP_EV_ROLE) {
		put_event(out, "message_start");
		kp_buf_lit(out, ",\"message\":");
		put_message(out, s, KP_S(""), false);
		kp_buf_lit(out, ",\"usage\":");
		put_usage(out, &ev->prompt.usage);
		kp_buf_addc(out, '}');
		end_event(out);
	} else if (ev->kind == KP_EV_USAGE) {
		put_event(out, "message_delta");
		kp_buf_lit(out, ",\"delta\":{");
		put_stop(out, s);
		kp_buf_lit(out, "},\"usage\":");
		put_usage(out, &ev->usage);
		put_fault_of(out, s);
		end_event(out);
	} else if (ev->kind == KP_EV_ERROR) {
		kp_buf_lit(out, "event: error\ndata: ");
		kp_error_write(KP_DIALECT_ANTHROPIC, ev->error, s->turn->request_id, out);
		kp_buf_lit(out, "\n\n");
	} else {
		take_content(s, ev, out);
	}
}

static void streamed_end(void *state, struct kp_buf *out)
{
	(void)state;
	put_event(out, "message_stop");
	end_event(out);
}

const struct kp_encoder kp_messages_streamed = { "text/event-stream", true, streamed_open,
	streamed_event, streamed_end, close_state, "event: ping\ndata: {\"type\":\"ping\"}\n\n",
	NULL };

/* --- whole --- */

static void *whole_open(const struct kp_turn *turn, size_t n_choices, struct kp_err *err)
{
	(void)n_choices;
	(void)err;
	return open_state(turn, false);
}

static void whole_event(void *state, const struct kp_event *ev, struct kp_buf *out)
{
	struct state *s = state;
	(void)out;
	if (ev->kind == KP_EV_USAGE) {
		s->usage = ev->usage;
	} else {
		take_content(s, ev, &s->content);
	}
}

static void whole_end(void *state, struct kp_buf *out)
{
	struct state *s = state;
	put_message(out, s, kp_buf_str(&s->content), true);
	kp_buf_addc(out, ',');
	put_stop(out, s);
	kp_buf_lit(out, ",\"usage\":");
	put_usage(out, &s->usage);
	put_fault_of(out, s);
	kp_buf_addc(out, '}');
	out->failed |= s->content.failed;
}

static void whole_forget(void *state, uint32_t choice)
{
	struct state *s = state;
	(void)choice; /* there is one */
	s->open = NO_BLOCK;
	s->n_blocks = 0;
	s->stop_reason = "end_turn";
	s->stop_sequence = KP_STR_NULL;
	kp_buf_reset(&s->held);
	kp_buf_reset(&s->content);
	kp_buf_reset(&s->input);
}

const struct kp_encoder kp_messages_whole = { "application/json", false, whole_open, whole_event,
	whole_end, close_state, NULL, whole_forget };
