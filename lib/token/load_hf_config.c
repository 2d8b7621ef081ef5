/* DESIGN: the files beside a tokenizer.json: roles of tokens, the chat template, what ends a generation. */
#include "token/load_hf.h"

/* Added or vocabulary token with this content. */
static kp_id find(struct kp_hf *h, kp_str content)
{
	for (size_t i = 0; i < h->b.added.n; i++) {
		if (kp_str_eq(h->b.added.p[i].shown, content)) {
			return h->b.added.p[i].id;
		}
	}
	return kp_build_find(&h->b, content);
}

/* "text", {"content": "text"} or null. */
static int role(struct kp_hf *h, const struct kp_jv *config, const char *key, kp_id *ret,
	struct kp_err *err)
{
	const struct kp_jv *v = kp_jv_get(config, kp_str_c(key));
	if (kp_hf_null(v)) {
		return 0;
	}
	kp_str text = v->type == KP_JSON_STRING ? v->s : kp_jv_str(v, KP_S("content"));
	kp_id id = text.p ? find(h, text) : KP_NO_ID;
	if (id == KP_NO_ID) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load tokenizer_config.json: %s `%" KP_FMT "` is no token", key,
			KP_ARG(kp_str_sub(text, 0, 80)));
	}
	*ret = id;
	return 0;
}

/* A string, or the entry named "default" of a list. */
static kp_str template_of(const struct kp_jv *config)
{
	const struct kp_jv *v = kp_jv_get(config, KP_S("chat_template"));
	for (uint32_t i = 0; kp_jv_is(v, KP_JSON_ARRAY) && i < v->n; i++) {
		if (kp_str_eq(kp_jv_str(&v->items[i], KP_S("name")), KP_S("default"))) {
			return kp_jv_str(&v->items[i], KP_S("template"));
		}
	}
	return kp_jv_is(v, KP_JSON_STRING) ? v->s : KP_STR_NULL;
}

static int tokenizer_config(struct kp_hf *h, const struct kp_hf_files *files, struct kp_err *err)
{
	struct kp_tokenizer *t = h->b.t;
	struct kp_jv v;
	if (kp_hf_parse(h, files->config, &v, err)) {
		return kp_err_wrap(err, "read tokenizer_config.json");
	}
	if (role(h, &v, "bos_token", &t->info.bos, err) ||
		role(h, &v, "eos_token", &t->info.eos, err) ||
		role(h, &v, "pad_token", &t->info.pad, err) ||
		role(h, &v, "unk_token", &t->info.unk, err)) {
		return -1;
	}
	const kp_str flags[] = { KP_S("add_bos_token"), KP_S("add_eos_token") };
	for (size_t i = 0; i < KP_LEN(flags); i++) {
		const struct kp_jv *flag = kp_jv_get(&v, flags[i]);
		if (!kp_hf_null(flag) && flag->type != KP_JSON_TRUE &&
			flag->type != KP_JSON_FALSE) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read tokenizer_config.json: `%" KP_FMT
				"`: expected a boolean, got %s",
				KP_ARG(flags[i]), kp_json_type_name(flag->type));
		}
	}
	/* Some model classes build the post-processor from these two; where the file has one, it says the same. */
	if (kp_hf_flag(&v, KP_S("add_bos_token"), false) && t->n_prefix == 0 &&
		t->info.bos != KP_NO_ID) {
		t->prefix[t->n_prefix++] = t->info.bos;
	}
	if (kp_hf_flag(&v, KP_S("add_eos_token"), false) && t->n_suffix == 0 &&
		t->info.eos != KP_NO_ID) {
		t->suffix[t->n_suffix++] = t->info.eos;
	}
	return kp_load_template(
		t, files->chat_template.p ? files->chat_template : template_of(&v), err);
}

static int generation_config(struct kp_hf *h, kp_str text, struct kp_err *err)
{
	struct kp_jv v;
	if (kp_hf_parse(h, text, &v, err)) {
		return kp_err_wrap(err, "read generation_config.json");
	}
	const struct kp_jv *eos = kp_jv_get(&v, KP_S("eos_token_id"));
	const struct kp_jv *list = eos;
	uint32_t n = kp_hf_null(eos) ? 0 : 1;
	if (kp_jv_is(eos, KP_JSON_ARRAY)) {
		list = eos->items;
		n = eos->n;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint64_t id;
		if (list[i].type != KP_JSON_NUMBER || !kp_str_u64(list[i].s, UINT32_MAX - 1, &id)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read generation_config.json: `eos_token_id` is no id");
		}
		if (kp_build_eog(&h->b, (kp_id)id, err)) {
			return -1;
		}
	}
	return 0;
}

int kp_hf_config(struct kp_hf *h, const struct kp_hf_files *files, struct kp_err *err)
{
	if (tokenizer_config(h, files, err)) {
		return -1;
	}
	if (h->b.t->info.eos != KP_NO_ID && kp_build_eog(&h->b, h->b.t->info.eos, err)) {
		return -1;
	}
	return generation_config(h, files->generation, err);
}
