/* DESIGN: see snapshot.h. A snapshot owns its revisions; a revision owns references to endpoints
 * and to its text stack. */
#include "sidecar/control/snapshot.h"

#include <stdlib.h>

struct kp_snapshot *kp_snapshot_create(uint64_t version, int64_t created_wall_s)
{
	struct kp_snapshot *s = kp_new(struct kp_snapshot);
	kp_ref_init(&s->ref);
	s->version = version;
	s->created_wall_s = created_wall_s;
	return s;
}

struct kp_model_revision *kp_snapshot_revision(struct kp_snapshot *s, const char *engine)
{
	struct kp_model_revision *r = kp_new(struct kp_model_revision);
	r->engine = kp_xstrdup(engine);
	s->revisions = kp_xrealloc(s->revisions, (s->n_revisions + 1) * sizeof(*s->revisions));
	s->revisions[s->n_revisions++] = r;
	return r;
}

void kp_revision_add_endpoint(
	struct kp_model_revision *r, struct kp_endpoint *e, struct kp_endpoint_facts *facts)
{
	r->endpoints = kp_xrealloc(r->endpoints, (r->n_endpoints + 1) * sizeof(*r->endpoints));
	r->facts = kp_xrealloc(r->facts, (r->n_endpoints + 1) * sizeof(*r->facts));
	r->facts[r->n_endpoints] = facts;
	r->endpoints[r->n_endpoints++] = kp_endpoint_ref(e);
}

const struct kp_endpoint_facts *kp_revision_facts(
	const struct kp_model_revision *r, const struct kp_endpoint *e)
{
	for (size_t i = 0; i < r->n_endpoints; i++) {
		if (r->endpoints[i] == e) {
			return r->facts[i];
		}
	}
	return NULL;
}

static struct kp_model *name_get(
	struct kp_snapshot *s, const char *name, const char *pool, bool is_alias)
{
	for (size_t i = 0; i < s->n_models; i++) {
		if (kp_str_eq(kp_str_c(s->models[i].name), kp_str_c(name))) {
			return &s->models[i];
		}
	}
	s->models = kp_xrealloc(s->models, (s->n_models + 1) * sizeof(*s->models));
	struct kp_model *m = &s->models[s->n_models++];
	*m = (struct kp_model){
		.name = kp_xstrdup(name), .pool = kp_xstrdup(pool), .is_alias = is_alias
	};
	return m;
}

void kp_snapshot_add(struct kp_snapshot *s, const char *name, const char *pool, bool is_alias,
	struct kp_model_revision *r)
{
	struct kp_model *m = name_get(s, name, pool, is_alias);
	for (size_t i = 0; i < m->n_revisions; i++) {
		if (m->revisions[i] == r) {
			return;
		}
	}
	m->revisions = kp_xrealloc(
		m->revisions, (m->n_revisions + 1) * sizeof(struct kp_model_revision *));
	m->revisions[m->n_revisions++] = r;
}

static int by_name(const void *a, const void *b)
{
	const struct kp_model *x = a, *y = b;
	return kp_str_cmp(kp_str_c(x->name), kp_str_c(y->name));
}

void kp_snapshot_seal(struct kp_snapshot *s)
{
	if (s->n_models) {
		qsort(s->models, s->n_models, sizeof(*s->models), by_name);
	}
}

struct kp_snapshot *kp_snapshot_ref(struct kp_snapshot *s)
{
	kp_ref_get(&s->ref);
	return s;
}

void kp_snapshot_unref(struct kp_snapshot *s)
{
	if (!s || !kp_ref_put(&s->ref)) {
		return;
	}
	for (size_t i = 0; i < s->n_models; i++) {
		kp_mem_free(s->models[i].name);
		kp_mem_free(s->models[i].pool);
		kp_mem_free(s->models[i].revisions);
	}
	for (size_t i = 0; i < s->n_revisions; i++) {
		struct kp_model_revision *r = s->revisions[i];
		for (size_t k = 0; k < r->n_endpoints; k++) {
			kp_endpoint_unref(r->endpoints[k]);
			kp_endpoint_facts_destroy(r->facts[k]);
		}
		kp_mem_free(r->endpoints);
		kp_mem_free(r->facts);
		kp_text_stack_unref(r->text);
		kp_mem_free(r->engine);
		kp_mem_free(r->why_not);
		kp_mem_free(r);
	}
	kp_tool_catalog_unref(s->tools);
	kp_mem_free(s->models);
	kp_mem_free(s->revisions);
	kp_mem_free(s);
}

const struct kp_model *kp_snapshot_find(const struct kp_snapshot *s, kp_str name)
{
	size_t lo = 0, hi = s->n_models;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int c = kp_str_cmp(kp_str_c(s->models[mid].name), name);
		if (c == 0) {
			return &s->models[mid];
		}
		if (c < 0) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return NULL;
}

struct kp_model_revision *kp_model_text_revision(const struct kp_model *m)
{
	for (size_t i = 0; i < m->n_revisions; i++) {
		if (m->revisions[i]->text) {
			return m->revisions[i];
		}
	}
	return NULL;
}
