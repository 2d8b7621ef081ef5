/* Authorities over time, the Secret's form, whose a token is, how often somebody may ask. */
#include "operator/trust/authority.h"
#include "operator/trust/identity.h"
#include "operator/trust/quota.h"
#include "operator/trust/trust.h"
#include "base/clock.h"
#include "base/rand.h"
#include "tests/test.h"

#include <stdio.h>

#define NOW INT64_C(1800000000)

static const kp_str names[] = { KP_S_INIT("kelpie-operator"), KP_S_INIT("127.0.0.1") };
static const struct kp_trust_wish wish = { .period_s = 1000,
	.overlap_s = 100,
	.lifetime_s = 600,
	.names = names,
	.n_names = KP_LEN(names),
	.is_distributed = true };

static bool step(struct kp_trust_state *s, const struct kp_trust_wish *w, int64_t now, int64_t *due)
{
	struct kp_err err;
	bool changed;
	if (kp_trust_state_step(s, w, now, &changed, due, &err)) {
		fail_msg("%s", err.msg);
	}
	assert_true(*due > now);
	return changed;
}

/* As it comes back from the API server. */
static void reread(struct kp_trust_state *s, int64_t now)
{
	struct kp_err err;
	json_t *data, *again;
	assert_int_equal(kp_trust_state_write(s, now, &data, &err), 0);
	kp_trust_state_fini(s);
	assert_int_equal(kp_trust_state_read(data, s, &err), 0);
	assert_int_equal(kp_trust_state_write(s, now, &again, &err), 0);
	assert_true(json_equal(data, again));
	json_decref(data);
	json_decref(again);
}

static void test_one_rotation(void **state)
{
	(void)state;
	struct kp_trust_state s = { 0 };
	int64_t due;
	assert_true(step(&s, &wish, NOW, &due));
	assert_int_equal(s.authorities.n, 1);
	assert_false(step(&s, &wish, NOW, &due));
	assert_int_equal(due, NOW + 400); /* its own certificate, after two thirds */
	reread(&s, NOW);
	assert_false(step(&s, &wish, NOW + 399, &due));
	char *old = kp_xstrdup(s.cert);
	assert_true(step(&s, &wish, NOW + 400, &due));
	assert_string_not_equal(s.cert, old);
	kp_mem_free(old);
	/* The next one is made, and believed, and does not sign. */
	assert_true(step(&s, &wish, NOW + 900, &due));
	assert_int_equal(s.authorities.n, 2);
	assert_true(kp_trust_state_is_rotating(&s));
	assert_ptr_equal(kp_trust_state_signer(&s), &s.authorities.p[0]);
	assert_true(kp_pki_cert_is_signed_by(kp_str_c(s.cert), kp_str_c(s.authorities.p[0].cert)));
	/* Nor later, while somebody does not know it. */
	struct kp_trust_wish behind = wish;
	behind.is_distributed = false;
	step(&s, &behind, NOW + 1050, &due);
	assert_ptr_equal(kp_trust_state_signer(&s), &s.authorities.p[0]);
	assert_true(step(&s, &wish, NOW + 1051, &due));
	assert_ptr_equal(kp_trust_state_signer(&s), &s.authorities.p[1]);
	assert_null(s.authorities.p[0].key);
	assert_true(kp_pki_cert_is_signed_by(kp_str_c(s.cert), kp_str_c(s.authorities.p[1].cert)));
	reread(&s, NOW + 1051);
	/* The old one goes when nothing that it signed is valid. */
	step(&s, &wish, NOW + 1051 + 600 + KP_AUTHORITY_GRACE_S - 1, &due);
	assert_int_equal(s.authorities.n, 2);
	assert_true(step(&s, &wish, NOW + 1051 + 600 + KP_AUTHORITY_GRACE_S, &due));
	assert_int_equal(s.authorities.n, 1);
	kp_trust_state_fini(&s);
}

