/* control-gateways ADDRESS COUNT ENDPOINTS [TLS_DIR]: plays gateways to one operator: COUNT of them for bench/control/run, those that
   `join` names for bench/operator/run (COUNT 0).

   DESIGN: each gateway has a stream of its own over a connection of its own, a follower (lib/control), a report
   timer and the back-off that the real one has. What differs is what is not the operator's: nothing is
   served, and what a program means is worked out once for all gateways that get the same bytes on top of the
   same content, since COUNT real gateways have COUNT processors.

   Gateway i is "gw-%04u" and claims its share of the endpoints, of which each engine "e%03u" has PER_ENGINE.
   In TLS_DIR, certificates for GROUP gateways each, in a folder with the first one's name. One that joins claims
   nothing: it owns what the operator says, as gateways in pods do.

   Commands are lines on standard input: `open` (all, as fast as it goes), `stats`, `record` (programs that gw-0000 gets from
   here on), `save DIR` (a welcome, the whole program at `record`, and those recorded), `join NAMESPACE ID PEER NODE`, `leave ID`,
   `acks`: the endpoints that were in a delta since the last `acks`, and when all gateways of the namespace had taken it (Unix
   time; those that are not everywhere yet wait for the next). `stats`, `save` and `acks` are answered by a line of JSON. */
#include "control/follower.h"
#include "rpc/rpc.h"
#include "base/fs.h"
#include "base/map.h"
#include "base/process.h"
#include "base/rand.h"
#include "base/vec.h"
#include "json/write.h"

#include <stdio.h>
#include <uv.h>

enum {
	PER_ENGINE = 10,
	GROUP = 20,
	STEPS = 128,
	OPEN_AT_ONCE = 4,
	CLAIM_MAX = 32,
	NAME_BYTES = 64,
	PATH_BYTES = 4096
};
#define LEAVE_NS       (300 * KP_NS_PER_MS)
#define BACKOFF_MIN_NS (100 * KP_NS_PER_MS)
#define HEALTH_NS      (20 * KP_NS_PER_MS)
#define BACKOFF_MAX_NS (5 * KP_NS_PER_S)

/* What a program means; counted. */
struct content {
	size_t refs;
	struct kp_items *items;
	struct kp_program *program;
};
/* These bytes on top of this content lead there. */
struct step {
	struct content *from, *to; /* from NULL: whatever it was */
	struct kp_buf bytes;
	struct kp_revision revision;
	bool is_full;
};
/* An endpoint that came with a delta: on its way to all gateways of its namespace. */
struct change {
	char *key;
	uint64_t n;    /* of the program it came with */
	size_t cursor; /* gateways before it have it */
	int64_t seen_wall_ns, acked_wall_ns;
};
/* A namespace. */
struct space {
	char *name;
	struct kp_revision newest;
	KP_VEC(struct change)
	changes;
	size_t n_acked; /* of changes; programs are taken in order, so these are the first */
};
struct gateway {
	struct space *space;
	struct kp_follower follower;
	struct content *content; /* of follower.items; NULL: none */
	struct kp_rpc_client *client;
	struct kp_rpc_stream *stream; /* NULL: waiting to try again */
	bool is_welcome, is_leaving;
	struct kp_timer again, report;
	int64_t backoff_ns, report_ns;
	uint64_t owns; /* what stands for the endpoints that it owns */
	uint64_t requests;
	char id[NAME_BYTES], peer[NAME_BYTES], node[NAME_BYTES];
	uint32_t first; /* of its endpoints, n_own of them */
	size_t n_own;
	char (*claims)[CLAIM_MAX];
	kp_str *own;
};
static struct {
	size_t opened, lost, refused, bad, full, full_bytes, delta, delta_bytes;
	char last_error[KP_ERR_MSG];
} counts;

static struct kp_loop *loop;
static KP_VEC(struct gateway *)
gateways;
static struct kp_map spaces, by_id;
static uint32_t n_gateways, n_endpoints; /* those of `open` */
static struct kp_rpc_client **clients;
static uint32_t n_clients;
static struct step steps[STEPS];
static size_t next_step;
static struct kp_rng rng;
static uv_pipe_t input;
static struct kp_buf commands;
static struct kp_timer opening;
static uint32_t n_dialled;

