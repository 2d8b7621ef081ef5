/* DESIGN: a table of families by model_type. The places of images are those of a token that only the template's own text makes
   (kp_token_policy_guard), so what a client types is never one of them. */
#include "prompt/vision.h"

#include "base/map.h"

enum { MAX_CONFIG_MEMORY = 8 << 20, MAX_SIDE_TOKENS = 1 << 20 };

static const struct family {
	kp_str model_type;
	enum kp_image_layout layout;
	kp_str token;
} families[] = {
	{ KP_S_INIT("qwen2_vl"), KP_IMAGE_PATCHES, KP_S_INIT("<|image_pad|>") },
	{ KP_S_INIT("qwen2_5_vl"), KP_IMAGE_PATCHES, KP_S_INIT("<|image_pad|>") },
	{ KP_S_INIT("qwen3_vl"), KP_IMAGE_PATCHES, KP_S_INIT("<|image_pad|>") },
	{ KP_S_INIT("qwen3_vl_moe"), KP_IMAGE_PATCHES, KP_S_INIT("<|image_pad|>") },
	{ KP_S_INIT("llava"), KP_IMAGE_PLANES, KP_S_INIT("<image>") },
};

static int KP_PRINTF(2, 3) refuse(struct kp_err *err, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int r = kp_err_setv(err, KP_FAILED_PRECONDITION, fmt, ap);
	va_end(ap);
	return r;
}

static const struct family *find_family(const struct kp_model_files *files, struct kp_err *err)
{
	for (size_t i = 0; i < KP_LEN(families); i++) {
		if (kp_str_eq(families[i].model_type, files->model_type)) {
			return &families[i];
		}
	}
	if (!files->preprocessor.n && !files->processor.n) {
		refuse(err, "has no preprocessor_config.json");
	} else if (!files->model_type.n) {
		refuse(err, "has no model_type in config.json");
	} else {
		refuse(err, "is of model_type `%" KP_FMT "`, whose images are not supported",
			KP_ARG(kp_str_sub(files->model_type, 0, 64)));
	}
	return NULL;
}

/* The object of a file; `what` NONE when there is no such file. */
static int parse(
	kp_str text, const char *file, struct kp_arena *a, struct kp_jv *ret, struct kp_err *err)
{
	*ret = (struct kp_jv){ .type = KP_JSON_NONE };
	if (text.n && kp_jv_parse(text, a, ret, err)) {
		return kp_err_wrap(err, "%s", file);
	}
	return 0;
}

static int number(const struct kp_jv *config, const char *name, uint32_t most, uint32_t *value,
	struct kp_err *err)
{
	const struct kp_jv *v = kp_jv_get(config, kp_str_c(name));
	uint64_t n;
	if (!v || v->type == KP_JSON_NULL) {
		return 0;
	}
	if (v->type != KP_JSON_NUMBER || !kp_str_u64(v->s, most, &n)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"processor_config.json: `%s`: not an integer from 0 to %u", name, most);
	}
	*value = (uint32_t)n;
	return 0;
}

/* LLaVA: the tower's patches, its class token unless the strategy drops it. */
static int read_tower(struct kp_vision *v, const struct kp_model_files *files,
	const struct kp_jv *config, struct kp_err *err)
{
	const struct kp_image_processor *p = &v->processor;
	uint32_t more = 1; /* CLIP's */
	kp_str strategy = kp_jv_str(config, KP_S("vision_feature_select_strategy"));
	v->patch = files->vision_patch;
	if (number(config, "patch_size", 1024, &v->patch, err) ||
		number(config, "num_additional_image_tokens", 1024, &more, err)) {
		return -1;
	}
	strategy = strategy.n ? strategy : files->select_strategy;
	bool is_default = !strategy.n || kp_str_eq(strategy, KP_S("default"));
	if (!is_default && !kp_str_eq(strategy, KP_S("full"))) {
		return refuse(err, "has the vision_feature_select_strategy `%" KP_FMT "`",
			KP_ARG(kp_str_sub(strategy, 0, 32)));
	}
	if (v->patch == 0) {
		return refuse(err, "does not say its vision tower's patch_size");
	}
	if (!p->crops && p->short_side) {
		return refuse(err, "makes images of different sizes, which is not supported");
	}
	v->more = (int32_t)more - is_default;
	return 0;
}

