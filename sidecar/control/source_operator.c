/* DESIGN: one stream to the operator, opened again with back-off when it ends. Which programs are taken is
   lib/control's follower to say; what is taken is applied, acknowledged, and kept on disk. Without the
   operator the gateway goes on with what it has; what cannot be written to disk is said and harms
   nothing else. A Service leads to any of several operators: one that stands by names the leader, and that one is
   asked next, for the same name in its certificate; if it does not answer, the Service again. */
#include "sidecar/control/source.h"

#include "base/clock.h"
#include "base/rand.h"
#include "base/version.h"
#include "control/epoch.h"
#include "control/follower.h"
#include "control/last_good.h"
#include "net/addr.h"
#include "obs/log.h"
#include "rpc/rpc.h"

#include <stdio.h>

#define BACKOFF_MIN_NS (100 * KP_NS_PER_MS)
#define BACKOFF_MAX_NS (5 * KP_NS_PER_S)
#define WELCOME_NS     (10 * KP_NS_PER_S)
#define KEEP_AGAIN_NS  (10 * KP_NS_PER_S)
enum { REPORT_MS = 1000, REPORT_MS_MIN = 100, REPORT_MS_MAX = 60000, REPORT_BYTES = 4 << 20 };

struct follow {
	struct kp_source base;
	struct kp_gateway *gateway;
	struct kp_loop *loop;
	struct kp_source_sink sink;
	struct kp_follower follower;
	struct kp_rpc_client *client;
	struct kp_rpc_client *at_leader; /* NULL: the last stream was not one to `leader` */
	char leader[300];                /* as a standby said it last, for the next attempt; "" */
	char at[300];                    /* where the last stream went */
	struct kp_rpc_stream *stream;    /* NULL: waiting to try again */
	bool is_welcome, is_hurried;
	struct kp_timer again, welcome, report;
	int64_t backoff_ns, report_ns, report_due_ns, keep_again_ns;
	struct kp_rng rng;
	char *last_good; /* path; NULL: not kept */
	char operator_id[128];
	char lost[KP_ERR_MSG];        /* why there is no stream, "" while there is */
	char state_error[KP_ERR_MSG]; /* why the last good program is not on disk, "" when it is */
	struct kp_err refused;        /* of the last program, code OK: it was taken */
	struct kp_counter *taken, *nacked;
	struct kp_gauge *connected;
};

static void set_text(char *to, size_t size, const char *text)
{
	snprintf(to, size, "%s", text);
}

static void tell(struct follow *f, const struct kp_gateway_message *m)
{
	KP_AUTO(buf) struct kp_buf out;
	struct kp_err err;
	kp_buf_init(&out, KP_CONTROL_TO_OPERATOR_MAX);
	kp_control_write_to_operator(&out, m);
	if (kp_buf_finish(&out, "message to the operator", &err)) {
		kp_log(KP_LOG_ERROR, "cannot tell the operator", kp_f_err(&err));
		return;
	}
	kp_rpc_stream_send(f->stream, kp_buf_str(&out));
}

/* An epoch that no honest operator could pass would keep this gateway from all of them. */
static int check_epoch(uint64_t epoch, struct kp_err *err)
{
	if (epoch <= kp_epoch_most_of_gateway(kp_wall_ns())) {
		return 0;
	}
	kp_err_set(err, KP_INVALID_ARGUMENT, "epoch `%llu`: is far ahead of this gateway's clock",
		(unsigned long long)epoch);
	err->reason = KP_NACK_INVALID;
	return -1;
}

/* --- the last good program --- */

static void keep(struct follow *f)
{
	struct kp_err err;
	char before[sizeof(f->state_error)];
	if (!f->last_good) {
		return;
	}
	memcpy(before, f->state_error, sizeof(before));
	f->state_error[0] = '\0';
	f->keep_again_ns = kp_loop_now(f->loop) + KEEP_AGAIN_NS;
	if (kp_last_good_write(f->last_good, &f->follower.revision, f->follower.items, &err)) {
		set_text(f->state_error, sizeof(f->state_error), err.msg);
		if (!kp_str_eq(kp_str_c(before), kp_str_c(f->state_error))) {
			kp_log(KP_LOG_ERROR, "cannot keep the program on disk", kp_f_err(&err));
		}
	}
}

