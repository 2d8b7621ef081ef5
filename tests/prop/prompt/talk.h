/* Conversations as JSON text for tests: made up, grown, edited, forked, and now and then broken. */
#ifndef TESTS_PROP_PROMPT_TALK_H
#define TESTS_PROP_PROMPT_TALK_H

#include "base/mem.h"
#include "base/rand.h"
#include "json/write.h"

enum { TALK_MESSAGES = 40 };

struct talk {
	char *m[TALK_MESSAGES]; /* each message's text */
	size_t n;
};

static inline void talk_clear(struct talk *t, size_t n)
{
	while (t->n > n) {
		t->n--;
		kp_free(&t->m[t->n]);
	}
}

/* Text that has what JSON has to write in another way, and what looks like structure. */
static inline void talk_string(struct kp_rng *r, size_t max, struct kp_buf *out)
{
	static const char *const pieces[] = { "a", "the quick brown fox ", "\\n", "\\\"", "\\\\",
		"]}", "[{", "\\u00e9", "\xc3\xa9", "\\ud83d\\ude00", "{\\\"a\\\": [1]}", ", ", ":",
		"\\\\\\\"", "\\/",
		"a longer stretch of plain text without anything in it that needs care" };
	kp_buf_addc(out, '"');
	for (size_t k = kp_rng_below(r, max); k; k--) {
		kp_buf_addz(out, pieces[kp_rng_below(r, KP_LEN(pieces))]);
	}
	kp_buf_addc(out, '"');
}

static inline void talk_space(struct kp_rng *r, struct kp_buf *out)
{
	static const char *const spaces[] = { "", "", " ", "\n  ", "\t", "\r\n" };
	kp_buf_addz(out, spaces[kp_rng_below(r, KP_LEN(spaces))]);
}

static inline void talk_content(struct kp_rng *r, bool takes_images, struct kp_buf *out)
{
	size_t what = kp_rng_below(r, 30);
	if (what > 3) {
		talk_string(r, kp_rng_below(r, 5) ? 8 : kp_rng_below(r, 5) ? 60 : 800, out);
	} else if (what > 0) {
		kp_buf_lit(out, "[{\"type\":\"text\",\"text\":");
		talk_string(r, 10, out);
		if (what == 1 && takes_images) {
			kp_buf_lit(out,
				"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AAAA\"}");
		}
		kp_buf_lit(out, "}, \"more\"]");
	} else {
		kp_buf_lit(out, "\"\"");
	}
}

static inline void talk_calls(struct kp_rng *r, struct kp_buf *out)
{
	kp_buf_lit(out,
		",\"tool_calls\":[{\"id\":\"1\", \"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":");
	if (kp_rng_below(r, 2)) {
		kp_buf_lit(out, "{\"a\":[1,2.50,true,null,{}],\"a\":-0}");
	} else {
		kp_buf_lit(out, "\"{\\\"x\\\": 1}\"");
	}
	kp_buf_lit(out, "}}]");
}

/* One message; one in many is none, or none that is allowed. */
static inline void talk_message(struct kp_rng *r, struct kp_buf *out)
{
	static const char *const roles[] = { "user", "assistant", "system", "tool", "developer" };
	static const char *const odd[] = { "{\"role\":\"assistant\"}",
		"{\"role\":\"nobody\",\"content\":\"\"}",
		"{\"role\":\"assistant\",\"function_call\":{\"name\":\"g\",\"arguments\":\"{}\"}}",
		"{\"role\":\"function\",\"name\":\"g\",\"content\":\"r\"}", "17",
		"{\"role\":\"user\"}", "{\"role\":\"user\",\"content\":\"a\",}",
		"{\"role\":\"user\",\"content\":7}",
		"{\"content\":\"twice\",\"role\":\"user\",\"content\":\"\\ud800\"}" };
	size_t role = kp_rng_below(r, KP_LEN(roles));
	if (kp_rng_below(r, 40) == 0) {
		kp_buf_addz(out, odd[kp_rng_below(r, KP_LEN(odd))]);
		return;
	}
	if (kp_rng_below(r, 20) == 0) {
		kp_buf_addz(out, odd[2 + kp_rng_below(r, 2)]);
		return;
	}
	kp_buf_printf(out, "{\"role\":%s\"%s\",", kp_rng_below(r, 2) ? " " : "", roles[role]);
	if (kp_rng_below(r, 6) == 0) {
		kp_buf_lit(out, "\"extra\":[{},[],null,\"x\"],\"n\\u0061me\":\"n\",");
	}
	talk_space(r, out);
	kp_buf_lit(out, "\"content\":");
	talk_content(r, role == 0 || role == 3, out);
	if (role == 1 && kp_rng_below(r, 3) == 0) {
		talk_calls(r, out);
	}
	kp_buf_addc(out, '}');
}

static inline void talk_set(struct talk *t, size_t i, struct kp_rng *r)
{
	struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	talk_message(r, &b);
	kp_buf_addc(&b, '\0');
	kp_free(&t->m[i]);
	t->m[i] = kp_xmalloc(b.n);
	memcpy(t->m[i], b.p, b.n);
	kp_buf_fini(&b);
}

/* One edit, mostly the next turn; `from` may be any other. */
static inline void talk_edit(struct talk *t, const struct talk *from, struct kp_rng *r)
{
	size_t what = kp_rng_below(r, 12);
	if (what < 8 || t->n == 0) {
		if (t->n == TALK_MESSAGES) {
			talk_clear(t, kp_rng_below(r, TALK_MESSAGES));
		}
		for (size_t k = 1 + kp_rng_below(r, 2); k && t->n < TALK_MESSAGES; k--) {
			talk_set(t, t->n, r);
			t->n++;
		}
	} else if (what == 8) {
		talk_set(t, kp_rng_below(r, t->n), r);
	} else if (what == 9) {
		talk_clear(t, kp_rng_below(r, t->n));
	} else if (what == 10 && from != t) {
		talk_clear(t, 0);
		for (; t->n < from->n; t->n++) {
			size_t n = strlen(from->m[t->n]) + 1;
			t->m[t->n] = kp_xmalloc(n);
			memcpy(t->m[t->n], from->m[t->n], n);
		}
	} /* else: the same again */
}

/* The array. Its white space is the same each time, mostly. */
static inline void talk_write(const struct talk *t, struct kp_rng *r, struct kp_buf *out)
{
	bool odd = kp_rng_below(r, 10) == 0;
	kp_buf_addc(out, '[');
	for (size_t i = 0; i < t->n; i++) {
		kp_buf_addz(out, i ? ", " : "");
		if (odd) {
			talk_space(r, out);
		}
		kp_buf_addz(out, t->m[i]);
	}
	if (odd) {
		talk_space(r, out);
	}
	kp_buf_addc(out, ']');
}

#endif
