/* The operator's parts, for its own files. */
#ifndef OPERATOR_INTERNAL_H
#define OPERATOR_INTERNAL_H

#include "kube/recorder.h"
#include "operator/apply/apply.h"
#include "operator/control/service.h"
#include "operator/https/https.h"
#include "operator/operator.h"
#include "operator/refusals.h"
#include "operator/source/cluster.h"
#include "operator/source/files.h"
#include "operator/status/listener.h"

#include <uv.h>

struct kp_operator {
	struct kp_operator_config config;
	struct kp_loop *loop;
	struct kp_metrics *metrics;
	struct kp_files *files;     /* the one */
	struct kp_cluster *cluster; /* or the other */
	char user_agent[64];        /* to the API server */
	struct kp_intent *checked;  /* of the objects that are being read */
	struct kp_intent *intent;   /* of those accepted last */
	struct kp_plan *plan;       /* the last that could be made; NULL: none yet */
	struct kp_err plan_error;   /* why the newest could not be, code OK: it could */
	struct kp_rpc_keys *keys;   /* of the control port; NULL: files, or none */
	struct kp_https *https;     /* NULL: not asked for */
	struct kp_service *service;
	struct kp_apply *apply; /* NULL: files */
	struct kp_kube_recorder *recorder;
	struct kp_refusals refusals; /* of certificates */
	struct kp_map said;          /* "namespace/engine" -> publish.c's */
	uint64_t n_published;
	bool is_moved;               /* what is to be applied may be another, or who leads is */
	bool is_planned;             /* the plan is of the world as it is */
	bool is_intent_planned;      /* the plan is of the intent as it is */
	struct kp_kube_lease *lease; /* NULL: it leads alone */
	char identity[320];          /* in the Lease */
	struct kp_gauge *leader;
	struct kp_status_listener *listener;
	struct kp_map since; /* of what is shown: since when it is so, see report.c */
	uint64_t n_shown;
	int64_t started_wall_ns;
	int64_t next_plan_ns, next_gateways_ns, next_show_ns, next_first_ns; /* not before */
	struct kp_timer replan, show;
	uv_poll_t signals;
	int signal_fd;
	bool is_ending;
	struct kp_counter *plans_made, *plans_failed, *namespaces_planned;
	struct kp_histogram *plan_seconds;
	struct kp_gauge *endpoints[7]; /* by state, see report.c */
};

/* lead.c */
void kp_operator_lead_start(struct kp_operator *o);
bool kp_operator_leads(const struct kp_operator *o); /* surely, now */
void kp_operator_epoch_raised(void *ctx, uint64_t epoch);

/* publish.c: the statuses of objects, the readiness gates of pods, and Events, from what people are shown. Returns when what it put off is
   due; INT64_MAX: nothing is */
int64_t kp_operator_publish(struct kp_operator *o, const struct kp_status *s);

/* operator.c: it leads from now on, or does not any more */
void kp_operator_leader_changed(struct kp_operator *o);

/* report.c */
void kp_operator_report_init(struct kp_operator *o);
void kp_operator_report_fini(struct kp_operator *o);
/* What is known now, to be published; also sets the gauges that follow from it. */
struct kp_status *kp_operator_report(struct kp_operator *o);

#endif
