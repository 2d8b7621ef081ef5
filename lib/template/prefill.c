/* DESIGN: the mark is transformers' own, so that a template that looks at the end of a message sees the same there. */
#include "template/prefill.h"

#include "template/rewrite.h"
#include "template/ucd.h"

#include "base/utf8.h"

static const char mark[] = "CONTINUE_FINAL_MESSAGE_TAG ";
enum { MARK = sizeof(mark) - 1, CORE = MARK - 1 }; /* CORE: without the space behind it */

static const struct kp_jv *final_content(const struct kp_jv *messages)
{
	return messages->n ? kp_jv_get(&messages->items[messages->n - 1], KP_S("content")) : NULL;
}

static int no_text(struct kp_err *err)
{
	return kp_err_param(err, "continue_final_message",
		"`continue_final_message`: the final message has no text to continue");
}

static int put_item(const struct kp_jv *list, uint32_t at, const struct kp_jv *value,
	struct kp_arena *a, struct kp_jv *ret, struct kp_err *err)
{
	struct kp_jv *items;
	if (kp_tpl_jv_copy_items(list, a, &items, err)) {
		return -1;
	}
	items[at] = *value;
	*ret = *list;
	ret->items = items;
	return 0;
}

/* The text to continue, and which part it is in. */
static const struct kp_jv *final_text(const struct kp_jv *content, uint32_t *ret_part)
{
	if (kp_jv_is(content, KP_JSON_ARRAY)) {
		for (uint32_t i = content->n; i-- > 0;) {
			const struct kp_jv *text = kp_jv_get(&content->items[i], KP_S("text"));
			if (kp_jv_is(text, KP_JSON_STRING)) {
				*ret_part = i;
				return text;
			}
		}
		return NULL;
	}
	return kp_jv_is(content, KP_JSON_STRING) ? content : NULL;
}

int kp_template_prefill_mark(
	const struct kp_jv *messages, struct kp_arena *a, struct kp_jv *ret, struct kp_err *err)
{
	const struct kp_jv *content = final_content(messages);
	uint32_t part = 0;
	const struct kp_jv *text = final_text(content, &part);
	if (!text) {
		return no_text(err);
	}
	char *p = kp_arena_alloc(a, text->s.n + MARK);
	if (!p) {
		return kp_arena_full(err, "messages");
	}
	memcpy(p, text->s.p, text->s.n);
	memcpy(p + text->s.n, mark, MARK);
	struct kp_jv marked = { .type = KP_JSON_STRING, .s = { p, text->s.n + MARK } }, message;
	if (content->type == KP_JSON_ARRAY) {
		struct kp_jv item;
		if (kp_tpl_jv_replace(
			    &content->items[part], KP_S("text"), &marked, a, &item, err) ||
			put_item(content, part, &item, a, &marked, err)) {
			return -1;
		}
	}
	return kp_tpl_jv_replace(&messages->items[messages->n - 1], KP_S("content"), &marked, a,
		       &message, err) ||
			       put_item(messages, messages->n - 1, &message, a, ret, err)
		       ? -1
		       : 0;
}

/* Python's strip() and rstrip(). */
static kp_str strip(kp_str s, bool front)
{
	while (s.n) {
		uint32_t cp = 0;
		size_t n = kp_utf8_decode_last(s.p, s.n, &cp);
		if (!kp_ucd_is(cp, KP_UCD_SPACE)) {
			break;
		}
		s.n -= n;
	}
	while (front && s.n) {
		uint32_t cp = 0;
		size_t n = kp_utf8_decode(s.p, s.n, &cp);
		if (!kp_ucd_is(cp, KP_UCD_SPACE)) {
			break;
		}
		s = kp_str_skip(s, n);
	}
	return s;
}

static int cut(struct kp_text *text, size_t end, struct kp_arena *a, struct kp_err *err)
{
	size_t n = 0;
	while (n < text->n_runs && (n == 0 || text->runs[n - 1].end < end)) {
		n++;
	}
	struct kp_run *runs = kp_arena_alloc(a, n * sizeof(*runs));
	if (!runs) {
		return kp_arena_full(err, "prompt text");
	}
	if (n) {
		memcpy(runs, text->runs, n * sizeof(*runs));
		runs[n - 1].end = (uint32_t)end;
	}
	*text = (struct kp_text){ .s = kp_str_sub(text->s, 0, end), .runs = runs, .n_runs = n };
	return 0;
}

int kp_template_prefill_cut(
	const struct kp_jv *messages, struct kp_text *text, struct kp_arena *a, struct kp_err *err)
{
	uint32_t part;
	const struct kp_jv *final = final_text(final_content(messages), &part);
	if (!final) {
		return no_text(err);
	}
	ptrdiff_t at = -1;
	for (size_t from = text->s.n; at < 0 && from-- > 0;) {
		if (kp_str_starts(kp_str_skip(text->s, from), kp_str_n(mark, CORE))) {
			at = (ptrdiff_t)from;
		}
	}
	if (at < 0 || !kp_str_has(text->s, strip(final->s, true))) {
		return kp_err_param(err, "continue_final_message",
			"`continue_final_message`: the final message's text is not in the rendered prompt");
	}
	bool spaces_kept = kp_str_starts(kp_str_skip(text->s, (size_t)at), kp_str_n(mark, MARK));
	kp_str before = kp_str_sub(text->s, 0, (size_t)at);
	return cut(text, spaces_kept ? before.n : strip(before, false).n, a, err);
}
