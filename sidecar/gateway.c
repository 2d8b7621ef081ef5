/* DESIGN: builds the parts in the order they depend on each other and takes them down in reverse.
   Shutdown: not ready (and, for --drain-settle, still accepting, until those who send requests have
   noticed) -> stop accepting, let requests finish -> end what is left at --drain-timeout -> join
   every thread, free everything. */
#include "sidecar/gateway.h"

#include "base/clock.h"
#include "base/process.h"
#include "net/addr.h"
#include "net/tls.h"
#include "obs/log.h"
#include "sidecar/admin/admin.h"
#include "sidecar/control/bootstrap.h"
#include "sidecar/control/control.h"
#include "sidecar/gwloop.h"
#include "sidecar/history/history.h"
#include "sidecar/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_QUEUED_JOBS = 256, MAX_QUEUED_RECORDS = 1024 };
enum { NICE = 5 }; /* of what computes: who answers streams comes first */
#define TOLD_NS KP_NS_PER_S

/* SO_REUSEPORT, which our loops share a port by, would let a second gateway share it too: look
 * first. */
static int check_unused(const char *address, struct kp_err *err)
{
	struct kp_addr addr;
	int one = 1, r = 0;
	if (kp_addr_parse(address, &addr, err)) {
		return -1;
	}
	if (!addr.socklen || addr.is_unix || addr.port == 0) {
		return 0;
	}
	int fd = kp_addr_socket(&addr, SOCK_CLOEXEC);
	if (fd < 0) {
		return kp_err_sys(err, errno, "listen on `%s`", address);
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)&addr.sock, addr.socklen) != 0 ||
		listen(fd, 1) != 0) {
		r = kp_err_sys(err, errno, "listen on `%s`", address);
	}
	close(fd);
	return r;
}

/* "HOST:PORT" with the port that port 0 became. */
static void actual_address(const char *address, int port, char *ret, size_t size)
{
	kp_str host = kp_str_c(address);
	ptrdiff_t colon = kp_str_rfind_char(host, ':');
	snprintf(ret, size, "%" KP_FMT ":%d",
		KP_ARG(kp_str_sub(host, 0, colon < 0 ? host.n : (size_t)colon)), port);
}

typedef int listen_fn(
	struct kp_gwloop *l, const char *address, uint16_t *ret_port, struct kp_err *err);

/* Every loop listens on every address; the first one settles what port 0 means. actual: where it is
 * now, of 300 bytes. */
static int listen_one(
	struct kp_gateway *g, listen_fn *fn, const char *address, char *actual, struct kp_err *err)
{
	if (check_unused(address, err)) {
		return -1;
	}
	for (size_t i = 0; i < g->n_loops; i++) {
		uint16_t port;
		if (fn(g->loops[i], i == 0 ? address : actual, &port, err)) {
			return -1;
		}
		if (i == 0) {
			actual_address(address, port, actual, 300);
		}
	}
	return 0;
}

static int listen_public(struct kp_gateway *g, const char *address, struct kp_err *err)
{
	char actual[300];
	if (listen_one(g, kp_gwloop_listen, address, actual, err)) {
		return -1;
	}
	kp_log(KP_LOG_INFO, "listening", kp_f_z("address", actual),
		kp_f_bool("tls", g->tls != NULL));
	return 0;
}

/* An IP address alone, as a pod is told its own, gets the port that is listened on. */
static void advertised(const char *advertise, const char *actual, char *ret, size_t size)
{
	unsigned char ip[sizeof(struct in6_addr)];
	const char *port = strrchr(actual, ':');
	if (advertise && inet_pton(AF_INET6, advertise, ip) == 1) {
		snprintf(ret, size, "[%s]%s", advertise, port);
	} else if (advertise && inet_pton(AF_INET, advertise, ip) == 1) {
		snprintf(ret, size, "%s%s", advertise, port);
	} else {
		snprintf(ret, size, "%s", advertise ? advertise : actual);
	}
}

static int listen_peer(struct kp_gateway *g, struct kp_err *err)
{
	char actual[300];
	if (!g->config.peer_listen) {
		return 0;
	}
	if (listen_one(g, kp_gwloop_listen_peer, g->config.peer_listen, actual, err)) {
		return kp_err_wrap(err, "peer port");
	}
	advertised(g->config.advertise, actual, g->peer_address, sizeof(g->peer_address));
	kp_log(KP_LOG_INFO, "peers listening", kp_f_z("address", actual),
		kp_f_z("advertised", g->peer_address),
		kp_f_bool("tls", g->peer_tls.server != NULL));
	return 0;
}

