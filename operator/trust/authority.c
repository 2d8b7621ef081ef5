/* DESIGN: a list, oldest first: those that are believed still, the one that signs, the one that comes. What
   a state is follows from its times alone, so any replica, at any time later, goes on where another one stopped. */
#include "operator/trust/authority.h"

#include "base/clock.h"

#include <openssl/crypto.h>
#include <stdio.h>

enum { DAY_S = 86400 };

static void wipe_text(char **p)
{
	if (*p) {
		OPENSSL_cleanse(*p, strlen(*p));
	}
	kp_free(p);
}

static void authority_fini(struct kp_authority *a)
{
	kp_free(&a->cert);
	wipe_text(&a->key);
}

void kp_trust_state_fini(struct kp_trust_state *s)
{
	for (size_t i = 0; i < s->authorities.n; i++) {
		authority_fini(&s->authorities.p[i]);
	}
	kp_vec_fini(&s->authorities);
	kp_free(&s->cert);
	wipe_text(&s->key);
}

static struct kp_authority *signer(const struct kp_trust_state *s)
{
	for (size_t i = s->authorities.n; i-- > 0;) {
		struct kp_authority *a = &s->authorities.p[i];
		if (a->key && a->signs_s) {
			return a;
		}
	}
	return NULL;
}

const struct kp_authority *kp_trust_state_signer(const struct kp_trust_state *s)
{
	return signer(s);
}

static struct kp_authority *next_one(const struct kp_trust_state *s)
{
	struct kp_authority *last =
		s->authorities.n ? &s->authorities.p[s->authorities.n - 1] : NULL;
	return last && last->key && !last->signs_s ? last : NULL;
}

bool kp_trust_state_is_rotating(const struct kp_trust_state *s)
{
	return next_one(s) != NULL;
}

int kp_trust_state_bundle(
	const struct kp_trust_state *s, int64_t now_s, struct kp_buf *ret, struct kp_err *err)
{
	kp_str texts[KP_AUTHORITIES_MAX];
	for (size_t i = 0; i < s->authorities.n; i++) {
		texts[i] = kp_str_c(s->authorities.p[i].cert);
	}
	return kp_pki_bundle(texts, s->authorities.n, now_s, ret, err);
}

/* --- what is due --- */

static char *take_text(struct kp_buf *b)
{
	char *z = kp_str_z(kp_buf_str(b));
	kp_pki_wipe(b);
	return z;
}

static int make_key(struct kp_pki_key **ret, char **ret_pem, struct kp_err *err)
{
	struct kp_pki_key *key;
	struct kp_buf pem;
	if (kp_pki_key_create(&key, err)) {
		return -1;
	}
	kp_buf_init(&pem, KP_PKI_REQUEST_MAX);
	if (kp_pki_key_write(key, &pem, err)) {
		kp_pki_wipe(&pem);
		kp_pki_key_destroy(key);
		return -1;
	}
	*ret_pem = take_text(&pem);
	*ret = key;
	return 0;
}

/* It must be valid as long as anything that it may sign, also when whoever should replace it comes late. */
static int64_t life_of(const struct kp_trust_wish *w)
{
	return 3 * w->period_s + 2 * w->overlap_s + w->lifetime_s + DAY_S;
}

static int add_authority(struct kp_trust_state *s, const struct kp_trust_wish *w, int64_t now_s,
	int64_t signs_s, struct kp_err *err)
{
	KP_AUTO(pki_key) struct kp_pki_key *key = NULL;
	struct kp_authority a = { .trusted_s = now_s, .signs_s = signs_s };
	char name[64], when[25];
	struct kp_buf pem;
	if (s->authorities.n == KP_AUTHORITIES_MAX) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"make an authority: %d are believed already", KP_AUTHORITIES_MAX);
	}
	if (make_key(&key, &a.key, err)) {
		return -1;
	}
	kp_time_rfc3339(now_s * KP_NS_PER_S, when);
	snprintf(name, sizeof(name), "Kelpie authority of %s", when);
	kp_buf_init(&pem, KP_PKI_REQUEST_MAX);
	if (kp_pki_make_authority(key, name, now_s, now_s + life_of(w), &pem, err)) {
		kp_buf_fini(&pem);
		authority_fini(&a);
		return -1;
	}
	a.cert = take_text(&pem);
	kp_vec_push(&s->authorities, a);
	return 0;
}

static bool drop_old(struct kp_trust_state *s, int64_t now_s)
{
	size_t kept = 0, before = s->authorities.n;
	for (size_t i = 0; i < before; i++) {
		struct kp_authority *a = &s->authorities.p[i];
		if (a->until_s && a->until_s <= now_s) {
			authority_fini(a);
		} else {
			s->authorities.p[kept++] = *a;
		}
	}
	s->authorities.n = kept;
	return kept < before;
}

