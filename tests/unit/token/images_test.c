/* Images of tokenizers: made once, mapped from then on, equal in everything; what is damaged, cut, of other files or of another program is refused,
   said why, and built anew; the directory has to be ours. */
#include "base/fs.h"
#include "base/rand.h"
#include "token/images.h"
#include "made.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG                                                                 \
	"{\"eos_token\":\"<e>\",\"bos_token\":\"<b>\",\"add_bos_token\":true," \
	"\"chat_template\":\"{{ messages }}\"}"
#define ADDED \
	"{\"id\":276,\"content\":\"<e>\",\"special\":true},{\"id\":277,\"content\":\"<b>\",\"special\":true}"

struct place {
	char root[64], model[96], images[96];
	struct kp_token_images *s;
};

static void write_file(const char *dir, const char *name, kp_str text)
{
	struct kp_err err = KP_ERR_INIT;
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(kp_fs_write_atomic(path, text, 0600, &err), 0);
}

static void write_model(const char *dir, uint64_t seed, bool ignore_merges)
{
	static struct made made;
	struct kp_rng r;
	struct kp_buf json;
	kp_rng_seed(&r, seed);
	made_init(&made, &r, 20, false);
	kp_buf_init(&json, 16 << 20);
	made_json(&made, made_pretoks[0], true, ignore_merges, ADDED, &json);
	write_file(dir, "tokenizer.json", kp_buf_str(&json));
	write_file(dir, "tokenizer_config.json", KP_S(CONFIG));
	kp_buf_fini(&json);
	kp_arena_destroy(made.arena);
}

static struct place *place_new(void)
{
	struct kp_err err = KP_ERR_INIT;
	struct place *p = kp_new(struct place);
	snprintf(p->root, sizeof(p->root), "/tmp/kp-images-XXXXXX");
	assert_non_null(mkdtemp(p->root));
	snprintf(p->model, sizeof(p->model), "%s/model", p->root);
	snprintf(p->images, sizeof(p->images), "%s/images", p->root);
	assert_int_equal(mkdir(p->model, 0700), 0);
	write_model(p->model, 1, false);
	assert_int_equal(kp_token_images_open(p->images, &p->s, &err), 0);
	return p;
}

static void place_free(struct place *p)
{
	char command[128];
	kp_token_images_close(p->s);
	snprintf(command, sizeof(command), "rm -rf %s", p->root);
	assert_int_equal(system(command), 0);
	kp_free(&p);
}

static struct kp_tokenizer *load(struct place *p)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	if (kp_token_images_path(p->s, p->model, &t, &err)) {
		fail_msg("%s", err.msg);
	}
	return t;
}

static void counts(const struct place *p, unsigned mapped, unsigned built, unsigned refused)
{
	const struct kp_token_images_info *i = kp_token_images_info(p->s);
	assert_int_equal(i->mapped, mapped);
	assert_int_equal(i->built, built);
	assert_int_equal(i->refused, refused);
}

/* The only image in the directory. */
static void image_path(const struct place *p, char ret[512])
{
	DIR *d = opendir(p->images);
	size_t n = 0;
	for (struct dirent *e; (e = readdir(d));) {
		if (kp_str_ends(kp_str_c(e->d_name), KP_S(".tokenizer"))) {
			snprintf(ret, 512, "%s/%s", p->images, e->d_name);
			n++;
		}
	}
	closedir(d);
	assert_int_equal(n, 1);
}

