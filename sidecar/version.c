/* DESIGN: asks each library for the version that is loaded, which may be newer than the one built
 * against. */
#include "sidecar/version.h"

#include "base/version.h"

#include <jansson.h>
#include <libwebsockets.h>
#include <nghttp2/nghttp2.h>
#include <openssl/crypto.h>
#include <protobuf-c/protobuf-c.h>
#include <uv.h>
#include <yaml.h>

void kp_sidecar_version_text(struct kp_buf *out)
{
	const struct kp_library libraries[] = { { "jansson", jansson_version_str() },
		{ "libuv", uv_version_string() }, { "libwebsockets", lws_get_library_version() },
		{ "libyaml", yaml_get_version_string() },
		{ "nghttp2", nghttp2_version(0)->version_str },
		{ "openssl", OpenSSL_version(OPENSSL_FULL_VERSION_STRING) },
		{ "protobuf-c", protobuf_c_version() } };
	kp_version_text(out, "kelpie-sidecar", libraries, KP_LEN(libraries));
}
