/* DESIGN: a program to items with lib/wire's writer, in the order of the fields' numbers and without
   default values, as every protobuf library writes them; items to a program with protobuf-c into the
   program's own arena, so that its strings are the program's. Items are sorted by kind, hence pools
   come before the engines that name them, but gateways after the endpoints: they are read first. */
#include "control/fields.h"
#include "control/items.h"
#include "control/message.h"
#include "control/tool_server.h"
#include "base/map.h"
#include "base/vec.h"
#include "net/addr.h"
#include "wire/unpack.h"
#include "kelpie/control/v1/control.pb-c.h"

#include <stdlib.h>

typedef Kelpie__Control__V1__Pool pb_pool;
typedef Kelpie__Control__V1__Engine pb_engine;
typedef Kelpie__Control__V1__Endpoint pb_endpoint;
typedef Kelpie__Control__V1__Gateway pb_gateway;

enum {
	PROGRAM_BYTES = 256 << 20,
	NAME_BYTES = 512,    /* "namespace/name", an id */
	ADDRESS_BYTES = 300, /* "host:port" */
	PATH_BYTES = 4096,
	PORTS_MAX = 64,
	ALIASES_MAX = 256,
};
static const struct kp_wire_limits value_limits = {
	.max_bytes = KP_ITEM_VALUE_MAX, .max_fields = 4096, .max_depth = 2
};

/* --- a program to items --- */

static void write_pool(struct kp_buf *b, const struct kp_program_pool *p)
{
	kp_field_str(b, 1, p->name);
	if (p->n_target_ports) {
		size_t at = kp_wire_begin(b, 2);
		for (size_t i = 0; i < p->n_target_ports; i++) {
			kp_wire_add_varint(b, p->target_ports[i]);
		}
		kp_wire_end(b, at);
	}
}
static void write_engine(struct kp_buf *b, const struct kp_program_engine *e)
{
	kp_field_str(b, 1, e->name);
	kp_field_str(b, 2, e->pool);
	kp_field_str(b, 3, e->model);
	kp_field_strs(b, 4, e->aliases, e->n_aliases);
	kp_field_u64(b, 5, e->protocol);
	kp_field_u64(b, 6, e->tokenizer);
	kp_field_str(b, 7, e->tokenizer_path);
	kp_field_str(b, 8, e->chat_template);
	kp_field_u64(b, 9, e->text_policy);
	kp_field_str(b, 10, e->tool_parser);
	kp_field_str(b, 11, e->reasoning_parser);
	kp_field_u64(b, 12, e->validation);
	kp_field_u64(b, 13, e->strict_schemas);
}
static void write_endpoint(struct kp_buf *b, const struct kp_program_engine *e, size_t index)
{
	const struct kp_program_endpoint *ep = &e->endpoints[index];
	kp_field_str(b, 1, e->name);
	kp_field_u64(b, 2,
		ep->instance.n ? 0 : index); /* pods come and go: the others stay as they are */
	kp_field_str(b, 3, ep->address);
	kp_field_str(b, 4, ep->owner ? ep->owner->id : KP_STR_NULL);
	kp_field_str(b, 5, ep->local);
	kp_field_str(b, 6, ep->instance);
}

struct writer {
	struct kp_arena *arena;
	KP_VEC(struct kp_item)
	items;
	struct kp_buf value; /* of the item being written */
};

static int add_item(struct writer *w, uint32_t kind, kp_str key, struct kp_err *err)
{
	struct kp_item item = { .kind = kind, .key = key };
	if (kp_buf_finish(&w->value, "item", err) < 0 ||
		kp_arena_dup(w->arena, kp_buf_str(&w->value), &item.value, err) < 0) {
		char buf[16];
		return kp_err_wrap(
			err, "%s `%" KP_FMT "`", kp_item_kind_name(kind, buf), KP_ARG(key));
	}
	kp_buf_reset(&w->value);
	kp_vec_push(&w->items, item);
	return 0;
}