static void restore(struct follow *f)
{
	struct kp_revision revision;
	struct kp_items *items;
	struct kp_program *p;
	struct kp_err err;
	char text[KP_REVISION_TEXT_MAX];
	if (!f->last_good) {
		return;
	}
	if (kp_last_good_read(f->last_good, &revision, &items, &err)) {
		if (err.code != KP_NOT_FOUND) {
			kp_log(KP_LOG_ERROR, "cannot read the last good program", kp_f_err(&err));
			set_text(f->state_error, sizeof(f->state_error), err.msg);
		}
		return;
	}
	if (check_epoch(revision.epoch, &err) ||
		kp_items_to_program(items, f->follower.ns, &p, &err)) {
		kp_log(KP_LOG_ERROR, "the last good program cannot be used", kp_f_err(&err));
		kp_items_unref(items);
		return;
	}
	kp_follower_restore(&f->follower, &revision, items, kp_now_ns());
	kp_log(KP_LOG_INFO, "starting with the last good program",
		kp_f_z("revision", kp_revision_text(&revision, text)),
		kp_f_int("engines", (int64_t)p->n_engines));
	f->sink.program(f->sink.arg, p, kp_wall_ns() / KP_NS_PER_S);
}

/* --- messages --- */

static void on_report(struct kp_timer *t)
{
	struct follow *f = KP_CONTAINER(t, struct follow, report);
	int64_t now = kp_loop_now(f->loop);
	if (f->state_error[0] && f->follower.items && now >= f->keep_again_ns) {
		keep(f);
		f->sink.changed(f->sink.arg);
	}
	struct kp_arena *a = kp_arena_create(REPORT_BYTES);
	struct kp_gateway_message m = { .type = KP_GATEWAY_REPORT };
	f->sink.fill(f->sink.arg, a, &m.report);
	m.report.state_error = kp_str_c(f->state_error);
	tell(f, &m);
	kp_arena_destroy(a);
	f->report_due_ns = kp_loop_now(f->loop) + f->report_ns;
	kp_timer_start(f->loop, t, f->report_due_ns, on_report);
}

static void on_welcome(struct follow *f, const struct kp_welcome *w)
{
	struct kp_err err;
	if (w->protocol != KP_CONTROL_PROTOCOL) {
		kp_err_set(&err, KP_UNIMPLEMENTED,
			"the operator speaks protocol %u, this gateway %d", w->protocol,
			KP_CONTROL_PROTOCOL);
		kp_rpc_stream_close(f->stream, &err);
		return;
	}
	if (check_epoch(w->epoch, &err)) {
		kp_rpc_stream_close(f->stream, &err);
		return;
	}
	f->is_welcome = true;
	f->backoff_ns = BACKOFF_MIN_NS;
	kp_timer_stop(f->loop, &f->welcome);
	kp_follower_connected(&f->follower, w->epoch, kp_now_ns());
	snprintf(f->operator_id, sizeof(f->operator_id), "%" KP_FMT, KP_ARG(w->id));
	f->lost[0] = '\0';
	kp_gauge_set(f->connected, 1);
	kp_log(KP_LOG_INFO, "operator", kp_f_z("address", f->at), kp_f_str("id", w->id),
		kp_f_int("epoch", (int64_t)w->epoch));
	uint32_t ms = w->report_interval_ms ? w->report_interval_ms : REPORT_MS;
	f->report_ns =
		KP_MIN(KP_MAX(ms, (uint32_t)REPORT_MS_MIN), (uint32_t)REPORT_MS_MAX) * KP_NS_PER_MS;
	f->report_due_ns = kp_loop_now(f->loop);
	kp_timer_start(f->loop, &f->report, f->report_due_ns, on_report);
	f->sink.changed(f->sink.arg);
}

static void refuse(struct follow *f, const struct kp_revision *revision, const struct kp_err *err)
{
	char text[KP_REVISION_TEXT_MAX];
	const struct kp_gateway_message m = { .type = KP_GATEWAY_NACK,
		.nack = { .revision = *revision,
			.reason = kp_str_c(err->reason ? err->reason : KP_NACK_INVALID),
			.message = kp_str_c(err->msg) } };
	f->refused = *err;
	kp_counter_add(f->nacked, 1);
	kp_log(KP_LOG_ERROR, "program refused, the last good one stays",
		kp_f_z("revision", kp_revision_text(revision, text)),
		kp_f_z("reason", err->reason ? err->reason : "-"), kp_f_err(err));
	tell(f, &m);
	f->sink.changed(f->sink.arg);
}

