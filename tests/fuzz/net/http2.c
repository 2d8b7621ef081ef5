/* Frames of an HTTP/2 client behind a good preface and SETTINGS, in any pieces, into the server. */
#include "tests/fuzz/net/http_common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	http_fuzz(KP_S("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"), data, size);
	return 0;
}
