/* DESIGN: one function per part says its members in order, and is run to write as well as to read, so the two cannot differ. A number is
   eight bytes, a text its length plus one (0: no text) and its bytes, a NUL behind them. Reading checks the range of each; `bad` is looked at once at the
   end. What follows from others is made anew: compiled patterns, scanners, tables of decoder operations.

   Who adds a member to one of the structs below adds it here; the assertions at the end are there to remind of it. */
#include "token/image.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/internal.h"

#include <stdio.h>

struct facts {
	struct kp_buf *out; /* NULL: reading */
	kp_str in;
	struct kp_arena *arena; /* of what is made anew */
	bool bad;
	struct kp_err *err; /* set: something could not be made anew */
};

static bool take(struct facts *f, void *to, size_t n)
{
	if (f->bad || f->in.n < n) {
		f->bad = true;
		return false;
	}
	memcpy(to, f->in.p, n);
	f->in = kp_str_skip(f->in, n);
	return true;
}

static uint64_t number(struct facts *f, uint64_t v, uint64_t max)
{
	if (f->out) {
		kp_buf_add(f->out, kp_str_n(&v, sizeof(v)));
		return v;
	}
	if (!take(f, &v, sizeof(v)) || v > max) {
		f->bad = true;
		return 0;
	}
	return v;
}
#define NUMBER(f, x, max) ((x) = (__typeof__(x))number((f), (uint64_t)(x), (max)))
#define FLAG(f, x)        NUMBER(f, x, 1)
#define ID(f, x)          NUMBER(f, x, UINT32_MAX)

static void bytes(struct facts *f, kp_str *s)
{
	if (f->out) {
		(void)number(f, s->p ? s->n + 1 : 0, 0);
		kp_buf_add(f->out, s->p ? *s : KP_S(""));
		if (s->p) {
			kp_buf_addc(f->out, 0);
		}
		return;
	}
	uint64_t n = number(f, 0, KP_IMAGE_MAX);
	*s = KP_STR_NULL;
	if (n > f->in.n || (n && f->in.p[n - 1] != 0)) {
		f->bad = true;
	} else if (n && !f->bad) {
		*s = kp_str_sub(f->in, 0, (size_t)n - 1);
		f->in = kp_str_skip(f->in, (size_t)n);
	}
}

static void text(struct facts *f, kp_str *s)
{
	bytes(f, s);
	f->bad = f->bad || (!f->out && s->p && !kp_utf8_ok(*s));
}

/* The length of an array of at most `max`. */
static size_t count(struct facts *f, size_t n, size_t max)
{
	return (size_t)number(f, n, max);
}

static void pattern(struct facts *f, struct kp_pattern *p)
{
	text(f, &p->literal);
	text(f, &p->regex);
	kp_str source = p->regex;
	enum kp_classes classes = p->classes;
	NUMBER(f, classes, KP_CLASSES_HF_1);
	if (!f->out && !f->bad && source.p && kp_pattern_regex(source, classes, p, f->err)) {
		f->bad = true;
	}
}

static void info(struct facts *f, struct kp_tokenizer *t)
{
	struct kp_tokenizer_info *i = &t->info;
	kp_id *eog = NULL;
	ID(f, i->bos);
	ID(f, i->eos);
	ID(f, i->pad);
	ID(f, i->unk);
	FLAG(f, i->add_bos);
	text(f, &i->chat_template);
	bytes(f, &i->bos_text); /* of a byte token perhaps */
	bytes(f, &i->eos_text);
	bytes(f, &i->pad_text);
	bytes(f, &i->unk_text);
	text(f, &i->kind);
	NUMBER(f, i->fingerprint, UINT64_MAX);
	i->n_eog = count(f, i->n_eog, KP_TOKEN_MAX_EOG);
	if (!f->out) {
		i->eog = eog = kp_arena_xalloc(f->arena, (i->n_eog + 1) * sizeof(kp_id));
	}
	for (size_t k = 0; k < i->n_eog; k++) {
		kp_id id = f->out ? i->eog[k] : 0;
		ID(f, id);
		if (eog) {
			eog[k] = id;
		}
	}
}

static void added(struct facts *f, struct kp_tokenizer *t)
{
	t->n_added = count(f, t->n_added, KP_TOKEN_MAX_ADDED);
	if (!f->out) {
		t->added = kp_arena_calloc(f->arena, t->n_added + 1, sizeof(*t->added));
		if (!t->added) {
			f->bad = true;
			t->n_added = 0;
		}
	}
	for (size_t i = 0; i < t->n_added && !f->bad; i++) {
		text(f, &t->added[i].text);
		bytes(f, &t->added[i].shown);
		ID(f, t->added[i].id);
		NUMBER(f, t->added[i].flags, UINT8_MAX);
	}
}

