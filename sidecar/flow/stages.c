/* DESIGN: the stages before an engine runs. Cheap checks come first: limits, then the model, then
 * the prompt's size in bytes, and only then rendering and tokenizing. */
#include "sidecar/flow/output.h"

#include "base/clock.h"
#include "prompt/known.h"
#include "sidecar/flow/media.h"
#include "sidecar/flow/stages.h"
#include "sidecar/flow/validate.h"
#include "sidecar/metrics.h"

#include <stdio.h>

/* A limit of one request: trying again will not help, so it is not RESOURCE_EXHAUSTED (429). */
static void blame_request(struct kp_err *err)
{
	if (err->code == KP_RESOURCE_EXHAUSTED && !err->reason) {
		err->code = KP_INVALID_ARGUMENT;
		err->reason = "request_too_large";
	}
}

static void work(struct kp_job *job)
{
	struct kp_flow *f = KP_CONTAINER(job, struct kp_flow, job);
	struct kp_token_scratch *scratch =
		f->job_needs_scratch ? kp_token_scratch_create(1 << 20) : NULL;
	if (f->job_fn(f, scratch, &f->job_err) == 0) {
		f->job_err.code = KP_OK;
	} else {
		blame_request(&f->job_err);
	}
	kp_token_scratch_destroy(scratch);
}

static void work_done(struct kp_msg *msg)
{
	struct kp_job *job = KP_CONTAINER(msg, struct kp_job, done);
	struct kp_flow *f = KP_CONTAINER(job, struct kp_flow, job);
	kp_flow_resume(f, f->job_err.code == KP_OK ? NULL : &f->job_err);
}

static enum kp_step submit(
	struct kp_flow *f, struct kp_workers *workers, kp_flow_job *fn, struct kp_err *err)
{
	f->job_fn = fn;
	f->job = (struct kp_job){
		.done = { .run = work_done }, .work = work, .reply = kp_loop_mailbox(f->l->loop)
	};
	if (!kp_workers_submit(workers, &f->job)) {
		kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"too many long requests are being read, try again");
		err->reason = "too_many_requests";
		return KP_STEP_FAIL;
	}
	return KP_STEP_WAIT;
}

enum kp_step kp_flow_work(struct kp_flow *f, kp_flow_job *fn, struct kp_err *err)
{
	/* Compiling and probing a template of the request's own takes milliseconds. */
	if (f->body.n + f->loaded_bytes < KP_FLOW_OFFLOAD_BYTES &&
		f->turn.n_prompts <= KP_FLOW_OFFLOAD_PROMPTS && !f->turn.chat.template_source.p) {
		if (fn(f, f->l->scratch, err) == 0) {
			return KP_STEP_NEXT;
		}
		blame_request(err);
		return KP_STEP_FAIL;
	}
	f->job_needs_scratch = true;
	return submit(f, f->l->gateway->workers, fn, err);
}

enum kp_step kp_flow_submit(
	struct kp_flow *f, struct kp_workers *workers, kp_flow_job *fn, struct kp_err *err)
{
	f->job_needs_scratch = false;
	return submit(f, workers, fn, err);
}

static int read_body(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	(void)scratch;
	int r = f->api->read(kp_buf_str(&f->body), &f->turn, err);
	f->known_messages = kp_known_count(&f->turn);
	return r;
}

enum kp_step kp_stage_read(struct kp_flow *f, struct kp_err *err)
{
	return kp_flow_work(f, read_body, err);
}

void kp_flow_prompt_init(struct kp_flow_prompt *p)
{
	kp_ids_init(&p->ids, KP_FLOW_MAX_PROMPT_IDS);
	kp_buf_init(&p->packed, KP_FLOW_MAX_PROMPT_IDS * sizeof(kp_id));
}

enum kp_step kp_stage_resolve(struct kp_flow *f, struct kp_err *err)
{
	f->model = kp_gwloop_model(f->l, f->turn.model, err);
	if (!f->model) {
		return KP_STEP_FAIL;
	}
	f->snapshot = kp_snapshot_ref(f->l->snapshot);
	f->revision = f->routes = kp_pick_revision(f->model, &f->l->rng);
	f->n_prompts = f->turn.kind == KP_TURN_CHAT ? 1 : f->turn.n_prompts;
	f->prompts = kp_arena_calloc(f->turn.arena, f->n_prompts, sizeof(*f->prompts));
	if (!f->prompts) {
		f->n_prompts = 0;
		kp_arena_full(err, "prompts");
		return KP_STEP_FAIL;
	}
	for (size_t i = 0; i < f->n_prompts; i++) {
		kp_flow_prompt_init(&f->prompts[i]);
	}
	return KP_STEP_NEXT;
}

