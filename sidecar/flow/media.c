/* DESIGN: images one after the other, each on the same worker: file, head, plan; later pixels, floats, hash. A file's bytes go when its floats
   are there. All floats are one allocation, whose size is known from the plans. Memory is taken from the gateway's budget before it is
   allocated; a request that finds none left is told to come again, since what waits for memory would hold what others wait for. */
#include "sidecar/flow/media.h"

#include "base/base64.h"
#include "base/clock.h"
#include "engine/peer_codec.h"
#include "engine/sglang.h"
#include "prompt/media_url.h"
#include "sidecar/flow/output.h"
#include "sidecar/flow/stages.h"
#include "sidecar/metrics.h"

#include <openssl/evp.h>
#include <stdio.h>

int kp_flow_media_blame(const struct kp_flow *f, size_t i, struct kp_err *err)
{
	const struct kp_media_part *p = &f->turn.chat.media[i];
	snprintf(err->param, sizeof(err->param), "messages[%u].content[%u]", p->message, p->part);
	return kp_err_wrap(err, "`%s`", err->param);
}

/* --- memory ---------------------------------------------------------------------------------------------------------- */

int kp_flow_media_hold(struct kp_flow_media *m, size_t n, struct kp_err *err)
{
	struct kp_gateway *g = m->gateway;
	long long total = atomic_fetch_add(&g->media_bytes, (long long)n) + (long long)n;
	if (total > (long long)g->config.media_memory) {
		atomic_fetch_sub(&g->media_bytes, (long long)n);
		kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"the images of all requests together need more than %llu bytes (--media-memory)",
			(unsigned long long)g->config.media_memory);
		err->reason = "too_many_requests";
		return -1;
	}
	m->held += n;
	return 0;
}

static void let_go(struct kp_flow_media *m, size_t n)
{
	atomic_fetch_sub(&m->gateway->media_bytes, (long long)n);
	m->held -= n;
}

static void drop_file(struct kp_flow_media *m, struct kp_flow_image *i)
{
	kp_free(&i->file);
	kp_buf_fini(&i->fetched);
	let_go(m, i->n_held);
	i->bytes = KP_STR_NULL;
	i->n_held = 0;
}

void kp_flow_media_release(struct kp_flow_media *m, struct kp_gwloop *l)
{
	if (!m) {
		return;
	}
	for (size_t i = 0; i < m->n; i++) {
		drop_file(m, &m->images[i]);
	}
	kp_flow_media_free(m, l);
	let_go(m, m->held);
	m->tensors = (struct kp_media_tensors){ 0 };
}

static struct kp_flow_media *create(struct kp_flow *f, struct kp_err *err)
{
	struct kp_arena *a = f->turn.arena;
	size_t n = f->turn.chat.n_media;
	struct kp_flow_media *m = kp_arena_new(a, struct kp_flow_media);
	m->gateway = f->l->gateway;
	m->n = n;
	m->images = kp_arena_calloc(a, n, sizeof(*m->images));
	m->spans = kp_arena_calloc(a, n, sizeof(*m->spans));
	m->hashes = kp_arena_calloc(a, n, sizeof(*m->hashes));
	m->numbers = kp_arena_calloc(a, n, 4 * sizeof(*m->numbers));
	if (!m->images || !m->spans || !m->hashes || !m->numbers) {
		kp_arena_full(err, "images");
		return NULL;
	}
	return m;
}

/* --- media: files, heads, plans -------------------------------------------------------------------------------------- */

static int read_data(
	struct kp_flow_media *m, struct kp_flow_image *i, kp_str base64, struct kp_err *err)
{
	size_t most = kp_base64_max(base64.n);
	if (most > m->gateway->config.max_image_bytes) {
		kp_err_set(err, KP_INVALID_ARGUMENT, "an image of more than %u bytes",
			m->gateway->config.max_image_bytes);
		err->reason = "request_too_large";
		return -1;
	}
	if (kp_flow_media_hold(m, most, err)) {
		return -1;
	}
	i->n_held = most;
	i->file = kp_try_malloc(most + 1);
	if (!i->file) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "out of memory for an image");
	}
	ptrdiff_t n = kp_base64_decode(base64, i->file);
	if (n < 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"a data: URL whose data is no base64 (letters, digits, + and /, padded, no line breaks)");
	}
	i->bytes = kp_str_n(i->file, (size_t)n);
	return 0;
}

