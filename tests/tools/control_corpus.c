/* control_corpus DIR: writes one message of each kind of the control protocol, and a last good program, as
   this version writes them. tests/corpus/control-vX.Y is what it wrote at that tag; tests/unit/control
   reads all of them with the code of today. */
#include "control/last_good.h"
#include "base/fs.h"

#include <stdio.h>

static const char *dir;
static struct kp_err err;

static int save(const char *name, kp_str content)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s.bin", dir, name);
	return kp_fs_write_atomic(path, content, 0644, &err);
}
static int to_operator(const char *name, const struct kp_gateway_message *m)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, KP_CONTROL_TO_OPERATOR_MAX);
	kp_control_write_to_operator(&b, m);
	return kp_buf_finish(&b, name, &err) < 0 ? -1 : save(name, kp_buf_str(&b));
}
static int to_gateway(const char *name, const struct kp_operator_message *m)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, KP_CONTROL_TO_GATEWAY_MAX);
	kp_control_write_to_gateway(&b, m);
	return kp_buf_finish(&b, name, &err) < 0 ? -1 : save(name, kp_buf_str(&b));
}

static const kp_str own_demo[] = { KP_S_INIT("default/demo") };
static const kp_str own_other[] = { KP_S_INIT("default/other/0"), KP_S_INIT("default/other/1") };
static const struct kp_program_gateway gateways[] = {
	{ KP_S_INIT("gw-a"), KP_S_INIT("10.0.0.1:8443"), KP_S_INIT("node-1"), own_demo, 1, false },
	{ KP_S_INIT("gw-b"), KP_S_INIT("[fd00::2]:8443"), KP_S_INIT(""), own_other, 2, false },
};
static const uint16_t ports[] = { 8080, 8081 };
static const struct kp_program_pool pools[] = { { KP_S_INIT("default/demo"), ports, 2 } };
static const kp_str aliases[] = { KP_S_INIT("small"), KP_S_INIT("smollm2") };
static const struct kp_program_endpoint demo_endpoints[] = {
	{ .address = KP_S_INIT("127.0.0.1:50051"), .owner = &gateways[0] },
};
static const struct kp_program_endpoint other_endpoints[] = {
	{ .address = KP_S_INIT("[fd00::7]:50051"), .owner = &gateways[1] },
	{ .address = KP_S_INIT("engine-1.example:50051") },
};
static const struct kp_program_engine engines[] = {
	{ .name = KP_S_INIT("default/demo"),
		.pool = KP_S_INIT("default/demo"),
		.model = KP_S_INIT("smollm2-135m"),
		.aliases = aliases,
		.n_aliases = 2,
		.endpoints = demo_endpoints,
		.n_endpoints = 1 },
	{ .name = KP_S_INIT("default/other"),
		.pool = KP_S_INIT("default/demo"),
		.model = KP_S_INIT("smollm2-135m"),
		.protocol = KP_PROTOCOL_SGLANG,
		.tokenizer = KP_TOKENIZER_PATH,
		.tokenizer_path = KP_S_INIT("/models/smollm2"),
		.endpoints = other_endpoints,
		.n_endpoints = 2 },
};

static struct kp_revision revision(uint64_t n, const struct kp_items *items)
{
	struct kp_revision r = { .is_set = true, .epoch = 1764445926123, .n = n };
	memcpy(r.hash, items->hash, KP_HASH_BYTES);
	return r;
}

static int programs(const struct kp_items *one, const struct kp_items *two)
{
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(1 << 20);
	struct kp_operator_message full = { .type = KP_OPERATOR_PROGRAM,
		.program = { .revision = revision(1, one),
			.delta = { .upserts = one->p, .n_upserts = one->n } } };
	struct kp_operator_message delta = { .type = KP_OPERATOR_PROGRAM,
		.program = { .revision = revision(2, two), .base = revision(1, one) } };
	struct kp_revision last = revision(2, two);
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	return kp_items_diff(one, two, arena, &delta.program.delta, &err) < 0 ||
			       to_gateway("full", &full) < 0 || to_gateway("delta", &delta) < 0 ||
			       kp_last_good_encode(&last, two, &b, &err) < 0 ||
			       save("last-good", kp_buf_str(&b)) < 0
		       ? -1
		       : 0;
}

static int messages(const struct kp_items *two)
{
	const kp_str features[] = { KP_S("delta") };
	const struct kp_endpoint_report reports[] = {
		{ KP_S("default/demo"), KP_S("127.0.0.1:50051"), KP_S("routable"), KP_S(""),
			KP_S("smollm2-135m"), 3, 2, 1, 0.5F, false, KP_S("") },
		{ .engine = KP_S("default/demo"),
			.address = KP_S("127.0.0.1:50052"),
			.state = KP_S("down"),
			.reason = KP_S("connection refused") },
	};
	const struct kp_gateway_message hello = { .type = KP_GATEWAY_HELLO,
		.hello = { KP_CONTROL_PROTOCOL, features, 1, KP_S("gw-a"), KP_S("default"),
			KP_S("10.0.0.1:8443"), KP_S("node-1"), KP_S("127.0.0.1:9090"),
			KP_S("0.2.0"), own_demo, 1, revision(2, two), 1764445926123, 1500, gateways,
			2 } };
	const struct kp_gateway_message ack = { .type = KP_GATEWAY_ACK, .ack = revision(2, two) };
	const struct kp_gateway_message nack = { .type = KP_GATEWAY_NACK,
		.nack = { revision(2, two), KP_S(KP_NACK_UNKNOWN_BASE),
			KP_S("it changes 1764445926123.1, but none is what runs") } };
	const struct kp_gateway_message report = { .type = KP_GATEWAY_REPORT,
		.report = { reports, 2, true, 4, 100, 2, 25600, KP_S("no space left") } };
	const struct kp_operator_message welcome = { .type = KP_OPERATOR_WELCOME,
		.welcome = { KP_CONTROL_PROTOCOL, features, 1, KP_S("kelpie-operator"),
			1764445926123, 2000 } };
	return to_operator("hello", &hello) < 0 || to_operator("ack", &ack) < 0 ||
			       to_operator("nack", &nack) < 0 ||
			       to_operator("report", &report) < 0 ||
			       to_gateway("welcome", &welcome) < 0
		       ? -1
		       : 0;
}

int main(int argc, char **argv)
{
	struct kp_program p = { .pools = pools,
		.n_pools = 1,
		.engines = engines,
		.n_engines = 2,
		.gateways = gateways,
		.n_gateways = 2 };
	KP_AUTO(items) struct kp_items *one = NULL;
	KP_AUTO(items) struct kp_items *two = NULL;
	if (argc != 2) {
		fprintf(stderr, "usage: control_corpus DIR\n");
		return 2;
	}
	dir = argv[1];
	int r = kp_items_from_program(&p, &two, &err);
	p.n_engines = 1; /* before: without the other engine, and one gateway */
	p.n_gateways = 1;
	if (r < 0 || kp_items_from_program(&p, &one, &err) < 0 || programs(one, two) < 0 ||
		messages(two) < 0) {
		fprintf(stderr, "control_corpus: %s\n", err.msg);
		return 1;
	}
	return 0;
}
