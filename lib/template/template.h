/* Chat templates: Jinja with the semantics of transformers' apply_chat_template (jinja2's
   ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, its own tojson,
   raise_exception, strftime_now, generation blocks). Compiled once, immutable, shared by all loops;
   rendering is pure (clock passed in) and allocates only in the caller's arena.

   Values carry provenance: strings of the template's own source and of trusted variables
   (bos_token, ...) are KP_ORIGIN_TRUSTED; whatever comes out of `messages`, `tools`, `documents` or
   other client variables is KP_ORIGIN_CLIENT, except strings below a message whose role is
   "assistant": KP_ORIGIN_ASSISTANT. Origin follows bytes through filters and string methods; bytes
   made by a filter from client data (tojson's quotes, say) are the data's. */
#ifndef KP_TEMPLATE_TEMPLATE_H
#define KP_TEMPLATE_TEMPLATE_H

#include "core/text.h"
#include "json/value.h"
#include "template/replay.h"

struct kp_template;

/* Limit: 1 MiB of source, nesting 200. INVALID_ARGUMENT "compile template: line L: ...". `source`
 * is copied. */
int kp_template_compile(kp_str source, struct kp_template **ret, struct kp_err *err) KP_MUST_USE;
/* The same with a limit on the memory of compiling, what stays included (else 256 MiB; at most some
 * 200 bytes for one of source are taken). */
int kp_template_compile_within(
	kp_str source, size_t max_memory, struct kp_template **ret, struct kp_err *err) KP_MUST_USE;
void kp_template_destroy(struct kp_template *t);
KP_AUTO_DEFINE(struct kp_template, template, kp_template_destroy);

struct kp_template_var {
	kp_str name;
	const struct kp_jv *value;
	enum kp_origin origin; /* of every string inside; `messages` is refined per role as above */
};
struct kp_template_opts {
	const struct kp_template_var *vars; /* later ones win */
	size_t n_vars;
	int64_t now_wall_ns;     /* for strftime_now, local time is UTC */
	int64_t (*now_ns)(void); /* the monotonic clock; NULL: no time budget */
	uint32_t max_ms;         /* 0: 2,000 */
	uint64_t max_steps;      /* 0: 50 million */
	size_t max_output;       /* bytes, 0: 64 MiB */
	/* What earlier renders noted of the elements of `messages` (replay.h): entry i belongs to element i; NULL: nothing is remembered of that one. */
	struct kp_tpl_memory *const *remembered;
	uint32_t n_remembered;
	struct kp_tpl_rendered *rendered; /* NULL, or room for n_remembered answers */
	/* What `rendered` was of an earlier render whose text the caller has: as long as rounds come to the same at the same places, their bytes in the text are left as they were
	   before, which is nothing; the caller puts them there where they are needed. */
	const struct kp_tpl_rendered *expected;
	uint32_t n_expected;
};
/* raise_exception in the template: INVALID_ARGUMENT with the template's text as message. Other
   template failures: INVALID_ARGUMENT "render template: line L: ...". A budget (steps, depth,
   output, time, the arena): RESOURCE_EXHAUSTED, the same words in front. */
int kp_template_render(const struct kp_template *t, const struct kp_template_opts *opts,
	struct kp_arena *a, struct kp_text *ret, struct kp_err *err) KP_MUST_USE;

/* Literal text pieces of the source (outside tags, and string constants): what may name control
 * tokens. Calls fn for each. */
void kp_template_each_literal(
	const struct kp_template *t, void (*fn)(void *ctx, kp_str literal), void *ctx);
/* Whether the source mentions a variable or attribute of this name. */
bool kp_template_mentions(const struct kp_template *t, kp_str name);

#endif