static bool is_recording;
static struct content *record_from;
static struct kp_revision record_revision;
static struct kp_buf welcome;
static KP_VEC(struct kp_buf)
recorded;

/* --- contents --- */

static struct content *content_ref(struct content *c)
{
	if (c) {
		c->refs++;
	}
	return c;
}
static void content_unref(struct content *c)
{
	if (c && --c->refs == 0) {
		kp_items_unref(c->items);
		kp_program_destroy(c->program);
		kp_mem_free(c);
	}
}

static void step_fini(struct step *s)
{
	content_unref(s->from);
	content_unref(s->to);
	kp_buf_fini(&s->bytes);
	*s = (struct step){ 0 };
}

static struct step *find_step(const struct gateway *g, kp_str bytes)
{
	for (size_t i = 0; i < STEPS; i++) {
		struct step *s = &steps[i];
		if (s->to && (s->is_full || s->from == g->content) &&
			kp_str_eq(kp_buf_str(&s->bytes), bytes)) {
			return s;
		}
	}
	return NULL;
}

static struct step *make_step(
	struct gateway *g, kp_str bytes, const struct kp_program_message *m, struct kp_err *err)
{
	struct kp_offer offer = { 0 };
	struct step *s = &steps[next_step];
	if (kp_follower_check(&g->follower, m, kp_now_ns(), &offer, err)) {
		return NULL;
	}
	next_step = (next_step + 1) % STEPS;
	step_fini(s);
	s->is_full = !m->base.is_set;
	s->from = content_ref(g->content);
	s->revision = offer.revision;
	if (offer.is_unchanged) {
		s->to = content_ref(g->content);
	} else {
		s->to = kp_new(struct content);
		*s->to = (struct content){ 1, kp_items_ref(offer.items), kp_steal(offer.program) };
	}
	kp_buf_init(&s->bytes, KP_CONTROL_TO_GATEWAY_MAX);
	kp_buf_add(&s->bytes, bytes);
	kp_offer_fini(&offer);
	return s;
}

/* --- what is sent --- */

static void say(struct gateway *g, const struct kp_gateway_message *m)
{
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, KP_CONTROL_TO_OPERATOR_MAX);
	kp_control_write_to_operator(&out, m);
	KP_BUG_ON(out.failed);
	kp_rpc_stream_send(g->stream, kp_buf_str(&out));
}

static void hello(struct gateway *g)
{
	struct kp_gateway_message m = { .type = KP_GATEWAY_HELLO,
		.hello = { .protocol = KP_CONTROL_PROTOCOL,
			.id = kp_str_c(g->id),
			.ns = kp_str_c(g->space->name),
			.peer = kp_str_c(g->peer),
			.node = kp_str_c(g->node),
			.admin = KP_S("10.0.0.1:9090"),
			.version = KP_S("bench"),
			.own = g->own,
			.n_own = g->n_own,
			.revision = g->follower.revision,
			.epoch_seen = g->follower.epoch_seen,
			.epoch_age_ms = kp_follower_age_ms(&g->follower, kp_now_ns()) } };
	if (g->content) {
		m.hello.known = g->content->program->gateways;
		m.hello.n_known = g->content->program->n_gateways;
	}
	say(g, &m);
}

/* The endpoints that it owns, all serving; their counters move, as those of a gateway at work do. */
static void on_report(struct kp_timer *t)
{
	struct gateway *g = KP_CONTAINER(t, struct gateway, report);
	struct kp_gateway_message m = { .type = KP_GATEWAY_REPORT };
	KP_VEC(struct kp_endpoint_report)
	all = { 0 };
	const struct kp_program *p = g->content ? g->content->program : NULL;
	for (size_t i = 0; p && i < p->n_engines; i++) {
		const struct kp_program_engine *e = &p->engines[i];
		for (size_t k = 0; k < e->n_endpoints; k++) {
			const struct kp_program_gateway *owner = e->endpoints[k].owner;
			if (owner && kp_str_eq(owner->id, kp_str_c(g->id))) {
				const struct kp_endpoint_report one = { .engine = e->name,
					.address = e->endpoints[k].address,
					.state = KP_S("routable"),
					.model = e->model,
					.in_flight = 3,
					.running = 2,
					.waiting = 1,
					.kv_usage = 0.5F };
				kp_vec_push(&all, one);
			}
		}
	}
	g->requests += 7;
	m.report = (struct kp_report){ .endpoints = all.p,
		.n_endpoints = all.n,
		.in_flight = 3,
		.requests = g->requests,
		.tokens = g->requests * 200 };
	say(g, &m);
	kp_vec_fini(&all);
	kp_timer_start(loop, t, kp_loop_now(loop) + g->report_ns, on_report);
}

