/* The gateways that are known: those that have a stream, those that had one, and those that others'
   programs name. Plain data, no streams; the time is given. One thread.

   A gateway is kept KP_PLAN_GONE_NS after it was heard of last. One that only others name was heard of when
   the operator started: so an operator that starts anew makes the program that runs, before all of
   its gateways have come back. Of several such lists of a namespace the one of the newest program counts,
   for KP_GATEWAYS_KNOWN_MAX names, so that no namespace fills the table with names that nobody has.
   Who comes itself, when the table is full, takes the place of one that others only name. */
#ifndef OPERATOR_CONTROL_GATEWAYS_H
#define OPERATOR_CONTROL_GATEWAYS_H

#include "base/map.h"
#include "operator/control/hello.h"
#include "operator/plan/plan.h"

enum {
	KP_GATEWAYS_MAX = 10000,
	KP_GATEWAYS_KNOWN_MAX = 2000,     /* from others' programs, in a namespace */
	KP_REPORT_BYTES_MAX = 2 << 20,    /* kept of one gateway's report */
	KP_REPORTS_BYTES_MAX = 128 << 20, /* of all together */
};

struct kp_gateway_record {
	struct kp_arena *arena; /* what it said of itself */
	struct kp_program_gateway is;
	kp_str ns, admin, version;
	int64_t heard_ns; /* of it, last; its stream's owner sets it */
	bool is_connected, is_second_hand;
	int64_t since_wall_ns; /* that it is connected, or is not */
	int64_t acked_wall_ns; /* when it took a program last */
	struct kp_revision runs;
	/* Of the program it refused last, if it took none since. */
	kp_str nack_reason, nack_message;
	int64_t nack_wall_ns;
	struct kp_arena *nack_arena, *report_arena;
	struct kp_report report; /* its last */
	bool has_report;
	size_t n_left_out;   /* of those that its last hello named: there was no room */
	unsigned n_replaced; /* by a newer stream of the same id */
	uint64_t held_epoch; /* of the operator that programs it, higher than ours; 0: we do */
	bool was_silent;     /* when it was looked at last */
	void *stream;        /* its owner's; NULL: not connected */
};

struct kp_gateways {
	struct kp_map by_name; /* "namespace/id" */
	size_t report_bytes;
	int64_t started_ns, settled_ns;
	struct kp_map known; /* namespace -> struct kp_revision, of the list that counts */
};

void kp_gateways_init(struct kp_gateways *g, int64_t now_ns);
void kp_gateways_fini(struct kp_gateways *g);

/* A hello that was checked. *ret is connected; the gateways it knows are taken over. RESOURCE_EXHAUSTED:
 * there are too many. */
int kp_gateways_hello(struct kp_gateways *g, const struct kp_hello *h, int64_t now_ns,
	int64_t wall_ns, struct kp_gateway_record **ret, struct kp_err *err) KP_MUST_USE;
/* Its stream is gone. One that was draining has left: it gives way to others at once. */
void kp_gateway_lost(struct kp_gateway_record *r, int64_t now_ns, int64_t wall_ns);
/* Keeps a copy. false: it is larger than what is kept, only its numbers are. */
bool kp_gateways_report(
	struct kp_gateways *g, struct kp_gateway_record *r, const struct kp_report *report);
bool kp_report_same(const struct kp_report *a, const struct kp_report *b);
/* nack NULL: it took a program. */
void kp_gateway_answered(struct kp_gateway_record *r, const struct kp_nack *nack, int64_t wall_ns);

/* To be called once a second or more often, and before planning: forgets who is gone. A time in which it
 * was not called is nobody's silence: this process did not run. Returns how many were forgotten. */
size_t kp_gateways_settle(struct kp_gateways *g, int64_t now_ns);
bool kp_gateway_is_silent(const struct kp_gateway_record *r, int64_t now_ns);
/* NULL: not known. */
struct kp_gateway_record *kp_gateways_find(const struct kp_gateways *g, kp_str ns, kp_str id);
/* For the plan: an array of the caller's (kp_mem_free), in no order, that borrows from the records. */
struct kp_plan_gateway *kp_gateways_list(const struct kp_gateways *g, size_t *ret_n);

#endif
