/* Of which namespace a gateway's certificate is. Its id is a DNS name of the certificate; its namespace
   stands in a SPIFFE ID, as workloads in Kubernetes have one: a URI name
   spiffe://TRUST-DOMAIN/ns/NAMESPACE or spiffe://TRUST-DOMAIN/ns/NAMESPACE/anything. The trust domain is
   the business of the authority that signs.

   A certificate without any SPIFFE ID, as people make them by hand, is of the namespace `default` and of
   no other. One with an ID of another form is of no namespace. Pure. */
#ifndef KP_CORE_IDENTITY_H
#define KP_CORE_IDENTITY_H

#include "base/err.h"
#include "base/str.h"

#define KP_DEFAULT_NAMESPACE "default"

/* names: DNS and URI names of a certificate that was verified. PERMISSION_DENIED says of which namespace
   it is. */
int kp_identity_check_namespace(
	const kp_str *names, size_t n, kp_str ns, struct kp_err *err) KP_MUST_USE;

#endif
