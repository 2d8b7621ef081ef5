/* sim-engine: an engine without a model, for tests and benchmarks. It speaks vllm.grpc.engine and sglang.grpc.scheduler over gRPC core's server API, on one
   port, and sends token ids that are a function of prompt, seed and position, at a set pace, or goes wrong in a chosen way.

   One thread: a completion queue of kind `next`, drained until the next tick (with the callback kind nothing polls the sockets in this build). All state
   belongs to it. Protobuf-c packs and unpacks everything, so that it is a check on the gateway's own codec and not a copy of it.

   What a protocol says is in its file (vllm.c, sglang.c), as struct kp_sim_protocol (protocol.h); everything else knows none. */
#ifndef KP_BENCH_SIM_H
#define KP_BENCH_SIM_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <protobuf-c/protobuf-c.h>

/* --- faults (fault.c) ---------------------------------------------------------------------------------------------- */

enum kp_sim_fault_kind {
	KP_SIM_NO_FAULT = 0,
	KP_SIM_REFUSE,      /* UNAVAILABLE at once */
	KP_SIM_EXHAUSTED,   /* full, in its protocol's way, at once */
	KP_SIM_INVALID,     /* INVALID_ARGUMENT at once */
	KP_SIM_HANG,        /* after k tokens nothing more, for ever */
	KP_SIM_DIE,         /* after k tokens the process is gone */
	KP_SIM_UNAVAILABLE, /* after k tokens the call ends UNAVAILABLE */
	KP_SIM_INTERNAL,    /* after k tokens the call ends INTERNAL */
	KP_SIM_NO_FINISH,   /* after k tokens the call ends OK, without a `complete` */
	KP_SIM_GARBAGE_IDS, /* token k is outside of the vocabulary */
	KP_SIM_BAD_CHOICE,  /* token k belongs to a choice nobody asked for */
	KP_SIM_WRONG_PROTO, /* after k tokens a message that is no protobuf */
	KP_SIM_EMPTY,       /* after k tokens a message with nothing in it */
	KP_SIM_EXTRA,       /* one more chunk after the last `complete` */
	KP_SIM_ERROR,       /* after k tokens every choice ends: the model has failed */
	KP_SIM_SLOW_DRIP,   /* a token every k milliseconds (1000) */
	KP_SIM_UNHEALTHY,   /* HealthCheck says so */
	KP_SIM_BAD_DIGEST,  /* GetTokenizer announces another digest */
	KP_SIM_NO_DIGEST,   /* GetTokenizer ends before its last piece */
};
struct kp_sim_fault {
	enum kp_sim_fault_kind kind;
	uint32_t k;
	uint32_t max_tokens; /* only requests with this max_tokens; 0: all */
};
/* NAME[:K][@MAX_TOKENS] */
int kp_sim_fault_parse(kp_str text, struct kp_sim_fault *ret, struct kp_err *err) KP_MUST_USE;
const char *kp_sim_fault_name(enum kp_sim_fault_kind kind);
/* "refuse, exhausted, ...": for --help. */
void kp_sim_fault_names(struct kp_buf *b);

/* What can be changed while it runs: the file of --control, read again when it changes (looked at when a request comes). Its lines are faults, and
   `ttft-ms=MS`, `itl-ms=MS`; what it does not say is as the command line says. */
struct kp_sim_control {
	const char *file; /* NULL: none */
	int64_t file_stamp;
	struct kp_sim_fault fixed[16], from_file[16]; /* --fault, and the file's */
	size_t n_fixed, n_from_file;
	int64_t given_ttft_ns, given_itl_ns; /* by the command line */
	int64_t ttft_ns, itl_ns;             /* itl 0: as fast as it can */
};
/* The fault of a request: of its metadata `x-sim-fault`, else of a word "sim-fault.NAME[.K]" in its id or text, else of the file, else of --fault. */
struct kp_sim_request;
struct kp_sim_fault kp_sim_fault_of(struct kp_sim_control *f, const struct kp_sim_request *r,
	const grpc_metadata_array *metadata);
/* Reads the file if it has changed. */
void kp_sim_control_refresh(struct kp_sim_control *f);
/* Whether a fault that is no request's (UNHEALTHY, ..._DIGEST) is on. */
bool kp_sim_fault_on(struct kp_sim_control *f, enum kp_sim_fault_kind kind);

/* --- options (options.c) ------------------------------------------------------------------------------------------- */