static void same(const struct kp_tokenizer *a, const struct kp_tokenizer *b)
{
	const struct kp_tokenizer_info *x = kp_tokenizer_info(a), *y = kp_tokenizer_info(b);
	assert_int_equal(x->fingerprint, y->fingerprint);
	assert_int_equal(x->vocab_size, y->vocab_size);
	assert_int_equal(x->eos, y->eos);
	assert_int_equal(x->bos, y->bos);
	assert_int_equal(x->n_eog, y->n_eog);
	assert_int_equal(x->add_bos, y->add_bos);
	assert_true(kp_str_eq(x->chat_template, y->chat_template));
	assert_true(kp_str_eq(x->kind, y->kind));
	struct kp_err err = KP_ERR_INIT;
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	struct kp_text text = kp_text_trusted(
		KP_S("abc == 12\n\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87<e> aab \xd0\xb0 c=12abcabc"));
	struct kp_encode_opts opts = { .add_special = true };
	struct kp_ids p, q;
	kp_ids_init(&p, 1 << 16);
	kp_ids_init(&q, 1 << 16);
	assert_int_equal(kp_tokenizer_encode(a, s, &text, &opts, &p, &err), 0);
	assert_int_equal(kp_tokenizer_encode(b, s, &text, &opts, &q, &err), 0);
	assert_int_equal(p.n, q.n);
	assert_memory_equal(p.p, q.p, p.n * sizeof(kp_id));
	for (kp_id id = 0; id < x->vocab_size; id++) {
		assert_true(kp_str_eq(
			kp_tokenizer_token_bytes(a, id), kp_tokenizer_token_bytes(b, id)));
	}
	kp_ids_fini(&p);
	kp_ids_fini(&q);
	kp_token_scratch_destroy(s);
}

static void made_once(void **state)
{
	(void)state;
	struct place *p = place_new();
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *plain = NULL;
	assert_int_equal(kp_tokenizer_from_path(p->model, &plain, &err), 0);
	struct kp_tokenizer *first = load(p), *second = load(p);
	counts(p, 1, 1, 0);
	same(plain, first);
	same(plain, second);
	char path[512];
	struct stat st;
	image_path(p, path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(p->images, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	/* Another process: the same image. */
	struct kp_token_images *other;
	struct kp_tokenizer *third = NULL;
	assert_int_equal(kp_token_images_open(p->images, &other, &err), 0);
	assert_int_equal(kp_token_images_path(other, p->model, &third, &err), 0);
	assert_int_equal(kp_token_images_info(other)->mapped, 1);
	same(plain, third);
	kp_token_images_close(other);
	/* It may go while it is mapped. */
	unlink(path);
	same(plain, third);
	kp_tokenizer_unref(plain);
	kp_tokenizer_unref(first);
	kp_tokenizer_unref(second);
	kp_tokenizer_unref(third);
	place_free(p);
}

static void files_change(void **state)
{
	(void)state;
	struct place *p = place_new();
	kp_tokenizer_unref(load(p));
	write_file(p->model, "generation_config.json", KP_S("{\"eos_token_id\":277}"));
	struct kp_tokenizer *t = load(p);
	counts(p, 0, 2, 0);
	assert_int_equal(kp_tokenizer_info(t)->n_eog, 2);
	kp_tokenizer_unref(t);
	write_model(p->model, 2, true);
	kp_tokenizer_unref(load(p));
	counts(p, 0, 3, 0);
	/* The same files under another path are the same tokenizer. */
	char moved[128];
	snprintf(moved, sizeof(moved), "%s/moved", p->root);
	assert_int_equal(rename(p->model, moved), 0);
	snprintf(p->model, sizeof(p->model), "%.80s/moved", p->root);
	kp_tokenizer_unref(load(p));
	counts(p, 1, 3, 0);
	place_free(p);
}

static void overwrite(const char *path, size_t at, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, (off_t)at), n);
	close(fd);
}

