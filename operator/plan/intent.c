/* DESIGN: control/program knows the rules of one namespace; here they are asked for each namespace that
   has an object, so that the errors of all of them are seen at once. */
#include "operator/plan/intent.h"

#include "base/map.h"
#include "base/vec.h"

#include <stdlib.h>

enum { INTENT_BYTES = 8 << 20 }; /* the programs have arenas of their own */

static int compare(const void *a, const void *b)
{
	return kp_str_cmp(((const struct kp_intent_namespace *)a)->name,
		((const struct kp_intent_namespace *)b)->name);
}

static int list_namespaces(struct kp_intent *i, const struct kp_object_set *set, struct kp_err *err)
{
	struct kp_map seen;
	int r = 0;
	kp_map_init(&seen);
	i->namespaces = kp_arena_calloc(i->arena, set->n, sizeof(*i->namespaces));
	if (!i->namespaces) {
		r = kp_arena_full(err, "namespaces");
	}
	for (size_t k = 0; k < set->n && r == 0; k++) {
		kp_str ns = set->objects[k].meta.namespace_;
		if (!kp_map_set(&seen, ns, i)) {
			r = kp_arena_dup(i->arena, ns, &i->namespaces[i->n].name, err);
			i->n += r == 0;
		}
	}
	kp_map_fini(&seen, NULL);
	if (i->n) {
		qsort(i->namespaces, i->n, sizeof(*i->namespaces), compare);
	}
	return r;
}

static int build(struct kp_intent *i, const struct kp_object_set *set, struct kp_problems *problems,
	struct kp_err *err)
{
	int r = list_namespaces(i, set, err);
	for (size_t k = 0; k < i->n; k++) {
		if (kp_program_build(
			    set, i->namespaces[k].name, problems, &i->namespaces[k].program, err)) {
			r = -1; /* the other namespaces' errors are wanted too */
		}
	}
	return r;
}

int kp_intent_build(const struct kp_object_set *set, struct kp_problems *problems,
	struct kp_intent **ret, struct kp_err *err)
{
	struct kp_intent *i = kp_new(struct kp_intent);
	i->arena = kp_arena_create(INTENT_BYTES);
	if (build(i, set, problems, err)) {
		kp_intent_destroy(i);
		return -1;
	}
	*ret = i;
	return 0;
}

void kp_intent_destroy(struct kp_intent *i)
{
	if (i) {
		for (size_t k = 0; k < i->n; k++) {
			kp_program_destroy(i->namespaces[k].program);
		}
		kp_arena_destroy(i->arena);
		kp_mem_free(i);
	}
}

const struct kp_intent_namespace *kp_intent_find(const struct kp_intent *i, kp_str ns)
{
	const struct kp_intent_namespace key = { .name = ns };
	return i->n ? bsearch(&key, i->namespaces, i->n, sizeof(key), compare) : NULL;
}
