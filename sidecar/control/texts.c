/* DESIGN: what the images count since the last load goes into the metrics after each load. */
#include "sidecar/control/texts.h"

#include "base/clock.h"
#include "obs/log.h"
#include "token/images.h"

enum { FILES_MEMORY = 64 << 20 };

struct kp_texts {
	struct kp_metrics *metrics;
	struct kp_token_images *images;   /* NULL: none */
	struct kp_token_images_info said; /* as metrics and log have it */
};

static struct kp_counter *failed(struct kp_texts *t)
{
	return kp_metrics_counter(t->metrics, "kelpie_tokenizer_images_failed_total",
		"Images of tokenizers that were refused or could not be written.", NULL, 0);
}

struct kp_texts *kp_texts_create(struct kp_gateway *g)
{
	const struct kp_config *c = &g->config;
	struct kp_texts *t = kp_new(struct kp_texts);
	struct kp_err err = KP_ERR_INIT;
	t->metrics = g->metrics;
	kp_counter_add(failed(t), 0);
	if (c->cache_dir || c->state_dir) {
		KP_AUTO(buf) struct kp_buf path;
		kp_buf_init(&path, 8192);
		kp_buf_printf(&path, "%s%s", c->cache_dir ? c->cache_dir : c->state_dir,
			c->cache_dir ? "" : "/tokenizers");
		const char *dir = kp_buf_cstr(&path);
		if (!dir) {
			kp_err_set(&err, KP_INVALID_ARGUMENT, "`--cache-dir`: path too long");
		}
		if (!dir || kp_token_images_open(dir, &t->images, &err)) {
			kp_log(KP_LOG_WARN, "no images of tokenizers", kp_f_err(&err));
		}
	}
	return t;
}

void kp_texts_destroy(struct kp_texts *t)
{
	if (t) {
		kp_token_images_close(t->images);
		kp_free(&t);
	}
}

static void count_loads(struct kp_texts *t, const char *from, uint64_t n)
{
	const struct kp_label label = { "from", kp_str_c(from) };
	kp_counter_add(kp_metrics_counter(t->metrics, "kelpie_tokenizer_loads_total",
			       "Tokenizers loaded: from an image, from files.", &label, 1),
		n);
}

/* A tokenizer was loaded. */
static void tell(struct kp_texts *t, int64_t begin_ns)
{
	static const double bounds[] = { 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5 };
	kp_histogram_observe(kp_metrics_histogram(t->metrics, "kelpie_tokenizer_load_seconds",
				     "Loading a tokenizer.", bounds, KP_LEN(bounds), NULL, 0),
		(double)(kp_now_ns() - begin_ns) / 1e9);
	if (!t->images) {
		count_loads(t, "files", 1);
		return;
	}
	const struct kp_token_images_info *now = kp_token_images_info(t->images);
	uint64_t bad = now->refused + now->unwritten - t->said.refused - t->said.unwritten;
	count_loads(t, "image", now->mapped - t->said.mapped);
	count_loads(t, "files", now->built - t->said.built);
	kp_counter_add(failed(t), bad);
	if (bad) {
		kp_log(KP_LOG_WARN, "image of a tokenizer not used", kp_f_err(&now->last));
	}
	t->said = *now;
}

int kp_texts_load(struct kp_texts *t, const char *path, kp_str zip,
	const struct kp_text_options *opts, struct kp_text_stack **ret, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(FILES_MEMORY);
	struct kp_model_files files;
	struct kp_tokenizer *tokenizer;
	int64_t begin_ns = kp_now_ns();
	if (path ? kp_token_images_path(t->images, path, &tokenizer, err)
		 : kp_token_images_zip(t->images, zip, &tokenizer, err)) {
		return -1;
	}
	tell(t, begin_ns);
	if (path) {
		kp_model_files_from_path(path, a, &files);
	} else {
		kp_model_files_from_zip(zip, a, &files);
	}
	return kp_text_stack_from_tokenizer(tokenizer, &files, opts, ret, err);
}
