/* DESIGN: two tables, `responses` and `items`, in a file that one process has for itself (locking_mode EXCLUSIVE), written ahead (WAL) and synced at every
   commit (synchronous FULL). `seq` is the order of arrival, in which records go. The sum of all bodies is counted once, when the file is opened. The schema's number
   is in the header (user_version), our name too (application_id); a later version of ours raises the number and brings the steps from each earlier one. One
   thread; statements are prepared once. Every failure is UNAVAILABLE, since trying again may help, but for those that opening finds. */
#include "base/mem.h"
#include "sidecar/history/history.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

enum { APPLICATION_ID = 0x4b704873 /* KpHs */, VERSION = 1, BUSY_MS = 5000 };
enum statement { PUT, PUT_ITEM, GET, ITEM, DEL, OLDEST, DROP, EXPIRE, N_STATEMENTS };

struct sqlite {
	struct kp_history base;
	struct kp_history_limits limits;
	sqlite3 *db;
	sqlite3_stmt *statements[N_STATEMENTS];
	uint64_t bytes;
};

#define COLUMNS "r.id, r.previous, r.created, r.body"
static const char *const texts[] = {
	[PUT] = "INSERT INTO responses (tenant, id, previous, created, body) VALUES (?, ?, ?, ?, ?)",
	[PUT_ITEM] = "INSERT OR REPLACE INTO items (tenant, id, response) VALUES (?, ?, ?)",
	[GET] = "SELECT " COLUMNS
		" FROM responses r WHERE r.tenant = ? AND r.id = ? AND r.created >= ?",
	[ITEM] =
		"SELECT " COLUMNS
		" FROM items i JOIN responses r ON r.seq = i.response WHERE i.tenant = ? AND i.id = ? AND r.created >= ?",
	[DEL] = "DELETE FROM responses WHERE tenant = ? AND id = ? RETURNING length(body), created",
	[OLDEST] = "SELECT seq, length(body) FROM responses ORDER BY seq LIMIT 1",
	[DROP] = "DELETE FROM responses WHERE seq = ?",
	[EXPIRE] = "DELETE FROM responses WHERE created < ? RETURNING length(body)",
};
static const char schema[] =
	"BEGIN IMMEDIATE;"
	"CREATE TABLE responses (seq INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, id TEXT NOT NULL, previous TEXT, created INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE (tenant, id));"
	"CREATE INDEX responses_created ON responses (created);"
	"CREATE TABLE items (tenant TEXT NOT NULL, id TEXT NOT NULL, response INTEGER NOT NULL REFERENCES responses (seq) ON DELETE CASCADE, PRIMARY KEY (tenant, id)) WITHOUT ROWID;"
	"CREATE INDEX items_response ON items (response);"
	"PRAGMA application_id = 1265649779;" /* APPLICATION_ID */
	"PRAGMA user_version = 1;"
	"COMMIT";

static struct sqlite *of(struct kp_history *h)
{
	return KP_CONTAINER(h, struct sqlite, base);
}

/* Clients are told of it: where the file is, only opening says. */
static int fail(const struct sqlite *s, const char *what, struct kp_err *err)
{
	kp_err_set(err, KP_UNAVAILABLE, "%s the history: %s", what, sqlite3_errmsg(s->db));
	err->reason = "history_unavailable";
	return -1;
}

static int run(struct sqlite *s, const char *sql, struct kp_err *err)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(s, "write", err);
}

static void bind_str(sqlite3_stmt *st, int i, kp_str v)
{
	if (v.p) {
		sqlite3_bind_text64(st, i, v.p, v.n, SQLITE_STATIC, SQLITE_UTF8);
	} else {
		sqlite3_bind_null(st, i);
	}
}

/* Ready to be bound. */
static sqlite3_stmt *statement(struct sqlite *s, enum statement which)
{
	sqlite3_stmt *st = s->statements[which];
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
	return st;
}

/* Runs a statement without rows. */
static int step(struct sqlite *s, sqlite3_stmt *st, struct kp_err *err)
{
	int r = sqlite3_step(st);
	if (r != SQLITE_DONE) {
		fail(s, "write", err);
	}
	sqlite3_reset(st);
	return r == SQLITE_DONE ? 0 : -1;
}

/* Everything before this is as good as gone. */
static int64_t horizon(const struct sqlite *s)
{
	return s->limits.max_age_s ? s->limits.now_s() - s->limits.max_age_s : INT64_MIN;
}

/* --- writing ------------------------------------------------------------------------------------- */

