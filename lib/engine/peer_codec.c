/* DESIGN: one pass over the bytes, field by field (wire/wire.h): single values by the tables of this
   file (peer_fields.h), lists by hand. Unknown fields are skipped; a known field of another wire
   type is an error. Generate's answer, which comes for each token, is peer_response.c.

   Requests come from a gateway, answers from an owner: the readers say INTERNAL, and what reads a
   request makes INVALID_ARGUMENT of it. */
#include "engine/peer_codec.h"
#include "engine/peer_fields.h"

#include <math.h>

enum { KEEP = 64 << 10 }; /* ids that a decoder keeps room for between messages */

#define KNOWN_SET (((uint32_t)KP_SET_CONSTRAINT << 1) - 1)

#define AT(member) offsetof(struct kp_sampling, member)
static const struct kp_peer_field sampling_fields[] = {
	[1] = { "sampling.set", KP_PEER_U32, AT(set) },
	[2] = { "sampling.temperature", KP_PEER_DOUBLE, AT(temperature) },
	[3] = { "sampling.top_p", KP_PEER_DOUBLE, AT(top_p) },
	[4] = { "sampling.min_p", KP_PEER_DOUBLE, AT(min_p) },
	[5] = { "sampling.frequency_penalty", KP_PEER_DOUBLE, AT(frequency_penalty) },
	[6] = { "sampling.presence_penalty", KP_PEER_DOUBLE, AT(presence_penalty) },
	[7] = { "sampling.repetition_penalty", KP_PEER_DOUBLE, AT(repetition_penalty) },
	[8] = { "sampling.seed", KP_PEER_I64, AT(seed) },
	[9] = { "sampling.top_k", KP_PEER_I32, AT(top_k) },
	[10] = { "sampling.max_tokens", KP_PEER_U32, AT(max_tokens) },
	[11] = { "sampling.min_tokens", KP_PEER_U32, AT(min_tokens) },
	[12] = { "sampling.logprobs", KP_PEER_I32, AT(logprobs) },
	[13] = { "sampling.prompt_logprobs", KP_PEER_I32, AT(prompt_logprobs) },
	[14] = { "sampling.ignore_eos", KP_PEER_BOOL, AT(ignore_eos) },
	[15] = { "sampling.skip_special_tokens", KP_PEER_BOOL, AT(skip_special_tokens) },
	[16] = { "sampling.spaces_between_special_tokens", KP_PEER_BOOL,
		AT(spaces_between_special_tokens) },
};
#undef AT
enum {
	SAMPLING_STOP_IDS = 17,
	SAMPLING_BIAS_IDS = 18,
	SAMPLING_BIAS = 19,
	SAMPLING_CONSTRAINT = 20,
	SAMPLING_CONSTRAINT_TEXT = 21,
	SAMPLING_CHOICES = 22
};

#define AT(member) offsetof(struct kp_peer_request, member)
static const struct kp_peer_field request_fields[] = {
	[1] = { "request_id", KP_PEER_STR, AT(request_id) },
	[2] = { "engine", KP_PEER_STR, AT(engine) },
	[3] = { "address", KP_PEER_STR, AT(address) },
	[4] = { "text_fingerprint", KP_PEER_FIXED64, AT(text_fingerprint) },
};
#undef AT
enum { REQUEST_IDS = 5, REQUEST_SAMPLING = 6, REQUEST_MEDIA = 7 };

#define AT(member) offsetof(struct kp_peer_endpoint, member)
static const struct kp_peer_field endpoint_fields[] = {
	[1] = { "engine", KP_PEER_STR, AT(engine) },
	[2] = { "address", KP_PEER_STR, AT(address) },
};
#undef AT

