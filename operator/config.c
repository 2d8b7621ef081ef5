/* DESIGN: the table; base/cmdline reads by it. */
#include "operator/config.h"

#include "base/clock.h"
#include "operator/trust/trust.h"
#include "operator/version.h"

#include <stdlib.h>
#include <unistd.h>

#define AT(member) offsetof(struct kp_operator_config, member)
static const struct kp_cmdline_option options[] = {
	{ "--manifests", "PATH",
		"file or directory of manifests (InferencePool, InferenceEngine); watched",
		KP_OPTION_STRING, AT(manifests), 0, 0, NULL },
	{ "--kubeconfig", "FILE",
		"instead of manifests: objects of this API server (inside a pod it finds its own without)",
		KP_OPTION_STRING, AT(kubeconfig), 0, 0, NULL },
	{ "--watch-namespace", "NAME",
		"only objects of this namespace, may be given several times (default: all)",
		KP_OPTION_STRINGS, AT(watch_namespaces), 0, KP_STRINGS_MAX, NULL },
	{ "--leader-elect", "",
		"of several operators one leads, by a Lease in the operator's namespace; needs a cluster",
		KP_OPTION_FLAG, AT(leader_elect), 0, 0, NULL },
	{ "--control-listen", "HOST:PORT", "for the gateways (default 127.0.0.1:9443)",
		KP_OPTION_STRING, AT(control_listen), 0, 0, NULL },
	{ "--admin-listen", "HOST:PORT", "health, metrics, status (default 127.0.0.1:9091)",
		KP_OPTION_STRING, AT(admin_listen), 0, 0, NULL },
	{ "--namespace", "NAME", "namespace of manifests that name none (default: default)",
		KP_OPTION_STRING, AT(namespace), 0, 0, NULL },
	{ "--tls-dir", "DIR",
		"tls.crt, tls.key, ca.crt of the control listener (without: loopback only)",
		KP_OPTION_STRING, AT(tls_dir), 0, 0, NULL },
	{ "--https-listen", "HOST:PORT",
		"in a cluster: the injection webhook and certificates for gateways; the operator is the authority then, --tls-dir is not needed",
		KP_OPTION_STRING, AT(https_listen), 0, 0, NULL },
	{ "--serving-name", "NAME",
		"another name or address that the operator is reached by, may be given several times (its Service's names are known)",
		KP_OPTION_STRINGS, AT(serving_names), 0, KP_STRINGS_MAX, NULL },
	{ "--ca-rotate", "SECONDS", "how long one authority signs (default 2592000: 30 days)",
		KP_OPTION_SECONDS, AT(ca_rotate_ns), 2, 315360000, NULL },
	{ "--ca-overlap", "SECONDS",
		"how long the next one is believed before it signs: longer than a ConfigMap needs to be seen in all pods (default 600)",
		KP_OPTION_SECONDS, AT(ca_overlap_ns), 1, 31536000, NULL },
	{ "--certificate-lifetime", "SECONDS",
		"of gateways' and the operator's certificates (default 86400)", KP_OPTION_SECONDS,
		AT(certificate_lifetime_ns), 6, 31536000, NULL },
	{ "--gateway-image", "IMAGE", "that the webhook injects (default: this version's)",
		KP_OPTION_STRING, AT(gateway_image), 0, 0, NULL },
	{ "--state-dir", "DIR", "keeps the epoch, for when the clock is set back (default: none)",
		KP_OPTION_STRING, AT(state_dir), 0, 0, NULL },
	{ "--id", "NAME", "what it calls itself to the gateways (default: the host's name)",
		KP_OPTION_STRING, AT(id), 0, 0, NULL },
	{ "--log-level", "LEVEL", "debug, info (default), warn, error", KP_OPTION_CHOICE,
		AT(log_level), 0, 0, kp_log_level_names },
	{ "--log-format", "FORMAT", "logfmt (default) or json", KP_OPTION_CHOICE, AT(log_format), 0,
		0, kp_log_format_names },
};
static const struct kp_cmdline cmdline = { .program = "kelpie-operator",
	.what = "programs the Kelpie gateways",
	.usage = "--manifests PATH | --kubeconfig FILE [options]",
	.options = options,
	.n = KP_LEN(options),
	.version = kp_operator_version_text };

static const char *host_name(void)
{
	static char name[256];
	return gethostname(name, sizeof(name) - 1) == 0 && name[0] ? name : "kelpie-operator";
}

static int check_https(const struct kp_operator_config *c, struct kp_err *err)
{
	const struct kp_trust_periods periods = { c->ca_rotate_ns, c->ca_overlap_ns,
		c->certificate_lifetime_ns };
	if (!c->https_listen) {
		return 0;
	}
	if (c->manifests || c->tls_dir) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--https-listen` and `%s`: the operator is the authority in a cluster only, and the only one there",
			c->manifests ? "--manifests" : "--tls-dir");
	}
	return kp_trust_check_periods(&periods, err);
}

int kp_operator_config_parse(
	int argc, char **argv, struct kp_operator_config *ret, struct kp_err *err)
{
	struct kp_operator_config c = { .control_listen = "127.0.0.1:9443",
		.admin_listen = "127.0.0.1:9091",
		.namespace = "default",
		.id = host_name(),
		.ca_rotate_ns = 30 * 86400 * KP_NS_PER_S,
		.ca_overlap_ns = 600 * KP_NS_PER_S,
		.certificate_lifetime_ns = 86400 * KP_NS_PER_S,
		.log_level = KP_LOG_INFO };
	int r = kp_cmdline_parse(&cmdline, argc, argv, &c, err);
	if (r != 0) {
		return r;
	}
	if (!c.manifests && !c.kubeconfig && !getenv("KUBERNETES_SERVICE_HOST")) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--manifests` or `--kubeconfig` is missing (see --help)");
	}
	if (c.manifests && (c.kubeconfig || c.watch_namespaces.n)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--manifests` and `%s`: objects come from one place",
			c.kubeconfig ? "--kubeconfig" : "--watch-namespace");
	}
	if (c.manifests && c.leader_elect) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--leader-elect`: with `--manifests` there is no Lease");
	}
	if (!c.id[0] || !c.namespace[0]) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: must not be empty",
			c.id[0] ? "--namespace" : "--id");
	}
	if (check_https(&c, err)) {
		return -1;
	}
	*ret = c;
	return 0;
}