/* One namespace that cannot be told does not keep everybody from a certificate for ever. */
static void test_who_cannot_be_told_is_waited_for_a_period(void **state)
{
	(void)state;
	struct kp_trust_state s = { 0 };
	struct kp_trust_wish behind = wish;
	int64_t due;
	behind.is_distributed = false;
	step(&s, &wish, NOW, &due);
	step(&s, &behind, NOW + 900, &due);
	step(&s, &behind, NOW + 1999, &due);
	assert_ptr_equal(kp_trust_state_signer(&s), &s.authorities.p[0]);
	step(&s, &behind, NOW + 2000, &due);
	assert_ptr_equal(kp_trust_state_signer(&s), &s.authorities.p[1]);
	kp_trust_state_fini(&s);
}

/* At any step: what somebody was told the last time, or an hour of overlap ago, believes what is shown now; and what was signed
   within its lifetime is believed now. Whoever steps comes late now and then. */
static void test_nobody_is_left_behind(void **state)
{
	(void)state;
	enum { STEPS = 150, KEPT = 8 };
	struct kp_trust_state s = { 0 };
	struct kp_rng rng;
	char *bundles[KEPT] = { NULL }, *leaves[KEPT] = { NULL };
	int64_t told_at[KEPT] = { 0 }, signed_at[KEPT] = { 0 }, now = NOW, due;
	kp_rng_seed(&rng, test_seed());
	for (size_t i = 0; i < STEPS; i++) {
		KP_AUTO(buf) struct kp_buf bundle;
		struct kp_err err;
		while (step(&s, &wish, now, &due)) {
		}
		assert_true(s.authorities.n <= 4);
		kp_buf_init(&bundle, 1 << 20);
		assert_int_equal(kp_trust_state_bundle(&s, now, &bundle, &err), 0);
		for (size_t k = 0; k < KEPT; k++) {
			if (bundles[k] && told_at[k] + wish.overlap_s > now &&
				!kp_pki_cert_is_signed_by(kp_str_c(s.cert), kp_str_c(bundles[k]))) {
				fail_msg("told %lld s ago, does not believe what is shown",
					(long long)(now - told_at[k]));
			}
			if (leaves[k] && signed_at[k] + wish.lifetime_s > now &&
				!kp_pki_cert_is_signed_by(
					kp_str_c(leaves[k]), kp_buf_str(&bundle))) {
				fail_msg("signed %lld s ago, is not believed",
					(long long)(now - signed_at[k]));
			}
		}
		kp_mem_free(bundles[i % KEPT]);
		kp_mem_free(leaves[i % KEPT]);
		bundles[i % KEPT] = kp_str_z(kp_buf_str(&bundle));
		leaves[i % KEPT] = kp_xstrdup(s.cert);
		told_at[i % KEPT] = signed_at[i % KEPT] = now;
		now = i % 37 == 36 ? now + 700
				   : KP_MIN(due, now + 1 + (int64_t)kp_rng_below(&rng, 90));
	}
	for (size_t k = 0; k < KEPT; k++) {
		kp_mem_free(bundles[k]);
		kp_mem_free(leaves[k]);
	}
	kp_trust_state_fini(&s);
}

static void test_names_that_change(void **state)
{
	(void)state;
	struct kp_trust_state s = { 0 };
	const kp_str more[] = { KP_S("kelpie-operator"), KP_S("kelpie.example") };
	struct kp_trust_wish w = wish;
	int64_t due;
	step(&s, &wish, NOW, &due);
	w.names = more;
	assert_true(step(&s, &w, NOW + 1, &due));
	assert_true(kp_pki_cert_has_name(kp_str_c(s.cert), KP_S("kelpie.example")));
	assert_false(step(&s, &w, NOW + 2, &due));
	kp_trust_state_fini(&s);
}

/* --- the Secret --- */

static json_t *data_of(const char *authorities)
{
	struct kp_trust_state s = { 0 };
	struct kp_err err;
	json_t *data;
	int64_t due;
	step(&s, &wish, NOW, &due);
	assert_int_equal(kp_trust_state_write(&s, NOW, &data, &err), 0);
	kp_trust_state_fini(&s);
	if (authorities) {
		json_object_set_new(data, "authorities.json", json_string(authorities));
	}
	return data;
}

