/* DESIGN: a list of (name, bytes) is looked through, whether it came out of an archive or a directory. JSON is read member by member, so that
   what stands before something unreadable still counts. As transformers: templates in files win over those in tokenizer_config.json. */
#include "prompt/model_files.h"

#include "base/fs.h"
#include "json/value.h"
#include "token/gguf.h"
#include "token/load.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

enum { MAX_ZIP = 256 << 20, MAX_ZIP_FILES = 1024, MAX_FILE = 16 << 20, MAX_TEMPLATE = 1 << 20 };

#define FOLDER "additional_chat_templates/"

static kp_str keep(struct kp_arena *a, kp_str s)
{
	struct kp_err err;
	kp_str copy;
	return kp_arena_dup(a, s, &copy, &err) ? KP_S("") : copy;
}

static kp_str keep_file(struct kp_arena *a, kp_str bytes)
{
	return bytes.n <= MAX_TEMPLATE ? keep(a, bytes) : KP_S("");
}

static void add_template(struct kp_model_files *f, struct kp_arena *a, kp_str name, kp_str source)
{
	if (name.n && source.n && source.n <= MAX_TEMPLATE && !kp_str_eq(name, KP_S("default")) &&
		f->n_templates < KP_MAX_NAMED_TEMPLATES) {
		f->templates[f->n_templates++] =
			(struct kp_named_template){ keep(a, name), keep(a, source) };
	}
}

static void read_config(struct kp_model_files *f, struct kp_arena *a, kp_str text)
{
	struct kp_json j;
	struct kp_err err;
	struct kp_jv v;
	kp_str key;
	kp_json_init(&j, text, a);
	if (kp_json_object(&j, &err)) {
		return;
	}
	while (kp_json_member(&j, &key, &err) > 0) {
		if (kp_str_eq(key, KP_S("architectures"))) {
			if (kp_jv_read(&j, 1000, &v, &err)) {
				return;
			}
			if (v.type == KP_JSON_ARRAY && v.n && v.items[0].type == KP_JSON_STRING) {
				f->architecture = keep(a, v.items[0].s);
			}
		} else if (kp_str_eq(key, KP_S("model_type"))) {
			if (kp_json_string(&j, &key, &err)) {
				return;
			}
			f->model_type = keep(a, key);
		} else if (kp_str_eq(key, KP_S("vision_config"))) {
			if (kp_jv_read(&j, 1000, &v, &err)) {
				return;
			}
			const struct kp_jv *patch = kp_jv_get(&v, KP_S("patch_size"));
			uint64_t n;
			if (kp_jv_is(patch, KP_JSON_NUMBER) && kp_str_u64(patch->s, 1024, &n)) {
				f->vision_patch = (uint32_t)n;
			}
		} else if (kp_str_eq(key, KP_S("vision_feature_select_strategy"))) {
			if (kp_json_string(&j, &key, &err)) {
				return;
			}
			f->select_strategy = keep(a, key);
		} else if (kp_json_skip(&j, NULL, &err)) {
			return;
		}
	}
}

/* The first member of the top object that has this name; what stands behind it is not read. max: values in it. */
static bool read_member(
	struct kp_arena *a, kp_str text, kp_str name, uint32_t max, struct kp_jv *ret)
{
	struct kp_json j;
	struct kp_err err;
	kp_str key;
	kp_json_init(&j, text, a);
	if (kp_json_object(&j, &err)) {
		return false;
	}
	while (kp_json_member(&j, &key, &err) > 0) {
		if (kp_str_eq(key, name)) {
			return kp_jv_read(&j, max, ret, &err) == 0;
		}
		if (kp_json_skip(&j, NULL, &err)) {
			return false;
		}
	}
	return false;
}

/* tokenizer_config.json: "chat_template": [{"name", "template"}, ...] */
static void read_list(struct kp_model_files *f, struct kp_arena *a, kp_str text)
{
	struct kp_jv v;
	if (!read_member(a, text, KP_S("chat_template"), 10000, &v)) {
		return;
	}
	for (uint32_t i = 0; v.type == KP_JSON_ARRAY && i < v.n; i++) {
		add_template(f, a, kp_jv_str(&v.items[i], KP_S("name")),
			kp_jv_str(&v.items[i], KP_S("template")));
	}
}

/* A word that can stand in quotes in a template. */
static bool is_word(const struct kp_jv *v)
{
	bool ok = kp_jv_is(v, KP_JSON_STRING) && v->s.n > 0;
	for (size_t i = 0; ok && i < v->s.n; i++) {
		ok = v->s.p[i] >= 'a' && v->s.p[i] <= 'z';
	}
	return ok;
}