#define AT(member) offsetof(struct kp_peer_description, member)
static const struct kp_peer_field description_fields[] = {
	[1] = { "state", KP_PEER_STR, AT(state) },
	[2] = { "reason", KP_PEER_STR, AT(reason) },
	[3] = { "text_fingerprint", KP_PEER_FIXED64, AT(info.text_fingerprint) },
	[4] = { "model", KP_PEER_STR, AT(info.model) },
	[5] = { "served_name", KP_PEER_STR, AT(info.served_name) },
	[6] = { "model_type", KP_PEER_STR, AT(info.model_type) },
	[7] = { "architecture", KP_PEER_STR, AT(info.architecture) },
	[8] = { "version", KP_PEER_STR, AT(info.version) },
	[9] = { "max_context", KP_PEER_U32, AT(info.max_context) },
	[10] = { "vocab_size", KP_PEER_U32, AT(info.vocab_size) },
	[12] = { "has_bos", KP_PEER_BOOL, AT(info.has_bos) },
	[13] = { "bos", KP_PEER_U32, AT(info.bos) },
	[14] = { "max_running", KP_PEER_U32, AT(info.max_running) },
	[16] = { "normalizes", KP_PEER_BOOL, AT(info.normalizes) },
};
#undef AT
enum { DESCRIPTION_EOS = 11, DESCRIPTION_DEFAULTS = 15 };

/* --- sampling ------------------------------------------------------------------------------------ */

static void add_sampling(struct kp_buf *b, uint32_t number, const struct kp_sampling *s)
{
	size_t at = kp_wire_begin(b, number);
	kp_peer_add_fields(b, sampling_fields, KP_LEN(sampling_fields), s);
	kp_wire_add_packed(b, SAMPLING_STOP_IDS, s->stop_ids, s->n_stop_ids);
	for (size_t i = 0; i < s->n_logit_bias; i++) {
		kp_wire_add_u64(b, SAMPLING_BIAS_IDS, s->logit_bias[i].id);
		kp_wire_add_float(b, SAMPLING_BIAS, s->logit_bias[i].bias);
	}
	if (s->set & KP_SET_CONSTRAINT) {
		kp_peer_add_constraint(b, SAMPLING_CONSTRAINT, &s->constraint);
	}
	kp_wire_end(b, at);
}

/* A sampling under construction. `d` NULL: its lists are skipped. */
struct sampling {
	struct kp_sampling *to;
	struct kp_peer_request_decoder *d;
	size_t n_bias; /* values; the ids are to->n_logit_bias */
};

static int read_stop_id(struct sampling *s, uint64_t v, struct kp_err *err)
{
	if (s->to->n_stop_ids == KP_PEER_MAX_STOP) {
		return kp_peer_too_many(err, "sampling.stop_ids", KP_PEER_MAX_STOP);
	}
	s->d->stop[s->to->n_stop_ids++] = (kp_id)v;
	return 0;
}

static int read_bias_id(struct sampling *s, uint64_t v, struct kp_err *err)
{
	if (s->to->n_logit_bias == KP_PEER_MAX_BIAS) {
		return kp_peer_too_many(err, "sampling.bias_ids", KP_PEER_MAX_BIAS);
	}
	s->d->bias[s->to->n_logit_bias++].id = (kp_id)v;
	return 0;
}

static int read_bias(struct sampling *s, uint64_t v, struct kp_err *err)
{
	float f = kp_wire_float((uint32_t)v);
	if (!isfinite(f)) {
		return kp_err_set(err, KP_INTERNAL, "read `sampling.bias`: not a finite number");
	}
	if (s->n_bias == KP_PEER_MAX_BIAS) {
		return kp_peer_too_many(err, "sampling.bias", KP_PEER_MAX_BIAS);
	}
	s->d->bias[s->n_bias++].bias = f;
	return 0;
}

static int read_sampling_list(struct sampling *s, const struct kp_wire_field *f, struct kp_err *err)
{
	static const struct {
		const char *name;
		enum kp_wire_type type;
		int (*read)(struct sampling *s, uint64_t v, struct kp_err *err);
	} lists[] = {
		{ "sampling.stop_ids", KP_WIRE_VARINT, read_stop_id },
		{ "sampling.bias_ids", KP_WIRE_VARINT, read_bias_id },
		{ "sampling.bias", KP_WIRE_32, read_bias },
	};
	size_t which = f->number - SAMPLING_STOP_IDS;
	struct kp_wire_list l;
	uint64_t v;
	int more;
	if (!kp_wire_list_of(f, lists[which].type, &l)) {
		return kp_peer_bad(err, lists[which].name);
	}
	while ((more = kp_wire_list_next(&l, &v)) > 0) {
		if (s->d && lists[which].read(s, v, err) < 0) {
			return -1;
		}
	}
	return more < 0 ? kp_peer_bad(err, lists[which].name) : 0;
}

