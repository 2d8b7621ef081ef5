/* DESIGN: three facts decide: what it runs, what is on its way, what it refused. A program that was
   refused is not sent again under the same number, but for a delta that it could not follow, which is
   followed by the whole. */
#include "operator/control/sender.h"

const char *kp_send_name(enum kp_send s)
{
	static const char *const names[] = { "nothing", "notice", "delta", "full" };
	return names[s];
}

bool kp_revision_same_content(const struct kp_revision *a, const struct kp_revision *b)
{
	return a->is_set && b->is_set && memcmp(a->hash, b->hash, sizeof(a->hash)) == 0;
}

bool kp_revision_same(const struct kp_revision *a, const struct kp_revision *b)
{
	return kp_revision_same_content(a, b) && a->epoch == b->epoch && a->n == b->n;
}

enum kp_send kp_sender_next(
	const struct kp_sender *s, const struct kp_revision *target, bool has_base)
{
	if (!target->is_set || s->sent.is_set || kp_revision_same(&s->runs, target) ||
		kp_revision_same(&s->refused, target)) {
		return KP_SEND_NOTHING;
	}
	if (s->needs_full || !s->runs.is_set) {
		return KP_SEND_FULL;
	}
	if (kp_revision_same_content(&s->runs, target)) {
		return KP_SEND_NOTICE;
	}
	return has_base ? KP_SEND_DELTA : KP_SEND_FULL;
}

void kp_sender_sent(struct kp_sender *s, const struct kp_revision *revision, enum kp_send as)
{
	s->sent = *revision;
	s->sent_as = as;
}

bool kp_sender_acked(struct kp_sender *s, const struct kp_revision *revision)
{
	if (!kp_revision_same(&s->sent, revision)) {
		return false;
	}
	s->runs = s->sent;
	s->sent = s->refused = (struct kp_revision){ 0 };
	s->needs_full = false;
	return true;
}

bool kp_sender_nacked(struct kp_sender *s, const struct kp_nack *nack)
{
	if (!kp_revision_same(&s->sent, &nack->revision)) {
		return false;
	}
	bool lost_base = kp_str_eq(nack->reason, KP_S(KP_NACK_UNKNOWN_BASE)) ||
			 kp_str_eq(nack->reason, KP_S(KP_NACK_HASH_MISMATCH));
	if (lost_base && s->sent_as != KP_SEND_FULL) {
		s->needs_full = true;
	} else {
		s->refused = s->sent;
	}
	s->sent = (struct kp_revision){ 0 };
	return true;
}
