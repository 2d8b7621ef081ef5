/* DESIGN: an SSL_CTX behind a reference count, made once from files or texts and not changed afterwards
   (OpenSSL takes its own locks for what it caches inside). Memory: SSL_MODE_RELEASE_BUFFERS, so
   that an idle TLS connection keeps no record buffers. */
#include "net/tls_internal.h"

#include "base/mem.h"
#include "base/ref.h"

#include <openssl/err.h>
#include <openssl/pem.h>

/* Forward-secret AEAD suites only: RFC 9113, appendix A, forbids the others for HTTP/2. TLS 1.3 has
 * its own list. */
#define CIPHERS                                                                                    \
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:" \
	"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"

struct kp_tls_context {
	struct kp_refcount ref;
	SSL_CTX *ctx;
	bool server;
};

int kp_tls_err(struct kp_err *err, enum kp_code code, const char *what)
{
	unsigned long e = ERR_peek_last_error();
	const char *reason = e ? ERR_reason_error_string(e) : NULL;
	const char *alert = reason ? strstr(reason, " alert ") : NULL;
	ERR_clear_error();
	if (alert && ERR_GET_REASON(e) > SSL_AD_REASON_OFFSET) {
		/* "tlsv1 alert unknown ca" is not ours, it came from the other side. */
		return kp_err_set(
			err, code, "%s: the other side says: %s", what, alert + strlen(" alert "));
	}
	return kp_err_set(
		err, code, "%s: %s", what, reason ? reason : "unexpected end of the connection");
}

SSL_CTX *kp_tls_ssl_ctx(const struct kp_tls_context *c)
{
	return c->ctx;
}

bool kp_tls_is_server(const struct kp_tls_context *c)
{
	return c->server;
}

/* The first of ours that the client offers; a client that offers only others is refused (RFC 7301),
 * one without ALPN gets HTTP/1.1. */
