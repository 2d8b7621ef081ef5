/* DESIGN: kp_kube_token_user says whether the token counts; what is left is whose it is. Names go into a certificate and into
   the log, so they are looked at once more. */
#include "operator/trust/identity.h"

#include "kube/write.h"

enum { NAME_MAX_BYTES = 253, UID_MAX = 63 };

static bool is_name(kp_str s, size_t max, bool has_dots)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (!kp_is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-' &&
			!(c == '.' && has_dots)) {
			return false;
		}
	}
	return s.n && s.n <= max;
}

/* extra: each name has a list of words. */
static kp_str extra(const json_t *user, const char *name)
{
	const json_t *list = json_object_get(json_object_get(user, "extra"), name);
	const json_t *first = json_array_size(list) == 1 ? json_array_get(list, 0) : NULL;
	return first && json_is_string(first)
		       ? kp_str_n(json_string_value(first), json_string_length(first))
		       : KP_S("");
}

static int read_account(kp_str user, struct kp_pod_identity *ret, struct kp_err *err)
{
	static const kp_str prefix = KP_S_INIT("system:serviceaccount:");
	kp_str rest = kp_str_skip(user, prefix.n);
	if (!kp_str_starts(user, prefix) || !kp_str_split(&rest, ':', &ret->ns) || !rest.n) {
		return kp_err_set(err, KP_PERMISSION_DENIED,
			"review token: `%" KP_FMT "` is no service account",
			KP_ARG(kp_str_sub(user, 0, 100)));
	}
	ret->account = rest;
	if (!is_name(ret->ns, UID_MAX, false) || !is_name(ret->account, NAME_MAX_BYTES, true)) {
		return kp_err_set(err, KP_DATA_LOSS,
			"review token: the name of the service account makes no sense");
	}
	return 0;
}

int kp_pod_identity_read(const json_t *review, struct kp_pod_identity *ret, struct kp_err *err)
{
	struct kp_pod_identity id = { 0 };
	kp_str name = kp_kube_token_user(review, err);
	if (!name.n || read_account(name, &id, err)) {
		return -1;
	}
	const json_t *user = kp_doc_at(review, "status.user");
	id.pod = extra(user, "authentication.kubernetes.io/pod-name");
	id.uid = extra(user, "authentication.kubernetes.io/pod-uid");
	id.node = extra(user, "authentication.kubernetes.io/node-name");
	id.credential = extra(user, "authentication.kubernetes.io/credential-id");
	if (!id.pod.n || !id.uid.n) {
		return kp_err_set(err, KP_PERMISSION_DENIED,
			"review token: it is not bound to a pod (a projected volume gives one that is)");
	}
	if (!is_name(id.pod, NAME_MAX_BYTES, true) || !is_name(id.uid, UID_MAX, false)) {
		return kp_err_set(
			err, KP_DATA_LOSS, "review token: name or UID of the pod makes no sense");
	}
	*ret = id;
	return 0;
}
