/* Loading: GGUF metadata, zip bundles, files and paths; limits and error texts. What tokenizer.json may hold is tests/oracle/token's. */
#include "base/fs.h"
#include "tests/unit/token/naive.h"

#include <sys/stat.h>
#include <zlib.h>

/* --- a GGUF file, key by key ------------------------------------------------------------------------------------- */

static void le(struct kp_buf *b, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		kp_buf_addc(b, (char)(v >> 8 * i));
	}
}

static void string(struct kp_buf *b, kp_str s)
{
	le(b, s.n, 8);
	kp_buf_add(b, s);
}

struct file {
	struct kp_buf body;
	uint64_t keys;
};

static void key(struct file *f, const char *name, uint32_t type)
{
	string(&f->body, kp_str_c(name));
	le(&f->body, type, 4);
	f->keys++;
}

static void key_string(struct file *f, const char *name, const char *value)
{
	key(f, name, 8);
	string(&f->body, kp_str_c(value));
}

static void key_u32(struct file *f, const char *name, uint32_t value)
{
	key(f, name, 4);
	le(&f->body, value, 4);
}

static void key_bool(struct file *f, const char *name, bool value)
{
	key(f, name, 7);
	le(&f->body, value, 1);
}

static void key_array(struct file *f, const char *name, uint32_t type, uint64_t n)
{
	key(f, name, 9);
	le(&f->body, type, 4);
	le(&f->body, n, 8);
}

static const char *const control[] = { "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<user>" };
enum { CONTROL = KP_LEN(control), N_BYTES = 256 };

/* The bytes, " t", "he", " the", then control tokens; without the byte 0x04. */
static void vocabulary(struct file *f)
{
	key_array(f, "tokenizer.ggml.tokens", 8, N_BYTES + 3 + CONTROL);
	struct kp_buf text;
	kp_buf_init(&text, 64);
	for (unsigned c = 0; c < N_BYTES; c++) {
		kp_buf_reset(&text);
		if (c == 4) {
			kp_buf_lit(&text, "unused");
		} else {
			made_byte(&text, c);
		}
		string(&f->body, kp_buf_str(&text));
	}
	string(&f->body, KP_S("Ġt"));
	string(&f->body, KP_S("he"));
	string(&f->body, KP_S("Ġthe"));
	for (size_t i = 0; i < CONTROL; i++) {
		string(&f->body, kp_str_c(control[i]));
	}
	key_array(f, "tokenizer.ggml.token_type", 5, N_BYTES + 3 + CONTROL);
	for (unsigned i = 0; i < N_BYTES + 3 + CONTROL; i++) {
		le(&f->body, i < N_BYTES + 3 ? 1 : i == N_BYTES + 6 ? 4 : 3, 4);
	}
	key_array(f, "tokenizer.ggml.merges", 8, 3);
	string(&f->body, KP_S("Ġ t"));
	string(&f->body, KP_S("h e"));
	string(&f->body, KP_S("Ġt he"));
	kp_buf_fini(&text);
}

static void whole(struct file *f, const char *model, const char *pre)
{
	kp_buf_init(&f->body, 1 << 20);
	f->keys = 0;
	key_string(f, "general.name", "made");
	key_array(f, "general.languages", 8, 1);
	string(&f->body, KP_S("en"));
	key(f, "some.float", 6);
	le(&f->body, 0, 4);
	key_string(f, "tokenizer.ggml.model", model);
	key_string(f, "tokenizer.ggml.pre", pre);
	vocabulary(f);
	key_u32(f, "tokenizer.ggml.bos_token_id", N_BYTES + 4);
	key_u32(f, "tokenizer.ggml.eos_token_id", N_BYTES + 5);
	key_string(f, "tokenizer.chat_template", "{{ messages }}");
}

static kp_str finish(struct file *f, struct kp_buf *out)
{
	kp_buf_init(out, 1 << 20);
	kp_buf_lit(out, "GGUF");
	le(out, 3, 4);
	le(out, 0, 8);
	le(out, f->keys, 8);
	kp_buf_add(out, kp_buf_str(&f->body));
	kp_buf_fini(&f->body);
	return kp_buf_str(out);
}

