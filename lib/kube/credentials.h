/* Inside lib/kube: what a configuration's secrets say now. Files are looked at when a request begins, once in
   KP_KUBE_LOOK_NS at most, and read again when they are others than before: kubelet replaces projected
   tokens, whoever renews certificates replaces those. A file that cannot be read or makes no sense leaves
   the last good content in force. Owner's thread; the files are small and on the node. */
#ifndef KP_KUBE_CREDENTIALS_H
#define KP_KUBE_CREDENTIALS_H

#include "base/buf.h"
#include "base/clock.h"
#include "kube/config.h"

#define KP_KUBE_LOOK_NS KP_NS_PER_S
enum { KP_KUBE_TOKEN_MAX = 64 << 10, KP_KUBE_PEM_MAX = 1 << 20 };

struct kp_kube_file {
	struct kp_kube_secret from;
	struct kp_buf content; /* empty: there is none */
	uint64_t seen;         /* of the file that was read */
};
struct kp_kube_credentials {
	struct kp_kube_file ca, cert, key, token;
	int64_t next_look_ns;
	uint64_t
		generation; /* counts changes of what a connection is made with: all but the token */
};

/* Reads everything once; what cannot be read is an error here. The configuration must outlive it. */
int kp_kube_credentials_init(struct kp_kube_credentials *c, const struct kp_kube_config *config,
	struct kp_err *err) KP_MUST_USE;
void kp_kube_credentials_fini(struct kp_kube_credentials *c); /* zeroed is fine */
/* now_ns: monotonic. is_forced: looks even if it did just now (the server said 401). 0, or -1: err is about the
   first file that could not be taken, the others were. */
int kp_kube_credentials_look(
	struct kp_kube_credentials *c, int64_t now_ns, bool is_forced, struct kp_err *err);
/* "": none. */
kp_str kp_kube_credentials_token(const struct kp_kube_credentials *c);

#endif
