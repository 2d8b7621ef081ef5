/* Mailbox: how work crosses threads. Any thread posts a message, one thread (the owner) drains it.
   Messages are intrusive and belong to the mailbox from kp_mailbox_post until they are handed to
   the receiver, in order. Wake-ups coalesce: `wake` is called (from the posting thread, outside the
   lock) only when the box was empty. */
#ifndef KP_BASE_MAILBOX_H
#define KP_BASE_MAILBOX_H

#include "base/list.h"

struct kp_msg {
	struct kp_list link;             /* zero before posting */
	void (*run)(struct kp_msg *msg); /* on the owner's thread; owns msg from here on */
};

struct kp_mailbox;

struct kp_mailbox *kp_mailbox_create(void (*wake)(void *), void *wake_arg);
/* Undelivered messages are run (so that nothing leaks) on the calling thread. Only after every
   poster has ended: a post touches the box until it returns. */
void kp_mailbox_destroy(struct kp_mailbox *box);
void kp_mailbox_post(struct kp_mailbox *box, struct kp_msg *msg);
/* Runs what was there when it was called; returns how many. Owner's thread only. */
size_t kp_mailbox_drain(struct kp_mailbox *box);

#endif
