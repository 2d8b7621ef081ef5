/* Loads models' text stacks for the control thread, from images of tokenizers where there is a directory for them (--cache-dir), and says in
   metrics and log what came of it. */
#ifndef SIDECAR_CONTROL_TEXTS_H
#define SIDECAR_CONTROL_TEXTS_H

#include "prompt/text_stack.h"
#include "sidecar/gateway.h"

struct kp_texts;
/* Never fails: a directory that cannot be used is said in the log, and tokenizers are built from their files. */
struct kp_texts *kp_texts_create(struct kp_gateway *g);
void kp_texts_destroy(struct kp_texts *t); /* NULL is fine */
/* From a path, or (path is NULL) from an engine's archive. Blocking. */
int kp_texts_load(struct kp_texts *t, const char *path, kp_str zip,
	const struct kp_text_options *opts, struct kp_text_stack **ret,
	struct kp_err *err) KP_MUST_USE;

#endif
