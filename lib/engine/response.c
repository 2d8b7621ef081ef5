/* DESIGN: one pass over the bytes, field by field (wire/wire.h); unknown fields are skipped, a
   known field of another wire type is an error.

   The decoder owns all arrays and keeps them for the next message, so a token costs no allocation;
   what one huge message made them grow to is given back at the message after it. The two kinds of
   log-probability messages hold three parallel lists that may arrive in any order and in pieces:
   each list has its own counter into one array, and the counters must agree at the end.
   Alternatives of all positions lie one behind the other, in order, which makes the pointers to
   them a running sum, set last, when nothing moves any more.

   Limits: KP_RESPONSE_MAX_IDS, KP_RESPONSE_MAX_TOPS; beyond, or without memory, the message fails with
   INTERNAL: it is the engine that is wrong. */
#include "engine/response.h"
#include "base/mem.h"
#include "wire/list.h"

enum { KEEP = 64 << 10 }; /* entries an array may keep between messages */

void kp_response_decoder_init(struct kp_response_decoder *d)
{
	*d = (struct kp_response_decoder){ 0 };
	kp_ids_init(&d->ids, KP_RESPONSE_MAX_IDS);
}

static void logprobs_fini(struct kp_response_logprobs *l)
{
	kp_free(&l->p);
	kp_free(&l->tops);
	*l = (struct kp_response_logprobs){ 0 };
}

void kp_response_decoder_fini(struct kp_response_decoder *d)
{
	kp_ids_fini(&d->ids);
	logprobs_fini(&d->output);
	logprobs_fini(&d->input);
}

static void logprobs_reset(struct kp_response_logprobs *l)
{
	if (KP_UNLIKELY(l->cap > KEEP || l->cap_tops > KEEP)) {
		logprobs_fini(l);
	}
	l->n_values = l->n_ids = l->n_lists = l->n_tops = 0;
}

static void decoder_reset(struct kp_response_decoder *d)
{
	if (KP_UNLIKELY(d->ids.cap > KEEP)) {
		kp_ids_fini(&d->ids);
		kp_ids_init(&d->ids, KP_RESPONSE_MAX_IDS);
	}
	kp_ids_reset(&d->ids);
	logprobs_reset(&d->output);
	logprobs_reset(&d->input);
}

static int bad(struct kp_err *err, const char *what)
{
	return kp_err_set(err, KP_INTERNAL, "read `%s`: not valid protobuf", what);
}
static int too_many(struct kp_err *err, const char *what, size_t max)
{
	return kp_err_set(err, KP_INTERNAL,
		"read `%s`: more than %zu entries, or no memory for them", what, max);
}

/* repeated uint32, packed or not. */
static int read_ids(
	const struct kp_wire_field *f, struct kp_ids *ids, const char *what, struct kp_err *err)
{
	struct kp_wire_list l;
	uint64_t v;
	int more;
	if (!kp_wire_list_of(f, KP_WIRE_VARINT, &l)) {
		return bad(err, what);
	}
	while ((more = kp_wire_list_next(&l, &v)) > 0) {
		kp_ids_add(ids, (kp_id)v);
	}
	return more < 0 ? bad(err, what) : ids->failed ? too_many(err, what, ids->max) : 0;
}

/* The n-th entry of a growing array, zeroed when new; NULL beyond `max` or without memory. *array
 * and *cap are updated. */
static void *slot(void *array, size_t *cap, size_t n, size_t size, size_t max, void **ret_array)
{
	*ret_array = array;
	if (n >= *cap) {
		size_t grown = KP_MAX(*cap * 2, (size_t)64);
		grown = KP_MIN(grown, max);
		if (n >= grown || !(array = kp_try_realloc(array, grown * size))) {
			return NULL;
		}
		*ret_array = array;
		*cap = grown;
	}
	return (char *)array + n * size;
}

