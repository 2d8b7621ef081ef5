/* What is sent to one gateway next: the programs' side of its stream, without the stream. At most one
   program is on its way to a gateway; while it is, newer ones replace each other, and the newest
   follows its answer. Pure. */
#ifndef OPERATOR_CONTROL_SENDER_H
#define OPERATOR_CONTROL_SENDER_H

#include "control/message.h"

enum kp_send {
	KP_SEND_NOTHING = 0,
	KP_SEND_NOTICE, /* the content it runs, under its new number: a delta without items */
	KP_SEND_DELTA,  /* from what it runs */
	KP_SEND_FULL,
};
const char *kp_send_name(enum kp_send s); /* "delta" */

struct kp_sender {
	struct kp_revision runs; /* what it runs, as it says itself */
	struct kp_revision sent; /* on its way; not set: none */
	enum kp_send sent_as;
	struct kp_revision refused; /* refused last, and nothing taken since */
	bool needs_full;            /* it could not follow from what it runs */
};

/* has_base: the items of what it runs are known here. */
enum kp_send kp_sender_next(
	const struct kp_sender *s, const struct kp_revision *target, bool has_base);
void kp_sender_sent(struct kp_sender *s, const struct kp_revision *revision, enum kp_send as);
/* false: it answers what was not sent; nothing changes. */
bool kp_sender_acked(struct kp_sender *s, const struct kp_revision *revision);
bool kp_sender_nacked(struct kp_sender *s, const struct kp_nack *nack);

bool kp_revision_same(const struct kp_revision *a, const struct kp_revision *b);
bool kp_revision_same_content(const struct kp_revision *a, const struct kp_revision *b);

#endif