static int add_engine(struct writer *w, const struct kp_program_engine *e, struct kp_err *err)
{
	write_engine(&w->value, e);
	if (add_item(w, KP_ITEM_ENGINE, e->name, err) < 0) {
		return -1;
	}
	for (size_t i = 0; i < e->n_endpoints; i++) {
		write_endpoint(&w->value, e, i);
		kp_str key = kp_arena_printf(w->arena, "%" KP_FMT "/%" KP_FMT, KP_ARG(e->name),
			KP_ARG(e->endpoints[i].address));
		if (add_item(w, KP_ITEM_ENDPOINT, key, err) < 0) {
			return -1;
		}
	}
	return 0;
}

static int write_program(struct writer *w, const struct kp_program *p, struct kp_err *err)
{
	for (size_t i = 0; i < p->n_pools; i++) {
		write_pool(&w->value, &p->pools[i]);
		if (add_item(w, KP_ITEM_POOL, p->pools[i].name, err) < 0) {
			return -1;
		}
	}
	for (size_t i = 0; i < p->n_engines; i++) {
		if (add_engine(w, &p->engines[i], err) < 0) {
			return -1;
		}
	}
	for (size_t i = 0; i < p->n_gateways; i++) {
		kp_control_write_gateway(&w->value, &p->gateways[i]);
		if (add_item(w, KP_ITEM_GATEWAY, p->gateways[i].id, err) < 0) {
			return -1;
		}
	}
	for (size_t i = 0; i < p->n_tool_servers; i++) {
		kp_tool_server_write(&w->value, &p->tool_servers[i]);
		if (add_item(w, KP_ITEM_TOOL_SERVER, p->tool_servers[i].name, err) < 0) {
			return -1;
		}
	}
	return 0;
}

int kp_items_from_program(const struct kp_program *p, struct kp_items **ret, struct kp_err *err)
{
	struct writer w = { .arena = kp_arena_create(PROGRAM_BYTES) };
	kp_buf_init(&w.value, KP_ITEM_VALUE_MAX);
	int r = write_program(&w, p, err);
	if (r == 0) {
		r = kp_items_create(w.items.p, w.items.n, ret, err);
	}
	kp_vec_fini(&w.items);
	kp_buf_fini(&w.value);
	kp_arena_destroy(w.arena);
	return r;
}

/* --- items to a program --- */

struct reader {
	const struct kp_items *items;
	kp_str ns;
	struct kp_program *p;
	struct kp_program_pool *pools;
	struct kp_program_engine *engines;
	struct kp_program_gateway *gateways;
	struct kp_program_tool_server *tool_servers;
	struct kp_program_endpoint *endpoints;
	const pb_endpoint **pb_endpoints;
	struct kp_map names;  /* public name -> the engine that has it first */
	struct kp_map labels; /* label -> the tool server that has it */
	struct kp_err *err;
};

static int refuse(struct reader *r, const struct kp_item *i, enum kp_code code, const char *what)
{
	char buf[16];
	return kp_err_set(r->err, code, "read %s `%" KP_FMT "`: %s",
		kp_item_kind_name(i->kind, buf), KP_ARG(i->key), what);
}
static int invalid(struct reader *r, const struct kp_item *i, const char *what)
{
	return refuse(r, i, KP_INVALID_ARGUMENT, what);
}

/* The range of a kind in the sorted items. */
static const struct kp_item *of_kind(const struct kp_items *s, uint32_t kind, size_t *ret_n)
{
	size_t from = 0, to;
	while (from < s->n && s->p[from].kind < kind) {
		from++;
	}
	for (to = from; to < s->n && s->p[to].kind == kind; to++) {
	}
	*ret_n = to - from;
	return s->p + from;
}

static void *unpack(struct reader *r, const struct kp_item *i, const ProtobufCMessageDescriptor *d)
{
	void *m = kp_wire_unpack(d, i->value, &value_limits, r->p->arena, r->err);
	if (!m) {
		char buf[16];
		r->err->code = r->err->code == KP_INTERNAL ? KP_INVALID_ARGUMENT : r->err->code;
		kp_err_wrap(r->err, "read %s `%" KP_FMT "`", kp_item_kind_name(i->kind, buf),
			KP_ARG(i->key));
	}
	return m;
}