/* --- what comes --- */

static bool is_current(const struct gateway *g)
{
	const struct kp_revision *r = &g->follower.revision, *newest = &g->space->newest;
	return g->is_welcome && newest->is_set && r->epoch == newest->epoch && r->n == newest->n;
}

static void note_changes(struct space *s, const struct kp_program_message *m)
{
	for (size_t i = 0; i < m->delta.n_upserts; i++) {
		const struct kp_item *item = &m->delta.upserts[i];
		const struct change *last = s->changes.n ? kp_vec_last(&s->changes) : NULL;
		if (item->kind == KP_ITEM_ENDPOINT && (!last || last->n <= m->revision.n)) {
			const struct change one = { .key = kp_str_z(item->key),
				.n = m->revision.n,
				.seen_wall_ns = kp_wall_ns() };
			kp_vec_push(&s->changes, one);
		}
	}
}

/* One of its gateways took a program, or went. */
static void look_at_changes(struct space *s)
{
	for (; s->n_acked < s->changes.n; s->n_acked++) {
		struct change *c = &s->changes.p[s->n_acked];
		for (; c->cursor < gateways.n; c->cursor++) {
			const struct gateway *g = gateways.p[c->cursor];
			if (g && g->space == s && g->is_welcome && !g->is_leaving &&
				g->follower.revision.n < c->n) {
				return;
			}
		}
		c->acked_wall_ns = kp_wall_ns();
	}
}

static void on_welcome(struct gateway *g, kp_str bytes, const struct kp_welcome *w)
{
	g->is_welcome = true;
	g->backoff_ns = BACKOFF_MIN_NS;
	g->report_ns = w->report_interval_ms * KP_NS_PER_MS;
	kp_follower_connected(&g->follower, w->epoch, kp_now_ns());
	kp_timer_start(loop, &g->report, kp_loop_now(loop), on_report);
	kp_buf_reset(&welcome);
	kp_buf_add(&welcome, bytes);
}

static void refuse(struct gateway *g, const struct kp_program_message *m, const struct kp_err *err)
{
	counts.refused++;
	snprintf(counts.last_error, sizeof(counts.last_error), "%s", err->msg);
	say(g, &(struct kp_gateway_message){ .type = KP_GATEWAY_NACK,
		       .nack = { m->revision, kp_str_c(err->reason ? err->reason : KP_NACK_INVALID),
			       kp_str_c(err->msg) } });
}

static uint64_t owned(const struct gateway *g)
{
	const struct kp_program *p = g->content->program;
	uint64_t sum = 0;
	for (size_t i = 0; i < p->n_engines; i++) {
		for (size_t k = 0; k < p->engines[i].n_endpoints; k++) {
			const struct kp_program_endpoint *e = &p->engines[i].endpoints[k];
			if (e->owner && kp_str_eq(e->owner->id, kp_str_c(g->id))) {
				sum += 1 + kp_hash(e->address) + kp_hash(e->instance);
			}
		}
	}
	return sum;
}

/* As a gateway does: one that owns something else has asked its health a moment later, and says so at once. */
static void report_soon(struct gateway *g)
{
	uint64_t owns = owned(g);
	if (owns != g->owns && g->is_welcome) {
		kp_timer_start(loop, &g->report, kp_loop_now(loop) + HEALTH_NS, on_report);
	}
	g->owns = owns;
}

