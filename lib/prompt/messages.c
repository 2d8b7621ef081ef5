/* DESIGN: the array is read as values first (order and unknown members survive for the template), then each message is checked; one
   that says something in an older or shorter way is copied with that member rewritten. */
#include "prompt/messages.h"

#include "prompt/make.h"
#include "template/rewrite.h"

#include <stdio.h>

struct reader {
	struct kp_arena *a;
	struct kp_err *err;
	uint32_t i;           /* of the message */
	kp_str function_call; /* the id we gave to the last `function_call` */
	uint32_t n_apart;     /* how many of the first ones need nothing but their own text */
	struct kp_media_part *media;
	size_t n_media;
};

static int bad(struct reader *r, const char *reason, const char *what, const char *fmt, ...)
	KP_PRINTF(4, 5);
static int bad(struct reader *r, const char *reason, const char *what, const char *fmt, ...)
{
	char param[128];
	va_list ap;
	int n = snprintf(param, sizeof(param), "messages[%u]", r->i);
	va_start(ap, fmt);
	vsnprintf(param + n, sizeof(param) - (size_t)n, fmt, ap);
	va_end(ap);
	kp_err_param(r->err, param, "`%s`: %s", param, what);
	r->err->reason = reason;
	return -1;
}

static int replace(struct reader *r, struct kp_jv *m, kp_str key, const struct kp_jv *value)
{
	return kp_tpl_jv_replace(m, key, value, r->a, m, r->err);
}

/* As `replace`, where the member may be missing. */
static int set(struct reader *r, struct kp_jv *m, kp_str key, const struct kp_jv *value)
{
	if (kp_jv_get(m, key)) {
		return replace(r, m, key, value);
	}
	struct kp_jmember *members = kp_arena_alloc(r->a, (m->n + 1) * sizeof(*members));
	if (!members) {
		return kp_arena_full(r->err, "messages");
	}
	if (m->n) {
		memcpy(members, m->members, m->n * sizeof(*members));
	}
	members[m->n] = (struct kp_jmember){ key, *value };
	m->members = members;
	m->n++;
	return 0;
}

/* --- content ------------------------------------------------------------------------------------------------------------------------ */

/* Its text; what else a part has (an image in a part of text, say) must not reach the template. */
static int part_text(
	struct reader *r, const struct kp_jv *part, uint32_t k, bool is_assistant, kp_str *ret)
{
	kp_str type = kp_jv_str(part, KP_S("type"));
	bool is_refusal = is_assistant && kp_str_eq(type, KP_S("refusal"));
	const char *member = is_refusal ? "refusal" : "text";
	if (part->type == KP_JSON_STRING) {
		*ret = part->s;
		return 0;
	}
	if (part->type != KP_JSON_OBJECT) {
		return bad(r, NULL, "expected an object", ".content[%u]", k);
	}
	if (!is_refusal && !kp_str_eq(type, KP_S("text"))) {
		return bad(r, "unsupported_parameter",
			!type.n                              ? "missing"
			: kp_str_eq(type, KP_S("image_url")) ? "images are for users and tools"
							     : "only text and images are supported",
			".content[%u].type", k);
	}
	const struct kp_jv *text = kp_jv_get(part, kp_str_c(member));
	if (!kp_jv_is(text, KP_JSON_STRING)) {
		return bad(r, NULL, text ? "expected a string" : "missing", ".content[%u].%s", k,
			member);
	}
	*ret = text->s;
	return 0;
}

