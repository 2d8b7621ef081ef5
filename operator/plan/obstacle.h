/* Why a pod does not run, in the words of Kubernetes: what `kubectl describe` would say of it. Pure. */
#ifndef OPERATOR_PLAN_OBSTACLE_H
#define OPERATOR_PLAN_OBSTACLE_H

#include "operator/plan/world.h"

/* It finds no node, a container's image is not there, one ends over and over. "": nothing is said. In the arena. */
kp_str kp_obstacle_of_pod(const struct kp_world_pod *pod, struct kp_arena *a);

#endif
