/* DESIGN: a list of streams. A stream without hello is nobody's; with it, it belongs to a record of
   gateways.h, and the record to it. What to send is sender.h's business, the bytes programs.h's; here
   are the callbacks, the clock and the log.

   Programs are sent only by kp_service_publish and on answers, not on a hello: the hello changes the
   plan, and what was in force before it would be sent in vain. */
#include "operator/control/counts.h"
#include "operator/control/service.h"

#include "control/epoch.h"
#include "operator/control/epoch.h"
#include "operator/control/service_metrics.h"
#include "obs/log.h"

#include <stdio.h>

#define TICK_NS         KP_NS_PER_S
#define HELLO_NS        (10 * KP_NS_PER_S) /* for a stream's first message */
#define ANSWER_NS       (60 * KP_NS_PER_S) /* for an answer to a program */
#define END_NS          KP_NS_PER_S        /* for the gateways to be told */
#define LOG_INTERVAL_NS KP_NS_PER_S        /* of streams that are refused */

enum { REPORT_INTERVAL_MS = 2000 };

struct kp_service {
	struct kp_loop *loop;
	struct kp_service_opts opts;
	struct kp_rpc_server *server;
	struct kp_gateways gateways;
	struct kp_programs programs;
	struct kp_list streams;
	int64_t raise_ns; /* the epoch may be raised then, not before */
	struct kp_timer tick;
	struct kp_defer look_around;
	struct kp_service_metrics metrics;
	struct kp_log_limit log_refused;
	bool is_leader;
	char leader[300];         /* of a standby: who leads; "": not known */
	void (*ended)(void *ctx); /* not NULL: it is ending */
};

struct stream {
	struct kp_list link;
	struct kp_service *service;
	struct kp_rpc_stream *rpc; /* NULL: is being closed */
	struct kp_arena *arena;    /* of the next three */
	kp_str address;
	const kp_str *names; /* of its certificate */
	size_t n_names;
	struct kp_gateway_record *gateway; /* NULL: no hello yet, or replaced */
	struct kp_sender sender;
	uint64_t epoch_seen;
	bool is_greeted;
	int64_t opened_ns, sent_ns;
	int64_t held_until_ns; /* another operator programs it: not before then; 0: ours */
};

static struct stream *stream_of(struct kp_list *link)
{
	return KP_CONTAINER(link, struct stream, link);
}

static void shown(struct kp_service *s)
{
	s->opts.shown(s->opts.ctx);
}

/* --- ends --- */

static void close_stream(struct stream *st, const struct kp_err *why)
{
	if (st->rpc) {
		kp_rpc_stream_close(kp_steal(st->rpc), why);
	}
}

/* The stream is at fault, or not wanted: said to it, counted, and in the log. */
static void refuse(struct stream *st, const struct kp_err *why)
{
	struct kp_service *s = st->service;
	uint64_t suppressed;
	kp_service_metrics_refused(&s->metrics, why->code);
	if (kp_log_allow(&s->log_refused, kp_loop_now(s->loop), LOG_INTERVAL_NS, &suppressed)) {
		kp_log(KP_LOG_WARN, "stream refused",
			kp_f_str("gateway", st->gateway ? st->gateway->is.id : KP_S("")),
			kp_f_str("from", st->address), kp_f_err(why),
			kp_f_int("suppressed", (int64_t)suppressed));
	}
	close_stream(st, why);
}

static void on_ended(struct kp_timer *t)
{
	struct kp_service *s = KP_CONTAINER(t, struct kp_service, tick);
	s->ended(s->opts.ctx);
}

static void on_closed(void *user, const struct kp_err *status)
{
	struct stream *st = user;
	struct kp_service *s = st->service;
	if (st->gateway) {
		kp_log(KP_LOG_INFO, "gateway disconnected", kp_f_str("gateway", st->gateway->is.id),
			kp_f_str("from", st->address), kp_f_z("status", kp_code_name(status->code)),
			kp_f_z("message", status->msg));
		kp_gateway_lost(st->gateway, kp_loop_now(s->loop), kp_wall_ns());
		s->opts.changed(s->opts.ctx);
		shown(s);
	}
	kp_list_del(&st->link);
	kp_arena_destroy(st->arena);
	kp_mem_free(st);
	if (s->ended && kp_list_empty(&s->streams)) {
		kp_timer_start(s->loop, &s->tick, kp_loop_now(s->loop), on_ended);
	}
}

