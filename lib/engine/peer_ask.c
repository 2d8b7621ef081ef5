/* DESIGN: a question is one call about the endpoint: Describe, of whose answer each question takes its
   part, or GetTokenizer. What is read stays in `answer` until the call has ended, since the load
   comes with the end and only the end says that a tokenizer is whole. */
#include "base/mem.h"
#include "engine/peer_engine.h"
#include "engine/remote.h"

struct question {
	struct kp_peer *e;
	struct kp_grpc_call *grpc;
	int (*read)(struct question *q, kp_str bytes, struct kp_err *err);
	void (*finish)(struct question *q, const struct kp_peer_end *end);
	union {
		kp_engine_health_done *health;
		kp_engine_info_done *info;
		kp_engine_loads_done *loads;
		kp_engine_tokenizer_done *tokenizer;
	} done;
	void *user;
	bool has_answer;
	struct kp_buf answer; /* Describe's bytes, or the archive so far */
};

static void close_question(struct question *q, const struct kp_peer_end *end)
{
	struct kp_peer *e = q->e;
	q->finish(q, end);
	kp_buf_fini(&q->answer);
	kp_mem_free(q);
	kp_peer_put(e);
}

static void accuse(struct question *q, struct kp_err *err)
{
	struct kp_peer_end end = { .status = *err };
	kp_peer_blame(q->e, &end.status);
	kp_grpc_cancel(q->grpc);
	close_question(q, &end);
}

static void on_message(void *user, kp_str bytes)
{
	struct question *q = user;
	struct kp_err err = KP_ERR_INIT;
	if (q->read(q, bytes, &err) < 0) {
		accuse(q, &err);
		return;
	}
	q->has_answer = true;
}

static void on_end(void *user, const struct kp_err *status, bool processed,
	const struct kp_header *trailers, size_t n_trailers)
{
	struct question *q = user;
	struct kp_peer_end end;
	kp_peer_read_end(q->e, status, processed, trailers, n_trailers, &end);
	if (status->code == KP_OK && !q->has_answer) {
		kp_err_set(&end.status, KP_DATA_LOSS, "gave no answer");
		kp_peer_blame(q->e, &end.status);
	}
	close_question(q, &end);
}

static const struct kp_grpc_call_ops ask_ops = { .message = on_message, .end = on_end };

static struct question *open_question(struct kp_engine *base,
	int (*read)(struct question *q, kp_str bytes, struct kp_err *err),
	void (*finish)(struct question *q, const struct kp_peer_end *end), void *user)
{
	struct question *q = kp_new(struct question);
	kp_assert_on(base->loop);
	q->e = KP_CONTAINER(base, struct kp_peer, base);
	q->read = read;
	q->finish = finish;
	q->user = user;
	kp_buf_init(&q->answer, KP_ENGINE_MAX_TOKENIZER);
	q->e->n_open++;
	return q;
}

static void ask(struct question *q, const char *path, int64_t deadline_ns)
{
	struct kp_peer *e = q->e;
	const struct kp_peer_endpoint endpoint = { kp_str_c(e->engine), kp_str_c(e->address) };
	kp_buf_reset(&e->scratch);
	kp_peer_encode_endpoint(&e->scratch, &endpoint);
	kp_grpc_channel_connect(e->channel);
	q->grpc = kp_grpc_start(e->channel, path, NULL, 0, kp_buf_str(&e->scratch), deadline_ns,
		false, &ask_ops, q);
}

/* --- Describe --- */

static int read_description(struct question *q, kp_str bytes, struct kp_err *err)
{
	struct kp_peer_description d;
	if (q->has_answer) {
		return kp_err_set(err, KP_INTERNAL, "answered twice");
	}
	kp_buf_add(&q->answer, bytes);
	if (kp_buf_finish(&q->answer, "description", err) < 0) {
		return -1;
	}
	return kp_peer_decode_description(bytes, &d, err);
}

/* Of an answer that was read before. */
static struct kp_peer_description description(const struct question *q)
{
	struct kp_peer_description d = { .state = KP_STR_NULL };
	struct kp_err err;
	KP_BUG_ON(kp_peer_decode_description(kp_buf_str(&q->answer), &d, &err) < 0);
	return d;
}

static void finish_health(struct question *q, const struct kp_peer_end *end)
{
	struct kp_err status = end->status;
	if (status.code == KP_OK) {
		const struct kp_peer_description d = description(q);
		if (!kp_str_eq(d.state, KP_S("routable"))) {
			kp_err_set(&status, KP_UNAVAILABLE, "says that it is %" KP_FMT "%s%" KP_FMT,
				KP_ARG(kp_str_sub(d.state, 0, 32)), d.reason.n ? ": " : "",
				KP_ARG(d.reason));
			kp_peer_blame(q->e, &status);
			status.reason = kp_str_eq(d.state, KP_S(KP_PEER_DRAINING))
						? KP_PEER_DRAINING
						: KP_PEER_DOWN;
		}
	}
	q->done.health(q->user, &status);
}
void kp_peer_health(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_health_done *done, void *user)
{
	struct question *q = open_question(e, read_description, finish_health, user);
	q->done.health = done;
	ask(q, KP_PEER_METHOD("Describe"), deadline_ns);
}

static void finish_info(struct question *q, const struct kp_peer_end *end)
{
	if (end->status.code != KP_OK) {
		q->done.info(q->user, &end->status, NULL);
		return;
	}
	const struct kp_peer_description d = description(q);
	if (d.info.vocab_size) {
		q->e->vocab_size = d.info.vocab_size;
	}
	q->done.info(q->user, &end->status, &d.info);
}
void kp_peer_info(struct kp_engine *e, int64_t deadline_ns, kp_engine_info_done *done, void *user)
{
	struct question *q = open_question(e, read_description, finish_info, user);
	q->done.info = done;
	ask(q, KP_PEER_METHOD("Describe"), deadline_ns);
}

static void finish_loads(struct question *q, const struct kp_peer_end *end)
{
	struct kp_err status = end->status;
	if (status.code == KP_OK && !end->has_load) {
		kp_err_set(&status, KP_INTERNAL, "said no load that can be read (trailer `%s`)",
			KP_PEER_TRAILER_LOAD);
		kp_peer_blame(q->e, &status);
	}
	q->done.loads(q->user, &status, status.code == KP_OK ? &end->load : NULL);
}
void kp_peer_loads(struct kp_engine *e, int64_t deadline_ns, kp_engine_loads_done *done, void *user)
{
	struct question *q = open_question(e, read_description, finish_loads, user);
	q->done.loads = done;
	ask(q, KP_PEER_METHOD("Describe"), deadline_ns);
}

/* --- GetTokenizer --- */

static int read_piece(struct question *q, kp_str bytes, struct kp_err *err)
{
	kp_str data;
	if (kp_peer_decode_chunk(bytes, &data, err) < 0) {
		return -1;
	}
	kp_buf_add(&q->answer, data);
	return kp_buf_finish(&q->answer, "tokenizer archive", err);
}

static void finish_tokenizer(struct question *q, const struct kp_peer_end *end)
{
	q->done.tokenizer(q->user, &end->status,
		end->status.code == KP_OK ? kp_buf_str(&q->answer) : KP_STR_NULL);
}
void kp_peer_tokenizer(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_tokenizer_done *done, void *user)
{
	struct question *q = open_question(e, read_piece, finish_tokenizer, user);
	q->done.tokenizer = done;
	ask(q, KP_PEER_METHOD("GetTokenizer"), deadline_ns);
}