/* What is too old, then the oldest, until `more` bytes have room. */
static int make_room(struct sqlite *s, uint64_t more, uint64_t *bytes, struct kp_err *err)
{
	sqlite3_stmt *st = statement(s, EXPIRE);
	int r;
	sqlite3_bind_int64(st, 1, horizon(s));
	while ((r = sqlite3_step(st)) == SQLITE_ROW) {
		*bytes -= (uint64_t)sqlite3_column_int64(st, 0);
	}
	sqlite3_reset(st);
	while (r == SQLITE_DONE && *bytes + more > s->limits.max_bytes) {
		st = statement(s, OLDEST);
		if ((r = sqlite3_step(st)) != SQLITE_ROW) {
			break; /* there is none: the count was wrong */
		}
		int64_t seq = sqlite3_column_int64(st, 0);
		*bytes -= (uint64_t)sqlite3_column_int64(st, 1);
		sqlite3_reset(st);
		st = statement(s, DROP);
		sqlite3_bind_int64(st, 1, seq);
		r = sqlite3_step(st);
		sqlite3_reset(st);
	}
	return r == SQLITE_DONE ? 0 : fail(s, "write", err);
}

static int insert(
	struct sqlite *s, kp_str tenant, const struct kp_history_record *r, struct kp_err *err)
{
	sqlite3_stmt *st = statement(s, PUT);
	bind_str(st, 1, tenant);
	bind_str(st, 2, r->id);
	bind_str(st, 3, r->previous_id);
	sqlite3_bind_int64(st, 4, r->created_s);
	sqlite3_bind_blob64(st, 5, r->body.p, r->body.n, SQLITE_STATIC);
	int rc = sqlite3_step(st);
	sqlite3_reset(st);
	if (rc == SQLITE_CONSTRAINT) {
		return kp_err_set(
			err, KP_ALREADY_EXISTS, "`%" KP_FMT "` is kept already", KP_ARG(r->id));
	}
	if (rc != SQLITE_DONE) {
		return fail(s, "write", err);
	}
	int64_t seq = sqlite3_last_insert_rowid(s->db);
	for (size_t i = 0; i < r->n_item_ids; i++) {
		st = statement(s, PUT_ITEM);
		bind_str(st, 1, tenant);
		bind_str(st, 2, r->item_ids[i]);
		sqlite3_bind_int64(st, 3, seq);
		if (step(s, st, err)) {
			return -1;
		}
	}
	return 0;
}

static int sqlite_put(
	struct kp_history *h, kp_str tenant, const struct kp_history_record *r, struct kp_err *err)
{
	struct sqlite *s = of(h);
	uint64_t bytes = s->bytes;
	if (r->body.n > KP_HISTORY_MAX_RECORD || r->body.n > s->limits.max_bytes) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "a record of %zu bytes is too large",
			r->body.n);
	}
	if (run(s, "BEGIN IMMEDIATE", err)) {
		return -1;
	}
	if (make_room(s, r->body.n, &bytes, err) || insert(s, tenant, r, err) ||
		run(s, "COMMIT", err)) {
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
		return -1;
	}
	s->bytes = bytes + r->body.n;
	return 0;
}

static int sqlite_del(struct kp_history *h, kp_str tenant, kp_str id, struct kp_err *err)
{
	struct sqlite *s = of(h);
	sqlite3_stmt *st = statement(s, DEL);
	int64_t bytes = 0;
	bool was_there = false;
	bind_str(st, 1, tenant);
	bind_str(st, 2, id);
	int r = sqlite3_step(st);
	if (r == SQLITE_ROW) {
		bytes = sqlite3_column_int64(st, 0);
		was_there = sqlite3_column_int64(st, 1) >= horizon(s);
		r = sqlite3_step(st);
	}
	if (r != SQLITE_DONE) {
		fail(s, "write", err);
	}
	sqlite3_reset(st);
	s->bytes -= r == SQLITE_DONE ? (uint64_t)bytes : 0;
	return r == SQLITE_DONE ? !was_there : -1;
}

/* --- reading ------------------------------------------------------------------------------------- */

static int column(sqlite3_stmt *st, int i, struct kp_arena *a, kp_str *ret, struct kp_err *err)
{
	const void *p = sqlite3_column_blob(st, i); /* before its length */
	kp_str s = kp_str_n(p, (size_t)sqlite3_column_bytes(st, i));
	if (sqlite3_column_type(st, i) == SQLITE_NULL) {
		*ret = KP_STR_NULL;
		return 0;
	}
	return kp_arena_dup(a, s, ret, err);
}

static int read_one(struct kp_history *h, enum statement which, kp_str tenant, kp_str id,
	struct kp_arena *a, struct kp_history_record *ret, struct kp_err *err)
{
	struct sqlite *s = of(h);
	sqlite3_stmt *st = statement(s, which);
	struct kp_history_record r = { .n_item_ids = 0 };
	bind_str(st, 1, tenant);
	bind_str(st, 2, id);
	sqlite3_bind_int64(st, 3, horizon(s));
	int rc = sqlite3_step(st), failed = 0;
	if (rc == SQLITE_ROW) {
		r.created_s = sqlite3_column_int64(st, 2);
		failed = column(st, 0, a, &r.id, err) || column(st, 1, a, &r.previous_id, err) ||
			 column(st, 3, a, &r.body, err);
	} else if (rc != SQLITE_DONE) {
		failed = fail(s, "read", err);
	}
	sqlite3_reset(st);
	if (failed) {
		return -1;
	}
	*ret = r;
	return rc == SQLITE_ROW ? 0 : 1;
}

