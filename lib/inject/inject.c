/* DESIGN: a copy of the pod goes through a list of steps; each sets its one thing to what it must be, or finds that it is so already. So the second
   time changes nothing, and nothing has to be taken out before it is put in again. What belongs to Kelpie is known by its name (`kelpie-…`), and only in a pod
   that has the annotation of an injection; in any other, such a name is refused. */
#include "inject/inject.h"

#include "base/version.h"
#include "inject/internal.h"

#include <stdio.h>

struct work {
	json_t *pod, *meta, *spec;
	json_t *engine; /* the container, in pod */
	struct kp_inject_wishes w;
	const struct kp_inject_engine *facts;
	const struct kp_inject_settings *settings;
	struct kp_arena *a;
	struct kp_inject_notes *notes;
	kp_str name;     /* of the InferenceEngine */
	int64_t least_s; /* what the hook waits at least */
};

struct kp_inject_settings kp_inject_defaults(void)
{
	struct kp_inject_settings s = { .version = kp_version() };
	kp_inject_settings_namespace(&s, "kelpie-system");
	return s;
}

void kp_inject_settings_namespace(struct kp_inject_settings *s, const char *ns)
{
	snprintf(s->control, sizeof(s->control), "kelpie-operator.%.63s.svc:9090", ns);
	snprintf(s->bootstrap, sizeof(s->bootstrap), "https://kelpie-operator.%.63s.svc:443", ns);
}

kp_str kp_inject_engine_name(const json_t *pod)
{
	return kp_doc_str(kp_doc_at(pod, "metadata.labels"), KP_INJECT_LABEL);
}

static const json_t *containers_of(const json_t *spec, bool init)
{
	return json_object_get(spec, init ? "initContainers" : "containers");
}

/* --- may it be injected? ------------------------------------------------------------------------ */

/* An API server says more about a pod's shape; what is read here must be what it seems. */
static int check_shape(const json_t *spec, struct kp_err *err)
{
	static const char *const lists[] = { "containers", "initContainers", "volumes",
		"readinessGates" };
	if (!json_is_object(spec)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "`spec`: expected an object");
	}
	for (size_t i = 0; i < KP_LEN(lists); i++) {
		const json_t *list = json_object_get(spec, lists[i]);
		if (list && !json_is_array(list) && !json_is_null(list)) {
			return kp_err_set(
				err, KP_INVALID_ARGUMENT, "`spec.%s`: expected a list", lists[i]);
		}
		for (size_t k = 0; k < json_array_size(list); k++) {
			if (!json_is_object(json_array_get(list, k))) {
				return kp_err_set(err, KP_INVALID_ARGUMENT,
					"`spec.%s[%zu]`: expected an object", lists[i], k);
			}
		}
	}
	return 0;
}

static int check_engine_shape(const json_t *c, struct kp_err *err)
{
	const json_t *mounts = json_object_get(c, "volumeMounts"),
		     *lifecycle = json_object_get(c, "lifecycle");
	if (mounts && !json_is_array(mounts) && !json_is_null(mounts)) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "the engine's `volumeMounts`: expected a list");
	}
	if (lifecycle && !json_is_object(lifecycle) && !json_is_null(lifecycle)) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "the engine's `lifecycle`: expected an object");
	}
	return 0;
}

static int check_name(kp_str name, struct kp_err *err)
{
	bool ok = name.n > 0 && name.n <= 63;
	for (size_t i = 0; ok && i < name.n; i++) {
		char c = name.p[i];
		ok = (c >= 'a' && c <= 'z') || kp_is_digit(c) || c == '-' || c == '.';
	}
	return ok ? 0
		  : kp_err_set(err, KP_INVALID_ARGUMENT,
			    "label `" KP_INJECT_LABEL "`: `%" KP_FMT
			    "` is no name of an InferenceEngine",
			    KP_ARG(kp_str_sub(name, 0, 64)));
}

