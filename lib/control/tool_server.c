/* DESIGN: whatever comes in is first a tool server that borrows, which is then copied or checked: one place knows all fields. */
#include "control/fields.h"
#include "control/tool_server.h"

#include "kelpie/control/v1/control.pb-c.h"
#include "wire/unpack.h"

enum { TEXT_MAX = 4096, NAMES_MAX = 256, HEADERS_MAX = 16, LABEL_MAX = 32, SECONDS_MAX = 86400 };
static const struct kp_wire_limits limits = {
	.max_bytes = 64 << 10, .max_fields = 4096, .max_depth = 3
};

static int copy_names(
	const kp_str *from, size_t n, struct kp_arena *a, const kp_str **ret, struct kp_err *err)
{
	kp_str *to = kp_arena_calloc(a, n, sizeof(*to));
	if (!to) {
		return kp_arena_full(err, "program");
	}
	for (size_t i = 0; i < n; i++) {
		if (kp_arena_dup(a, from[i], &to[i], err)) {
			return -1;
		}
	}
	*ret = to;
	return 0;
}

int kp_tool_server_copy(const struct kp_program_tool_server *from, struct kp_arena *a,
	struct kp_program_tool_server *ret, struct kp_err *err)
{
	struct kp_program_tool_server t = *from;
	struct kp_program_tool_header *headers =
		kp_arena_calloc(a, from->n_headers, sizeof(*headers));
	if (!headers) {
		return kp_arena_full(err, "program");
	}
	for (size_t i = 0; i < from->n_headers; i++) {
		const struct kp_program_tool_header *h = &from->headers[i];
		if (kp_arena_dup(a, h->name, &headers[i].name, err) ||
			kp_arena_dup(a, h->value, &headers[i].value, err) ||
			kp_arena_dup(a, h->secret, &headers[i].secret, err) ||
			kp_arena_dup(a, h->key, &headers[i].key, err)) {
			return -1;
		}
	}
	t.headers = headers;
	if (kp_arena_dup(a, from->name, &t.name, err) ||
		kp_arena_dup(a, from->label, &t.label, err) ||
		kp_arena_dup(a, from->url, &t.url, err) ||
		copy_names(from->forward, from->n_forward, a, &t.forward, err) ||
		copy_names(from->allowed, from->n_allowed, a, &t.allowed, err) ||
		copy_names(from->except, from->n_except, a, &t.except, err)) {
		return -1;
	}
	*ret = t;
	return 0;
}

int kp_tool_server_from_object(const struct kp_object *o, struct kp_arena *a,
	struct kp_program_tool_server *ret, struct kp_err *err)
{
	const struct kp_tool_server_spec *s = o->spec.tool_server;
	struct kp_program_tool_header *headers = kp_arena_calloc(a, s->n_headers, sizeof(*headers));
	if (!headers) {
		return kp_arena_full(err, "program");
	}
	for (size_t i = 0; i < s->n_headers; i++) {
		const struct kp_tool_server_header *h = &s->headers[i];
		headers[i].name = h->name;
		headers[i].value = h->value;
		headers[i].secret = h->secret_key_ref ? h->secret_key_ref->name : KP_STR_NULL;
		headers[i].key = h->secret_key_ref ? h->secret_key_ref->key : KP_STR_NULL;
	}
	const struct kp_program_tool_server t = {
		.name = kp_arena_printf(a, "%" KP_FMT "/%" KP_FMT, KP_ARG(o->meta.namespace_),
			KP_ARG(o->meta.name)),
		.label = s->label,
		.url = s->url,
		.is_private = s->network == KP_TOOL_SERVER_NETWORK_PRIVATE,
		.headers = headers,
		.n_headers = s->n_headers,
		.forward = s->forward_headers,
		.n_forward = s->n_forward_headers,
		.allowed = s->allowed_tools,
		.n_allowed = s->n_allowed_tools,
		.asks_never = s->approval.policy == KP_TOOL_SERVER_APPROVAL_POLICY_NEVER,
		.except = s->approval.except,
		.n_except = s->approval.n_except,
		.connect_s = (uint32_t)s->timeouts.connect_seconds,
		.list_s = (uint32_t)s->timeouts.list_seconds,
		.call_s = (uint32_t)s->timeouts.call_seconds,
		.call_total_s = (uint32_t)s->timeouts.call_total_seconds,
	};
	return kp_tool_server_copy(&t, a, ret, err);
}

/* --- bytes --- */

