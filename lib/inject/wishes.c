/* DESIGN: a table of annotations, each with its type and limits; the engine's spec first, so that a pod's annotation wins. A value that is not
   one is an error that names the annotation and what may stand there. */
#include "inject/internal.h"

#define PREFIX "kelpie.dev/"

enum type { NAME, KEY, CHOICE, QUANTITY, NUMBER };
struct annotation {
	const char *name; /* behind PREFIX */
	enum type type;
	size_t offset;    /* in the wishes: kp_str, or int32_t for NUMBER, bool for CHOICE of two */
	int64_t min, max; /* QUANTITY: in thousandths */
	const char *expected;       /* for the message */
	const char *const *choices; /* CHOICE; NULL behind the last. Of two: false, true */
	bool is_flag;
};
#define AT(member) offsetof(struct kp_inject_wishes, member)
#define MIB        (INT64_C(1000) << 20)

static const char *const modes[] = { "Sidecar", "Node", NULL };
static const char *const shares[] = { "None", "Share", NULL };
static const char *const levels[] = { "debug", "info", "warn", "error", NULL };
static const struct annotation annotations[] = {
	{ "engine-container", NAME, AT(container), 0, 0, "the name of one of its containers", NULL,
		false },
	{ "gateway-mode", CHOICE, AT(is_node), 0, 0, "Sidecar or Node", modes, true },
	{ "gateway-cpu", QUANTITY, AT(cpu), 10, 256000, "a quantity from 10m to 256", NULL, false },
	{ "gateway-cpu-limit", QUANTITY, AT(cpu_limit), 10, 256000, "a quantity from 10m to 256",
		NULL, false },
	{ "gateway-memory", QUANTITY, AT(memory), 128 * MIB, MIB << 20,
		"a quantity from 128Mi to 1Ti", NULL, false },
	{ "gateway-memory-limit", QUANTITY, AT(memory_limit), 128 * MIB, MIB << 20,
		"a quantity from 128Mi to 1Ti", NULL, false },
	{ "drain-seconds", NUMBER, AT(drain_s), 0, 86400, "a number of seconds from 0 to 86400",
		NULL, false },
	{ "peer-port", NUMBER, AT(peer_port), 1024, 65535, "a port from 1024 to 65535", NULL,
		false },
	{ "probe-port", NUMBER, AT(probe_port), 1024, 65535, "a port from 1024 to 65535", NULL,
		false },
	{ "admin-port", NUMBER, AT(admin_port), 1024, 65535, "a port from 1024 to 65535", NULL,
		false },
	{ "shm", CHOICE, AT(has_shm), 0, 0, "Share or None", shares, true },
	{ "shm-size", QUANTITY, AT(shm_size), MIB, MIB << 20, "a quantity from 1Mi to 1Ti", NULL,
		false },
	{ "drain-key", KEY, AT(key), 0, 0, "64 letters, digits and `-` at most", NULL, false },
	{ "log-level", CHOICE, AT(log_level), 0, 0, "debug, info, warn or error", levels, false },
};

static int complain(const struct annotation *an, kp_str value, struct kp_err *err)
{
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"annotation `" PREFIX "%s`: expected %s, got `%" KP_FMT "`%s", an->name,
		an->expected, KP_ARG(kp_str_sub(value, 0, 40)), value.n > 40 ? " and more" : "");
}

static ptrdiff_t choice_of(const char *const *choices, kp_str value)
{
	for (ptrdiff_t i = 0; choices[i]; i++) {
		if (kp_str_eq(value, kp_str_c(choices[i]))) {
			return i;
		}
	}
	return -1;
}

bool kp_inject_is_key(kp_str s)
{
	bool ok = s.n > 0 && s.n <= KP_INJECT_KEY_MAX;
	for (size_t i = 0; ok && i < s.n; i++) {
		char c = s.p[i];
		ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || kp_is_digit(c) || c == '-';
	}
	return ok;
}

/* *ret: the number, or the choice's index. */
static bool is_valid(const struct annotation *an, kp_str value, int64_t *ret)
{
	*ret = 0;
	switch (an->type) {
	case NAME:
		return value.n > 0 && value.n <= 63;
	case KEY:
		return kp_inject_is_key(value);
	case CHOICE:
		return (*ret = choice_of(an->choices, value)) >= 0;
	case QUANTITY:
		return kp_quantity_milli(value, ret) && *ret >= an->min && *ret <= an->max;
	case NUMBER:
		return kp_str_i64(value, an->min, an->max, ret);
	}
	return false;
}

static int take(const struct annotation *an, kp_str value, void *at, struct kp_err *err)
{
	int64_t number;
	if (!is_valid(an, value, &number)) {
		return complain(an, value, err);
	}
	if (an->type == NUMBER) {
		*(int32_t *)at = (int32_t)number;
	} else if (an->is_flag) {
		*(bool *)at = number == 1;
	} else {
		*(kp_str *)at = value;
	}
	return 0;
}

static const struct annotation *find(kp_str name)
{
	for (size_t i = 0; i < KP_LEN(annotations); i++) {
		if (kp_str_eq(name, kp_str_c(annotations[i].name))) {
			return &annotations[i];
		}
	}
	return NULL;
}