static void encodes(
	const struct kp_tokenizer *t, const char *text, bool special, const kp_id *want, size_t n)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	struct kp_text in = kp_text_trusted(kp_str_c(text));
	struct kp_ids ids, expected = { .p = (kp_id *)(uintptr_t)want, .n = n };
	kp_ids_init(&ids, 1000);
	assert_int_equal(kp_tokenizer_encode(t, s, &in,
				 &(struct kp_encode_opts){ .add_special = special }, &ids, &err),
		0);
	assert_ids(&ids, &expected, in.s);
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(s);
}
#define ENCODES(t, text, special, ...)                            \
	encodes(t, text, special, (const kp_id[]){ __VA_ARGS__ }, \
		sizeof((const kp_id[]){ __VA_ARGS__ }) / sizeof(kp_id))

static void refused(kp_str gguf, enum kp_code code, const char *message)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	assert_int_equal(kp_tokenizer_from_gguf(gguf, &t, &err), -1);
	assert_null(t);
	assert_string_equal(err.msg, message);
	assert_int_equal(err.code, code);
}

static void gguf_loads(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	struct file f;
	struct kp_buf out;
	whole(&f, "gpt2", "smollm");
	key_bool(&f, "tokenizer.ggml.add_bos_token", true);
	key_bool(&f, "tokenizer.ggml.add_eos_token", true);
	assert_int_equal(kp_tokenizer_from_gguf(finish(&f, &out), &t, &err), 0);
	kp_buf_fini(&out);
	const struct kp_tokenizer_info *i = kp_tokenizer_info(t);
	assert_int_equal(i->vocab_size, N_BYTES + 3 + CONTROL);
	assert_int_equal(i->bos, N_BYTES + 4);
	assert_int_equal(i->eos, N_BYTES + 5);
	assert_int_equal(i->pad, KP_NO_ID);
	assert_true(i->add_bos);
	assert_str_lit(i->chat_template, "{{ messages }}");
	assert_str_lit(i->bos_text, "<|im_start|>");
	assert_str_lit(i->eos_text, "<|im_end|>");
	assert_str_lit(i->pad_text, "");
	assert_str_lit(i->kind, "gguf:smollm");
	assert_int_equal(i->n_eog, 2);
	assert_str_lit(kp_tokenizer_token_bytes(t, N_BYTES + 2), " the");
	assert_null(kp_tokenizer_token_bytes(t, N_BYTES + 3 + CONTROL).p);
	assert_true(kp_tokenizer_is_special(t, N_BYTES + 3));
	assert_false(kp_tokenizer_is_special(t, N_BYTES + 6)); /* user-defined */
	assert_int_equal(kp_tokenizer_find(t, KP_S(" the")), N_BYTES + 2);
	assert_int_equal(kp_tokenizer_find(t, KP_S("<user>")), N_BYTES + 6);
	assert_int_equal(kp_tokenizer_find(t, KP_S("nothing")), KP_NO_ID);
	ENCODES(t, " the h", false, N_BYTES + 2, ' ', 'h');
	ENCODES(t, "x<|im_end|><user>", false, 'x', N_BYTES + 5, N_BYTES + 6);
	/* TK-02: begin and end once, and only when asked. */
	ENCODES(t, "x", true, N_BYTES + 4, 'x', N_BYTES + 5);
	/* A byte that is no token keeps its neighbours apart and gives nothing. */
	ENCODES(t,
		"h\x04"
		"e",
		false, 'h', 'e');
	ENCODES(t, "he", false, N_BYTES + 1);
	kp_id id;
	kp_str text;
	bool special;
	size_t n = 0;
	for (; kp_tokenizer_added(t, n, &id, &text, &special); n++) {
		assert_int_equal(id, N_BYTES + 3 + n);
		assert_str(text, kp_str_c(control[n]));
		assert_int_equal(special, n < 3);
	}
	assert_int_equal(n, CONTROL);
	struct kp_tokenizer *again = kp_tokenizer_ref(t);
	kp_tokenizer_unref(t);
	kp_tokenizer_unref(again);
}

