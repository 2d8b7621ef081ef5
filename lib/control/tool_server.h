/* Tool servers of a program: from their objects, copied, as bytes of the control protocol and back. Pure. Everything is in the arena given. */
#ifndef KP_CONTROL_TOOL_SERVER_H
#define KP_CONTROL_TOOL_SERVER_H

#include "base/buf.h"
#include "control/program.h"

/* RESOURCE_EXHAUSTED: the arena is full. */
int kp_tool_server_from_object(const struct kp_object *o, struct kp_arena *a,
	struct kp_program_tool_server *ret, struct kp_err *err) KP_MUST_USE;
int kp_tool_server_copy(const struct kp_program_tool_server *from, struct kp_arena *a,
	struct kp_program_tool_server *ret, struct kp_err *err) KP_MUST_USE;
void kp_tool_server_write(struct kp_buf *b, const struct kp_program_tool_server *t);
/* Checked but for the name. INVALID_ARGUMENT. */
int kp_tool_server_read(kp_str value, struct kp_arena *a, struct kp_program_tool_server *ret,
	struct kp_err *err) KP_MUST_USE;

#endif
