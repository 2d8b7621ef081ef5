/* A throw-away CA with certificates for a server and for clients good and bad (P-256), written as PEM
 * files into a fresh folder: for tests of TLS. */
#ifndef KP_TESTS_NET_TLS_FILES_H
#define KP_TESTS_NET_TLS_FILES_H

#include "tests/certs.h"

struct tls_files {
	char dir[64];
	char ca[96], other_ca[96];
	char cert[96], key[96]; /* for "localhost" and 127.0.0.1 */
	/* SANs URI "kelpie:pod:42" and DNS "gw-1"; the key is that of the two below, too. */
	char client_cert[96], client_key[96];
	char expired_cert[96]; /* DNS "gw-old" */
	char foreign_cert[96]; /* DNS "gw-1", of the other CA */
};

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
	X509 *ca = cert_make("test CA", ca_key, NULL, NULL, NULL, 3600);
	X509 *other = cert_make("other CA", client_key, NULL, NULL, NULL, 3600);
	X509 *cert = cert_make("test server", key, ca, ca_key, "DNS:localhost,IP:127.0.0.1", 3600);
	X509 *client = cert_make(
		"test client", client_key, ca, ca_key, "URI:kelpie:pod:42,DNS:gw-1", 3600);
	X509 *expired = cert_make("old client", client_key, ca, ca_key, "DNS:gw-old", -3600);
	X509 *foreign =
		cert_make("foreign client", client_key, other, client_key, "DNS:gw-1", 3600);
	cert_save(f.ca, ca, NULL);
	cert_save(f.other_ca, other, NULL);
	cert_save(f.cert, cert, NULL);
	cert_save(f.client_cert, client, NULL);
	cert_save(f.expired_cert, expired, NULL);
	cert_save(f.foreign_cert, foreign, NULL);
	cert_save(f.key, NULL, key);
	cert_save(f.client_key, NULL, client_key);
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
