/* DESIGN: checks in the order in which they cost: who sends it, what it builds on, what it gives, what
   that means. A delta's base is known by its hash alone: equal content is equal, whoever numbered it. */
#include "control/follower.h"

void kp_follower_init(struct kp_follower *f, kp_str ns)
{
	*f = (struct kp_follower){ .ns = ns };
}

void kp_follower_fini(struct kp_follower *f)
{
	kp_items_unref(f->items);
	*f = (struct kp_follower){ 0 };
}

void kp_follower_restore(struct kp_follower *f, const struct kp_revision *revision,
	struct kp_items *items, int64_t now_ns)
{
	kp_items_unref(f->items);
	f->items = items;
	f->revision = *revision;
	f->epoch_seen = revision->epoch;
	f->heard_ns = now_ns;
}

void kp_follower_connected(struct kp_follower *f, uint64_t epoch, int64_t now_ns)
{
	kp_follower_disconnected(f, now_ns);
	f->is_connected = true;
	f->epoch_connected = epoch;
	f->epoch_seen = KP_MAX(f->epoch_seen, epoch);
}

void kp_follower_disconnected(struct kp_follower *f, int64_t now_ns)
{
	if (f->is_connected && f->epoch_connected == f->epoch_seen) {
		f->heard_ns = now_ns;
	}
	f->is_connected = false;
}

static int64_t silence_ns(const struct kp_follower *f, int64_t now_ns)
{
	bool is_here = f->is_connected && f->epoch_connected == f->epoch_seen;
	return is_here || !f->epoch_seen ? 0 : KP_MAX(now_ns - f->heard_ns, (int64_t)0);
}

uint64_t kp_follower_age_ms(const struct kp_follower *f, int64_t now_ns)
{
	return (uint64_t)(silence_ns(f, now_ns) / KP_NS_PER_MS);
}

static int refuse(struct kp_err *err, const char *reason)
{
	err->reason = reason;
	return -1;
}

static int check_epoch(const struct kp_follower *f, const struct kp_program_message *m,
	int64_t now_ns, struct kp_err *err)
{
	int64_t silence = silence_ns(f, now_ns);
	if (m->revision.epoch >= f->epoch_seen || silence >= KP_FOLLOWER_SILENCE_NS) {
		return 0;
	}
	kp_err_set(err, KP_FAILED_PRECONDITION,
		"take program `%llu.%llu`: its epoch is lower than %llu, whose operator was heard of %lld s ago",
		(unsigned long long)m->revision.epoch, (unsigned long long)m->revision.n,
		(unsigned long long)f->epoch_seen, (long long)(silence / KP_NS_PER_S));
	return refuse(err, KP_NACK_STALE_EPOCH);
}

/* Within an epoch the number grows; the same again is fine (an operator that does not know what its
   gateway has), with the same content. */
static int check_number(
	const struct kp_follower *f, const struct kp_program_message *m, struct kp_err *err)
{
	const struct kp_revision *have = &f->revision, *new = &m->revision;
	if (!have->is_set || new->epoch != have->epoch || new->n > have->n ||
		(new->n == have->n &&memcmp(new->hash, have->hash, KP_HASH_BYTES) == 0)) {
		return 0;
	}
	kp_err_set(err, KP_INVALID_ARGUMENT,
		"take program `%llu.%llu`: it does not follow %llu.%llu",
		(unsigned long long)new->epoch, (unsigned long long)new->n,
		(unsigned long long)have->epoch, (unsigned long long)have->n);
	return refuse(err, KP_NACK_INVALID);
}

static int build(const struct kp_follower *f, const struct kp_program_message *m,
	struct kp_items **ret, struct kp_err *err)
{
	char base[KP_REVISION_TEXT_MAX], have[KP_REVISION_TEXT_MAX], want[KP_HASH_TEXT_MAX],
		got[KP_HASH_TEXT_MAX];
	struct kp_items *items;
	if (m->base.is_set && (!f->items || memcmp(m->base.hash, f->items->hash, KP_HASH_BYTES))) {
		kp_err_set(err, KP_FAILED_PRECONDITION,
			"take program `%llu.%llu`: it changes %s, but %s is what runs",
			(unsigned long long)m->revision.epoch, (unsigned long long)m->revision.n,
			kp_revision_text(&m->base, base), kp_revision_text(&f->revision, have));
		return refuse(err, KP_NACK_UNKNOWN_BASE);
	}
	int r = m->base.is_set ? kp_items_apply(f->items, &m->delta, &items, err)
			       : kp_items_create(m->delta.upserts, m->delta.n_upserts, &items, err);
	if (r < 0) {
		return refuse(err, KP_NACK_INVALID);
	}
	if (memcmp(items->hash, m->revision.hash, KP_HASH_BYTES) != 0) {
		kp_err_set(err, KP_DATA_LOSS,
			"take program `%llu.%llu`: its content has the hash %s, not %s",
			(unsigned long long)m->revision.epoch, (unsigned long long)m->revision.n,
			kp_hash_text(items->hash, 12, got),
			kp_hash_text(m->revision.hash, 12, want));
		kp_items_unref(items);
		return refuse(err, KP_NACK_HASH_MISMATCH);
	}
	*ret = items;
	return 0;
}

int kp_follower_check(const struct kp_follower *f, const struct kp_program_message *m,
	int64_t now_ns, struct kp_offer *ret, struct kp_err *err)
{
	struct kp_offer o = { .revision = m->revision };
	KP_AUTO(items) struct kp_items *items = NULL;
	if (check_epoch(f, m, now_ns, err) < 0 || build(f, m, &items, err) < 0 ||
		check_number(f, m, err) < 0) {
		return -1;
	}
	o.is_unchanged = f->items && kp_items_same(items, f->items);
	if (!o.is_unchanged) {
		if (kp_items_to_program(items, f->ns, &o.program, err) < 0) {
			return refuse(err, err->code == KP_UNIMPLEMENTED ? KP_NACK_NOT_UNDERSTOOD
									 : KP_NACK_INVALID);
		}
		o.items = kp_steal(items);
	}
	*ret = o;
	return 0;
}

void kp_follower_commit(struct kp_follower *f, struct kp_offer *o)
{
	if (!o->is_unchanged) {
		kp_items_unref(f->items);
		f->items = kp_steal(o->items);
	}
	f->revision = o->revision;
	f->epoch_seen = o->revision.epoch;
}

void kp_offer_fini(struct kp_offer *o)
{
	kp_items_unref(o->items);
	kp_program_destroy(o->program);
	*o = (struct kp_offer){ 0 };
}
