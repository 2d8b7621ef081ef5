/* DESIGN: see pki.h. Names are compared byte by byte: what a certificate says is what whoever signed it wrote. */
#include "pki/internal.h"

#include "base/mem.h"
#include "base/vec.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <arpa/inet.h>
#include <stdio.h>

X509 *kp_pki_x509(kp_str pem, struct kp_err *err)
{
	BIO *bio = pem.n <= KP_PKI_BUNDLE_MAX ? BIO_new_mem_buf(pem.p, (int)pem.n) : NULL;
	X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
	BIO_free(bio);
	if (!x) {
		kp_pki_fail(err, KP_INVALID_ARGUMENT, "read a certificate");
	}
	ERR_clear_error();
	return x;
}

static int64_t seconds(const ASN1_TIME *t)
{
	int days = 0, rest = 0;
	ASN1_TIME *zero = ASN1_TIME_set(NULL, 0);
	int ok = zero && ASN1_TIME_diff(&days, &rest, zero, t);
	ASN1_TIME_free(zero);
	return ok ? (int64_t)days * 86400 + rest : 0;
}

int kp_pki_cert_facts(kp_str pem, struct kp_pki_facts *ret, struct kp_err *err)
{
	X509 *x = kp_pki_x509(pem, err);
	if (!x) {
		return -1;
	}
	*ret = (struct kp_pki_facts){ .not_before_s = seconds(X509_get0_notBefore(x)),
		.not_after_s = seconds(X509_get0_notAfter(x)),
		.is_authority = X509_check_ca(x) == 1 };
	BIGNUM *n = ASN1_INTEGER_to_BN(X509_get0_serialNumber(x), NULL);
	char *hex = n ? BN_bn2hex(n) : NULL;
	snprintf(ret->serial, sizeof(ret->serial), "%s", hex ? hex : "");
	OPENSSL_free(hex);
	BN_free(n);
	X509_free(x);
	return 0;
}

static bool is_name(const GENERAL_NAME *g, kp_str name)
{
	int type;
	const ASN1_STRING *value = GENERAL_NAME_get0_value(g, &type);
	unsigned char address[16];
	char text[INET6_ADDRSTRLEN];
	if (type == GEN_DNS) {
		return kp_str_eq(
			kp_str_n(ASN1_STRING_get0_data(value), (size_t)ASN1_STRING_length(value)),
			name);
	}
	int n = type == GEN_IPADD ? ASN1_STRING_length(value) : 0;
	if ((n != 4 && n != 16) || name.n >= sizeof(text)) {
		return false;
	}
	snprintf(text, sizeof(text), "%" KP_FMT, KP_ARG(name));
	return inet_pton(n == 4 ? AF_INET : AF_INET6, text, address) == 1 &&
	       memcmp(address, ASN1_STRING_get0_data(value), (size_t)n) == 0;
}

bool kp_pki_cert_has_name(kp_str pem, kp_str name)
{
	struct kp_err err;
	X509 *x = kp_pki_x509(pem, &err);
	GENERAL_NAMES *names = x ? X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL) : NULL;
	bool found = false;
	for (int i = 0; !found && i < sk_GENERAL_NAME_num(names); i++) {
		found = is_name(sk_GENERAL_NAME_value(names, i), name);
	}
	GENERAL_NAMES_free(names);
	X509_free(x);
	ERR_clear_error();
	return found;
}

bool kp_pki_cert_is_of(kp_str pem, const struct kp_pki_key *key)
{
	struct kp_err err;
	X509 *x = kp_pki_x509(pem, &err);
	bool is = x && X509_check_private_key(x, key->p) == 1;
	X509_free(x);
	ERR_clear_error();
	return is;
}

bool kp_pki_cert_is_signed_by(kp_str pem, kp_str authorities_pem)
{
	struct kp_err err;
	bool is = false;
	X509 *x = kp_pki_x509(pem, &err), *ca;
	BIO *bio = x && authorities_pem.n <= KP_PKI_BUNDLE_MAX
			   ? BIO_new_mem_buf(authorities_pem.p ? authorities_pem.p : "",
				     (int)authorities_pem.n)
			   : NULL;
	while (bio && !is && (ca = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
		is = X509_check_issued(ca, x) == X509_V_OK &&
		     X509_verify(x, X509_get0_pubkey(ca)) == 1;
		X509_free(ca);
	}
	BIO_free(bio);
	X509_free(x);
	ERR_clear_error();
	return is;
}

struct bundle {
	KP_VEC(X509 *)
	certs;
};

static int add_text(struct bundle *b, kp_str text, int64_t now_s, struct kp_err *err)
{
	if (text.n > KP_PKI_BUNDLE_MAX) {
		return kp_err_set(err, KP_TOO_LARGE, "read certificates: more than %d bytes",
			KP_PKI_BUNDLE_MAX);
	}
	BIO *bio = BIO_new_mem_buf(text.p ? text.p : "", (int)text.n);
	KP_BUG_ON(!bio);
	int r = 0;
	for (X509 *x; r == 0 && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL));) {
		bool is_there = seconds(X509_get0_notAfter(x)) <= now_s;
		for (size_t i = 0; i < b->certs.n && !is_there; i++) {
			is_there = X509_cmp(b->certs.p[i], x) == 0;
		}
		if (!is_there && b->certs.n < KP_PKI_CERTS_MAX) {
			kp_vec_push(&b->certs, x);
			continue;
		}
		X509_free(x);
		if (!is_there) {
			r = kp_err_set(err, KP_TOO_LARGE, "read certificates: more than %d of them",
				KP_PKI_CERTS_MAX);
		}
	}
	/* "No start line" is how it says that there is no more. */
	unsigned long e = ERR_peek_last_error();
	if (r == 0 && ERR_GET_REASON(e) != PEM_R_NO_START_LINE) {
		r = kp_pki_fail(err, KP_INVALID_ARGUMENT, "read certificates");
	}
	ERR_clear_error();
	BIO_free(bio);
	return r;
}

int kp_pki_bundle(
	const kp_str *texts, size_t n, int64_t now_s, struct kp_buf *ret, struct kp_err *err)
{
	struct bundle b = { 0 };
	BIO *bio = BIO_new(BIO_s_mem());
	KP_BUG_ON(!bio);
	int r = 0;
	for (size_t i = 0; i < n && r == 0; i++) {
		r = add_text(&b, texts[i], now_s, err);
		/* Something, in which there is no certificate at all. */
		if (r == 0 && kp_str_trim(texts[i]).n &&
			!kp_str_has(texts[i], KP_S("-----BEGIN "))) {
			r = kp_err_set(
				err, KP_INVALID_ARGUMENT, "read certificates: the text has none");
		}
	}
	for (size_t i = 0; i < b.certs.n; i++) {
		if (r == 0 && PEM_write_bio_X509(bio, b.certs.p[i]) != 1) {
			r = kp_pki_fail(err, KP_INTERNAL, "write certificates");
		}
		X509_free(b.certs.p[i]);
	}
	kp_vec_fini(&b.certs);
	r = r ? r : kp_pki_take(bio, ret, err);
	BIO_free(bio);
	return r;
}