static void take(struct gateway *g, kp_str bytes, const struct step *s)
{
	struct kp_offer offer = { .revision = s->revision,
		.is_unchanged = s->to == g->content,
		.items = s->to == g->content ? NULL : kp_items_ref(s->to->items) };
	struct content *old = g->content;
	g->content = content_ref(s->to);
	content_unref(old);
	kp_follower_commit(&g->follower, &offer);
	kp_offer_fini(&offer);
	const struct kp_revision *r = &s->revision;
	struct kp_revision *newest = &g->space->newest;
	if (!newest->is_set || r->epoch > newest->epoch ||
		(r->epoch == newest->epoch && r->n > newest->n)) {
		*newest = *r;
	}
	*(s->is_full ? &counts.full : &counts.delta) += 1;
	*(s->is_full ? &counts.full_bytes : &counts.delta_bytes) += bytes.n;
	say(g, &(struct kp_gateway_message){ .type = KP_GATEWAY_ACK, .ack = *r });
	report_soon(g);
	look_at_changes(g->space);
	if (is_recording && g == gateways.p[0]) {
		struct kp_buf copy;
		kp_buf_init(&copy, KP_CONTROL_TO_GATEWAY_MAX);
		kp_buf_add(&copy, bytes);
		kp_vec_push(&recorded, copy);
	}
}

static void on_message(void *user, kp_str bytes)
{
	struct gateway *g = user;
	struct kp_operator_message m;
	struct kp_err err = KP_ERR_INIT;
	const struct step *s = g->is_welcome ? find_step(g, bytes) : NULL;
	if (s) {
		take(g, bytes, s);
		return;
	}
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(KP_CONTROL_ARENA_BYTES);
	if (kp_control_read_to_gateway(bytes, a, &m, &err) ||
		(m.type == KP_OPERATOR_WELCOME) == g->is_welcome) {
		counts.bad++;
		kp_rpc_stream_close(g->stream, err.code ? &err : NULL);
	} else if (m.type == KP_OPERATOR_WELCOME) {
		on_welcome(g, bytes, &m.welcome);
	} else if (m.type == KP_OPERATOR_PROGRAM) {
		s = make_step(g, bytes, &m.program, &err);
		if (s && !s->is_full && m.program.revision.n > g->space->newest.n) {
			note_changes(g->space, &m.program);
		}
		if (s) {
			take(g, bytes, s);
		} else {
			refuse(g, &m.program, &err);
		}
	}
}

/* --- streams --- */

static void gateway_destroy(struct gateway *g)
{
	if (!g) {
		return;
	}
	kp_timer_stop(loop, &g->again);
	kp_timer_stop(loop, &g->report);
	kp_follower_fini(&g->follower);
	content_unref(g->content);
	kp_mem_free(g->claims);
	kp_mem_free(g->own);
	kp_mem_free(g);
}

static void gateway_gone(struct gateway *g)
{
	for (size_t i = 0; i < gateways.n; i++) {
		if (gateways.p[i] == g) {
			gateways.p[i] = NULL;
		}
	}
	gateway_destroy(g);
}

static void dial(struct gateway *g);

static void on_again(struct kp_timer *t)
{
	dial(KP_CONTAINER(t, struct gateway, again));
}

static void on_closed(void *user, const struct kp_err *status)
{
	struct gateway *g = user;
	int64_t wait = g->backoff_ns / 2 + (int64_t)kp_rng_below(&rng, (uint64_t)g->backoff_ns);
	if (g->is_leaving) {
		gateway_gone(g);
		return;
	}
	counts.lost++;
	snprintf(counts.last_error, sizeof(counts.last_error), "%s", status->msg);
	g->stream = NULL;
	kp_timer_stop(loop, &g->report);
	if (g->is_welcome) {
		kp_follower_disconnected(&g->follower, kp_now_ns());
	}
	g->is_welcome = false;
	g->backoff_ns = KP_MIN(g->backoff_ns * 2, BACKOFF_MAX_NS);
	kp_timer_start(loop, &g->again, kp_loop_now(loop) + wait, on_again);
}

static void dial(struct gateway *g)
{
	static const struct kp_rpc_stream_ops ops = { on_message, on_closed };
	counts.opened++;
	g->stream = kp_rpc_client_open(g->client, &ops, g);
	hello(g);
}

/* A few at a time, so that what comes back is read meanwhile: to open one with TLS takes milliseconds. */
static void on_open(struct kp_timer *t)
{
	for (unsigned i = 0; i < OPEN_AT_ONCE && n_dialled < n_gateways; i++) {
		dial(gateways.p[n_dialled++]);
	}
	if (n_dialled < n_gateways) {
		kp_timer_start(loop, t, kp_loop_now(loop), on_open);
	}
}

