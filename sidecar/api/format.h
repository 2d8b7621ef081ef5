/* What a request says of the form of its answer: `response_format` and the names that vLLM and SGLang have for the same. */
#ifndef SIDECAR_API_FORMAT_H
#define SIDECAR_API_FORMAT_H

#include "base/err.h"
#include "core/turn.h"

/* Reads the value at the cursor, of the parameter `name`, into turn->format: 0; 1 when the name is none of these (nothing was read). Two parameters that
   both ask for something are an error that names the second. */
int kp_format_read(
	struct kp_json *j, kp_str name, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

#endif