static void on_program(struct follow *f, const struct kp_program_message *m)
{
	struct kp_offer offer = { 0 };
	struct kp_err err;
	char text[KP_REVISION_TEXT_MAX];
	if (check_epoch(m->revision.epoch, &err) ||
		kp_follower_check(&f->follower, m, kp_now_ns(), &offer, &err)) {
		refuse(f, &m->revision, &err);
		return;
	}
	bool is_new = !offer.is_unchanged;
	struct kp_program *p = kp_steal(offer.program);
	kp_follower_commit(&f->follower, &offer);
	kp_offer_fini(&offer);
	f->refused.code = KP_OK;
	kp_counter_add(f->taken, 1);
	if (is_new) {
		kp_log(KP_LOG_INFO, "program accepted",
			kp_f_z("revision", kp_revision_text(&m->revision, text)),
			kp_f_int("engines", (int64_t)p->n_engines));
		f->sink.program(f->sink.arg, p, kp_wall_ns() / KP_NS_PER_S);
	}
	tell(f, &(struct kp_gateway_message){ .type = KP_GATEWAY_ACK, .ack = m->revision });
	keep(f);
	f->sink.changed(f->sink.arg);
}

static void on_message(void *user, kp_str bytes)
{
	struct follow *f = user;
	struct kp_arena *a = kp_arena_create(KP_CONTROL_ARENA_BYTES);
	struct kp_operator_message m;
	struct kp_err err;
	if (kp_control_read_to_gateway(bytes, a, &m, &err)) {
		kp_err_wrap(&err, "operator `%s`", f->at);
		kp_rpc_stream_close(f->stream, &err);
	} else if (m.type == KP_OPERATOR_WELCOME && !f->is_welcome) {
		on_welcome(f, &m.welcome);
	} else if (m.type == KP_OPERATOR_PROGRAM && f->is_welcome) {
		on_program(f, &m.program);
	} else if (m.type != KP_OPERATOR_NONE) {
		kp_err_set(&err, KP_INTERNAL, "operator `%s`: a message out of order", f->at);
		kp_rpc_stream_close(f->stream, &err);
	}
	kp_arena_destroy(a);
}

/* --- the stream --- */

static void open_stream(struct follow *f);

static void on_again(struct kp_timer *t)
{
	open_stream(KP_CONTAINER(t, struct follow, again));
}

static void learn_leader(struct follow *f, kp_str status)
{
	ptrdiff_t at = kp_str_find(status, KP_S(KP_CONTROL_LEADER));
	if (at < 0) {
		return;
	}
	kp_str address = kp_str_skip(status, (size_t)at + sizeof(KP_CONTROL_LEADER) - 1);
	ptrdiff_t n = kp_str_find(address, KP_S(KP_CONTROL_LEADER_END));
	if (n > 0 && (size_t)n < sizeof(f->leader)) {
		snprintf(f->leader, sizeof(f->leader), "%.*s", (int)n, address.p);
	}
}

static void on_closed(void *user, const struct kp_err *status)
{
	struct follow *f = user;
	const char *why = status->code == KP_OK ? "it ended the stream" : status->msg;
	f->stream = NULL;
	kp_timer_stop(f->loop, &f->welcome);
	kp_timer_stop(f->loop, &f->report);
	if (f->is_welcome) {
		kp_follower_disconnected(&f->follower, kp_now_ns());
	}
	f->is_welcome = false;
	kp_gauge_set(f->connected, 0);
	if (!kp_str_eq(
		    kp_str_c(f->lost), kp_str_c(why))) { /* the same with each attempt: said once */
		set_text(f->lost, sizeof(f->lost), why);
		kp_log(KP_LOG_WARN, "no operator, going on without", kp_f_z("address", f->at),
			kp_f_z("reason", why));
		f->sink.changed(f->sink.arg);
	}
	f->leader[0] = '\0';
	if (status->code == KP_UNAVAILABLE) {
		learn_leader(f, kp_str_c(status->msg));
	}
	bool is_hint = f->leader[0] && !f->is_hurried;
	int64_t pause = is_hint ? BACKOFF_MIN_NS : f->backoff_ns;
	int64_t wait = pause / 2 + (int64_t)kp_rng_below(&f->rng, (uint64_t)pause);
	f->backoff_ns = is_hint ? f->backoff_ns : KP_MIN(f->backoff_ns * 2, BACKOFF_MAX_NS);
	f->is_hurried = is_hint; /* at once to a leader, but not again and again */
	kp_timer_start(f->loop, &f->again, kp_loop_now(f->loop) + wait, on_again);
}

