/* DESIGN: small things that servers and clients share; pure. */
#include "net/http.h"

#include "base/clock.h"

#include <stdio.h>

kp_str kp_header_get(const struct kp_header *h, size_t n, kp_str name)
{
	for (size_t i = 0; i < n; i++) {
		if (kp_str_eq(h[i].name, name)) {
			return h[i].value;
		}
	}
	return KP_STR_NULL;
}

const char *kp_http_reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} table[] = {
		{ 100, "Continue" },
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 206, "Partial Content" },
		{ 301, "Moved Permanently" },
		{ 302, "Found" },
		{ 303, "See Other" },
		{ 304, "Not Modified" },
		{ 307, "Temporary Redirect" },
		{ 308, "Permanent Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 402, "Payment Required" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 411, "Length Required" },
		{ 412, "Precondition Failed" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 417, "Expectation Failed" },
		{ 421, "Misdirected Request" },
		{ 422, "Unprocessable Content" },
		{ 424, "Failed Dependency" },
		{ 425, "Too Early" },
		{ 426, "Upgrade Required" },
		{ 428, "Precondition Required" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 499, "Client Closed Request" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
		{ 507, "Insufficient Storage" },
		{ 529, "Overloaded" },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		if (table[i].status == status) {
			return table[i].reason;
		}
	}
	return "";
}

void kp_http_date(int64_t wall_ns, char buf[KP_HTTP_DATE_MAX])
{
	static const char days[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char months[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug",
		"Sep", "Oct", "Nov", "Dec" };
	/* Not gmtime_r: its first call reads the time zone's file, on a loop's thread. */
	char text[25]; /* "2026-11-29T16:12:06.123Z" */
	kp_time_rfc3339(wall_ns, text);
	int64_t day = wall_ns / (86400 * KP_NS_PER_S);
	int month = (text[5] - '0') * 10 + (text[6] - '0');
	snprintf(buf, KP_HTTP_DATE_MAX, "%s, %.2s %s %.4s %.8s GMT", days[(day + 4) % 7], text + 8,
		months[(month + 11) % 12], text, text + 11);
}
