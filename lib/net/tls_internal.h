/* The OpenSSL object inside a kp_tls_context, for conn_tls.c. */
#ifndef KP_NET_TLS_INTERNAL_H
#define KP_NET_TLS_INTERNAL_H

#include "net/tls.h"

#include <openssl/ssl.h>

SSL_CTX *kp_tls_ssl_ctx(const struct kp_tls_context *c);
bool kp_tls_is_server(const struct kp_tls_context *c);
/* "verb `operand`: reason" from OpenSSL's error queue, which is emptied. Returns -1. */
int kp_tls_err(struct kp_err *err, enum kp_code code, const char *what);

#endif
