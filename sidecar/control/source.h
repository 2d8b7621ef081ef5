/* Where the gateway's program comes from: a file or directory of manifests, or the operator. One object
   on the control thread, which hands each program it takes to its sink. */
#ifndef SIDECAR_CONTROL_SOURCE_H
#define SIDECAR_CONTROL_SOURCE_H

#include "control/message.h"
#include "sidecar/gateway.h"

struct kp_source_sink {
	/* A new program, taken over. Also before `start`, with the first one there is. */
	void (*program)(void *arg, struct kp_program *p, int64_t created_wall_s);
	/* report() says something else now. */
	void (*changed)(void *arg);
	/* How the engines are that this gateway owns, for a report to the operator; what it points at
	 * lies in the arena. */
	void (*fill)(void *arg, struct kp_arena *a, struct kp_report *ret);
	void *arg;
};

struct kp_source;
struct kp_source_ops {
	void (*start)(struct kp_source *s); /* the loop runs from now on */
	/* Something of what `fill` tells is different now; NULL: nobody wants to know. */
	void (*engines_changed)(struct kp_source *s);
	/* Lines of /readyz?verbose, "[+]manifests: ok\n". */
	void (*report)(const struct kp_source *s, struct kp_buf *out);
	void (*destroy)(struct kp_source *s);
};
struct kp_source {
	const struct kp_source_ops *ops; /* first member of both */
};

/* Reads the manifests once: a failure then is fatal. Later ones are refused as a whole. */
int kp_source_files_create(struct kp_gateway *g, struct kp_loop *loop,
	const struct kp_source_sink *sink, struct kp_source **ret, struct kp_err *err) KP_MUST_USE;
/* Reads the last good program, if there is one; fatal is only what the command line says. */
int kp_source_operator_create(struct kp_gateway *g, struct kp_loop *loop,
	const struct kp_source_sink *sink, struct kp_source **ret, struct kp_err *err) KP_MUST_USE;

#endif
