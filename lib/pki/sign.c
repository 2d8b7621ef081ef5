/* DESIGN: certificates of version 3 with a random serial number of 127 bits. What an authority signs is for servers
   and clients alike, since a gateway is both, and can sign nothing itself. */
#include "pki/internal.h"

#include "base/mem.h"
#include "base/rand.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <time.h>

enum { CN_MAX = 64, NAME_MAX_BYTES = 255, NAMES_MAX = 64 };

static bool set_serial(X509 *x)
{
	unsigned char bytes[16];
	kp_random_bytes(bytes, sizeof(bytes));
	bytes[0] = (bytes[0] & 0x7f) | 0x40; /* positive, and as long for each */
	BIGNUM *n = BN_bin2bn(bytes, sizeof(bytes), NULL);
	bool ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return ok;
}

static bool set_name(X509_NAME *name, const char *cn)
{
	return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8,
		       (const unsigned char *)cn, -1, -1, 0) == 1;
}

static bool set_times(X509 *x, int64_t now_s, int64_t not_after_s)
{
	return ASN1_TIME_set(X509_getm_notBefore(x), (time_t)(now_s - KP_PKI_SKEW_S)) &&
	       ASN1_TIME_set(X509_getm_notAfter(x), (time_t)not_after_s);
}

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	bool ok = e && X509_add_ext(x, e, -1) == 1;
	X509_EXTENSION_free(e);
	return ok;
}

static int write_cert(X509 *x, struct kp_buf *pem, struct kp_err *err)
{
	BIO *bio = BIO_new(BIO_s_mem());
	int r = bio && PEM_write_bio_X509(bio, x) == 1
			? kp_pki_take(bio, pem, err)
			: kp_pki_fail(err, KP_INTERNAL, "write a certificate");
	BIO_free(bio);
	return r;
}

int kp_pki_make_authority(const struct kp_pki_key *key, const char *name, int64_t now_s,
	int64_t not_after_s, struct kp_buf *pem, struct kp_err *err)
{
	X509 *x = X509_new();
	bool ok = x && X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
		  set_name(X509_get_subject_name(x), name) &&
		  X509_set_issuer_name(x, X509_get_subject_name(x)) &&
		  set_times(x, now_s, not_after_s) && X509_set_pubkey(x, key->p) &&
		  add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
		  add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
		  add_extension(x, x, NID_subject_key_identifier, "hash") &&
		  X509_sign(x, key->p, EVP_sha256()) > 0;
	int r = ok ? write_cert(x, pem, err) : kp_pki_fail(err, KP_INTERNAL, "make an authority");
	X509_free(x);
	return r;
}

/* --- what is signed --- */

static bool push_name(GENERAL_NAMES *names, int type, const void *p, size_t n)
{
	GENERAL_NAME *g = GENERAL_NAME_new();
	ASN1_STRING *s = type == GEN_IPADD ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
	if (!g || !s || n > NAME_MAX_BYTES || !ASN1_STRING_set(s, p, (int)n)) {
		GENERAL_NAME_free(g);
		ASN1_STRING_free(s);
		return false;
	}
	GENERAL_NAME_set0_value(g, type, s);
	return sk_GENERAL_NAME_push(names, g) > 0;
}

static bool push_any(GENERAL_NAMES *names, kp_str name)
{
	unsigned char address[16];
	char text[NAME_MAX_BYTES + 1];
	snprintf(text, sizeof(text), "%" KP_FMT, KP_ARG(name));
	if (inet_pton(AF_INET, text, address) == 1) {
		return push_name(names, GEN_IPADD, address, 4);
	}
	if (inet_pton(AF_INET6, text, address) == 1) {
		return push_name(names, GEN_IPADD, address, 16);
	}
	return push_name(names, GEN_DNS, name.p, name.n);
}

static bool set_names(X509 *x, const struct kp_pki_leaf *leaf)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	bool ok = names && leaf->n_names <= NAMES_MAX;
	for (size_t i = 0; ok && i < leaf->n_names; i++) {
		ok = push_any(names, leaf->names[i]);
	}
	if (ok && leaf->uri) {
		ok = push_name(names, GEN_URI, leaf->uri, strlen(leaf->uri));
	}
	ok = ok && X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, 0) == 1;
	GENERAL_NAMES_free(names);
	return ok;
}

static bool fill(
	X509 *x, X509 *authority, const struct kp_pki_leaf *leaf, EVP_PKEY *of, int64_t now_s)
{
	return X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
	       set_name(X509_get_subject_name(x), leaf->name) &&
	       X509_set_issuer_name(x, X509_get_subject_name(authority)) &&
	       set_times(x, now_s, leaf->not_after_s) && X509_set_pubkey(x, of) &&
	       add_extension(x, authority, NID_basic_constraints, "critical,CA:FALSE") &&
	       add_extension(x, authority, NID_key_usage, "critical,digitalSignature") &&
	       add_extension(x, authority, NID_ext_key_usage, "serverAuth,clientAuth") &&
	       add_extension(x, authority, NID_subject_key_identifier, "hash") &&
	       add_extension(x, authority, NID_authority_key_identifier, "keyid:always") &&
	       set_names(x, leaf);
}

int kp_pki_sign(kp_str authority_pem, const struct kp_pki_key *authority_key,
	const struct kp_pki_leaf *leaf, const struct kp_pki_csr *csr, const struct kp_pki_key *key,
	int64_t now_s, struct kp_buf *pem, struct kp_err *err)
{
	struct kp_pki_leaf within = *leaf;
	struct kp_pki_facts facts;
	KP_BUG_ON(!csr == !key);
	if (kp_pki_cert_facts(authority_pem, &facts, err)) {
		return -1;
	}
	within.not_after_s = KP_MIN(leaf->not_after_s, facts.not_after_s);
	if (within.not_after_s <= now_s) {
		return kp_err_set(
			err, KP_FAILED_PRECONDITION, "sign a certificate: the authority is over");
	}
	if (strlen(leaf->name) > CN_MAX) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"sign a certificate: the name `%.64s...` is too long", leaf->name);
	}
	X509 *authority = kp_pki_x509(authority_pem, err), *x = X509_new();
	EVP_PKEY *of = csr ? X509_REQ_get0_pubkey(csr->p) : key->p;
	int r = authority && x && of && fill(x, authority, &within, of, now_s) &&
				X509_sign(x, authority_key->p, EVP_sha256()) > 0
			? write_cert(x, pem, err)
			: kp_pki_fail(err, KP_INTERNAL, "sign a certificate");
	X509_free(x);
	X509_free(authority);
	return r;
}
