/* The way of one request through the gateway: prompts of a turn become generations on engines,
   engine output becomes events, events become bytes. Everything runs on the loop that accepted the
   request; only rendering and tokenizing of long prompts visit a worker.

   Life: kp_flow_create when the body is complete, kp_flow_run, freed by itself after the stream's
   `closed` (kp_flow_closed). */
#ifndef SIDECAR_FLOW_FLOW_H
#define SIDECAR_FLOW_FLOW_H

#include "base/workers.h"
#include "parse/stop.h"
#include "prompt/cache.h"
#include "sidecar/errors.h"
#include "sidecar/flow/encoder.h"
#include "sidecar/gwloop.h"
#include "sidecar/route/explain.h"

enum {
	KP_FLOW_ARENA_BASE =
		8 << 20, /* a request's memory: this plus KP_FLOW_ARENA_FACTOR times its body */
	KP_FLOW_ARENA_FACTOR = 16,
	KP_FLOW_OFFLOAD_BYTES = 128
				<< 10, /* longer bodies are rendered and tokenized by a worker */
	KP_FLOW_OFFLOAD_PROMPTS =
		16, /* more, too: each may take some milliseconds (token/effort.h) */
	KP_FLOW_MAX_PROMPT_IDS = 4 << 20,
	KP_FLOW_MAX_ATTEMPTS = 3, /* of one choice that failed */
	KP_FLOW_MAX_REFUSED = 8,  /* and how often gateways may turn it away besides */
};

struct kp_flow;
struct kp_flow_media;
struct kp_output_check;
struct kp_output_schemas;
typedef int kp_flow_job(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err);

/* A stage answers next, wait (kp_flow_resume comes later) or fail. */
enum kp_step { KP_STEP_NEXT = 0, KP_STEP_WAIT, KP_STEP_FAIL };
struct kp_stage {
	const char *name;
	enum kp_step (*run)(struct kp_flow *f, struct kp_err *err);
};

/* What an API brings: how its body is read into a turn, which stages follow, how answers look. */
struct kp_flow_api {
	const char *name;      /* for metrics: "chat", "completions", ... */
	const char *id_prefix; /* "chatcmpl-" */
	enum kp_turn_kind kind;
	int (*read)(kp_str body, struct kp_turn *turn, struct kp_err *err); /* on any thread */
	const struct kp_stage *stages;             /* ended by a NULL name */
	const struct kp_encoder *streamed, *whole; /* NULL: the last stage answers by itself */
	enum kp_dialect dialect;                   /* of its errors */
	const struct kp_stage *ending;             /* run when all choices are over; NULL: none */
	size_t arena_bytes;                        /* that its requests may need besides */
	void (*stop)(struct kp_flow *f); /* gives back what its stages hold and wait for; NULL */
};

/* One prompt: its text and ids, shared by its choices. */
struct kp_flow_prompt {
	struct kp_text text; /* empty when the client sent ids */
	struct kp_ids ids;
	struct kp_buf packed;         /* the ids as engines are sent them, or empty */
	struct kp_endpoint *endpoint; /* where its first choice went, borrowed from the revision:
					 the others follow, for the engine's prefix cache */
	uint32_t cached_tokens;       /* of the engine's cache */
	struct kp_prompt_use use;     /* of ours */
};

/* One output sequence, and the engine call that makes it. `n` choices of a prompt are n calls with
   one sequence each and seeds that count up, as vLLM itself does it: engines need not know `n`, and
   one that refuses n > 1 for greedy sampling serves it too. */
struct kp_choice {
	struct kp_flow *flow;
	struct kp_flow_prompt *prompt;
	uint32_t index;
	struct kp_lane *lane;        /* while call runs */
	struct kp_engine_call *call; /* NULL: not running */
	struct kp_endpoint
		*failed; /* the last one that did not take it, or NULL; compared, never followed */
	char shm_name[40];          /* of pixels in /dev/shm, for this choice alone; "": none */
	bool is_named;              /* the call that runs was given it */
	struct kp_endpoint *no_shm; /* where a name failed, or NULL; never followed */
	unsigned attempts;          /* started on an engine, or on the way to one */
	unsigned refused;           /* turned away by gateways before their engine saw it */
	int64_t heard_ns;           /* when the engine last sent something, or was asked */
	struct kp_explain_trace trace;
	struct kp_detok detok;
	struct kp_stop stop;
	struct kp_parser *parser; /* NULL: all is text */
	bool has_shown;           /* flow/parse.c */
	uint32_t n_tokens;
	uint32_t n_chars;              /* of visible text, for text_offset */
	struct kp_output_check *check; /* NULL: nothing to check */
	bool is_open, is_done;
	bool is_again, was_again; /* it is to be made once more, it was (judge.c) */
};

