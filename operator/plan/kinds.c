/* DESIGN: a table. */
#include "operator/plan/kinds.h"

const struct kp_kube_kind kp_kind_pool = { "inference.networking.k8s.io", "v1", "inferencepools",
	"InferencePool", false };
const struct kp_kube_kind kp_kind_engine = { "kelpie.dev", "v1alpha1", "inferenceengines",
	"InferenceEngine", false };
const struct kp_kube_kind kp_kind_tool_server = { "kelpie.dev", "v1alpha1", "toolservers",
	"ToolServer", false };
const struct kp_kube_kind kp_kind_pod = { "", "v1", "pods", "Pod", false };
const struct kp_kube_kind kp_kind_node = { "", "v1", "nodes", "Node", true };
const struct kp_kube_kind kp_kind_service = { "", "v1", "services", "Service", false };
const struct kp_kube_kind kp_kind_deployment = { "apps", "v1", "deployments", "Deployment", false };
const struct kp_kube_kind kp_kind_daemonset = { "apps", "v1", "daemonsets", "DaemonSet", false };
