/* The operator's command line. */
#ifndef OPERATOR_CONFIG_H
#define OPERATOR_CONFIG_H

#include "base/cmdline.h"
#include "obs/log.h"

struct kp_operator_config {
	const char *manifests;              /* NULL: objects come from an API server */
	const char *kubeconfig;             /* NULL: the pod's own */
	struct kp_strings watch_namespaces; /* none: all */
	bool leader_elect;                  /* only one of several operators leads, by a Lease */
	const char *control_listen, *admin_listen;
	const char *namespace;    /* of manifests that name none */
	const char *tls_dir;      /* tls.crt, tls.key, ca.crt; NULL: cleartext, on loopback only */
	const char *state_dir;    /* NULL: nothing is kept */
	const char *https_listen; /* webhook and certificates; NULL: neither */
	struct kp_strings serving_names;
	int64_t ca_rotate_ns, ca_overlap_ns, certificate_lifetime_ns;
	const char *gateway_image; /* that is injected; NULL: this version's */
	const char *id;            /* what it calls itself to the gateways */
	enum kp_log_level log_level;
	enum kp_log_format log_format;
};

/* 0: run with *ret; 1: --help or --version was printed; -1: err says which argument is wrong.
 * Strings point into argv, but for the default id, which is static. */
int kp_operator_config_parse(
	int argc, char **argv, struct kp_operator_config *ret, struct kp_err *err) KP_MUST_USE;

#endif
