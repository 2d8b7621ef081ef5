/* Memory with names: what another process sees, whose names are taken away, and that a living one's are not. */
#include "base/shm.h"
#include "tests/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_there(const char *name)
{
	char path[300];
	struct stat st;
	snprintf(path, sizeof(path), "/dev/shm/%s", name);
	return stat(path, &st) == 0;
}

static void test_names(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_shm_owner o;
	struct kp_shm s = { 0 };
	char name[64], path[80], got[6];
	assert_int_equal(kp_shm_owner_open(&o, &err), 0);
	assert_int_equal(kp_shm_create(&s, 100000, &err), 0);
	memcpy((char *)s.p + 5000, "hello", 5);
	snprintf(name, sizeof(name), "kelpie-%s-1", o.id);
	assert_int_equal(kp_shm_link(&s, name, &err), 0);
	assert_int_equal(kp_shm_link(&s, name, &err), -1);
	assert_int_equal(err.code, KP_ALREADY_EXISTS);
	kp_shm_unlink(name);
	assert_int_equal(kp_shm_link(&s, name, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	kp_shm_fini(&s);
	assert_int_equal(kp_shm_create(&s, 100000, &err), 0);
	assert_int_equal(kp_shm_write(&s, 5000, KP_S("hello"), &err), 0);
	assert_int_equal(kp_shm_write(&s, 100000, KP_STR_NULL, &err), 0);
	assert_memory_equal((char *)s.p + 5000, "hello", 5);
	assert_int_equal(kp_shm_link(&s, name, &err), 0);
	kp_shm_fini(&s);
	snprintf(path, sizeof(path), "/dev/shm/%s", name);
	int fd = open(path, O_RDONLY);
	assert_int_equal(pread(fd, got, 5, 5000), 5);
	assert_memory_equal(got, "hello", 5);
	close(fd);
	kp_shm_reap(); /* we live */
	assert_true(is_there(name));
	kp_shm_owner_close(&o);
	assert_false(is_there(name));
	kp_shm_owner_close(&o);
	kp_shm_unlink(name);
	assert_int_not_equal(kp_shm_create(&s, (size_t)1 << 50, &err), 0);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	kp_shm_fini(&s);
	assert_non_null(strchr(kp_shm_namespace(), ':'));
}

/* A process that is killed leaves its names; whoever reaps next takes them away. */
static void test_killed(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	int ends[2];
	char id[16] = "", name[64];
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		struct kp_shm_owner o;
		struct kp_shm s = { 0 };
		if (kp_shm_owner_open(&o, &err) || kp_shm_create(&s, 10, &err)) {
			_exit(1);
		}
		snprintf(name, sizeof(name), "kelpie-%s-7", o.id);
		if (kp_shm_link(&s, name, &err) || write(ends[1], o.id, sizeof(o.id)) < 0) {
			_exit(1);
		}
		pause();
	}
	assert_int_equal(read(ends[0], id, sizeof(id)), sizeof(id));
	snprintf(name, sizeof(name), "kelpie-%s-7", id);
	kp_shm_reap();
	assert_true(is_there(name));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true(is_there(name));
	assert_true(kp_shm_reap() >= 1);
	assert_false(is_there(name));
	snprintf(name, sizeof(name), "kelpie-%s.lock", id);
	assert_false(is_there(name));
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_names),
		cmocka_unit_test(test_killed) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
