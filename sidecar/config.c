/* DESIGN: the table; base/cmdline reads by it. */
#include "sidecar/config.h"

#include "base/clock.h"
#include "core/media.h"
#include "net/addr.h"
#include "sidecar/version.h"

#include <stdio.h>
#include <unistd.h>

static const char *const listen_on[] = { "loopback", "all", NULL };
static const char *const media_shm[] = { "auto", "off", NULL };
static const char *const request_templates[] = { "refuse", "trust", NULL };
const char *const kp_reasoning_field_names[] = { "reasoning_content", "reasoning", NULL };

#define AT(member) offsetof(struct kp_config, member)
static const struct kp_cmdline_option options[] = {
	{ "--manifests", "PATH",
		"file or directory of manifests (InferencePool, InferenceEngine, ToolServer); watched",
		KP_OPTION_STRING, AT(manifests), 0, 0, NULL },
	{ "--control", "HOST:PORT", "the operator, instead of --manifests", KP_OPTION_STRING,
		AT(control), 0, 0, NULL },
	{ "--id", "NAME", "of this gateway, a name in its certificate (default: the host's name)",
		KP_OPTION_STRING, AT(id), 0, 0, NULL },
	{ "--own", "NS/ENGINE[/N]",
		"with --control, repeatable: the engine, or its N-th endpoint, that only this gateway speaks to (none: it forwards everything)",
		KP_OPTION_STRINGS, AT(own), 0, KP_STRINGS_MAX, NULL },
	{ "--peer-listen", "HOST:PORT", "where other gateways reach the engines it owns",
		KP_OPTION_STRING, AT(peer_listen), 0, 0, NULL },
	{ "--advertise", "HOST:PORT",
		"what others are told to connect to (default: as --peer-listen); an IP address alone: with its port",
		KP_OPTION_STRING, AT(advertise), 0, 0, NULL },
	{ "--node", "NAME", "where it runs: gateways of one node are near", KP_OPTION_STRING,
		AT(node), 0, 0, NULL },
	{ "--tls-dir", "DIR",
		"tls.crt, tls.key, ca.crt for control and peers (default: cleartext, loopback only)",
		KP_OPTION_STRING, AT(tls_dir), 0, 0, NULL },
	{ "--bootstrap", "URL",
		"instead of --tls-dir, in a cluster: the operator signs a certificate there, https://HOST:PORT",
		KP_OPTION_STRING, AT(bootstrap), 0, 0, NULL },
	{ "--token-file", "FILE",
		"with --bootstrap: the pod's service-account token for the audience kelpie.dev",
		KP_OPTION_STRING, AT(token_file), 0, 0, NULL },
	{ "--bootstrap-ca", "FILE",
		"with --bootstrap: PEM bundle that verifies the operator, and other gateways",
		KP_OPTION_STRING, AT(bootstrap_ca), 0, 0, NULL },
	{ "--tool-secrets", "DIR",
		"where Secrets of ToolServers are mounted, as DIR/SECRET/KEY; looked at every few seconds",
		KP_OPTION_STRING, AT(tool_secrets), 0, 0, NULL },
	{ "--state-dir", "DIR", "keeps the last good program, for a start without operator",
		KP_OPTION_STRING, AT(state_dir), 0, 0, NULL },
	{ "--cache-dir", "DIR",
		"keeps tokenizers ready to be mapped at the next start (default: `tokenizers` in --state-dir, if given)",
		KP_OPTION_STRING, AT(cache_dir), 0, 0, NULL },
	{ "--locality-margin", "N",
		"another gateway's engine is chosen when it runs N requests fewer than the own one, on another node 2 N (default 4)",
		KP_OPTION_U32, AT(locality_margin), 0, 100000, NULL },
	{ "--listen", "HOST:PORT",
		"public listener, repeatable (default: 127.0.0.1 and the pool's target ports)",
		KP_OPTION_STRINGS, AT(listen), 0, KP_MAX_LISTEN, NULL },
	{ "--listen-on", "WHERE",
		"without --listen, where the pool's target ports are: loopback (default), all addresses",
		KP_OPTION_CHOICE, AT(listen_on), 0, 0, listen_on },
	{ "--probe-listen", "HOST:PORT",
		"in a pod, for kubelet and scrapers: /livez, /readyz, /metrics, /drained (default: none)",
		KP_OPTION_STRING, AT(probe_listen), 0, 0, NULL },
	{ "--ask-drain", "HOST:PORT",
		"is no gateway: asks the one whose admin listener is there to drain, and ends (a preStop hook)",
		KP_OPTION_STRING, AT(ask_drain), 0, 0, NULL },
	{ "--admin-listen", "HOST:PORT", "health, metrics (default 127.0.0.1:9090)",
		KP_OPTION_STRING, AT(admin_listen), 0, 0, NULL },
	{ "--namespace", "NAME",
		"namespace of manifests that name none, and the one served (default: default)",
		KP_OPTION_STRING, AT(namespace), 0, 0, NULL },
	{ "--routing", "POLICY", "least_load (default) or round_robin", KP_OPTION_CHOICE,
		AT(routing), 0, 0, kp_routing_policy_names },
	{ "--request-templates", "POLICY",
		"a request's own `chat_template`: refuse (default), or trust: whoever may send requests may write control tokens",
		KP_OPTION_CHOICE, AT(request_templates), 0, 0, request_templates },
	{ "--reasoning-field", "NAME",
		"what chats call thoughts: reasoning_content (default, as SGLang), reasoning (as vLLM)",
		KP_OPTION_CHOICE, AT(reasoning_field), 0, 0, kp_reasoning_field_names },
	{ "--loops", "N", "event loop threads (default: the CPUs it may use)", KP_OPTION_U32,
		AT(loops), 1, 64, NULL },
	{ "--workers", "N", "worker threads for long prompts (default: as --loops)", KP_OPTION_U32,
		AT(workers), 1, 64, NULL },
	{ "--max-body", "BYTES", "largest request body (default 33554432)", KP_OPTION_U32,
		AT(max_body_bytes), 1024, 1u << 30, NULL },
	{ "--max-body-total", "BYTES",
		"bodies of all requests together; beyond: 429 (default 1073741824)", KP_OPTION_U32,
		AT(max_body_total), 1024, UINT32_MAX, NULL },
	{ "--prompt-cache-bytes", "BYTES",
		"kept of tokenized prompts, so that the next turn of a conversation costs only its new text; 0: nothing (default 67108864)",
		KP_OPTION_U32, AT(prompt_cache_bytes), 0, UINT32_MAX, NULL },
	{ "--max-images", "N", "images of a request (default 16)", KP_OPTION_U32, AT(max_images), 1,
		KP_MEDIA_MAX, NULL },
	{ "--max-image-bytes", "BYTES", "largest file of an image (default 20971520)",
		KP_OPTION_U32, AT(max_image_bytes), 1024, 1u << 30, NULL },
	{ "--max-image-pixels", "N",
		"of all images of a request together, before anything is decoded (default 178956970)",
		KP_OPTION_U32, AT(max_image_pixels), 1, UINT32_MAX, NULL },
	{ "--media-memory", "MIB",
		"for the images of all requests together; beyond: 429 (default 2048)",
		KP_OPTION_U32, AT(media_memory_mib), 1, 1u << 20, NULL },
	{ "--media-host", "HOST",
		"repeatable: images may be fetched from URLs of HOST, *.EXAMPLE.COM, or * for any (default: none are)",
		KP_OPTION_STRINGS, AT(media_hosts), 0, KP_STRINGS_MAX, NULL },
	{ "--media-allow", "CIDR",
		"repeatable: addresses that such hosts may have besides those that are global",
		KP_OPTION_STRINGS, AT(media_allow), 0, KP_STRINGS_MAX, NULL },
	{ "--media-timeout", "SECONDS", "longest time to fetch an image (default 20)",
		KP_OPTION_SECONDS, AT(media_timeout_ns), 1, 600, NULL },
	{ "--media-shm", "WHEN",
		"images go to engines through /dev/shm: auto (default): where they say that they have the same; off",
		KP_OPTION_CHOICE, AT(media_shm), 0, 0, media_shm },
	{ "--media-workers", "N",
		"threads that decode and process images, niced (default: half as many as --loops)",
		KP_OPTION_U32, AT(media_workers), 1, 64, NULL },
	{ "--mcp-host", "HOST",
		"repeatable: requests may name MCP servers at HOST, *.EXAMPLE.COM, or * for any (default: none)",
		KP_OPTION_STRINGS, AT(mcp_hosts), 0, KP_STRINGS_MAX, NULL },
	{ "--mcp-allow", "CIDR",
		"repeatable: addresses that such hosts may have besides those that are global",
		KP_OPTION_STRINGS, AT(mcp_allow), 0, KP_STRINGS_MAX, NULL },
	{ "--history", "WHERE", "where responses are kept: memory (default), sqlite:PATH, none",
		KP_OPTION_STRING, AT(history), 0, 0, NULL },
	{ "--history-bytes", "BYTES", "of all that is kept; the oldest go first (default 67108864)",
		KP_OPTION_U32, AT(history_bytes), 1 << 20, UINT32_MAX, NULL },
	{ "--history-age", "SECONDS",
		"how long a response is kept (default 2592000, 30 days; 0: no limit)",
		KP_OPTION_SECONDS, AT(history_age_ns), 0, 315360000, NULL },
	{ "--tenant-header", "NAME",
		"a header that tells who asks: of what is kept nothing shows to others (default: all are one)",
		KP_OPTION_STRING, AT(tenant_header), 0, 0, NULL },
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
	.usage = "--manifests PATH | --control HOST:PORT [options]",
	.options = options,
	.n = KP_LEN(options),
	.version = kp_sidecar_version_text };

/* NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX */
static bool is_claim(kp_str own)
{
	ptrdiff_t first = kp_str_find_char(own, '/'), last = kp_str_rfind_char(own, '/');
	uint64_t index;
	if (first <= 0 || (size_t)last + 1 == own.n) {
		return false;
	}
	kp_str middle = kp_str_sub(own, (size_t)first + 1, (size_t)last);
	return last == first ||
	       (middle.n && kp_str_find_char(middle, '/') < 0 &&
		       kp_str_u64(kp_str_skip(own, (size_t)last + 1), 100000, &index));
}

/* What does not name an address is said by whoever uses it. */
static bool is_remote(const char *address)
{
	struct kp_addr addr;
	struct kp_err err;
	return address && kp_addr_parse(address, &addr, &err) == 0 && !kp_addr_is_loopback(&addr);
}

/* What belongs to --bootstrap; its certificate lies where files of --tls-dir would. */
static int check_bootstrap(struct kp_config *c, struct kp_err *err)
{
	static char tls_dir[4096];
	if (!c->bootstrap) {
		return c->token_file || c->bootstrap_ca
			       ? kp_err_set(err, KP_INVALID_ARGUMENT,
					 "`--token-file` and `--bootstrap-ca` go with `--bootstrap`")
			       : 0;
	}
	if (!c->control || !c->state_dir || !c->token_file || !c->bootstrap_ca) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--bootstrap` needs `--control`, `--token-file`, `--bootstrap-ca` and `--state-dir`");
	}
	if (c->tls_dir) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--bootstrap` and `--tls-dir`: the certificate comes from one place");
	}
	if (!kp_str_starts(kp_str_c(c->bootstrap), KP_S("https://"))) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--bootstrap`: expected https://HOST:PORT, got `%s`", c->bootstrap);
	}
	int n = snprintf(tls_dir, sizeof(tls_dir), "%s/tls", c->state_dir);
	if (n < 0 || (size_t)n >= sizeof(tls_dir)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "`--state-dir`: is too long");
	}
	c->tls_dir = tls_dir;
	return 0;
}

/* What belongs to --control, and that nothing of it travels in cleartext. */
static int check_control(struct kp_config *c, struct kp_err *err)
{
	static char host[256];
	if (!c->control && (c->own.n || c->peer_listen || c->advertise || c->state_dir)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--own`, `--peer-listen`, `--advertise` and `--state-dir` go with `--control`");
	}
	for (size_t i = 0; i < c->own.n; i++) {
		if (!is_claim(kp_str_c(c->own.p[i]))) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"`--own`: expected NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX, got `%s`",
				c->own.p[i]);
		}
	}
	if (!c->tls_dir && (is_remote(c->control) || is_remote(c->peer_listen))) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--control` and `--peer-listen` need `--tls-dir` or `--bootstrap` beyond loopback");
	}
	if (c->own.n && !c->peer_listen) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--own` needs `--peer-listen`: only the owner speaks to an engine, others ask it there");
	}
	if (c->advertise && !c->peer_listen) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "`--advertise` goes with `--peer-listen`");
	}
	if (!c->id) {
		gethostname(host, sizeof(host) - 1);
		c->id = host[0] ? host : "gateway";
	}
	return 0;
}

