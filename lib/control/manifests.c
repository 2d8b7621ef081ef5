/* DESIGN: lib/api reads and checks the files; here every problem becomes a log line and a line of the
 * text that people see. */
#include "control/manifests.h"

#include "base/map.h"
#include "obs/log.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

void kp_manifests_init(struct kp_manifests *m, const char *path, kp_str ns)
{
	*m = (struct kp_manifests){ .path = path, .ns = ns };
	kp_buf_init(&m->errors, 1 << 18);
}

void kp_manifests_fini(struct kp_manifests *m)
{
	kp_buf_fini(&m->errors);
}

static void report(struct kp_manifests *m, const struct kp_problems *problems)
{
	for (size_t i = 0; i < problems->n; i++) {
		KP_AUTO(buf) struct kp_buf line;
		kp_buf_init(&line, 8192);
		kp_problem_write(&problems->p[i], &line);
		kp_log(problems->p[i].warning ? KP_LOG_WARN : KP_LOG_ERROR, "manifest",
			kp_f_str("problem", kp_buf_str(&line)));
		if (!problems->p[i].warning) {
			kp_buf_lit(&m->errors, "    ");
			kp_buf_add(&m->errors, kp_buf_str(&line));
			kp_buf_addc(&m->errors, '\n');
		}
	}
}

/* What changes when a file does. */
static void add_file(struct kp_buf *b, const char *path)
{
	struct stat st;
	if (stat(path, &st) == 0) {
		kp_buf_printf(b, "%s %lld %lld %lld.%09ld %lld.%09ld\n", path, (long long)st.st_ino,
			(long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
			(long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	}
}

/* Changes whenever a file is added, removed, replaced or written. 0: nothing can be read there. */
static uint64_t signature(const char *path)
{
	static const uint8_t key[16] = { 0 };
	struct dirent **names = NULL;
	KP_AUTO(buf) struct kp_buf all;
	kp_buf_init(&all, 4 << 20);
	add_file(&all, path);
	int n = scandir(path, &names, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		KP_AUTO(buf) struct kp_buf file;
		kp_buf_init(&file, 8192);
		kp_buf_printf(&file, "%s/%s", path, names[i]->d_name);
		if (kp_buf_cstr(&file)) {
			add_file(&all, file.p);
		}
		kp_mem_free(names[i]);
	}
	kp_mem_free(names);
	return all.n ? kp_siphash(all.p, all.n, key) : 0;
}

bool kp_manifests_look(struct kp_manifests *m)
{
	uint64_t now = signature(m->path);
	bool is_new = now == m->seen && now != m->taken;
	m->seen = now;
	return is_new;
}

int kp_manifests_read(struct kp_manifests *m, struct kp_object_set *ret,
	int (*check)(void *ctx, const struct kp_object_set *set, struct kp_problems *problems,
		struct kp_err *err),
	void *ctx, struct kp_err *err)
{
	struct kp_problems problems;
	struct kp_object_set set = { 0 };
	kp_problems_init(&problems);
	kp_buf_reset(&m->errors);
	m->seen = m->taken = signature(m->path); /* before: a write meanwhile is seen */
	int r = kp_manifest_load(m->path, m->ns, &set, &problems, err);
	if (r == 0 && check) {
		r = check(ctx, &set, &problems, err);
	}
	if (r == 0 && problems.n_errors) {
		r = kp_problems_err(&problems, err);
	}
	report(m, &problems);
	m->n_errors = problems.n_errors;
	if (r == 0) {
		m->read_wall_ns = kp_wall_ns();
		*ret = set;
	} else {
		m->n_errors = KP_MAX(m->n_errors, (size_t)1);
		if (m->errors.n == 0) {
			kp_buf_printf(&m->errors, "    %s\n", err->msg);
		}
		kp_object_set_fini(&set);
	}
	kp_problems_fini(&problems);
	return r;
}
