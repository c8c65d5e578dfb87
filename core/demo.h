/* demo.h - `moongate demo`: a gateway in front of the built-in origin, with a routes file and a filter to play with. */
#pragma once

/** Starts both as children of this process, writes their files into a fresh folder that stays, says what to try, and
 * runs until SIGINT, SIGTERM or SIGHUP; argv[0] is the sub-command's name. Returns an exit code (cli.h). */
int mg_demo_main(int argc, char **argv);

/** Where a demonstration writes its process id for its children, which end with it (main.c). */
#define MG_PARENT_VARIABLE "MOONGATE_DEMO_PID"
