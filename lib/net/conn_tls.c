/* DESIGN: OpenSSL between two memory areas, without a socket and without memory BIOs: our BIO reads
   straight from the bytes the loop just received and writes straight into the connection's
   ciphertext queue. Ciphertext that was received while the owner has paused is kept in `rest` (at
   most one read, 64 KiB). Decrypted bytes of one read are gathered in the loop's second shared
   buffer and delivered together. */
#include "net/conn_internal.h"
#include "net/tls_internal.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>

enum {
	MAX_CIPHER = 512 << 10, /* 64 KiB of plaintext and handshake records; more means a client
				   that provokes answers it does not read */
	MAX_REST = KP_LOOP_READ_BYTES,
};

struct kp_conn_tls {
	SSL *ssl;
	kp_str in; /* ciphertext not yet taken by OpenSSL */
	struct kp_buf rest;
	bool stopped;   /* the owner paused before everything was decrypted */
	char *bad_name; /* of the certificate that was not good enough */
	struct kp_conn_queue cipher;
};

static int bio_read(BIO *bio, char *p, int n)
{
	struct kp_conn *c = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	kp_str *in = &c->tls->in;
	if (in->n == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	size_t take = KP_MIN((size_t)(n > 0 ? n : 0), in->n);
	memcpy(p, in->p, take);
	*in = kp_str_skip(*in, take);
	return (int)take;
}

static int bio_write(BIO *bio, const char *p, int n)
{
	struct kp_conn *c = BIO_get_data(bio);
	struct kp_conn_queue *q = &c->tls->cipher;
	BIO_clear_retry_flags(bio);
	if (n <= 0 || !kp_conn_queue_room(c->loop, q, (size_t)n, MAX_CIPHER)) {
		return -1;
	}
	kp_buf_add(&q->b, kp_str_n(p, (size_t)n));
	return n;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
	(void)bio, (void)num, (void)ptr;
	return cmd == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kelpie connection");
	KP_BUG_ON(!method || !BIO_meth_set_read(method, bio_read) ||
		  !BIO_meth_set_write(method, bio_write) || !BIO_meth_set_ctrl(method, bio_ctrl));
}

/* ---- certificates ---- */

/* A DNS or URI name; false for other kinds, and for bytes that no name has (a NUL above all). */
static bool name_of(const GENERAL_NAME *g, kp_str *ret)
{
	if (g->type != GEN_DNS && g->type != GEN_URI) {
		return false;
	}
	const ASN1_IA5STRING *s =
		g->type == GEN_DNS ? g->d.dNSName : g->d.uniformResourceIdentifier;
	*ret = kp_str_n(ASN1_STRING_get0_data(s), (size_t)ASN1_STRING_length(s));
	bool ok = ret->n > 0;
	for (size_t i = 0; i < ret->n && ok; i++) {
		ok = ret->p[i] > 0x20 && ret->p[i] < 0x7f;
	}
	return ok;
}

static size_t names_of(const X509 *cert, kp_str **ret)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	kp_str name, names[KP_CONN_NAMES_MAX];
	size_t n = 0, bytes = 0;
	for (int i = 0; i < sk_GENERAL_NAME_num(all) && n < KP_CONN_NAMES_MAX; i++) {
		if (name_of(sk_GENERAL_NAME_value(all, i), &name)) {
			names[n++] = name;
			bytes += name.n;
		}
	}
	if (n > 0) {
		*ret = kp_xmalloc(n * sizeof(name) + bytes);
		char *p = (char *)(*ret + n);
		for (size_t i = 0; i < n; i++) {
			memcpy(p, names[i].p, names[i].n);
			(*ret)[i] = kp_str_n(p, names[i].n);
			p += names[i].n;
		}
	}
	GENERAL_NAMES_free(all);
	return n;
}

size_t kp_conn_peer_names(const struct kp_conn *c, kp_str **ret)
{
	X509 *cert = c->tls ? SSL_get0_peer_certificate(c->tls->ssl) : NULL;
	bool verified = c->tls && SSL_get_verify_result(c->tls->ssl) == X509_V_OK &&
			(SSL_get_verify_mode(c->tls->ssl) & SSL_VERIFY_PEER);
	*ret = NULL;
	return cert && verified ? names_of(cert, ret) : 0;
}

