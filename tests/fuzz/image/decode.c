/* Any bytes as an image, through a processor of each layout. What was probed is what is decoded; floats are those of the bytes. */
#include "image/processor.h"

#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void process(const char *config, const struct kp_image *i)
{
	struct kp_arena *a = kp_arena_create(1 << 16);
	struct kp_jv value;
	struct kp_image_processor p;
	struct kp_image_plan plan;
	struct kp_err err;
	KP_BUG_ON(kp_jv_parse(kp_str_c(config), a, &value, &err));
	KP_BUG_ON(kp_image_processor_read(&p, &value, &err));
	if (!kp_image_processor_plan(&p, i->width, i->height, &plan, &err)) {
		float *out = kp_xmalloc(plan.n_floats * sizeof(float));
		uint8_t *bytes = kp_xmalloc(plan.n_floats);
		size_t channel = p.layout == KP_IMAGE_PATCHES
					 ? (size_t)p.temporal * p.patch * p.patch
					 : (size_t)plan.out_width * plan.out_height;
		KP_BUG_ON(kp_image_processor_run(&p, &plan, i, out, &err));
		KP_BUG_ON(kp_image_processor_run_bytes(&p, &plan, i, bytes, &err));
		for (size_t k = 0; k < plan.n_floats; k++) {
			KP_BUG_ON(out[k] != p.value[k / channel % 3][bytes[k]]);
		}
		kp_free(&bytes);
		kp_free(&out);
	}
	kp_arena_destroy(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	kp_str bytes = kp_str_n(data, n);
	struct kp_image_limits limits = { .max_pixels = 1 << 18, .background = { 255, 0, 7 } };
	struct kp_image_info info;
	struct kp_image i = { 0 };
	struct kp_err err;
	bool probed = !kp_image_probe(bytes, &limits, &info, &err);
	if (kp_image_decode(bytes, &limits, &i, &err)) {
		return 0;
	}
	KP_BUG_ON(!probed);
	/* PNG's orientation may stand behind its pixels. */
	KP_BUG_ON((uint64_t)i.width * i.height != (uint64_t)info.width * info.height);
	process("{\"image_processor_type\":\"CLIPImageProcessor\",\"size\":20,\"crop_size\":30}",
		&i);
	process("{\"image_processor_type\":\"Qwen2VLImageProcessor\",\"max_pixels\":20000}", &i);
	kp_image_fini(&i);
	return 0;
}
