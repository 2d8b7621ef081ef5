/* DESIGN: `authorities.json` is the truth; the three files beside it, as in a TLS Secret, follow from it but for the
   listeners' own certificate and key, which only they have. Every value of a Secret is base64. */
#include "operator/trust/authority.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

enum { VALUE_MAX = 1 << 20, VERSION = 1 };

static const struct kp_doc_limits limits = {
	.max_bytes = VALUE_MAX, .max_nodes = 1000, .max_depth = 8, .max_docs = 1
};

/* --- reading --- */

/* Appends what the value of `name` says; an absent one is empty. */
static int read_value(const json_t *data, const char *name, struct kp_buf *ret, struct kp_err *err)
{
	kp_str text = kp_doc_str(data, name);
	if (text.n > VALUE_MAX || text.n % 4) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: is no base64 of 1 MiB", name);
	}
	if (!text.n || !kp_buf_reserve(ret, text.n)) {
		return kp_buf_finish(ret, name, err);
	}
	int n = EVP_DecodeBlock(
		(unsigned char *)ret->p, (const unsigned char *)text.p, (int)text.n);
	if (n < 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s`: is no base64", name);
	}
	ret->n = (size_t)n - (kp_str_ends(text, KP_S("==")) ? 2U : kp_str_ends(text, KP_S("=")));
	return 0;
}

static int read_text(const json_t *data, const char *name, char **ret, struct kp_err *err)
{
	struct kp_buf b;
	kp_buf_init(&b, VALUE_MAX);
	int r = read_value(data, name, &b, err);
	if (r == 0 && b.n) {
		*ret = kp_str_z(kp_buf_str(&b));
	}
	kp_pki_wipe(&b);
	return r;
}

static int read_time(const json_t *v, const char *name, int64_t *ret)
{
	const json_t *t = json_object_get(v, name);
	*ret = json_integer_value(t);
	return (t && !json_is_integer(t)) || *ret < 0 || *ret > INT64_C(1) << 40 ? -1 : 0;
}

/* That its parts belong together: what is not looked at here would fail when it is used. */
static int check_authority(const struct kp_authority *a, struct kp_err *err)
{
	KP_AUTO(pki_key) struct kp_pki_key *key = NULL;
	struct kp_pki_facts f;
	if (kp_pki_cert_facts(kp_str_c(a->cert), &f, err) ||
		(a->key && kp_pki_key_read(kp_str_c(a->key), &key, err))) {
		return -1;
	}
	if (!f.is_authority || (key && !kp_pki_cert_is_of(kp_str_c(a->cert), key)) ||
		(!a->key && !a->until_s)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"an authority's certificate, key and times do not belong together");
	}
	return 0;
}

static int read_authority(const json_t *v, struct kp_trust_state *s, size_t i, struct kp_err *err)
{
	kp_str cert = kp_doc_str(v, "certificate"), key = kp_doc_str(v, "key");
	struct kp_authority a = { 0 };
	int r = read_time(v, "trusted", &a.trusted_s) | read_time(v, "signs", &a.signs_s) |
		read_time(v, "until", &a.until_s);
	if (r || !cert.n) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`authorities.json`: number %zu makes no sense", i);
	}
	a.cert = kp_str_z(cert);
	a.key = key.n ? kp_str_z(key) : NULL;
	kp_vec_push(&s->authorities, a);
	return check_authority(&a, err) ? kp_err_wrap(err, "`authorities.json`: number %zu", i) : 0;
}

static int read_authorities(const json_t *v, struct kp_trust_state *s, struct kp_err *err)
{
	const json_t *list = json_object_get(v, "authorities");
	json_int_t version = json_integer_value(json_object_get(v, "version"));
	if (version > VERSION) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"`authorities.json`: is of version %lld, this operator reads %d",
			(long long)version, VERSION);
	}
	if (version != VERSION || json_array_size(list) > KP_AUTHORITIES_MAX) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`authorities.json`: is not of version %d, or has more than %d", VERSION,
			KP_AUTHORITIES_MAX);
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (read_authority(json_array_get(list, i), s, i, err)) {
			return -1;
		}
	}
	return 0;
}

/* The listeners' certificate and key: what does not fit is as good as not there, and made anew. */
static void check_own(struct kp_trust_state *s)
{
	KP_AUTO(pki_key) struct kp_pki_key *key = NULL;
	struct kp_err err;
	if (s->cert && s->key && kp_pki_key_read(kp_str_c(s->key), &key, &err) == 0 &&
		kp_pki_cert_is_of(kp_str_c(s->cert), key)) {
		return;
	}
	kp_free(&s->cert);
	if (s->key) {
		OPENSSL_cleanse(s->key, strlen(s->key));
	}
	kp_free(&s->key);
}

int kp_trust_state_read(const json_t *data, struct kp_trust_state *ret, struct kp_err *err)
{
	struct kp_trust_state s = { 0 };
	struct kp_buf text;
	json_t *v = NULL;
	kp_buf_init(&text, VALUE_MAX);
	int r = read_value(data, "authorities.json", &text, err);
	if (r == 0 && text.n) {
		r = kp_doc_json(kp_buf_str(&text), "authorities.json", &limits, &v, err);
		r = r ? r : read_authorities(v, &s, err);
	}
	r = r ? r : read_text(data, "tls.crt", &s.cert, err);
	r = r ? r : read_text(data, "tls.key", &s.key, err);
	json_decref(v);
	kp_pki_wipe(&text);
	if (r) {
		kp_trust_state_fini(&s);
		return -1;
	}
	check_own(&s);
	*ret = s;
	return 0;
}

/* --- writing --- */

static void set_value(json_t *data, const char *name, kp_str value)
{
	struct kp_buf b;
	kp_buf_init(&b, 2 * VALUE_MAX);
	KP_BUG_ON(value.n > VALUE_MAX || !kp_buf_reserve(&b, value.n / 3 * 4 + 8));
	b.n = (size_t)EVP_EncodeBlock((unsigned char *)b.p,
		(const unsigned char *)(value.p ? value.p : ""), (int)value.n);
	json_object_set_new(data, name, json_stringn(b.p, b.n));
	kp_pki_wipe(&b);
}

static int dump(const char *p, size_t n, void *ctx)
{
	kp_buf_add(ctx, kp_str_n(p, n));
	return 0;
}

static json_t *authorities(const struct kp_trust_state *s)
{
	json_t *list = json_array();
	for (size_t i = 0; i < s->authorities.n; i++) {
		const struct kp_authority *a = &s->authorities.p[i];
		json_array_append_new(
			list, json_pack("{s:s,s:s*,s:I,s:I,s:I}", "certificate", a->cert, "key",
				      a->key, "trusted", (json_int_t)a->trusted_s, "signs",
				      (json_int_t)a->signs_s, "until", (json_int_t)a->until_s));
	}
	return json_pack("{s:i,s:o}", "version", VERSION, "authorities", list);
}

int kp_trust_state_write(
	const struct kp_trust_state *s, int64_t now_s, json_t **ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf bundle;
	struct kp_buf text;
	kp_buf_init(&bundle, VALUE_MAX);
	if (kp_trust_state_bundle(s, now_s, &bundle, err)) {
		return -1;
	}
	json_t *v = authorities(s), *data = json_object();
	KP_BUG_ON(!v || !data);
	kp_buf_init(&text, VALUE_MAX);
	json_dump_callback(v, dump, &text, JSON_COMPACT);
	json_decref(v);
	int r = kp_buf_finish(&text, "authorities.json", err);
	if (r == 0) {
		set_value(data, "authorities.json", kp_buf_str(&text));
		set_value(data, "ca.crt", kp_buf_str(&bundle));
		set_value(data, "tls.crt", kp_str_c(s->cert));
		set_value(data, "tls.key", kp_str_c(s->key));
		*ret = data;
	} else {
		json_decref(data);
	}
	kp_pki_wipe(&text);
	return r;
}
