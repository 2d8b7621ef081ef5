/* Certificates and keys (P-256) for tests of TLS, and their PEM files. */
#ifndef KP_TESTS_CERTS_H
#define KP_TESTS_CERTS_H

#include "tests/test.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static void cert_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_non_null(e);
	X509_add_ext(cert, e, -1);
	X509_EXTENSION_free(e);
}

/* Signed by `issuer`, or a CA's own when that is NULL. Valid from two hours ago until `until_s` from now. `san` may be NULL. */
static X509 *cert_make(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key,
	const char *san, long until_s)
{
	static long serial = 1;
	X509 *cert = X509_new();
	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
	X509_gmtime_adj(X509_getm_notBefore(cert), -7200);
	X509_gmtime_adj(X509_getm_notAfter(cert), until_s);
	X509_set_pubkey(cert, key);
	X509_NAME *subject = X509_get_subject_name(cert);
	X509_NAME_add_entry_by_txt(
		subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(cert, issuer ? X509_get_subject_name(issuer) : subject);
	if (!issuer) {
		cert_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
	}
	if (san) {
		cert_extension(cert, issuer, NID_subject_alt_name, san);
	}
	assert_true(X509_sign(cert, issuer ? issuer_key : key, EVP_sha256()) > 0);
	return cert;
}

/* One of the two. */
static void cert_save(const char *path, X509 *cert, EVP_PKEY *key)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(cert ? PEM_write_X509(f, cert)
			      : PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL),
		1);
	fclose(f);
}

#endif
