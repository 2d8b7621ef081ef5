/* DESIGN: the gateway's container, built whole from few facts, so that the same facts give the same bytes.

   Resources: requests always, since a container without them would take a Guaranteed pod its class, and the engine its pinned cores; in such a
   pod the limits are the requests. What the gateway may hold in memory follows from its limit, the number of its threads from its cores. */
#include "base/version.h"
#include "inject/internal.h"

#include <stdio.h>

#define SECRETS "/var/run/secrets/kelpie.dev"
#define STATE   "/var/run/kelpie"
#define API     "/var/run/secrets/kubernetes.io/serviceaccount"
#define CPU     "500m"
#define MEMORY  "512Mi"
#define LIMIT   "2Gi" /* of memory */

enum { MAX_LOOPS = 64, USER = 65532, PROMPT_CACHE = 64 << 20 };

/* --- resources --- */

struct amounts {
	kp_str request, limit; /* p NULL: none */
};

static kp_str in(const struct kp_kv *map, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++) {
		if (kp_str_eq(map[i].key, kp_str_c(key))) {
			return map[i].value;
		}
	}
	return KP_STR_NULL;
}

static kp_str first(kp_str a, kp_str b)
{
	return a.p ? a : b;
}

static int64_t milli(kp_str s)
{
	int64_t v = 0;
	return s.p && kp_quantity_milli(s, &v) ? v : 0;
}

static bool is_fixed(const json_t *container, const char *resource)
{
	kp_str limit = kp_doc_str(kp_doc_at(container, "resources.limits"), resource);
	kp_str request = kp_doc_str(kp_doc_at(container, "resources.requests"), resource);
	return limit.p && (!request.p || milli(request) == milli(limit));
}

static bool all_fixed(const json_t *containers)
{
	for (size_t i = 0; i < json_array_size(containers); i++) {
		const json_t *c = json_array_get(containers, i);
		if (!kp_str_eq(kp_doc_str(c, "name"), KP_S(KP_INJECT_CONTAINER)) &&
			!(is_fixed(c, "cpu") && is_fixed(c, "memory"))) {
			return false;
		}
	}
	return true;
}

static bool is_guaranteed(const json_t *spec)
{
	return all_fixed(json_object_get(spec, "containers")) &&
	       all_fixed(json_object_get(spec, "initContainers"));
}

static struct amounts amounts_of(kp_str request, kp_str limit, const char *default_request,
	const char *default_limit, bool is_fixed)
{
	struct amounts r = { request, limit };
	r.request = first(r.request, first(r.limit, kp_str_c(default_request)));
	if (is_fixed) {
		r.limit = first(r.limit, r.request);
		r.request = r.limit;
	} else if (!r.limit.p && default_limit) {
		r.limit = milli(r.request) > milli(kp_str_c(default_limit))
				  ? r.request
				  : kp_str_c(default_limit);
	}
	return r;
}

static void add_all(json_t *map, const struct kp_kv *kv, size_t n, struct kp_arena *a)
{
	for (size_t i = 0; i < n; i++) {
		kp_put(map, kp_arena_strz(a, kv[i].key),
			json_stringn(kv[i].value.p, kv[i].value.n));
	}
}

static json_t *resources(const struct kp_inject_wishes *w, bool fixed, struct amounts *ret_cpu,
	struct amounts *ret_memory, struct kp_arena *a)
{
	json_t *r = json_object(), *requests = json_object(), *limits = json_object();
	*ret_cpu = amounts_of(first(w->cpu, in(w->requests, w->n_requests, "cpu")),
		first(w->cpu_limit, in(w->limits, w->n_limits, "cpu")), CPU, NULL, fixed);
	*ret_memory = amounts_of(first(w->memory, in(w->requests, w->n_requests, "memory")),
		first(w->memory_limit, in(w->limits, w->n_limits, "memory")), MEMORY, LIMIT, fixed);
	add_all(requests, w->requests, w->n_requests, a);
	add_all(limits, w->limits, w->n_limits, a);
	kp_put(requests, "cpu", json_stringn(ret_cpu->request.p, ret_cpu->request.n));
	kp_put(requests, "memory", json_stringn(ret_memory->request.p, ret_memory->request.n));
	if (ret_cpu->limit.p) {
		kp_put(limits, "cpu", json_stringn(ret_cpu->limit.p, ret_cpu->limit.n));
	}
	kp_put(limits, "memory", json_stringn(ret_memory->limit.p, ret_memory->limit.n));
	kp_put(r, "requests", requests);
	kp_put(r, "limits", limits);
	return r;
}

