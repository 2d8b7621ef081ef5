/* A throw-away CA with certificates for a server and for clients good and bad (P-256), written as PEM
 * files into a fresh folder: for tests of TLS. */
#ifndef KP_TESTS_NET_TLS_FILES_H
#define KP_TESTS_NET_TLS_FILES_H

#include "tests/test.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

struct tls_files {
	char dir[64];
	char ca[96], other_ca[96];
	char cert[96], key[96]; /* for "localhost" and 127.0.0.1 */
	/* SANs URI "kelpie:pod:42" and DNS "gw-1"; the key is that of the two below, too. */
	char client_cert[96], client_key[96];
	char expired_cert[96]; /* DNS "gw-old" */
	char foreign_cert[96]; /* DNS "gw-1", of the other CA */
};

static void tls_files_save(const char *path, X509 *cert, EVP_PKEY *key)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(cert ? PEM_write_X509(f, cert)
			      : PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL),
		1);
	fclose(f);
}

static void tls_files_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_non_null(e);
	X509_add_ext(cert, e, -1);
	X509_EXTENSION_free(e);
}

/* Signed by `issuer`, or by itself when that is NULL; good for another hour, or since an hour ago not any more. */
static X509 *tls_files_certificate_until(const char *name, EVP_PKEY *key, X509 *issuer,
	EVP_PKEY *issuer_key, const char *san, long until_s)
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
		tls_files_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
	}
	if (san) {
		tls_files_extension(cert, issuer, NID_subject_alt_name, san);
	}
	assert_true(X509_sign(cert, issuer ? issuer_key : key, EVP_sha256()) > 0);
	return cert;
}

static X509 *tls_files_certificate(
	const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key, const char *san)
{
	return tls_files_certificate_until(name, key, issuer, issuer_key, san, 3600);
}

static struct tls_files tls_files_make(void)
{
	struct tls_files f = { .dir = "/tmp/kelpie-tls-XXXXXX" };
	assert_non_null(mkdtemp(f.dir));
	snprintf(f.ca, sizeof(f.ca), "%s/ca.pem", f.dir);
	snprintf(f.other_ca, sizeof(f.other_ca), "%s/other-ca.pem", f.dir);
	snprintf(f.cert, sizeof(f.cert), "%s/cert.pem", f.dir);
	snprintf(f.key, sizeof(f.key), "%s/key.pem", f.dir);
	snprintf(f.client_cert, sizeof(f.client_cert), "%s/client.pem", f.dir);
	snprintf(f.client_key, sizeof(f.client_key), "%s/client-key.pem", f.dir);
	snprintf(f.expired_cert, sizeof(f.expired_cert), "%s/expired.pem", f.dir);
	snprintf(f.foreign_cert, sizeof(f.foreign_cert), "%s/foreign.pem", f.dir);
	EVP_PKEY *ca_key = EVP_EC_gen("P-256"), *key = EVP_EC_gen("P-256"),
		 *client_key = EVP_EC_gen("P-256");
	X509 *ca = tls_files_certificate("test CA", ca_key, NULL, NULL, NULL);
	X509 *other = tls_files_certificate("other CA", client_key, NULL, NULL, NULL);
	X509 *cert =
		tls_files_certificate("test server", key, ca, ca_key, "DNS:localhost,IP:127.0.0.1");
	X509 *client = tls_files_certificate(
		"test client", client_key, ca, ca_key, "URI:kelpie:pod:42,DNS:gw-1");
	X509 *expired = tls_files_certificate_until(
		"old client", client_key, ca, ca_key, "DNS:gw-old", -3600);
	X509 *foreign =
		tls_files_certificate("foreign client", client_key, other, client_key, "DNS:gw-1");
	tls_files_save(f.ca, ca, NULL);
	tls_files_save(f.other_ca, other, NULL);
	tls_files_save(f.cert, cert, NULL);
	tls_files_save(f.client_cert, client, NULL);
	tls_files_save(f.expired_cert, expired, NULL);
	tls_files_save(f.foreign_cert, foreign, NULL);
	tls_files_save(f.key, NULL, key);
	tls_files_save(f.client_key, NULL, client_key);
	X509_free(ca), X509_free(other), X509_free(cert), X509_free(client), X509_free(expired),
		X509_free(foreign);
	EVP_PKEY_free(ca_key), EVP_PKEY_free(key), EVP_PKEY_free(client_key);
	return f;
}

static void tls_files_remove(struct tls_files *f)
{
	unlink(f->ca), unlink(f->other_ca), unlink(f->cert), unlink(f->key), unlink(f->client_cert),
		unlink(f->client_key), unlink(f->expired_cert), unlink(f->foreign_cert);
	rmdir(f->dir);
}

#endif
