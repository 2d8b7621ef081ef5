/* Pods put together at random, injected: the second time changes nothing; another version changes what is Kelpie's, and back again; everything of the user's is still
   there; the webhook's patch makes exactly that pod. */
#include "inject/internal.h"
#include "inject/review.h"
#include "tests/unit/inject/common.h"

#include <stdarg.h>

enum { ROUNDS = 1500 };

struct gen {
	struct kp_rng rng;
	struct kp_buf text;
};

static bool chance(struct gen *g, unsigned one_in)
{
	return kp_rng_below(&g->rng, one_in) == 0;
}

static const char *one_of(struct gen *g, const char *const *list)
{
	size_t n = 0;
	while (list[n]) {
		n++;
	}
	return list[kp_rng_below(&g->rng, n)];
}
#define ONE_OF(g, ...) one_of((g), (const char *const[]){ __VA_ARGS__, NULL })

static void container(struct gen *g, const char *name, bool init)
{
	kp_buf_printf(&g->text, "{\"name\":\"%s\",\"image\":\"i\"", name);
	if (init && chance(g, 2)) {
		kp_buf_lit(&g->text, ",\"restartPolicy\":\"Always\"");
	}
	kp_buf_addz(&g->text,
		ONE_OF(g, "", ",\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"8\"}}",
			",\"resources\":{\"limits\":{\"cpu\":\"2\",\"memory\":\"1Gi\"}}",
			",\"resources\":{}",
			",\"resources\":{\"limits\":{\"cpu\":\"2\",\"memory\":\"1Gi\"},\"requests\":{\"cpu\":\"2000m\"}}"));
	kp_buf_addz(&g->text,
		ONE_OF(g, "", ",\"volumeMounts\":null",
			",\"volumeMounts\":[{\"name\":\"w\",\"mountPath\":\"/models\"}]",
			",\"volumeMounts\":[{\"name\":\"s\",\"mountPath\":\"/dev/shm\"},{\"name\":\"w\",\"mountPath\":\"/w\"}]",
			",\"volumeMounts\":[{\"name\":\"d\",\"mountPath\":\"/dev/\"}]"));
	kp_buf_addz(&g->text,
		ONE_OF(g, "", ",\"lifecycle\":{}", ",\"lifecycle\":null",
			",\"lifecycle\":{\"preStop\":{\"exec\":{\"command\":[\"sleep\",\"15\"]}}}",
			",\"lifecycle\":{\"postStart\":{\"exec\":{\"command\":[\"x\"]}},\"preStop\":{\"sleep\":{\"seconds\":40}}}",
			",\"lifecycle\":{\"preStop\":{\"exec\":{\"command\":[\"/drain.sh\"]}}}"));
	kp_buf_addz(&g->text, ONE_OF(g, "", ",\"ports\":[{\"containerPort\":50051}]",
				      ",\"ports\":[{\"containerPort\":8000,\"name\":\"http\"}]"));
	kp_buf_addz(&g->text, "}");
}

static void containers(
	struct gen *g, const char *member, const char *prefix, unsigned least, bool init)
{
	unsigned n = least + (unsigned)kp_rng_below(&g->rng, 3);
	kp_buf_printf(&g->text, ",\"%s\":[", member);
	for (unsigned i = 0; i < n; i++) {
		char name[32];
		snprintf(name, sizeof(name), "%s-%u", prefix, i);
		kp_buf_addz(&g->text, i ? "," : "");
		container(g, name, init);
	}
	kp_buf_lit(&g->text, "]");
}

