/* What injection does with each thing that a pod may have already. */
#include "common.h"

static void path_is(const json_t *pod, const char *path, const char *want)
{
	is(kp_doc_at(pod, path), want);
}

#define MIRROR                                                                                           \
	"metadata: {labels: {kelpie.dev/engine: demo}, annotations: {kubernetes.io/config.mirror: x}}\n" \
	"spec: {containers: []}"

static void opting_in(void **state)
{
	(void)state;
	static const char *const others[] = { "metadata: {name: p}\nspec: {containers: []}",
		"metadata: {labels: {app: x}, annotations: {kelpie.dev/engine: demo}}\nspec: 7",
		MIRROR };
	for (size_t i = 0; i < KP_LEN(others); i++) {
		json_t *pod = yaml(others[i]), *made = inject(others[i]);
		assert_true(json_equal(pod, made));
		json_decref(pod);
		json_decref(made);
	}
	refused("metadata: {labels: {kelpie.dev/engine: ''}}\nspec: {containers: [{name: a}]}",
		"label `kelpie.dev/engine`: `` is no name");
	refused("metadata: {labels: {kelpie.dev/engine: A_b}}\nspec: {containers: [{name: a}]}",
		"`A_b` is no name of an InferenceEngine");
}

static void a_plain_pod(void **state)
{
	(void)state;
	json_t *pod = inject(POD("", "", ""));
	path_is(pod, "spec.readinessGates", "[{\"conditionType\":\"kelpie.dev/routable\"}]");
	path_is(pod, "spec.terminationGracePeriodSeconds", "45");
	is(kp_doc_at(engine_of(pod), "lifecycle"),
		"{\"preStop\":{\"httpGet\":{\"path\":\"/drained\",\"port\":9092}}}");
	is(kp_doc_at(engine_of(pod), "volumeMounts"),
		"[{\"name\":\"kelpie-shm\",\"mountPath\":\"/dev/shm\"}]");
	is(named(kp_doc_at(pod, "spec.volumes"), "kelpie-shm"),
		"{\"name\":\"kelpie-shm\",\"emptyDir\":{\"medium\":\"Memory\"}}");
	const json_t *g = gateway_of(pod);
	assert_non_null(g);
	assert_str_lit(kp_doc_str(g, "restartPolicy"), "Always");
	is(kp_doc_at(g, "lifecycle.preStop"),
		"{\"exec\":{\"command\":[\"kelpie-sidecar\",\"--ask-drain\",\"127.0.0.1:9090\"]}}");
	is(kp_doc_at(g, "startupProbe.httpGet"), "{\"path\":\"/livez\",\"port\":9092}");
	is(kp_doc_at(g, "livenessProbe.httpGet"), "{\"path\":\"/livez\",\"port\":9092}");
	is(kp_doc_at(g, "readinessProbe.httpGet"), "{\"path\":\"/readyz\",\"port\":9092}");
	assert_true(has_arg(pod, "--id=$(POD_UID)") && has_arg(pod, "--drain-timeout=30"));
	assert_int_equal(notes.n, 0);
	json_decref(pod);
}

/* What a restricted namespace asks of every container. */
static void security(void **state)
{
	(void)state;
	static const char want[] =
		"{\"runAsNonRoot\":true,\"allowPrivilegeEscalation\":false,\"readOnlyRootFilesystem\":true,"
		"\"capabilities\":{\"drop\":[\"ALL\"]},\"seccompProfile\":{\"type\":\"RuntimeDefault\"}%s}";
	static const struct {
		const char *spec, *user;
	} table[] = { { "", ",\"runAsUser\":65532,\"runAsGroup\":65532" },
		{ "  securityContext: {runAsUser: 0}\n",
			",\"runAsUser\":65532,\"runAsGroup\":65532" },
		{ "  securityContext: {runAsUser: 1000}\n", "" } };
	for (size_t i = 0; i < KP_LEN(table); i++) {
		char text[600];
		json_t *pod = inject(
			(snprintf(text, sizeof(text), "%s%s", POD("", "", ""), table[i].spec),
				text));
		snprintf(text, sizeof(text), want, table[i].user);
		is(kp_doc_at(gateway_of(pod), "securityContext"), text);
		json_decref(pod);
	}
}