static void test_secrets_of_others(void **state)
{
	(void)state;
	static const char *const bad[] = { "e30=" /* {} */, "WzFd" /* [1] */, "!!!!", "abc",
		"eyJ2ZXJzaW9uIjoxLCJhdXRob3JpdGllcyI6W3siY2VydGlmaWNhdGUiOiJ4In1dfQ==" /* {"version":1,"authorities":[{"certificate":"x"}]} */
		,
		"eyJ2ZXJzaW9uIjoyLCJhdXRob3JpdGllcyI6W119" /* version 2 */ };
	struct kp_trust_state s;
	struct kp_err err;
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		json_t *data = data_of(bad[i]);
		assert_int_equal(kp_trust_state_read(data, &s, &err), -1);
		/* The last one is a newer operator's. */
		assert_int_equal(
			err.code, i + 1 < KP_LEN(bad) ? KP_INVALID_ARGUMENT : KP_UNIMPLEMENTED);
		json_decref(data);
	}
	/* None at all is an empty one, also when there is no data. */
	assert_int_equal(kp_trust_state_read(NULL, &s, &err), 0);
	assert_int_equal(s.authorities.n, 0);
	kp_trust_state_fini(&s);
}

/* Only its own certificate is wrong: that is made anew, the authority stays. */
static void test_another_key(void **state)
{
	(void)state;
	json_t *data = data_of(NULL), *other = data_of(NULL);
	struct kp_trust_state s;
	struct kp_err err;
	int64_t due;
	json_object_set(data, "tls.key", json_object_get(other, "tls.key"));
	assert_int_equal(kp_trust_state_read(data, &s, &err), 0);
	assert_null(s.cert);
	assert_null(s.key);
	assert_true(step(&s, &wish, NOW, &due));
	assert_int_equal(s.authorities.n, 1);
	assert_non_null(s.cert);
	kp_trust_state_fini(&s);
	json_decref(data);
	json_decref(other);
}

static void test_periods(void **state)
{
	(void)state;
	struct kp_err err;
	struct kp_trust_periods p = { 30 * KP_NS_PER_S, 10 * KP_NS_PER_S, 60 * KP_NS_PER_S };
	assert_int_equal(kp_trust_check_periods(&p, &err), 0);
	p.overlap_ns = p.rotate_ns;
	assert_int_equal(kp_trust_check_periods(&p, &err), -1);
	assert_string_equal(err.msg, "`--ca-overlap` must be shorter than `--ca-rotate`");
	p.overlap_ns = KP_NS_PER_S;
	p.lifetime_ns = 12 * p.rotate_ns;
	assert_int_equal(kp_trust_check_periods(&p, &err), 0);
	p.lifetime_ns = 13 * p.rotate_ns;
	assert_int_equal(kp_trust_check_periods(&p, &err), -1);
}

/* --- whose a token is --- */

static int read_review(const char *status, struct kp_pod_identity *ret, struct kp_err *err)
{
	static json_t *kept;
	char text[2048];
	json_decref(kept);
	snprintf(text, sizeof(text), "{\"spec\":{\"audiences\":[\"kelpie.dev\"]},\"status\":%s}",
		status);
	kept = json_loads(text, 0, NULL);
	assert_non_null(kept);
	int r = kp_pod_identity_read(kept, ret, err);
	if (r) { /* nothing of it is looked at again */
		json_decref(kept);
		kept = NULL;
	}
	return r;
}

#define USER(name, extra)                                                                       \
	"{\"authenticated\":true,\"audiences\":[\"kelpie.dev\"],\"user\":{\"username\":\"" name \
	"\",\"extra\":{" extra "}}}"
#define BOUND(pod, uid)                                        \
	"\"authentication.kubernetes.io/pod-name\":[\"" pod    \
	"\"],\"authentication.kubernetes.io/pod-uid\":[\"" uid \
	"\"],\"authentication.kubernetes.io/node-name\":[\"n1\"]"