/* --- what is sent --- */

static void greet(struct stream *st)
{
	struct kp_service *s = st->service;
	const struct kp_operator_message m = { .type = KP_OPERATOR_WELCOME,
		.welcome = { .protocol = KP_CONTROL_PROTOCOL,
			.id = kp_str_c(s->opts.id),
			.epoch = s->programs.epoch,
			.report_interval_ms = REPORT_INTERVAL_MS } };
	KP_AUTO(buf) struct kp_buf bytes;
	kp_buf_init(&bytes, 1 << 16);
	kp_control_write_to_gateway(&bytes, &m);
	kp_rpc_stream_send(st->rpc, kp_buf_str(&bytes));
	st->is_greeted = true;
}

/* Sends the program in force, if it is time and it does not run it. */
static void pump(struct stream *st)
{
	struct kp_service *s = st->service;
	struct kp_ns_program *p =
		st->rpc && st->gateway ? kp_programs_find(&s->programs, st->gateway->ns) : NULL;
	if (!p || st->held_until_ns) {
		return;
	}
	enum kp_send as = kp_sender_next(
		&st->sender, &p->revision, kp_ns_program_has_base(p, &st->sender.runs));
	const struct kp_encoded *message;
	struct kp_err err;
	if (as == KP_SEND_NOTHING) {
		return;
	}
	if (kp_ns_program_encode(p, as, &st->sender.runs, &message, &err)) {
		kp_log(KP_LOG_ERROR, "cannot send the program", kp_f_str("namespace", p->name),
			kp_f_err(&err));
		return;
	}
	kp_rpc_stream_send_shared(st->rpc, message->bytes);
	kp_sender_sent(&st->sender, &p->revision, as);
	st->sent_ns = kp_loop_now(s->loop);
	kp_service_metrics_sent(&s->metrics, as, message->n);
}

/* --- epochs --- */

/* Higher than any that a gateway saw of an operator that is silent now. A stream is greeted once, so those
 * that were greeted with the old epoch begin anew; what they run has the same content. */
static void raise_epoch(struct kp_service *s, uint64_t seen, kp_str gateway)
{
	struct kp_err err;
	uint64_t epoch = seen + 1;
	if (seen <= s->programs.epoch) {
		return;
	}
	s->raise_ns = kp_loop_now(s->loop) + KP_FOLLOWER_SILENCE_NS;
	kp_log(KP_LOG_WARN, "another operator had a higher epoch and is silent: raising ours",
		kp_f_str("gateway", gateway), kp_f_int("seen", (int64_t)seen),
		kp_f_int("epoch", (int64_t)epoch));
	kp_programs_raise(&s->programs, epoch, kp_loop_now(s->loop), kp_wall_ns());
	if (kp_epoch_keep(s->opts.state_dir, epoch, &err)) {
		kp_log(KP_LOG_ERROR, "cannot keep the epoch", kp_f_err(&err));
	}
	if (s->opts.raised) {
		s->opts.raised(s->opts.ctx, epoch);
	}
	kp_err_set(
		&err, KP_ABORTED, "the operator has a new epoch, %llu", (unsigned long long)epoch);
	kp_list_each (link, &s->streams) {
		struct stream *st = stream_of(link);
		if (st->is_greeted) {
			close_stream(st, &err);
		}
	}
	shown(s);
}

/* How long a gateway has to wait for that. A raise ends every stream, so there is one in half a minute,
 * whatever gateways say they have seen. */
static int64_t wait_to_raise(const struct kp_service *s, uint64_t seen, uint64_t age_ms)
{
	int64_t wait = kp_epoch_wait_ns(s->programs.epoch, seen, age_ms);
	return seen <= s->programs.epoch
		       ? 0
		       : KP_MAX(KP_MAX(wait, s->raise_ns - kp_loop_now(s->loop)), INT64_C(0));
}