static void order_of_init_containers(void **state)
{
	(void)state;
	/* Behind the mesh it goes out through, and behind downloads: it is needed when the engine starts. */
	json_t *pod = inject(POD("", "",
		"  initContainers: [{name: istio-proxy, restartPolicy: Always}, {name: download}]\n"));
	const json_t *list = kp_doc_at(pod, "spec.initContainers");
	assert_int_equal(json_array_size(list), 3);
	assert_str_lit(kp_doc_str(json_array_get(list, 2), "name"), "kelpie-gateway");
	/* Another webhook puts one behind it: it stays where it is. */
	json_array_append_new(
		(json_t *)kp_unconst(list), yaml("{name: later, restartPolicy: Always}"));
	struct kp_inject_settings s = kp_inject_defaults();
	s.image = "other:1";
	s.version = "9.9.9";
	json_t *again = inject_with(pod, &plain, &s);
	list = kp_doc_at(again, "spec.initContainers");
	assert_int_equal(json_array_size(list), 4);
	assert_str_lit(kp_doc_str(json_array_get(list, 2), "name"), "kelpie-gateway");
	assert_str_lit(kp_doc_str(json_array_get(list, 2), "image"), "other:1");
	is(kp_doc_at(again, "metadata.annotations"), "{\"kelpie.dev/injected\":\"9.9.9\"}");
	json_decref(pod);
	json_decref(again);
}

static void hooks(void **state)
{
	(void)state;
	static const struct {
		const char *had, *want; /* want NULL: kept */
	} table[] = {
		{ "sleep: {seconds: 15}",
			"{\"httpGet\":{\"path\":\"/drained?min=15\",\"port\":9092}}" },
		{ "exec: {command: [sleep, '5']}",
			"{\"httpGet\":{\"path\":\"/drained?min=5\",\"port\":9092}}" },
		{ "exec: {command: [/bin/sleep, '20']}",
			"{\"httpGet\":{\"path\":\"/drained?min=20\",\"port\":9092}}" },
		{ "exec: {command: [/bin/sh, -c, 'sleep 10']}",
			"{\"httpGet\":{\"path\":\"/drained?min=10\",\"port\":9092}}" },
		{ "exec: {command: [bash, -c, ' /bin/sleep  10 ']}",
			"{\"httpGet\":{\"path\":\"/drained?min=10\",\"port\":9092}}" },
		{ "httpGet: {path: /drained, port: 9999}",
			"{\"httpGet\":{\"path\":\"/drained\",\"port\":9092}}" },
		{ "exec: {command: [sh, -c, 'sleep 10; nvidia-smi']}", NULL },
		{ "exec: {command: [sh, -c, 'sleep 10 && x']}", NULL },
		{ "exec: {command: [sh, -c, 'sleep 10m']}", NULL },
		{ "exec: {command: [sh, -c, 'sleep $N']}", NULL },
		{ "exec: {command: [sh, -x, 'sleep 10']}", NULL },
		{ "exec: {command: [sleep, '1', '2']}", NULL },
		{ "exec: {command: [sleep, infinity]}", NULL },
		{ "httpGet: {path: /shutdown, port: 8000}", NULL },
		{ "httpGet: {path: '/drained?min=x', port: 8000}", NULL },
		{ "tcpSocket: {port: 1}", NULL },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		char text[600];
		snprintf(text, sizeof(text),
			POD("", "lifecycle: {postStart: {exec: {command: [x]}}, preStop: {%s}}",
				""),
			table[i].had);
		json_t *had = yaml(text), *pod = inject(text);
		const json_t *hook = kp_doc_at(engine_of(pod), "lifecycle.preStop");
		if (table[i].want) {
			is(hook, table[i].want);
		} else {
			assert_true(
				json_equal(hook, kp_doc_at(engine_of(had), "lifecycle.preStop")));
		}
		assert_int_equal(noted("DrainHookSkipped"), !table[i].want);
		is(kp_doc_at(engine_of(pod), "lifecycle.postStart"),
			"{\"exec\":{\"command\":[\"x\"]}}");
		json_decref(had);
		json_decref(pod);
	}
}

static void grace(void **state)
{
	(void)state;
	static const struct {
		const char *pod, *want;
		bool is_noted;
	} table[] = { { POD("", "", "  terminationGracePeriodSeconds: 45\n"), "45", false },
		{ POD("", "", "  terminationGracePeriodSeconds: 0\n"), "45", true },
		{ POD("", "", "  terminationGracePeriodSeconds: 600\n"), "600", false },
		{ POD("kelpie.dev/drain-seconds: '0'", "", ""), "30", false },
		{ POD("kelpie.dev/drain-seconds: '86400'", "", ""), "86415", false },
		{ POD("", "lifecycle: {preStop: {sleep: {seconds: 100}}}", ""), "115", false } };
	for (size_t i = 0; i < KP_LEN(table); i++) {
		json_t *pod = inject(table[i].pod);
		const json_t *got = kp_doc_at(pod, "spec.terminationGracePeriodSeconds");
		if (got) {
			is(got, table[i].want);
		} else {
			assert_string_equal(table[i].want, "30");
		}
		assert_int_equal(noted("terminationGracePeriodSeconds"), table[i].is_noted);
		json_decref(pod);
	}
}