static int read_file(struct kp_flow *f, size_t k, struct kp_err *err)
{
	struct kp_media_url url;
	if (kp_media_url_read(f->turn.chat.media[k].url, &url, err)) {
		return -1;
	}
	struct kp_flow_image *i = &f->media->images[k];
	if (url.source == KP_MEDIA_HTTP) {
		i->bytes = kp_buf_str(&i->fetched);
		return 0;
	}
	return read_data(f->media, i, url.base64, err);
}

static struct kp_image_limits limits_of(const struct kp_flow_media *m)
{
	return (struct kp_image_limits){ .max_pixels = m->gateway->config.max_image_pixels,
		.background = { 255, 255, 255 } };
}

/* Its size is within the limits, also with those before it. */
static int plan_image(struct kp_flow *f, size_t k, uint64_t *pixels, struct kp_err *err)
{
	struct kp_flow_media *m = f->media;
	struct kp_flow_image *i = &m->images[k];
	const struct kp_vision *v = f->revision->text->vision;
	const struct kp_image_limits limits = limits_of(m);
	struct kp_image_info info;
	if (kp_image_probe(i->bytes, &limits, &info, err)) {
		return -1;
	}
	*pixels += (uint64_t)info.width * info.height;
	if (*pixels > limits.max_pixels) {
		kp_err_set(err, KP_INVALID_ARGUMENT,
			"the images up to this one have %llu pixels together, at most %u are allowed",
			(unsigned long long)*pixels, m->gateway->config.max_image_pixels);
		err->reason = "request_too_large";
		return -1;
	}
	if (kp_image_processor_plan(&v->processor, info.width, info.height, &i->plan, err)) {
		return -1;
	}
	m->n_floats += i->plan.n_floats; /* below 2^40 each */
	m->spans[k].length = kp_vision_tokens(v, &i->plan);
	return 0;
}

static int read_images(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	uint64_t pixels = 0;
	(void)scratch;
	for (size_t k = 0; k < f->media->n; k++) {
		if (read_file(f, k, err) || plan_image(f, k, &pixels, err)) {
			return kp_flow_media_blame(f, k, err);
		}
	}
	return 0;
}

/* What the engines say they take, as far as they have said anything. */
static int check_engines(struct kp_flow *f, struct kp_err *err)
{
	const struct kp_model_revision *r = f->revision;
	size_t n = f->turn.chat.n_media;
	for (size_t i = 0; i < r->n_endpoints; i++) {
		const struct kp_engine_info *info = r->facts[i] ? &r->facts[i]->info : NULL;
		if (info && info->model.n && n > info->max_images) {
			kp_err_set(err, KP_INVALID_ARGUMENT,
				"%zu images in a request, and the engine takes at most %u", n,
				info->max_images);
			return kp_flow_media_blame(f, info->max_images, err);
		}
	}
	return 0;
}

enum kp_step kp_stage_fetch(struct kp_flow *f, struct kp_err *err)
{
	size_t n = f->turn.chat.n_media, most = f->l->gateway->config.max_images;
	if (n == 0) {
		return KP_STEP_NEXT;
	}
	if (!f->revision->text->vision) {
		kp_err_set(err, KP_INVALID_ARGUMENT, "model `%" KP_FMT "` takes no images: it %s",
			KP_ARG(f->turn.model), f->revision->text->no_vision);
		err->reason = "unsupported_parameter";
		kp_flow_media_blame(f, 0, err);
		return KP_STEP_FAIL;
	}
	if (n > most) {
		kp_err_set(
			err, KP_INVALID_ARGUMENT, "%zu images in a request, at most %zu", n, most);
		kp_flow_media_blame(f, most, err);
		return KP_STEP_FAIL;
	}
	if (check_engines(f, err)) {
		return KP_STEP_FAIL;
	}
	f->media = create(f, err);
	return f->media ? kp_flow_media_fetch(f, err) : KP_STEP_FAIL;
}