/* OpenSSL forgets a certificate that it refuses: its name is kept for the error. */
static int on_verify(int ok, X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	X509 *cert =
		X509_STORE_CTX_get0_cert(store); /* not of its issuer, who may be the trouble */
	struct kp_conn *c = BIO_get_data(SSL_get_rbio(ssl));
	if (ok || !cert) {
		return ok;
	}
	char name[256] = "";
	kp_str *names = NULL;
	if (names_of(cert, &names) > 0) {
		size_t n = KP_MIN(names[0].n, sizeof(name) - 1);
		memcpy(name, names[0].p, n);
		name[n] = '\0';
	} else {
		X509_NAME_get_text_by_NID(
			X509_get_subject_name(cert), NID_commonName, name, sizeof(name));
	}
	kp_free(&names);
	kp_free(&c->tls->bad_name);
	c->tls->bad_name = kp_xstrdup(name);
	return ok;
}

static int certificate_err(const struct kp_conn *c, long verify, struct kp_err *err)
{
	SSL *ssl = c->tls->ssl;
	const char *side = SSL_is_server(ssl) ? "client certificate" : "certificate";
	const char *whose = c->tls->bad_name ? c->tls->bad_name : "";
	const char *wanted = X509_VERIFY_PARAM_get0_host(SSL_get0_param(ssl), 0);
	const char *why = X509_verify_cert_error_string(verify);
	ERR_clear_error();
	if (verify == X509_V_ERR_HOSTNAME_MISMATCH && wanted) {
		return kp_err_set(err, KP_UNAVAILABLE, "TLS handshake: %s `%s`: it is not for `%s`",
			side, whose, wanted);
	}
	return kp_err_set(err, KP_UNAVAILABLE, "TLS handshake: %s `%s`: %s", side, whose, why);
}

/* ---- opening ---- */

static int set_name(SSL *ssl, const char *name, struct kp_err *err)
{
	unsigned char ip[16];
	if (inet_pton(AF_INET, name, ip) == 1 || inet_pton(AF_INET6, name, ip) == 1) {
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1
			       ? 0
			       : kp_tls_err(err, KP_INTERNAL, "set TLS address");
	}
	/* Names are where they belong: not in the subject, which anybody may be called. */
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if (SSL_set_tlsext_host_name(ssl, kp_unconst(name)) != 1 || SSL_set1_host(ssl, name) != 1) {
		return kp_tls_err(err, KP_INTERNAL, "set TLS name");
	}
	return 0;
}

static int set_alpn(SSL *ssl, const char *alpn, struct kp_err *err)
{
	unsigned char list[256];
	size_t n = strlen(alpn);
	KP_BUG_ON(n == 0 || n > 255);
	list[0] = (unsigned char)n;
	memcpy(list + 1, alpn, n);
	/* This one returns 0 when it worked. */
	return SSL_set_alpn_protos(ssl, list, (unsigned)n + 1) == 0
		       ? 0
		       : kp_tls_err(err, KP_INTERNAL, "set ALPN");
}

int kp_conn_tls_create(struct kp_conn *c, struct kp_tls_context *ctx, const char *name,
	const char *alpn, struct kp_err *err)
{
	pthread_once(&method_once, make_method);
	SSL *ssl = SSL_new(kp_tls_ssl_ctx(ctx));
	BIO *bio = BIO_new(method);
	if (!ssl || !bio) {
		SSL_free(ssl);
		BIO_free(bio);
		return kp_tls_err(err, KP_RESOURCE_EXHAUSTED, "create TLS session");
	}
	c->tls = kp_new(struct kp_conn_tls);
	c->tls->ssl = ssl;
	kp_buf_init(&c->tls->rest, MAX_REST);
	kp_buf_init(&c->tls->cipher.b, MAX_CIPHER);
	BIO_set_data(bio, c);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	SSL_set_verify(ssl, SSL_get_verify_mode(ssl), on_verify);
	if (kp_tls_is_server(ctx)) {
		SSL_set_accept_state(ssl);
		return 0;
	}
	SSL_set_connect_state(ssl);
	if ((name && name[0] && set_name(ssl, name, err) < 0) ||
		(alpn && set_alpn(ssl, alpn, err) < 0)) {
		return -1;
	}
	return 0;
}

void kp_conn_tls_destroy(struct kp_conn *c)
{
	if (c->tls) {
		SSL_free(c->tls->ssl); /* and the BIO */
		c->tls->ssl = NULL;
		kp_free(&c->tls->bad_name);
		kp_buf_fini(&c->tls->rest);
		kp_conn_queue_fini(c->loop, &c->tls->cipher);
		kp_free(&c->tls);
	}
}

/* 1: the handshake is done, 0: more bytes needed. */
static int handshake(struct kp_conn *c, struct kp_err *err)
{
	ERR_clear_error();
	int rc = SSL_do_handshake(c->tls->ssl);
	if (rc == 1) {
		kp_conn_opened(c);
		return 1;
	}
	if (SSL_get_error(c->tls->ssl, rc) == SSL_ERROR_WANT_READ) {
		return 0;
	}
	long verify = SSL_get_verify_result(c->tls->ssl);
	if (verify != X509_V_OK && (SSL_get_verify_mode(c->tls->ssl) & SSL_VERIFY_PEER)) {
		return certificate_err(c, verify, err);
	}
	return kp_tls_err(err, KP_UNAVAILABLE, "TLS handshake");
}

