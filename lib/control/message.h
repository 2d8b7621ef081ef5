/* The messages of the control protocol (proto/kelpie/control/v1, docs/control.md) as structs. Decoding
   checks limits and shape, and its errors name the field: RESOURCE_EXHAUSTED over a limit, else
   INVALID_ARGUMENT. Pure; the strings of a decoded message lie in the caller's arena. */
#ifndef KP_CONTROL_MESSAGE_H
#define KP_CONTROL_MESSAGE_H

#include "control/items.h"

#define KP_CONTROL_METHOD "/kelpie.control.v1.Control/Connect"
/* In a standby's status, when it knows who leads: between these two stands the leader's address. */
#define KP_CONTROL_LEADER     "is a standby; the leader is `"
#define KP_CONTROL_LEADER_END "`"
enum {
	KP_CONTROL_PROTOCOL = 1,
	KP_CONTROL_TO_OPERATOR_MAX = 8 << 20, /* bytes of one message */
	KP_CONTROL_TO_GATEWAY_MAX = 64 << 20,
	KP_CONTROL_ARENA_BYTES = 256 << 20, /* enough for any message that is decoded */
};

struct kp_revision {
	bool is_set; /* false: none, all else is 0 */
	uint64_t epoch, n;
	uint8_t hash[KP_HASH_BYTES];
};
enum { KP_REVISION_TEXT_MAX = 64 };
/* "1764445926123.7 (3f2a9c01d4e5)", "none". */
const char *kp_revision_text(const struct kp_revision *r, char buf[KP_REVISION_TEXT_MAX]);

/* --- gateway to operator --- */

struct kp_hello {
	uint32_t protocol;
	const kp_str *features;
	size_t n_features;
	kp_str id, ns, peer, node, admin, version;
	const kp_str *own; /* "default/demo", "default/demo/0" */
	size_t n_own;
	struct kp_revision revision; /* what it runs */
	uint64_t epoch_seen, epoch_age_ms;
	const struct kp_program_gateway *known; /* the gateways its program names */
	size_t n_known;
};
/* Why a program is refused: kp_nack.reason, and kp_err.reason of what refuses it. */
#define KP_NACK_STALE_EPOCH    "stale_epoch"
#define KP_NACK_UNKNOWN_BASE   "unknown_base"
#define KP_NACK_HASH_MISMATCH  "hash_mismatch"
#define KP_NACK_NOT_UNDERSTOOD "not_understood"
#define KP_NACK_INVALID        "invalid"
struct kp_nack {
	struct kp_revision revision;
	kp_str reason, message;
};
struct kp_endpoint_report {
	kp_str engine, address, state, reason, model;
	uint32_t in_flight, running, waiting;
	float kv_usage;
	bool tokenizer_loaded;  /* with its chat template */
	kp_str tokenizer_error; /* its files are wrong, "" */
};
struct kp_report {
	const struct kp_endpoint_report *endpoints;
	size_t n_endpoints;
	bool draining;
	uint32_t in_flight;
	uint64_t requests, errors, tokens;
	kp_str state_error;
};
struct kp_gateway_message {
	enum kp_gateway_message_type {
		KP_GATEWAY_NONE = 0, /* a body that is not known here: to be passed over */
		KP_GATEWAY_HELLO,
		KP_GATEWAY_ACK,
		KP_GATEWAY_NACK,
		KP_GATEWAY_REPORT,
	} type;
	union {
		struct kp_hello hello;
		struct kp_revision ack;
		struct kp_nack nack;
		struct kp_report report;
	};
};

/* --- operator to gateway --- */

struct kp_welcome {
	uint32_t protocol;
	const kp_str *features;
	size_t n_features;
	kp_str id;
	uint64_t epoch;
	uint32_t report_interval_ms;
};
struct kp_program_message {
	struct kp_revision revision;
	struct kp_revision base;     /* not set: the whole content, `delta` has no removes */
	struct kp_items_delta delta; /* the items not checked, keys may be there twice */
};
struct kp_operator_message {
	enum kp_operator_message_type {
		KP_OPERATOR_NONE = 0, /* as above */
		KP_OPERATOR_WELCOME,
		KP_OPERATOR_PROGRAM,
	} type;
	union {
		struct kp_welcome welcome;
		struct kp_program_message program;
	};
};

/* Appended to `out`, whose maximum is the limit: kp_buf_finish says whether it fitted. */
void kp_control_write_to_operator(struct kp_buf *out, const struct kp_gateway_message *m);
void kp_control_write_to_gateway(struct kp_buf *out, const struct kp_operator_message *m);
/* The value of a gateway's item, which is also an element of hello.known. */
void kp_control_write_gateway(struct kp_buf *out, const struct kp_program_gateway *g);

int kp_control_read_to_operator(kp_str bytes, struct kp_arena *arena,
	struct kp_gateway_message *ret, struct kp_err *err) KP_MUST_USE;
int kp_control_read_to_gateway(kp_str bytes, struct kp_arena *arena,
	struct kp_operator_message *ret, struct kp_err *err) KP_MUST_USE;

#endif
