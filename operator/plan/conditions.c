/* DESIGN: the first thing that keeps it from being ready gives reason and message of all conditions. */
#include "operator/plan/conditions.h"

#include <stdarg.h>
#include <stdio.h>

enum phase { READY, RECONCILING, STALLED };

static void set(struct kp_condition ret[KP_POOL_CONDITIONS], enum phase phase, const char *reason,
	const char *fmt, ...) KP_PRINTF(4, 5);

static void set(struct kp_condition ret[KP_POOL_CONDITIONS], enum phase phase, const char *reason,
	const char *fmt, ...)
{
	static const char *const types[] = { "Ready", "Reconciling", "Stalled" };
	va_list ap;
	ret[0] = (struct kp_condition){ .type = "Accepted",
		.is_true = true,
		.reason = "Accepted",
		.message = "the manifest is in force" };
	for (int i = READY; i <= STALLED; i++) {
		struct kp_condition *c = &ret[1 + i];
		*c = (struct kp_condition){
			.type = types[i], .is_true = i == (int)phase, .reason = reason
		};
		va_start(ap, fmt);
		vsnprintf(c->message, sizeof(c->message), fmt, ap);
		va_end(ap);
	}
}

bool kp_engine_is_at_zero(const struct kp_engine_facts *f)
{
	return f->is_template && f->n_wanted == 0 && f->n_pods == 0;
}

static void set_tokenizer(const struct kp_engine_facts *f, struct kp_condition *ret)
{
	*ret = (struct kp_condition){ .type = "TokenizerReady",
		.is_true = !f->broken.n && f->n_endpoints && f->n_loaded == f->n_endpoints,
		.reason = "TokenizerFailed" };
	if (f->broken.n) {
		snprintf(ret->message, sizeof(ret->message), "%" KP_FMT,
			KP_ARG(kp_str_sub(f->broken, 0, sizeof(ret->message) - 1)));
		return;
	}
	if (kp_engine_is_at_zero(f)) {
		ret->is_true = true;
		ret->reason = "ScaledToZero";
		snprintf(ret->message, sizeof(ret->message), "no pod is wanted");
		return;
	}
	ret->reason = ret->is_true ? "Loaded" : "NotLoaded";
	snprintf(ret->message, sizeof(ret->message),
		"tokenizer and chat template are loaded for %zu of %zu endpoints", f->n_loaded,
		f->n_endpoints);
}

/* What Kubernetes says of a pod that does not run, where it says something. */
#define STUCK        "%s%" KP_FMT
#define STUCK_ARG(f) (f)->stuck.n ? "; " : "", KP_ARG((f)->stuck)

/* Of an engine in pods, what comes before its endpoints. Returns false when there is nothing to say. */
static bool set_pods(const struct kp_engine_facts *f, struct kp_condition ret[KP_POOL_CONDITIONS])
{
	if (f->broken_link) {
		set(ret, STALLED, f->broken_link, "%" KP_FMT, KP_ARG(f->broken_why));
	} else if (f->in_pods && !f->has_cluster) {
		set(ret, STALLED, "NeedsCluster",
			"its pods are made and found in a Kubernetes cluster; here there are files");
	} else if (kp_engine_is_at_zero(f)) {
		set(ret, READY, "ScaledToZero", "no pod is wanted");
	} else if (f->not_made.n && f->n_pods < f->n_wanted) {
		set(ret, RECONCILING, "PodsNotMade", "%zu of %zu pods: %" KP_FMT, f->n_pods,
			f->n_wanted, KP_ARG(f->not_made));
	} else if (f->in_pods && f->n_pods == 0) {
		set(ret, RECONCILING, "NoPods", "there is no pod%s",
			f->is_template ? " yet" : " with its label `kelpie.dev/engine`");
	} else if (f->in_pods && f->n_endpoints == 0) {
		set(ret, RECONCILING, "PodsPending",
			"none of its %zu pods has an address yet" STUCK, f->n_pods, STUCK_ARG(f));
	} else {
		return false;
	}
	return true;
}

void kp_engine_conditions(const struct kp_engine_facts *f, struct kp_condition ret[KP_CONDITIONS])
{
	set_tokenizer(f, &ret[KP_POOL_CONDITIONS]);
	if (f->held_by.n) {
		set(ret, RECONCILING, "Deleting", "it was deleted, and is kept by %" KP_FMT,
			KP_ARG(f->held_by));
		return;
	}
	if (set_pods(f, ret)) {
		return;
	}
	if (f->n_endpoints == 0) {
		set(ret, STALLED, "NoEndpoints", "it names no endpoint");
	} else if (f->n_gateways == 0) {
		set(ret, RECONCILING, "NoGateways",
			"no gateway of the namespace is connected%s%" KP_FMT,
			f->no_owner.n ? "; " : "", KP_ARG(f->no_owner));
	} else if (f->refused_by.n) {
		set(ret, STALLED, "ProgramRefused", "gateway `%" KP_FMT "`: %" KP_FMT,
			KP_ARG(f->refused_by), KP_ARG(f->refused_why));
	} else if (f->taken.n) {
		set(ret, STALLED, "AddressTaken", "%" KP_FMT, KP_ARG(f->taken));
	} else if (f->n_owned < f->n_endpoints) {
		set(ret, RECONCILING, "NoOwner",
			"%zu of %zu endpoints are claimed by no gateway" STUCK "%s%" KP_FMT,
			f->n_endpoints - f->n_owned, f->n_endpoints, STUCK_ARG(f),
			f->no_owner.n ? "; " : "", KP_ARG(f->no_owner));
	} else if (f->n_acked < f->n_gateways) {
		set(ret, RECONCILING, "Programming", "%zu of %zu gateways run the program",
			f->n_acked, f->n_gateways);
	} else if (f->broken.n) {
		set(ret, STALLED, "TokenizerFailed", "%" KP_FMT, KP_ARG(f->broken));
	} else if (f->is_template && (f->n_updated < f->n_wanted || f->n_pods != f->n_wanted)) {
		set(ret, RECONCILING, "Updating",
			"%zu of %zu pods are of the newest template, %zu are there" STUCK,
			f->n_updated, f->n_wanted, f->n_pods, STUCK_ARG(f));
	} else if (f->n_routable < f->n_endpoints) {
		set(ret, RECONCILING, "EndpointsNotRoutable",
			"%zu of %zu endpoints are routable" STUCK "; `%" KP_FMT "`: %" KP_FMT,
			f->n_routable, f->n_endpoints, STUCK_ARG(f), KP_ARG(f->waiting),
			KP_ARG(f->waiting_why));
	} else {
		set(ret, READY, "Serving", "%zu of %zu endpoints are routable", f->n_routable,
			f->n_endpoints);
	}
}

void kp_pool_conditions(const struct kp_pool_facts *f, struct kp_condition ret[KP_POOL_CONDITIONS])
{
	if (f->n_engines == 0) {
		set(ret, STALLED, "NoEngines", "no InferenceEngine belongs to it");
	} else if (f->n_serving == 0) {
		set(ret, RECONCILING, "NoRoutableEndpoint",
			"none of its %zu engines has a routable endpoint", f->n_engines);
	} else {
		set(ret, READY, "Serving", "%zu of %zu engines have a routable endpoint",
			f->n_serving, f->n_engines);
	}
}
