/* DESIGN: the sources are lists of lines, since compilers limit the length of one string. */
#include "template/native.h"

bool kp_template_native(kp_str name, struct kp_buf *out)
{
	for (size_t i = 0; i < kp_n_native_templates; i++) {
		const struct kp_native_template *t = &kp_native_templates[i];
		if (!kp_str_eq(name, kp_str_c(t->name))) {
			continue;
		}
		if (t->first) {
			kp_buf_addz(out, t->first);
			kp_buf_addc(out, '\n');
		}
		for (size_t k = 0; k < t->n_lines; k++) {
			kp_buf_addz(out, t->lines[k]);
			kp_buf_addc(out, '\n');
		}
		return true;
	}
	return false;
}