/* "namespace/name", of the namespace asked for. */
static bool name_ok(const struct reader *r, kp_str name)
{
	ptrdiff_t slash = kp_str_find_char(name, '/');
	if (name.n > NAME_BYTES || slash <= 0 || (size_t)slash + 1 == name.n ||
		slash != kp_str_rfind_char(name, '/')) {
		return false;
	}
	return !r->ns.n || kp_str_eq(kp_str_sub(name, 0, (size_t)slash), r->ns);
}
static bool text_ok(kp_str s, size_t max)
{
	for (size_t i = 0; i < s.n; i++) {
		if ((uint8_t)s.p[i] < 0x20 || s.p[i] == 0x7f) {
			return false;
		}
	}
	return s.n <= max;
}
static bool address_ok(const char *z)
{
	struct kp_addr addr;
	struct kp_err ignored = KP_ERR_INIT;
	return strlen(z) <= ADDRESS_BYTES && kp_addr_parse(z, &addr, &ignored) == 0 &&
	       (addr.is_unix || (addr.port && addr.host[0]));
}

static int copy_strings(struct reader *r, char **from, size_t n, const kp_str **ret)
{
	kp_str *to = kp_arena_calloc(r->p->arena, n, sizeof(*to));
	if (!to) {
		return kp_arena_full(r->err, "program");
	}
	for (size_t i = 0; i < n; i++) {
		to[i] = kp_str_c(from[i]);
	}
	*ret = to;
	return 0;
}

static int read_pool(struct reader *r, const struct kp_item *i)
{
	const pb_pool *m = unpack(r, i, &kelpie__control__v1__pool__descriptor);
	if (!m) {
		return -1;
	}
	struct kp_program_pool pool = { .name = kp_str_c(m->name) };
	if (!kp_str_eq(pool.name, i->key) || !name_ok(r, pool.name)) {
		return invalid(r, i, "the name is not the key, or not of this namespace");
	}
	if (m->n_target_ports > PORTS_MAX) {
		return invalid(r, i, "too many target ports");
	}
	uint16_t *ports = kp_arena_calloc(r->p->arena, m->n_target_ports, sizeof(*ports));
	if (!ports) {
		return kp_arena_full(r->err, "program");
	}
	for (size_t k = 0; k < m->n_target_ports; k++) {
		if (m->target_ports[k] == 0 || m->target_ports[k] > UINT16_MAX) {
			return invalid(r, i, "a target port is not a number from 1 to 65535");
		}
		ports[k] = (uint16_t)m->target_ports[k];
	}
	pool.target_ports = ports;
	pool.n_target_ports = m->n_target_ports;
	r->pools[r->p->n_pools++] = pool;
	return 0;
}

static int read_gateway(struct reader *r, const struct kp_item *i)
{
	const pb_gateway *m = unpack(r, i, &kelpie__control__v1__gateway__descriptor);
	if (!m) {
		return -1;
	}
	struct kp_program_gateway g = { .id = kp_str_c(m->id),
		.peer = kp_str_c(m->peer),
		.node = kp_str_c(m->node),
		.n_own = m->n_own };
	if (!kp_str_eq(g.id, i->key) || !text_ok(g.id, NAME_BYTES)) {
		return invalid(r, i, "the id is not the key, or not printable");
	}
	if (g.peer.n && !address_ok(m->peer)) {
		return invalid(r, i, "peer is not an address");
	}
	if (!text_ok(g.node, NAME_BYTES)) {
		return invalid(r, i, "node is too long or not printable");
	}
	for (size_t k = 0; k < m->n_own; k++) {
		if (!text_ok(kp_str_c(m->own[k]), NAME_BYTES)) {
			return invalid(r, i, "a claim is too long or not printable");
		}
	}
	if (copy_strings(r, m->own, m->n_own, &g.own) < 0) {
		return -1;
	}
	r->gateways[r->p->n_gateways++] = g;
	return 0;
}

static int read_tool_server(struct reader *r, const struct kp_item *i)
{
	struct kp_program_tool_server *t = &r->tool_servers[r->p->n_tool_servers];
	char buf[16];
	if (kp_tool_server_read(i->value, r->p->arena, t, r->err)) {
		return kp_err_wrap(r->err, "read %s `%" KP_FMT "`", kp_item_kind_name(i->kind, buf),
			KP_ARG(i->key));
	}
	if (!kp_str_eq(t->name, i->key) || !name_ok(r, t->name)) {
		return invalid(r, i, "the name is not the key, or not of this namespace");
	}
	if (kp_map_set(&r->labels, t->label, t)) {
		return invalid(r, i, "its label is another one's");
	}
	r->p->n_tool_servers++;
	return 0;
}

