/* DESIGN: formatting into a fixed array; no allocation, no locale, no state. The code table in
   err.h is expanded here into switches, so that a missing entry is a compiler error. Messages are
   made safe for one log line: control bytes become '?'. */
#include "base/err.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kp_bug(const char *file, int line, const char *what)
{
	fprintf(stderr, "kelpie: bug at %s:%d: %s\n", file, line, what);
	abort();
}

static void clean(char *msg)
{
	size_t n = strlen(msg);
	if (n == KP_ERR_MSG - 1) { /* maybe cut inside a character */
		n -= kp_utf8_incomplete_tail(kp_str_n(msg, n));
		msg[n] = '\0';
	}
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)msg[i];
		if (c < 0x20 || c == 0x7f) {
			msg[i] = '?';
		}
	}
	/* Invalid UTF-8 would make the JSON answer invalid. */
	for (size_t ok = 0; (ok += kp_utf8_valid_prefix(kp_str_n(msg + ok, n - ok))) < n;) {
		msg[ok] = '?';
	}
}

int kp_err_setv(struct kp_err *err, enum kp_code code, const char *fmt, va_list ap)
{
	KP_BUG_ON(code == KP_OK);
	/* Formatted aside first: the arguments may be err's own message or parameter. */
	struct kp_err fresh = { .code = code };
	vsnprintf(fresh.msg, sizeof(fresh.msg), fmt, ap);
	clean(fresh.msg);
	*err = fresh;
	return -1;
}

int kp_err_set(struct kp_err *err, enum kp_code code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	kp_err_setv(err, code, fmt, ap);
	va_end(ap);
	return -1;
}

int kp_err_param(struct kp_err *err, const char *param, const char *fmt, ...)
{
	char tmp[KP_ERR_MSG]; /* as long as a message, for clean(); `param` may be err->param */
	snprintf(tmp, sizeof(tmp), "%s", param);
	clean(tmp);
	tmp[KP_ERR_PARAM - 1] = '\0';
	va_list ap;
	va_start(ap, fmt);
	kp_err_setv(err, KP_INVALID_ARGUMENT, fmt, ap);
	va_end(ap);
	size_t n = strlen(tmp);
	n -= kp_utf8_incomplete_tail(kp_str_n(tmp, n));
	memcpy(err->param, tmp, n);
	err->param[n] = '\0';
	return -1;
}

static enum kp_code code_of_errno(int e)
{
	switch (e) {
	case ENOENT:
	case ENOTDIR:
		return KP_NOT_FOUND;
	case EACCES:
	case EPERM:
		return KP_PERMISSION_DENIED;
	case EEXIST:
	case EADDRINUSE:
		return KP_ALREADY_EXISTS;
	case ENOMEM:
	case ENOSPC:
	case EMFILE:
	case ENFILE:
		return KP_RESOURCE_EXHAUSTED;
	case EINVAL:
	case EISDIR:
	case ENAMETOOLONG:
		return KP_INVALID_ARGUMENT;
	case ETIMEDOUT:
		return KP_DEADLINE_EXCEEDED;
	case ECONNREFUSED:
	case ECONNRESET:
	case EPIPE:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return KP_UNAVAILABLE;
	default:
		return KP_INTERNAL;
	}
}

int kp_err_sys(struct kp_err *err, int errno_value, const char *fmt, ...)
{
	char text[128], head[KP_ERR_MSG];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(head, sizeof(head), fmt, ap);
	va_end(ap);
	const char *why =
		strerror_r(errno_value, text, sizeof(text)); /* GNU form: returns the text */
	kp_err_set(err, code_of_errno(errno_value), "%s: %s", head, why);
	err->sys = errno_value;
	return -1;
}

int kp_err_wrap(struct kp_err *err, const char *fmt, ...)
{
	char msg[KP_ERR_MSG];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	size_t at = n < 0 ? 0 : KP_MIN((size_t)n, sizeof(msg) - 1);
	kp_str rest[2] = { KP_S(": "), kp_str_c(err->msg) };
	for (size_t i = 0; i < 2; i++) {
		size_t room = sizeof(msg) - 1 - at;
		size_t k = KP_MIN(room, rest[i].n);
		memcpy(msg + at, rest[i].p, k);
		at += k;
	}
	msg[at] = '\0';
	clean(msg);
	memcpy(err->msg, msg, at + 1);
	return -1;
}

const char *kp_code_name(enum kp_code code)
{
	switch (code) {
#define X(name, number, http, type, reason, retry) \
	case KP_##name:                            \
		return #name;
		KP_CODES(X)
#undef X
	}
	return "UNKNOWN";
}
const char *kp_code_reason(enum kp_code code)
{
	switch (code) {
#define X(name, number, http, type, why, retry) \
	case KP_##name:                         \
		return why;
		KP_CODES(X)
#undef X
	}
	return "Unknown";
}
const char *kp_code_openai_type(enum kp_code code)
{
	switch (code) {
#define X(name, number, http, type, reason, retry) \
	case KP_##name:                            \
		return type;
		KP_CODES(X)
#undef X
	}
	return "server_error";
}
int kp_code_http(enum kp_code code)
{
	switch (code) {
#define X(name, number, http, type, reason, retry) \
	case KP_##name:                            \
		return http;
		KP_CODES(X)
#undef X
	}
	return 500;
}
bool kp_code_retryable(enum kp_code code)
{
	switch (code) {
#define X(name, number, http, type, reason, retry) \
	case KP_##name:                            \
		return retry;
		KP_CODES(X)
#undef X
	}
	return false;
}