static void hold(struct stream *st, int64_t wait_ns)
{
	kp_log(KP_LOG_WARN, "gateway is programmed by another operator, of a higher epoch",
		kp_f_str("gateway", st->gateway->is.id), kp_f_int("seen", (int64_t)st->epoch_seen),
		kp_f_int("ours", (int64_t)st->service->programs.epoch),
		kp_f_int("wait_s", wait_ns / KP_NS_PER_S));
	st->held_until_ns = kp_loop_now(st->service->loop) + wait_ns;
	st->gateway->held_epoch = st->epoch_seen;
}

/* --- who runs what --- */

/* Once for each program: that all gateways run it, and how long that took. */
static void look_around(struct kp_defer *d)
{
	struct kp_service *s = KP_CONTAINER(d, struct kp_service, look_around);
	struct kp_service_counts counts;
	int64_t now = kp_loop_now(s->loop);
	struct kp_map_entry *e;
	kp_counts_take(&s->programs, &s->gateways, now, &counts);
	for (size_t pos = 0; (e = kp_map_next(&s->programs.by_namespace, &pos)) != NULL;) {
		struct kp_ns_program *p = e->value;
		if (!p->is_everywhere && p->n_gateways && p->n_current == p->n_gateways) {
			char revision[KP_REVISION_TEXT_MAX];
			p->is_everywhere = true;
			kp_service_metrics_everywhere(&s->metrics, now - p->since_ns);
			kp_log(KP_LOG_INFO, "program runs on all gateways",
				kp_f_str("namespace", p->name),
				kp_f_z("program", kp_revision_text(&p->revision, revision)),
				kp_f_int("gateways", (int64_t)p->n_gateways),
				kp_f_int("ms", (now - p->since_ns) / KP_NS_PER_MS));
		}
	}
	kp_service_metrics_counts(&s->metrics, &counts);
}

/* --- what is received --- */

static void on_hello(struct stream *st, const struct kp_hello *h)
{
	struct kp_service *s = st->service;
	struct kp_err err;
	int64_t now = kp_loop_now(s->loop);
	struct kp_gateway_record *r = kp_gateways_find(&s->gateways, h->ns, h->id);
	struct stream *old = r ? r->stream : NULL;
	uint64_t most = KP_MAX(kp_epoch_most(kp_wall_ns()), s->programs.epoch);
	if (kp_hello_check(
		    h, s->opts.tls_dir || s->opts.tls_keys, st->names, st->n_names, most, &err) ||
		kp_gateways_hello(&s->gateways, h, now, kp_wall_ns(), &r, &err)) {
		refuse(st, &err);
		return;
	}
	if (old) {
		old->gateway = NULL;
		kp_err_set(&err, KP_ABORTED,
			"replaced by a newer stream of gateway `%" KP_FMT "`, from `%" KP_FMT "`",
			KP_ARG(h->id), KP_ARG(st->address));
		refuse(old, &err);
	}
	r->stream = st;
	r->held_epoch = 0;
	st->gateway = r;
	st->sender.runs = h->revision;
	st->epoch_seen = KP_MAX(h->epoch_seen, h->revision.epoch);
	char runs[KP_REVISION_TEXT_MAX];
	kp_log(KP_LOG_INFO, "gateway connected", kp_f_str("gateway", r->is.id),
		kp_f_str("namespace", r->ns), kp_f_str("from", st->address),
		kp_f_str("version", r->version), kp_f_int("claims", (int64_t)r->is.n_own),
		kp_f_z("runs", kp_revision_text(&h->revision, runs)));
	if (r->n_left_out) {
		kp_log(KP_LOG_WARN, "hello names more gateways than are believed",
			kp_f_str("gateway", r->is.id), kp_f_int("named", (int64_t)h->n_known),
			kp_f_int("left_out", (int64_t)r->n_left_out));
	}
	int64_t wait = wait_to_raise(s, st->epoch_seen, h->epoch_age_ms);
	if (wait) {
		hold(st, wait);
	} else {
		raise_epoch(s, st->epoch_seen, r->is.id);
	}
	greet(st);
	s->opts.changed(s->opts.ctx);
	shown(s);
}

