/* libcurl's multi interface on a loop: its sockets are polled there, its timer is one of the loop's. Owner's thread only.

   libcurl allows nothing to be done with a transfer inside of its callbacks; so they write down what happened, and whoever
   uses this does the rest when `stirred` was called, best at the end of the loop's turn. */
#ifndef KP_FETCH_MULTI_H
#define KP_FETCH_MULTI_H

#include "net/loop.h"

#include <curl/curl.h>

struct kp_multi {
	CURLM *curl;
	struct kp_loop *loop;
	struct kp_timer timer;
	void (*stirred)(struct kp_multi
			*m); /* libcurl was called: transfers may have got bytes, or ended */
};

void kp_multi_init(struct kp_multi *m, struct kp_loop *loop, void (*stirred)(struct kp_multi *));
/* Its transfers must be gone. Zeroed is fine. */
void kp_multi_fini(struct kp_multi *m);
/* A transfer that ended, taken off libcurl's list: its CURLOPT_PRIVATE and result; NULL: there is none (left). */
void *kp_multi_ended(struct kp_multi *m, CURLcode *ret_result);

#endif
