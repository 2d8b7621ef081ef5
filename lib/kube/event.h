/* A watch's stream: one JSON object on each line, {"type": ..., "object": ...}, however the bytes are cut. Pure. */
#ifndef KP_KUBE_EVENT_H
#define KP_KUBE_EVENT_H

#include "base/buf.h"
#include "json/jansson.h"

enum { KP_KUBE_LINE_MAX = 16 << 20 }; /* etcd takes objects of 1.5 MiB */

enum kp_kube_event_type {
	KP_KUBE_EVENT_NONE = 0,
	KP_KUBE_EVENT_ADDED,
	KP_KUBE_EVENT_MODIFIED,
	KP_KUBE_EVENT_DELETED,
	KP_KUBE_EVENT_BOOKMARK,
	KP_KUBE_EVENT_ERROR, /* object is a Status */
};
struct kp_kube_event_line {
	enum kp_kube_event_type type;
	json_t *object; /* the receiver's: kp_kube_event_line_fini; to keep it, take it and leave NULL */
	size_t bytes; /* of the line */
};
/* DATA_LOSS: no event. */
int kp_kube_event_parse(
	kp_str line, struct kp_kube_event_line *ret, struct kp_err *err) KP_MUST_USE;
static inline void kp_kube_event_line_fini(struct kp_kube_event_line *e)
{
	json_decref(e->object);
	e->object = NULL;
}

struct kp_kube_lines {
	struct kp_buf rest; /* of the line that is not complete */
	size_t max;
};
void kp_kube_lines_init(struct kp_kube_lines *l, size_t max_line);
void kp_kube_lines_fini(struct kp_kube_lines *l);
void kp_kube_lines_reset(struct kp_kube_lines *l);
/* Calls line() for each that is complete, without its end; empty ones are left out. Stops with what line()
   returned when that is not 0. -1 with err: a line is too long. */
int kp_kube_lines_feed(struct kp_kube_lines *l, kp_str bytes,
	int (*line)(void *ctx, kp_str line, struct kp_err *err), void *ctx,
	struct kp_err *err) KP_MUST_USE;

/* Of any object; KP_STR_NULL when it has none. */
struct kp_kube_meta {
	kp_str ns, name, uid, version, continue_;
};
struct kp_kube_meta kp_kube_meta_of(const json_t *object);
kp_str kp_kube_annotation(const json_t *object, const char *name);

#endif