static void on_ack(struct stream *st, const struct kp_revision *revision)
{
	struct kp_service *s = st->service;
	if (!kp_sender_acked(&st->sender, revision)) {
		return; /* of something that was not sent: nothing follows from it */
	}
	int64_t took_ns = kp_loop_now(s->loop) - st->sent_ns;
	st->gateway->runs = st->sender.runs;
	kp_gateway_answered(st->gateway, NULL, kp_wall_ns());
	kp_service_metrics_answered(&s->metrics, KP_S("ack"), took_ns);
	pump(st);
	kp_loop_defer(s->loop, &s->look_around, look_around);
	shown(s);
}

static void on_nack(struct stream *st, const struct kp_nack *nack)
{
	struct kp_service *s = st->service;
	char revision[KP_REVISION_TEXT_MAX];
	if (!kp_sender_nacked(&st->sender, nack)) {
		return;
	}
	kp_log(KP_LOG_WARN, "program refused", kp_f_str("gateway", st->gateway->is.id),
		kp_f_z("program", kp_revision_text(&nack->revision, revision)),
		kp_f_str("reason", nack->reason), kp_f_str("message", nack->message),
		kp_f_bool("whole_follows", st->sender.needs_full));
	kp_gateway_answered(st->gateway, nack, kp_wall_ns());
	kp_service_metrics_answered(&s->metrics, nack->reason, kp_loop_now(s->loop) - st->sent_ns);
	shown(s);
	if (kp_str_eq(nack->reason, KP_S(KP_NACK_STALE_EPOCH))) {
		/* Its next hello says which epoch it has seen. */
		struct kp_err err;
		kp_err_set(&err, KP_FAILED_PRECONDITION,
			"epoch %llu is stale to it: it should say what it has seen",
			(unsigned long long)s->programs.epoch);
		refuse(st, &err);
		return;
	}
	pump(st);
}

static void on_report(struct stream *st, const struct kp_report *report)
{
	struct kp_service *s = st->service;
	bool has_turned = st->gateway->report.draining != report->draining;
	bool is_same = kp_report_same(&st->gateway->report, report);
	kp_service_metrics_report(&s->metrics);
	if (!is_same || !st->gateway->has_report) {
		if (!kp_gateways_report(&s->gateways, st->gateway, report)) {
			kp_log(KP_LOG_WARN, "report is too large, its endpoints are left out",
				kp_f_str("gateway", st->gateway->is.id),
				kp_f_int("endpoints", (int64_t)report->n_endpoints));
		}
		shown(s);
	}
	if (has_turned) {
		s->opts.changed(s->opts.ctx); /* it gives way, or takes back */
	}
}

static void take(struct stream *st, const struct kp_gateway_message *m)
{
	struct kp_err err;
	bool is_hello = m->type == KP_GATEWAY_HELLO;
	if (m->type == KP_GATEWAY_NONE) {
		return; /* of a newer protocol */
	}
	if (is_hello == (st->gateway != NULL)) {
		kp_err_set(&err, KP_FAILED_PRECONDITION, "hello: %s",
			is_hello ? "has been said" : "must come first");
		refuse(st, &err);
		return;
	}
	if (!is_hello) {
		st->gateway->heard_ns = kp_loop_now(st->service->loop);
	}
	switch (m->type) {
	case KP_GATEWAY_HELLO:
		on_hello(st, &m->hello);
		break;
	case KP_GATEWAY_ACK:
		on_ack(st, &m->ack);
		break;
	case KP_GATEWAY_NACK:
		on_nack(st, &m->nack);
		break;
	case KP_GATEWAY_REPORT:
		on_report(st, &m->report);
		break;
	case KP_GATEWAY_NONE:
		break;
	}
}

static void on_message(void *user, kp_str bytes)
{
	struct stream *st = user;
	struct kp_gateway_message m;
	struct kp_err err;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(KP_CONTROL_ARENA_BYTES);
	if (!st->rpc) {
		return; /* is being closed */
	}
	if (kp_control_read_to_operator(bytes, a, &m, &err)) {
		refuse(st, &err);
	} else {
		take(st, &m);
	}
}

/* --- time --- */

