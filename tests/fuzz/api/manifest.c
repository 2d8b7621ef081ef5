/* Fuzz target: a set of manifests. The input is cut at bytes 0xff into files, the first byte of each says whether it is YAML or JSON. A set that
   is accepted must be sorted, without duplicates and inside its limits, and its objects must satisfy what the rest of the program
   takes for granted; what is refused must say why, in text that may stand in a log. */
#include "api/manifest.h"
#include "base/utf8.h"

#include <stdlib.h>

enum { FILES_MAX = 8 };

static void check_text(const char *z)
{
	kp_str s = kp_str_c(z);
	KP_BUG_ON(!kp_utf8_ok(s));
	for (size_t i = 0; i < s.n; i++) {
		KP_BUG_ON((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f);
	}
}

static void check_problems(const struct kp_problems *ps)
{
	KP_BUG_ON(ps->n > 2 * KP_PROBLEMS_MAX || ps->n > ps->n_errors + ps->n_warnings);
	for (size_t i = 0; i < ps->n; i++) {
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, 1 << 20);
		kp_problem_write(&ps->p[i], &b);
		const char *z = kp_buf_cstr(&b);
		KP_BUG_ON(!z || ps->p[i].message[0] == '\0');
		check_text(z);
	}
}

static void check_object(const struct kp_object *o)
{
	KP_BUG_ON(o->meta.name.n == 0 || o->meta.name.n > 253 || o->meta.namespace_.n == 0 ||
		  o->line == 0);
	if (o->kind == KP_KIND_INFERENCE_POOL) {
		const struct kp_inference_pool_spec *p = o->spec.pool;
		KP_BUG_ON(p->n_target_ports < 1 || p->n_target_ports > 8 ||
			  p->selector.n_match_labels < 1);
		for (size_t i = 0; i < p->n_target_ports; i++) {
			KP_BUG_ON(
				p->target_ports[i].number < 1 || p->target_ports[i].number > 65535);
		}
		KP_BUG_ON(p->app_protocol == KP_INFERENCE_POOL_APP_PROTOCOL_UNSET);
		return;
	}
	const struct kp_inference_engine_spec *e = o->spec.engine;
	KP_BUG_ON(o->kind != KP_KIND_INFERENCE_ENGINE || e->pool_ref.name.n == 0 ||
		  e->model.name.n == 0);
	KP_BUG_ON(e->engine.type == KP_INFERENCE_ENGINE_ENGINE_TYPE_UNSET);
	KP_BUG_ON((e->tokenizer.source == KP_INFERENCE_ENGINE_TOKENIZER_SOURCE_PATH) !=
		  (e->tokenizer.path.n > 0));
	KP_BUG_ON(kp_str_find_char(e->tokenizer.path, '\0') >= 0);
	for (size_t i = 0; i < e->n_endpoints; i++) {
		KP_BUG_ON(e->endpoints[i].port < 1 || e->endpoints[i].port > 65535 ||
			  e->endpoints[i].address.n == 0);
		KP_BUG_ON(kp_str_find_char(e->endpoints[i].address, '\0') >= 0);
	}
}

static void check_set(const struct kp_object_set *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct kp_object *o = &s->objects[i];
		check_object(o);
		KP_BUG_ON(kp_object_set_find(s, o->kind, o->meta.namespace_, o->meta.name) != o);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_manifest_file files[FILES_MAX];
	kp_str rest = kp_str_n(data, size), part;
	size_t n = 0;
	while (n < FILES_MAX && rest.n && kp_str_split(&rest, '\xff', &part)) {
		files[n++] =
			(struct kp_manifest_file){ .name = part.n && part.p[0] == 'j' ? "f.json"
										      : "f.yaml",
				.text = kp_str_skip(part, 1) };
	}
	struct kp_object_set set = { 0 };
	struct kp_problems ps;
	struct kp_err err = KP_ERR_INIT;
	kp_problems_init(&ps);
	int r = kp_manifest_parse(files, n, KP_S("default"), &set, &ps, &err);
	check_problems(&ps);
	if (r == 0) {
		KP_BUG_ON(ps.n_errors != 0);
		check_set(&set);
	} else {
		KP_BUG_ON(err.code == KP_OK || set.arena);
		check_text(err.msg);
	}
	kp_object_set_fini(&set);
	kp_problems_fini(&ps);
	return 0;
}
