/* DESIGN: bytes are looked at once: a line that lies whole in what came is used where it is, the beginning of one
   is kept until its end comes. */
#include "kube/event.h"

#include "kube/client.h"

#include <string.h>

static const char *const types[] = { [KP_KUBE_EVENT_ADDED] = "ADDED",
	[KP_KUBE_EVENT_MODIFIED] = "MODIFIED",
	[KP_KUBE_EVENT_DELETED] = "DELETED",
	[KP_KUBE_EVENT_BOOKMARK] = "BOOKMARK",
	[KP_KUBE_EVENT_ERROR] = "ERROR" };

static int take(const json_t *v, struct kp_kube_event_line *ret, struct kp_err *err)
{
	kp_str type = kp_doc_str(v, "type");
	json_t *object = json_object_get(v, "object");
	for (size_t i = KP_KUBE_EVENT_ADDED; i < KP_LEN(types); i++) {
		if (kp_str_eq(type, kp_str_c(types[i])) && json_is_object(object)) {
			ret->type = (enum kp_kube_event_type)i;
			ret->object = json_incref(object);
			return 0;
		}
	}
	return kp_err_set(err, KP_DATA_LOSS, "parse `event`: `%" KP_FMT "`%s",
		KP_ARG(kp_str_sub(type, 0, 40)),
		json_is_object(object) ? " is no type of event" : " without an object");
}

int kp_kube_event_parse(kp_str line, struct kp_kube_event_line *ret, struct kp_err *err)
{
	struct kp_kube_event_line e = { .bytes = line.n };
	json_t *v;
	if (kp_doc_json(line, "event", &kp_kube_limits, &v, err)) {
		err->code = KP_DATA_LOSS;
		return -1;
	}
	int r = take(v, &e, err);
	json_decref(v);
	if (r == 0) {
		*ret = e;
	}
	return r;
}

void kp_kube_lines_init(struct kp_kube_lines *l, size_t max_line)
{
	l->max = max_line;
	kp_buf_init(&l->rest, max_line);
}

void kp_kube_lines_fini(struct kp_kube_lines *l)
{
	kp_buf_fini(&l->rest);
}

void kp_kube_lines_reset(struct kp_kube_lines *l)
{
	kp_buf_reset(&l->rest);
}

static kp_str without_end(kp_str line)
{
	return kp_str_ends(line, KP_S("\r")) ? kp_str_sub(line, 0, line.n - 1) : line;
}

static int too_long(const struct kp_kube_lines *l, struct kp_err *err)
{
	return kp_err_set(
		err, KP_TOO_LARGE, "read `watch`: a line has more than %zu bytes", l->max);
}

int kp_kube_lines_feed(struct kp_kube_lines *l, kp_str bytes,
	int (*line)(void *ctx, kp_str line, struct kp_err *err), void *ctx, struct kp_err *err)
{
	while (bytes.n) {
		const char *end = memchr(bytes.p, '\n', bytes.n);
		size_t n = end ? (size_t)(end - bytes.p) : bytes.n;
		kp_str part = kp_str_sub(bytes, 0, n);
		bytes = kp_str_skip(bytes, end ? n + 1 : n);
		if (l->rest.n + n > l->max) {
			return too_long(l, err);
		}
		if (!end || l->rest.n) {
			kp_buf_add(&l->rest, part);
			if (l->rest.failed) {
				return too_long(l, err);
			}
			part = kp_buf_str(&l->rest);
		}
		if (!end) {
			return 0;
		}
		part = without_end(part);
		int r = part.n ? line(ctx, part, err) : 0;
		kp_buf_reset(&l->rest);
		if (r) {
			return r;
		}
	}
	return 0;
}

struct kp_kube_meta kp_kube_meta_of(const json_t *object)
{
	const json_t *m = json_object_get(object, "metadata");
	return (struct kp_kube_meta){ .ns = kp_doc_str(m, "namespace"),
		.name = kp_doc_str(m, "name"),
		.uid = kp_doc_str(m, "uid"),
		.version = kp_doc_str(m, "resourceVersion"),
		.continue_ = kp_doc_str(m, "continue") };
}

kp_str kp_kube_annotation(const json_t *object, const char *name)
{
	return kp_doc_str(
		json_object_get(json_object_get(object, "metadata"), "annotations"), name);
}