static void target_address(const struct kp_gateway *g, unsigned port, char *ret, size_t size)
{
	snprintf(ret, size, "%s:%u", g->config.listen_on == KP_LISTEN_ON_ALL ? "" : "127.0.0.1",
		port);
}

static int listen_all(struct kp_gateway *g, struct kp_err *err)
{
	uint16_t ports[KP_MAX_LISTEN];
	size_t n =
		g->config.listen.n ? 0 : kp_control_target_ports(g->control, ports, KP_MAX_LISTEN);
	for (size_t i = 0; i < g->config.listen.n; i++) {
		if (listen_public(g, g->config.listen.p[i], err)) {
			return -1;
		}
	}
	for (size_t i = 0; i < n; i++) {
		char address[32];
		target_address(g, ports[i], address, sizeof(address));
		if (listen_public(g, address, err)) {
			return -1;
		}
	}
	if (n + g->config.listen.n == 0 && !g->config.control) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"nothing to listen on: no `--listen`, and the manifests name no InferencePool");
	}
	g->is_listening = n + g->config.listen.n > 0;
	return 0;
}

void kp_gateway_listen(struct kp_gateway *g, const uint16_t *ports, size_t n)
{
	for (size_t i = 0; !g->is_listening && i < n; i++) {
		char address[32];
		struct kp_err err;
		target_address(g, ports[i], address, sizeof(address));
		if (check_unused(address, &err)) {
			kp_log(KP_LOG_ERROR, "cannot listen", kp_f_err(&err));
			continue;
		}
		for (size_t k = 0; k < g->n_loops; k++) {
			kp_gwloop_listen_later(g->loops[k], address);
		}
		kp_log(KP_LOG_INFO, "listening", kp_f_z("address", address),
			kp_f_bool("tls", g->tls != NULL));
	}
	g->is_listening = g->is_listening || n > 0;
}

static int start_bootstrap(struct kp_gateway *g, struct kp_err *err)
{
	const struct kp_bootstrap_opts opts = { .url = g->config.bootstrap,
		.token_file = g->config.token_file,
		.ca_file = g->config.bootstrap_ca,
		.dir = g->config.tls_dir,
		.id = g->config.id,
		.metrics = g->metrics };
	return opts.url ? kp_bootstrap_start(&opts, &g->bootstrap, err) : 0;
}

static int64_t wall_s(void)
{
	return kp_wall_ns() / KP_NS_PER_S;
}

static int start_history(struct kp_gateway *g, struct kp_err *err)
{
	const struct kp_history_limits limits = { .max_bytes = g->config.history_bytes,
		.max_age_s = g->config.history_age_ns / KP_NS_PER_S,
		.now_s = wall_s };
	if (g->config.history && kp_history_open(g->config.history, &limits, &g->history, err)) {
		return -1;
	}
	g->history_thread = kp_workers_create(&(struct kp_workers_opts){
		.name = "history", .threads = 1, .max_queued = MAX_QUEUED_RECORDS });
	return 0;
}

/* Whom a flag's hosts may be: "*" is any, which then must have a global address. */
static int set_policy(struct kp_gateway_policy *p, const struct kp_strings *hosts,
	const struct kp_strings *allow, const char *flag, struct kp_err *err)
{
	bool is_any = false;
	for (size_t i = 0; i < hosts->n; i++) {
		kp_str host = p->hosts[i] = kp_str_c(hosts->p[i]);
		is_any |= kp_str_eq(host, KP_S("*"));
		if (!kp_str_eq(host, KP_S("*")) && kp_fetch_host_check(host, err)) {
			return kp_err_wrap(err, "`--%s-host`", flag);
		}
	}
	for (size_t i = 0; i < allow->n; i++) {
		if (kp_cidr_parse(kp_str_c(allow->p[i]), &p->allow[i], err)) {
			return kp_err_wrap(err, "`--%s-allow`", flag);
		}
	}
	p->policy.hosts = p->hosts;
	p->policy.n_hosts = is_any ? 0 : hosts->n;
	p->policy.allow = p->allow;
	p->policy.n_allow = allow->n;
	return 0;
}

static int set_policies(struct kp_gateway *g, struct kp_err *err)
{
	const struct kp_config *c = &g->config;
	return set_policy(&g->media, &c->media_hosts, &c->media_allow, "media", err) ||
			       set_policy(&g->mcp, &c->mcp_hosts, &c->mcp_allow, "mcp", err)
		       ? -1
		       : 0;
}

