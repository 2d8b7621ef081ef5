/* DESIGN: layout and life of image.h's block. The list of tables in `list` is all there is to say about them: where its pointer is, and how
   many bytes it has by the facts, so writing and reading cannot differ. Sections begin at multiples of 64, as the tables want it.
   A block is a mapping of its own, of anonymous memory or of a file, so that dropping a tokenizer gives its memory back to the system. */
#include "token/image.h"
#include "base/mem.h"
#include "token/bpe_ascii.h"
#include "token/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGN = 64, FORMAT = 6, HUGE_PAGE = 2 << 20 };

struct section {
	uint64_t at, n;
};
struct head {
	char magic[8];
	uint32_t format, n_sections;
	uint64_t size;
	struct kp_digest name, sum; /* sum: of all but itself */
	struct section facts, table[KP_IMAGE_TABLES];
};
static const char magic[8] = "kp-token";

struct table {
	void *pointer; /* of the table, in the tokenizer */
	size_t bytes;
};

#define TABLE(p, n)                              \
	{                                        \
		(void *)&(p), sizeof(*(p)) * (n) \
	}

/* The tables of a tokenizer whose facts are known, in an order that is part of the format. */
static void list(struct kp_tokenizer *t, struct table ret[KP_IMAGE_TABLES])
{
	struct kp_bpe *b = &t->bpe;
	struct kp_model *m = &t->model;
	const struct table tables[KP_IMAGE_TABLES] = {
		TABLE(t->vocab.blob, t->vocab.blob_n),
		TABLE(t->vocab.tok, t->vocab.n),
		TABLE(t->vocab.slot, t->vocab.slot_mask + 1),
		TABLE(t->decoded_blob, t->decoded.blob_n),
		TABLE(t->decoded.tok, t->vocab.n),
		TABLE(b->line, kp_pair_lines(b->line_bits)),
		TABLE(b->partners, t->vocab.n + 1),
		TABLE(b->product, b->n_merges),
		TABLE(b->byte_pair, (size_t)1 << 16),
		TABLE(b->ascii, (size_t)KP_ASCII_WORDS),
		TABLE(b->char_index, (size_t)1 << 16),
		TABLE(b->chars, b->n_chars),
		TABLE(t->words.word, ((size_t)t->words.n_lines + KP_WORD_SPILL) * 4),
		TABLE(m->trie.edge, m->trie.mask + 1),
		TABLE(m->trie.value, m->trie.n),
		TABLE(m->score, m->n_scores),
		TABLE(m->rank, m->n_scores),
		TABLE(m->char_id, (size_t)KP_MODEL_DIRECT),
		TABLE(m->borders.set, (size_t)KP_BORDER_WORDS),
		TABLE(m->borders.index, (size_t)KP_BORDER_INDEX),
		TABLE(m->borders.row, 128 * m->borders.n_blocks),
		TABLE(t->words.longer, (size_t)KP_LONGER_WORDS),
	};
	memcpy(ret, tables, sizeof(tables));
}

static char *get(const struct table *t)
{
	char *p;
	memcpy(&p, t->pointer, sizeof(p));
	return p;
}

static void set(const struct table *t, char *p)
{
	memcpy(t->pointer, &p, sizeof(p));
}

static size_t align(size_t n)
{
	return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* Memory for a block, at the begin of a huge page where it is long: its tables are looked into everywhere, and each small page is one
   translation more. NULL: there is none. */
static char *map_block(size_t n)
{
	size_t align = n >= HUGE_PAGE ? HUGE_PAGE : 0;
	char *p = mmap(NULL, n + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		return NULL;
	}
	if (align) {
		size_t before = -(uintptr_t)p & (align - 1), page = (size_t)sysconf(_SC_PAGESIZE);
		size_t end = (before + n + page - 1) & ~(page - 1),
		       all = (n + align + page - 1) & ~(page - 1);
		if (before) {
			munmap(p, before);
		}
		if (end < all) {
			munmap(p + end, all - end);
		}
		p += before;
		(void)madvise(p, n, MADV_HUGEPAGE); /* a wish; small pages do as well */
	}
	return p;
}

int kp_token_image_make(struct kp_tokenizer *built, struct kp_token_image *ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf facts;
	struct table tables[KP_IMAGE_TABLES];
	struct head h = { .format = FORMAT, .n_sections = KP_IMAGE_TABLES };
	bool own = built->decoded.tok != built->vocab.tok;
	kp_buf_init(&facts, KP_IMAGE_MAX / 2);
	kp_facts_write(built, &facts);
	if (kp_buf_finish(&facts, "image of a tokenizer", err)) {
		return -1;
	}
	list(built, tables);
	memcpy(h.magic, magic, sizeof(magic));
	size_t at = align(sizeof(h));
	h.facts = (struct section){ at, facts.n };
	at = align(at + facts.n);
	for (size_t i = 0; i < KP_IMAGE_TABLES; i++) {
		bool there = get(&tables[i]) && (own || tables[i].pointer != &built->decoded.tok);
		h.table[i] = (struct section){ at, there ? tables[i].bytes : 0 };
		at = align(at + (size_t)h.table[i].n);
		if (at > KP_IMAGE_MAX) {
			return kp_err_set(err, KP_TOO_LARGE,
				"load tokenizer: its tables have more than `%d` bytes",
				KP_IMAGE_MAX);
		}
	}
	h.size = at;
	char *p = map_block(at);
	if (!p) {
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "load tokenizer: `%zu` bytes of tables", at);
	}
	memcpy(p, &h, sizeof(h));
	memcpy(p + h.facts.at, facts.p, facts.n);
	for (size_t i = 0; i < KP_IMAGE_TABLES; i++) {
		if (h.table[i].n) {
			memcpy(p + h.table[i].at, get(&tables[i]), (size_t)h.table[i].n);
		}
	}
	*ret = (struct kp_token_image){ p, at };
	return 0;
}

