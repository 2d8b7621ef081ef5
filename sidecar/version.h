/* What --version prints. */
#ifndef SIDECAR_VERSION_H
#define SIDECAR_VERSION_H

#include "base/buf.h"

void kp_sidecar_version_text(struct kp_buf *out);

#endif