static int read_annotations(const json_t *pod, struct kp_inject_wishes *w,
	struct kp_inject_notes *notes, struct kp_arena *a, struct kp_err *err)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)kp_unconst(kp_doc_at(pod, "metadata.annotations")), key, v)
	{
		kp_str name = kp_str_c(key);
		if (!kp_str_starts(name, KP_S(PREFIX)) || kp_str_eq(name, KP_S(KP_INJECT_DONE))) {
			continue;
		}
		const struct annotation *an = find(kp_str_skip(name, sizeof(PREFIX) - 1));
		if (!an) {
			kp_inject_note(notes, a, "annotation `%.100s` is not known here", key);
		} else if (!json_is_string(v)) {
			return complain(an, KP_S("no string"), err);
		} else if (take(an, kp_str_n(json_string_value(v), json_string_length(v)),
				   (char *)w + an->offset, err)) {
			return -1;
		}
	}
	return 0;
}

static void read_engine(const struct kp_inference_engine_spec *e, struct kp_inject_wishes *w)
{
	const struct kp_inference_engine_gateway_resources *r = e->gateway.resources;
	w->container = e->engine.container;
	w->is_node = e->gateway.mode == KP_INFERENCE_ENGINE_GATEWAY_MODE_NODE;
	w->drain_s = e->drain.budget_seconds;
	if (r) {
		w->requests = r->requests;
		w->n_requests = r->n_requests;
		w->limits = r->limits;
		w->n_limits = r->n_limits;
	}
}

static kp_str given(kp_str annotation, const struct kp_kv *map, size_t n, const char *key)
{
	for (size_t i = 0; !annotation.p && i < n; i++) {
		if (kp_str_eq(map[i].key, kp_str_c(key))) {
			return map[i].value;
		}
	}
	return annotation;
}

static int check_map(const struct kp_kv *map, size_t n, const char *what, struct kp_err *err)
{
	for (size_t i = 0; i < n; i++) {
		int64_t v;
		if (!kp_quantity_milli(map[i].value, &v)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"the engine's spec.gateway.resources.%s[%" KP_FMT
				"]: expected a quantity, got `%" KP_FMT "`",
				what, KP_ARG(map[i].key), KP_ARG(map[i].value));
		}
	}
	return 0;
}

static int check_pair(kp_str request, kp_str limit, const char *what, int64_t least,
	const char *least_text, struct kp_err *err)
{
	int64_t r = 0, l = 0;
	if (limit.p && kp_quantity_milli(limit, &l) && l < least) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"the gateway needs a %s limit of %s at least, not `%" KP_FMT "`", what,
			least_text, KP_ARG(limit));
	}
	if (request.p && limit.p && kp_quantity_milli(request, &r) && r > l) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"the gateway's %s request `%" KP_FMT "` is above its limit `%" KP_FMT "`",
			what, KP_ARG(request), KP_ARG(limit));
	}
	return 0;
}

/* Of the engine's spec and the annotations together. */
static int check_resources(const struct kp_inject_wishes *w, struct kp_err *err)
{
	return check_map(w->requests, w->n_requests, "requests", err) ||
			       check_map(w->limits, w->n_limits, "limits", err) ||
			       check_pair(given(w->cpu, w->requests, w->n_requests, "cpu"),
				       given(w->cpu_limit, w->limits, w->n_limits, "cpu"), "cpu",
				       10, "10m", err) ||
			       check_pair(given(w->memory, w->requests, w->n_requests, "memory"),
				       given(w->memory_limit, w->limits, w->n_limits, "memory"),
				       "memory", 128 * MIB, "128Mi", err)
		       ? -1
		       : 0;
}

static int check_ports(const struct kp_inject_wishes *w, struct kp_err *err)
{
	if (w->peer_port == w->probe_port || w->peer_port == w->admin_port ||
		w->probe_port == w->admin_port) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"the gateway's ports must differ: peer %d, probe %d, admin %d",
			w->peer_port, w->probe_port, w->admin_port);
	}
	return 0;
}

int kp_inject_read_wishes(const json_t *pod, const struct kp_inject_engine *engine,
	struct kp_inject_wishes *ret, struct kp_inject_notes *notes, struct kp_arena *a,
	struct kp_err *err)
{
	enum { DRAIN_S = 30 }; /* as spec.drain.budgetSeconds */
	*ret = (struct kp_inject_wishes){ .has_shm = true,
		.drain_s = DRAIN_S,
		.peer_port = KP_INJECT_PEER_PORT,
		.probe_port = KP_INJECT_PROBE_PORT,
		.admin_port = KP_INJECT_ADMIN_PORT,
		.node_gateway = engine->node_gateway,
		.key = kp_inject_is_key(engine->key) ? engine->key : KP_STR_NULL,
		.is_again =
			json_object_get(kp_doc_at(pod, "metadata.annotations"), KP_INJECT_DONE) };
	if (engine->engine) {
		read_engine(engine->engine, ret);
	}
	return read_annotations(pod, ret, notes, a, err) || check_ports(ret, err) ||
			       check_resources(ret, err)
		       ? -1
		       : 0;
}