static int check_cluster(const struct work *k, struct kp_err *err)
{
	enum { NATIVE_SIDECARS_SINCE = 29 };
	unsigned minor = k->settings->kubernetes_minor;
	if (kp_str_eq(kp_doc_str(json_object_get(k->spec, "os"), "name"), KP_S("windows"))) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`spec.os.name`: the gateway does not run on windows");
	}
	if (minor && minor < NATIVE_SIDECARS_SINCE && !k->w.is_node) {
		return kp_err_set(err, KP_FAILED_PRECONDITION,
			"native sidecars need Kubernetes 1.29, this is 1.%u: take `gateway.mode: Node`",
			minor);
	}
	if (minor && minor < NATIVE_SIDECARS_SINCE + 3 && !k->w.is_node) {
		kp_inject_note(k->notes, k->a,
			"kubelets of 1.29 to 1.31 have faults with native sidecars (kubernetes #126543): use their last patch release");
	}
	return 0;
}

/* Names of ours in a pod that was never injected. */
static int check_names(const struct work *k, struct kp_err *err)
{
	static const char *const volumes[] = { "kelpie-identity", "kelpie-state", "kelpie-nothing",
		"kelpie-shm" };
	const json_t *done =
		json_object_get(json_object_get(k->meta, "annotations"), KP_INJECT_DONE);
	if (kp_find_by(containers_of(k->spec, false), "name", KP_S(KP_INJECT_CONTAINER)) >= 0 ||
		(!done && kp_find_by(containers_of(k->spec, true), "name",
				  KP_S(KP_INJECT_CONTAINER)) >= 0)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"it has a container `" KP_INJECT_CONTAINER
			"` that Kelpie did not make: give it another name");
	}
	for (size_t i = 0; !done && i < KP_LEN(volumes); i++) {
		if (kp_find_by(json_object_get(k->spec, "volumes"), "name", kp_str_c(volumes[i])) >=
			0) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"it has a volume `%s` that Kelpie did not make: give it another name",
				volumes[i]);
		}
	}
	return 0;
}

/* What the gateway listens on there; NULL: nothing. */
static const char *use_of(const struct work *k, json_int_t port)
{
	const struct kp_inference_pool_spec *pool = k->facts->pool;
	if (port == k->w.peer_port) {
		return "for its peers (annotation `kelpie.dev/peer-port`)";
	}
	if (port == k->w.probe_port) {
		return "for probes (annotation `kelpie.dev/probe-port`)";
	}
	if (port == k->w.admin_port) {
		return "for its admin listener (annotation `kelpie.dev/admin-port`)";
	}
	for (size_t i = 0; pool && i < pool->n_target_ports; i++) {
		if (port == pool->target_ports[i].number) {
			return "as the pool's target port";
		}
	}
	return NULL;
}

static int check_container_ports(const struct work *k, const json_t *containers, struct kp_err *err)
{
	for (size_t i = 0; i < json_array_size(containers); i++) {
		const json_t *c = json_array_get(containers, i),
			     *ports = json_object_get(c, "ports");
		kp_str name = kp_doc_str(c, "name");
		if (kp_str_eq(name, KP_S(KP_INJECT_CONTAINER))) {
			continue;
		}
		for (size_t p = 0; p < json_array_size(ports); p++) {
			const json_t *port = json_array_get(ports, p);
			json_int_t n = json_integer_value(json_object_get(port, "containerPort"));
			kp_str protocol = kp_doc_str(port, "protocol");
			bool is_tcp = !protocol.p || kp_str_eq(protocol, KP_S("TCP"));
			const char *use = is_tcp ? use_of(k, n) : NULL;
			if (use) {
				return kp_err_set(err, KP_INVALID_ARGUMENT,
					"container `%" KP_FMT
					"` has port %lld, which the gateway takes %s: one of them must change",
					KP_ARG(name), (long long)n, use);
			}
		}
	}
	return 0;
}

static int check_ports(const struct work *k, struct kp_err *err)
{
	const struct kp_inference_engine_spec *e = k->facts->engine;
	const struct kp_inference_pool_spec *pool = k->facts->pool;
	const char *use = e ? use_of(k, e->engine.port) : NULL;
	if (use) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"engine `%" KP_FMT
			"` listens on %d (spec.engine.port), which the gateway takes %s: one of them must change",
			KP_ARG(k->name), e->engine.port, use);
	}
	for (size_t i = 0; pool && i < pool->n_target_ports; i++) {
		int n = pool->target_ports[i].number;
		if (n == k->w.peer_port || n == k->w.probe_port || n == k->w.admin_port) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"the pool's target port %d is one that the gateway takes %s", n,
				use_of(k, n));
		}
	}
	return check_container_ports(k, containers_of(k->spec, false), err) ||
			       check_container_ports(k, containers_of(k->spec, true), err)
		       ? -1
		       : 0;
}

