/* Whatever object a server answers with: what is printed of it is clean UTF-8 without control characters. */
#include "base/utf8.h"
#include "cli/answers.h"
#include "cli/print.h"
#include "json/jansson.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const struct kp_doc_limits limits = { 1 << 16, 10000, 32, 1 };
	struct kp_err err;
	json_t *v;
	if (kp_doc_json(kp_str_n(data, n), "x", &limits, &v, &err)) {
		return 0;
	}
	for (int wide = 0; wide < 2; wide++) {
		struct kp_cli cli = { .arena = kp_arena_create(1 << 28),
			.operand = "m",
			.output = wide ? KP_CLI_WIDE : KP_CLI_TABLE,
			.now_ns = INT64_C(1795968726000000000) };
		kp_buf_init(&cli.out, 1 << 28);
		kp_print_status(&cli, v);
		kp_print_engines(&cli, v, NULL);
		kp_print_served(&cli, v);
		kp_print_request(&cli, v);
		bool is_clean = !cli.out.failed && kp_utf8_ok(kp_buf_str(&cli.out));
		for (size_t i = 0; i < cli.out.n; i++) {
			unsigned char c = (unsigned char)cli.out.p[i];
			is_clean = is_clean && (c >= 0x20 || c == '\n') && c != 0x7f;
		}
		if (!is_clean) {
			abort();
		}
		kp_buf_fini(&cli.out);
		kp_arena_destroy(cli.arena);
	}
	json_decref(v);
	return 0;
}
