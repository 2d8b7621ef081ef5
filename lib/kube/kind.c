/* DESIGN: every name and value is percent-encoded but for unreserved characters; "." and ".." cannot be names
   of objects (the server refuses them), and as segments of a path a client would walk up on them, so their
   dots are encoded too. */
#include "kube/kind.h"

#include "base/clock.h"

#include <stdio.h>

const struct kp_kube_kind kp_kube_kind_lease = { "coordination.k8s.io", "v1", "leases", "Lease",
	false };
const struct kp_kube_kind kp_kube_kind_event = { "events.k8s.io", "v1", "events", "Event", false };
const struct kp_kube_kind kp_kube_kind_token_review = { "authentication.k8s.io", "v1",
	"tokenreviews", "TokenReview", true };

static void add_encoded(struct kp_buf *b, kp_str s, bool is_segment)
{
	bool is_dots = is_segment && (kp_str_eq(s, KP_S(".")) || kp_str_eq(s, KP_S("..")));
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
				(c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '~' ||
				(c == '.' && !is_dots);
		if (is_plain) {
			kp_buf_addc(b, (char)c);
		} else {
			kp_buf_printf(b, "%%%02X", c);
		}
	}
}

void kp_kube_path(struct kp_buf *b, const struct kp_kube_ref *ref)
{
	const struct kp_kube_kind *k = ref->kind;
	kp_buf_addz(b, k->group[0] ? "/apis/" : "/api/");
	kp_buf_addz(b, k->group);
	kp_buf_addz(b, k->group[0] ? "/" : "");
	kp_buf_addz(b, k->version);
	if (ref->ns.n && !k->is_cluster) {
		kp_buf_lit(b, "/namespaces/");
		add_encoded(b, ref->ns, true);
	}
	kp_buf_addc(b, '/');
	kp_buf_addz(b, k->plural);
	if (ref->name.n) {
		kp_buf_addc(b, '/');
		add_encoded(b, ref->name, true);
	}
	if (ref->subresource) {
		kp_buf_addc(b, '/');
		kp_buf_addz(b, ref->subresource);
	}
}

void kp_kube_query(struct kp_buf *b, const char *name, kp_str value)
{
	kp_buf_addc(b, kp_str_find_char(kp_buf_str(b), '?') < 0 ? '?' : '&');
	kp_buf_addz(b, name);
	kp_buf_addc(b, '=');
	add_encoded(b, value, false);
}

void kp_kube_time(int64_t wall_ns, char buf[KP_KUBE_TIME_MAX])
{
	char ms[25];
	kp_time_rfc3339(wall_ns, ms);
	snprintf(buf, KP_KUBE_TIME_MAX, "%.19s.%06lldZ", ms,
		(long long)(wall_ns % KP_NS_PER_S / KP_NS_PER_US));
}