static void damaged(void **state)
{
	(void)state;
	struct place *p = place_new();
	struct kp_rng r;
	struct kp_tokenizer *plain = load(p);
	struct stat st;
	char path[512];
	unsigned refused = 0;
	kp_rng_seed(&r, 5);
	image_path(p, path);
	assert_int_equal(stat(path, &st), 0);
	for (int i = 0; i < 60; i++) {
		size_t at =
			i < 30 ? (size_t)i * 16 : (size_t)kp_rng_below(&r, (uint64_t)st.st_size);
		char byte;
		struct kp_err err = KP_ERR_INIT;
		struct kp_buf all;
		kp_buf_init(&all, 64 << 20);
		assert_int_equal(kp_fs_read(path, &all, &err), 0);
		byte = (char)(all.p[at] ^ (1 << kp_rng_below(&r, 8)));
		kp_buf_fini(&all);
		overwrite(path, at, &byte, 1);
		struct kp_tokenizer *t = load(p);
		counts(p, 0, refused + 2, refused + 1);
		refused++;
		assert_int_equal(kp_token_images_info(p->s)->last.code, KP_DATA_LOSS);
		same(plain, t);
		kp_tokenizer_unref(t);
	}
	assert_string_equal(
		kp_token_images_info(p->s)->last.msg, "read image of a tokenizer: `checksum`");
	for (int i = 0; i < 20; i++) {
		off_t to = i < 4 ? (off_t[]){ 0, 1, 100, 4096 }[i]
				 : (off_t)kp_rng_below(&r, (uint64_t)st.st_size);
		assert_int_equal(truncate(path, to), 0);
		struct kp_tokenizer *t = load(p);
		refused++;
		counts(p, 0, refused + 1, refused);
		same(plain, t);
		kp_tokenizer_unref(t);
	}
	/* Longer than it was. */
	assert_int_equal(truncate(path, st.st_size + 4096), 0);
	kp_tokenizer_unref(load(p));
	counts(p, 0, refused + 2, refused + 1);
	kp_tokenizer_unref(plain);
	place_free(p);
}

/* What an image says is held against its name, and what a file is against what it should be. */
static void exchanged(void **state)
{
	(void)state;
	struct place *p = place_new();
	char first[512], second[512];
	kp_tokenizer_unref(load(p));
	image_path(p, first);
	snprintf(second, sizeof(second), "%.80s/aside", p->root);
	assert_int_equal(rename(first, second), 0);
	write_model(p->model, 2, false);
	kp_tokenizer_unref(load(p));
	image_path(p, first);
	assert_int_equal(rename(second, first), 0);
	kp_tokenizer_unref(load(p));
	counts(p, 0, 3, 1);
	assert_string_equal(kp_token_images_info(p->s)->last.msg,
		"read image of a tokenizer: `of other files`");
	/* A link to somewhere else, a directory, a FIFO. */
	assert_int_equal(rename(first, second), 0);
	assert_int_equal(symlink(second, first), 0);
	kp_tokenizer_unref(load(p));
	counts(p, 0, 4, 2);
	unlink(first);
	assert_int_equal(mkfifo(first, 0600), 0);
	kp_tokenizer_unref(load(p));
	counts(p, 0, 5, 3);
	unlink(first);
	/* With another key nothing that is there counts. */
	struct kp_err err = KP_ERR_INIT;
	char key[160];
	kp_tokenizer_unref(load(p));
	snprintf(key, sizeof(key), "%s/key", p->images);
	assert_int_equal(truncate(key, 7), 0);
	kp_token_images_close(p->s);
	assert_int_equal(kp_token_images_open(p->images, &p->s, &err), 0);
	kp_tokenizer_unref(load(p));
	counts(p, 0, 1, 0);
	place_free(p);
}

