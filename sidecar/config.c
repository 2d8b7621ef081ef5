/* DESIGN: one table of options; every value is checked where it is read, and an error names the
 * option. */
#include "sidecar/config.h"

#include "base/clock.h"
#include "sidecar/version.h"

#include <stdio.h>
#include <unistd.h>

enum type { STRING, LISTEN, SECONDS, COUNT, BYTES, ROUTING, LEVEL, FORMAT };

struct option {
	const char *name, *value, *help;
	enum type type;
	size_t offset;
	uint64_t min, max;
};

#define AT(member) offsetof(struct kp_config, member)
static const struct option options[] = {
	{ "--manifests", "PATH",
		"file or directory of manifests (InferencePool, InferenceEngine); watched", STRING,
		AT(manifests), 0, 0 },
	{ "--listen", "HOST:PORT",
		"public listener, repeatable (default: 127.0.0.1 and the pool's target ports)",
		LISTEN, 0, 0, 0 },
	{ "--admin-listen", "HOST:PORT", "health, metrics (default 127.0.0.1:9090)", STRING,
		AT(admin_listen), 0, 0 },
	{ "--namespace", "NAME",
		"namespace of manifests that name none, and the one served (default: default)",
		STRING, AT(namespace), 0, 0 },
	{ "--routing", "POLICY", "least_load (default) or round_robin", ROUTING, 0, 0, 0 },
	{ "--loops", "N", "event loop threads (default: the CPUs it may use)", COUNT, AT(loops), 1,
		64 },
	{ "--workers", "N", "worker threads for long prompts (default: as --loops)", COUNT,
		AT(workers), 1, 64 },
	{ "--max-body", "BYTES", "largest request body (default 33554432)", BYTES,
		AT(max_body_bytes), 1024, 1u << 30 },
	{ "--max-body-total", "BYTES",
		"bodies of all requests together; beyond: 429 (default 1073741824)", BYTES,
		AT(max_body_total), 1024, UINT32_MAX },
	{ "--max-requests", "N", "requests in flight; beyond: 429 (default 8192)", BYTES,
		AT(max_requests), 1, 1000000 },
	{ "--request-timeout", "SECONDS", "longest life of a request (default 1800)", SECONDS,
		AT(request_timeout_ns), 1, 86400 },
	{ "--drain-settle", "SECONDS", "after SIGTERM: not ready, but still accepting (default 0)",
		SECONDS, AT(drain_settle_ns), 0, 3600 },
	{ "--drain-timeout", "SECONDS", "then: how long requests in flight may take (default 60)",
		SECONDS, AT(drain_timeout_ns), 0, 86400 },
	{ "--tls-cert", "FILE", "PEM certificate chain of the public listeners", STRING,
		AT(tls_cert), 0, 0 },
	{ "--tls-key", "FILE", "its PEM key", STRING, AT(tls_key), 0, 0 },
	{ "--log-level", "LEVEL", "debug, info (default), warn, error", LEVEL, 0, 0, 0 },
	{ "--log-format", "FORMAT", "logfmt (default) or json", FORMAT, 0, 0, 0 },
};

static void print_help(void)
{
	printf("kelpie-sidecar: the Kelpie gateway\n\nusage: kelpie-sidecar --manifests PATH [options]\n\n");
	for (size_t i = 0; i < KP_LEN(options); i++) {
		char head[64];
		snprintf(head, sizeof(head), "%s %s", options[i].name, options[i].value);
		printf("  %-26s %s\n", head, options[i].help);
	}
	printf("  %-26s %s\n  %-26s %s\n", "--version", "print versions", "--help", "this text");
}

static void print_version(void)
{
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 1 << 16);
	kp_sidecar_version_text(&out);
	printf("%" KP_FMT, KP_ARG(kp_buf_str(&out)));
}

static int set_number(const struct option *o, kp_str v, struct kp_config *c, struct kp_err *err)
{
	uint64_t n;
	if (!kp_str_u64(v, o->max, &n) || n < o->min) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`%s`: expected a whole number from %llu to %llu, got `%" KP_FMT "`",
			o->name, (unsigned long long)o->min, (unsigned long long)o->max, KP_ARG(v));
	}
	char *at = (char *)c + o->offset;
	if (o->type == SECONDS) {
		int64_t ns = (int64_t)n * KP_NS_PER_S;
		memcpy(at, &ns, sizeof(ns));
	} else {
		uint32_t u = (uint32_t)n;
		memcpy(at, &u, sizeof(u));
	}
	return 0;
}

static int set_option(
	const struct option *o, const char *value, struct kp_config *c, struct kp_err *err)
{
	kp_str v = kp_str_c(value);
	bool ok = true;
	switch (o->type) {
	case STRING:
		memcpy((char *)c + o->offset, &value, sizeof(value));
		break;
	case LISTEN:
		if (c->n_listen == KP_MAX_LISTEN) {
			return kp_err_set(
				err, KP_INVALID_ARGUMENT, "`--listen`: at most %d", KP_MAX_LISTEN);
		}
		c->listen[c->n_listen++] = value;
		break;
	case SECONDS:
	case COUNT:
	case BYTES:
		return set_number(o, v, c, err);
	case ROUTING:
		ok = kp_routing_policy_parse(v, &c->routing);
		break;
	case LEVEL:
		ok = kp_log_level_parse(v, &c->log_level);
		break;
	case FORMAT:
		c->log_format = kp_str_eq(v, KP_S("json")) ? KP_LOG_JSON : KP_LOG_LOGFMT;
		ok = c->log_format == KP_LOG_JSON || kp_str_eq(v, KP_S("logfmt"));
		break;
	}
	return ok ? 0
		  : kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: unknown value `%s` (%s)", o->name,
			    value, o->help);
}

static const struct option *find_option(kp_str name)
{
	for (size_t i = 0; i < KP_LEN(options); i++) {
		if (kp_str_eq(kp_str_c(options[i].name), name)) {
			return &options[i];
		}
	}
	return NULL;
}

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
	for (int i = 1; i < argc; i++) {
		if (kp_str_eq(kp_str_c(argv[i]), KP_S("--help")) ||
			kp_str_eq(kp_str_c(argv[i]), KP_S("-h"))) {
			print_help();
			return 1;
		}
		if (kp_str_eq(kp_str_c(argv[i]), KP_S("--version"))) {
			print_version();
			return 1;
		}
		kp_str arg = kp_str_c(argv[i]);
		ptrdiff_t eq = kp_str_find_char(arg, '=');
		const struct option *o = find_option(eq > 0 ? kp_str_sub(arg, 0, (size_t)eq) : arg);
		if (!o) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"unknown option `%s` (see --help)", argv[i]);
		}
		if (eq < 0 && i + 1 == argc) {
			return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: needs a value", o->name);
		}
		if (set_option(o, eq > 0 ? argv[i] + eq + 1 : argv[++i], &c, err)) {
			return -1;
		}
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
