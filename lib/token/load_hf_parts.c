/* DESIGN: post-processor, added tokens, truncation and padding of a tokenizer.json. Each function accepts exactly the settings this module implements
   and names the first one it does not. */
#include "token/load_hf.h"

#include <string.h>

/* --- post-processor ------------------------------------------------------------------------------------------------ */

static int bad_template(struct kp_err *err, const char *what, kp_str token)
{
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"load tokenizer.json: TemplateProcessing: %s `%" KP_FMT "`", what,
		KP_ARG(kp_str_sub(token, 0, 120)));
}

static int put_template(
	kp_id *ids, size_t *n, const struct kp_jv *special, kp_str name, struct kp_err *err)
{
	const struct kp_jv *list = kp_jv_get(kp_jv_get(special, name), KP_S("ids"));
	if (!kp_jv_is(list, KP_JSON_ARRAY)) {
		return bad_template(err, "`special_tokens` has no `ids` of", name);
	}
	for (uint32_t i = 0; i < list->n; i++) {
		uint64_t id;
		if (list->items[i].type != KP_JSON_NUMBER ||
			!kp_str_u64(list->items[i].s, KP_BPE_NO_ID - 1, &id)) {
			return bad_template(err, "what is no token id in the `ids` of", name);
		}
		if (*n == KP_TOKEN_MAX_TEMPLATE) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"load tokenizer.json: TemplateProcessing: more than %d ids on one side of the text, at `%" KP_FMT
				"`",
				KP_TOKEN_MAX_TEMPLATE, KP_ARG(kp_str_sub(name, 0, 120)));
		}
		ids[(*n)++] = (kp_id)id;
	}
	return 0;
}

/* `single`: tokens, the text once, tokens. */
static int template_processing(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	struct kp_tokenizer *t = h->b.t;
	const struct kp_jv *single = kp_jv_get(v, KP_S("single")),
			   *special = kp_jv_get(v, KP_S("special_tokens"));
	bool seen = false;
	for (uint32_t i = 0; kp_jv_is(single, KP_JSON_ARRAY) && i < single->n; i++) {
		const struct kp_jv *token = kp_jv_get(&single->items[i], KP_S("SpecialToken"));
		if (token) {
			kp_str name = kp_jv_str(token, KP_S("id"));
			if (put_template(seen ? t->suffix : t->prefix,
				    seen ? &t->n_suffix : &t->n_prefix, special, name, err)) {
				return -1;
			}
		} else if (!kp_jv_get(&single->items[i], KP_S("Sequence"))) {
			return bad_template(
				err, "neither `SpecialToken` nor `Sequence` in", KP_S("single"));
		} else if (seen) {
			return bad_template(err, "two `Sequence` in", KP_S("single"));
		} else {
			seen = true;
		}
	}
	return seen ? 0 : bad_template(err, "no `Sequence` in", KP_S("single"));
}

/* Puts one token at the outside of what is there. */
static int wrap(
	struct kp_hf *h, const struct kp_jv *v, const char *key, bool front, struct kp_err *err)
{
	struct kp_tokenizer *t = h->b.t;
	const struct kp_jv *pair = kp_jv_get(v, kp_str_c(key));
	kp_id *ids = front ? t->prefix : t->suffix;
	size_t *n = front ? &t->n_prefix : &t->n_suffix;
	uint64_t id;
	if (!kp_jv_is(pair, KP_JSON_ARRAY) || pair->n != 2 ||
		pair->items[1].type != KP_JSON_NUMBER || *n == KP_TOKEN_MAX_TEMPLATE ||
		!kp_str_u64(pair->items[1].s, KP_BPE_NO_ID - 1, &id)) {
		return kp_hf_refuse(err, "post-processor", kp_hf_type(v));
	}
	if (front) {
		memmove(ids + 1, ids, *n * sizeof(*ids));
		ids[0] = (kp_id)id;
	} else {
		ids[*n] = (kp_id)id;
	}
	(*n)++;
	return 0;
}

/* Template, Bert and Roberta put tokens around the text. Behind a template that put some the reference has several parts in hand, which the
   next one takes for a pair or worse, so nothing but ByteLevel (which moves offsets only) may follow it. */
static int processor(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err)
{
	struct kp_tokenizer *t = h->b.t;
	if (kp_hf_is(v, KP_S("ByteLevel"))) {
		return 0;
	}
	bool bert = kp_hf_is(v, KP_S("BertProcessing")) || kp_hf_is(v, KP_S("RobertaProcessing"));
	if (h->has_template || !(bert || kp_hf_is(v, KP_S("TemplateProcessing")))) {
		return kp_hf_refuse(err, "post-processor", kp_hf_type(v));
	}
	if (bert) {
		return wrap(h, v, "cls", true, err) || wrap(h, v, "sep", false, err) ? -1 : 0;
	}
	kp_id inner[2 * KP_TOKEN_MAX_TEMPLATE];
	size_t n_before = t->n_prefix, n_behind = t->n_suffix;
	memcpy(inner, t->prefix, sizeof(t->prefix));
	memcpy(inner + KP_TOKEN_MAX_TEMPLATE, t->suffix, sizeof(t->suffix));
	t->n_prefix = t->n_suffix = 0;
	if (template_processing(h, v, err)) {
		return -1;
	}
	h->has_template = true;
	if (n_before + t->n_prefix > KP_TOKEN_MAX_TEMPLATE ||
		n_behind + t->n_suffix > KP_TOKEN_MAX_TEMPLATE) {
		return kp_hf_refuse(err, "post-processor", KP_S("Sequence of many tokens"));
	}
	memcpy(t->prefix + t->n_prefix, inner, n_before * sizeof(kp_id));
	memmove(t->suffix + n_behind, t->suffix, t->n_suffix * sizeof(kp_id));
	memcpy(t->suffix, inner + KP_TOKEN_MAX_TEMPLATE, n_behind * sizeof(kp_id));
	t->n_prefix += n_before;
	t->n_suffix += n_behind;
	return 0;
}

