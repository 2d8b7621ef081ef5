/* DESIGN: manifests in, the same manifests out, with each pod template that opts in as the webhook would make its pods. Engines and pools that stand among them
   are known to the injection, as the operator would know them; everything else passes through. */
#include "cli/answers.h"
#include "cli/cli.h"
#include "cli/print.h"

#include "api/object.h"
#include "base/fs.h"
#include "inject/inject.h"
#include "json/jansson.h"
#include "json/yaml_write.h"

#include <stdio.h>

enum { INPUT_MAX = 16 << 20, MAX_TEMPLATES = 8 };
static const struct kp_doc_limits limits = {
	.max_bytes = INPUT_MAX, .max_nodes = 1000000, .max_depth = 64, .max_docs = 10000
};

/* Where a kind keeps its pod templates. */
static const struct {
	const char *group, *kind;
	const char *templates[2]; /* "" the object itself */
} kinds[] = { { "", "Pod", { "", NULL } }, { "", "PodTemplate", { "template", NULL } },
	{ "", "ReplicationController", { "spec.template", NULL } },
	{ "apps", "Deployment", { "spec.template", NULL } },
	{ "apps", "ReplicaSet", { "spec.template", NULL } },
	{ "apps", "StatefulSet", { "spec.template", NULL } },
	{ "apps", "DaemonSet", { "spec.template", NULL } },
	{ "batch", "Job", { "spec.template", NULL } },
	{ "batch", "CronJob", { "spec.jobTemplate.spec.template", NULL } },
	{ "leaderworkerset.x-k8s.io", "LeaderWorkerSet",
		{ "spec.leaderWorkerTemplate.leaderTemplate",
			"spec.leaderWorkerTemplate.workerTemplate" } } };

struct known {
	kp_str ns, name;
	const void *spec;
	enum kp_kind kind;
};

struct run {
	struct kp_cli *cli;
	struct kp_inject_settings settings;
	KP_VEC(struct known)
	known;
	size_t n_injected;
};

static kp_str namespace_of(const json_t *object)
{
	kp_str ns = kp_doc_str(json_object_get(object, "metadata"), "namespace");
	return ns.n ? ns : KP_S("default");
}

static const char *label(struct run *r, const json_t *object)
{
	kp_str name = kp_doc_str(json_object_get(object, "metadata"), "name");
	kp_str kind = kp_doc_str(object, "kind");
	return kp_arena_strz(r->cli->arena,
		kp_arena_printf(r->cli->arena, "%" KP_FMT " `%" KP_FMT "`",
			KP_ARG(kp_str_sub(kind, 0, 63)), KP_ARG(kp_str_sub(name, 0, 100))));
}

/* --- what engines and pools there are ----------------------------------------------------------- */

static int learn(struct run *r, const json_t *object, struct kp_err *err)
{
	enum kp_kind kind =
		kp_kind_find(kp_doc_str(object, "apiVersion"), kp_doc_str(object, "kind"));
	struct kp_object o;
	if (kind == KP_KIND_NONE) {
		return 0;
	}
	struct kp_field_errors errs;
	json_t *copy = json_deep_copy(object);
	KP_BUG_ON(!copy);
	int status = kp_field_errors_init(&errs, r->cli->arena, 1, err)
			     ? -1
			     : kp_object_load(
				       kind, copy, KP_S("default"), r->cli->arena, &o, &errs, err);
	if (status == 0 && errs.n) {
		status = kp_err_set(err, KP_FAILED_PRECONDITION, "%s: %s: %s", label(r, object),
			errs.p[0].path, errs.p[0].text);
	}
	if (status == 0) {
		kp_vec_push(&r->known,
			((struct known){ o.meta.namespace_, o.meta.name, o.spec.any, kind }));
	}
	json_decref(copy);
	return status;
}

static const void *find(const struct run *r, enum kp_kind kind, kp_str ns, kp_str name)
{
	for (size_t i = 0; i < r->known.n; i++) {
		const struct known *k = &r->known.p[i];
		if (k->kind == kind && kp_str_eq(k->ns, ns) && kp_str_eq(k->name, name)) {
			return k->spec;
		}
	}
	return NULL;
}

/* --- templates ---------------------------------------------------------------------------------- */

static void tell(struct run *r, const json_t *object, const struct kp_inject_notes *notes)
{
	for (size_t i = 0; i < notes->n; i++) {
		KP_AUTO(buf) struct kp_buf text;
		kp_buf_init(&text, 4096);
		kp_print_text(&text,
			kp_arena_printf(r->cli->arena, "%s: %s", label(r, object), notes->p[i]));
		fprintf(stderr, "kubectl-kelpie: %" KP_FMT "\n", KP_ARG(kp_buf_str(&text)));
	}
}

/* The template is changed in place: what injection made takes the place of its members. */
static int inject_template(
	struct run *r, const json_t *object, json_t *template, struct kp_err *err)
{
	kp_str name = kp_inject_engine_name(template), ns = namespace_of(object);
	struct kp_inject_engine engine = { .engine = NULL };
	struct kp_inject_notes notes = { .n = 0 };
	json_t *made = NULL;
	if (!name.p) {
		return 0;
	}
	engine.engine = find(r, KP_KIND_INFERENCE_ENGINE, ns, name);
	engine.pool = engine.engine
			      ? find(r, KP_KIND_INFERENCE_POOL, ns, engine.engine->pool_ref.name)
			      : NULL;
	if (kp_inject_pod(template, &engine, &r->settings, r->cli->arena, &notes, &made, err)) {
		err->code = KP_FAILED_PRECONDITION;
		return kp_err_wrap(err, "%s", label(r, object));
	}
	KP_BUG_ON(json_object_update_existing(template, made) != 0);
	json_decref(made);
	tell(r, object, &notes);
	r->n_injected++;
	return 0;
}