/* tekken.json: "model_settings_builder": {"reasoning_effort": {"values": ["none", "high"], "default": "none"}} */
static void read_efforts(struct kp_model_files *f, struct kp_arena *a, kp_str text)
{
	struct kp_jv v;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 4096);
	if (!read_member(a, text, KP_S("model_settings_builder"), 1000, &v)) {
		return;
	}
	const struct kp_jv *effort = kp_jv_get(&v, KP_S("reasoning_effort")),
			   *values = kp_jv_get(effort, KP_S("values")),
			   *holds = kp_jv_get(effort, KP_S("default"));
	if (!kp_jv_is(values, KP_JSON_ARRAY) || !is_word(holds)) {
		return;
	}
	kp_buf_lit(&out, "{%- set efforts = [");
	for (uint32_t i = 0; i < values->n; i++) {
		if (!is_word(&values->items[i])) {
			return;
		}
		kp_buf_printf(&out, "%s'%" KP_FMT "'", i ? ", " : "", KP_ARG(values->items[i].s));
	}
	kp_buf_printf(&out, "] -%%}{%%- set effort = '%" KP_FMT "' -%%}\n", KP_ARG(holds->s));
	f->efforts = keep(a, out.failed ? KP_S("") : kp_buf_str(&out));
}

/* tekken.json: "config": {"version": "v7"}, which stands before the vocabulary. */
static void read_tekken(struct kp_model_files *f, struct kp_arena *a, kp_str text)
{
	struct kp_jv v;
	if (read_member(a, text, KP_S("config"), 1000, &v)) {
		f->tekken = keep(a, kp_jv_str(&v, KP_S("version")));
		if (kp_str_eq(f->tekken, KP_S("v15"))) {
			read_efforts(f, a, text);
		}
	}
}

/* "tokenizer.model.v3", "tokenizer.model.v7m1" */
static void read_model_name(struct kp_model_files *f, kp_str base)
{
	static const char *const versions[] = { "v1", "v2", "v3", "v7" };
	const kp_str prefix = KP_S("tokenizer.model.");
	for (size_t i = 0; kp_str_starts(base, prefix) && i < KP_LEN(versions); i++) {
		kp_str v = kp_str_c(versions[i]), rest = kp_str_skip(base, prefix.n);
		if (kp_str_starts(rest, v) && (rest.n == v.n || rest.p[v.n] == 'm')) {
			f->model_version = v;
		}
	}
}

static void read_gguf(struct kp_model_files *f, struct kp_arena *a, kp_str bytes)
{
	static const char prefix[] = "tokenizer.chat_template.";
	struct kp_gguf g;
	struct kp_gguf_value v;
	struct kp_err err;
	if (kp_gguf_open(&g, bytes, bytes.n, &err)) {
		return;
	}
	while (kp_gguf_next(&g, &v, &err) > 0) {
		if (v.type != KP_GGUF_STRING) {
			continue;
		}
		if (kp_str_eq(v.key, KP_S("general.architecture"))) {
			f->architecture = keep(a, v.s);
		} else if (kp_str_starts(v.key, kp_str_c(prefix))) {
			add_template(f, a, kp_str_skip(v.key, sizeof(prefix) - 1), v.s);
		}
	}
}

/* "additional_chat_templates/tool_use.jinja": tool_use */
static kp_str template_name(kp_str path)
{
	ptrdiff_t at = kp_str_find(path, KP_S(FOLDER));
	kp_str name = at < 0 ? KP_STR_NULL : kp_str_skip(path, (size_t)at + sizeof(FOLDER) - 1);
	return kp_str_ends(name, KP_S(".jinja")) ? kp_str_sub(name, 0, name.n - 6) : KP_STR_NULL;
}

static void read_file(struct kp_model_files *f, struct kp_arena *a, kp_str name, kp_str bytes)
{
	ptrdiff_t slash = kp_str_rfind_char(name, '/');
	kp_str base = slash < 0 ? name : kp_str_skip(name, (size_t)slash + 1);
	read_model_name(f, base);
	if (kp_gguf_is(bytes)) {
		read_gguf(f, a, bytes);
	} else if (kp_str_eq(base, KP_S("config.json"))) {
		read_config(f, a, bytes);
	} else if (kp_str_eq(base, KP_S("tekken.json"))) {
		read_tekken(f, a, bytes);
	} else if (kp_str_eq(base, KP_S("preprocessor_config.json"))) {
		f->preprocessor = keep_file(a, bytes);
	} else if (kp_str_eq(base, KP_S("processor_config.json"))) {
		f->processor = keep_file(a, bytes);
	} else if (template_name(name).n) {
		add_template(f, a, template_name(name), bytes);
	}
}

