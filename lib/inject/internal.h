/* Inside lib/inject: what its files share. */
#ifndef KP_INJECT_INTERNAL_H
#define KP_INJECT_INTERNAL_H

#include "inject/inject.h"
#include "inject/quantity.h"
#include "json/jansson.h"

/* --- what a pod's annotations and its engine want (wishes.c) --- */

struct kp_inject_wishes {
	kp_str container;                                      /* p NULL: not named */
	bool is_node, has_shm;                                 /* has_shm: /dev/shm is shared */
	kp_str cpu, cpu_limit, memory, memory_limit, shm_size; /* p NULL: not given */
	const struct kp_kv *requests, *limits; /* spec.gateway.resources: what else it asks for */
	size_t n_requests, n_limits;
	int32_t drain_s;
	int32_t peer_port, probe_port, admin_port;
	kp_str log_level;         /* p NULL: not given */
	kp_str node_gateway, key; /* kp_inject_engine's; the key is the pod's own, if it has one */
	bool is_again;            /* the pod was injected before */
};
/* Its end asks its node's gateway: mode Node, and both address and key are known. */
static inline bool kp_inject_asks_node(const struct kp_inject_wishes *w)
{
	return w->is_node && w->node_gateway.n && w->key.n;
}
/* -1: an annotation is named whose value is not one. Texts are borrowed from the pod and the engine. */
int kp_inject_read_wishes(const json_t *pod, const struct kp_inject_engine *engine,
	struct kp_inject_wishes *ret, struct kp_inject_notes *notes, struct kp_arena *a,
	struct kp_err *err) KP_MUST_USE;

/* --- the gateway's container (gateway.c) --- */

/* What of the pod decides about it. */
struct kp_inject_place {
	const json_t *spec;
	const char *shm_volume;                    /* mounted at /dev/shm; NULL: none */
	kp_str shm_sub_path;                       /* of that mount, p NULL: none */
	const struct kp_inference_pool_spec *pool; /* NULL: not known */
};
json_t *kp_inject_gateway(const struct kp_inject_place *place, const struct kp_inject_wishes *w,
	const struct kp_inject_settings *settings, struct kp_arena *a);
/* The volume of the token and the CA. */
json_t *kp_inject_identity_volume(void);
/* One in memory: cluster autoscalers take others for a reason to keep the node. */
json_t *kp_inject_memory_volume(const char *name, const char *size);

/* --- the engine's end (hook.c) --- */

enum {
	KP_INJECT_SETTLE_S =
		5, /* after the drain began connections are still taken, until Services have noticed */
	KP_INJECT_ENGINE_STOP_S = 15
}; /* of the grace period: for the engine's own end, and the gateway's behind it */

/* The container's preStop, with what it had: combined where it only sleeps, kept and noted where it does anything else. For how many
   seconds it waits at least. */
int64_t kp_inject_hook(json_t *container, const struct kp_inject_wishes *w,
	const struct kp_inject_settings *settings, struct kp_arena *a,
	struct kp_inject_notes *notes);

/* --- JSON (json.c) --- */

void kp_inject_note(struct kp_inject_notes *notes, struct kp_arena *a, const char *fmt, ...)
	KP_PRINTF(3, 4);
/* v is taken over. Memory that is gone stops the program, as with kp_xmalloc. */
void kp_put(json_t *object, const char *key, json_t *v);
void kp_put_str(json_t *object, const char *key, const char *value);
void kp_push(json_t *list, json_t *v);
/* The member, made empty where it is missing or null. NULL: it is there and of another type. */
json_t *kp_member_object(json_t *object, const char *key);
json_t *kp_member_list(json_t *object, const char *key);
/* The element whose `key` is that string: its index, or -1. */
ptrdiff_t kp_find_by(const json_t *list, const char *key, kp_str value);
/* Is everything of `ours` in `theirs`, and nothing there that was ours once? What an API server fills in, and what others add to the environment, does not count;
   words of a command line and resources must be equal, lists of one length. */
bool kp_covers(const json_t *theirs, const json_t *ours);

/* --- patches (patch.c) --- */

/* RFC 6902: what makes `to` of `from`; empty when they are equal. The caller's reference. */
json_t *kp_json_diff(const json_t *from, const json_t *to);

#endif
