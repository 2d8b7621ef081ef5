/* DESIGN: the objects of one namespace, with the rules that need more than one of them. An engine
 * without endpoints is legal (it may get some later); it serves nothing. */
#include "control/tool_server.h"

#include "base/map.h"

#include <stdio.h>

enum { PROGRAM_BYTES = 64 << 20 };

struct builder {
	const struct kp_object_set *set;
	kp_str ns;
	struct kp_problems *problems;
	struct kp_program *p;
	struct kp_program_engine *engines;
	struct kp_program_pool *pools;
	struct kp_program_tool_server *tool_servers;
	struct kp_map names;  /* public name -> the engine object that has it first */
	struct kp_map labels; /* label -> the tool server's object */
};

static kp_str join_name(struct kp_arena *a, kp_str ns, kp_str name)
{
	return kp_arena_printf(a, "%" KP_FMT "/%" KP_FMT, KP_ARG(ns), KP_ARG(name));
}

/* A public name belongs to one pool: engines of other pools must not use it. */
static void claim_name(struct builder *b, const struct kp_object *o, kp_str name, const char *field)
{
	const struct kp_object *first = kp_map_get(&b->names, name);
	if (!first) {
		kp_map_set(&b->names, name, kp_unconst(o));
		return;
	}
	if (!kp_str_eq(first->spec.engine->pool_ref.name, o->spec.engine->pool_ref.name)) {
		kp_problem_object(b->problems, o, field,
			"Invalid value: \"%" KP_FMT
			"\": already the name of a model of pool \"%" KP_FMT "\" (engine \"%" KP_FMT
			"\")",
			KP_ARG(name), KP_ARG(first->spec.engine->pool_ref.name),
			KP_ARG(first->meta.name));
	}
}

static kp_str address(struct kp_arena *a, const struct kp_inference_engine_endpoint *e)
{
	bool is_ipv6 = kp_str_find_char(e->address, ':') >= 0;
	return kp_arena_printf(a, "%s%" KP_FMT "%s:%d", is_ipv6 ? "[" : "", KP_ARG(e->address),
		is_ipv6 ? "]" : "", (int)e->port);
}

const char *kp_engine_protocol_name(enum kp_engine_protocol p)
{
	return p == KP_PROTOCOL_SGLANG ? "sglang" : "vllm";
}

/* Auto has none. */
#define TEMPLATE(name) KP_INFERENCE_ENGINE_TOKENIZER_CHAT_TEMPLATE_##name
static const char *const template_names[] = { [TEMPLATE(UNSET)] = "",
	[TEMPLATE(AUTO)] = "",
	[TEMPLATE(OWN)] = "Own",
	[TEMPLATE(DEEPSEEK_V32)] = "deepseek_v32",
	[TEMPLATE(DEEPSEEK_V4)] = "deepseek_v4",
	[TEMPLATE(HARMONY)] = "harmony",
	[TEMPLATE(MISTRAL_V7)] = "mistral_v7",
	[TEMPLATE(MISTRAL_V11)] = "mistral_v11",
	[TEMPLATE(MISTRAL_V13)] = "mistral_v13",
	[TEMPLATE(MISTRAL_V15)] = "mistral_v15" };

static enum kp_program_text_policy text_policy(enum kp_inference_engine_tokenizer_text_policy p)
{
	return p == KP_INFERENCE_ENGINE_TOKENIZER_TEXT_POLICY_TRUSTED ? KP_TEXT_TRUSTED
	       : p == KP_INFERENCE_ENGINE_TOKENIZER_TEXT_POLICY_PLAIN ? KP_TEXT_PLAIN
								      : KP_TEXT_MARKERS;
}