static void shared_memory(void **state)
{
	(void)state;
	static const struct {
		const char *pod, *mount,
			*volume; /* the gateway's mount and what stands for kelpie-shm; NULL: none */
		bool is_noted;
	} table[] = {
		{ POD("", "volumeMounts: [{name: dshm, mountPath: /dev/shm/, readOnly: true}]",
			  "  volumes: [{name: dshm, emptyDir: {medium: Memory}}]\n"),
			"{\"name\":\"dshm\",\"mountPath\":\"/dev/shm\"}", NULL, false },
		{ POD("", "volumeMounts: [{name: all, mountPath: /dev/shm, subPath: a}]", ""),
			"{\"name\":\"all\",\"mountPath\":\"/dev/shm\",\"subPath\":\"a\"}", NULL,
			false },
		{ POD("kelpie.dev/shm-size: 8Gi", "", ""),
			"{\"name\":\"kelpie-shm\",\"mountPath\":\"/dev/shm\"}",
			"{\"name\":\"kelpie-shm\",\"emptyDir\":{\"medium\":\"Memory\",\"sizeLimit\":\"8Gi\"}}",
			false },
		{ POD("kelpie.dev/shm: None", "", ""), NULL, NULL, false },
		{ POD("", "volumeMounts: [{name: own, mountPath: /dev/shm}, {name: dev, mountPath: /dev}]",
			  "  hostIPC: true\n"),
			"{\"name\":\"own\",\"mountPath\":\"/dev/shm\"}", NULL, false },
		{ POD("", "", "  hostIPC: true\n"), NULL, NULL, true },
		{ POD("", "volumeMounts: [{name: dev, mountPath: /dev}]", ""), NULL, NULL, true },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		json_t *pod = inject(table[i].pod);
		const json_t *mounts = kp_doc_at(gateway_of(pod), "volumeMounts");
		assert_int_equal(json_array_size(mounts), table[i].mount ? 4 : 3);
		if (table[i].mount) {
			is(json_array_get(mounts, 3), table[i].mount);
		}
		const json_t *v = named(kp_doc_at(pod, "spec.volumes"), "kelpie-shm");
		assert_int_equal(!!v, !!table[i].volume);
		if (v) {
			is(v, table[i].volume);
		}
		assert_int_equal(noted("/dev/shm"), table[i].is_noted);
		json_decref(pod);
	}
}

static void networks_of_the_node(void **state)
{
	(void)state;
	static const struct {
		const char *pod, *policy;
		bool is_noted;
	} table[] = { { POD("", "", ""), NULL, false },
		{ POD("", "", "  dnsPolicy: ClusterFirst\n"), "\"ClusterFirst\"", false },
		{ POD("", "", "  hostNetwork: true\n"), "\"ClusterFirstWithHostNet\"", true },
		{ POD("", "", "  hostNetwork: true\n  dnsPolicy: ClusterFirst\n"),
			"\"ClusterFirstWithHostNet\"", true },
		{ POD("", "", "  hostNetwork: true\n  dnsPolicy: ClusterFirstWithHostNet\n"),
			"\"ClusterFirstWithHostNet\"", false },
		{ POD("", "", "  hostNetwork: true\n  dnsPolicy: Default\n"), "\"Default\"",
			true } };
	for (size_t i = 0; i < KP_LEN(table); i++) {
		json_t *pod = inject(table[i].pod);
		const json_t *policy = kp_doc_at(pod, "spec.dnsPolicy");
		assert_int_equal(!!policy, !!table[i].policy);
		if (policy) {
			is(policy, table[i].policy);
		}
		assert_int_equal(noted("dnsPolicy"), table[i].is_noted);
		json_decref(pod);
	}
}

