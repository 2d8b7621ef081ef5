/* POST /parse: what the parsers make of a text (docs/parsers.md). */
#ifndef SIDECAR_ADMIN_PARSE_H
#define SIDECAR_ADMIN_PARSE_H

#include "admin/admin.h"

enum { KP_ADMIN_PARSE_MAX = 1 << 20 }; /* bytes of a body: probes wait while one is parsed */

kp_admin_poster kp_admin_parse; /* ctx is the gateway */

#endif
