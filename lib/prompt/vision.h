/* How a model sees images: which processor makes numbers of them, and which token of the prompt stands for them how often. Read
   from the model's own files (preprocessor_config.json, processor_config.json, config.json); what is not known is refused by name.

     qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_vl_moe   <|image_pad|>, once for each merged patch
     llava                                          <image>, as often as the vision tower has patches */
#ifndef KP_PROMPT_VISION_H
#define KP_PROMPT_VISION_H

#include "core/media.h"
#include "image/processor.h"
#include "prompt/model_files.h"
#include "token/tokenizer.h"

struct kp_vision {
	struct kp_image_processor processor;
	kp_id token;       /* that the template writes once for each image */
	uint32_t patch;    /* PLANES: of the vision tower */
	int32_t more;      /* PLANES: tokens besides the patches */
	kp_str model_type; /* static */
	uint64_t digest;   /* of all that changes what becomes of an image */
};

/* FAILED_PRECONDITION: the model takes no images, for a reason that follows "it ". */
int kp_vision_read(const struct kp_model_files *files, const struct kp_tokenizer *t,
	struct kp_vision *ret, struct kp_err *err) KP_MUST_USE;
/* How many ids stand for the image. */
uint32_t kp_vision_tokens(const struct kp_vision *v, const struct kp_image_plan *plan);
/* How often the ids have the token. */
size_t kp_vision_places(const struct kp_vision *v, const struct kp_ids *ids);
/* Each place of the token in turn becomes spans[i].length of it; sets spans[i].offset. INVALID_ARGUMENT: the number of places is not n;
   RESOURCE_EXHAUSTED: ids->max. */
int kp_vision_expand(const struct kp_vision *v, struct kp_ids *ids, struct kp_media_span *spans,
	size_t n, struct kp_err *err) KP_MUST_USE;

#endif
