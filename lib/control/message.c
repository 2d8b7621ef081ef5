/* DESIGN: written with lib/wire's writer in the order of the fields' numbers, without default values;
   read with protobuf-c into the arena, behind kp_wire_check. Each body is checked in one function, so
   that a limit is next to the field it is for. */
#include "control/fields.h"
#include "control/message.h"
#include "wire/unpack.h"
#include "kelpie/control/v1/control.pb-c.h"

#include <stdio.h>

typedef Kelpie__Control__V1__GatewayMessage pb_gateway_message;
typedef Kelpie__Control__V1__OperatorMessage pb_operator_message;
typedef Kelpie__Control__V1__Revision pb_revision;
typedef Kelpie__Control__V1__Hello pb_hello;
typedef Kelpie__Control__V1__Report pb_report;
typedef Kelpie__Control__V1__Program pb_program;
typedef Kelpie__Control__V1__Gateway pb_gateway;

enum {
	TEXT_MAX = 512,     /* ids, names, addresses */
	MESSAGE_MAX = 4096, /* text for people */
	FEATURES_MAX = 256,
	OWN_MAX = 1024,
	KNOWN_MAX = 10000,
	REPORT_MAX = 10000, /* endpoints */
};

const char *kp_revision_text(const struct kp_revision *r, char buf[KP_REVISION_TEXT_MAX])
{
	char hash[KP_HASH_TEXT_MAX];
	if (r->is_set) {
		snprintf(buf, KP_REVISION_TEXT_MAX, "%llu.%llu (%s)", (unsigned long long)r->epoch,
			(unsigned long long)r->n, kp_hash_text(r->hash, 12, hash));
	} else {
		snprintf(buf, KP_REVISION_TEXT_MAX, "none");
	}
	return buf;
}

/* --- writing --- */

static void add_revision(struct kp_buf *b, uint32_t number, const struct kp_revision *r)
{
	if (r->is_set) {
		size_t at = kp_wire_begin(b, number);
		kp_field_u64(b, 1, r->epoch);
		kp_field_u64(b, 2, r->n);
		kp_wire_add_str(b, 3, kp_str_n(r->hash, KP_HASH_BYTES));
		kp_wire_end(b, at);
	}
}

void kp_control_write_gateway(struct kp_buf *b, const struct kp_program_gateway *g)
{
	kp_field_str(b, 1, g->id);
	kp_field_str(b, 2, g->peer);
	kp_field_str(b, 3, g->node);
	kp_field_strs(b, 4, g->own, g->n_own);
}

static void write_hello(struct kp_buf *b, const struct kp_hello *h)
{
	kp_field_u64(b, 1, h->protocol);
	kp_field_strs(b, 2, h->features, h->n_features);
	kp_field_str(b, 3, h->id);
	kp_field_str(b, 4, h->ns);
	kp_field_strs(b, 5, h->own, h->n_own);
	kp_field_str(b, 6, h->peer);
	kp_field_str(b, 7, h->node);
	kp_field_str(b, 8, h->admin);
	kp_field_str(b, 9, h->version);
	add_revision(b, 10, &h->revision);
	kp_field_u64(b, 11, h->epoch_seen);
	kp_field_u64(b, 12, h->epoch_age_ms);
	for (size_t i = 0; i < h->n_known; i++) {
		size_t at = kp_wire_begin(b, 13);
		kp_control_write_gateway(b, &h->known[i]);
		kp_wire_end(b, at);
	}
}

static void write_endpoint_report(struct kp_buf *b, const struct kp_endpoint_report *e)
{
	kp_field_str(b, 1, e->engine);
	kp_field_str(b, 2, e->address);
	kp_field_str(b, 3, e->state);
	kp_field_str(b, 4, e->reason);
	kp_field_u64(b, 5, e->in_flight);
	kp_field_u64(b, 6, e->running);
	kp_field_u64(b, 7, e->waiting);
	if (e->kv_usage != 0) {
		kp_wire_add_float(b, 8, e->kv_usage);
	}
	kp_field_str(b, 9, e->model);
	kp_field_u64(b, 10, e->tokenizer_loaded);
	kp_field_str(b, 11, e->tokenizer_error);
}

