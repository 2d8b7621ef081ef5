/* DESIGN: one pass over the files. Each text becomes documents (json/jansson.h), each document one object or a List; our objects are
   loaded into the set's arena, their field errors are turned into problems with places, and a map remembers names for duplicates.
   At the end everything is sorted, so the same objects give the same set however they are spread over files.

   Who owns what: the set owns its arena and everything in it; a scratch arena lives for one object; a document lives until its text is done; problems own their texts.
   Pure and single-threaded; limits are in the header; it fails only as a whole, after all files were looked at. */
#include "api/manifest.h"
#include "base/map.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "json/jansson.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	ARENA_MAX = 256 << 20,
	PROBLEM_ARENA_MAX = 8 << 20,
	SCRATCH_MAX = 8 << 20,
	FIELD_ERRORS_MAX = KP_PROBLEMS_MAX,
	TEXT_MAX = 8192, /* of one part of a problem */
};

struct loader {
	struct kp_arena *arena;   /* of the set */
	struct kp_arena *scratch; /* of the object that is being loaded */
	kp_str default_namespace;
	struct kp_problems *problems;
	KP_VEC(struct kp_object)
	objects;
	struct kp_map names; /* "kind/namespace/name" -> struct place of the first */
	const char *file;    /* in the arena */
};
struct place {
	const char *file;
	uint32_t line;
};

/* --- problems ------------------------------------------------------------------------------------------------------ */

void kp_problems_init(struct kp_problems *p)
{
	*p = (struct kp_problems){ .arena = kp_arena_create(PROBLEM_ARENA_MAX) };
	p->p = kp_xcalloc(2 * KP_PROBLEMS_MAX, sizeof(*p->p));
}

void kp_problems_fini(struct kp_problems *p)
{
	kp_arena_destroy(p->arena);
	kp_mem_free(p->p);
	*p = (struct kp_problems){ 0 };
}

/* A text for one line of a log: valid UTF-8 (names may have been cut), no control characters. */
static int clean_copy(struct kp_arena *a, const char *z, const char **ret)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_str copy;
	struct kp_err err;
	kp_buf_init(&b, 3 * TEXT_MAX);
	kp_utf8_add_lossy(&b, kp_str_sub(kp_str_c(z), 0, TEXT_MAX));
	for (size_t i = 0; i < b.n; i++) {
		if ((unsigned char)b.p[i] < 0x20 || b.p[i] == 0x7f) {
			b.p[i] = '?';
		}
	}
	if (kp_arena_dup(a, kp_buf_str(&b), &copy, &err)) {
		return -1;
	}
	*ret = copy.p;
	return 0;
}

static void add_problem(struct kp_problems *ps, bool warning, const char *file,
	struct kp_doc_pos at, const char *object, const char *field, const char *message)
{
	size_t *count = warning ? &ps->n_warnings : &ps->n_errors;
	struct kp_problem p = { .warning = warning, .line = at.line, .column = at.column };
	if (++*count > KP_PROBLEMS_MAX || clean_copy(ps->arena, file, &p.file) ||
		clean_copy(ps->arena, object, &p.object) ||
		clean_copy(ps->arena, field, &p.field) ||
		clean_copy(ps->arena, message, &p.message)) {
		return;
	}
	ps->p[ps->n++] = p;
}

KP_PRINTF(5, 6)
static void complain(struct loader *l, bool warning, struct kp_doc_pos at, const char *field,
	const char *fmt, ...)
{
	char text[KP_ERR_MSG];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_problem(l->problems, warning, l->file, at, "", field, text);
}

/* Where the field stands, or its nearest parent that does. */
static struct kp_doc_pos place_of(const struct kp_object *o, kp_str field)
{
	field = kp_str_starts(field, KP_S("spec.")) ? kp_str_skip(field, 5) : KP_STR_NULL;
	while (field.n) {
		for (size_t i = 0; i < o->n_places; i++) {
			if (kp_str_eq(kp_str_c(o->places[i].path), field)) {
				return (struct kp_doc_pos){ o->places[i].line,
					o->places[i].column };
			}
		}
		do {
			field.n--;
		} while (field.n && field.p[field.n] != '.' && field.p[field.n] != '[');
	}
	return (struct kp_doc_pos){ o->line, o->column };
}

