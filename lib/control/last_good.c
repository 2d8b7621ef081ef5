/* DESIGN: the body is a message of the control protocol, so that the file can do what the protocol can,
   and is read by what the protocol is read with. */
#include "control/last_good.h"

#include "base/fs.h"

#include <openssl/sha.h>

static const char magic[8] = { 'K', 'P', 'L', 'P', 'R', 'O', 'G', 1 };
enum {
	LENGTH_AT = sizeof(magic),
	HASH_AT = LENGTH_AT + 8,
	HEAD_BYTES = HASH_AT + KP_HASH_BYTES,
	FILE_MAX = HEAD_BYTES + KP_CONTROL_TO_GATEWAY_MAX,
};

static void put_head(char *head, kp_str body)
{
	memcpy(head, magic, sizeof(magic));
	for (size_t i = 0; i < 8; i++) {
		head[LENGTH_AT + i] = (char)((uint64_t)body.n >> (8 * i));
	}
	SHA256((const uint8_t *)body.p, body.n, (uint8_t *)head + HASH_AT);
}

int kp_last_good_encode(const struct kp_revision *revision, const struct kp_items *items,
	struct kp_buf *out, struct kp_err *err)
{
	static const char room[HEAD_BYTES];
	const struct kp_operator_message m = { .type = KP_OPERATOR_PROGRAM,
		.program = { .revision = *revision,
			.delta = { .upserts = items->p, .n_upserts = items->n } } };
	size_t at = out->n;
	kp_buf_add(out, kp_str_n(room, sizeof(room)));
	kp_control_write_to_gateway(out, &m);
	if (kp_buf_finish(out, "last good program", err) < 0) {
		return -1;
	}
	put_head(out->p + at, kp_str_n(out->p + at + HEAD_BYTES, out->n - at - HEAD_BYTES));
	return 0;
}

static int damaged(const char *what, struct kp_err *err)
{
	return kp_err_set(err, KP_DATA_LOSS, "read last good program: %s", what);
}

static int read_body(
	kp_str body, struct kp_revision *ret_revision, struct kp_items **ret, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(KP_CONTROL_ARENA_BYTES);
	struct kp_operator_message m;
	KP_AUTO(items) struct kp_items *items = NULL;
	if (kp_control_read_to_gateway(body, arena, &m, err) < 0) {
		return kp_err_wrap(err, "read last good program");
	}
	if (m.type != KP_OPERATOR_PROGRAM || m.program.base.is_set) {
		return damaged("it is not a whole program", err);
	}
	if (kp_items_create(m.program.delta.upserts, m.program.delta.n_upserts, &items, err) < 0) {
		return kp_err_wrap(err, "read last good program");
	}
	if (memcmp(items->hash, m.program.revision.hash, KP_HASH_BYTES) != 0) {
		return damaged("its content does not have the hash of its revision", err);
	}
	*ret_revision = m.program.revision;
	*ret = kp_steal(items);
	return 0;
}

int kp_last_good_decode(
	kp_str bytes, struct kp_revision *ret_revision, struct kp_items **ret, struct kp_err *err)
{
	char head[HEAD_BYTES];
	if (bytes.n < HEAD_BYTES || memcmp(bytes.p, magic, sizeof(magic) - 1) != 0) {
		return damaged("not such a file, or cut short", err);
	}
	if (bytes.p[sizeof(magic) - 1] != magic[sizeof(magic) - 1]) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"read last good program: version %d is not known",
			(uint8_t)bytes.p[sizeof(magic) - 1]);
	}
	kp_str body = kp_str_skip(bytes, HEAD_BYTES);
	put_head(head, body);
	if (memcmp(head + LENGTH_AT, bytes.p + LENGTH_AT, HASH_AT - LENGTH_AT) != 0) {
		return damaged("its length is not the one it names", err);
	}
	if (memcmp(head + HASH_AT, bytes.p + HASH_AT, KP_HASH_BYTES) != 0) {
		return damaged("its checksum does not match", err);
	}
	return read_body(body, ret_revision, ret, err);
}

int kp_last_good_write(const char *path, const struct kp_revision *revision,
	const struct kp_items *items, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, FILE_MAX);
	return kp_last_good_encode(revision, items, &b, err) < 0
		       ? -1
		       : kp_fs_write_atomic(path, kp_buf_str(&b), 0600, err);
}

int kp_last_good_read(const char *path, struct kp_revision *ret_revision, struct kp_items **ret,
	struct kp_err *err)
{
	/* Mapped, not read: what is no regular file (a FIFO would wait for a writer) is refused. */
	struct kp_mapping m = { 0 };
	if (kp_fs_load(path, FILE_MAX, &m, err) < 0) {
		return -1;
	}
	int r = kp_last_good_decode(m.bytes, ret_revision, ret, err);
	kp_fs_unmap(&m);
	return r < 0 ? kp_err_wrap(err, "`%s`", path) : 0;
}
