/* What engines.c and engine_text.c share: the engines of the program and their endpoints. Control thread only. */
#ifndef SIDECAR_CONTROL_ENGINES_INTERNAL_H
#define SIDECAR_CONTROL_ENGINES_INTERNAL_H

#include "base/vec.h"
#include "sidecar/control/engines.h"
#include "sidecar/control/facts.h"
#include "sidecar/control/peer_tls.h"
#include "sidecar/control/texts.h"
#include "sidecar/gwloop.h"

struct engine;

struct endpoint {
	struct engine *engine;
	struct kp_endpoint *shared;
	struct kp_engine *probe;
	struct kp_timer timer;
	bool is_asking;        /* a question is under way */
	bool is_gone;          /* being destroyed: answers mean nothing */
	bool has_info;         /* since it last came up */
	uint64_t connections;  /* of the probe, when it was asked what it serves */
	int64_t asked_ns;      /* the last question for its health was sent */
	uint64_t told_text;    /* the loops believe that it serves with this; 0: with nothing */
	bool is_wanted;        /* one of them has a new connection since then */
	bool is_answer_wanted; /* one of them had, when the question was sent */
	uint32_t max_context, vocab_size; /* as it said, 0: not known */
	int64_t down_ns;                  /* since when it does not answer, 0: it does */
	int64_t leave_ns; /* the program does not name it any more: stays until then at most; 0: it
			     does */
	char why[KP_ERR_MSG]; /* it is not routable, "" when it is */
	char *model;          /* as it said, NULL: not yet */
	char *broken;         /* what is wrong with the tokenizer it sent last, NULL: nothing */
	uint64_t zip_hash;    /* of the archive it sent last, 0: none yet */
	bool is_other;        /* and another endpoint of the engine serves with another one */
	struct kp_endpoint_facts *facts; /* what it said, NULL: not yet */
	struct kp_engine_loads loads;    /* the last */
	struct kp_gauge *up, *running, *waiting;
};

struct engine {
	struct kp_engines *owner;
	char *name, *pool, *model, *path; /* path: NULL for source Engine */
	char *chat_template;              /* as in the manifest, "": by the model table */
	enum kp_program_text_policy text_policy;
	char *tool_parser, *reasoning_parser; /* as in the manifest, "": by the chat template */
	enum kp_output_validation validation;
	enum kp_strict_schemas strict_schemas;
	KP_VEC(char *)
	aliases;
	KP_VEC(struct endpoint *)
	endpoints;
	struct kp_text_stack *text;
	uint64_t zip_hash;    /* of the archive `text` was made from */
	char why[KP_ERR_MSG]; /* there is no text stack */
	bool keep;            /* the program names it */
};

struct kp_engines {
	struct kp_gateway *gateway;
	struct kp_loop *loop;
	void (*changed)(void *);
	void *arg;
	KP_VEC(struct engine *)
	engines;
	struct kp_peer_tls peer_tls;
	struct kp_rng rng;
	struct kp_defer let_go;
	struct kp_timer leave; /* of the next endpoint that must go */
	struct kp_texts *texts;
};

/* Loads the engine's tokenizer, if it comes from a path and is not there yet. Blocking. */
void kp_engine_load_path(struct engine *e);
/* What an endpoint answered when it was asked for its tokenizer. Whatever is wrong with it is in p->broken, and keeps the endpoint from being routable: what is
   loaded belongs to another one then, and its ids would mean something else. */
void kp_endpoint_take_tokenizer(struct endpoint *p, const struct kp_err *status, kp_str zip);
/* It waits with another tokenizer than its engine had; true when it is time to ask again: the engine has the same by now, or nobody serves with the other one any more. */
bool kp_endpoint_may_take_another(const struct endpoint *p);
/* Another endpoint's tokenizer was loaded since it sent its own: it has to be asked again. */
bool kp_endpoint_is_behind(const struct endpoint *p);
/* Why an endpoint that answers cannot serve; "" when it can. */
void kp_endpoint_why_not_routable(const struct endpoint *p, char why[KP_ERR_MSG]);

#endif