/* A public name belongs to one pool (as in kp_program_build). */
static int claim_name(
	struct reader *r, const struct kp_item *i, const struct kp_program_engine *e, kp_str name)
{
	if (name.n == 0 || !text_ok(name, NAME_BYTES)) {
		return invalid(r, i, "a model's name is empty, too long or not printable");
	}
	const struct kp_program_engine *first = kp_map_get(&r->names, name);
	if (first && !kp_str_eq(first->pool, e->pool)) {
		return kp_err_set(r->err, KP_INVALID_ARGUMENT,
			"read engine `%" KP_FMT "`: `%" KP_FMT
			"` is already the name of a model of pool `%" KP_FMT "`",
			KP_ARG(i->key), KP_ARG(name), KP_ARG(first->pool));
	}
	if (!first) {
		kp_map_set(&r->names, name, kp_unconst(e));
	}
	return 0;
}

static int read_engine(struct reader *r, const struct kp_item *i)
{
	const pb_engine *m = unpack(r, i, &kelpie__control__v1__engine__descriptor);
	if (!m) {
		return -1;
	}
	struct kp_program_engine *e = &r->engines[r->p->n_engines];
	*e = (struct kp_program_engine){ .name = kp_str_c(m->name),
		.pool = kp_str_c(m->pool),
		.model = kp_str_c(m->model),
		.n_aliases = m->n_aliases,
		.tokenizer_path = kp_str_c(m->tokenizer_path),
		.chat_template = kp_str_c(m->chat_template),
		.tool_parser = kp_str_c(m->tool_parser),
		.reasoning_parser = kp_str_c(m->reasoning_parser) };
	if (!kp_str_eq(e->name, i->key) || !name_ok(r, e->name)) {
		return invalid(r, i, "the name is not the key, or not of this namespace");
	}
	if (!kp_items_find(r->items, KP_ITEM_POOL, e->pool)) {
		return invalid(r, i, "its pool is not there");
	}
	if (m->protocol < 0 || m->protocol > KELPIE__CONTROL__V1__PROTOCOL__PROTOCOL_SGLANG) {
		return refuse(r, i, KP_UNIMPLEMENTED, "an unknown protocol");
	}
	e->protocol = m->protocol == KELPIE__CONTROL__V1__PROTOCOL__PROTOCOL_SGLANG
			      ? KP_PROTOCOL_SGLANG
			      : KP_PROTOCOL_VLLM;
	bool is_path = m->tokenizer == KELPIE__CONTROL__V1__TOKENIZER_SOURCE__TOKENIZER_SOURCE_PATH;
	if (!is_path &&
		m->tokenizer != KELPIE__CONTROL__V1__TOKENIZER_SOURCE__TOKENIZER_SOURCE_ENGINE) {
		return refuse(r, i, KP_UNIMPLEMENTED, "an unknown source of its tokenizer");
	}
	e->tokenizer = is_path ? KP_TOKENIZER_PATH : KP_TOKENIZER_ENGINE;
	if (e->tokenizer_path.n > PATH_BYTES ||
		is_path != kp_str_starts(e->tokenizer_path, KP_S("/"))) {
		return invalid(r, i, "the path of its tokenizer does not fit its source");
	}
	if (m->text_policy < 0 ||
		m->text_policy > KELPIE__CONTROL__V1__TEXT_POLICY__TEXT_POLICY_TRUSTED) {
		return refuse(r, i, KP_UNIMPLEMENTED, "an unknown policy for the text of clients");
	}
	e->text_policy = (enum kp_program_text_policy)m->text_policy;
	if (m->output_validation < 0 ||
		m->output_validation >
			KELPIE__CONTROL__V1__OUTPUT_VALIDATION__OUTPUT_VALIDATION_FAIL) {
		return refuse(r, i, KP_UNIMPLEMENTED, "an unknown validation of its answers");
	}
	e->validation = (enum kp_output_validation)m->output_validation;
	if (m->strict_schemas < 0 ||
		m->strict_schemas > KELPIE__CONTROL__V1__STRICT_SCHEMAS__STRICT_SCHEMAS_OPENAI) {
		return refuse(r, i, KP_UNIMPLEMENTED, "an unknown subset for strict schemas");
	}
	e->strict_schemas = (enum kp_strict_schemas)m->strict_schemas;
	if (e->chat_template.n > NAME_BYTES) {
		return invalid(r, i, "the name of its chat template is too long");
	}
	if (e->tool_parser.n > NAME_BYTES || e->reasoning_parser.n > NAME_BYTES) {
		return invalid(r, i, "the name of a parser is too long");
	}
	if (m->n_aliases > ALIASES_MAX) {
		return invalid(r, i, "too many aliases");
	}
	if (copy_strings(r, m->aliases, m->n_aliases, &e->aliases) < 0 ||
		claim_name(r, i, e, e->model) < 0) {
		return -1;
	}
	for (size_t k = 0; k < e->n_aliases; k++) {
		if (claim_name(r, i, e, e->aliases[k]) < 0) {
			return -1;
		}
	}
	r->p->n_engines++;
	return 0;
}