static void on_no_welcome(struct kp_timer *t)
{
	struct follow *f = KP_CONTAINER(t, struct follow, welcome);
	struct kp_err err;
	kp_err_set(&err, KP_DEADLINE_EXCEEDED, "the operator did not answer");
	kp_rpc_stream_close(f->stream, &err);
}

/* One that claims endpoints and owns none lost them to another, most likely because it is gone: an
 * operator that starts anew must not give them back to it. */
static bool has_its_claims(const struct kp_program *p, const struct kp_program_gateway *g)
{
	bool has = g->n_own == 0;
	for (size_t i = 0; i < p->n_engines && !has; i++) {
		for (size_t k = 0; k < p->engines[i].n_endpoints && !has; k++) {
			has = p->engines[i].endpoints[k].owner == g;
		}
	}
	return has;
}

static void hello(struct follow *f)
{
	const struct kp_config *c = &f->gateway->config;
	kp_str own[KP_STRINGS_MAX];
	for (size_t i = 0; i < c->own.n; i++) {
		own[i] = kp_str_c(c->own.p[i]);
	}
	struct kp_gateway_message m = { .type = KP_GATEWAY_HELLO,
		.hello = { .protocol = KP_CONTROL_PROTOCOL,
			.id = kp_str_c(c->id),
			.ns = kp_str_c(c->namespace),
			.peer = kp_str_c(f->gateway->peer_address),
			.node = kp_str_c(c->node),
			.admin = kp_str_c(f->gateway->admin_address),
			.version = kp_str_c(kp_version()),
			.own = own,
			.n_own = c->own.n,
			.revision = f->follower.revision,
			.epoch_seen = f->follower.epoch_seen,
			.epoch_age_ms = kp_follower_age_ms(&f->follower, kp_now_ns()) } };
	struct kp_program *p = NULL;
	struct kp_program_gateway *known = NULL;
	struct kp_err err;
	if (f->follower.items &&
		kp_items_to_program(f->follower.items, f->follower.ns, &p, &err) == 0) {
		known = kp_xcalloc(p->n_gateways + 1, sizeof(*known));
		for (size_t i = 0; i < p->n_gateways; i++) {
			if (has_its_claims(p, &p->gateways[i])) {
				known[m.hello.n_known++] = p->gateways[i];
			}
		}
		m.hello.known = known;
	}
	tell(f, &m);
	kp_mem_free(known);
	kp_program_destroy(p);
}

static const struct kp_rpc_limits limits = { .max_message_bytes = KP_CONTROL_TO_GATEWAY_MAX };

/* Leaves at_leader NULL where that is no address to go to. */
static void turn_to_leader(struct follow *f)
{
	const struct kp_config *c = &f->gateway->config;
	const struct kp_rpc_tls tls = { .dir = c->tls_dir };
	struct kp_addr a;
	struct kp_err err;
	kp_rpc_client_destroy(f->at_leader);
	f->at_leader = NULL;
	if (f->leader[0] && (kp_addr_parse(c->control, &a, &err) ||
				    kp_rpc_client_create(f->loop, f->leader, KP_CONTROL_METHOD,
					    &tls, a.host, &limits, &f->at_leader, &err))) {
		kp_log(KP_LOG_WARN, "cannot turn to the operator that leads",
			kp_f_z("address", f->leader), kp_f_err(&err));
	}
	set_text(f->at, sizeof(f->at), f->at_leader ? f->leader : c->control);
	f->leader[0] = '\0';
}