static void norm(struct facts *f, struct kp_norm *n)
{
	size_t steps = count(f, n->n, KP_NORM_MAX);
	for (size_t i = 0; i < steps && !f->bad; i++) {
		struct kp_norm_step *s = &n->step[i];
		kp_str map = s->map.blob;
		NUMBER(f, s->kind, KP_NORM_SPM);
		FLAG(f, s->left);
		FLAG(f, s->right);
		FLAG(f, s->young);
		text(f, &s->text);
		n->n = i + 1; /* its pattern is there to be freed */
		pattern(f, &s->pattern);
		bytes(f, &map);
		if (!f->out && !f->bad && map.p && kp_charsmap_init(&s->map, map, f->err)) {
			f->bad = true;
		}
	}
}

static void split(struct facts *f, struct kp_split *s)
{
	size_t steps = count(f, s->n, KP_SPLIT_MAX);
	for (size_t i = 0; i < steps && !f->bad; i++) {
		struct kp_split_step *st = &s->step[i];
		kp_str mark = kp_str_n(st->mark, st->mark_n);
		NUMBER(f, st->kind, KP_SPLIT_BYTES);
		NUMBER(f, st->behavior, KP_SPLIT_CONTIGUOUS);
		NUMBER(f, st->scheme, KP_SCHEME_FIRST);
		FLAG(f, st->invert);
		FLAG(f, st->cut);
		FLAG(f, st->plain);
		text(f, &mark);
		NUMBER(f, st->length, SIZE_MAX);
		f->bad = f->bad || mark.n > sizeof(st->mark) ||
			 (st->kind == KP_SPLIT_FIXED && st->length == 0);
		if (!f->out && !f->bad) {
			memcpy(st->mark, mark.n ? mark.p : "", mark.n);
			st->mark_n = mark.n;
		}
		s->n = i + 1;
		pattern(f, &st->pattern);
	}
}

/* The scanner by its name. */
static void pretok(struct facts *f, struct kp_tokenizer *t)
{
	static const struct kp_pretok *const known[] = { &kp_pretok_gpt2, &kp_pretok_gpt2_digits,
		&kp_pretok_smollm, &kp_pretok_cl100k_1, &kp_pretok_cl100k_3,
		&kp_pretok_cl100k_marks, &kp_pretok_o200k, &kp_pretok_deepseek, &kp_pretok_text };
	static const struct kp_pretok steps = { .name = "split" };
	kp_str name = t->pretok.name ? kp_str_c(t->pretok.name) : KP_STR_NULL;
	text(f, &name);
	if (f->out) {
		return;
	}
	const struct kp_pretok *found = kp_str_eq(name, kp_str_c(steps.name)) ? &steps : NULL;
	for (size_t i = 0; i < KP_LEN(known); i++) {
		found = kp_str_eq(name, kp_str_c(known[i]->name)) ? known[i] : found;
	}
	if (!found && !f->bad) {
		kp_err_set(f->err, KP_DATA_LOSS,
			"read image of a tokenizer: scanner `%" KP_FMT "` is not in image_facts.c",
			KP_ARG(kp_str_sub(name, 0, 80)));
	}
	f->bad = f->bad || !found;
	t->pretok = found ? *found : steps;
}

static void vocab(struct facts *f, struct kp_tokenizer *t)
{
	NUMBER(f, t->vocab.n, KP_BPE_MAX_TOKENS);
	NUMBER(f, t->vocab.blob_n, KP_IMAGE_MAX);
	NUMBER(f, t->vocab.slot_mask, KP_IMAGE_MAX);
	NUMBER(f, t->decoded.blob_n, KP_IMAGE_MAX);
	t->info.vocab_size = t->vocab.n;
}

static void bpe(struct facts *f, struct kp_bpe *b)
{
	NUMBER(f, b->line_bits, 24);
	NUMBER(f, b->n_merges, KP_BPE_MAX_MERGES);
	FLAG(f, b->by_product);
	FLAG(f, b->drop_gaps);
	ID(f, b->gap);
	NUMBER(f, b->n_chars, UINT16_MAX);
	for (size_t c = 0; c < 256; c++) {
		ID(f, b->byte_id[c]);
	}
}

static void model(struct facts *f, struct kp_model *m)
{
	uint64_t score;
	memcpy(&score, &m->unk_score, sizeof(score));
	NUMBER(f, m->kind, KP_MODEL_SPM_UNIGRAM);
	ID(f, m->unk);
	FLAG(f, m->unk_named);
	FLAG(f, m->fuse_unk);
	FLAG(f, m->byte_fallback);
	FLAG(f, m->ignore_merges);
	FLAG(f, m->whole_lines);
	FLAG(f, m->blank);
	FLAG(f, m->borders.blank);
	NUMBER(f, m->borders.blanks, KP_BORDER_BLANKS);
	NUMBER(f, m->borders.n_blocks, KP_BORDER_BLOCKS);
	text(f, &m->prefix);
	text(f, &m->suffix);
	NUMBER(f, m->max_chars, SIZE_MAX);
	NUMBER(f, score, UINT64_MAX);
	memcpy(&m->unk_score, &score, sizeof(score));
	NUMBER(f, m->prefix_node, UINT32_MAX);
	NUMBER(f, m->trie.mask, KP_IMAGE_MAX);
	NUMBER(f, m->trie.n, KP_TRIE_MAX);
	NUMBER(f, m->n_scores, KP_BPE_MAX_TOKENS);
	for (size_t c = 0; c < 256; c++) {
		ID(f, m->byte[c]);
	}
}

