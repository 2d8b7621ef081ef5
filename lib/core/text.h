/* Prompt text that remembers where every byte came from (DESIGN §6, "Text safety").

   A kp_text is UTF-8 bytes plus runs: run i covers the bytes from the end of run i-1 (0 for the
   first) to its `end`; together they cover the text exactly. No runs at all means one
   KP_ORIGIN_TRUSTED run. Provenance changes only which added tokens are matched; pre-tokenization
   and merges run across the borders. Borrowed slices; owner is the turn's arena. */
#ifndef KP_CORE_TEXT_H
#define KP_CORE_TEXT_H

#include "base/arena.h"
#include "base/buf.h"

enum kp_origin {
	KP_ORIGIN_TRUSTED = 0, /* the template's own text, a raw completion prompt: control tokens
				  are encoded as such */
	KP_ORIGIN_CLIENT,      /* messages, tools, documents: control tokens are plain text */
	KP_ORIGIN_ASSISTANT,   /* assistant history: the model's own reasoning and tool markers are
				  control tokens (policy Markers),   turn tokens and all other special
				  tokens are plain text */
};

struct kp_run {
	uint32_t end;
	uint32_t origin; /* enum kp_origin */
};

struct kp_text {
	kp_str s;
	const struct kp_run *runs;
	size_t n_runs;
};

static inline struct kp_text kp_text_trusted(kp_str s)
{
	return (struct kp_text){ .s = s };
}

/* Growing text: appends merge neighbouring runs of one origin. Limit: max_bytes (< 4 GiB). */
struct kp_text_builder {
	struct kp_buf bytes;
	struct kp_run *runs;
	size_t n, cap;
};
void kp_text_builder_init(struct kp_text_builder *b, size_t max_bytes);
void kp_text_builder_fini(struct kp_text_builder *b);
void kp_text_builder_add(struct kp_text_builder *b, kp_str s, enum kp_origin origin);
/* Copies into the arena. RESOURCE_EXHAUSTED when the builder overflowed or the arena is full. */
int kp_text_builder_finish(struct kp_text_builder *b, struct kp_arena *a, struct kp_text *ret,
	struct kp_err *err) KP_MUST_USE;

#endif
