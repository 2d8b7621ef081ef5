/* Reads messages of kelpie.peer.v1 and writes them again. Frames on standard input: a letter, a 32-bit
   little-endian length, bytes. Answers, one line each: the hexadecimal digits of the message written
   again, or "error: " and why not. Letters: G GenerateRequest, R GenerateResponse, E DescribeRequest,
   D DescribeResponse, C TokenizerChunk, L the trailer kelpie-load. */
#include "engine/peer_codec.h"
#include "tests/frames.h"

#include <stdio.h>

static int request(kp_str bytes, struct kp_buf *out, struct kp_err *err)
{
	static struct kp_peer_request_decoder d;
	struct kp_peer_request r;
	if (!d.ids.max) {
		kp_peer_request_decoder_init(&d);
	}
	if (kp_peer_decode_generate(&d, bytes, &r, err) < 0) {
		return -1;
	}
	const struct kp_engine_request e = { .request_id = r.request_id,
		.ids = r.ids,
		.n_ids = r.n_ids,
		.sampling = &r.sampling,
		.text_fingerprint = r.text_fingerprint };
	return kp_peer_encode_generate(out, &e, r.engine, r.address, err);
}

static int response(kp_str bytes, struct kp_buf *out, struct kp_err *err)
{
	static struct kp_peer_response_decoder d;
	struct kp_engine_delta r;
	if (!d.ids.max) {
		kp_peer_response_decoder_init(&d);
	}
	if (kp_peer_decode_response(&d, bytes, &r, err) < 0) {
		return -1;
	}
	kp_peer_encode_response(out, &r);
	return 0;
}

static int recode(char kind, kp_str bytes, struct kp_buf *out, struct kp_err *err)
{
	struct kp_peer_endpoint e;
	struct kp_peer_description d;
	struct kp_engine_loads l;
	char load[KP_PEER_LOAD_MAX];
	kp_str chunk;
	int rc = 0;
	switch (kind) {
	case 'G':
		return request(bytes, out, err);
	case 'R':
		return response(bytes, out, err);
	case 'E':
		if ((rc = kp_peer_decode_endpoint(bytes, &e, err)) == 0) {
			kp_peer_encode_endpoint(out, &e);
		}
		return rc;
	case 'D':
		if ((rc = kp_peer_decode_description(bytes, &d, err)) == 0) {
			kp_peer_encode_description(out, &d);
		}
		return rc;
	case 'C':
		if ((rc = kp_peer_decode_chunk(bytes, &chunk, err)) == 0) {
			kp_peer_encode_chunk(out, chunk);
		}
		return rc;
	default:
		if ((rc = kp_peer_parse_load(bytes, &l, err)) == 0) {
			kp_buf_add(out, kp_peer_write_load(&l, load));
		}
		return rc;
	}
}

int main(void)
{
	struct test_frame f;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, KP_PEER_MAX_MESSAGE);
	while (frame_read(&f)) {
		struct kp_err err = KP_ERR_INIT;
		kp_buf_reset(&out);
		int rc = recode(f.kind, kp_str_n(f.text, f.n), &out, &err);
		kp_free(&f.text);
		if (rc < 0) {
			printf("error: %s\n", err.msg);
			continue;
		}
		for (size_t i = 0; i < out.n; i++) {
			printf("%02x", (unsigned char)out.p[i]);
		}
		putchar('\n');
	}
	return 0;
}