struct kp_flow {
	struct kp_list link; /* gwloop->flows */
	struct kp_gwloop *l;
	struct kp_stream *stream; /* NULL once closed */
	struct kp_buf body;
	struct kp_buf answer; /* of an API without an encoder */
	struct kp_turn turn;
	const struct kp_encoder *encoder;
	void *encoder_state;
	struct kp_snapshot *snapshot;
	const struct kp_model *model;
	struct kp_model_revision *revision;
	/* Whose engines may have it: the revision's, or, when they have gone, those of a later snapshot. */
	struct kp_model_revision *routes;
	struct kp_snapshot *later; /* NULL: routes is revision */
	const struct kp_stop_set *stops;
	struct kp_tool_offer offer; /* of the choices' parsers */
	const struct kp_lexicon
		*lexicon; /* theirs: the model's, or that of the constraint's calls */
	struct kp_output_schemas *schemas; /* that outputs are checked against; NULL: none */
	struct kp_flow_media *media;       /* of the turn's arena; NULL: no images */
	struct kp_flow_prompt *prompts;
	size_t n_prompts;
	struct kp_choice *choices; /* those of prompt 0 first */
	size_t n_choices, choices_left;
	const struct kp_stage *stages; /* the API's, or its ending */
	size_t stage;
	struct kp_job job; /* while is_waiting */
	kp_flow_job *job_fn;
	bool job_needs_scratch;
	struct kp_err job_err;
	struct kp_timer timer; /* keep-alive comments and the deadline */
	struct kp_timer look;  /* of await.c */
	int64_t first_ns;      /* first byte of the answer's content, 0 not yet */
	int64_t active_ns;     /* last bytes sent */
	int64_t prompt_ns;     /* that rendering and tokenizing took */
	int64_t render_ns;     /* of that, rendering; 0: nothing was rendered */
	bool render_failed;
	uint32_t completion_tokens, reasoning_tokens;
	struct kp_usage earlier;         /* prompts of the rounds before this one */
	void *own;                       /* what its API has besides, in the arena */
	size_t loaded_bytes, held_bytes; /* of other requests, read with it; held: counted */
	uint32_t known_messages;         /* for those who ask (prompt/known.h) */
	bool is_waiting, has_head, is_over, is_paused;
	const struct kp_flow_api *api;
};

/* body: the whole request body, taken over. client_id: the request's x-request-id, or KP_STR_NULL.
 */
struct kp_flow *kp_flow_create(struct kp_gwloop *l, struct kp_stream *s,
	const struct kp_flow_api *api, struct kp_buf *body, kp_str client_id);
/* Runs the API's stages. */
void kp_flow_run(struct kp_flow *f);
/* Ends the turn with an error: an HTTP error when nothing was sent yet, else the encoder's error
 * event. */
void kp_flow_fail(struct kp_flow *f, const struct kp_err *err);
/* The turn is over for the client: metrics, and what /explain tells. Once. */
void kp_flow_ended(struct kp_flow *f, int http_status);
/* Tokens of all its prompts, by where they came from. */
struct kp_prompt_use kp_flow_prompt_use(const struct kp_flow *f);
/* The endpoint does not answer (kp_gwloop_engine_down). */
void kp_flow_engine_down(struct kp_flow *f, const struct kp_endpoint *e, bool is_stalled);
/* Ends the turn with this JSON, for APIs without an encoder. */
void kp_flow_reply(struct kp_flow *f, kp_str json);
/* The stream's callbacks. */
void kp_flow_writable(struct kp_flow *f);
void kp_flow_closed(struct kp_flow *f, enum kp_stream_end why);

/* err->reason of an output that breaks its schema: not logged, for the message tells of the output. */
extern const char kp_invalid_output[];

/* Runs fn here, or on a worker when the request is long enough to hold the loop. fn touches only
   the flow's own memory and what is immutable. */
enum kp_step kp_flow_work(struct kp_flow *f, kp_flow_job *fn, struct kp_err *err);
/* The same, always on one of these workers; no scratch. */
enum kp_step kp_flow_submit(
	struct kp_flow *f, struct kp_workers *workers, kp_flow_job *fn, struct kp_err *err);
/* From a stage of the ending, which then answers NEXT: the turn goes on at that stage of the API's with another generation. What the last one had is
   gone, but for the encoder's state and what was counted. */
void kp_flow_round(struct kp_flow *f, const char *stage);
/* Called by a stage that waited. */
void kp_flow_resume(struct kp_flow *f, const struct kp_err *err /* NULL: go on */);

/* Sends events and bytes (flow/output.c). */
void kp_flow_emit(struct kp_flow *f, const struct kp_event *ev);
void kp_flow_flush(struct kp_flow *f);
int kp_choice_start(struct kp_choice *c, struct kp_err *err) KP_MUST_USE;
void kp_choice_stop(struct kp_choice *c); /* cancels its call, if any */
/* Its engine failed it: cancels the call; tries elsewhere when nothing was sent yet, else ends the turn. */
void kp_choice_failed(struct kp_choice *c, struct kp_err *err);
void kp_choice_over(
	struct kp_choice *c); /* it has had its finish: the last one completes the turn */

#endif
