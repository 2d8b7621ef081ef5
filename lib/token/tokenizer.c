/* DESIGN: life and facts of a tokenizer: one reference-counted immutable object over one block of flat arrays (image.h). A serial
   number is never used again in the process. */
#include "token/internal.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <string.h>

enum { ARENA_MAX = 64 << 20 };

struct kp_tokenizer *kp_tokenizer_new(struct kp_err *err)
{
	static atomic_uint last_serial;
	unsigned serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
	if (serial == 0) {
		kp_err_set(err, KP_RESOURCE_EXHAUSTED, "load tokenizer: no serial numbers left");
		return NULL;
	}
	struct kp_tokenizer *t = kp_new(struct kp_tokenizer);
	kp_ref_init(&t->ref);
	t->serial = serial;
	t->arena = kp_arena_create(ARENA_MAX);
	t->info = (struct kp_tokenizer_info){
		.bos = KP_NO_ID, .eos = KP_NO_ID, .pad = KP_NO_ID, .unk = KP_NO_ID
	};
	t->limits.max_length = SIZE_MAX;
	return t;
}

struct kp_tokenizer *kp_tokenizer_ref(struct kp_tokenizer *t)
{
	kp_ref_get(&t->ref);
	return t;
}

/* Of one that is being built. */
static void free_tables(struct kp_tokenizer *t)
{
	if (t->decoded_blob) {
		kp_free(&t->decoded.tok);
		kp_free(&t->decoded_blob);
	}
	kp_model_fini(&t->model);
	kp_bpe_fini(&t->bpe);
	kp_words_fini(&t->words);
	kp_free(&t->vocab.tok);
	kp_free(&t->vocab.slot);
}

void kp_tokenizer_unref(struct kp_tokenizer *t)
{
	if (!t || !kp_ref_put(&t->ref)) {
		return;
	}
	kp_matcher_fini(&t->raw);
	kp_matcher_fini(&t->normalized);
	kp_norm_fini(&t->norm);
	kp_split_fini(&t->split);
	kp_decoder_fini(&t->decoder);
	if (!t->borrows) {
		free_tables(t);
	}
	kp_token_image_fini(&t->image);
	kp_arena_destroy(t->arena);
	kp_free(&t);
}

const struct kp_tokenizer_info *kp_tokenizer_info(const struct kp_tokenizer *t)
{
	return &t->info;
}

static bool is_known(const struct kp_tokenizer *t, kp_id id)
{
	return id < t->vocab.n && (t->vocab.tok[id].flags & KP_TOK_KNOWN);
}

kp_str kp_tokenizer_token_bytes(const struct kp_tokenizer *t, kp_id id)
{
	return is_known(t, id) ? kp_vocab_bytes(&t->decoded, id) : KP_STR_NULL;
}

bool kp_tokenizer_is_special(const struct kp_tokenizer *t, kp_id id)
{
	return is_known(t, id) && (t->vocab.tok[id].flags & KP_TOK_SPECIAL);
}

kp_id kp_tokenizer_find(const struct kp_tokenizer *t, kp_str text)
{
	for (size_t i = 0; i < t->n_added; i++) {
		if (kp_str_eq(t->added[i].shown, text)) {
			return t->added[i].id;
		}
	}
	kp_id id = t->vocab.slot ? kp_vocab_find(&t->vocab, text) : KP_BPE_NO_ID;
	return id == KP_BPE_NO_ID ? KP_NO_ID : id;
}

bool kp_tokenizer_added(
	const struct kp_tokenizer *t, size_t i, kp_id *ret_id, kp_str *ret_text, bool *ret_special)
{
	if (i >= t->n_added) {
		return false;
	}
	*ret_id = t->added[i].id;
	*ret_text = t->added[i].shown;
	*ret_special = t->added[i].flags & KP_ADDED_SPECIAL;
	return true;
}

size_t kp_added_index(const struct kp_tokenizer *t, kp_id id)
{
	size_t lo = 0, hi = t->n_added;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (t->added[mid].id < id) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < t->n_added && t->added[lo].id == id ? lo : SIZE_MAX;
}