static int broken(struct kp_err *err, const char *what)
{
	return kp_err_set(err, KP_DATA_LOSS, "read image of a tokenizer: `%s`", what);
}

static bool fits(struct section s, size_t size)
{
	return s.at % ALIGN == 0 && s.at >= sizeof(struct head) && s.at <= size &&
	       s.n <= size - s.at;
}

/* Points the tables into the block. */
static int attach(struct kp_tokenizer *t, const struct kp_token_image *image, const struct head *h,
	struct kp_err *err)
{
	struct table tables[KP_IMAGE_TABLES];
	list(t, tables);
	for (size_t i = 0; i < KP_IMAGE_TABLES; i++) {
		struct section s = h->table[i];
		if (!fits(s, image->n) || (s.n && s.n != tables[i].bytes)) {
			return broken(err, "tables of other sizes");
		}
		set(&tables[i], s.n ? image->p + s.at : NULL);
	}
	t->bpe.vocab = &t->vocab;
	t->decoded.n = t->vocab.n;
	t->decoded.blob = t->decoded_blob;
	if (!t->decoded.tok) {
		t->decoded = t->vocab;
	}
	return 0;
}

static int open_block(
	struct kp_tokenizer *t, const struct kp_token_image *image, struct kp_err *err)
{
	struct head h;
	if (image->n < sizeof(h)) {
		return broken(err, "cut short");
	}
	memcpy(&h, image->p, sizeof(h));
	if (memcmp(h.magic, magic, sizeof(magic)) != 0 || h.format != FORMAT ||
		h.n_sections != KP_IMAGE_TABLES) {
		return broken(err, "not of this version");
	}
	if (h.size != image->n || !fits(h.facts, image->n)) {
		return broken(err, "cut short");
	}
	kp_str facts = kp_str_n(image->p + h.facts.at, (size_t)h.facts.n);
	return kp_facts_read(t, facts, err) || attach(t, image, &h, err) ||
			       kp_token_image_check(t, err) ||
			       kp_matcher_init(&t->raw, t->added, t->n_added, false, err) ||
			       kp_matcher_init(&t->normalized, t->added, t->n_added, true, err)
		       ? -1
		       : 0;
}

int kp_token_image_open(struct kp_token_image image, struct kp_tokenizer **ret, struct kp_err *err)
{
	struct kp_tokenizer *t = kp_tokenizer_new(err);
	if (!t) {
		return -1;
	}
	t->borrows = true;
	if (open_block(t, &image, err)) {
		kp_tokenizer_unref(t);
		return -1;
	}
	t->raw.longest_first = t->longest_first;
	t->sparse = t->raw;
	for (size_t i = 0; i < t->n_rows; i++) {
		kp_matcher_leave_out(&t->sparse, t->rows[i].c);
	}
	kp_cuts_find(t);
	t->image = image;
	*ret = t;
	return 0;
}

void kp_token_image_fini(struct kp_token_image *image)
{
	if (image->p) {
		munmap(image->p, image->n);
	}
	*image = (struct kp_token_image){ NULL, 0 };
}

static struct kp_digest sum(const struct kp_token_image *image, const struct kp_digest_key *key)
{
	struct {
		struct head h;
		struct kp_digest rest;
	} all = { .rest = kp_digest(key, kp_str_n(image->p + sizeof(struct head),
						 image->n - sizeof(struct head))) };
	memcpy(&all.h, image->p, sizeof(all.h));
	all.h.sum = (struct kp_digest){ 0, 0 };
	return kp_digest(key, kp_str_n(&all, sizeof(all)));
}

void kp_token_image_sign(
	struct kp_token_image *image, const struct kp_digest_key *key, struct kp_digest name)
{
	struct head h;
	memcpy(&h, image->p, sizeof(h));
	h.name = name;
	memcpy(image->p, &h, sizeof(h));
	h.sum = sum(image, key);
	memcpy(image->p, &h, sizeof(h));
}

int kp_token_image_verify(const struct kp_token_image *image, const struct kp_digest_key *key,
	struct kp_digest name, struct kp_err *err)
{
	struct head h;
	memcpy(&h, image->p, KP_MIN(image->n, sizeof(h)));
	if (image->n < sizeof(h) || h.size != image->n) {
		return broken(err, "cut short");
	}
	if (!kp_digest_eq(h.name, name)) {
		return broken(err, "of other files");
	}
	return kp_digest_eq(sum(image, key), h.sum) ? 0 : broken(err, "checksum");
}

int kp_token_image_map(
	int directory, const char *name, struct kp_token_image *ret, struct kp_err *err)
{
	struct stat st;
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0) {
		return kp_err_sys(err, errno, "open image `%s`", name);
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
		(size_t)st.st_size < sizeof(struct head) || st.st_size > KP_IMAGE_MAX) {
		close(fd);
		return broken(err, "no file of such a size");
	}
	void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	int code = errno;
	/* When it was used last, for the one that is dropped first; a file system may not allow it. */
	(void)futimens(fd, NULL);
	close(fd);
	if (p == MAP_FAILED) {
		return kp_err_sys(err, code, "map image `%s`", name);
	}
	*ret = (struct kp_token_image){ p, (size_t)st.st_size };
	return 0;
}
