/* Tool servers: from manifests, over the control protocol and back; what is refused. */
#include "control/tool_server.h"
#include "tests/unit/control/common.h"
#include "wire/wire.h"

#define TOOL_SERVER(name, more)                                                     \
	"apiVersion: kelpie.dev/v1alpha1\nkind: ToolServer\nmetadata: {name: " name \
	"}\nspec:\n" more "\n---\n"

static const char two[] = POOL("a", "8080") TOOL_SERVER("weather",
	"  label: weather\n  url: http://weather.default.svc:8000/mcp\n  network: Private\n"
	"  headers: [{name: X-Team, value: a}, {name: Authorization, secretKeyRef: {name: weather, key: token}}]\n"
	"  forwardHeaders: [X-User]\n  allowedTools: [get, set]\n"
	"  approval: {policy: Never, except: [set]}\n  timeouts: {callSeconds: 5}")
	TOOL_SERVER("alpha", "  label: alpha\n  url: https://alpha.example/mcp");

static void check(const struct kp_program *p)
{
	assert_int_equal(p->n_tool_servers, 2);
	const struct kp_program_tool_server *a = &p->tool_servers[0], *w = &p->tool_servers[1];
	assert_str_lit(a->name, "default/alpha");
	assert_str_lit(a->url, "https://alpha.example/mcp");
	assert_false(a->is_private || a->asks_never || a->n_headers || a->n_allowed || a->n_except);
	assert_int_equal(a->connect_s, 10);
	assert_int_equal(a->list_s, 30);
	assert_int_equal(a->call_s, 60);
	assert_int_equal(a->call_total_s, 600);
	assert_str_lit(w->label, "weather");
	assert_true(w->is_private && w->asks_never);
	assert_int_equal(w->n_headers, 2);
	assert_str_lit(w->headers[0].value, "a");
	assert_str_lit(w->headers[0].secret, "");
	assert_str_lit(w->headers[1].name, "Authorization");
	assert_str_lit(w->headers[1].value, "");
	assert_str_lit(w->headers[1].secret, "weather");
	assert_str_lit(w->headers[1].key, "token");
	assert_int_equal(w->n_forward, 1);
	assert_str_lit(w->forward[0], "X-User");
	assert_int_equal(w->n_allowed, 2);
	assert_str_lit(w->allowed[1], "set");
	assert_str_lit(w->except[0], "set");
	assert_int_equal(w->call_s, 5);
}

static void test_there_and_back(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_program *p = test_program(two), *back = NULL;
	struct kp_items *items = test_items(two, NULL, 0);
	check(p);
	assert_int_equal(kp_items_to_program(items, KP_S("default"), &back, &err), 0);
	check(back);
	kp_program_destroy(p);
	kp_program_destroy(back);
	kp_items_unref(items);
}

static void test_labels_are_one_servers(void **state)
{
	(void)state;
	static const char text[] =
		POOL("a", "8080") TOOL_SERVER("x1", "  label: same\n  url: https://a/mcp")
			TOOL_SERVER("y1", "  label: same\n  url: https://b/mcp");
	const struct kp_manifest_file file = { .name = "t.yaml", .text = kp_str_c(text) };
	struct kp_object_set set = { 0 };
	struct kp_problems problems;
	struct kp_program *p = NULL;
	struct kp_err err = KP_ERR_INIT;
	kp_problems_init(&problems);
	assert_int_equal(kp_manifest_parse(&file, 1, KP_S("default"), &set, &problems, &err), 0);
	assert_int_equal(kp_program_build(&set, KP_S("default"), &problems, &p, &err), -1);
	assert_non_null(strstr(err.msg,
		"spec.label: Invalid value: \"same\": already the label of tool server \"x1\""));
	kp_object_set_fini(&set);
	kp_problems_fini(&problems);
}

