/* DESIGN: lib/api reads and checks the files, program.c resolves them; here every problem becomes a
 * log line and a line of the readiness report. */
#include "sidecar/control/source_files.h"

#include "base/map.h"
#include "obs/log.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

static void report(const struct kp_problems *problems, struct kp_buf *out)
{
	for (size_t i = 0; i < problems->n; i++) {
		KP_AUTO(buf) struct kp_buf line;
		kp_buf_init(&line, 8192);
		kp_problem_write(&problems->p[i], &line);
		kp_log(problems->p[i].warning ? KP_LOG_WARN : KP_LOG_ERROR, "manifest",
			kp_f_str("problem", kp_buf_str(&line)));
		if (!problems->p[i].warning) {
			kp_buf_lit(out, "    ");
			kp_buf_add(out, kp_buf_str(&line));
			kp_buf_addc(out, '\n');
		}
	}
}

int kp_source_files_load(const char *path, kp_str ns, struct kp_program **ret,
	struct kp_buf *errors, size_t *ret_n_errors, struct kp_err *err)
{
	struct kp_problems problems;
	struct kp_object_set set = { 0 };
	kp_problems_init(&problems);
	int r = kp_manifest_load(path, ns, &set, &problems, err);
	if (r == 0) {
		r = kp_program_build(&set, ns, &problems, ret, err);
	}
	report(&problems, errors);
	*ret_n_errors = problems.n_errors;
	kp_object_set_fini(&set);
	kp_problems_fini(&problems);
	return r;
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

uint64_t kp_source_files_signature(const char *path)
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