static void resources(void **state)
{
	(void)state;
	static const struct {
		const char *pod, *want, *loops;
	} table[] = {
		{ POD("", "", ""),
			"{\"requests\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"},\"limits\":{\"memory\":\"2Gi\"}}",
			"--loops=1" },
		/* A Guaranteed pod stays one; in a pod that is none, no CPU limit throttles. */
		{ POD("", "resources: {limits: {cpu: '4', memory: 8Gi}}", ""),
			"{\"requests\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"},\"limits\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"}}",
			"--loops=1" },
		{ POD("", "resources: {limits: {cpu: '4', memory: 8Gi}, requests: {cpu: 4000m, memory: 8192Mi}}",
			  ""),
			"{\"requests\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"},\"limits\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"}}",
			"--loops=1" },
		{ POD("", "resources: {limits: {cpu: '4', memory: 8Gi}, requests: {cpu: '3'}}", ""),
			"{\"requests\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"},\"limits\":{\"memory\":\"2Gi\"}}",
			"--loops=1" },
		{ POD("", "resources: {limits: {cpu: '4', memory: 8Gi}}",
			  "  initContainers: [{name: i}]\n"),
			"{\"requests\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"},\"limits\":{\"memory\":\"2Gi\"}}",
			"--loops=1" },
		{ POD("kelpie.dev/gateway-cpu: '2', kelpie.dev/gateway-memory: 4Gi", "", ""),
			"{\"requests\":{\"cpu\":\"2\",\"memory\":\"4Gi\"},\"limits\":{\"memory\":\"4Gi\"}}",
			"--loops=2" },
		{ POD("kelpie.dev/gateway-cpu-limit: 2500m, kelpie.dev/gateway-memory-limit: 256Mi",
			  "", ""),
			"{\"requests\":{\"cpu\":\"2500m\",\"memory\":\"256Mi\"},\"limits\":{\"cpu\":\"2500m\",\"memory\":\"256Mi\"}}",
			"--loops=3" },
		{ POD("kelpie.dev/gateway-cpu: '200'", "", ""),
			"{\"requests\":{\"cpu\":\"200\",\"memory\":\"512Mi\"},\"limits\":{\"memory\":\"2Gi\"}}",
			"--loops=64" },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		json_t *pod = inject(table[i].pod);
		is(kp_doc_at(gateway_of(pod), "resources"), table[i].want);
		assert_true(has_arg(pod, table[i].loops));
		json_decref(pod);
	}
	json_t *pod = inject(POD("kelpie.dev/gateway-memory-limit: 512Mi", "", ""));
	assert_true(has_arg(pod, "--max-body-total=134217728") &&
		    has_arg(pod, "--prompt-cache-bytes=16777216"));
	json_decref(pod);
}

static json_t *inject_engine(const char *text, struct kp_inference_engine_spec *e,
	const struct kp_inference_pool_spec *p)
{
	json_t *pod = yaml(text);
	struct kp_inject_settings s = kp_inject_defaults();
	const struct kp_inject_engine known = { .engine = e, .pool = p };
	json_t *made = inject_with(pod, &known, &s);
	json_decref(pod);
	return made;
}

static void resources_of_the_engine(void **state)
{
	(void)state;
	struct kp_kv requests[] = { { KP_S("cpu"), KP_S("1") },
		{ KP_S("ephemeral-storage"), KP_S("1Gi") } },
		     limits[] = { { KP_S("memory"), KP_S("1Gi") } };
	const struct kp_inference_engine_gateway_resources r = { requests, 2, limits, 1 };
	struct kp_inference_engine_spec e = engine_spec;
	e.gateway.resources = &r;
	json_t *pod = inject_engine(POD("kelpie.dev/gateway-cpu: '3'", "", ""), &e, NULL);
	is(kp_doc_at(gateway_of(pod), "resources"),
		"{\"requests\":{\"cpu\":\"3\",\"ephemeral-storage\":\"1Gi\",\"memory\":\"1Gi\"},\"limits\":{\"memory\":\"1Gi\"}}");
	json_decref(pod);
	requests[1].value = KP_S("much");
	assert_null(inject_engine(POD("", "", ""), &e, NULL));
	assert_string_equal(err.msg,
		"the engine's spec.gateway.resources.requests[ephemeral-storage]: expected a quantity, got `much`");
	requests[1].value = KP_S("1");
	limits[0].value = KP_S("100Mi");
	assert_null(inject_engine(POD("", "", ""), &e, NULL));
	assert_string_equal(
		err.msg, "the gateway needs a memory limit of 128Mi at least, not `100Mi`");
	limits[0].value = KP_S("1Gi");
	assert_null(inject_engine(POD("kelpie.dev/gateway-memory: 2Gi", "", ""), &e, NULL));
	assert_string_equal(err.msg, "the gateway's memory request `2Gi` is above its limit `1Gi`");
}

