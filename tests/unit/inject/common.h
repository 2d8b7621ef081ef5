/* Pods as YAML in, injected, and what is asked of them. */
#ifndef KP_TESTS_INJECT_COMMON_H
#define KP_TESTS_INJECT_COMMON_H

#include "inject/inject.h"
#include "json/jansson.h"
#include "tests/test.h"

static struct kp_arena *arena;
static struct kp_inject_notes notes;
static struct kp_err err;

static int setup(void **state)
{
	(void)state;
	arena = kp_arena_create(64 << 20);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kp_arena_destroy(arena);
	return 0;
}

KP_UNUSED static json_t *yaml(const char *text)
{
	struct kp_yaml_stream s;
	struct kp_err e = KP_ERR_INIT;
	if (kp_doc_yaml(kp_str_c(text), "x", &kp_doc_limits_manifest, &s, &e)) {
		print_error("%s\n", e.msg);
		fail();
	}
	json_t *v = json_deep_copy(s.docs[0].value);
	kp_yaml_stream_fini(&s);
	return v;
}

/* The pod's one container; what stands in `spec` is put beside it. */
#define POD(annotations, container, spec)                                                   \
	"metadata: {name: p, labels: {kelpie.dev/engine: demo}, annotations: {" annotations \
	"}}\nspec:\n  containers: [{name: vllm, image: v, " container "}]\n" spec

/* The container `vllm`'s and whatever else. Steals nothing. NULL: refused, `err` says why. */
KP_UNUSED static json_t *inject_with(const json_t *pod, const struct kp_inject_engine *engine,
	const struct kp_inject_settings *s)
{
	json_t *made = NULL;
	err = KP_ERR_INIT;
	notes.n = 0;
	return kp_inject_pod(pod, engine, s, arena, &notes, &made, &err) ? NULL : made;
}

static const struct kp_inference_engine_spec engine_spec = { .engine = { .port = 50051 },
	.drain = { .budget_seconds = 30 } };
static const struct kp_inject_engine plain = { .engine = &engine_spec };

KP_UNUSED static json_t *inject(const char *text)
{
	json_t *pod = yaml(text);
	struct kp_inject_settings s = kp_inject_defaults();
	json_t *made = inject_with(pod, &plain, &s);
	json_decref(pod);
	return made;
}

KP_UNUSED static const json_t *named(const json_t *list, const char *name)
{
	size_t i;
	json_t *v;
	json_array_foreach((json_t *)kp_unconst(list), i, v)
	{
		if (kp_str_eq(kp_doc_str(v, "name"), kp_str_c(name))) {
			return v;
		}
	}
	return NULL;
}
KP_UNUSED static const json_t *gateway_of(const json_t *pod)
{
	return named(kp_doc_at(pod, "spec.initContainers"), "kelpie-gateway");
}
KP_UNUSED static const json_t *engine_of(const json_t *pod)
{
	return named(kp_doc_at(pod, "spec.containers"), "vllm");
}
/* Compact, members in their order. */
KP_UNUSED static void is(const json_t *v, const char *want)
{
	char *got = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	if (!got || !kp_str_eq(kp_str_c(got), kp_str_c(want))) {
		print_error("got  %s\nwant %s\n", got ? got : "nothing", want);
		fail();
	}
	free(got);
}
KP_UNUSED static bool has_arg(const json_t *pod, const char *arg)
{
	const json_t *args = json_object_get(gateway_of(pod), "args");
	for (size_t i = 0; i < json_array_size(args); i++) {
		if (kp_str_eq(
			    kp_str_c(json_string_value(json_array_get(args, i))), kp_str_c(arg))) {
			return true;
		}
	}
	return false;
}
KP_UNUSED static bool noted(const char *part)
{
	for (size_t i = 0; i < notes.n; i++) {
		if (kp_str_has(kp_str_c(notes.p[i]), kp_str_c(part))) {
			return true;
		}
	}
	return false;
}
KP_UNUSED static void refused(const char *text, const char *want)
{
	json_t *made = inject(text);
	if (made || !kp_str_has(kp_str_c(err.msg), kp_str_c(want))) {
		print_error("got  %s\nwant %s\n", made ? "an injected pod" : err.msg, want);
		fail();
	}
}

#endif
