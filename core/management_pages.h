/* management_pages.h - what the management port answers, apart from how it is sent.   Thread: the loop thread. */
#pragma once

#include "http1.h"
#include "management.h"
#include "search.h"

/* A body that several answers share. */
struct mg_page {
  struct mg_buf bytes;
  unsigned refs;
};

enum mg_page_kind { MG_PAGE_METRICS, MG_PAGE_METRICS_OPEN, MG_PAGE_STATUS, MG_PAGE_KINDS };

enum { MG_CSP_SIZE = 384 };

struct mg_pages {
  struct mg_management_events events;
  const struct mg_settings *settings;
  struct mg_page *kept[MG_PAGE_KINDS]; /* the last one made, good for a moment */
  uint64_t kept_ms[MG_PAGE_KINDS];
  char csp[MG_CSP_SIZE]; /* Content-Security-Policy */
};

/* What has to be done before there is an answer. */
enum mg_page_work { MG_PAGE_NOW, MG_PAGE_RELOAD, MG_PAGE_SEARCH };

struct mg_page_answer {
  unsigned status;
  const char *type;         /* Content-Type */
  const char *extra;        /* header lines of its own, each with CR LF; static */
  struct mg_str body;       /* inside page, or static */
  struct mg_page *page;     /* NULL: body is static; else to be given back with mg_page_release */
  enum mg_page_work work;   /* other than MG_PAGE_NOW: no answer yet */
  enum mg_search_kind kind; /* of a search, and what is looked for; inside the request */
  struct mg_str what;
};

/** Who asks, as far as it matters. */
struct mg_page_peer {
  bool loopback;
};

void mg_pages_open(struct mg_pages *pages, const struct mg_settings *settings,
                   const struct mg_management_events *events);
void mg_pages_close(struct mg_pages *pages);

/** Decides everything: Host, credentials, method, path. now_ms is the loop's time. */
struct mg_page_answer mg_pages_answer(struct mg_pages *pages, const struct mg_request_head *request,
                                      const struct mg_page_peer *peer, uint64_t now_ms);

/** The answer to a reload that has ended. */
struct mg_page_answer mg_pages_reloaded(bool ok, struct mg_str text);

/** The answer to a search that has ended. */
struct mg_page_answer mg_pages_found(enum mg_search_result result, struct mg_str text);

/** A plain answer of one line. */
struct mg_page_answer mg_pages_plain(unsigned status, const char *sentence);

void mg_page_release(struct mg_page **page);
