/* DESIGN: at load the template is compiled and its literal text is searched for added tokens:
   those, the special tokens and the known reasoning and tool markers are the control tokens (DESIGN
   "Text safety"); nothing a client wrote becomes one of them. It is also probed for the shape of
   messages it takes. Rendering rewrites the conversation to that shape and hands the template exactly
   the variables transformers' apply_chat_template passes: messages, tools and documents (None when
   absent), add_generation_prompt, the special tokens, and the request's own keyword arguments. */
#include "prompt/text_stack.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "template/prefill.h"

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

/* The variables that a template gets whatever the request: the tokenizer's special tokens. */
enum { N_SPECIAL = 4 };
static size_t special_vars(const struct kp_tokenizer_info *info, struct kp_jv texts[N_SPECIAL],
	struct kp_template_var vars[N_SPECIAL])
{
	const struct {
		const char *name;
		kp_str text;
	} special[N_SPECIAL] = { { "bos_token", info->bos_text }, { "eos_token", info->eos_text },
		{ "pad_token", info->pad_text }, { "unk_token", info->unk_text } };
	size_t n = 0;
	for (size_t i = 0; i < N_SPECIAL; i++) {
		if (special[i].text.n) {
			texts[n] = (struct kp_jv){ .type = KP_JSON_STRING, .s = special[i].text };
			vars[n] = (struct kp_template_var){ kp_str_c(special[i].name), &texts[n],
				KP_ORIGIN_TRUSTED };
			n++;
		}
	}
	return n;
}

static void probe(struct kp_text_stack *s)
{
	struct kp_jv texts[N_SPECIAL];
	struct kp_template_var vars[N_SPECIAL];
	size_t n = special_vars(s->info, texts, vars);
	kp_template_probe(s->chat, vars, n, &s->shape);
}

/* With the tokenizer in place; source: of the chat template, empty: none. */
static int set_template(struct kp_text_stack *s, kp_str source, struct kp_err *err)
{
	s->info = kp_tokenizer_info(s->tokenizer);
	if (source.n && kp_template_compile(source, &s->chat, err)) {
		return kp_err_wrap(err, "chat template");
	}
	if (s->chat) {
		probe(s);
	}
	s->fingerprint =
		s->info->fingerprint ^ kp_siphash(source.p, source.n, (const uint8_t[16]){ 1 });
	return make_policy(s, err);
}