static void open_stream(struct follow *f)
{
	static const struct kp_rpc_stream_ops ops = { on_message, on_closed };
	turn_to_leader(f);
	f->stream = kp_rpc_client_open(f->at_leader ? f->at_leader : f->client, &ops, f);
	kp_timer_start(f->loop, &f->welcome, kp_loop_now(f->loop) + WELCOME_NS, on_no_welcome);
	hello(f);
}

/* --- the source --- */

static void start(struct kp_source *s)
{
	open_stream(KP_CONTAINER(s, struct follow, base));
}

/* What changes together is told together. */
static void engines_changed(struct kp_source *s)
{
	struct follow *f = KP_CONTAINER(s, struct follow, base);
	if (f->is_welcome) {
		int64_t due = kp_loop_now(f->loop) + REPORT_MS_MIN * KP_NS_PER_MS;
		kp_timer_start(f->loop, &f->report, KP_MIN(due, f->report_due_ns), on_report);
	}
}

static void report(const struct kp_source *s, struct kp_buf *out)
{
	const struct follow *f = KP_CONTAINER(s, const struct follow, base);
	char text[KP_REVISION_TEXT_MAX];
	kp_buf_printf(out, "[%c]program: %s\n", f->follower.items ? '+' : '-',
		kp_revision_text(&f->follower.revision, text));
	if (f->refused.code != KP_OK) {
		kp_buf_printf(out,
			"[!]program: the newest is refused, the last good one stays\n    %s\n",
			f->refused.msg);
	}
	if (f->lost[0]) {
		kp_buf_printf(out, "[!]operator %s: %s\n", f->at, f->lost);
	} else if (f->is_welcome) {
		kp_buf_printf(out, "[+]operator %s: %s\n", f->at, f->operator_id);
	}
	if (f->state_error[0]) {
		kp_buf_printf(out, "[!]last good program: %s\n", f->state_error);
	}
}

static void destroy(struct kp_source *s)
{
	struct follow *f = KP_CONTAINER(s, struct follow, base);
	kp_rpc_client_destroy(f->at_leader); /* the stream ends now: on_closed */
	kp_rpc_client_destroy(f->client);
	kp_timer_stop(f->loop, &f->again);
	kp_timer_stop(f->loop, &f->welcome);
	kp_timer_stop(f->loop, &f->report);
	kp_follower_fini(&f->follower);
	kp_mem_free(f->last_good);
	kp_mem_free(f);
}

int kp_source_operator_create(struct kp_gateway *g, struct kp_loop *loop,
	const struct kp_source_sink *sink, struct kp_source **ret, struct kp_err *err)
{
	static const struct kp_source_ops ops = { start, engines_changed, report, destroy };
	const char *help = "Programs the operator sent, by result.";
	const struct kp_label taken = { "result", KP_S("accepted") },
			      nacked = { "result", KP_S("refused") };
	const struct kp_rpc_tls tls = { .dir = g->config.tls_dir };
	struct follow *f = kp_new(struct follow);
	*f = (struct follow){ .base = { &ops },
		.gateway = g,
		.loop = loop,
		.sink = *sink,
		.backoff_ns = BACKOFF_MIN_NS };
	set_text(f->at, sizeof(f->at), g->config.control);
	kp_rng_seed(&f->rng, (uint64_t)kp_now_ns());
	f->taken = kp_metrics_counter(g->metrics, "kelpie_programs_total", help, &taken, 1);
	f->nacked = kp_metrics_counter(g->metrics, "kelpie_programs_total", help, &nacked, 1);
	f->connected = kp_metrics_gauge(g->metrics, "kelpie_operator_connected",
		"1 while the operator is connected.", NULL, 0);
	kp_follower_init(&f->follower, kp_str_c(g->config.namespace));
	if (kp_rpc_client_create(loop, g->config.control, KP_CONTROL_METHOD, &tls, NULL, &limits,
		    &f->client, err)) {
		destroy(&f->base);
		return -1;
	}
	if (g->config.state_dir) {
		KP_AUTO(buf) struct kp_buf path;
		kp_buf_init(&path, 8192);
		kp_buf_printf(&path, "%s/last-good-program", g->config.state_dir);
		f->last_good = kp_str_z(kp_buf_str(&path));
	}
	restore(f);
	*ret = &f->base;
	return 0;
}
