/* DESIGN: gRPC's "ssl" credentials. A server's are made with a fetcher, which gRPC calls in the thread of
   the completion queue for each connection that comes in, and once in the loop's before that thread is
   started: so what it remembers has one user at a time. It reads the three files again, and when they
   are not what they were gives them to gRPC, which keeps the old ones if they do not fit together (a
   rotation half done). A client's are read for each stream, and it keeps the last that were good itself.

   A server's may also be in memory (struct kp_rpc_keys), where whoever renews them leaves the newest under a mutex.

   OpenSSL is asked first, through lib/net's contexts, because its errors name the file; gRPC's do not. */
#include "rpc/internal.h"

#include "base/fs.h"
#include "base/map.h"
#include "net/tls.h"
#include "obs/log.h"

#include <grpc/grpc_security.h>
#include <openssl/crypto.h>
#include <pthread.h>

enum { PEM_MAX = 1 << 20 };

struct files {
	struct kp_buf cert, key, ca;
	struct kp_buf cert_name, key_name, ca_name;
};

static void files_init(struct files *f, const char *dir)
{
	struct {
		struct kp_buf *name, *content;
		const char *file;
	} all[] = { { &f->cert_name, &f->cert, "tls.crt" }, { &f->key_name, &f->key, "tls.key" },
		{ &f->ca_name, &f->ca, "ca.crt" } };
	for (size_t i = 0; i < KP_LEN(all); i++) {
		kp_buf_init(all[i].content, PEM_MAX);
		kp_buf_init(all[i].name, 8192);
		kp_buf_printf(all[i].name, "%s/%s", dir, all[i].file);
	}
}
static void files_fini(struct files *f)
{
	struct kp_buf *all[] = { &f->cert, &f->key, &f->ca, &f->cert_name, &f->key_name,
		&f->ca_name };
	if (f->key.cap) {
		OPENSSL_cleanse(f->key.p, f->key.cap);
	}
	for (size_t i = 0; i < KP_LEN(all); i++) {
		kp_buf_fini(all[i]);
	}
}

/* Into empty buffers. */
static int files_read(struct files *f, struct kp_err *err)
{
	const char *cert = kp_buf_cstr(&f->cert_name), *key = kp_buf_cstr(&f->key_name),
		   *ca = kp_buf_cstr(&f->ca_name);
	if (!cert || !key || !ca) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "read certificates: name too long");
	}
	if (kp_fs_read(cert, &f->cert, err) < 0 || kp_fs_read(key, &f->key, err) < 0 ||
		kp_fs_read(ca, &f->ca, err) < 0) {
		return -1;
	}
	if (!kp_buf_cstr(&f->cert) || !kp_buf_cstr(&f->key) || !kp_buf_cstr(&f->ca)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "read certificates: out of memory");
	}
	return 0;
}

static int files_check(struct files *f, bool is_server, struct kp_err *err)
{
	const struct kp_tls_opts o = { .cert_file = kp_buf_cstr(&f->cert_name),
		.key_file = kp_buf_cstr(&f->key_name),
		.ca_file = kp_buf_cstr(&f->ca_name),
		.require_peer_cert = is_server };
	struct kp_tls_context *c = is_server ? kp_tls_server(&o, err) : kp_tls_client(&o, err);
	kp_tls_unref(c);
	return c ? 0 : -1;
}

static uint64_t signature(const struct files *f)
{
	return kp_hash(kp_buf_str(&f->cert)) + 3 * kp_hash(kp_buf_str(&f->key)) +
	       5 * kp_hash(kp_buf_str(&f->ca));
}

/* Once for each reason: it is the same with each connection. */
static void stays(uint64_t *said, const struct kp_err *why)
{
	uint64_t hash = kp_hash(kp_str_c(why->msg));
	if (hash != *said) {
		*said = hash;
		kp_log(KP_LOG_WARN, "certificates of the control stream stay as they were",
			kp_f_err(why));
	}
}

/* --- server --- */

struct kp_rpc_watch {
	char *dir;                /* one */
	struct kp_rpc_keys *keys; /* or the other */
	uint64_t seen;            /* of the content */
	uint64_t said;
};

struct kp_rpc_keys {
	pthread_mutex_t lock; /* guards the rest */
	struct files now;
	uint64_t n; /* times that they were set */
};

struct kp_rpc_keys *kp_rpc_keys_create(void)
{
	struct kp_rpc_keys *k = kp_new(struct kp_rpc_keys);
	pthread_mutex_init(&k->lock, NULL);
	return k;
}

int kp_rpc_keys_set(struct kp_rpc_keys *k, kp_str cert, kp_str key, kp_str ca, struct kp_err *err)
{
	const struct kp_tls_opts o = {
		.cert_pem = cert, .key_pem = key, .ca_pem = ca, .require_peer_cert = true
	};
	struct kp_tls_context *c = kp_tls_server(&o, err);
	if (!c) {
		return -1;
	}
	kp_tls_unref(c);
	struct files f;
	files_init(&f, "");
	kp_buf_add(&f.cert, cert);
	kp_buf_add(&f.key, key);
	kp_buf_add(&f.ca, ca);
	if (!kp_buf_cstr(&f.cert) || !kp_buf_cstr(&f.key) || !kp_buf_cstr(&f.ca)) {
		files_fini(&f);
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "set certificates: out of memory");
	}
	pthread_mutex_lock(&k->lock);
	struct files old = k->now;
	k->now = f;
	k->n++;
	pthread_mutex_unlock(&k->lock);
	files_fini(&old);
	return 0;
}