static int finish(struct kp_text_stack *s, struct kp_text_stack **ret, struct kp_err *err)
{
	if (set_template(s, kp_tokenizer_info(s->tokenizer)->chat_template, err)) {
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

int kp_text_stack_from_tokenizer(
	struct kp_tokenizer *t, struct kp_text_stack **ret, struct kp_err *err)
{
	struct kp_text_stack *s = stack_new();
	s->tokenizer = t;
	if (finish(s, ret, err)) {
		kp_text_stack_unref(s);
		return -1;
	}
	return 0;
}

int kp_text_stack_from_zip(kp_str zip, struct kp_text_stack **ret, struct kp_err *err)
{
	struct kp_tokenizer *t;
	return kp_tokenizer_from_zip(zip, &t, err) ? -1 : kp_text_stack_from_tokenizer(t, ret, err);
}

int kp_text_stack_from_path(const char *path, struct kp_text_stack **ret, struct kp_err *err)
{
	struct kp_tokenizer *t;
	return kp_tokenizer_from_path(path, &t, err) ? -1
						     : kp_text_stack_from_tokenizer(t, ret, err);
}

int kp_text_stack_with_template(const struct kp_text_stack *of, kp_str source,
	struct kp_text_stack **ret, struct kp_err *err)
{
	struct kp_text_stack *s = stack_new();
	s->tokenizer = kp_tokenizer_ref(of->tokenizer);
	if (set_template(s, source, err)) {
		kp_text_stack_unref(s);
		return -1;
	}
	*ret = s;
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

static int check_effort(
	const struct kp_text_stack *s, const struct kp_chat *chat, struct kp_err *err)
{
	if (!chat->reasoning_effort.p || kp_template_mentions(s->chat, KP_S("reasoning_effort"))) {
		return 0;
	}
	kp_err_param(err, "reasoning_effort",
		"`reasoning_effort`: the model's chat template does not know it");
	err->reason = "unsupported_parameter";
	return -1;
}

/* The variables transformers passes, then the request's own. */
static int template_vars(const struct kp_text_stack *s, const struct kp_turn *turn,
	const struct kp_jv *messages, const struct kp_jv *tools, struct kp_template_opts *opts,
	struct kp_err *err)
{
	static const struct kp_jv none = { .type = KP_JSON_NULL }, yes = { .type = KP_JSON_TRUE },
				  no = { .type = KP_JSON_FALSE };
	const struct kp_chat *chat = &turn->chat;
	enum { MAX_FIXED = 5 + N_SPECIAL };
	size_t n = 0, n_kwargs = chat->kwargs.type == KP_JSON_OBJECT ? chat->kwargs.n : 0;
	struct kp_template_var *vars =
		kp_arena_alloc(turn->arena, (MAX_FIXED + n_kwargs) * sizeof(*vars));
	struct kp_jv *texts = kp_arena_calloc(turn->arena, N_SPECIAL + 1, sizeof(*texts));
	if (!vars || !texts) {
		return kp_arena_full(err, "template variables");
	}
	vars[n++] = (struct kp_template_var){ KP_S("messages"), messages, KP_ORIGIN_CLIENT };
	vars[n++] =
		(struct kp_template_var){ KP_S("tools"), tools ? tools : &none, KP_ORIGIN_CLIENT };
	vars[n++] = (struct kp_template_var){ KP_S("documents"),
		chat->documents.type ? &chat->documents : &none, KP_ORIGIN_CLIENT };
	vars[n++] = (struct kp_template_var){ KP_S("add_generation_prompt"),
		chat->add_generation_prompt ? &yes : &no, KP_ORIGIN_TRUSTED };
	n += special_vars(s->info, texts, &vars[n]);
	if (chat->reasoning_effort.p) {
		texts[N_SPECIAL] =
			(struct kp_jv){ .type = KP_JSON_STRING, .s = chat->reasoning_effort };
		vars[n++] = (struct kp_template_var){ KP_S("reasoning_effort"), &texts[N_SPECIAL],
			KP_ORIGIN_CLIENT };
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
	struct kp_template_opts opts = { .now_wall_ns = now_wall_ns, .now_ns = kp_now_ns };
	const struct kp_chat *chat = &turn->chat;
	/* A model that is told of tools may call them: `none` means that it is not. */
	bool has_tools = chat->tools.n && chat->tool_choice != KP_TOOL_CHOICE_NONE;
	bool prefill = chat->continue_final_message;
	struct kp_jv messages, marked, tools;
	struct kp_text text;
	if (!s->chat) {
		return kp_err_set(err, KP_FAILED_PRECONDITION,
			"model `%" KP_FMT "` has no chat template: use /v1/completions",
			KP_ARG(turn->model));
	}
	if (check_effort(s, chat, err) ||
		kp_template_adapt_messages(
			&s->shape, &chat->messages, turn->arena, &messages, err) ||
		(has_tools && kp_template_adapt_tools(
				      &s->shape, &chat->tools, turn->arena, &tools, err)) ||
		(prefill && kp_template_prefill_mark(&messages, turn->arena, &marked, err)) ||
		template_vars(s, turn, prefill ? &marked : &messages, has_tools ? &tools : NULL,
			&opts, err) ||
		kp_template_render(s->chat, &opts, turn->arena, &text, err)) {
		return -1;
	}
	if (prefill && kp_template_prefill_cut(&messages, &text, turn->arena, err)) {
		return -1;
	}
	*ret = text;
	return 0;
}