/* Of letters, digits, `-` and `_`; kept in lower case, as requests have them. */
static int check_tenant_header(struct kp_config *c, struct kp_err *err)
{
	static char name[65];
	kp_str given = kp_str_c(c->tenant_header);
	for (size_t i = 0; i < given.n && i + 1 < sizeof(name); i++) {
		name[i] = kp_lower(given.p[i]);
		if (!kp_is_digit(name[i]) && !(name[i] >= 'a' && name[i] <= 'z') &&
			name[i] != '-' && name[i] != '_') {
			given.n = 0;
		}
	}
	if (given.p && (given.n == 0 || given.n >= sizeof(name))) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--tenant-header`: expected the name of a header, got `%s`",
			c->tenant_header);
	}
	c->tenant_header = given.p ? name : NULL;
	return 0;
}

int kp_config_parse(int argc, char **argv, struct kp_config *ret, struct kp_err *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct kp_config c = { .admin_listen = "127.0.0.1:9090",
		.namespace = "default",
		.node = "",
		.locality_margin = 4,
		.loops = cpus < 1 ? 1 : (unsigned)KP_MIN(cpus, 64),
		.max_body_total = 1u << 30,
		.max_body_bytes = 32u << 20,
		.prompt_cache_bytes = 64u << 20,
		.max_images = 16,
		.max_image_bytes = 20u << 20,
		.max_image_pixels = 178956970,
		.media_memory_mib = 2048,
		.media_timeout_ns = 20 * KP_NS_PER_S,
		.history = "memory",
		.history_bytes = 64u << 20,
		.history_age_ns = 30 * 86400 * KP_NS_PER_S,
		.max_requests = 8192,
		.request_timeout_ns = 1800 * KP_NS_PER_S,
		.drain_timeout_ns = 60 * KP_NS_PER_S,
		.log_level = KP_LOG_INFO };
	int r = kp_cmdline_parse(&cmdline, argc, argv, &c, err);
	if (r != 0) {
		return r;
	}
	if (c.ask_drain) {
		*ret = c;
		return 0;
	}
	if (!c.manifests == !c.control) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"exactly one of `--manifests` and `--control` is needed (see --help)");
	}
	if (!c.tls_cert != !c.tls_key) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "`--tls-cert` and `--tls-key` go together");
	}
	if (check_bootstrap(&c, err) || check_control(&c, err)) {
		return -1;
	}
	if (check_tenant_header(&c, err)) {
		return -1;
	}
	if (kp_str_eq(kp_str_c(c.history), KP_S("none"))) {
		c.history = NULL;
	}
	c.workers = c.workers ? c.workers : c.loops;
	c.media_workers = c.media_workers ? c.media_workers : (c.loops + 1) / 2;
	c.media_memory = (uint64_t)c.media_memory_mib << 20;
	*ret = c;
	return 0;
}
