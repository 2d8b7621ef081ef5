/* The peer codec against protobuf-c, on random messages: in every legal shape they read as protobuf-c
   reads them; what is written, protobuf-c reads and writes as the same bytes; of mutated bytes,
   whatever is accepted, protobuf-c accepts too and reads the same. */
#include "engine/peer_codec.h"
#include "base/mem.h"
#include "kelpie/peer/v1/peer.pb-c.h"
#include "scramble.h"

typedef Kelpie__Peer__V1__GenerateRequest request_pb;
typedef Kelpie__Peer__V1__GenerateResponse response_pb;
typedef Kelpie__Peer__V1__DescribeResponse description_pb;
typedef Kelpie__Peer__V1__Sampling sampling_pb;
typedef Kelpie__Peer__V1__TokenLogprob logprob_pb;

static struct kp_rng rng;
static uint32_t below(uint32_t n)
{
	return (uint32_t)kp_rng_below(&rng, n);
}
/* Of every varint length. */
static uint32_t any_u32(void)
{
	return below(4) ? (uint32_t)kp_rng_next(&rng) >> below(32) : 0;
}
static float any_float(void)
{
	return below(20) == 0 ? -1.0f / 0.0f : below(8) ? -(float)below(1000000) / 4096.0f : 0.0f;
}
static double any_double(void)
{
	return below(3) ? (double)below(4000) / 1024 - 1 : below(2) ? 0.0 : -0.0;
}
static kp_str any_str(void)
{
	static const char text[] = "default/d\xc3\xa9mo-0.10.0.0.7:50051";
	kp_str s = kp_str_sub(kp_str_c(text), 0, below(11) == 0 ? 40 : 9);
	return kp_str_sub(s, below(9), s.n);
}

/* --- random values ------------------------------------------------------------------------------- */

static kp_id *any_ids(struct kp_arena *a, size_t n)
{
	kp_id *ids = kp_arena_xalloc(a, (n + 1) * sizeof(*ids));
	for (size_t i = 0; i < n; i++) {
		ids[i] = any_u32();
	}
	return ids;
}

static struct kp_constraint any_constraint(void)
{
	static const kp_str choices[] = { KP_S_INIT("yes"), KP_S_INIT("é"), KP_S_INIT("no") };
	return (struct kp_constraint){ .kind = (enum kp_constraint_kind)below(
					       KP_CONSTRAINT_TAG + 1),
		.text = below(2) ? KP_S("{\"type\": \"é\"}") : KP_STR_NULL,
		.choices = choices,
		.n_choices = below(4) };
}

static struct kp_sampling any_sampling(struct kp_arena *a)
{
	struct kp_sampling s = {
		.set = any_u32() & 0xfff,
		.temperature = any_double(),
		.top_p = any_double(),
		.min_p = any_double(),
		.frequency_penalty = any_double(),
		.presence_penalty = any_double(),
		.repetition_penalty = any_double(),
		.seed = (int64_t)kp_rng_next(&rng) >> below(64),
		.top_k = (int32_t)below(100) - 1,
		.max_tokens = any_u32(),
		.min_tokens = any_u32(),
		.n = 1,
		.logprobs = (int32_t)below(22) - 1,
		.prompt_logprobs = (int32_t)below(22) - 1,
		.ignore_eos = below(2),
		.skip_special_tokens = below(2),
		.spaces_between_special_tokens = below(2),
		.n_stop_ids = below(3)   ? 0
			      : below(8) ? below(20)
					 : below(KP_PEER_MAX_STOP + 1),
		.n_logit_bias = below(3) ? 0 : below(50),
		.constraint = any_constraint(),
	};
	struct kp_logit_bias *bias = kp_arena_xalloc(a, (s.n_logit_bias + 1) * sizeof(*bias));
	for (size_t i = 0; i < s.n_logit_bias; i++) {
		bias[i] = (struct kp_logit_bias){ .id = any_u32(), .bias = (float)any_double() };
	}
	s.stop_ids = any_ids(a, s.n_stop_ids);
	s.logit_bias = bias;
	return s;
}

