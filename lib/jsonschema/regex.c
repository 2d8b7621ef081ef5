/* DESIGN: see regex.h. PCRE2's interpreter and JIT both count backtracking against the match limit; its stack is the caller's or the heap, limited too.
   PCRE2 does not tell how much it did: a match is tried with a small limit first, so that one that needs more is known to be dear. */
#include "jsonschema/regex.h"
#include "base/mem.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum {
	MATCH_LIMIT = 200000,
	LIGHT_LIMIT = 1000,
	HEAP_LIMIT_KB = 4096,
	DEPTH_LIMIT = 50000,
	TRANSLATED_MAX = 1 << 18
};

struct kp_js_regex {
	pcre2_code *code;
	pcre2_match_context *light, *full;
};

static pcre2_match_context *limits(uint32_t match_limit)
{
	pcre2_match_context *c = pcre2_match_context_create(NULL);
	if (c) {
		pcre2_set_match_limit(c, match_limit);
		pcre2_set_heap_limit(c, HEAP_LIMIT_KB);
		pcre2_set_depth_limit(c, DEPTH_LIMIT);
	}
	return c;
}

int kp_js_regex_compile(kp_str pattern, struct kp_js_regex **ret, struct kp_err *err)
{
	if (pattern.n > KP_JS_REGEX_MAX) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"compile a pattern: `%zu` bytes, at most %d", pattern.n, KP_JS_REGEX_MAX);
	}
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, TRANSLATED_MAX);
	if (kp_js_regex_translate(pattern, &text, err) || kp_buf_finish(&text, "pattern", err)) {
		return -1;
	}
	int code = 0;
	PCRE2_SIZE at = 0;
	uint32_t flags = PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_DOLLAR_ENDONLY |
			 PCRE2_ALLOW_EMPTY_CLASS | PCRE2_MATCH_UNSET_BACKREF |
			 PCRE2_NEVER_BACKSLASH_C | PCRE2_NEVER_UCP;
	struct kp_js_regex *re = kp_new(struct kp_js_regex);
	re->code = pcre2_compile((PCRE2_SPTR)text.p, text.n, flags, &code, &at, NULL);
	if (!re->code) {
		PCRE2_UCHAR why[128] = "";
		(void)pcre2_get_error_message(code, why, sizeof(why));
		kp_js_regex_destroy(re);
		return kp_err_set(err, KP_INVALID_ARGUMENT, "compile pattern `%" KP_FMT "`: %s",
			KP_ARG(kp_str_sub(pattern, 0, 120)), (const char *)why);
	}
	re->light = limits(LIGHT_LIMIT);
	re->full = limits(MATCH_LIMIT);
	if (!re->light || !re->full) {
		kp_js_regex_destroy(re);
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "compile `pattern`: out of memory");
	}
	(void)pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE); /* slower without */
	*ret = re;
	return 0;
}

void kp_js_regex_destroy(struct kp_js_regex *re)
{
	if (re) {
		pcre2_code_free(re->code);
		pcre2_match_context_free(re->light);
		pcre2_match_context_free(re->full);
		kp_mem_free(re);
	}
}

size_t kp_js_regex_bytes(const struct kp_js_regex *re)
{
	size_t code = 0, jit = 0;
	(void)pcre2_pattern_info(re->code, PCRE2_INFO_SIZE, &code);
	(void)pcre2_pattern_info(re->code, PCRE2_INFO_JITSIZE, &jit);
	return sizeof(*re) + code + jit;
}

/* PCRE2's answer. */
static int match(
	const struct kp_js_regex *re, kp_str s, pcre2_match_data *data, pcre2_match_context *limits)
{
	PCRE2_SPTR text = (PCRE2_SPTR)(s.n ? s.p : "");
	int r = pcre2_match(re->code, text, s.n, 0, PCRE2_NO_UTF_CHECK, data, limits);
	if (r == PCRE2_ERROR_JIT_STACKLIMIT) {
		r = pcre2_match(
			re->code, text, s.n, 0, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, limits);
	}
	return r;
}

int kp_js_regex_find(const struct kp_js_regex *re, kp_str s, bool *ret_dear)
{
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	*ret_dear = false;
	if (!data) {
		return -1;
	}
	int r = match(re, s, data, re->light);
	if (r < 0 && r != PCRE2_ERROR_NOMATCH) {
		*ret_dear = true;
		r = match(re, s, data, re->full);
	}
	pcre2_match_data_free(data);
	return r >= 0 ? 1 : r == PCRE2_ERROR_NOMATCH ? 0 : -1;
}
