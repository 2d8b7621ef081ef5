/* Where a JSON array or object ends, found without checking it: for who wants to read on behind it first. */
#ifndef KP_JSON_SKIM_H
#define KP_JSON_SKIM_H

#include "base/str.h"

/* p: at a `[` or `{`. Behind the bracket that closes it, or NULL: there is none before end. Of valid JSON it is where the value ends; of anything else it is a guess, and what is
   read there has to be checked. One pass, no limit on depth. */
const char *kp_json_skim(const char *p, const char *end);

#endif