static void test_identities(void **state)
{
	(void)state;
	struct kp_pod_identity id;
	struct kp_err err;
	assert_int_equal(
		read_review(USER("system:serviceaccount:ns-1:a.b", BOUND("p-0", "u-1")), &id, &err),
		0);
	assert_true(kp_str_eq(id.ns, KP_S("ns-1")) && kp_str_eq(id.account, KP_S("a.b")));
	assert_true(kp_str_eq(id.pod, KP_S("p-0")) && kp_str_eq(id.uid, KP_S("u-1")));
	assert_true(kp_str_eq(id.node, KP_S("n1")) && id.credential.n == 0);
	static const struct {
		const char *status;
		enum kp_code code;
	} bad[] = {
		{ "{}", KP_UNAUTHENTICATED },
		{ "{\"authenticated\":false,\"error\":\"token has expired\"}", KP_UNAUTHENTICATED },
		{ "{\"authenticated\":true,\"audiences\":[\"vault\"],\"user\":{\"username\":\"system:serviceaccount:a:b\"}}",
			KP_UNAUTHENTICATED },
		{ USER("system:serviceaccount:a:b", ""), KP_PERMISSION_DENIED },
		{ USER("system:serviceaccount:a:b", BOUND("p", "")), KP_PERMISSION_DENIED },
		{ USER("system:serviceaccount:a:b",
			  "\"authentication.kubernetes.io/pod-name\":[\"p\",\"q\"],\"authentication.kubernetes.io/pod-uid\":[\"u\"]"),
			KP_PERMISSION_DENIED },
		{ USER("kubernetes-admin", BOUND("p", "u")), KP_PERMISSION_DENIED },
		{ USER("system:serviceaccount:a", BOUND("p", "u")), KP_PERMISSION_DENIED },
		{ USER("system:serviceaccount:a:", BOUND("p", "u")), KP_PERMISSION_DENIED },
		{ USER("system:serviceaccount::b", BOUND("p", "u")), KP_DATA_LOSS },
		{ USER("system:serviceaccount:a/b:c", BOUND("p", "u")), KP_DATA_LOSS },
		{ USER("system:serviceaccount:a:b", BOUND("p", "U u")), KP_DATA_LOSS },
		{ USER("system:serviceaccount:a:b", BOUND("p\\n", "u")), KP_DATA_LOSS },
	};
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		assert_int_equal(read_review(bad[i].status, &id, &err), -1);
		if (err.code != bad[i].code) {
			fail_msg("%zu: %s", i, err.msg);
		}
	}
}

static void test_quota(void **state)
{
	(void)state;
	static struct kp_quota q;
	int64_t wait, now = KP_NS_PER_S;
	kp_quota_init(&q, 3, 10);
	for (int i = 0; i < 3; i++) {
		assert_true(kp_quota_take(&q, KP_S("a"), now, &wait));
	}
	assert_false(kp_quota_take(&q, KP_S("a"), now, &wait));
	assert_int_equal(wait, 10);
	assert_false(kp_quota_take(&q, KP_S("a"), now + 9, &wait));
	assert_int_equal(wait, 1);
	assert_true(kp_quota_take(&q, KP_S("a"), now + 10, &wait));
	assert_false(kp_quota_take(&q, KP_S("a"), now + 10, &wait));
	for (int i = 0; i < 3; i++) { /* whole again, and no more than whole */
		assert_true(kp_quota_take(&q, KP_S("a"), now + 1000, &wait));
	}
	assert_false(kp_quota_take(&q, KP_S("a"), now + 1000, &wait));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_rotation),
		cmocka_unit_test(test_who_cannot_be_told_is_waited_for_a_period),
		cmocka_unit_test(test_nobody_is_left_behind),
		cmocka_unit_test(test_names_that_change),
		cmocka_unit_test(test_secrets_of_others),
		cmocka_unit_test(test_another_key),
		cmocka_unit_test(test_periods),
		cmocka_unit_test(test_identities),
		cmocka_unit_test(test_quota),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
