/* Fuzz target: whatever a gateway or an owner may send over the peer port, through every decoder. The
   first byte says which it is. What is accepted is written again and must be accepted again. */
#include "engine/peer_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int rc, const struct kp_err *err)
{
	KP_BUG_ON((rc != 0) != (err->code != KP_OK));
	KP_BUG_ON(rc != 0 && !kp_str_starts(kp_str_c(err->msg), KP_S("read `")));
}

static uint64_t sum_logprobs(const struct kp_token_logprob *l, size_t n)
{
	uint64_t sum = 0;
	for (size_t i = 0; l && i < n; i++) {
		sum += l[i].id;
		for (uint32_t k = 0; k < l[i].n_top; k++) {
			sum += l[i].top[k].id;
		}
	}
	return sum;
}
static uint64_t sum_ids(const kp_id *ids, size_t n)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++) {
		sum += ids[i];
	}
	return sum;
}

static void response(kp_str bytes, struct kp_buf *again)
{
	static struct kp_peer_response_decoder d;
	struct kp_engine_delta r;
	struct kp_err err = KP_ERR_INIT;
	if (!d.ids.max) {
		kp_peer_response_decoder_init(&d);
	}
	int rc = kp_peer_decode_response(&d, bytes, &r, &err);
	check(rc, &err);
	if (rc < 0) {
		return;
	}
	uint64_t sum = sum_ids(r.ids, r.n_ids) + sum_logprobs(r.logprobs, r.n_ids) +
		       sum_logprobs(r.prompt_logprobs, r.n_prompt_logprobs);
	kp_peer_encode_response(again, &r);
	KP_BUG_ON(!kp_buf_ok(again));
	KP_BUG_ON(kp_peer_decode_response(&d, kp_buf_str(again), &r, &err) < 0);
	KP_BUG_ON(sum != sum_ids(r.ids, r.n_ids) + sum_logprobs(r.logprobs, r.n_ids) +
				 sum_logprobs(r.prompt_logprobs, r.n_prompt_logprobs));
}

static uint64_t sum_media(const struct kp_media_tensors *m)
{
	uint64_t sum = m ? m->token + m->pixels.bytes.n + m->pixels.n_dims + m->pixels.type : 0;
	for (size_t i = 0; m && i < m->n; i++) {
		sum += m->spans[i].offset * 3 + m->spans[i].length + (uint8_t)m->hashes[i].p[0];
	}
	for (size_t i = 0; m && i < m->grid.bytes.n; i++) {
		sum = sum * 31 + (uint8_t)m->grid.bytes.p[i];
	}
	return sum;
}

static void request(kp_str bytes, struct kp_buf *again)
{
	static struct kp_peer_request_decoder d;
	struct kp_peer_request r;
	struct kp_err err = KP_ERR_INIT;
	if (!d.ids.max) {
		kp_peer_request_decoder_init(&d);
	}
	int rc = kp_peer_decode_generate(&d, bytes, &r, &err);
	check(rc, &err);
	if (rc < 0) {
		return;
	}
	const struct kp_engine_request e = { .request_id = r.request_id,
		.ids = r.ids,
		.n_ids = r.n_ids,
		.sampling = &r.sampling,
		.media = r.media,
		.text_fingerprint = r.text_fingerprint };
	uint64_t sum = sum_media(r.media) + sum_ids(r.ids, r.n_ids) +
		       sum_ids(r.sampling.stop_ids, r.sampling.n_stop_ids) +
		       r.sampling.n_logit_bias + r.sampling.set;
	KP_BUG_ON(kp_peer_encode_generate(again, &e, r.engine, r.address, &err) < 0);
	kp_buf_add(again, r.media ? r.media->pixels.bytes : KP_STR_NULL);
	KP_BUG_ON(kp_peer_decode_generate(&d, kp_buf_str(again), &r, &err) < 0);
	KP_BUG_ON(sum != sum_media(r.media) + sum_ids(r.ids, r.n_ids) +
				 sum_ids(r.sampling.stop_ids, r.sampling.n_stop_ids) +
				 r.sampling.n_logit_bias + r.sampling.set);
}

static void description(kp_str bytes, struct kp_buf *again)
{
	struct kp_peer_description d;
	struct kp_err err = KP_ERR_INIT;
	int rc = kp_peer_decode_description(bytes, &d, &err);
	check(rc, &err);
	if (rc == 0) {
		kp_peer_encode_description(again, &d);
		KP_BUG_ON(kp_peer_decode_description(kp_buf_str(again), &d, &err) < 0);
	}
}

static void load(kp_str text)
{
	struct kp_engine_loads l;
	struct kp_err err = KP_ERR_INIT;
	char buf[KP_PEER_LOAD_MAX];
	int rc = kp_peer_parse_load(text, &l, &err);
	check(rc, &err);
	if (rc == 0) {
		KP_BUG_ON(l.kv_usage < 0 || l.kv_usage > 1);
		KP_BUG_ON(kp_peer_parse_load(kp_peer_write_load(&l, buf), &l, &err) < 0);
	}
	KP_BUG_ON((kp_peer_reason(text) != NULL) != (text.n != 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct kp_buf again;
	if (size == 0) {
		return 0;
	}
	if (!again.p) {
		kp_buf_init(&again, KP_PEER_MAX_MESSAGE);
	}
	kp_buf_reset(&again);
	kp_str bytes = kp_str_n(data + 1, size - 1), chunk;
	struct kp_peer_endpoint e;
	struct kp_err err = KP_ERR_INIT;
	switch (data[0] % 6) {
	case 0:
		response(bytes, &again);
		break;
	case 1:
		request(bytes, &again);
		break;
	case 2:
		description(bytes, &again);
		break;
	case 3:
		check(kp_peer_decode_endpoint(bytes, &e, &err), &err);
		break;
	case 4:
		check(kp_peer_decode_chunk(bytes, &chunk, &err), &err);
		break;
	default:
		load(bytes);
		break;
	}
	return 0;
}