static struct kp_token_logprob *position(struct kp_response_logprobs *l, size_t n)
{
	bool is_new = n >= l->n_values && n >= l->n_ids && n >= l->n_lists;
	void *array;
	struct kp_token_logprob *t =
		slot(l->p, &l->cap, n, sizeof(*l->p), KP_RESPONSE_MAX_IDS, &array);
	l->p = array;
	if (t && is_new) {
		*t = (struct kp_token_logprob){ 0 };
	}
	return t;
}

static struct kp_top_logprob *alternative(struct kp_response_logprobs *l, size_t n)
{
	void *array;
	struct kp_top_logprob *t =
		slot(l->tops, &l->cap_tops, n, sizeof(*l->tops), KP_RESPONSE_MAX_TOPS, &array);
	l->tops = array;
	return t;
}

/* TopLogProbs {repeated float values = 1; repeated uint32 token_ids = 2;} of the next position. */
static int read_tops(struct kp_wire w, struct kp_response_logprobs *l, struct kp_err *err)
{
	static const char what[] = "top_logprobs";
	size_t first = l->n_tops, n[2] = { 0, 0 };
	struct kp_wire_field f;
	while (kp_wire_more(&w)) {
		struct kp_wire_list s;
		uint64_t v;
		int more;
		if (!kp_wire_next(&w, &f)) {
			return bad(err, what);
		}
		if (f.number != 1 && f.number != 2) {
			continue;
		}
		if (!kp_wire_list_of(&f, f.number == 1 ? KP_WIRE_32 : KP_WIRE_VARINT, &s)) {
			return bad(err, what);
		}
		while ((more = kp_wire_list_next(&s, &v)) > 0) {
			struct kp_top_logprob *t = alternative(l, first + n[f.number - 1]);
			if (!t) {
				return too_many(err, what, KP_RESPONSE_MAX_TOPS);
			}
			n[f.number - 1]++;
			if (f.number == 1) {
				t->logprob = kp_wire_float((uint32_t)v);
			} else {
				t->id = (kp_id)v;
			}
		}
		if (more < 0) {
			return bad(err, what);
		}
	}
	if (n[0] != n[1]) {
		return kp_err_set(err, KP_INTERNAL, "read `top_logprobs`: %zu values for %zu ids",
			n[0], n[1]);
	}
	struct kp_token_logprob *t = position(l, l->n_lists);
	if (!t) {
		return too_many(err, what, KP_RESPONSE_MAX_IDS);
	}
	l->n_lists++;
	l->n_tops += n[0];
	t->n_top = (uint32_t)n[0];
	return 0;
}

static int add_value(
	struct kp_response_logprobs *l, bool is_absent, float value, struct kp_err *err)
{
	struct kp_token_logprob *t = position(l, l->n_values);
	if (!t) {
		return too_many(err, "token_logprobs", KP_RESPONSE_MAX_IDS);
	}
	l->n_values++;
	t->logprob = value;
	t->is_absent = is_absent;
	return 0;
}

/* InputTokenLogProb {optional float value = 1;} */
static int read_input_value(struct kp_wire w, struct kp_response_logprobs *l, struct kp_err *err)
{
	bool is_absent = true;
	float value = 0;
	struct kp_wire_field f;
	while (kp_wire_more(&w)) {
		if (!kp_wire_next(&w, &f) || (f.number == 1 && f.type != KP_WIRE_32)) {
			return bad(err, "token_logprobs");
		}
		if (f.number == 1) {
			is_absent = false;
			value = kp_wire_float((uint32_t)f.value);
		}
	}
	return add_value(l, is_absent, value, err);
}

static int read_output_values(
	const struct kp_wire_field *f, struct kp_response_logprobs *l, struct kp_err *err)
{
	struct kp_wire_list s;
	uint64_t v;
	if (!kp_wire_list_of(f, KP_WIRE_32, &s)) {
		return bad(err, "token_logprobs");
	}
	while (kp_wire_list_next(&s, &v) > 0) { /* whole floats: cannot be malformed */
		if (add_value(l, false, kp_wire_float((uint32_t)v), err) < 0) {
			return -1;
		}
	}
	return 0;
}