static int sqlite_get(struct kp_history *h, kp_str tenant, kp_str id, struct kp_arena *a,
	struct kp_history_record *ret, struct kp_err *err)
{
	return read_one(h, GET, tenant, id, a, ret, err);
}

static int sqlite_item(struct kp_history *h, kp_str tenant, kp_str item_id, struct kp_arena *a,
	struct kp_history_record *ret, struct kp_err *err)
{
	return read_one(h, ITEM, tenant, item_id, a, ret, err);
}

static uint64_t sqlite_bytes(const struct kp_history *h)
{
	return ((const struct sqlite *)h)->bytes;
}

static void sqlite_close(struct kp_history *h)
{
	struct sqlite *s = of(h);
	for (size_t i = 0; i < N_STATEMENTS; i++) {
		sqlite3_finalize(s->statements[i]);
	}
	sqlite3_close(s->db);
	kp_mem_free(s);
}

/* --- opening ------------------------------------------------------------------------------------- */

/* The first column of the first row. */
static int number(struct sqlite *s, const char *sql, int64_t *ret, struct kp_err *err)
{
	sqlite3_stmt *st = NULL;
	if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK ||
		sqlite3_step(st) != SQLITE_ROW) {
		fail(s, "read", err);
		sqlite3_finalize(st);
		return -1;
	}
	*ret = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return 0;
}

/* What is not whole is not served: a row that cannot be read would be found by somebody's conversation. */
static int check_whole(struct sqlite *s, struct kp_err *err)
{
	sqlite3_stmt *st = NULL;
	kp_str said = KP_S("");
	int r = sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &st, NULL);
	if (r == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW) {
		said = kp_str_c((const char *)sqlite3_column_text(st, 0));
	}
	bool is_good = kp_str_eq(said, KP_S("ok"));
	if (!is_good) {
		kp_err_set(err, KP_DATA_LOSS, "it is damaged: %" KP_FMT,
			KP_ARG(said.n ? said : kp_str_c(sqlite3_errmsg(s->db))));
	}
	sqlite3_finalize(st);
	return is_good ? 0 : -1;
}

static int check_schema(struct sqlite *s, struct kp_err *err)
{
	int64_t application = 0, version = 0, tables = 0;
	if (number(s, "PRAGMA application_id", &application, err) ||
		number(s, "PRAGMA user_version", &version, err) ||
		number(s, "SELECT count(*) FROM sqlite_schema", &tables, err)) {
		return -1;
	}
	if (tables == 0 && version == 0) {
		return run(s, schema, err);
	}
	if (application != APPLICATION_ID) {
		return kp_err_set(
			err, KP_FAILED_PRECONDITION, "it is a database of another program");
	}
	if (version != VERSION) {
		return kp_err_set(err, KP_FAILED_PRECONDITION,
			"its schema has number %lld, this version of Kelpie knows %d",
			(long long)version, VERSION);
	}
	return check_whole(s, err);
}

static int prepare(struct sqlite *s, struct kp_err *err)
{
	int64_t bytes = 0;
	if (run(s, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF",
		    err) ||
		check_schema(s, err) ||
		number(s, "SELECT coalesce(sum(length(body)), 0) FROM responses", &bytes, err)) {
		return -1;
	}
	s->bytes = (uint64_t)bytes;
	for (size_t i = 0; i < N_STATEMENTS; i++) {
		if (sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
			    &s->statements[i], NULL) != SQLITE_OK) {
			return fail(s, "read", err);
		}
	}
	return 0;
}

int kp_history_sqlite(const char *path, const struct kp_history_limits *limits,
	struct kp_history **ret, struct kp_err *err)
{
	static const struct kp_history_ops ops = { sqlite_put, sqlite_get, sqlite_item, sqlite_del,
		sqlite_bytes, sqlite_close };
	struct sqlite *s = kp_new(struct sqlite);
	s->base.ops = &ops;
	s->limits = *limits;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* SQLite's own would be 0644 */
	if (fd >= 0) {
		close(fd);
	}
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	int rc = sqlite3_open_v2(path, &s->db, flags, NULL);
	if (rc == SQLITE_OK) {
		sqlite3_busy_timeout(s->db, BUSY_MS);
		sqlite3_extended_result_codes(s->db, 0);
	}
	if (rc == SQLITE_OK ? prepare(s, err) : fail(s, "read", err)) {
		sqlite_close(&s->base);
		return kp_err_wrap(err, "open history `%s`", path);
	}
	*ret = &s->base;
	return 0;
}