static void write_report(struct kp_buf *b, const struct kp_report *r)
{
	for (size_t i = 0; i < r->n_endpoints; i++) {
		size_t at = kp_wire_begin(b, 1);
		write_endpoint_report(b, &r->endpoints[i]);
		kp_wire_end(b, at);
	}
	kp_field_u64(b, 2, r->draining);
	kp_field_u64(b, 3, r->in_flight);
	kp_field_u64(b, 4, r->requests);
	kp_field_u64(b, 5, r->errors);
	kp_field_u64(b, 6, r->tokens);
	kp_field_str(b, 7, r->state_error);
}

void kp_control_write_to_operator(struct kp_buf *b, const struct kp_gateway_message *m)
{
	KP_BUG_ON(m->type == KP_GATEWAY_NONE);
	size_t at = kp_wire_begin(b, (uint32_t)m->type); /* the numbers of the oneof */
	switch (m->type) {
	case KP_GATEWAY_NONE:
		break;
	case KP_GATEWAY_HELLO:
		write_hello(b, &m->hello);
		break;
	case KP_GATEWAY_ACK:
		add_revision(b, 1, &m->ack);
		break;
	case KP_GATEWAY_NACK:
		add_revision(b, 1, &m->nack.revision);
		kp_field_str(b, 2, m->nack.reason);
		kp_field_str(b, 3, m->nack.message);
		break;
	case KP_GATEWAY_REPORT:
		write_report(b, &m->report);
		break;
	}
	kp_wire_end(b, at);
}

static void write_welcome(struct kp_buf *b, const struct kp_welcome *w)
{
	kp_field_u64(b, 1, w->protocol);
	kp_field_strs(b, 2, w->features, w->n_features);
	kp_field_str(b, 3, w->id);
	kp_field_u64(b, 4, w->epoch);
	kp_field_u64(b, 5, w->report_interval_ms);
}

static void write_key(struct kp_buf *b, uint32_t number, const struct kp_item *item)
{
	size_t at = kp_wire_begin(b, number);
	kp_field_u64(b, 1, item->kind);
	kp_field_str(b, 2, item->key);
	kp_wire_end(b, at);
}

static void write_program(struct kp_buf *b, const struct kp_program_message *p)
{
	add_revision(b, 1, &p->revision);
	add_revision(b, 2, &p->base);
	for (size_t i = 0; i < p->delta.n_upserts; i++) {
		size_t at = kp_wire_begin(b, 3);
		write_key(b, 1, &p->delta.upserts[i]);
		kp_field_str(b, 2, p->delta.upserts[i].value);
		kp_wire_end(b, at);
	}
	for (size_t i = 0; i < p->delta.n_removes; i++) {
		write_key(b, 4, &p->delta.removes[i]);
	}
}

void kp_control_write_to_gateway(struct kp_buf *b, const struct kp_operator_message *m)
{
	KP_BUG_ON(m->type == KP_OPERATOR_NONE);
	size_t at = kp_wire_begin(b, (uint32_t)m->type);
	if (m->type == KP_OPERATOR_WELCOME) {
		write_welcome(b, &m->welcome);
	} else {
		write_program(b, &m->program);
	}
	kp_wire_end(b, at);
}

/* --- reading --- */

struct reader {
	struct kp_arena *arena;
	struct kp_err *err;
};

static int bad(struct reader *r, const char *field, const char *what)
{
	return kp_err_set(r->err, KP_INVALID_ARGUMENT, "read `%s`: %s", field, what);
}

static int text(struct reader *r, const char *field, const char *z, size_t max, kp_str *ret)
{
	kp_str s = kp_str_c(z);
	if (s.n > max) {
		return kp_err_set(r->err, KP_RESOURCE_EXHAUSTED,
			"read `%s`: %zu bytes, at most %zu allowed", field, s.n, max);
	}
	*ret = s;
	return 0;
}

static int count(struct reader *r, const char *field, size_t n, size_t max)
{
	return n <= max ? 0
			: kp_err_set(r->err, KP_RESOURCE_EXHAUSTED,
				  "read `%s`: %zu of them, at most %zu allowed", field, n, max);
}