/* As kp_stage_resolve; without a model's name it is the only one, if there is only one. */
enum kp_step kp_stage_resolve_only(struct kp_flow *f, struct kp_err *err)
{
	const struct kp_snapshot *s = f->l->snapshot;
	size_t n = 0;
	if (f->turn.model.p) {
		return kp_stage_resolve(f, err);
	}
	f->turn.model = KP_S("");
	for (size_t i = 0; s && i < s->n_models; i++) {
		if (!s->models[i].is_alias) {
			n++;
			f->turn.model = kp_str_c(s->models[i].name);
		}
	}
	if (n > 1) {
		f->turn.model = KP_S("");
		kp_err_param(err, "model", "`model`: missing, and this gateway serves %zu", n);
		return KP_STEP_FAIL;
	}
	return kp_stage_resolve(f, err);
}

struct kp_prompt_cache *kp_flow_prompt_cache(const struct kp_flow *f)
{
	return f->api->whole ? f->l->gateway->prompts : NULL;
}

static int encode(const struct kp_flow *f, const struct kp_text_stack *t,
	struct kp_token_scratch *scratch, const struct kp_encode_opts *opts,
	struct kp_flow_prompt *p, struct kp_err *err)
{
	const struct kp_prompt_scope scope = { .fingerprint = t->fingerprint,
		.model = kp_str_c(f->model->name),
		.tenant = f->turn.tenant,
		.salt = f->turn.cache_salt };
	struct kp_prompt_hint hint;
	kp_known_hint(&f->turn, &p->text, &hint);
	if (kp_prompt_cache_encode_by(kp_flow_prompt_cache(f), &scope, t->tokenizer, scratch,
		    &p->text, opts, &hint, &p->ids, &p->packed, &p->use, err)) {
		return -1;
	}
	kp_known_keep(&f->turn, &hint.link);
	return 0;
}

/* The stack with the request's own template; *ret stays NULL when it has none, or only names one of the model's. */
static int own_template(struct kp_flow *f, struct kp_text_stack **ret, struct kp_err *err)
{
	kp_str source = f->turn.chat.template_source;
	if (!source.p || kp_text_stack_has(f->revision->text, source)) {
		return 0;
	}
	if (f->l->gateway->config.request_templates != KP_REQUEST_TEMPLATES_TRUST) {
		kp_err_param(err, "chat_template",
			"`chat_template`: templates in requests are not allowed here");
		err->reason = "unsupported_parameter";
		return -1;
	}
	/* What the request may still have: its template is a part of it. */
	size_t most = KP_FLOW_ARENA_BASE + KP_FLOW_ARENA_FACTOR * f->body.n;
	most -= KP_MIN(most, kp_arena_used(f->turn.arena));
	if (kp_text_stack_with_template(f->revision->text, source, most, ret, err)) {
		snprintf(err->param, sizeof(err->param), "chat_template");
		return -1;
	}
	return 0;
}

static int make_chat(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	const struct kp_text_stack *t = f->revision->text;
	struct kp_flow_prompt *g = &f->prompts[0];
	KP_AUTO(text_stack) struct kp_text_stack *own = NULL;
	if (own_template(f, &own, err)) {
		return -1;
	}
	t = own ? own : t;
	struct kp_encode_opts opts = { .add_special = f->turn.add_special_tokens,
		.policy = t->policy };
	int64_t begin_ns = kp_now_ns();
	f->render_failed =
		kp_text_stack_render(t, &f->turn, f->turn.created_s * KP_NS_PER_S, &g->text, err);
	f->render_ns = kp_now_ns() - begin_ns;
	int r = f->render_failed || encode(f, t, scratch, &opts, g, err) ||
				kp_flow_media_expand(f, g, err)
			? -1
			: 0;
	kp_known_let_go(&f->turn);
	return r;
}

/* Text of every prompt, then its ids. On the loop or, for long bodies, on a worker: touches only
 * what the flow owns, what is immutable, and the prompt cache, which is for any thread. */
static int make_prompts(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	const struct kp_text_stack *t = f->revision->text;
	struct kp_encode_opts opts = { .add_special = f->turn.add_special_tokens };
	if (f->turn.kind == KP_TURN_CHAT) {
		return make_chat(f, scratch, err);
	}
	for (size_t i = 0; i < f->n_prompts; i++) {
		const struct kp_prompt *p = &f->turn.prompts[i];
		struct kp_flow_prompt *g = &f->prompts[i];
		if (p->ids) {
			for (size_t k = 0; k < p->n_ids; k++) {
				kp_ids_add(&g->ids, p->ids[k]);
			}
			if (g->ids.failed) {
				return kp_err_param(err, "prompt", "`prompt`: more than %d tokens",
					KP_FLOW_MAX_PROMPT_IDS);
			}
			if (kp_flow_media_expand(f, g, err)) {
				return -1;
			}
			continue;
		}
		g->text = kp_text_trusted(p->text);
		if (encode(f, t, scratch, &opts, g, err) || kp_flow_media_expand(f, g, err)) {
			return -1;
		}
	}
	return 0;
}

static int time_prompts(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	int64_t begin_ns = kp_now_ns();
	int r = make_prompts(f, scratch, err);
	f->prompt_ns = kp_now_ns() - begin_ns;
	return r;
}

