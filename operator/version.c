/* DESIGN: asks each library for the version that is loaded, which may be newer than the one built
 * against. */
#include "operator/version.h"

#include "base/version.h"

#include <grpc/grpc.h>
#include <jansson.h>
#include <libwebsockets.h>
#include <openssl/crypto.h>
#include <protobuf-c/protobuf-c.h>
#include <uv.h>
#include <yaml.h>

void kp_operator_version_text(struct kp_buf *out)
{
	const struct kp_library libraries[] = { { "grpc core", grpc_version_string() },
		{ "jansson", jansson_version_str() }, { "libuv", uv_version_string() },
		{ "libwebsockets", lws_get_library_version() },
		{ "libyaml", yaml_get_version_string() },
		{ "openssl", OpenSSL_version(OPENSSL_FULL_VERSION_STRING) },
		{ "protobuf-c", protobuf_c_version() } };
	kp_version_text(out, "kelpie-operator", libraries, KP_LEN(libraries));
}
