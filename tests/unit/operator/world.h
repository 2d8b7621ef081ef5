/* A status with something of everything, for the tests of what is printed from it. */
#ifndef KP_TESTS_OPERATOR_WORLD_H
#define KP_TESTS_OPERATOR_WORLD_H

#include "operator/status/status.h"

/* 2026-11-29T16:12:06Z */
#define WORLD_NOW INT64_C(1795968726000000000)
#define AGO(s)    (WORLD_NOW - (s)*INT64_C(1000000000))

/* `odd` stands in every string that comes from outside. */
static struct kp_status *world(kp_str odd)
{
	struct kp_status *s = kp_status_create();
	struct kp_arena *a = s->arena;
	static const uint16_t ports[] = { 8080, 8081 };
	kp_str *strs = kp_arena_xalloc(a, 2 * sizeof(*strs));
	strs[0] = odd;
	strs[1] = KP_S("second");

	struct kp_status_program *program = kp_arena_new(a, struct kp_status_program);
	*program = (struct kp_status_program){ .ns = odd,
		.revision = { 1795960000000, 7, KP_S("ab12") },
		.since_ns = AGO(60),
		.gateways = 2,
		.acked = 1 };
	struct kp_status_condition *c = kp_arena_xalloc(a, 2 * sizeof(*c));
	c[0] = (struct kp_status_condition){ .type = KP_S("Ready"),
		.status = KP_S("False"),
		.reason = KP_S("NoEndpoints"),
		.message = odd,
		.last_transition_ns = AGO(3600),
		.observed_generation = 3 };
	c[1] = (struct kp_status_condition){
		.type = KP_S("Reconciling"), .status = KP_S("True"), .reason = KP_S("Waiting")
	};
	struct kp_status_pool *pool = kp_arena_new(a, struct kp_status_pool);
	*pool = (struct kp_status_pool){ .ns = odd,
		.name = odd,
		.target_ports = ports,
		.n_target_ports = 2,
		.conditions = c,
		.n_conditions = 1 };
	struct kp_status_endpoint *e = kp_arena_xalloc(a, 2 * sizeof(*e));
	e[0] = (struct kp_status_endpoint){ .index = 0,
		.address = odd,
		.owner = odd,
		.state = KP_S("routable"),
		.since_ns = AGO(10),
		.model = odd,
		.in_flight = 3,
		.running = 2,
		.waiting = 1,
		.kv_usage = 0.25 };
	e[1] = (struct kp_status_endpoint){
		.index = 1, .address = KP_S("[::1]:50051"), .state = odd, .reason = odd
	};
	struct kp_status_engine *engine = kp_arena_new(a, struct kp_status_engine);
	*engine = (struct kp_status_engine){ .ns = odd,
		.name = odd,
		.pool = odd,
		.model = odd,
		.aliases = strs,
		.n_aliases = 2,
		.protocol = KP_S("vllm"),
		.tokenizer = odd,
		.generation = 3,
		.conditions = c,
		.n_conditions = 2,
		.endpoints = e,
		.n_endpoints = 2 };
	struct kp_status_gateway *g = kp_arena_xalloc(a, 2 * sizeof(*g));
	g[0] = (struct kp_status_gateway){ .id = odd,
		.ns = odd,
		.node = odd,
		.peer_address = odd,
		.admin_address = odd,
		.version = odd,
		.is_connected = true,
		.since_ns = AGO(7200),
		.revision = { 1795960000000, 6, KP_S("cd34") },
		.acked_ns = AGO(100),
		.nack_reason = odd,
		.nack_message = odd,
		.state_error = odd,
		.own = strs,
		.n_own = 2,
		.is_draining = true,
		.in_flight = 4,
		.requests = 123456789012,
		.errors = 5,
		.tokens = 6 };
	g[1] = (struct kp_status_gateway){ .id = KP_S("gw-b"), .is_current = true };
	s->id = odd;
	s->version = odd;
	s->epoch = 1795960000000;
	s->started_ns = AGO(100000);
	s->not_ready = odd;
	s->manifests_path = odd;
	s->manifests_ns = AGO(120);
	s->manifest_errors = strs;
	s->n_manifest_errors = 2;
	s->programs = program;
	s->pools = pool;
	s->engines = engine;
	s->n_programs = s->n_pools = s->n_engines = 1;
	s->gateways = g;
	s->n_gateways = 2;
	return s;
}

#endif
