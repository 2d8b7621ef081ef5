/* DESIGN: each question is a conversation in JSON with marks in it ("kpone", ...), rendered under a small budget. A form is right when
   the render succeeds and its marks come through unchanged; a failed render, a lost mark, Python's repr of a list or JSON inside of
   JSON mean that it is not. Questions build on the answers before them: users first, then the roles that need a user beside them. */
#include "template/shape.h"

#include <stdarg.h>
#include <stdio.h>

enum { MAX_VARS = 16, MAX_STEPS = 200000, MAX_OUTPUT = 1 << 20, MAX_MEMORY = 64 << 20 };

struct probe {
	const struct kp_template *t;
	const struct kp_template_var *vars;
	size_t n_vars;
	struct kp_arena *a;
	char json[4096]; /* the longest question has some 700 bytes */
	const struct kp_template_shape *shape;
	const char *tools; /* given to the template, or NULL */
	kp_str text;       /* what the last render gave */
};

#define PART(text) "{\"type\":\"text\",\"text\":\"" text "\",\"kpkey\":\"kpdumped\"}"
#define TOOL_BODY                                                                                        \
	"\"name\":\"kpfunction\",\"description\":\"kpdescription\",\"parameters\":{\"type\":\"object\"," \
	"\"properties\":{\"kpparam\":{\"type\":\"string\",\"description\":\"kphelp\"}},\"required\":[\"kpparam\"]}"
static const char content_text[] = "\"kpone\"",
		  content_parts[] = "[" PART("kpone") "," PART("kptwo") "]",
		  tools_wrapped[] = "[{\"type\":\"function\",\"function\":{" TOOL_BODY "}}]",
		  tools_flat[] = "[{" TOOL_BODY "}]", args_object[] = "{\"kparg\":\"kp\\\"val\"}",
		  args_text[] = "\"{\\\"kparg\\\": \\\"kp\\\\\\\"val\\\"}\"";

/* A user's message in the form that the template takes. */
static const char *user(const struct probe *p)
{
	return p->shape->content[KP_SHAPE_USER] == KP_CONTENT_PARTS
		       ? "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"kpuser\"}]}"
		       : "{\"role\":\"user\",\"content\":\"kpuser\"}";
}

static bool shows(const struct probe *p, const char *mark)
{
	return kp_str_has(p->text, kp_str_c(mark));
}

/* Renders the conversation, JSON; false when it does not render. */
static bool KP_PRINTF(2, 3) render(struct probe *p, const char *fmt, ...)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv messages, tools = { .type = KP_JSON_NULL };
	static const struct kp_jv none = { .type = KP_JSON_NULL }, no = { .type = KP_JSON_FALSE };
	struct kp_template_var vars[MAX_VARS + 4];
	struct kp_template_opts opts = {
		.vars = vars, .max_steps = MAX_STEPS, .max_output = MAX_OUTPUT
	};
	struct kp_text text;
	va_list ap;
	kp_arena_reset(p->a);
	va_start(ap, fmt);
	int n = vsnprintf(p->json, sizeof(p->json), fmt, ap);
	va_end(ap);
	KP_BUG_ON(n < 0 || (size_t)n >= sizeof(p->json) ||
		  kp_jv_parse(kp_str_c(p->json), p->a, &messages, &err) != 0);
	KP_BUG_ON(p->tools && kp_jv_parse(kp_str_c(p->tools), p->a, &tools, &err) != 0);
	for (size_t i = 0; i < p->n_vars && i < MAX_VARS; i++) {
		vars[opts.n_vars++] = p->vars[i];
	}
	vars[opts.n_vars++] =
		(struct kp_template_var){ KP_S("messages"), &messages, KP_ORIGIN_CLIENT };
	vars[opts.n_vars++] = (struct kp_template_var){ KP_S("tools"), &tools, KP_ORIGIN_CLIENT };
	vars[opts.n_vars++] =
		(struct kp_template_var){ KP_S("documents"), &none, KP_ORIGIN_CLIENT };
	vars[opts.n_vars++] =
		(struct kp_template_var){ KP_S("add_generation_prompt"), &no, KP_ORIGIN_TRUSTED };
	if (kp_template_render(p->t, &opts, p->a, &text, &err)) {
		return false;
	}
	p->text = text.s;
	return true;
}