/* Fills the loop's buffer with plaintext. 1: there may be more, 0: all read, -1: broken; *ret_n
 * bytes are good in every case. */
static int read_plain(struct kp_conn *c, size_t *ret_n, struct kp_err *err)
{
	char *plain = c->loop->plain_buf;
	size_t n = 0, got;
	int result = 1;
	while (n < sizeof(c->loop->plain_buf)) {
		ERR_clear_error();
		int rc = SSL_read_ex(c->tls->ssl, plain + n, sizeof(c->loop->plain_buf) - n, &got);
		if (rc == 1) {
			n += got;
			continue;
		}
		int why = SSL_get_error(c->tls->ssl, rc);
		result = 0;
		if (why == SSL_ERROR_ZERO_RETURN) {
			c->eof_read = true;
		} else if (why != SSL_ERROR_WANT_READ) {
			result = kp_tls_err(err, KP_UNAVAILABLE, "TLS receive");
		}
		break;
	}
	*ret_n = n;
	return result;
}

/* Until there is nothing more to read, the owner pauses or the connection ends. */
static int decrypt(struct kp_conn *c, struct kp_err *err)
{
	int rc = 1;
	while (rc > 0 && c->state == KP_CONN_OPEN && !c->paused) {
		size_t n;
		rc = read_plain(c, &n, err);
		if (n > 0) {
			kp_conn_deliver(c, kp_str_n(c->loop->plain_buf, n));
		}
	}
	if (c->state == KP_CONN_OPEN) {
		c->tls->stopped = rc > 0;
		if (c->eof_read) {
			kp_conn_deliver_eof(c);
		}
	}
	return rc < 0 ? -1 : 0;
}

/* What OpenSSL did not take (the owner paused) waits in `rest`. */
static void keep_rest(struct kp_conn *c, bool from_rest)
{
	struct kp_conn_tls *t = c->tls;
	if (from_rest) {
		kp_buf_consume(&t->rest, t->rest.n - t->in.n);
	} else {
		kp_buf_add(&t->rest, t->in);
	}
	if (t->rest.n == 0) {
		kp_buf_fini(&t->rest);
	}
	t->in = KP_STR_NULL;
}

int kp_conn_tls_input(struct kp_conn *c, kp_str bytes, struct kp_err *err)
{
	struct kp_conn_tls *t = c->tls;
	bool from_rest = t->rest.n > 0;
	KP_BUG_ON(
		from_rest && bytes.n > 0); /* nothing is read from the socket while a rest waits */
	t->in = from_rest ? kp_buf_str(&t->rest) : bytes;
	int rc = 0;
	if (c->state == KP_CONN_HANDSHAKE) {
		rc = handshake(c, err);
	}
	if (rc >= 0 && c->state == KP_CONN_OPEN) {
		rc = decrypt(c, err);
	}
	if (c->state == KP_CONN_DEAD) {
		return 0;
	}
	keep_rest(c, from_rest);
	kp_conn_touch(c);
	if (rc < 0) {
		/* The alert goes out before the connection does. */
		kp_conn_send_alert(c);
		return -1;
	}
	return 0;
}

bool kp_conn_tls_has_rest(const struct kp_conn *c)
{
	return c->tls->rest.n > 0 || c->tls->stopped;
}

int kp_conn_tls_output(struct kp_conn *c, struct kp_err *err)
{
	if (!SSL_is_init_finished(c->tls->ssl)) {
		return 0;
	}
	size_t n = KP_MIN(c->out.b.n - c->out.off, (size_t)KP_CONN_FLUSH_BYTES), written = 0;
	ERR_clear_error();
	if (SSL_write_ex(c->tls->ssl, c->out.b.p + c->out.off, n, &written) != 1) {
		return kp_tls_err(err, KP_UNAVAILABLE, "TLS send");
	}
	kp_conn_queue_took(c->loop, &c->out, written);
	return 0;
}

struct kp_conn_queue *kp_conn_tls_queue(const struct kp_conn *c)
{
	return &c->tls->cipher;
}

void kp_conn_tls_close_notify(struct kp_conn *c)
{
	ERR_clear_error();
	SSL_shutdown(c->tls->ssl);
	ERR_clear_error();
}

kp_str kp_conn_alpn(const struct kp_conn *c)
{
	const unsigned char *p = NULL;
	unsigned n = 0;
	if (c->tls) {
		SSL_get0_alpn_selected(c->tls->ssl, &p, &n);
	}
	return kp_str_n(p, n);
}
