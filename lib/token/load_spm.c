/* DESIGN: a SentencePiece model (`tokenizer.model`, protocol buffers, its sentencepiece_model.proto) to a tokenizer that gives the ids of SentencePiece 0.2.3
   itself: models UNIGRAM and BPE, byte fallback, user-defined symbols, the precompiled map. The file is read in one pass over its fields; one that is not known is
   skipped as protocol buffers do, one that would change ids and is not known here is refused by name.

   Control pieces and user-defined ones become added tokens, so that who may write them can be told (policy.c). SentencePiece never reads control
   pieces out of text; here trusted text has them, since that is where templates write them, and what stands between two is a text of its own.

   User-defined pieces stay whole in a BPE model: they are cut out of the text. A Unigram model only prefers them, by a score of their own, so they are pieces as others
   are, and who may write one is asked where the best path could use it (spm.c). */
#include "token/load_hf.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <float.h>
#include <string.h>

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { UNIGRAM = 1, BPE = 2 };
enum { PIECE_MAX = 8000 };

struct field {
	uint64_t number, value; /* value: VARINT, FIXED */
	unsigned wire;          /* 0 varint, 1 64 bits, 2 bytes, 5 32 bits */
	kp_str bytes;
};

static int broken(struct kp_err *err)
{
	return kp_err_set(err, KP_INVALID_ARGUMENT, "load SentencePiece model: not a `ModelProto`");
}

static bool varint(kp_str *s, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; shift < 64 && s->n; shift += 7) {
		uint8_t c = (uint8_t)s->p[0];
		*s = kp_str_skip(*s, 1);
		*ret |= (uint64_t)(c & 127) << shift;
		if (c < 128) {
			return true;
		}
	}
	return false;
}

/* 1: a field, 0: the end, -1. */
static int next_field(kp_str *s, struct field *f, struct kp_err *err)
{
	uint64_t key, n;
	if (s->n == 0) {
		return 0;
	}
	if (!varint(s, &key)) {
		return broken(err);
	}
	*f = (struct field){ .number = key >> 3, .wire = key & 7 };
	if (f->wire == 0) {
		return varint(s, &f->value) ? 1 : broken(err);
	}
	n = f->wire == 1 ? 8 : f->wire == 5 ? 4 : 0;
	if ((f->wire == 2 && !varint(s, &n)) || n > s->n || f->wire == 3 || f->wire == 4 ||
		f->wire > 5) {
		return broken(err);
	}
	f->bytes = kp_str_sub(*s, 0, (size_t)n);
	*s = kp_str_skip(*s, (size_t)n);
	for (size_t i = 0; f->wire != 2 && i < n; i++) {
		f->value |= (uint64_t)(uint8_t)f->bytes.p[i] << 8 * i;
	}
	return 1;
}

struct spm {
	struct kp_hf h; /* of it: the builder, and what companion files say */
	kp_str charsmap, unk_surface;
	uint64_t model;
	bool prefix, extra, escape, suffix, byte_fallback, denormalizes;
	KP_VEC(double)
	scores;
	kp_id unk, roles[3]; /* bos, eos, pad */
	float least;
};

static int add_piece(struct spm *m, kp_str piece, float score, uint64_t type, struct kp_err *err)
{
	struct kp_build *b = &m->h.b;
	kp_id id = (kp_id)m->scores.n;
	if (piece.n == 0 || piece.n >= PIECE_MAX || type < NORMAL || type > BYTE ||
		!kp_utf8_ok(piece) || memchr(piece.p, 0, piece.n)) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "load SentencePiece model: piece `%u`", id);
	}
	if (kp_build_token(b, id, piece, err)) {
		return -1;
	}
	struct kp_tok *tok = &b->t->vocab.tok[id];
	if (type != NORMAL && type != UNUSED) { /* no model's own joins give it */
		tok->flags &= (uint8_t)~KP_TOK_WORD;
	}
	tok->shape = type == CONTROL   ? KP_SHAPE_HIDDEN
		     : type == UNKNOWN ? KP_SHAPE_UNK
		     : type == UNUSED  ? KP_SHAPE_UNUSED
				       : 0;
	if (type == UNKNOWN) {
		if (m->unk != KP_NO_ID) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load SentencePiece model: two unknown pieces, `%u`", id);
		}
		m->unk = id;
	}
	if (type == BYTE) {
		int byte = kp_decoder_byte(piece);
		if (byte < 0) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load SentencePiece model: byte piece `%u`", id);
		}
		b->t->model.byte[byte] = id;
	}
	if (type == NORMAL) {
		m->least = KP_MIN(m->least, score);
	}
	kp_vec_push(&m->scores, (double)score);
	return type == CONTROL ? kp_build_added(b, id, piece, KP_ADDED_SPECIAL, err)
	       : type == USER_DEFINED
		       ? kp_build_added(b, id, piece, KP_ADDED_SYMBOL | KP_ADDED_NORMALIZED, err)
		       : 0;
}

