/* Renders chat templates for the oracle tests. One JSON object a line on stdin:
     {"source": "...", "vars": {...}, "origins": {"name": "client"|"assistant"}, "now": nanoseconds, "ms": n, "steps": n, "output": n, "memory": n}
   and one a line on stdout: {"text": "...", "runs": [[end, origin], ...]} or {"error": "...", "code": "INVALID_ARGUMENT"}. The last compiled
   source is kept. Variables without an origin are trusted. With "continue": true the final message is left open. With "adapt": true the messages and tools are rewritten to the template's
   shape first, and what the template got is answered too; with "probe": true only the shape is answered, with "native": NAME the source of that template. */
#include "base/clock.h"
#include "json/value.h"
#include "json/write.h"
#include "template/adapt.h"
#include "template/native.h"
#include "template/prefill.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_LINE = 64 << 20, MAX_VARS = 64 };

static uint64_t number(const struct kp_jv *v, const char *key, uint64_t missing)
{
	const struct kp_jv *m = kp_jv_get(v, kp_str_c(key));
	uint64_t n;
	return kp_jv_is(m, KP_JSON_NUMBER) && kp_str_u64(m->s, UINT64_MAX, &n) ? n : missing;
}

static enum kp_origin origin_of(const struct kp_jv *origins, kp_str name)
{
	kp_str o = kp_jv_str(origins, name);
	return kp_str_eq(o, KP_S("client"))      ? KP_ORIGIN_CLIENT
	       : kp_str_eq(o, KP_S("assistant")) ? KP_ORIGIN_ASSISTANT
						 : KP_ORIGIN_TRUSTED;
}

static void answer_error(struct kp_buf *out, const struct kp_err *err)
{
	kp_buf_lit(out, "{\"error\":");
	kp_json_w_str(out, kp_str_c(err->msg));
	kp_buf_printf(out, ",\"code\":\"%s\"}\n", kp_code_name(err->code));
}

static void answer_shape(struct kp_buf *out, const struct kp_template_shape *s)
{
	static const char *const content[] = { "lost", "text", "parts", "either" },
				 *const args[] = { "lost", "object", "text" },
				 *const tools[] = { "lost", "wrapped", "flat" },
				 *const beside[] = { "nothing", "empty", "null" };
	kp_buf_printf(out,
		"{\"system\":\"%s\",\"user\":\"%s\",\"assistant\":\"%s\",\"tool\":\"%s\",\"args\":\"%s\",\"tools\":\"%s\","
		"\"beside_calls\":\"%s\",\"parallel_calls\":%d,\"developer\":%d,\"reasoning\":%d,\"past_reasoning\":%d}\n",
		content[s->content[KP_SHAPE_SYSTEM]], content[s->content[KP_SHAPE_USER]],
		content[s->content[KP_SHAPE_ASSISTANT]], content[s->content[KP_SHAPE_TOOL]],
		args[s->args], tools[s->tools], beside[s->beside_calls], s->parallel_calls,
		s->developer_role, s->reasoning, s->past_reasoning);
}

/* Puts rewritten messages and tools in the place of the request's. */
static int adapt(const struct kp_template_shape *shape, struct kp_template_var *v, size_t n,
	struct kp_arena *a, struct kp_err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct kp_jv *new = kp_arena_xalloc(a, sizeof(*new));
		bool messages = kp_str_eq(v[i].name, KP_S("messages")),
		     tools = kp_str_eq(v[i].name, KP_S("tools"));
		if (v[i].value->type != KP_JSON_ARRAY || (!messages && !tools)) {
			continue;
		}
		if (messages ? kp_template_adapt_messages(shape, v[i].value, a, new, err)
			     : kp_template_adapt_tools(shape, v[i].value, a, new, err)) {
			return -1;
		}
		v[i].value = new;
	}
	return 0;
}

static int render(const struct kp_template *t, struct kp_template_opts *opts,
	struct kp_template_var *messages, struct kp_arena *a, struct kp_text *ret,
	struct kp_err *err)
{
	struct kp_jv marked;
	const struct kp_jv *plain = messages ? messages->value : NULL;
	if (!messages) {
		return kp_template_render(t, opts, a, ret, err);
	}
	if (kp_template_prefill_mark(plain, a, &marked, err)) {
		return -1;
	}
	messages->value = &marked;
	int r = kp_template_render(t, opts, a, ret, err);
	messages->value = plain;
	return r ? r : kp_template_prefill_cut(plain, ret, a, err);
}

static void answer_vars(struct kp_buf *out, const struct kp_template_opts *opts)
{
	for (size_t i = 0; i < opts->n_vars; i++) {
		if (kp_str_eq(opts->vars[i].name, KP_S("messages")) ||
			kp_str_eq(opts->vars[i].name, KP_S("tools"))) {
			kp_buf_addc(out, ',');
			kp_json_w_str(out, opts->vars[i].name);
			kp_buf_addc(out, ':');
			kp_jv_write(opts->vars[i].value, out);
		}
	}
}

