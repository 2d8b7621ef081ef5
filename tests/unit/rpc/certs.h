/* Certificates for tests of lib/rpc: directories with tls.crt, tls.key and ca.crt. */
#ifndef KP_TESTS_RPC_CERTS_H
#define KP_TESTS_RPC_CERTS_H

#include "tests/certs.h"

#include <sys/stat.h>

struct authority {
	EVP_PKEY *key;
	X509 *cert;
};

static struct authority authority_make(const char *name)
{
	struct authority a = { .key = EVP_EC_gen("P-256") };
	a.cert = cert_make(name, a.key, NULL, NULL, NULL, 3600);
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
	cert_save(path, cert, key);
}

/* A certificate by `by` for these names, for so many seconds, to be used where `trusted` is whom the other side must be of. */
static void certs_make(const char *dir, const char *san, long seconds, const struct authority *by,
	const struct authority *trusted)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = cert_make("test", key, by->cert, by->key, san, seconds);
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
