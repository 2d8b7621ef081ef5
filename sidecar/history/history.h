/* What is kept of responses: each with what was asked, under the tenant that asked. A store is one object with a table of functions; all of them block, and are
   called on one thread alone (kp_gateway's `history` pool, which has one), never on a loop. In memory, or in an SQLite file.

   A record is written once and never changed. `put` returns when the record is as safe as the store can make it: in SQLite after its transaction was synced. The
   oldest records go when all together pass max_bytes; those older than max_age_s are as good as gone. Of one tenant nothing shows to another: every
   function takes it, and answers for a stranger's record as for one that never was. */
#ifndef SIDECAR_HISTORY_HISTORY_H
#define SIDECAR_HISTORY_HISTORY_H

#include "base/arena.h"
#include "base/buf.h"

enum {
	KP_HISTORY_MAX_ID = 128,
	KP_HISTORY_MAX_TENANT = 256,
	KP_HISTORY_MAX_RECORD = 32 << 20, /* bytes of a body */
	KP_HISTORY_MAX_CHAIN_BYTES = 32 << 20,
	KP_HISTORY_MAX_CHAIN = 10000, /* records */
};

struct kp_history_record {
	kp_str id, previous_id; /* previous_id: KP_STR_NULL: the first of its conversation */
	int64_t created_s;
	kp_str body;            /* JSON, for the API that wrote it */
	const kp_str *item_ids; /* put: what item() finds it by */
	size_t n_item_ids;
};

struct kp_history;
struct kp_history_ops {
	/* ALREADY_EXISTS; RESOURCE_EXHAUSTED when it is larger than a record may be, or than the whole store. */
	int (*put)(struct kp_history *h, kp_str tenant, const struct kp_history_record *r,
		struct kp_err *err);
	/* Copies into the arena. 1: there is none. */
	int (*get)(struct kp_history *h, kp_str tenant, kp_str id, struct kp_arena *a,
		struct kp_history_record *ret, struct kp_err *err);
	/* The record with an item of that id. 1: there is none. */
	int (*item)(struct kp_history *h, kp_str tenant, kp_str item_id, struct kp_arena *a,
		struct kp_history_record *ret, struct kp_err *err);
	/* 1: there was none. */
	int (*del)(struct kp_history *h, kp_str tenant, kp_str id, struct kp_err *err);
	uint64_t (*bytes)(const struct kp_history *h);
	void (*close)(struct kp_history *h);
};
struct kp_history {
	const struct kp_history_ops *ops;
};

struct kp_history_limits {
	uint64_t max_bytes;     /* of bodies */
	int64_t max_age_s;      /* 0: for ever */
	int64_t (*now_s)(void); /* the wall clock */
};

struct kp_history *kp_history_memory(const struct kp_history_limits *limits);
/* Made when it is not there, of mode 0600. A file that is no history of ours, is damaged, is of a newer version, or is in use by another process fails. */
int kp_history_sqlite(const char *path, const struct kp_history_limits *limits,
	struct kp_history **ret, struct kp_err *err) KP_MUST_USE;
/* "memory" or "sqlite:PATH". */
int kp_history_open(const char *where, const struct kp_history_limits *limits,
	struct kp_history **ret, struct kp_err *err) KP_MUST_USE;
void kp_history_close(struct kp_history *h);

/* The record and all before it, oldest first, in the arena. NOT_FOUND names the one that is missing; OUT_OF_RANGE beyond the limits of a chain. */
int kp_history_chain(struct kp_history *h, kp_str tenant, kp_str id, struct kp_arena *a,
	struct kp_history_record **ret, size_t *ret_n, struct kp_err *err) KP_MUST_USE;

#endif
