/* DESIGN: a map of text and time. What is too old is looked over when somebody asks, and taken out when the map is full. */
#include "operator/refusals.h"

struct refusal {
	int64_t at_ns;
	char *why;
};

static void destroy(void *p)
{
	struct refusal *one = p;
	if (one) {
		kp_mem_free(one->why);
		kp_mem_free(one);
	}
}

void kp_refusals_fini(struct kp_refusals *r)
{
	kp_map_fini(&r->by_who, destroy);
}

static void make_room(struct kp_refusals *r)
{
	const struct kp_map_entry *e, *oldest = NULL;
	for (size_t pos = 0;
		r->by_who.n >= KP_REFUSALS_MAX && (e = kp_map_next(&r->by_who, &pos));) {
		const struct refusal *one = e->value;
		if (!oldest || one->at_ns < ((const struct refusal *)oldest->value)->at_ns) {
			oldest = e;
		}
	}
	if (oldest) {
		destroy(kp_map_del(&r->by_who, oldest->key));
	}
}

void kp_refusals_note(struct kp_refusals *r, kp_str uid, kp_str address, kp_str why, int64_t now_ns)
{
	kp_str who = uid.n ? uid : address;
	if (uid.n) { /* by its address it was not known */
		destroy(kp_map_del(&r->by_who, address));
	}
	destroy(kp_map_del(&r->by_who, who));
	if (who.n && why.n) {
		make_room(r);
		struct refusal *one = kp_new(struct refusal);
		*one = (struct refusal){ .at_ns = now_ns, .why = kp_str_z(why) };
		kp_map_set(&r->by_who, who, one);
	}
}

kp_str kp_refusals_find(const struct kp_refusals *r, kp_str uid, kp_str address, int64_t now_ns)
{
	const struct refusal *one = kp_map_get(&r->by_who, uid);
	one = one ? one : kp_map_get(&r->by_who, address);
	return one && now_ns - one->at_ns < KP_REFUSAL_NS ? kp_str_c(one->why) : KP_S("");
}
