/* DESIGN: a zip archive (PKWARE APPNOTE 6.3.10, sections 4.3 and 4.4) as a list of names and contents, for the tokenizer bundles that
   engines send. The central directory at the end is the only truth; of a local header only its length is used. Every offset
   and size is checked against the input; the unpacked total is limited before anything is allocated, inflate writes into a buffer of the
   stated size and must fill it exactly, and the CRC must agree, so a bomb or a lie ends in an error. No zip64, no encryption,
   no spanning. Names are data: nothing is opened or written. */
#include "token/load.h"
#include "base/mem.h"

#include <zlib.h>

enum { END_SIZE = 22, ENTRY_SIZE = 46, LOCAL_SIZE = 30, COMMENT_MAX = 65535 };
enum { METHOD_STORE = 0, METHOD_DEFLATE = 8 };

static uint32_t u16(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
static uint32_t u32(const uint8_t *p)
{
	return u16(p) | u16(p + 2) << 16;
}

static int bad(struct kp_err *err, const char *what)
{
	kp_err_set(err, KP_INVALID_ARGUMENT, "read zip: %s", what);
	return -1; /* said here: the compiler does not see kp_err_set */
}

struct entry {
	kp_str name, packed;
	uint32_t method, crc, size;
};

/* The end record: the last place where one fits exactly. */
static const uint8_t *find_end(const uint8_t *p, size_t n)
{
	size_t lowest = n > END_SIZE + COMMENT_MAX ? n - END_SIZE - COMMENT_MAX : 0;
	for (size_t at = n >= END_SIZE ? n - END_SIZE + 1 : 0; at-- > lowest;) {
		if (u32(p + at) == 0x06054b50 && u16(p + at + 20) == n - at - END_SIZE) {
			return p + at;
		}
	}
	return NULL;
}

/* The entry at *at of the central directory, which ends at dir_end; moves *at on. */
static int read_entry(const uint8_t *p, size_t n, size_t dir_end, size_t *at, struct entry *ret,
	struct kp_err *err)
{
	const uint8_t *e = p + *at;
	if (dir_end - *at < ENTRY_SIZE || u32(e) != 0x02014b50) {
		return bad(err, "broken central directory");
	}
	size_t name_n = u16(e + 28), total = ENTRY_SIZE + name_n + u16(e + 30) + u16(e + 32);
	size_t packed = u32(e + 20), local = u32(e + 42);
	if (dir_end - *at < total) {
		return bad(err, "broken central directory");
	}
	if (u16(e + 8) & 1) {
		return bad(err, "an encrypted entry");
	}
	if (local > n || n - local < LOCAL_SIZE || u32(p + local) != 0x04034b50) {
		return bad(err, "an entry without its local header");
	}
	size_t data = local + LOCAL_SIZE + u16(p + local + 26) + u16(p + local + 28);
	if (data > n || n - data < packed) {
		return bad(err, "an entry that ends behind the archive");
	}
	*ret = (struct entry){ .name = kp_str_n(e + ENTRY_SIZE, name_n),
		.packed = kp_str_n(p + data, packed),
		.method = u16(e + 10),
		.crc = u32(e + 16),
		.size = u32(e + 24) };
	*at += total;
	return 0;
}

static int inflate_all(const struct entry *e, uint8_t *out, struct kp_err *err)
{
	z_stream z = { .next_in = (z_const Bytef *)(uintptr_t)e->packed.p,
		.avail_in = (uInt)e->packed.n,
		.next_out = out,
		.avail_out = e->size };
	if (inflateInit2(&z, -MAX_WBITS) != Z_OK) {
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "read zip: inflate of `%u` bytes", e->size);
	}
	int r = inflate(&z, Z_FINISH);
	bool whole = r == Z_STREAM_END && z.avail_out == 0;
	inflateEnd(&z);
	return whole ? 0 : bad(err, "an entry that does not inflate to its stated size");
}

static int unpack(const struct entry *e, struct kp_arena *a, kp_str *ret, struct kp_err *err)
{
	kp_str bytes = e->packed;
	if (e->method == METHOD_DEFLATE) {
		uint8_t *out = kp_arena_alloc(a, e->size + (size_t)1);
		if (!out) {
			return kp_arena_full(err, "unpacked zip entry");
		}
		if (inflate_all(e, out, err)) {
			return -1;
		}
		bytes = kp_str_n(out, e->size);
	} else if (e->method != METHOD_STORE) {
		return kp_err_set(
			err, KP_UNIMPLEMENTED, "read zip: compression method `%u`", e->method);
	} else if (bytes.n != e->size) {
		return bad(err, "a stored entry of two sizes");
	}
	if (crc32_z(0, (const Bytef *)bytes.p, bytes.n) != e->crc) {
		return bad(err, "an entry whose checksum is wrong");
	}
	*ret = bytes;
	return 0;
}

int kp_zip_read(kp_str zip, size_t max_bytes, size_t max_files, bool (*wanted)(kp_str name),
	struct kp_arena *a, struct kp_tokenizer_file **ret, size_t *ret_n, struct kp_err *err)
{
	const uint8_t *p = (const uint8_t *)zip.p,
		      *end = zip.n <= UINT32_MAX ? find_end(p, zip.n) : NULL;
	if (!end) {
		return bad(err, "no end record");
	}
	size_t count = u16(end + 10), at = u32(end + 16), dir_end = (size_t)(end - p), total = 0,
	       n = 0;
	if (u16(end + 8) != count || at > dir_end || dir_end - at < u32(end + 12)) {
		return bad(err, "broken central directory");
	}
	if (count > max_files) {
		return kp_err_set(
			err, KP_TOO_LARGE, "read zip: `%zu` files, at most %zu", count, max_files);
	}
	struct kp_tokenizer_file *files = kp_arena_calloc(a, count + 1, sizeof(*files));
	if (!files) {
		return kp_arena_full(err, "zip directory");
	}
	for (size_t i = 0; i < count; i++) {
		struct entry e = { 0 };
		if (read_entry(p, zip.n, dir_end, &at, &e, err)) {
			return -1;
		}
		if (kp_str_ends(e.name, KP_S("/"))) {
			continue;
		}
		if (wanted && !wanted(e.name)) {
			files[n++] = (struct kp_tokenizer_file){ e.name, KP_S("") };
			continue;
		}
		total += e.size;
		if (total > max_bytes) {
			return kp_err_set(err, KP_TOO_LARGE,
				"read zip: more than `%zu` bytes unpacked", max_bytes);
		}
		files[n].name = e.name;
		if (unpack(&e, a, &files[n].bytes, err)) {
			return kp_err_wrap(
				err, "entry `%" KP_FMT "`", KP_ARG(kp_str_sub(e.name, 0, 80)));
		}
		n++;
	}
	*ret = files;
	*ret_n = n;
	return 0;
}