/* The same, said by an operator. */
static void test_labels_of_a_program(void **state)
{
	(void)state;
	struct kp_item list[2];
	struct kp_buf values[2];
	struct kp_items *items;
	struct kp_program *p = NULL;
	struct kp_err err = KP_ERR_INIT;
	for (size_t i = 0; i < 2; i++) {
		const struct kp_program_tool_server t = { .name = i ? KP_S("default/b")
								    : KP_S("default/a"),
			.label = KP_S("same"),
			.url = KP_S("https://a/mcp") };
		kp_buf_init(&values[i], 1000);
		kp_tool_server_write(&values[i], &t);
		list[i] = (struct kp_item){
			.kind = KP_ITEM_TOOL_SERVER, .key = t.name, .value = kp_buf_str(&values[i])
		};
	}
	for (size_t n = 1; n <= 2; n++) {
		assert_int_equal(kp_items_create(list, n, &items, &err), 0);
		assert_int_equal(
			kp_items_to_program(items, KP_S("default"), &p, &err), n == 1 ? 0 : -1);
		kp_items_unref(items);
	}
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, "`default/b`: its label is another one's"));
	kp_program_destroy(p);
	kp_buf_fini(&values[0]);
	kp_buf_fini(&values[1]);
}

static void test_what_manifests_may_not_say(void **state)
{
	(void)state;
	static const char *const bad[][2] = {
		{ "  url: https://a/mcp", "spec.label: Required value" },
		{ "  label: a_b\n  url: https://a/mcp", "spec.label: Invalid value" },
		{ "  label: a\n  url: ftp://aaaa/mcp", "must begin with https:// or http://" },
		{ "  label: a\n  url: https://a/mcp\n  headers: [{name: X}]",
			"either value or secretKeyRef must be set" },
		{ "  label: a\n  url: https://a/mcp\n  headers: [{name: X, value: a, secretKeyRef: {name: a, key: b}}]",
			"either value or secretKeyRef must be set" },
		{ "  label: a\n  url: https://a/mcp\n  headers: [{name: X, secretKeyRef: {name: a, key: ../b}}]",
			"key: Invalid value" },
		{ "  label: a\n  url: https://a/mcp\n  approval: {policy: Sometimes}",
			"spec.approval.policy: Unsupported value" },
	};
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		char text[1000];
		struct kp_object_set set = { 0 };
		struct kp_problems problems;
		struct kp_err err = KP_ERR_INIT;
		snprintf(text, sizeof(text), TOOL_SERVER("x", "%s"), bad[i][0]);
		const struct kp_manifest_file file = { .name = "t.yaml", .text = kp_str_c(text) };
		kp_problems_init(&problems);
		assert_int_equal(
			kp_manifest_parse(&file, 1, KP_S("default"), &set, &problems, &err), -1);
		if (!strstr(err.msg, bad[i][1])) {
			fail_msg("%s", err.msg);
		}
		kp_object_set_fini(&set);
		kp_problems_fini(&problems);
	}
}

static void test_what_an_operator_may_not_say(void **state)
{
	(void)state;
	static const struct {
		const char *label, *url, *secret, *key;
	} bad[] = {
		{ "", "https://a", "", "" },
		{ "a\n", "https://a", "", "" },
		{ "a", "file:///etc/passwd", "", "" },
		{ "a", "https://a", "s", "" },
		{ "a", "https://a", "..", "k" },
		{ "a", "https://a", "s/t", "k" },
		{ "a", "https://a", "s", "../../k" },
	};
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		const struct kp_program_tool_header h = { .name = KP_S("X"),
			.secret = kp_str_c(bad[i].secret),
			.key = kp_str_c(bad[i].key) };
		const struct kp_program_tool_server t = { .name = KP_S("default/a"),
			.label = kp_str_c(bad[i].label),
			.url = kp_str_c(bad[i].url),
			.headers = &h,
			.n_headers = 1 };
		struct kp_arena *a = kp_arena_create(1 << 20);
		struct kp_program_tool_server got;
		struct kp_buf b;
		struct kp_err err;
		kp_buf_init(&b, 10000);
		kp_tool_server_write(&b, &t);
		assert_int_equal(kp_tool_server_read(kp_buf_str(&b), a, &got, &err), -1);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
		kp_buf_fini(&b);
		kp_arena_destroy(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_labels_are_one_servers),
		cmocka_unit_test(test_labels_of_a_program),
		cmocka_unit_test(test_what_manifests_may_not_say),
		cmocka_unit_test(test_what_an_operator_may_not_say),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