static const struct kp_token_logprob *any_logprobs(struct kp_arena *a, const kp_id *ids, size_t n)
{
	struct kp_token_logprob *l = kp_arena_xalloc(a, (n + 1) * sizeof(*l));
	for (size_t i = 0; i < n; i++) {
		l[i] = (struct kp_token_logprob){
			.id = ids[i], .logprob = any_float(), .is_absent = below(9) == 0
		};
		l[i].n_top = below(3) ? below(6) : below(20) == 0 ? below(300) : 0;
		struct kp_top_logprob *top = kp_arena_xalloc(a, (l[i].n_top + 1) * sizeof(*top));
		for (uint32_t k = 0; k < l[i].n_top; k++) {
			top[k] = (struct kp_top_logprob){ any_u32(), any_float() };
		}
		l[i].top = top;
	}
	return l;
}

static struct kp_engine_delta any_delta(struct kp_arena *a)
{
	struct kp_engine_delta d = { .n_ids = below(8) ? below(4) : below(400),
		.finish = (enum kp_finish)below(5),
		.has_matched_id = below(2),
		.prompt_tokens = any_u32(),
		.cached_tokens = any_u32() };
	d.ids = any_ids(a, d.n_ids);
	d.matched_id = d.has_matched_id ? any_u32() : 0;
	if (below(3) == 0 && d.n_ids) {
		d.logprobs = any_logprobs(a, d.ids, d.n_ids);
	}
	if (below(4) == 0) {
		d.n_prompt_logprobs = below(40);
		d.prompt_logprobs =
			any_logprobs(a, any_ids(a, d.n_prompt_logprobs), d.n_prompt_logprobs);
	}
	return d;
}

static struct kp_peer_description any_description(struct kp_arena *a)
{
	struct kp_peer_description d = { .state = KP_S("routable"),
		.reason = any_str(),
		.info = { .text_fingerprint = kp_rng_next(&rng) >> below(64),
			.model = any_str(),
			.served_name = any_str(),
			.model_type = any_str(),
			.architecture = any_str(),
			.version = any_str(),
			.max_context = any_u32(),
			.vocab_size = any_u32(),
			.n_eos = below(17),
			.has_bos = below(2),
			.bos = any_u32(),
			.max_running = any_u32(),
			.normalizes = below(2),
			.defaults = any_sampling(a) } };
	for (size_t i = 0; i < d.info.n_eos; i++) {
		d.info.eos[i] = any_u32();
	}
	return d;
}

/* --- comparing ----------------------------------------------------------------------------------- */

static bool same_float(float a, float b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}
static bool same_double(double a, double b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}
static bool same_ids(const kp_id *ids, size_t n, const uint32_t *want, size_t n_want)
{
	return n == n_want && (n == 0 || memcmp(ids, want, n * sizeof(*ids)) == 0);
}
/* protobuf-c's strings end at a NUL, which ours refuse. */
static bool same_str(kp_str s, const char *want)
{
	return kp_str_eq(s, kp_str_c(want));
}