/* --- its command line --- */

static void add_arg(json_t *args, struct kp_arena *a, const char *name, const char *fmt, ...)
	KP_PRINTF(4, 5);
static void add_arg(json_t *args, struct kp_arena *a, const char *name, const char *fmt, ...)
{
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	kp_push(args, json_string(kp_arena_strz(a, kp_arena_printf(a, "%s=%s", name, text))));
}

static json_t *arguments(const struct kp_inject_wishes *w, const struct kp_inject_settings *s,
	struct amounts cpu, struct amounts memory, struct kp_arena *a)
{
	json_t *args = json_array();
	int64_t cores = (milli(first(cpu.limit, cpu.request)) + 999) / 1000;
	int64_t bytes = milli(memory.limit) / 1000;
	add_arg(args, a, "--control", "%s", s->control);
	add_arg(args, a, "--bootstrap", "%s", s->bootstrap);
	add_arg(args, a, "--token-file", SECRETS "/token");
	add_arg(args, a, "--bootstrap-ca", SECRETS "/ca/ca.crt");
	add_arg(args, a, "--state-dir", STATE);
	add_arg(args, a, "--id", "$(POD_UID)");
	add_arg(args, a, "--namespace", "$(POD_NAMESPACE)");
	add_arg(args, a, "--node", "$(NODE_NAME)");
	add_arg(args, a, "--listen-on", "all");
	add_arg(args, a, "--peer-listen", ":%d", w->peer_port);
	add_arg(args, a, "--advertise", "$(POD_IP)");
	add_arg(args, a, "--probe-listen", ":%d", w->probe_port);
	add_arg(args, a, "--admin-listen", "127.0.0.1:%d", w->admin_port);
	add_arg(args, a, "--drain-settle", "%d", KP_INJECT_SETTLE_S);
	add_arg(args, a, "--drain-timeout", "%d", w->drain_s);
	add_arg(args, a, "--loops", "%d", (int)KP_MAX(1, KP_MIN(cores, MAX_LOOPS)));
	add_arg(args, a, "--max-body-total", "%lld",
		(long long)KP_MIN(bytes / 4, (int64_t)UINT32_MAX));
	add_arg(args, a, "--prompt-cache-bytes", "%lld",
		(long long)KP_MIN(bytes / 32, (int64_t)PROMPT_CACHE));
	if (w->log_level.p) {
		add_arg(args, a, "--log-level", "%" KP_FMT, KP_ARG(w->log_level));
	}
	return args;
}

/* --- the rest --- */

static json_t *environment(void)
{
	static const struct {
		const char *name, *field;
	} table[] = { { "POD_UID", "metadata.uid" }, { "POD_NAMESPACE", "metadata.namespace" },
		{ "POD_IP", "status.podIP" }, { "NODE_NAME", "spec.nodeName" } };
	json_t *env = json_array();
	for (size_t i = 0; i < KP_LEN(table); i++) {
		kp_push(env, json_pack("{s:s, s:{s:{s:s}}}", "name", table[i].name, "valueFrom",
				     "fieldRef", "fieldPath", table[i].field));
	}
	return env;
}

static json_t *port(const char *name, int number)
{
	return json_pack(
		"{s:s, s:i, s:s}", "name", name, "containerPort", number, "protocol", "TCP");
}

static json_t *ports(const struct kp_inject_place *place, const struct kp_inject_wishes *w)
{
	json_t *list = json_array();
	for (size_t i = 0; place->pool && i < place->pool->n_target_ports; i++) {
		char name[16];
		int number = place->pool->target_ports[i].number;
		snprintf(name, sizeof(name), "kelpie-%d", number);
		kp_push(list, port(name, number));
	}
	kp_push(list, port("kelpie-peer", w->peer_port));
	kp_push(list, port("kelpie-probes", w->probe_port));
	return list;
}

static json_t *probe(const char *path, int port, int period, int timeout, int failures)
{
	return json_pack("{s:{s:s, s:i}, s:i, s:i, s:i}", "httpGet", "path", path, "port", port,
		"periodSeconds", period, "timeoutSeconds", timeout, "failureThreshold", failures);
}

