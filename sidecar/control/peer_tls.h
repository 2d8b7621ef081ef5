/* The certificates of --tls-dir (tls.crt, tls.key, ca.crt), as contexts for the peer port and for
   connections to other gateways. They are loaded again when the files change, since certificates in a
   cluster live for a day; connections that are there go on with the old ones. */
#ifndef SIDECAR_CONTROL_PEER_TLS_H
#define SIDECAR_CONTROL_PEER_TLS_H

#include "base/err.h"
#include "net/tls.h"

struct kp_peer_tls {
	struct kp_tls_context *client, *server; /* NULL both: cleartext */
};

/* Blocking. dir NULL: cleartext. */
int kp_peer_tls_load(const char *dir, struct kp_peer_tls *ret, struct kp_err *err) KP_MUST_USE;
struct kp_peer_tls kp_peer_tls_ref(const struct kp_peer_tls *t);
void kp_peer_tls_unref(struct kp_peer_tls *t); /* zeroed is fine, and left so */
/* Changes when one of the files does. dir NULL: 0. */
uint64_t kp_peer_tls_signature(const char *dir);

#endif
