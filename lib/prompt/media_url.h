/* What a client writes for an image: a data: URL (RFC 2397, base64 only) or one that has to be fetched. Pure. */
#ifndef KP_PROMPT_MEDIA_URL_H
#define KP_PROMPT_MEDIA_URL_H

#include "base/err.h"
#include "base/str.h"

enum kp_media_source { KP_MEDIA_NONE = 0, KP_MEDIA_DATA, KP_MEDIA_HTTP };

struct kp_media_url {
	enum kp_media_source source;
	kp_str base64;    /* DATA */
	size_t max_bytes; /* DATA: that it decodes to at most */
};

/* INVALID_ARGUMENT without any of the URL's data in it. The media type must be an image's, or say nothing; which image it is tell its
   first bytes. */
int kp_media_url_read(kp_str url, struct kp_media_url *ret, struct kp_err *err) KP_MUST_USE;

#endif
