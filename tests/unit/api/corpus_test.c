/* The corpus of manifests: tests/corpus/manifests/{good,bad}. Each bad file says in comments which errors it has, `# error: FILE:LINE: [FIELD: ]TEXT`, and
   must have exactly those; good files have none, and exactly the warnings they name. Runs in the repository's root. */
#include "api/manifest.h"
#include "base/fs.h"
#include "base/vec.h"
#include "tests/test.h"

#include <dirent.h>

#define CORPUS "tests/corpus/manifests/"

struct lines {
	KP_VEC(char *)
	v;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_line(struct lines *l, kp_str s)
{
	char *copy = kp_xmalloc(s.n + 1);
	memcpy(copy, s.p, s.n);
	copy[s.n] = '\0';
	kp_vec_push(&l->v, copy);
}

static void free_lines(struct lines *l)
{
	for (size_t i = 0; i < l->v.n; i++) {
		kp_mem_free(l->v.p[i]);
	}
	kp_vec_fini(&l->v);
}

/* The comments of the file, as "error: ..." and "warning: ...". */
static void wanted(const char *path, struct lines *ret)
{
	KP_AUTO(buf) struct kp_buf b;
	struct kp_err err;
	kp_buf_init(&b, 4 << 20);
	assert_int_equal(kp_fs_read(path, &b, &err), 0);
	kp_str rest = kp_buf_str(&b), line;
	while (kp_str_split(&rest, '\n', &line)) {
		if (kp_str_starts(line, KP_S("# error: ")) ||
			kp_str_starts(line, KP_S("# warning: "))) {
			add_line(ret, kp_str_skip(line, 2));
		}
	}
}

static void found(const struct kp_problems *ps, struct lines *ret)
{
	for (size_t i = 0; i < ps->n; i++) {
		const struct kp_problem *p = &ps->p[i];
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, 1 << 16);
		kp_str name = kp_str_c(p->file);
		kp_buf_printf(&b, "%s: %s:%u: %s%s%s", p->warning ? "warning" : "error",
			name.p + kp_str_rfind_char(name, '/') + 1, p->line, p->field,
			p->field[0] ? ": " : "", p->message);
		add_line(ret, kp_buf_str(&b));
	}
}

/* A message that names a path names the corpus's; only the file is compared. */
static void strip_folder(struct lines *l)
{
	for (size_t i = 0; i < l->v.n; i++) {
		char *at = strstr(l->v.p[i], CORPUS "bad/");
		if (at) {
			memmove(at, at + strlen(CORPUS "bad/"),
				strlen(at + strlen(CORPUS "bad/")) + 1);
		}
	}
}

static bool check_file(const char *path, bool good)
{
	struct kp_problems ps;
	struct kp_object_set set = { 0 };
	struct kp_err err = KP_ERR_INIT;
	struct lines want = { 0 }, got = { 0 };
	kp_problems_init(&ps);
	int r = kp_manifest_load(path, KP_S("default"), &set, &ps, &err);
	wanted(path, &want);
	found(&ps, &got);
	strip_folder(&got);
	bool ok = (r == 0) == good && (good || (ps.n_errors > 0 && want.v.n > 0));
	if (want.v.n) {
		qsort(want.v.p, want.v.n, sizeof(*want.v.p), by_text);
	}
	if (got.v.n) {
		qsort(got.v.p, got.v.n, sizeof(*got.v.p), by_text);
	}
	for (size_t i = 0; i < KP_MAX(want.v.n, got.v.n); i++) {
		const char *a = i < want.v.n ? want.v.p[i] : "(nothing)",
			   *b = i < got.v.n ? got.v.p[i] : "(nothing)";
		if (strcmp(a, b) != 0) {
			print_error("%s:\n  want %s\n  got  %s\n", path, a, b);
			ok = false;
			break;
		}
	}
	if (!ok && good) {
		print_error("%s: %s\n", path, err.msg);
	}
	free_lines(&want);
	free_lines(&got);
	kp_object_set_fini(&set);
	kp_problems_fini(&ps);
	return ok;
}

static void check_folder(const char *folder, bool good, size_t at_least)
{
	struct dirent **names;
	size_t n = 0, failed = 0;
	int k = scandir(folder, &names, NULL, alphasort);
	assert_true(k > 0);
	for (int i = 0; i < k; i++) {
		if (names[i]->d_name[0] != '.') {
			char path[600];
			snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
			failed += !check_file(path, good);
			n++;
		}
		free(names[i]);
	}
	free(names);
	assert_int_equal(failed, 0);
	assert_in_range(n, at_least, 10000);
}

static void good_ones(void **state)
{
	(void)state;
	check_folder(CORPUS "good", true, 15);
}

static void bad_ones(void **state)
{
	(void)state;
	check_folder(CORPUS "bad", false, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_ones),
		cmocka_unit_test(bad_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
