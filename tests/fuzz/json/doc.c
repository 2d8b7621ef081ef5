/* Fuzz target: a YAML or JSON stream through the document loader. What was accepted must be valid
   inside its limits, have a position for every value, and come back equal when it is written as
   JSON and read again. */
#include "base/mem.h"
#include "json/doc.h"
#include "json/jansson.h"

#include <stdlib.h>

static size_t count(const json_t *v, unsigned depth, const struct kp_yaml_marks *m)
{
	size_t n = 1;
	KP_BUG_ON(
		depth > kp_doc_limits_manifest.max_depth || m->pos.line == 0 || m->pos.column == 0);
	const struct kp_yaml_marks *c = m->first;
	if (json_is_array(v)) {
		for (size_t i = 0; i < json_array_size(v); i++, c = c->next) {
			n += count(json_array_get(v, i), depth + 1, c);
		}
		KP_BUG_ON(c);
	} else if (json_is_object(v)) {
		size_t members = 0;
		for (; c; c = c->next, members++) {
			n += count(json_object_getn(v, c->key.p, c->key.n), depth + 1, c);
		}
		KP_BUG_ON(members != json_object_size(v));
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_yaml_stream s;
	struct kp_err err = KP_ERR_INIT;
	if (kp_doc_yaml(kp_str_n(data, size), "fuzz", &kp_doc_limits_manifest, &s, &err)) {
		KP_BUG_ON(err.code == KP_OK || err.msg[0] == '\0');
		return 0;
	}
	KP_BUG_ON(err.code != KP_OK);
	size_t values = 0;
	for (size_t i = 0; i < s.n; i++) {
		values += count(s.docs[i].value, 1, s.docs[i].marks);
		char *text = json_dumps(s.docs[i].value, JSON_COMPACT | JSON_ENCODE_ANY);
		const struct kp_doc_limits wide = {
			.max_bytes = 1 << 26, .max_nodes = 100000, .max_depth = 64, .max_docs = 1
		};
		json_t *again;
		KP_BUG_ON(!text || kp_doc_json(kp_str_c(text), "again", &wide, &again, &err));
		KP_BUG_ON(!json_equal(again, s.docs[i].value));
		json_decref(again);
		free(text);
	}
	KP_BUG_ON(values > kp_doc_limits_manifest.max_nodes);
	kp_yaml_stream_fini(&s);
	return 0;
}
