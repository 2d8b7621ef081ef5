/* X.509 as Kelpie uses it, on OpenSSL: keys on P-256, an authority that signs, requests (PKCS #10), bundles
   of authorities. Everything is PEM. Pure but for the random numbers of keys and serial numbers: time is an
   argument, in seconds since 1970. Any thread.

   Limits: PEM that is read 256 KiB and 64 certificates, a request 16 KiB. What comes from outside is refused by
   INVALID_ARGUMENT, which says what is wrong with it. Keys are wiped when they are destroyed; buffers that held
   one are the caller's to wipe (kp_pki_wipe). */
#ifndef KP_PKI_PKI_H
#define KP_PKI_PKI_H

#include "base/buf.h"

enum {
	KP_PKI_BUNDLE_MAX = 256 << 10,
	KP_PKI_CERTS_MAX = 64,
	KP_PKI_REQUEST_MAX = 16 << 10,
	KP_PKI_SERIAL_MAX = 48, /* as text, hexadecimal */
};
#define KP_PKI_SKEW_S 300 /* certificates count from so long before they were made: clocks differ */

/* Overwrites all of it, then kp_buf_fini. */
void kp_pki_wipe(struct kp_buf *b);

/* --- keys --- */

struct kp_pki_key;
int kp_pki_key_create(struct kp_pki_key **ret, struct kp_err *err) KP_MUST_USE;
int kp_pki_key_read(kp_str pem, struct kp_pki_key **ret, struct kp_err *err) KP_MUST_USE;
int kp_pki_key_write(
	const struct kp_pki_key *key, struct kp_buf *pem, struct kp_err *err) KP_MUST_USE;
void kp_pki_key_destroy(struct kp_pki_key *key); /* NULL is fine */
KP_AUTO_DEFINE(struct kp_pki_key, pki_key, kp_pki_key_destroy);

/* --- certificates that are there --- */

struct kp_pki_facts {
	int64_t not_before_s, not_after_s;
	bool is_authority;
	char serial[KP_PKI_SERIAL_MAX];
};
/* Of the first certificate of the text. */
int kp_pki_cert_facts(kp_str pem, struct kp_pki_facts *ret, struct kp_err *err) KP_MUST_USE;
/* Has it this DNS name or address among its subject alternative names, in these very words? False for what is no
   certificate. */
bool kp_pki_cert_has_name(kp_str pem, kp_str name);
bool kp_pki_cert_is_of(kp_str pem, const struct kp_pki_key *key); /* does the key belong to it? */
/* By one of them; times are not looked at. */
bool kp_pki_cert_is_signed_by(kp_str pem, kp_str authorities_pem);
/* Appends the certificates of all texts to *ret, each once, in their order. Those that are over at now_s are left
   out. Anything but certificates in a text is refused; an empty text is fine. */
int kp_pki_bundle(const kp_str *texts, size_t n, int64_t now_s, struct kp_buf *ret,
	struct kp_err *err) KP_MUST_USE;

/* --- an authority --- */

/* A certificate that may sign others, by itself. */
int kp_pki_make_authority(const struct kp_pki_key *key, const char *name, int64_t now_s,
	int64_t not_after_s, struct kp_buf *pem, struct kp_err *err) KP_MUST_USE;

struct kp_pki_csr;
struct kp_pki_leaf {
	const char *name;    /* the subject's common name, 64 bytes at most */
	const kp_str *names; /* DNS names, and addresses, told apart by their form */
	size_t n_names;
	const char *uri;     /* NULL: none */
	int64_t not_after_s; /* or the authority's, if that is earlier */
};
/* A certificate for servers and clients, whose key is the request's or `key`'s: exactly one of the two is given. */
int kp_pki_sign(kp_str authority_pem, const struct kp_pki_key *authority_key,
	const struct kp_pki_leaf *leaf, const struct kp_pki_csr *csr, const struct kp_pki_key *key,
	int64_t now_s, struct kp_buf *pem, struct kp_err *err) KP_MUST_USE;

/* --- requests --- */

/* Asks for a certificate with this DNS name and nothing else. */
int kp_pki_csr_write(const struct kp_pki_key *key, const char *name, struct kp_buf *pem,
	struct kp_err *err) KP_MUST_USE;
/* One request, signed by the key that it is for, which is one of P-256. */
int kp_pki_csr_read(kp_str pem, struct kp_pki_csr **ret, struct kp_err *err) KP_MUST_USE;
/* Does it ask for this DNS name and nothing else: no other name, no other extension or attribute, a subject that is
   empty or has the name as its common name? INVALID_ARGUMENT for another form, PERMISSION_DENIED for another name. */
int kp_pki_csr_check(const struct kp_pki_csr *csr, kp_str name, struct kp_err *err) KP_MUST_USE;
void kp_pki_csr_destroy(struct kp_pki_csr *csr); /* NULL is fine */
KP_AUTO_DEFINE(struct kp_pki_csr, pki_csr, kp_pki_csr_destroy);

#endif
