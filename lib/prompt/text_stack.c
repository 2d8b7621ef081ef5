/* DESIGN: at load the template that the model table chooses is compiled and its literal text is searched for added tokens:
   those, the special tokens and the known reasoning and tool markers are the control tokens (DESIGN
   "Text safety"); nothing a client wrote becomes one of them. It is also probed for the shape of
   messages it takes. Rendering rewrites the conversation to that shape and hands the template exactly
   the variables transformers' apply_chat_template passes: messages, tools and documents (None when
   absent), add_generation_prompt, the special tokens, and the request's own keyword arguments. */
#include "prompt/text_stack.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "prompt/known.h"
#include "template/native.h"
#include "template/prefill.h"

/* Reasoning and tool markers that are an assistant's own in its history whatever is known of the model; those of its parsers are besides. */
static const char *const marker_texts[] = { "<think>", "</think>", "<tool_call>", "</tool_call>" };

const char *const kp_text_policy_names[] = { "Markers", "Plain", "Trusted", NULL };

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

static void search_templates(const struct kp_text_stack *s, struct control_search *search)
{
	if (s->chat) {
		kp_template_each_literal(s->chat, search_literal, search);
	}
	for (size_t i = 0; i < s->n_named; i++) {
		kp_template_each_literal(s->named[i].chat, search_literal, search);
	}
}

