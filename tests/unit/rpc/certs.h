/* Certificates for tests of lib/rpc: directories with tls.crt, tls.key and ca.crt. */
#ifndef KP_TESTS_RPC_CERTS_H
#define KP_TESTS_RPC_CERTS_H

#include "tests/test.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

struct authority {
	EVP_PKEY *key;
	X509 *cert;
};

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_non_null(e);
	X509_add_ext(cert, e, -1);
	X509_EXTENSION_free(e);
}

/* Valid from an hour ago until `seconds` from now. */
static X509 *certificate(
	const char *cn, EVP_PKEY *key, const struct authority *by, const char *san, long seconds)
{
	static long serial = 1;
	X509 *cert = X509_new();
	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
	X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
	X509_gmtime_adj(X509_getm_notAfter(cert), seconds);
	X509_set_pubkey(cert, key);
	X509_NAME *subject = X509_get_subject_name(cert);
	X509_NAME_add_entry_by_txt(
		subject, "CN", MBSTRING_ASC, (const unsigned char *)cn, -1, -1, 0);
	X509_set_issuer_name(cert, by ? X509_get_subject_name(by->cert) : subject);
	if (san) {
		add_extension(cert, by ? by->cert : cert, NID_subject_alt_name, san);
	} else {
		add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
	}
	assert_true(X509_sign(cert, by ? by->key : key, EVP_sha256()) > 0);
	return cert;
}

static struct authority authority_make(const char *name)
{
	struct authority a = { .key = EVP_EC_gen("P-256") };
	a.cert = certificate(name, a.key, NULL, NULL, 3600);
	return a;
}
static void authority_free(struct authority *a)
{
	EVP_PKEY_free(a->key);
	X509_free(a->cert);
}

static void save(const char *dir, const char *file, X509 *cert, EVP_PKEY *key)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(cert ? PEM_write_X509(f, cert)
			      : PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL),
		1);
	fclose(f);
}

/* A certificate by `by` for these names, to be used where `trusted` is whom the other side must be of. */
static void certs_make(const char *dir, const char *san, long seconds, const struct authority *by,
	const struct authority *trusted)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = certificate("test", key, by, san, seconds);
	mkdir(dir, 0700);
	save(dir, "tls.crt", cert, NULL);
	save(dir, "tls.key", NULL, key);
	save(dir, "ca.crt", trusted->cert, NULL);
	EVP_PKEY_free(key);
	X509_free(cert);
}

static void certs_remove(const char *dir)
{
	static const char *const files[] = { "tls.crt", "tls.key", "ca.crt" };
	char path[256];
	for (size_t i = 0; i < KP_LEN(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		unlink(path);
	}
	rmdir(dir);
}

#endif
