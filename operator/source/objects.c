/* DESIGN: an object that cannot be read is a problem of its own. Rules between objects may name more: those are left out
   too, and the rest is tried again, until nothing is named. */
#include "operator/source/objects.h"

#include "schema/errors.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	ARENA_MAX = 256 << 20,
	SCRATCH_MAX = 8 << 20,
	FIELD_ERRORS_MAX = 16,
	ROUNDS_MAX = 200, /* of leaving objects out */
	ERRORS_TEXT_MAX = 1 << 18,
	LABEL_MAX = 400,
};

void kp_objects_add_line(struct kp_buf *b, size_t *n, kp_str line)
{
	if (b->n + line.n + 6 <= b->max) {
		kp_buf_lit(b, "    ");
		kp_buf_add(b, line);
		kp_buf_addc(b, '\n');
	}
	++*n;
}

struct reading {
	struct kp_objects *to;
	struct kp_problems problems; /* of this round */
};

static void set_label(char label[LABEL_MAX], enum kp_kind kind, kp_str ns, kp_str name)
{
	snprintf(label, LABEL_MAX, "%s %" KP_FMT "/%" KP_FMT, kp_kinds[kind].kind, KP_ARG(ns),
		KP_ARG(name));
}

/* The first that is wrong with an object is why it is left out. */
static void take_problems(struct reading *r)
{
	for (size_t i = 0; i < r->problems.n; i++) {
		const struct kp_problem *p = &r->problems.p[i];
		KP_AUTO(buf) struct kp_buf line;
		kp_buf_init(&line, 8192);
		kp_problem_write(p, &line);
		if (p->warning) {
			continue;
		}
		kp_objects_add_line(&r->to->left_out, &r->to->n_left_out, kp_buf_str(&line));
		if (p->object[0] && !kp_map_get(&r->to->why, kp_str_c(p->object))) {
			kp_buf_reset(&line);
			kp_buf_printf(
				&line, "%s%s%s", p->field, p->field[0] ? ": " : "", p->message);
			kp_map_set(&r->to->why, kp_str_c(p->object), kp_str_z(kp_buf_str(&line)));
		}
	}
}

static void no_sense(
	struct reading *r, const struct kp_objects_input *in, const struct kp_field_errors *errs)
{
	const json_t *m = json_object_get(in->json, "metadata");
	const struct kp_object o = { .kind = in->kind,
		.file = "cluster",
		.meta = {
			.name = kp_doc_str(m, "name"), .namespace_ = kp_doc_str(m, "namespace") } };
	kp_problems_init(&r->problems);
	for (size_t i = 0; i < errs->n; i++) {
		kp_problem_object(&r->problems, &o, errs->p[i].path, "%s", errs->p[i].text);
	}
	take_problems(r);
	kp_problems_fini(&r->problems);
}

static int read_object(struct reading *r, const struct kp_objects_input *in, struct kp_err *err)
{
	struct kp_object_set *set = r->to->set;
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(SCRATCH_MAX);
	struct kp_field_errors errs;
	struct kp_object o;
	json_t *v = json_deep_copy(in->json);
	if (!v) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "read `%s`: out of memory",
			kp_kinds[in->kind].kind);
	}
	int got =
		kp_field_errors_init(&errs, scratch, FIELD_ERRORS_MAX, err) ||
				kp_object_load(in->kind, v, KP_STR_NULL, set->arena, &o, &errs, err)
			? -1
			: 0;
	if (got == 0 && errs.n) {
		no_sense(r, in, &errs);
	} else if (got == 0) {
		o.file = "cluster";
		set->objects[set->n++] = o;
	}
	json_decref(v);
	return got;
}

static int compare(const void *a, const void *b)
{
	const struct kp_object *x = a, *y = b;
	int r = (x->kind > y->kind) - (x->kind < y->kind);
	r = r ? r : kp_str_cmp(x->meta.namespace_, y->meta.namespace_);
	return r ? r : kp_str_cmp(x->meta.name, y->meta.name);
}

static int read_all(
	struct reading *r, const struct kp_objects_input *in, size_t n, struct kp_err *err)
{
	struct kp_object_set *set = r->to->set;
	if (n > KP_MANIFEST_MAX_OBJECTS) {
		return kp_err_set(
			err, KP_TOO_LARGE, "more than %d objects", KP_MANIFEST_MAX_OBJECTS);
	}
	set->arena = kp_arena_create(ARENA_MAX);
	set->objects = kp_arena_calloc(set->arena, n + 1, sizeof(*set->objects));
	if (!set->objects) {
		return kp_arena_full(err, "objects");
	}
	for (size_t i = 0; i < n; i++) {
		if (read_object(r, &in[i], err)) {
			return -1;
		}
	}
	qsort(set->objects, set->n, sizeof(*set->objects), compare);
	return 0;
}

static bool is_named(const struct reading *r, const struct kp_object *o)
{
	char label[LABEL_MAX];
	set_label(label, o->kind, o->meta.namespace_, o->meta.name);
	for (size_t i = 0; i < r->problems.n; i++) {
		if (!r->problems.p[i].warning &&
			kp_str_eq(kp_str_c(r->problems.p[i].object), kp_str_c(label))) {
			return true;
		}
	}
	return false;
}

/* Whether there was one. */
static bool leave_out(struct reading *r)
{
	struct kp_object_set *set = r->to->set;
	size_t kept = 0, before = set->n;
	for (size_t i = 0; i < before; i++) {
		if (!is_named(r, &set->objects[i])) {
			set->objects[kept++] = set->objects[i];
		}
	}
	set->n = kept;
	return kept < before;
}

/* Leaves out what the rules name until they name nothing. */
static int check_all(struct reading *r, kp_objects_check *check, void *ctx, struct kp_err *err)
{
	for (int round = 0; round < ROUNDS_MAX; round++) {
		kp_problems_init(&r->problems);
		int got = check(ctx, r->to->set, &r->problems, err);
		bool is_less = got != 0 && leave_out(r);
		take_problems(r);
		kp_problems_fini(&r->problems);
		if (got == 0 || !is_less) {
			return got;
		}
	}
	return -1; /* err is the last round's */
}

int kp_objects_read(const struct kp_objects_input *in, size_t n, kp_objects_check *check, void *ctx,
	struct kp_objects *ret, struct kp_err *err)
{
	struct reading r = { .to = ret };
	*ret = (struct kp_objects){ .set = kp_new(struct kp_object_set) };
	kp_buf_init(&ret->left_out, ERRORS_TEXT_MAX);
	kp_map_init(&ret->why);
	if (read_all(&r, in, n, err) == 0 && check_all(&r, check, ctx, err) == 0) {
		return 0;
	}
	kp_objects_add_line(&ret->left_out, &ret->n_left_out, kp_str_c(err->msg));
	return -1;
}

void kp_objects_fini(struct kp_objects *o)
{
	if (o->set) {
		kp_object_set_fini(o->set);
		kp_mem_free(o->set);
	}
	kp_buf_fini(&o->left_out);
	kp_map_fini(&o->why, kp_mem_free);
	*o = (struct kp_objects){ 0 };
}

kp_str kp_objects_problem(const struct kp_objects *o, enum kp_kind kind, kp_str ns, kp_str name)
{
	char label[LABEL_MAX];
	set_label(label, kind, ns, name);
	const char *why = kp_map_get(&o->why, kp_str_c(label));
	return kp_str_c(why ? why : "");
}
