/* HTTP requests as a client, on a loop: HTTP/1.1 and 2, on libcurl. A kp_fetch is one policy and the connections that were
   made under it (policy.h); what is asked under another policy needs another one, or a connection that only one of them allows would
   serve both. Owner's thread only; nothing blocks (names are resolved on a thread of libcurl's).

   Never taken from the environment: proxies, .netrc. Nothing is decompressed and no cookie is kept. Redirects are followed
   here, each under the same policy; at one to another origin everything but Accept and Content-Type is dropped.

   Callbacks run at the end of the loop's turn, never inside of the functions below. */
#ifndef KP_FETCH_FETCH_H
#define KP_FETCH_FETCH_H

#include "fetch/policy.h"
#include "net/loop.h"

struct kp_fetch;
struct kp_fetch_call;

enum {
	KP_FETCH_CALLS_MAX =
		256, /* at once, of one kp_fetch, unless told otherwise; more are RESOURCE_EXHAUSTED */
	KP_FETCH_HEAD_MAX = 64 << 10, /* bytes of an answer's heads in all */
	KP_FETCH_FLOW_BYTES =
		256 << 10, /* of a body that wait for who holds it back; the sender waits then */
};

struct kp_fetch_opts {
	const struct kp_fetch_policy *policy; /* must outlive it */
	const char *user_agent;               /* must outlive it */
	kp_str ca_pem;      /* whom to trust, must outlive it; empty: the system's */
	unsigned max_calls; /* 0: KP_FETCH_CALLS_MAX */
	unsigned max_idle;  /* connections that are kept for later; 0: as many as libcurl likes */
};
struct kp_fetch *kp_fetch_create(struct kp_loop *loop, const struct kp_fetch_opts *opts);
/* Calls that are left are cancelled. NULL is fine. */
void kp_fetch_destroy(struct kp_fetch *f);
size_t kp_fetch_in_flight(const struct kp_fetch *f);

struct kp_fetch_header {
	kp_str name, value; /* no CR, LF or NUL: INVALID_ARGUMENT */
};
struct kp_fetch_result {
	struct kp_err err; /* code OK: there was an answer, whatever its status */
	int status;        /* of the answer, 0: there was none */
	bool is_unsent;    /* with an error: the server surely did not see the request */
};
struct kp_fetch_request {
	const char *method; /* static */
	kp_str url, body;   /* copied */
	const struct kp_fetch_header *headers;
	size_t n_headers;
	/* 0: 10 s, 60 s, none, 5 min: until connected (with TLS); until the head of the answer; between its bytes; in all. */
	int64_t connect_ns, first_byte_ns, idle_ns, total_ns;
	uint64_t max_bytes;     /* of the body, TOO_LARGE beyond; 0: no limit but the receiver's */
	unsigned max_redirects; /* 0: a redirect is an answer like any other */
	bool once; /* is not sent again when the connection turns out to be lost (only what was never sent is) */
	bool same_origin; /* redirects to another origin are not followed: PERMISSION_DENIED */
	/* `head` (may be NULL) when the answer's head is there, then its bytes as they come, then `done`, always, unless it is
	   cancelled. */
	void (*head)(void *ctx, int status);
	void (*data)(void *ctx, kp_str bytes);
	void (*done)(void *ctx, const struct kp_fetch_result *r);
	void *ctx;
};
bool kp_fetch_header_ok(kp_str name, kp_str value); /* can it be sent? */
/* NULL with err: what is wrong with the request, or refused by the policy, or too many. Valid until `done` was called. */
struct kp_fetch_call *kp_fetch_send(
	struct kp_fetch *f, const struct kp_fetch_request *r, struct kp_err *err);
/* `done` is not called. Also inside of `head` and `data`, not in `done`. */
void kp_fetch_cancel(struct kp_fetch_call *c);
/* In the callbacks: a header of the answer, the last of its name; KP_STR_NULL: none. Valid until the callback returns. */
kp_str kp_fetch_header(struct kp_fetch_call *c, const char *name);
/* Holds back what comes (`data` is not called), or lets it come again. Deadlines go on; the one between bytes does not. */
void kp_fetch_hold(struct kp_fetch_call *c, bool is_held);
/* The total deadline anew: from now. */
void kp_fetch_extend(struct kp_fetch_call *c, int64_t total_ns);

#endif