void kp_problem_object(
	struct kp_problems *ps, const struct kp_object *o, const char *field, const char *fmt, ...)
{
	char text[KP_ERR_MSG], label[2 * KP_ERR_MSG];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(label, sizeof(label), "%s %" KP_FMT "/%" KP_FMT, kp_kinds[o->kind].kind,
		KP_ARG(o->meta.namespace_), KP_ARG(o->meta.name));
	add_problem(ps, false, o->file, place_of(o, kp_str_c(field)), label, field, text);
}

void kp_problem_write(const struct kp_problem *p, struct kp_buf *out)
{
	kp_buf_addz(out, p->file);
	if (p->line) {
		kp_buf_printf(out, ":%u:%u", p->line, p->column);
	}
	kp_buf_addz(out, p->warning ? ": warning: " : ": error: ");
	if (p->object[0]) {
		kp_buf_printf(out, "%s: ", p->object);
	}
	if (p->field[0]) {
		kp_buf_printf(out, "%s: ", p->field);
	}
	kp_buf_addz(out, p->message);
}

static int by_place(const void *a, const void *b)
{
	const struct kp_problem *x = a, *y = b;
	int r = strcmp(x->file, y->file);
	if (r == 0) {
		r = (x->line > y->line) - (x->line < y->line);
	}
	if (r == 0) {
		r = (x->column > y->column) - (x->column < y->column);
	}
	if (r == 0) {
		r = strcmp(x->field, y->field);
	}
	return r ? r : strcmp(x->message, y->message);
}

/* --- one object ---------------------------------------------------------------------------------------------------- */

static kp_str name_of(const struct kp_yaml_doc *d, const char *member)
{
	return kp_doc_str(json_object_get(d->value, "metadata"), member);
}

enum { LABEL_MAX = 512 };

/* "InferenceEngine default/demo", for messages and to find duplicates; names may be wrong or missing here. */
static void object_label(
	struct loader *l, const struct kp_yaml_doc *d, enum kp_kind kind, char ret[LABEL_MAX])
{
	kp_str ns = name_of(d, "namespace"), name = kp_str_sub(name_of(d, "name"), 0, 253);
	ns = kp_str_sub(ns.n ? ns : l->default_namespace, 0, 63);
	snprintf(ret, LABEL_MAX, "%s%s%" KP_FMT "%s%" KP_FMT, kp_kinds[kind].kind,
		name.n ? " " : "", KP_ARG(name.n ? ns : KP_S("")), name.n ? "/" : "", KP_ARG(name));
}

static void report(struct loader *l, const struct kp_yaml_doc *d, const char *label,
	const struct kp_field_errors *errs)
{
	for (size_t i = 0; i < errs->n; i++) {
		const struct kp_field_err *e = &errs->p[i];
		struct kp_doc_pos at = e->type == KP_FIELD_UNKNOWN ? kp_yaml_key_pos(d, e->path)
								   : kp_yaml_pos(d, e->path);
		add_problem(l->problems, false, l->file, at, label, e->path, e->text);
	}
	l->problems->n_errors += errs->omitted;
}

/* The second object of a name is an error; the first may itself have been refused. */
static int check_duplicate(
	struct loader *l, const struct kp_yaml_doc *d, const char *label, struct kp_err *err)
{
	if (!name_of(d, "name").n) {
		return 0;
	}
	const struct place *first = kp_map_get(&l->names, kp_str_c(label));
	if (first) {
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, TEXT_MAX);
		kp_buf_printf(&b, "already defined at %s:%u", first->file, first->line);
		const char *text = kp_buf_cstr(&b);
		add_problem(l->problems, false, l->file, d->pos, label, "",
			text ? text : "already defined");
		return 0;
	}
	struct place *p = kp_arena_alloc(l->arena, sizeof(*p));
	if (!p) {
		return kp_arena_full(err, "manifests");
	}
	*p = (struct place){ .file = l->file, .line = d->pos.line };
	kp_map_set(&l->names, kp_str_c(label), p);
	return 0;
}