static int read_piece(struct spm *m, kp_str s, struct kp_err *err)
{
	struct field f;
	kp_str piece = KP_S("");
	float score = 0;
	uint64_t type = NORMAL;
	int r;
	while ((r = next_field(&s, &f, err)) > 0) {
		if (f.number == 1 && f.wire == 2) {
			piece = f.bytes;
		} else if (f.number == 2 && f.wire == 5) {
			uint32_t bits = (uint32_t)f.value;
			memcpy(&score, &bits, sizeof(score));
		} else if (f.number == 3 && f.wire == 0) {
			type = f.value;
		}
	}
	if (r == 0 && !(score > -FLT_MAX && score < FLT_MAX)) {
		return broken(err);
	}
	return r ? -1 : add_piece(m, piece, score, type, err);
}

static int read_trainer(struct spm *m, kp_str s, struct kp_err *err)
{
	struct field f;
	int r;
	while ((r = next_field(&s, &f, err)) > 0) {
		switch (f.number) {
		case 3:
			m->model = f.value;
			break;
		case 24:
			m->suffix = f.value;
			break;
		case 35:
			m->byte_fallback = f.value;
			break;
		case 41:
		case 42:
		case 43:
			m->roles[f.number - 41] = (kp_id)f.value; /* -1: none */
			break;
		case 44:
			m->unk_surface = f.bytes;
			break;
		default:
			break;
		}
	}
	return r;
}

static int read_normalizer(struct spm *m, kp_str s, struct kp_err *err)
{
	struct field f;
	int r;
	while ((r = next_field(&s, &f, err)) > 0) {
		if (f.number == 2 && f.wire == 2) {
			m->charsmap = f.bytes;
		} else if (f.number >= 3 && f.number <= 5 && f.wire == 0) {
			bool *flags[] = { &m->prefix, &m->extra, &m->escape };
			*flags[f.number - 3] = f.value;
		}
	}
	return r;
}

static int read_model(struct spm *m, kp_str s, struct kp_err *err)
{
	struct field f;
	int r;
	while ((r = next_field(&s, &f, err)) > 0) {
		if (f.wire != 2) {
			continue;
		}
		struct field inner;
		kp_str bytes = f.bytes;
		r = f.number == 1   ? read_piece(m, bytes, err)
		    : f.number == 2 ? read_trainer(m, bytes, err)
		    : f.number == 3 ? read_normalizer(m, bytes, err)
				    : 0;
		while (f.number == 5 && r == 0 && (r = next_field(&bytes, &inner, err)) > 0) {
			m->denormalizes |= inner.number == 2 && inner.bytes.n;
			r = 0;
		}
		if (r) {
			return -1;
		}
	}
	return r;
}

static int check(const struct spm *m, struct kp_err *err)
{
	const struct kp_model *model = &m->h.b.t->model;
	const char *what = m->suffix                                ? "treat_whitespace_as_suffix"
			   : !m->escape                             ? "escape_whitespaces"
			   : m->denormalizes                        ? "denormalizer_spec"
			   : m->model != UNIGRAM && m->model != BPE ? "model_type"
								    : NULL;
	if (what) {
		return kp_err_set(err, KP_UNIMPLEMENTED, "load SentencePiece model: `%s`", what);
	}
	for (size_t c = 0; m->byte_fallback && c < 256; c++) {
		if (model->byte[c] == KP_BPE_NO_ID) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load SentencePiece model: no piece for byte `%zu`", c);
		}
	}
	return m->unk == KP_NO_ID && !m->byte_fallback
		       ? kp_err_set(err, KP_INVALID_ARGUMENT,
				 "load SentencePiece model: no `unknown` piece")
		       : 0;
}

/* User-defined pieces of a Unigram model are found as others are; their score is their length's, as the reference adds it up. */
static void score_symbols(struct spm *m)
{
	for (size_t i = 0; i < m->h.b.added.n; i++) {
		const struct kp_added *a = &m->h.b.added.p[i];
		if (a->flags & KP_ADDED_SYMBOL) {
			m->scores.p[a->id] = (double)(float)(0.1 * ((double)a->shown.n - 1));
			m->h.b.t->vocab.tok[a->id].flags |= KP_TOK_WORD;
		}
	}
}

