/* YAML text for people: block style, members in their order, two spaces a level, texts of several lines as `|` blocks. A string is quoted where any reader of YAML
   1.1 or 1.2 could take it for something else. Reading it back (kp_doc_yaml) gives an equal value. */
#ifndef KP_JSON_YAML_WRITE_H
#define KP_JSON_YAML_WRITE_H

#include "base/buf.h"

#include <jansson.h>

/* One document, with a line end and without `---`. -1: RESOURCE_EXHAUSTED: memory is gone, or out's maximum. */
int kp_yaml_write(const json_t *v, struct kp_buf *out, struct kp_err *err) KP_MUST_USE;

#endif