struct places {
	struct kp_arena *arena;
	struct kp_object_place *p;
	size_t n, max;
	bool failed;
};

static void add_place(void *ctx, const char *path, struct kp_doc_pos pos)
{
	struct places *ps = ctx;
	kp_str copy;
	struct kp_err err;
	KP_BUG_ON(ps->n == ps->max);
	if (ps->failed || kp_arena_dup(ps->arena, kp_str_c(path), &copy, &err)) {
		ps->failed = true;
		return;
	}
	ps->p[ps->n++] =
		(struct kp_object_place){ .path = copy.p, .line = pos.line, .column = pos.column };
}

static void count_place(void *ctx, const char *path, struct kp_doc_pos pos)
{
	(void)path;
	(void)pos;
	++*(size_t *)ctx;
}

/* Remembers where the values of spec stand. */
static int keep_places(
	struct loader *l, const struct kp_yaml_doc *d, struct kp_object *o, struct kp_err *err)
{
	struct kp_yaml_doc spec = kp_yaml_member(d, "spec");
	struct places ps = { .arena = l->arena };
	kp_yaml_each(&spec, count_place, &ps.max);
	ps.p = kp_arena_calloc(l->arena, ps.max + 1, sizeof(*ps.p));
	if (ps.p) {
		kp_yaml_each(&spec, add_place, &ps);
	}
	if (!ps.p || ps.failed) {
		return kp_arena_full(err, "manifests");
	}
	o->places = ps.p;
	o->n_places = ps.n;
	return 0;
}

static int load_object(
	struct loader *l, const struct kp_yaml_doc *d, enum kp_kind kind, struct kp_err *err)
{
	struct kp_field_errors errs;
	struct kp_object o;
	char label[LABEL_MAX];
	kp_arena_reset(l->scratch);
	object_label(l, d, kind, label);
	if (l->objects.n == KP_MANIFEST_MAX_OBJECTS) {
		return kp_err_set(
			err, KP_TOO_LARGE, "more than %d objects", KP_MANIFEST_MAX_OBJECTS);
	}
	if (check_duplicate(l, d, label, err) ||
		kp_field_errors_init(&errs, l->scratch, FIELD_ERRORS_MAX, err) ||
		kp_object_load(kind, d->value, l->default_namespace, l->arena, &o, &errs, err)) {
		return -1;
	}
	if (errs.n || errs.omitted) {
		report(l, d, label, &errs);
		return 0;
	}
	o.file = l->file;
	o.line = d->pos.line;
	o.column = d->pos.column;
	if (keep_places(l, d, &o, err)) {
		return -1;
	}
	kp_vec_push(&l->objects, o);
	return 0;
}

/* --- kinds --------------------------------------------------------------------------------------------------------- */

static kp_str group_of(kp_str api_version)
{
	ptrdiff_t slash = kp_str_find_char(api_version, '/');
	return kp_str_sub(api_version, 0, slash < 0 ? 0 : (size_t)slash);
}

/* Not a kind of ours: a mistake when kind or group is ours, else somebody else's object. */
static void other_kind(
	struct loader *l, const struct kp_yaml_doc *d, kp_str api_version, kp_str kind)
{
	struct kp_doc_pos at = kp_yaml_pos(d, "kind");
	kp_str v = kp_str_sub(api_version, 0, 100), k = kp_str_sub(kind, 0, 100);
	for (int i = KP_KIND_NONE + 1; i < KP_KIND_END; i++) {
		if (kp_str_eq(kind, kp_str_c(kp_kinds[i].kind))) {
			complain(l, false, kp_yaml_pos(d, "apiVersion"), "apiVersion",
				"no matches for kind \"%" KP_FMT "\" in version \"%" KP_FMT
				"\"; it is read in \"%s\"",
				KP_ARG(k), KP_ARG(v), kp_kinds[i].api_version);
			return;
		}
	}
	for (int i = KP_KIND_NONE + 1; i < KP_KIND_END; i++) {
		if (kp_str_eq(group_of(api_version), kp_str_c(kp_kinds[i].group))) {
			complain(l, false, at, "kind",
				"no matches for kind \"%" KP_FMT "\" in version \"%" KP_FMT "\"",
				KP_ARG(k), KP_ARG(v));
			return;
		}
	}
	complain(l, true, at, "kind",
		"ignored: not a kind that Kelpie reads: \"%" KP_FMT "\" in version \"%" KP_FMT "\"",
		KP_ARG(k), KP_ARG(v));
}

