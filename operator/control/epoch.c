/* DESIGN: one number in a file of its own, replaced at once. */
#include "operator/control/epoch.h"

#include "base/clock.h"
#include "base/fs.h"
#include "control/epoch.h"
#include "obs/log.h"

#include <stdio.h>
#include <sys/stat.h>

static int file_name(const char *dir, struct kp_buf *out, struct kp_err *err)
{
	kp_buf_printf(out, "%s/epoch", dir);
	if (!kp_buf_cstr(out)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "`--state-dir`: too long");
	}
	return 0;
}

static int read_kept(const char *path, uint64_t *ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 64);
	*ret = 0;
	if (kp_fs_read(path, &text, err)) {
		return err->code == KP_NOT_FOUND ? 0 : kp_err_wrap(err, "read the last epoch");
	}
	if (!kp_str_u64(kp_str_trim(kp_buf_str(&text)), UINT64_MAX / 2, ret)) {
		kp_log(KP_LOG_WARN, "the last epoch is not a number, the clock alone counts",
			kp_f_z("file", path));
		*ret = 0;
	}
	return 0;
}

int kp_epoch_keep(const char *state_dir, uint64_t epoch, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf path;
	char text[32];
	kp_buf_init(&path, 4096);
	if (!state_dir) {
		return 0;
	}
	int n = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)epoch);
	return file_name(state_dir, &path, err) ||
			       kp_fs_write_atomic(path.p, kp_str_n(text, (size_t)n), 0600, err)
		       ? -1
		       : 0;
}

int kp_epoch_start(const char *state_dir, int64_t wall_ns, uint64_t *ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf path;
	uint64_t kept = 0, epoch = (uint64_t)(KP_MAX(wall_ns, KP_NS_PER_MS) / KP_NS_PER_MS);
	kp_buf_init(&path, 4096);
	if (state_dir && (file_name(state_dir, &path, err) || read_kept(path.p, &kept, err))) {
		return -1;
	}
	epoch = KP_MAX(epoch, kept + 1);
	if (kp_epoch_keep(state_dir, epoch, err)) {
		return kp_err_wrap(err, "keep the epoch");
	}
	*ret = epoch;
	return 0;
}

uint64_t kp_epoch_of_term(uint64_t before, int64_t wall_ns)
{
	uint64_t now = (uint64_t)(KP_MAX(wall_ns, KP_NS_PER_MS) / KP_NS_PER_MS);
	return before < kp_epoch_most(wall_ns) ? KP_MAX(now, before + 1) : now;
}

int64_t kp_epoch_wait_ns(uint64_t ours, uint64_t seen, uint64_t age_ms)
{
	const uint64_t silence_ms = KP_FOLLOWER_SILENCE_NS / KP_NS_PER_MS;
	return seen <= ours || age_ms >= silence_ms ? 0
						    : (int64_t)(silence_ms - age_ms) * KP_NS_PER_MS;
}
