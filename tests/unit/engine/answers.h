/* What the tests of the engines' protocols share: answers as protobuf-c packs them, and what each protocol has to make of the same answer. */
#ifndef KP_TESTS_ENGINE_ANSWERS_H
#define KP_TESTS_ENGINE_ANSWERS_H

#include "engine/protocol.h"
#include "tests/test.h"

#include <protobuf-c/protobuf-c.h>

/* Packs any message of protobuf-c into b. */
static kp_str packed(struct kp_buf *b, const ProtobufCMessage *m)
{
	kp_buf_reset(b);
	size_t n = protobuf_c_message_get_packed_size(m);
	assert_true(kp_buf_reserve(b, n));
	b->n = protobuf_c_message_pack(m, (uint8_t *)b->p);
	return kp_buf_str(b);
}

static void assert_reads_health(const struct kp_protocol *p)
{
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(p->read_health(KP_S("\x08\x01"), &err), 0);
	assert_int_equal(p->read_health(KP_S("\x12\x04"
					     "dead"),
				 &err),
		-1);
	assert_int_equal(err.code, KP_UNAVAILABLE);
	assert_string_equal(err.msg, "the engine says it is not healthy: dead");
	assert_int_equal(p->read_health(KP_STR_NULL, &err), -1);
	assert_string_equal(err.msg, "the engine says it is not healthy: no reason given");
}

/* A GetModelInfoResponse, and what is read of it. */
static char text_model[] = "/models/q", text_served[] = "q", text_type[] = "qwen3",
	    text_arch[] = "Qwen3ForCausalLM", *text_archs[] = { text_arch };
#define SAY_MODEL(m)                                 \
	do {                                         \
		(m).model_path = text_model;         \
		(m).served_model_name = text_served; \
		(m).model_type = text_type;          \
		(m).architectures = text_archs;      \
		(m).n_architectures = 1;             \
		(m).max_context_length = 40960;      \
		(m).vocab_size = 151936;             \
	} while (0)

static void assert_model(const struct kp_engine_info *info)
{
	assert_str_lit(info->model, "/models/q");
	assert_str_lit(info->served_name, "q");
	assert_str_lit(info->model_type, "qwen3");
	assert_str_lit(info->architecture, "Qwen3ForCausalLM");
	assert_int_equal(info->max_context, 40960);
	assert_int_equal(info->vocab_size, 151936);
}

#endif
