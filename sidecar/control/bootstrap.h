/* How a gateway in a cluster gets its certificate: it makes a key, asks the operator to sign (POST URL/certificates with the pod's token), and
   again after two thirds of the certificate's life. Key, certificate and authorities lie in `tls` of the state directory, as --tls-dir wants
   them (0600; the directory belongs on a memory-backed volume), so that whoever uses them needs to know nothing of this, and a container that
   restarts goes on with them. The next set replaces the last as a whole.

   Believed are the authorities of the CA file and those that the operator named with the last certificate. The file is followed; when it names
   none that signed our certificate any more, the authority was replaced, and a new certificate is asked for at once.

   A thread of its own, which may block; nothing waits for it. Without the operator the gateway goes on with what it has, also when the
   certificate is over, and asks again after growing pauses of up to 30 s. The key is made anew for each certificate. Neither it nor the
   token is logged. */
#ifndef SIDECAR_CONTROL_BOOTSTRAP_H
#define SIDECAR_CONTROL_BOOTSTRAP_H

#include "obs/metrics.h"

struct kp_bootstrap;

struct kp_bootstrap_opts { /* strings must outlive it */
	const char *url;   /* "https://kelpie-operator.kelpie-system.svc:443" */
	const char *token_file, *ca_file;
	const char *dir; /* STATE_DIR/tls, a symbolic link that is made here */
	const char *id;  /* the DNS name to ask for: the pod's UID */
	struct kp_metrics *metrics;
};
/* When it returns there is a certificate in `dir`: that of the last run, if it is ours still; else a new one, for which it waits 5 s at
   most; else one of our own that nobody believes, which is replaced as soon as the operator answers. An error is a directory that cannot be
   written. Not from a loop. */
int kp_bootstrap_start(const struct kp_bootstrap_opts *opts, struct kp_bootstrap **ret,
	struct kp_err *err) KP_MUST_USE;
void kp_bootstrap_stop(struct kp_bootstrap *b); /* joins the thread; NULL is fine */

#endif
