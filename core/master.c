/* master.c - start and stop order, signals, requests from the control socket.
 * Owns: everything of the master process.
 * May call: cli, master_settings, listen, shm, settings, build, control, management, resolve, health, inventory, watch,
 * workers, reload, status, succession, notify, libuv.
 * Never: hold a lua_State, serve a request, read a configuration file.
 * Thread: the loop thread. */
#include "master.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "build.h"
#include "bundle.h"
#include "cli.h"
#include "control.h"
#include "health.h"
#include "inventory.h"
#include "listen.h"
#include "log.h"
#include "management.h"
#include "master_settings.h"
#include "notify.h"
#include "reload.h"
#include "resolve.h"
#include "settings.h"
#include "status.h"
#include "succession.h"
#include "watch.h"
#include "workers.h"

enum { SIGNALS = 5, LAST_BREATH_MS = 3000, PARTING_MS = 2000 };

/* BUILDING: the first bundle is made. STARTING: workers build it. Any of them can go on to DRAINING or CLOSING. */
enum stage { STAGE_BUILDING, STAGE_STARTING, STAGE_SERVING, STAGE_DRAINING, STAGE_CLOSING };

struct master {
  uv_loop_t loop;
  enum stage stage;
  int exit_code;
  time_t started;
  struct mg_options options;
  struct mg_settings settings;
  struct mg_buf settings_text; /* as the workers get it */
  uv_signal_t signals[SIGNALS];
  uv_timer_t stop_timer;
  uv_timer_t watchdog; /* a service manager's */
  struct mg_watch *watch;
  struct mg_build *build;
  struct mg_shm shm;
  struct mg_resolver *resolver;
  struct mg_workers *workers;
  struct mg_reload *reload;
  struct mg_control *control;
  struct mg_management *management;
  struct mg_health *health;
  struct mg_inventory inventory;
  struct mg_succession succession;
  const char *early_trigger; /* a reload asked for before one was possible */
  char listening[MG_LISTEN_TEXT_SIZE];
  char management_text[MG_LISTEN_TEXT_SIZE];
  char control_path[MG_CONTROL_PATH_SIZE];
  bool management_picked;
};

/* --- the end */

static void on_last_breath(uv_timer_t *timer)
{
  struct master *master = timer->data;
  _exit(master->exit_code); /* a name look-up that nobody can cancel holds the loop */
}

static void close_all(struct master *master, int exit_code)
{
  if (master->stage == STAGE_CLOSING) return;
  master->stage = STAGE_CLOSING;
  master->exit_code = exit_code;
  mg_watch_close(&master->watch);
  mg_build_cancel(&master->build);
  mg_management_close(&master->management);
  mg_health_close(&master->health);
  mg_reload_close(&master->reload);
  mg_workers_close(&master->workers);
  mg_resolver_close(&master->resolver);
  mg_control_close(&master->control);
  mg_succession_close(&master->succession);
  uv_close((uv_handle_t *)&master->watchdog, NULL);
  for (int i = 0; i < SIGNALS; i++) uv_close((uv_handle_t *)&master->signals[i], NULL);
  uv_timer_start(&master->stop_timer, on_last_breath, LAST_BREATH_MS, 0);
  uv_unref((uv_handle_t *)&master->stop_timer);
}

static void fail(struct master *master, struct mg_buf *reason)
{
  fprintf(stderr, "moongate: %.*s\n", (int)reason->len, reason->ptr);
  mg_succession_refuse(&master->succession, mg_str(reason->ptr, reason->len));
  mg_buf_free(reason);
  close_all(master, MG_EXIT_FAILED);
}

static void on_parted(void *context)
{
  struct master *master = context;
  close_all(master, master->exit_code);
}

static void on_parting_too_long(uv_timer_t *timer)
{
  on_parted(timer->data);
}

static void on_workers_gone(void *context)
{
  struct master *master = context;
  bool well = mg_workers_ended_well(master->workers);
  if (master->exit_code == MG_EXIT_DONE && !well) master->exit_code = MG_EXIT_FAILED;
  mg_log(MG_LOG_INFO, well ? "stopped" : "stopped; not every exchange could finish");
  if (!master->succession.handed_over) {
    close_all(master, master->exit_code);
    return;
  }
  uv_timer_start(&master->stop_timer, on_parting_too_long, PARTING_MS, 0);
  mg_succession_part(&master->succession);
}

static void on_drain_too_long(uv_timer_t *timer)
{
  struct master *master = timer->data;
  mg_log(MG_LOG_WARN, "server.drain_timeout is over; cutting the connections that are left");
  mg_workers_abort(master->workers);
}

