/* DESIGN: the shapes of `prompt`: a string, a list of strings, a list of ids, a list of such lists.
   The first element of a list tells which; ids go straight into one array of the arena. */
#include "sidecar/api/prompts.h"

#include "sidecar/api/params.h"

int kp_prompts_read_ids(
	struct kp_json *j, struct kp_turn *t, int more, struct kp_prompt *ret, struct kp_err *err)
{
	size_t cap = 64, n = 0;
	kp_id *ids = kp_arena_alloc(t->arena, cap * sizeof(*ids));
	for (; ids && more > 0; more = kp_json_element(j, err)) {
		int64_t id;
		if (kp_json_i64(j, 0, INT32_MAX, &id, err)) {
			return -1;
		}
		if (n == cap) {
			ids = kp_arena_grow(
				t->arena, ids, cap * sizeof(*ids), cap * 2 * sizeof(*ids));
			cap *= 2;
			if (!ids) {
				break;
			}
		}
		ids[n++] = (kp_id)id;
	}
	if (!ids) {
		return kp_arena_full(err, "token ids");
	}
	*ret = (struct kp_prompt){ .ids = ids, .n_ids = n };
	return more;
}

/* One prompt of ids, which must have some. */
static int read_id_prompt(
	struct kp_json *j, struct kp_turn *t, struct kp_prompt *p, int more, struct kp_err *err)
{
	if (kp_prompts_read_ids(j, t, more, p, err)) {
		return -1;
	}
	return p->n_ids ? 0 : kp_json_fail(j, err, "a prompt of token ids must not be empty");
}

/* An array: of strings, of ids (one prompt), or of arrays of ids. */
static int read_prompt_array(
	struct kp_json *j, struct kp_turn *t, struct kp_prompt *prompts, struct kp_err *err)
{
	size_t n = 0;
	int more;
	if (kp_json_array(j, err)) {
		return -1;
	}
	more = kp_json_element(j, err);
	if (more > 0 && kp_json_peek(j) == KP_JSON_NUMBER) {
		t->n_prompts = 1;
		return read_id_prompt(j, t, prompts, more, err);
	}
	for (; more > 0; more = kp_json_element(j, err)) {
		if (n == KP_MAX_PROMPTS) {
			return kp_json_fail(j, err, "at most %d prompts", KP_MAX_PROMPTS);
		}
		struct kp_prompt *p = &prompts[n++];
		if (kp_json_peek(j) == KP_JSON_ARRAY) {
			if (kp_json_array(j, err)) {
				return -1;
			}
			int first = kp_json_element(j, err);
			if (first < 0 || read_id_prompt(j, t, p, first, err)) {
				return -1;
			}
		} else if (kp_json_string(j, &p->text, err)) {
			return -1;
		}
	}
	t->n_prompts = n;
	return more;
}

int kp_prompts_read(struct kp_json *j, struct kp_turn *t, struct kp_err *err)
{
	struct kp_prompt *prompts = kp_arena_calloc(t->arena, KP_MAX_PROMPTS, sizeof(*prompts));
	if (!prompts) {
		return kp_arena_full(err, "prompts");
	}
	t->prompts = prompts;
	switch (kp_json_peek(j)) {
	case KP_JSON_STRING:
		t->n_prompts = 1;
		return kp_json_string(j, &prompts[0].text, err);
	case KP_JSON_ARRAY:
		return read_prompt_array(j, t, prompts, err);
	case KP_JSON_NONE:
	case KP_JSON_NULL:
	case KP_JSON_FALSE:
	case KP_JSON_TRUE:
	case KP_JSON_NUMBER:
	case KP_JSON_OBJECT:
		break;
	}
	return kp_json_fail(j, err, "expected a string or an array, got %s",
		kp_json_type_name(kp_json_peek(j)));
}