/* The engine is named, so that most are not refused. */
static json_t *pod(struct gen *g)
{
	json_t *v = NULL;
	struct kp_err e = KP_ERR_INIT;
	kp_buf_reset(&g->text);
	kp_buf_lit(&g->text,
		"{\"metadata\":{\"name\":\"p\",\"labels\":{\"kelpie.dev/engine\":\"demo\",\"app\":\"x\"},\"annotations\":{\"a/b~c\":\"d\",\"kelpie.dev/engine-container\":\"c-0\"");
	kp_buf_addz(&g->text,
		ONE_OF(g, "", ",\"kelpie.dev/gateway-mode\":\"Node\"",
			",\"kelpie.dev/shm\":\"None\"",
			",\"kelpie.dev/gateway-cpu\":\"3\",\"kelpie.dev/shm-size\":\"2Gi\"",
			",\"kelpie.dev/probe-port\":\"12000\",\"kelpie.dev/log-level\":\"debug\"",
			",\"kelpie.dev/drain-seconds\":\"500\""));
	kp_buf_lit(&g->text, "}},\"spec\":{\"serviceAccountName\":\"s\"");
	if (chance(g, 2)) {
		containers(g, "initContainers", "i", 0, true);
	}
	containers(g, "containers", "c", 1, false);
	kp_buf_addz(&g->text,
		ONE_OF(g, "", ",\"volumes\":null", ",\"volumes\":[]",
			",\"volumes\":[{\"name\":\"s\",\"emptyDir\":{\"medium\":\"Memory\"}},{\"name\":\"w\",\"persistentVolumeClaim\":{\"claimName\":\"m\"}}]"));
	kp_buf_addz(&g->text,
		ONE_OF(g, "", "", ",\"hostNetwork\":true",
			",\"hostNetwork\":true,\"dnsPolicy\":\"Default\"", ",\"hostIPC\":true"));
	kp_buf_addz(&g->text, ONE_OF(g, "", ",\"terminationGracePeriodSeconds\":30",
				      ",\"terminationGracePeriodSeconds\":3600"));
	kp_buf_addz(&g->text,
		ONE_OF(g, "", ",\"readinessGates\":[{\"conditionType\":\"x/y\"}]",
			",\"readinessGates\":[{\"conditionType\":\"kelpie.dev/routable\"}]"));
	kp_buf_addz(
		&g->text, ONE_OF(g, "", ",\"securityContext\":{\"runAsUser\":1000,\"fsGroup\":7}",
				  ",\"securityContext\":{}"));
	kp_buf_lit(&g->text, "}}");
	assert_int_equal(
		kp_doc_json(kp_buf_str(&g->text), "pod", &kp_doc_limits_manifest, &v, &e), 0);
	return v;
}

static void differ(const json_t *a, const json_t *b)
{
	json_t *ops = kp_json_diff(a, b);
	char *text = json_dumps(ops, JSON_INDENT(1));
	print_error("the difference:\n%s\n", text);
	fail();
}

static void equal(const json_t *a, const json_t *b)
{
	if (!json_equal(a, b)) {
		differ(a, b);
	}
}

/* What was there is there, in the same order, but for what injection says it changes. */
static void keeps(const json_t *was, const json_t *now)
{
	static const char *const changed[] = { "preStop", "dnsPolicy",
		"terminationGracePeriodSeconds" };
	const char *key;
	json_t *v;
	if (json_is_array(was)) {
		for (size_t i = 0; i < json_array_size(was); i++) {
			keeps(json_array_get(was, i), json_array_get(now, i));
		}
		return;
	}
	if (!json_is_object(was)) {
		assert_true(json_is_null(was) || json_equal(was, now));
		return;
	}
	json_object_foreach((json_t *)kp_unconst(was), key, v)
	{
		bool may_change = false;
		for (size_t i = 0; i < KP_LEN(changed); i++) {
			may_change = may_change || kp_str_eq(kp_str_c(key), kp_str_c(changed[i]));
		}
		if (!may_change) {
			keeps(v, json_object_get(now, key));
		}
	}
}

/* RFC 6902's add, remove and replace; what an API server does is in tests/integ/kube. */
static void apply_op(json_t *root, const json_t *op)
{
	kp_str path = kp_str_skip(kp_doc_str(op, "path"), 1), part, kind = kp_doc_str(op, "op");
	json_t *at = root, *value = json_object_get(op, "value");
	while (kp_str_split(&path, '/', &part)) {
		char key[300];
		size_t n = 0;
		for (size_t i = 0; i < part.n; i++) {
			bool escaped = part.p[i] == '~';
			i += escaped;
			key[n++] = escaped ? (part.p[i] == '1' ? '/' : '~') : part.p[i];
		}
		key[n] = '\0';
		bool last = !path.p;
		if (json_is_array(at)) {
			uint64_t index = json_array_size(at);
			assert_true(kp_str_eq(kp_str_c(key), KP_S("-")) ||
				    kp_str_u64(kp_str_c(key), index - 1, &index));
			if (!last) {
				at = json_array_get(at, index);
			} else if (kp_str_eq(kind, KP_S("add"))) {
				assert_int_equal(json_array_insert(at, index, value), 0);
			} else {
				assert_int_equal(kp_str_eq(kind, KP_S("remove"))
							 ? json_array_remove(at, index)
							 : json_array_set(at, index, value),
					0);
			}
		} else if (!last) {
			at = json_object_get(at, key);
			assert_non_null(at);
		} else if (kp_str_eq(kind, KP_S("remove"))) {
			assert_int_equal(json_object_del(at, key), 0);
		} else {
			assert_int_equal(json_object_set(at, key, value), 0);
		}
	}
}