/* --- one question each -------------------------------------------------------------------------------------------------------------- */

/* A message with calls; `content` is "" or a member with its comma. */
#define CALLS(content, calls) "{\"role\":\"assistant\"," content "\"tool_calls\":[" calls "]}"
#define CALL(id, name, args)                                                      \
	"{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name \
	"\",\"arguments\":" args "}}"
#define RESULT(content)                                                              \
	"{\"role\":\"tool\",\"name\":\"kpfunction\",\"tool_call_id\":\"kpcall001\"," \
	"\"content\":" content "}"

/* The content of a message with calls, in the order they are tried; by enum kp_shape_beside. */
static const char *const beside[] = { "", "\"content\":\"\",", "\"content\":null," };

static const char *need(const struct probe *p)
{
	return beside[p->shape->beside_calls];
}

static const char *args(const struct probe *p)
{
	return p->shape->args == KP_ARGS_TEXT ? args_text : args_object;
}

static bool content_renders(struct probe *p, enum kp_shape_role role, const char *content)
{
	switch (role) {
	case KP_SHAPE_SYSTEM:
		return render(p, "[{\"role\":\"system\",\"content\":%s},%s]", content, user(p));
	case KP_SHAPE_USER:
		return render(p, "[{\"role\":\"user\",\"content\":%s}]", content);
	case KP_SHAPE_ASSISTANT:
		return render(p, "[%s,{\"role\":\"assistant\",\"content\":%s},%s]", user(p),
			content, user(p));
	case KP_SHAPE_TOOL:
	case KP_SHAPE_ROLES:
	default:
		return render(p,
			"[%s," CALLS("%s", CALL("kpcall001", "kpfunction", "%s")) "," RESULT(
				"%s") "]",
			user(p), need(p), args(p), content);
	}
}

static enum kp_shape_content ask_content(struct probe *p, enum kp_shape_role role)
{
	bool text = content_renders(p, role, content_text) && shows(p, "kpone"),
	     parts = content_renders(p, role, content_parts) && shows(p, "kpone") &&
		     shows(p, "kptwo") && !shows(p, "kpdumped");
	if (text) {
		return parts ? KP_CONTENT_EITHER : KP_CONTENT_TEXT;
	}
	return parts ? KP_CONTENT_PARTS : KP_CONTENT_LOST;
}

/* Leaves the tools in p->tools when they are shown, or when nothing renders without them. */
static enum kp_shape_tools ask_tools(struct probe *p)
{
	static const char *const forms[] = { tools_wrapped, tools_flat };
	const char *before = p->tools;
	static const enum kp_shape_tools answers[] = { KP_TOOLS_WRAPPED, KP_TOOLS_FLAT };
	enum kp_shape_tools found = KP_TOOLS_LOST;
	for (size_t i = 0; i < KP_LEN(forms) && !found; i++) {
		p->tools = forms[i];
		if (render(p, "[%s]", user(p)) && shows(p, "kpfunction") &&
			shows(p, "kpdescription") && shows(p, "kpparam")) {
			found = answers[i];
		}
	}
	p->tools = found == KP_TOOLS_LOST   ? before
		   : found == KP_TOOLS_FLAT ? tools_flat
					    : tools_wrapped;
	return found;
}

/* The argument as JSON, once; or its bare text, but not as Python prints a dict. */
static bool shows_args(const struct probe *p, bool as_text)
{
	if (as_text) {
		return shows(p, "{\"kparg\": \"kp\\\"val\"}");
	}
	return shows(p, "\"kp\\\"val\"") || (shows(p, "kp\"val") && !shows(p, "'kparg'"));
}

