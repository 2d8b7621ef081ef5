/* An API's encoder: a function from events to the bytes of its answer. One per turn, its state in
   the turn's arena; it sees no socket. A streamed answer is written event by event, one that is not
   streamed is collected and written at the end. */
#ifndef SIDECAR_FLOW_ENCODER_H
#define SIDECAR_FLOW_ENCODER_H

#include "core/event.h"
#include "core/turn.h"

struct kp_encoder {
	const char *content_type; /* "text/event-stream" or "application/json" */
	bool is_streamed;         /* false: event() writes nothing, end() everything */
	/* State for n_choices choices. NULL: err is set (arena full). */
	void *(*open)(const struct kp_turn *turn, size_t n_choices, struct kp_err *err);
	/* Appends what the event looks like to the client. */
	void (*event)(void *state, const struct kp_event *ev, struct kp_buf *out);
	/* After the last event of a turn that went well. Answers that are not streamed are written
	 * here. */
	void (*end)(void *state, struct kp_buf *out);
	void (*close)(void *state); /* frees what is not in the arena */
	const char *keepalive;      /* what may be sent while the engine is silent; NULL: nothing */
	/* Forgets what it collected of a choice, whose events begin anew. NULL: it cannot (streamed). */
	void (*forget)(void *state, uint32_t choice);
};

#endif
