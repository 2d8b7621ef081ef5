/* Outputs against the schemas that the request brought, while they pass: the text of an answer with `response_format`, the arguments of calls of `strict` tools.
   Pure: events in, one verdict out; who acts on it is judge.c. */
#ifndef SIDECAR_FLOW_VALIDATE_H
#define SIDECAR_FLOW_VALIDATE_H

#include "core/event.h"
#include "core/turn.h"
#include "parse/offer.h"

/* The schemas of one request, compiled; read by all of its choices. */
struct kp_output_schemas;
/* Does it have any? A look, not a compilation. */
bool kp_output_has_schemas(const struct kp_turn *turn, const struct kp_tool_offer *offer);
/* Schemas that are `strict` have to be of OpenAI's subset: INVALID_ARGUMENT names the parameter, and the place in the schema. On any thread. */
int kp_output_check_strict(const struct kp_turn *turn, const struct kp_tool_offer *offer,
	const char *schema_name, struct kp_err *err) KP_MUST_USE;
/* *ret: in the turn's arena, NULL when the request has none; offer and turn must live as long. schema_name: what tools call theirs ("function.parameters").
   INVALID_ARGUMENT names the parameter with the schema that cannot be compiled, and the place in it. On any thread. */
int kp_output_schemas_compile(struct kp_turn *turn, const struct kp_tool_offer *offer,
	const char *schema_name, struct kp_output_schemas **ret, struct kp_err *err) KP_MUST_USE;
void kp_output_schemas_destroy(struct kp_output_schemas *s); /* what is not in the arena */

/* One choice. */
struct kp_output_check;
struct kp_output_check *kp_output_check_create(const struct kp_output_schemas *s);
void kp_output_check_destroy(struct kp_output_check *c);
/* An event of this choice, in order. */
void kp_output_check_event(struct kp_output_check *c, const struct kp_event *ev);
/* What kp_output_check_finish will say whatever comes: INVALID, UNCHECKED (which a later call may make INVALID), or NONE: nothing is certain yet. A text that is
   wrong is not, where tools are offered: a call would stand in its place. */
enum kp_output_result kp_output_check_certain(const struct kp_output_check *c);
/* After the last. is_cut: the output was ended before the model did. *ret is written unless the result is NONE (nothing of this output had a schema) or VALID.
   An answer that calls tools is judged by its calls alone. */
enum kp_output_result kp_output_check_finish(
	struct kp_output_check *c, bool is_cut, struct kp_output_fault *ret);

#endif