static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *outlen,
	const unsigned char *in, unsigned inlen, void *arg)
{
	static const unsigned char ours[] = "\x02h2\x08http/1.1";
	unsigned char *chosen;
	(void)ssl, (void)arg;
	if (SSL_select_next_proto(&chosen, outlen, ours, sizeof(ours) - 1, in, inlen) !=
		OPENSSL_NPN_NEGOTIATED) {
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	}
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static int fail_file(struct kp_err *err, const char *what, const char *path)
{
	char text[320];
	kp_str p = kp_str_c(path);
	KP_BUG_ON(p.p == NULL);
	int n = snprintf(text, sizeof(text), "load %s `%s`", what, path);
	(void)n;
	return kp_tls_err(err, KP_INVALID_ARGUMENT, text);
}

static int load_files(SSL_CTX *ctx, const struct kp_tls_opts *o, struct kp_err *err)
{
	if (o->cert_file && SSL_CTX_use_certificate_chain_file(ctx, o->cert_file) != 1) {
		return fail_file(err, "certificate", o->cert_file);
	}
	if (o->key_file && SSL_CTX_use_PrivateKey_file(ctx, o->key_file, SSL_FILETYPE_PEM) != 1) {
		return fail_file(err, "private key", o->key_file);
	}
	if (o->cert_file && o->key_file && SSL_CTX_check_private_key(ctx) != 1) {
		return fail_file(
			err, "private key (does it belong to the certificate?)", o->key_file);
	}
	if (o->ca_file && SSL_CTX_load_verify_file(ctx, o->ca_file) != 1) {
		return fail_file(err, "CA bundle", o->ca_file);
	}
	return 0;
}

static BIO *text_bio(kp_str pem)
{
	ERR_clear_error();
	return pem.n <= INT_MAX ? BIO_new_mem_buf(pem.p, (int)pem.n) : NULL;
}

/* The first is the server's own, the others are between it and the CA. */
static bool use_chain(SSL_CTX *ctx, kp_str pem)
{
	BIO *bio = text_bio(pem);
	X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
	bool ok = x && SSL_CTX_use_certificate(ctx, x) == 1;
	X509_free(x);
	while (ok && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
		ok = SSL_CTX_add1_chain_cert(ctx, x) == 1;
		X509_free(x);
	}
	BIO_free(bio);
	return ok;
}

static bool use_key(SSL_CTX *ctx, kp_str pem)
{
	BIO *bio = text_bio(pem);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
	bool ok = key && SSL_CTX_use_PrivateKey(ctx, key) == 1;
	EVP_PKEY_free(key);
	BIO_free(bio);
	return ok;
}

static bool use_authorities(SSL_CTX *ctx, kp_str pem)
{
	BIO *bio = text_bio(pem);
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	size_t n = 0;
	X509 *x;
	bool ok = bio;
	while (ok && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
		ok = X509_STORE_add_cert(store, x) == 1;
		X509_free(x);
		n++;
	}
	BIO_free(bio);
	return ok && n;
}

static int load_texts(SSL_CTX *ctx, const struct kp_tls_opts *o, struct kp_err *err)
{
	if (o->cert_pem.n && !use_chain(ctx, o->cert_pem)) {
		return kp_tls_err(err, KP_INVALID_ARGUMENT, "load certificate");
	}
	if (o->key_pem.n && !use_key(ctx, o->key_pem)) {
		return kp_tls_err(err, KP_INVALID_ARGUMENT, "load private key");
	}
	if (o->ca_pem.n && !use_authorities(ctx, o->ca_pem)) {
		return kp_tls_err(err, KP_INVALID_ARGUMENT, "load CA bundle");
	}
	ERR_clear_error();
	return 0;
}

static SSL_CTX *common(const SSL_METHOD *method, const struct kp_tls_opts *o, struct kp_err *err)
{
	ERR_clear_error();
	SSL_CTX *ctx = SSL_CTX_new(method);
	if (!ctx) {
		kp_tls_err(err, KP_INTERNAL, "create TLS context");
		return NULL;
	}
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					 SSL_OP_CIPHER_SERVER_PREFERENCE |
					 SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	if (SSL_CTX_set_cipher_list(ctx, CIPHERS) != 1) {
		kp_tls_err(err, KP_INTERNAL, "set TLS ciphers");
		SSL_CTX_free(ctx);
		return NULL;
	}
	if (load_files(ctx, o, err) < 0 || load_texts(ctx, o, err) < 0) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

static struct kp_tls_context *wrap(SSL_CTX *ctx, bool server)
{
	struct kp_tls_context *c = kp_new(struct kp_tls_context);
	kp_ref_init(&c->ref);
	c->ctx = ctx;
	c->server = server;
	return c;
}

struct kp_tls_context *kp_tls_server(const struct kp_tls_opts *o, struct kp_err *err)
{
	if ((!o->cert_file && !o->cert_pem.n) || (!o->key_file && !o->key_pem.n)) {
		kp_err_set(err, KP_INVALID_ARGUMENT,
			"TLS server: a certificate and a private key are needed");
		return NULL;
	}
	if (o->require_peer_cert && !o->ca_file && !o->ca_pem.n) {
		kp_err_set(err, KP_INVALID_ARGUMENT,
			"TLS server: client certificates need a CA bundle");
		return NULL;
	}
	SSL_CTX *ctx = common(TLS_server_method(), o, err);
	if (!ctx) {
		return NULL;
	}
	SSL_CTX_set_alpn_select_cb(ctx, select_alpn, NULL);
	static const unsigned char session_id[] = "kelpie";
	SSL_CTX_set_session_id_context(ctx, session_id, sizeof(session_id) - 1);
	if (o->require_peer_cert) {
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
		/* A resumed session is not verified again, and a certificate may have expired since. */
		SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
		SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
		SSL_CTX_set_num_tickets(ctx, 0);
	}
	return wrap(ctx, true);
}

struct kp_tls_context *kp_tls_client(const struct kp_tls_opts *o, struct kp_err *err)
{
	SSL_CTX *ctx = common(TLS_client_method(), o, err);
	if (!ctx) {
		return NULL;
	}
	if (!o->ca_file && !o->ca_pem.n && !o->insecure &&
		SSL_CTX_set_default_verify_paths(ctx) != 1) {
		kp_tls_err(err, KP_INTERNAL, "load the system's CA certificates");
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_verify(ctx, o->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	return wrap(ctx, false);
}

struct kp_tls_context *kp_tls_ref(struct kp_tls_context *c)
{
	kp_ref_get(&c->ref);
	return c;
}

void kp_tls_unref(struct kp_tls_context *c)
{
	if (c && kp_ref_put(&c->ref)) {
		SSL_CTX_free(c->ctx);
		kp_mem_free(c);
	}
}
