/* The pure parts of gRPC over HTTP/2 (grpc/grpc: doc/PROTOCOL-HTTP2.md, doc/http-grpc-status-mapping.md): small codecs and tables, and the cutting of
   a byte stream into length-prefixed messages. No socket, no clock, no session; any thread. Used by the client (grpc_session.c) and the server (grpc_server.c). */
#ifndef KP_NET_GRPC_WIRE_H
#define KP_NET_GRPC_WIRE_H

#include "base/buf.h"

enum {
	KP_GRPC_PREFIX = 5,      /* flag byte and big-endian length in front of each message */
	KP_GRPC_TIMEOUT_MAX = 9, /* eight digits and a unit */
};

/* Value of grpc-timeout: at most eight digits and a unit, rounded up to it (never shorter than asked). Returns its length; ns <= 0 counts as 1. */
size_t kp_grpc_timeout(int64_t ns, char out[KP_GRPC_TIMEOUT_MAX]);

/* The way back, strictly: one to eight digits and a unit of HMSmun, nothing else. What does not fit is INT64_MAX / 2. */
bool kp_grpc_timeout_parse(kp_str value, int64_t *ret_ns);

/* grpc-message: bytes -> "%C3%A9"; printable ASCII but '%' stays. */
void kp_grpc_percent_encode(struct kp_buf *b, kp_str s);
/* grpc-message: "%C3%A9" -> bytes, then made valid UTF-8 (U+FFFD for what is not). A '%' without two hex digits stands for itself. */
void kp_grpc_percent_decode(struct kp_buf *b, kp_str s);

/* grpc-status as text; what is not 0..16 is UNKNOWN. */
enum kp_code kp_grpc_status(kp_str value);
/* The number to send for a code of ours: its own, or the nearest of gRPC's 0..16. */
unsigned kp_grpc_status_of(enum kp_code code);
/* For an answer that carries no grpc-status. */
enum kp_code kp_grpc_code_of_http(int http_status);
/* For RST_STREAM and GOAWAY; NO_ERROR counts as INTERNAL, since a call that ended well does not ask. */
enum kp_code kp_grpc_code_of_h2(uint32_t h2_error);

/* "application/grpc", alone or followed by '+' or ';'. */
bool kp_grpc_is_content_type(kp_str value);

/* Custom metadata that may be sent: name [0-9a-z_.-]+, no ':' in front, not starting with "grpc-", none of HTTP/2's own; value printable ASCII
   (a "-bin" name takes any bytes, sent as base64). INVALID_ARGUMENT names the header. */
int kp_grpc_metadata_check(kp_str name, kp_str value, struct kp_err *err) KP_MUST_USE;
static inline bool kp_grpc_is_binary(kp_str name)
{
	return kp_str_ends(name, KP_S("-bin"));
}

/* Base64 (RFC 4648 section 4) without padding, and back: padded or not. Decode gives false and leaves *b's length alone on anything else. */
void kp_grpc_base64(struct kp_buf *b, kp_str bytes);
bool kp_grpc_base64_decode(struct kp_buf *b, kp_str text);

/* Cuts the DATA bytes of one stream into messages. A message that lies whole in one piece is handed out where it lies; only what is cut is copied. */
struct kp_grpc_deframer {
	struct kp_buf in; /* not held: at most one incomplete message; held: everything since */
	size_t max_message; /* bytes without the prefix; longer is INTERNAL as soon as its prefix is there */
	bool is_held; /* nothing is handed out; set and cleared with the functions below */
};
/* Gets one message, valid during the call. false: stop at once, the deframer will not be used again (it must still be there when this returns). It may
   call kp_grpc_deframer_hold, nothing else. */
typedef bool (*kp_grpc_message_fn)(void *user, kp_str message);

/* max_held_bytes: what may arrive while held (the flow-control window). */
void kp_grpc_deframer_init(
	struct kp_grpc_deframer *d, size_t max_message_bytes, size_t max_held_bytes);
void kp_grpc_deframer_fini(struct kp_grpc_deframer *d);
/* -1: INTERNAL (message too long, or compressed: the server is wrong, not full) or RESOURCE_EXHAUSTED (memory); nothing more may be fed. */
int kp_grpc_deframer_feed(struct kp_grpc_deframer *d, kp_str bytes, kp_grpc_message_fn fn,
	void *user, struct kp_err *err) KP_MUST_USE;
void kp_grpc_deframer_hold(struct kp_grpc_deframer *d);
/* Hands out what was held back, until fn holds again. Errors as for feed. */
int kp_grpc_deframer_release(struct kp_grpc_deframer *d, kp_grpc_message_fn fn, void *user,
	struct kp_err *err) KP_MUST_USE;
/* Bytes kept that no message has been made of yet. */
static inline size_t kp_grpc_deframer_left(const struct kp_grpc_deframer *d)
{
	return d->in.n;
}

#endif
