/* DESIGN: a message is read whole into an arena; everything else borrows from it. */
#include "mcp/message.h"

#include "base/utf8.h"

static int hex4(const char *p)
{
	int v = 0;
	for (int i = 0; i < 4; i++) {
		char c = kp_lower(p[i]);
		int d = kp_is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (d < 0) {
			return -1;
		}
		v = v * 16 + d;
	}
	return v;
}

/* The unit that an escape at p[i] writes; -1: there is none. */
static int unit_at(const char *p, size_t n, size_t i)
{
	return i + 6 <= n && p[i] == '\\' && p[i + 1] == 'u' ? hex4(p + i + 2) : -1;
}

static bool is_high(int unit)
{
	return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low(int unit)
{
	return unit >= 0xdc00 && unit <= 0xdfff;
}

void kp_mcp_clean(kp_str text, struct kp_buf *ret)
{
	size_t from = ret->n;
	if (kp_utf8_ok(text)) {
		kp_buf_add(ret, text);
	} else {
		kp_utf8_add_lossy(ret, text);
	}
	if (ret->failed) {
		return;
	}
	char *p = ret->p;
	for (size_t i = from; i < ret->n;) {
		if (p[i] != '\\') {
			const char *next = memchr(p + i, '\\', ret->n - i);
			i = next ? (size_t)(next - p) : ret->n;
			continue;
		}
		int unit = unit_at(p, ret->n, i);
		if (is_high(unit) && is_low(unit_at(p, ret->n, i + 6))) {
			i += 12;
		} else if (is_high(unit) || is_low(unit)) {
			memcpy(p + i + 2, "fffd", 4);
			i += 6;
		} else {
			i += 2; /* also of an escaped backslash */
		}
	}
}

static bool read_one(const struct kp_jv *v, struct kp_mcp_message *m)
{
	const struct kp_jv *id = kp_jv_get(v, KP_S("id")), *error = kp_jv_get(v, KP_S("error"));
	*m = (struct kp_mcp_message){ .method = kp_jv_str(v, KP_S("method")),
		.params = kp_jv_get(v, KP_S("params")),
		.result = kp_jv_get(v, KP_S("result")) };
	if (kp_jv_is(id, KP_JSON_STRING) || kp_jv_is(id, KP_JSON_NUMBER)) {
		m->id = id->s;
		m->is_id_string = id->type == KP_JSON_STRING;
	}
	if (!kp_jv_is(v, KP_JSON_OBJECT)) {
		return false;
	}
	if (m->method.n) {
		m->kind = m->id.n ? KP_MCP_MESSAGE_REQUEST : KP_MCP_MESSAGE_NOTIFICATION;
	} else if (kp_jv_is(error, KP_JSON_OBJECT)) {
		const struct kp_jv *code = kp_jv_get(error, KP_S("code"));
		m->kind = KP_MCP_MESSAGE_ERROR;
		m->message = kp_jv_str(error, KP_S("message"));
		if (kp_jv_is(code, KP_JSON_NUMBER)) {
			(void)!kp_str_i64(code->s, INT32_MIN, INT32_MAX, &m->code);
		}
	} else if (m->result && m->id.n) {
		m->kind = KP_MCP_MESSAGE_RESULT;
	}
	return m->kind != KP_MCP_MESSAGE_UNSET;
}

int kp_mcp_messages_read(kp_str text, struct kp_arena *a, const struct kp_mcp_message **ret,
	size_t *ret_n, struct kp_err *err)
{
	struct kp_json j;
	struct kp_jv *v = kp_arena_new(a, struct kp_jv);
	kp_json_init(&j, text, a);
	if (kp_jv_read(&j, KP_MCP_NODES_MAX, v, err) || kp_json_end(&j, err)) {
		err->code = err->code == KP_INVALID_ARGUMENT ? KP_DATA_LOSS : err->code;
		err->param[0] = '\0';
		return kp_err_wrap(err, "read the server's message");
	}
	bool is_batch = v->type == KP_JSON_ARRAY;
	size_t n = is_batch ? v->n : 1;
	struct kp_mcp_message *m = kp_arena_calloc(a, n, sizeof(*m));
	if (!m && n) {
		return kp_arena_full(err, "messages");
	}
	for (size_t i = 0; i < n; i++) {
		if (!read_one(is_batch ? &v->items[i] : v, &m[i])) {
			return kp_err_set(
				err, KP_DATA_LOSS, "read the server's message: it is no JSON-RPC");
		}
	}
	*ret = m;
	*ret_n = n;
	return 0;
}

bool kp_mcp_message_is_of(const struct kp_mcp_message *m, uint64_t id)
{
	uint64_t got;
	return (m->kind == KP_MCP_MESSAGE_RESULT || m->kind == KP_MCP_MESSAGE_ERROR) &&
	       kp_str_u64(m->id, UINT64_MAX, &got) && got == id;
}
