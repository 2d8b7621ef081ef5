/* What a server sends: an event stream, fed whole and in cuts, each event a message; of results the list of tools and the text for a model are made. */
#include "base/utf8.h"
#include "mcp/message.h"
#include "mcp/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_result(const struct kp_jv *result)
{
	KP_AUTO(buf) struct kp_buf text;
	struct kp_mcp_tools *tools = kp_mcp_tools_begin();
	struct kp_mcp_text t = { 0 };
	struct kp_err err;
	kp_str cursor;
	kp_buf_init(&text, 4096);
	if (kp_mcp_tools_page(tools, result, &cursor, &err) == 0) {
		char exposed[KP_MCP_EXPOSED_MAX + 1];
		for (size_t i = 0; i < tools->n; i++) {
			kp_mcp_expose(KP_S("label"), tools->items[i].name, exposed);
			KP_BUG_ON(strlen(exposed) > KP_MCP_EXPOSED_MAX);
			KP_BUG_ON(tools->items[i].input_schema.p[0] != '{');
		}
	}
	if (kp_mcp_result_text(result, 100, &text, &t, &err) == 0) {
		KP_BUG_ON(!kp_utf8_ok(kp_buf_str(&text)));
		KP_BUG_ON(text.n > 200 || (!t.is_cut && text.n > 100));
	}
	kp_mcp_tools_unref(tools);
}

static int on_event(void *ctx, kp_str data, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf clean;
	struct kp_buf *seen = ctx;
	struct kp_arena *arena = kp_arena_create(KP_MCP_MESSAGE_ARENA);
	const struct kp_mcp_message *m;
	size_t n;
	(void)err;
	kp_buf_addc(seen, '|');
	kp_buf_add(seen, data);
	kp_buf_init(&clean, 3 << 20);
	kp_mcp_clean(data, &clean);
	KP_BUG_ON(!kp_utf8_ok(kp_buf_str(&clean)));
	struct kp_err ignored;
	if (kp_mcp_messages_read(kp_buf_str(&clean), arena, &m, &n, &ignored) == 0) {
		for (size_t i = 0; i < n; i++) {
			(void)!kp_mcp_message_is_of(&m[i], 1);
			if (m[i].kind == KP_MCP_MESSAGE_RESULT) {
				take_result(m[i].result);
			}
		}
	}
	kp_arena_destroy(arena);
	return 0;
}

static void run(kp_str bytes, size_t piece, struct kp_buf *seen)
{
	struct kp_sse s;
	struct kp_err err;
	int rc = 0;
	kp_sse_init(&s, 1 << 20, on_event, seen);
	while (bytes.n && rc == 0) {
		rc = kp_sse_feed(&s, kp_str_sub(bytes, 0, piece), &err);
		bytes = kp_str_skip(bytes, piece);
	}
	kp_sse_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_buf whole, cut;
	kp_buf_init(&whole, 4 << 20);
	kp_buf_init(&cut, 4 << 20);
	if (size > 1 && size < 1 << 16) {
		kp_str bytes = kp_str_n(data + 1, size - 1);
		run(bytes, bytes.n, &whole);
		run(bytes, data[0] % 17u + 1, &cut);
		KP_BUG_ON(!kp_str_eq(kp_buf_str(&whole), kp_buf_str(&cut)));
	}
	kp_buf_fini(&whole);
	kp_buf_fini(&cut);
	return 0;
}
