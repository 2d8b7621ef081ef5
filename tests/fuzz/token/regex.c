/* A line of pattern, then text: the pattern is refused or compiled, and its matches are in order, within the text, on borders of characters. */
#include "base/utf8.h"
#include "token/find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_pattern p;
	struct kp_find_work work = { 0 };
	kp_str all = kp_str_n(data, n);
	ptrdiff_t cut = kp_str_find_char(all, '\n');
	kp_str text = cut < 0 ? KP_S("ab 12 x\n") : kp_str_skip(all, (size_t)cut + 1);
	kp_str pattern = cut < 0 ? all : kp_str_sub(all, 0, (size_t)cut);
	if (!kp_utf8_ok(all) || text.n > 4096 ||
		kp_pattern_regex(pattern, KP_CLASSES_HF, &p, &err)) {
		return 0;
	}
	struct kp_find f = kp_find_begin(&p, &work, text);
	size_t from, to, last = 0;
	while (kp_find_next(&f, &from, &to, &err) > 0) {
		KP_BUG_ON(from < last || to < from || to > text.n);
		KP_BUG_ON(!kp_utf8_ok(kp_str_sub(text, last, from)));
		KP_BUG_ON(!kp_utf8_ok(kp_str_sub(text, from, to)));
		last = to;
	}
	kp_find_work_fini(&work);
	kp_pattern_fini(&p);
	return 0;
}
