/* Drives lib/token over stdin and stdout for the tests beside it: probe PATH [SCRATCH_BYTES]. PATH
   as kp_tokenizer_from_path takes it.

   Requests: one byte of operation, one byte of flags, then what the operation needs; numbers are
   32-bit, in the machine's order. 'e' encode: flags 1 add_special, 2 the file's limits; length, bytes -> count, ids 'r'
   the same with provenance: flags 1 add_special, policy << 1; n, n ids of control tokens, n, n ids
   of markers, n, n runs (end, origin), length, bytes                                  -> count, ids
     'd' decode: flags 1 skip_special, 2 token by token through kp_detok; n, ids -> length, bytes
     'i' facts, as text                                                          -> length, bytes
   An error is answered by UINT32_MAX, length, message. The answers of a batch may be read after all
   of it is written only if the reader runs beside the writer. */
#include "base/buf.h"
#include "base/mem.h"
#include "token/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_TEXT = 256 << 20 };

static struct kp_tokenizer *tokenizer;
static struct kp_token_scratch *scratch;

static bool get(void *p, size_t n)
{
	return fread(p, 1, n, stdin) == n;
}

static uint32_t get32(void)
{
	uint32_t v = 0;
	if (!get(&v, 4) || v > MAX_TEXT) {
		exit(2);
	}
	return v;
}

/* An array of n elements of `size` bytes; at least one byte long. */
static void *get_array(uint32_t *ret_n, size_t size)
{
	*ret_n = get32();
	void *p = kp_xmalloc(*ret_n * size + 1);
	if (!get(p, *ret_n * size)) {
		exit(2);
	}
	return p;
}

static void put(const void *p, size_t n)
{
	if (n && fwrite(p, 1, n, stdout) != n) {
		exit(2);
	}
}

static void put_block(const void *p, size_t n, size_t size)
{
	uint32_t n32 = (uint32_t)n;
	put(&n32, 4);
	put(p, n * size);
}

static void put_error(const struct kp_err *err)
{
	uint32_t mark = UINT32_MAX;
	put(&mark, 4);
	put_block(err->msg, strlen(err->msg), 1);
}

static void encode(uint8_t flags, bool provenance)
{
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(token_policy) struct kp_token_policy *policy = NULL;
	uint32_t n_control = 0, n_markers = 0, n_runs = 0, n;
	kp_id *control = NULL, *markers = NULL;
	struct kp_run *runs = NULL;
	if (provenance) {
		control = get_array(&n_control, sizeof(*control));
		markers = get_array(&n_markers, sizeof(*markers));
		runs = get_array(&n_runs, sizeof(*runs));
	}
	char *text = get_array(&n, 1);
	struct kp_ids ids;
	kp_ids_init(&ids, SIZE_MAX / 8);
	struct kp_text t = { .s = kp_str_n(text, n), .runs = runs, .n_runs = n_runs };
	int r = 0;
	if (provenance) {
		r = kp_token_policy_create(tokenizer, (enum kp_text_policy)(flags >> 1), control,
			n_control, markers, n_markers, &policy, &err);
	}
	struct kp_encode_opts opts = { .add_special = flags & 1,
		.policy = policy,
		.file_limits = !provenance && (flags & 2) };
	if (r || kp_tokenizer_encode(tokenizer, scratch, &t, &opts, &ids, &err)) {
		put_error(&err);
	} else {
		put_block(ids.p, ids.n, sizeof(kp_id));
	}
	kp_ids_fini(&ids);
	kp_free(&text);
	kp_free(&runs);
	kp_free(&control);
	kp_free(&markers);
}

static void decode(uint8_t flags)
{
	struct kp_err err = KP_ERR_INIT;
	uint32_t n;
	kp_id *ids = get_array(&n, sizeof(*ids));
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, SIZE_MAX / 4);
	int r = 0;
	if (flags & 2) {
		struct kp_detok d;
		kp_detok_init(&d, tokenizer, flags & 1);
		for (uint32_t i = 0; r == 0 && i < n; i++) {
			r = kp_detok_feed(&d, ids[i], &out, &err);
		}
		kp_detok_finish(&d, &out);
	} else {
		r = kp_tokenizer_decode(tokenizer, ids, n, flags & 1, &out, &err);
	}
	if (r) {
		put_error(&err);
	} else {
		put_block(out.p, out.n, 1);
	}
	kp_free(&ids);
}

static void facts(void)
{
	const struct kp_tokenizer_info *i = kp_tokenizer_info(tokenizer);
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, SIZE_MAX / 4);
	kp_buf_printf(&out,
		"kind %" KP_FMT
		"\nvocab_size %zu\nbos %d\neos %d\npad %d\nunk %d\nadd_bos %d\nfingerprint %016llx\neog",
		KP_ARG(i->kind), i->vocab_size, (int)i->bos, (int)i->eos, (int)i->pad, (int)i->unk,
		i->add_bos, (unsigned long long)i->fingerprint);
	for (size_t k = 0; k < i->n_eog; k++) {
		kp_buf_printf(&out, " %u", i->eog[k]);
	}
	kp_buf_lit(&out, "\nadded");
	kp_id id;
	kp_str text;
	bool special;
	for (size_t k = 0; kp_tokenizer_added(tokenizer, k, &id, &text, &special); k++) {
		kp_buf_printf(&out, " %u:%d", id, special);
	}
	kp_buf_lit(&out, "\ntemplate\n");
	kp_buf_add(&out, i->chat_template);
	put_block(out.p, out.n, 1);
}

int main(int argc, char **argv)
{
	struct kp_err err = KP_ERR_INIT;
	uint64_t bytes = 4 << 20;
	if (argc < 2 || (argc > 2 && !kp_str_u64(kp_str_c(argv[2]), 1 << 30, &bytes))) {
		fprintf(stderr, "usage: probe PATH [SCRATCH_BYTES]\n");
		return 2;
	}
	if (kp_tokenizer_from_path(argv[1], &tokenizer, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	scratch = kp_token_scratch_create((size_t)bytes);
	uint8_t head[2];
	while (get(head, 2)) {
		switch (head[0]) {
		case 'e':
			encode(head[1], false);
			break;
		case 'r':
			encode(head[1], true);
			break;
		case 'd':
			decode(head[1]);
			break;
		case 'i':
			facts();
			break;
		default:
			return 2;
		}
		fflush(stdout);
	}
	kp_token_scratch_destroy(scratch);
	kp_tokenizer_unref(tokenizer);
	return 0;
}
