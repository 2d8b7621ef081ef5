/* DESIGN: keys are OpenSSL's; PEM of one passes through memory that is wiped after it (BIO_s_secmem needs a
   secure heap, and wipes without one too). */
#include "pki/internal.h"

#include "base/mem.h"

#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

int kp_pki_fail(struct kp_err *err, enum kp_code code, const char *what)
{
	unsigned long e = ERR_peek_last_error();
	const char *reason = e ? ERR_reason_error_string(e) : NULL;
	ERR_clear_error();
	return kp_err_set(err, code, "%s%s%s", what, reason ? ": " : "", reason ? reason : "");
}

int kp_pki_take(BIO *bio, struct kp_buf *ret, struct kp_err *err)
{
	char *p;
	long n = BIO_get_mem_data(bio, &p);
	kp_buf_add(ret, kp_str_n(p, n > 0 ? (size_t)n : 0));
	return kp_buf_finish(ret, "PEM", err);
}

void kp_pki_wipe(struct kp_buf *b)
{
	if (b->cap) {
		OPENSSL_cleanse(b->p, b->cap);
	}
	kp_buf_fini(b);
}

static struct kp_pki_key *wrap(EVP_PKEY *p)
{
	struct kp_pki_key *key = kp_new(struct kp_pki_key);
	key->p = p;
	return key;
}

int kp_pki_key_create(struct kp_pki_key **ret, struct kp_err *err)
{
	EVP_PKEY *p = EVP_EC_gen("P-256");
	if (!p) {
		return kp_pki_fail(err, KP_INTERNAL, "make a key");
	}
	*ret = wrap(p);
	return 0;
}

/* Nobody is asked for a password. */
static int no_password(char *buf, int size, int rwflag, void *user)
{
	(void)buf, (void)size, (void)rwflag, (void)user;
	return -1;
}

int kp_pki_key_read(kp_str pem, struct kp_pki_key **ret, struct kp_err *err)
{
	BIO *bio = pem.n <= KP_PKI_BUNDLE_MAX ? BIO_new_mem_buf(pem.p, (int)pem.n) : NULL;
	EVP_PKEY *p = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
	BIO_free(bio);
	if (!p) {
		return kp_pki_fail(err, KP_INVALID_ARGUMENT, "read a private key");
	}
	ERR_clear_error();
	*ret = wrap(p);
	return 0;
}

int kp_pki_key_write(const struct kp_pki_key *key, struct kp_buf *pem, struct kp_err *err)
{
	BIO *bio = BIO_new(BIO_s_secmem());
	int r = bio && PEM_write_bio_PrivateKey(bio, key->p, NULL, NULL, 0, NULL, NULL) == 1
			? kp_pki_take(bio, pem, err)
			: kp_pki_fail(err, KP_INTERNAL, "write a private key");
	BIO_free(bio);
	return r;
}

void kp_pki_key_destroy(struct kp_pki_key *key)
{
	if (key) {
		EVP_PKEY_free(key->p);
		kp_mem_free(key);
	}
}
