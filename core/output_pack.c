/* output_pack.c - records compressed one by one, each to be read alone.
 * Owns: zstd's and zlib's states.   May call: mem, zstd, zlib.   Never: a file.   Thread: one per packer. */
#include "output_private.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

enum { GZIP_WINDOW = 15 + 16, GZIP_MEMORY = 8, UNPACK_STEP = 65536 };

struct mg_out_packer {
  int kind, level;
  ZSTD_CCtx *deflater;
  ZSTD_DCtx *inflater;
  z_stream gzip;
  bool gzip_ready;
};

struct mg_out_packer *mg_out_packer_new(int kind, int level)
{
  struct mg_out_packer *packer = mg_calloc(1, sizeof *packer);
  packer->kind = kind;
  packer->level = level;
  if (kind == MG_OUT_ZSTD) {
    packer->deflater = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(packer->deflater, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(packer->deflater, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(packer->deflater, ZSTD_c_contentSizeFlag, 1);
  } else if (kind == MG_OUT_GZIP) {
    packer->gzip_ready = deflateInit2(&packer->gzip, level > Z_BEST_COMPRESSION ? Z_BEST_COMPRESSION : level,
                                      Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY, Z_DEFAULT_STRATEGY) == Z_OK;
  }
  return packer;
}

void mg_out_packer_free(struct mg_out_packer *packer)
{
  ZSTD_freeCCtx(packer->deflater);
  ZSTD_freeDCtx(packer->inflater);
  if (packer->gzip_ready) deflateEnd(&packer->gzip);
  free(packer);
}

static bool pack_zstd(struct mg_out_packer *packer, struct mg_buf *buf, const char *bytes, size_t len)
{
  size_t bound = ZSTD_compressBound(len);
  size_t used = ZSTD_compress2(packer->deflater, mg_buf_reserve(buf, bound), bound, bytes, len);
  if (ZSTD_isError(used)) return false;
  buf->len += used;
  return true;
}

static bool pack_gzip(struct mg_out_packer *packer, struct mg_buf *buf, const char *bytes, size_t len)
{
  z_stream *gzip = &packer->gzip;
  if (!packer->gzip_ready || len > UINT32_MAX / 2 || deflateReset(gzip) != Z_OK) return false;
  uLong bound = deflateBound(gzip, len);
  gzip->next_in = (unsigned char *)(uintptr_t)bytes; /* zlib does not write there, though its type says so */
  gzip->avail_in = (uInt)len;
  gzip->next_out = (unsigned char *)mg_buf_reserve(buf, bound);
  gzip->avail_out = (uInt)bound;
  if (deflate(gzip, Z_FINISH) != Z_STREAM_END) return false;
  buf->len += bound - gzip->avail_out;
  return true;
}

bool mg_out_pack(struct mg_out_packer *packer, struct mg_buf *buf, const char *bytes, size_t len)
{
  if (packer->kind == MG_OUT_ZSTD) return pack_zstd(packer, buf, bytes, len);
  if (packer->kind == MG_OUT_GZIP) return pack_gzip(packer, buf, bytes, len);
  mg_buf_append(buf, bytes, len);
  return true;
}

static size_t unpack_zstd(struct mg_out_packer *packer, const char *packed, size_t len, struct mg_buf *plain)
{
  size_t size = ZSTD_findFrameCompressedSize(packed, len);
  if (ZSTD_isError(size)) return 0;
  unsigned long long content = ZSTD_getFrameContentSize(packed, size);
  if (content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN || content > UINT32_MAX) return 0;
  if (!packer->inflater) packer->inflater = ZSTD_createDCtx();
  size_t used = ZSTD_decompressDCtx(packer->inflater, mg_buf_reserve(plain, content), content, packed, size);
  if (ZSTD_isError(used)) return 0;
  plain->len = used;
  return size;
}

static size_t unpack_gzip(const char *packed, size_t len, struct mg_buf *plain)
{
  z_stream gzip = {.next_in = (unsigned char *)(uintptr_t)packed,
                   .avail_in = len > UINT32_MAX ? UINT32_MAX : (uInt)len};
  if (inflateInit2(&gzip, GZIP_WINDOW) != Z_OK) return 0;
  int result = Z_OK;
  while (result == Z_OK) {
    gzip.next_out = (unsigned char *)mg_buf_reserve(plain, UNPACK_STEP);
    gzip.avail_out = UNPACK_STEP;
    result = inflate(&gzip, Z_NO_FLUSH);
    plain->len += UNPACK_STEP - gzip.avail_out;
  }
  size_t size = result == Z_STREAM_END ? (size_t)((const char *)gzip.next_in - packed) : 0;
  inflateEnd(&gzip);
  return size;
}

size_t mg_out_unpack(struct mg_out_packer *packer, const char *packed, size_t len, struct mg_buf *plain)
{
  plain->len = 0;
  if (packer->kind == MG_OUT_ZSTD) return unpack_zstd(packer, packed, len, plain);
  return packer->kind == MG_OUT_GZIP ? unpack_gzip(packed, len, plain) : 0;
}
