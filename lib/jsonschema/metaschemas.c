/* DESIGN: the texts are generated (hack/gen-metaschemas). */
#include "jsonschema/internal.h"
#include "jsonschema/metaschemas_gen.h"

kp_str kp_js_metaschema(kp_str uri)
{
	for (size_t i = 0; i < KP_LEN(kp_js_metaschemas); i++) {
		if (kp_str_eq(uri, kp_str_c(kp_js_metaschemas[i].uri))) {
			return kp_str_c(kp_js_metaschemas[i].text);
		}
	}
	return KP_STR_NULL;
}
