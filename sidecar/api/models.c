/* DESIGN: GET /v1/models and /v1/models/NAME from the snapshot. `max_model_len` is vLLM's extra;
 * `chat_template` is ours: which template makes the prompts of its chats. aliases are listed with the model they stand for as `parent`, as vLLM lists adapters. */
#include "json/write.h"
#include "sidecar/errors.h"
#include "sidecar/api/http.h"
#include "sidecar/control/snapshot.h"

static const char *real_name(const struct kp_snapshot *snap, const struct kp_model *m)
{
	for (size_t i = 0; m->is_alias && i < snap->n_models; i++) {
		if (snap->models[i].revisions[0] == m->revisions[0] && !snap->models[i].is_alias) {
			return snap->models[i].name;
		}
	}
	return NULL;
}

static void put_model(struct kp_buf *out, const struct kp_snapshot *snap, const struct kp_model *m)
{
	const char *parent = real_name(snap, m);
	kp_buf_lit(out, "{\"id\":");
	kp_json_w_str(out, kp_str_c(m->name));
	kp_buf_lit(out, ",\"object\":\"model\",\"created\":");
	kp_buf_i64(out, snap->created_wall_s);
	kp_buf_lit(out, ",\"owned_by\":\"kelpie\",\"root\":");
	kp_json_w_str(out, kp_str_c(parent ? parent : m->name));
	kp_buf_lit(out, ",\"parent\":");
	if (parent) {
		kp_json_w_str(out, kp_str_c(parent));
	} else {
		kp_buf_lit(out, "null");
	}
	kp_buf_lit(out, ",\"max_model_len\":");
	if (m->revisions[0]->max_context) {
		kp_buf_u64(out, m->revisions[0]->max_context);
	} else {
		kp_buf_lit(out, "null");
	}
	const struct kp_text_stack *text = m->revisions[0]->text;
	if (text) {
		KP_AUTO(buf) struct kp_buf template;
		kp_buf_init(&template, 4096);
		kp_text_stack_describe(text, &template);
		kp_buf_lit(out, ",\"chat_template\":");
		kp_json_w_str(out, kp_buf_str(&template));
		kp_buf_lit(out, ",\"parsers\":");
		kp_text_parsers_json(&text->parsers, out);
	}
	kp_buf_addc(out, '}');
}

void kp_api_models(struct kp_gwloop *l, struct kp_stream *s, const struct kp_http_request *r)
{
	(void)r;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 16 << 20);
	kp_buf_lit(&out, "{\"object\":\"list\",\"data\":[");
	for (size_t i = 0; l->snapshot && i < l->snapshot->n_models; i++) {
		kp_buf_addz(&out, i ? "," : "");
		put_model(&out, l->snapshot, &l->snapshot->models[i]);
	}
	kp_buf_lit(&out, "]}");
	kp_api_json(s, &out);
}

/* Percent-decoding: names with `/` are written as they are or as %2F. */
static bool decode_path(kp_str s, struct kp_buf *out)
{
	for (size_t i = 0; i < s.n; i++) {
		uint64_t v;
		if (s.p[i] != '%') {
			kp_buf_addc(out, s.p[i]);
		} else if (i + 2 < s.n && kp_str_hex64(kp_str_sub(s, i + 1, i + 3), &v)) {
			kp_buf_addc(out, (char)v);
			i += 2;
		} else {
			return false;
		}
	}
	return !out->failed;
}

void kp_api_model(struct kp_gwloop *l, struct kp_stream *s, const struct kp_http_request *r)
{
	const struct kp_model *m = NULL;
	KP_AUTO(buf) struct kp_buf name;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&name, 1024);
	kp_buf_init(&out, 1 << 16);
	if (decode_path(kp_str_skip(r->path, sizeof("/v1/models/") - 1), &name) && l->snapshot) {
		m = kp_snapshot_find(l->snapshot, kp_buf_str(&name));
	}
	if (!m) {
		struct kp_err err;
		kp_err_param(&err, "model", "the model `%" KP_FMT "` does not exist",
			KP_ARG(kp_str_sub(kp_buf_str(&name), 0, 256)));
		err.code = KP_NOT_FOUND;
		err.reason = "model_not_found";
		kp_error_reply(s, KP_DIALECT_OPENAI, &err, KP_STR_NULL);
		return;
	}
	put_model(&out, l->snapshot, m);
	kp_api_json(s, &out);
}
