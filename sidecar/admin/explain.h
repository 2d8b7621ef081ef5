/* GET /explain: why a request went where it went, and what stands behind a model's name. */
#ifndef SIDECAR_ADMIN_EXPLAIN_H
#define SIDECAR_ADMIN_EXPLAIN_H

#include "admin/admin.h"

/* ?request=ID (the answer's id, or the client's x-request-id; one of the last KP_EXPLAIN_KEPT of its
   loop) or ?model=NAME. JSON. ctx: the gateway. */
struct kp_admin_answer kp_admin_explain(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out);

#endif
