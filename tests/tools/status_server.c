/* The operator's status listener with a made-up status, for tests of the page and of kubectl-kelpie. Prints
   its port; each line on standard input sets one word of the status, shows it anew and is answered by one: "state down",
   "reason TEXT", "message TEXT" (of a condition), "model NAME", "error TEXT" (of the manifests; nothing:
   none), "not-ready TEXT", "admin HOST:PORT" (of the gateways), "gateways N". Ends with its input. */
#include "base/clock.h"
#include "operator/status/listener.h"

#include <signal.h>
#include <stdio.h>

static char state[64] = "routable", reason[4096], message[4096], model[4096] = "smollm2-135m",
	    error[4096], not_ready[4096], admin[256] = "127.0.0.1:9090", gateways[16] = "2";

static const struct {
	const char *name;
	char *value;
	size_t size;
} words[] = { { "state ", state, sizeof(state) }, { "reason ", reason, sizeof(reason) },
	{ "message ", message, sizeof(message) }, { "model ", model, sizeof(model) },
	{ "error ", error, sizeof(error) }, { "not-ready ", not_ready, sizeof(not_ready) },
	{ "admin ", admin, sizeof(admin) }, { "gateways ", gateways, sizeof(gateways) } };

static bool set(kp_str line)
{
	for (size_t i = 0; i < KP_LEN(words); i++) {
		if (kp_str_starts(line, kp_str_c(words[i].name))) {
			kp_str v = kp_str_skip(line, strlen(words[i].name));
			snprintf(words[i].value, words[i].size, "%" KP_FMT, KP_ARG(v));
			return true;
		}
	}
	return false;
}

static kp_str copy(struct kp_arena *a, const char *z)
{
	return kp_str_c(kp_arena_strz(a, kp_str_c(z)));
}

static void add_gateways(struct kp_status *s, const struct kp_status_revision *r, int64_t now)
{
	uint64_t n = 0;
	if (!kp_str_u64(kp_str_c(gateways), 100000, &n)) {
		n = 2;
	}
	struct kp_status_gateway *g = kp_arena_xalloc(s->arena, n * sizeof(*g));
	for (uint64_t i = 0; i < n; i++) {
		g[i] = (struct kp_status_gateway){ .id = kp_arena_printf(s->arena, "gw-%c%llu",
							   i % 2 ? 'b' : 'a',
							   (unsigned long long)i),
			.ns = KP_S("default"),
			.node = KP_S("node-1"),
			.peer_address = KP_S("127.0.0.1:8443"),
			.admin_address = copy(s->arena, admin),
			.version = KP_S("0.2.0"),
			.is_connected = true,
			.since_ns = now - 300 * KP_NS_PER_S,
			.revision = *r,
			.is_current = true,
			.requests = 1234 };
	}
	s->gateways = g;
	s->n_gateways = n;
}

static struct kp_status *make(int64_t started)
{
	static const uint16_t ports[] = { 8080 };
	struct kp_status *s = kp_status_create();
	struct kp_arena *a = s->arena;
	int64_t now = kp_wall_ns();
	const struct kp_status_revision r = { (uint64_t)(started / KP_NS_PER_MS), 7,
		KP_S("3f9a01c2d4e5f60718293a4b5c6d7e8f") };
	struct kp_status_condition *c = kp_arena_xalloc(a, 2 * sizeof(*c));
	struct kp_status_endpoint *e = kp_arena_xalloc(a, 2 * sizeof(*e));
	struct kp_status_engine *engine = kp_arena_new(a, struct kp_status_engine);
	struct kp_status_pool *pool = kp_arena_new(a, struct kp_status_pool);
	struct kp_status_program *program = kp_arena_new(a, struct kp_status_program);
	kp_str *errors = kp_arena_new(a, kp_str);
	bool is_routable = strcmp(state, "routable") == 0;
	c[0] = (struct kp_status_condition){ KP_S("Ready"),
		is_routable ? KP_S("True") : KP_S("False"),
		is_routable ? KP_S("Routable") : KP_S("NoEndpoint"), copy(a, message),
		now - 90 * KP_NS_PER_S, 1 };
	c[1] = (struct kp_status_condition){ KP_S("Stalled"), KP_S("False"), KP_S("NotStalled"),
		KP_S(""), now - 3700 * KP_NS_PER_S, 1 };
	e[0] = (struct kp_status_endpoint){ .address = KP_S("127.0.0.1:50051"),
		.owner = KP_S("gw-a0"),
		.state = copy(a, state),
		.reason = copy(a, reason),
		.since_ns = now - 90 * KP_NS_PER_S,
		.in_flight = 3,
		.running = 2,
		.waiting = 1,
		.kv_usage = 0.37 };
	e[1] = (struct kp_status_endpoint){ .index = 1,
		.address = KP_S("127.0.0.1:50052"),
		.owner = KP_S("gw-b1"),
		.state = KP_S("routable"),
		.since_ns = now - 30000 * KP_NS_PER_S };
	*engine = (struct kp_status_engine){ .ns = KP_S("default"),
		.name = KP_S("demo"),
		.pool = KP_S("demo"),
		.model = copy(a, model),
		.protocol = KP_S("vllm"),
		.tokenizer = KP_S("Engine"),
		.generation = 1,
		.conditions = c,
		.n_conditions = 2,
		.endpoints = e,
		.n_endpoints = 2 };
	*pool = (struct kp_status_pool){ .ns = KP_S("default"),
		.name = KP_S("demo"),
		.target_ports = ports,
		.n_target_ports = 1 };
	*program = (struct kp_status_program){ KP_S("default"), r, now - 300 * KP_NS_PER_S, 2, 2 };
	*errors = copy(a, error);
	s->id = KP_S("kelpie-operator");
	s->version = KP_S("0.2.0");
	s->epoch = r.epoch;
	s->started_ns = started;
	s->not_ready = copy(a, not_ready);
	s->manifests_path = KP_S("pool.yaml");
	s->manifests_ns = now - 400 * KP_NS_PER_S;
	s->manifest_errors = errors;
	s->n_manifest_errors = error[0] ? 1 : 0;
	s->programs = program;
	s->pools = pool;
	s->engines = engine;
	s->n_programs = s->n_pools = s->n_engines = 1;
	add_gateways(s, &r, now);
	return s;
}

int main(int argc, char **argv)
{
	struct kp_metrics *metrics = kp_metrics_create();
	struct kp_status_listener *l = NULL;
	struct kp_err err;
	char line[8192];
	int64_t started = kp_wall_ns() - 100000 * KP_NS_PER_S;
	signal(SIGPIPE, SIG_IGN);
	if (kp_status_listener_start(argc > 1 ? argv[1] : "127.0.0.1:0", metrics, &l, &err)) {
		fprintf(stderr, "status_server: %s\n", err.msg);
		return 1;
	}
	kp_status_listener_publish(l, make(started));
	printf("%d\n", kp_status_listener_port(l));
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		kp_str text = kp_str_c(line);
		text.n -= kp_str_ends(text, KP_S("\n"));
		if (!set(text)) {
			fprintf(stderr, "status_server: what is `%s`?\n", line);
			return 1;
		}
		kp_status_listener_publish(l, make(started));
		printf("published\n");
		fflush(stdout);
	}
	kp_status_listener_stop(l);
	kp_metrics_destroy(metrics);
	return 0;
}