static void ports(void **state)
{
	(void)state;
	const struct kp_inference_pool_target_port target[] = { { 8080 }, { 8081 } };
	const struct kp_inference_pool_spec pool = { .target_ports = target, .n_target_ports = 2 };
	struct kp_inference_engine_spec e = engine_spec;
	json_t *pod = inject_engine(
		POD("kelpie.dev/peer-port: '19443'",
			"ports: [{containerPort: 50051}, {containerPort: 8080, protocol: UDP}]",
			""),
		&e, &pool);
	is(kp_doc_at(gateway_of(pod), "ports"),
		"[{\"name\":\"kelpie-8080\",\"containerPort\":8080,\"protocol\":\"TCP\"},{\"name\":\"kelpie-8081\",\"containerPort\":8081,\"protocol\":\"TCP\"},"
		"{\"name\":\"kelpie-peer\",\"containerPort\":19443,\"protocol\":\"TCP\"},{\"name\":\"kelpie-probes\",\"containerPort\":9092,\"protocol\":\"TCP\"}]");
	assert_true(has_arg(pod, "--peer-listen=:19443"));
	json_decref(pod);
	assert_null(inject_engine(
		POD("", "ports: [{containerPort: 1}, {containerPort: 8081}]", ""), &e, &pool));
	assert_string_equal(err.msg,
		"container `vllm` has port 8081, which the gateway takes as the pool's target port: one of them must change");
	assert_null(inject_engine(
		POD("", "", "  initContainers: [{name: s, ports: [{containerPort: 9092}]}]\n"), &e,
		&pool));
	assert_string_equal(err.msg,
		"container `s` has port 9092, which the gateway takes for probes (annotation `kelpie.dev/probe-port`): one of them must change");
	e.engine.port = 8080;
	assert_null(inject_engine(POD("", "", ""), &e, &pool));
	assert_string_equal(err.msg,
		"engine `demo` listens on 8080 (spec.engine.port), which the gateway takes as the pool's target port: one of them must change");
	e.engine.port = 1;
	assert_null(inject_engine(POD("kelpie.dev/probe-port: '8080'", "", ""), &e, &pool));
	assert_string_equal(err.msg,
		"the pool's target port 8080 is one that the gateway takes for probes (annotation `kelpie.dev/probe-port`)");
	refused(POD("kelpie.dev/probe-port: '9090'", "", ""),
		"the gateway's ports must differ: peer 9443, probe 9090, admin 9090");
}

static void which_container(void **state)
{
	(void)state;
#define TWO(meta, a, b)                                                                         \
	"metadata: {labels: {kelpie.dev/engine: demo}" meta "}\nspec: {containers: [{name: a" a \
	"}, {name: vllm" b "}]}"
	static const char *const found[] = {
		TWO(", annotations: {kelpie.dev/engine-container: vllm}",
			", resources: {limits: {nvidia.com/gpu: '1'}}", ""),
		TWO("", "", ", resources: {limits: {nvidia.com/gpu: '1'}}"),
		TWO("", ", resources: {limits: {hugepages-2Mi: 1Gi, cpu: '1'}}",
			", resources: {requests: {amd.com/gpu: '1'}}"),
		TWO("", "", ", resources: {claims: [{name: gpu}]}"),
		TWO(", annotations: {kubectl.kubernetes.io/default-container: vllm}", "", ""),
	};
	for (size_t i = 0; i < KP_LEN(found); i++) {
		json_t *pod = inject(found[i]);
		assert_non_null(kp_doc_at(engine_of(pod), "lifecycle.preStop"));
		assert_null(json_object_get(
			json_array_get(kp_doc_at(pod, "spec.containers"), 0), "lifecycle"));
		json_decref(pod);
	}
	refused(TWO("", "", ""),
		"which of its containers is the engine (a, vllm)? Say it in the engine's spec.engine.container");
	refused(TWO("", ", resources: {limits: {x/gpu: '1'}}",
			", resources: {limits: {x/gpu: '1'}}"),
		"which of its containers");
	refused(TWO(", annotations: {kelpie.dev/engine-container: b}", "", ""),
		"there is no container `b` (annotation `kelpie.dev/engine-container`)");
	struct kp_inference_engine_spec e = engine_spec;
	e.engine.container = KP_S("gone");
	assert_null(inject_engine(POD("", "", ""), &e, NULL));
	assert_string_equal(
		err.msg, "there is no container `gone` (the engine's spec.engine.container)");
	refused("metadata: {labels: {kelpie.dev/engine: demo}}\nspec: {}",
		"which of its containers is the engine (there is none)");
}

