/* DESIGN: pure functions over slices; tables as switches. The deframer has two ways: straight over
   the caller's bytes while nothing is kept (the common case: one small message per DATA frame, many
   frames per read), and through `in` for a message that was cut, or for everything that came while
   held. `in` grows with what arrived, never with what a prefix promises, so that a length without
   bytes costs nothing. Limits: max_message for one message, and the window of bytes while held;
   both end in an error, never in silence. */
#include "net/grpc_wire.h"
#include "base/clock.h"
#include "base/utf8.h"

#include <nghttp2/nghttp2.h>

enum { TIMEOUT_DIGITS_MAX = 99999999, RESERVE_MAX = 256 << 10 };

static const struct {
	int64_t ns;
	char unit;
} units[] = {
	{ 1, 'n' },
	{ KP_NS_PER_US, 'u' },
	{ KP_NS_PER_MS, 'm' },
	{ KP_NS_PER_S, 'S' },
	{ KP_NS_PER_S * 60, 'M' },
	{ KP_NS_PER_S * 3600, 'H' },
};

size_t kp_grpc_timeout(int64_t ns, char out[KP_GRPC_TIMEOUT_MAX])
{
	ns = KP_MAX(ns, 1);
	size_t u = 0;
	while (u + 1 < KP_LEN(units) && (ns - 1) / units[u].ns + 1 > TIMEOUT_DIGITS_MAX) {
		u++;
	}
	int64_t v = KP_MIN((ns - 1) / units[u].ns + 1, TIMEOUT_DIGITS_MAX);
	char digits[KP_GRPC_TIMEOUT_MAX];
	size_t n = 0;
	for (; v > 0; v /= 10) {
		digits[n++] = (char)('0' + v % 10);
	}
	for (size_t i = 0; i < n; i++) {
		out[i] = digits[n - 1 - i];
	}
	out[n] = units[u].unit;
	return n + 1;
}

bool kp_grpc_timeout_parse(kp_str value, int64_t *ret_ns)
{
	uint64_t v;
	if (value.n < 2 || value.n > KP_GRPC_TIMEOUT_MAX ||
		!kp_str_u64(kp_str_sub(value, 0, value.n - 1), TIMEOUT_DIGITS_MAX, &v)) {
		return false;
	}
	for (size_t u = 0; u < KP_LEN(units); u++) {
		if (units[u].unit == value.p[value.n - 1]) {
			int64_t ns;
			if (__builtin_mul_overflow((int64_t)v, units[u].ns, &ns)) {
				ns = INT64_MAX;
			}
			*ret_ns = KP_MIN(ns, INT64_MAX / 2);
			return true;
		}
	}
	return false;
}

static int hex_digit(char c)
{
	if (kp_is_digit(c)) {
		return c - '0';
	}
	c = kp_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void kp_grpc_percent_encode(struct kp_buf *b, kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c < 0x20 || c > 0x7e || c == '%') {
			kp_buf_addc(b, '%');
			kp_buf_addc(b, "0123456789ABCDEF"[c >> 4]);
			kp_buf_addc(b, "0123456789ABCDEF"[c & 15]);
		} else {
			kp_buf_addc(b, (char)c);
		}
	}
}

void kp_grpc_percent_decode(struct kp_buf *b, kp_str s)
{
	KP_AUTO(buf) struct kp_buf raw;
	kp_buf_init(&raw, s.n);
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (c == '%' && s.n - i > 2) {
			int hi = hex_digit(s.p[i + 1]);
			int lo = hex_digit(s.p[i + 2]);
			if (hi >= 0 && lo >= 0) {
				c = (char)(hi << 4 | lo);
				i += 2;
			}
		}
		kp_buf_addc(&raw, c);
	}
	kp_utf8_add_lossy(b, kp_buf_str(&raw));
}

enum kp_code kp_grpc_status(kp_str value)
{
	uint64_t v;
	return kp_str_u64(value, KP_UNAUTHENTICATED, &v) ? (enum kp_code)v : KP_UNKNOWN;
}

unsigned kp_grpc_status_of(enum kp_code code)
{
	switch ((int)code) {
	case KP_CONFLICT:
		return KP_ABORTED;
	case KP_GONE:
		return KP_NOT_FOUND;
	case KP_TOO_LARGE:
		return KP_RESOURCE_EXHAUSTED;
	case KP_METHOD_NOT_ALLOWED:
		return KP_UNIMPLEMENTED;
	case KP_UNSUPPORTED_MEDIA:
		return KP_INVALID_ARGUMENT;
	default:
		return code <= KP_UNAUTHENTICATED ? (unsigned)code : KP_UNKNOWN;
	}
}

