/* DESIGN: four secrets, each with the signature of the file it was read from. Certificate and key are taken
   together or not at all: a rotation half done gives a pair that does not fit. */
#include "kube/credentials.h"

#include "base/fs.h"
#include "base/map.h"

#include <stdio.h>
#include <sys/stat.h>

static uint64_t signature(const char *path)
{
	static const uint8_t key[16] = { 0 };
	struct stat st;
	char text[160];
	if (stat(path, &st)) {
		return 0;
	}
	int n = snprintf(text, sizeof(text), "%llu %llu %lld %lld.%09ld %lld.%09ld",
		(unsigned long long)st.st_dev, (unsigned long long)st.st_ino, (long long)st.st_size,
		(long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec,
		st.st_ctim.tv_nsec);
	return kp_siphash(text, (size_t)n, key) | 1;
}

static bool is_changed(const struct kp_kube_file *f)
{
	return f->from.path && signature(f->from.path) != f->seen;
}

/* Into an empty buffer. */
static int read_one(
	const struct kp_kube_file *f, size_t max, struct kp_buf *ret, struct kp_err *err)
{
	kp_buf_init(ret, max);
	if (!f->from.path) {
		kp_buf_add(ret, f->from.data);
		return kp_buf_finish(ret, "credentials", err);
	}
	return kp_fs_read(f->from.path, ret, err);
}

static void put(struct kp_kube_file *f, struct kp_buf *content, uint64_t seen)
{
	kp_buf_fini(&f->content);
	f->content = *content;
	f->seen = seen;
}

static int check_token(kp_str token, const char *path, struct kp_err *err)
{
	for (size_t i = 0; i < token.n; i++) {
		if ((unsigned char)token.p[i] <= ' ' || (unsigned char)token.p[i] >= 0x7f) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read token `%s`: byte %zu cannot be in a token",
				path ? path : "token", i);
		}
	}
	return token.n || !path
		       ? 0
		       : kp_err_set(err, KP_INVALID_ARGUMENT, "read token `%s`: it is empty", path);
}

static int read_token(struct kp_kube_file *f, struct kp_err *err)
{
	struct kp_buf b;
	uint64_t seen = f->from.path ? signature(f->from.path) : 0;
	if (read_one(f, KP_KUBE_TOKEN_MAX, &b, err) ||
		check_token(kp_str_trim(kp_buf_str(&b)), f->from.path, err)) {
		kp_buf_fini(&b);
		return -1;
	}
	put(f, &b, seen);
	return 0;
}

static int read_pem(struct kp_kube_file *const *files, size_t n, struct kp_err *err)
{
	struct kp_buf b[2];
	uint64_t seen[2] = { 0 };
	KP_BUG_ON(n > KP_LEN(b));
	for (size_t i = 0; i < n; i++) {
		seen[i] = files[i]->from.path ? signature(files[i]->from.path) : 0;
		if (read_one(files[i], KP_KUBE_PEM_MAX, &b[i], err)) {
			for (size_t k = 0; k <= i; k++) {
				kp_buf_fini(&b[k]);
			}
			return -1;
		}
	}
	for (size_t i = 0; i < n; i++) {
		put(files[i], &b[i], seen[i]);
	}
	return 0;
}

static int read_changed(struct kp_kube_credentials *c, bool is_first, struct kp_err *err)
{
	struct kp_kube_file *ca[] = { &c->ca }, *pair[] = { &c->cert, &c->key };
	struct kp_err ignored, *e = err;
	int r = 0;
	if (is_first || is_changed(&c->ca)) {
		int one = read_pem(ca, 1, e);
		c->generation += one == 0;
		r |= one;
		e = r ? &ignored : err;
	}
	if (is_first || is_changed(&c->cert) || is_changed(&c->key)) {
		int one = read_pem(pair, 2, e);
		c->generation += one == 0;
		r |= one;
		e = r ? &ignored : err;
	}
	if (is_first || is_changed(&c->token)) {
		r |= read_token(&c->token, e);
	}
	return r;
}

int kp_kube_credentials_init(
	struct kp_kube_credentials *c, const struct kp_kube_config *config, struct kp_err *err)
{
	*c = (struct kp_kube_credentials){ .ca.from = config->ca,
		.cert.from = config->cert,
		.key.from = config->key,
		.token.from = config->token };
	if (read_changed(c, true, err)) {
		kp_kube_credentials_fini(c);
		return -1;
	}
	return 0;
}

void kp_kube_credentials_fini(struct kp_kube_credentials *c)
{
	kp_buf_fini(&c->ca.content);
	kp_buf_fini(&c->cert.content);
	kp_buf_fini(&c->key.content);
	kp_buf_fini(&c->token.content);
}

int kp_kube_credentials_look(
	struct kp_kube_credentials *c, int64_t now_ns, bool is_forced, struct kp_err *err)
{
	if (now_ns < c->next_look_ns && !is_forced) {
		return 0;
	}
	c->next_look_ns = now_ns + KP_KUBE_LOOK_NS;
	return read_changed(c, false, err);
}

kp_str kp_kube_credentials_token(const struct kp_kube_credentials *c)
{
	return kp_str_trim(kp_buf_str(&c->token.content));
}
