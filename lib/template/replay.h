/* What renders remember of one message, so that a later one need not run a template's loop body for it again: the text that came out of it, and what it depended on
   besides the message (rounds.h says how). One kp_tpl_memory belongs to the VALUE of one message, as an element of the variable `messages`: whoever gives the same memory to
   two renders says that these elements are equal, their origins too. The values may lie elsewhere and go away after the render; the memory owns copies of
   all it keeps. Renders with memory give the same text and origins as without.

   Any number of threads may render with the same memory at the same time; what is kept is published once and never changed. It must outlive the renders that it was
   given to. Limits: 8 rounds and 1 MiB for a memory, whatever the number of templates; a round beyond that is not kept. */
#ifndef KP_TEMPLATE_REPLAY_H
#define KP_TEMPLATE_REPLAY_H

#include "base/macros.h"

#include <stddef.h>
#include <stdint.h>

struct kp_tpl_memory;
struct kp_tpl_memory *kp_tpl_memory_create(void);
void kp_tpl_memory_destroy(struct kp_tpl_memory *m);
/* Of all it keeps now, itself included. Only grows. */
size_t kp_tpl_memory_bytes(const struct kp_tpl_memory *m);

/* Before renders with these memories: brings what will be read of them near, which lies in many places and would be waited for one by one. */
void kp_tpl_memory_prefetch(struct kp_tpl_memory *const *m, size_t n);

/* Where a message's text lies in the prompt. The same `kept`, not 0, of the same memory is the same text with the same origins, in any render. */
struct kp_tpl_rendered {
	uint32_t kept;
	bool replayed; /* it was kept before this render */
	bool left_out; /* and is not in the text, since the caller expected it there */
	uint32_t start, end;
};

#endif
