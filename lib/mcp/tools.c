/* DESIGN: pure functions over a list that list.c reads. Names are exposed one by one, without looking at other tools, so nothing that is added
   changes one. */
#include "mcp/tools.h"

#include "base/buf.h"
#include "base/map.h"

#include <stdio.h>

struct kp_mcp_tools *kp_mcp_tools_ref(const struct kp_mcp_tools *t)
{
	struct kp_mcp_tools *own = kp_unconst(t);
	kp_ref_get(&own->refs);
	return own;
}

void kp_mcp_tools_unref(const struct kp_mcp_tools *t)
{
	struct kp_mcp_tools *own = kp_unconst(t);
	if (own && kp_ref_put(&own->refs)) {
		kp_arena_destroy(own->arena); /* it lies in it */
	}
}

const struct kp_mcp_tool *kp_mcp_tools_find(const struct kp_mcp_tools *t, kp_str name)
{
	for (size_t i = 0; i < t->n; i++) {
		if (kp_str_eq(t->items[i].name, name)) {
			return &t->items[i];
		}
	}
	return NULL;
}

static bool is_name_byte(char c)
{
	char l = kp_lower(c);
	return (l >= 'a' && l <= 'z') || kp_is_digit(c) || c == '_' || c == '-';
}

void kp_mcp_expose(kp_str label, kp_str tool, char ret[KP_MCP_EXPOSED_MAX + 1])
{
	static const uint8_t key[16] = "kelpie tool name"; /* the same everywhere, always */
	enum { HASH = 9 };
	KP_AUTO(buf) struct kp_buf b;
	bool is_changed = false;
	kp_buf_init(&b, KP_MCP_LABEL_MAX + 2 + KP_MCP_TOOL_NAME_MAX);
	kp_buf_add(&b, kp_str_sub(label, 0, KP_MCP_LABEL_MAX));
	kp_buf_lit(&b, "__");
	kp_buf_add(&b, kp_str_sub(tool, 0, KP_MCP_TOOL_NAME_MAX));
	uint64_t hash = kp_siphash(b.p, b.n, key);
	for (size_t i = 0; i < b.n; i++) {
		if (!is_name_byte(b.p[i])) {
			b.p[i] = '_';
			is_changed = true;
		}
	}
	size_t n = KP_MIN(b.n, (size_t)KP_MCP_EXPOSED_MAX);
	if (is_changed || b.n > n) {
		n = KP_MIN(b.n, (size_t)KP_MCP_EXPOSED_MAX - HASH);
		snprintf(ret + n, HASH + 1, "_%08x", (unsigned)(hash & 0xffffffff));
	} else {
		ret[n] = '\0';
	}
	memcpy(ret, b.p, n);
}

int kp_mcp_label_check(kp_str label, struct kp_err *err)
{
	bool is_right = label.n > 0 && label.n <= KP_MCP_LABEL_MAX &&
			!kp_str_has(label, KP_S("__")) && label.p[label.n - 1] != '_';
	for (size_t i = 0; i < label.n && is_right; i++) {
		is_right = is_name_byte(label.p[i]);
	}
	if (!is_right) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"the label `%" KP_FMT
			"` is not 1 to %d of letters, digits, _ and -, without __ and _ at its end",
			KP_ARG(kp_str_sub(label, 0, KP_MCP_EXPOSED_MAX)), KP_MCP_LABEL_MAX);
	}
	return 0;
}

bool kp_mcp_filter_has(const struct kp_mcp_filter *f, const struct kp_mcp_tool *t)
{
	bool is_named = false;
	for (size_t i = 0; i < f->n_names && !is_named; i++) {
		is_named = kp_str_eq(f->names[i], t->name);
	}
	return (f->has_names || f->has_read_only) && (!f->has_names || is_named) &&
	       (!f->has_read_only || f->read_only == t->is_read_only);
}

bool kp_mcp_needs_approval(const struct kp_mcp_approval *a, const struct kp_mcp_tool *t)
{
	switch (a->rule) {
	case KP_MCP_APPROVAL_NEVER:
		return kp_mcp_filter_has(&a->always, t);
	case KP_MCP_APPROVAL_BY_TOOL:
		return kp_mcp_filter_has(&a->always, t) || !kp_mcp_filter_has(&a->never, t);
	case KP_MCP_APPROVAL_UNSET:
	case KP_MCP_APPROVAL_ALWAYS:
		break;
	}
	return true;
}