static void gguf_refused(void **state)
{
	(void)state;
	struct file f;
	struct kp_buf out;
	whole(&f, "rwkv", "smollm");
	refused(finish(&f, &out), KP_UNIMPLEMENTED, "load GGUF: tokenizer model `rwkv`");
	kp_buf_fini(&out);
	whole(&f, "gpt2", "sarvam-moe");
	refused(finish(&f, &out), KP_UNIMPLEMENTED, "load GGUF: pre-tokenizer `sarvam-moe`");
	kp_buf_fini(&out);
	whole(&f, "gpt2", "smollm");
	key_u32(&f, "tokenizer.ggml.future", 1);
	refused(finish(&f, &out), KP_UNIMPLEMENTED,
		"load GGUF: unknown key `tokenizer.ggml.future`");
	kp_buf_fini(&out);
	whole(&f, "gpt2", "smollm");
	key_u32(&f, "tokenizer.ggml.eot_token_id", 5000);
	refused(finish(&f, &out), KP_INVALID_ARGUMENT,
		"load GGUF: special token id `5000` is no token");
	kp_buf_fini(&out);
	whole(&f, "gpt2", "smollm");
	key_u32(&f, "tokenizer.ggml.add_bos_token", 1);
	refused(finish(&f, &out), KP_INVALID_ARGUMENT,
		"read GGUF key `tokenizer.ggml.add_bos_token`: unexpected type 4");
	kp_buf_fini(&out);
	whole(&f, "gpt2", "smollm");
	key_array(&f, "a", 9, 1);
	refused(finish(&f, &out), KP_UNIMPLEMENTED, "read GGUF key `a`: an array of type 9");
	kp_buf_fini(&out);
	refused(KP_S("GGUX"), KP_INVALID_ARGUMENT, "read GGUF: it does not begin with `GGUF`");
	refused(KP_S("GGUF\1\0\0\0"), KP_UNIMPLEMENTED,
		"read GGUF: version `1` (2 and 3 are known, little-endian)");
	refused(KP_S("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"),
		KP_INVALID_ARGUMENT, "read GGUF: cut short at byte `32`");
}

/* Cut anywhere: an error, nothing else. */
static void gguf_cut(void **state)
{
	(void)state;
	struct file f;
	struct kp_buf out;
	whole(&f, "gpt2", "smollm");
	kp_str all = finish(&f, &out);
	for (size_t n = 0; n < all.n; n++) {
		struct kp_err err = KP_ERR_INIT;
		struct kp_tokenizer *t = NULL;
		char *copy = kp_xmalloc(n); /* of its own, so that a sanitizer sees the end */
		memcpy(copy, all.p, n);
		assert_int_equal(kp_tokenizer_from_gguf(kp_str_n(copy, n), &t, &err), -1);
		assert_true(err.msg[0]);
		kp_free(&copy);
	}
	kp_buf_fini(&out);
}

/* --- zip --------------------------------------------------------------------------------------------------------- */

struct zip {
	struct kp_buf out, directory;
	unsigned n;
};

static void zip_add(struct zip *z, const char *name, kp_str bytes, bool deflated)
{
	uLong crc = crc32(0, (const Bytef *)bytes.p, (uInt)bytes.n);
	uLongf packed_n = compressBound((uLong)bytes.n) + 64;
	Bytef *packed = kp_xmalloc(packed_n);
	z_stream d = { .next_in = (z_const Bytef *)(uintptr_t)bytes.p,
		.avail_in = (uInt)bytes.n,
		.next_out = packed,
		.avail_out = (uInt)packed_n };
	assert_int_equal(deflateInit2(&d, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&d, Z_FINISH), Z_STREAM_END);
	kp_str data = deflated ? kp_str_n(packed, d.total_out) : bytes;
	size_t at = z->out.n, name_n = strlen(name);
	le(&z->out, 0x04034b50, 4);
	le(&z->directory, 0x02014b50, 4);
	le(&z->directory, 20, 2);
	for (int k = 0; k < 2; k++) {
		struct kp_buf *b = k ? &z->directory : &z->out;
		le(b, 20, 2);
		le(b, 0, 2);
		le(b, deflated ? 8 : 0, 2);
		le(b, 0, 4);
		le(b, crc, 4);
		le(b, data.n, 4);
		le(b, bytes.n, 4);
		le(b, name_n, 2);
		le(b, 0, 2);
	}
	le(&z->directory, 0, 2 + 2 + 2);
	le(&z->directory, 0, 4);
	le(&z->directory, at, 4);
	kp_buf_addz(&z->out, name);
	kp_buf_addz(&z->directory, name);
	kp_buf_add(&z->out, data);
	z->n++;
	deflateEnd(&d);
	kp_free(&packed);
}

static void zip_init(struct zip *z)
{
	kp_buf_init(&z->out, 16 << 20);
	kp_buf_init(&z->directory, 1 << 20);
	z->n = 0;
}

static kp_str zip_finish(struct zip *z)
{
	size_t at = z->out.n;
	kp_buf_add(&z->out, kp_buf_str(&z->directory));
	le(&z->out, 0x06054b50, 4);
	le(&z->out, 0, 4);
	le(&z->out, z->n, 2);
	le(&z->out, z->n, 2);
	le(&z->out, z->directory.n, 4);
	le(&z->out, at, 4);
	le(&z->out, 0, 2);
	kp_buf_fini(&z->directory);
	return kp_buf_str(&z->out);
}

