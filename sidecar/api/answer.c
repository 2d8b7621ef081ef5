/* DESIGN: pieces of JSON that the generating APIs have in common; see generate.h. */
#include "json/write.h"
#include "sidecar/errors.h"
#include "sidecar/api/generate.h"

static const char *finish_name(enum kp_finish f)
{
	switch (f) {
	case KP_FINISH_LENGTH:
		return "length";
	case KP_FINISH_ABORT:
		return "abort";
	case KP_FINISH_ERROR:
		return "error";
	case KP_FINISH_NONE:
	case KP_FINISH_STOP:
		break;
	}
	return "stop";
}

void kp_put_usage(struct kp_buf *out, const struct kp_usage *u)
{
	kp_buf_lit(out, "{\"prompt_tokens\":");
	kp_buf_u64(out, u->prompt_tokens);
	kp_buf_lit(out, ",\"completion_tokens\":");
	kp_buf_u64(out, u->completion_tokens);
	kp_buf_lit(out, ",\"total_tokens\":");
	kp_buf_u64(out, (uint64_t)u->prompt_tokens + u->completion_tokens);
	kp_buf_lit(out, ",\"prompt_tokens_details\":{\"cached_tokens\":");
	kp_buf_u64(out, u->cached_tokens);
	if (u->reasoning_tokens) {
		kp_buf_lit(out, "},\"completion_tokens_details\":{\"reasoning_tokens\":");
		kp_buf_u64(out, u->reasoning_tokens);
	}
	kp_buf_lit(out, "}}");
}

void kp_put_logprob(struct kp_buf *out, float v)
{
	kp_json_w_f32(out, v > -9999.0f ? v : -9999.0f); /* NaN compares false: -9999.0 too */
}

static void put_token(struct kp_buf *out, const struct kp_event_logprob *p)
{
	kp_buf_lit(out, "{\"token\":");
	kp_json_w_str(out, p->bytes);
	kp_buf_lit(out, ",\"logprob\":");
	kp_put_logprob(out, p->logprob);
	kp_buf_lit(out, ",\"bytes\":[");
	for (size_t i = 0; i < p->bytes.n; i++) {
		if (i) {
			kp_buf_addc(out, ',');
		}
		kp_buf_u64(out, (unsigned char)p->bytes.p[i]);
	}
	kp_buf_addc(out, ']');
}

void kp_put_logprobs(struct kp_buf *out, const struct kp_event *ev)
{
	for (size_t i = 0; i < ev->logprobs.n; i++) {
		const struct kp_event_logprob *p = &ev->logprobs.items[i];
		if (out->n) {
			kp_buf_addc(out, ',');
		}
		put_token(out, p);
		kp_buf_lit(out, ",\"top_logprobs\":[");
		for (size_t k = 0; k < p->n_top; k++) {
			if (k) {
				kp_buf_addc(out, ',');
			}
			put_token(out, &p->top[k]);
			kp_buf_addc(out, '}');
		}
		kp_buf_lit(out, "]}");
	}
}

void kp_put_ids(struct kp_buf *out, const kp_id *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		kp_buf_addz(out, out->n ? "," : "");
		kp_buf_u64(out, ids[i]);
	}
}

static void put_prompt_token(struct kp_buf *out, const struct kp_event_logprob *p)
{
	kp_buf_printf(out, "\"%u\":{\"logprob\":", p->id);
	kp_put_logprob(out, p->logprob);
	kp_buf_lit(out, ",\"decoded_token\":");
	kp_json_w_str(out, p->bytes);
	kp_buf_addc(out, '}');
}

void kp_put_prompt_logprobs(struct kp_buf *out, const struct kp_event *ev)
{
	kp_buf_addc(out, '[');
	for (size_t i = 0; i < ev->logprobs.n; i++) {
		const struct kp_event_logprob *p = &ev->logprobs.items[i];
		kp_buf_addz(out, i ? "," : "");
		if (p->is_absent) {
			kp_buf_lit(out, "null");
			continue;
		}
		kp_buf_addc(out, '{');
		put_prompt_token(out, p);
		for (size_t k = 0; k < p->n_top; k++) {
			if (p->top[k].id != p->id) {
				kp_buf_addc(out, ',');
				put_prompt_token(out, &p->top[k]);
			}
		}
		kp_buf_addc(out, '}');
	}
	kp_buf_addc(out, ']');
}

void kp_put_finish(struct kp_buf *out, const struct kp_event *finish)
{
	kp_buf_addc(out, '"');
	kp_buf_addz(
		out, finish->finish.tool_calls ? "tool_calls" : finish_name(finish->finish.reason));
	kp_buf_addc(out, '"');
	if (finish->finish.stop_text.p) {
		kp_buf_lit(out, ",\"stop_reason\":");
		kp_json_w_str(out, finish->finish.stop_text);
	} else if (finish->finish.has_stop_id) {
		kp_buf_lit(out, ",\"stop_reason\":");
		kp_buf_u64(out, finish->finish.stop_id);
	}
	if (finish->finish.fault) {
		kp_buf_addc(out, ',');
		kp_put_fault(out, finish->finish.fault);
	}
}

void kp_put_fault(struct kp_buf *out, const struct kp_output_fault *f)
{
	static const char *const results[] = { [KP_OUTPUT_INVALID] = "invalid",
		[KP_OUTPUT_TRUNCATED] = "truncated",
		[KP_OUTPUT_UNCHECKED] = "unchecked" };
	kp_buf_printf(out, "\"kelpie\":{\"validation\":{\"valid\":false,\"reason\":\"%s\"",
		results[f->result]);
	if (f->call >= 0) {
		kp_buf_printf(out, ",\"tool_call\":%d", f->call);
	}
	if (f->result != KP_OUTPUT_UNCHECKED) {
		kp_buf_lit(out, ",\"at\":");
		kp_json_w_str(out, kp_str_c(f->pointer));
		kp_buf_lit(out, ",\"offset\":");
		kp_buf_u64(out, f->offset);
	}
	if (f->keyword[0]) {
		kp_buf_lit(out, ",\"keyword\":");
		kp_json_w_str(out, kp_str_c(f->keyword));
	}
	kp_buf_lit(out, ",\"message\":");
	kp_json_w_str(out, kp_str_c(f->message));
	kp_buf_lit(out, "}}");
}

void kp_put_sse_error(struct kp_buf *out, const struct kp_err *err)
{
	kp_buf_lit(out, "data: ");
	kp_json_w_err(out, err);
	kp_buf_lit(out, "\n\n");
}

size_t kp_leading_space(kp_str text, size_t most)
{
	size_t n = 0;
	while (n < text.n && n < most &&
		(text.p[n] == ' ' || (text.p[n] >= '\t' && text.p[n] <= '\r'))) {
		n++;
	}
	return n;
}

kp_str kp_answer_head(
	const struct kp_turn *turn, const char *before, const char *object, struct kp_err *err)
{
	kp_str head = KP_STR_NULL;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4096);
	kp_buf_printf(&b, "%s{\"id\":", before);
	kp_json_w_str(&b, turn->id);
	kp_buf_printf(&b, ",\"object\":\"%s\",\"created\":%lld,\"model\":", object,
		(long long)turn->created_s);
	kp_json_w_str(&b, turn->model);
	kp_buf_lit(&b, ",\"choices\":[");
	return kp_buf_finish(&b, "answer head", err) ||
			       kp_arena_dup(turn->arena, kp_buf_str(&b), &head, err)
		       ? KP_STR_NULL
		       : head;
}