/* --- which container is the engine -------------------------------------------------------------- */

/* An extended resource is one with a domain of its own; huge pages and what Kubernetes has itself are none. */
static bool asks_for_accelerator(const json_t *container)
{
	static const char *const maps[] = { "resources.limits", "resources.requests" };
	const char *key;
	json_t *v;
	for (size_t i = 0; i < KP_LEN(maps); i++) {
		json_object_foreach((json_t *)kp_unconst(kp_doc_at(container, maps[i])), key, v)
		{
			kp_str name = kp_str_c(key);
			if (kp_str_find_char(name, '/') > 0 &&
				!kp_str_has(name, KP_S("kubernetes.io/"))) {
				return true;
			}
		}
	}
	return json_array_size(kp_doc_at(container, "resources.claims")) > 0;
}

static const json_t *only_accelerated(const json_t *containers)
{
	const json_t *found = NULL;
	for (size_t i = 0; i < json_array_size(containers); i++) {
		const json_t *c = json_array_get(containers, i);
		if (asks_for_accelerator(c)) {
			if (found) {
				return NULL;
			}
			found = c;
		}
	}
	return found;
}

static const json_t *by_name(const json_t *containers, kp_str name)
{
	ptrdiff_t i = name.p ? kp_find_by(containers, "name", name) : -1;
	return i < 0 ? NULL : json_array_get(containers, (size_t)i);
}

const json_t *kp_inject_engine_container(const json_t *pod, kp_str named, struct kp_err *err)
{
	const json_t *list = containers_of(json_object_get(pod, "spec"), false), *found;
	const json_t *annotations = kp_doc_at(pod, "metadata.annotations");
	kp_str by_pod = kp_doc_str(annotations, "kelpie.dev/engine-container");
	kp_str name = by_pod.p ? by_pod : named;
	char names[160];
	size_t used = 0;
	if (name.p) {
		found = by_name(list, name);
		if (!found) {
			kp_err_set(err, KP_INVALID_ARGUMENT,
				"there is no container `%" KP_FMT "` (%s)",
				KP_ARG(kp_str_sub(name, 0, 63)),
				by_pod.p ? "annotation `kelpie.dev/engine-container`"
					 : "the engine's spec.engine.container");
		}
		return found;
	}
	if (json_array_size(list) == 1) {
		return json_array_get(list, 0);
	}
	found = only_accelerated(list);
	if (!found) {
		found = by_name(
			list, kp_doc_str(annotations, "kubectl.kubernetes.io/default-container"));
	}
	if (found) {
		return found;
	}
	for (size_t i = 0; i < json_array_size(list) && used < sizeof(names) - 1; i++) {
		kp_str n = kp_doc_str(json_array_get(list, i), "name");
		used += (size_t)snprintf(
			names + used, sizeof(names) - used, "%s%" KP_FMT, i ? ", " : "", KP_ARG(n));
	}
	kp_err_set(err, KP_INVALID_ARGUMENT,
		"which of its containers is the engine (%s)? Say it in the engine's spec.engine.container or the annotation `kelpie.dev/engine-container`",
		used ? names : "there is none");
	return NULL;
}

/* --- the steps ---------------------------------------------------------------------------------- */

/* An element of a list, known by its name: put where it was, or at the end; left when it has all that it must have. */
static void put_named(struct work *k, const char *list_name, json_t *ours)
{
	json_t *list = kp_member_list(k->spec, list_name);
	ptrdiff_t at = kp_find_by(list, "name", kp_doc_str(ours, "name"));
	if (at < 0) {
		kp_push(list, ours);
	} else if (kp_covers(json_array_get(list, (size_t)at), ours)) {
		json_decref(ours);
	} else {
		KP_BUG_ON(json_array_set_new(list, (size_t)at, ours) != 0);
	}
}

static void drop(json_t *list, const char *key, const char *value)
{
	ptrdiff_t at = kp_find_by(list, key, kp_str_c(value));
	if (at >= 0) {
		json_array_remove(list, (size_t)at);
	}
}

static kp_str without_slashes(kp_str path)
{
	while (path.n > 1 && path.p[path.n - 1] == '/') {
		path.n--;
	}
	return path;
}

