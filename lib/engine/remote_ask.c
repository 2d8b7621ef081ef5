/* DESIGN: questions to an engine. A question is up to three calls ("asks"), each with a reader for
   its message; when the last has ended, `finish` tells the asker and everything is freed. The first
   failure cancels the asks that are still open, except that an ask marked optional may be
   UNIMPLEMENTED.

   The tokenizer's archive is hashed piece by piece as it arrives, so that no iteration of the loop
   hashes 256 MiB at once. */
#include "engine/cold.h"
#include "engine/protocol.h"
#include "base/mem.h"

#include <openssl/evp.h>

struct question;

struct ask {
	struct question *q;
	struct kp_grpc_call *grpc; /* NULL: over */
	int (*read)(struct question *q, kp_str bytes, struct kp_err *err);
	bool is_stream, is_optional, has_answer;
};

struct question {
	struct kp_remote *e;
	struct ask asks[3];
	unsigned n_open;
	struct kp_err status; /* the first failure */
	void (*finish)(struct question *q);
	union {
		kp_engine_health_done *health;
		kp_engine_info_done *info;
		kp_engine_loads_done *loads;
		kp_engine_tokenizer_done *tokenizer;
	} done;
	void *user;
	struct kp_arena *arena;
	struct kp_engine_info info;
	struct kp_engine_loads loads;
	struct kp_buf zip;
	EVP_MD_CTX *digest;
	char sha256[64];
	bool has_sha256;
};

static void close_question(struct question *q)
{
	struct kp_remote *e = q->e;
	q->finish(q);
	kp_arena_destroy(q->arena);
	kp_buf_fini(&q->zip);
	EVP_MD_CTX_free(q->digest);
	kp_mem_free(q);
	kp_remote_put(e);
}

static void fail(struct question *q, const struct kp_err *err)
{
	if (q->status.code != KP_OK) {
		return;
	}
	q->status = *err;
	for (size_t i = 0; i < KP_LEN(q->asks); i++) {
		if (q->asks[i].grpc) {
			kp_grpc_cancel(kp_steal(q->asks[i].grpc));
			q->n_open--;
		}
	}
}

static void on_message(void *user, kp_str bytes)
{
	struct ask *a = user;
	struct question *q = a->q;
	struct kp_err err = KP_ERR_INIT;
	int rc = a->has_answer && !a->is_stream ? kp_err_set(&err, KP_INTERNAL, "answered twice")
						: a->read(q, bytes, &err);
	a->has_answer = true;
	if (rc < 0) {
		kp_remote_blame(q->e, &err);
		fail(q, &err);
		close_question(q);
	}
}

static void on_end(void *user, const struct kp_err *status, bool processed,
	const struct kp_header *trailers, size_t n_trailers)
{
	struct ask *a = user;
	struct question *q = a->q;
	(void)processed;
	(void)trailers;
	(void)n_trailers;
	struct kp_err err = *status;
	a->grpc = NULL;
	q->n_open--;
	if (status->code == KP_OK && !a->has_answer) {
		kp_err_set(&err, KP_DATA_LOSS, "gave no answer");
		kp_remote_blame(q->e, &err);
		fail(q, &err);
	} else if (status->code != KP_OK && !(a->is_optional && status->code == KP_UNIMPLEMENTED)) {
		kp_remote_map_status(q->e, &err);
		fail(q, &err);
	}
	if (q->n_open == 0) {
		close_question(q);
	}
}

static const struct kp_grpc_call_ops ask_ops = { .message = on_message, .end = on_end };

static struct question *open_question(
	struct kp_engine *base, void (*finish)(struct question *), void *user)
{
	struct kp_remote *e = KP_CONTAINER(base, struct kp_remote, base);
	struct question *q = kp_new(struct question);
	kp_assert_on(base->loop);
	q->e = e;
	q->finish = finish;
	q->user = user;
	q->info.max_images = UINT32_MAX;
	q->arena = kp_arena_create(4 << 20);
	kp_buf_init(&q->zip, KP_ENGINE_MAX_TOKENIZER);
	e->n_open++;
	return q;
}

/* All our requests here are empty messages. */
static struct ask *ask(struct question *q, const char *path, int64_t deadline_ns,
	int (*read)(struct question *, kp_str, struct kp_err *))
{
	struct ask *a = &q->asks[q->n_open++];
	*a = (struct ask){ .q = q, .read = read };
	kp_grpc_channel_connect(q->e->channel);
	a->grpc = kp_grpc_start(
		q->e->channel, path, NULL, 0, KP_STR_NULL, deadline_ns, false, &ask_ops, a);
	return a;
}

/* --- health --- */

