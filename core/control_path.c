/* control_path.c - where a gateway's control socket lies, and how to reach it.
 * Owns: nothing.   May call: mem, libc.   Never: remove a file.   Thread: any. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control.h"

static int too_long(const char *path, struct mg_buf *error)
{
  mg_buf_printf(error, "the path of the control socket is too long (%d bytes at most): %s",
                (int)MG_CONTROL_PATH_SIZE - 1, path);
  return -1;
}

static bool is_folder(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A directory that we own and that nobody else may enter: in /tmp another user could have made it before us. */
static int make_private(const char *folder, struct mg_buf *error)
{
  struct stat st;
  if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
    mg_buf_printf(error, "cannot make %s for the control socket: %s", folder, strerror(errno));
    return -1;
  }
  if (lstat(folder, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077)) {
    mg_buf_printf(error, "%s is not a directory of this user alone (mode 0700); choose another with --control", folder);
    return -1;
  }
  return 0;
}

int mg_control_path(char path[MG_CONTROL_PATH_SIZE], const char *chosen, unsigned port, bool make, struct mg_buf *error)
{
  char folder[512];
  const char *runtime = getenv("XDG_RUNTIME_DIR");
  if (chosen) {
    if (snprintf(path, MG_CONTROL_PATH_SIZE, "%s", chosen) >= (int)MG_CONTROL_PATH_SIZE) return too_long(chosen, error);
    return 0;
  }
  int len;
  if (runtime && *runtime && is_folder(runtime))
    len = snprintf(folder, sizeof folder, "%s/moongate", runtime);
  else if (geteuid() == 0)
    len = snprintf(folder, sizeof folder, "/run/moongate");
  else
    len = snprintf(folder, sizeof folder, "/tmp/moongate-%u", (unsigned)geteuid());
  if (len >= (int)sizeof folder ||
      snprintf(path, MG_CONTROL_PATH_SIZE, "%s/%u.sock", folder, port) >= (int)MG_CONTROL_PATH_SIZE)
    return too_long(folder, error);
  return make ? make_private(folder, error) : 0;
}

int mg_control_connect(const char *path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) return fd;
  int code = errno;
  close(fd);
  errno = code;
  return -1;
}