void kp_rpc_keys_destroy(struct kp_rpc_keys *k)
{
	if (k) {
		files_fini(&k->now);
		pthread_mutex_destroy(&k->lock);
		kp_mem_free(k);
	}
}

static grpc_ssl_server_certificate_config *config_of(struct files *f)
{
	const grpc_ssl_pem_key_cert_pair pair = { kp_buf_cstr(&f->key), kp_buf_cstr(&f->cert) };
	return grpc_ssl_server_certificate_config_create(kp_buf_cstr(&f->ca), &pair, 1);
}

static grpc_ssl_certificate_config_reload_status fetch_keys(
	void *user, grpc_ssl_server_certificate_config **ret)
{
	struct kp_rpc_watch *w = user;
	grpc_ssl_certificate_config_reload_status status =
		GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
	pthread_mutex_lock(&w->keys->lock);
	if (w->keys->n != w->seen) {
		w->seen = w->keys->n;
		*ret = config_of(&w->keys->now);
		status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
	}
	pthread_mutex_unlock(&w->keys->lock);
	return status;
}

static grpc_server_credentials *credentials_of(
	struct kp_rpc_watch *w, grpc_ssl_server_certificate_config_callback fetch)
{
	return grpc_ssl_server_credentials_create_with_options(
		grpc_ssl_server_credentials_create_options_using_config_fetcher(
			GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, fetch, w));
}

static grpc_ssl_certificate_config_reload_status fetch(
	void *user, grpc_ssl_server_certificate_config **ret)
{
	struct kp_rpc_watch *w = user;
	struct kp_err err = KP_ERR_INIT;
	struct files f;
	grpc_ssl_certificate_config_reload_status status =
		GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
	files_init(&f, w->dir);
	int r = files_read(&f, &err);
	if (r < 0 || (signature(&f) != w->seen && (r = files_check(&f, true, &err)) < 0)) {
		stays(&w->said, &err);
	} else if (signature(&f) != w->seen) {
		w->seen = signature(&f);
		w->said = 0;
		*ret = config_of(&f);
		status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
	}
	files_fini(&f);
	return status;
}

grpc_server_credentials *kp_rpc_server_credentials(
	const struct kp_rpc_tls *tls, struct kp_rpc_watch **watch, struct kp_err *err)
{
	struct files f;
	if (!kp_rpc_is_secure(tls)) {
		*watch = NULL;
		return grpc_insecure_server_credentials_create();
	}
	if (tls->keys) {
		*watch = kp_new(struct kp_rpc_watch);
		(*watch)->keys = tls->keys;
		return credentials_of(*watch, fetch_keys);
	}
	files_init(&f, tls->dir);
	int r = files_read(&f, err) < 0 ? -1 : files_check(&f, true, err);
	files_fini(&f);
	if (r < 0) {
		return NULL;
	}
	*watch = kp_new(struct kp_rpc_watch);
	(*watch)->dir = kp_xstrdup(tls->dir);
	return credentials_of(*watch, fetch);
}

void kp_rpc_watch_destroy(struct kp_rpc_watch *w)
{
	if (w) {
		kp_free(&w->dir);
		kp_mem_free(w);
	}
}

/* --- client --- */

struct kp_rpc_files {
	struct files good; /* the last that could be read and belong together */
	bool has_good;
	uint64_t said;
};

static int refresh(struct kp_rpc_files *k, const char *dir, struct kp_err *err)
{
	struct files f;
	files_init(&f, dir);
	if (files_read(&f, err) < 0 || files_check(&f, false, err) < 0) {
		files_fini(&f);
		return -1;
	}
	if (k->has_good) {
		files_fini(&k->good);
	}
	k->good = f;
	k->has_good = true;
	k->said = 0;
	return 0;
}

grpc_channel_credentials *kp_rpc_channel_credentials(
	const struct kp_rpc_tls *tls, struct kp_rpc_files **files, struct kp_err *err)
{
	if (!tls || !tls->dir) {
		return grpc_insecure_credentials_create();
	}
	struct kp_rpc_files *k = *files ? *files : kp_new(struct kp_rpc_files);
	*files = k;
	if (refresh(k, tls->dir, err) < 0) {
		if (!k->has_good) {
			return NULL;
		}
		stays(&k->said, err);
	}
	grpc_ssl_pem_key_cert_pair pair = { kp_buf_cstr(&k->good.key), kp_buf_cstr(&k->good.cert) };
	return grpc_ssl_credentials_create(kp_buf_cstr(&k->good.ca), &pair, NULL, NULL);
}

void kp_rpc_files_destroy(struct kp_rpc_files *k)
{
	if (k && k->has_good) {
		files_fini(&k->good);
	}
	kp_mem_free(k);
}
