/* The objects of one kind, in one namespace or all, that a selector picks: listed, then watched, for ever. What is
   here was so a moment ago; while the API server is away the last that was known stays, and the state says since
   when. After every list what is not in it any more is told as deleted, so an event that was missed costs nothing
   but time. Owner's thread.

   WatchList where the server has it (the objects come one by one), else pages. A watch that says nothing, not even a
   bookmark, for idle_ns is taken as dead. Limits: objects, bytes of an event (kube/event.h), of a page
   (KP_KUBE_ANSWER_MAX; pages that are larger are asked for smaller). */
#ifndef KP_KUBE_STORE_H
#define KP_KUBE_STORE_H

#include "kube/client.h"
#include "kube/kind.h"

struct kp_kube_store;

struct kp_kube_store_ops {
	/* before NULL: it is new; now NULL: it is gone. Both belong to the store, `before` for the call. */
	void (*changed)(void *ctx, const json_t *before, const json_t *now);
	/* Everything there is was told of, for the first time. */
	void (*synced)(void *ctx);
	/* kp_kube_store_state is another; may be NULL. */
	void (*state)(void *ctx);
};
struct kp_kube_store_opts {
	const struct kp_kube_kind *kind;
	kp_str ns;             /* "": all; copied */
	kp_str labels, fields; /* selectors as in a URL; "": all; copied */
	uint32_t page;         /* objects; 0: 500 */
	bool is_paged;         /* no WatchList */
	size_t max_objects;    /* 0: 200,000 */
	uint32_t watch_s;      /* a watch's life as the server is asked; 0: 300 to 600, random */
	int64_t idle_ns;       /* 0: 150 s, bookmarks come once a minute */
	/* Takes out what is not needed, but for name, namespace, uid and resourceVersion; managedFields are out
	   already. NULL: nothing else. */
	void (*trim)(json_t *object);
	const struct kp_kube_store_ops *ops;
	void *ctx;
};
struct kp_kube_store_state {
	bool is_synced;          /* it was complete once */
	bool is_connected;       /* and is followed now */
	int64_t since_ns;        /* monotonic: since when is_connected is what it is */
	struct kp_err err;       /* the last failure since it was connected; code OK: none */
	uint64_t lists, watches; /* that were begun */
};

struct kp_kube_store *kp_kube_store_create(
	struct kp_kube *k, const struct kp_kube_store_opts *opts);
/* Also inside its callbacks. NULL is fine. */
void kp_kube_store_destroy(struct kp_kube_store *s);
/* NULL: not there. Until the loop's turn ends. */
const json_t *kp_kube_store_get(const struct kp_kube_store *s, kp_str ns, kp_str name);
/* for (size_t i = 0; (v = kp_kube_store_next(s, &i));) */
const json_t *kp_kube_store_next(const struct kp_kube_store *s, size_t *pos);
size_t kp_kube_store_count(const struct kp_kube_store *s);
const struct kp_kube_store_state *kp_kube_store_state(const struct kp_kube_store *s);

#endif
