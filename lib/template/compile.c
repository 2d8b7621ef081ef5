/* DESIGN: the public face of a template: source to tokens to tree to slots. Everything that stays lies in one arena, which kp_template_destroy
   frees at once; tokens and tables of the compilation lie in a second one that is gone when compiling ends. A compiled template is
   never written again and may be rendered by any number of threads at the same time. Rendering itself is in exec.c. */
#include "template/parse.h"
#include "template/rounds.h"

#include "base/utf8.h"

enum { MAX_SOURCE = 1 << 20, MAX_MEMORY = 256 << 20 };

/* One "\n" for "\r\n" and "\r"; the last line's end is dropped. */
static int normalize(struct kp_arena *a, kp_str s, kp_str *ret, struct kp_err *err)
{
	char *p = kp_arena_alloc(a, s.n + 1);
	size_t n = 0;
	if (!p) {
		return kp_tpl_compile_full(err, 1);
	}
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\r') {
			i += i + 1 < s.n && s.p[i + 1] == '\n';
			p[n++] = '\n';
		} else {
			p[n++] = s.p[i];
		}
	}
	n -= n && p[n - 1] == '\n';
	*ret = kp_str_n(p, n);
	return 0;
}

static int compile(
	struct kp_template *t, struct kp_arena *scratch, kp_str source, struct kp_err *err)
{
	struct kp_parser p = { .a = t->a, .t = t, .err = err, .scratch = scratch };
	struct kp_token *tokens;
	uint32_t n;
	if (normalize(t->a, source, &t->source, err) ||
		kp_tpl_lex(scratch, t->source, &tokens, &n, err)) {
		return -1;
	}
	p.tok = tokens;
	t->root = kp_parse_template(&p);
	return t->root ? kp_tpl_scope(&p) : -1;
}

int kp_template_compile(kp_str source, struct kp_template **ret, struct kp_err *err)
{
	return kp_template_compile_within(source, MAX_MEMORY, ret, err);
}

int kp_template_compile_within(
	kp_str source, size_t max_memory, struct kp_template **ret, struct kp_err *err)
{
	if (source.n > MAX_SOURCE) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"compile template: %zu bytes, more than %d", source.n, MAX_SOURCE);
	}
	if (!kp_utf8_ok(source)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"compile template: byte %zu is not UTF-8", kp_utf8_valid_prefix(source));
	}
	struct kp_arena *a = kp_arena_create(max_memory / 2);
	struct kp_template *t = kp_arena_new(a, struct kp_template);
	t->a = a;
	t->serial = kp_tpl_next_serial();
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(max_memory / 2);
	if (compile(t, scratch, source, err)) {
		kp_template_destroy(t);
		return -1;
	}
	*ret = t;
	return 0;
}

void kp_template_destroy(struct kp_template *t)
{
	if (t) {
		kp_arena_destroy(t->a);
	}
}

void kp_template_each_literal(
	const struct kp_template *t, void (*fn)(void *ctx, kp_str literal), void *ctx)
{
	for (uint32_t i = 0; i < t->n_names; i++) {
		if (t->names[i].literal) {
			fn(ctx, t->names[i].s);
		}
	}
}

bool kp_template_mentions(const struct kp_template *t, kp_str name)
{
	for (uint32_t i = 0; i < t->n_names; i++) {
		if (t->names[i].mentioned && kp_str_eq(t->names[i].s, name)) {
			return true;
		}
	}
	return false;
}
