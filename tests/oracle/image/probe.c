/* Reads frames (a letter, a little-endian 32-bit length, that many bytes) and answers each with a line of JSON and the raw
   bytes that its "bytes" counts.
   d: an image's file. Decoded: {"width","height","bytes"} and RGB.
   h: an image's file. Its head: {"format","width","height","orientation","bytes":0}.
   r: "FROM_WIDTH FROM_HEIGHT WIDTH HEIGHT FILTER SIMD_LIMIT\n" and RGB. Resized: as d.
   x: "LENGTH\n", a preprocessor_config.json of that length and an image's file: {"grid":[h,w],"tokens","width","height",
      "bytes"} and floats. */
#include "image/processor.h"

#include "json/write.h"
#include "tests/frames.h"

#include <stdio.h>
#include <stdlib.h>

static const struct kp_image_limits limits = { .background = { 255, 255, 255 } };

struct answer {
	struct kp_buf head;
	void *bytes;
	size_t n;
};

static void say(struct answer *a, const char *format, ...) KP_PRINTF(2, 3);
static void say(struct answer *a, const char *format, ...)
{
	char text[256];
	va_list ap;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	kp_buf_addz(&a->head, text);
}
static void say_error(struct answer *a, const struct kp_err *err)
{
	kp_buf_reset(&a->head);
	kp_buf_lit(&a->head, "{\"bytes\":0,\"error\":");
	kp_json_w_str(&a->head, kp_str_c(err->msg));
	say(a, ",\"code\":\"%s\"}", kp_code_name(err->code));
}
static void give_image(struct answer *a, struct kp_image *i)
{
	a->n = (size_t)i->width * i->height * 3;
	say(a, "{\"width\":%u,\"height\":%u,\"bytes\":%zu}", i->width, i->height, a->n);
	a->bytes = i->px;
}

static int head(kp_str file, struct answer *a, struct kp_err *err)
{
	struct kp_image_info i;
	if (kp_image_probe(file, &limits, &i, err)) {
		return -1;
	}
	say(a, "{\"format\":\"%s\",\"width\":%u,\"height\":%u,\"orientation\":%u,\"decoder\":%llu,\"bytes\":0}",
		kp_image_format_name(i.format), i.width, i.height, i.orientation,
		(unsigned long long)i.decoder_bytes);
	return 0;
}

static int decode(kp_str file, struct answer *a, struct kp_err *err)
{
	struct kp_image i;
	if (kp_image_decode(file, &limits, &i, err)) {
		return -1;
	}
	give_image(a, &i);
	return 0;
}

static int resize(kp_str text, struct answer *a, struct kp_err *err)
{
	size_t line = (size_t)kp_str_find_char(text, '\n') + 1;
	unsigned long v[6];
	char *at = kp_unconst(text.p);
	for (int i = 0; i < 6; i++) {
		v[i] = strtoul(at, &at, 10);
	}
	struct kp_image from, to;
	if (kp_image_init(&from, (uint32_t)v[0], (uint32_t)v[1], err)) {
		return -1;
	}
	memcpy(from.px, text.p + line, text.n - line);
	kp_image_limit_simd((enum kp_image_simd)v[5]);
	int status = kp_image_resize(
		&from, (uint32_t)v[2], (uint32_t)v[3], (enum kp_image_filter)v[4], &to, err);
	kp_image_limit_simd(KP_IMAGE_SIMD_ANY);
	kp_image_fini(&from);
	if (!status) {
		give_image(a, &to);
	}
	return status;
}

struct copy {
	uint8_t *to;
	size_t n, pieces;
};

static int put(void *user, kp_str numbers, struct kp_err *err)
{
	struct copy *c = user;
	(void)err;
	memcpy(c->to + c->n, numbers.p, numbers.n);
	c->n += numbers.n;
	c->pieces++;
	return 0;
}

/* In pieces it is the same. */
static void check_pieces(const struct kp_image_processor *p, const struct kp_image_plan *plan,
	const struct kp_image *i, bool is_bytes, const void *numbers)
{
	struct kp_err err;
	size_t n = plan->n_floats * (is_bytes ? 1 : sizeof(float));
	struct copy c = { .to = kp_xmalloc(n) };
	KP_BUG_ON(kp_image_processor_put(p, plan, i, is_bytes, put, &c, &err));
	KP_BUG_ON(c.n != n || c.pieces < n >> 18 || memcmp(c.to, numbers, n) != 0);
	kp_mem_free(c.to);
}

static int run(const struct kp_image_processor *p, const struct kp_image *i, struct answer *a,
	struct kp_err *err)
{
	struct kp_image_plan plan;
	if (kp_image_processor_plan(p, i->width, i->height, &plan, err)) {
		return -1;
	}
	float *values = kp_xmalloc(plan.n_floats * sizeof(float));
	if (kp_image_processor_run(p, &plan, i, values, err)) {
		kp_free(&values);
		return -1;
	}
	check_pieces(p, &plan, i, false, values);
	uint8_t *bytes = kp_xmalloc(plan.n_floats);
	KP_BUG_ON(kp_image_processor_run_bytes(p, &plan, i, bytes, err));
	check_pieces(p, &plan, i, true, bytes);
	kp_mem_free(bytes);
	a->bytes = values;
	a->n = plan.n_floats * sizeof(float);
	say(a, "{\"grid\":[%u,%u],\"tokens\":%u,\"width\":%u,\"height\":%u,\"bytes\":%zu}",
		plan.grid_h, plan.grid_w, plan.n_tokens, plan.out_width, plan.out_height, a->n);
	return 0;
}

static int process(kp_str text, struct answer *a, struct kp_err *err)
{
	size_t line = (size_t)kp_str_find_char(text, '\n') + 1;
	size_t n = strtoul(text.p, NULL, 10);
	struct kp_arena *arena = kp_arena_create(1 << 20);
	struct kp_jv config;
	struct kp_image_processor p;
	int status = kp_jv_parse(kp_str_sub(text, line, line + n), arena, &config, err) ||
		     kp_image_processor_read(&p, &config, err);
	kp_arena_destroy(arena);
	struct kp_image i = { 0 };
	if (status || kp_image_decode(kp_str_skip(text, line + n), &limits, &i, err)) {
		return -1;
	}
	status = run(&p, &i, a, err);
	kp_image_fini(&i);
	return status;
}

int main(void)
{
	struct test_frame f;
	struct answer a = { 0 };
	kp_buf_init(&a.head, 1 << 16);
	while (frame_read(&f)) {
		struct kp_err err = KP_ERR_INIT;
		int (*answer)(kp_str, struct answer *, struct kp_err *) = f.kind == 'd'   ? decode
									  : f.kind == 'h' ? head
									  : f.kind == 'r' ? resize
											  : process;
		if (answer(kp_str_n(f.text, f.n), &a, &err)) {
			say_error(&a, &err);
		}
		kp_buf_addc(&a.head, '\n');
		fwrite(a.head.p, 1, a.head.n, stdout);
		if (a.n) {
			fwrite(a.bytes, 1, a.n, stdout);
		}
		fflush(stdout);
		kp_free(&a.bytes);
		a.n = 0;
		kp_buf_reset(&a.head);
		kp_free(&f.text);
	}
	kp_buf_fini(&a.head);
	return 0;
}
