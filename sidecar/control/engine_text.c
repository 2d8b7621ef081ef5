/* DESIGN: an engine has one tokenizer, its endpoints are equal. With source Engine each endpoint sends it as an archive, and the hash tells whether it is the one
   that is loaded. An endpoint with another one waits (a rolling upgrade, or a mistake) until none of the engine's endpoints serves with the old one;
   then the new one is loaded, and those that still have the old one wait. */
#include "sidecar/control/engines_internal.h"

#include "base/map.h"
#include "obs/log.h"

#include <stdio.h>

static void take_text(struct engine *e, struct kp_text_stack *text)
{
	KP_AUTO(buf) struct kp_buf template;
	kp_buf_init(&template, 4096);
	kp_text_stack_describe(text, &template);
	kp_text_stack_unref(e->text);
	e->text = text;
	e->why[0] = '\0';
	kp_log(KP_LOG_INFO, "model loaded", kp_f_z("engine", e->name), kp_f_z("model", e->model),
		kp_f_str("tokenizer", text->info->kind),
		kp_f_int("vocabulary", (int64_t)text->info->vocab_size),
		kp_f_str("chat_template", kp_buf_str(&template)),
		kp_f_z("text_policy", kp_text_policy_names[text->policy_kind]));
	e->owner->changed(e->owner->arg);
}

static void text_failed(struct engine *e, const struct kp_err *err)
{
	char why[sizeof(e->why)];
	snprintf(why, sizeof(why), "tokenizer of engine `%s`: %.300s", e->name, err->msg);
	if (kp_str_eq(kp_str_c(why), kp_str_c(e->why))) {
		return; /* the same with each probe: said once */
	}
	memcpy(e->why, why, sizeof(why));
	kp_log(KP_LOG_ERROR, "cannot load tokenizer", kp_f_z("engine", e->name), kp_f_err(err));
	e->owner->changed(e->owner->arg);
}

static struct kp_text_options text_options(const struct engine *e)
{
	return (struct kp_text_options){ .chat_template = kp_str_c(e->chat_template),
		.policy = (enum kp_text_policy)e->text_policy,
		.tool_parser = kp_str_c(e->tool_parser),
		.reasoning_parser = kp_str_c(e->reasoning_parser) };
}

void kp_engine_load_path(struct engine *e)
{
	struct kp_text_stack *text;
	struct kp_err err;
	const struct kp_text_options opts = text_options(e);
	if (!e->path || e->text) {
		return;
	}
	if (kp_texts_load(e->owner->texts, e->path, KP_STR_NULL, &opts, &text, &err)) {
		text_failed(e, &err);
	} else {
		take_text(e, text);
	}
}

/* Another endpoint of the engine that serves with what is loaded; NULL: none. */
static const struct endpoint *serving(const struct endpoint *p)
{
	const struct engine *e = p->engine;
	for (size_t i = 0; i < e->endpoints.n; i++) {
		const struct endpoint *other = e->endpoints.p[i];
		if (other != p && other->zip_hash == e->zip_hash &&
			atomic_load(&other->shared->state) == KP_ENDPOINT_ROUTABLE) {
			return other;
		}
	}
	return NULL;
}

bool kp_endpoint_may_take_another(const struct endpoint *p)
{
	/* The engine may have its tokenizer by now: a third one came before. */
	return p->is_other && (p->zip_hash == p->engine->zip_hash || !serving(p));
}

bool kp_endpoint_is_behind(const struct endpoint *p)
{
	return !p->engine->path && !p->broken && p->zip_hash != p->engine->zip_hash;
}

void kp_endpoint_take_tokenizer(struct endpoint *p, const struct kp_err *status, kp_str zip)
{
	struct engine *e = p->engine;
	kp_free(&p->broken);
	p->zip_hash = 0;
	p->is_other = false;
	if (status->code != KP_OK) {
		p->has_info = false; /* asked again with the next probe */
		if (e->text) {
			p->broken = kp_xstrdup(status->msg);
		} else {
			text_failed(e, status);
		}
		return;
	}
	p->zip_hash = kp_hash(zip);
	if (e->text && p->zip_hash == e->zip_hash) {
		return;
	}
	struct kp_err err;
	const struct endpoint *other = e->text ? serving(p) : NULL;
	if (other) {
		p->is_other = true;
		kp_err_set(&err, KP_FAILED_PRECONDITION,
			"it is not the one of `%s`, which belongs to the same engine",
			other->shared->address);
		p->broken = kp_xstrdup(err.msg);
		return;
	}
	struct kp_text_stack *text;
	const struct kp_text_options opts = text_options(e);
	if (kp_texts_load(e->owner->texts, NULL, zip, &opts, &text, &err)) {
		p->broken = kp_xstrdup(err.msg);
		text_failed(e, &err);
		return;
	}
	e->zip_hash = p->zip_hash;
	take_text(e, text);
}

void kp_endpoint_why_not_routable(const struct endpoint *p, char why[KP_ERR_MSG])
{
	const struct engine *e = p->engine;
	why[0] = '\0';
	if (!e->text) {
		snprintf(why, KP_ERR_MSG, "%s", e->why);
	} else if (p->broken) { /* what was loaded before is another model's */
		snprintf(why, KP_ERR_MSG, "its tokenizer: %.300s", p->broken);
	} else if (kp_endpoint_is_behind(p)) {
		snprintf(why, KP_ERR_MSG, "its tokenizer is not the one that is loaded now");
	} else if (p->vocab_size && e->text->info->vocab_size > p->vocab_size) {
		/* Another model's tokenizer: its ids would mean something else, or nothing. */
		snprintf(why, KP_ERR_MSG,
			"the tokenizer has %zu tokens, the engine's model only %u: they do not belong together",
			e->text->info->vocab_size, p->vocab_size);
	}
}
