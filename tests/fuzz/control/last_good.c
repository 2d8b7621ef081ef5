/* Fuzz target: a last good program's file. With a first byte of 0 the rest is the file; with 1 it is the
   body, and the head is made to fit, so that what lies behind the checksum is reached. */
#include "control/last_good.h"

#include <openssl/sha.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(kp_str file)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_revision r = { .is_set = false };
	struct kp_items *items = NULL;
	if (kp_last_good_decode(file, &r, &items, &err) < 0) {
		KP_BUG_ON(err.code == KP_OK || items);
		return;
	}
	KP_BUG_ON(!r.is_set || memcmp(r.hash, items->hash, KP_HASH_BYTES) != 0);
	struct kp_buf b;
	kp_buf_init(&b, 128 << 20);
	KP_BUG_ON(kp_last_good_encode(&r, items, &b, &err) < 0);
	struct kp_items *again = NULL;
	KP_BUG_ON(kp_last_good_decode(kp_buf_str(&b), &r, &again, &err) < 0);
	KP_BUG_ON(!kp_items_same(items, again));
	kp_items_unref(items);
	kp_items_unref(again);
	kp_buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0) {
		return 0;
	}
	kp_str rest = kp_str_n(data + 1, size - 1);
	if (data[0] % 2 == 0) {
		decode(rest);
		return 0;
	}
	struct kp_buf b;
	uint8_t hash[KP_HASH_BYTES];
	kp_buf_init(&b, 128 << 20);
	kp_buf_lit(&b, "KPLPROG\x01");
	for (size_t i = 0; i < 8; i++) {
		kp_buf_addc(&b, (char)((uint64_t)rest.n >> (8 * i)));
	}
	SHA256((const uint8_t *)rest.p, rest.n, hash);
	kp_buf_add(&b, kp_str_n(hash, sizeof(hash)));
	kp_buf_add(&b, rest);
	decode(kp_buf_str(&b));
	kp_buf_fini(&b);
	return 0;
}