/* model: the stack that this is a variant of, or itself. What the model's own templates write stays a control token under any other. */
static int make_policy(
	struct kp_text_stack *s, const struct kp_text_stack *model, struct kp_err *err)
{
	struct control_search search = { .tokenizer = s->tokenizer };
	KP_VEC(kp_id)
	markers = { 0 };
	search_templates(s, &search);
	if (model != s) {
		search_templates(model, &search);
	}
	for (size_t i = 0; i < KP_LEN(marker_texts); i++) {
		kp_id id = kp_tokenizer_find(s->tokenizer, kp_str_c(marker_texts[i]));
		if (id != KP_NO_ID) {
			kp_vec_push(&markers, id);
		}
	}
	for (size_t i = 0; i < model->parsers.n_controls; i++) {
		if (kp_parsers_is_marker(&model->parsers, model->parsers.controls[i])) {
			kp_vec_push(&markers, model->parsers.control_ids[i]);
		}
	}
	int r = kp_token_policy_create(s->tokenizer, s->policy_kind, search.ids.p, search.ids.n,
		markers.p, markers.n, &s->policy, err);
	kp_vec_fini(&markers);
	kp_vec_fini(&search.ids);
	/* Else what a client types could take an image's place. */
	if (r == 0 && s->vision &&
		!kp_token_policy_guard(s->policy, s->tokenizer, s->vision->token)) {
		s->vision = NULL;
		s->no_vision = "has an ordinary token for images";
	}
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

static void probe(
	const struct kp_text_stack *s, const struct kp_template *t, struct kp_template_shape *ret)
{
	struct kp_jv texts[N_SPECIAL];
	struct kp_template_var vars[N_SPECIAL];
	size_t n = special_vars(s->info, texts, vars);
	kp_template_probe(t, vars, n, ret);
}

static uint64_t hash(kp_str s)
{
	return kp_siphash(s.p, s.n, (const uint8_t[16]){ 1 });
}

/* Once its template is there, or none. */
static void set_facts(struct kp_text_stack *s, kp_str source)
{
	if (s->chat) {
		probe(s, s->chat, &s->shape);
	}
	s->fingerprint = s->info->fingerprint ^ hash(source) ^ (uint64_t)s->policy_kind << 32;
}

/* source: of the default template, empty: none. */
static int set_default(struct kp_text_stack *s, kp_str source, struct kp_err *err)
{
	if (source.n && kp_template_compile(source, &s->chat, err)) {
		return kp_err_wrap(err, "chat template");
	}
	set_facts(s, source);
	return 0;
}

static int add_named(
	struct kp_text_stack *s, const struct kp_named_template *from, struct kp_err *err)
{
	struct kp_text_template *to = &s->named[s->n_named];
	if (kp_template_compile(from->source, &to->chat, err)) {
		return kp_err_wrap(
			err, "chat template `%" KP_FMT "`", KP_ARG(kp_str_sub(from->name, 0, 80)));
	}
	s->n_named++; /* it has to be destroyed */
	probe(s, to->chat, &to->shape);
	s->fingerprint ^= hash(from->source) * 31 + hash(from->name);
	return kp_arena_dup(s->arena, from->name, &to->name, err);
}

/* The stack of a tokenizer, which it takes over, still without template. */
static struct kp_text_stack *stack_new(struct kp_tokenizer *t, enum kp_text_policy policy)
{
	struct kp_text_stack *s = kp_new(struct kp_text_stack);
	kp_ref_init(&s->ref);
	s->tokenizer = t;
	s->info = kp_tokenizer_info(t);
	s->policy_kind = policy;
	s->arena = kp_arena_create(1 << 20);
	return s;
}

static int set_templates(struct kp_text_stack *s, const struct kp_model_files *files,
	const struct kp_text_options *opts, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf native;
	kp_buf_init(&native, 1 << 20);
	if (kp_model_choose(opts->chat_template, s->tokenizer, files, &s->choice, err)) {
		return -1;
	}
	if (s->choice.native) {
		if (kp_str_eq(kp_str_c(s->choice.native), KP_S("mistral_v15"))) {
			kp_buf_add(&native, files->efforts);
		}
		KP_BUG_ON(!kp_template_native(kp_str_c(s->choice.native), &native));
		return kp_buf_finish(&native, "template", err) ||
				       set_default(s, kp_buf_str(&native), err)
			       ? -1
			       : 0;
	}
	if (set_default(s, s->info->chat_template, err)) {
		return -1;
	}
	s->named = kp_xcalloc(KP_MAX_NAMED_TEMPLATES, sizeof(*s->named));
	for (size_t i = 0; i < files->n_templates; i++) {
		if (add_named(s, &files->templates[i], err)) {
			return -1;
		}
	}
	return 0;
}

/* By the default template, or the one for tools where that one says nothing. */
static int set_parsers(
	struct kp_text_stack *s, const struct kp_text_options *opts, struct kp_err *err)
{
	static const char *const what[] = { "spec.parsers.tool", "spec.parsers.reasoning" };
	struct kp_parsers named;
	kp_parsers_choose(&s->parsers, s->choice.native, s->chat);
	for (size_t i = 0; !s->parsers.tools && i < s->n_named; i++) {
		kp_parsers_choose(&named, NULL, s->named[i].chat);
		if (named.tools) {
			named.thinking = named.thinking ? named.thinking : s->parsers.thinking;
			s->parsers = named;
		}
	}
	if (kp_arena_dup(s->arena, opts->tool_parser, &s->tool_parser, err) < 0 ||
		kp_arena_dup(s->arena, opts->reasoning_parser, &s->reasoning_parser, err) < 0) {
		return -1;
	}
	s->fingerprint ^= hash(s->tool_parser) * 3 ^ hash(s->reasoning_parser) * 5;
	return kp_parsers_named(&s->parsers, opts->tool_parser, opts->reasoning_parser, what,
		       err) || kp_parsers_compile(&s->parsers, s->tokenizer, s->arena, err)
		       ? -1
		       : 0;
}

/* A model that takes no images is none the worse. */
static void set_vision(struct kp_text_stack *s, const struct kp_model_files *files)
{
	struct kp_vision *v = kp_arena_new(s->arena, struct kp_vision);
	struct kp_err err;
	if (kp_vision_read(files, s->tokenizer, v, &err)) {
		s->no_vision = kp_arena_strz(s->arena, kp_str_c(err.msg));
		return;
	}
	s->vision = v;
	s->fingerprint ^= v->digest;
}

int kp_text_stack_from_tokenizer(struct kp_tokenizer *t, const struct kp_model_files *files,
	const struct kp_text_options *opts, struct kp_text_stack **ret, struct kp_err *err)
{
	struct kp_text_stack *s = stack_new(t, opts->policy);
	if (set_templates(s, files, opts, err) || set_parsers(s, opts, err)) {
		kp_text_stack_unref(s);
		return -1;
	}
	set_vision(s, files);
	if (make_policy(s, s, err)) {
		kp_text_stack_unref(s);
		return -1;
	}
	*ret = s;
	return 0;
}

enum { MAX_FILES_MEMORY = 64 << 20 };

int kp_text_stack_from_zip(kp_str zip, const struct kp_text_options *opts,
	struct kp_text_stack **ret, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(MAX_FILES_MEMORY);
	struct kp_model_files files;
	struct kp_tokenizer *t;
	if (kp_tokenizer_from_zip(zip, &t, err)) {
		return -1;
	}
	kp_model_files_from_zip(zip, a, &files);
	return kp_text_stack_from_tokenizer(t, &files, opts, ret, err);
}

int kp_text_stack_from_path(const char *path, const struct kp_text_options *opts,
	struct kp_text_stack **ret, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(MAX_FILES_MEMORY);
	struct kp_model_files files;
	struct kp_tokenizer *t;
	if (kp_tokenizer_from_path(path, &t, err)) {
		return -1;
	}
	kp_model_files_from_path(path, a, &files);
	return kp_text_stack_from_tokenizer(t, &files, opts, ret, err);
}

int kp_text_stack_with_template(const struct kp_text_stack *of, kp_str source, size_t max_memory,
	struct kp_text_stack **ret, struct kp_err *err)
{
	if (kp_str_find_char(source, '{') < 0) { /* somebody meant a name, or nothing */
		return source.n ? kp_err_param(err, "chat_template",
					  "`chat_template`: the model has no template `%" KP_FMT
					  "`, and a template's source has a `{`",
					  KP_ARG(kp_str_sub(source, 0, 80)))
				: kp_err_param(err, "chat_template",
					  "`chat_template`: an empty template");
	}
	struct kp_text_stack *s = stack_new(kp_tokenizer_ref(of->tokenizer), of->policy_kind);
	if (kp_template_compile_within(source, max_memory, &s->chat, err)) {
		kp_text_stack_unref(s);
		return kp_err_wrap(err, "chat template");
	}
	set_facts(s, source);
	s->no_vision = "";
	if (of->vision) {
		struct kp_vision *v = kp_arena_new(s->arena, struct kp_vision);
		*v = *of->vision;
		s->vision = v;
	}
	const struct kp_text_options opts = { .tool_parser = of->tool_parser,
		.reasoning_parser = of->reasoning_parser };
	if (set_parsers(s, &opts, err) || make_policy(s, of, err)) {
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
		for (size_t i = 0; i < s->n_named; i++) {
			kp_template_destroy(s->named[i].chat);
		}
		kp_mem_free(s->named);
		kp_arena_destroy(s->arena);
		kp_tokenizer_unref(s->tokenizer);
		kp_mem_free(s);
	}
}

static const struct kp_text_template *find_named(const struct kp_text_stack *s, kp_str name)
{
	for (size_t i = 0; i < s->n_named; i++) {
		if (kp_str_eq(s->named[i].name, name)) {
			return &s->named[i];
		}
	}
	return NULL;
}

bool kp_text_stack_has(const struct kp_text_stack *s, kp_str name)
{
	return (s->chat && kp_str_eq(name, KP_S("default"))) || find_named(s, name);
}

/* The template for the turn, as transformers' get_chat_template chooses. */
static int choose(const struct kp_text_stack *s, const struct kp_turn *turn, bool has_tools,
	struct kp_text_template *ret, struct kp_err *err)
{
	const struct kp_text_template *named = find_named(s, turn->chat.template_source);
	if (!named && !turn->chat.template_source.p && has_tools) {
		named = find_named(s, KP_S("tool_use"));
	}
	*ret = named ? *named : (struct kp_text_template){ .chat = s->chat, .shape = s->shape };
	if (ret->chat) {
		return 0;
	}
	return s->n_named ? kp_err_param(err, "chat_template",
				    "`chat_template`: model `%" KP_FMT
				    "` has no default template, name one, such as `%" KP_FMT "`",
				    KP_ARG(turn->model), KP_ARG(s->named[0].name))
			  : kp_err_set(err, KP_FAILED_PRECONDITION,
				    "model `%" KP_FMT "` has no chat template: use /v1/completions",
				    KP_ARG(turn->model));
}

static const char *const thinking_names[] = { "enable_thinking", "thinking", "thinking_budget" };

enum { N_SWITCHES = 2, N_THINKING = KP_LEN(thinking_names) };

/* No effort at all is what a switch says too. */
static bool knows_effort(const struct kp_template *t, kp_str effort)
{
	bool is_known = kp_template_mentions(t, KP_S("reasoning_effort"));
	for (size_t i = 0; i < N_SWITCHES && kp_str_eq(effort, KP_S("none")); i++) {
		is_known = is_known || kp_template_mentions(t, kp_str_c(thinking_names[i]));
	}
	return is_known;
}

static int check_effort(const struct kp_template *t, const struct kp_chat *chat, struct kp_err *err)
{
	if (!chat->reasoning_effort.p || chat->effort_is_a_wish ||
		knows_effort(t, chat->reasoning_effort)) {
		return 0;
	}
	kp_err_param(err, "reasoning_effort",
		"`reasoning_effort`: the model's chat template does not know it");
	err->reason = "unsupported_parameter";
	return -1;
}

/* `thinking` of Anthropic's API and an effort of `none`, for the switches that templates have, unless the request sets them itself. */
static size_t thinking_vars(const struct kp_template *t, const struct kp_chat *chat,
	struct kp_jv values[N_THINKING], struct kp_template_var *vars, struct kp_arena *a)
{
	enum kp_json_type on = chat->thinking == KP_THINKING_ON ? KP_JSON_TRUE : KP_JSON_FALSE;
	size_t n = 0;
	for (size_t i = 0; i < N_THINKING && chat->thinking; i++) {
		bool is_budget = i >= N_SWITCHES;
		kp_str name = kp_str_c(thinking_names[i]);
		if (!kp_template_mentions(t, name) || kp_jv_get(&chat->kwargs, name) ||
			(is_budget && !chat->thinking_budget)) {
			continue;
		}
		values[i].type = is_budget ? KP_JSON_NUMBER : on;
		if (is_budget) {
			values[i].s = kp_arena_printf(a, "%u", chat->thinking_budget);
		}
		vars[n++] = (struct kp_template_var){ name, &values[i], KP_ORIGIN_CLIENT };
	}
	return n;
}

/* The variables transformers passes, then the request's own. */
static int template_vars(const struct kp_text_stack *s, const struct kp_template *t,
	const struct kp_turn *turn, const struct kp_jv *messages, const struct kp_jv *tools,
	struct kp_template_opts *opts, struct kp_err *err)
{
	static const struct kp_jv none = { .type = KP_JSON_NULL }, yes = { .type = KP_JSON_TRUE },
				  no = { .type = KP_JSON_FALSE };
	const struct kp_chat *chat = &turn->chat;
	enum { N_TEXTS = N_SPECIAL + 1 + N_THINKING, MAX_FIXED = 4 + N_TEXTS };
	size_t n = 0, n_kwargs = chat->kwargs.type == KP_JSON_OBJECT ? chat->kwargs.n : 0;
	struct kp_template_var *vars =
		kp_arena_alloc(turn->arena, (MAX_FIXED + n_kwargs) * sizeof(*vars));
	struct kp_jv *texts = kp_arena_calloc(turn->arena, N_TEXTS, sizeof(*texts));
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
	n += thinking_vars(t, chat, &texts[N_SPECIAL + 1], &vars[n], turn->arena);
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
	struct kp_text_template t;
	struct kp_text text;
	if (choose(s, turn, has_tools, &t, err) || check_effort(t.chat, chat, err) ||
		kp_known_adapt(turn, &t.shape, &messages, err) ||
		(has_tools && kp_template_adapt_tools(
				      &t.shape, &chat->tools, turn->arena, &tools, err)) ||
		(prefill && kp_template_prefill_mark(&messages, turn->arena, &marked, err)) ||
		template_vars(s, t.chat, turn, prefill ? &marked : &messages,
			has_tools ? &tools : NULL, &opts, err)) {
		return -1;
	}
	/* A template of the request's own does not come again; one message is not what was read where it goes on. */
	if (!prefill && (!chat->template_source.p || kp_text_stack_has(s, chat->template_source))) {
		kp_known_remember(turn, &opts);
	}
	if (kp_template_render(t.chat, &opts, turn->arena, &text, err)) {
		return -1;
	}
	if (prefill && kp_template_prefill_cut(&messages, &text, turn->arena, err)) {
		return -1;
	}
	*ret = text;
	return 0;
}
