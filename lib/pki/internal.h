/* What lib/pki's own files share. */
#ifndef KP_PKI_INTERNAL_H
#define KP_PKI_INTERNAL_H

#include "pki/pki.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

struct kp_pki_key {
	EVP_PKEY *p;
};
struct kp_pki_csr {
	X509_REQ *p;
};

/* "what: OpenSSL's reason", and its queue is empty again. Returns -1. */
int kp_pki_fail(struct kp_err *err, enum kp_code code, const char *what);
/* What was written to the BIO. */
int kp_pki_take(BIO *bio, struct kp_buf *ret, struct kp_err *err) KP_MUST_USE;
/* The first certificate of the text, the caller's; NULL: err. */
X509 *kp_pki_x509(kp_str pem, struct kp_err *err);

#endif