static void zip_refused(struct zip *z, const char *message)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	assert_int_equal(kp_tokenizer_from_zip(zip_finish(z), &t, &err), -1);
	assert_string_equal(err.msg, message);
	kp_buf_fini(&z->out);
}

static void zip_loads(void **state)
{
	(void)state;
	for (int k = 0; k < 4; k++) {
		struct kp_err err = KP_ERR_INIT;
		struct kp_tokenizer *t = NULL;
		struct file f;
		struct kp_buf gguf;
		struct zip z;
		whole(&f, "gpt2", "smollm");
		zip_init(&z);
		zip_add(&z, "folder/", KP_S(""), false);
		zip_add(&z, "../../etc/passwd", KP_S("a name is no path"), false);
		zip_add(&z, "tokenizer.gguf", finish(&f, &gguf), k & 1);
		if (k & 2) {
			zip_add(&z, "empty", KP_S(""), true);
		}
		assert_int_equal(kp_tokenizer_from_zip(zip_finish(&z), &t, &err), 0);
		ENCODES(t, " the", false, N_BYTES + 2);
		kp_tokenizer_unref(t);
		kp_buf_fini(&gguf);
		kp_buf_fini(&z.out);
	}
}

static void zip_lies(void **state)
{
	(void)state;
	struct zip z;
	zip_init(&z);
	zip_refused(&z,
		"load tokenizer: no `tokenizer.json`, `tekken.json`, `tokenizer.model`, .tiktoken or GGUF among 0 files");
	zip_init(&z);
	zip_add(&z, "x", KP_S("abc"), false);
	z.out.p[14] ^=
		1; /* only the directory's checksum counts, so the local one may say anything */
	zip_refused(&z,
		"load tokenizer: no `tokenizer.json`, `tekken.json`, `tokenizer.model`, .tiktoken or GGUF among 1 files");
	zip_init(&z);
	zip_add(&z, "x", KP_S("abc"), false);
	z.directory.p[16] ^= 1;
	zip_refused(&z, "entry `x`: read zip: an entry whose checksum is wrong");
	zip_init(&z);
	zip_add(&z, "x", KP_S("abcabcabcabc"), true);
	z.directory.p[24]++;
	zip_refused(&z, "entry `x`: read zip: an entry that does not inflate to its stated size");
	zip_init(&z);
	zip_add(&z, "x", KP_S("abcabcabcabc"), true);
	z.directory.p[24]--;
	zip_refused(&z, "entry `x`: read zip: an entry that does not inflate to its stated size");
	zip_init(&z);
	zip_add(&z, "x", KP_S("abc"), false);
	z.directory.p[10] = 12;
	zip_refused(&z, "entry `x`: read zip: compression method `12`");
	zip_init(&z);
	zip_add(&z, "x", KP_S("abc"), false);
	z.directory.p[8] |= 1;
	zip_refused(&z, "read zip: an encrypted entry");
	zip_init(&z);
	zip_add(&z, "x", KP_S("abc"), false);
	z.directory.p[20] = 100;
	zip_refused(&z, "read zip: an entry that ends behind the archive");
	/* A bomb says its size, or does not inflate to it. */
	zip_init(&z);
	zip_add(&z, "x", KP_S("abc"), true);
	z.directory.p[27] = 0x7f;
	zip_refused(&z, "read zip: more than `268435456` bytes unpacked");
	zip_init(&z);
	for (int i = 0; i < 1025; i++) {
		zip_add(&z, "x", KP_S(""), false);
	}
	zip_refused(&z, "read zip: `1025` files, at most 1024");
}

static void zip_cut(void **state)
{
	(void)state;
	struct zip z;
	zip_init(&z);
	zip_add(&z, "a", KP_S("some text, some text"), true);
	zip_add(&z, "b", KP_S("more"), false);
	kp_str all = zip_finish(&z);
	for (size_t n = 0; n < all.n; n++) {
		struct kp_err err = KP_ERR_INIT;
		struct kp_tokenizer *t = NULL;
		char *copy = kp_xmalloc(n);
		memcpy(copy, all.p, n);
		assert_int_equal(kp_tokenizer_from_zip(kp_str_n(copy, n), &t, &err), -1);
		kp_free(&copy);
	}
	kp_buf_fini(&z.out);
}

