/* DESIGN: a request says which name it is for, and that is all it may say: whoever signs decides everything else, and what is
   not looked at cannot be asked for. So anything but that one name is refused, instead of being left out. */
#include "pki/internal.h"

#include "base/mem.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static bool set_name(X509_REQ *q, const char *name)
{
	STACK_OF(X509_EXTENSION) *list = NULL;
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	GENERAL_NAME *g = GENERAL_NAME_new();
	ASN1_IA5STRING *s = ASN1_IA5STRING_new();
	KP_BUG_ON(!names || !g || !s);
	bool ok = ASN1_STRING_set(s, name, -1) == 1;
	GENERAL_NAME_set0_value(g, GEN_DNS, s);
	ok = sk_GENERAL_NAME_push(names, g) > 0 && ok &&
	     X509V3_add1_i2d(&list, NID_subject_alt_name, names, 0, 0) == 1 &&
	     X509_REQ_add_extensions(q, list) == 1;
	sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
	GENERAL_NAMES_free(names);
	return ok;
}

int kp_pki_csr_write(
	const struct kp_pki_key *key, const char *name, struct kp_buf *pem, struct kp_err *err)
{
	X509_REQ *q = X509_REQ_new();
	BIO *bio = BIO_new(BIO_s_mem());
	bool ok = q && bio && X509_REQ_set_version(q, X509_REQ_VERSION_1) &&
		  X509_REQ_set_pubkey(q, key->p) && set_name(q, name) &&
		  X509_REQ_sign(q, key->p, EVP_sha256()) > 0 && PEM_write_bio_X509_REQ(bio, q) == 1;
	int r = ok ? kp_pki_take(bio, pem, err)
		   : kp_pki_fail(err, KP_INTERNAL, "make a certificate request");
	BIO_free(bio);
	X509_REQ_free(q);
	return r;
}

static bool is_p256(EVP_PKEY *key)
{
	char group[32];
	size_t n;
	return key && EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
	       EVP_PKEY_get_group_name(key, group, sizeof(group), &n) == 1 &&
	       kp_str_eq(kp_str_n(group, n), KP_S("prime256v1"));
}

static int check_key(X509_REQ *q, struct kp_err *err)
{
	EVP_PKEY *key = X509_REQ_get0_pubkey(q);
	if (!is_p256(key)) {
		ERR_clear_error();
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"certificate request: its key is not one of P-256");
	}
	if (X509_REQ_verify(q, key) != 1) {
		ERR_clear_error();
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"certificate request: it is not signed by its own key");
	}
	return 0;
}

int kp_pki_csr_read(kp_str pem, struct kp_pki_csr **ret, struct kp_err *err)
{
	if (pem.n > KP_PKI_REQUEST_MAX) {
		return kp_err_set(err, KP_TOO_LARGE, "certificate request: more than %d bytes",
			KP_PKI_REQUEST_MAX);
	}
	BIO *bio = BIO_new_mem_buf(pem.p ? pem.p : "", (int)pem.n);
	X509_REQ *q = bio ? PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL) : NULL;
	char *rest;
	long n = BIO_get_mem_data(bio, &rest);
	bool has_rest = n > 0 && kp_str_trim(kp_str_n(rest, (size_t)n)).n;
	int r = !q         ? kp_pki_fail(err, KP_INVALID_ARGUMENT, "certificate request")
		: has_rest ? kp_err_set(err, KP_INVALID_ARGUMENT,
				     "certificate request: something follows it")
			   : check_key(q, err);
	BIO_free(bio);
	if (r) {
		X509_REQ_free(q);
		return -1;
	}
	struct kp_pki_csr *csr = kp_new(struct kp_pki_csr);
	csr->p = q;
	*ret = csr;
	return 0;
}

/* --- what it asks for --- */

static int is_not(struct kp_err *err, const char *what)
{
	ERR_clear_error();
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"certificate request: %s; it may ask for one DNS name, the pod's UID", what);
}

static int check_name(kp_str found, kp_str name, const char *where, struct kp_err *err)
{
	if (kp_str_eq(found, name)) {
		return 0;
	}
	return kp_err_set(err, KP_PERMISSION_DENIED,
		"certificate request: %s `%" KP_FMT "` is not the pod's UID `%" KP_FMT "`", where,
		KP_ARG(kp_str_sub(found, 0, 100)), KP_ARG(name));
}

static int check_subject(X509_REQ *q, kp_str name, struct kp_err *err)
{
	X509_NAME *subject = X509_REQ_get_subject_name(q);
	if (X509_NAME_entry_count(subject) == 0) {
		return 0;
	}
	X509_NAME_ENTRY *e = X509_NAME_get_entry(subject, 0);
	if (X509_NAME_entry_count(subject) > 1 ||
		OBJ_obj2nid(X509_NAME_ENTRY_get_object(e)) != NID_commonName) {
		return is_not(err, "its subject is more than a common name");
	}
	const ASN1_STRING *cn = X509_NAME_ENTRY_get_data(e);
	return check_name(kp_str_n(ASN1_STRING_get0_data(cn), (size_t)ASN1_STRING_length(cn)), name,
		"the common name", err);
}

static int check_names(GENERAL_NAMES *names, kp_str name, struct kp_err *err)
{
	int type = 0;
	if (sk_GENERAL_NAME_num(names) != 1) {
		return is_not(err, "it has no subject alternative name, or several");
	}
	const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, 0), &type);
	if (type != GEN_DNS) {
		return is_not(err, "its subject alternative name is no DNS name");
	}
	return check_name(kp_str_n(ASN1_STRING_get0_data(value), (size_t)ASN1_STRING_length(value)),
		name, "the name", err);
}

int kp_pki_csr_check(const struct kp_pki_csr *csr, kp_str name, struct kp_err *err)
{
	STACK_OF(X509_EXTENSION) *list = X509_REQ_get_extensions(csr->p);
	GENERAL_NAMES *names = NULL;
	int r;
	if (X509_REQ_get_attr_count(csr->p) > 1) {
		r = is_not(err, "it has attributes beside its extensions");
	} else if (sk_X509_EXTENSION_num(list) != 1 ||
		   !(names = X509V3_get_d2i(list, NID_subject_alt_name, NULL, NULL))) {
		r = is_not(err, "it has no subject alternative name, or other extensions");
	} else {
		r = check_names(names, name, err);
		r = r ? r : check_subject(csr->p, name, err);
	}
	GENERAL_NAMES_free(names);
	sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
	ERR_clear_error();
	return r;
}

void kp_pki_csr_destroy(struct kp_pki_csr *csr)
{
	if (csr) {
		X509_REQ_free(csr->p);
		kp_mem_free(csr);
	}
}