static int texts(struct reader *r, const char *field, char **z, size_t n, size_t max,
	const kp_str **ret, size_t *ret_n)
{
	if (count(r, field, n, max) < 0) {
		return -1;
	}
	kp_str *s = kp_arena_calloc(r->arena, n, sizeof(*s));
	if (!s) {
		return kp_arena_full(r->err, field);
	}
	for (size_t i = 0; i < n; i++) {
		if (text(r, field, z[i], TEXT_MAX, &s[i]) < 0) {
			return -1;
		}
	}
	*ret = s;
	*ret_n = n;
	return 0;
}

static int revision(
	struct reader *r, const char *field, const pb_revision *m, struct kp_revision *ret)
{
	*ret = (struct kp_revision){ .is_set = m != NULL };
	if (!m) {
		return 0;
	}
	if (m->hash.len != KP_HASH_BYTES) {
		return bad(r, field, "the hash must have 32 bytes");
	}
	ret->epoch = m->epoch;
	ret->n = m->n;
	memcpy(ret->hash, m->hash.data, KP_HASH_BYTES);
	return 0;
}
static int must_revision(
	struct reader *r, const char *field, const pb_revision *m, struct kp_revision *ret)
{
	return m ? revision(r, field, m, ret) : bad(r, field, "must be set");
}

static int read_gateway(struct reader *r, const pb_gateway *m, struct kp_program_gateway *ret)
{
	return text(r, "hello.known.id", m->id, TEXT_MAX, &ret->id) < 0 ||
			       text(r, "hello.known.peer", m->peer, TEXT_MAX, &ret->peer) < 0 ||
			       text(r, "hello.known.node", m->node, TEXT_MAX, &ret->node) < 0 ||
			       texts(r, "hello.known.own", m->own, m->n_own, OWN_MAX, &ret->own,
				       &ret->n_own) < 0
		       ? -1
		       : 0;
}

static int read_hello(struct reader *r, const pb_hello *m, struct kp_hello *ret)
{
	struct kp_hello h = { .protocol = m->protocol,
		.epoch_seen = m->epoch_seen,
		.epoch_age_ms = m->epoch_age_ms,
		.n_known = m->n_known };
	if (texts(r, "hello.features", m->features, m->n_features, FEATURES_MAX, &h.features,
		    &h.n_features) < 0 ||
		text(r, "hello.id", m->id, TEXT_MAX, &h.id) < 0 ||
		text(r, "hello.namespace", m->namespace_, TEXT_MAX, &h.ns) < 0 ||
		texts(r, "hello.own", m->own, m->n_own, OWN_MAX, &h.own, &h.n_own) < 0 ||
		text(r, "hello.peer", m->peer, TEXT_MAX, &h.peer) < 0 ||
		text(r, "hello.node", m->node, TEXT_MAX, &h.node) < 0 ||
		text(r, "hello.admin", m->admin, TEXT_MAX, &h.admin) < 0 ||
		text(r, "hello.version", m->version, TEXT_MAX, &h.version) < 0 ||
		revision(r, "hello.revision", m->revision, &h.revision) < 0 ||
		count(r, "hello.known", m->n_known, KNOWN_MAX) < 0) {
		return -1;
	}
	if (h.id.n == 0 || h.ns.n == 0) {
		return bad(r, h.id.n ? "hello.namespace" : "hello.id", "must be set");
	}
	struct kp_program_gateway *known = kp_arena_calloc(r->arena, m->n_known, sizeof(*known));
	if (!known) {
		return kp_arena_full(r->err, "hello.known");
	}
	for (size_t i = 0; i < m->n_known; i++) {
		if (read_gateway(r, m->known[i], &known[i]) < 0) {
			return -1;
		}
	}
	h.known = known;
	*ret = h;
	return 0;
}

