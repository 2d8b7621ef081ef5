/* DESIGN: ranges, hashes and grids image by image, then the shape, then the pixels, so that they end the request. What the owner passes on to its engine is
   checked here: ranges where the token is, as many rows as the grids say, as many bytes as the shape. */
#include "engine/peer_media.h"

#include "wire/list.h"

enum { TOKEN = 1, IMAGES = 2, SHAPE = 3, PIXELS = 4, TYPE = 5 };
enum { TYPE_FLOATS = 0, TYPE_BYTES = 1 };
enum { OFFSET = 1, LENGTH = 2, HASH = 3, GRID = 4, GRID_MAX = 1 << 16, HASH_BYTES = 64 };

static int bad(struct kp_err *err, const char *what)
{
	return kp_err_set(err, KP_INTERNAL, "read `media`: %s", what);
}

void kp_peer_add_media(struct kp_buf *b, uint32_t number, const struct kp_media_tensors *m)
{
	KP_AUTO(buf) struct kp_buf in;
	const int64_t *grid = (const int64_t *)(const void *)m->grid.bytes.p;
	size_t n = m->pixels.bytes.n;
	kp_buf_init(&in, 1 << 20);
	kp_wire_add_u64(&in, TOKEN, m->token);
	for (size_t i = 0; i < m->n; i++) {
		size_t at = kp_wire_begin(&in, IMAGES);
		kp_wire_add_u64(&in, OFFSET, m->spans[i].offset);
		kp_wire_add_u64(&in, LENGTH, m->spans[i].length);
		kp_wire_add_str(&in, HASH, m->hashes[i]);
		for (size_t k = 0; m->grid.n_dims && k < 3; k++) {
			kp_wire_add_u64(&in, GRID, (uint64_t)grid[3 * i + k]);
		}
		kp_wire_end(&in, at);
	}
	kp_wire_add_packed(&in, SHAPE, m->pixels.shape, m->pixels.n_dims);
	if (m->pixels.type == KP_TENSOR_U8) {
		kp_wire_add_u64(&in, TYPE, TYPE_BYTES);
	}
	kp_wire_add_key(&in, PIXELS, KP_WIRE_BYTES);
	kp_wire_add_varint(&in, n);
	b->failed |= in.failed;
	kp_wire_add_key(b, number, KP_WIRE_BYTES);
	kp_wire_add_varint(b, in.n + n);
	kp_buf_add(b, kp_buf_str(&in));
}

/* --- reading --------------------------------------------------------------------------------------------------------- */

static bool is_hash(kp_str s)
{
	bool ok = s.n == HASH_BYTES;
	for (size_t i = 0; ok && i < s.n; i++) {
		ok = kp_is_digit(s.p[i]) || (s.p[i] >= 'a' && s.p[i] <= 'f');
	}
	return ok;
}

static int read_image(struct kp_peer_media *d, struct kp_wire w, struct kp_err *err)
{
	size_t i = d->tensors.n, n_grid = 0;
	struct kp_wire_field f;
	if (i == KP_MEDIA_MAX) {
		return bad(err, "too many images");
	}
	d->spans[i] = (struct kp_media_span){ 0 };
	d->hashes[i] = KP_STR_NULL;
	while (kp_wire_more(&w)) {
		if (!kp_wire_next(&w, &f)) {
			return bad(err, "not valid protobuf");
		}
		bool is_number = f.type == KP_WIRE_VARINT && f.value <= UINT32_MAX;
		if (f.number == OFFSET && is_number) {
			d->spans[i].offset = (uint32_t)f.value;
		} else if (f.number == LENGTH && is_number) {
			d->spans[i].length = (uint32_t)f.value;
		} else if (f.number == HASH && f.type == KP_WIRE_BYTES) {
			d->hashes[i] = kp_wire_str(f.bytes);
		} else if (f.number == GRID && is_number && f.value <= GRID_MAX && n_grid < 3) {
			d->numbers[3 * i + n_grid++] = (int64_t)f.value;
		} else if (f.number <= GRID) {
			return bad(err, "an image's numbers");
		}
	}
	if (!is_hash(d->hashes[i])) {
		return bad(err, "an image without its hash");
	}
	if (n_grid != 0 && n_grid != 3) {
		return bad(err, "a grid that is not of three numbers");
	}
	d->n_grids += n_grid == 3;
	d->tensors.n++;
	return 0;
}

static int read_shape(struct kp_tensor *t, const struct kp_wire_field *f, struct kp_err *err)
{
	struct kp_wire_list l;
	uint64_t v;
	int more;
	if (!kp_wire_list_of(f, KP_WIRE_VARINT, &l)) {
		return bad(err, "the shape");
	}
	while ((more = kp_wire_list_next(&l, &v)) > 0) {
		if (t->n_dims == KP_MEDIA_DIMS || v == 0 || v > UINT32_MAX) {
			return bad(err, "the shape");
		}
		t->shape[t->n_dims++] = (uint32_t)v;
	}
	return more < 0 ? bad(err, "the shape") : 0;
}

