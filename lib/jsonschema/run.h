/* A run's inside: run.c turns events into frames, eval.c says what they mean for each schema that applies.

   A frame is a value that is open; an evaluation is one schema applied to it. Those of a frame lie behind each other on one stack, parents before children: an
   evaluation's parent applies to the same value ($ref, allOf, anyOf, ...) or to the value around it (properties, items, ...). All are begun at once, so every
   alternative is followed while bytes come; one that failed is left out from then on. */
#ifndef KP_JSONSCHEMA_RUN_H
#define KP_JSONSCHEMA_RUN_H

#include "json/push.h"
#include "jsonschema/internal.h"

enum kp_js_role {
	ROLE_ALL = 0,
	ROLE_ANY,
	ROLE_ONE,
	ROLE_NOT,
	ROLE_IF,
	ROLE_THEN,
	ROLE_ELSE,
	ROLE_DEPENDENT,
	ROLE_CONTAINS,
	ROLE_UNEVALUATED
};
enum { IF_UNKNOWN = 0, IF_TRUE, IF_FALSE };

struct kp_js_eval {
	const struct kp_js_node *node;
	uint32_t parent; /* JS_NONE: the root */
	uint32_t scope;  /* dynamic scope: index, JS_NONE */
	uint32_t slot;   /* which member or item, which name */
	uint32_t words;  /* where its bits lie: names that came, dependent schemas that failed */
	uint32_t any_left, one_left, one_ok, n_contains;
	uint8_t role, frame, chain, if_state;
	bool failed; /* or its parent did */
	bool firm;   /* if it fails, so does the text: reported, not passed on */
	bool track;  /* somebody wants to know what it evaluates */
	bool then_failed, else_failed;
};
struct kp_js_mark { /* eval looked at that member or item; `failed`: the schema for unevaluated ones refuses it */
	uint32_t eval, ordinal; /* JS_NONE: all */
	bool failed;
};
struct kp_js_frame {
	enum kp_json_type type;
	uint32_t evals, scopes, words; /* where its own begin */
	uint32_t n;                    /* members or items begun */
	size_t key, n_key;             /* the member's name, in run->keys */
	bool hashing, unique, need_text, is_name, tracks, repeated;
	uint64_t length, limit; /* code points; the next maxLength */
	struct kp_js_hash hash;
	struct kp_js_hash *seen; /* names, or items where they must be unique: open addressing */
	uint32_t n_seen, cap_seen;
	uint64_t held; /* bytes, of r->used */
	KP_VEC(struct kp_js_mark)
	marks;
	struct kp_buf names; /* of members, where unevaluated ones are named */
	KP_VEC(size_t)
	name_ends;
};
struct kp_js_scope {
	uint32_t parent, resource;
};
struct kp_js_cause { /* of a failure, until it is known whether it matters */
	const struct kp_js_node *node;
	const char *keyword, *what;
	kp_str detail;
	const struct kp_decimal *bound;
	uint64_t count;
	uint8_t frame;
	bool has_count;
	const char *group; /* the last of these alternatives */
};
struct kp_jsonschema_run {
	const struct kp_jsonschema *schema;
	struct kp_jsonschema_limits limits;
	struct kp_json_push push;
	struct kp_js_frame *frames[KP_JSON_MAX_DEPTH + 3];
	uint32_t n_frames;
	KP_VEC(struct kp_js_eval)
	evals;
	KP_VEC(struct kp_js_scope)
	scopes;
	KP_VEC(uint64_t)
	words;
	KP_VEC(uint64_t)
	scratch;
	struct kp_buf keys, text;
	struct kp_decimal number;
	char digits[KP_JSON_PUSH_NUMBER];
	struct kp_js_cause cause;
	uint64_t at, steps, used; /* of the event; left; bytes */
	bool in_key, stopped, finished;
	const char *budget; /* the one that is used up */
	struct kp_jsonschema_error *errors;
	size_t n_errors;
};

/* n steps of work: false when there are no more. */
bool kp_js_spend(struct kp_jsonschema_run *r, uint64_t n);
/* n bytes of memory, given back at the frame's end: false when there are no more. */
bool kp_js_take_for(struct kp_jsonschema_run *r, struct kp_js_frame *f, uint64_t n);
bool kp_js_take(struct kp_jsonschema_run *r, uint64_t n); /* for the newest */
/* Tells the error in r->cause. */
void kp_js_report(struct kp_jsonschema_run *r);
/* Has it been there already? Puts it there. */
bool kp_js_seen(struct kp_jsonschema_run *r, struct kp_js_frame *f, struct kp_js_hash h);

/* Another evaluation on the newest frame. */
void kp_js_push_eval(struct kp_jsonschema_run *r, const struct kp_js_node *node, uint32_t parent,
	enum kp_js_role role, uint32_t slot);
/* The value has begun: all evaluations that were pushed on its frame. */
void kp_js_start(struct kp_jsonschema_run *r);
/* An item begins; the frame above the array's is already there. */
void kp_js_select_item(struct kp_jsonschema_run *r, uint32_t array);
/* A member's name has ended; likewise. */
void kp_js_select_member(struct kp_jsonschema_run *r, uint32_t object, kp_str name);
/* Schemas for the name itself: how many were pushed. */
uint32_t kp_js_select_names(struct kp_jsonschema_run *r, uint32_t object);
/* The string's length passed the frame's limit. */
void kp_js_too_long(struct kp_jsonschema_run *r);
/* An item was there before. */
void kp_js_repeated(struct kp_jsonschema_run *r, uint32_t array);
/* The value has ended; h is its hash where the frame asked for it. */
void kp_js_close(struct kp_jsonschema_run *r, struct kp_js_hash h);

#endif