static bool same_sampling(const struct kp_sampling *s, const sampling_pb *m, bool has_lists)
{
	static const sampling_pb none = KELPIE__PEER__V1__SAMPLING__INIT;
	const sampling_pb *p = m ? m : &none;
	if (s->set != p->set || !same_double(s->temperature, p->temperature) ||
		!same_double(s->top_p, p->top_p) || !same_double(s->min_p, p->min_p) ||
		!same_double(s->frequency_penalty, p->frequency_penalty) ||
		!same_double(s->presence_penalty, p->presence_penalty) ||
		!same_double(s->repetition_penalty, p->repetition_penalty) || s->seed != p->seed ||
		s->top_k != p->top_k || s->max_tokens != p->max_tokens ||
		s->min_tokens != p->min_tokens || s->logprobs != p->logprobs ||
		s->prompt_logprobs != p->prompt_logprobs || s->ignore_eos != p->ignore_eos ||
		s->skip_special_tokens != p->skip_special_tokens ||
		s->spaces_between_special_tokens != p->spaces_between_special_tokens) {
		return false;
	}
	if (!has_lists) {
		return s->n_stop_ids == 0 && s->n_logit_bias == 0;
	}
	if (!same_ids(s->stop_ids, s->n_stop_ids, p->stop_ids, p->n_stop_ids) ||
		s->n_logit_bias != p->n_bias_ids || s->n_logit_bias != p->n_bias) {
		return false;
	}
	if (s->constraint.kind != p->constraint ||
		!kp_str_eq(s->constraint.text,
			kp_str_n(p->constraint_text.data, p->constraint_text.len)) ||
		s->constraint.n_choices != p->n_choices) {
		return false;
	}
	for (size_t i = 0; i < p->n_choices; i++) {
		if (!same_str(s->constraint.choices[i], p->choices[i])) {
			return false;
		}
	}
	for (size_t i = 0; i < s->n_logit_bias; i++) {
		if (s->logit_bias[i].id != p->bias_ids[i] ||
			!same_float(s->logit_bias[i].bias, p->bias[i])) {
			return false;
		}
	}
	return true;
}

static bool same_request(const struct kp_peer_request *r, const request_pb *m)
{
	return same_str(r->request_id, m->request_id) && same_str(r->engine, m->engine) &&
	       same_str(r->address, m->address) && r->text_fingerprint == m->text_fingerprint &&
	       same_ids(r->ids, r->n_ids, m->ids, m->n_ids) && r->sampling.n == 1 &&
	       same_sampling(&r->sampling, m->sampling, true);
}

static bool same_logprobs(
	const struct kp_token_logprob *l, size_t n, logprob_pb *const *want, size_t n_want)
{
	if (n != n_want || (n == 0) != (l == NULL)) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (l[i].id != want[i]->id || !same_float(l[i].logprob, want[i]->logprob) ||
			l[i].is_absent != want[i]->is_absent || l[i].n_top != want[i]->n_top_ids ||
			l[i].n_top != want[i]->n_top_logprobs) {
			return false;
		}
		for (uint32_t k = 0; k < l[i].n_top; k++) {
			if (l[i].top[k].id != want[i]->top_ids[k] ||
				!same_float(l[i].top[k].logprob, want[i]->top_logprobs[k])) {
				return false;
			}
		}
	}
	return true;
}

static bool same_response(const struct kp_engine_delta *d, const response_pb *m)
{
	unsigned finish = (unsigned)m->finish;
	return d->choice == 0 && same_ids(d->ids, d->n_ids, m->ids, m->n_ids) &&
	       same_logprobs(d->logprobs, d->logprobs ? d->n_ids : 0, m->logprobs, m->n_logprobs) &&
	       same_logprobs(d->prompt_logprobs, d->n_prompt_logprobs, m->prompt_logprobs,
		       m->n_prompt_logprobs) &&
	       (unsigned)d->finish == (finish > 4 ? (unsigned)KP_FINISH_STOP : finish) &&
	       d->has_matched_id == m->has_matched_id && d->matched_id == m->matched_id &&
	       d->prompt_tokens == m->prompt_tokens && d->cached_tokens == m->cached_tokens;
}

static bool same_description(const struct kp_peer_description *d, const description_pb *m)
{
	const struct kp_engine_info *i = &d->info;
	sampling_pb defaults = KELPIE__PEER__V1__SAMPLING__INIT;
	if (m->defaults) {
		defaults = *m->defaults;
		defaults.set &= 0xfff;
	}
	return same_str(d->state, m->state) && same_str(d->reason, m->reason) &&
	       i->text_fingerprint == m->text_fingerprint && same_str(i->model, m->model) &&
	       same_str(i->served_name, m->served_name) && same_str(i->model_type, m->model_type) &&
	       same_str(i->architecture, m->architecture) && same_str(i->version, m->version) &&
	       i->max_context == m->max_context && i->vocab_size == m->vocab_size &&
	       same_ids(i->eos, i->n_eos, m->eos, m->n_eos) && i->has_bos == m->has_bos &&
	       i->bos == m->bos && i->max_running == m->max_running &&
	       i->normalizes == m->normalizes && same_sampling(&i->defaults, &defaults, false);
}

