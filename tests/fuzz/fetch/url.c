/* A policy's byte, a URL, and after a line feed where it redirects to: read, and whatever is taken must be read the same again and be http or https. */
#include "base/mem.h"
#include "fetch/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct kp_fetch_policy *p, CURLU *u)
{
	char *text = NULL, *again_text = NULL, *part = NULL;
	CURLU *again = NULL;
	struct kp_err err;
	KP_BUG_ON(curl_url_get(u, CURLUPART_SCHEME, &part, 0) != CURLUE_OK);
	KP_BUG_ON(strcmp(part, "http") != 0 && strcmp(part, "https") != 0);
	curl_free(part);
	KP_BUG_ON(curl_url_get(u, CURLUPART_USER, &part, 0) == CURLUE_OK);
	if (curl_url_get(u, CURLUPART_URL, &text, 0) == CURLUE_OK &&
		strlen(text) <= KP_FETCH_URL_MAX) {
		if (kp_fetch_url_parse(p, kp_str_c(text), &again, &err) == 0) {
			KP_BUG_ON(!kp_fetch_same_origin(u, again));
			KP_BUG_ON(curl_url_get(again, CURLUPART_URL, &again_text, 0) != CURLUE_OK);
			KP_BUG_ON(strcmp(text, again_text) != 0);
		}
	}
	curl_free(text);
	curl_free(again_text);
	curl_url_cleanup(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const kp_str hosts[] = { KP_S_INIT("a.example"), KP_S_INIT("*.b.example") };
	struct kp_cidr range;
	struct kp_err err;
	if (size == 0) {
		return 0;
	}
	const struct kp_fetch_policy p = { .hosts = hosts,
		.n_hosts = data[0] & 1 ? KP_LEN(hosts) : 0,
		.allows_private = data[0] & 2,
		.https_only = data[0] & 4 };
	kp_str rest = kp_str_n(data + 1, size - 1), url;
	CURLU *u = NULL, *to = NULL;
	if (kp_cidr_parse(rest, &range, &err) == 0) {
		KP_BUG_ON(range.bits > 128);
	}
	(void)!kp_fetch_host_check(rest, &err);
	if (kp_str_split(&rest, '\n', &url) && kp_fetch_url_parse(&p, url, &u, &err) == 0) {
		check(&p, u);
		if (kp_fetch_url_follow(&p, u, rest, &to, &err) == 0) {
			check(&p, to);
			kp_fetch_same_origin(u, to);
		}
	}
	curl_url_cleanup(u);
	curl_url_cleanup(to);
	return 0;
}
