/* DESIGN: pure functions; the errors' texts say what was done ("sent ..."), who did it comes in front. */
#include "engine/check.h"

int kp_check_ids(const kp_id *ids, size_t n, uint32_t vocab_size, struct kp_err *err)
{
	for (size_t i = 0; vocab_size && i < n; i++) {
		if (KP_UNLIKELY(ids[i] >= vocab_size)) {
			return kp_err_set(err, KP_INTERNAL,
				"sent token id %u, but its vocabulary has %u", ids[i], vocab_size);
		}
	}
	return 0;
}

int kp_check_logprobs(const struct kp_token_logprob *l, size_t n, const kp_id *ids,
	uint32_t vocab_size, struct kp_err *err)
{
	for (size_t i = 0; ids && i < n; i++) {
		if (l[i].id != ids[i]) {
			return kp_err_set(err, KP_INTERNAL,
				"sent the log-probability of token id %u with token id %u", l[i].id,
				ids[i]);
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (kp_check_ids(&l[i].id, 1, vocab_size, err) < 0) {
			return -1;
		}
		for (size_t k = 0; k < l[i].n_top; k++) {
			if (kp_check_ids(&l[i].top[k].id, 1, vocab_size, err) < 0) {
				return -1;
			}
		}
	}
	return 0;
}

int kp_check_prompt_logprobs(size_t n, size_t n_prompt, struct kp_err *err)
{
	if (n && n != n_prompt) {
		return kp_err_set(err, KP_INTERNAL,
			"sent prompt log-probabilities of %zu tokens for a prompt of %zu", n,
			n_prompt);
	}
	return 0;
}

/* How many alternatives a list may have; below 0 when it is not asked for. */
static int32_t most_tops(const struct kp_sampling *s, enum kp_sampling_field bit, int32_t n)
{
	return !(s->set & (uint32_t)bit) ? -1 : n < 0 ? INT32_MAX : n;
}

struct kp_asked kp_asked_of(const struct kp_engine_request *r, kp_id *stop_ids)
{
	const struct kp_sampling *s = r->sampling;
	if (s->n_stop_ids) {
		memcpy(stop_ids, s->stop_ids, s->n_stop_ids * sizeof(*stop_ids));
	}
	return (struct kp_asked){ .n_prompt = r->n_ids,
		.logprobs = most_tops(s, KP_SET_LOGPROBS, s->logprobs),
		.prompt_logprobs = most_tops(s, KP_SET_PROMPT_LOGPROBS, s->prompt_logprobs),
		.stop_ids = stop_ids,
		.n_stop_ids = s->n_stop_ids };
}

static bool is_stop_id(const struct kp_asked *asked, kp_id id)
{
	for (size_t i = 0; i < asked->n_stop_ids; i++) {
		if (asked->stop_ids[i] == id) {
			return true;
		}
	}
	return false;
}

/* NULL when the list was not asked for. */
static const struct kp_token_logprob *trim(
	const struct kp_token_logprob *list, size_t n, int32_t most)
{
	struct kp_token_logprob *l = kp_unconst(list);
	if (most < 0) {
		return NULL;
	}
	for (size_t i = 0; l && i < n; i++) {
		l[i].n_top = KP_MIN(l[i].n_top, (uint32_t)most);
	}
	return l;
}

void kp_asked_trim(const struct kp_asked *asked, struct kp_engine_delta *d)
{
	d->logprobs = trim(d->logprobs, d->n_ids, asked->logprobs);
	d->prompt_logprobs = trim(d->prompt_logprobs, d->n_prompt_logprobs, asked->prompt_logprobs);
	d->n_prompt_logprobs = d->prompt_logprobs ? d->n_prompt_logprobs : 0;
	d->has_matched_id = d->has_matched_id && is_stop_id(asked, d->matched_id);
	d->matched_id = d->has_matched_id ? d->matched_id : 0;
	d->cached_tokens = (uint32_t)KP_MIN((size_t)d->cached_tokens, asked->n_prompt);
}

/* SGLang's scheduler turns a request away with HTTP's 503, which its servicer makes UNAVAILABLE:
   "The request queue is full.", "Request queue timeout reached.", "The request is aborted by a
   higher priority request.". That engine is not gone. */
static bool is_full(kp_str message)
{
	return kp_str_has(message, KP_S("request queue is full")) ||
	       kp_str_has(message, KP_S("queue timeout reached")) ||
	       kp_str_has(message, KP_S("higher priority request"));
}

bool kp_check_status(struct kp_err *status, bool by_us)
{
	switch (status->code) {
	case KP_OK:
	case KP_INVALID_ARGUMENT:
	case KP_OUT_OF_RANGE:
	case KP_NOT_FOUND:
	case KP_FAILED_PRECONDITION:
	case KP_DEADLINE_EXCEEDED:
		return false; /* the client's, or nobody's */
	case KP_RESOURCE_EXHAUSTED:
		/* gRPC core, grpc-go and tonic all say it so; the rest is a full queue. */
		if (kp_str_has(kp_str_c(status->msg), KP_S("larger than max"))) {
			status->code = KP_TOO_LARGE;
		}
		return false;
	case KP_CANCELLED:
		if (by_us) {
			return false;
		}
		status->code = KP_UNAVAILABLE; /* not by us: calls that we cancel do not end here */
		break;
	case KP_ABORTED:
	case KP_UNAVAILABLE:
		if (is_full(kp_str_c(status->msg))) {
			status->code = KP_RESOURCE_EXHAUSTED;
			return false;
		}
		status->code = KP_UNAVAILABLE;
		break;
	case KP_UNIMPLEMENTED:
	case KP_DATA_LOSS:
		break;
	case KP_UNKNOWN:
	case KP_ALREADY_EXISTS:
	case KP_PERMISSION_DENIED: /* of the gateway, not of the client */
	case KP_UNAUTHENTICATED:
	case KP_INTERNAL:
	case KP_CONFLICT:
	case KP_GONE:
	case KP_TOO_LARGE:
	case KP_METHOD_NOT_ALLOWED:
	case KP_UNSUPPORTED_MEDIA:
		status->code = KP_INTERNAL;
		break;
	}
	return true;
}
