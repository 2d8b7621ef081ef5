/* Loops over messages whose rounds are noted and replayed; replay.h is what callers see of it, rounds.c has the design. */
#ifndef KP_TEMPLATE_ROUNDS_H
#define KP_TEMPLATE_ROUNDS_H

#include "template/exec.h"
#include "template/replay.h"

enum {
	KP_TPL_MAX_STEPS = 64,   /* of a round that is kept */
	KP_TPL_MAX_FUNCTIONS = 8 /* one in another, around a question */
};

/* What a round asked of its surroundings, and did to them, in order. */
enum kp_step_kind {
	KP_STEP_ASK = 1, /* an ASK node: the answer */
	KP_STEP_ITEM,    /* a GETITEM whose `a` is asked, and the key given: the item */
	KP_STEP_REST, /* a SLICE whose `a` is asked, and the element's number given: the element, or MISSING behind the last */
	KP_STEP_LOAD, /* a scope's first value of a variable */
	KP_STEP_STORE,     /* `set ns.x`: the value */
	KP_STEP_STORE_ITEM /* `set ns.x` to the loop's message */
};
struct kp_tpl_step {
	uint8_t kind;
	bool is_message; /* the answer is another message: v.i is its memory's serial number */
	uint16_t depth;
	const void *what; /* kp_node, kp_load, of the template with the number */
	struct kp_tv v, key;
};
/* A round that is kept: immutable, one allocation. */
struct kp_tpl_kept {
	struct kp_tpl_kept *older;
	uint64_t template_serial, cost; /* cost: in steps of the budget */
	uint64_t absent; /* variables of the render that were none, by their number */
	size_t bytes;    /* with all that are older */
	uint32_t loop, nth, line, n_runs, n_steps;
	uint8_t origin, outcome;
	kp_str text;
	const struct kp_run *runs;
	struct kp_tpl_step steps[];
};

/* kept.c: values that outlive their render. */
bool kp_tpl_can_keep(const struct kp_tv *v);
/* Copies one after the other: counts while p is NULL, then fills. */
struct kp_tpl_pack {
	char *p;
	size_t n;
};
void *kp_tpl_pack_take(struct kp_tpl_pack *to, size_t n);
void *kp_tpl_pack_copy(struct kp_tpl_pack *to, const void *from, size_t n);
struct kp_tv kp_tpl_pack_value(struct kp_tpl_pack *to, const struct kp_tv *v);
/* Could a template tell a copy that was kept from the value of now? */
bool kp_tpl_same_value(const struct kp_tv *then, const struct kp_tv *now);

/* replay.c */
uint64_t kp_tpl_next_serial(void);
uint64_t kp_tpl_memory_serial(const struct kp_tpl_memory *m);
/* The newest, or NULL. */
const struct kp_tpl_kept *kp_tpl_memory_kept(const struct kp_tpl_memory *m);
bool kp_tpl_memory_has_room(const struct kp_tpl_memory *m);
/* Copies what the round came to: k's own steps, runs and text are the render's. NULL: there is no room, or somebody else kept one meanwhile. */
const struct kp_tpl_kept *kp_tpl_memory_keep(
	struct kp_tpl_memory *m, const struct kp_tpl_kept *k, const struct kp_tpl_step *steps);

/* rounds.c: the render's part. */
struct kp_tpl_replay;
int kp_tpl_replay_start(struct kp_interp *I, const struct kp_template_opts *opts);
/* Over which messages a loop runs: false: none that anything is remembered of. */
struct kp_tpl_rounds {
	uint32_t next; /* message */
};
bool kp_tpl_rounds_of(struct kp_interp *I, const struct kp_node *loop, const struct kp_tv *iterable,
	struct kp_tpl_rounds *ret);
/* A round, replayed or run, with its variables set. */
enum kp_exec kp_tpl_round(struct kp_interp *I, struct kp_act *act, const struct kp_node *loop,
	struct kp_tpl_rounds *r, const struct kp_tv *item);
int kp_tpl_note_ask(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret);
void kp_tpl_note_load(struct kp_interp *I, const struct kp_load *l, const struct kp_tv *v);
void kp_tpl_note_store(struct kp_interp *I, const struct kp_node *target, const struct kp_tv *ns,
	const struct kp_tv *v);
void kp_tpl_note_item(struct kp_interp *I, const struct kp_node *n, const struct kp_tv *of,
	const struct kp_tv *key, const struct kp_tv *v);
/* A loop over a slice begins; its next element, or NULL: there is none. */
int kp_tpl_note_slice(struct kp_interp *I, struct kp_act *act, const struct kp_node *slice,
	struct kp_tpl_source *s);
void kp_tpl_note_rest(struct kp_interp *I, const struct kp_tpl_source *s, const struct kp_tv *v);
void kp_tpl_note_bad(struct kp_interp *I); /* the round depends on what cannot be asked again */
/* A question reads from an iterator that was there before: true: it must not. */
bool kp_tpl_used_up(struct kp_interp *I);

#endif