/* --- the three messages -------------------------------------------------------------------------- */

struct codec {
	const ProtobufCMessageDescriptor *d;
	/* Appends a random one. */
	void (*write)(struct kp_buf *b, struct kp_arena *a);
	/* Our reading, which must be the same as protobuf-c's, if given. */
	int (*read)(kp_str bytes, const ProtobufCMessage *m, struct kp_err *err);
};

static void write_request(struct kp_buf *b, struct kp_arena *a)
{
	struct kp_sampling s = any_sampling(a);
	struct kp_err err = KP_ERR_INIT;
	struct kp_engine_request r = { .request_id = any_str(),
		.n_ids = 1 + (below(8) ? below(20) : below(500)),
		.sampling = &s,
		.text_fingerprint = kp_rng_next(&rng) >> below(64) };
	r.ids = any_ids(a, r.n_ids);
	assert_int_equal(kp_peer_encode_generate(b, &r, any_str(), any_str(), &err), 0);
}
static int read_request(kp_str bytes, const ProtobufCMessage *m, struct kp_err *err)
{
	static struct kp_peer_request_decoder d;
	struct kp_peer_request r;
	if (!d.ids.max) {
		kp_peer_request_decoder_init(&d);
	}
	if (kp_peer_decode_generate(&d, bytes, &r, err) < 0) {
		assert_true(err->code == KP_INVALID_ARGUMENT || err->code == KP_UNIMPLEMENTED ||
			    err->code == KP_RESOURCE_EXHAUSTED);
		return -1;
	}
	assert_true(!m || same_request(&r, (const request_pb *)(const void *)m));
	return 0;
}

static void write_response(struct kp_buf *b, struct kp_arena *a)
{
	struct kp_engine_delta d = any_delta(a);
	kp_peer_encode_response(b, &d);
}
static int read_response(kp_str bytes, const ProtobufCMessage *m, struct kp_err *err)
{
	static struct kp_peer_response_decoder d;
	struct kp_engine_delta r;
	if (!d.ids.max) {
		kp_peer_response_decoder_init(&d);
	}
	if (kp_peer_decode_response(&d, bytes, &r, err) < 0) {
		assert_true(err->code == KP_INTERNAL || err->code == KP_RESOURCE_EXHAUSTED);
		return -1;
	}
	assert_true(!m || same_response(&r, (const response_pb *)(const void *)m));
	return 0;
}

static void write_description(struct kp_buf *b, struct kp_arena *a)
{
	struct kp_peer_description d = any_description(a);
	kp_peer_encode_description(b, &d);
}
static int read_description(kp_str bytes, const ProtobufCMessage *m, struct kp_err *err)
{
	struct kp_peer_description d;
	if (kp_peer_decode_description(bytes, &d, err) < 0) {
		assert_true(err->code == KP_INTERNAL || err->code == KP_RESOURCE_EXHAUSTED);
		return -1;
	}
	assert_true(!m || same_description(&d, (const description_pb *)(const void *)m));
	return 0;
}

static const struct codec codecs[] = {
	{ &kelpie__peer__v1__generate_request__descriptor, write_request, read_request },
	{ &kelpie__peer__v1__generate_response__descriptor, write_response, read_response },
	{ &kelpie__peer__v1__describe_response__descriptor, write_description, read_description },
};

/* A message inside that comes twice is merged; protobuf-c forgets proto3's single values then, so that it is no
 * oracle (protobuf's Python is, tests/oracle/engine). */
