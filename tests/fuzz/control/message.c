/* Fuzz target: whatever the other side of the control stream may send. The first byte says which side it
   is: 0 an operator's, 1 a gateway's. What an operator sends also goes through a follower, with the
   hashes made right, so that the content is reached. */
#include "control/follower.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_reason(const struct kp_err *err)
{
	static const char *const reasons[] = { KP_NACK_STALE_EPOCH, KP_NACK_UNKNOWN_BASE,
		KP_NACK_HASH_MISMATCH, KP_NACK_NOT_UNDERSTOOD, KP_NACK_INVALID };
	bool is_known = false;
	for (size_t i = 0; i < KP_LEN(reasons); i++) {
		is_known |= err->reason && strcmp(err->reason, reasons[i]) == 0;
	}
	KP_BUG_ON(!is_known);
}

/* What it turned into says the same again. */
static void check_program(const struct kp_program *p)
{
	struct kp_items *items = NULL;
	struct kp_program *again = NULL;
	struct kp_err err = KP_ERR_INIT;
	KP_BUG_ON(kp_items_from_program(p, &items, &err) < 0);
	KP_BUG_ON(kp_items_to_program(items, KP_S(""), &again, &err) < 0);
	KP_BUG_ON(again->n_pools != p->n_pools || again->n_engines != p->n_engines ||
		  again->n_gateways != p->n_gateways);
	kp_program_destroy(again);
	kp_items_unref(items);
}

static void follow(struct kp_program_message *m)
{
	struct kp_follower f;
	struct kp_items *base = NULL, *right = NULL;
	struct kp_err err = KP_ERR_INIT;
	struct kp_offer o = { .is_unchanged = false };
	kp_follower_init(&f, KP_S(""));
	if (m->base.is_set) { /* it fits to what it removes */
		if (kp_items_create(m->delta.removes, m->delta.n_removes, &base, &err) < 0) {
			return;
		}
		struct kp_revision r = { .is_set = true, .epoch = 1, .n = 1 };
		memcpy(r.hash, base->hash, KP_HASH_BYTES);
		memcpy(m->base.hash, base->hash, KP_HASH_BYTES);
		kp_follower_restore(&f, &r, base, 0);
	}
	int r = m->base.is_set
			? kp_items_apply(f.items, &m->delta, &right, &err)
			: kp_items_create(m->delta.upserts, m->delta.n_upserts, &right, &err);
	if (r == 0) {
		memcpy(m->revision.hash, right->hash, KP_HASH_BYTES);
		kp_items_unref(right);
	}
	if (kp_follower_check(&f, m, 0, &o, &err) < 0) {
		check_reason(&err);
	} else {
		if (o.program) {
			check_program(o.program);
		}
		kp_follower_commit(&f, &o);
		kp_offer_fini(&o);
	}
	kp_follower_fini(&f);
}

static void from_operator(kp_str bytes, struct kp_arena *arena)
{
	struct kp_operator_message m, again;
	struct kp_err err = KP_ERR_INIT;
	if (kp_control_read_to_gateway(bytes, arena, &m, &err) < 0) {
		KP_BUG_ON(err.code == KP_OK);
		return;
	}
	if (m.type == KP_OPERATOR_NONE) {
		return;
	}
	struct kp_buf b;
	kp_buf_init(&b, KP_CONTROL_TO_GATEWAY_MAX);
	kp_control_write_to_gateway(&b, &m);
	KP_BUG_ON(kp_control_read_to_gateway(kp_buf_str(&b), arena, &again, &err) < 0);
	KP_BUG_ON(again.type != m.type);
	kp_buf_fini(&b);
	if (m.type == KP_OPERATOR_PROGRAM) {
		follow(&m.program);
	}
}

static void from_gateway(kp_str bytes, struct kp_arena *arena)
{
	struct kp_gateway_message m, again;
	struct kp_err err = KP_ERR_INIT;
	if (kp_control_read_to_operator(bytes, arena, &m, &err) < 0) {
		KP_BUG_ON(err.code == KP_OK);
		return;
	}
	if (m.type != KP_GATEWAY_NONE) {
		struct kp_buf b;
		kp_buf_init(&b, KP_CONTROL_TO_OPERATOR_MAX);
		kp_control_write_to_operator(&b, &m);
		KP_BUG_ON(kp_control_read_to_operator(kp_buf_str(&b), arena, &again, &err) < 0);
		KP_BUG_ON(again.type != m.type);
		kp_buf_fini(&b);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0) {
		return 0;
	}
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(KP_CONTROL_ARENA_BYTES);
	kp_str bytes = kp_str_n(data + 1, size - 1);
	if (data[0] % 2 == 0) {
		from_operator(bytes, arena);
	} else {
		from_gateway(bytes, arena);
	}
	return 0;
}
