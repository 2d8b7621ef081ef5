/* Which Kelpie this is: the file VERSION and the commit, put in at build time (mk/build.mk), and
 * the text of --version. */
#ifndef KP_BASE_VERSION_H
#define KP_BASE_VERSION_H

#include "base/buf.h"

const char *kp_version(void); /* "0.1.0" */
/* 40 hexadecimal digits, with "-changed" behind them when the checkout had changes. "unknown" in
   other variants than release, and outside of git and of its archives. */
const char *kp_commit(void);

struct kp_library {
	const char *name, *version;
};
/* Appends "kelpie-sidecar 0.1.0", the commit, the compiler, and one line per library that the
 * program was started with. */
void kp_version_text(
	struct kp_buf *b, const char *program, const struct kp_library *libraries, size_t n);

#endif
