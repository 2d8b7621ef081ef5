/* Images of a request: what the client wrote (kp_media_part), and what an engine is sent of them beside the ids
   (kp_media_tensors). In between, sidecar/flow/media.c fetches, decodes and processes. */
#ifndef KP_CORE_MEDIA_H
#define KP_CORE_MEDIA_H

#include "base/str.h"
#include "core/ids.h"

enum {
	KP_MEDIA_MAX = 256, /* images of a request, whatever the configuration says */
	KP_MEDIA_DIMS = 4,
};

/* One part of a message, in the order of the conversation. */
struct kp_media_part {
	kp_str url;             /* as written: data: or http(s): */
	uint32_t message, part; /* messages[message].content[part] */
};

/* The ids that stand for one image. */
struct kp_media_span {
	uint32_t offset, length;
};

/* A tensor as engines are sent it: row by row, low byte first. */
enum kp_tensor_type { KP_TENSOR_F32 = 1, KP_TENSOR_I64, KP_TENSOR_U8 };
struct kp_tensor {
	enum kp_tensor_type type;
	uint32_t shape[KP_MEDIA_DIMS], n_dims;
	kp_str bytes;
};

/* All images of one request, processed. The pixels of all are one tensor: with a grid (Qwen-VL) its rows are patches, those of the
   first image first; without one its first dimension counts the images. */
struct kp_media_tensors {
	size_t n;
	const struct kp_media_span *spans;
	const kp_str
		*hashes; /* what the image and its processing are, for the engine's cache: hex */
	kp_id token;     /* that the spans consist of */
	struct kp_tensor
		pixels; /* F32; U8, as they were before normalizing, for an engine that does it itself */
	struct kp_tensor grid;    /* I64 [n][3]: temporal, down, across; n_dims 0: none */
	struct kp_tensor patches; /* I64 [n]: rows of each image; n_dims 0: none */
};

#endif
