/* DESIGN: scheme, then what stands before the first comma; the data is not looked at. */
#include "prompt/media_url.h"

#include "base/base64.h"

enum { MAX_HEAD = 256, MAX_URL = 8192 };

static bool has_scheme(kp_str url, kp_str scheme)
{
	return kp_str_ieq(kp_str_sub(url, 0, scheme.n), scheme);
}

/* head: "image/png;name=a.png;base64" */
static int check_head(kp_str head, struct kp_err *err)
{
	static const kp_str fine[] = { KP_S_INIT(""), KP_S_INIT("application/octet-stream") };
	kp_str type, parameter = KP_STR_NULL;
	bool is_image;
	kp_str_split(&head, ';', &type);
	is_image = type.n > 6 && kp_str_ieq(kp_str_sub(type, 0, 6), KP_S("image/"));
	for (size_t i = 0; !is_image && i < KP_LEN(fine); i++) {
		is_image = kp_str_ieq(type, fine[i]);
	}
	if (!is_image) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"a data: URL of media type `%" KP_FMT "`, expected an image's",
			KP_ARG(kp_str_sub(type, 0, 64)));
	}
	while (kp_str_split(&head, ';', &parameter)) {
		if (head.p == NULL && kp_str_ieq(parameter, KP_S("base64"))) {
			return 0;
		}
	}
	return kp_err_set(
		err, KP_INVALID_ARGUMENT, "a data: URL without `;base64` before its comma");
}

int kp_media_url_read(kp_str url, struct kp_media_url *ret, struct kp_err *err)
{
	if (has_scheme(url, KP_S("http://")) || has_scheme(url, KP_S("https://"))) {
		if (url.n > MAX_URL) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"a URL of %zu bytes, at most %d", url.n, MAX_URL);
		}
		*ret = (struct kp_media_url){ .source = KP_MEDIA_HTTP };
		return 0;
	}
	if (!has_scheme(url, KP_S("data:"))) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "expected a data:, http: or https: URL");
	}
	kp_str rest = kp_str_skip(url, 5);
	ptrdiff_t comma = kp_str_find_char(kp_str_sub(rest, 0, MAX_HEAD), ',');
	if (comma < 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"a data: URL without a comma in its first %d bytes", MAX_HEAD);
	}
	if (check_head(kp_str_sub(rest, 0, (size_t)comma), err)) {
		return -1;
	}
	kp_str data = kp_str_skip(rest, (size_t)comma + 1);
	if (data.n == 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "a data: URL without data");
	}
	*ret = (struct kp_media_url){
		.source = KP_MEDIA_DATA, .base64 = data, .max_bytes = kp_base64_max(data.n)
	};
	return 0;
}
