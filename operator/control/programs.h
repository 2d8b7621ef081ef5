/* The programs that gateways are sent: for each namespace the one in force, those before it that a delta
   may start from, and each message in bytes, made once for all gateways that need it. One thread. */
#ifndef OPERATOR_CONTROL_PROGRAMS_H
#define OPERATOR_CONTROL_PROGRAMS_H

#include "base/map.h"
#include "operator/control/sender.h"
#include "operator/plan/plan.h"
#include "rpc/rpc.h"

enum {
	KP_PROGRAMS_KEPT = 32,             /* of a namespace, at most */
	KP_PROGRAMS_KEPT_BYTES = 32 << 20, /* together */
};

/* A message in bytes, for all that need it. */
struct kp_encoded {
	struct kp_rpc_shared *bytes; /* NULL: not made yet */
	size_t n;
};
struct kp_base {
	struct kp_items *items;
	struct kp_encoded delta; /* from here to the program in force */
	size_t n_gateways;       /* that run it; counted by control/counts.h */
};
struct kp_ns_program {
	kp_str name;
	struct kp_items *items; /* in force */
	struct kp_revision revision;
	int64_t since_ns, since_wall_ns;
	struct kp_base bases[KP_PROGRAMS_KEPT]; /* what was in force before, the newest first */
	size_t n_bases;
	struct kp_encoded full, notice;
	/* What control/counts.h counts: gateways that are there, those of them that run it, and those that run the same under
	 * whatever number; and whether that was all of them once. */
	size_t n_gateways, n_current, n_same;
	bool is_everywhere;
};
struct kp_programs {
	uint64_t epoch, n; /* n: of the last program */
	struct kp_map by_namespace;
};

void kp_programs_init(struct kp_programs *p, uint64_t epoch);
void kp_programs_fini(struct kp_programs *p);
/* NULL: there is no program. Valid until the next update. */
struct kp_ns_program *kp_programs_find(const struct kp_programs *p, kp_str ns);
/* Takes over what the plan says. A program whose content is as before keeps its number. Returns how many
 * are new or gone. */
size_t kp_programs_update(
	struct kp_programs *p, const struct kp_plan *plan, int64_t now_ns, int64_t wall_ns);
/* All programs get new numbers, of this higher epoch. */
void kp_programs_raise(struct kp_programs *p, uint64_t epoch, int64_t now_ns, int64_t wall_ns);

/* A delta from this content is possible. */
bool kp_ns_program_has_base(const struct kp_ns_program *p, const struct kp_revision *base);
/* The message: borrows from the program, its arrays are the arena's. as is not NOTHING; base: what the
 * gateway runs, known here if as is DELTA. */
int kp_ns_program_compose(const struct kp_ns_program *p, enum kp_send as,
	const struct kp_revision *base, struct kp_arena *arena, struct kp_program_message *ret,
	struct kp_err *err) KP_MUST_USE;
/* The same in bytes, kept for the next that needs it, borrowed until the next update. RESOURCE_EXHAUSTED:
 * larger than a message may be. */
int kp_ns_program_encode(struct kp_ns_program *p, enum kp_send as, const struct kp_revision *base,
	const struct kp_encoded **ret, struct kp_err *err) KP_MUST_USE;

#endif