enum kp_step kp_stage_media(struct kp_flow *f, struct kp_err *err)
{
	return f->media ? kp_flow_submit(f, f->l->gateway->media_workers, read_images, err)
			: KP_STEP_NEXT;
}

/* --- prompt ---------------------------------------------------------------------------------------------------------- */

int kp_flow_media_expand(struct kp_flow *f, struct kp_flow_prompt *p, struct kp_err *err)
{
	const struct kp_vision *v = f->revision->text->vision;
	const char *param = f->turn.kind == KP_TURN_CHAT ? "messages"
			    : f->turn.prompt_param       ? f->turn.prompt_param
							 : "prompt";
	struct kp_flow_media *m = f->media;
	if (!v) {
		return 0;
	}
	if (!m && kp_vision_places(v, &p->ids) == 0) {
		return 0;
	}
	if (!m) {
		return kp_err_param(err, param,
			"`%s`: the prompt has places for images (token %u), and there are no images",
			param, v->token);
	}
	kp_buf_reset(&p->packed); /* of the ids as they were */
	if (kp_vision_expand(v, &p->ids, m->spans, m->n, err)) {
		snprintf(err->param, sizeof(err->param), "%s", param);
		return kp_err_wrap(err, "`%s`", param);
	}
	return 0;
}

/* --- pixels ---------------------------------------------------------------------------------------------------------- */

static bool same_plan(const struct kp_image_plan *a, const struct kp_image_plan *b)
{
	return a->n_floats == b->n_floats && a->n_tokens == b->n_tokens;
}

struct place {
	const struct kp_shm *shm;
	size_t at;
};

static int put(void *user, kp_str numbers, struct kp_err *err)
{
	struct place *p = user;
	size_t at = p->at;
	p->at += numbers.n;
	return kp_shm_write(p->shm, at, numbers, err);
}

/* To the numbers from `at` on. */
static int write_numbers(const struct kp_flow_media *m, const struct kp_image_processor *p,
	const struct kp_image_plan *plan, const struct kp_image *i, size_t at, struct kp_err *err)
{
	if (!m->heap) {
		struct place place = { &m->shm, m->is_bytes ? at : at * sizeof(float) };
		return kp_image_processor_put(p, plan, i, m->is_bytes, put, &place, err);
	}
	return m->is_bytes ? kp_image_processor_run_bytes(p, plan, i, (uint8_t *)m->heap + at, err)
			   : kp_image_processor_run(p, plan, i, (float *)m->heap + at, err);
}

/* Decoded and processed. A PNG may turn out to lie on its side only now, which changes no number of tokens. */
static int process_image(struct kp_flow *f, size_t k, size_t at, struct kp_err *err)
{
	struct kp_flow_media *m = f->media;
	struct kp_flow_image *i = &m->images[k];
	const struct kp_image_processor *p = &f->revision->text->vision->processor;
	const struct kp_image_limits limits = limits_of(m);
	KP_AUTO(image) struct kp_image decoded = { 0 };
	struct kp_image_plan plan;
	if (kp_image_decode(i->bytes, &limits, &decoded, err) ||
		kp_image_processor_plan(p, decoded.width, decoded.height, &plan, err)) {
		return -1;
	}
	if (!same_plan(&plan, &i->plan)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"an image whose size is not the one that its head says");
	}
	i->plan = plan;
	return write_numbers(m, p, &plan, &decoded, at, err);
}

