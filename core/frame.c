/* frame.c - the frames of frame.h to bytes and back.
 * Owns: nothing.   May call: mem.   Never: read or write a descriptor.   Thread: any. */
#include "frame.h"

#include "log.h"

void mg_frame_append(struct mg_buf *out, enum mg_frame_type type, uint64_t generation, struct mg_str payload)
{
  MG_ASSERT(payload.len <= MG_FRAME_PAYLOAD_MAX);
  uint32_t len = (uint32_t)payload.len;
  char header[MG_FRAME_HEADER_SIZE];
  memcpy(header, &len, 4);
  header[4] = (char)type;
  memcpy(header + 5, &generation, 8);
  mg_buf_append(out, header, sizeof header);
  mg_buf_append(out, payload.ptr, payload.len);
}

static bool type_known(unsigned char type)
{
  switch (type) {
#define X(name, number) case number:
    MG_FRAME_MAP(X)
#undef X
    return true;
  }
  return false;
}

long mg_frame_read(struct mg_str bytes, struct mg_frame *frame)
{
  uint32_t len;
  if (bytes.len < MG_FRAME_HEADER_SIZE) return 0;
  memcpy(&len, bytes.ptr, 4);
  unsigned char type = (unsigned char)bytes.ptr[4];
  if (len > MG_FRAME_PAYLOAD_MAX || !type_known(type)) return -1;
  if (bytes.len - MG_FRAME_HEADER_SIZE < len) return 0;
  frame->type = (enum mg_frame_type)type;
  memcpy(&frame->generation, bytes.ptr + 5, 8);
  frame->payload = mg_str(bytes.ptr + MG_FRAME_HEADER_SIZE, len);
  return (long)MG_FRAME_HEADER_SIZE + (long)len;
}