static int read_logprob_ids(
	const struct kp_wire_field *f, struct kp_response_logprobs *l, struct kp_err *err)
{
	struct kp_wire_list s;
	uint64_t v;
	int more;
	if (!kp_wire_list_of(f, KP_WIRE_VARINT, &s)) {
		return bad(err, "token_ids");
	}
	while ((more = kp_wire_list_next(&s, &v)) > 0) {
		struct kp_token_logprob *t = position(l, l->n_ids);
		if (!t) {
			return too_many(err, "token_ids", KP_RESPONSE_MAX_IDS);
		}
		l->n_ids++;
		t->id = (kp_id)v;
	}
	return more < 0 ? bad(err, "token_ids") : 0;
}

/* OutputLogProbs and InputLogProbs differ only in the type of field 1. */
static int read_logprobs(const struct kp_wire_field *field, bool is_input,
	struct kp_response_logprobs *l, struct kp_err *err)
{
	struct kp_wire w = field->bytes;
	struct kp_wire_field f;
	if (field->type != KP_WIRE_BYTES) {
		return bad(err, "logprobs");
	}
	while (kp_wire_more(&w)) {
		int rc = 0;
		if (!kp_wire_next(&w, &f)) {
			return bad(err, "logprobs");
		}
		if (f.number == 1 && is_input) {
			rc = f.type == KP_WIRE_BYTES ? read_input_value(f.bytes, l, err)
						     : bad(err, "token_logprobs");
		} else if (f.number == 1) {
			rc = read_output_values(&f, l, err);
		} else if (f.number == 2) {
			rc = read_logprob_ids(&f, l, err);
		} else if (f.number == 3) {
			rc = f.type == KP_WIRE_BYTES ? read_tops(f.bytes, l, err)
						     : bad(err, "top_logprobs");
		}
		if (rc < 0) {
			return -1;
		}
	}
	return 0;
}

static int logprobs_finish(struct kp_response_logprobs *l, struct kp_token_logprob **ret,
	size_t *ret_n, struct kp_err *err)
{
	if (KP_LIKELY((l->n_ids | l->n_values | l->n_lists) == 0)) {
		return 0; /* none: ret is zeroed already */
	}
	if (l->n_values != l->n_ids || (l->n_lists && l->n_lists != l->n_ids)) {
		return kp_err_set(err, KP_INTERNAL,
			"read `logprobs`: %zu values and %zu lists for %zu ids", l->n_values,
			l->n_lists, l->n_ids);
	}
	const struct kp_top_logprob *top = l->tops;
	for (size_t i = 0; i < l->n_lists; i++) {
		if (l->p[i].n_top) {
			l->p[i].top = top;
			top += l->p[i].n_top;
		}
	}
	*ret = l->n_ids ? l->p : NULL;
	*ret_n = l->n_ids;
	return 0;
}

static int read_string(const struct kp_wire_field *f, kp_str *ret, struct kp_err *err)
{
	if (f->type != KP_WIRE_BYTES) {
		return bad(err, "complete");
	}
	*ret = kp_wire_str(f->bytes);
	return 0;
}
static int read_u32(const struct kp_wire_field *f, uint32_t *ret, struct kp_err *err)
{
	if (f->type != KP_WIRE_VARINT) {
		return bad(err, "response");
	}
	*ret = (uint32_t)f->value;
	return 0;
}