static enum kp_output_validation validation(enum kp_inference_engine_output_validation v)
{
	switch (v) {
	case KP_INFERENCE_ENGINE_OUTPUT_VALIDATION_OFF:
		return KP_VALIDATION_OFF;
	case KP_INFERENCE_ENGINE_OUTPUT_VALIDATION_RETRY:
		return KP_VALIDATION_RETRY;
	case KP_INFERENCE_ENGINE_OUTPUT_VALIDATION_FAIL:
		return KP_VALIDATION_FAIL;
	case KP_INFERENCE_ENGINE_OUTPUT_VALIDATION_MARK:
	case KP_INFERENCE_ENGINE_OUTPUT_VALIDATION_UNSET:
		break;
	}
	return KP_VALIDATION_MARK;
}

static int add_engine(struct builder *b, const struct kp_object *o, struct kp_err *err)
{
	struct kp_arena *a = b->p->arena;
	const struct kp_inference_engine_spec *s = o->spec.engine;
	struct kp_program_engine *e = &b->engines[b->p->n_engines];
	kp_str *aliases = kp_arena_calloc(a, s->model.n_aliases, sizeof(*aliases));
	struct kp_program_endpoint *endpoints =
		kp_arena_calloc(a, s->n_endpoints, sizeof(*endpoints));
	if (!aliases || !endpoints) {
		return kp_arena_full(err, "program");
	}
	if (!kp_object_set_find(
		    b->set, KP_KIND_INFERENCE_POOL, o->meta.namespace_, s->pool_ref.name)) {
		kp_problem_object(b->problems, o, "spec.poolRef.name",
			"Not found: \"%" KP_FMT
			"\": there is no InferencePool of that name in namespace \"%" KP_FMT "\"",
			KP_ARG(s->pool_ref.name), KP_ARG(o->meta.namespace_));
	}
	claim_name(b, o, s->model.name, "spec.model.name");
	e->name = join_name(a, o->meta.namespace_, o->meta.name);
	e->pool = join_name(a, o->meta.namespace_, s->pool_ref.name);
	e->protocol = s->engine.type == KP_INFERENCE_ENGINE_ENGINE_TYPE_SGLANG ? KP_PROTOCOL_SGLANG
									       : KP_PROTOCOL_VLLM;
	e->tokenizer = s->tokenizer.source == KP_INFERENCE_ENGINE_TOKENIZER_SOURCE_PATH
			       ? KP_TOKENIZER_PATH
			       : KP_TOKENIZER_ENGINE;
	e->chat_template = kp_str_c(template_names[s->tokenizer.chat_template]);
	e->in_pods = s->has_template || s->workload_ref;
	e->text_policy = text_policy(s->tokenizer.text_policy);
	e->validation = validation(s->output.validation);
	e->strict_schemas =
		s->output.strict_schemas == KP_INFERENCE_ENGINE_OUTPUT_STRICT_SCHEMAS_OPEN_AI
			? KP_STRICT_OPENAI
			: KP_STRICT_ANY;
	if (s->parsers) {
		e->tool_parser = s->parsers->tool;
		e->reasoning_parser = s->parsers->reasoning;
	}
	for (size_t i = 0; i < s->model.n_aliases; i++) {
		char field[64];
		snprintf(field, sizeof(field), "spec.model.aliases[%zu]", i);
		claim_name(b, o, s->model.aliases[i], field);
		if (kp_arena_dup(a, s->model.aliases[i], &aliases[i], err)) {
			return -1;
		}
	}
	for (size_t i = 0; i < s->n_endpoints; i++) {
		endpoints[i].address = address(a, &s->endpoints[i]);
	}
	e->aliases = aliases;
	e->n_aliases = s->model.n_aliases;
	e->endpoints = endpoints;
	e->n_endpoints = s->n_endpoints;
	b->p->n_engines++;
	return kp_arena_dup(a, s->model.name, &e->model, err) ||
			       kp_arena_dup(a, s->tokenizer.path, &e->tokenizer_path, err) ||
			       kp_arena_dup(a, e->tool_parser, &e->tool_parser, err) ||
			       kp_arena_dup(a, e->reasoning_parser, &e->reasoning_parser, err)
		       ? -1
		       : 0;
}