enum kp_code kp_grpc_code_of_http(int http_status)
{
	switch (http_status) {
	case 400:
		return KP_INTERNAL;
	case 401:
		return KP_UNAUTHENTICATED;
	case 403:
		return KP_PERMISSION_DENIED;
	case 404:
		return KP_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return KP_UNAVAILABLE;
	default:
		return KP_UNKNOWN;
	}
}

enum kp_code kp_grpc_code_of_h2(uint32_t h2_error)
{
	switch (h2_error) {
	case NGHTTP2_REFUSED_STREAM:
		return KP_UNAVAILABLE;
	case NGHTTP2_CANCEL:
		return KP_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return KP_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY:
		return KP_PERMISSION_DENIED;
	case NGHTTP2_STREAM_CLOSED:
		return KP_UNKNOWN;
	default:
		return KP_INTERNAL;
	}
}

bool kp_grpc_is_content_type(kp_str value)
{
	static const kp_str want = { "application/grpc", 16 };
	if (value.n < want.n || !kp_str_ieq(kp_str_sub(value, 0, want.n), want)) {
		return false;
	}
	return value.n == want.n || value.p[want.n] == '+' || value.p[want.n] == ';';
}

/* --- metadata
 * ----------------------------------------------------------------------------------------- */

static bool is_reserved(kp_str name)
{
	static const char *const names[] = { "te", "content-type", "user-agent", "host",
		"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade",
		"content-length" };
	for (size_t i = 0; i < KP_LEN(names); i++) {
		if (kp_str_eq(name, kp_str_c(names[i]))) {
			return true;
		}
	}
	return kp_str_starts(name, KP_S("grpc-"));
}

int kp_grpc_metadata_check(kp_str name, kp_str value, struct kp_err *err)
{
	bool name_ok = name.n > 0;
	for (size_t i = 0; name_ok && i < name.n; i++) {
		char c = name.p[i];
		name_ok = kp_is_digit(c) || (c >= 'a' && c <= 'z') || c == '_' || c == '-' ||
			  c == '.';
	}
	if (!name_ok || is_reserved(name)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"send metadata `%" KP_FMT "`: the name is not allowed", KP_ARG(name));
	}
	if (kp_grpc_is_binary(name)) {
		return 0;
	}
	for (size_t i = 0; i < value.n; i++) {
		if (value.p[i] < 0x20 || value.p[i] > 0x7e) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"send metadata `%" KP_FMT
				"`: byte %zu of the value is not printable ASCII",
				KP_ARG(name), i);
		}
	}
	return 0;
}

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void kp_grpc_base64(struct kp_buf *b, kp_str bytes)
{
	for (size_t i = 0; i < bytes.n; i += 3) {
		size_t n = KP_MIN(bytes.n - i, (size_t)3);
		uint32_t v = 0;
		for (size_t k = 0; k < 3; k++) {
			v = v << 8 | (k < n ? (unsigned char)bytes.p[i + k] : 0);
		}
		for (size_t k = 0; k <= n; k++) {
			kp_buf_addc(b, base64_digits[v >> (18 - 6 * k) & 63]);
		}
	}
}

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z') {
		return c - 'A';
	}
	if (c >= 'a' && c <= 'z') {
		return c - 'a' + 26;
	}
	if (kp_is_digit(c)) {
		return c - '0' + 52;
	}
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool kp_grpc_base64_decode(struct kp_buf *b, kp_str text)
{
	size_t start = b->n;
	if (text.n % 4 == 0) {
		for (int pad = 0; pad < 2 && text.n && text.p[text.n - 1] == '='; pad++) {
			text.n--;
		}
	}
	uint32_t acc = 0;
	unsigned bits = 0;
	for (size_t i = 0; i < text.n; i++) {
		int v = base64_value(text.p[i]);
		if (v < 0) {
			b->n = start;
			return false;
		}
		acc = (acc << 6 | (uint32_t)v) & 0xffff;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			kp_buf_addc(b, (char)(acc >> bits & 0xff));
		}
	}
	/* A lone last digit is no byte, and the bits behind the last byte must be zero. */
	if (text.n % 4 == 1 || (acc & ((1U << bits) - 1)) != 0) {
		b->n = start;
		return false;
	}
	return true;
}

/* --- messages
 * ----------------------------------------------------------------------------------------- */

void kp_grpc_deframer_init(
	struct kp_grpc_deframer *d, size_t max_message_bytes, size_t max_held_bytes)
{
	*d = (struct kp_grpc_deframer){ .max_message = max_message_bytes };
	size_t max = SIZE_MAX;
	if (!kp_size_add(max_message_bytes, KP_GRPC_PREFIX, &max) ||
		!kp_size_add(max, max_held_bytes, &max)) {
		max = SIZE_MAX;
	}
	kp_buf_init(&d->in, max);
}

void kp_grpc_deframer_fini(struct kp_grpc_deframer *d)
{
	kp_buf_fini(&d->in);
}

