/* DESIGN: the zip format as far as stored entries need it (PKWARE APPNOTE 6.3: local headers with the data, central directory, end record). No zip64: an
   archive stays below KP_BUNDLE_MAX. Time stamps are the format's epoch, so the same files give the same archive. */
#include "sim.h"
#include "base/fs.h"

#include <openssl/sha.h>
#include <zlib.h>

enum { BUNDLE_MAX = 256 << 20 };

static void le(struct kp_buf *b, uint32_t v, int bytes)
{
	for (int i = 0; i < bytes; i++) {
		kp_buf_addc(b, (char)(v >> 8 * i));
	}
}

/* The fields that local and central headers have in common, from "version needed" to "extra length". */
static void header(struct kp_buf *b, uint32_t crc, size_t size, kp_str name)
{
	le(b, 20, 2);
	le(b, 0, 2);          /* flags */
	le(b, 0, 2);          /* stored */
	le(b, 0x00210000, 4); /* 1980-01-01 00:00 */
	le(b, crc, 4);
	le(b, (uint32_t)size, 4);
	le(b, (uint32_t)size, 4);
	le(b, (uint32_t)name.n, 2);
	le(b, 0, 2);
}

static int add_file(
	struct kp_buf *zip, struct kp_buf *central, const char *path, struct kp_err *err)
{
	struct kp_mapping file = { 0 };
	if (kp_fs_map(path, BUNDLE_MAX, &file, err) < 0) {
		return -1;
	}
	kp_str name = kp_str_c(path);
	name = kp_str_skip(name, (size_t)(kp_str_rfind_char(name, '/') + 1));
	uint32_t crc = (uint32_t)crc32(0, (const Bytef *)file.bytes.p, (uInt)file.bytes.n);
	size_t at = zip->n;
	le(zip, 0x04034b50, 4);
	header(zip, crc, file.bytes.n, name);
	kp_buf_add(zip, name);
	kp_buf_add(zip, file.bytes);
	le(central, 0x02014b50, 4);
	le(central, 20, 2);
	header(central, crc, file.bytes.n, name);
	le(central, 0, 2);              /* comment */
	le(central, 0, 2);              /* disk */
	le(central, 0, 2);              /* internal attributes */
	le(central, 0100644u << 16, 4); /* external ones: a plain file */
	le(central, (uint32_t)at, 4);
	kp_buf_add(central, name);
	kp_fs_unmap(&file);
	return 0;
}

static int make_zip(const struct kp_sim_opts *o, struct kp_buf *zip, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf central;
	kp_buf_init(&central, 1 << 20);
	for (size_t i = 0; i < o->n_tokenizer_files; i++) {
		if (add_file(zip, &central, o->tokenizer_files[i], err) < 0) {
			return -1;
		}
	}
	size_t at = zip->n;
	kp_buf_add(zip, kp_buf_str(&central));
	le(zip, 0x06054b50, 4);
	le(zip, 0, 4); /* disks */
	le(zip, (uint32_t)o->n_tokenizer_files, 2);
	le(zip, (uint32_t)o->n_tokenizer_files, 2);
	le(zip, (uint32_t)central.n, 4);
	le(zip, (uint32_t)at, 4);
	le(zip, 0, 2);
	return 0;
}

int kp_sim_bundle(
	const struct kp_sim_opts *o, struct kp_buf *zip, char sha256[65], struct kp_err *err)
{
	unsigned char sum[SHA256_DIGEST_LENGTH];
	kp_buf_init(zip, BUNDLE_MAX);
	if (o->tokenizer_zip) {
		if (kp_fs_read(o->tokenizer_zip, zip, err) < 0) {
			return -1;
		}
	} else if (o->n_tokenizer_files && make_zip(o, zip, err) < 0) {
		return -1;
	}
	SHA256((const unsigned char *)zip->p, zip->n, sum);
	for (size_t i = 0; i < sizeof(sum); i++) {
		static const char hex[] = "0123456789abcdef";
		sha256[2 * i] = hex[sum[i] >> 4];
		sha256[2 * i + 1] = hex[sum[i] & 15];
	}
	sha256[64] = '\0';
	return kp_buf_finish(zip, "tokenizer archive", err);
}
