/* The pull reader on any bytes: no crash, the depth comes back, what is accepted is written and read back as the same value; a check that keeps nothing
   accepts the same. */
#include "json/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct kp_arena *a = kp_arena_create(16 << 20);
	struct kp_err err = KP_ERR_INIT;
	struct kp_jv v, again;
	enum kp_json_type type;
	bool is_json = kp_json_check(kp_str_n(data, n), a, &type, &err) == 0;
	int r = kp_jv_parse(kp_str_n(data, n), a, &v, &err);
	KP_BUG_ON(is_json != (r == 0) && err.code != KP_RESOURCE_EXHAUSTED);
	KP_BUG_ON(is_json && r == 0 && v.type != type);
	if (r == 0) {
		struct kp_buf out;
		kp_buf_init(&out, 64 << 20);
		kp_jv_write(&v, &out);
		KP_BUG_ON(out.failed);
		KP_BUG_ON(kp_jv_parse(kp_buf_str(&out), a, &again, &err) != 0 &&
			  err.code != KP_RESOURCE_EXHAUSTED);
		KP_BUG_ON(err.code != KP_RESOURCE_EXHAUSTED && !kp_jv_eq(&v, &again));
		kp_buf_fini(&out);
	}
	kp_arena_destroy(a);
	return 0;
}
