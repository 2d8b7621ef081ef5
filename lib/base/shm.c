/* DESIGN: O_TMPFILE and linkat, so that nothing has a name before it must; a lock file is locked before it has one, so that nobody takes it for
   a dead one's in between. A dead process's lock can be had; who has it takes away first the names, then the lock file. */
#include "base/shm.h"

#include "base/fs.h"
#include "base/rand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/dev/shm"
#define PREFIX "kelpie-"
enum { ID = 12, PATH = 300 };

static bool path_of(const char *name, char ret[PATH])
{
	int n = snprintf(ret, PATH, FOLDER "/%s", name);
	return n > 0 && n < PATH;
}

static mode_t mode_of_folder(void)
{
	struct stat st;
	return stat(FOLDER, &st) == 0 && !(st.st_mode & S_ISVTX) ? 0644 : 0600;
}

static int open_nameless(mode_t mode, struct kp_err *err)
{
	int fd = open(FOLDER, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (fd < 0) {
		return kp_err_sys(err, errno, "make a file in `" FOLDER "`");
	}
	if (fchmod(fd, mode)) { /* whatever the umask is */
		kp_err_sys(err, errno, "make a file in `" FOLDER "`");
		close(fd);
		return -1;
	}
	return fd;
}

static int name_it(int fd, const char *name, struct kp_err *err)
{
	char from[64], path[PATH];
	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	if (!path_of(name, path)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "name `%s`: too long", name);
	}
	return linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW)
		       ? kp_err_sys(err, errno, "name `%s`", path)
		       : 0;
}

int kp_shm_create(struct kp_shm *s, size_t n, struct kp_err *err)
{
	int fd = open_nameless(mode_of_folder(), err);
	if (fd < 0) {
		return -1;
	}
	/* What is promised here would else be a SIGBUS when it is written. */
	int failed = n ? posix_fallocate(fd, 0, (off_t)n) : EINVAL;
	if (failed) {
		close(fd);
		kp_err_sys(err, failed, "take %zu bytes of `" FOLDER "`", n);
		err->code = KP_RESOURCE_EXHAUSTED;
		return -1;
	}
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		kp_err_sys(err, errno, "map %zu bytes of `" FOLDER "`", n);
		close(fd);
		return -1;
	}
	*s = (struct kp_shm){ .p = p, .n = n, .fd = fd };
	return 0;
}

int kp_shm_write(const struct kp_shm *s, size_t at, kp_str bytes, struct kp_err *err)
{
	KP_BUG_ON(at > s->n || bytes.n > s->n - at);
	while (bytes.n) {
		ssize_t n = pwrite(s->fd, bytes.p, bytes.n, (off_t)at);
		if (n == 0 || (n < 0 && errno != EINTR)) {
			int e = n ? errno : ENOSPC;
			return kp_err_sys(err, e, "write to `" FOLDER "`");
		}
		at += n > 0 ? (size_t)n : 0;
		bytes = kp_str_skip(bytes, n > 0 ? (size_t)n : 0);
	}
	return 0;
}

void kp_shm_fini(struct kp_shm *s)
{
	if (s->p) {
		munmap(s->p, s->n);
		close(s->fd);
	}
	*s = (struct kp_shm){ .fd = -1 };
}

int kp_shm_link(const struct kp_shm *s, const char *name, struct kp_err *err)
{
	return name_it(s->fd, name, err);
}

void kp_shm_unlink(const char *name)
{
	char path[PATH];
	if (path_of(name, path)) {
		(void)unlink(path);
	}
}

static char namespace_text[80];

static void find_namespace(void)
{
	KP_AUTO(buf) struct kp_buf id;
	struct kp_err err;
	struct stat st;
	kp_buf_init(&id, 64);
	if (kp_fs_read("/proc/sys/kernel/random/boot_id", &id, &err) == 0 &&
		stat(FOLDER, &st) == 0) {
		snprintf(namespace_text, sizeof(namespace_text), "%" KP_FMT ":%llu",
			KP_ARG(kp_str_trim(kp_buf_str(&id))), (unsigned long long)st.st_dev);
	}
}

const char *kp_shm_namespace(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_namespace);
	return namespace_text;
}

/* --- who lives ------------------------------------------------------------------------------------------------------- */

/* The ID of "kelpie-ID.lock" and "kelpie-ID-N"; empty: another name. */
static kp_str id_of(const char *name, bool *is_lock)
{
	kp_str s = kp_str_c(name), rest = kp_str_skip(s, sizeof(PREFIX) - 1 + ID);
	*is_lock = kp_str_eq(rest, KP_S(".lock"));
	bool is_ours =
		kp_str_starts(s, KP_S(PREFIX)) && (*is_lock || kp_str_starts(rest, KP_S("-")));
	return is_ours ? kp_str_sub(s, sizeof(PREFIX) - 1, sizeof(PREFIX) - 1 + ID) : KP_STR_NULL;
}

/* All names of one process. */
static size_t take_away(kp_str id)
{
	DIR *d = opendir(FOLDER);
	size_t n = 0;
	for (const struct dirent *e; d && (e = readdir(d));) {
		bool is_lock;
		if (kp_str_eq(id_of(e->d_name, &is_lock), id) && !is_lock) {
			kp_shm_unlink(e->d_name);
			n++;
		}
	}
	if (d) {
		closedir(d);
	}
	return n;
}

int kp_shm_owner_open(struct kp_shm_owner *o, struct kp_err *err)
{
	char name[sizeof(PREFIX) + ID + 8];
	o->lock = open_nameless(0600, err);
	if (o->lock < 0) {
		return -1;
	}
	kp_random_id(o->id, ID);
	snprintf(name, sizeof(name), PREFIX "%s.lock", o->id);
	int r = flock(o->lock, LOCK_EX | LOCK_NB) ? kp_err_sys(err, errno, "lock `%s`", name)
						  : name_it(o->lock, name, err);
	if (r) {
		close(o->lock);
		o->lock = -1;
		return -1;
	}
	return 0;
}

void kp_shm_owner_close(struct kp_shm_owner *o)
{
	char name[sizeof(PREFIX) + ID + 8];
	if (o->lock < 0) {
		return;
	}
	take_away(kp_str_c(o->id));
	snprintf(name, sizeof(name), PREFIX "%s.lock", o->id);
	kp_shm_unlink(name);
	close(o->lock);
	o->lock = -1;
}

size_t kp_shm_reap(void)
{
	DIR *d = opendir(FOLDER);
	size_t n = 0;
	for (const struct dirent *e; d && (e = readdir(d));) {
		char path[PATH];
		bool is_lock;
		kp_str id = id_of(e->d_name, &is_lock);
		if (!id.n || !is_lock || !path_of(e->d_name, path)) {
			continue;
		}
		int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
			n += take_away(id);
			(void)unlink(path);
		}
		if (fd >= 0) {
			close(fd);
		}
	}
	if (d) {
		closedir(d);
	}
	return n;
}
