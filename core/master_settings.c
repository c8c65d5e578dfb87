/* master_settings.c - bundle, environment and command line put together.
 * Owns: nothing.   May call: mem, cli, settings, processors, shm (its bound), libc.   Never: read the configuration's files.
 * Thread: the loop thread, at start. */
#include "master_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "processors.h"
#include "shm.h"

/* What server.yaml left of the management address as it is by default: a bundle names every value. */
static bool has_management_host(const struct mg_settings *settings, const struct mg_settings *defaults)
{
  return strcmp(settings->management_host, defaults->management_host) != 0;
}

static bool has_management_port(const struct mg_settings *settings, const struct mg_settings *defaults)
{
  return settings->management_port != defaults->management_port;
}

void mg_master_override(struct mg_settings *settings, struct mg_buf *text, const char *key, const char *value)
{
  mg_settings_set(settings, key, strlen(key), value, strlen(value));
  mg_buf_printf(text, "%s=%s\n", key, value);
}

void mg_master_override_number(struct mg_settings *settings, struct mg_buf *text, const char *key, unsigned long value)
{
  char number[24];
  snprintf(number, sizeof number, "%lu", value);
  mg_master_override(settings, text, key, number);
}

static int read_section(struct mg_settings *settings, struct mg_str rest, struct mg_buf *error)
{
  while (rest.len) {
    const char *end = memchr(rest.ptr, '\n', rest.len);
    size_t len = end ? (size_t)(end - rest.ptr) : rest.len;
    const char *equals = memchr(rest.ptr, '=', len);
    size_t key = equals ? (size_t)(equals - rest.ptr) : len;
    if (!equals || !mg_settings_set(settings, rest.ptr, key, equals + 1, len - key - 1)) {
      mg_buf_printf(error, "the builder gave a setting that is not known: %.*s", (int)len, rest.ptr);
      return -1;
    }
    len += end != NULL;
    rest = mg_str(rest.ptr + len, rest.len - len);
  }
  return 0;
}

int mg_master_settings(struct mg_settings *settings, struct mg_buf *text, const struct mg_options *options,
                       struct mg_str section, struct mg_buf *error)
{
  const char *management_host = getenv("MOONGATE_MANAGEMENT_HOST"), *journal = getenv("MOONGATE_JOURNAL_DIR");
  struct mg_settings defaults;
  mg_settings_defaults(&defaults);
  mg_settings_defaults(settings);
  if (read_section(settings, section, error) != 0) return -1;
  mg_buf_append(text, section.ptr, section.len);
  bool has_port = has_management_port(settings, &defaults), has_host = has_management_host(settings, &defaults);
  if (management_host && *management_host && !has_host && !has_port)
    mg_master_override(settings, text, "management.host", management_host);
  if (options->host) mg_master_override(settings, text, "server.host", options->host);
  if (journal && *journal && strcmp(settings->work_dir, defaults.work_dir) == 0)
    mg_master_override(settings, text, "storage.work_dir", journal);
  if (options->journal) mg_master_override(settings, text, "storage.work_dir", options->journal);
  if (options->port != MG_UNSET) mg_master_override_number(settings, text, "server.port", (unsigned long)options->port);
  if (options->management_port != MG_UNSET)
    mg_master_override_number(settings, text, "management.port", (unsigned long)options->management_port);
  else if (options->port != MG_UNSET && !has_port)
    mg_master_override_number(settings, text, "management.port", 0);
  if (options->workers != MG_UNSET) settings->workers = (uint64_t)options->workers;
  if (!settings->workers) settings->workers = mg_processors();
  if (settings->workers > MG_WORKERS_MAX) settings->workers = MG_WORKERS_MAX;
  mg_master_override_number(settings, text, "server.workers", settings->workers);
  return 0;
}

int mg_master_check_access_log(const struct mg_settings *settings, struct mg_buf *error)
{
  const char *path = settings->access_log_file;
  if (!*path || strcmp(settings->access_log_format, "off") == 0) return 0;
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
  if (fd >= 0) return close(fd);
  mg_buf_printf(error, "cannot open the access log %s: %s", path, strerror(errno));
  return -1;
}