static int read_type(struct kp_tensor *t, uint64_t type, struct kp_err *err)
{
	if (type > TYPE_BYTES) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"read `media.type`: %llu is not known to this version",
			(unsigned long long)type);
	}
	t->type = type == TYPE_BYTES ? KP_TENSOR_U8 : KP_TENSOR_F32;
	return 0;
}

static int read_fields(struct kp_peer_media *d, kp_str bytes, struct kp_err *err)
{
	struct kp_media_tensors *t = &d->tensors;
	struct kp_wire w = kp_wire_of(bytes);
	struct kp_wire_field f;
	while (kp_wire_more(&w)) {
		if (!kp_wire_next(&w, &f)) {
			return bad(err, "not valid protobuf");
		}
		int rc = 0;
		if (f.number == TOKEN && f.type == KP_WIRE_VARINT && f.value <= UINT32_MAX) {
			t->token = (kp_id)f.value;
		} else if (f.number == IMAGES && f.type == KP_WIRE_BYTES) {
			rc = read_image(d, f.bytes, err);
		} else if (f.number == SHAPE) {
			rc = read_shape(&t->pixels, &f, err);
		} else if (f.number == PIXELS && f.type == KP_WIRE_BYTES) {
			t->pixels.bytes = kp_wire_str(f.bytes);
		} else if (f.number == TYPE && f.type == KP_WIRE_VARINT) {
			rc = read_type(&t->pixels, f.value, err);
		} else if (f.number <= TYPE) {
			rc = bad(err, "not valid protobuf");
		}
		if (rc) {
			return -1;
		}
	}
	return 0;
}

static int check_spans(
	const struct kp_media_tensors *t, const kp_id *ids, size_t n_ids, struct kp_err *err)
{
	uint64_t end = 0;
	for (size_t i = 0; i < t->n; i++) {
		uint64_t from = t->spans[i].offset, to = from + t->spans[i].length;
		bool ok = from >= end && to > from && to <= n_ids;
		for (uint64_t k = from; ok && k < to; k++) {
			ok = ids[k] == t->token;
		}
		if (!ok) {
			return bad(err, "a range that is not where the token is");
		}
		end = to;
	}
	return 0;
}

/* Grids give the rows; without them the first dimension counts the images. */
static int check_pixels(struct kp_peer_media *d, struct kp_err *err)
{
	struct kp_media_tensors *t = &d->tensors;
	size_t n = t->pixels.type == KP_TENSOR_U8 ? 1 : sizeof(float), rows = 0;
	bool ok = t->pixels.n_dims > 0;
	for (uint32_t i = 0; ok && i < t->pixels.n_dims; i++) {
		ok = kp_size_mul(n, t->pixels.shape[i], &n);
	}
	if (!ok || n != t->pixels.bytes.n) {
		return bad(err, "pixels that do not fit their shape");
	}
	int64_t *patches = d->numbers + 3 * t->n;
	for (size_t i = 0; d->n_grids && i < t->n; i++) {
		const int64_t *g = d->numbers + 3 * i;
		patches[i] = g[0] * g[1] * g[2]; /* below 2^49 */
		rows += (size_t)patches[i];
	}
	ok = d->n_grids ? d->n_grids == t->n && t->pixels.n_dims == 2 : t->pixels.n_dims == 4;
	if (!ok || t->pixels.shape[0] != (d->n_grids ? rows : t->n)) {
		return bad(err, "as many images or patches as pixels");
	}
	return 0;
}

int kp_peer_read_media(
	struct kp_peer_media *d, kp_str bytes, const kp_id *ids, size_t n_ids, struct kp_err *err)
{
	struct kp_media_tensors *t = &d->tensors;
	*t = (struct kp_media_tensors){
		.spans = d->spans, .hashes = d->hashes, .pixels = { .type = KP_TENSOR_F32 }
	};
	d->n_grids = 0;
	if (read_fields(d, bytes, err)) {
		return -1;
	}
	if (t->n == 0) {
		return bad(err, "no images");
	}
	if (check_spans(t, ids, n_ids, err) || check_pixels(d, err)) {
		return -1;
	}
	if (d->n_grids) {
		uint32_t n = (uint32_t)t->n;
		t->grid = (struct kp_tensor){ .type = KP_TENSOR_I64,
			.shape = { n, 3 },
			.n_dims = 2,
			.bytes = kp_str_n(d->numbers, 3 * t->n * sizeof(int64_t)) };
		t->patches = (struct kp_tensor){ .type = KP_TENSOR_I64,
			.shape = { n },
			.n_dims = 1,
			.bytes = kp_str_n(d->numbers + 3 * t->n, t->n * sizeof(int64_t)) };
	}
	return 0;
}
