/* What earlier versions wrote is read today: each folder tests/corpus/control-v*, made by
   tests/tools/control_corpus at that tag and never changed. */
#include "tests/unit/control/common.h"
#include "control/last_good.h"
#include "base/fs.h"

#include <dirent.h>

#define CORPUS "tests/corpus"

static kp_str load(const char *folder, const char *name, struct kp_arena *arena)
{
	char path[512];
	struct kp_err err = KP_ERR_INIT;
	struct kp_buf b;
	kp_str s = KP_STR_NULL;
	kp_buf_init(&b, 1 << 20);
	snprintf(path, sizeof(path), CORPUS "/%s/%s.bin", folder, name);
	int r = kp_fs_read(path, &b, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	assert_int_equal(kp_arena_dup(arena, kp_buf_str(&b), &s, &err), 0);
	kp_buf_fini(&b);
	return s;
}

static struct kp_gateway_message to_operator(
	const char *folder, const char *name, struct kp_arena *arena)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_gateway_message m;
	int r = kp_control_read_to_operator(load(folder, name, arena), arena, &m, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	return m;
}
static struct kp_operator_message to_gateway(
	const char *folder, const char *name, struct kp_arena *arena)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_operator_message m;
	int r = kp_control_read_to_gateway(load(folder, name, arena), arena, &m, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	return m;
}

static void take(struct kp_follower *f, const struct kp_operator_message *m)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_offer o;
	assert_int_equal(m->type, KP_OPERATOR_PROGRAM);
	int r = kp_follower_check(f, &m->program, 0, &o, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	kp_follower_commit(f, &o);
	kp_offer_fini(&o);
}

static void check_messages(const char *folder, struct kp_arena *arena)
{
	struct kp_gateway_message m = to_operator(folder, "hello", arena);
	assert_int_equal(m.type, KP_GATEWAY_HELLO);
	assert_int_equal(m.hello.protocol, 1);
	assert_str_lit(m.hello.features[0], "delta");
	assert_str_lit(m.hello.id, "gw-a");
	assert_str_lit(m.hello.ns, "default");
	assert_str_lit(m.hello.peer, "10.0.0.1:8443");
	assert_str_lit(m.hello.node, "node-1");
	assert_str_lit(m.hello.admin, "127.0.0.1:9090");
	assert_str_lit(m.hello.own[0], "default/demo");
	assert_int_equal(m.hello.revision.n, 2);
	assert_int_equal(m.hello.epoch_seen, 1764445926123);
	assert_int_equal(m.hello.epoch_age_ms, 1500);
	assert_int_equal(m.hello.n_known, 2);
	assert_str_lit(m.hello.known[1].own[1], "default/other/1");
	m = to_operator(folder, "ack", arena);
	assert_int_equal(m.type, KP_GATEWAY_ACK);
	assert_int_equal(m.ack.epoch, 1764445926123);
	m = to_operator(folder, "nack", arena);
	assert_int_equal(m.type, KP_GATEWAY_NACK);
	assert_str_lit(m.nack.reason, "unknown_base");
	m = to_operator(folder, "report", arena);
	assert_int_equal(m.type, KP_GATEWAY_REPORT);
	assert_int_equal(m.report.n_endpoints, 2);
	assert_str_lit(m.report.endpoints[1].reason, "connection refused");
	assert_true(m.report.draining);
	assert_int_equal(m.report.tokens, 25600);
	struct kp_operator_message o = to_gateway(folder, "welcome", arena);
	assert_int_equal(o.type, KP_OPERATOR_WELCOME);
	assert_int_equal(o.welcome.epoch, 1764445926123);
	assert_int_equal(o.welcome.report_interval_ms, 2000);
}

static void check_program(const struct kp_items *items)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_program *p = NULL;
	assert_int_equal(kp_items_to_program(items, KP_S("default"), &p, &err), 0);
	assert_int_equal(p->n_engines, 2);
	assert_int_equal(p->pools[0].target_ports[1], 8081);
	assert_str_lit(p->engines[0].aliases[0], "small");
	assert_str_lit(p->engines[0].endpoints[0].owner->id, "gw-a");
	assert_int_equal(p->engines[1].protocol, KP_PROTOCOL_SGLANG);
	assert_str_lit(p->engines[1].tokenizer_path, "/models/smollm2");
	assert_str_lit(p->engines[1].endpoints[0].address, "[fd00::7]:50051");
	assert_null(p->engines[1].endpoints[1].owner);
	assert_str_lit(p->gateways[1].peer, "[fd00::2]:8443");
	kp_program_destroy(p);
}

static void check(const char *folder)
{
	struct kp_follower f;
	struct kp_err err = KP_ERR_INIT;
	struct kp_revision r;
	struct kp_items *items = NULL;
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(16 << 20);
	print_message("# %s\n", folder);
	check_messages(folder, arena);
	kp_follower_init(&f, KP_S("default"));
	struct kp_operator_message m = to_gateway(folder, "full", arena);
	take(&f, &m);
	m = to_gateway(folder, "delta", arena);
	take(&f, &m);
	check_program(f.items);
	assert_int_equal(
		kp_last_good_decode(load(folder, "last-good", arena), &r, &items, &err), 0);
	assert_memory_equal(&r, &f.revision, sizeof(r));
	assert_true(kp_items_same(items, f.items));
	kp_items_unref(items);
	kp_follower_fini(&f);
}

static void test_corpora(void **state)
{
	(void)state;
	DIR *d = opendir(CORPUS);
	const struct dirent *e;
	size_t n = 0;
	assert_non_null(d);
	while ((e = readdir(d))) {
		if (kp_str_starts(kp_str_c(e->d_name), KP_S("control-v"))) {
			check(e->d_name);
			n++;
		}
	}
	closedir(d);
	assert_true(n >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_corpora) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
