/* DESIGN: the blocking half of manifests: a path becomes names and texts in one arena. Called from the control thread, never from a loop.

   kubelet mounts a ConfigMap as links into `..data`, itself a link to a directory with the current version, which it swaps in one
   rename. Opening `..data` once and reading everything below that descriptor gives one version; when kubelet removes it in
   the middle, a file is missing and we start again. Every descriptor is O_CLOEXEC; FIFOs and devices are refused (opened without
   blocking). */
#include "api/manifest.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 5 };

struct names {
	KP_VEC(char *)
	v;
};

static void free_names(struct names *n)
{
	for (size_t i = 0; i < n->v.n; i++) {
		kp_free(&n->v.p[i]);
	}
	kp_vec_fini(&n->v);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_manifest(kp_str name)
{
	return !kp_str_starts(name, KP_S(".")) &&
	       (kp_str_ends(name, KP_S(".yaml")) || kp_str_ends(name, KP_S(".yml")) ||
		       kp_str_ends(name, KP_S(".json")));
}

/* Takes dir_fd. */
static int list(int dir_fd, const char *path, struct names *ret, struct kp_err *err)
{
	DIR *d = fdopendir(dir_fd);
	if (!d) {
		int e = errno;
		close(dir_fd);
		return kp_err_sys(err, e, "read directory `%s`", path);
	}
	const struct dirent *e;
	while ((errno = 0, e = readdir(d)) && ret->v.n <= KP_MANIFEST_MAX_FILES) {
		if (is_manifest(kp_str_c(e->d_name))) {
			kp_vec_push(&ret->v, kp_xstrdup(e->d_name));
		}
	}
	int failed = errno;
	closedir(d);
	if (failed) {
		return kp_err_sys(err, failed, "read directory `%s`", path);
	}
	if (ret->v.n > KP_MANIFEST_MAX_FILES) {
		return kp_err_set(err, KP_TOO_LARGE, "read directory `%s`: more than %d manifests",
			path, KP_MANIFEST_MAX_FILES);
	}
	if (ret->v.n) {
		qsort(ret->v.p, ret->v.n, sizeof(*ret->v.p), by_text);
	}
	return 0;
}

/* The rest of fd into the arena; *total counts over all files. Takes fd. */
static int read_all(int fd, const char *path, struct kp_arena *a, size_t *total, kp_str *ret,
	struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, KP_MANIFEST_MAX_FILE);
	char piece[16384];
	ssize_t k;
	do {
		k = read(fd, piece, sizeof(piece));
		if (k > 0) {
			kp_buf_add(&b, kp_str_n(piece, (size_t)k));
		}
	} while (k > 0 || (k < 0 && errno == EINTR));
	int e = errno;
	close(fd);
	if (k < 0) {
		return kp_err_sys(err, e, "read `%s`", path);
	}
	*total += b.n;
	if (!kp_buf_ok(&b) || *total > KP_MANIFEST_MAX_TOTAL) {
		return kp_err_set(err, KP_TOO_LARGE, "read `%s`: more than %d bytes in %s", path,
			kp_buf_ok(&b) ? KP_MANIFEST_MAX_TOTAL : KP_MANIFEST_MAX_FILE,
			kp_buf_ok(&b) ? "all manifests" : "one manifest");
	}
	return kp_arena_dup(a, kp_buf_str(&b), ret, err);
}

/* One file below dir_fd. 1: it is no regular file and was left out. */
static int read_one(int dir_fd, const char *name, const char *shown, struct kp_arena *a,
	size_t *total, kp_str *ret, struct kp_err *err)
{
	struct stat st;
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		return kp_err_sys(err, errno, "open `%s`", shown);
	}
	if (fstat(fd, &st) != 0) {
		int e = errno;
		close(fd);
		return kp_err_sys(err, e, "stat `%s`", shown);
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return 1;
	}
	return read_all(fd, shown, a, total, ret, err);
}

static int join(
	struct kp_arena *a, kp_str dir, const char *name, const char **ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_str path;
	kp_buf_init(&b, 1 << 16);
	kp_buf_add(&b, dir);
	kp_buf_addc(&b, '/');
	kp_buf_addz(&b, name);
	if (kp_buf_finish(&b, "path", err) || kp_arena_dup(a, kp_buf_str(&b), &path, err)) {
		return -1;
	}
	*ret = path.p;
	return 0;
}

static int read_listed(int dir_fd, const char *path, const struct names *names,
	struct kp_manifest_files *ret, struct kp_err *err)
{
	size_t total = 0;
	kp_str dir = kp_str_c(path);
	while (dir.n > 1 && dir.p[dir.n - 1] == '/') {
		dir.n--;
	}
	ret->files = kp_arena_calloc(ret->arena, names->v.n + 1, sizeof(*ret->files));
	if (!ret->files) {
		return kp_arena_full(err, "manifests");
	}
	for (size_t i = 0; i < names->v.n; i++) {
		struct kp_manifest_file *f = &ret->files[ret->n];
		if (join(ret->arena, dir, names->v.p[i], &f->name, err)) {
			return -1;
		}
		int r = read_one(dir_fd, names->v.p[i], f->name, ret->arena, &total, &f->text, err);
		if (r < 0) {
			return -1;
		}
		ret->n += r == 0;
	}
	return 0;
}

/* Takes dir_fd. */
static int read_directory(
	int dir_fd, const char *path, struct kp_manifest_files *ret, struct kp_err *err)
{
	int data = openat(dir_fd, "..data", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	if (data >= 0) {
		close(dir_fd);
		dir_fd = data;
	}
	struct names names = { 0 };
	int listed = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0), r;
	if (listed < 0) {
		r = kp_err_sys(err, errno, "open `%s`", path);
	} else {
		r = list(listed, path, &names, err) || read_listed(dir_fd, path, &names, ret, err)
			    ? -1
			    : 0;
	}
	free_names(&names);
	close(dir_fd);
	return r;
}

static int read_path(const char *path, struct kp_manifest_files *ret, struct kp_err *err)
{
	int dir_fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	if (dir_fd >= 0) {
		return read_directory(dir_fd, path, ret, err);
	}
	if (errno != ENOTDIR) {
		return kp_err_sys(err, errno, "open `%s`", path);
	}
	size_t total = 0;
	kp_str name;
	struct kp_manifest_file *f = kp_arena_calloc(ret->arena, 1, sizeof(*f));
	if (!f || kp_arena_dup(ret->arena, kp_str_c(path), &name, err)) {
		return kp_arena_full(err, "manifests");
	}
	f->name = name.p;
	int r = read_one(AT_FDCWD, path, path, ret->arena, &total, &f->text, err);
	if (r > 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "read `%s`: not a regular file", path);
	}
	ret->files = f;
	ret->n = 1;
	return r;
}

int kp_manifest_read(const char *path, struct kp_manifest_files *ret, struct kp_err *err)
{
	for (int i = 0; i < TRIES; i++) {
		struct kp_manifest_files f = { .arena =
						       kp_arena_create(2 * KP_MANIFEST_MAX_TOTAL) };
		if (read_path(path, &f, err) == 0) {
			*ret = f;
			return 0;
		}
		kp_manifest_files_fini(&f);
		if (err->code != KP_NOT_FOUND || access(path, F_OK) != 0) {
			break;
		}
	}
	return -1;
}

void kp_manifest_files_fini(struct kp_manifest_files *f)
{
	kp_arena_destroy(f->arena);
	*f = (struct kp_manifest_files){ 0 };
}
