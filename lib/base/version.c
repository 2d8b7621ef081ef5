/* DESIGN: see version.h. Nothing here depends on when, where or by whom it was built, so that
 * builds stay reproducible. */
#include "base/version.h"

#include "base/version_gen.h"

#if defined(KP_ASAN)
#define BUILD "with sanitizers"
#elif defined(__OPTIMIZE__)
#define BUILD "optimised"
#else
#define BUILD "not optimised"
#endif
#ifdef __clang__
#define COMPILER __VERSION__ /* says clang itself */
#else
#define COMPILER "gcc " __VERSION__
#endif

const char *kp_version(void)
{
	return KP_VERSION;
}

const char *kp_commit(void)
{
	return KP_COMMIT;
}

void kp_version_text(
	struct kp_buf *b, const char *program, const struct kp_library *libraries, size_t n)
{
	kp_buf_printf(b, "%s %s\ncommit %s\nbuilt by %s, %s\n", program, kp_version(), kp_commit(),
		COMPILER, BUILD);
	for (size_t i = 0; i < n; i++) {
		kp_buf_printf(b, "%s %s\n", libraries[i].name, libraries[i].version);
	}
}