/* One occurrence of the field: several are merged, as in protobuf. */
static int read_sampling(
	struct sampling *s, const struct kp_wire_field *field, const char *name, struct kp_err *err)
{
	struct kp_wire w = field->bytes;
	struct kp_wire_field f;
	if (field->type != KP_WIRE_BYTES) {
		return kp_peer_bad(err, name);
	}
	while (kp_wire_more(&w)) {
		if (!kp_wire_next(&w, &f)) {
			return kp_peer_bad(err, name);
		}
		bool is_list = f.number >= SAMPLING_STOP_IDS && f.number <= SAMPLING_BIAS;
		if (is_list && read_sampling_list(s, &f, err) < 0) {
			return -1;
		}
		if (f.number >= SAMPLING_CONSTRAINT && f.number <= SAMPLING_CHOICES &&
			kp_peer_read_constraint(&f, SAMPLING_CONSTRAINT,
				s->d ? s->d->choices : NULL, &s->to->constraint, err) < 0) {
			return -1;
		}
		if (kp_peer_read_field(sampling_fields, KP_LEN(sampling_fields), &f, s->to, err) <
			0) {
			return -1;
		}
	}
	return 0;
}

/* --- Generate's request -------------------------------------------------------------------------- */

static int read_prompt(const struct kp_wire_field *f, struct kp_ids *ids, struct kp_err *err)
{
	struct kp_wire_list l;
	if (!kp_wire_list_of(f, KP_WIRE_32, &l)) {
		return kp_peer_bad(err, "ids");
	}
	if (l.is_single) {
		kp_ids_add(ids, (kp_id)l.value);
	} else if (kp_ids_reserve(ids, (size_t)(l.w.end - l.w.p) / 4)) {
		for (; kp_wire_more(&l.w); l.w.p += 4) {
			ids->p[ids->n++] = kp_wire_le32(l.w.p);
		}
	}
	return ids->failed ? kp_peer_too_many(err, "ids", ids->max) : 0;
}

int kp_peer_check_pixels(size_t bytes, struct kp_err *err)
{
	return bytes <= KP_PEER_MAX_PIXELS
		       ? 0
		       : kp_err_param(err, "messages",
				 "`messages`: the images make %zu bytes, at most %d are sent to an engine of another gateway",
				 bytes, KP_PEER_MAX_PIXELS);
}

int kp_peer_encode_generate(struct kp_buf *b, const struct kp_engine_request *r, kp_str engine,
	kp_str address, struct kp_err *err)
{
	const struct kp_peer_request head = { .request_id = r->request_id,
		.engine = engine,
		.address = address,
		.text_fingerprint = r->text_fingerprint };
	if (r->sampling->n > 1) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "n is %u, at most 1 is forwarded",
			r->sampling->n);
	}
	struct kp_sampling sampling = *r->sampling;
	if (r->media && kp_peer_check_pixels(r->media->pixels.bytes.n, err)) {
		return -1;
	}
	sampling.set |= r->media ? KP_PEER_SET_MEDIA : 0;
	kp_peer_add_fields(b, request_fields, KP_LEN(request_fields), &head);
	kp_wire_add_fixed32s(b, REQUEST_IDS, r->ids, r->n_ids);
	add_sampling(b, REQUEST_SAMPLING, &sampling);
	if (r->media) {
		kp_peer_add_media(b, REQUEST_MEDIA, r->media);
	}
	return kp_buf_finish(b, "generate request", err);
}

void kp_peer_request_decoder_init(struct kp_peer_request_decoder *d)
{
	kp_ids_init(&d->ids, KP_PEER_MAX_PROMPT);
}

void kp_peer_request_decoder_fini(struct kp_peer_request_decoder *d)
{
	kp_ids_fini(&d->ids);
}

static int is_missing(struct kp_err *err, const char *name)
{
	return kp_err_set(err, KP_INTERNAL, "read `%s`: missing", name);
}

