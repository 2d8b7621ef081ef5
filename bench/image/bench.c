/* Times lib/image: image-bench FILE CONFIG LOOPS, where CONFIG is a preprocessor_config.json. Two lines, "decode MS" and "all MS" (decoded and
   processed into memory that is used again, as malloc's is): the least CPU time of this thread. `run` puts peers beside it. */
#include "base/fs.h"
#include "base/mem.h"
#include "image/processor.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void must(int r, const struct kp_err *err)
{
	if (r) {
		fprintf(stderr, "image-bench: %s\n", err->msg);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct kp_err err;
	struct kp_buf file, text;
	struct kp_jv config;
	struct kp_image_processor p;
	struct kp_image_plan plan;
	const struct kp_image_limits limits = { .background = { 255, 255, 255 } };
	uint64_t loops;
	if (argc != 4 || !kp_str_u64(kp_str_c(argv[3]), 100000, &loops)) {
		fprintf(stderr, "usage: image-bench FILE CONFIG LOOPS\n");
		return 2;
	}
	struct kp_arena *a = kp_arena_create(1 << 20);
	kp_buf_init(&file, 256 << 20);
	kp_buf_init(&text, 1 << 20);
	must(kp_fs_read(argv[1], &file, &err) || kp_fs_read(argv[2], &text, &err) ||
			kp_jv_parse(kp_buf_str(&text), a, &config, &err) ||
			kp_image_processor_read(&p, &config, &err),
		&err);
	double decode = 1e9, all = 1e9;
	float *floats = NULL;
	for (uint64_t i = 0; i <= loops; i++) { /* the first one only warms up */
		struct kp_image image;
		double begin = cpu_ms();
		must(kp_image_decode(kp_buf_str(&file), &limits, &image, &err), &err);
		double middle = cpu_ms();
		must(kp_image_processor_plan(&p, image.width, image.height, &plan, &err), &err);
		floats = floats ? floats : kp_xmalloc(plan.n_floats * sizeof(float));
		must(kp_image_processor_run(&p, &plan, &image, floats, &err), &err);
		double end = cpu_ms();
		decode = i ? KP_MIN(decode, middle - begin) : decode;
		all = i ? KP_MIN(all, end - begin) : all;
		kp_image_fini(&image);
	}
	printf("decode %.3f\nall %.3f\n", decode, all);
	kp_mem_free(floats);
	kp_buf_fini(&text);
	kp_buf_fini(&file);
	kp_arena_destroy(a);
	return 0;
}