static int post_processor(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	return kp_hf_parse(h, h->post_processor, &v, err) ||
			       kp_hf_each(h, &v, KP_S("processors"), processor, err)
		       ? -1
		       : 0;
}

/* --- truncation, padding ------------------------------------------------------------------------------------------- */

static int truncation(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	struct kp_file_limits *l = &h->b.t->limits;
	if (kp_hf_parse(h, h->truncation, &v, err) || v.type == KP_JSON_NULL) {
		return v.type == KP_JSON_NULL ? 0 : -1;
	}
	kp_str direction = kp_jv_str(&v, KP_S("direction")),
	       strategy = kp_jv_str(&v, KP_S("strategy"));
	l->truncates = true;
	l->left = kp_str_eq(direction, KP_S("Left"));
	l->only_second = kp_str_eq(strategy, KP_S("OnlySecond"));
	bool known = l->only_second || kp_str_eq(strategy, KP_S("LongestFirst")) ||
		     kp_str_eq(strategy, KP_S("OnlyFirst"));
	if (!known || (direction.p && !l->left && !kp_str_eq(direction, KP_S("Right")))) {
		return kp_hf_refuse(err, "component", KP_S("truncation"));
	}
	return kp_hf_size(&v, "max_length", &l->max_length, err) ||
			       kp_hf_size(&v, "stride", &l->stride, err)
		       ? -1
		       : 0;
}

static int padding(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	struct kp_file_limits *l = &h->b.t->limits;
	if (kp_hf_parse(h, h->padding, &v, err)) {
		return -1;
	}
	if (v.type == KP_JSON_NULL) {
		return 0;
	}
	const struct kp_jv *strategy = kp_jv_get(&v, KP_S("strategy"));
	kp_str direction = kp_jv_str(&v, KP_S("direction"));
	size_t pad;
	l->pads = true;
	l->pad_left = kp_str_eq(direction, KP_S("Left"));
	bool longest = kp_str_eq(kp_jv_str(&v, KP_S("strategy")), KP_S("BatchLongest"));
	if (!longest && kp_hf_size(strategy, "Fixed", &l->pad_length, err)) {
		return -1;
	}
	if (!l->pad_left && !kp_str_eq(direction, KP_S("Right"))) {
		return kp_hf_refuse(err, "component", KP_S("padding"));
	}
	if (!kp_hf_null(kp_jv_get(&v, KP_S("pad_to_multiple_of"))) &&
		kp_hf_size(&v, "pad_to_multiple_of", &l->pad_multiple, err)) {
		return -1;
	}
	if (kp_hf_size(&v, "pad_id", &pad, err)) {
		return -1;
	}
	l->pad = (kp_id)pad;
	l->pad_length = KP_MIN(l->pad_length, (size_t)KP_BPE_MAX_TOKENS);
	return 0;
}

/* --- added tokens ------------------------------------------------------------------------------------------------ */

static int added_token(
	struct kp_hf *h, const struct kp_jv *v, struct kp_map *seen, struct kp_err *err)
{
	kp_str content = kp_jv_str(v, KP_S("content"));
	const struct kp_jv *id_value = kp_jv_get(v, KP_S("id"));
	uint64_t id;
	if (!content.p || !kp_jv_is(id_value, KP_JSON_NUMBER) ||
		!kp_str_u64(id_value->s, KP_BPE_NO_ID - 1, &id)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load added token `%zu`: no content or no id", h->b.added.n);
	}
	if (content.n == 0 || kp_map_get(seen, content)) {
		return 0; /* as the library: the first one counts */
	}
	(void)kp_map_set(seen, content, h);
	/* The library numbers tokens that are not in the vocabulary itself, whatever the file says. */
	kp_id known = kp_build_find(&h->b, content),
	      expected = known != KP_NO_ID ? known : (kp_id)(h->n_vocab + h->n_new++);
	if (id != expected) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load added token `%" KP_FMT "`: id %llu, the library would give it %u",
			KP_ARG(kp_str_sub(content, 0, 80)), (unsigned long long)id, expected);
	}
	bool special = kp_hf_flag(v, KP_S("special"), false);
	uint8_t flags = special ? KP_ADDED_SPECIAL : 0;
	flags |= kp_hf_flag(v, KP_S("normalized"), !special) ? KP_ADDED_NORMALIZED : 0;
	flags |= kp_hf_flag(v, KP_S("lstrip"), false) ? KP_ADDED_LSTRIP : 0;
	flags |= kp_hf_flag(v, KP_S("rstrip"), false) ? KP_ADDED_RSTRIP : 0;
	flags |= kp_hf_flag(v, KP_S("single_word"), false) ? KP_ADDED_WORD : 0;
	return kp_build_added(&h->b, (kp_id)id, content, flags, err);
}

static int added_tokens(struct kp_hf *h, struct kp_err *err)
{
	struct kp_jv v;
	struct kp_map seen;
	if (kp_hf_parse(h, h->added, &v, err)) {
		return -1;
	}
	kp_map_init(&seen);
	int r = 0;
	for (uint32_t i = 0; r == 0 && v.type == KP_JSON_ARRAY && i < v.n; i++) {
		r = added_token(h, &v.items[i], &seen, err);
	}
	kp_map_fini(&seen, NULL);
	return r;
}

int kp_hf_parts(struct kp_hf *h, struct kp_err *err)
{
	return post_processor(h, err) || added_tokens(h, err) || truncation(h, err) ||
			       padding(h, err)
		       ? -1
		       : 0;
}