static int check_request(
	const struct kp_peer_request *r, const struct sampling *s, kp_str media, struct kp_err *err)
{
	if (!r->request_id.n) {
		return is_missing(err, "request_id");
	}
	if (!r->engine.n) {
		return is_missing(err, "engine");
	}
	if (!r->address.n) {
		return is_missing(err, "address");
	}
	if (!r->n_ids) {
		return is_missing(err, "ids");
	}
	if (s->n_bias != s->to->n_logit_bias) {
		return kp_err_set(err, KP_INTERNAL, "read `sampling.bias`: %zu values for %zu ids",
			s->n_bias, s->to->n_logit_bias);
	}
	if (r->sampling.constraint.kind > KP_CONSTRAINT_TAG) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"read `sampling.constraint`: %u is not known to this version",
			(unsigned)r->sampling.constraint.kind);
	}
	if (r->sampling.set & ~(KNOWN_SET | KP_PEER_SET_MEDIA)) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"read `sampling.set`: bits %#x are not known to this version",
			(unsigned)(r->sampling.set & ~KNOWN_SET));
	}
	if (!(r->sampling.set & KP_PEER_SET_MEDIA) == (media.p != NULL)) {
		return media.p ? kp_err_set(err, KP_INTERNAL,
					 "read `media`: its bit of `sampling.set` is missing")
			       : is_missing(err, "media");
	}
	return 0;
}

static int read_request(struct kp_peer_request_decoder *d, kp_str bytes, struct kp_peer_request *r,
	struct kp_err *err)
{
	struct sampling sampling = { .to = &r->sampling, .d = d };
	struct kp_wire w = kp_wire_of(bytes);
	struct kp_wire_field f;
	kp_str media = KP_STR_NULL;
	while (kp_wire_more(&w)) {
		int rc = 0;
		if (!kp_wire_next(&w, &f)) {
			return kp_peer_bad(err, "GenerateRequest");
		}
		if (f.number == REQUEST_IDS) {
			rc = read_prompt(&f, &d->ids, err);
		} else if (f.number == REQUEST_SAMPLING) {
			rc = read_sampling(&sampling, &f, "sampling", err);
		} else if (f.number == REQUEST_MEDIA) {
			media = kp_wire_str(f.bytes);
			rc = f.type == KP_WIRE_BYTES ? 0 : kp_peer_bad(err, "media");
		} else {
			rc = kp_peer_read_field(request_fields, KP_LEN(request_fields), &f, r, err);
		}
		if (rc < 0) {
			return -1;
		}
	}
	r->ids = d->ids.p;
	r->n_ids = d->ids.n;
	if (check_request(r, &sampling, media, err)) {
		return -1;
	}
	r->sampling.set &= KNOWN_SET;
	r->media = media.p ? &d->media.tensors : NULL;
	return media.p ? kp_peer_read_media(&d->media, media, r->ids, r->n_ids, err) : 0;
}

/* What a gateway sends wrong is not our fault. */
static int blame_sender(int rc, struct kp_err *err)
{
	if (rc < 0 && err->code == KP_INTERNAL) {
		err->code = KP_INVALID_ARGUMENT;
	}
	return rc;
}

int kp_peer_decode_generate(struct kp_peer_request_decoder *d, kp_str bytes,
	struct kp_peer_request *ret, struct kp_err *err)
{
	if (KP_UNLIKELY(d->ids.cap > KEEP)) {
		kp_ids_fini(&d->ids);
	}
	kp_ids_reset(&d->ids);
	struct kp_peer_request r = { .sampling = { .n = 1,
					     .stop_ids = d->stop,
					     .logit_bias = d->bias,
					     .constraint = { .choices = d->choices } } };
	if (blame_sender(read_request(d, bytes, &r, err), err) < 0) {
		return -1;
	}
	*ret = r;
	return 0;
}

/* --- Describe, GetTokenizer ---------------------------------------------------------------------- */

void kp_peer_encode_endpoint(struct kp_buf *b, const struct kp_peer_endpoint *e)
{
	kp_peer_add_fields(b, endpoint_fields, KP_LEN(endpoint_fields), e);
}

