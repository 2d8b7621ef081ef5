/* The skim beside the reader: what is JSON ends where both say; of what is not, only that nothing is read behind the end. */
#include "json/skim.h"

#include "base/mem.h"
#include "json/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *copy = kp_xmalloc(n + !n); /* its end is guarded */
	struct kp_json j;
	struct kp_err err = KP_ERR_INIT;
	memcpy(copy, data, n);
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	kp_json_init(&j, kp_str_n(copy, n), a);
	enum kp_json_type type = kp_json_peek(&j);
	if (type == KP_JSON_ARRAY || type == KP_JSON_OBJECT) {
		const char *end = kp_json_skim(j.p, j.end), *from = j.p;
		KP_BUG_ON(end && (end <= from || end > copy + n));
		KP_BUG_ON(kp_json_skip(&j, NULL, &err) == 0 && j.p != end);
	}
	kp_mem_free(copy);
	return 0;
}
