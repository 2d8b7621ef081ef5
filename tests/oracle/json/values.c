/* Reads frames (one letter, a little-endian 32-bit length, that many bytes) and answers each with one line.
   v: the text as a kp_jv, written back as {"ok":VALUE}, or {"error":"..."}.
   d: eight bytes, a double: as kp_json_w_f64 writes it. f: four bytes, a float. */
#include "json/value.h"
#include "json/write.h"
#include "tests/frames.h"

#include <stdio.h>

static void answer(char kind, kp_str text, struct kp_buf *out)
{
	if (kind == 'd') {
		double v;
		memcpy(&v, text.p, sizeof(v));
		kp_json_w_f64(out, v);
		return;
	}
	if (kind == 'f') {
		float v;
		memcpy(&v, text.p, sizeof(v));
		kp_json_w_f32(out, v);
		return;
	}
	struct kp_arena *a = kp_arena_create(64 << 20);
	struct kp_err err;
	struct kp_jv v;
	if (kp_jv_parse(text, a, &v, &err)) {
		kp_buf_lit(out, "{\"error\":");
		kp_json_w_str(out, kp_str_c(err.msg));
	} else {
		kp_buf_lit(out, "{\"ok\":");
		kp_jv_write(&v, out);
	}
	kp_buf_addc(out, '}');
	kp_arena_destroy(a);
}

int main(void)
{
	struct test_frame f;
	struct kp_buf out;
	kp_buf_init(&out, 256 << 20);
	while (frame_read(&f)) {
		kp_buf_reset(&out);
		answer(f.kind, kp_str_n(f.text, f.n), &out);
		kp_buf_addc(&out, '\n');
		fwrite(out.p, 1, out.n, stdout);
		kp_free(&f.text);
	}
	kp_buf_fini(&out);
	return 0;
}
