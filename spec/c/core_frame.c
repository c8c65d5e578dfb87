/* core_frame.c - control pipe frames: round trips, every cut, bytes that are no frame. */
#include "frame.h"

#include "t.h"

TEST(a_frame_comes_back_as_it_went)
{
  struct mg_buf bytes = {0};
  struct mg_frame frame;
  mg_frame_append(&bytes, MG_FRAME_BUILD, 0x123456789abcdefull, MG_STR("a bundle\0with a NUL"));
  CHECK_INT(mg_frame_read(mg_str(bytes.ptr, bytes.len), &frame), (long)bytes.len);
  CHECK_INT(frame.type, MG_FRAME_BUILD);
  CHECK(frame.generation == 0x123456789abcdefull);
  CHECK(mg_str_equal(frame.payload, MG_STR("a bundle\0with a NUL")));
  mg_buf_free(&bytes);
}

TEST(frames_follow_each_other)
{
  struct mg_buf bytes = {0};
  struct mg_frame frame;
  mg_frame_append(&bytes, MG_FRAME_READY, 1, mg_str(NULL, 0));
  mg_frame_append(&bytes, MG_FRAME_STATE, 2, MG_STR("live=1"));
  long first = mg_frame_read(mg_str(bytes.ptr, bytes.len), &frame);
  CHECK_INT(first, MG_FRAME_HEADER_SIZE);
  CHECK_INT(frame.type, MG_FRAME_READY);
  CHECK_INT(frame.payload.len, 0);
  CHECK_INT(mg_frame_read(mg_str(bytes.ptr + first, bytes.len - (size_t)first), &frame), MG_FRAME_HEADER_SIZE + 6);
  CHECK_INT(frame.generation, 2);
  CHECK_STR(frame.payload, "live=1");
  mg_buf_free(&bytes);
}

TEST(a_frame_cut_anywhere_is_not_there_yet)
{
  struct mg_buf bytes = {0};
  struct mg_frame frame;
  mg_frame_append(&bytes, MG_FRAME_SETTINGS, 7, MG_STR("server.port=1\n"));
  for (size_t len = 0; len < bytes.len; len++) CHECK_INT(mg_frame_read(mg_str(bytes.ptr, len), &frame), 0);
  mg_buf_free(&bytes);
}

TEST(what_is_no_frame_is_refused_as_soon_as_it_shows)
{
  struct mg_buf bytes = {0};
  struct mg_frame frame;
  mg_frame_append(&bytes, MG_FRAME_DRAIN, 0, mg_str(NULL, 0));
  bytes.ptr[4] = 0;
  CHECK_INT(mg_frame_read(mg_str(bytes.ptr, bytes.len), &frame), -1);
  bytes.ptr[4] = 99;
  CHECK_INT(mg_frame_read(mg_str(bytes.ptr, bytes.len), &frame), -1);
  bytes.ptr[4] = MG_FRAME_DRAIN;
  uint32_t huge = MG_FRAME_PAYLOAD_MAX + 1;
  memcpy(bytes.ptr, &huge, 4);
  CHECK_INT(mg_frame_read(mg_str(bytes.ptr, bytes.len), &frame), -1);
  mg_buf_free(&bytes);
}

RUN_TESTS({"a frame comes back as it went", a_frame_comes_back_as_it_went},
          {"frames follow each other", frames_follow_each_other},
          {"a frame cut anywhere is not there yet", a_frame_cut_anywhere_is_not_there_yet},
          {"what is no frame is refused as soon as it shows", what_is_no_frame_is_refused_as_soon_as_it_shows})