static void drain(struct master *master, const char *why, int exit_code)
{
  if (master->stage == STAGE_BUILDING) close_all(master, exit_code);
  if (master->stage >= STAGE_DRAINING) return;
  mg_log(MG_LOG_INFO, "%s: stopping", why);
  mg_succession_cancel(&master->succession);
  if (!master->succession.handed_over) mg_notify("STOPPING=1\nSTATUS=finishing what runs");
  master->stage = STAGE_DRAINING;
  master->exit_code = exit_code;
  mg_watch_close(&master->watch);
  mg_reload_stop(master->reload);
  mg_workers_drain(master->workers);
  uv_timer_start(&master->stop_timer, on_drain_too_long, master->settings.drain_timeout_ms, 0);
}

/* --- what asks something of a running gateway */

static void request_reload(struct master *master, const char *trigger, const struct mg_reload_asker *asker)
{
  if (!master->reload) {
    master->early_trigger = trigger;
    return;
  }
  if (master->stage == STAGE_SERVING) mg_notify_reloading();
  mg_reload_request(master->reload, trigger, asker);
}

static void request_upgrade(struct master *master)
{
  if (master->stage == STAGE_SERVING)
    mg_succession_start(&master->succession, mg_workers_listeners(master->workers),
                        mg_management_socket(master->management));
  else
    mg_log(MG_LOG_ERROR, "no upgrade now: this process %s",
           master->stage < STAGE_SERVING ? "does not serve yet" : "is stopping");
}

static void on_handed_over(void *context)
{
  struct master *master = context;
  mg_management_close(&master->management);
  drain(master, "another process has taken over", MG_EXIT_DONE);
}

static void on_signal(uv_signal_t *handle, int number)
{
  struct master *master = handle->data;
  if (number == SIGHUP) {
    request_reload(master, "SIGHUP", NULL);
  } else if (number == SIGUSR2) {
    request_upgrade(master);
  } else if (number == SIGUSR1) {
    if (master->workers) mg_workers_broadcast(master->workers, MG_FRAME_REOPEN, 0, mg_str(NULL, 0));
  } else if (master->stage == STAGE_DRAINING) {
    mg_log(MG_LOG_WARN, "%s again: stopping now", number == SIGINT ? "SIGINT" : "SIGTERM");
    mg_workers_abort(master->workers);
  } else {
    drain(master, number == SIGINT ? "SIGINT" : "SIGTERM", MG_EXIT_DONE);
  }
}

static void on_files_changed(void *context)
{
  request_reload(context, "file change", NULL);
}

static void fill_status(void *context, struct mg_status *status)
{
  const struct master *master = context;
  *status = (struct mg_status){.listening = master->listening,
                               .management = master->management_text,
                               .control = master->control_path,
                               .routes = master->options.routes,
                               .server = master->options.server,
                               .upgrade = *master->succession.text ? master->succession.text : NULL,
                               .started = master->started,
                               .state = master->stage < STAGE_SERVING   ? MG_STATE_STARTING
                                        : master->stage > STAGE_SERVING ? MG_STATE_STOPPING
                                                                        : MG_STATE_SERVING,
                               .reload = mg_reload_facts(master->reload),
                               .workers = master->workers,
                               .shm = &master->shm,
                               .health = master->health,
                               .inventory = &master->inventory,
                               .settings = &master->settings};
}

static void answer_status(struct master *master, struct mg_control_client *client, bool json)
{
  struct mg_buf page = {0};
  struct mg_status status;
  fill_status(master, &status);
  (json ? mg_status_json : mg_status_text)(&status, &page);
  mg_control_answer(client, true, mg_str(page.ptr, page.len));
  mg_buf_free(&page);
}

static void on_management_reload(void *context, const struct mg_reload_asker *asker)
{
  request_reload(context, "POST /reload", asker);
}

static void answer_control(void *client, bool ok, struct mg_str text)
{
  mg_control_answer(client, ok, text);
}

static void on_request(void *context, struct mg_control_client *client, const char *line)
{
  struct master *master = context;
  if (strcmp(line, "status") == 0 || strcmp(line, "status json") == 0) {
    answer_status(master, client, line[6] != '\0');
  } else if (strcmp(line, "reload") == 0) {
    request_reload(master, "moongate reload", &(struct mg_reload_asker){answer_control, client});
  } else if (strcmp(line, "stop") == 0) {
    mg_control_answer_open(client, true, MG_STR("stopped\n"));
    drain(master, "moongate stop", MG_EXIT_DONE);
  } else {
    mg_control_answer(client, false,
                      MG_STR("that request is not known; the two executables may be of different versions\n"));
  }
}

/* --- places; each function returns 0 or -1 with a sentence in error */

static void override_number(struct master *master, const char *key, unsigned long value)
{
  mg_master_override_number(&master->settings, &master->settings_text, key, value);
}

