/* DESIGN: both sides show the gateway's certificate and take any of the CA; whom a client wants is checked
   by name (engine/peer.h). */
#include "sidecar/control/peer_tls.h"

#include "base/buf.h"
#include "base/map.h"

#include <sys/stat.h>

static const char *const names[] = { "tls.crt", "tls.key", "ca.crt" };
enum { CERT = 0, KEY, CA };

int kp_peer_tls_load(const char *dir, struct kp_peer_tls *ret, struct kp_err *err)
{
	struct kp_peer_tls t = { 0 };
	struct kp_buf path[KP_LEN(names)];
	if (!dir) {
		*ret = t;
		return 0;
	}
	for (size_t i = 0; i < KP_LEN(names); i++) {
		kp_buf_init(&path[i], 8192);
		kp_buf_printf(&path[i], "%s/%s", dir, names[i]);
	}
	const struct kp_tls_opts opts = { .cert_file = kp_buf_cstr(&path[CERT]),
		.key_file = kp_buf_cstr(&path[KEY]),
		.ca_file = kp_buf_cstr(&path[CA]),
		.require_peer_cert = true };
	t.client = kp_tls_client(&opts, err);
	t.server = t.client ? kp_tls_server(&opts, err) : NULL;
	for (size_t i = 0; i < KP_LEN(names); i++) {
		kp_buf_fini(&path[i]);
	}
	if (!t.server) {
		kp_peer_tls_unref(&t);
		return kp_err_wrap(err, "`--tls-dir %s`", dir);
	}
	*ret = t;
	return 0;
}

struct kp_peer_tls kp_peer_tls_ref(const struct kp_peer_tls *t)
{
	return (struct kp_peer_tls){ t->client ? kp_tls_ref(t->client) : NULL,
		t->server ? kp_tls_ref(t->server) : NULL };
}

void kp_peer_tls_unref(struct kp_peer_tls *t)
{
	kp_tls_unref(t->client);
	kp_tls_unref(t->server);
	*t = (struct kp_peer_tls){ 0 };
}

uint64_t kp_peer_tls_signature(const char *dir)
{
	static const uint8_t key[16] = { 0 };
	KP_AUTO(buf) struct kp_buf all;
	kp_buf_init(&all, 1 << 16);
	for (size_t i = 0; dir && i < KP_LEN(names); i++) {
		KP_AUTO(buf) struct kp_buf path;
		struct stat st;
		kp_buf_init(&path, 8192);
		kp_buf_printf(&path, "%s/%s", dir, names[i]);
		if (kp_buf_cstr(&path) && stat(path.p, &st) == 0) {
			kp_buf_printf(&all, "%s %lld %lld.%09ld\n", names[i], (long long)st.st_ino,
				(long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
		}
	}
	return all.n ? kp_siphash(all.p, all.n, key) : 0;
}