/* --- commands --- */

static void say_stats(void)
{
	const struct content *c = NULL;
	uint64_t n = 0;
	size_t n_connected = 0, n_current = 0;
	for (size_t i = 0; i < gateways.n; i++) {
		const struct gateway *g = gateways.p[i];
		if (g && !g->is_leaving) {
			n_connected += g->is_welcome;
			n_current += is_current(g);
			n = KP_MAX(n, g->space->newest.n);
			c = is_current(g) ? g->content : c;
		}
	}
	KP_AUTO(buf) struct kp_buf error;
	kp_buf_init(&error, 4096);
	kp_json_w_str(&error, kp_str_c(counts.last_error));
	printf("{\"connected\": %zu, \"current\": %zu, \"n\": %llu, \"gateways\": %zu, \"opened\": %zu, \"lost\": %zu, "
	       "\"refused\": %zu, \"bad\": %zu, \"full\": %zu, \"full_bytes\": %zu, \"delta\": %zu, \"delta_bytes\": %zu, "
	       "\"last_error\": %" KP_FMT "}\n",
		n_connected, n_current, (unsigned long long)n, c ? c->program->n_gateways : 0,
		counts.opened, counts.lost, counts.refused, counts.bad, counts.full,
		counts.full_bytes, counts.delta, counts.delta_bytes, KP_ARG(kp_buf_str(&error)));
}

static void record(void)
{
	is_recording = true;
	content_unref(record_from);
	record_from = content_ref(gateways.p[0]->content);
	record_revision = gateways.p[0]->follower.revision;
}

static int write_file(kp_str dir, const char *name, kp_str bytes, struct kp_err *err)
{
	char path[PATH_BYTES];
	snprintf(path, sizeof(path), "%" KP_FMT "/%s", KP_ARG(dir), name);
	return kp_fs_write_atomic(path, bytes, 0644, err);
}

static void save(kp_str dir)
{
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(buf) struct kp_buf full;
	kp_buf_init(&full, KP_CONTROL_TO_GATEWAY_MAX);
	KP_BUG_ON(!record_from);
	const struct kp_operator_message m = { .type = KP_OPERATOR_PROGRAM,
		.program = { .revision = record_revision,
			.delta = { .upserts = record_from->items->p,
				.n_upserts = record_from->items->n } } };
	kp_control_write_to_gateway(&full, &m);
	int r = write_file(dir, "welcome", kp_buf_str(&welcome), &err) ||
		write_file(dir, "full", kp_buf_str(&full), &err);
	for (size_t i = 0; i < recorded.n && r == 0; i++) {
		char name[32];
		snprintf(name, sizeof(name), "delta-%zu", i);
		r = write_file(dir, name, kp_buf_str(&recorded.p[i]), &err);
	}
	if (r) {
		fprintf(stderr, "control-gateways: %s\n", err.msg);
	}
	printf("{\"saved\": %zu}\n", r ? 0 : recorded.n);
}

static double seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

static void say_acks(void)
{
	const struct kp_map_entry *e;
	const char *between = "";
	printf("{\"acks\": [");
	for (size_t pos = 0; (e = kp_map_next(&spaces, &pos)) != NULL;) {
		struct space *s = e->value;
		for (size_t i = 0; i < s->n_acked; i++) {
			struct change *c = &s->changes.p[i];
			printf("%s[\"%s\", %.6f, %.6f]", between, c->key, seconds(c->seen_wall_ns),
				seconds(c->acked_wall_ns));
			between = ", ";
			kp_mem_free(c->key);
		}
		s->changes.n -= s->n_acked;
		memmove(s->changes.p, s->changes.p + s->n_acked,
			s->changes.n * sizeof(*s->changes.p));
		s->n_acked = 0;
	}
	printf("]}\n");
}

static void join(kp_str rest);
static void leave(kp_str id);

