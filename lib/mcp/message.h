/* JSON-RPC 2.0 messages of MCP servers, and what is read out of them. Pure: bytes that nobody vouches for in, values in an arena out. */
#ifndef KP_MCP_MESSAGE_H
#define KP_MCP_MESSAGE_H

#include "json/value.h"
#include "mcp/tools.h"

enum {
	KP_MCP_NODES_MAX = 200000,       /* values in one message */
	KP_MCP_MESSAGE_ARENA = 32 << 20, /* bytes of memory for one */
	KP_MCP_ERROR_MAX = 4 << 10,      /* bytes of an error's text */
};

enum kp_mcp_message_kind {
	KP_MCP_MESSAGE_UNSET = 0,
	KP_MCP_MESSAGE_RESULT,
	KP_MCP_MESSAGE_ERROR,
	KP_MCP_MESSAGE_REQUEST,
	KP_MCP_MESSAGE_NOTIFICATION,
};
struct kp_mcp_message {
	enum kp_mcp_message_kind kind;
	kp_str id;         /* as written, a number or a string's inside; empty: null or none */
	bool is_id_string; /* it was in quotes */
	kp_str method;     /* REQUEST, NOTIFICATION */
	const struct kp_jv *params, *result;
	int64_t code;   /* ERROR */
	kp_str message; /* ERROR */
};

/* JSON text as servers write it made into JSON text: bytes that are no UTF-8 and escapes of half a character become U+FFFD. */
void kp_mcp_clean(kp_str text, struct kp_buf *ret);
/* One message, or several in an array. DATA_LOSS: no JSON, no JSON-RPC. Lies in the arena and in `text`. */
int kp_mcp_messages_read(kp_str text, struct kp_arena *a, const struct kp_mcp_message **ret,
	size_t *ret_n, struct kp_err *err) KP_MUST_USE;
bool kp_mcp_message_is_of(const struct kp_mcp_message *m, uint64_t id);

/* A page of tools/list into a list in the making, which begins with kp_mcp_tools_begin. *ret_cursor: of the next page, in `result`; empty: this was
   the last. DATA_LOSS, TOO_LARGE. */
struct kp_mcp_tools *kp_mcp_tools_begin(void);
int kp_mcp_tools_page(struct kp_mcp_tools *t, const struct kp_jv *result, kp_str *ret_cursor,
	struct kp_err *err) KP_MUST_USE;

/* A result of tools/call as text for a model: texts one under the other, what is no text as a word about it. At most max_bytes and a line that says
   what is missing. *ret_is_error: isError. DATA_LOSS: it is no result. */
struct kp_mcp_text {
	bool is_error, is_cut;
};
int kp_mcp_result_text(const struct kp_jv *result, size_t max_bytes, struct kp_buf *out,
	struct kp_mcp_text *ret, struct kp_err *err) KP_MUST_USE;
/* Text for a model: control characters but tab and line feed become U+FFFD (CR LF: LF). `s` is UTF-8. */
void kp_mcp_text_add(struct kp_buf *out, kp_str s);

#endif
