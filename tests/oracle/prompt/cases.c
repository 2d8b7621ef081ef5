/* Prints the cases of tests/prop/parse as JSON, one a line, the tools first: for other programs to read the same. With an argument: the markers of all families. */
#include "json/write.h"
#include "tests/prop/parse/cases_json.h"
#include "tests/prop/parse/cases_other.h"
#include "tests/prop/parse/cases_tags.h"
#include "tests/prop/parse/controls.h"

#include <stdio.h>

static void put(const struct parse_case *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		KP_AUTO(buf) struct kp_buf out;
		kp_buf_init(&out, 1 << 20);
		kp_buf_lit(&out, "{\"tools\":");
		kp_json_w_str(&out, kp_str_c(rows[i].tools ? rows[i].tools : ""));
		kp_buf_lit(&out, ",\"thinking\":");
		kp_json_w_str(&out, kp_str_c(rows[i].thinking ? rows[i].thinking : ""));
		kp_buf_lit(&out, ",\"text\":");
		kp_json_w_str(&out, kp_str_c(rows[i].text));
		kp_buf_lit(&out, ",\"means\":");
		kp_json_w_str(&out, kp_str_c(rows[i].means));
		printf("%s}\n", kp_buf_cstr(&out));
	}
}

static void put_markers(void)
{
	make_controls();
	for (size_t i = 0; i < n_controls; i++) {
		KP_AUTO(buf) struct kp_buf out;
		kp_buf_init(&out, 1 << 10);
		kp_json_w_str(&out, controls[i]);
		printf("%s\n", kp_buf_cstr(&out));
	}
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		put_markers();
		return 0;
	}
	printf("%s\n", parse_tools);
	put(json_cases, KP_LEN(json_cases));
	put(tags_cases, KP_LEN(tags_cases));
	put(other_cases, KP_LEN(other_cases));
	return 0;
}