/* When the next one is to be made, and when it is to sign. */
static int64_t make_at(const struct kp_authority *now, const struct kp_trust_wish *w)
{
	return now->signs_s + w->period_s - w->overlap_s;
}
static int64_t sign_at(const struct kp_authority *next, const struct kp_trust_wish *w)
{
	return next->trusted_s + w->overlap_s;
}
/* Somewhere it cannot be made known: there it fails, but not everywhere, as when the one that signs is over. */
static int64_t sign_at_last(const struct kp_authority *next, const struct kp_trust_wish *w)
{
	return sign_at(next, w) + w->period_s;
}

static void take_over(struct kp_trust_state *s, const struct kp_trust_wish *w, int64_t now_s)
{
	struct kp_authority *old = signer(s), *next = next_one(s);
	if (old) {
		wipe_text(&old->key);
		old->until_s = now_s + w->lifetime_s + KP_AUTHORITY_GRACE_S;
	}
	next->signs_s = now_s;
}

static int step_authorities(struct kp_trust_state *s, const struct kp_trust_wish *w, int64_t now_s,
	bool *changed, struct kp_err *err)
{
	*changed |= drop_old(s, now_s);
	struct kp_authority *now = signer(s), *next = next_one(s);
	if (!now && !next) {
		*changed = true;
		return add_authority(s, w, now_s, now_s, err);
	}
	bool is_ready = next && now_s >= sign_at(next, w) && w->is_distributed;
	if (next && (!now || is_ready || now_s >= sign_at_last(next, w))) {
		take_over(s, w, now_s);
		*changed = true;
	} else if (!next && now_s >= make_at(now, w)) {
		*changed = true;
		return add_authority(s, w, now_s, 0, err);
	}
	return 0;
}

/* --- the listeners' certificate --- */

static int64_t renew_at(const char *cert)
{
	struct kp_pki_facts f;
	struct kp_err err;
	if (!cert || kp_pki_cert_facts(kp_str_c(cert), &f, &err)) {
		return 0;
	}
	int64_t from = f.not_before_s + KP_PKI_SKEW_S;
	return from + (f.not_after_s - from) * 2 / 3;
}

static bool is_good(const struct kp_trust_state *s, const struct kp_authority *by,
	const struct kp_trust_wish *w, int64_t now_s)
{
	bool is = s->cert && s->key && now_s < renew_at(s->cert) &&
		  kp_pki_cert_is_signed_by(kp_str_c(s->cert), kp_str_c(by->cert));
	for (size_t i = 0; i < w->n_names && is; i++) {
		is = kp_pki_cert_has_name(kp_str_c(s->cert), w->names[i]);
	}
	return is;
}

static int sign_own(struct kp_trust_state *s, const struct kp_authority *a,
	const struct kp_trust_wish *w, int64_t now_s, struct kp_err *err)
{
	KP_AUTO(pki_key) struct kp_pki_key *authority_key = NULL, *key = NULL;
	const struct kp_pki_leaf leaf = { .name = "kelpie-operator",
		.names = w->names,
		.n_names = w->n_names,
		.not_after_s = now_s + w->lifetime_s };
	char *key_pem = NULL;
	struct kp_buf pem;
	if (kp_pki_key_read(kp_str_c(a->key), &authority_key, err) ||
		make_key(&key, &key_pem, err)) {
		return -1;
	}
	kp_buf_init(&pem, KP_PKI_REQUEST_MAX);
	if (kp_pki_sign(kp_str_c(a->cert), authority_key, &leaf, NULL, key, now_s, &pem, err)) {
		kp_buf_fini(&pem);
		wipe_text(&key_pem);
		return -1;
	}
	kp_free(&s->cert);
	wipe_text(&s->key);
	s->cert = take_text(&pem);
	s->key = key_pem;
	return 0;
}

static int64_t due(const struct kp_trust_state *s, const struct kp_authority *now,
	const struct kp_trust_wish *w, int64_t now_s)
{
	const struct kp_authority *next = next_one(s);
	int64_t at = renew_at(s->cert);
	if (!next) {
		at = KP_MIN(at, make_at(now, w));
	} else {
		at = KP_MIN(
			at, now_s < sign_at(next, w) ? sign_at(next, w) : sign_at_last(next, w));
	}
	for (size_t i = 0; i < s->authorities.n; i++) {
		if (s->authorities.p[i].until_s) {
			at = KP_MIN(at, s->authorities.p[i].until_s);
		}
	}
	return KP_MAX(at, now_s + 1);
}

int kp_trust_state_step(struct kp_trust_state *s, const struct kp_trust_wish *w, int64_t now_s,
	bool *ret_changed, int64_t *ret_due_s, struct kp_err *err)
{
	bool changed = false;
	if (step_authorities(s, w, now_s, &changed, err)) {
		return -1;
	}
	const struct kp_authority *by = signer(s);
	KP_BUG_ON(!by);
	if (!is_good(s, by, w, now_s)) {
		if (sign_own(s, by, w, now_s, err)) {
			return -1;
		}
		changed = true;
	}
	*ret_changed = changed;
	*ret_due_s = due(s, by, w, now_s);
	return 0;
}
