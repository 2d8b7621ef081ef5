/* DESIGN: at load the template is compiled and its literal text is searched for added tokens:
   those, the special tokens and the known reasoning and tool markers are the control tokens (DESIGN
   "Text safety"); nothing a client wrote becomes one of them. Rendering hands the template exactly
   the variables transformers' apply_chat_template passes: messages, tools and documents (None when
   absent), add_generation_prompt, the special tokens, and the request's own keyword arguments. */
#include "sidecar/models/text_stack.h"

#include "base/map.h"
#include "base/vec.h"

/* Reasoning and tool markers of the families served; an assistant's own are control tokens in its
 * history. */
static const char *const marker_texts[] = { "<think>", "</think>", "<tool_call>", "</tool_call>" };

struct control_search {
	const struct kp_tokenizer *tokenizer;
	KP_VEC(kp_id)
	ids;
};

static bool is_blank(kp_str s)
{
	return kp_str_trim(s).n == 0;
}

static void search_literal(void *ctx, kp_str literal)
{
	struct control_search *s = ctx;
	kp_id id;
	kp_str text;
	bool special;
	for (size_t i = 0; kp_tokenizer_added(s->tokenizer, i, &id, &text, &special); i++) {
		if (!special && text.n && !is_blank(text) && kp_str_has(literal, text)) {
			kp_vec_push(&s->ids, id);
		}
	}
}

static int make_policy(struct kp_text_stack *s, struct kp_err *err)
{
	struct control_search search = { .tokenizer = s->tokenizer };
	kp_id markers[KP_LEN(marker_texts)];
	size_t n_markers = 0;
	if (s->chat) {
		kp_template_each_literal(s->chat, search_literal, &search);
	}
	for (size_t i = 0; i < KP_LEN(marker_texts); i++) {
		kp_id id = kp_tokenizer_find(s->tokenizer, kp_str_c(marker_texts[i]));
		if (id != KP_NO_ID) {
			markers[n_markers++] = id;
			kp_vec_push(&search.ids, id);
		}
	}
	int r = kp_token_policy_create(s->tokenizer, KP_POLICY_MARKERS, search.ids.p, search.ids.n,
		markers, n_markers, &s->policy, err);
	kp_vec_fini(&search.ids);
	return r;
}

static int finish(struct kp_text_stack *s, struct kp_text_stack **ret, struct kp_err *err)
{
	s->info = kp_tokenizer_info(s->tokenizer);
	if (s->info->chat_template.n &&
		kp_template_compile(s->info->chat_template, &s->chat, err)) {
		return kp_err_wrap(err, "chat template");
	}
	s->has_developer_role = s->chat && kp_template_mentions(s->chat, KP_S("developer"));
	s->fingerprint =
		s->info->fingerprint ^ kp_siphash(s->info->chat_template.p,
					       s->info->chat_template.n, (const uint8_t[16]){ 1 });
	if (make_policy(s, err)) {
		return -1;
	}
	*ret = s;
	return 0;
}

static struct kp_text_stack *stack_new(void)
{
	struct kp_text_stack *s = kp_new(struct kp_text_stack);
	kp_ref_init(&s->ref);
	return s;
}

int kp_text_stack_from_zip(kp_str zip, struct kp_text_stack **ret, struct kp_err *err)
{
	struct kp_text_stack *s = stack_new();
	if (kp_tokenizer_from_zip(zip, &s->tokenizer, err) || finish(s, ret, err)) {
		kp_text_stack_unref(s);
		return -1;
	}
	return 0;
}

int kp_text_stack_from_path(const char *path, struct kp_text_stack **ret, struct kp_err *err)
{
	struct kp_text_stack *s = stack_new();
	if (kp_tokenizer_from_path(path, &s->tokenizer, err) || finish(s, ret, err)) {
		kp_text_stack_unref(s);
		return -1;
	}
	return 0;
}

struct kp_text_stack *kp_text_stack_ref(struct kp_text_stack *s)
{
	kp_ref_get(&s->ref);
	return s;
}

void kp_text_stack_unref(struct kp_text_stack *s)
{
	if (s && kp_ref_put(&s->ref)) {
		kp_token_policy_destroy(s->policy);
		kp_template_destroy(s->chat);
		kp_tokenizer_unref(s->tokenizer);
		kp_mem_free(s);
	}
}

/* `developer` is OpenAI's newer name of `system`: templates that do not know it get the old name.
 */
static int map_developer(
	const struct kp_jv *messages, struct kp_arena *a, struct kp_jv *ret, struct kp_err *err)
{
	struct kp_jv *items = kp_arena_alloc(a, messages->n * sizeof(*items));
	if (!items) {
		return kp_arena_full(err, "messages");
	}
	memcpy(items, messages->items, messages->n * sizeof(*items));
	for (uint32_t i = 0; i < messages->n; i++) {
		if (!kp_str_eq(kp_jv_str(&items[i], KP_S("role")), KP_S("developer"))) {
			continue;
		}
		struct kp_jmember *members = kp_arena_alloc(a, items[i].n * sizeof(*members));
		if (!members) {
			return kp_arena_full(err, "messages");
		}
		memcpy(members, items[i].members, items[i].n * sizeof(*members));
		for (uint32_t k = 0; k < items[i].n; k++) {
			if (kp_str_eq(members[k].key, KP_S("role"))) {
				members[k].value.s = KP_S("system");
			}
		}
		items[i].members = members;
	}
	*ret = *messages;
	ret->items = items;
	return 0;
}

