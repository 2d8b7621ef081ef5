/* Inside lib/mcp: a session, what is asked in it, and the requests under both. */
#ifndef KP_MCP_INTERNAL_H
#define KP_MCP_INTERNAL_H

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "mcp/client.h"
#include "mcp/message.h"
#include "mcp/sse.h"

enum { KP_MCP_SESSION_ID_MAX = 1024, KP_MCP_PAGES_MAX = 64, KP_MCP_STRAYS_MAX = 64 };

struct kp_mcp_post;
/* What came of a request: the answer, or an error and whether the server surely did not run it. */
struct kp_mcp_answer {
	struct kp_err err;
	int http;
	bool is_unsent;
	const struct kp_mcp_message
		*message; /* RESULT or ERROR; NULL with err, and for what is not answered */
};
typedef void kp_mcp_answered_fn(void *ctx, struct kp_mcp_post *p, const struct kp_mcp_answer *a);

/* A message posted to a server. It is a request when it has an id. Its answer is told once; what is left of the stream is read for a moment then, so
   that the connection can be used again. */
struct kp_mcp_post {
	struct kp_list link; /* the session's posts */
	struct kp_mcp *m;
	struct kp_fetch_call *call;
	uint64_t id; /* 0: a notification or an answer: nothing comes back but a status */
	int64_t due_ns, quiet_ns; /* in all; between signs of life */
	struct kp_buf in;
	struct kp_sse sse;
	int http;
	bool is_json, is_sse, is_answered, is_calling, is_dead;
	kp_mcp_answered_fn *answered; /* NULL: nobody cares */
	void (*progress)(void *ctx, const struct kp_jv *params);
	void *ctx;
};
struct kp_mcp_post_opts {
	const char *method; /* "POST", "DELETE" */
	kp_str body;
	uint64_t id;
	int64_t quiet_ns, total_ns;
	kp_mcp_answered_fn *answered;
	void (*progress)(void *ctx, const struct kp_jv *params);
	void *ctx;
};
/* NULL with err. */
struct kp_mcp_post *kp_mcp_post_begin(
	struct kp_mcp *m, const struct kp_mcp_post_opts *o, struct kp_err *err);
void kp_mcp_post_cancel(struct kp_mcp_post *p);                     /* nothing is told any more */
kp_str kp_mcp_post_header(struct kp_mcp_post *p, const char *name); /* in `answered` */

enum kp_mcp_state { KP_MCP_NONE = 0, KP_MCP_STARTING, KP_MCP_READY };

struct kp_mcp {
	struct kp_list
		idle; /* in the pool's idle ones, oldest first, while nobody holds it, or its ending ones */
	struct kp_mcp_pool *pool;
	kp_str key; /* the map's */
	unsigned holders;
	struct kp_arena *arena;
	struct kp_mcp_config c;
	struct kp_fetch *fetch;
	struct kp_list posts;
	size_t n_strays; /* posts that nobody waits for */
	/* the session */
	enum kp_mcp_state state;
	uint64_t generation; /* of the session; an ask knows in which it was sent */
	char *session_id;    /* NULL: the server has none */
	const char *version;
	bool has_no_tools;
	uint64_t last_id;
	struct kp_mcp_post *starting;
	/* asks */
	struct kp_list waiting, sent, listers, failed;
	size_t n_asks;
	struct kp_defer turn;
	/* the list */
	struct kp_mcp_tools *tools, *coming; /* coming: pages so far */
	int64_t tools_at_ns;
	bool are_tools_stale;
	unsigned pages;
	bool is_list_retried;
	struct kp_mcp_post *listing;
	int64_t idle_since_ns;
};

struct kp_mcp_ask {
	struct kp_list link;
	struct kp_mcp *m;
	kp_mcp_listed_fn *listed; /* NULL: a call */
	struct kp_mcp_call call;
	char *tool, *arguments;
	void *ctx;
	struct kp_mcp_post *post;
	uint64_t generation;
	int64_t began_ns;
	bool is_retried, is_calling, is_dead;
	struct kp_err failed;
	enum kp_mcp_outcome outcome; /* of `failed` */
	int64_t code;                /* JSON-RPC's */
};

struct kp_mcp_pool {
	struct kp_loop *loop;
	struct kp_mcp_pool_opts opts;
	char *user_agent;
	struct kp_map by_key;
	struct kp_list idle, ending;
	size_t n_ending, n_posts, max_sessions, max_posts;
	struct kp_timer timer;
	struct kp_gauge *sessions;
};

/* session.c */
void kp_mcp_session_start(struct kp_mcp *m);
/* The server does not know it any more; `generation`: the one that found out. */
void kp_mcp_session_lost(struct kp_mcp *m, uint64_t generation);
void kp_mcp_session_end(struct kp_mcp *m); /* DELETE */
/* A message for the server that nobody waits for. */
void kp_mcp_stray(struct kp_mcp *m, const char *method, kp_str body);
void kp_mcp_list_start(struct kp_mcp *m);
void kp_mcp_count(struct kp_mcp *m, const char *method, const char *outcome);
/* ask.c */
void kp_mcp_session_turn(struct kp_mcp *m); /* what can go on, at the end of the loop's turn */
void kp_mcp_ask_send(struct kp_mcp_ask *a);
/* done with it, and it is freed */
void kp_mcp_ask_listed(
	struct kp_mcp_ask *a, const struct kp_mcp_tools *t, const struct kp_err *err);
void kp_mcp_ask_failed(struct kp_mcp_ask *a, enum kp_mcp_outcome outcome, const struct kp_err *err,
	bool may_have_run);

#endif
