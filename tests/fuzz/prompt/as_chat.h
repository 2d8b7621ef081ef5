/* What another API's request becomes is what the readers of chats take, unchanged. */
#ifndef TESTS_FUZZ_PROMPT_AS_CHAT_H
#define TESTS_FUZZ_PROMPT_AS_CHAT_H

#include "prompt/messages.h"
#include "prompt/tools.h"

enum { MEMORY = 64 << 20 }; /* of a request's arena */

static inline void must_read_the_same(const struct kp_jv *v, bool is_tools, struct kp_arena *a)
{
	struct kp_turn turn = { .arena = a };
	struct kp_err err = KP_ERR_INIT;
	struct kp_json j;
	KP_AUTO(buf) struct kp_buf once;
	KP_AUTO(buf) struct kp_buf twice;
	kp_buf_init(&once, MEMORY);
	kp_buf_init(&twice, MEMORY);
	kp_jv_write(v, &once);
	kp_json_init(&j, kp_buf_str(&once), a);
	int r = is_tools ? kp_tools_read(&j, &turn, &err) : kp_messages_read(&j, &turn, &err);
	KP_BUG_ON(r && err.code != KP_RESOURCE_EXHAUSTED && v->n <= KP_MAX_MESSAGES);
	if (r == 0) {
		kp_jv_write(is_tools ? &turn.chat.tools : &turn.chat.messages, &twice);
		KP_BUG_ON(!kp_str_eq(kp_buf_str(&once), kp_buf_str(&twice)));
	}
}

#endif
