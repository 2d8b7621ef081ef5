/* The peer port of one loop: where other gateways reach the engines that this one owns
   (proto/kelpie/peer/v1, docs/peer.md). A forwarded generation runs on the loop that took its
   connection, on that loop's lane to the engine, and is never forwarded further.

   Who may call: with TLS, whoever has a certificate of the CA that names a gateway of the same namespace
   (core/identity.h). Limits: the
   gateway's --max-requests count forwarded generations too; a client that takes nothing holds its
   engine's stream back. */
#ifndef SIDECAR_PEER_PEER_H
#define SIDECAR_PEER_PEER_H

#include "net/grpc_server.h"
#include "sidecar/gwloop.h"

struct kp_peer_server;

/* All on the loop's thread, create and listen also before it runs. tls NULL: cleartext. max_connections 0: the
 * HTTP server's own. */
struct kp_peer_server *kp_peer_server_create(
	struct kp_gwloop *l, struct kp_tls_context *tls, unsigned max_connections);
/* As kp_http_server_listen. */
int kp_peer_server_listen(struct kp_peer_server *s, const char *address, uint16_t *ret_port,
	struct kp_err *err) KP_MUST_USE;
void kp_peer_server_set_tls(struct kp_peer_server *s, struct kp_tls_context *tls);
/* New generations are turned away already (kp_gateway_refuses); this closes connections as
   they become idle (GOAWAY). With cancel what is under way ends now. */
void kp_peer_server_drain(struct kp_peer_server *s, bool cancel);
/* As kp_flow_engine_down: what waits for its first token there ends; with is_stalled also what was
   silent for a while. */
void kp_peer_server_engine_down(
	struct kp_peer_server *s, const struct kp_endpoint *e, bool is_stalled);
const struct kp_http_counters *kp_peer_server_counters(const struct kp_peer_server *s);
/* Ends everything; done() once the memory is gone. Before the loop's lanes are destroyed. NULL: done()
 * at once. */
void kp_peer_server_destroy(struct kp_peer_server *s, void (*done)(void *), void *arg);

#endif
