/* DESIGN: control/manifests does the reading, a timer the looking. The set itself is not kept: whoever
   checks it makes of it what it needs. */
#include "operator/source/files.h"

#include "base/clock.h"
#include "control/manifests.h"
#include "obs/log.h"

struct kp_files {
	struct kp_loop *loop;
	struct kp_files_opts opts;
	struct kp_manifests manifests;
	struct kp_timer look;
	struct kp_counter *loads_accepted, *loads_refused;
	struct kp_gauge *errors;
};

static int load(struct kp_files *f, struct kp_err *err)
{
	struct kp_object_set set;
	int r = kp_manifests_read(&f->manifests, &set, f->opts.check, f->opts.ctx, err);
	kp_counter_add(r == 0 ? f->loads_accepted : f->loads_refused, 1);
	kp_gauge_set(f->errors, r == 0 ? 0 : (int64_t)f->manifests.n_errors);
	if (r == 0) {
		kp_log(KP_LOG_INFO, "manifests accepted", kp_f_z("path", f->manifests.path),
			kp_f_int("objects", (int64_t)set.n));
		kp_object_set_fini(&set);
	}
	return r;
}

static void on_look(struct kp_timer *t)
{
	struct kp_files *f = KP_CONTAINER(t, struct kp_files, look);
	struct kp_err err;
	if (!kp_manifests_look(&f->manifests)) {
		/* as it was */
	} else if (load(f, &err) == 0) {
		f->opts.accepted(f->opts.ctx);
	} else {
		kp_log(KP_LOG_ERROR, "manifests refused, the last good program stays",
			kp_f_err(&err));
		f->opts.refused(f->opts.ctx);
	}
	kp_timer_start(f->loop, t, kp_loop_now(f->loop) + KP_MANIFESTS_LOOK_NS, on_look);
}

int kp_files_create(struct kp_loop *loop, const struct kp_files_opts *opts, struct kp_files **ret,
	struct kp_err *err)
{
	const struct kp_label accepted = { "result", KP_S("accepted") },
			      refused = { "result", KP_S("refused") };
	struct kp_files *f = kp_new(struct kp_files);
	f->loop = loop;
	f->opts = *opts;
	kp_manifests_init(&f->manifests, opts->path, opts->ns);
	f->loads_accepted =
		kp_metrics_counter(opts->metrics, "kelpie_operator_manifest_loads_total",
			"Times the manifests were read, by result.", &accepted, 1);
	f->loads_refused = kp_metrics_counter(opts->metrics, "kelpie_operator_manifest_loads_total",
		"Times the manifests were read, by result.", &refused, 1);
	f->errors = kp_metrics_gauge(opts->metrics, "kelpie_operator_manifest_errors",
		"Errors in the manifests as they are on disk; 0: they are in force.", NULL, 0);
	if (load(f, err)) {
		kp_files_destroy(f);
		return -1;
	}
	kp_timer_start(loop, &f->look, kp_now_ns() + KP_MANIFESTS_LOOK_NS, on_look);
	*ret = f;
	return 0;
}

void kp_files_destroy(struct kp_files *f)
{
	if (f) {
		kp_timer_stop(f->loop, &f->look);
		kp_manifests_fini(&f->manifests);
		kp_mem_free(f);
	}
}

kp_str kp_files_problems(const struct kp_files *f, size_t *ret_n)
{
	bool bad = f->manifests.errors.n > 0;
	*ret_n = bad ? f->manifests.n_errors : 0;
	return kp_buf_str(&f->manifests.errors);
}

int64_t kp_files_accepted_wall_ns(const struct kp_files *f)
{
	return f->manifests.read_wall_ns;
}
