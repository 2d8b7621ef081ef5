/* Fuzz target: PEM of anybody's. A request that is read is P-256 and signed by itself; what it is checked against says why not. A bundle
   that is read is read the same again. */
#include "pki/pki.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	kp_str text = kp_str_n(data, size);
	struct kp_pki_csr *csr = NULL;
	struct kp_pki_key *key = NULL;
	struct kp_pki_facts facts;
	struct kp_err err = KP_ERR_INIT;
	if (kp_pki_csr_read(text, &csr, &err) == 0) {
		if (kp_pki_csr_check(csr, KP_S("pod"), &err)) {
			KP_BUG_ON(err.code != KP_INVALID_ARGUMENT &&
				  err.code != KP_PERMISSION_DENIED);
		}
	} else {
		KP_BUG_ON(err.code == KP_OK || csr);
	}
	kp_pki_csr_destroy(csr);
	KP_AUTO(buf) struct kp_buf once, again;
	kp_buf_init(&once, 1 << 20);
	kp_buf_init(&again, 1 << 20);
	if (kp_pki_bundle(&text, 1, 0, &once, &err) == 0) {
		kp_str whole = kp_buf_str(&once);
		KP_BUG_ON(kp_pki_bundle(&whole, 1, 0, &again, &err));
		KP_BUG_ON(!kp_str_eq(whole, kp_buf_str(&again)));
		KP_BUG_ON(once.n && kp_pki_cert_facts(whole, &facts, &err));
	}
	if (kp_pki_cert_facts(text, &facts, &err) == 0) {
		kp_pki_cert_has_name(text, KP_S("pod"));
		kp_pki_cert_is_signed_by(text, text);
	}
	if (kp_pki_key_read(text, &key, &err) == 0) {
		kp_pki_cert_is_of(text, key);
		kp_pki_key_destroy(key);
	}
	return 0;
}
