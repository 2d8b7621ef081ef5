/* Times lib/image: image-bench FILE CONFIG LOOPS, where CONFIG is a preprocessor_config.json. Three lines, the least CPU time of this thread: "decode MS",
   "all MS" (decoded and processed into memory that is used again) and "fresh MS" (into memory that is taken and freed each time, as a gateway does it). `run`
   puts peers beside it. */
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

struct times {
	double decode, all, fresh;
};

/* Once, into `kept`, or where that is NULL into memory of its own. */
static void run(kp_str file, const struct kp_image_processor *p, float **kept, struct times *t)
{
	const struct kp_image_limits limits = { .background = { 255, 255, 255 } };
	struct kp_err err;
	struct kp_image image;
	struct kp_image_plan plan;
	double begin = cpu_ms();
	must(kp_image_decode(file, &limits, &image, &err), &err);
	double middle = cpu_ms();
	must(kp_image_processor_plan(p, image.width, image.height, &plan, &err), &err);
	float *to = kept ? *kept : NULL;
	to = to ? to : kp_try_malloc_large(plan.n_floats * sizeof(float));
	must(!to || kp_image_processor_run(p, &plan, &image, to, &err), &err);
	double end = cpu_ms();
	kp_image_fini(&image);
	if (kept) {
		*kept = to;
		t->decode = KP_MIN(t->decode, middle - begin);
		t->all = KP_MIN(t->all, end - begin);
	} else {
		kp_free(&to);
		t->fresh = KP_MIN(t->fresh, cpu_ms() - begin);
	}
}

int main(int argc, char **argv)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_buf file, text;
	struct kp_jv config;
	struct kp_image_processor p;
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
	struct times warm = { 1e9, 1e9, 1e9 }, t = warm;
	float *kept = NULL;
	run(kp_buf_str(&file), &p, &kept, &warm);
	for (uint64_t i = 0; i < loops; i++) {
		run(kp_buf_str(&file), &p, &kept, &t);
		run(kp_buf_str(&file), &p, NULL, &t);
	}
	printf("decode %.3f\nall %.3f\nfresh %.3f\n", t.decode, t.all, t.fresh);
	kp_mem_free(kept);
	kp_buf_fini(&text);
	kp_buf_fini(&file);
	kp_arena_destroy(a);
	return 0;
}