void kp_tool_server_write(struct kp_buf *b, const struct kp_program_tool_server *t)
{
	kp_field_str(b, 1, t->name);
	kp_field_str(b, 2, t->label);
	kp_field_str(b, 3, t->url);
	kp_field_u64(b, 4, t->is_private);
	for (size_t i = 0; i < t->n_headers; i++) {
		size_t at = kp_wire_begin(b, 5);
		kp_field_str(b, 1, t->headers[i].name);
		kp_field_str(b, 2, t->headers[i].value);
		kp_field_str(b, 3, t->headers[i].secret);
		kp_field_str(b, 4, t->headers[i].key);
		kp_wire_end(b, at);
	}
	kp_field_strs(b, 6, t->forward, t->n_forward);
	kp_field_strs(b, 7, t->allowed, t->n_allowed);
	kp_field_u64(b, 8, t->asks_never);
	kp_field_strs(b, 9, t->except, t->n_except);
	kp_field_u64(b, 10, t->connect_s);
	kp_field_u64(b, 11, t->list_s);
	kp_field_u64(b, 12, t->call_s);
	kp_field_u64(b, 13, t->call_total_s);
}

static bool is_text(const char *z, size_t max)
{
	size_t n = strlen(z);
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)z[i] < 0x20 || z[i] == 0x7f) {
			return false;
		}
	}
	return n <= max;
}

static bool are_names(char **names, size_t n)
{
	bool is_right = n <= NAMES_MAX;
	for (size_t i = 0; i < n && is_right; i++) {
		is_right = *names[i] && is_text(names[i], TEXT_MAX);
	}
	return is_right;
}

/* A name of a file, not of a way to one. */
static bool is_file(const char *z)
{
	return is_text(z, 253) && !strchr(z, '/') && strcmp(z, ".") != 0 && strcmp(z, "..") != 0;
}

static const char *wrong(const Kelpie__Control__V1__ToolServer *m)
{
	if (!is_text(m->name, TEXT_MAX) || !*m->label || !is_text(m->label, LABEL_MAX)) {
		return "its name or label is empty, too long or not printable";
	}
	if (!is_text(m->url, TEXT_MAX) ||
		(strncmp(m->url, "http://", 7) && strncmp(m->url, "https://", 8))) {
		return "its URL is none";
	}
	if (m->n_headers > HEADERS_MAX || !are_names(m->forward, m->n_forward) ||
		!are_names(m->allowed, m->n_allowed) || !are_names(m->except, m->n_except)) {
		return "it has too many names, or one that is too long or not printable";
	}
	for (size_t i = 0; i < m->n_headers; i++) {
		const Kelpie__Control__V1__ToolHeader *h = m->headers[i];
		if (!*h->name || !is_text(h->name, TEXT_MAX) || !is_text(h->value, TEXT_MAX) ||
			!is_file(h->secret) || !is_file(h->key) ||
			(*h->secret != '\0') != (*h->key != '\0')) {
			return "a header of it makes no sense";
		}
	}
	if (m->connect_s > SECONDS_MAX || m->list_s > SECONDS_MAX || m->call_s > SECONDS_MAX ||
		m->call_total_s > SECONDS_MAX) {
		return "it has a time of more than a day";
	}
	return NULL;
}

static int borrow_names(
	char **from, size_t n, struct kp_arena *a, const kp_str **ret, struct kp_err *err)
{
	kp_str *to = kp_arena_calloc(a, n, sizeof(*to));
	if (!to) {
		return kp_arena_full(err, "program");
	}
	for (size_t i = 0; i < n; i++) {
		to[i] = kp_str_c(from[i]);
	}
	*ret = to;
	return 0;
}

int kp_tool_server_read(
	kp_str value, struct kp_arena *a, struct kp_program_tool_server *ret, struct kp_err *err)
{
	const Kelpie__Control__V1__ToolServer *m = kp_wire_unpack(
		&kelpie__control__v1__tool_server__descriptor, value, &limits, a, err);
	if (!m) {
		err->code = err->code == KP_INTERNAL ? KP_INVALID_ARGUMENT : err->code;
		return -1;
	}
	const char *why = wrong(m);
	if (why) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "%s", why);
	}
	struct kp_program_tool_header *headers = kp_arena_calloc(a, m->n_headers, sizeof(*headers));
	if (!headers) {
		return kp_arena_full(err, "program");
	}
	for (size_t i = 0; i < m->n_headers; i++) {
		const Kelpie__Control__V1__ToolHeader *h = m->headers[i];
		headers[i] = (struct kp_program_tool_header){ kp_str_c(h->name), kp_str_c(h->value),
			kp_str_c(h->secret), kp_str_c(h->key) };
	}
	struct kp_program_tool_server t = { .name = kp_str_c(m->name),
		.label = kp_str_c(m->label),
		.url = kp_str_c(m->url),
		.is_private = m->is_private,
		.headers = headers,
		.n_headers = m->n_headers,
		.n_forward = m->n_forward,
		.n_allowed = m->n_allowed,
		.asks_never = m->asks_never,
		.n_except = m->n_except,
		.connect_s = m->connect_s,
		.list_s = m->list_s,
		.call_s = m->call_s,
		.call_total_s = m->call_total_s };
	if (borrow_names(m->forward, m->n_forward, a, &t.forward, err) ||
		borrow_names(m->allowed, m->n_allowed, a, &t.allowed, err) ||
		borrow_names(m->except, m->n_except, a, &t.except, err)) {
		return -1;
	}
	*ret = t;
	return 0;
}
