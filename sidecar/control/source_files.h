/* Manifests from files: reading them into a program, and noticing that they changed. Control
 * thread; blocking. */
#ifndef SIDECAR_CONTROL_SOURCE_FILES_H
#define SIDECAR_CONTROL_SOURCE_FILES_H

#include "sidecar/control/program.h"

/* path: a file or a directory (*.yaml, *.yml, *.json). On failure every error found stands in
 * `errors`, a line each ("    FILE:LINE:COLUMN: field: message"), and in the log; err is the first.
 */
int kp_source_files_load(const char *path, kp_str ns, struct kp_program **ret,
	struct kp_buf *errors, size_t *ret_n_errors, struct kp_err *err) KP_MUST_USE;
/* Changes whenever a file is added, removed, replaced or written. 0: nothing can be read there. */
uint64_t kp_source_files_signature(const char *path);

#endif