void kp_grpc_deframer_hold(struct kp_grpc_deframer *d)
{
	d->is_held = true;
}

static int keep(struct kp_grpc_deframer *d, kp_str bytes, struct kp_err *err)
{
	kp_buf_add(&d->in, bytes);
	return kp_buf_finish(&d->in, "message", err);
}

/* Reads the prefix at p. */
static int prefix(
	const struct kp_grpc_deframer *d, const char *p, size_t *ret_len, struct kp_err *err)
{
	const unsigned char *u = (const unsigned char *)p;
	if (KP_UNLIKELY(u[0] != 0)) {
		return kp_err_set(err, KP_INTERNAL,
			"read message: %s, and no compression was offered",
			u[0] == 1 ? "it is compressed" : "its flag byte is invalid");
	}
	size_t len = (size_t)u[1] << 24 | (size_t)u[2] << 16 | (size_t)u[3] << 8 | u[4];
	if (KP_UNLIKELY(len > d->max_message)) {
		return kp_err_set(err, KP_INTERNAL,
			"read message of %zu bytes: the limit is %zu bytes", len, d->max_message);
	}
	*ret_len = len;
	return 0;
}

/* Hands out the whole messages at the front of s. *ret_used: how far it came; *ret_need: bytes from
   there that the next message takes, as far as known (0: unknown). 1: fn said stop. */
static int scan(struct kp_grpc_deframer *d, kp_str s, kp_grpc_message_fn fn, void *user,
	size_t *ret_used, size_t *ret_need, struct kp_err *err)
{
	size_t at = 0;
	*ret_need = KP_GRPC_PREFIX;
	while (s.n - at >= KP_GRPC_PREFIX && !d->is_held) {
		size_t len;
		if (prefix(d, s.p + at, &len, err) < 0) {
			return -1;
		}
		if (s.n - at - KP_GRPC_PREFIX < len) {
			*ret_need = KP_GRPC_PREFIX + len;
			break;
		}
		kp_str message = { s.p + at + KP_GRPC_PREFIX, len };
		at += KP_GRPC_PREFIX + len;
		if (!fn(user, message)) {
			return 1;
		}
	}
	*ret_used = at;
	return 0;
}

/* Completes the cut message in `in` from *bytes. 1: stop, -1: error; *bytes is what remains. */
static int complete(struct kp_grpc_deframer *d, kp_str *bytes, kp_grpc_message_fn fn, void *user,
	struct kp_err *err)
{
	while (d->in.n && bytes->n && !d->is_held) {
		size_t need = KP_GRPC_PREFIX;
		size_t len;
		if (d->in.n >= KP_GRPC_PREFIX) {
			if (prefix(d, d->in.p, &len, err) < 0) {
				return -1;
			}
			need += len;
		}
		size_t take = KP_MIN(need - d->in.n, bytes->n);
		if (keep(d, kp_str_sub(*bytes, 0, take), err) < 0) {
			return -1;
		}
		*bytes = kp_str_skip(*bytes, take);
		size_t used = 0;
		int rc = scan(d, kp_buf_str(&d->in), fn, user, &used, &need, err);
		if (rc != 0) {
			return rc;
		}
		if (used) {
			kp_buf_reset(&d->in);
		}
	}
	return 0;
}

int kp_grpc_deframer_feed(struct kp_grpc_deframer *d, kp_str bytes, kp_grpc_message_fn fn,
	void *user, struct kp_err *err)
{
	if (d->in.n) {
		int rc = complete(d, &bytes, fn, user, err);
		if (rc != 0) {
			return rc < 0 ? -1 : 0;
		}
	}
	if (bytes.n == 0) {
		return 0;
	}
	if (d->is_held) {
		return keep(d, bytes, err);
	}
	size_t used = 0;
	size_t need = 0;
	int rc = scan(d, bytes, fn, user, &used, &need, err);
	if (rc != 0) {
		return rc < 0 ? -1 : 0;
	}
	bytes = kp_str_skip(bytes, used);
	if (bytes.n == 0) {
		return 0;
	}
	kp_buf_reserve(&d->in, KP_MIN(KP_MAX(need, bytes.n), (size_t)RESERVE_MAX));
	return keep(d, bytes, err);
}

int kp_grpc_deframer_release(
	struct kp_grpc_deframer *d, kp_grpc_message_fn fn, void *user, struct kp_err *err)
{
	d->is_held = false;
	size_t used = 0;
	size_t need = 0;
	int rc = scan(d, kp_buf_str(&d->in), fn, user, &used, &need, err);
	if (rc != 0) {
		return rc < 0 ? -1 : 0;
	}
	if (used == d->in.n) {
		kp_buf_reset(&d->in);
	} else {
		kp_buf_consume(&d->in, used);
	}
	return 0;
}
