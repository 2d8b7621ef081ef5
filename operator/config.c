/* DESIGN: the table; base/cmdline reads by it. */
#include "operator/config.h"

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

int kp_operator_config_parse(
	int argc, char **argv, struct kp_operator_config *ret, struct kp_err *err)
{
	struct kp_operator_config c = { .control_listen = "127.0.0.1:9443",
		.admin_listen = "127.0.0.1:9091",
		.namespace = "default",
		.id = host_name(),
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
	*ret = c;
	return 0;
}