static int read_endpoint(kp_str bytes, struct kp_peer_endpoint *e, struct kp_err *err)
{
	struct kp_wire w = kp_wire_of(bytes);
	struct kp_wire_field f;
	while (kp_wire_more(&w)) {
		if (!kp_wire_next(&w, &f)) {
			return kp_peer_bad(err, "DescribeRequest");
		}
		if (kp_peer_read_field(endpoint_fields, KP_LEN(endpoint_fields), &f, e, err) < 0) {
			return -1;
		}
	}
	return !e->engine.n    ? is_missing(err, "engine")
	       : !e->address.n ? is_missing(err, "address")
			       : 0;
}

int kp_peer_decode_endpoint(kp_str bytes, struct kp_peer_endpoint *ret, struct kp_err *err)
{
	struct kp_peer_endpoint e = { KP_STR_NULL, KP_STR_NULL };
	if (blame_sender(read_endpoint(bytes, &e, err), err) < 0) {
		return -1;
	}
	*ret = e;
	return 0;
}

void kp_peer_encode_description(struct kp_buf *b, const struct kp_peer_description *d)
{
	struct kp_sampling defaults = d->info.defaults;
	defaults.n_stop_ids = defaults.n_logit_bias = 0;
	kp_peer_add_fields(b, description_fields, KP_LEN(description_fields), d);
	kp_wire_add_packed(b, DESCRIPTION_EOS, d->info.eos, d->info.n_eos);
	if (defaults.set) {
		add_sampling(b, DESCRIPTION_DEFAULTS, &defaults);
	}
}

static int read_eos(const struct kp_wire_field *f, struct kp_engine_info *info, struct kp_err *err)
{
	struct kp_wire_list l;
	uint64_t v;
	int more;
	if (!kp_wire_list_of(f, KP_WIRE_VARINT, &l)) {
		return kp_peer_bad(err, "eos");
	}
	while ((more = kp_wire_list_next(&l, &v)) > 0) {
		if (info->n_eos == KP_LEN(info->eos)) {
			return kp_peer_too_many(err, "eos", KP_LEN(info->eos));
		}
		info->eos[info->n_eos++] = (kp_id)v;
	}
	return more < 0 ? kp_peer_bad(err, "eos") : 0;
}

int kp_peer_decode_description(kp_str bytes, struct kp_peer_description *ret, struct kp_err *err)
{
	struct kp_peer_description d = { .state = KP_STR_NULL };
	struct sampling defaults = { .to = &d.info.defaults };
	struct kp_wire w = kp_wire_of(bytes);
	struct kp_wire_field f;
	while (kp_wire_more(&w)) {
		int rc;
		if (!kp_wire_next(&w, &f)) {
			return kp_peer_bad(err, "DescribeResponse");
		}
		if (f.number == DESCRIPTION_EOS) {
			rc = read_eos(&f, &d.info, err);
		} else if (f.number == DESCRIPTION_DEFAULTS) {
			rc = read_sampling(&defaults, &f, "defaults", err);
		} else {
			rc = kp_peer_read_field(
				description_fields, KP_LEN(description_fields), &f, &d, err);
		}
		if (rc < 0) {
			return -1;
		}
	}
	if (!d.state.n) {
		return is_missing(err, "state");
	}
	d.info.defaults.set &=
		KNOWN_SET; /* those of a newer engine cannot be applied here anyway */
	*ret = d;
	return 0;
}

void kp_peer_encode_chunk(struct kp_buf *b, kp_str data)
{
	kp_wire_add_str(b, 1, data);
}

int kp_peer_decode_chunk(kp_str bytes, kp_str *ret_data, struct kp_err *err)
{
	kp_str data = KP_STR_NULL;
	struct kp_wire w = kp_wire_of(bytes);
	struct kp_wire_field f;
	while (kp_wire_more(&w)) {
		if (!kp_wire_next(&w, &f) || (f.number == 1 && f.type != KP_WIRE_BYTES)) {
			return kp_peer_bad(err, "data");
		}
		data = f.number == 1 ? kp_wire_str(f.bytes) : data;
	}
	*ret_data = data;
	return 0;
}
