/* What requests may ask for, what is signed, and bundles. How the openssl program sees the same: tests/integ/kube/test_trust.py. */
#include "pki/pki.h"
#include "tests/test.h"

#include <stdio.h>

#define NOW   INT64_C(1800000000)
#define DAY_S 86400

struct world {
	struct kp_pki_key *ca_key, *key;
	struct kp_buf ca, csr, cert;
};

static void make(struct world *w)
{
	struct kp_err err;
	struct kp_buf *all[] = { &w->ca, &w->csr, &w->cert };
	for (size_t i = 0; i < KP_LEN(all); i++) {
		kp_buf_init(all[i], 1 << 16);
	}
	assert_int_equal(kp_pki_key_create(&w->ca_key, &err), 0);
	assert_int_equal(kp_pki_key_create(&w->key, &err), 0);
	assert_int_equal(
		kp_pki_make_authority(w->ca_key, "ca", NOW, NOW + 10 * DAY_S, &w->ca, &err), 0);
	assert_int_equal(kp_pki_csr_write(w->key, "pod-1", &w->csr, &err), 0);
}

static void drop(struct world *w)
{
	kp_pki_key_destroy(w->ca_key);
	kp_pki_key_destroy(w->key);
	kp_buf_fini(&w->ca);
	kp_buf_fini(&w->csr);
	kp_buf_fini(&w->cert);
}

static void test_request_to_certificate(void **state)
{
	(void)state;
	struct world w;
	struct kp_err err;
	struct kp_pki_facts f;
	KP_AUTO(pki_csr) struct kp_pki_csr *csr = NULL;
	make(&w);
	assert_int_equal(kp_pki_csr_read(kp_buf_str(&w.csr), &csr, &err), 0);
	assert_int_equal(kp_pki_csr_check(csr, KP_S("pod-1"), &err), 0);
	assert_int_equal(kp_pki_csr_check(csr, KP_S("pod-2"), &err), -1);
	assert_int_equal(err.code, KP_PERMISSION_DENIED);
	assert_string_equal(
		err.msg, "certificate request: the name `pod-1` is not the pod's UID `pod-2`");
	const kp_str names[] = { KP_S("pod-1"), KP_S("127.0.0.1"), KP_S("::1") };
	const struct kp_pki_leaf leaf = { .name = "pod-1",
		.names = names,
		.n_names = KP_LEN(names),
		.uri = "spiffe://x/ns/a",
		.not_after_s = NOW + DAY_S };
	assert_int_equal(
		kp_pki_sign(kp_buf_str(&w.ca), w.ca_key, &leaf, csr, NULL, NOW, &w.cert, &err), 0);
	kp_str cert = kp_buf_str(&w.cert);
	assert_int_equal(kp_pki_cert_facts(cert, &f, &err), 0);
	assert_int_equal(f.not_before_s, NOW - KP_PKI_SKEW_S);
	assert_int_equal(f.not_after_s, NOW + DAY_S);
	assert_false(f.is_authority);
	assert_int_equal(strlen(f.serial), 32);
	assert_true(kp_pki_cert_is_of(cert, w.key));
	assert_false(kp_pki_cert_is_of(cert, w.ca_key));
	assert_true(kp_pki_cert_is_signed_by(cert, kp_buf_str(&w.ca)));
	assert_false(kp_pki_cert_is_signed_by(cert, cert));
	assert_false(kp_pki_cert_is_signed_by(cert, KP_S("")));
	for (size_t i = 0; i < KP_LEN(names); i++) {
		assert_true(kp_pki_cert_has_name(cert, names[i]));
	}
	assert_false(kp_pki_cert_has_name(cert, KP_S("pod")));
	assert_false(kp_pki_cert_has_name(cert, KP_S("127.0.0.2")));
	assert_false(kp_pki_cert_has_name(cert, KP_S("")));
	drop(&w);
}

/* Nothing outlives whoever signed it. */
static void test_never_longer_than_the_authority(void **state)
{
	(void)state;
	struct world w;
	struct kp_err err;
	struct kp_pki_facts f;
	make(&w);
	const kp_str name = KP_S("a");
	const struct kp_pki_leaf leaf = {
		.name = "a", .names = &name, .n_names = 1, .not_after_s = NOW + 1000 * DAY_S
	};
	kp_str ca = kp_buf_str(&w.ca);
	assert_int_equal(kp_pki_sign(ca, w.ca_key, &leaf, NULL, w.key, NOW, &w.cert, &err), 0);
	assert_int_equal(kp_pki_cert_facts(kp_buf_str(&w.cert), &f, &err), 0);
	assert_int_equal(f.not_after_s, NOW + 10 * DAY_S);
	assert_int_equal(
		kp_pki_sign(ca, w.ca_key, &leaf, NULL, w.key, NOW + 10 * DAY_S, &w.cert, &err), -1);
	assert_string_equal(err.msg, "sign a certificate: the authority is over");
	drop(&w);
}

