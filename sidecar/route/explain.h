/* Why a request went where it went: each choice's attempts with what stood to choose from, noted as they
   happen in the request's arena, and written as JSON into a ring of the last KP_EXPLAIN_KEPT requests of
   a loop when it ends. GET /explain?request=ID on the admin listener reads the rings. Holds no text of
   the client but the ids. */
#ifndef SIDECAR_ROUTE_EXPLAIN_H
#define SIDECAR_ROUTE_EXPLAIN_H

#include "base/arena.h"
#include "prompt/cache.h"
#include "sidecar/route/pick.h"

#include <pthread.h>

enum { KP_EXPLAIN_KEPT = 1024, KP_EXPLAIN_CANDIDATES = 16 };

/* An endpoint as it was when the choice was made. */
struct kp_explain_candidate {
	const struct kp_endpoint *endpoint; /* the flow's snapshot holds it */
	enum kp_endpoint_state state;
	int load, score; /* load with the penalty in it */
	int penalty;
	bool takes; /* it could have the request */
};
struct kp_explain_attempt {
	struct kp_explain_attempt *next;
	const struct kp_endpoint *picked; /* NULL: none could be */
	const char *because;              /* static */
	const struct kp_endpoint *avoided;
	struct kp_explain_candidate *candidates; /* NULL when the arena was full */
	size_t n_candidates, n_endpoints;        /* noted, and there were */
	int64_t start_ns, end_ns;                /* end 0: still under way when the request ended */
	enum kp_code code;
	const char *why; /* in the arena, "" for OK */
	bool leave_own;
};
struct kp_explain_trace { /* of one choice; zeroed to begin with */
	struct kp_explain_attempt *first, *last;
};

/* Notes a pick. Full arena: the attempt is left out. */
void kp_explain_pick(struct kp_explain_trace *t, struct kp_arena *a,
	const struct kp_model_revision *r, const struct kp_pick *how,
	const struct kp_endpoint *avoided, const struct kp_endpoint *picked, const char *because);
/* How the last attempt ended. */
void kp_explain_end(struct kp_explain_trace *t, struct kp_arena *a, const struct kp_err *status,
	int64_t now_ns);

struct kp_explain_request {
	kp_str id, client_id; /* the answer's id, the client's x-request-id */
	kp_str model;
	const struct kp_model *resolved; /* NULL: it came not so far */
	const struct kp_model_revision *revision;
	const char *gateway;
	struct kp_prompt_use prompt;
	uint32_t known_messages; /* of the turn before (prompt/known.h) */
	int http_status;
	int64_t start_ns, end_ns;
};
/* {"request":...,"prompt":{"exact":0,"prefix":9,"encoded":3},"choices":[{"index":0,"attempts":[...]}],"status":200,"outcome":"ok"}: open, the
 * choices in their order, close. */
void kp_explain_open(struct kp_buf *out, const struct kp_explain_request *r);
void kp_explain_choice(struct kp_buf *out, const struct kp_explain_request *r, size_t index,
	const struct kp_explain_trace *t);
void kp_explain_close(struct kp_buf *out, const struct kp_explain_request *r);

/* The ring of one loop: that loop adds, any thread finds. */
struct kp_explain_ring {
	pthread_mutex_t lock;         /* leaf */
	struct kp_explain_kept *kept; /* KP_EXPLAIN_KEPT of them, made with the first */
	size_t next;
};
void kp_explain_ring_init(struct kp_explain_ring *r);
void kp_explain_ring_fini(struct kp_explain_ring *r);
void kp_explain_ring_add(struct kp_explain_ring *r, kp_str id, kp_str client_id, kp_str json);
/* The newest of that id, or of that x-request-id. */
bool kp_explain_ring_find(struct kp_explain_ring *r, kp_str id, struct kp_buf *out);

#endif
