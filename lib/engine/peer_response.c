/* DESIGN: GenerateResponse, written and read for every token. The decoder owns the arrays that a delta
   points into and keeps them for the next message, so a token costs no allocation; what one huge
   message made them grow to is given back at the message after it. The pointers to alternatives are
   set last, when nothing moves any more. */
#include "base/mem.h"
#include "engine/peer_codec.h"
#include "engine/peer_fields.h"

enum { KEEP = 64 << 10 }; /* entries an array may keep between messages */

enum {
	R_IDS = 1,
	R_LOGPROBS = 2,
	R_PROMPT_LOGPROBS = 3,
	R_FINISH = 4,
	R_HAS_MATCHED_ID = 5,
	R_MATCHED_ID = 6,
	R_PROMPT_TOKENS = 7,
	R_CACHED_TOKENS = 8,
};
enum { L_ID = 1, L_LOGPROB = 2, L_TOP_IDS = 3, L_TOP_LOGPROBS = 4, L_IS_ABSENT = 5 };

/* --- writing ------------------------------------------------------------------------------------- */

static void add_varint(struct kp_buf *b, uint32_t number, uint64_t v)
{
	if (v) {
		kp_wire_add_u64(b, number, v);
	}
}

static uint32_t bits_of(float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

static void add_top_logprobs(struct kp_buf *b, const struct kp_token_logprob *t)
{
	size_t list = kp_wire_begin(b, L_TOP_LOGPROBS);
	for (uint32_t i = 0; i < t->n_top; i++) {
		uint32_t v = bits_of(t->top[i].logprob);
		const char le[4] = { (char)v, (char)(v >> 8), (char)(v >> 16), (char)(v >> 24) };
		kp_buf_add(b, kp_str_n(le, sizeof(le)));
	}
	kp_wire_end(b, list);
}

static void add_position(struct kp_buf *b, uint32_t number, const struct kp_token_logprob *t)
{
	size_t at = kp_wire_begin(b, number);
	add_varint(b, L_ID, t->id);
	if (bits_of(t->logprob)) {
		kp_wire_add_float(b, L_LOGPROB, t->logprob);
	}
	if (t->n_top) {
		size_t list = kp_wire_begin(b, L_TOP_IDS);
		for (uint32_t i = 0; i < t->n_top; i++) {
			kp_wire_add_varint(b, t->top[i].id);
		}
		kp_wire_end(b, list);
		add_top_logprobs(b, t);
	}
	add_varint(b, L_IS_ABSENT, t->is_absent);
	kp_wire_end(b, at);
}

void kp_peer_encode_response(struct kp_buf *b, const struct kp_engine_delta *d)
{
	kp_wire_add_packed(b, R_IDS, d->ids, d->n_ids);
	for (size_t i = 0; d->logprobs && i < d->n_ids; i++) {
		add_position(b, R_LOGPROBS, &d->logprobs[i]);
	}
	for (size_t i = 0; i < d->n_prompt_logprobs; i++) {
		add_position(b, R_PROMPT_LOGPROBS, &d->prompt_logprobs[i]);
	}
	add_varint(b, R_FINISH, (uint64_t)d->finish);
	if (d->has_matched_id) {
		add_varint(b, R_HAS_MATCHED_ID, 1);
		add_varint(b, R_MATCHED_ID, d->matched_id);
	}
	add_varint(b, R_PROMPT_TOKENS, d->prompt_tokens);
	add_varint(b, R_CACHED_TOKENS, d->cached_tokens);
}

/* --- reading ------------------------------------------------------------------------------------- */

void kp_peer_response_decoder_init(struct kp_peer_response_decoder *d)
{
	*d = (struct kp_peer_response_decoder){ 0 };
	kp_ids_init(&d->ids, KP_PEER_MAX_IDS);
}

static void logprobs_fini(struct kp_peer_logprobs *l)
{
	kp_free(&l->p);
	kp_free(&l->tops);
	*l = (struct kp_peer_logprobs){ 0 };
}

void kp_peer_response_decoder_fini(struct kp_peer_response_decoder *d)
{
	kp_ids_fini(&d->ids);
	logprobs_fini(&d->output);
	logprobs_fini(&d->prompt);
}

static void logprobs_reset(struct kp_peer_logprobs *l)
{
	if (KP_UNLIKELY(l->cap > KEEP || l->cap_tops > KEEP)) {
		logprobs_fini(l);
	}
	l->n = l->n_tops = 0;
}

/* Room for one more entry; false at the maximum or without memory. */
static bool grow(void *array, size_t *cap, size_t n, size_t size, size_t max)
{
	void *p;
	size_t grown = KP_MIN(KP_MAX(*cap * 2, (size_t)64), max);
	if (n < *cap) {
		return true;
	}
	memcpy(&p, array, sizeof(p));
	if (n >= grown || !(p = kp_try_realloc(p, grown * size))) {
		return false;
	}
	memcpy(array, &p, sizeof(p));
	*cap = grown;
	return true;
}

/* The alternatives of one position: two lists in any order and in pieces, each with a counter. */
struct tops {
	size_t n_ids, n_values;
};

static int read_tops(struct kp_peer_logprobs *l, const struct kp_wire_field *f, struct tops *n,
	struct kp_err *err)
{
	bool is_ids = f->number == L_TOP_IDS;
	const char *name = is_ids ? "logprobs.top_ids" : "logprobs.top_logprobs";
	struct kp_wire_list list;
	uint64_t v;
	int more;
	if (!kp_wire_list_of(f, is_ids ? KP_WIRE_VARINT : KP_WIRE_32, &list)) {
		return kp_peer_bad(err, name);
	}
	while ((more = kp_wire_list_next(&list, &v)) > 0) {
		size_t *count = is_ids ? &n->n_ids : &n->n_values, at = l->n_tops + *count;
		if (!grow(&l->tops, &l->cap_tops, at, sizeof(*l->tops), KP_PEER_MAX_TOPS)) {
			return kp_peer_too_many(err, name, KP_PEER_MAX_TOPS);
		}
		(*count)++;
		if (is_ids) {
			l->tops[at].id = (kp_id)v;
		} else {
			l->tops[at].logprob = kp_wire_float((uint32_t)v);
		}
	}
	return more < 0 ? kp_peer_bad(err, name) : 0;
}

static int read_position_field(struct kp_peer_logprobs *l, struct kp_token_logprob *t,
	struct tops *tops, const struct kp_wire_field *f, struct kp_err *err)
{
	switch (f->number) {
	case L_ID:
		t->id = (kp_id)f->value;
		return f->type == KP_WIRE_VARINT ? 0 : kp_peer_bad(err, "logprobs.id");
	case L_LOGPROB:
		t->logprob = kp_wire_float((uint32_t)f->value);
		return f->type == KP_WIRE_32 ? 0 : kp_peer_bad(err, "logprobs.logprob");
	case L_TOP_IDS:
	case L_TOP_LOGPROBS:
		return read_tops(l, f, tops, err);
	case L_IS_ABSENT:
		t->is_absent = f->value != 0;
		return f->type == KP_WIRE_VARINT ? 0 : kp_peer_bad(err, "logprobs.is_absent");
	default:
		return 0;
	}
}

static int read_position(
	struct kp_peer_logprobs *l, const struct kp_wire_field *field, struct kp_err *err)
{
	struct kp_token_logprob t = { 0 };
	struct tops tops = { 0, 0 };
	struct kp_wire w = field->bytes;
	struct kp_wire_field f = { 0 };
	if (field->type != KP_WIRE_BYTES) {
		return kp_peer_bad(err, "logprobs");
	}
	while (kp_wire_more(&w)) {
		if (!kp_wire_next(&w, &f)) {
			return kp_peer_bad(err, "logprobs");
		}
		if (read_position_field(l, &t, &tops, &f, err) < 0) {
			return -1;
		}
	}
	if (tops.n_ids != tops.n_values) {
		return kp_err_set(err, KP_INTERNAL,
			"read `logprobs.top_logprobs`: %zu values for %zu ids", tops.n_values,
			tops.n_ids);
	}
	if (!grow(&l->p, &l->cap, l->n, sizeof(*l->p), KP_PEER_MAX_IDS)) {
		return kp_peer_too_many(err, "logprobs", KP_PEER_MAX_IDS);
	}
	t.n_top = (uint32_t)tops.n_ids;
	l->n_tops += tops.n_ids;
	l->p[l->n++] = t;
	return 0;
}

static const struct kp_token_logprob *finish_logprobs(const struct kp_peer_logprobs *l)
{
	const struct kp_top_logprob *top = l->tops;
	for (size_t i = 0; i < l->n; i++) {
		if (l->p[i].n_top) {
			l->p[i].top = top;
			top += l->p[i].n_top;
		}
	}
	return l->n ? l->p : NULL;
}

static int read_varint(
	const struct kp_wire_field *f, const char *name, uint32_t *ret, struct kp_err *err)
{
	if (f->type != KP_WIRE_VARINT) {
		return kp_peer_bad(err, name);
	}
	*ret = (uint32_t)f->value;
	return 0;
}

static int read_response_field(struct kp_peer_response_decoder *d, const struct kp_wire_field *f,
	struct kp_engine_delta *r, struct kp_err *err)
{
	uint32_t v = 0;
	int rc = 0;
	switch (f->number) {
	case R_IDS:
		return kp_peer_read_ids(f, &d->ids, "ids", err);
	case R_LOGPROBS:
		return read_position(&d->output, f, err);
	case R_PROMPT_LOGPROBS:
		return read_position(&d->prompt, f, err);
	case R_FINISH:
		rc = read_varint(f, "finish", &v, err);
		r->finish = v > KP_FINISH_ERROR ? KP_FINISH_STOP : (enum kp_finish)v;
		return rc;
	case R_HAS_MATCHED_ID:
		r->has_matched_id = f->value != 0;
		return read_varint(f, "has_matched_id", &v, err);
	case R_MATCHED_ID:
		return read_varint(f, "matched_id", &r->matched_id, err);
	case R_PROMPT_TOKENS:
		return read_varint(f, "prompt_tokens", &r->prompt_tokens, err);
	case R_CACHED_TOKENS:
		return read_varint(f, "cached_tokens", &r->cached_tokens, err);
	default:
		return 0;
	}
}

int kp_peer_decode_response(struct kp_peer_response_decoder *d, kp_str bytes,
	struct kp_engine_delta *ret, struct kp_err *err)
{
	struct kp_engine_delta r = { 0 };
	struct kp_wire w = kp_wire_of(bytes);
	struct kp_wire_field f = { 0 };
	if (KP_UNLIKELY(d->ids.cap > KEEP)) {
		kp_ids_fini(&d->ids);
	}
	kp_ids_reset(&d->ids);
	logprobs_reset(&d->output);
	logprobs_reset(&d->prompt);
	while (kp_wire_more(&w)) {
		if (!kp_wire_next(&w, &f)) {
			return kp_peer_bad(err, "GenerateResponse");
		}
		if (read_response_field(d, &f, &r, err) < 0) {
			/* Too much is the owner's fault, not its being full. */
			err->code = KP_INTERNAL;
			return -1;
		}
	}
	if (d->output.n && d->output.n != d->ids.n) {
		return kp_err_set(err, KP_INTERNAL, "read `logprobs`: %zu for %zu ids", d->output.n,
			d->ids.n);
	}
	r.ids = d->ids.p;
	r.n_ids = d->ids.n;
	r.logprobs = finish_logprobs(&d->output);
	r.prompt_logprobs = finish_logprobs(&d->prompt);
	r.n_prompt_logprobs = d->prompt.n;
	*ret = r;
	return 0;
}