static int compare_engine(const void *key, const void *engine)
{
	return kp_str_cmp(*(const kp_str *)key, ((const struct kp_program_engine *)engine)->name);
}
static int compare_gateway(const void *key, const void *gateway)
{
	return kp_str_cmp(*(const kp_str *)key, ((const struct kp_program_gateway *)gateway)->id);
}
static int compare_index(const void *a, const void *b)
{
	const pb_endpoint *x = *(pb_endpoint *const *)a, *y = *(pb_endpoint *const *)b;
	int order = (x->index > y->index) - (x->index < y->index);
	return order ? order : strcmp(x->address, y->address);
}

static struct kp_program_engine *find_engine(struct reader *r, kp_str name)
{
	return r->p->n_engines ? bsearch(&name, r->engines, r->p->n_engines, sizeof(*r->engines),
					 compare_engine)
			       : NULL;
}
static const struct kp_program_gateway *find_gateway(struct reader *r, kp_str id)
{
	return r->p->n_gateways ? bsearch(&id, r->gateways, r->p->n_gateways, sizeof(*r->gateways),
					  compare_gateway)
				: NULL;
}

/* Counts it; its place in the engine's array follows when all are read. */
static int read_endpoint(struct reader *r, const struct kp_item *i, const pb_endpoint **ret)
{
	const pb_endpoint *m = unpack(r, i, &kelpie__control__v1__endpoint__descriptor);
	if (!m) {
		return -1;
	}
	kp_str engine = kp_str_c(m->engine), address = kp_str_c(m->address);
	if (i->key.n != engine.n + 1 + address.n || !kp_str_starts(i->key, engine) ||
		i->key.p[engine.n] != '/' || !kp_str_ends(i->key, address)) {
		return invalid(r, i, "engine and address are not the key");
	}
	if (!address_ok(m->address)) {
		return invalid(r, i, "the address does not parse");
	}
	struct kp_program_engine *e = find_engine(r, engine);
	if (!e) {
		return invalid(r, i, "its engine is not there");
	}
	if (*m->local && !address_ok(m->local)) {
		return invalid(r, i, "the local address does not parse");
	}
	if (!text_ok(kp_str_c(m->instance), NAME_BYTES)) {
		return invalid(r, i, "the instance is too long or not printable");
	}
	if (*m->owner && !find_gateway(r, kp_str_c(m->owner))) {
		return invalid(r, i, "its owner is not a gateway of the program");
	}
	e->n_endpoints++;
	*ret = m;
	return 0;
}

/* Endpoints of an engine are neighbours in the items: "default/a/..." has all that start with it. */
static int place_endpoints(struct reader *r, size_t n)
{
	for (size_t from = 0, to; from < n; from = to) {
		struct kp_program_engine *e =
			find_engine(r, kp_str_c(r->pb_endpoints[from]->engine));
		to = from + e->n_endpoints;
		qsort(r->pb_endpoints + from, e->n_endpoints, sizeof(*r->pb_endpoints),
			compare_index);
		e->endpoints = r->endpoints + from;
		for (size_t i = from; i < to; i++) {
			const pb_endpoint *m = r->pb_endpoints[i];
			if (i > from && m->index == r->pb_endpoints[i - 1]->index &&
				!(*m->instance && *r->pb_endpoints[i - 1]->instance)) {
				return kp_err_set(r->err, KP_INVALID_ARGUMENT,
					"read endpoint `%s/%s`: index %u is there twice", m->engine,
					m->address, m->index);
			}
			r->endpoints[i].address = kp_str_c(m->address);
			r->endpoints[i].local = kp_str_c(m->local);
			r->endpoints[i].instance = kp_str_c(m->instance);
			r->endpoints[i].owner =
				*m->owner ? find_gateway(r, kp_str_c(m->owner)) : NULL;
		}
	}
	return 0;
}