/* Without it images go the other way. */
static void open_shm(struct kp_gateway *g)
{
	struct kp_err err;
	if (g->config.media_shm == KP_MEDIA_SHM_OFF) {
		return;
	}
	size_t n = kp_shm_reap();
	if (n) {
		kp_log(KP_LOG_INFO, "took away what a gateway left in /dev/shm",
			kp_f_int("files", (int64_t)n));
	}
	if (kp_shm_owner_open(&g->media_shm, &err)) {
		kp_log(KP_LOG_INFO, "no /dev/shm for images", kp_f_err(&err));
	}
}

static int start_parts(struct kp_gateway *g, struct kp_err *err)
{
	const struct kp_tls_opts tls = { .cert_file = g->config.tls_cert,
		.key_file = g->config.tls_key };
	if (g->config.tls_cert && !(g->tls = kp_tls_server(&tls, err))) {
		return -1;
	}
	if (start_history(g, err) || set_policies(g, err) || start_bootstrap(g, err) ||
		kp_peer_tls_load(g->config.tls_dir, &g->peer_tls, err) ||
		kp_control_create(g, &g->control, err)) {
		return -1;
	}
	g->prompts = g->config.prompt_cache_bytes
			     ? kp_prompt_cache_create(g->config.prompt_cache_bytes)
			     : NULL;
	g->workers = kp_workers_create(&(struct kp_workers_opts){ .name = "worker",
		.threads = g->config.workers,
		.max_queued = MAX_QUEUED_JOBS,
		.nice = NICE });
	g->receivers = kp_workers_create(&(struct kp_workers_opts){ .name = "receiver",
		.threads = (g->config.loops + 3) / 4,
		.max_queued = MAX_QUEUED_JOBS,
		.nice = NICE });
	open_shm(g);
	g->media_workers = kp_workers_create(&(struct kp_workers_opts){ .name = "media",
		.threads = g->config.media_workers,
		.max_queued = MAX_QUEUED_JOBS,
		.nice = NICE });
	g->loops = kp_xcalloc(g->config.loops, sizeof(*g->loops));
	for (unsigned i = 0; i < g->config.loops; i++) {
		if (kp_gwloop_create(g, i, &g->loops[i], err)) {
			return -1;
		}
		g->n_loops++;
	}
	kp_metrics_watch(g);
	if (listen_all(g, err) || listen_peer(g, err) ||
		kp_gateway_admin_start(g, &g->admin, err)) {
		return -1;
	}
	kp_log(KP_LOG_INFO, "admin listening", kp_f_int("port", kp_admin_port(g->admin)));
	if (g->config.probe_listen && kp_gateway_probes_start(g, &g->probes, err)) {
		return -1;
	}
	actual_address(g->config.admin_listen, kp_admin_port(g->admin), g->admin_address,
		sizeof(g->admin_address));
	for (size_t i = 0; i < g->n_loops; i++) {
		kp_gwloop_start(g->loops[i]);
	}
	kp_control_start(g->control);
	return 0;
}

int kp_gateway_start(const struct kp_config *config, struct kp_gateway **ret, struct kp_err *err)
{
	struct kp_gateway *g = kp_new(struct kp_gateway);
	g->config = *config;
	g->started_ns = kp_now_ns();
	g->media_shm.lock = -1;
	g->metrics = kp_metrics_create();
	if (start_parts(g, err)) {
		kp_gateway_destroy(g);
		return -1;
	}
	*ret = g;
	return 0;
}

void kp_gateway_destroy(struct kp_gateway *g)
{
	if (!g) {
		return;
	}
	kp_admin_stop(g->probes);
	kp_admin_stop(g->admin);
	kp_control_stop(g->control); /* publishes nothing any more */
	kp_workers_stop(g->workers); /* jobs come back to the loops' mailboxes */
	kp_workers_stop(g->media_workers);
	kp_workers_stop(g->receivers);
	kp_workers_stop(g->history_thread);
	for (size_t i = 0; i < g->n_loops; i++) {
		kp_gwloop_destroy(g->loops[i]);
	}
	kp_mem_free(g->loops);
	kp_workers_destroy(g->workers); /* until now the loops could ask them, in vain */
	kp_workers_destroy(g->media_workers);
	kp_workers_destroy(g->receivers);
	kp_workers_destroy(g->history_thread);
	kp_history_close(g->history);
	kp_control_destroy(g->control);
	kp_prompt_cache_destroy(g->prompts);
	kp_bootstrap_stop(g->bootstrap);
	kp_tls_unref(g->tls);
	kp_peer_tls_unref(&g->peer_tls);
	kp_shm_owner_close(&g->media_shm);
	kp_metrics_destroy(g->metrics);
	kp_mem_free(g);
}