static int set_up(struct spm *m, struct kp_err *err)
{
	struct kp_tokenizer *t = m->h.b.t;
	if (m->model == UNIGRAM) {
		score_symbols(m);
	}
	struct kp_norm_step *step = &t->norm.step[0];
	t->keeps_symbols = true;
	t->norm.n = 1;
	*step = (struct kp_norm_step){ .kind = KP_NORM_SPM, .left = m->prefix, .right = m->extra };
	kp_str blob;
	if (m->charsmap.n && (kp_arena_dup(t->arena, m->charsmap, &blob, err) ||
				     kp_charsmap_init(&step->map, blob, err))) {
		return -1;
	}
	t->pretok = (struct kp_pretok){ .name = "split" };
	t->model.kind = m->model == BPE ? KP_MODEL_SPM_BPE : KP_MODEL_SPM_UNIGRAM;
	t->model.byte_fallback = m->byte_fallback;
	t->model.unk = m->unk == KP_NO_ID ? KP_BPE_NO_ID : m->unk;
	t->model.unk_score = (double)(m->least - 10.0F);
	t->info.kind = m->model == BPE ? KP_S("spm:bpe") : KP_S("spm:unigram");
	t->info.unk = m->unk;
	kp_id *roles[] = { &t->info.bos, &t->info.eos, &t->info.pad };
	for (size_t i = 0; i < KP_LEN(roles); i++) {
		if (m->roles[i] < m->scores.n &&
			t->vocab.tok[m->roles[i]].shape == KP_SHAPE_HIDDEN) {
			*roles[i] = m->roles[i];
		}
	}
	struct kp_decoder *d = &t->decoder;
	d->step[d->n++] = (struct kp_decoder_step){ .kind = KP_DEC_REPLACE,
		.pattern = kp_pattern_literal(KP_S("\xe2\x96\x81")),
		.text = KP_S(" ") };
	d->fallback = m->byte_fallback;
	d->per_char = true;
	d->bos_space = m->extra ? 2 : m->prefix ? 1 : 0;
	kp_buf_printf(
		&m->h.b.parts, "%d %d %u %u", m->prefix, m->extra, (unsigned)m->model, m->unk);
	kp_buf_add(&m->h.b.parts, m->charsmap);
	kp_buf_add(&m->h.b.parts, kp_str_n(m->scores.p, m->scores.n * sizeof(double)));
	return kp_arena_dup(t->arena, m->unk_surface, &d->unknown, err);
}

static int build(struct spm *m, kp_str model, const struct kp_hf_files *files,
	struct kp_tokenizer **ret, struct kp_err *err)
{
	struct kp_build *b = &m->h.b;
	for (size_t c = 0; c < 256; c++) {
		b->t->model.byte[c] = KP_BPE_NO_ID;
	}
	if (read_model(m, model, err)) {
		return -1;
	}
	if (m->scores.n == 0) {
		return broken(err);
	}
	if (check(m, err) || kp_build_index(b, err) || set_up(m, err) ||
		(m->model == BPE && !(b->t->model.rank = kp_spm_ranks(m->scores.p, m->scores.n)))) {
		return err->code ? -1
				 : kp_err_set(err, KP_RESOURCE_EXHAUSTED, "load `%zu` pieces",
					   m->scores.n);
	}
	b->t->model.score = m->scores.p;
	b->t->model.n_scores = m->scores.n;
	m->scores.p = NULL;
	m->h.n_vocab = m->scores.n;
	return kp_hf_config(&m->h, files, err) || kp_build_finish(b, ret, err) ? -1 : 0;
}

int kp_load_spm(kp_str model, const struct kp_hf_files *files, struct kp_tokenizer **ret,
	struct kp_err *err)
{
	struct spm m = { .unk = KP_NO_ID,
		.roles = { 1, 2, KP_NO_ID },
		.model = UNIGRAM,
		.prefix = true,
		.extra = true,
		.escape = true,
		.unk_surface = KP_S(" \xe2\x81\x87 "),
		.least = FLT_MAX };
	int r = -1;
	if (model.n > KP_TOKEN_MAX_INPUT) {
		return kp_err_set(err, KP_TOO_LARGE,
			"load SentencePiece model: `%zu` bytes, at most %d", model.n,
			KP_TOKEN_MAX_INPUT);
	}
	if (kp_build_init(&m.h.b, err) == 0) {
		m.h.b.text = true;
		m.h.parts = kp_arena_create((size_t)96 << 20);
		r = build(&m, model, files, ret, err);
	}
	kp_vec_fini(&m.scores);
	kp_arena_destroy(m.h.parts);
	kp_build_fini(&m.h.b);
	return r;
}
