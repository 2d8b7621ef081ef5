/* What is kept of the objects of a cluster: only what the plan reads, so that thousands of pods are small. Pure. */
#ifndef OPERATOR_SOURCE_TRIM_H
#define OPERATOR_SOURCE_TRIM_H

#include <jansson.h>
#include <stdbool.h>

void kp_trim_pod(json_t *object);
/* Of what we own: who owns it, what was applied, its generation. */
void kp_trim_owned(json_t *object);
void kp_trim_workload(json_t *object); /* whoever made it: whose its pods are */
void kp_trim_node(json_t *object);
/* Equal but for the resourceVersion. */
bool kp_trim_same(const json_t *a, const json_t *b);

#endif