static int read_report(struct reader *r, const pb_report *m, struct kp_report *ret)
{
	struct kp_report report = { .n_endpoints = m->n_endpoints,
		.draining = m->draining,
		.in_flight = m->in_flight,
		.requests = m->requests,
		.errors = m->errors,
		.tokens = m->tokens };
	if (text(r, "report.state_error", m->state_error, MESSAGE_MAX, &report.state_error) < 0 ||
		count(r, "report.endpoints", m->n_endpoints, REPORT_MAX) < 0) {
		return -1;
	}
	struct kp_endpoint_report *e = kp_arena_calloc(r->arena, m->n_endpoints, sizeof(*e));
	if (!e) {
		return kp_arena_full(r->err, "report.endpoints");
	}
	for (size_t i = 0; i < m->n_endpoints; i++) {
		const Kelpie__Control__V1__EndpointReport *x = m->endpoints[i];
		e[i].in_flight = x->in_flight;
		e[i].running = x->running;
		e[i].waiting = x->waiting;
		e[i].tokenizer_loaded = x->tokenizer_loaded;
		/* What is not a share is not one: NaN fails both. */
		e[i].kv_usage = x->kv_usage >= 0 && x->kv_usage <= 1 ? x->kv_usage : 0;
		if (text(r, "report.endpoints.engine", x->engine, TEXT_MAX, &e[i].engine) < 0 ||
			text(r, "report.endpoints.address", x->address, TEXT_MAX, &e[i].address) <
				0 ||
			text(r, "report.endpoints.state", x->state, TEXT_MAX, &e[i].state) < 0 ||
			text(r, "report.endpoints.reason", x->reason, MESSAGE_MAX, &e[i].reason) <
				0 ||
			text(r, "report.endpoints.model", x->model, TEXT_MAX, &e[i].model) < 0 ||
			text(r, "report.endpoints.tokenizer_error", x->tokenizer_error, MESSAGE_MAX,
				&e[i].tokenizer_error) < 0) {
			return -1;
		}
	}
	report.endpoints = e;
	*ret = report;
	return 0;
}

static int read_to_operator(
	struct reader *r, const pb_gateway_message *m, struct kp_gateway_message *ret)
{
	switch (m->body_case) {
	case KELPIE__CONTROL__V1__GATEWAY_MESSAGE__BODY_HELLO:
		ret->type = KP_GATEWAY_HELLO;
		return read_hello(r, m->hello, &ret->hello);
	case KELPIE__CONTROL__V1__GATEWAY_MESSAGE__BODY_ACK:
		ret->type = KP_GATEWAY_ACK;
		return must_revision(r, "ack.revision", m->ack->revision, &ret->ack);
	case KELPIE__CONTROL__V1__GATEWAY_MESSAGE__BODY_NACK:
		ret->type = KP_GATEWAY_NACK;
		return must_revision(r, "nack.revision", m->nack->revision, &ret->nack.revision) <
					       0 ||
				       text(r, "nack.reason", m->nack->reason, TEXT_MAX,
					       &ret->nack.reason) < 0 ||
				       text(r, "nack.message", m->nack->message, MESSAGE_MAX,
					       &ret->nack.message) < 0
			       ? -1
			       : 0;
	case KELPIE__CONTROL__V1__GATEWAY_MESSAGE__BODY_REPORT:
		ret->type = KP_GATEWAY_REPORT;
		return read_report(r, m->report, &ret->report);
	case KELPIE__CONTROL__V1__GATEWAY_MESSAGE__BODY__NOT_SET:
	case _KELPIE__CONTROL__V1__GATEWAY_MESSAGE__BODY__CASE_IS_INT_SIZE:
		break;
	}
	ret->type = KP_GATEWAY_NONE;
	return 0;
}

static int read_welcome(
	struct reader *r, const Kelpie__Control__V1__Welcome *m, struct kp_welcome *ret)
{
	*ret = (struct kp_welcome){ .protocol = m->protocol,
		.epoch = m->epoch,
		.report_interval_ms = m->report_interval_ms };
	return texts(r, "welcome.features", m->features, m->n_features, FEATURES_MAX,
		       &ret->features, &ret->n_features) < 0 ||
			       text(r, "welcome.id", m->id, TEXT_MAX, &ret->id) < 0
		       ? -1
		       : 0;
}

static int read_key(struct reader *r, const char *field, const Kelpie__Control__V1__ItemKey *m,
	struct kp_item *ret)
{
	if (!m) {
		return bad(r, field, "must be set");
	}
	ret->kind = (uint32_t)m->kind;
	return text(r, field, m->key, KP_ITEM_KEY_MAX, &ret->key);
}