static int read_health(struct question *q, kp_str bytes, struct kp_err *err)
{
	return q->e->protocol->read_health(bytes, err);
}
static void finish_health(struct question *q)
{
	q->done.health(q->user, &q->status);
}
void kp_remote_health(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_health_done *done, void *user)
{
	struct question *q = open_question(e, finish_health, user);
	q->done.health = done;
	ask(q, q->e->protocol->health, deadline_ns, read_health);
}

/* --- loads --- */

static int read_loads(struct question *q, kp_str bytes, struct kp_err *err)
{
	return q->e->protocol->read_loads(bytes, q->arena, &q->loads, &q->info, err);
}
static void finish_loads(struct question *q)
{
	q->loads.at_ns = kp_loop_now(q->e->base.loop);
	q->done.loads(q->user, &q->status, q->status.code == KP_OK ? &q->loads : NULL);
}
void kp_remote_loads(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_loads_done *done, void *user)
{
	struct question *q = open_question(e, finish_loads, user);
	q->done.loads = done;
	ask(q, q->e->protocol->loads, deadline_ns, read_loads);
}

/* --- info --- */

static int read_model_info(struct question *q, kp_str bytes, struct kp_err *err)
{
	return q->e->protocol->read_model_info(bytes, q->arena, &q->info, err);
}
static int read_server_info(struct question *q, kp_str bytes, struct kp_err *err)
{
	return q->e->protocol->read_server_info(bytes, q->arena, &q->info, err);
}
static void finish_info(struct question *q)
{
	bool ok = q->status.code == KP_OK;
	if (ok && q->info.vocab_size) {
		q->e->vocab_size = q->info.vocab_size;
	}
	q->done.info(q->user, &q->status, ok ? &q->info : NULL);
}
void kp_remote_info(struct kp_engine *e, int64_t deadline_ns, kp_engine_info_done *done, void *user)
{
	struct question *q = open_question(e, finish_info, user);
	q->done.info = done;
	ask(q, q->e->protocol->model_info, deadline_ns, read_model_info);
	ask(q, q->e->protocol->server_info, deadline_ns, read_server_info)->is_optional = true;
	ask(q, q->e->protocol->loads, deadline_ns, read_loads)->is_optional =
		true; /* it has the version */
}

/* --- tokenizer --- */

static int read_piece(struct question *q, kp_str bytes, struct kp_err *err)
{
	kp_str data, sha256;
	if (kp_cold_tokenizer(bytes, &data, &sha256, err) < 0) {
		return -1;
	}
	if (q->has_sha256) {
		return kp_err_set(err, KP_INTERNAL, "sent more of the tokenizer after its digest");
	}
	kp_buf_add(&q->zip, data);
	if (kp_buf_finish(&q->zip, "tokenizer archive", err) < 0) {
		return -1;
	}
	EVP_DigestUpdate(q->digest, data.p, data.n);
	if (sha256.n) {
		memcpy(q->sha256, sha256.p, sizeof(q->sha256));
		q->has_sha256 = true;
	}
	return 0;
}

/* The digest sent is the digest of what was received. */
static int check_digest(struct question *q, struct kp_err *err)
{
	static const char hex[] = "0123456789abcdef";
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	char text[64];
	if (!q->has_sha256) {
		return kp_err_set(err, KP_DATA_LOSS,
			"ended the tokenizer after %zu bytes without a digest", q->zip.n);
	}
	if (!EVP_DigestFinal_ex(q->digest, sum, &n) || n != 32) {
		return kp_err_set(err, KP_INTERNAL, "hash `tokenizer archive`: OpenSSL failed");
	}
	for (size_t i = 0; i < 32; i++) {
		text[2 * i] = hex[sum[i] >> 4];
		text[2 * i + 1] = hex[sum[i] & 15];
	}
	if (memcmp(text, q->sha256, 64) != 0) {
		return kp_err_set(err, KP_DATA_LOSS,
			"sent a tokenizer of %zu bytes with sha256 %.64s, but announced %.64s",
			q->zip.n, text, q->sha256);
	}
	return 0;
}

static void finish_tokenizer(struct question *q)
{
	struct kp_err err = KP_ERR_INIT;
	if (q->status.code == KP_OK && check_digest(q, &err) < 0) {
		kp_remote_blame(q->e, &err);
		q->status = err;
	}
	q->done.tokenizer(
		q->user, &q->status, q->status.code == KP_OK ? kp_buf_str(&q->zip) : KP_STR_NULL);
}

void kp_remote_tokenizer(
	struct kp_engine *e, int64_t deadline_ns, kp_engine_tokenizer_done *done, void *user)
{
	struct question *q = open_question(e, finish_tokenizer, user);
	q->done.tokenizer = done;
	q->digest = EVP_MD_CTX_new();
	KP_BUG_ON(!q->digest || !EVP_DigestInit_ex(q->digest, EVP_sha256(), NULL));
	ask(q, q->e->protocol->tokenizer, deadline_ns, read_piece)->is_stream = true;
}
