/* DESIGN: see hello.h. The limits are at most those of control/items.h for the same fields. */
#include "operator/control/hello.h"

#include "core/identity.h"
#include "net/addr.h"

static int invalid(struct kp_err *err, const char *field, kp_str value, const char *what)
{
	return kp_err_set(err, KP_INVALID_ARGUMENT, "hello: %s `%" KP_FMT "`: %s", field,
		KP_ARG(kp_str_sub(value, 0, 100)), what);
}

static bool is_printable(kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < 0x21 || s.p[i] > 0x7e) {
			return false;
		}
	}
	return s.n <= KP_HELLO_NAME_MAX;
}

/* Letters, digits and "-._": what a DNS name of a certificate may have. */
static bool is_name(kp_str s, size_t max)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = kp_lower(s.p[i]);
		if (!(c >= 'a' && c <= 'z') && !kp_is_digit(c) && c != '-' && c != '.' &&
			c != '_') {
			return false;
		}
	}
	return s.n > 0 && s.n <= max;
}

static int check_text(struct kp_err *err, const char *field, kp_str s)
{
	return is_printable(s) ? 0
			       : invalid(err, field, s,
					 "must be printable ASCII without spaces, at most 253");
}

static int check_address(struct kp_err *err, const char *field, kp_str s)
{
	char z[KP_HELLO_NAME_MAX + 1];
	struct kp_addr addr;
	struct kp_err ignored = KP_ERR_INIT;
	if (!s.n) {
		return 0;
	}
	if (check_text(err, field, s)) {
		return -1;
	}
	memcpy(z, s.p, s.n);
	z[s.n] = '\0';
	if (kp_addr_parse(z, &addr, &ignored) || !(addr.is_unix || (addr.port && addr.host[0]))) {
		return invalid(err, field, s, "must be HOST:PORT, as others reach it");
	}
	return 0;
}

int kp_hello_check_gateway(const struct kp_program_gateway *g, struct kp_err *err)
{
	size_t bytes = 0;
	if (!is_name(g->id, KP_HELLO_NAME_MAX)) {
		return invalid(err, "id", g->id,
			"must have only letters, digits, `-`, `.` and `_`, at most 253");
	}
	if (check_address(err, "peer", g->peer) || check_text(err, "node", g->node)) {
		return -1;
	}
	for (size_t i = 0; i < g->n_own; i++) {
		if (check_text(err, "own", g->own[i])) {
			return -1;
		}
		bytes += g->own[i].n + 4;
	}
	return bytes <= KP_HELLO_OWN_BYTES_MAX
		       ? 0
		       : kp_err_set(err, KP_RESOURCE_EXHAUSTED,
				 "hello: own: %zu bytes of claims, at most %d", bytes,
				 KP_HELLO_OWN_BYTES_MAX);
}

static int check_certificate(
	const struct kp_hello *h, const kp_str *names, size_t n, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf list = { 0 };
	for (size_t i = 0; i < n; i++) {
		if (kp_str_ieq(names[i], h->id)) {
			return kp_identity_check_namespace(names, n, h->ns, err)
				       ? kp_err_wrap(err, "hello: id `%" KP_FMT "`", KP_ARG(h->id))
				       : 0;
		}
	}
	kp_buf_init(&list, 1 << 16);
	for (size_t i = 0; i < n; i++) {
		kp_buf_printf(&list, "%s`%" KP_FMT "`", i ? ", " : "", KP_ARG(names[i]));
	}
	return kp_err_set(err, KP_PERMISSION_DENIED,
		"hello: id `%" KP_FMT "`: is not a name of the client's certificate (%" KP_FMT ")",
		KP_ARG(h->id), KP_ARG(n ? kp_buf_str(&list) : KP_S("none")));
}

int kp_hello_check(const struct kp_hello *h, bool is_tls, const kp_str *names, size_t n_names,
	uint64_t epoch_most, struct kp_err *err)
{
	const struct kp_program_gateway g = {
		.id = h->id, .peer = h->peer, .node = h->node, .own = h->own, .n_own = h->n_own
	};
	if (h->protocol != KP_CONTROL_PROTOCOL) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"hello: protocol `%u`: this operator speaks %d", h->protocol,
			KP_CONTROL_PROTOCOL);
	}
	if (kp_hello_check_gateway(&g, err)) {
		return -1;
	}
	if (!is_name(h->ns, 63)) {
		return invalid(err, "namespace", h->ns, "is not a name of a namespace");
	}
	if (is_tls && check_certificate(h, names, n_names, err)) {
		return -1;
	}
	if (h->epoch_seen > epoch_most || h->revision.epoch > epoch_most) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"hello: epoch `%llu`: is far ahead of this operator's clock",
			(unsigned long long)KP_MAX(h->epoch_seen, h->revision.epoch));
	}
	return check_address(err, "admin", h->admin) || check_text(err, "version", h->version) ? -1
											       : 0;
}