static int open_listeners(struct master *master, struct mg_listeners *listeners, struct mg_buf *error)
{
  struct sockaddr_storage address;
  if (mg_succession_listeners(&master->succession, &master->settings, listeners, &address, error) != 0) return -1;
  override_number(master, "server.port", mg_listen_port(&address));
  mg_listen_text(&address, master->listening);
  return 0;
}

static int open_management(struct master *master, struct mg_buf *error)
{
  const struct mg_management_events events = {master, fill_status, on_management_reload};
  struct sockaddr_storage address;
  master->management_picked = master->settings.management_port == 0;
  int fd = mg_succession_management(&master->succession, &master->settings, &address, error);
  if (fd < 0) return -1;
  override_number(master, "management.port", mg_listen_port(&address));
  mg_listen_exact_text(&address, master->management_text);
  if (!mg_listen_is_loopback(&address) && !*master->settings.management_token)
    mg_log(MG_LOG_WARN,
           "the management port is open to other machines (management.host %s) and management.token is "
           "empty: whoever reaches it may read the status, the metrics and the routes",
           master->settings.management_host);
  master->management = mg_management_open(&master->loop, fd, &master->settings, &events, error);
  return master->management ? 0 : -1;
}

static int open_control(struct master *master, struct mg_buf *error)
{
  if (mg_control_path(master->control_path, master->options.control, (unsigned)master->settings.port, true, error) != 0)
    return -1;
  master->control = (mg_succession_awaited(&master->succession) ? mg_control_take_over : mg_control_open)(
      &master->loop, master->control_path, on_request, master, error);
  return master->control ? 0 : -1;
}

/* --- the workers and their first generation */

static void on_worker_born(void *context, unsigned slot)
{
  struct master *master = context;
  mg_reload_on_born(master->reload, slot);
}

static void on_worker_ready(void *context, unsigned slot, uint64_t generation, struct mg_str reason)
{
  struct master *master = context;
  mg_reload_on_ready(master->reload, slot, generation, reason);
}

static void on_worker_state(void *context, unsigned slot)
{
  struct master *master = context;
  mg_reload_on_state(master->reload, slot);
}

static void on_worker_died(void *context, unsigned slot)
{
  struct master *master = context;
  mg_reload_on_died(master->reload, slot);
}

static void on_candidate(void *context, struct mg_str bundle)
{
  struct master *master = context;
  mg_inventory_prepare(&master->shm, (unsigned)master->settings.workers, bundle);
  mg_succession_count(&master->succession);
}

static void on_in_force(void *context, struct mg_str bundle)
{
  struct master *master = context;
  mg_inventory_read(&master->inventory, &master->shm, bundle);
  mg_health_follow(master->health, mg_bundle_section(bundle, MG_STR("health")));
}

/* What two gateways cannot both have is taken last: from here on commands and probes find this process. */
static int take_places(struct master *master, struct mg_buf *error)
{
  return open_management(master, error) == 0 && open_control(master, error) == 0 ? 0 : -1;
}

static void tell_manager(void *context)
{
  const struct master *master = context;
  if (master->stage != STAGE_SERVING || mg_succession_awaited(&master->succession))
    return; /* not its main process yet */
  mg_notify("READY=1\nSTATUS=serving on %s, generation %llu", master->listening,
            (unsigned long long)mg_reload_facts(master->reload).generation);
}

static void on_settled(void *context, bool ok)
{
  struct master *master = context;
  struct mg_buf error = {0};
  if (master->stage == STAGE_SERVING) tell_manager(master);
  if (master->stage != STAGE_STARTING) return;
  if (ok && mg_succession_awaited(&master->succession)) ok = take_places(master, &error) == 0;
  if (!ok) {
    struct mg_str why = error.len ? mg_str(error.ptr, error.len) : mg_reload_facts(master->reload).text;
    mg_succession_refuse(&master->succession, why);
    drain(master, error.len ? error.ptr : "the first configuration cannot be run", MG_EXIT_FAILED);
    mg_buf_free(&error);
    return;
  }
  master->stage = STAGE_SERVING;
  mg_succession_ready(&master->succession);
  tell_manager(master);
  if (master->management_picked) printf("management on %s\n", master->management_text);
  printf("listening on %s\n", master->listening);
  fflush(stdout);
}

static int open_shared(struct master *master, struct mg_buf *error)
{
  if (mg_shm_create(&master->shm) == 0) return 0;
  mg_buf_printf(error, "cannot make shared memory: %s", strerror(errno));
  return -1;
}

