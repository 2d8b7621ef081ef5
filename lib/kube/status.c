/* DESIGN: a Status is not trusted to be one: every member is looked at by its type, and what is missing follows
   from HTTP's number. */
#include "kube/status.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <stdio.h>

enum { QUOTE_MAX = 200, RETRY_AFTER_MAX_S = 600 };
static const struct kp_doc_limits limits = {
	.max_bytes = 1 << 20, .max_nodes = 100000, .max_depth = 64, .max_docs = 1
};

static enum kp_code code_of(int http, kp_str reason)
{
	switch (http) {
	case 400:
	case 422:
		return KP_INVALID_ARGUMENT;
	case 401:
		return KP_UNAUTHENTICATED;
	case 403:
		return KP_PERMISSION_DENIED;
	case 404:
		return KP_NOT_FOUND;
	case 405:
		return KP_METHOD_NOT_ALLOWED;
	case 406:
	case 415:
		return KP_UNSUPPORTED_MEDIA;
	case 409:
		return kp_str_eq(reason, KP_S("AlreadyExists")) ? KP_ALREADY_EXISTS : KP_CONFLICT;
	case 410:
		return KP_GONE;
	case 413:
		return KP_TOO_LARGE;
	case 429:
		return KP_RESOURCE_EXHAUSTED;
	case 500:
		return KP_INTERNAL;
	case 502:
	case 503:
		return KP_UNAVAILABLE;
	case 504:
		return KP_DEADLINE_EXCEEDED;
	default:
		return http >= 500 ? KP_UNAVAILABLE : KP_UNKNOWN;
	}
}

static void set(struct kp_kube_failure *f, const char *what, kp_str message, kp_str reason)
{
	KP_AUTO(buf) struct kp_buf clean;
	kp_buf_init(&clean, 4 * KP_ERR_MSG);
	kp_utf8_add_lossy(&clean, kp_str_sub(message, 0, KP_ERR_MSG));
	snprintf(f->reason, sizeof(f->reason), "%" KP_FMT, KP_ARG(reason));
	kp_err_set(&f->err, code_of(f->http, reason), "%s: %" KP_FMT "%s(%d%s%s)", what,
		KP_ARG(kp_buf_str(&clean)), clean.n ? " " : "", f->http, f->reason[0] ? " " : "",
		f->reason);
}

void kp_kube_failure_from_status(
	struct kp_kube_failure *f, int http, const json_t *status, const char *what)
{
	const json_t *details = json_object_get(status, "details");
	const json_t *code = json_object_get(status, "code");
	*f = (struct kp_kube_failure){ .http = http };
	if (json_is_integer(code) && json_integer_value(code) >= 400 &&
		json_integer_value(code) < 600) {
		f->http = (int)json_integer_value(code);
	}
	set(f, what, kp_doc_str(status, "message"), kp_doc_str(status, "reason"));
	if (json_is_object(details)) {
		const json_t *after = json_object_get(details, "retryAfterSeconds");
		f->details = json_incref(kp_unconst(details));
		if (json_is_integer(after) && json_integer_value(after) > 0) {
			f->retry_after_ns =
				KP_MIN(json_integer_value(after), (json_int_t)RETRY_AFTER_MAX_S) *
				KP_NS_PER_S;
		}
	}
}

void kp_kube_failure_init(struct kp_kube_failure *f, int http, kp_str body, const char *what)
{
	json_t *v = NULL;
	struct kp_err ignored;
	if (body.n && kp_doc_json(body, "status", &limits, &v, &ignored) == 0 &&
		kp_str_eq(kp_doc_str(v, "kind"), KP_S("Status"))) {
		kp_kube_failure_from_status(f, http, v, what);
	} else {
		kp_str rest = kp_str_trim(body), line = KP_STR_NULL;
		*f = (struct kp_kube_failure){ .http = http };
		kp_str_split(&rest, '\n', &line);
		set(f, what, kp_str_trim(kp_str_sub(line, 0, QUOTE_MAX)), KP_STR_NULL);
	}
	json_decref(v);
}

void kp_kube_failure_fini(struct kp_kube_failure *f)
{
	json_decref(f->details);
	f->details = NULL;
}

bool kp_kube_failure_is_expired(const struct kp_kube_failure *f)
{
	return f->http == 410 || kp_str_eq(kp_str_c(f->reason), KP_S("Expired")) ||
	       kp_str_eq(kp_str_c(f->reason), KP_S("Gone"));
}
