/* DESIGN: see images.h. A tokenizer that was just built is written, mapped and opened like any other, and the mapping is what stays, so that a
   reader's fault shows at once and memory is shared from the first process on. The program's build is told by the linker's build id: no number to forget
   when a table changes its form.

   Of a GGUF only the metadata counts for the name, of a directory the files that loading looks at. */
#include "token/images.h"
#include "base/mem.h"
#include "base/rand.h"
#include "token/gguf.h"
#include "token/load.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_LENGTH = 4096, NAME_LENGTH = 64, STALE_SECONDS = 3600 };
#define SUFFIX ".tokenizer"

struct kp_token_images {
	char *path;
	int fd;
	struct kp_digest_key key;
	struct kp_digest build;
	struct kp_token_images_info info;
};

/* --- the directory ------------------------------------------------------------------------------------------------ */

static int find_build(struct dl_phdr_info *info, size_t size, void *ret)
{
	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		const char *p = (const char *)(info->dlpi_addr + h->p_vaddr);
		size_t left = h->p_type == PT_NOTE ? h->p_memsz : 0;
		while (left >= sizeof(ElfW(Nhdr))) {
			ElfW(Nhdr) n;
			memcpy(&n, p, sizeof(n));
			size_t name = (n.n_namesz + 3) & ~(size_t)3,
			       all = sizeof(n) + name + ((n.n_descsz + 3) & ~(size_t)3);
			if (all > left) {
				break;
			}
			if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 &&
				memcmp(p + sizeof(n), "GNU", 4) == 0) {
				*(kp_str *)ret = kp_str_n(p + sizeof(n) + name, n.n_descsz);
			}
			p += all;
			left -= all;
		}
	}
	return 1; /* the program itself comes first */
}

static int read_key(struct kp_token_images *s, struct kp_err *err)
{
	int fd = openat(s->fd, "key", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0) {
		return kp_err_sys(err, errno, "open `%s/key`", s->path);
	}
	ssize_t n = read(fd, &s->key, sizeof(s->key));
	close(fd);
	return n == (ssize_t)sizeof(s->key)
		       ? 0
		       : kp_err_set(err, KP_DATA_LOSS, "read `%s/key`: no key of images", s->path);
}

static int write_all(int fd, kp_str s)
{
	while (s.n) {
		ssize_t n = write(fd, s.p, s.n);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return -1;
		}
		s = kp_str_skip(s, (size_t)n);
	}
	return 0;
}

/* A new file with a name of its own, *ret_name, to be renamed by the caller. Nobody waits for the disk: what a loss of power leaves half written
   is refused by its checksum. */
static int write_new(
	struct kp_token_images *s, kp_str bytes, char ret_name[NAME_LENGTH], struct kp_err *err)
{
	char id[17] = "";
	kp_random_id(id, sizeof(id) - 1);
	snprintf(ret_name, NAME_LENGTH, "new.tmp.%s", id);
	int fd = openat(s->fd, ret_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		return kp_err_sys(err, errno, "create `%s/%s`", s->path, ret_name);
	}
	int r = write_all(fd, bytes), code = errno;
	if (close(fd) && r == 0) {
		r = -1;
		code = errno;
	}
	if (r) {
		unlinkat(s->fd, ret_name, 0);
		return kp_err_sys(err, code, "write `%s/%s`", s->path, ret_name);
	}
	return 0;
}

/* The key that is there, or a new one; of two processes that make one at the same time the first wins. */
static int find_key(struct kp_token_images *s, struct kp_err *err)
{
	char name[NAME_LENGTH];
	struct kp_err why = KP_ERR_INIT;
	if (read_key(s, &why) == 0) {
		return 0;
	}
	if (why.code !=
		KP_NOT_FOUND) { /* damaged; images that were made with it have lost their names */
		unlinkat(s->fd, "key", 0);
	}
	kp_random_bytes(&s->key, sizeof(s->key));
	if (write_new(s, kp_str_n(&s->key, sizeof(s->key)), name, err)) {
		return -1;
	}
	int r = linkat(s->fd, name, s->fd, "key", 0), code = errno;
	unlinkat(s->fd, name, 0);
	if (r && code != EEXIST) {
		return kp_err_sys(err, code, "make `%s/key`", s->path);
	}
	return read_key(s, err);
}

