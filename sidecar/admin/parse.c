/* DESIGN: the model is looked up in the snapshot that is served; the rest is lib/prompt's. */
#include "sidecar/admin/parse.h"

#include "base/rand.h"
#include "prompt/parse_ask.h"
#include "sidecar/control/control.h"

static int find(void *ctx, kp_str name, struct kp_text_stack **ret, struct kp_err *err)
{
	struct kp_snapshot *s = ctx;
	*ret = NULL;
	if (!name.p) {
		return 0;
	}
	const struct kp_model *m = s ? kp_snapshot_find(s, name) : NULL;
	for (size_t i = 0; m && i < m->n_revisions && !*ret; i++) {
		*ret = m->revisions[i]->text;
	}
	if (*ret) {
		return 0;
	}
	kp_err_set(err, m ? KP_UNAVAILABLE : KP_NOT_FOUND,
		m ? "the tokenizer of model `%" KP_FMT "` is not loaded"
		  : "the model `%" KP_FMT "` does not exist",
		KP_ARG(kp_str_sub(name, 0, 100)));
	err->reason = m ? NULL : "model_not_found";
	return -1;
}

struct kp_admin_answer kp_admin_parse(void *ctx, kp_str body, struct kp_buf *out)
{
	struct kp_gateway *g = ctx;
	struct kp_snapshot *s = kp_control_snapshot(g->control);
	struct kp_rng rng;
	uint64_t seed;
	struct kp_err err;
	kp_random_bytes(&seed, sizeof(seed));
	kp_rng_seed(&rng, seed);
	const struct kp_parse_ask ask = { .model = find, .ctx = s, .rng = &rng };
	struct kp_admin_answer ans = { .status = 200, .type = "application/json" };
	if (kp_parse_answer(&ask, body, out, &err)) {
		kp_buf_reset(out);
		ans = kp_admin_error(out, &err);
	}
	kp_snapshot_unref(s);
	return ans;
}