static int read_body_field(struct kp_response_decoder *d, const struct kp_response_fields *l,
	const struct kp_wire_field *f, struct kp_response *r, struct kp_err *err)
{
	uint32_t n = f->number;
	if (n == l->ids) {
		return read_ids(f, &d->ids, "token_ids", err);
	} else if (n == l->prompt) {
		return read_u32(f, &r->prompt_tokens, err);
	} else if (n == l->completion) {
		return read_u32(f, &r->completion_tokens, err);
	} else if (n == l->cached) {
		return read_u32(f, &r->cached_tokens, err);
	} else if (n == l->index) {
		return read_u32(f, &r->choice, err);
	} else if (n == l->output_logprobs) {
		return read_logprobs(f, false, &d->output, err);
	} else if (n == l->input_logprobs) {
		return read_logprobs(f, true, &d->input, err);
	} else if (n == l->finish) {
		return read_string(f, &r->finish_reason, err);
	} else if (n == l->matched_id) { /* matched_stop is a oneof: the last one counts */
		r->has_matched_id = true;
		r->matched_str = KP_STR_NULL;
		return read_u32(f, &r->matched_id, err);
	} else if (n == l->matched_str) {
		r->has_matched_id = false;
		r->matched_id = 0;
		return read_string(f, &r->matched_str, err);
	}
	return 0;
}

static int read_body(struct kp_response_decoder *d, const struct kp_response_fields *l,
	const struct kp_wire_field *field, struct kp_response *r, struct kp_err *err)
{
	if (field->type != KP_WIRE_BYTES) {
		return bad(err, "response");
	}
	decoder_reset(d);
	struct kp_wire w = field->bytes;
	struct kp_wire_field f;
	while (kp_wire_more(&w)) {
		if (!kp_wire_next(&w, &f)) {
			return bad(err, "response");
		}
		if (read_body_field(d, l, &f, r, err) < 0) {
			return -1;
		}
	}
	return 0;
}

/* A oneof: the last member counts. */
static int read_bodies(struct kp_response_decoder *d, const struct kp_response_layout *layout,
	struct kp_wire w, struct kp_response *r, struct kp_err *err)
{
	struct kp_wire_field f;
	while (kp_wire_more(&w)) {
		if (!kp_wire_next(&w, &f)) {
			return bad(err, "response");
		}
		if (f.number == layout->chunk) {
			*r = (struct kp_response){ .kind = KP_RESPONSE_CHUNK };
		} else if (f.number == layout->complete) {
			*r = (struct kp_response){ .kind = KP_RESPONSE_COMPLETE };
		} else if (f.number == layout->request_id && f.type != KP_WIRE_BYTES) {
			return bad(err, "response");
		} else {
			continue;
		}
		if (read_body(d, &layout->in[r->kind], &f, r, err) < 0) {
			return -1;
		}
	}
	return 0;
}

int kp_response_decode(struct kp_response_decoder *d, const struct kp_response_layout *layout,
	kp_str bytes, struct kp_response *ret, struct kp_err *err)
{
	struct kp_response r = { 0 };
	if (read_bodies(d, layout, kp_wire_of(bytes), &r, err) < 0) {
		return -1;
	}
	if (r.kind != KP_RESPONSE_NOTHING) {
		/* Only now do the arrays stay where they are. */
		r.ids = d->ids.p;
		r.n_ids = d->ids.n;
		if (logprobs_finish(&d->output, &r.logprobs, &r.n_logprobs, err) < 0 ||
			logprobs_finish(&d->input, &r.prompt_logprobs, &r.n_prompt_logprobs, err) <
				0) {
			return -1;
		}
	}
	*ret = r;
	return 0;
}

enum kp_finish kp_response_finish(kp_str reason)
{
	static const struct {
		kp_str name;
		enum kp_finish finish;
	} known[] = {
		{ { "stop", 4 }, KP_FINISH_STOP },
		{ { "length", 6 }, KP_FINISH_LENGTH },
		{ { "abort", 5 }, KP_FINISH_ABORT },
		{ { "error", 5 }, KP_FINISH_ERROR },
	};
	for (size_t i = 0; i < KP_LEN(known); i++) {
		if (kp_str_eq(reason, known[i].name)) {
			return known[i].finish;
		}
	}
	return KP_FINISH_STOP;
}
