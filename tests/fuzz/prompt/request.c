/* Fuzz target: messages, or tools, as a client sends them. Reading succeeds or fails with a place; what was read is read again as the same. */
#include "base/base64.h"
#include "base/mem.h"
#include "prompt/media_url.h"
#include "prompt/messages.h"
#include "prompt/tools.h"

enum { MEMORY = 64 << 20 };
typedef int read_fn(struct kp_json *j, struct kp_turn *turn, struct kp_err *err);

static void check_url(kp_str s)
{
	struct kp_media_url url;
	struct kp_err err = KP_ERR_INIT;
	if (kp_media_url_read(s, &url, &err)) {
		KP_BUG_ON(err.code != KP_INVALID_ARGUMENT);
		return;
	}
	uint8_t *bytes = kp_xmalloc(url.max_bytes + 1);
	ptrdiff_t n = url.source == KP_MEDIA_DATA ? kp_base64_decode(url.base64, bytes) : -1;
	KP_BUG_ON(n > (ptrdiff_t)url.max_bytes);
	kp_mem_free(bytes);
}

/* As JSON text in out; false: refused. */
static bool read_as(read_fn *read, kp_str in, bool is_tools, struct kp_arena *a, struct kp_buf *out)
{
	struct kp_turn turn = { .arena = a };
	struct kp_err err = KP_ERR_INIT;
	struct kp_json j;
	kp_json_init(&j, in, a);
	if (read(&j, &turn, &err)) {
		KP_BUG_ON(err.code != KP_INVALID_ARGUMENT && err.code != KP_RESOURCE_EXHAUSTED);
		return false;
	}
	for (size_t i = 0; i < turn.chat.n_media; i++) {
		check_url(turn.chat.media[i].url);
	}
	if (turn.chat.n_media) {
		return false; /* an image is no longer what a client wrote */
	}
	const struct kp_jv *v = is_tools ? &turn.chat.tools : &turn.chat.messages;
	if (v->type != KP_JSON_ARRAY) {
		return false; /* no tools */
	}
	kp_jv_write(v, out);
	return true;
}

static void check(read_fn *read, kp_str in, bool is_tools)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(MEMORY);
	KP_AUTO(buf) struct kp_buf once;
	KP_AUTO(buf) struct kp_buf twice;
	kp_buf_init(&once, MEMORY);
	kp_buf_init(&twice, MEMORY);
	if (read_as(read, in, is_tools, a, &once)) {
		KP_BUG_ON(!read_as(read, kp_buf_str(&once), is_tools, a, &twice));
		KP_BUG_ON(!kp_str_eq(kp_buf_str(&once), kp_buf_str(&twice)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	kp_str in = kp_str_n(data, size);
	check(kp_messages_read, in, false);
	check(kp_tools_read, in, true);
	return 0;
}
