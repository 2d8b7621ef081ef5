/* DESIGN: words for what was found out about a template; the JSON that /explain and kubectl-kelpie show. */
#include "json/write.h"
#include "prompt/text_stack.h"

static const char *const roles[] = { "system", "user", "assistant", "tool" };
static const char *const contents[] = { "lost", "text", "parts", "either" };
static const char *const arguments[] = { "lost", "object", "text" };
static const char *const besides[] = { "nothing", "empty", "null" };
static const char *const tools[] = { "lost", "wrapped", "flat" };

static void word(struct kp_buf *out, const char *name, const char *value)
{
	kp_buf_printf(out, "\"%s\":\"%s\",", name, value);
}

void kp_text_shape_json(const struct kp_template_shape *s, struct kp_buf *out)
{
	kp_buf_addc(out, '{');
	for (size_t i = 0; i < KP_LEN(roles); i++) {
		word(out, roles[i], contents[s->content[i]]);
	}
	word(out, "arguments", arguments[s->args]);
	word(out, "tools", tools[s->tools]);
	word(out, "besideCalls", besides[s->beside_calls]);
	kp_buf_printf(out,
		"\"parallelCalls\":%s,\"developer\":%s,\"reasoning\":%s,\"pastReasoning\":%s}",
		s->parallel_calls ? "true" : "false", s->developer_role ? "true" : "false",
		s->reasoning ? "true" : "false", s->past_reasoning ? "true" : "false");
}

void kp_text_stack_describe(const struct kp_text_stack *s, struct kp_buf *out)
{
	kp_buf_addz(out, s->choice.native ? s->choice.native
			 : s->chat        ? "the model's own"
					  : "none");
	if (s->choice.native) {
		kp_buf_printf(out, " (%s)", s->choice.why);
	}
	for (size_t i = 0; i < s->n_named; i++) {
		kp_buf_printf(out, "%s%" KP_FMT, i ? ", " : "; named: ", KP_ARG(s->named[i].name));
	}
}

void kp_text_parsers_json(const struct kp_parsers *p, struct kp_buf *out)
{
	kp_buf_printf(out, "{\"tools\":\"%s\",\"reasoning\":\"%s\",\"why\":",
		p->tools ? p->tools->name : "none", p->thinking ? p->thinking->name : "none");
	kp_json_w_str(out, kp_str_c(p->why));
	kp_buf_addc(out, '}');
}

void kp_text_stack_json(const struct kp_text_stack *s, struct kp_buf *out)
{
	KP_AUTO(buf) struct kp_buf template;
	kp_buf_init(&template, 4096);
	kp_text_stack_describe(s, &template);
	kp_buf_lit(out, "\"chatTemplate\":");
	kp_json_w_str(out, kp_buf_str(&template));
	kp_buf_printf(out, ",\"textPolicy\":\"%s\"", kp_text_policy_names[s->policy_kind]);
	kp_buf_lit(out, ",\"parsers\":");
	kp_text_parsers_json(&s->parsers, out);
	if (s->chat) {
		kp_buf_lit(out, ",\"shape\":");
		kp_text_shape_json(&s->shape, out);
	}
}

void kp_text_json(const struct kp_text *text, struct kp_buf *out)
{
	static const char *const origins[] = { "trusted", "client", "assistant" };
	kp_buf_lit(out, "\"prompt\":");
	kp_json_w_str(out, text->s);
	kp_buf_lit(out, ",\"runs\":[");
	for (size_t i = 0; i < text->n_runs; i++) {
		kp_buf_printf(out, "%s{\"end\":%u,\"origin\":\"%s\"}", i ? "," : "",
			text->runs[i].end, origins[text->runs[i].origin]);
	}
	kp_buf_addc(out, ']');
}
