/* Push reader for JSON text (RFC 8259), strict: takes bytes as they come and tells events, the same ones however the bytes are cut. Takes and
   refuses what kp_json (reader.h) takes and refuses. Keeps nothing of the text but the number, escape or character it is in the middle of.
   Not thread-safe, no allocation. */
#ifndef KP_JSON_PUSH_H
#define KP_JSON_PUSH_H

#include "json/reader.h"

enum { KP_JSON_PUSH_NUMBER = 1024 }; /* bytes of a number at most: RESOURCE_EXHAUSTED beyond */

enum kp_json_event {
	KP_JSON_EV_NONE = 0,
	KP_JSON_EV_BEGIN, /* a value's first byte: `type` says which. TRUE, FALSE, NULL too, before the rest of the word was seen */
	KP_JSON_EV_KEY,   /* a member name's first byte; TEXT and END follow */
	KP_JSON_EV_TEXT, /* decoded bytes of a string or name, whole characters: any number of times */
	KP_JSON_EV_NUMBER, /* a number, whole: its text; END follows */
	KP_JSON_EV_END, /* the end of a value or a name; `type` as at its begin, STRING for a name */
};

struct kp_json_push_event {
	enum kp_json_event kind;
	enum kp_json_type type;
	kp_str text; /* TEXT, NUMBER; valid during the call */
	uint64_t
		at; /* BEGIN, KEY: offset of the first byte. Others: of the byte behind what they tell of */
};
/* Returns 0, or -1 with err set: feeding ends with it. */
typedef int kp_json_push_fn(void *ctx, const struct kp_json_push_event *ev, struct kp_err *err);

struct kp_json_push {
	kp_json_push_fn *fn;
	void *ctx;
	uint64_t at;         /* bytes taken */
	const char *literal; /* the rest of true, false, null */
	uint8_t state, sub;  /* what may come; where in a number */
	bool in_key, broken;
	uint8_t n_held; /* of an escape or a character that is not complete */
	char held[12];
	enum kp_json_type scalar;
	uint16_t depth, n_number;
	bool is_object[KP_JSON_MAX_DEPTH];
	char number[KP_JSON_PUSH_NUMBER];
};

void kp_json_push_init(struct kp_json_push *p, kp_json_push_fn *fn, void *ctx);
/* INVALID_ARGUMENT "parse JSON: ... at byte N" for what is no JSON, at the first byte that cannot be (p->at is its offset), RESOURCE_EXHAUSTED for
   what is nested more than KP_JSON_MAX_DEPTH deep. After an
   error every call fails. */
int kp_json_push_feed(struct kp_json_push *p, kp_str bytes, struct kp_err *err) KP_MUST_USE;
/* The text is over: it must have been one value. */
int kp_json_push_finish(struct kp_json_push *p, struct kp_err *err) KP_MUST_USE;

#endif
