/* verify.h - proves what a journal holds: every LSN there, every exchange that was accepted recorded, ended or
 * accounted for. */
#pragma once

#include "reader.h"

/** Writes a page to out. True when nothing is missing, damaged or unexplained; false otherwise, or -errno in *error
 * when the folder cannot be read. */
bool mg_verify(const struct mg_file_ops *ops, const char *folder, struct mg_buf *out, int *error);