static const json_t *mount_at(const json_t *container, kp_str path)
{
	const json_t *mounts = json_object_get(container, "volumeMounts");
	for (size_t i = 0; i < json_array_size(mounts); i++) {
		const json_t *m = json_array_get(mounts, i);
		if (kp_str_eq(without_slashes(kp_doc_str(m, "mountPath")), path)) {
			return m;
		}
	}
	return NULL;
}

/* The engine's /dev/shm, which the gateway sees too: one of its own stays, else a memory-backed one is made. */
static void share_memory(struct work *k, struct kp_inject_place *place)
{
	const json_t *had = mount_at(k->engine, KP_S("/dev/shm"));
	json_t *mounts = json_object_get(k->engine, "volumeMounts");
	kp_str volume = kp_doc_str(had, "name");
	bool is_ours = kp_str_eq(volume, KP_S("kelpie-shm"));
	bool is_host = json_is_true(json_object_get(k->spec, "hostIPC")) ||
		       mount_at(k->engine, KP_S("/dev"));
	bool is_wanted = !k->w.is_node && k->w.has_shm;
	if (!is_wanted || is_host || (had && !is_ours)) {
		drop(mounts, "name", "kelpie-shm");
		drop(json_object_get(k->spec, "volumes"), "name", "kelpie-shm");
	}
	if (is_wanted && had && !is_ours) {
		place->shm_volume = kp_arena_strz(k->a, volume);
		place->shm_sub_path = kp_doc_str(had, "subPath");
		return;
	}
	if (is_wanted && is_host) {
		kp_inject_note(k->notes, k->a,
			"the engine has the node's /dev/shm: the gateway does not share it");
	}
	if (!is_wanted || is_host) {
		return;
	}
	json_t *v =
		json_pack("{s:s, s:{s:s}}", "name", "kelpie-shm", "emptyDir", "medium", "Memory");
	if (k->w.shm_size.p) {
		kp_put(json_object_get(v, "emptyDir"), "sizeLimit",
			json_stringn(k->w.shm_size.p, k->w.shm_size.n));
	}
	put_named(k, "volumes", v);
	if (!had) {
		kp_push(kp_member_list(k->engine, "volumeMounts"),
			json_pack("{s:s, s:s}", "name", "kelpie-shm", "mountPath", "/dev/shm"));
	}
	place->shm_volume = "kelpie-shm";
}

/* Where an API server would mount the pod's token of the API there stands something already: nothing. The gateway asks the API for nothing. */
static const struct {
	const char *name, *size;
} memory_volumes[] = { { "kelpie-state", "256Mi" }, { "kelpie-nothing", "1Mi" } };

static void put_gateway(struct work *k)
{
	struct kp_inject_place place = { .spec = k->spec, .pool = k->facts->pool };
	json_t *volumes = json_object_get(k->spec, "volumes");
	share_memory(k, &place);
	if (k->w.is_node) {
		drop(json_object_get(k->spec, "initContainers"), "name", KP_INJECT_CONTAINER);
		drop(volumes, "name", "kelpie-identity");
		for (size_t i = 0; i < KP_LEN(memory_volumes); i++) {
			drop(volumes, "name", memory_volumes[i].name);
		}
		return;
	}
	put_named(k, "volumes", kp_inject_identity_volume());
	for (size_t i = 0; i < KP_LEN(memory_volumes); i++) {
		put_named(k, "volumes",
			kp_inject_memory_volume(memory_volumes[i].name, memory_volumes[i].size));
	}
	put_named(k, "initContainers", kp_inject_gateway(&place, &k->w, k->settings, k->a));
}

static void put_gate(struct work *k)
{
	json_t *gates = kp_member_list(k->spec, "readinessGates");
	if (kp_find_by(gates, "conditionType", KP_S(KP_INJECT_GATE)) < 0) {
		kp_push(gates, json_pack("{s:s}", "conditionType", KP_INJECT_GATE));
	}
}

