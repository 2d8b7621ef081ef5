/* DESIGN: the pixels are the last bytes of the last field of each message that holds them, so the request is written without them, with
   lengths that count them. */
#include "engine/request.h"

static void add_tensor_head(struct kp_buf *b, const struct kp_tensor *t)
{
	kp_wire_add_packed(b, 2, t->shape, t->n_dims);
	kp_wire_add_str(b, 3,
		t->type == KP_TENSOR_F32  ? KP_S("float32")
		: t->type == KP_TENSOR_U8 ? KP_S("uint8")
					  : KP_S("int64"));
}

/* An entry of `map<string, TensorData>`. */
static void add_named(struct kp_buf *b, uint32_t number, kp_str name, const struct kp_tensor *t)
{
	if (!t->n_dims) {
		return;
	}
	size_t entry = kp_wire_begin(b, number);
	kp_wire_add_str(b, 1, name);
	size_t at = kp_wire_begin(b, 2);
	add_tensor_head(b, t);
	kp_wire_add_str(b, 1, t->bytes);
	kp_wire_end(b, at);
	kp_wire_end(b, entry);
}

static void add_keys(struct kp_buf *b, const struct kp_request_media_fields *f, bool has_grid)
{
	const kp_str pixels = KP_S("pixel_values"), grid = KP_S("image_grid_thw"),
		     patches = KP_S("patches_per_image");
	if (!f->batched) {
		return;
	}
	if (!has_grid) {
		kp_wire_add_str(b, f->batched, pixels);
		return;
	}
	kp_wire_add_str(b, f->batched, grid);
	kp_wire_add_str(b, f->batched, patches);
	size_t at = kp_wire_begin(b, f->flat);
	kp_wire_add_str(b, 1, pixels);
	kp_wire_add_str(b, 2, patches);
	kp_wire_end(b, at);
	kp_wire_add_str(b, f->on_cpu, grid);
}

/* All but the pixels. */
static void add_inputs(
	struct kp_buf *b, const struct kp_request_media_fields *f, const struct kp_media_tensors *m)
{
	add_named(b, f->tensors, KP_S("image_grid_thw"), &m->grid);
	if (f->has_patches) {
		add_named(b, f->tensors, KP_S("patches_per_image"), &m->patches);
	}
	kp_wire_add_u64(b, f->token, m->token);
	for (size_t i = 0; i < m->n; i++) {
		size_t at = kp_wire_begin(b, f->spans);
		kp_request_u64(b, 1, m->spans[i].offset);
		kp_request_u64(b, 2, m->spans[i].length);
		kp_wire_end(b, at);
	}
	for (size_t i = 0; f->hashes && i < m->n; i++) {
		kp_wire_add_str(b, f->hashes, m->hashes[i]);
	}
	add_keys(b, f, m->grid.n_dims > 0);
}

/* The key and the length of a field whose body comes later. */
static void add_begin(struct kp_buf *b, uint32_t number, size_t n)
{
	kp_wire_add_key(b, number, KP_WIRE_BYTES);
	kp_wire_add_varint(b, n);
}

/* ShmHandle: name, bytes, whose it is. */
static void add_shm(struct kp_buf *b, uint32_t number, kp_str name, size_t n)
{
	size_t at = kp_wire_begin(b, number);
	kp_wire_add_str(b, 1, name);
	kp_wire_add_u64(b, 3, n);
	kp_wire_add_str(b, 4, KP_S("kelpie"));
	kp_wire_end(b, at);
}

void kp_request_media(struct kp_buf *b, const struct kp_request_media_fields *f,
	const struct kp_engine_request *r)
{
	KP_AUTO(buf) struct kp_buf inputs, tensor;
	const struct kp_media_tensors *m = r->media;
	size_t n = kp_request_tail(r).n;
	kp_buf_init(&inputs, 1 << 20);
	kp_buf_init(&tensor, 1 << 10);
	add_inputs(&inputs, f, m);
	add_tensor_head(&tensor, &m->pixels);
	if (r->media_shm.n) {
		add_shm(&tensor, f->shm, r->media_shm, m->pixels.bytes.n);
	} else {
		add_begin(&tensor, 1, n);
	}
	add_begin(&inputs, f->pixels, tensor.n + n);
	kp_buf_add(&inputs, kp_buf_str(&tensor));
	b->failed |= inputs.failed || tensor.failed;
	add_begin(b, f->of_request, inputs.n + n);
	kp_buf_add(b, kp_buf_str(&inputs));
}