/* {"type": "image_url", "image_url": {"url", "detail"}} */
static int part_image(struct reader *r, const struct kp_jv *part, uint32_t k)
{
	static const kp_str details[] = { KP_S_INIT("auto"), KP_S_INIT("low"), KP_S_INIT("high"),
		KP_S_INIT("original") };
	const struct kp_jv *image = kp_jv_get(part, KP_S("image_url")),
			   *url = kp_jv_get(image, KP_S("url")),
			   *detail = kp_jv_get(image, KP_S("detail"));
	bool is_detail = !kp_is_given(detail);
	if (!kp_jv_is(image, KP_JSON_OBJECT)) {
		return bad(r, NULL, image ? "expected an object" : "missing",
			".content[%u].image_url", k);
	}
	if (!kp_jv_is(url, KP_JSON_STRING)) {
		return bad(r, NULL, url ? "expected a string" : "missing",
			".content[%u].image_url.url", k);
	}
	for (size_t i = 0; !is_detail && i < KP_LEN(details); i++) {
		is_detail = detail->type == KP_JSON_STRING && kp_str_eq(detail->s, details[i]);
	}
	if (!is_detail) {
		return bad(r, NULL, "expected `auto`, `low`, `high` or `original`",
			".content[%u].image_url.detail", k);
	}
	r->n_apart = KP_MIN(r->n_apart, r->i);
	if (r->n_media == KP_MEDIA_MAX) {
		return bad(r, NULL, "too many images", ".content[%u]", k);
	}
	if (!r->media && !(r->media = kp_arena_calloc(r->a, KP_MEDIA_MAX, sizeof(*r->media)))) {
		return kp_arena_full(r->err, "messages");
	}
	r->media[r->n_media++] =
		(struct kp_media_part){ .url = url->s, .message = r->i, .part = k };
	return 0;
}

static bool takes_images(const struct kp_jv *m)
{
	kp_str role = kp_jv_str(m, KP_S("role"));
	return kp_str_eq(role, KP_S("user")) || kp_str_eq(role, KP_S("tool"));
}

static int read_parts(
	struct reader *r, const struct kp_jv *m, const struct kp_jv *parts, struct kp_jv *ret)
{
	bool is_assistant = kp_str_eq(kp_jv_str(m, KP_S("role")), KP_S("assistant"));
	struct kp_jv *items = kp_arena_calloc(r->a, parts->n, sizeof(*items));
	struct kp_jmember(*members)[2] = kp_arena_calloc(r->a, parts->n, sizeof(*members));
	if (!items || !members) {
		return kp_arena_full(r->err, "messages");
	}
	for (uint32_t k = 0; k < parts->n; k++) {
		kp_str text = KP_STR_NULL;
		if (takes_images(m) &&
			kp_str_eq(kp_jv_str(&parts->items[k], KP_S("type")), KP_S("image_url"))) {
			if (part_image(r, &parts->items[k], k)) {
				return -1;
			}
			members[k][0] =
				(struct kp_jmember){ KP_S("type"), kp_made_text(KP_S("image")) };
			items[k] = (struct kp_jv){
				.type = KP_JSON_OBJECT, .n = 1, .members = members[k]
			};
			continue;
		}
		if (part_text(r, &parts->items[k], k, is_assistant, &text)) {
			return -1;
		}
		members[k][0] = (struct kp_jmember){ KP_S("type"), kp_made_text(KP_S("text")) };
		members[k][1] = (struct kp_jmember){ KP_S("text"), kp_made_text(text) };
		items[k] = (struct kp_jv){ .type = KP_JSON_OBJECT, .n = 2, .members = members[k] };
	}
	*ret = (struct kp_jv){ .type = KP_JSON_ARRAY, .n = parts->n, .items = items };
	return 0;
}

static int check_content(struct reader *r, struct kp_jv *m, bool may_be_null)
{
	const struct kp_jv *content = kp_jv_get(m, KP_S("content"));
	struct kp_jv parts;
	if (!kp_is_given(content)) {
		return may_be_null
			       ? 0
			       : bad(r, NULL, content ? "must not be null" : "missing", ".content");
	}
	if (content->type == KP_JSON_STRING) {
		return 0;
	}
	if (content->type != KP_JSON_ARRAY) {
		return bad(r, NULL, "expected a string or an array of parts", ".content");
	}
	return read_parts(r, m, content, &parts) ? -1 : replace(r, m, KP_S("content"), &parts);
}

/* --- tool calls --------------------------------------------------------------------------------------------------------------------- */

