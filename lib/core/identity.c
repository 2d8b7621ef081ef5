/* DESIGN: see identity.h. */
#include "core/identity.h"

/* "default" of "spiffe://cluster.local/ns/default/sa/engine"; empty: it names none. */
static kp_str namespace_of(kp_str id)
{
	kp_str rest = id, domain, word, ns;
	if (kp_str_split(&rest, '/', &domain) && kp_str_split(&rest, '/', &word) &&
		kp_str_eq(word, KP_S("ns")) && kp_str_split(&rest, '/', &ns)) {
		return ns;
	}
	return KP_S("");
}

int kp_identity_check_namespace(const kp_str *names, size_t n, kp_str ns, struct kp_err *err)
{
	static const kp_str scheme = KP_S_INIT("spiffe://");
	kp_str found = KP_S(KP_DEFAULT_NAMESPACE), id = KP_STR_NULL;
	for (size_t i = 0; i < n; i++) {
		if (!kp_str_starts(names[i], scheme)) {
			continue;
		}
		id = names[i];
		found = namespace_of(kp_str_skip(id, scheme.n));
		if (kp_str_eq(found, ns)) {
			break;
		}
	}
	if (ns.n && kp_str_eq(found, ns)) {
		return 0;
	}
	if (!id.p) {
		return kp_err_set(err, KP_PERMISSION_DENIED,
			"the certificate has no SPIFFE ID, so it is of namespace `" KP_DEFAULT_NAMESPACE
			"`, not of `%" KP_FMT "`",
			KP_ARG(kp_str_sub(ns, 0, 63)));
	}
	return kp_err_set(err, KP_PERMISSION_DENIED,
		"the certificate is of `%" KP_FMT "`, not of namespace `%" KP_FMT "`",
		KP_ARG(kp_str_sub(id, 0, 200)), KP_ARG(kp_str_sub(ns, 0, 63)));
}
