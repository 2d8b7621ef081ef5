/* Bytes of an HTTP/1 client (heads, bodies, pipelines), in any pieces, into the server. */
#include "tests/fuzz/net/http_common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	http_fuzz(KP_STR_NULL, data, size);
	return 0;
}