static kp_str group_of(const json_t *object)
{
	kp_str version = kp_doc_str(object, "apiVersion");
	ptrdiff_t slash = kp_str_find_char(version, '/');
	return slash < 0 ? KP_S("") : kp_str_sub(version, 0, (size_t)slash);
}

static int inject_object(struct run *r, json_t *object, struct kp_err *err)
{
	kp_str kind = kp_doc_str(object, "kind"), group = group_of(object);
	for (size_t i = 0; i < KP_LEN(kinds); i++) {
		if (!kp_str_eq(kind, kp_str_c(kinds[i].kind)) ||
			!kp_str_eq(group, kp_str_c(kinds[i].group))) {
			continue;
		}
		for (size_t k = 0; k < KP_LEN(kinds[i].templates) && kinds[i].templates[k]; k++) {
			const char *path = kinds[i].templates[k];
			const json_t *t = path[0] ? kp_doc_at(object, path) : object;
			if (json_is_object(t) && inject_template(r, object, kp_unconst(t), err)) {
				return -1;
			}
		}
	}
	return 0;
}

typedef int each_fn(struct run *r, json_t *object, struct kp_err *err);

static int learn_one(struct run *r, json_t *object, struct kp_err *err)
{
	return learn(r, object, err);
}

/* An object, or each of a List. */
static int each_object(struct run *r, json_t *object, each_fn *fn, struct kp_err *err)
{
	json_t *items = json_object_get(object, "items");
	if (!kp_str_eq(kp_doc_str(object, "apiVersion"), KP_S("v1")) ||
		!kp_str_eq(kp_doc_str(object, "kind"), KP_S("List"))) {
		return fn(r, object, err);
	}
	for (size_t i = 0; i < json_array_size(items); i++) {
		if (fn(r, json_array_get(items, i), err)) {
			return -1;
		}
	}
	return 0;
}

/* --- the command -------------------------------------------------------------------------------- */

static int print_all(struct run *r, const struct kp_yaml_stream *s, struct kp_err *err)
{
	struct kp_cli *cli = r->cli;
	if (cli->output == KP_CLI_JSON) {
		json_t *list = json_array();
		for (size_t i = 0; i < s->n; i++) {
			KP_BUG_ON(json_array_append(list, s->docs[i].value) != 0);
		}
		json_t *all = s->n == 1 ? json_incref(s->docs[0].value)
					: json_pack("{s:s, s:s, s:O}", "apiVersion", "v1", "kind",
						  "List", "items", list);
		kp_print_json(cli, all);
		json_decref(all);
		json_decref(list);
		return 0;
	}
	for (size_t i = 0; i < s->n; i++) {
		if (i) {
			kp_buf_lit(&cli->out, "---\n");
		}
		if (kp_yaml_write(s->docs[i].value, &cli->out, err)) {
			return -1;
		}
	}
	return 0;
}

static int check_word(const char *option, const char *value, struct kp_err *err)
{
	bool ok = !value || value[0];
	for (const char *p = value; ok && p && *p; p++) {
		ok = *p > ' ' && *p < 0x7f;
	}
	if (!ok) {
		kp_err_set(
			err, KP_INVALID_ARGUMENT, "`%s`: expected a name without spaces", option);
		return kp_cli_usage(err);
	}
	return 0;
}

static struct kp_inject_settings settings_of(struct kp_cli *cli)
{
	struct kp_inject_settings s = kp_inject_defaults();
	if (cli->image) {
		s.image = cli->image;
	}
	if (cli->operator_ns) {
		kp_inject_settings_namespace(&s, cli->operator_ns);
	}
	return s;
}

int kp_cli_inject(struct kp_cli *cli, struct kp_err *err)
{
	struct run r = { .cli = cli, .settings = settings_of(cli) };
	KP_AUTO(buf) struct kp_buf text = { 0 };
	KP_AUTO(yaml_stream) struct kp_yaml_stream s = { .n = 0 };
	const char *name = cli->file ? cli->file : "-";
	int status = 0;
	if (check_word("--gateway-image", cli->image, err) ||
		check_word("--operator-namespace", cli->operator_ns, err)) {
		return -1;
	}
	if (kp_cli_input(cli, &text, err) ||
		kp_doc_yaml(kp_buf_str(&text), name, &limits, &s, err)) {
		err->code = err->code == KP_INVALID_ARGUMENT ? KP_FAILED_PRECONDITION : err->code;
		return -1;
	}
	for (size_t i = 0; status == 0 && i < s.n; i++) {
		status = each_object(&r, s.docs[i].value, learn_one, err);
	}
	for (size_t i = 0; status == 0 && i < s.n; i++) {
		status = each_object(&r, s.docs[i].value, inject_object, err);
	}
	if (status == 0 && r.n_injected == 0) {
		fprintf(stderr,
			"kubectl-kelpie: nothing to inject: no pod here has the label `" KP_INJECT_LABEL
			"`\n");
	}
	kp_vec_fini(&r.known);
	return status ? status : print_all(&r, &s, err);
}
