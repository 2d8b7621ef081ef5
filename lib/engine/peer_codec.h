/* Messages of kelpie.peer.v1 (proto/kelpie/peer/v1/peer.proto) as bytes, in both directions, and the
   text of its trailers. No sockets, no clock; every function is pure but for the memory it is given.

   All by hand: no allocation per field, none at all per message once the decoder has grown, which it
   does for ids, and for log-probabilities where they were asked for.

   Wrong bytes: INVALID_ARGUMENT in a request (of a gateway that forwards), INTERNAL in an answer (of
   an owner); over a limit: RESOURCE_EXHAUSTED in a request, INTERNAL in an answer; a request that asks
   for what this version does not know: UNIMPLEMENTED. Each names the field. Strings are UTF-8 without NUL. */
#ifndef KP_ENGINE_PEER_CODEC_H
#define KP_ENGINE_PEER_CODEC_H

#include "base/buf.h"
#include "core/engine.h"
#include "engine/peer_media.h"

enum {
	KP_PEER_MAX_PROMPT = 4 << 20, /* ids of a request */
	KP_PEER_MAX_IDS = 1 << 20,  /* ids, or positions with log-probabilities, of one response */
	KP_PEER_MAX_TOPS = 1 << 22, /* alternatives of one response */
	KP_PEER_MAX_STOP = 1024,    /* stop ids */
	KP_PEER_MAX_BIAS = 4096,    /* ids with a bias */
	KP_PEER_MAX_STRING = 2048,  /* bytes; longer ones are cut where we write them */
	KP_PEER_MAX_MESSAGE = 64 << 20, /* bytes, either way, but for pixels */
	KP_PEER_MAX_PIXELS = 96 << 20,
};

/* --- Generate ------------------------------------------------------------------------------------ */

/* INVALID_ARGUMENT: pixels of so many bytes are too many to be forwarded. */
int kp_peer_check_pixels(size_t bytes, struct kp_err *err) KP_MUST_USE;
/* Appends it, for the endpoint `engine`, `address`. `n` must be 1; `text` and `stream` are not sent. With media the pixels' bytes
   follow, which are not appended (engine/request.h).
   Fails too when b's maximum is reached. */
int kp_peer_encode_generate(struct kp_buf *b, const struct kp_engine_request *r, kp_str engine,
	kp_str address, struct kp_err *err) KP_MUST_USE;

struct kp_peer_request {
	kp_str request_id, engine, address; /* borrowed from the bytes, not empty */
	uint64_t text_fingerprint;
	const kp_id *ids;
	size_t n_ids;
	struct kp_sampling sampling;
	const struct kp_media_tensors
		*media; /* NULL: none; the pixels are borrowed from the bytes */
};
/* What a decoded request points into, until the next one; reuse it. */
struct kp_peer_request_decoder {
	struct kp_ids ids;
	kp_id stop[KP_PEER_MAX_STOP];
	struct kp_logit_bias bias[KP_PEER_MAX_BIAS];
	kp_str choices[KP_MAX_CONSTRAINT_CHOICES];
	struct kp_peer_media media;
};
void kp_peer_request_decoder_init(struct kp_peer_request_decoder *d);
void kp_peer_request_decoder_fini(struct kp_peer_request_decoder *d);
int kp_peer_decode_generate(struct kp_peer_request_decoder *d, kp_str bytes,
	struct kp_peer_request *ret, struct kp_err *err) KP_MUST_USE;

/* What a delta says, but for the choice. A failed append shows in b. */
void kp_peer_encode_response(struct kp_buf *b, const struct kp_engine_delta *d);

/* Log-probabilities under construction: alternatives lie one behind the other. */
struct kp_peer_logprobs {
	struct kp_token_logprob *p;
	size_t n, cap;
	struct kp_top_logprob *tops;
	size_t n_tops, cap_tops;
};
struct kp_peer_response_decoder {
	struct kp_ids ids;
	struct kp_peer_logprobs output, prompt;
};
void kp_peer_response_decoder_init(struct kp_peer_response_decoder *d);
void kp_peer_response_decoder_fini(struct kp_peer_response_decoder *d);
/* *ret is a delta of choice 0. Log-probabilities are as many as ids, or none. */
int kp_peer_decode_response(struct kp_peer_response_decoder *d, kp_str bytes,
	struct kp_engine_delta *ret, struct kp_err *err) KP_MUST_USE;

/* --- Describe, GetTokenizer ---------------------------------------------------------------------- */

struct kp_peer_endpoint {
	kp_str engine, address; /* borrowed, not empty */
};
void kp_peer_encode_endpoint(struct kp_buf *b, const struct kp_peer_endpoint *e);
int kp_peer_decode_endpoint(
	kp_str bytes, struct kp_peer_endpoint *ret, struct kp_err *err) KP_MUST_USE;

struct kp_peer_description {
	kp_str state, reason;
	struct kp_engine_info info; /* strings are borrowed; of `defaults` the numbers */
};
void kp_peer_encode_description(struct kp_buf *b, const struct kp_peer_description *d);
int kp_peer_decode_description(
	kp_str bytes, struct kp_peer_description *ret, struct kp_err *err) KP_MUST_USE;

void kp_peer_encode_chunk(struct kp_buf *b, kp_str data);
int kp_peer_decode_chunk(kp_str bytes, kp_str *ret_data, struct kp_err *err) KP_MUST_USE;

/* --- trailers ------------------------------------------------------------------------------------ */

#define KP_PEER_TRAILER_REASON "kelpie-reason"
#define KP_PEER_TRAILER_LOAD   "kelpie-load"

/* The engine never saw the generation, because: */
#define KP_PEER_DRAINING    "draining"      /* the gateway that owns it is about to end */
#define KP_PEER_NOT_OWNER   "not_owner"     /* it is not this gateway's */
#define KP_PEER_DOWN        "down"          /* it does not take requests now */
#define KP_PEER_STALE       KP_ENGINE_STALE /* the ids were made by another tokenizer */
#define KP_PEER_OVERLOADED  "overloaded"
#define KP_PEER_UNSUPPORTED "unsupported" /* it asks for what the owner does not know */

/* That word as a static string: one of the above, or "refused" for a newer one. NULL when the
 * trailer is absent (its p is NULL) or empty. */
const char *kp_peer_reason(kp_str word);

enum { KP_PEER_LOAD_MAX = 128 };
/* "in_flight=3 running=2 waiting=0 kv=0.125", in buf. */
kp_str kp_peer_write_load(const struct kp_engine_loads *l, char buf[KP_PEER_LOAD_MAX]);
/* at_ns and total_tokens are 0, and so is what is missing; entries of other names are skipped. */
int kp_peer_parse_load(kp_str text, struct kp_engine_loads *ret, struct kp_err *err) KP_MUST_USE;

#endif
