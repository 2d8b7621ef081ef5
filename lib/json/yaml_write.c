/* DESIGN: jansson's values as events of libyaml's emitter, which decides about white space and escapes. The style of a string is decided here. */
#include "json/yaml_write.h"

#include "json/doc.h"
#include "json/write.h"

#include <yaml.h>

static int take(void *to, unsigned char *text, size_t n)
{
	kp_buf_add(to, kp_str_n(text, n));
	return !((struct kp_buf *)to)->failed;
}

/* Plain where it begins like a word or a path and no reader sees anything but a string in it. */
static bool is_plain(kp_str s)
{
	struct kp_yaml_scalar scalar;
	char c = s.n ? s.p[0] : '\0', l = kp_lower(c);
	bool begins_well = (l >= 'a' && l <= 'z') || c == '/' || c == '_' || c == '$' ||
			   (c == '-' && s.n > 2 && s.p[1] == '-' && kp_lower(s.p[2]) >= 'a');
	for (size_t i = 0; begins_well && i < s.n; i++) {
		begins_well = (unsigned char)s.p[i] >= 0x20 && (unsigned char)s.p[i] < 0x7f;
	}
	return begins_well && kp_yaml_resolve(s, &scalar) == KP_YAML_STR;
}

/* A block keeps every character but those that a reader would change or not show. */
static bool is_block(kp_str s)
{
	if (kp_str_find_char(s, '\n') < 0 || s.p[0] == '\n' || s.p[0] == ' ' ||
		s.p[s.n - 1] == ' ') {
		return false;
	}
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if ((c < 0x20 && c != '\n') || c >= 0x7f ||
			(c == '\n' && i > 0 && s.p[i - 1] == ' ')) {
			return false;
		}
	}
	return true;
}

static int emit(yaml_emitter_t *e, yaml_event_t *event, int is_made)
{
	return is_made && yaml_emitter_emit(e, event);
}

static int emit_text(yaml_emitter_t *e, kp_str s, yaml_scalar_style_t style)
{
	yaml_event_t event;
	bool is_string = style != YAML_PLAIN_SCALAR_STYLE;
	int is_made = yaml_scalar_event_initialize(
		&event, NULL, NULL, (const yaml_char_t *)s.p, (int)s.n, !is_string, true, style);
	return emit(e, &event, is_made);
}

static int emit_string(yaml_emitter_t *e, kp_str s)
{
	yaml_scalar_style_t style = YAML_DOUBLE_QUOTED_SCALAR_STYLE;
	if (is_plain(s)) {
		yaml_event_t event;
		int is_made = yaml_scalar_event_initialize(&event, NULL, NULL,
			(const yaml_char_t *)s.p, (int)s.n, true, true, YAML_PLAIN_SCALAR_STYLE);
		return emit(e, &event, is_made);
	}
	return emit_text(e, s, is_block(s) ? YAML_LITERAL_SCALAR_STYLE : style);
}

static int emit_number(yaml_emitter_t *e, const json_t *v)
{
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 64);
	if (json_is_integer(v)) {
		kp_buf_i64(&text, json_integer_value(v));
	} else {
		kp_json_w_f64(&text, json_real_value(v));
	}
	return emit_text(e, kp_buf_str(&text), YAML_PLAIN_SCALAR_STYLE);
}

static int emit_value(yaml_emitter_t *e, const json_t *v);

static int emit_object(yaml_emitter_t *e, const json_t *v)
{
	yaml_event_t event;
	yaml_mapping_style_t style =
		json_object_size(v) ? YAML_BLOCK_MAPPING_STYLE : YAML_FLOW_MAPPING_STYLE;
	const char *key;
	json_t *member;
	if (!emit(e, &event,
		    yaml_mapping_start_event_initialize(&event, NULL, NULL, true, style))) {
		return 0;
	}
	json_object_foreach((json_t *)kp_unconst(v), key, member)
	{
		if (!emit_string(e, kp_str_c(key)) || !emit_value(e, member)) {
			return 0;
		}
	}
	return emit(e, &event, yaml_mapping_end_event_initialize(&event));
}

static int emit_list(yaml_emitter_t *e, const json_t *v)
{
	yaml_event_t event;
	yaml_sequence_style_t style =
		json_array_size(v) ? YAML_BLOCK_SEQUENCE_STYLE : YAML_FLOW_SEQUENCE_STYLE;
	if (!emit(e, &event,
		    yaml_sequence_start_event_initialize(&event, NULL, NULL, true, style))) {
		return 0;
	}
	for (size_t i = 0; i < json_array_size(v); i++) {
		if (!emit_value(e, json_array_get(v, i))) {
			return 0;
		}
	}
	return emit(e, &event, yaml_sequence_end_event_initialize(&event));
}

static int emit_value(yaml_emitter_t *e, const json_t *v)
{
	if (json_is_object(v)) {
		return emit_object(e, v);
	}
	if (json_is_array(v)) {
		return emit_list(e, v);
	}
	if (json_is_string(v)) {
		return emit_string(e, kp_str_n(json_string_value(v), json_string_length(v)));
	}
	if (json_is_number(v)) {
		return emit_number(e, v);
	}
	return emit_text(e,
		json_is_null(v)   ? KP_S("null")
		: json_is_true(v) ? KP_S("true")
				  : KP_S("false"),
		YAML_PLAIN_SCALAR_STYLE);
}

int kp_yaml_write(const json_t *v, struct kp_buf *out, struct kp_err *err)
{
	yaml_emitter_t e;
	yaml_event_t event;
	if (!yaml_emitter_initialize(&e)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "write YAML: no memory");
	}
	yaml_emitter_set_output(&e, take, out);
	yaml_emitter_set_unicode(&e, 1);
	yaml_emitter_set_width(&e, -1);
	int ok = emit(&e, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING)) &&
		 emit(&e, &event,
			 yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1)) &&
		 emit_value(&e, v) &&
		 emit(&e, &event, yaml_document_end_event_initialize(&event, 1)) &&
		 emit(&e, &event, yaml_stream_end_event_initialize(&event));
	yaml_emitter_delete(&e);
	return ok ? 0 : kp_err_set(err, KP_RESOURCE_EXHAUSTED, "write YAML: no room");
}