static int start_workers(struct master *master, const struct mg_listeners *listeners, struct mg_buf *error)
{
  const struct mg_workers_events events = {.context = master,
                                           .born = on_worker_born,
                                           .ready = on_worker_ready,
                                           .state = on_worker_state,
                                           .died = on_worker_died,
                                           .gone = on_workers_gone};
  const struct mg_reload_events reload_events = {
      .context = master, .candidate = on_candidate, .in_force = on_in_force, .settled = on_settled};
  master->health = mg_health_open(&master->loop, &master->shm);
  master->resolver = mg_resolver_open(&master->loop, &master->shm, master->settings.resolve_interval_ms);
  master->workers = mg_workers_new(&master->loop, &master->shm, &master->settings,
                                   mg_str(master->settings_text.ptr, master->settings_text.len), listeners,
                                   (unsigned)master->settings.workers, &events);
  master->reload = mg_reload_new(&master->loop, &master->options, &master->settings, master->resolver, master->workers,
                                 &reload_events);
  int result = mg_workers_start(master->workers);
  if (result == 0) return 0;
  mg_buf_printf(error, "cannot start a worker: %s", uv_strerror(result));
  return -1;
}

static void on_first_built(void *context, struct mg_build_result *result)
{
  struct master *master = context;
  struct mg_buf error = {0};
  struct mg_listeners listeners;
  master->build = NULL;
  fwrite(result->text.ptr, 1, result->text.len, stderr);
  if (!result->built) {
    mg_succession_refuse(&master->succession, mg_str(result->text.ptr, result->text.len));
    close_all(master, MG_EXIT_FAILED);
    return;
  }
  struct mg_str section = mg_bundle_section(mg_str(result->bundle.ptr, result->bundle.len), MG_STR("settings"));
  if (mg_master_settings(&master->settings, &master->settings_text, &master->options, section, &error) != 0 ||
      mg_master_check_access_log(&master->settings, &error) != 0 || open_listeners(master, &listeners, &error) != 0) {
    fail(master, &error);
    return;
  }
  /* from here on the listeners have an owner in any case */
  if ((!mg_succession_awaited(&master->succession) &&
       (open_control(master, &error) != 0 || open_management(master, &error) != 0)) ||
      open_shared(master, &error) != 0) {
    mg_listeners_close(&listeners);
    fail(master, &error);
    return;
  }
  mg_log_style(master->settings.log_level, master->settings.log_format);
  mg_succession_bind(&master->succession, &master->shm, &master->settings, &master->inventory);
  master->stage = STAGE_STARTING;
  if (start_workers(master, &listeners, &error) != 0) {
    fail(master, &error);
    return;
  }
  mg_reload_first(master->reload, &result->bundle);
  if (master->early_trigger) mg_reload_request(master->reload, master->early_trigger, NULL);
}

static void listen_to_signals(struct master *master)
{
  static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
  for (int i = 0; i < SIGNALS; i++) {
    uv_signal_init(&master->loop, &master->signals[i]);
    master->signals[i].data = master;
    uv_signal_start(&master->signals[i], on_signal, numbers[i]);
  }
  signal(SIGPIPE, SIG_IGN);
}

static int run(struct master *master, char *const *argv)
{
  const struct mg_succession_events events = {master, on_handed_over, on_parted, tell_manager};
  struct mg_buf error = {0};
  uv_timer_init(&master->loop, &master->stop_timer);
  master->stop_timer.data = master;
  mg_notify_watchdog(&master->loop, &master->watchdog);
  listen_to_signals(master);
  if (mg_succession_begin(&master->succession, &master->loop, argv, &events, &error) == 0) {
    master->watch = mg_watch_open(&master->loop, master->options.routes, on_files_changed, master);
    master->build = mg_build_start(&master->loop, &master->options, 0, on_first_built, master, &error);
  }
  if (!master->build) fail(master, &error);
  uv_run(&master->loop, UV_RUN_DEFAULT);
  uv_close((uv_handle_t *)&master->stop_timer, NULL);
  uv_run(&master->loop, UV_RUN_DEFAULT);
  int closed = uv_loop_close(&master->loop);
  if (closed != 0) mg_log(MG_LOG_ERROR, "handles are left open at the end: %s", uv_strerror(closed));
  if (master->shm.base) mg_shm_detach(&master->shm);
  mg_inventory_free(&master->inventory);
  mg_buf_free(&master->settings_text);
  return closed == 0 ? master->exit_code : MG_EXIT_FAILED;
}

int mg_master_main(int argc, char **argv)
{
  struct master master = {.started = time(NULL)};
  int code = mg_cli_parse(&master.options, MG_OPTIONS_RUN, argc, argv);
  if (code == MG_EXIT_DONE) code = mg_cli_files(&master.options);
  if (code != MG_EXIT_DONE) return code;
  mg_log_setup(MG_LOG_INFO, "master");
  int result = uv_loop_init(&master.loop);
  if (result == 0) return run(&master, argv - 1);
  fprintf(stderr, "moongate: cannot start: %s\n", uv_strerror(result));
  return MG_EXIT_FAILED;
}
