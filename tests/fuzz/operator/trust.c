/* Fuzz target: what an API server says of a token, and of the operator's Secret (its `data`, as JSON). What is taken can be
   written, and reads the same. */
#include "base/clock.h"
#include "operator/trust/authority.h"
#include "operator/trust/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct kp_doc_limits limits = {
	.max_bytes = 1 << 20, .max_nodes = 10000, .max_depth = 16, .max_docs = 1
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_pod_identity id;
	struct kp_trust_state s;
	struct kp_err err = KP_ERR_INIT;
	json_t *v, *written;
	if (kp_doc_json(kp_str_n(data, size), "input", &limits, &v, &err)) {
		return 0;
	}
	if (kp_pod_identity_read(v, &id, &err) == 0) {
		KP_BUG_ON(!id.ns.n || !id.account.n || !id.pod.n || !id.uid.n || id.uid.n > 63);
		KP_BUG_ON(kp_str_find_char(id.ns, '/') >= 0 || kp_str_find_char(id.uid, ',') >= 0);
	} else {
		KP_BUG_ON(err.code == KP_OK);
	}
	if (kp_trust_state_read(v, &s, &err) == 0) {
		if (kp_trust_state_write(&s, 0, &written, &err) == 0) {
			struct kp_trust_state again;
			KP_BUG_ON(kp_trust_state_read(written, &again, &err));
			KP_BUG_ON(again.authorities.n != s.authorities.n);
			kp_trust_state_fini(&again);
			json_decref(written);
		}
		kp_trust_state_fini(&s);
	}
	json_decref(v);
	return 0;
}
