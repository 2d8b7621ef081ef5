/* DESIGN: the document is indexed (resolve.c); then schemas are read from a queue, beginning with the root, each asking for those it mentions; so nothing is recursive
   but the last step, which finds references that go round without moving into the instance, and chains of them that are too long. */
#include "jsonschema/compile.h"

#include <stdlib.h>

enum { BYTES_DEFAULT = 8 << 20, NODES_DEFAULT = 20000, VALUES_DEFAULT = 20000, LOOP = 255 };

struct kp_js_node *kp_js_want(struct kp_js_compiler *c, struct kp_js_place *p)
{
	if (!p->queued) {
		p->queued = true;
		kp_vec_push(&c->queue, p);
	}
	return &p->node;
}

static int height_of(struct kp_js_compiler *c, struct kp_js_node *n, unsigned depth);

static int height_over(
	struct kp_js_compiler *c, struct kp_js_node *child, unsigned depth, unsigned *most)
{
	int h = child ? height_of(c, child, depth + 1) : 0;
	*most = h > (int)*most ? (unsigned)h : *most;
	return h < 0 ? -1 : 0;
}

static int height_over_list(
	struct kp_js_compiler *c, const struct kp_js_list *list, unsigned depth, unsigned *most)
{
	for (uint32_t i = 0; i < list->n; i++) {
		if (height_over(c, list->p[i], depth, most)) {
			return -1;
		}
	}
	return 0;
}

/* How many schemas stand one in the other on one value, from n on. */
static int height_of(struct kp_js_compiler *c, struct kp_js_node *n, unsigned depth)
{
	unsigned most = 0;
	if (n->height && n->height != LOOP) {
		return n->height;
	}
	if (n->height == LOOP) {
		return kp_js_fail(c, n->where, NULL, "`$ref` leads back to itself");
	}
	if (depth > JS_CHAIN_MAX) {
		return kp_js_fail(c, n->where, NULL,
			"more than %d schemas one in the other on one value", JS_CHAIN_MAX);
	}
	n->height = LOOP;
	const struct kp_js_inplace *in = n->inplace;
	if (in &&
		(height_over(c, in->ref, depth, &most) || height_over(c, in->not_, depth, &most) ||
			height_over(c, in->if_, depth, &most) ||
			height_over(c, in->then_, depth, &most) ||
			height_over(c, in->else_, depth, &most) ||
			height_over_list(c, &in->all_of, depth, &most) ||
			height_over_list(c, &in->any_of, depth, &most) ||
			height_over_list(c, &in->one_of, depth, &most))) {
		return -1;
	}
	for (uint32_t i = 0; n->object && i < n->object->n_names; i++) {
		if (height_over(c, n->object->names[i].dependent, depth, &most)) {
			return -1;
		}
	}
	if (most >= JS_CHAIN_MAX) {
		return kp_js_fail(c, n->where, NULL,
			"more than %d schemas one in the other on one value", JS_CHAIN_MAX);
	}
	n->height = (uint8_t)(most + 1);
	return n->height;
}

static int compile(struct kp_js_compiler *c, const struct kp_jv *root)
{
	uint32_t r;
	kp_str uri = c->options && c->options->uri.p ? c->options->uri : KP_S("");
	if (kp_js_index_document(c, root, uri, &r)) {
		return -1;
	}
	struct kp_js_place *p = kp_js_index(c, root, r, KP_S("#"));
	if (!p) {
		return -1;
	}
	c->schema->root = kp_js_want(c, p);
	for (size_t i = 0; i < c->queue.n; i++) {
		if (kp_js_read_schema(c, c->queue.p[i])) {
			return -1;
		}
	}
	for (size_t i = 0; i < c->queue.n; i++) {
		if (height_of(c, &c->queue.p[i]->node, 0) < 0) {
			return -1;
		}
	}
	c->schema->n_dynamic = (uint32_t)c->dynamic.n;
	c->schema->dynamic = kp_js_alloc(c, c->dynamic.n, sizeof(*c->dynamic.p));
	if (!c->schema->dynamic) {
		return -1;
	}
	if (c->dynamic.n) {
		memcpy(c->schema->dynamic, c->dynamic.p, c->dynamic.n * sizeof(*c->dynamic.p));
	}
	return 0;
}

int kp_jsonschema_compile(const struct kp_jv *schema, const struct kp_jsonschema_options *options,
	struct kp_jsonschema **ret, struct kp_err *err)
{
	size_t max = options && options->max_bytes ? options->max_bytes : BYTES_DEFAULT;
	struct kp_jsonschema *s = kp_new(struct kp_jsonschema);
	s->arena = kp_arena_create(max);
	struct kp_js_compiler c = { .options = options,
		.schema = s,
		.arena = s->arena,
		.scratch = kp_arena_create(max),
		.max_code = max,
		.err = err };
	c.max_places = options && options->max_nodes ? options->max_nodes : NODES_DEFAULT;
	c.max_values = options && options->max_values ? options->max_values : VALUES_DEFAULT;
	kp_map_init(&c.places);
	kp_map_init(&c.uris);
	kp_map_init(&c.anchors);
	err->code = KP_OK;
	int r = compile(&c, schema);
	kp_map_fini(&c.places, NULL);
	kp_map_fini(&c.uris, NULL);
	kp_map_fini(&c.anchors, NULL);
	kp_vec_fini(&c.resources);
	kp_vec_fini(&c.queue);
	kp_vec_fini(&c.dynamic);
	kp_arena_destroy(c.scratch);
	if (r) {
		kp_jsonschema_destroy(s);
		return -1;
	}
	*ret = s;
	return 0;
}

void kp_jsonschema_destroy(struct kp_jsonschema *s)
{
	if (!s) {
		return;
	}
	for (size_t i = 0; i < s->regexes.n; i++) {
		kp_js_regex_destroy(s->regexes.p[i]);
	}
	kp_vec_fini(&s->regexes);
	kp_arena_destroy(s->arena);
	kp_mem_free(s);
}

static uint64_t name_slot(kp_str name, uint32_t n_slots)
{
	return kp_hash(name) & (n_slots - 1);
}

struct kp_js_name *kp_js_object_find(const struct kp_js_object *o, kp_str name)
{
	if (o->n_names == 0) {
		return NULL;
	}
	for (uint64_t at = name_slot(name, o->n_slots); o->slots[at];
		at = (at + 1) & (o->n_slots - 1)) {
		struct kp_js_name *n = &o->names[o->slots[at] - 1];
		if (kp_str_eq(n->name, name)) {
			return n;
		}
	}
	return NULL;
}
