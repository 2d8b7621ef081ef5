/* Kinds of resources and the paths to them. */
#ifndef KP_KUBE_KIND_H
#define KP_KUBE_KIND_H

#include "base/buf.h"

struct kp_kube_kind {
	const char *group; /* "" for core */
	const char *version, *plural, *kind;
	bool is_cluster; /* objects have no namespace */
};
struct kp_kube_ref {
	const struct kp_kube_kind *kind;
	kp_str ns;               /* "": of all namespaces (lists only), or the kind has none */
	kp_str name;             /* "": the collection */
	const char *subresource; /* "status", "scale"; NULL: the object itself */
};

/* "/apis/apps/v1/namespaces/x/deployments/y/scale" is appended, with names encoded, as the names of one
   path segment each. */
void kp_kube_path(struct kp_buf *b, const struct kp_kube_ref *ref);
/* "?name=value", or "&name=value" when the path has a "?" already; the value is encoded. */
void kp_kube_query(struct kp_buf *b, const char *name, kp_str value);

/* "2026-11-29T16:12:06.123456Z": what fields called MicroTime take. */
enum { KP_KUBE_TIME_MAX = 32 };
void kp_kube_time(int64_t wall_ns, char buf[KP_KUBE_TIME_MAX]);

/* Those that Kelpie itself reads and writes. */
extern const struct kp_kube_kind kp_kube_kind_lease, kp_kube_kind_event, kp_kube_kind_token_review;

#endif