/* By far the largest file says nothing here. */
static bool is_wanted(kp_str name)
{
	return !kp_str_ends(name, KP_S("tokenizer.json"));
}

void kp_model_files_from_zip(kp_str zip, struct kp_arena *a, struct kp_model_files *ret)
{
	KP_AUTO(arena) struct kp_arena *unpacked = kp_arena_create((size_t)MAX_ZIP + (1 << 20));
	struct kp_tokenizer_file *files;
	struct kp_err err;
	size_t n;
	*ret = (struct kp_model_files){ .architecture = KP_S("") };
	if (kp_zip_read(zip, MAX_ZIP, MAX_ZIP_FILES, is_wanted, unpacked, &files, &n, &err)) {
		return;
	}
	for (size_t i = 0; i < n; i++) {
		read_file(ret, a, files[i].name, files[i].bytes);
	}
	for (size_t i = 0; ret->n_templates == 0 && i < n; i++) {
		if (kp_str_ends(files[i].name, KP_S("tokenizer_config.json"))) {
			read_list(ret, a, files[i].bytes);
		}
	}
}

static bool read_text(const char *dir, const char *name, struct kp_buf *out)
{
	char path[4096];
	struct kp_err err;
	int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
	kp_buf_reset(out);
	return n > 0 && (size_t)n < sizeof(path) && kp_fs_read(path, out, &err) == 0;
}

static void read_folder(struct kp_model_files *f, struct kp_arena *a, const char *dir)
{
	KP_AUTO(buf) struct kp_buf text;
	char path[4096], name[600];
	const struct dirent *e;
	int n = snprintf(path, sizeof(path), "%s/" FOLDER, dir);
	DIR *d = n > 0 && (size_t)n < sizeof(path) ? opendir(path) : NULL;
	kp_buf_init(&text, MAX_TEMPLATE);
	while (d && (e = readdir(d))) {
		snprintf(name, sizeof(name), FOLDER "%s", e->d_name);
		if (template_name(kp_str_c(name)).n && read_text(dir, name, &text)) {
			read_file(f, a, kp_str_c(name), kp_buf_str(&text));
		}
	}
	if (d) {
		closedir(d);
	}
}

static void from_directory(struct kp_model_files *f, struct kp_arena *a, const char *dir)
{
	KP_AUTO(buf) struct kp_buf text;
	struct kp_mapping m = { 0 };
	struct kp_err err;
	char path[4096];
	kp_buf_init(&text, MAX_FILE);
	if (read_text(dir, "config.json", &text)) {
		read_config(f, a, kp_buf_str(&text));
	}
	if (read_text(dir, "preprocessor_config.json", &text)) {
		f->preprocessor = keep_file(a, kp_buf_str(&text));
	}
	if (read_text(dir, "processor_config.json", &text)) {
		f->processor = keep_file(a, kp_buf_str(&text));
	}
	read_folder(f, a, dir);
	if (!f->n_templates && read_text(dir, "tokenizer_config.json", &text)) {
		read_list(f, a, kp_buf_str(&text));
	}
	DIR *d = opendir(dir);
	for (const struct dirent *e; d && (e = readdir(d));) {
		read_model_name(f, kp_str_c(e->d_name));
	}
	if (d) {
		closedir(d);
	}
	int n = snprintf(path, sizeof(path), "%s/tekken.json", dir);
	if (n > 0 && (size_t)n < sizeof(path) && kp_fs_load(path, MAX_ZIP, &m, &err) == 0) {
		read_tekken(f, a, m.bytes);
		kp_fs_unmap(&m);
	}
}

void kp_model_files_from_path(const char *path, struct kp_arena *a, struct kp_model_files *ret)
{
	struct kp_mapping m = { 0 };
	struct kp_err err;
	struct stat st;
	*ret = (struct kp_model_files){ .architecture = KP_S("") };
	if (stat(path, &st)) {
		return;
	}
	if (S_ISDIR(st.st_mode)) {
		from_directory(ret, a, path);
	} else if (kp_fs_map(path, SIZE_MAX, &m, &err) == 0) {
		read_file(ret, a, kp_str_c(path), m.bytes);
		kp_fs_unmap(&m);
	}
}