static void run(kp_str command)
{
	kp_str rest = command, verb = KP_S("");
	kp_str_split(&rest, ' ', &verb);
	if (kp_str_eq(verb, KP_S("open"))) {
		on_open(&opening);
	} else if (kp_str_eq(verb, KP_S("stats"))) {
		say_stats();
	} else if (kp_str_eq(verb, KP_S("record"))) {
		record();
	} else if (kp_str_eq(verb, KP_S("save"))) {
		save(rest);
	} else if (kp_str_eq(verb, KP_S("acks"))) {
		say_acks();
	} else if (kp_str_eq(verb, KP_S("join"))) {
		join(rest);
	} else if (kp_str_eq(verb, KP_S("leave"))) {
		leave(rest);
	} else {
		fprintf(stderr, "control-gateways: `%" KP_FMT "`: no such command\n", KP_ARG(verb));
	}
}

static void on_alloc(uv_handle_t *h, size_t n, uv_buf_t *ret)
{
	static char space[PATH_BYTES];
	(void)h, (void)n;
	*ret = uv_buf_init(space, sizeof(space));
}
/* Commands come one behind the other, in pieces of any size. */
static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	(void)s;
	if (n < 0) {
		kp_loop_stop(loop);
	}
	kp_buf_add(&commands, kp_str_n(b->base, n > 0 ? (size_t)n : 0));
	kp_str all = kp_buf_str(&commands);
	ptrdiff_t end;
	while ((end = kp_str_find_char(all, '\n')) >= 0) {
		run(kp_str_sub(all, 0, (size_t)end));
		all = kp_str_skip(all, (size_t)end + 1);
	}
	kp_buf_consume(&commands, commands.n - all.n);
}

/* --- life --- */

static struct space *space_of(kp_str name)
{
	struct space *s = kp_map_get(&spaces, name);
	if (!s) {
		s = kp_new(struct space);
		s->name = kp_str_z(name);
		kp_map_set(&spaces, name, s);
	}
	return s;
}

static void space_destroy(void *p)
{
	struct space *s = p;
	for (size_t i = 0; i < s->changes.n; i++) {
		kp_mem_free(s->changes.p[i].key);
	}
	kp_vec_fini(&s->changes);
	kp_mem_free(s->name);
	kp_mem_free(s);
}

static struct gateway *gateway_create(kp_str ns)
{
	struct gateway *g = kp_new(struct gateway);
	g->space = space_of(ns);
	kp_follower_init(&g->follower, kp_str_c(g->space->name));
	g->backoff_ns = BACKOFF_MIN_NS;
	g->client = clients[gateways.n / GROUP % n_clients];
	kp_vec_push(&gateways, g);
	return g;
}

static void add_gateway(uint32_t i)
{
	uint32_t next = (uint32_t)((uint64_t)n_endpoints * (i + 1) / n_gateways);
	struct gateway *g = gateway_create(KP_S("default"));
	snprintf(g->id, sizeof(g->id), "gw-%04u", i);
	snprintf(g->node, sizeof(g->node), "node-%04u", i);
	snprintf(g->peer, sizeof(g->peer), "10.1.%u.%u:8443", i / 250, i % 250);
	g->first = (uint32_t)((uint64_t)n_endpoints * i / n_gateways);
	g->n_own = next - g->first;
	g->claims = kp_xcalloc(g->n_own, sizeof(*g->claims));
	g->own = kp_xcalloc(g->n_own, sizeof(*g->own));
	for (uint32_t k = 0; k < g->n_own; k++) {
		uint32_t e = g->first + k;
		snprintf(g->claims[k], CLAIM_MAX, "default/e%03u/%u", e / PER_ENGINE,
			e % PER_ENGINE);
		g->own[k] = kp_str_c(g->claims[k]);
	}
}

/* NAMESPACE ID PEER NODE */
static void join(kp_str rest)
{
	kp_str words[4] = { 0 };
	for (size_t i = 0; i < KP_LEN(words); i++) {
		kp_str_split(&rest, ' ', &words[i]);
	}
	struct gateway *g = gateway_create(words[0]);
	snprintf(g->id, sizeof(g->id), "%" KP_FMT, KP_ARG(words[1]));
	snprintf(g->peer, sizeof(g->peer), "%" KP_FMT, KP_ARG(words[2]));
	snprintf(g->node, sizeof(g->node), "%" KP_FMT, KP_ARG(words[3]));
	kp_map_set(&by_id, words[1], g);
	dial(g);
}