static bool is_list(kp_str api_version, kp_str kind)
{
	if (kp_str_eq(kind, KP_S("List")) && kp_str_eq(api_version, KP_S("v1"))) {
		return true;
	}
	for (int i = KP_KIND_NONE + 1; i < KP_KIND_END; i++) {
		if (kp_str_eq(kind, kp_str_c(kp_kinds[i].list_kind)) &&
			kp_str_eq(api_version, kp_str_c(kp_kinds[i].api_version))) {
			return true;
		}
	}
	return false;
}

static const char *what_is(const json_t *v)
{
	return json_is_array(v)    ? "a list"
	       : json_is_string(v) ? "a text"
	       : json_is_null(v)   ? "null"
				   : "a scalar";
}

/* A text member that must be there. */
static bool type_member(
	struct loader *l, const struct kp_yaml_doc *d, const char *member, kp_str *ret)
{
	*ret = kp_doc_str(d->value, member);
	if (ret->n) {
		return true;
	}
	const json_t *v = json_object_get(d->value, member);
	if (!v || json_is_null(v) || json_is_string(v)) {
		complain(l, false, kp_yaml_pos(d, member), member, "Required value");
	} else {
		complain(l, false, kp_yaml_pos(d, member), member, "must be a text");
	}
	return false;
}

static int load_document(struct loader *l, const struct kp_yaml_doc *d, struct kp_err *err)
{
	kp_str api_version, kind;
	if (!json_is_object(d->value)) {
		complain(l, false, d->pos, "", "expected an object, got %s", what_is(d->value));
		return 0;
	}
	bool typed = type_member(l, d, "apiVersion", &api_version);
	if (!type_member(l, d, "kind", &kind) || !typed) {
		return 0;
	}
	if (!is_list(api_version, kind)) {
		enum kp_kind k = kp_kind_find(api_version, kind);
		if (k == KP_KIND_NONE) {
			other_kind(l, d, api_version, kind);
			return 0;
		}
		return load_object(l, d, k, err);
	}
	struct kp_yaml_doc items = kp_yaml_member(d, "items");
	if (items.value && !json_is_null(items.value) && !json_is_array(items.value)) {
		complain(l, false, items.pos, "items", "must be a list");
		return 0;
	}
	for (size_t i = 0; i < json_array_size(items.value);
		i++) { /* Lists in Lists are as deep as the document may be */
		struct kp_yaml_doc item = kp_yaml_element(&items, i);
		if (load_document(l, &item, err)) {
			return -1;
		}
	}
	return 0;
}

/* --- all files ----------------------------------------------------------------------------------------------------- */

static int load_file(struct loader *l, const struct kp_manifest_file *f, struct kp_err *err)
{
	KP_AUTO(yaml_stream) struct kp_yaml_stream s = { 0 };
	struct kp_doc_limits lim = kp_doc_limits_manifest;
	struct kp_doc_pos at;
	struct kp_err why = KP_ERR_INIT;
	kp_str name;
	lim.max_bytes = KP_MANIFEST_MAX_FILE;
	if (kp_arena_dup(l->arena, kp_str_c(f->name), &name, err)) {
		return -1;
	}
	l->file = name.p;
	if (kp_doc_yaml_where(f->text, f->name, &lim, &s, &at, &why)) {
		complain(l, false, at, "", "%s", why.msg);
		return 0;
	}
	for (size_t i = 0; i < s.n; i++) {
		if (load_document(l, &s.docs[i], err)) {
			complain(l, false, s.docs[i].pos, "", "%s", err->msg);
			return -1;
		}
	}
	return 0;
}

