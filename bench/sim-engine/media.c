/* DESIGN: what smg-grpc-servicer does with tensors: it reads a file of /dev/shm and unlinks it; a length that is not the shape's is an error. What
   came is logged with digests, so that a test can compare it with what another program makes of the same image. */
#include "protocol.h"
#include "base/fs.h"
#include "base/mem.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t item_bytes(const char *dtype)
{
	kp_str s = kp_str_c(dtype);
	return kp_str_eq(s, KP_S("float32")) || kp_str_eq(s, KP_S("uint32"))     ? 4
	       : kp_str_eq(s, KP_S("int64"))                                     ? 8
	       : kp_str_eq(s, KP_S("bfloat16")) || kp_str_eq(s, KP_S("float16")) ? 2
	       : kp_str_eq(s, KP_S("uint8"))                                     ? 1
										 : 0;
}

static int check_length(const struct kp_sim_tensor *t, struct kp_err *err)
{
	uint64_t n = item_bytes(t->dtype);
	for (size_t i = 0; i < t->n_dims; i++) {
		n *= t->shape[i];
	}
	if (n == 0 || n != t->n_bytes) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"TensorData byte length mismatch for %s: dtype=%s, expected %llu, got %llu",
			t->name, t->dtype, (unsigned long long)n, (unsigned long long)t->n_bytes);
	}
	return 0;
}

/* The file's bytes, the caller's to free; the file is gone. */
static uint8_t *read_shm(const struct kp_sim_tensor *t, struct kp_err *err)
{
	char path[300];
	int n = snprintf(path, sizeof(path), "/dev/shm/%s", t->shm);
	if (n < 0 || (size_t)n >= sizeof(path) || strchr(t->shm, '/') || t->shm[0] == '.') {
		kp_err_set(err, KP_INVALID_ARGUMENT, "Invalid TensorData.shm name");
		return NULL;
	}
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		kp_err_set(err, KP_INTERNAL, "No such file: %s", path);
		return NULL;
	}
	uint8_t *bytes = kp_try_malloc(t->n_bytes + 1);
	size_t got = 0;
	ssize_t r = 1;
	while (bytes && got < t->n_bytes && r > 0) {
		r = pread(fd, bytes + got, t->n_bytes - got, (off_t)(t->offset + got));
		got += r > 0 ? (size_t)r : 0;
	}
	close(fd);
	unlink(path);
	if (!bytes || got < t->n_bytes) {
		kp_mem_free(bytes);
		kp_err_set(err, KP_INVALID_ARGUMENT, "TensorData.shm byte length mismatch");
		return NULL;
	}
	return bytes;
}

static int add_tensor(struct kp_buf *b, const struct kp_sim_tensor *t, struct kp_err *err)
{
	unsigned char sum[SHA256_DIGEST_LENGTH];
	uint8_t *from_shm = NULL;
	if (t->shm && !(from_shm = read_shm(t, err))) {
		return -1;
	}
	if (check_length(t, err)) {
		kp_mem_free(from_shm);
		return -1;
	}
	SHA256(from_shm ? from_shm : t->bytes, t->n_bytes, sum);
	kp_mem_free(from_shm);
	kp_buf_printf(b, "\"%s\":{\"dtype\":\"%s\",\"by\":\"%s\",\"shape\":[", t->name, t->dtype,
		t->shm ? "shm" : "inline");
	for (size_t i = 0; i < t->n_dims; i++) {
		kp_buf_printf(b, "%s%u", i ? "," : "", t->shape[i]);
	}
	kp_buf_lit(b, "],\"sha256\":\"");
	for (size_t i = 0; i < sizeof(sum); i++) {
		kp_buf_printf(b, "%02x", sum[i]);
	}
	kp_buf_lit(b, "\"}");
	return 0;
}

/* vLLM itself does not look: it would normalize floats twice, and take bytes for floats. */
static int check_type(
	const struct kp_sim *s, const struct kp_sim_tensor *pixels, struct kp_err *err)
{
	const char *want = s->opts->normalizes ? "uint8" : "float32";
	return kp_str_eq(kp_str_c(pixels->dtype), kp_str_c(want))
		       ? 0
		       : kp_err_set(err, KP_INVALID_ARGUMENT, "%s are %s, not %s", pixels->name,
				 pixels->dtype, want);
}

static int check_spans(const struct kp_sim_request *r, struct kp_err *err)
{
	const struct kp_sim_media *m = r->media;
	uint64_t end = 0;
	for (size_t i = 0; i < m->n_spans; i++) {
		uint64_t from = m->spans[i][0], to = from + m->spans[i][1];
		bool fine = from >= end && to > from && to <= r->n_ids;
		for (uint64_t k = from; fine && k < to; k++) {
			fine = r->ids[k] == m->token;
		}
		if (!fine) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"placeholder %zu is not where token %u is", i, m->token);
		}
		end = to;
	}
	return m->n_spans && !m->is_too_much
		       ? 0
		       : kp_err_set(err, KP_INVALID_ARGUMENT, "no placeholders, or too many");
}

int kp_sim_take_media(struct kp_sim *s, const struct kp_sim_request *r, struct kp_err *err)
{
	const struct kp_sim_media *m = r->media;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	kp_buf_lit(&b, ",\"tensors\":{");
	for (size_t i = 0; i < m->n_tensors; i++) {
		kp_buf_addz(&b, i ? "," : "");
		if (add_tensor(&b, &m->tensors[i], err)) {
			return -1;
		}
	}
	if (check_spans(r, err) || check_type(s, &m->tensors[0], err)) {
		return -1;
	}
	kp_buf_printf(&b, "},\"token\":%u,\"spans\":[", m->token);
	for (size_t i = 0; i < m->n_spans; i++) {
		kp_buf_printf(&b, "%s[%u,%u]", i ? "," : "", m->spans[i][0], m->spans[i][1]);
	}
	kp_buf_lit(&b, "],\"hashes\":[");
	for (size_t i = 0; i < m->n_hashes; i++) {
		kp_buf_printf(&b, "%s\"%.64s\"", i ? "," : "", m->hashes[i]);
	}
	kp_buf_addc(&b, ']');
	kp_sim_log(s, "media", kp_str_c(r->id), "%s", kp_buf_cstr(&b));
	return 0;
}

void kp_sim_shm_namespace(char ret[80])
{
	KP_AUTO(buf) struct kp_buf id;
	struct kp_err err;
	struct stat st;
	kp_buf_init(&id, 64);
	ret[0] = '\0';
	if (kp_fs_read("/proc/sys/kernel/random/boot_id", &id, &err) == 0 &&
		stat("/dev/shm", &st) == 0) {
		snprintf(ret, 80, "%" KP_FMT ":%llu", KP_ARG(kp_str_trim(kp_buf_str(&id))),
			(unsigned long long)st.st_dev);
	}
}
