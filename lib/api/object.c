/* DESIGN: an object goes through the steps of kube-apiserver's create handler: strict decoding (unknown fields), defaults, validation of
   metadata, then of the rest, then the rules; after that into structs. Metadata has a small schema table of its own here, written
   by hand after k8s.io/apimachinery's ObjectMeta, with only what we read decoded. Pure. */
#include "api/object.h"
#include "base/utf8.h"
#include "json/jansson.h"
#include "schema/names.h"

enum { ANNOTATIONS_MAX = 256 << 10 };

static const struct kp_schema meta_text = { .type = KP_SCHEMA_STRING, .max_length = -1 };
static const struct kp_schema meta_str = {
	.type = KP_SCHEMA_STRING, .c = KP_C_STR, .max_length = -1
};
static const struct kp_schema meta_integer = { .type = KP_SCHEMA_INTEGER, .max_length = -1 };
static const struct kp_schema meta_boolean = { .type = KP_SCHEMA_BOOLEAN, .max_length = -1 };
static const struct kp_schema meta_map = {
	.type = KP_SCHEMA_OBJECT, .c = KP_C_MAP, .additional = &meta_str, .max_length = -1
};
static const struct kp_schema meta_texts = {
	.type = KP_SCHEMA_ARRAY, .items = &meta_text, .max_length = -1
};
static const struct kp_schema_prop owner_props[] = {
	{ .name = "apiVersion", .schema = &meta_text },
	{ .name = "kind", .schema = &meta_text },
	{ .name = "name", .schema = &meta_text },
	{ .name = "uid", .schema = &meta_text },
	{ .name = "controller", .schema = &meta_boolean },
	{ .name = "blockOwnerDeletion", .schema = &meta_boolean },
};
static const struct kp_schema meta_owner = { .type = KP_SCHEMA_OBJECT,
	.props = owner_props,
	.n_props = KP_LEN(owner_props),
	.max_length = -1 };
static const struct kp_schema meta_owners = {
	.type = KP_SCHEMA_ARRAY, .items = &meta_owner, .max_length = -1
};
#define META(member)   .offset = offsetof(struct kp_object_meta, member)
#define META_N(member) .n_offset = offsetof(struct kp_object_meta, member)
static const struct kp_schema_prop meta_props[] = {
	{ .name = "name", .schema = &meta_str, META(name) },
	{ .name = "namespace", .schema = &meta_str, META(namespace_) },
	{ .name = "labels", .schema = &meta_map, META(labels), META_N(n_labels) },
	{ .name = "annotations", .schema = &meta_map, META(annotations), META_N(n_annotations) },
	{ .name = "generateName", .schema = &meta_text },
	{ .name = "selfLink", .schema = &meta_text },
	{ .name = "uid", .schema = &meta_text },
	{ .name = "resourceVersion", .schema = &meta_text },
	{ .name = "generation", .schema = &meta_integer },
	{ .name = "creationTimestamp", .schema = &meta_text },
	{ .name = "deletionTimestamp", .schema = &meta_text },
	{ .name = "deletionGracePeriodSeconds", .schema = &meta_integer },
	{ .name = "ownerReferences", .schema = &meta_owners },
	{ .name = "finalizers", .schema = &meta_texts },
};
static const struct kp_schema meta_schema = { .type = KP_SCHEMA_OBJECT,
	.c = KP_C_STRUCT,
	.c_size = sizeof(struct kp_object_meta),
	.props = meta_props,
	.n_props = KP_LEN(meta_props),
	.max_length = -1 };

static const char *const checked_apart[] = { "apiVersion", "kind", "metadata", NULL };
static const char *const not_checked[] = { "managedFields", NULL };

enum kp_kind kp_kind_find(kp_str api_version, kp_str kind)
{
	for (int k = KP_KIND_NONE + 1; k < KP_KIND_END; k++) {
		if (kp_str_eq(kp_str_c(kp_kinds[k].kind), kind) &&
			kp_str_eq(kp_str_c(kp_kinds[k].api_version), api_version)) {
			return (enum kp_kind)k;
		}
	}
	return KP_KIND_NONE;
}

static kp_str str_of(const json_t *v)
{
	return kp_str_n(json_string_value(v), json_string_length(v));
}

/* In labels and annotations a null is an empty text, where the rest of an object loses it. */
static int null_is_empty(json_t *map, struct kp_err *err)
{
	for (void *it = json_object_iter(map); it; it = json_object_iter_next(map, it)) {
		if (json_is_null(json_object_iter_value(it)) &&
			json_object_iter_set_new(map, it, json_string(""))) {
			return kp_err_set(
				err, KP_RESOURCE_EXHAUSTED, "read metadata: out of memory");
		}
	}
	return 0;
}