/* What the engine may take for the same: file, processing, and who may share it. */
static void hash_image(const struct kp_flow *f, struct kp_flow_image *i)
{
	static const char hex[] = "0123456789abcdef";
	const struct kp_text_stack *t = f->revision->text;
	const uint64_t numbers[] = { t->vision->digest, t->fingerprint, i->plan.grid_h,
		i->plan.grid_w, f->turn.tenant.n, f->turn.cache_salt.n };
	unsigned char sum[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	KP_BUG_ON(!c || !EVP_DigestInit_ex(c, EVP_sha256(), NULL));
	EVP_DigestUpdate(c, numbers, sizeof(numbers));
	EVP_DigestUpdate(c, f->turn.tenant.p, f->turn.tenant.n);
	EVP_DigestUpdate(c, f->turn.cache_salt.p, f->turn.cache_salt.n);
	EVP_DigestUpdate(c, i->bytes.p, i->bytes.n);
	EVP_DigestFinal_ex(c, sum, NULL);
	EVP_MD_CTX_free(c);
	for (size_t k = 0; k < 32; k++) {
		i->hash[2 * k] = hex[sum[k] >> 4];
		i->hash[2 * k + 1] = hex[sum[k] & 15];
	}
}

static void describe_patches(struct kp_flow_media *m, const struct kp_image_processor *p)
{
	struct kp_media_tensors *t = &m->tensors;
	uint32_t n = (uint32_t)m->n, row = 3 * p->temporal * p->patch * p->patch;
	int64_t *patches = m->numbers + 3 * m->n;
	for (size_t k = 0; k < m->n; k++) {
		const struct kp_image_plan *plan = &m->images[k].plan;
		int64_t *grid = m->numbers + 3 * k;
		grid[0] = 1;
		grid[1] = plan->grid_h;
		grid[2] = plan->grid_w;
		patches[k] = grid[1] * grid[2];
	}
	t->pixels.shape[0] = (uint32_t)(m->n_floats / row);
	t->pixels.shape[1] = row;
	t->pixels.n_dims = 2;
	t->grid = (struct kp_tensor){ .type = KP_TENSOR_I64,
		.shape = { n, 3 },
		.n_dims = 2,
		.bytes = kp_str_n(m->numbers, 3 * m->n * sizeof(int64_t)) };
	t->patches = (struct kp_tensor){ .type = KP_TENSOR_I64,
		.shape = { n },
		.n_dims = 1,
		.bytes = kp_str_n(patches, m->n * sizeof(int64_t)) };
}

static void describe(struct kp_flow *f)
{
	struct kp_flow_media *m = f->media;
	const struct kp_vision *v = f->revision->text->vision;
	const struct kp_image_plan *first = &m->images[0].plan;
	for (size_t k = 0; k < m->n; k++) {
		m->hashes[k] = kp_str_n(m->images[k].hash, 64);
	}
	m->tensors = (struct kp_media_tensors){ .n = m->n,
		.spans = m->spans,
		.hashes = m->hashes,
		.token = v->token,
		.pixels = { .type = m->is_bytes ? KP_TENSOR_U8 : KP_TENSOR_F32,
			.shape = { (uint32_t)m->n, 3, first->out_height, first->out_width },
			.n_dims = 4,
			.bytes = kp_str_n(m->pixels, kp_flow_media_bytes(m)) } };
	if (v->processor.layout == KP_IMAGE_PATCHES) {
		describe_patches(m, &v->processor);
	}
}

static int take_memory(struct kp_flow *f, struct kp_err *err)
{
	struct kp_flow_media *m = f->media;
	size_t bytes = kp_flow_media_bytes(m);
	return kp_flow_media_hold(m, bytes, err) ? -1 : kp_flow_media_alloc(f, bytes, err);
}

/* Besides files and floats: a decoded picture, and what its decoder has, later the same again turned or resized. */
static size_t work_bytes(const struct kp_image_plan *plan, const struct kp_image_info *info)
{
	uint64_t pixels = (uint64_t)info->width * info->height;
	uint64_t later = (pixels + (uint64_t)plan->width * plan->height) * 3;
	return (size_t)(pixels * 3 + KP_MAX(later, info->decoder_bytes));
}

/* Its numbers begin at `at` of all. */
static int make_image(struct kp_flow *f, size_t k, size_t at, struct kp_err *err)
{
	struct kp_flow_media *m = f->media;
	struct kp_flow_image *i = &m->images[k];
	const struct kp_image_limits limits = limits_of(m);
	struct kp_image_info info;
	if (kp_image_probe(i->bytes, &limits, &info, err)) {
		return -1;
	}
	size_t n = work_bytes(&i->plan, &info);
	if (kp_flow_media_hold(m, n, err)) {
		return -1;
	}
	int r = process_image(f, k, at, err);
	let_go(m, n);
	if (r == 0) {
		hash_image(f, i);
		drop_file(m, i);
	}
	return r;
}

static int make_pixels(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	struct kp_flow_media *m = f->media;
	int64_t begin_ns = kp_now_ns();
	size_t at = 0;
	(void)scratch;
	if (take_memory(f, err)) {
		return -1;
	}
	for (size_t k = 0; k < m->n; k++) {
		if (kp_now_ns() >= f->turn.deadline_ns) {
			return kp_err_set(err, KP_DEADLINE_EXCEEDED,
				"the request's time was over before its images were processed");
		}
		if (make_image(f, k, at, err)) {
			return kp_flow_media_blame(f, k, err);
		}
		at += m->images[k].plan.n_floats;
	}
	describe(f);
	kp_flow_media_link(f);
	m->work_ns = kp_now_ns() - begin_ns;
	return 0;
}

static bool takes_bytes(const struct kp_endpoint *e)
{
	return atomic_load_explicit(&e->normalizes, memory_order_relaxed);
}

/* Could it be sent these images, as floats or bytes? */
static int check_taker(const struct kp_flow *f, const struct kp_endpoint *e, struct kp_err *err)
{
	bool has_grid = f->revision->text->vision->processor.layout == KP_IMAGE_PATCHES;
	size_t bytes = f->media->n_floats * (takes_bytes(e) ? 1 : sizeof(float));
	if (!e->is_own && kp_peer_check_pixels(bytes, err)) {
		return -1;
	}
	return e->protocol == KP_PROTOCOL_SGLANG ? kp_sglang_check_media(has_grid, err) : 0;
}

bool kp_flow_media_takes(const void *user, const struct kp_endpoint *e)
{
	const struct kp_flow *f = user;
	struct kp_err ignored;
	return takes_bytes(e) == f->media->is_bytes && check_taker(f, e, &ignored) == 0;
}

/* Nothing is decoded for engines that are down, or that could not be sent it. A pool may have engines that take bytes and others: images are made
   for those that are more. */
static int choose_takers(struct kp_flow *f, struct kp_err *err)
{
	const struct kp_model_revision *r = f->revision;
	size_t n_floats = 0, n_bytes = 0;
	bool is_up = false;
	for (size_t i = 0; i < r->n_endpoints; i++) {
		if (kp_endpoint_state(r->endpoints[i]) == KP_ENDPOINT_ROUTABLE) {
			is_up = true;
			if (check_taker(f, r->endpoints[i], err) == 0) {
				*(takes_bytes(r->endpoints[i]) ? &n_bytes : &n_floats) += 1;
			}
		}
	}
	f->media->is_bytes = n_bytes >= n_floats;
	return n_floats + n_bytes ? 0 : is_up ? -1 : kp_flow_no_engine(f, err);
}

enum kp_step kp_stage_pixels(struct kp_flow *f, struct kp_err *err)
{
	if (!f->media) {
		return KP_STEP_NEXT;
	}
	return choose_takers(f, err)
		       ? KP_STEP_FAIL
		       : kp_flow_submit(f, f->l->gateway->media_workers, make_pixels, err);
}