static int read_program(struct reader *r, const pb_program *m, struct kp_program_message *ret)
{
	struct kp_program_message p = { .delta = { .n_upserts = m->n_upsert,
						.n_removes = m->n_remove } };
	if (must_revision(r, "program.revision", m->revision, &p.revision) < 0 ||
		revision(r, "program.base_revision", m->base_revision, &p.base) < 0 ||
		count(r, "program.upsert", m->n_upsert, KP_ITEMS_MAX) < 0 ||
		count(r, "program.remove", m->n_remove, KP_ITEMS_MAX) < 0) {
		return -1;
	}
	if (!p.base.is_set && m->n_remove) {
		return bad(r, "program.remove", "there is no base to remove from");
	}
	struct kp_item *upserts = kp_arena_calloc(r->arena, m->n_upsert, sizeof(*upserts));
	struct kp_item *removes = kp_arena_calloc(r->arena, m->n_remove, sizeof(*removes));
	if (!upserts || !removes) {
		return kp_arena_full(r->err, "program");
	}
	for (size_t i = 0; i < m->n_upsert; i++) {
		const Kelpie__Control__V1__Item *item = m->upsert[i];
		if (read_key(r, "program.upsert.key", item->key, &upserts[i]) < 0) {
			return -1;
		}
		upserts[i].value = kp_str_n(item->value.data, item->value.len);
	}
	for (size_t i = 0; i < m->n_remove; i++) {
		if (read_key(r, "program.remove.key", m->remove[i], &removes[i]) < 0) {
			return -1;
		}
	}
	p.delta.upserts = upserts;
	p.delta.removes = removes;
	*ret = p;
	return 0;
}

/* What is not our message is the other side's fault, not ours. */
static void *unpack(struct reader *r, const ProtobufCMessageDescriptor *d, kp_str bytes,
	const struct kp_wire_limits *limits)
{
	void *m = kp_wire_unpack(d, bytes, limits, r->arena, r->err);
	if (!m && r->err->code == KP_INTERNAL) {
		r->err->code = KP_INVALID_ARGUMENT;
	}
	return m;
}

int kp_control_read_to_operator(
	kp_str bytes, struct kp_arena *arena, struct kp_gateway_message *ret, struct kp_err *err)
{
	static const struct kp_wire_limits limits = {
		.max_bytes = KP_CONTROL_TO_OPERATOR_MAX, .max_fields = 1 << 18, .max_depth = 4
	};
	struct reader r = { arena, err };
	struct kp_gateway_message out = { .type = KP_GATEWAY_NONE };
	const pb_gateway_message *m =
		unpack(&r, &kelpie__control__v1__gateway_message__descriptor, bytes, &limits);
	if (!m || read_to_operator(&r, m, &out) < 0) {
		return -1;
	}
	*ret = out;
	return 0;
}

int kp_control_read_to_gateway(
	kp_str bytes, struct kp_arena *arena, struct kp_operator_message *ret, struct kp_err *err)
{
	static const struct kp_wire_limits limits = {
		.max_bytes = KP_CONTROL_TO_GATEWAY_MAX, .max_fields = 1 << 20, .max_depth = 4
	};
	struct reader r = { arena, err };
	struct kp_operator_message out = { .type = KP_OPERATOR_NONE };
	const pb_operator_message *m =
		unpack(&r, &kelpie__control__v1__operator_message__descriptor, bytes, &limits);
	int rc = m ? 0 : -1;
	if (m && m->body_case == KELPIE__CONTROL__V1__OPERATOR_MESSAGE__BODY_WELCOME) {
		out.type = KP_OPERATOR_WELCOME;
		rc = read_welcome(&r, m->welcome, &out.welcome);
	} else if (m && m->body_case == KELPIE__CONTROL__V1__OPERATOR_MESSAGE__BODY_PROGRAM) {
		out.type = KP_OPERATOR_PROGRAM;
		rc = read_program(&r, m->program, &out.program);
	}
	if (rc == 0) {
		*ret = out;
	}
	return rc;
}
