/* Fuzz target: what gateways say of themselves and of others, message after message (two bytes of length, low
   first, before each). Whatever the operator takes of it, the program that it plans with it must be one
   that gateways take. */
#include "control/program.h"
#include "operator/control/gateways.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char manifest[] =
	"apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: p}\n"
	"spec: {selector: {matchLabels: {app: x}}, targetPorts: [{number: 8080}], "
	"endpointPickerRef: {name: e, port: {number: 1}}}\n---\n"
	"apiVersion: kelpie.dev/v1alpha1\nkind: InferenceEngine\nmetadata: {name: demo}\n"
	"spec:\n  poolRef: {name: p}\n  model: {name: m}\n  engine: {type: vllm}\n"
	"  endpoints: [{address: 127.0.0.1, port: 1}, {address: 127.0.0.1, port: 2}]\n";

static const struct kp_intent *intent(void)
{
	static struct kp_intent *made;
	const struct kp_manifest_file file = { "p.yaml", { manifest, sizeof(manifest) - 1 } };
	struct kp_object_set set = { 0 };
	struct kp_problems problems;
	struct kp_err err = KP_ERR_INIT;
	if (made) {
		return made;
	}
	kp_problems_init(&problems);
	KP_BUG_ON(kp_manifest_parse(&file, 1, KP_S("default"), &set, &problems, &err) < 0);
	KP_BUG_ON(kp_intent_build(&set, &problems, &made, &err) < 0);
	kp_object_set_fini(&set);
	kp_problems_fini(&problems);
	return made;
}

static void take(struct kp_gateways *g, struct kp_gateway_record **r, kp_str bytes, int64_t now)
{
	struct kp_gateway_message m;
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(16 << 20);
	if (kp_control_read_to_operator(bytes, a, &m, &err) < 0) {
		return;
	}
	if (m.type == KP_GATEWAY_HELLO) {
		if (kp_hello_check(&m.hello, false, NULL, 0, UINT64_MAX, &err) == 0) {
			KP_BUG_ON(kp_gateways_hello(g, &m.hello, now, now, r, &err) < 0);
		}
	} else if (*r && m.type == KP_GATEWAY_REPORT) {
		(void)kp_gateways_report(g, *r, &m.report);
		KP_BUG_ON(!kp_report_same(&(*r)->report, &m.report)); /* small enough here */
	} else if (*r && m.type == KP_GATEWAY_NACK) {
		kp_gateway_answered(*r, &m.nack, now);
	} else if (*r && m.type == KP_GATEWAY_ACK && m.ack.n % 2) {
		kp_gateway_lost(*r, now, now);
		*r = NULL;
	}
}

static void plan(struct kp_gateways *g, int64_t now)
{
	struct kp_plan *plan = NULL;
	struct kp_program *program = NULL;
	struct kp_err err = KP_ERR_INIT;
	size_t n;
	kp_gateways_settle(g, now);
	struct kp_plan_gateway *list = kp_gateways_list(g, &n);
	KP_BUG_ON(kp_plan_make(intent(), NULL, list, n, now, NULL, &plan, &err) < 0);
	KP_BUG_ON(kp_items_to_program(plan->namespaces[0].items, KP_S("default"), &program, &err) <
		  0);
	kp_program_destroy(program);
	kp_plan_destroy(plan);
	kp_mem_free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_gateways g;
	struct kp_gateway_record *r = NULL;
	kp_gateways_init(&g, 0);
	for (size_t i = 0; size >= 2 && i < 64; i++) {
		size_t n = KP_MIN((size_t)data[0] | (size_t)data[1] << 8, size - 2);
		int64_t now = (int64_t)i * KP_NS_PER_S;
		take(&g, &r, kp_str_n(data + 2, n), now);
		plan(&g, now);
		data += 2 + n;
		size -= 2 + n;
	}
	kp_gateways_fini(&g);
	return 0;
}