/* --- files ------------------------------------------------------------------------------------------------------- */

static void files_and_paths(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	struct kp_rng r;
	static struct made made;
	struct kp_buf json;
	kp_rng_seed(&r, 1);
	made_init(&made, &r, 20, false);
	kp_buf_init(&json, 16 << 20);
	made_json(&made, made_pretoks[0], true, false,
		"{\"id\":276,\"content\":\"<e>\",\"special\":true},{\"id\":277,\"content\":\"<b>\",\"special\":true}",
		&json);
	/* made_init may give the same text twice: the ids of added tokens follow the vocabulary. */
	assert_int_equal(made.n_tokens, 276);
	const struct kp_tokenizer_file files[] = {
		{ KP_S("old/tokenizer.json"), KP_S("{") },
		{ KP_S("tokenizer.json"), kp_buf_str(&json) },
		{ KP_S("tokenizer_config.json"),
			KP_S("{\"eos_token\":\"<e>\",\"bos_token\":{\"content\":\"<b>\"},\"add_bos_token\":true,"
			     "\"chat_template\":[{\"name\":\"tool\",\"template\":\"T\"},{\"name\":\"default\",\"template\":\"D\"}]}") },
		{ KP_S("generation_config.json"), KP_S("{\"eos_token_id\":[276,277]}") },
	};
	assert_int_equal(kp_tokenizer_from_files(files, KP_LEN(files), &t, &err), 0);
	const struct kp_tokenizer_info *i = kp_tokenizer_info(t);
	assert_int_equal(i->eos, 276);
	assert_int_equal(i->bos, 277);
	assert_true(i->add_bos);
	assert_int_equal(i->n_eog, 2);
	assert_str_lit(i->chat_template, "D");
	assert_str_lit(i->eos_text, "<e>");
	ENCODES(t, "z<e>", true, 277, 'z', 276);
	uint64_t fingerprint = i->fingerprint;
	kp_tokenizer_unref(t);

	char dir[] = "/tmp/kp-token-XXXXXX", path[64];
	assert_non_null(mkdtemp(dir));
	assert_int_equal(kp_tokenizer_from_path(dir, &t, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
	assert_int_equal(kp_fs_write_atomic(path, kp_buf_str(&json), 0600, &err), 0);
	assert_int_equal(kp_tokenizer_from_path(dir, &t, &err), 0);
	/* Roles are no part of what changes ids, but a begin token put in front is. */
	assert_true(kp_tokenizer_info(t)->fingerprint != fingerprint);
	kp_tokenizer_unref(t);
	unlink(path);
	snprintf(path, sizeof(path), "%s/x.gguf", dir);
	struct file f;
	struct kp_buf gguf;
	whole(&f, "gpt2", "smollm");
	assert_int_equal(kp_fs_write_atomic(path, finish(&f, &gguf), 0600, &err), 0);
	assert_int_equal(kp_tokenizer_from_path(path, &t, &err), 0);
	kp_tokenizer_unref(t);
	unlink(path);
	rmdir(dir);
	assert_int_equal(kp_tokenizer_from_path(dir, &t, &err), -1);
	kp_buf_fini(&gguf);
	kp_buf_fini(&json);
	kp_arena_destroy(made.arena);
}

/* Of special tokens that overlap llama.cpp cuts out the longest; which one of two as long ones is not known. */
static void overlapping_special_tokens(void **state)
{
	(void)state;
	struct file f;
	struct kp_buf out;
	kp_buf_init(&f.body, 1 << 20);
	f.keys = 0;
	key_string(&f, "tokenizer.ggml.model", "gpt2");
	key_string(&f, "tokenizer.ggml.pre", "smollm");
	key_array(&f, "tokenizer.ggml.tokens", 8, 2);
	string(&f.body, KP_S("<a>b"));
	string(&f.body, KP_S("bcde"));
	key_array(&f, "tokenizer.ggml.token_type", 5, 2);
	le(&f.body, 3, 4);
	le(&f.body, 3, 4);
	refused(finish(&f, &out), KP_UNIMPLEMENTED,
		"load GGUF: special tokens `<a>b` and `bcde` can overlap");
	kp_buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gguf_loads),
		cmocka_unit_test(gguf_refused),
		cmocka_unit_test(gguf_cut),
		cmocka_unit_test(zip_loads),
		cmocka_unit_test(zip_lies),
		cmocka_unit_test(zip_cut),
		cmocka_unit_test(files_and_paths),
		cmocka_unit_test(overlapping_special_tokens),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
