/* search.c - starts the child that looks, gathers its answer, ends it when it takes too long.
 * Owns: the child, its pipe and timer; the questions that wait.
 * May call: mem, libuv.   Never: read a journal.
 * Thread: the loop thread.   Ends: mg_search_close(). */
#include "search.h"

#include <signal.h>
#include <stdlib.h>

enum {
  READ_SIZE = 65536,
  ANSWER_BYTES_MAX = 8 << 20,
  LIMIT_MS = 10000, /* the child gives up by itself before; this is for one that cannot */
  QUESTIONS_MAX = 16,
  WHAT_MAX = 4096,
  HANDLES = 3
};

struct question {
  struct question *next;
  enum mg_search_kind kind;
  struct mg_search_asker asker;
  char what[];
};

/* One child. Answers to the first question, which stays in the list until then. */
struct run {
  uv_process_t process;
  uv_timer_t timer;
  uv_pipe_t pipe;
  struct mg_search *search;
  struct mg_buf answer;
  int64_t exit_code;
  int exit_signal;
  unsigned awaited; /* its exit and the end of the pipe */
  unsigned open;    /* handles that libuv still holds */
  bool timed_out;
  bool over; /* more came than ANSWER_BYTES_MAX */
};

struct mg_search {
  uv_loop_t *loop;
  const char *folder;
  bool bodies;
  struct question *first;
  unsigned count;
  struct run *run;
};

static void start(struct mg_search *search);

static void on_handle_closed(uv_handle_t *handle)
{
  struct run *run = handle->data;
  if (--run->open) return;
  mg_buf_free(&run->answer);
  free(run);
}

static void close_run(struct run *run)
{
  uv_close((uv_handle_t *)&run->process, on_handle_closed);
  uv_close((uv_handle_t *)&run->timer, on_handle_closed);
  uv_close((uv_handle_t *)&run->pipe, on_handle_closed);
}

/* Answers the first question and all that are the same. */
static void answer(struct mg_search *search, enum mg_search_result result, struct mg_str text)
{
  struct question *asked = search->first, *same = NULL, **last = &same;
  for (struct question **at = &search->first; *at;) {
    struct question *question = *at;
    if (question->kind != asked->kind || strcmp(question->what, asked->what) != 0) {
      at = &question->next;
      continue;
    }
    *at = question->next;
    search->count--;
    question->next = NULL;
    *last = question;
    last = &question->next;
  }
  while (same) {
    struct question *question = same;
    same = question->next;
    question->asker.done(question->asker.context, result, text);
    free(question);
  }
}

static void one_less(struct run *run)
{
  struct mg_search *search = run->search;
  if (--run->awaited || !search) return;
  enum mg_search_result result = MG_SEARCH_FAILED;
  struct mg_str text = mg_str(run->answer.ptr, run->answer.len);
  if (run->timed_out)
    text = MG_STR("Looking through the journal took too long and was ended; ask for less.");
  else if (run->exit_signal || run->exit_code > MG_SEARCH_NONE)
    text = MG_STR("Looking through the journal failed; `moongate journal find` on this machine may say why.");
  else if (run->over)
    text = MG_STR("There is more to show than fits into an answer; ask for less.");
  else
    result = (enum mg_search_result)run->exit_code;
  search->run = NULL;
  answer(search, result, text);
  close_run(run);
  if (search->first) start(search);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
  (void)suggested;
  struct run *run = handle->data;
  *room = uv_buf_init(mg_buf_reserve(&run->answer, READ_SIZE), READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *room)
{
  (void)room;
  struct run *run = stream->data;
  if (count == 0) return;
  if (count < 0) {
    uv_read_stop(stream);
    one_less(run);
    return;
  }
  if (run->answer.len + (size_t)count <= ANSWER_BYTES_MAX)
    run->answer.len += (size_t)count; /* beyond it is read and dropped, so that the child does not block */
  else
    run->over = true;
}

static void on_exit_of_child(uv_process_t *process, int64_t code, int exit_signal)
{
  struct run *run = process->data;
  run->exit_code = code;
  run->exit_signal = exit_signal;
  if (!run->search) return;
  uv_timer_stop(&run->timer);
  one_less(run);
}

static void on_timeout(uv_timer_t *timer)
{
  struct run *run = timer->data;
  run->timed_out = true;
  uv_process_kill(&run->process, SIGKILL);
}

static void on_not_started(uv_timer_t *timer)
{
  one_less(timer->data);
}

static int spawn(struct mg_search *search, struct run *run)
{
  const struct question *question = search->first;
  bool shows = question->kind == MG_SEARCH_SHOW;
  const char *args[] = {"moongate",
                        "lookup",
                        shows ? "show" : "find",
                        search->folder,
                        question->what,
                        shows && search->bodies ? "bodies" : NULL,
                        NULL};
  uv_stdio_container_t stdio[] = {
      {.flags = UV_IGNORE},
      {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&run->pipe},
      {.flags = UV_INHERIT_FD, .data.fd = 2},
  };
  uv_process_options_t how = {.file = "/proc/self/exe",
                              .args = (char **)args,
                              .exit_cb = on_exit_of_child,
                              .stdio = stdio,
                              .stdio_count = sizeof stdio / sizeof stdio[0]};
  return uv_spawn(search->loop, &run->process, &how);
}

/* Starts a child for the first question. Where that fails, everybody who waits is told so. */
static void start(struct mg_search *search)
{
  struct run *run = mg_calloc(1, sizeof *run);
  run->search = search;
  run->awaited = 2;
  run->open = HANDLES;
  uv_timer_init(search->loop, &run->timer);
  uv_pipe_init(search->loop, &run->pipe, 0);
  run->process.data = run->timer.data = run->pipe.data = run;
  search->run = run;
  int result = spawn(search, run);
  if (result == 0) {
    uv_read_start((uv_stream_t *)&run->pipe, on_room, on_read);
    uv_timer_start(&run->timer, on_timeout, LIMIT_MS, 0);
    return;
  }
  /* told from the loop, as everything else is */
  run->awaited = 1;
  run->exit_code = MG_SEARCH_FAILED;
  mg_buf_printf(&run->answer, "A process that looks through the journal cannot be started: %s.", uv_strerror(result));
  uv_timer_start(&run->timer, on_not_started, 0, 0);
}

struct mg_search *mg_search_open(uv_loop_t *loop, const char *folder, bool bodies)
{
  struct mg_search *search = mg_calloc(1, sizeof *search);
  *search = (struct mg_search){.loop = loop, .folder = folder, .bodies = bodies};
  return search;
}

bool mg_search_ask(struct mg_search *search, enum mg_search_kind kind, struct mg_str what,
                   const struct mg_search_asker *asker)
{
  if (search->count == QUESTIONS_MAX || what.len > WHAT_MAX) return false;
  struct question *question = mg_calloc(1, sizeof *question + what.len + 1);
  question->kind = kind;
  question->asker = *asker;
  if (what.len) memcpy(question->what, what.ptr, what.len);
  struct question **last = &search->first;
  while (*last) last = &(*last)->next;
  *last = question;
  search->count++;
  if (!search->run) start(search);
  return true;
}

void mg_search_close(struct mg_search **search_at)
{
  struct mg_search *search = *search_at;
  *search_at = NULL;
  if (!search) return;
  if (search->run) {
    struct run *run = search->run;
    run->search = NULL;
    if (run->process.pid > 0) uv_process_kill(&run->process, SIGKILL);
    close_run(run);
  }
  while (search->first) answer(search, MG_SEARCH_FAILED, MG_STR("The gateway stops."));
  free(search);
}
