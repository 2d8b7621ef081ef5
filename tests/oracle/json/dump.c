/* Reads frames (see tests/oracle/json/go/main.go) and answers each with what lib/json makes of it:
   {"docs":[...],"error":"..."}. Letters: s, l, m YAML; j JSON. */
#include "json/jansson.h"
#include "tests/frames.h"

#include <stdio.h>

static json_t *load(char kind, kp_str text, struct kp_err *err)
{
	json_t *docs = json_array();
	if (kind == 'j') {
		json_t *v;
		if (kp_doc_json(text, "text", &kp_doc_limits_manifest, &v, err) == 0) {
			json_array_append_new(docs, v);
		}
		return docs;
	}
	struct kp_yaml_stream s;
	if (kp_doc_yaml(text, "text", &kp_doc_limits_manifest, &s, err) == 0) {
		for (size_t i = 0; i < s.n; i++) {
			json_array_append(docs, s.docs[i].value);
		}
		kp_yaml_stream_fini(&s);
	}
	return docs;
}

int main(void)
{
	struct test_frame f;
	while (frame_read(&f)) {
		struct kp_err err = KP_ERR_INIT;
		json_t *docs = load(f.kind, kp_str_n(f.text, f.n), &err);
		json_t *answer =
			json_pack("{s:o, s:s}", "docs", docs, "error", err.code ? err.msg : "");
		char *line = json_dumps(answer, JSON_COMPACT | JSON_ENSURE_ASCII);
		if (!line) {
			return 1;
		}
		puts(line);
		free(line); /* jansson's */
		json_decref(answer);
		kp_free(&f.text);
	}
	return 0;
}
