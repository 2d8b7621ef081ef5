/* Random GenerateResponses of one protocol, in every legal shape (see codec.h, which includes this). */
#ifndef TESTS_PROP_ENGINE_CODEC_RANDOM_H
#define TESTS_PROP_ENGINE_CODEC_RANDOM_H

#include "base/rand.h"
#include "wire/wire.h"

static struct kp_rng rng;
static uint32_t below(uint32_t n)
{
	return (uint32_t)kp_rng_below(&rng, n);
}
/* Ids and counts of every varint length. */
static uint32_t any_u32(void)
{
	return (uint32_t)kp_rng_next(&rng) >> below(32);
}
static float any_float(void)
{
	return below(20) == 0 ? -1.0f / 0.0f : -(float)below(1000000) / 4096.0f;
}

static void random_ids(uint32_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		v[i] = any_u32();
	}
}

static bool same_float(float a, float b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

/* --- writing a random response
 * ------------------------------------------------------------------------------------- */

static void add_unknown(struct kp_buf *b)
{
	uint32_t number = 100 + below(1900);
	switch (below(4)) {
	case 0:
		kp_wire_add_u64(b, number, kp_rng_next(&rng) >> below(64));
		break;
	case 1:
		kp_wire_add_float(b, number, 1.5f);
		break;
	case 2:
		kp_wire_add_key(b, number, KP_WIRE_64);
		kp_buf_lit(b, "12345678");
		break;
	default:
		kp_wire_add_str(
			b, number, kp_str_sub(KP_S("\x08\xff\xff some bytes"), 0, below(14)));
		break;
	}
}
static void maybe_unknown(struct kp_buf *b)
{
	if (below(4) == 0) {
		add_unknown(b);
	}
}

/* One list written as one or several fields. `type`: of the elements. */
static void add_list(
	struct kp_buf *b, uint32_t number, enum kp_wire_type type, const uint32_t *v, size_t n)
{
	size_t i = 0;
	while (i < n) {
		if (below(3) == 0) {
			if (type == KP_WIRE_32) {
				kp_wire_add_float(b, number, kp_wire_float(v[i++]));
			} else {
				kp_wire_add_u64(b, number, v[i++]);
			}
		} else {
			size_t piece = 1 + below((uint32_t)(n - i)), at = kp_wire_begin(b, number);
			for (; piece; piece--, i++) {
				if (type == KP_WIRE_32) {
					uint8_t le[4] = { (uint8_t)v[i], (uint8_t)(v[i] >> 8),
						(uint8_t)(v[i] >> 16), (uint8_t)(v[i] >> 24) };
					kp_buf_add(b, kp_str_n(le, 4));
				} else {
					kp_wire_add_varint(b, v[i]);
				}
			}
			kp_wire_end(b, at);
		}
		maybe_unknown(b);
	}
}
static void random_floats(uint32_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float f = any_float();
		memcpy(&v[i], &f, 4);
	}
}
static void add_top(struct kp_buf *b)
{
	uint32_t v[300];
	size_t n = below(10) == 0 ? below(300) : below(6), at = kp_wire_begin(b, 3);
	random_floats(v, n);
	add_list(b, 1, KP_WIRE_32, v, n);
	random_ids(v, n);
	add_list(b, 2, KP_WIRE_VARINT, v, n);
	kp_wire_end(b, at);
}

/* The three lists, one after the other or position by position. */
static void add_logprobs(struct kp_buf *b, uint32_t number, bool is_input)
{
	uint32_t v[400];
	size_t n = below(8) == 0 ? below(400) : below(5), at = kp_wire_begin(b, number);
	bool tops = below(2);
	random_floats(v, n);
	if (is_input) {
		for (size_t i = 0; i < n; i++) {
			size_t inner = kp_wire_begin(b, 1);
			if (below(4)) {
				for (unsigned times = 1 + below(2); times;
					times--) { /* the last counts */
					kp_wire_add_float(
						b, 1, times == 1 ? kp_wire_float(v[i]) : 0.25f);
				}
			}
			maybe_unknown(b);
			kp_wire_end(b, inner);
			if (tops && below(2)) {
				add_top(b);
			} else if (tops) {
				size_t top = kp_wire_begin(b, 3);
				kp_wire_end(b, top);
			}
		}
	} else {
		add_list(b, 1, KP_WIRE_32, v, n);
	}
	random_ids(v, n);
	if (tops && !is_input) {
		for (size_t i = 0; i < n; i++) {
			kp_wire_add_u64(b, 2, v[i]);
			add_top(b);
		}
	} else {
		add_list(b, 2, KP_WIRE_VARINT, v, n);
	}
	kp_wire_end(b, at);
}

static void add_body(struct kp_buf *b, bool complete)
{
	static const char *const reasons[] = { "stop", "length", "abort", "error", "repetition",
		"" };
	const struct kp_response_fields *f =
		&PROTOCOL.response.in[complete ? KP_RESPONSE_COMPLETE : KP_RESPONSE_CHUNK];
	uint32_t v[64];
	for (unsigned left = below(9); left; left--) {
		maybe_unknown(b);
		switch (below(9)) {
		case 0:
		case 1: {
			size_t n = below(8) == 0 ? below(64) : below(3);
			random_ids(v, n);
			add_list(b, f->ids, KP_WIRE_VARINT, v, n);
			break;
		}
		case 2:
			kp_wire_add_u64(b, f->prompt, any_u32());
			break;
		case 3:
			/* too wide for the field: the low 32 bits count */
			kp_wire_add_u64(b, f->completion, kp_rng_next(&rng));
			break;
		case 4:
			kp_wire_add_u64(b, f->cached, any_u32());
			break;
		case 5:
			kp_wire_add_u64(b, f->index, below(130));
			break;
		case 6:
			if (complete) {
				kp_wire_add_str(
					b, f->finish, kp_str_c(reasons[below(KP_LEN(reasons))]));
			}
			break;
		case 7:
			add_logprobs(b, f->output_logprobs, false);
			break;
		default:
			if (complete && below(2)) {
				below(2) ? kp_wire_add_u64(b, f->matched_id, any_u32())
					 : kp_wire_add_str(b, f->matched_str, KP_S("END"));
			} else {
				add_logprobs(b, f->input_logprobs, true);
			}
			break;
		}
	}
}

static void random_response(struct kp_buf *b)
{
	const struct kp_response_layout *l = &PROTOCOL.response;
	kp_buf_reset(b);
	if (l->request_id && below(2)) {
		kp_wire_add_str(b, l->request_id, KP_S("chatcmpl-1"));
	}
	for (unsigned bodies = below(20) == 0 ? below(3) : 1; bodies; bodies--) {
		bool complete = below(2);
		size_t at = kp_wire_begin(b, complete ? l->complete : l->chunk);
		KP_AUTO(buf) struct kp_buf body;
		kp_buf_init(&body, 1 << 20);
		add_body(&body, complete);
		kp_buf_add(b, kp_buf_str(&body));
		kp_wire_end(b, at);
		maybe_unknown(b);
	}
	assert_true(kp_buf_ok(b));
}

#endif
