/* The catalog of tool servers: rules for tools, values of Secrets, what counts as a change. */
#include "sidecar/control/catalog.h"
#include "tests/test.h"

#include <sys/stat.h>

static char dir[] = "/tmp/kelpie-catalog-XXXXXX";

static void put(const char *name, const char *value)
{
	char path[200];
	snprintf(path, sizeof(path), "%s/s/%s", dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(value, f);
	fclose(f);
}

static struct kp_program_tool_server server(void)
{
	static const struct kp_program_tool_header headers[] = {
		{ .name = KP_S_INIT("X"), .value = KP_S_INIT("plain") },
		{ .name = KP_S_INIT("Authorization"),
			.secret = KP_S_INIT("s"),
			.key = KP_S_INIT("token") },
	};
	static const kp_str allowed[] = { KP_S_INIT("get"), KP_S_INIT("set") },
			    except[] = { KP_S_INIT("set") };
	return (struct kp_program_tool_server){ .name = KP_S("default/a"),
		.label = KP_S("a"),
		.url = KP_S("http://a/mcp"),
		.headers = headers,
		.n_headers = 2,
		.allowed = allowed,
		.n_allowed = 2,
		.except = except,
		.n_except = 1,
		.call_s = 7 };
}

static void test_what_it_has(void **state)
{
	(void)state;
	struct kp_program_tool_server t = server();
	struct kp_program p = { .tool_servers = &t, .n_tool_servers = 1 };
	const struct kp_mcp_tool get = { .name = KP_S("get") }, set = { .name = KP_S("set") };
	put("token", "Bearer x\r\n");
	for (int never = 0; never < 2; never++) {
		t.asks_never = never;
		struct kp_tool_catalog *c = kp_tool_catalog_create(&p, dir, NULL);
		const struct kp_tool_entry *e = kp_tool_catalog_find(c, KP_S("a"));
		assert_non_null(e);
		assert_null(kp_tool_catalog_find(c, KP_S("default/a")));
		assert_null(e->why_not);
		assert_str_lit(e->config.headers[0].value, "plain");
		assert_str_lit(e->config.headers[1].value, "Bearer x");
		assert_int_equal(e->config.call_ns, INT64_C(7000000000));
		assert_false(e->config.policy.allows_private);
		assert_true(e->has_allowed && kp_mcp_filter_has(&e->allowed, &set));
		assert_int_equal(kp_mcp_needs_approval(&e->approval, &get), !never);
		assert_int_equal(kp_mcp_needs_approval(&e->approval, &set), never);
		kp_tool_catalog_unref(c);
	}
	assert_null(kp_tool_catalog_find(NULL, KP_S("a")));
}

static void test_what_is_a_change(void **state)
{
	(void)state;
	struct kp_program_tool_server t = server();
	struct kp_program p = { .tool_servers = &t, .n_tool_servers = 1 };
	put("token", "1");
	struct kp_tool_catalog *a = kp_tool_catalog_create(&p, dir, NULL),
			       *b = kp_tool_catalog_create(&p, dir, a);
	assert_true(a->has_secrets);
	assert_true(a->digest == b->digest);
	kp_tool_catalog_unref(b);
	put("token", "2");
	b = kp_tool_catalog_create(&p, dir, a);
	assert_true(a->digest != b->digest);
	kp_tool_catalog_unref(b);
	put("token", "1");
	t.is_private = true;
	b = kp_tool_catalog_create(&p, dir, a);
	assert_true(a->digest != b->digest);
	kp_tool_catalog_unref(b);
	kp_tool_catalog_unref(a);
	a = kp_tool_catalog_create(NULL, NULL, NULL);
	assert_int_equal(a->n, 0);
	kp_tool_catalog_unref(a);
}

static void test_mc_15_what_cannot_be_read(void **state)
{
	(void)state;
	struct kp_program_tool_server t = server();
	struct kp_program p = { .tool_servers = &t, .n_tool_servers = 1 };
	char large[KP_TOOL_SECRET_MAX + 2];
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	put("token", large);
	struct kp_tool_catalog *a = kp_tool_catalog_create(&p, dir, NULL),
			       *b = kp_tool_catalog_create(&p, NULL, a);
	const char *why = kp_tool_catalog_find(a, KP_S("a"))->why_not;
	assert_non_null(why);
	assert_null(strstr(why, "xxx"));
	assert_non_null(strstr(kp_tool_catalog_find(b, KP_S("a"))->why_not, "--tool-secrets"));
	KP_AUTO(buf) struct kp_buf report;
	kp_buf_init(&report, 10000);
	kp_tool_catalog_report(b, &report);
	assert_true(kp_str_starts(kp_buf_str(&report), KP_S("[-]tool server default/a (a): ")));
	kp_tool_catalog_unref(a);
	kp_tool_catalog_unref(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_it_has),
		cmocka_unit_test(test_what_is_a_change),
		cmocka_unit_test(test_mc_15_what_cannot_be_read),
	};
	char path[200];
	if (!mkdtemp(dir)) {
		return 1;
	}
	snprintf(path, sizeof(path), "%s/s", dir);
	mkdir(path, 0700);
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(path, sizeof(path), "%s/s/token", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/s", dir);
	rmdir(path);
	rmdir(dir);
	return rc;
}