enum { KP_SIM_VLLM = 1, KP_SIM_SGLANG = 2 };
struct kp_sim_opts {
	const char *listen;
	unsigned protocols; /* KP_SIM_VLLM | KP_SIM_SGLANG */
	uint32_t vocab, max_context, stop_after, cached, max_streams;
	const char *model, *served_name, *model_type, *architecture, *defaults;
	uint32_t eos[16];
	size_t n_eos;
	uint32_t bos;
	uint32_t *tokens; /* --tokens: cycled through */
	size_t n_tokens;
	uint32_t seed_step;
	uint32_t turn_id, turn_step; /* turn_step 0: none */
	const char *tokenizer_zip;
	const char *tokenizer_files[16];
	size_t n_tokenizer_files;
	const char *log;
	bool log_ids;
	const char *shm;         /* what it says of its /dev/shm; NULL: the truth */
	const char *item_limits; /* of a prompt's images, as vLLM says it */
	bool normalizes;
	struct kp_sim_control control;
};
/* 0, 1 (--help was printed) or -1; `tokens` is the caller's to free in every case. */
/* "2.5" -> nanoseconds. */
int kp_sim_milliseconds(kp_str text, int64_t *ret, struct kp_err *err) KP_MUST_USE;
int kp_sim_options(int argc, char **argv, struct kp_sim_opts *ret, struct kp_err *err) KP_MUST_USE;

/* --- the pretended model (model.c): pure --------------------------------------------------------------------------- */

struct kp_sim_model {
	uint32_t vocab;
	const uint32_t *tokens;
	size_t n_tokens, from; /* from: where the request begins in them */
	uint64_t key;          /* of prompt and seed */
};
/* What stands at a position of a choice. Never one of the end tokens, except where `stop_after` puts it. */
uint32_t kp_sim_token(const struct kp_sim_model *m, uint32_t choice, uint32_t position);
float kp_sim_logprob(const struct kp_sim_model *m, uint32_t token, uint32_t position);
struct kp_sim_model kp_sim_model_of(const struct kp_sim_opts *o, const struct kp_sim_request *r);

/* --- server (rpc.c) ------------------------------------------------------------------------------------------------ */

struct kp_sim;
struct kp_sim_tag {
	void (*fn)(struct kp_sim_tag *t, bool ok);
};
/* One call being answered. Owner: itself; it is destroyed when the call has closed and no send is under way. */
struct kp_sim_rpc {
	struct kp_sim *sim;
	grpc_call *call;
	grpc_metadata_array metadata;
	struct kp_sim_tag closed, sent;
	grpc_byte_buffer *message; /* being sent */
	grpc_slice status_text;
	int is_cancelled;
	bool is_closed, is_sending, has_started, is_finished;
	void (*on_sent)(struct kp_sim_rpc *r);      /* may send the next */
	void (*on_cancelled)(struct kp_sim_rpc *r); /* no more sending */
	void (*destroy)(struct kp_sim_rpc *r);      /* frees what r lies in */
};
/* Sends one message (taken). `more`: another follows at once, so the bytes may wait for it. */
void kp_sim_send(struct kp_sim_rpc *r, grpc_byte_buffer *message, bool more);
/* Ends the call, with a last message (taken) or NULL. */
void kp_sim_finish(
	struct kp_sim_rpc *r, grpc_byte_buffer *message, grpc_status_code code, const char *text);
grpc_byte_buffer *kp_sim_pack(const ProtobufCMessage *m);
grpc_byte_buffer *kp_sim_bytes(const void *p, size_t n);

/* One method: `begin` gets a fresh call (accepted, nothing sent) and makes of it an object of its own; bytes are the request's. */
struct kp_sim_protocol;
struct kp_sim_method {
	const char *path; /* NULL: every other path */
	void (*begin)(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
		grpc_metadata_array metadata, kp_str request);
};
/* Wires `r` (zeroed, but for its three functions) to the call. */
void kp_sim_rpc_init(
	struct kp_sim_rpc *r, struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata);

struct kp_sim {
	const struct kp_sim_opts *opts;
	struct kp_sim_control control;
	grpc_server *server;
	grpc_completion_queue *cq;
	struct kp_list waiting; /* calls before their first token, oldest first */
	struct kp_list running; /* calls that make tokens */
	struct kp_list slow;    /* calls with a pace of their own */
	size_t n_waiting, n_running;
	int64_t next_tick_ns;
	bool is_ticking;
	uint64_t used_tokens; /* prompt and output of all running calls */
	kp_str tokenizer;     /* the archive */
	char tokenizer_sha256[65];
	int log_fd; /* -1: none */
	int64_t started_ns;
	int64_t die_ns; /* 0: lives on */
};
int kp_sim_listen(struct kp_sim *s, int *ret_port, struct kp_err *err) KP_MUST_USE;
/* Handles what arrives until the time given (monotonic ns); returns at once after something was handled and the queue is empty. */
void kp_sim_serve_until(struct kp_sim *s, int64_t until_ns);
void kp_sim_shutdown(struct kp_sim *s);

/* --- odds and ends ------------------------------------------------------------------------------------------------- */

/* bundle.c: reads --tokenizer-zip, or makes a zip of the files (stored, not compressed), and hashes it. */
int kp_sim_bundle(const struct kp_sim_opts *o, struct kp_buf *zip, char sha256[65],
	struct kp_err *err) KP_MUST_USE;
/* log.c: one JSON line; does nothing without --log. `extra`: more members, each with a comma in front. */
void kp_sim_log(struct kp_sim *s, const char *event, kp_str request_id, const char *extra, ...)
	KP_PRINTF(4, 5);

#endif