static void answer_text(
	struct kp_buf *out, const struct kp_text *text, const struct kp_template_opts *adapted)
{
	kp_buf_lit(out, "{\"text\":");
	kp_json_w_str(out, text->s);
	kp_buf_lit(out, ",\"runs\":[");
	for (size_t i = 0; i < text->n_runs; i++) {
		kp_buf_printf(
			out, "%s[%u,%u]", i ? "," : "", text->runs[i].end, text->runs[i].origin);
	}
	kp_buf_addc(out, ']');
	if (adapted) {
		answer_vars(out, adapted);
	}
	kp_buf_lit(out, "}\n");
}

static void answer_native(struct kp_buf *out, kp_str name)
{
	KP_AUTO(buf) struct kp_buf source;
	kp_buf_init(&source, 1 << 20);
	kp_template_native(name, &source);
	kp_buf_lit(out, "{\"source\":");
	kp_json_w_str(out, kp_buf_str(&source));
	kp_buf_lit(out, "}\n");
}

static void answer(kp_str line, struct kp_template **t, struct kp_buf *source, struct kp_buf *out)
{
	KP_AUTO(arena) struct kp_arena *in = kp_arena_create(1U << 30);
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv req;
	if (kp_jv_parse(line, in, &req, &err)) {
		answer_error(out, &err);
		return;
	}
	if (kp_jv_get(&req, KP_S("native"))) {
		answer_native(out, kp_jv_str(&req, KP_S("native")));
		return;
	}
	kp_str src = kp_jv_str(&req, KP_S("source"));
	if (!*t || !kp_str_eq(src, kp_buf_str(source))) {
		kp_template_destroy(*t);
		*t = NULL;
		kp_buf_reset(source);
		kp_buf_add(source, src);
		if (kp_template_compile(src, t, &err)) {
			answer_error(out, &err);
			return;
		}
	}
	const struct kp_jv *vars = kp_jv_get(&req, KP_S("vars")),
			   *origins = kp_jv_get(&req, KP_S("origins"));
	struct kp_template_var v[MAX_VARS];
	struct kp_template_opts opts = { .vars = v,
		.now_wall_ns = (int64_t)number(&req, "now", 0),
		.now_ns = kp_now_ns,
		.max_ms = (uint32_t)number(&req, "ms", 60000),
		.max_steps = number(&req, "steps", 0),
		.max_output = number(&req, "output", 0) };
	for (uint32_t i = 0; kp_jv_is(vars, KP_JSON_OBJECT) && i < vars->n && i < MAX_VARS; i++) {
		v[i] = (struct kp_template_var){ vars->members[i].key, &vars->members[i].value,
			origin_of(origins, vars->members[i].key) };
		opts.n_vars = i + 1;
	}
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(number(&req, "memory", 1U << 30));
	struct kp_template_shape shape;
	struct kp_text text;
	struct kp_template_var *messages = NULL, special[MAX_VARS];
	size_t n_special = 0;
	for (size_t i = 0; i < opts.n_vars; i++) {
		if (kp_str_ends(v[i].name, KP_S("_token"))) {
			special[n_special++] = v[i];
		}
		messages = kp_str_eq(v[i].name, KP_S("messages")) ? &v[i] : messages;
	}
	bool open = messages && kp_jv_is(kp_jv_get(&req, KP_S("continue")), KP_JSON_TRUE);
	bool adapted = kp_jv_is(kp_jv_get(&req, KP_S("adapt")), KP_JSON_TRUE);
	if (adapted || kp_jv_get(&req, KP_S("probe"))) {
		kp_template_probe(*t, special, n_special, &shape);
	}
	if (kp_jv_get(&req, KP_S("probe"))) {
		answer_shape(out, &shape);
	} else if ((adapted && adapt(&shape, v, opts.n_vars, a, &err)) ||
		   render(*t, &opts, open ? messages : NULL, a, &text, &err)) {
		answer_error(out, &err);
	} else {
		answer_text(out, &text, adapted ? &opts : NULL);
	}
}

int main(void)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	struct kp_template *t = NULL;
	struct kp_buf source, out;
	kp_buf_init(&source, MAX_LINE);
	kp_buf_init(&out, 1U << 30);
	while ((n = getline(&line, &cap, stdin)) > 0) {
		kp_buf_reset(&out);
		answer(kp_str_n(line, (size_t)n), &t, &source, &out);
		if (!kp_buf_ok(&out) || fwrite(out.p, 1, out.n, stdout) != out.n ||
			fflush(stdout)) {
			return 1;
		}
	}
	kp_template_destroy(t);
	kp_buf_fini(&source);
	kp_buf_fini(&out);
	free(line);
	return 0;
}