static void check_stream(struct stream *st, int64_t now)
{
	struct kp_err err;
	if (!st->rpc) {
		return;
	}
	if (!st->gateway && now - st->opened_ns >= HELLO_NS) {
		kp_err_set(&err, KP_DEADLINE_EXCEEDED, "hello: did not come within %d s",
			(int)(HELLO_NS / KP_NS_PER_S));
		refuse(st, &err);
	} else if (st->sender.sent.is_set && now - st->sent_ns >= ANSWER_NS) {
		char revision[KP_REVISION_TEXT_MAX];
		kp_err_set(&err, KP_DEADLINE_EXCEEDED, "program %s: was not answered within %d s",
			kp_revision_text(&st->sender.sent, revision),
			(int)(ANSWER_NS / KP_NS_PER_S));
		refuse(st, &err);
	} else if (st->held_until_ns && now >= st->held_until_ns &&
		   wait_to_raise(st->service, st->epoch_seen, UINT64_MAX) == 0) {
		st->held_until_ns = 0; /* the other operator was silent for long enough */
		st->gateway->held_epoch = 0;
		raise_epoch(st->service, st->epoch_seen, st->gateway->is.id);
		pump(st);
	}
}

/* Who fell silent or came back. */
static void check_gateways(struct kp_service *s, int64_t now)
{
	const struct kp_map_entry *e;
	for (size_t pos = 0; (e = kp_map_next(&s->gateways.by_name, &pos)) != NULL;) {
		struct kp_gateway_record *r = e->value;
		bool is_silent = kp_gateway_is_silent(r, now);
		if (is_silent != r->was_silent) {
			r->was_silent = is_silent;
			if (r->is_connected) {
				kp_log(is_silent ? KP_LOG_WARN : KP_LOG_INFO,
					is_silent ? "gateway is silent" : "gateway is heard again",
					kp_f_str("gateway", r->is.id));
			}
			s->opts.changed(s->opts.ctx);
			shown(s);
		}
	}
}

static void on_tick(struct kp_timer *t)
{
	struct kp_service *s = KP_CONTAINER(t, struct kp_service, tick);
	int64_t now = kp_loop_now(s->loop);
	if (kp_gateways_settle(&s->gateways, now)) {
		s->opts.changed(s->opts.ctx);
		shown(s);
	}
	kp_list_each_safe (link, &s->streams) {
		check_stream(stream_of(link), now);
	}
	check_gateways(s, now);
	kp_loop_defer(s->loop, &s->look_around, look_around);
	kp_timer_start(s->loop, t, now + TICK_NS, on_tick);
}

/* --- who leads --- */

static int say_standby(const struct kp_service *s, struct kp_err *err)
{
	if (!s->leader[0]) {
		return kp_err_set(err, KP_UNAVAILABLE,
			"operator `%s` is a standby; the leader is not known", s->opts.id);
	}
	return kp_err_set(err, KP_UNAVAILABLE,
		"operator `%s` " KP_CONTROL_LEADER "%s" KP_CONTROL_LEADER_END, s->opts.id,
		s->leader);
}

kp_str kp_service_leader(const struct kp_service *s)
{
	return s->is_leader ? KP_S("") : kp_str_c(s->leader);
}

void kp_service_lead(struct kp_service *s, uint64_t epoch)
{
	int64_t now = kp_loop_now(s->loop);
	KP_BUG_ON(s->is_leader); /* hence no stream has a record */
	s->is_leader = true;
	kp_gateways_fini(&s->gateways);
	kp_gateways_init(&s->gateways, now);
	kp_programs_raise(&s->programs, KP_MAX(epoch, s->programs.epoch + 1), now, kp_wall_ns());
	s->opts.changed(s->opts.ctx);
	shown(s);
}

void kp_service_stand_by(struct kp_service *s, kp_str leader)
{
	struct kp_err why;
	bool was_leader = s->is_leader;
	s->is_leader = false;
	snprintf(s->leader, sizeof(s->leader), "%" KP_FMT, KP_ARG(leader));
	say_standby(s, &why);
	kp_list_each (link, &s->streams) {
		struct stream *st = stream_of(link);
		if (st->gateway) {
			kp_gateway_lost(st->gateway, kp_loop_now(s->loop), kp_wall_ns());
			st->gateway = NULL;
		}
		close_stream(st, &why);
	}
	if (was_leader) {
		s->opts.changed(s->opts.ctx);
	}
	shown(s);
}

/* --- life --- */