static void test_keys(void **state)
{
	(void)state;
	struct kp_err err;
	KP_AUTO(pki_key) struct kp_pki_key *a = NULL, *b = NULL;
	struct kp_buf pem, again;
	kp_buf_init(&pem, 4096);
	kp_buf_init(&again, 4096);
	assert_int_equal(kp_pki_key_create(&a, &err), 0);
	assert_int_equal(kp_pki_key_write(a, &pem, &err), 0);
	assert_int_equal(kp_pki_key_read(kp_buf_str(&pem), &b, &err), 0);
	assert_int_equal(kp_pki_key_write(b, &again, &err), 0);
	assert_true(kp_str_eq(kp_buf_str(&pem), kp_buf_str(&again)));
	kp_pki_wipe(&pem);
	kp_pki_wipe(&again);
	assert_int_equal(pem.n, 0);
	struct kp_pki_key *none = NULL;
	assert_int_equal(kp_pki_key_read(KP_S("x"), &none, &err), -1);
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	assert_int_equal(kp_pki_key_read(KP_STR_NULL, &none, &err), -1);
	assert_null(none);
}

static void test_bundles(void **state)
{
	(void)state;
	struct world a, b;
	struct kp_err err;
	struct kp_buf out;
	make(&a);
	make(&b);
	kp_buf_init(&out, 1 << 16);
	const kp_str texts[] = { kp_buf_str(&a.ca), kp_buf_str(&b.ca), KP_S(""),
		kp_buf_str(&a.ca) };
	assert_int_equal(kp_pki_bundle(texts, KP_LEN(texts), NOW, &out, &err), 0);
	assert_int_equal(out.n, a.ca.n + b.ca.n); /* each once */
	assert_true(kp_str_starts(kp_buf_str(&out), kp_buf_str(&a.ca)));
	struct kp_buf once;
	kp_buf_init(&once, 1 << 16);
	kp_str whole = kp_buf_str(&out);
	assert_int_equal(kp_pki_bundle(&whole, 1, NOW, &once, &err), 0);
	assert_true(kp_str_eq(kp_buf_str(&once), whole));
	kp_buf_reset(&once);
	assert_int_equal(kp_pki_bundle(&whole, 1, NOW + 11 * DAY_S, &once, &err), 0);
	assert_int_equal(once.n, 0); /* they are over */
	static const char *const bad[] = { "x",
		"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\n" };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		const kp_str one = kp_str_c(bad[i]);
		kp_buf_reset(&once);
		assert_int_equal(kp_pki_bundle(&one, 1, NOW, &once, &err), -1);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
	kp_buf_fini(&once);
	kp_buf_fini(&out);
	drop(&a);
	drop(&b);
}

static void test_requests_of_others(void **state)
{
	(void)state;
	struct world w;
	struct kp_err err;
	struct kp_pki_csr *csr = NULL;
	KP_AUTO(buf) struct kp_buf two, large;
	make(&w);
	kp_buf_init(&two, 1 << 16);
	kp_buf_init(&large, 1 << 16);
	kp_buf_add(&two, kp_buf_str(&w.csr));
	kp_buf_add(&two, kp_buf_str(&w.csr));
	assert_int_equal(kp_pki_csr_read(kp_buf_str(&two), &csr, &err), -1);
	assert_string_equal(err.msg, "certificate request: something follows it");
	while (large.n <= KP_PKI_REQUEST_MAX) {
		kp_buf_addc(&large, '\n');
	}
	assert_int_equal(kp_pki_csr_read(kp_buf_str(&large), &csr, &err), -1);
	assert_int_equal(err.code, KP_TOO_LARGE);
	assert_int_equal(kp_pki_csr_read(kp_buf_str(&w.ca), &csr, &err), -1);
	assert_int_equal(kp_pki_csr_read(KP_STR_NULL, &csr, &err), -1);
	/* A byte of it that changes is a signature that does not hold, or no request at all. */
	kp_str whole = kp_buf_str(&w.csr);
	for (size_t i = 40; i < whole.n - 40; i += 7) {
		char was = w.csr.p[i];
		w.csr.p[i] = was == 'A' ? 'B' : 'A';
		if (was != '\n' && kp_pki_csr_read(whole, &csr, &err) == 0) {
			fail_msg("byte %zu", i);
		}
		w.csr.p[i] = was;
	}
	assert_null(csr);
	drop(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request_to_certificate),
		cmocka_unit_test(test_never_longer_than_the_authority),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_bundles),
		cmocka_unit_test(test_requests_of_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