static uint64_t digest(const struct kp_vision *v, const struct kp_model_files *files)
{
	static const uint8_t key[16] = { 3 };
	return kp_siphash(files->preprocessor.p, files->preprocessor.n, key) ^
	       kp_siphash(files->processor.p, files->processor.n, key) * 3 ^
	       kp_siphash(v->model_type.p, v->model_type.n, key) * 5 ^
	       ((uint64_t)v->patch << 40 | (uint64_t)(uint32_t)v->more << 8) ^ v->token;
}

/* From transformers 5 on the one file may stand in the other. */
static const struct kp_jv *image_config(
	const struct kp_jv *preprocessor, const struct kp_jv *processor)
{
	const struct kp_jv *inside = kp_jv_get(processor, KP_S("image_processor"));
	return preprocessor->type == KP_JSON_OBJECT || !kp_jv_is(inside, KP_JSON_OBJECT)
		       ? preprocessor
		       : inside;
}

int kp_vision_read(const struct kp_model_files *files, const struct kp_tokenizer *t,
	struct kp_vision *ret, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(MAX_CONFIG_MEMORY);
	const struct family *f = find_family(files, err);
	struct kp_jv preprocessor, processor;
	if (!f) {
		return -1;
	}
	*ret = (struct kp_vision){ .model_type = f->model_type };
	if (parse(files->preprocessor, "preprocessor_config.json", a, &preprocessor, err) ||
		parse(files->processor, "processor_config.json", a, &processor, err)) {
		return -1;
	}
	const struct kp_jv *config = image_config(&preprocessor, &processor);
	if (config->type == KP_JSON_NONE) {
		return refuse(err, "has no preprocessor_config.json");
	}
	if (kp_image_processor_read(&ret->processor, config, err)) {
		return -1;
	}
	if (ret->processor.layout != f->layout) {
		return refuse(err,
			"is of model_type `%" KP_FMT
			"`, whose images are not processed as its preprocessor_config.json says",
			KP_ARG(f->model_type));
	}
	ret->token = kp_tokenizer_find(t, f->token);
	if (ret->token == KP_NO_ID) {
		return refuse(err, "has no token `%" KP_FMT "` in its tokenizer", KP_ARG(f->token));
	}
	if (f->layout == KP_IMAGE_PLANES && read_tower(ret, files, &processor, err)) {
		return -1;
	}
	ret->digest = digest(ret, files);
	return 0;
}

uint32_t kp_vision_tokens(const struct kp_vision *v, const struct kp_image_plan *plan)
{
	if (v->processor.layout == KP_IMAGE_PATCHES) {
		return plan->n_tokens;
	}
	int64_t n = (int64_t)(plan->out_height / v->patch) * (plan->out_width / v->patch) + v->more;
	return (uint32_t)KP_MIN(KP_MAX(n, 1), MAX_SIDE_TOKENS);
}

size_t kp_vision_places(const struct kp_vision *v, const struct kp_ids *ids)
{
	size_t n = 0;
	for (size_t i = 0; i < ids->n; i++) {
		n += ids->p[i] == v->token;
	}
	return n;
}

int kp_vision_expand(const struct kp_vision *v, struct kp_ids *ids, struct kp_media_span *spans,
	size_t n, struct kp_err *err)
{
	size_t places = kp_vision_places(v, ids), more = 0, k = n;
	if (places != n) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"the prompt has %zu places for images, and the messages have %zu images",
			places, n);
	}
	for (size_t i = 0; i < n; i++) {
		more += spans[i].length;
	}
	size_t old = ids->n, total = old - n + more;
	if (total > ids->max || (total > old && !kp_ids_reserve(ids, total - old))) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"the prompt and its images have more than %zu tokens", ids->max);
	}
	/* From the end: what is moved is not needed where it goes. An image has at least one token. */
	size_t to = total;
	for (size_t i = old; i-- > 0;) {
		if (ids->p[i] != v->token) {
			ids->p[--to] = ids->p[i];
			continue;
		}
		k--;
		to -= spans[k].length;
		spans[k].offset = (uint32_t)to;
		for (uint32_t m = 0; m < spans[k].length; m++) {
			ids->p[to + m] = v->token;
		}
	}
	ids->n = total;
	return 0;
}