/* The pod's own user where it names one that is not root: then the engine can remove what the gateway leaves in /dev/shm. */
static json_t *security(const json_t *spec)
{
	json_t *s = json_pack("{s:b, s:b, s:b, s:{s:[s]}, s:{s:s}}", "runAsNonRoot", 1,
		"allowPrivilegeEscalation", 0, "readOnlyRootFilesystem", 1, "capabilities", "drop",
		"ALL", "seccompProfile", "type", "RuntimeDefault");
	const json_t *pod = json_object_get(spec, "securityContext");
	if (json_integer_value(json_object_get(pod, "runAsUser")) <= 0) {
		kp_put(s, "runAsUser", json_integer(USER));
		kp_put(s, "runAsGroup", json_integer(USER));
	}
	return s;
}

static json_t *mounts(const struct kp_inject_place *place)
{
	json_t *list = json_pack("[{s:s, s:s, s:b}, {s:s, s:s}, {s:s, s:s, s:b}]", "name",
		"kelpie-identity", "mountPath", SECRETS, "readOnly", 1, "name", "kelpie-state",
		"mountPath", STATE, "name", "kelpie-nothing", "mountPath", API, "readOnly", 1);
	if (place->shm_volume) {
		json_t *m =
			json_pack("{s:s, s:s}", "name", place->shm_volume, "mountPath", "/dev/shm");
		if (place->shm_sub_path.p) {
			kp_put(m, "subPath",
				json_stringn(place->shm_sub_path.p, place->shm_sub_path.n));
		}
		kp_push(list, m);
	}
	return list;
}

json_t *kp_inject_gateway(const struct kp_inject_place *place, const struct kp_inject_wishes *w,
	const struct kp_inject_settings *settings, struct kp_arena *a)
{
	struct amounts cpu, memory;
	json_t *r = resources(w, is_guaranteed(place->spec), &cpu, &memory, a);
	kp_str admin = kp_arena_printf(a, "127.0.0.1:%d", w->admin_port);
	const char *image = settings->image
				    ? settings->image
				    : kp_arena_strz(a, kp_arena_printf(a, "kelpie.dev/sidecar:%s",
							       kp_version()));
	json_t *c = json_pack("{s:s, s:s, s:s, s:s, s:[s]}", "name", KP_INJECT_CONTAINER, "image",
		image, "imagePullPolicy", "IfNotPresent", "restartPolicy", "Always", "command",
		"kelpie-sidecar");
	KP_BUG_ON(!c);
	kp_put(c, "args", arguments(w, settings, cpu, memory, a));
	kp_put(c, "env", environment());
	kp_put(c, "ports", ports(place, w));
	kp_put(c, "resources", r);
	kp_put(c, "startupProbe", probe("/livez", w->probe_port, 1, 5, 60));
	kp_put(c, "livenessProbe", probe("/livez", w->probe_port, 10, 5, 6));
	kp_put(c, "readinessProbe", probe("/readyz", w->probe_port, 2, 5, 2));
	kp_put(c, "lifecycle",
		json_pack("{s:{s:{s:[s, s, s]}}}", "preStop", "exec", "command", "kelpie-sidecar",
			"--ask-drain", kp_arena_strz(a, admin)));
	kp_put(c, "securityContext", security(place->spec));
	kp_put(c, "terminationMessagePolicy", json_string("FallbackToLogsOnError"));
	kp_put(c, "volumeMounts", mounts(place));
	return c;
}

json_t *kp_inject_identity_volume(void)
{
	return json_pack("{s:s, s:{s:[{s:{s:s, s:i, s:s}}, {s:{s:s, s:[{s:s, s:s}]}}]}}", "name",
		"kelpie-identity", "projected", "sources", "serviceAccountToken", "audience",
		"kelpie.dev", "expirationSeconds", 3600, "path", "token", "configMap", "name",
		"kelpie-ca", "items", "key", "ca.crt", "path", "ca/ca.crt");
}

json_t *kp_inject_memory_volume(const char *name, const char *size)
{
	return json_pack("{s:s, s:{s:s, s:s}}", "name", name, "emptyDir", "medium", "Memory",
		"sizeLimit", size);
}