/* A function with its arguments, at `place` of the message. */
static int read_function(
	struct reader *r, const struct kp_jv *f, const char *place, struct kp_jv *ret)
{
	const struct kp_jv *name = kp_jv_get(f, KP_S("name")),
			   *arguments = kp_jv_get(f, KP_S("arguments")),
			   empty = kp_made_text(KP_S("{}"));
	if (!kp_jv_is(f, KP_JSON_OBJECT)) {
		return bad(r, NULL, f ? "expected an object" : "missing", "%s", place);
	}
	if (!kp_jv_is(name, KP_JSON_STRING)) {
		return bad(r, NULL, name ? "expected a string" : "missing", "%s.name", place);
	}
	if (name->s.n == 0) {
		return bad(r, NULL, "must not be empty", "%s.name", place);
	}
	*ret = *f;
	if (!kp_is_given(arguments) || (arguments->type == KP_JSON_STRING && arguments->s.n == 0)) {
		return set(r, ret, KP_S("arguments"), &empty);
	}
	if (arguments->type != KP_JSON_STRING && arguments->type != KP_JSON_OBJECT) {
		return bad(
			r, NULL, "expected a string of JSON or an object", "%s.arguments", place);
	}
	return 0;
}

static int read_call(struct reader *r, uint32_t k, const struct kp_jv *call, struct kp_jv *ret)
{
	const struct kp_jv *id = kp_jv_get(call, KP_S("id")), *type = kp_jv_get(call, KP_S("type"));
	char place[48];
	struct kp_jv f;
	if (call->type != KP_JSON_OBJECT) {
		return bad(r, NULL, "expected an object", ".tool_calls[%u]", k);
	}
	if (kp_is_given(id) && id->type != KP_JSON_STRING) {
		return bad(r, NULL, "expected a string", ".tool_calls[%u].id", k);
	}
	if (kp_is_given(type) &&
		!(type->type == KP_JSON_STRING && kp_str_eq(type->s, KP_S("function")))) {
		return bad(r, "unsupported_parameter", "only `function` is supported",
			".tool_calls[%u].type", k);
	}
	snprintf(place, sizeof(place), ".tool_calls[%u].function", k);
	if (read_function(r, kp_jv_get(call, KP_S("function")), place, &f)) {
		return -1;
	}
	*ret = *call;
	return replace(r, ret, KP_S("function"), &f);
}

static int check_calls(struct reader *r, struct kp_jv *m)
{
	const struct kp_jv *calls = kp_jv_get(m, KP_S("tool_calls"));
	if (!kp_is_given(calls)) {
		return 0;
	}
	if (calls->type != KP_JSON_ARRAY) {
		return bad(r, NULL, "expected an array", ".tool_calls");
	}
	struct kp_jv checked = *calls, *items = kp_arena_calloc(r->a, calls->n, sizeof(*items));
	if (!items) {
		return kp_arena_full(r->err, "messages");
	}
	for (uint32_t k = 0; k < calls->n; k++) {
		if (read_call(r, k, &calls->items[k], &items[k])) {
			return -1;
		}
	}
	checked.items = items;
	return replace(r, m, KP_S("tool_calls"), &checked);
}

/* Arguments of a `function_call`, which is a list of calls to all that comes later: what is wrong with them is said here, where their place is known. */
static int check_arguments(struct reader *r, const struct kp_jv *arguments)
{
	struct kp_err err;
	if (arguments->type != KP_JSON_STRING || kp_str_trim(arguments->s).n == 0 ||
		!kp_json_check(arguments->s, r->a, NULL, &err)) {
		return 0;
	}
	return bad(r, NULL, err.msg, ".function_call.arguments");
}