static bool has_message_twice(const struct codec *c, kp_str bytes)
{
	struct kp_wire w = kp_wire_of(bytes);
	struct kp_wire_field f;
	size_t n = 0;
	while (kp_wire_more(&w) && kp_wire_next(&w, &f)) {
		const ProtobufCFieldDescriptor *d =
			protobuf_c_message_descriptor_get_field(c->d, f.number);
		n += d && d->type == PROTOBUF_C_TYPE_MESSAGE &&
		     d->label != PROTOBUF_C_LABEL_REPEATED;
	}
	return n > 1;
}

static ProtobufCMessage *unpack(const struct codec *c, kp_str bytes)
{
	return protobuf_c_message_unpack(c->d, NULL, bytes.n, (const uint8_t *)bytes.p);
}

static void what_is_written_reads_alike_in_every_shape(void **state)
{
	(void)state;
	kp_rng_seed(&rng, test_seed());
	KP_AUTO(buf) struct kp_buf b, shape;
	kp_buf_init(&b, 16 << 20);
	kp_buf_init(&shape, 16 << 20);
	for (int round = 0; round < 6000; round++) {
		const struct codec *c = &codecs[round % KP_LEN(codecs)];
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
		struct kp_err err = KP_ERR_INIT;
		kp_buf_reset(&b);
		c->write(&b, a);
		assert_true(kp_buf_ok(&b));
		ProtobufCMessage *m = unpack(c, kp_buf_str(&b));
		assert_non_null(m);
		assert_int_equal(c->read(kp_buf_str(&b), m, &err), 0);
		kp_buf_reset(&shape);
		scramble_into(&rng, c->d, kp_buf_str(&b), &shape);
		assert_int_equal(c->read(kp_buf_str(&shape), m, &err), 0);
		protobuf_c_message_free_unpacked(m, NULL);
		/* And protobuf-c's own reading of that shape, so that it is the same message. */
		m = unpack(c, kp_buf_str(&shape));
		assert_non_null(m);
		assert_int_equal(c->read(kp_buf_str(&b), m, &err), 0);
		protobuf_c_message_free_unpacked(m, NULL);
	}
}

static void mutated_bytes_read_alike_or_not_at_all(void **state)
{
	(void)state;
	kp_rng_seed(&rng, test_seed());
	size_t accepted[KP_LEN(codecs)] = { 0 }, refused[KP_LEN(codecs)] = { 0 };
	KP_AUTO(buf) struct kp_buf b, shape;
	kp_buf_init(&b, 16 << 20);
	kp_buf_init(&shape, 16 << 20);
	for (int round = 0; round < 21000; round++) {
		size_t which = (size_t)round % KP_LEN(codecs);
		const struct codec *c = &codecs[which];
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
		struct kp_err err = KP_ERR_INIT;
		kp_buf_reset(&b);
		kp_buf_reset(&shape);
		c->write(&b, a);
		scramble_into(&rng, c->d, kp_buf_str(&b), &shape);
		for (unsigned k = 1 + below(3); k && shape.n; k--) {
			shape.p[below((uint32_t)shape.n)] ^= (char)(1 << below(8));
		}
		shape.n -= shape.n && below(3) == 0 ? below((uint32_t)shape.n) : 0;
		/* A copy of its own, so that a read beyond it is seen. */
		char *copy = malloc(shape.n + !shape.n);
		memcpy(copy, shape.p, shape.n);
		kp_str bytes = { copy, shape.n };
		ProtobufCMessage *m = unpack(c, bytes);
		bool is_oracle = !has_message_twice(c, bytes);
		if (c->read(bytes, is_oracle ? m : NULL, &err) == 0) {
			assert_true(m || !is_oracle);
			accepted[which]++;
		} else {
			refused[which]++;
		}
		if (m) {
			protobuf_c_message_free_unpacked(m, NULL);
		}
		free(copy);
	}
	for (size_t i = 0; i < KP_LEN(codecs); i++) {
		assert_true(accepted[i] > 500 && refused[i] > 500);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_reads_alike_in_every_shape),
		cmocka_unit_test(mutated_bytes_read_alike_or_not_at_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
