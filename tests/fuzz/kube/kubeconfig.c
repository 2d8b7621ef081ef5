/* Fuzz target: a kubeconfig. What is taken has a server that is a URL and no secret with two sources that differ. */
#include "kube/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_kube_config *c = NULL;
	struct kp_err err = KP_ERR_INIT;
	if (kp_kube_config_parse(kp_str_n(data, size), "/d", NULL, &c, &err)) {
		KP_BUG_ON(err.code == KP_OK || err.msg[0] == '\0' || c);
		return 0;
	}
	kp_str server = kp_str_c(c->server);
	KP_BUG_ON(!kp_str_has(server, KP_S("://")) || kp_str_ends(server, KP_S("/")));
	KP_BUG_ON(kp_str_find_char(server, '\n') >= 0 || !c->ns.n);
	KP_BUG_ON((c->cert.path && c->cert.data.n) || (c->key.path && c->key.data.n));
	KP_BUG_ON((c->cert.path || c->cert.data.n) != (c->key.path || c->key.data.n));
	KP_BUG_ON(c->is_insecure && (c->ca.path || c->ca.data.n));
	KP_BUG_ON(c->token.path && c->token.path[0] != '/');
	kp_kube_config_destroy(c);
	return 0;
}
