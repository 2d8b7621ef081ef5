/* DESIGN: the table; base/cmdline reads by it. */
#include "sidecar/config.h"

#include "base/clock.h"
#include "sidecar/version.h"

#include <unistd.h>

#define AT(member) offsetof(struct kp_config, member)
static const struct kp_cmdline_option options[] = {
	{ "--manifests", "PATH",
		"file or directory of manifests (InferencePool, InferenceEngine); watched",
		KP_OPTION_STRING, AT(manifests), 0, 0, NULL },
	{ "--listen", "HOST:PORT",
		"public listener, repeatable (default: 127.0.0.1 and the pool's target ports)",
		KP_OPTION_STRINGS, AT(listen), 0, KP_MAX_LISTEN, NULL },
	{ "--admin-listen", "HOST:PORT", "health, metrics (default 127.0.0.1:9090)",
		KP_OPTION_STRING, AT(admin_listen), 0, 0, NULL },
	{ "--namespace", "NAME",
		"namespace of manifests that name none, and the one served (default: default)",
		KP_OPTION_STRING, AT(namespace), 0, 0, NULL },
	{ "--routing", "POLICY", "least_load (default) or round_robin", KP_OPTION_CHOICE,
		AT(routing), 0, 0, kp_routing_policy_names },
	{ "--loops", "N", "event loop threads (default: the CPUs it may use)", KP_OPTION_U32,
		AT(loops), 1, 64, NULL },
	{ "--workers", "N", "worker threads for long prompts (default: as --loops)", KP_OPTION_U32,
		AT(workers), 1, 64, NULL },
	{ "--max-body", "BYTES", "largest request body (default 33554432)", KP_OPTION_U32,
		AT(max_body_bytes), 1024, 1u << 30, NULL },
	{ "--max-body-total", "BYTES",
		"bodies of all requests together; beyond: 429 (default 1073741824)", KP_OPTION_U32,
		AT(max_body_total), 1024, UINT32_MAX, NULL },
	{ "--max-requests", "N", "requests in flight; beyond: 429 (default 8192)", KP_OPTION_U32,
		AT(max_requests), 1, 1000000, NULL },
	{ "--request-timeout", "SECONDS", "longest life of a request (default 1800)",
		KP_OPTION_SECONDS, AT(request_timeout_ns), 1, 86400, NULL },
	{ "--drain-settle", "SECONDS", "after SIGTERM: not ready, but still accepting (default 0)",
		KP_OPTION_SECONDS, AT(drain_settle_ns), 0, 3600, NULL },
	{ "--drain-timeout", "SECONDS", "then: how long requests in flight may take (default 60)",
		KP_OPTION_SECONDS, AT(drain_timeout_ns), 0, 86400, NULL },
	{ "--tls-cert", "FILE", "PEM certificate chain of the public listeners", KP_OPTION_STRING,
		AT(tls_cert), 0, 0, NULL },
	{ "--tls-key", "FILE", "its PEM key", KP_OPTION_STRING, AT(tls_key), 0, 0, NULL },
	{ "--log-level", "LEVEL", "debug, info (default), warn, error", KP_OPTION_CHOICE,
		AT(log_level), 0, 0, kp_log_level_names },
	{ "--log-format", "FORMAT", "logfmt (default) or json", KP_OPTION_CHOICE, AT(log_format), 0,
		0, kp_log_format_names },
};
static const struct kp_cmdline cmdline = { .program = "kelpie-sidecar",
	.what = "the Kelpie gateway",
	.usage = "--manifests PATH [options]",
	.options = options,
	.n = KP_LEN(options),
	.version = kp_sidecar_version_text };

int kp_config_parse(int argc, char **argv, struct kp_config *ret, struct kp_err *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct kp_config c = { .admin_listen = "127.0.0.1:9090",
		.namespace = "default",
		.loops = cpus < 1 ? 1 : (unsigned)KP_MIN(cpus, 64),
		.max_body_total = 1u << 30,
		.max_body_bytes = 32u << 20,
		.max_requests = 8192,
		.request_timeout_ns = 1800 * KP_NS_PER_S,
		.drain_timeout_ns = 60 * KP_NS_PER_S,
		.log_level = KP_LOG_INFO };
	int r = kp_cmdline_parse(&cmdline, argc, argv, &c, err);
	if (r != 0) {
		return r;
	}
	if (!c.manifests) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "`--manifests` is missing (see --help)");
	}
	if (!c.tls_cert != !c.tls_key) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "`--tls-cert` and `--tls-key` go together");
	}
	c.workers = c.workers ? c.workers : c.loops;
	*ret = c;
	return 0;
}