static void check_labels(json_t *labels, struct kp_field_errors *errs)
{
	size_t mark = kp_field_push(errs, KP_S("labels"));
	for (void *it = json_object_iter(labels); it; it = json_object_iter_next(labels, it)) {
		kp_str key = kp_str_n(json_object_iter_key(it), json_object_iter_key_len(it));
		kp_name_check_qualified(errs, key, key);
		if (json_is_string(json_object_iter_value(it))) {
			kp_name_check_label_value(errs, str_of(json_object_iter_value(it)));
		}
	}
	kp_field_pop(errs, mark);
}

static int check_annotations(json_t *annotations, struct kp_field_errors *errs, struct kp_err *err)
{
	size_t mark = kp_field_push(errs, KP_S("annotations")), bytes = 0;
	KP_AUTO(buf) struct kp_buf lower;
	kp_buf_init(&lower, 1 << 20);
	for (void *it = json_object_iter(annotations); it;
		it = json_object_iter_next(annotations, it)) {
		kp_str key = kp_str_n(json_object_iter_key(it), json_object_iter_key_len(it));
		bytes += key.n + json_string_length(json_object_iter_value(it));
		kp_buf_reset(&lower);
		for (size_t i = 0; i < key.n; i++) {
			kp_buf_addc(&lower, kp_lower(key.p[i]));
		}
		if (kp_buf_finish(&lower, "annotation key", err)) {
			return -1;
		}
		kp_name_check_qualified(errs, kp_buf_str(&lower), key);
	}
	if (bytes > ANNOTATIONS_MAX) {
		kp_field_add(errs, KP_FIELD_TOO_LONG, NULL, "may not be more than %d bytes",
			ANNOTATIONS_MAX);
	}
	kp_field_pop(errs, mark);
	return 0;
}

static void check_name(const json_t *meta, struct kp_field_errors *errs)
{
	const json_t *name = json_object_get(meta, "name");
	size_t mark = kp_field_push(errs, KP_S("name"));
	if (json_is_string(name) && json_string_length(name)) {
		kp_name_check_subdomain(errs, str_of(name));
	} else if (!name || json_is_string(name)) {
		kp_field_add(errs, KP_FIELD_REQUIRED, NULL, "%s",
			kp_doc_str(meta, "generateName").n ? "generateName needs an API server"
							   : "name or generateName is required");
	}
	kp_field_pop(errs, mark);
}

/* meta: NULL when the object has none. */
static int check_meta(json_t *meta, struct kp_field_errors *errs, struct kp_err *err)
{
	size_t mark = kp_field_push(errs, KP_S("metadata"));
	json_t *labels = json_object_get(meta, "labels"),
	       *annotations = json_object_get(meta, "annotations");
	kp_schema_unknown(&meta_schema, meta, not_checked, errs);
	if (null_is_empty(labels, err) || null_is_empty(annotations, err) ||
		(meta && kp_schema_default(&meta_schema, meta, err))) {
		return -1;
	}
	if (meta) {
		kp_schema_validate(&meta_schema, meta, errs);
	}
	check_name(meta, errs);
	if (kp_doc_str(meta, "namespace").n) {
		size_t inner = kp_field_push(errs, KP_S("namespace"));
		kp_name_check_dns_label(errs, kp_doc_str(meta, "namespace"));
		kp_field_pop(errs, inner);
	}
	check_labels(labels, errs);
	if (check_annotations(annotations, errs, err)) {
		return -1;
	}
	kp_field_pop(errs, mark);
	return 0;
}

static int decode(enum kp_kind kind, const json_t *v, kp_str default_namespace, struct kp_arena *a,
	struct kp_object *ret, struct kp_err *err)
{
	const struct kp_kind_info *info = &kp_kinds[kind];
	struct kp_object o = { .kind = kind, .file = "" };
	void *spec = kp_arena_calloc(a, 1, info->spec->c_size);
	if (!spec) {
		return kp_arena_full(err, "object");
	}
	if (kp_schema_decode(&meta_schema, json_object_get(v, "metadata"), a, &o.meta, err) ||
		kp_schema_decode(info->spec, json_object_get(v, "spec"), a, spec, err)) {
		return -1;
	}
	if (!o.meta.namespace_.n && kp_arena_dup(a, default_namespace, &o.meta.namespace_, err)) {
		return -1;
	}
	o.spec.any = spec;
	*ret = o;
	return 0;
}

int kp_object_load(enum kp_kind kind, json_t *v, kp_str default_namespace, struct kp_arena *a,
	struct kp_object *ret, struct kp_field_errors *errs, struct kp_err *err)
{
	const struct kp_schema *root = kp_kinds[kind].root;
	KP_BUG_ON(kind == KP_KIND_NONE || !json_is_object(v));
	kp_schema_unknown(root, v, checked_apart, errs);
	json_object_del(v, "status");
	if (kp_schema_default(root, v, err)) {
		return -1;
	}
	json_t *meta = json_object_get(v, "metadata");
	if ((!meta || json_is_object(meta)) && check_meta(meta, errs, err)) {
		return -1;
	}
	kp_schema_validate(root, v, errs);
	return errs->n || errs->omitted ? 0 : decode(kind, v, default_namespace, a, ret, err);
}