static int on_accept(void *ctx, struct kp_rpc_stream *rpc, const struct kp_rpc_peer *peer,
	struct kp_rpc_stream_ops *ops, void **user, struct kp_err *err)
{
	struct kp_service *s = ctx;
	if (s->ended) {
		return kp_err_set(err, KP_UNAVAILABLE, "the operator ends");
	}
	if (!s->is_leader) {
		return say_standby(s, err);
	}
	struct stream *st = kp_new(struct stream);
	kp_str *names;
	st->arena = kp_arena_create(1 << 20);
	names = kp_arena_calloc(st->arena, peer->n_names, sizeof(*names));
	for (size_t i = 0; names && i < peer->n_names; i++) {
		st->n_names +=
			kp_arena_dup(st->arena, peer->names[i], &names[st->n_names], err) == 0;
	}
	st->names = names;
	if (kp_arena_dup(st->arena, peer->address, &st->address, err)) {
		kp_arena_destroy(st->arena);
		kp_mem_free(st);
		return -1;
	}
	st->service = s;
	st->rpc = rpc;
	st->opened_ns = kp_loop_now(s->loop);
	kp_list_push(&s->streams, &st->link);
	*ops = (struct kp_rpc_stream_ops){ .message = on_message, .closed = on_closed };
	*user = st;
	return 0;
}

int kp_service_create(struct kp_loop *loop, const struct kp_service_opts *opts,
	struct kp_service **ret, struct kp_err *err)
{
	const struct kp_rpc_tls tls = { .dir = opts->tls_dir, .keys = opts->tls_keys };
	const struct kp_rpc_limits limits = { .max_message_bytes = KP_CONTROL_TO_OPERATOR_MAX,
		.max_streams = KP_GATEWAYS_MAX };
	struct kp_service *s = kp_new(struct kp_service);
	s->loop = loop;
	s->opts = *opts;
	s->is_leader = opts->epoch != 0;
	kp_list_init(&s->streams);
	kp_gateways_init(&s->gateways, kp_now_ns());
	kp_programs_init(&s->programs, opts->epoch);
	kp_service_metrics_init(&s->metrics, opts->metrics);
	if (kp_rpc_server_create(loop, opts->address, KP_CONTROL_METHOD, &tls, &limits, on_accept,
		    s, &s->server, err)) {
		kp_err_wrap(err, "control listener");
		kp_service_destroy(s);
		return -1;
	}
	kp_timer_start(loop, &s->tick, kp_now_ns() + TICK_NS, on_tick);
	*ret = s;
	return 0;
}

int kp_service_port(const struct kp_service *s)
{
	return kp_rpc_server_port(s->server);
}

void kp_service_end(struct kp_service *s, void (*done)(void *ctx))
{
	struct kp_err bye;
	bool is_alone = kp_list_empty(&s->streams);
	kp_err_set(&bye, KP_UNAVAILABLE, "the operator ends");
	s->ended = done;
	kp_list_each (link, &s->streams) {
		close_stream(stream_of(link), &bye);
	}
	kp_timer_start(s->loop, &s->tick, kp_loop_now(s->loop) + (is_alone ? 0 : END_NS), on_ended);
}

void kp_service_destroy(struct kp_service *s)
{
	if (!s) {
		return;
	}
	kp_rpc_server_destroy(s->server); /* every stream is closed now */
	kp_timer_stop(s->loop, &s->tick);
	kp_loop_undefer(&s->look_around);
	kp_programs_fini(&s->programs);
	kp_gateways_fini(&s->gateways);
	kp_mem_free(s);
}

void kp_service_publish(struct kp_service *s, const struct kp_plan *plan)
{
	int64_t now = kp_loop_now(s->loop);
	if (plan && kp_programs_update(&s->programs, plan, now, kp_wall_ns())) {
		shown(s);
	}
	kp_list_each (link, &s->streams) {
		pump(stream_of(link));
	}
	kp_loop_defer(s->loop, &s->look_around, look_around);
}

const struct kp_gateways *kp_service_gateways(struct kp_service *s, int64_t now_ns)
{
	kp_gateways_settle(&s->gateways, now_ns);
	return &s->gateways;
}

const struct kp_programs *kp_service_programs(struct kp_service *s, int64_t now_ns)
{
	struct kp_service_counts counts;
	kp_counts_take(&s->programs, &s->gateways, now_ns, &counts);
	return &s->programs;
}
