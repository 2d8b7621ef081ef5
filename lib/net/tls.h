/* TLS (OpenSSL 3): server and client contexts. TLS 1.2 and 1.3, no renegotiation, no compression, ALPN "h2" and "http/1.1".
   A context is immutable and may be shared by loops. Loading reads files: not on a loop while it serves. */
#ifndef KP_NET_TLS_H
#define KP_NET_TLS_H

#include "base/err.h"
#include "base/str.h"

struct kp_tls_context;

struct kp_tls_opts {
	const char *cert_file,
		*key_file; /* PEM chain and key; NULL for a client without certificate */
	const char *
		ca_file; /* PEM bundle that verifies the other side; NULL: the system's for clients, none for servers */
	/* The same as text, where there is no file: in memory, for the call. */
	kp_str cert_pem, key_pem, ca_pem;
	bool require_peer_cert; /* servers: the handshake fails without a valid client certificate */
	bool insecure;          /* clients: do not verify (never the default) */
};
struct kp_tls_context *kp_tls_server(
	const struct kp_tls_opts *o, struct kp_err *err) KP_MUST_USE; /* NULL: err is set */
struct kp_tls_context *kp_tls_client(const struct kp_tls_opts *o, struct kp_err *err) KP_MUST_USE;
struct kp_tls_context *kp_tls_ref(struct kp_tls_context *c);
void kp_tls_unref(struct kp_tls_context *c);

#endif