static void ask_calls(struct probe *p, struct kp_template_shape *ret)
{
	static const enum kp_shape_args forms[] = { KP_ARGS_OBJECT, KP_ARGS_TEXT };
	bool renders = false;
	for (size_t i = 0; i < KP_LEN(forms) * KP_LEN(beside); i++) {
		bool as_text = forms[i / KP_LEN(beside)] == KP_ARGS_TEXT;
		size_t content = i % KP_LEN(beside);
		if (!render(p,
			    "[%s," CALLS("%s", CALL("kpcall001", "kpfunction", "%s")) "," RESULT(
				    "\"kpone\"") "]",
			    user(p), beside[content], as_text ? args_text : args_object)) {
			continue;
		}
		bool shown = shows(p, "kpfunction") && shows_args(p, as_text);
		if (shown ||
			!renders) { /* the first that renders, unless a later one shows the call */
			ret->beside_calls = (enum kp_shape_beside)content;
			renders = true;
		}
		if (shown) {
			ret->args = forms[i / KP_LEN(beside)];
			return;
		}
	}
}

static bool ask_parallel(struct probe *p)
{
	return render(p,
		       "[%s," CALLS("%s",
			       CALL("kpcall001", "kpfunction", "%s") "," CALL("kpcall002",
				       "kpsecond",
				       "%s")) "," RESULT("\"kpone\"") ",{\"role\":\"tool\",\"name\":\"kpsecond\",\"tool_call_id\":\"kpcall002\",\"content\":\"kptwo\"}]",
		       user(p), need(p), args(p), args(p)) &&
	       shows(p, "kpfunction") && shows(p, "kpsecond");
}

static void is_developer(void *ctx, kp_str literal)
{
	*(bool *)ctx |= kp_str_eq(literal, KP_S("developer"));
}

/* It compares roles with the name, and shows the text; one that prints any role's name (ChatML) does not know it. */
static bool ask_developer(struct probe *p)
{
	bool named = false;
	kp_template_each_literal(p->t, is_developer, &named);
	return named && render(p, "[{\"role\":\"developer\",\"content\":\"kpone\"},%s]", user(p)) &&
	       shows(p, "kpone");
}

#define REASONING "\"thinking\":\"kpreason\",\"reasoning_content\":\"kpreason\","

void kp_template_probe(const struct kp_template *t, const struct kp_template_var *vars,
	size_t n_vars, struct kp_template_shape *ret)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(MAX_MEMORY);
	struct probe p = { .t = t, .vars = vars, .n_vars = n_vars, .a = a, .shape = ret };
	*ret = (struct kp_template_shape){ 0 };
	ret->content[KP_SHAPE_USER] = ask_content(&p, KP_SHAPE_USER);
	if (!ret->content[KP_SHAPE_USER]) { /* some templates are for chats with tools only */
		p.tools = tools_wrapped;
		ret->content[KP_SHAPE_USER] = ask_content(&p, KP_SHAPE_USER);
	}
	ret->content[KP_SHAPE_SYSTEM] = ask_content(&p, KP_SHAPE_SYSTEM);
	ret->content[KP_SHAPE_ASSISTANT] = ask_content(&p, KP_SHAPE_ASSISTANT);
	ret->developer_role = ask_developer(&p);
	ret->past_reasoning =
		render(&p, "[%s,{\"role\":\"assistant\"," REASONING "\"content\":\"kpone\"},%s]",
			user(&p), user(&p)) &&
		shows(&p, "kpreason");
	ret->tools = ask_tools(&p); /* from here on the template gets tools, if it shows them */
	ask_calls(&p, ret);
	ret->content[KP_SHAPE_TOOL] = ask_content(&p, KP_SHAPE_TOOL);
	ret->parallel_calls = ask_parallel(&p);
	ret->reasoning =
		render(&p,
			"[%s," CALLS(REASONING "%s",
				CALL("kpcall001", "kpfunction", "%s")) "," RESULT("\"kpone\"") "]",
			user(&p), need(&p), args(&p)) &&
		shows(&p, "kpreason");
}