static int open_directory(struct kp_token_images *s, struct kp_err *err)
{
	struct stat st;
	if (strlen(s->path) >= PATH_LENGTH) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "open `%s`: path too long", s->path);
	}
	if (mkdir(s->path, 0700) && errno != EEXIST) {
		return kp_err_sys(err, errno, "make directory `%s`", s->path);
	}
	s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, &st)) {
		return kp_err_sys(err, errno, "open directory `%s`", s->path);
	}
	if (st.st_uid != geteuid() || (st.st_mode & 022)) {
		return kp_err_set(err, KP_PERMISSION_DENIED,
			"open directory `%s`: of another user, or others may write into it",
			s->path);
	}
	return find_key(s, err);
}

int kp_token_images_open(const char *directory, struct kp_token_images **ret, struct kp_err *err)
{
	kp_str build = KP_STR_NULL;
	struct kp_token_images *s = kp_new(struct kp_token_images);
	s->path = kp_xstrdup(directory);
	s->fd = -1;
	dl_iterate_phdr(find_build, &build);
	if (build.n == 0) {
		kp_err_set(err, KP_FAILED_PRECONDITION,
			"open directory `%s` of images: the program has no build id", directory);
	} else if (open_directory(s, err) == 0) {
		s->build = kp_digest(&s->key, build);
		*ret = s;
		return 0;
	}
	kp_token_images_close(s);
	return -1;
}

void kp_token_images_close(struct kp_token_images *s)
{
	if (s) {
		if (s->fd >= 0) {
			close(s->fd);
		}
		kp_free(&s->path);
		kp_free(&s);
	}
}

const struct kp_token_images_info *kp_token_images_info(const struct kp_token_images *s)
{
	return &s->info;
}

/* Drops the image that was used longest ago when there are too many, and what a process that died left half written. */
static void sweep(struct kp_token_images *s)
{
	char oldest[256] = "";
	int64_t oldest_s = INT64_MAX;
	size_t n = 0;
	int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		if (fd >= 0) {
			close(fd);
		}
		return;
	}
	for (struct dirent *e; (e = readdir(d));) {
		struct stat st;
		kp_str name = kp_str_c(e->d_name);
		if (fstatat(s->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW)) {
			continue;
		}
		if (kp_str_starts(name, KP_S("new.tmp.")) &&
			st.st_mtime < time(NULL) - STALE_SECONDS) {
			unlinkat(s->fd, e->d_name, 0);
		} else if (kp_str_ends(name, KP_S(SUFFIX))) {
			n++;
			if (st.st_mtime < oldest_s) {
				oldest_s = st.st_mtime;
				snprintf(oldest, sizeof(oldest), "%s", e->d_name);
			}
		}
	}
	closedir(d);
	if (n > KP_IMAGES_MAX) {
		unlinkat(s->fd, oldest, 0);
	}
}

/* --- images ------------------------------------------------------------------------------------------------------- */

static void print_name(struct kp_digest d, char ret[NAME_LENGTH])
{
	snprintf(ret, NAME_LENGTH, "%016llx%016llx" SUFFIX, (unsigned long long)d.hi,
		(unsigned long long)d.lo);
}

/* NOT_FOUND: there is none. */
static int map(struct kp_token_images *s, struct kp_digest name, struct kp_tokenizer **ret,
	struct kp_err *err)
{
	char file[NAME_LENGTH];
	struct kp_token_image image = { NULL, 0 };
	print_name(name, file);
	if (kp_token_image_map(s->fd, file, &image, err)) {
		return -1;
	}
	if (kp_token_image_verify(&image, &s->key, name, err) ||
		kp_token_image_open(image, ret, err)) {
		kp_token_image_fini(&image);
		return -1;
	}
	return 0;
}

