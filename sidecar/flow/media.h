/* The images of one request, from URLs to what engines are sent. URLs are fetched on the loop (stage `fetch`);
   then two jobs on the media workers: `media` reads heads, so that sizes and
   numbers of tokens are known and judged before anything is decoded; `pixels` decodes and processes, once it is clear that the prompt
   fits. What is held counts against --media-memory, for all requests together. Owned by the flow; a job has it while it runs. */
#ifndef SIDECAR_FLOW_MEDIA_H
#define SIDECAR_FLOW_MEDIA_H

#include "fetch/fetch.h"
#include "sidecar/flow/flow.h"

struct kp_flow_image {
	struct kp_flow *flow;
	struct kp_fetch_call *call; /* while it is fetched (media_fetch.c) */
	struct kp_buf fetched;      /* the file, of a URL */
	uint8_t *file;              /* the file, of a data: URL */
	kp_str bytes;  /* of the one or the other; empty: not there yet, or not any more */
	size_t n_held; /* of them, in `held` */
	struct kp_image_plan plan;
	char hash[65];
};

struct kp_flow_media {
	struct kp_gateway *gateway;
	size_t n;
	struct kp_flow_image *images;
	struct kp_media_span *spans; /* lengths after `media`, offsets after `prompt` */
	kp_str *hashes;
	size_t n_fetching;
	size_t n_floats;   /* of all images, after `media`; bytes where `is_bytes` */
	bool is_bytes;     /* for engines that normalize themselves; from `pixels` on */
	size_t held;       /* bytes, of the gateway's media_bytes */
	struct kp_shm shm; /* in the one or the other: */
	void *heap;
	void *pixels;                    /* of all images; NULL before `pixels` */
	int64_t *numbers;                /* grid and patches */
	struct kp_media_tensors tensors; /* n 0 before `pixels` */
	int64_t work_ns;                 /* that decoding and processing took */
};

/* On any thread: the prompt's places of images become as many tokens as each image has. Of a request without images: there are none. */
int kp_flow_media_expand(
	struct kp_flow *f, struct kp_flow_prompt *p, struct kp_err *err) KP_MUST_USE;
/* NULL: no images. */
static inline const struct kp_media_tensors *kp_flow_media_tensors(const struct kp_flow *f)
{
	return f->media && f->media->tensors.n ? &f->media->tensors : NULL;
}
/* Bytes of all pixels. */
static inline size_t kp_flow_media_bytes(const struct kp_flow_media *m)
{
	return m->n_floats * (m->is_bytes ? 1 : sizeof(float));
}
/* After `pixels`. Could these images be sent there? user: the flow. */
bool kp_flow_media_takes(const void *user, const struct kp_endpoint *e);
/* Inside of flow/media*.c. */
int kp_flow_media_blame(const struct kp_flow *f, size_t k, struct kp_err *err);
int kp_flow_media_hold(struct kp_flow_media *m, size_t n, struct kp_err *err) KP_MUST_USE;
enum kp_step kp_flow_media_fetch(struct kp_flow *f, struct kp_err *err);
/* The request is over: nothing is fetched any more. No media is fine. */
void kp_flow_media_stop(struct kp_flow *f);
/* Gives back what is not needed once every engine has its tensors. Again is fine, NULL too. */
void kp_flow_media_release(struct kp_flow_media *m, struct kp_gwloop *l);

/* --- media_shm.c --- */

/* On a worker: memory for all pixels, where an engine can have it by name if one of them says so. */
int kp_flow_media_alloc(struct kp_flow *f, size_t bytes, struct kp_err *err) KP_MUST_USE;
/* That memory; much of it is freed by a worker, since it takes milliseconds. */
void kp_flow_media_free(struct kp_flow_media *m, struct kp_gwloop *l);
/* On a worker: names of the pixels for the calls of all choices. A folder's lock may be held by an engine that is not running, so the loop makes none. */
void kp_flow_media_link(struct kp_flow *f);
/* The name of the pixels for the call of a choice that is about to start at e; empty: they are sent. */
kp_str kp_flow_media_name(struct kp_choice *c, const struct kp_endpoint *e);
/* The call is over: a worker takes the name away, if the engine has not. */
void kp_flow_media_unname(struct kp_choice *c);
/* The call at e failed before it gave anything, maybe because of the name: it is worth to start it there once more, without. Once for a choice. */
bool kp_flow_media_failed(struct kp_choice *c, struct kp_endpoint *e, const struct kp_err *err);
/* It gave something. */
void kp_flow_media_arrived(struct kp_choice *c);

#endif