static int read_kind(
	struct reader *r, uint32_t kind, int (*read)(struct reader *r, const struct kp_item *i))
{
	size_t n;
	const struct kp_item *items = of_kind(r->items, kind, &n);
	for (size_t i = 0; i < n; i++) {
		if (read(r, &items[i]) < 0) {
			return -1;
		}
	}
	return 0;
}

static int read_items(struct reader *r)
{
	const struct kp_items *s = r->items;
	size_t n_pools, n_engines, n_endpoints, n_gateways, n_tool_servers;
	(void)of_kind(s, KP_ITEM_POOL, &n_pools);
	(void)of_kind(s, KP_ITEM_ENGINE, &n_engines);
	(void)of_kind(s, KP_ITEM_GATEWAY, &n_gateways);
	(void)of_kind(s, KP_ITEM_TOOL_SERVER, &n_tool_servers);
	const struct kp_item *endpoints = of_kind(s, KP_ITEM_ENDPOINT, &n_endpoints);
	if (s->n && s->p[0].kind == KP_ITEM_NONE) {
		return invalid(r, &s->p[0], "an item has no kind");
	}
	if (s->n && s->p[s->n - 1].kind > KP_ITEM_TOOL_SERVER) {
		return refuse(r, &s->p[s->n - 1], KP_UNIMPLEMENTED, "an unknown kind of item");
	}
	struct kp_arena *a = r->p->arena;
	r->pools = kp_arena_calloc(a, n_pools, sizeof(*r->pools));
	r->engines = kp_arena_calloc(a, n_engines, sizeof(*r->engines));
	r->gateways = kp_arena_calloc(a, n_gateways, sizeof(*r->gateways));
	r->tool_servers = kp_arena_calloc(a, n_tool_servers, sizeof(*r->tool_servers));
	r->endpoints = kp_arena_calloc(a, n_endpoints, sizeof(*r->endpoints));
	r->pb_endpoints = kp_arena_calloc(a, n_endpoints, sizeof(pb_endpoint *));
	if (!r->pools || !r->engines || !r->gateways || !r->tool_servers || !r->endpoints ||
		!r->pb_endpoints) {
		return kp_arena_full(r->err, "program");
	}
	r->p->pools = r->pools;
	r->p->engines = r->engines;
	r->p->gateways = r->gateways;
	r->p->tool_servers = r->tool_servers;
	if (read_kind(r, KP_ITEM_POOL, read_pool) < 0 ||
		read_kind(r, KP_ITEM_ENGINE, read_engine) < 0 ||
		read_kind(r, KP_ITEM_GATEWAY, read_gateway) < 0 ||
		read_kind(r, KP_ITEM_TOOL_SERVER, read_tool_server) < 0) {
		return -1;
	}
	for (size_t i = 0; i < n_endpoints; i++) {
		if (read_endpoint(r, &endpoints[i], &r->pb_endpoints[i]) < 0) {
			return -1;
		}
	}
	return place_endpoints(r, n_endpoints);
}

int kp_items_to_program(
	const struct kp_items *s, kp_str ns, struct kp_program **ret, struct kp_err *err)
{
	struct reader r = { .items = s, .ns = ns, .err = err };
	struct kp_arena *a = kp_arena_create(PROGRAM_BYTES);
	r.p = kp_arena_new(a, struct kp_program);
	r.p->arena = a;
	kp_map_init(&r.names);
	kp_map_init(&r.labels);
	int rc = read_items(&r);
	kp_map_fini(&r.names, NULL);
	kp_map_fini(&r.labels, NULL);
	if (rc < 0) {
		kp_program_destroy(r.p);
		return -1;
	}
	*ret = r.p;
	return 0;
}
