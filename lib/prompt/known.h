/* Messages that were read before. A chat's turn brings all the messages of the turn before; those are found by their text in the prompt cache's table, and taken as they were read then,
   values and all, so that only what follows is read.

   What is known is a beginning of the list, up to a message's end, and its text is compared byte by byte. Who shares: requests with one model (as the client wrote it), tenant and salt. Kept are
   messages that hang on nothing but their text: those in front of the first one with an image or a `function_call`.

   Memory: the prompt cache's. Any thread; a turn is one thread's at a time. */
#ifndef KP_PROMPT_KNOWN_H
#define KP_PROMPT_KNOWN_H

#include "base/err.h"
#include "core/turn.h"
#include "prompt/cache.h"
#include "template/adapt.h"

/* Reads turn->chat.messages, and its media, from the array's text (brackets included) as kp_messages_read does, with what turn->cache (not NULL) knows; model, tenant and salt are set. -1: that
   failed, for a reason that kp_messages_read says better; the turn is to be read without this. What was found is held until
   kp_known_let_go, or else until the turn's arena ends. */
int kp_known_read(kp_str array, struct kp_turn *turn) KP_MUST_USE;
/* How many of the turn's messages were known. */
uint32_t kp_known_count(const struct kp_turn *turn);
/* As kp_template_adapt_messages, of turn->chat.messages: those that are known in that shape stay as they are kept. */
int kp_known_adapt(const struct kp_turn *turn, const struct kp_template_shape *shape,
	struct kp_jv *ret, struct kp_err *err) KP_MUST_USE;
/* For the render of these messages, as adapted, by a template of the model's: what renders remember of them. A template is given them in one shape, always. Once a turn. */
void kp_known_remember(const struct kp_turn *turn, struct kp_template_opts *opts);
/* Of the text that was rendered so: what is known of it, for kp_prompt_cache_encode_by. Its bytes are complete only behind that. */
void kp_known_hint(
	const struct kp_turn *turn, const struct kp_text *text, struct kp_prompt_hint *ret);
/* Keeps the turn's messages, once it has become a prompt (NULL: which one is not known). The array's text must still be there. */
void kp_known_keep(const struct kp_turn *turn, const struct kp_prompt_link *prompt);
/* Once the prompt is made: the turn has no messages any more, and holds nothing of the cache's. A stream may last for long, and a few bytes may have found much. */
void kp_known_let_go(struct kp_turn *turn);

#endif