static void on_leave(struct kp_timer *t)
{
	struct gateway *g = KP_CONTAINER(t, struct gateway, again);
	if (g->stream) {
		kp_rpc_stream_close(g->stream, NULL);
	} else {
		gateway_gone(g);
	}
}

/* As a pod that is deleted: it drains, and a moment later it is gone. */
static void leave(kp_str id)
{
	struct gateway *g = kp_map_del(&by_id, id);
	if (!g) {
		return;
	}
	g->is_leaving = true;
	if (g->stream && g->is_welcome) {
		say(g, &(struct kp_gateway_message){
			       .type = KP_GATEWAY_REPORT, .report = { .draining = true } });
	}
	kp_timer_stop(loop, &g->report);
	kp_timer_start(loop, &g->again, kp_loop_now(loop) + LEAVE_NS, on_leave);
	look_at_changes(g->space);
}

static int make_clients(const char *address, const char *tls_dir, struct kp_err *err)
{
	static const struct kp_rpc_limits limits = { .max_message_bytes =
							     KP_CONTROL_TO_GATEWAY_MAX };
	uint32_t n = tls_dir && n_gateways ? (n_gateways + GROUP - 1) / GROUP : 1;
	clients = kp_xcalloc(n, sizeof(struct kp_rpc_client *));
	for (; n_clients < n; n_clients++) {
		char dir[PATH_BYTES];
		snprintf(dir, sizeof(dir), "%s/gw-%04u", tls_dir ? tls_dir : "", n_clients * GROUP);
		const struct kp_rpc_tls tls = { .dir = tls_dir ? dir : NULL };
		if (kp_rpc_client_create(loop, address, KP_CONTROL_METHOD, &tls, NULL, &limits,
			    &clients[n_clients], err)) {
			return -1;
		}
	}
	return 0;
}

static void fini(void)
{
	kp_timer_stop(loop, &opening);
	for (uint32_t i = 0; i < n_clients; i++) {
		kp_rpc_client_destroy(clients[i]);
	}
	for (size_t i = 0; i < gateways.n; i++) {
		gateway_destroy(gateways.p[i]);
	}
	kp_vec_fini(&gateways);
	kp_map_fini(&by_id, NULL);
	kp_map_fini(&spaces, space_destroy);
	kp_buf_fini(&commands);
	for (size_t i = 0; i < STEPS; i++) {
		step_fini(&steps[i]);
	}
	for (size_t i = 0; i < recorded.n; i++) {
		kp_buf_fini(&recorded.p[i]);
	}
	kp_vec_fini(&recorded);
	content_unref(record_from);
	kp_buf_fini(&welcome);
	kp_mem_free(clients);
	kp_loop_destroy(loop);
}

int main(int argc, char **argv)
{
	struct kp_err err = KP_ERR_INIT;
	uint64_t n, endpoints;
	kp_process_begin();
	if ((argc != 4 && argc != 5) || !kp_str_u64(kp_str_c(argv[2]), 10000, &n) ||
		!kp_str_u64(kp_str_c(argv[3]), 100000, &endpoints)) {
		fprintf(stderr, "usage: control-gateways ADDRESS COUNT ENDPOINTS [TLS_DIR]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	n_gateways = (uint32_t)n;
	n_endpoints = (uint32_t)endpoints;
	kp_rng_seed(&rng, 1);
	kp_buf_init(&welcome, KP_CONTROL_TO_GATEWAY_MAX);
	kp_buf_init(&commands, 1 << 20);
	kp_map_init(&spaces);
	kp_map_init(&by_id);
	loop = kp_loop_create("main");
	if (make_clients(argv[1], argc == 5 ? argv[4] : NULL, &err)) {
		fprintf(stderr, "control-gateways: %s\n", err.msg);
		return 1;
	}
	for (uint32_t i = 0; i < n_gateways; i++) {
		add_gateway(i);
	}
	uv_pipe_init(kp_loop_uv(loop), &input, 0);
	uv_pipe_open(&input, 0);
	uv_read_start((uv_stream_t *)&input, on_alloc, on_read);
	kp_loop_run(loop);
	uv_close((uv_handle_t *)&input, NULL);
	fini();
	return 0;
}