/* Hooks count against it: the drain, then the engine's end. */
static void put_grace(struct work *k)
{
	enum { DEFAULT_S = 30 };
	const char *key = "terminationGracePeriodSeconds";
	const json_t *had = json_object_get(k->spec, key);
	int64_t has = json_is_integer(had) ? json_integer_value(had) : DEFAULT_S;
	int64_t drain = KP_MAX((int64_t)k->w.drain_s, (int64_t)KP_INJECT_SETTLE_S);
	int64_t needs = KP_MAX(drain, k->least_s) + KP_INJECT_ENGINE_STOP_S;
	if (has < needs) {
		bool is_given = json_is_integer(had);
		kp_put(k->spec, key, json_integer(needs)); /* `had` is gone */
		if (is_given) {
			kp_inject_note(k->notes, k->a,
				"terminationGracePeriodSeconds is %lld instead of %lld: the drain may take %lld s, the engine's end %d s more",
				(long long)needs, (long long)has,
				(long long)(needs - KP_INJECT_ENGINE_STOP_S),
				(int)KP_INJECT_ENGINE_STOP_S);
		}
	}
}

/* In the node's network, ClusterFirst means the node's DNS, which does not know the operator's Service. */
static void put_dns(struct work *k)
{
	kp_str policy = kp_doc_str(k->spec, "dnsPolicy");
	if (k->w.is_node || !json_is_true(json_object_get(k->spec, "hostNetwork"))) {
		return;
	}
	if (!policy.p || kp_str_eq(policy, KP_S("ClusterFirst"))) {
		kp_put_str(k->spec, "dnsPolicy", "ClusterFirstWithHostNet");
		kp_inject_note(k->notes, k->a,
			"dnsPolicy is ClusterFirstWithHostNet: with hostNetwork, ClusterFirst would not find the operator");
	} else if (!kp_str_eq(policy, KP_S("ClusterFirstWithHostNet"))) {
		kp_inject_note(k->notes, k->a,
			"dnsPolicy `%.*s` with hostNetwork: the gateway finds the operator only if that DNS knows its Service",
			KP_ARG(kp_str_sub(policy, 0, 40)));
	}
}

static int apply(struct work *k, struct kp_err *err)
{
	if (check_names(k, err) || check_cluster(k, err)) {
		return -1;
	}
	const json_t *engine = kp_inject_engine_container(k->pod, k->w.container, err);
	if (!engine || check_engine_shape(engine, err) || (!k->w.is_node && check_ports(k, err))) {
		return -1;
	}
	k->engine = kp_unconst(engine); /* a part of the copy */
	if (!k->facts->engine) {
		kp_inject_note(k->notes, k->a,
			"there is no InferenceEngine `%.*s` yet: injected with defaults",
			KP_ARG(k->name));
	}
	put_gateway(k);
	k->least_s = kp_inject_hook(k->engine, &k->w, k->settings, k->a, k->notes);
	put_grace(k);
	put_gate(k);
	put_dns(k);
	json_t *annotations = kp_member_object(k->meta, "annotations");
	if (kp_inject_asks_node(&k->w)) {
		kp_put(annotations, KP_INJECT_KEY, json_stringn(k->w.key.p, k->w.key.n));
	}
	kp_put_str(annotations, KP_INJECT_DONE, k->settings->version);
	return 0;
}

static bool is_mirror(const json_t *pod)
{
	return json_object_get(
		kp_doc_at(pod, "metadata.annotations"), "kubernetes.io/config.mirror");
}

int kp_inject_pod(const json_t *pod, const struct kp_inject_engine *engine,
	const struct kp_inject_settings *settings, struct kp_arena *a,
	struct kp_inject_notes *notes, json_t **ret, struct kp_err *err)
{
	struct work k = { .facts = engine,
		.settings = settings,
		.a = a,
		.notes = notes,
		.name = kp_inject_engine_name(pod) };
	k.pod = json_deep_copy(pod);
	if (!k.pod) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "copy the pod: no memory");
	}
	if (k.name.p && !is_mirror(pod)) {
		k.meta = json_object_get(k.pod, "metadata");
		k.spec = json_object_get(k.pod, "spec");
		const json_t *annotations = json_object_get(k.meta, "annotations");
		bool is_odd =
			annotations && !json_is_object(annotations) && !json_is_null(annotations);
		if (check_name(k.name, err) || check_shape(k.spec, err) ||
			(is_odd && kp_err_set(err, KP_INVALID_ARGUMENT,
					   "`metadata.annotations`: expected an object")) ||
			kp_inject_read_wishes(pod, engine, &k.w, notes, a, err) || apply(&k, err)) {
			json_decref(k.pod);
			return -1;
		}
	}
	*ret = k.pod;
	return 0;
}
