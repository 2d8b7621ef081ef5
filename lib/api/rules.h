/* The C twins of the CEL rules in crds/. `self` is what the rule calls self: valid by its schema, defaults filled in. Pure. */
#ifndef KP_API_RULES_H
#define KP_API_RULES_H

#include <jansson.h>
#include <stdbool.h>

#define KP_RULE(name, text) bool kp_rule_##name(const json_t *self);
#include "api/rules.def"
#undef KP_RULE

#endif