static int add_pool(struct builder *b, const struct kp_object *o, struct kp_err *err)
{
	struct kp_program_pool *pool = &b->pools[b->p->n_pools++];
	uint16_t *ports =
		kp_arena_calloc(b->p->arena, o->spec.pool->n_target_ports, sizeof(*ports));
	if (!ports) {
		return kp_arena_full(err, "program");
	}
	for (size_t i = 0; i < o->spec.pool->n_target_ports; i++) {
		ports[i] = (uint16_t)o->spec.pool->target_ports[i].number;
	}
	pool->name = join_name(b->p->arena, o->meta.namespace_, o->meta.name);
	pool->target_ports = ports;
	pool->n_target_ports = o->spec.pool->n_target_ports;
	return 0;
}

static int add_tool_server(struct builder *b, const struct kp_object *o, struct kp_err *err)
{
	const struct kp_object *first =
		kp_map_set(&b->labels, o->spec.tool_server->label, kp_unconst(o));
	if (first) {
		kp_problem_object(b->problems, o, "spec.label",
			"Invalid value: \"%" KP_FMT
			"\": already the label of tool server \"%" KP_FMT "\"",
			KP_ARG(o->spec.tool_server->label), KP_ARG(first->meta.name));
	}
	return kp_tool_server_from_object(
		o, b->p->arena, &b->tool_servers[b->p->n_tool_servers++], err);
}

static int build(struct builder *b, struct kp_err *err)
{
	b->engines = kp_arena_calloc(b->p->arena, b->set->n, sizeof(*b->engines));
	b->pools = kp_arena_calloc(b->p->arena, b->set->n, sizeof(*b->pools));
	b->tool_servers = kp_arena_calloc(b->p->arena, b->set->n, sizeof(*b->tool_servers));
	if (!b->engines || !b->pools || !b->tool_servers) {
		return kp_arena_full(err, "program");
	}
	b->p->tool_servers = b->tool_servers;
	b->p->engines = b->engines;
	b->p->pools = b->pools;
	for (size_t i = 0; i < b->set->n; i++) { /* sorted by name */
		const struct kp_object *o = &b->set->objects[i];
		if (!kp_str_eq(o->meta.namespace_, b->ns)) {
			continue;
		}
		if (o->kind == KP_KIND_INFERENCE_ENGINE && add_engine(b, o, err)) {
			return -1;
		}
		if (o->kind == KP_KIND_INFERENCE_POOL && add_pool(b, o, err)) {
			return -1;
		}
		if (o->kind == KP_KIND_TOOL_SERVER && add_tool_server(b, o, err)) {
			return -1;
		}
	}
	if (!b->p->n_pools && !b->problems->n_errors) { /* a truncated file, or another namespace */
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load manifests: there is no InferencePool in namespace `%" KP_FMT "`",
			KP_ARG(b->ns));
	}
	if (b->problems->n_errors) {
		return kp_problems_err(b->problems, err);
	}
	return 0;
}

int kp_program_build(const struct kp_object_set *set, kp_str ns, struct kp_problems *problems,
	struct kp_program **ret, struct kp_err *err)
{
	struct builder b = { .set = set, .ns = ns, .problems = problems };
	struct kp_arena *a = kp_arena_create(PROGRAM_BYTES);
	b.p = kp_arena_new(a, struct kp_program);
	b.p->arena = a;
	kp_map_init(&b.names);
	kp_map_init(&b.labels);
	int r = build(&b, err);
	kp_map_fini(&b.names, NULL);
	kp_map_fini(&b.labels, NULL);
	if (r < 0) {
		kp_program_destroy(b.p);
		return -1;
	}
	*ret = b.p;
	return 0;
}

void kp_program_destroy(struct kp_program *p)
{
	if (p) {
		kp_arena_destroy(p->arena); /* p lies in it */
	}
}