static void patches(const json_t *was, const json_t *now)
{
	json_t *ops = kp_json_diff(was, now), *made = json_deep_copy(was);
	for (size_t i = 0; i < json_array_size(ops); i++) {
		apply_op(made, json_array_get(ops, i));
	}
	equal(made, now);
	assert_int_equal(json_array_size(ops) == 0, json_equal(was, now));
	json_decref(ops);
	json_decref(made);
}

static void random_pods(void **state)
{
	(void)state;
	struct gen g = { 0 };
	size_t n_injected = 0;
	const struct kp_inference_pool_target_port target = { 8080 };
	const struct kp_inference_pool_spec pool = { .target_ports = &target, .n_target_ports = 1 };
	struct kp_inject_engine known = { .engine = &engine_spec, .pool = &pool };
	kp_rng_seed(&g.rng, test_seed());
	kp_buf_init(&g.text, 1 << 20);
	for (int round = 0; round < ROUNDS; round++) {
		struct kp_inject_settings now = kp_inject_defaults(), later = now;
		later.version = "7.0.0";
		later.image = chance(&g, 2) ? "new:7" : now.image;
		kp_arena_reset(arena);
		known.node_gateway = chance(&g, 2) ? KP_S("10.96.0.7") : KP_STR_NULL;
		known.key = chance(&g, 4) ? KP_STR_NULL : KP_S("9b3f-1");
		json_t *was = pod(&g), *before = json_deep_copy(was);
		json_t *made = inject_with(was, &known, &now);
		assert_true(json_equal(was, before)); /* pure */
		if (made) {
			n_injected++;
			keeps(was, made);
			patches(was, made);
			json_t *again = inject_with(made, &known, &now);
			equal(made, again);
			json_t *newer = inject_with(made, &known, &later),
			       *direct = inject_with(was, &known, &later);
			equal(direct, newer);
			patches(made, newer);
			json_t *back = inject_with(newer, &known, &now);
			equal(made, back);
			json_decref(again);
			json_decref(newer);
			json_decref(direct);
			json_decref(back);
		}
		json_decref(made);
		json_decref(was);
		json_decref(before);
	}
	assert_true(n_injected > ROUNDS * 9 / 10);
	kp_buf_fini(&g.text);
}

/* Any two values, deep in each other. */
static json_t *value(struct gen *g, unsigned depth)
{
	unsigned kind = (unsigned)kp_rng_below(&g->rng, depth ? 6 : 4);
	json_t *v;
	if (kind < 4) {
		static const char *const texts[] = { "", "a", "~", "/~0/" };
		return kind < 2 ? json_integer(kind) : json_string(texts[kp_rng_below(&g->rng, 4)]);
	}
	v = kind == 4 ? json_array() : json_object();
	for (uint64_t n = kp_rng_below(&g->rng, 4); n; n--) {
		if (kind == 4) {
			kp_push(v, value(g, depth - 1));
		} else {
			kp_put(v, ONE_OF(g, "", "a", "a/b", "~", "~1", "c"), value(g, depth - 1));
		}
	}
	return v;
}

static void random_values(void **state)
{
	(void)state;
	struct gen g = { 0 };
	kp_rng_seed(&g.rng, test_seed());
	for (int round = 0; round < 20000; round++) {
		json_t *a = json_object(), *b = json_object();
		kp_put(a, "x", value(&g, 3));
		kp_put(b, "x", value(&g, 3));
		patches(a, b);
		json_decref(a);
		json_decref(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(random_pods, setup, teardown),
		cmocka_unit_test(random_values),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
