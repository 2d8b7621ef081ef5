/* The images of a request, which the protocols' messages say alike: included by a protocol's file behind alike.h. */
#include "base/mem.h"
#include "protocol.h"

#ifdef PB

typedef PB(TensorData) tensor_pb;
static void tensor_bytes(const tensor_pb *m, struct kp_sim_tensor *t); /* the protocol's */

static void add_tensor(struct kp_sim_media *to, const char *name, const tensor_pb *m)
{
	if (to->n_tensors == KP_SIM_TENSORS) {
		to->is_too_much = true;
	} else if (m) {
		struct kp_sim_tensor *t = &to->tensors[to->n_tensors++];
		*t = (struct kp_sim_tensor){
			.name = name, .dtype = m->dtype, .shape = m->shape, .n_dims = m->n_shape
		};
		tensor_bytes(m, t);
	}
}

static void read_media(struct kp_sim_request *r, const PB(MultimodalInputs) * m)
{
	if (!m || !m->pixel_values) {
		return;
	}
	r->media = kp_new(struct kp_sim_media);
	r->media->token = m->has_im_token_id_case ? m->im_token_id : UINT32_MAX;
	add_tensor(r->media, "pixel_values", m->pixel_values);
	for (size_t i = 0; i < m->n_model_specific_tensors; i++) {
		add_tensor(r->media, m->model_specific_tensors[i]->key,
			m->model_specific_tensors[i]->value);
	}
	r->media->is_too_much |= m->n_mm_placeholders > KP_SIM_IMAGES;
	for (size_t i = 0; i < m->n_mm_placeholders && i < KP_SIM_IMAGES; i++) {
		r->media->spans[i][0] = m->mm_placeholders[i]->offset;
		r->media->spans[i][1] = m->mm_placeholders[i]->length;
		r->media->n_spans++;
	}
}

#endif