enum kp_step kp_stage_prompt(struct kp_flow *f, struct kp_err *err)
{
	return kp_flow_work(f, time_prompts, err);
}

/* Each dialect's own words: clients look for them, to ask again for less. */
static int too_long(const struct kp_flow *f, size_t prompt, size_t wanted, const char *param,
	struct kp_err *err)
{
	uint32_t most = f->revision->max_context;
	if (f->api->dialect != KP_DIALECT_ANTHROPIC) {
		kp_err_param(err, param,
			"this model's maximum context length is %u tokens, but the request needs %zu (%zu in the %s, %zu for the completion)",
			most, prompt + wanted, prompt, param, wanted);
	} else if (prompt >= most) {
		kp_err_param(
			err, param, "prompt is too long: %zu tokens > %u maximum", prompt, most);
	} else {
		kp_err_param(err, "max_tokens",
			"input length and `max_tokens` exceed context limit: %zu + %zu > %u, decrease input length or `max_tokens` and try again",
			prompt, wanted, most);
	}
	err->reason = "context_length_exceeded";
	return -1;
}

static const char *prompt_param(const struct kp_flow *f)
{
	const char *usual = f->turn.kind == KP_TURN_CHAT ? "messages" : "prompt";
	return f->turn.prompt_param ? f->turn.prompt_param : usual;
}

/* Does the prompt with what may be generated fit into the model's context? */
static int fit_one(const struct kp_flow *f, const struct kp_flow_prompt *g, struct kp_err *err)
{
	const struct kp_model_revision *r = f->revision;
	const char *param = prompt_param(f);
	const struct kp_sampling *s = &f->turn.sampling;
	if (g->ids.n == 0) {
		return kp_err_param(err, param, "`%s`: the prompt has no tokens", param);
	}
	/* Ids that our tokenizer made are the engine's affair (control/engines.c compares the two).
	 */
	bool is_from_client =
		f->turn.kind == KP_TURN_COMPLETION && f->turn.prompts[g - f->prompts].ids;
	for (size_t i = 0; is_from_client && r->vocab_size && i < g->ids.n; i++) {
		if (g->ids.p[i] >= r->vocab_size) {
			return kp_err_param(err, param,
				"`%s`: token id %u is not below the model's vocabulary size %u",
				param, g->ids.p[i], r->vocab_size);
		}
	}
	if (!r->max_context) {
		return 0;
	}
	size_t wanted = s->set & KP_SET_MAX_TOKENS ? s->max_tokens : 1;
	return g->ids.n + wanted > r->max_context ? too_long(f, g->ids.n, wanted, param, err) : 0;
}

void kp_choice_init(struct kp_choice *c)
{
	struct kp_flow *f = c->flow;
	kp_detok_init(
		&c->detok, f->revision->text->tokenizer, f->turn.sampling.skip_special_tokens);
	kp_stop_init(&c->stop, f->stops);
	kp_flow_parser_open(c);
	c->check = f->schemas ? kp_output_check_create(f->schemas) : NULL;
}

int kp_flow_open(struct kp_flow *f, size_t n_choices, struct kp_err *err)
{
	if (!f->encoder_state) {
		f->encoder = f->turn.stream ? f->api->streamed : f->api->whole;
		f->encoder_state = f->encoder->open(&f->turn, n_choices, err);
	}
	return f->encoder_state ? 0 : -1;
}

enum kp_step kp_stage_fit(struct kp_flow *f, struct kp_err *err)
{
	const struct kp_sampling *s = &f->turn.sampling;
	for (size_t i = 0; i < f->n_prompts; i++) {
		if (fit_one(f, &f->prompts[i], err)) {
			return KP_STEP_FAIL;
		}
	}
	for (size_t i = 0; i < s->n_logit_bias && f->revision->vocab_size; i++) {
		if (s->logit_bias[i].id >= f->revision->vocab_size) {
			kp_err_param(err, "logit_bias",
				"`logit_bias`: token id %u is not below the model's vocabulary size %u",
				s->logit_bias[i].id, f->revision->vocab_size);
			return KP_STEP_FAIL;
		}
	}
	if (s->n_stop && kp_stop_set_create(f->turn.arena, s->stop, s->n_stop, &f->stops, err)) {
		return KP_STEP_FAIL;
	}
	size_t n = f->n_prompts * s->n;
	f->choices = kp_arena_calloc(f->turn.arena, n, sizeof(*f->choices));
	if (!f->choices) {
		kp_arena_full(err, "choices");
		return KP_STEP_FAIL;
	}
	f->n_choices = f->choices_left = n;
	for (size_t i = 0; i < n; i++) {
		struct kp_choice *c = &f->choices[i];
		c->flow = f;
		c->prompt = &f->prompts[i / s->n];
		c->index = (uint32_t)i;
		kp_choice_init(c);
	}
	return kp_flow_open(f, n, err) ? KP_STEP_FAIL : KP_STEP_NEXT;
}