/* {"name", "arguments"} becomes a list of one call. It needs an id; some templates want one of nine letters and digits. */
static int check_function_call(struct reader *r, struct kp_jv *m)
{
	const struct kp_jv *call = kp_jv_get(m, KP_S("function_call")),
			   none = { .type = KP_JSON_NULL };
	struct {
		struct kp_jv call;
		struct kp_jmember members[3];
		char id[16];
	} * made;
	struct kp_jv f;
	if (!kp_is_given(call)) {
		return 0;
	}
	r->n_apart = KP_MIN(r->n_apart, r->i);
	if (kp_is_given(kp_jv_get(m, KP_S("tool_calls")))) {
		return bad(r, NULL, "excludes `tool_calls`", ".function_call");
	}
	if (read_function(r, call, ".function_call", &f) ||
		check_arguments(r, kp_jv_get(&f, KP_S("arguments")))) {
		return -1;
	}
	if (!(made = kp_arena_calloc(r->a, 1, sizeof(*made)))) {
		return kp_arena_full(r->err, "messages");
	}
	snprintf(made->id, sizeof(made->id), "call%05u", r->i);
	r->function_call = kp_str_c(made->id);
	made->members[0] = (struct kp_jmember){ KP_S("id"), kp_made_text(r->function_call) };
	made->members[1] = (struct kp_jmember){ KP_S("type"), kp_made_text(KP_S("function")) };
	made->members[2] = (struct kp_jmember){ KP_S("function"), f };
	made->call = (struct kp_jv){ .type = KP_JSON_OBJECT, .n = 3, .members = made->members };
	const struct kp_jv calls = { .type = KP_JSON_ARRAY, .n = 1, .items = &made->call };
	return set(r, m, KP_S("tool_calls"), &calls) || replace(r, m, KP_S("function_call"), &none)
		       ? -1
		       : 0;
}

/* --- roles -------------------------------------------------------------------------------------------------------------------------- */

static int check_text(struct reader *r, const struct kp_jv *m, kp_str member)
{
	const struct kp_jv *v = kp_jv_get(m, member);
	return kp_is_given(v) && v->type != KP_JSON_STRING
		       ? bad(r, NULL, "expected a string", ".%" KP_FMT, KP_ARG(member))
		       : 0;
}

static int check_user(struct reader *r, struct kp_jv *m)
{
	return check_content(r, m, false);
}

static int check_assistant(struct reader *r, struct kp_jv *m)
{
	static const kp_str texts[] = { KP_S_INIT("reasoning_content"), KP_S_INIT("reasoning"),
		KP_S_INIT("thinking"), KP_S_INIT("refusal") };
	for (size_t k = 0; k < KP_LEN(texts); k++) {
		if (check_text(r, m, texts[k])) {
			return -1;
		}
	}
	if (kp_is_given(kp_jv_get(m, KP_S("audio")))) {
		return bad(r, "unsupported_parameter", "not supported yet", ".audio");
	}
	if (check_content(r, m, true) || check_calls(r, m) || check_function_call(r, m)) {
		return -1;
	}
	/* Without content and calls it said nothing, which templates write as an empty text. */
	const struct kp_jv *calls = kp_jv_get(m, KP_S("tool_calls")),
			   empty = kp_made_text(KP_S(""));
	bool silent =
		!kp_is_given(kp_jv_get(m, KP_S("content"))) && (!kp_is_given(calls) || !calls->n);
	return silent ? set(r, m, KP_S("content"), &empty) : 0;
}

static int check_tool(struct reader *r, struct kp_jv *m)
{
	return check_text(r, m, KP_S("tool_call_id")) || check_content(r, m, false) ? -1 : 0;
}

static int check_function(struct reader *r, struct kp_jv *m)
{
	const struct kp_jv tool = kp_made_text(KP_S("tool")), id = kp_made_text(r->function_call),
			   empty = kp_made_text(KP_S(""));
	if (!kp_jv_is(kp_jv_get(m, KP_S("name")), KP_JSON_STRING)) {
		return bad(r, NULL, kp_jv_get(m, KP_S("name")) ? "expected a string" : "missing",
			".name");
	}
	if (check_content(r, m, true) ||
		(!kp_is_given(kp_jv_get(m, KP_S("content"))) &&
			set(r, m, KP_S("content"), &empty)) ||
		replace(r, m, KP_S("role"), &tool)) {
		return -1;
	}
	return id.s.n ? set(r, m, KP_S("tool_call_id"), &id) : 0;
}

static const struct {
	kp_str name;
	int (*check)(struct reader *r, struct kp_jv *m);
} roles[] = { { KP_S_INIT("user"), check_user }, { KP_S_INIT("assistant"), check_assistant },
	{ KP_S_INIT("system"), check_user }, { KP_S_INIT("developer"), check_user },
	{ KP_S_INIT("tool"), check_tool }, { KP_S_INIT("function"), check_function } };

