/* What --version prints. */
#ifndef OPERATOR_VERSION_H
#define OPERATOR_VERSION_H

#include "base/buf.h"

void kp_operator_version_text(struct kp_buf *out);

#endif