static void decoder(struct facts *f, struct kp_decoder *d)
{
	size_t steps = count(f, d->n, KP_DECODER_MAX);
	for (size_t i = 0; i < steps && !f->bad; i++) {
		struct kp_decoder_step *s = &d->step[i];
		NUMBER(f, s->kind, KP_DEC_BYTES);
		text(f, &s->text);
		text(f, &s->text2);
		NUMBER(f, s->start, UINT32_MAX);
		NUMBER(f, s->stop, UINT32_MAX);
		FLAG(f, s->flag);
		d->n = i + 1;
		pattern(f, &s->pattern);
	}
	size_t ops = count(f, d->n_ops, KP_DECODER_OPS);
	for (size_t i = 0; i < ops && !f->bad; i++) {
		struct kp_decoder_op op = { .start = 0 };
		struct kp_decoder_op *o = f->out ? &d->op[i] : &op;
		text(f, &o->find);
		text(f, &o->content);
		NUMBER(f, o->start, UINT32_MAX);
		NUMBER(f, o->stop, UINT32_MAX);
		FLAG(f, o->strip);
		if (!f->out && !f->bad && kp_decoder_add_op(d, op, f->arena, f->err)) {
			f->bad = true;
		}
	}
	FLAG(f, d->fallback);
	FLAG(f, d->per_char);
	NUMBER(f, d->bos_space, 2);
	bytes(f, &d->unknown);
	FLAG(f, d->dedup);
	FLAG(f, d->any_first);
	FLAG(f, d->any_last);
}

static void limits(struct facts *f, struct kp_file_limits *l)
{
	NUMBER(f, l->max_length, SIZE_MAX);
	NUMBER(f, l->stride, SIZE_MAX);
	NUMBER(f, l->pad_length, SIZE_MAX);
	NUMBER(f, l->pad_multiple, SIZE_MAX);
	ID(f, l->pad);
	FLAG(f, l->truncates);
	FLAG(f, l->only_second);
	FLAG(f, l->left);
	FLAG(f, l->pads);
	FLAG(f, l->pad_left);
}

static void ids(struct facts *f, kp_id *p, size_t *n, size_t max)
{
	*n = count(f, *n, max);
	for (size_t i = 0; i < *n; i++) {
		ID(f, p[i]);
	}
}

static void all(struct facts *f, struct kp_tokenizer *t)
{
	FLAG(f, t->nfc);
	FLAG(f, t->ignore_merges);
	FLAG(f, t->keeps_symbols);
	NUMBER(f, t->odd, KP_ODD_HF_1);
	FLAG(f, t->longest_first);
	FLAG(f, t->cut_text);
	t->n_rows = count(f, t->n_rows, KP_ROWS);
	for (size_t i = 0; i < t->n_rows; i++) {
		NUMBER(f, t->rows[i].c, 127);
		NUMBER(f, t->rows[i].most, KP_ROW_MAX);
	}
	NUMBER(f, t->words.n_lines, UINT32_MAX >> 4);
	vocab(f, t);
	bpe(f, &t->bpe);
	model(f, &t->model);
	ids(f, t->prefix, &t->n_prefix, KP_TOKEN_MAX_TEMPLATE);
	ids(f, t->suffix, &t->n_suffix, KP_TOKEN_MAX_TEMPLATE);
	limits(f, &t->limits);
	info(f, t);
	added(f, t);
	norm(f, &t->norm);
	pretok(f, t);
	split(f, &t->split);
	decoder(f, &t->decoder);
}

void kp_facts_write(struct kp_tokenizer *t, struct kp_buf *out)
{
	struct facts f = { .out = out };
	all(&f, t);
}

int kp_facts_read(struct kp_tokenizer *t, kp_str in, struct kp_err *err)
{
	struct kp_err inner = KP_ERR_INIT;
	struct facts f = { .in = in, .arena = t->arena, .err = &inner };
	all(&f, t);
	if (!f.bad && f.in.n == 0) {
		return 0;
	}
	if (inner.code) {
		*err = inner;
		err->code = KP_DATA_LOSS;
		return -1;
	}
	return kp_err_set(err, KP_DATA_LOSS, "read image of a tokenizer: `facts` make no sense");
}

/* A member more, somewhere in there? Then it is missing above, or in image.c's list (n_cuts is found anew). */
_Static_assert(sizeof(void *) != 8 || sizeof(struct kp_tokenizer) == 42832, "image_facts.c");
