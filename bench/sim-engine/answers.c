/* DESIGN: what the protocols' methods other than Generate share. One-message answers are one batch; the tokenizer is sent piece by piece as each has gone out. */
#include "protocol.h"
#include "base/mem.h"
#include "smg/common.pb-c.h"

enum { PIECE = 64 << 10 };

struct answer {
	struct kp_sim_rpc rpc;
	size_t offset; /* of the tokenizer, sent so far */
};

static void nothing(struct kp_sim_rpc *r)
{
	(void)r;
}
static void destroy(struct kp_sim_rpc *r)
{
	kp_mem_free(KP_CONTAINER(r, struct answer, rpc));
}

static struct kp_sim_rpc *answer(struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata,
	void (*on_sent)(struct kp_sim_rpc *))
{
	struct answer *a = kp_new(struct answer);
	a->rpc.on_sent = on_sent;
	a->rpc.on_cancelled = nothing;
	a->rpc.destroy = destroy;
	kp_sim_rpc_init(&a->rpc, s, call, metadata);
	return &a->rpc;
}

void kp_sim_answer(
	struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata, const ProtobufCMessage *m)
{
	kp_sim_finish(answer(s, call, metadata, nothing), kp_sim_pack(m), GRPC_STATUS_OK, "");
}

int32_t kp_sim_used_tokens(const struct kp_sim *s)
{
	return (int32_t)KP_MIN(s->used_tokens, (uint64_t)KP_SIM_CAPACITY);
}

static void send_piece(struct kp_sim_rpc *r)
{
	struct answer *a = KP_CONTAINER(r, struct answer, rpc);
	struct kp_sim *s = r->sim;
	char other[] = "0000000000000000000000000000000000000000000000000000000000000000";
	Smg__Grpc__Common__GetTokenizerChunk m;
	smg__grpc__common__get_tokenizer_chunk__init(&m);
	kp_str piece = kp_str_sub(s->tokenizer, a->offset, a->offset + PIECE);
	a->offset += piece.n;
	bool is_last = a->offset == s->tokenizer.n;
	m.data.data = kp_unconst(piece.p);
	m.data.len = piece.n;
	if (is_last) {
		m.sha256 = kp_sim_fault_on(&s->control, KP_SIM_BAD_DIGEST) ? other
									   : s->tokenizer_sha256;
	}
	if (is_last && kp_sim_fault_on(&s->control, KP_SIM_NO_DIGEST)) {
		kp_sim_finish(r, NULL, GRPC_STATUS_OK, "");
	} else if (is_last) {
		kp_sim_finish(r, kp_sim_pack(&m.base), GRPC_STATUS_OK, "");
	} else {
		kp_sim_send(r, kp_sim_pack(&m.base), false);
	}
}

void kp_sim_tokenizer(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str bytes)
{
	(void)p;
	(void)bytes;
	struct kp_sim_rpc *r = answer(s, call, metadata, send_piece);
	if (s->tokenizer.n == 0) {
		kp_sim_finish(r, NULL, GRPC_STATUS_FAILED_PRECONDITION,
			"Tokenizer path is not configured on this server.");
	} else {
		send_piece(r);
	}
}

void kp_sim_unknown(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str bytes)
{
	(void)p;
	(void)bytes;
	kp_sim_finish(answer(s, call, metadata, nothing), NULL, GRPC_STATUS_UNIMPLEMENTED,
		"Method not found!");
}
