/* An engine as the rest of the program sees it: token ids in, token ids out, no wire format. One
   kp_engine is one endpoint on one loop; all calls and callbacks are on that loop's thread.
   Implementations: lib/engine. */
#ifndef KP_CORE_ENGINE_H
#define KP_CORE_ENGINE_H

#include "base/arena.h"
#include "base/err.h"
#include "core/media.h"
#include "core/sampling.h"

struct kp_loop;
struct kp_engine;

/* One alternative of a log-probability list. */
struct kp_top_logprob {
	kp_id id;
	float logprob;
};
/* Log-probabilities of one position. `top` may contain the sampled token or not, as the engine
 * sends it. */
struct kp_token_logprob {
	kp_id id;
	float logprob;
	const struct kp_top_logprob *top;
	uint32_t n_top;
	bool is_absent; /* first prompt position: the engine has none */
};

enum kp_finish {
	KP_FINISH_NONE = 0,
	KP_FINISH_STOP,
	KP_FINISH_LENGTH,
	KP_FINISH_ABORT,
	KP_FINISH_ERROR /* an engine's word for its own failure: the call ends INTERNAL instead */
};

/* What one message of the engine says about one choice. Pointers are valid during the callback. */
struct kp_engine_delta {
	uint32_t choice;
	const kp_id *ids; /* new ids only, never repeated */
	size_t n_ids;
	const struct kp_token_logprob *logprobs; /* n_ids of them, or NULL */
	const struct kp_token_logprob *prompt_logprobs;
	size_t n_prompt_logprobs;
	enum kp_finish finish; /* NONE: more to come for this choice */
	bool has_matched_id;   /* the stop id that ended it */
	kp_id matched_id;
	uint32_t prompt_tokens, cached_tokens; /* as far as the engine says, 0 otherwise */
};

/* err.reason of a call that was refused: the ids were made by another tokenizer than the engine's. */
#define KP_ENGINE_STALE "stale_tokenizer"

struct kp_engine_sink {
	void (*delta)(void *user, const struct kp_engine_delta *d);
	/* Exactly once, last, unless the call was cancelled by us. status OK: every choice has had
	   its finish. `retryable`: the engine certainly never took the request. */
	void (*end)(void *user, const struct kp_err *status, bool retryable);
};

struct kp_engine_request {
	kp_str request_id; /* unique on the engine */
	const kp_id *ids;
	size_t n_ids;
	kp_str packed; /* the same ids as varints, where they are at hand; empty otherwise */
	const struct kp_sampling *sampling;
	kp_str text; /* the prompt as text, for engines that log it; may be empty */
	/* NULL: no images. Of it the pixels' bytes are not copied: they stay until the first delta, `end` or cancel. */
	const struct kp_media_tensors *media;
	kp_str media_shm; /* the pixels lie in /dev/shm under this name; empty: they are sent */
	uint64_t text_fingerprint; /* of what made the ids (kp_text_stack), 0 not known */
	int64_t deadline_ns;       /* absolute monotonic, 0 none */
	bool stream;
};

/* What the engine says of its model. Strings are valid during the callback. */
struct kp_engine_info {
	kp_str model, served_name, model_type, architecture, version;
	uint64_t
		text_fingerprint; /* of its owner's tokenizer, when another gateway was asked; 0 not known */
	uint32_t max_context, vocab_size;
	kp_id eos[16];
	size_t n_eos;
	kp_id bos;
	bool has_bos;
	uint32_t max_running; /* sequences the engine runs at once, 0 unknown */
	uint32_t max_images;  /* of a prompt, UINT32_MAX: it does not say */
	bool normalizes;      /* it takes pixels as bytes: floats it would normalize twice */
	kp_str shm;           /* which /dev/shm it has, "": not said */
	/* The model's own sampling defaults: only `set` and the fields it names. No engine applies
	   them by itself, nor does kp_engine, which is one of many to an endpoint and may never
	   have asked: who starts a generation fills them in (kp_sampling_fill). */
	struct kp_sampling defaults;
};
struct kp_engine_loads {
	int64_t at_ns;
	uint32_t running, waiting; /* as the engine says */
	uint32_t in_flight;        /* as its owner counts, when another gateway was asked */
	float kv_usage;            /* 0..1 */
	uint64_t total_tokens;
};

struct kp_engine_call; /* one running generation */

/* Who is told the answer to a question. Unless the status is OK, info and loads are NULL and zip is
   KP_STR_NULL; they are valid during the call. */
typedef void kp_engine_health_done(void *user, const struct kp_err *status);
typedef void kp_engine_info_done(
	void *user, const struct kp_err *status, const struct kp_engine_info *info);
typedef void kp_engine_loads_done(
	void *user, const struct kp_err *status, const struct kp_engine_loads *loads);
typedef void kp_engine_tokenizer_done(void *user, const struct kp_err *status, kp_str zip);

struct kp_engine_ops {
	void (*destroy)(struct kp_engine *e);
	/* Never NULL; errors come through sink->end after this returned. Everything in the request
	 * is copied but for media's pixels, which are not read any more once a delta has come. */
	struct kp_engine_call *(*start)(struct kp_engine *e, const struct kp_engine_request *r,
		const struct kp_engine_sink *sink, void *user);
	/* Stops it on the engine; no callback follows; the pointer is dead. */
	void (*cancel)(struct kp_engine_call *c);
	/* Holds the engine's stream back (flow control) and lets it go again. */
	void (*pause)(struct kp_engine_call *c, bool paused);
	/* How often it has connected so far: a change means that the engine may be another one now.
	 */
	uint64_t (*connections)(const struct kp_engine *e);
	/* One-shot questions. `done` exactly once, after this returned; status->code OK or the
	   failure. A question that has to be taken back is: destroy the engine, or ignore the
	   answer. */
	void (*health)(
		struct kp_engine *e, int64_t deadline_ns, kp_engine_health_done *done, void *user);
	void (*info)(
		struct kp_engine *e, int64_t deadline_ns, kp_engine_info_done *done, void *user);
	void (*loads)(
		struct kp_engine *e, int64_t deadline_ns, kp_engine_loads_done *done, void *user);
	/* The tokenizer's files as a zip archive, checked against the engine's digest. */
	void (*tokenizer)(struct kp_engine *e, int64_t deadline_ns, kp_engine_tokenizer_done *done,
		void *user);
};
struct kp_engine {
	const struct kp_engine_ops *ops; /* first member of every implementation */
	struct kp_loop *loop;
};

#endif
