/* Pieces of a GenerateRequest that the engines' protocols share (wire/wire.h writes the rest).
   Errors are the buffer's: it fails at its maximum. */
#ifndef KP_ENGINE_REQUEST_H
#define KP_ENGINE_REQUEST_H

#include "core/engine.h"
#include "wire/wire.h"

/* `message TokenizedInput {string original_text = 1; repeated uint32 input_ids = 2;}` */
static inline void kp_request_input(
	struct kp_buf *b, uint32_t number, const struct kp_engine_request *r)
{
	size_t at = kp_wire_begin(b, number);
	if (r->text.n) {
		kp_wire_add_str(b, 1, r->text);
	}
	if (r->packed.n) {
		kp_wire_add_str(b, 2, r->packed);
	} else {
		kp_wire_add_packed(b, 2, r->ids, r->n_ids);
	}
	kp_wire_end(b, at);
}

/* What follows the encoded request on the wire without being copied: the pixels. */
static inline kp_str kp_request_tail(const struct kp_engine_request *r)
{
	return r->media && !r->media_shm.n ? r->media->pixels.bytes : KP_STR_NULL;
}

/* Numbers of the protocols' fields that say the same; 0: it has none. */
struct kp_request_media_fields {
	uint32_t of_request; /* MultimodalInputs */
	uint32_t pixels, tensors, token, spans;
	uint32_t hashes, batched, flat, on_cpu, modality;
	uint32_t shm;     /* of a TensorData */
	bool has_patches; /* rows of each image, that flat keys need */
};
/* The last field of a request: kp_request_tail is its end. */
void kp_request_media(struct kp_buf *b, const struct kp_request_media_fields *f,
	const struct kp_engine_request *r);

/* Fields whose zero is not written, as proto3 writes them. */
static inline void kp_request_float(struct kp_buf *b, uint32_t number, double v)
{
	float f = (float)v;
	if (f != 0.0f) {
		kp_wire_add_float(b, number, f);
	}
}
static inline void kp_request_u64(struct kp_buf *b, uint32_t number, uint64_t v)
{
	if (v) {
		kp_wire_add_u64(b, number, v);
	}
}

#endif
