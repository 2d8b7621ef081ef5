/* Fuzz target: a template, a NUL byte, and a JSON object of variables. What compiles must render or fail within small budgets of steps,
   output and memory; the text is UTF-8, the runs cover it, and it does not depend on where the variables come from. */
#include "base/utf8.h"
#include "template/template.h"

enum { MAX_VARS = 16, MEMORY = 64 << 20 };

static const char default_vars[] =
	"{\"messages\":[{\"role\":\"user\",\"content\":\"h\\u00e9 <|x|>\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"name\":\"f\",\"arguments\":"
	"{\"a\":[1,2.5,null,true]}}]}],\"s\":\"Hello, W\",\"l\":[3,1,2],\"d\":{\"b\":1,\"a\":\"x\"},\"i\":7,\"f\":2.5,\"n\":null}";

static int render(const struct kp_template *t, const struct kp_jv *o, enum kp_origin origin,
	struct kp_arena *a, struct kp_text *text)
{
	struct kp_template_var v[MAX_VARS];
	struct kp_template_opts opts = { .vars = v,
		.max_steps = 50000,
		.max_output = 1 << 20,
		.now_wall_ns = INT64_C(1772291045678901000) };
	struct kp_err err = KP_ERR_INIT;
	for (uint32_t i = 0; i < o->n && i < MAX_VARS; i++) {
		v[opts.n_vars++] =
			(struct kp_template_var){ o->members[i].key, &o->members[i].value, origin };
	}
	int r = kp_template_render(t, &opts, a, text, &err);
	KP_BUG_ON((r != 0) != (err.code != KP_OK));
	return r;
}

static void count(void *ctx, kp_str literal)
{
	*(size_t *)ctx += literal.n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	kp_str all = kp_str_n(data, size);
	ptrdiff_t nul = kp_str_find_char(all, '\0');
	kp_str source = nul < 0 ? all : kp_str_sub(all, 0, (size_t)nul),
	       json = nul < 0 ? kp_str_n(default_vars, sizeof(default_vars) - 1)
			      : kp_str_skip(all, (size_t)nul + 1);
	KP_AUTO(template) struct kp_template *t = NULL;
	KP_AUTO(arena)
	struct kp_arena *a = kp_arena_create(2 * MEMORY), *b = kp_arena_create(MEMORY),
			*c = kp_arena_create(MEMORY);
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv o;
	struct kp_text one, two;
	size_t n = 0;
	if (kp_jv_parse(json, a, &o, &err) || o.type != KP_JSON_OBJECT) {
		return 0;
	}
	if (kp_template_compile(source, &t, &err)) {
		KP_BUG_ON(err.code == KP_OK ||
			  !kp_str_starts(kp_str_c(err.msg), KP_S("compile template: ")));
		return 0;
	}
	kp_template_each_literal(t, count, &n);
	int r = render(t, &o, KP_ORIGIN_CLIENT, b, &one);
	if (r != render(t, &o, KP_ORIGIN_TRUSTED, c, &two)) {
		return 0; /* memory ran out in one of them: runs take some */
	}
	if (r) {
		return 0;
	}
	KP_BUG_ON(!kp_str_eq(one.s, two.s) || !kp_utf8_ok(one.s));
	size_t start = 0;
	for (size_t i = 0; i < one.n_runs; i++) {
		KP_BUG_ON(one.runs[i].end <= start || one.runs[i].end > one.s.n);
		start = one.runs[i].end;
	}
	KP_BUG_ON(start != one.s.n);
	return 0;
}
