/* HTTP GET or POST of JSON, many at once. No proxy, no redirect: who is asked answers. Limits: 5 s to connect,
   15 s in all, KP_FETCH_MAX_BYTES of body. */
#ifndef CLI_FETCH_H
#define CLI_FETCH_H

#include "base/arena.h"

#include <jansson.h>

enum { KP_FETCH_MAX_BYTES = 32 << 20, KP_FETCH_AT_ONCE = 32 };

struct kp_fetched {
	const char *url;
	kp_str body;  /* KP_STR_NULL: GET, else POST of this JSON */
	json_t *json; /* an object; NULL: err says why there is none */
	struct kp_err
		err; /* UNAVAILABLE: it does not answer. NOT_FOUND: it says so. DATA_LOSS: what it
			      says makes no sense. Else what it says */
};
/* "http://host:port/prefix/status" from a server as people write it ("host:port", "http://host/x/") and
   what is asked for ("status", "explain?model="), with `operand`, percent-encoded, behind it. Only http
   and https. */
int kp_fetch_url(struct kp_arena *a, const char *server, const char *what, kp_str operand,
	const char **ret, struct kp_err *err) KP_MUST_USE;
/* Asks all, KP_FETCH_AT_ONCE at once at most; f[i].url is given. */
void kp_fetch_all(struct kp_fetched *f, size_t n);
void kp_fetch_fini(struct kp_fetched *f, size_t n);

#endif