/* Cuts the text at `end`. */
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

/* transformers' rule for continue_final_message: cut behind the last occurrence of the final
 * message's text (of the stripped text when the template strips it). */
static int cut_after_final(
	const struct kp_jv *messages, struct kp_text *text, struct kp_arena *a, struct kp_err *err)
{
	kp_str content = kp_jv_str(&messages->items[messages->n - 1], KP_S("content")),
	       core = kp_str_trim(content);
	ptrdiff_t at = -1;
	for (size_t from = text->s.n; core.n && at < 0 && from-- > 0;) {
		if (kp_str_starts(kp_str_skip(text->s, from), core)) {
			at = (ptrdiff_t)from;
		}
	}
	if (at < 0) {
		return kp_err_param(err, "continue_final_message",
			"`continue_final_message`: the final message's text is not in the rendered prompt");
	}
	kp_str whole = kp_str_skip(content,
		(size_t)(core.p -
			 content.p)); /* trailing white space stays if the template kept it */
	bool kept = kp_str_starts(kp_str_skip(text->s, (size_t)at), whole);
	return cut(text, (size_t)at + (kept ? whole.n : core.n), a, err);
}

/* The variables transformers passes, then the request's own. */
static int template_vars(const struct kp_text_stack *s, const struct kp_turn *turn,
	const struct kp_jv *messages, struct kp_template_opts *opts, struct kp_err *err)
{
	static const struct kp_jv none = { .type = KP_JSON_NULL }, yes = { .type = KP_JSON_TRUE },
				  no = { .type = KP_JSON_FALSE };
	const struct kp_chat *chat = &turn->chat;
	const struct {
		const char *name;
		kp_str text;
	} special[] = { { "bos_token", s->info->bos_text }, { "eos_token", s->info->eos_text },
		{ "pad_token", s->info->pad_text }, { "unk_token", s->info->unk_text } };
	enum { MAX_FIXED = 4 + KP_LEN(special) };
	size_t n = 0, n_kwargs = chat->kwargs.type == KP_JSON_OBJECT ? chat->kwargs.n : 0;
	struct kp_template_var *vars =
		kp_arena_alloc(turn->arena, (MAX_FIXED + n_kwargs) * sizeof(*vars));
	struct kp_jv *texts = kp_arena_calloc(turn->arena, KP_LEN(special), sizeof(*texts));
	if (!vars || !texts) {
		return kp_arena_full(err, "template variables");
	}
	vars[n++] = (struct kp_template_var){ KP_S("messages"), messages, KP_ORIGIN_CLIENT };
	vars[n++] = (struct kp_template_var){ KP_S("tools"), &none, KP_ORIGIN_CLIENT };
	vars[n++] = (struct kp_template_var){ KP_S("documents"),
		chat->documents.type ? &chat->documents : &none, KP_ORIGIN_CLIENT };
	vars[n++] = (struct kp_template_var){ KP_S("add_generation_prompt"),
		chat->add_generation_prompt ? &yes : &no, KP_ORIGIN_TRUSTED };
	for (size_t i = 0; i < KP_LEN(special); i++) {
		if (special[i].text.n) {
			texts[i] = (struct kp_jv){ .type = KP_JSON_STRING, .s = special[i].text };
			vars[n++] = (struct kp_template_var){ kp_str_c(special[i].name), &texts[i],
				KP_ORIGIN_TRUSTED };
		}
	}
	for (size_t i = 0; i < n_kwargs; i++) {
		vars[n++] = (struct kp_template_var){ chat->kwargs.members[i].key,
			&chat->kwargs.members[i].value, KP_ORIGIN_CLIENT };
	}
	opts->vars = vars;
	opts->n_vars = n;
	return 0;
}

int kp_text_stack_render(const struct kp_text_stack *s, const struct kp_turn *turn,
	int64_t now_wall_ns, struct kp_text *ret, struct kp_err *err)
{
	struct kp_template_opts opts = { .now_wall_ns = now_wall_ns };
	struct kp_jv messages = turn->chat.messages;
	struct kp_text text;
	if (!s->chat) {
		return kp_err_set(err, KP_FAILED_PRECONDITION,
			"model `%" KP_FMT "` has no chat template: use /v1/completions",
			KP_ARG(turn->model));
	}
	if (!s->has_developer_role &&
		map_developer(&turn->chat.messages, turn->arena, &messages, err)) {
		return -1;
	}
	if (template_vars(s, turn, &messages, &opts, err) ||
		kp_template_render(s->chat, &opts, turn->arena, &text, err)) {
		return -1;
	}
	if (turn->chat.continue_final_message &&
		cut_after_final(&messages, &text, turn->arena, err)) {
		return -1;
	}
	*ret = text;
	return 0;
}