static void directory(void **state)
{
	(void)state;
	struct place *p = place_new();
	struct kp_err err = KP_ERR_INIT;
	struct kp_token_images *s = NULL;
	char path[160];
	snprintf(path, sizeof(path), "%s/no/such", p->root);
	assert_int_equal(kp_token_images_open(path, &s, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	snprintf(path, sizeof(path), "%s/open", p->root);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(kp_token_images_open(path, &s, &err), -1);
	assert_int_equal(err.code, KP_PERMISSION_DENIED);
	write_file(p->root, "file", KP_S("x"));
	snprintf(path, sizeof(path), "%s/file", p->root);
	assert_int_equal(kp_token_images_open(path, &s, &err), -1);
	assert_null(s);
	/* One that cannot be written into any more: the tokenizer is there all the same. */
	snprintf(path, sizeof(path), "rm -rf %s", p->images);
	assert_int_equal(system(path), 0);
	struct kp_tokenizer *t = load(p);
	counts(p, 0, 1, 0);
	assert_int_equal(kp_token_images_info(p->s)->unwritten, 1);
	assert_int_equal(kp_token_images_info(p->s)->last.code, KP_NOT_FOUND);
	kp_tokenizer_unref(t);
	place_free(p);
}

static size_t count_files(const char *dir, const char *end)
{
	DIR *d = opendir(dir);
	size_t n = 0;
	for (struct dirent *e; (e = readdir(d));) {
		n += kp_str_ends(kp_str_c(e->d_name), kp_str_c(end));
	}
	closedir(d);
	return n;
}

static void not_more_than_so_many(void **state)
{
	(void)state;
	struct place *p = place_new();
	char text[64];
	write_file(p->images, "new.tmp.1", KP_S("half"));
	snprintf(text, sizeof(text), "%.40s/new.tmp.1", p->images);
	struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
	assert_int_equal(utimensat(AT_FDCWD, text, old, 0), 0);
	for (unsigned i = 0; i < KP_IMAGES_MAX + 4; i++) {
		snprintf(text, sizeof(text), "{\"eos_token_id\":%u}", i);
		write_file(p->model, "generation_config.json", kp_str_c(text));
		kp_tokenizer_unref(load(p));
	}
	assert_int_equal(count_files(p->images, ".tokenizer"), KP_IMAGES_MAX);
	assert_int_equal(count_files(p->images, ".tmp.1"), 0);
	place_free(p);
}

/* Tables that lie: refused by name, whatever the checksum says. */
static void lying_tables(void **state)
{
	(void)state;
	struct place *p = place_new();
	struct kp_tokenizer *t = load(p);
	const struct {
		const void *table;
		size_t at; /* of four bytes */
		uint32_t value;
		const char *message;
	} lies[] = {
		{ t->vocab.tok, 8 * 'a', UINT32_MAX, "table `tokens`" },
		{ t->vocab.slot, 0, 0xfffff, "table `slots`" },
		{ t->bpe.line, kp_pair_lines(t->bpe.line_bits) * 64 - 36, 1, "table `merges`" },
		{ t->bpe.byte_pair, 4 * ('a' << 8 | 'b'), 1 << 20, "table `pairs of bytes`" },
		{ t->bpe.chars, 16, 1 << 19, "table `characters`" },
		{ t->bpe.char_index, 2 * 0x4e2c, UINT32_MAX, "table `characters`" },
		{ t->words.word, 12, 0xfffff, "table `words`" },
	};
	for (size_t i = 0; i < KP_LEN(lies) + 2; i++) {
		struct kp_err err = KP_ERR_INIT;
		struct kp_tokenizer *made = NULL;
		struct kp_token_image image;
		assert_int_equal(kp_token_image_make(t, &image, &err), 0);
		struct kp_pair_line *line =
			(struct kp_pair_line *)(void *)(image.p +
							((const char *)t->bpe.line - t->image.p));
		if (i < KP_LEN(lies)) {
			size_t at = (size_t)((const char *)lies[i].table - t->image.p) + lies[i].at;
			memcpy(image.p + at, &lies[i].value, 4);
		} else { /* a rank so high that a difference of ranks wraps round */
			size_t k = 0;
			while (line[k / 8].tag[k % 8] == 0) {
				k++;
			}
			line[k / 8].rank[k % 8] =
				i == KP_LEN(lies) ? UINT32_MAX : (uint32_t)t->bpe.n_merges + 300;
		}
		assert_int_equal(kp_token_image_open(image, &made, &err), -1);
		assert_null(made);
		assert_int_equal(err.code, KP_DATA_LOSS);
		assert_non_null(
			strstr(err.msg, i < KP_LEN(lies) ? lies[i].message : "table `merges`"));
		kp_token_image_fini(&image);
	}
	kp_tokenizer_unref(t);
	place_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made_once),
		cmocka_unit_test(files_change),
		cmocka_unit_test(damaged),
		cmocka_unit_test(exchanged),
		cmocka_unit_test(directory),
		cmocka_unit_test(not_more_than_so_many),
		cmocka_unit_test(lying_tables),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
