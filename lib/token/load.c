/* DESIGN: from files, a zip or a path to one of the loaders. What is there decides: a .gguf wins over tokenizer.json, since it comes
   alone. Names are compared by their last component and never opened. */
#include "token/load.h"
#include "base/fs.h"
#include "base/utf8.h"
#include "json/value.h"
#include "token/gguf.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { TEMPLATE_MAX = 1 << 20, ZIP_FILES_MAX = 1024 };

int kp_load_template(struct kp_tokenizer *t, kp_str source, struct kp_err *err)
{
	if (!source.p) {
		return 0;
	}
	if (source.n > TEMPLATE_MAX) {
		return kp_err_set(err, KP_TOO_LARGE, "load chat template: `%zu` bytes, at most %d",
			source.n, TEMPLATE_MAX);
	}
	if (!kp_utf8_ok(source)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "load `chat_template`: invalid UTF-8");
	}
	return kp_arena_dup(t->arena, source, &t->info.chat_template, err);
}

static kp_str base_name(kp_str name)
{
	ptrdiff_t slash = kp_str_rfind_char(name, '/');
	return slash < 0 ? name : kp_str_skip(name, (size_t)slash + 1);
}

/* The file with this name, the one with the shortest path when there are several; KP_STR_NULL: none. */
static kp_str pick(const struct kp_tokenizer_file *files, size_t n, kp_str name)
{
	const struct kp_tokenizer_file *best = NULL;
	for (size_t i = 0; i < n; i++) {
		if (kp_str_eq(base_name(files[i].name), name) &&
			(!best || files[i].name.n < best->name.n)) {
			best = &files[i];
		}
	}
	return best ? kp_str_n(best->bytes.n ? best->bytes.p : "", best->bytes.n) : KP_STR_NULL;
}

static const char *const spm_names[] = { "tokenizer.model", "tokenizer.model.v7",
	"tokenizer.model.v3", "tokenizer.model.v2", "tokenizer.model.v1" };

static kp_str pick_spm(const struct kp_tokenizer_file *files, size_t n)
{
	kp_str found = KP_STR_NULL;
	for (size_t i = 0; !found.p && i < KP_LEN(spm_names); i++) {
		found = pick(files, n, kp_str_c(spm_names[i]));
	}
	return found;
}

/* kelpie.json: {"tokenizers": "0.23"} or "1.0", whose ids those of a tokenizer.json are. */
static int read_version(kp_str text, bool *ret, struct kp_err *err)
{
	struct kp_jv v;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 16);
	*ret = false;
	if (!text.p) {
		return 0;
	}
	if (kp_jv_parse(text, a, &v, err)) {
		return kp_err_wrap(err, "read kelpie.json");
	}
	kp_str version = kp_jv_str(&v, KP_S("tokenizers"));
	*ret = kp_str_eq(version, KP_S("1.0"));
	if (v.type != KP_JSON_OBJECT || v.n != 1 || (!*ret && !kp_str_eq(version, KP_S("0.23")))) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"read kelpie.json: `tokenizers` must be \"0.23\" or \"1.0\", and nothing else is known");
	}
	return 0;
}

int kp_tokenizer_from_files(const struct kp_tokenizer_file *files, size_t n,
	struct kp_tokenizer **ret, struct kp_err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (kp_gguf_is(files[i].bytes)) {
			return kp_tokenizer_from_gguf(files[i].bytes, ret, err);
		}
	}
	struct kp_hf_files hf = { .tokenizer = pick(files, n, KP_S("tokenizer.json")),
		.config = pick(files, n, KP_S("tokenizer_config.json")),
		.generation = pick(files, n, KP_S("generation_config.json")),
		.chat_template = pick(files, n, KP_S("chat_template.jinja")) };
	if (read_version(pick(files, n, KP_S("kelpie.json")), &hf.version_1, err)) {
		return -1;
	}
	if (hf.version_1 && !hf.tokenizer.p) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"read kelpie.json: `tokenizers` is said of a tokenizer.json, and there is none");
	}
	kp_str spm = pick_spm(files, n), tekken = pick(files, n, KP_S("tekken.json"));
	if (!hf.tokenizer.p && tekken.p) {
		return kp_load_tekken(&hf, tekken, ret, err);
	}
	if (!hf.tokenizer.p && spm.p) {
		return kp_load_spm(spm, &hf, ret, err);
	}
	for (size_t i = 0; !hf.tokenizer.p && i < n; i++) {
		if (kp_tiktoken_is(files[i].name)) {
			return kp_load_tiktoken(
				&hf, base_name(files[i].name), files[i].bytes, ret, err);
		}
	}
	if (!hf.tokenizer.p) {
		return kp_err_set(err, KP_NOT_FOUND,
			"load tokenizer: no `tokenizer.json`, `tekken.json`, `tokenizer.model`, .tiktoken or GGUF among %zu files",
			n);
	}
	return kp_load_hf(&hf, ret, err);
}