/* Sleeps at most ns; true when the last request has ended or (if asked for) a signal came. */
static bool wait_idle(struct kp_gateway *g, int64_t ns, bool idle_ends_it)
{
	int64_t until = kp_now_ns() + ns;
	const struct timespec step = { .tv_nsec = 10 * KP_NS_PER_MS };
	while (kp_now_ns() < until) {
		if (idle_ends_it && atomic_load(&g->in_flight) == 0) {
			return true;
		}
		nanosleep(&step, NULL);
	}
	return idle_ends_it && atomic_load(&g->in_flight) == 0;
}

void kp_gateway_drain(struct kp_gateway *g)
{
	long long none = 0, no_time = 0;
	int64_t now_ns = kp_now_ns();
	int64_t refuse_ns = now_ns + (g->config.control ? TOLD_NS : 0);
	atomic_compare_exchange_strong(&g->drain_ns, &no_time, now_ns);
	atomic_compare_exchange_strong(&g->refuse_ns, &none, refuse_ns);
	if (!atomic_exchange(&g->draining, true)) {
		kp_log(KP_LOG_INFO, "draining", kp_f_int("in_flight", atomic_load(&g->in_flight)));
		kp_control_drains(g->control);
	}
}

bool kp_gateway_refuses(const struct kp_gateway *g, int64_t now_ns)
{
	return atomic_load_explicit(&g->draining, memory_order_relaxed) &&
	       now_ns >= atomic_load_explicit(&g->refuse_ns, memory_order_relaxed);
}

static int64_t settle_ns(const struct kp_gateway *g)
{
	return KP_MAX(g->config.drain_settle_ns, g->config.control ? TOLD_NS : 0);
}

static void close_listeners(struct kp_gateway *g)
{
	bool was_closed = atomic_exchange(&g->closed, true);
	for (size_t i = 0; !was_closed && i < g->n_loops; i++) {
		kp_gwloop_drain(g->loops[i], false);
	}
}

enum kp_drain_state kp_gateway_drained(struct kp_gateway *g, int64_t now_ns)
{
	int64_t since_ns = now_ns - atomic_load(&g->drain_ns);
	if (!atomic_load(&g->draining)) {
		return KP_DRAIN_NONE;
	}
	if (since_ns < settle_ns(g)) {
		return KP_DRAIN_UNDER_WAY;
	}
	close_listeners(g);
	if (atomic_load(&g->in_flight) == 0) {
		return KP_DRAIN_DONE;
	}
	return since_ns < g->config.drain_timeout_ns ? KP_DRAIN_UNDER_WAY : KP_DRAIN_TOO_LONG;
}

/* What a preStop hook began long ago is not waited for again. */
static void drain(struct kp_gateway *g)
{
	kp_gateway_drain(g);
	int64_t since_ns = kp_now_ns() - atomic_load(&g->drain_ns);
	wait_idle(g, settle_ns(g) - since_ns, false);
	close_listeners(g);
	since_ns = kp_now_ns() - atomic_load(&g->drain_ns) - settle_ns(g);
	if (!wait_idle(g, g->config.drain_timeout_ns - since_ns, true)) {
		kp_log(KP_LOG_WARN, "drain timeout, ending requests",
			kp_f_int("in_flight", atomic_load(&g->in_flight)));
		for (size_t i = 0; i < g->n_loops; i++) {
			kp_gwloop_drain(g->loops[i], true);
		}
		wait_idle(g, KP_NS_PER_S, true);
	}
	/* Answers are counted as over when their last byte is queued: give the sockets a moment. */
	for (int i = 0; i < 200; i++) {
		size_t open = 0;
		for (size_t k = 0; k < g->n_loops; k++) {
			open += (size_t)atomic_load(
				&kp_http_server_counters(g->loops[k]->server)->connections.v);
		}
		if (open == 0) {
			break;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 10 * KP_NS_PER_MS }, NULL);
	}
}

void kp_gateway_run(struct kp_gateway *g)
{
	kp_process_wait();
	drain(g);
	kp_log(KP_LOG_INFO, "stopping");
}
