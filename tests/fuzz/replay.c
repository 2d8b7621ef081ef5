/* DESIGN: the main program of a fuzz target in every variant but V=fuzz, where libFuzzer brings its own. It feeds each file named on
   the command line, and each file in the folders named there, to the target once, in the order of their names, and ends with 0;
   a bad input shows as the crash, sanitizer report or abort that it causes. The empty input comes first, as libFuzzer does it.
   So `make check-unit` replays corpora and regressions with gcc, at release flags or under valgrind. */
#include "base/fs.h"
#include "base/mem.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { INPUT_MAX = 64 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long replayed;

static void replay_file(const char *path)
{
	struct kp_err err;
	struct kp_buf b;
	kp_buf_init(&b, INPUT_MAX);
	if (kp_fs_read(path, &b, &err) != 0) {
		fprintf(stderr, "replay: %s\n", err.msg);
		exit(1);
	}
	/* The name first, so that whoever reads a crash knows the input. A copy of exact size, so that ASan sees one byte too far. */
	printf("%s (%zu bytes)\n", path, b.n);
	fflush(stdout);
	uint8_t *exact = kp_xmalloc(b.n);
	memcpy(exact, b.p, b.n);
	LLVMFuzzerTestOneInput(exact, b.n);
	kp_mem_free(exact);
	kp_buf_fini(&b);
	replayed++;
}

static int is_visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static void replay(const char *path)
{
	struct stat st;
	struct dirent **entries;
	int n = stat(path, &st) == 0 && S_ISDIR(st.st_mode)
			? scandir(path, &entries, is_visible, alphasort)
			: -1;
	if (n < 0) {
		replay_file(path);
		return;
	}
	for (int i = 0; i < n; i++) {
		struct kp_buf b;
		kp_buf_init(&b, 8192);
		kp_buf_printf(&b, "%s/%s", path, entries[i]->d_name);
		const char *name = kp_buf_cstr(&b);
		if (name) {
			replay(name);
		}
		kp_buf_fini(&b);
		free(entries[i]);
	}
	free(entries);
}

int main(int argc, char **argv)
{
	static const uint8_t nothing[1];
	LLVMFuzzerTestOneInput(nothing, 0);
	for (int i = 1; i < argc; i++) {
		replay(argv[i]);
	}
	printf("replayed %lu inputs\n", replayed);
	return 0;
}
