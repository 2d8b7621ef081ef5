/* How to reach an API server and as whom: from a kubeconfig or from inside a pod. What kubectl reads is
   read the same way; what Kelpie cannot honour (exec and auth-provider plugins, basic authentication,
   impersonation) is refused by name, since a credential that is silently left out is a request as somebody
   else. Immutable once made. Files that it names are read, and read again, by kube/credentials.h. */
#ifndef KP_KUBE_CONFIG_H
#define KP_KUBE_CONFIG_H

#include "base/arena.h"

/* A credential: its bytes, or the file that has them. Neither: there is none. */
struct kp_kube_secret {
	kp_str data;
	const char *path; /* wins over data, as in kubectl; NULL: none */
};
struct kp_kube_config {
	struct kp_arena *arena;
	const char *server;          /* "https://host:port/prefix", no slash at the end */
	const char *tls_server_name; /* NULL: the server's host */
	const char *proxy_url;       /* NULL: as the environment says (HTTPS_PROXY, NO_PROXY) */
	kp_str ns;                   /* the context's namespace, "default" when it names none */
	bool is_insecure;            /* the server's certificate is not checked */
	struct kp_kube_secret ca, cert, key, token;
};

#define KP_KUBE_POD_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* Pure. Relative names of files are below `dir`. context: its name, NULL: current-context.
   INVALID_ARGUMENT names what is wrong, NOT_FOUND the context, cluster or user that is missing. */
int kp_kube_config_parse(kp_str text, const char *dir, const char *context,
	struct kp_kube_config **ret, struct kp_err *err) KP_MUST_USE;
/* The file, 1 MiB at most. Blocking. */
int kp_kube_config_load(const char *path, const char *context, struct kp_kube_config **ret,
	struct kp_err *err) KP_MUST_USE;
/* Inside a pod: `dir` (NULL: KP_KUBE_POD_DIR) has token, ca.crt and namespace; host and port as in
   KUBERNETES_SERVICE_HOST and _PORT, NULL when unset, which is FAILED_PRECONDITION. Blocking. */
int kp_kube_config_in_pod(const char *dir, const char *host, const char *port,
	struct kp_kube_config **ret, struct kp_err *err) KP_MUST_USE;
void kp_kube_config_destroy(struct kp_kube_config *c); /* NULL is fine */
KP_AUTO_DEFINE(struct kp_kube_config, kube_config, kp_kube_config_destroy);

#endif
