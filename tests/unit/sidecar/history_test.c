/* The stores of responses: both must do the same; what is only SQLite's is what its file looks like and how it breaks. */
#include "sidecar/history/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static int64_t now = 1000;
static int64_t clock_s(void)
{
	return now;
}
static const struct kp_history_limits small = {
	.max_bytes = 100, .max_age_s = 50, .now_s = clock_s
};
static char folder[] = "/tmp/kelpie-history-XXXXXX";

static const char *file(const char *name)
{
	static char path[128];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static struct kp_history *open_where(const char *where)
{
	struct kp_history *h = NULL;
	struct kp_err err;
	int r = kp_history_open(where, &small, &h, &err);
	assert_int_equal(r, 0);
	return h;
}

static int put(struct kp_history *h, const char *tenant, const char *id, const char *previous,
	const char *body, const char *item, struct kp_err *err)
{
	kp_str items[1] = { kp_str_c(item) };
	const struct kp_history_record r = { .id = kp_str_c(id),
		.previous_id = kp_str_c(previous),
		.created_s = now,
		.body = kp_str_c(body),
		.item_ids = items,
		.n_item_ids = item != NULL };
	return h->ops->put(h, kp_str_c(tenant), &r, err);
}

/* The body, or "" where there is none. */
static const char *get(struct kp_history *h, const char *tenant, const char *id, struct kp_arena *a)
{
	struct kp_history_record r;
	struct kp_err err;
	int rc = h->ops->get(h, kp_str_c(tenant), kp_str_c(id), a, &r, &err);
	assert_true(rc >= 0);
	return rc ? "" : kp_arena_strz(a, r.body);
}

static void check_store(struct kp_history *h)
{
	struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_history_record r, *chain;
	struct kp_err err;
	size_t n;
	now = 1000;
	assert_int_equal(put(h, "", "a", NULL, "A", "item-a", &err), 0);
	assert_int_equal(put(h, "", "b", "a", "B", "item-b", &err), 0);
	assert_int_equal(put(h, "t", "a", NULL, "other", "item-a", &err), 0);
	assert_int_equal(put(h, "", "a", NULL, "again", NULL, &err), -1);
	assert_int_equal(err.code, KP_ALREADY_EXISTS);
	assert_string_equal(get(h, "", "a", a), "A");
	assert_string_equal(get(h, "t", "a", a), "other");
	assert_string_equal(get(h, "t", "b", a), "");
	assert_string_equal(get(h, "u", "a", a), "");
	assert_int_equal(h->ops->item(h, KP_S("t"), KP_S("item-a"), a, &r, &err), 0);
	assert_true(kp_str_eq(r.body, KP_S("other")));
	assert_int_equal(h->ops->item(h, KP_S("t"), KP_S("item-b"), a, &r, &err), 1);
	assert_int_equal(kp_history_chain(h, KP_S(""), KP_S("b"), a, &chain, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_true(kp_str_eq(chain[0].id, KP_S("a")) && kp_str_eq(chain[1].id, KP_S("b")));
	assert_int_equal(kp_history_chain(h, KP_S("t"), KP_S("b"), a, &chain, &n, &err), -1);
	assert_string_equal(err.msg, "no response `b` is kept here");
	assert_int_equal(h->ops->del(h, KP_S("t"), KP_S("b"), &err), 1);
	assert_int_equal(h->ops->del(h, KP_S(""), KP_S("a"), &err), 0);
	assert_int_equal(h->ops->del(h, KP_S(""), KP_S("a"), &err), 1);
	assert_int_equal(h->ops->item(h, KP_S(""), KP_S("item-a"), a, &r, &err), 1);
	assert_int_equal(kp_history_chain(h, KP_S(""), KP_S("b"), a, &chain, &n, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	assert_int_equal(h->ops->bytes(h), 6);
	kp_arena_destroy(a);
}

static void check_limits(struct kp_history *h)
{
	struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_err err;
	char body[102];
	memset(body, 'x', sizeof(body));
	body[101] = '\0';
	assert_int_equal(put(h, "", "large", NULL, body, NULL, &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	body[60] = '\0';
	assert_int_equal(put(h, "", "c", NULL, body, NULL, &err), 0);
	assert_string_equal(get(h, "", "b", a), "B");
	assert_int_equal(put(h, "", "d", NULL, body, NULL, &err), 0); /* the oldest go */
	assert_string_equal(get(h, "", "b", a), "");
	assert_string_equal(get(h, "", "c", a), "");
	assert_string_equal(get(h, "", "d", a), body);
	assert_int_equal(h->ops->bytes(h), 60);
	now += 51;
	assert_string_equal(get(h, "", "d", a), "");
	assert_int_equal(h->ops->del(h, KP_S(""), KP_S("d"), &err), 1);
	assert_int_equal(put(h, "", "e", NULL, "E", NULL, &err), 0);
	assert_int_equal(h->ops->bytes(h), 1);
	kp_arena_destroy(a);
}

static void test_memory(void **state)
{
	struct kp_history *h = open_where("memory");
	(void)state;
	check_store(h);
	check_limits(h);
	kp_history_close(h);
}

static void test_sqlite(void **state)
{
	char where[160];
	struct stat st;
	struct kp_arena *a = kp_arena_create(1 << 20);
	(void)state;
	snprintf(where, sizeof(where), "sqlite:%s", file("history"));
	struct kp_history *h = open_where(where);
	check_store(h);
	kp_history_close(h);
	assert_int_equal(stat(file("history"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	h = open_where(where); /* everything is still there */
	assert_int_equal(h->ops->bytes(h), 6);
	assert_string_equal(get(h, "", "b", a), "B");
	check_limits(h);
	kp_history_close(h);
	kp_arena_destroy(a);
}

static void refused(const char *path, const char *says)
{
	struct kp_history *h = NULL;
	struct kp_err err;
	assert_int_equal(kp_history_sqlite(path, &small, &h, &err), -1);
	if (!strstr(err.msg, says) || !strstr(err.msg, path)) {
		fail_msg("`%s` does not say `%s` of `%s`", err.msg, says, path);
	}
}

/* Overwrites bytes of the file. */
static void scribble(const char *path, long at, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "r+");
	assert_non_null(f);
	assert_int_equal(fseek(f, at, SEEK_SET), 0);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static void test_files_that_are_no_history(void **state)
{
	char where[160], junk[4096];
	struct kp_err err;
	(void)state;
	snprintf(where, sizeof(where), "sqlite:%s", file("damaged"));
	struct kp_history *h = open_where(where);
	for (int i = 0; i < 20; i++) {
		char id[16];
		snprintf(id, sizeof(id), "r%d", i);
		assert_int_equal(put(h, "", id, NULL, "body", id, &err), 0);
	}
	refused(file("damaged"), "database is locked");
	kp_history_close(h);
	scribble(file("damaged"), 60, "\0\0\0\7", 4); /* user_version */
	refused(file("damaged"), "its schema has number 7, this version of Kelpie knows 1");
	scribble(file("damaged"), 60, "\0\0\0\1", 4);
	scribble(file("damaged"), 68, "abcd", 4); /* application_id */
	refused(file("damaged"), "it is a database of another program");
	scribble(file("damaged"), 68, "KpHs", 4);
	kp_history_close(open_where(where));
	memset(junk, 0x5a, sizeof(junk));
	scribble(file("damaged"), 4096, junk, sizeof(junk)); /* a page of a table */
	refused(file("damaged"), "open history");
	scribble(file("damaged"), 0, junk, sizeof(junk));
	refused(file("damaged"), "file is not a database");
	refused("/nowhere/at/all", "unable to open database file");
	assert_int_equal(kp_history_open("redis:x", &small, &h, &err), -1);
	assert_string_equal(
		err.msg, "`--history`: expected memory, sqlite:PATH or none, got `redis:x`");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_sqlite),
		cmocka_unit_test(test_files_that_are_no_history),
	};
	assert_non_null(mkdtemp(folder));
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	char command[64];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command) | r;
}
