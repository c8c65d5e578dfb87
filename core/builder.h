/* builder.h - `moongate check` and the other commands that read configuration: the only process that runs Lua from
 * files.
 *
 * As a person's command it prints; as the master's child (--bundle-fd) it writes the bundle there and its faults on
 * stderr.
 * Thread: the main thread, and one that ends the process when Lua runs too long. */
#pragma once

/** Runs function main of the Lua module moongate.<module> with the command's arguments, routes and server files
 * filled in; argv[0] is the command, more a set of enum mg_option beside those of check. Words follow the options in
 * main's list, behind "--". Lua sees two functions of ours: moongate_progress(text) names what is about to
 * run, moongate_load_limit(ms) changes how long it may. Returns the exit code. */
int mg_builder_main(const char *module, unsigned more, int argc, char **argv);
