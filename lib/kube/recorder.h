/* Events (events.k8s.io/v1): what people see under "kubectl describe" and "kubectl events". What is said again of the
   same object, with the same type, reason and action, becomes a series of the first, written at most once in
   series_ns. Limits: KP_KUBE_RECORDER_KEYS_MAX different ones are remembered; new ones of one object 10, then one in
   30 s, all together 100, then 5 a second; what is beyond is counted and left out. An Event that cannot be written is lost:
   nothing may depend on it. Owner's thread. */
#ifndef KP_KUBE_RECORDER_H
#define KP_KUBE_RECORDER_H

#include "kube/client.h"
#include "kube/kind.h"

struct kp_kube_recorder;

enum { KP_KUBE_RECORDER_KEYS_MAX = 1024 };

struct kp_kube_recorder_opts {
	const char *controller; /* "kelpie.dev/operator"; static */
	const char *instance;   /* who of them; copied, 128 bytes at most */
	int64_t series_ns;      /* 0: 30 s */
	int64_t forget_ns;      /* after so long without another one a series ends; 0: 6 min */
};
struct kp_kube_recorder *kp_kube_recorder_create(
	struct kp_kube *k, const struct kp_kube_recorder_opts *opts);
void kp_kube_recorder_destroy(
	struct kp_kube_recorder *r); /* what was not written yet is lost; NULL is fine */

struct kp_kube_said {
	const struct kp_kube_kind *kind; /* of the object it is about */
	kp_str ns, name, uid;
	bool is_warning;
	const char *reason,
		*action; /* CamelCase: what happened, what was done; 128 bytes at most */
	kp_str note;     /* in words; cut at 1,024 bytes */
};
void kp_kube_say(struct kp_kube_recorder *r, const struct kp_kube_said *said);

#endif