static void hostile_annotations(void **state)
{
	(void)state;
	static const struct {
		const char *annotation, *want;
	} table[] = {
		{ "kelpie.dev/gateway-mode: sidecar",
			"annotation `kelpie.dev/gateway-mode`: expected Sidecar or Node, got `sidecar`" },
		{ "kelpie.dev/gateway-cpu: '-1'",
			"`kelpie.dev/gateway-cpu`: expected a quantity from 10m to 256, got `-1`" },
		{ "kelpie.dev/gateway-cpu: '1e12'", "a quantity from 10m to 256, got `1e12`" },
		{ "kelpie.dev/gateway-cpu-limit: 9m", "from 10m to 256, got `9m`" },
		{ "kelpie.dev/gateway-memory: 99999999999999999999Gi",
			"`kelpie.dev/gateway-memory`: expected a quantity from 128Mi to 1Ti" },
		{ "kelpie.dev/gateway-memory-limit: '0x1000'", "got `0x1000`" },
		{ "kelpie.dev/drain-seconds: '86401'",
			"a number of seconds from 0 to 86400, got `86401`" },
		{ "kelpie.dev/drain-seconds: 30s", "got `30s`" },
		{ "kelpie.dev/drain-seconds: 30",
			"expected a number of seconds from 0 to 86400, got `no string`" },
		{ "kelpie.dev/peer-port: '80'", "a port from 1024 to 65535, got `80`" },
		{ "kelpie.dev/admin-port: '65536'", "got `65536`" },
		{ "kelpie.dev/shm: share", "expected Share or None" },
		{ "kelpie.dev/shm-size: ''", "got ``" },
		{ "kelpie.dev/log-level: 'debug --manifests=/etc'",
			"debug, info, warn or error, got `debug --manifests=/etc`" },
		{ "kelpie.dev/engine-container: ''",
			"expected the name of one of its containers, got ``" },
		{ "kelpie.dev/gateway-mode: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			"aaaaaa` and more" },
		{ "kelpie.dev/gateway-mode: \"a\\nb\\x1b[2J\"", "got `a?b?[2J`" },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		char text[600];
		snprintf(text, sizeof(text), POD("%s", "", ""), table[i].annotation);
		refused(text, table[i].want);
	}
	json_t *pod = inject(POD("kelpie.dev/gateway-cpus: '1'", "", ""));
	assert_true(noted("annotation `kelpie.dev/gateway-cpus` is not known here"));
	json_decref(pod);
	/* That it says it was injected does not make it so. */
	pod = inject(POD("kelpie.dev/injected: '999'", "", ""));
	assert_non_null(gateway_of(pod));
	json_decref(pod);
}

static void names_of_ours(void **state)
{
	(void)state;
	refused(POD("", "", "  initContainers: [{name: kelpie-gateway}]\n"),
		"a container `kelpie-gateway` that Kelpie did not make");
	refused(POD("kelpie.dev/injected: '1'", "}, {name: kelpie-gateway", ""),
		"a container `kelpie-gateway` that Kelpie did not make");
	refused(POD("", "", "  volumes: [{name: kelpie-state}]\n"),
		"a volume `kelpie-state` that Kelpie did not make");
}

static void shapes(void **state)
{
	(void)state;
	static const struct {
		const char *text, *want;
	} table[] = { { "spec: []", "`spec`: expected an object" },
		{ "spec: {containers: {}}", "`spec.containers`: expected a list" },
		{ "spec: {containers: [x]}", "`spec.containers[0]`: expected an object" },
		{ "spec: {containers: [{name: a}], volumes: x}",
			"`spec.volumes`: expected a list" },
		{ "spec: {containers: [{name: a}], initContainers: [1]}",
			"`spec.initContainers[0]`" } };
	for (size_t i = 0; i < KP_LEN(table); i++) {
		char text[300];
		snprintf(text, sizeof(text), "metadata: {labels: {kelpie.dev/engine: demo}}\n%s",
			table[i].text);
		refused(text, table[i].want);
	}
	/* Whatever stands where lists and objects are expected deeper down: no crash. */
	static const char *const odd[] = { "lifecycle: {preStop: 1}",
		"lifecycle: {preStop: {exec: {command: x}}}", "volumeMounts: [1, {}]",
		"ports: [1, {}]", "ports: 1", "resources: 1",
		"resources: {limits: [], requests: 1}", "resources: {limits: {cpu: 4, memory: 1}}",
		"lifecycle: {preStop: {sleep: {seconds: -1}}}",
		"lifecycle: {preStop: {sleep: {seconds: x}}}" };
	for (size_t i = 0; i < KP_LEN(odd); i++) {
		char text[300];
		snprintf(text, sizeof(text), POD("", "%s", ""), odd[i]);
		json_decref(inject(text));
	}
	refused(POD("", "volumeMounts: {}", ""), "the engine's `volumeMounts`: expected a list");
	refused(POD("", "lifecycle: 1", ""), "the engine's `lifecycle`: expected an object");
	json_decref(inject(
		"metadata: {labels: {kelpie.dev/engine: demo}, annotations: null}\nspec: {os: 1, securityContext: 1, hostNetwork: x, containers: [{name: a}], volumes: null, readinessGates: null, initContainers: null}"));
	refused("metadata: {labels: {kelpie.dev/engine: demo}, annotations: []}\nspec: {containers: [{name: a}]}",
		"`metadata.annotations`: expected an object");
}

static void clusters(void **state)
{
	(void)state;
	json_t *pod = yaml(POD("", "", ""));
	struct kp_inject_settings s = kp_inject_defaults();
	s.kubernetes_minor = 28;
	assert_null(inject_with(pod, &plain, &s));
	assert_int_equal(err.code, KP_FAILED_PRECONDITION);
	assert_true(kp_str_has(
		kp_str_c(err.msg), KP_S("native sidecars need Kubernetes 1.29, this is 1.28")));
	s.kubernetes_minor = 31;
	json_decref(inject_with(pod, &plain, &s));
	assert_true(noted("126543"));
	s.kubernetes_minor = 34;
	json_decref(inject_with(pod, &plain, &s));
	assert_int_equal(notes.n, 0);
	json_decref(pod);
	refused(POD("", "", "  os: {name: windows}\n"), "does not run on windows");
}

static void mode_node(void **state)
{
	(void)state;
	struct kp_inference_engine_spec e = engine_spec;
	e.gateway.mode = KP_INFERENCE_ENGINE_GATEWAY_MODE_NODE;
	json_t *sidecar = inject_engine(POD("kelpie.dev/gateway-mode: Sidecar", "", ""), &e, NULL);
	assert_non_null(gateway_of(sidecar));
	json_t *pod = inject_engine(POD("", "ports: [{containerPort: 9092}]", ""), &e, NULL);
	assert_null(gateway_of(pod));
	assert_null(kp_doc_at(pod, "spec.volumes"));
	path_is(pod, "spec.readinessGates", "[{\"conditionType\":\"kelpie.dev/routable\"}]");
	is(kp_doc_at(engine_of(pod), "lifecycle.preStop"), "{\"sleep\":{\"seconds\":30}}");
	json_decref(pod);
	/* A template that was injected for the other mode: what was for that is gone. */
	json_object_del(
		kp_unconst(kp_doc_at(sidecar, "metadata.annotations")), "kelpie.dev/gateway-mode");
	struct kp_inject_settings s = kp_inject_defaults();
	const struct kp_inject_engine known = { .engine = &e };
	json_t *again = inject_with(sidecar, &known, &s);
	assert_null(gateway_of(again));
	path_is(again, "spec.volumes", "[]");
	is(kp_doc_at(engine_of(again), "volumeMounts"), "[]");
	is(kp_doc_at(engine_of(again), "lifecycle.preStop"), "{\"sleep\":{\"seconds\":30}}");
	s.kubernetes_minor = 29;
	pod = yaml(POD("", "", ""));
	json_t *old = inject_with(pod, &known, &s);
	assert_null(json_object_get(engine_of(old), "lifecycle"));
	assert_true(noted("needs Kubernetes 1.30"));
	json_decref(pod);
	json_decref(old);
	json_decref(again);
	json_decref(sidecar);
}

/* Where the node's gateway can be asked, the hook asks it, by a key that is the pod's for ever. */
static void the_node_is_asked(void **state)
{
	(void)state;
	struct kp_inference_engine_spec e = { .engine = { .port = 50051 },
		.gateway = { .mode = KP_INFERENCE_ENGINE_GATEWAY_MODE_NODE },
		.drain = { .budget_seconds = 40 } };
	struct kp_inject_engine known = {
		.engine = &e, .node_gateway = KP_S("10.96.0.7"), .key = KP_S("key-1")
	};
	struct kp_inject_settings s = kp_inject_defaults();
	s.kubernetes_minor = 29; /* no sleep is needed */
	static const struct {
		const char *lifecycle, *path;
	} table[] = {
		{ "", "/drained?pod=key-1&budget=40" },
		{ "lifecycle: {preStop: {sleep: {seconds: 7}}}",
			"/drained?pod=key-1&budget=40&min=7" },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		char text[300], hook[200];
		snprintf(text, sizeof(text), POD("", "%s", ""), table[i].lifecycle);
		snprintf(hook, sizeof(hook),
			"{\"httpGet\":{\"host\":\"10.96.0.7\",\"path\":\"%s\",\"port\":9092}}",
			table[i].path);
		json_t *pod = yaml(text), *made = inject_with(pod, &known, &s);
		is(kp_doc_at(engine_of(made), "lifecycle.preStop"), hook);
		assert_str_lit(kp_doc_str(kp_doc_at(made, "metadata.annotations"), KP_INJECT_KEY),
			"key-1");
		assert_int_equal(notes.n, 0);
		struct kp_inject_engine other = known;
		other.key = KP_S("key-2");
		json_t *again = inject_with(made, &other, &s);
		assert_true(json_equal(made, again));
		json_decref(pod);
		json_decref(made);
		json_decref(again);
	}
	/* By hand first, where nothing is known of a cluster: that hook sleeps for the budget, which is no wish of anybody's. */
	const struct kp_inject_engine by_hand = { .engine = &e };
	s.kubernetes_minor = 0;
	json_t *pod = yaml(POD("", "", "")), *first = inject_with(pod, &by_hand, &s);
	is(kp_doc_at(engine_of(first), "lifecycle.preStop"), "{\"sleep\":{\"seconds\":40}}");
	json_t *then = inject_with(first, &known, &s);
	assert_str_lit(kp_doc_str(kp_doc_at(engine_of(then), "lifecycle.preStop.httpGet"), "path"),
		"/drained?pod=key-1&budget=40");
	json_decref(pod);
	json_decref(first);
	json_decref(then);
	assert_null(inject(POD("kelpie.dev/drain-key: 'a b'", "", "")));
	assert_non_null(strstr(err.msg,
		"`kelpie.dev/drain-key`: expected 64 letters, digits and `-` at most, got `a b`"));
}

/* A template that was injected, and then was changed by hand: as if the plain one had been injected. */
static void what_is_not_wanted_any_more(void **state)
{
	(void)state;
	static const struct {
		const char *before, *after;
	} table[] = {
		{ "kelpie.dev/log-level: debug", "" },
		{ "kelpie.dev/gateway-cpu-limit: '2'", "" },
		{ "kelpie.dev/shm: Share", "kelpie.dev/shm: None" },
		{ "kelpie.dev/probe-port: '9999'", "" },
		{ "kelpie.dev/gateway-mode: Node", "kelpie.dev/gateway-mode: Sidecar" },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		char text[600];
		snprintf(text, sizeof(text), POD("%s", "", ""), table[i].before);
		json_t *first = inject(text);
		snprintf(text, sizeof(text), POD("%s", "", ""), table[i].after);
		json_t *plain_pod = yaml(text), *want = inject(text);
		json_t *annotations = json_deep_copy(kp_doc_at(plain_pod, "metadata.annotations"));
		json_object_set_new(annotations, "kelpie.dev/injected", json_string("0.0.1"));
		json_object_set_new(json_object_get(first, "metadata"), "annotations", annotations);
		struct kp_inject_settings s = kp_inject_defaults();
		json_t *got = inject_with(first, &plain, &s);
		assert_true(json_equal(gateway_of(got), gateway_of(want)));
		assert_true(json_equal(kp_doc_at(got, "metadata"), kp_doc_at(want, "metadata")));
		assert_int_equal(json_array_size(kp_doc_at(got, "spec.volumes")),
			json_array_size(kp_doc_at(want, "spec.volumes")));
		json_decref(first);
		json_decref(plain_pod);
		json_decref(want);
		json_decref(got);
	}
	/* What others added to its environment stays, the mounts of others do not. */
	json_t *pod = inject(POD("", "", "")),
	       *env = json_object_get(kp_unconst(gateway_of(pod)), "env");
	json_array_append_new(env, yaml("{name: OTEL, value: x}"));
	struct kp_inject_settings s = kp_inject_defaults();
	json_t *again = inject_with(pod, &plain, &s);
	assert_true(json_equal(pod, again));
	json_decref(again);
	json_decref(pod);
}

static void an_engine_that_is_not_there(void **state)
{
	(void)state;
	json_t *pod = inject_engine(POD("", "", ""), NULL, NULL);
	assert_non_null(gateway_of(pod));
	assert_true(noted("there is no InferenceEngine `demo` yet"));
	json_decref(pod);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = { T(opting_in), T(a_plain_pod), T(security),
		T(order_of_init_containers), T(hooks), T(grace), T(shared_memory),
		T(networks_of_the_node), T(resources), T(resources_of_the_engine), T(ports),
		T(which_container), T(hostile_annotations), T(names_of_ours), T(shapes),
		T(clusters), T(mode_node), T(the_node_is_asked), T(what_is_not_wanted_any_more),
		T(an_engine_that_is_not_there) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