/* Writes the image of *t, and puts the mapped one in its place. */
static int keep(struct kp_token_images *s, struct kp_digest name, struct kp_tokenizer **t,
	struct kp_err *err)
{
	char file[NAME_LENGTH], new[NAME_LENGTH];
	struct kp_tokenizer *mapped;
	print_name(name, file);
	kp_token_image_sign(&(*t)->image, &s->key, name);
	if (write_new(s, kp_str_n((*t)->image.p, (*t)->image.n), new, err)) {
		return -1;
	}
	if (renameat(s->fd, new, s->fd, file)) {
		int code = errno;
		unlinkat(s->fd, new, 0);
		return kp_err_sys(err, code, "replace `%s/%s`", s->path, file);
	}
	sweep(s);
	if (map(s, name, &mapped, err)) {
		return -1;
	}
	kp_tokenizer_unref(*t);
	*t = mapped;
	return 0;
}

/* What a tokenizer is made of: files, or a zip of them. */
struct source {
	const struct kp_tokenizer_file *files;
	size_t n;
	bool is_zip; /* one file, its name of no importance */
};

static int from_image(struct kp_token_images *s, struct kp_digest name, const struct source *src,
	struct kp_tokenizer **ret, struct kp_err *err)
{
	struct kp_err why = KP_ERR_INIT;
	if (map(s, name, ret, &why) == 0) {
		s->info.mapped++;
		return 0;
	}
	if (why.code != KP_NOT_FOUND) {
		s->info.refused++;
		s->info.last = why;
	}
	if (src->is_zip ? kp_tokenizer_from_zip(src->files[0].bytes, ret, err)
			: kp_tokenizer_from_files(src->files, src->n, ret, err)) {
		return -1;
	}
	s->info.built++;
	why = KP_ERR_INIT;
	if (keep(s, name, ret, &why)) {
		s->info.unwritten++;
		s->info.last = why;
	}
	return 0;
}

/* The part of a file that says what the tokenizer is. */
static kp_str relevant(kp_str bytes)
{
	struct kp_gguf g;
	struct kp_gguf_value v;
	struct kp_err err = KP_ERR_INIT;
	int r = 1;
	if (!kp_gguf_is(bytes) || kp_gguf_open(&g, bytes, KP_TOKEN_MAX_INPUT, &err)) {
		return bytes;
	}
	while (r > 0) {
		r = kp_gguf_next(&g, &v, &err);
	}
	return r ? kp_str_sub(bytes, 0, KP_TOKEN_MAX_INPUT) : kp_str_sub(bytes, 0, g.at);
}

static int get(struct kp_token_images *s, const struct source *src, struct kp_tokenizer **ret,
	struct kp_err *err)
{
	struct kp_digest name = s->build;
	for (size_t i = 0; i < src->n; i++) {
		const struct kp_tokenizer_file *f = &src->files[i];
		const struct kp_digest parts[] = { name, kp_digest(&s->key, f->name),
			kp_digest(&s->key, relevant(f->bytes)) };
		name = kp_digest(&s->key, kp_str_n(parts, sizeof(parts)));
	}
	return from_image(s, name, src, ret, err);
}

int kp_token_images_zip(
	struct kp_token_images *s, kp_str zip, struct kp_tokenizer **ret, struct kp_err *err)
{
	const struct kp_tokenizer_file file = { .name = KP_S("a zip"), .bytes = zip };
	const struct source src = { &file, 1, true };
	return s ? get(s, &src, ret, err) : kp_tokenizer_from_zip(zip, ret, err);
}

static int load_files(void *ctx, const struct kp_tokenizer_file *files, size_t n,
	struct kp_tokenizer **ret, struct kp_err *err)
{
	const struct source src = { files, n, false };
	return get(ctx, &src, ret, err);
}

int kp_token_images_path(
	struct kp_token_images *s, const char *path, struct kp_tokenizer **ret, struct kp_err *err)
{
	return kp_load_path(path, s ? load_files : NULL, s, ret, err);
}
