/* DESIGN: a Lease (kube/lease.h). Only the leader programs gateways and writes to the API; the webhook and what else
   does no harm twice runs on every replica. The Lease's holder is "ID_ADDRESS_NUMBER", so that a standby can say where
   the leader is.

   The epoch of a term is the time at its beginning in milliseconds, or one more than the last epoch that the Lease
   kept (annotation kelpie.dev/epoch, written with the taking itself), whichever is higher. So it grows from leader to
   leader though their clocks differ, and grows on when somebody deletes the Lease, as far as clocks do; a leader whose
   clock is behind then is told by the gateways which epoch they saw, as between any two operators. */
#include "operator/internal.h"

#include "base/rand.h"
#include "operator/control/epoch.h"
#include "kube/lease.h"

#include <stdio.h>
#include <stdlib.h>

static void on_acquired(void *ctx, uint64_t term)
{
	struct kp_operator *o = ctx;
	uint64_t epoch = kp_kube_lease_number(o->lease);
	kp_log(KP_LOG_INFO, "leading", kp_f_int("term", (int64_t)term),
		kp_f_int("epoch", (int64_t)epoch));
	kp_gauge_set(o->leader, 1);
	kp_service_lead(o->service, epoch);
	kp_operator_leader_changed(o);
}

/* "kelpie-operator-7d_10.0.0.7:9090_81f3" */
static kp_str address_of(kp_str holder)
{
	kp_str rest =
		kp_str_sub(holder, 0, (size_t)KP_MAX(kp_str_rfind_char(holder, '_'), (ptrdiff_t)0));
	return kp_str_skip(rest, (size_t)(kp_str_rfind_char(rest, '_') + 1));
}

static void on_lost(void *ctx, const struct kp_err *why)
{
	struct kp_operator *o = ctx;
	kp_log(KP_LOG_WARN, "not leading any more", kp_f_err(why));
	kp_gauge_set(o->leader, 0);
	kp_service_stand_by(o->service, KP_S(""));
	kp_operator_leader_changed(o);
}

static void on_seen(void *ctx, kp_str holder)
{
	struct kp_operator *o = ctx;
	if (!kp_kube_lease_is_held(o->lease) && !kp_str_eq(holder, kp_str_c(o->identity))) {
		kp_log(KP_LOG_INFO, "standing by", kp_f_str("leader", holder));
		kp_service_stand_by(o->service, address_of(holder));
	}
}

static uint64_t next_epoch(void *ctx, uint64_t before)
{
	(void)ctx;
	return kp_epoch_of_term(before, kp_wall_ns());
}

static void set_identity(struct kp_operator *o)
{
	const char *ip = getenv("POD_IP");
	kp_str listen = kp_str_c(o->config.control_listen);
	kp_str host = ip ? kp_str_c(ip)
			 : kp_str_sub(listen, 0,
				   (size_t)KP_MAX(kp_str_rfind_char(listen, ':'), (ptrdiff_t)0));
	bool is_ipv6 = ip && kp_str_find_char(host, ':') >= 0;
	struct kp_rng rng;
	kp_rng_seed(&rng, (uint64_t)kp_wall_ns() ^ (uint64_t)kp_now_ns() << 20);
	snprintf(o->identity, sizeof(o->identity), "%.100s_%s%" KP_FMT "%s:%d_%08x", o->config.id,
		is_ipv6 ? "[" : "", KP_ARG(kp_str_sub(host, 0, 100)), is_ipv6 ? "]" : "",
		kp_service_port(o->service), (unsigned)kp_rng_below(&rng, UINT32_MAX));
}

void kp_operator_lead_start(struct kp_operator *o)
{
	struct kp_kube *k = kp_cluster_kube(o->cluster);
	const char *ns = getenv("POD_NAMESPACE");
	set_identity(o);
	const struct kp_kube_lease_opts opts = { .ns = ns ? kp_str_c(ns) : kp_kube_namespace(k),
		.name = KP_S("kelpie-operator"),
		.identity = o->identity,
		.annotation = "kelpie.dev/epoch",
		.next_number = next_epoch,
		.acquired = on_acquired,
		.lost = on_lost,
		.seen = on_seen,
		.ctx = o };
	o->lease = kp_kube_lease_create(k, &opts);
}

bool kp_operator_leads(const struct kp_operator *o)
{
	return !o->is_ending && (!o->lease || kp_kube_lease_is_held(o->lease));
}

void kp_operator_epoch_raised(void *ctx, uint64_t epoch)
{
	struct kp_operator *o = ctx;
	if (o->lease) {
		kp_kube_lease_raise(o->lease, epoch);
	}
}