/* A role and a text, as most messages of a conversation are: nothing in it is to be changed, and nothing else to be looked for. */
static bool is_plain(const struct kp_jv *m)
{
	if (m->type != KP_JSON_OBJECT || m->n != 2) {
		return false;
	}
	kp_str role = kp_jv_str(m, KP_S("role"));
	return kp_jv_is(kp_jv_get(m, KP_S("content")), KP_JSON_STRING) &&
	       (kp_str_eq(role, KP_S("user")) || kp_str_eq(role, KP_S("assistant")) ||
		       kp_str_eq(role, KP_S("system")));
}

static int check_message(struct reader *r, struct kp_jv *m)
{
	if (is_plain(m)) {
		return 0;
	}
	const struct kp_jv *role = kp_jv_get(m, KP_S("role"));
	if (m->type != KP_JSON_OBJECT) {
		return bad(r, NULL, "expected an object", "%s", "");
	}
	if (!kp_jv_is(role, KP_JSON_STRING)) {
		return bad(r, NULL, role ? "expected a string" : "missing", ".role");
	}
	if (check_text(r, m, KP_S("name"))) {
		return -1;
	}
	for (size_t k = 0; k < KP_LEN(roles); k++) {
		if (kp_str_eq_name(role->s, roles[k].name)) {
			return roles[k].check(r, m);
		}
	}
	char what[160];
	snprintf(what, sizeof(what),
		"`%" KP_FMT "` is no role: expected system, developer, user, assistant or tool",
		KP_ARG(kp_str_sub(role->s, 0, 40)));
	return bad(r, NULL, what, ".role");
}

static void take(
	const struct reader *r, const struct kp_jv *items, uint32_t n, struct kp_turn *turn)
{
	turn->chat.messages = (struct kp_jv){ .type = KP_JSON_ARRAY, .n = n, .items = items };
	turn->chat.media = r->media;
	turn->chat.n_media = r->n_media;
}

int kp_messages_read(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_jv list, *items;
	if (kp_jv_read_as(j, KP_JSON_ARRAY, KP_MAX_VALUES, &list, err)) {
		return -1;
	}
	if (list.n == 0) {
		return kp_json_fail(j, err, "must not be empty");
	}
	if (list.n > KP_MAX_MESSAGES) {
		return kp_json_fail(j, err, "at most %d messages, got %u", KP_MAX_MESSAGES, list.n);
	}
	if (kp_tpl_jv_copy_items(&list, turn->arena, &items, err)) {
		return -1;
	}
	struct reader r = { .a = turn->arena, .err = err };
	for (r.i = 0; r.i < list.n; r.i++) {
		if (check_message(&r, &items[r.i])) {
			return -1;
		}
	}
	take(&r, items, list.n, turn);
	return 0;
}

int kp_messages_read_rest(struct kp_json *j, uint32_t n_known, struct kp_turn *turn,
	struct kp_messages_rest *ret, struct kp_err *err)
{
	const struct kp_jmember *rest;
	uint32_t n;
	if (kp_jv_read_elements(j, KP_MAX_VALUES, &rest, &n, err)) {
		return -1;
	}
	if (n_known + n == 0 || n > KP_MAX_MESSAGES - n_known) {
		return kp_json_fail(j, err, "at most %d messages", KP_MAX_MESSAGES);
	}
	struct kp_jv *items = kp_arena_calloc(turn->arena, n_known + n, sizeof(*items));
	if (!items) {
		return kp_arena_full(err, "messages");
	}
	struct reader r = { .a = turn->arena, .err = err, .i = n_known, .n_apart = n_known + n };
	for (uint32_t k = 0; k < n; k++, r.i++) {
		items[r.i] = rest[k].value;
		if (check_message(&r, &items[r.i])) {
			return -1;
		}
	}
	take(&r, items, n_known + n, turn);
	*ret = (struct kp_messages_rest){ .items = items, .rest = rest, .n_apart = r.n_apart };
	return 0;
}
