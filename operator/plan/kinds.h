/* Kinds of objects that the operator reads and writes in more than one place. */
#ifndef OPERATOR_PLAN_KINDS_H
#define OPERATOR_PLAN_KINDS_H

#include "kube/kind.h"

extern const struct kp_kube_kind kp_kind_pool, kp_kind_engine, kp_kind_tool_server;
extern const struct kp_kube_kind kp_kind_pod, kp_kind_node, kp_kind_service;
extern const struct kp_kube_kind kp_kind_deployment, kp_kind_daemonset;

#endif
