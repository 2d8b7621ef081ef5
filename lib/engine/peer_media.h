/* Inside lib/engine/peer_codec: the images of a forwarded generation. */
#ifndef KP_ENGINE_PEER_MEDIA_H
#define KP_ENGINE_PEER_MEDIA_H

#include "base/buf.h"
#include "core/media.h"

/* Of Sampling.set: there is a field `media`, without which the answer would be wrong. */
#define KP_PEER_SET_MEDIA (UINT32_C(1) << 31)

/* What a decoded one points into. */
struct kp_peer_media {
	struct kp_media_tensors tensors;
	struct kp_media_span spans[KP_MEDIA_MAX];
	kp_str hashes[KP_MEDIA_MAX];
	int64_t numbers[4 * KP_MEDIA_MAX]; /* grids, then patches */
	size_t n_grids;
};

/* As the last field of its message: the pixels' bytes are its end and not written. */
void kp_peer_add_media(struct kp_buf *b, uint32_t number, const struct kp_media_tensors *m);
/* INTERNAL what makes no sense, also beside the ids; pixels and hashes are borrowed. */
int kp_peer_read_media(struct kp_peer_media *d, kp_str bytes, const kp_id *ids, size_t n_ids,
	struct kp_err *err) KP_MUST_USE;

#endif
