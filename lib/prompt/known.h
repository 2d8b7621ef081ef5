/* Messages that were read before. A chat's turn brings all the messages of the turn before; those are found by their text in the prompt cache's table, and taken as they were read then,
   values and all, so that only what follows is read.

   What is known is a beginning of the list, up to a message's end, and its text is compared byte by byte. Who shares: requests with one model (as the client wrote it), tenant and salt. Kept are
   messages that hang on nothing but their text: those in front of the first one with an image or a `function_call`.

   Memory: the prompt cache's. Any thread; a turn is one thread's at a time. */
#ifndef KP_PROMPT_KNOWN_H
#define KP_PROMPT_KNOWN_H

#include "base/err.h"
#include "core/turn.h"

/* Reads turn->chat.messages, and its media, from the array's text (brackets included) as kp_messages_read does, with what turn->cache (not NULL) knows; model, tenant and salt are set. -1: that
   failed, for a reason that kp_messages_read says better; the turn is to be read without this. What was found is held until the turn's arena ends. */
int kp_known_read(kp_str array, struct kp_turn *turn) KP_MUST_USE;
/* How many of the turn's messages were known. */
uint32_t kp_known_count(const struct kp_turn *turn);
/* Keeps the turn's messages, once it has become a prompt. The array's text must still be there. */
void kp_known_keep(struct kp_turn *turn);

#endif
