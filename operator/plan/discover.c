/* DESIGN: pods are sorted by name, so the order of endpoints is no accident. */
#include "operator/plan/discover.h"

kp_str kp_discover_owner(
	const struct kp_world *w, const struct kp_world_engine *e, const struct kp_world_pod *pod)
{
	if (e->spec->gateway.mode != KP_INFERENCE_ENGINE_GATEWAY_MODE_NODE) {
		return pod->uid;
	}
	const struct kp_world_pod *gateway = kp_world_node_gateway(w, pod->ns, pod->node);
	return gateway ? gateway->uid : KP_S("");
}

kp_str kp_discover_address(
	const struct kp_world_engine *e, const struct kp_world_pod *pod, struct kp_arena *a)
{
	bool is_ipv6 = kp_str_find_char(pod->ip, ':') >= 0;
	return kp_arena_printf(a, "%s%" KP_FMT "%s:%d", is_ipv6 ? "[" : "", KP_ARG(pod->ip),
		is_ipv6 ? "]" : "", (int)e->spec->engine.port);
}

static struct kp_program_endpoint endpoint(const struct kp_world *w,
	const struct kp_world_engine *e, const struct kp_world_pod *pod, struct kp_arena *a)
{
	bool is_beside = e->spec->gateway.mode != KP_INFERENCE_ENGINE_GATEWAY_MODE_NODE;
	return (struct kp_program_endpoint){
		.address = kp_discover_address(e, pod, a),
		.local = is_beside ? kp_arena_printf(a, "127.0.0.1:%d", (int)e->spec->engine.port)
				   : KP_S(""),
		.instance = kp_arena_printf(a, "%" KP_FMT "/%u%s%" KP_FMT, KP_ARG(pod->uid),
			kp_world_restarts(pod, e->spec->engine.container), pod->key.n ? "/" : "",
			KP_ARG(pod->key)),
		.wants = kp_discover_owner(w, e, pod),
	};
}

/* Pods with hostNetwork may have one address together; then the API let two of them onto one port, and one will not
   listen: the first by name is taken. */
static bool has_address(const struct kp_program_endpoint *list, size_t n, kp_str address)
{
	for (size_t i = 0; i < n; i++) {
		if (kp_str_eq(list[i].address, address)) {
			return true;
		}
	}
	return false;
}

static int fill(const struct kp_world *w, const struct kp_world_engine *e,
	struct kp_program_engine *to, struct kp_arena *a, struct kp_err *err)
{
	size_t n;
	const struct kp_world_pod *pods = kp_world_pods(w, e->ns, e->name, &n);
	struct kp_program_endpoint *list = kp_arena_calloc(a, n, sizeof(*list));
	if (!list) {
		return kp_arena_full(err, "endpoints");
	}
	for (size_t i = 0; i < n; i++) {
		if (kp_discover_is_endpoint(&pods[i])) {
			struct kp_program_endpoint one = endpoint(w, e, &pods[i], a);
			if (!has_address(list, to->n_endpoints, one.address)) {
				list[to->n_endpoints++] = one;
			}
		}
	}
	to->endpoints = list;
	return 0;
}

int kp_discover(const struct kp_world *w, kp_str ns, const struct kp_program *from,
	struct kp_arena *a, struct kp_program *ret, struct kp_err *err)
{
	struct kp_program_engine *engines = kp_arena_calloc(a, from->n_engines, sizeof(*engines));
	if (!engines) {
		return kp_arena_full(err, "engines");
	}
	*ret = *from;
	ret->engines = engines;
	for (size_t i = 0; i < from->n_engines; i++) {
		engines[i] = from->engines[i];
		kp_str name = kp_str_skip(engines[i].name, ns.n + 1);
		const struct kp_world_engine *e = kp_world_engine(w, ns, name);
		if (engines[i].in_pods && e && e->spec && fill(w, e, &engines[i], a, err)) {
			return -1;
		}
	}
	return 0;
}