static int compare(enum kp_kind kind, kp_str ns, kp_str name, const struct kp_object *o)
{
	int r = (kind > o->kind) - (kind < o->kind);
	if (r == 0) {
		r = kp_str_cmp(ns, o->meta.namespace_);
	}
	return r ? r : kp_str_cmp(name, o->meta.name);
}

static int by_name(const void *a, const void *b)
{
	const struct kp_object *x = a;
	return compare(x->kind, x->meta.namespace_, x->meta.name, b);
}

const struct kp_object *kp_object_set_find(
	const struct kp_object_set *s, enum kp_kind kind, kp_str ns, kp_str name)
{
	size_t from = 0, to = s->n;
	while (from < to) {
		size_t mid = from + (to - from) / 2;
		int r = compare(kind, ns, name, &s->objects[mid]);
		if (r == 0) {
			return &s->objects[mid];
		}
		if (r < 0) {
			to = mid;
		} else {
			from = mid + 1;
		}
	}
	return NULL;
}

static int take_set(struct loader *l, struct kp_object_set *ret, struct kp_err *err)
{
	size_t bytes = l->objects.n * sizeof(*l->objects.p);
	struct kp_object *objects = kp_arena_alloc(l->arena, bytes);
	if (!objects) {
		return kp_arena_full(err, "manifests");
	}
	if (l->objects.n) {
		memcpy(objects, l->objects.p, bytes);
		qsort(objects, l->objects.n, sizeof(*objects), by_name);
	}
	*ret = (struct kp_object_set){
		.arena = kp_steal(l->arena), .objects = objects, .n = l->objects.n
	};
	return 0;
}

int kp_problems_err(const struct kp_problems *ps, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 2 * KP_ERR_MSG);
	size_t first = 0;
	while (first < ps->n && ps->p[first].warning) {
		first++;
	}
	if (first < ps->n) {
		kp_problem_write(&ps->p[first], &b);
	}
	kp_str text = kp_buf_str(&b);
	if (ps->n_errors == 1) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "load manifests: %" KP_FMT, KP_ARG(text));
	}
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"load manifests: %zu errors, the first: %" KP_FMT, ps->n_errors, KP_ARG(text));
}

int kp_manifest_parse(const struct kp_manifest_file *files, size_t n, kp_str default_namespace,
	struct kp_object_set *ret, struct kp_problems *problems, struct kp_err *err)
{
	struct loader l = { .arena = kp_arena_create(ARENA_MAX),
		.scratch = kp_arena_create(SCRATCH_MAX),
		.default_namespace = default_namespace,
		.problems = problems };
	kp_map_init(&l.names);
	int r = 0;
	for (size_t i = 0; i < n && r == 0; i++) {
		r = load_file(&l, &files[i], err);
	}
	if (problems->n) {
		qsort(problems->p, problems->n, sizeof(*problems->p), by_place);
	}
	if (r == 0) {
		r = problems->n_errors ? kp_problems_err(problems, err) : take_set(&l, ret, err);
	}
	kp_map_fini(&l.names, NULL);
	kp_vec_fini(&l.objects);
	kp_arena_destroy(l.scratch);
	kp_arena_destroy(l.arena);
	return r;
}

void kp_object_set_fini(struct kp_object_set *s)
{
	kp_arena_destroy(s->arena);
	*s = (struct kp_object_set){ 0 };
}

int kp_manifest_load(const char *path, kp_str default_namespace, struct kp_object_set *ret,
	struct kp_problems *problems, struct kp_err *err)
{
	struct kp_manifest_files f;
	if (kp_manifest_read(path, &f, err)) {
		add_problem(problems, false, path, (struct kp_doc_pos){ 0 }, "", "", err->msg);
		return -1;
	}
	int r = kp_manifest_parse(f.files, f.n, default_namespace, ret, problems, err);
	kp_manifest_files_fini(&f);
	return r;
}