int kp_tokenizer_from_zip(kp_str zip, struct kp_tokenizer **ret, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create((size_t)KP_TOKEN_MAX_INPUT + (1 << 20));
	struct kp_tokenizer_file *files;
	size_t n;
	if (kp_zip_read(zip, KP_TOKEN_MAX_INPUT, ZIP_FILES_MAX, NULL, a, &files, &n, err)) {
		return -1;
	}
	return kp_tokenizer_from_files(files, n, ret, err);
}

/* Reads DIR/name; a missing file is fine (*ret stays zeroed). */
static int read_file(const char *dir, const char *name, struct kp_mapping *ret, struct kp_err *err)
{
	char path[4096];
	int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (n < 0 || (size_t)n >= sizeof(path)) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "load tokenizer `%s`: path too long", dir);
	}
	struct kp_err e = KP_ERR_INIT;
	if (kp_fs_load(path, KP_TOKEN_MAX_INPUT, ret, &e) && e.code != KP_NOT_FOUND) {
		*err = e;
		return -1;
	}
	return 0;
}

static int from_files(void *ctx, const struct kp_tokenizer_file *files, size_t n,
	struct kp_tokenizer **ret, struct kp_err *err)
{
	(void)ctx;
	return kp_tokenizer_from_files(files, n, ret, err);
}

static int from_directory(const char *path, kp_load_fn *load, void *ctx, struct kp_tokenizer **ret,
	struct kp_err *err)
{
	static const char *const names[] = { "tokenizer.json", "tokenizer_config.json",
		"generation_config.json", "chat_template.jinja", "tekken.json", "tiktoken.model",
		"qwen.tiktoken", "kelpie.json", "tokenizer.model", "tokenizer.model.v7",
		"tokenizer.model.v3", "tokenizer.model.v2", "tokenizer.model.v1" };
	struct kp_mapping m[KP_LEN(names)] = { 0 };
	struct kp_tokenizer_file files[KP_LEN(names)];
	size_t n = 0;
	int r = 0;
	for (size_t i = 0; r == 0 && i < KP_LEN(names); i++) {
		r = read_file(path, names[i], &m[i], err);
		if (m[i].bytes.p) {
			files[n++] = (struct kp_tokenizer_file){ .name = kp_str_c(names[i]),
				.bytes = m[i].bytes };
		}
	}
	r = r ? -1 : load(ctx, files, n, ret, err);
	for (size_t i = 0; i < KP_LEN(names); i++) {
		kp_fs_unmap(&m[i]);
	}
	return r;
}

int kp_load_path(const char *path, kp_load_fn *load, void *ctx, struct kp_tokenizer **ret,
	struct kp_err *err)
{
	struct stat st;
	load = load ? load : from_files;
	if (stat(path, &st)) {
		return kp_err_sys(err, errno, "load tokenizer `%s`", path);
	}
	if (S_ISDIR(st.st_mode)) {
		return from_directory(path, load, ctx, ret, err)
			       ? kp_err_wrap(err, "load tokenizer `%s`", path)
			       : 0;
	}
	/* A GGUF with weights may have any size; only its metadata is looked at. */
	struct kp_mapping m = { 0 };
	if (kp_tiktoken_is(base_name(kp_str_c(path)))
			? kp_fs_load(path, KP_TOKEN_MAX_INPUT, &m, err)
			: kp_fs_map(path, SIZE_MAX, &m, err)) {
		return -1;
	}
	struct kp_tokenizer_file file = { .name = base_name(kp_str_c(path)), .bytes = m.bytes };
	int r = kp_tiktoken_is(file.name) || kp_gguf_is(m.bytes)
			? load(ctx, &file, 1, ret, err)
			: kp_err_set(err, KP_INVALID_ARGUMENT,
				  "neither GGUF nor .tiktoken; of other models give the folder with their files");
	kp_fs_unmap(&m);
	return r ? kp_err_wrap(err, "load tokenizer `%s`", path) : 0;
}

int kp_tokenizer_from_path(const char *path, struct kp_tokenizer **ret, struct kp_err *err)
{
	return kp_load_path(path, NULL, NULL, ret, err);
}
