/* management_pages.c - who may ask what, and the pages.
 * Owns: the pages that were made last.
 * May call: mem, digest, address, embedded, json, http1 and target (request heads), metrics, status, condition.
 * Never: touch a socket.   Thread: the loop thread.   Ends: mg_pages_close(). */
#include "management_pages.h"

#include <stdio.h>
#include <stdlib.h>

#include "address.h"
#include "condition.h"
#include "digest.h"
#include "embedded.h"
#include "json.h"
#include "metrics.h"
#include "target.h"

/* A page is made again after this time: however many ask, making them takes a fraction of the master's time. */
enum { PAGE_KEPT_MS = 100 };

static const char type_json[] = "application/json", type_html[] = "text/html; charset=utf-8",
                  type_plain[] = "text/plain; charset=utf-8";

/* --- pages --- */

void mg_page_release(struct mg_page **page_at)
{
  struct mg_page *page = *page_at;
  *page_at = NULL;
  if (!page || --page->refs) return;
  mg_buf_free(&page->bytes);
  free(page);
}

static struct mg_page *new_page(void)
{
  struct mg_page *page = mg_calloc(1, sizeof *page);
  page->refs = 1;
  return page;
}

static struct mg_page_answer with_page(unsigned status, const char *type, struct mg_page *page)
{
  return (struct mg_page_answer){
      .status = status, .type = type, .extra = "", .body = mg_str(page->bytes.ptr, page->bytes.len), .page = page};
}

static struct mg_page_answer with_text(unsigned status, const char *type, const char *extra, struct mg_str body)
{
  return (struct mg_page_answer){.status = status, .type = type, .extra = extra, .body = body};
}

struct mg_page_answer mg_pages_plain(unsigned status, const char *sentence)
{
  struct mg_page *page = new_page();
  mg_buf_printf(&page->bytes, "%s\n", sentence);
  return with_page(status, type_plain, page);
}

static struct mg_status status_now(const struct mg_pages *pages)
{
  struct mg_status status = {0};
  pages->events.status(pages->events.context, &status);
  return status;
}

static struct mg_page_answer kept_page(struct mg_pages *pages, enum mg_page_kind kind, const char *type,
                                       uint64_t now_ms)
{
  struct mg_page **page = &pages->kept[kind];
  if (!*page || now_ms - pages->kept_ms[kind] >= PAGE_KEPT_MS) {
    mg_page_release(page);
    *page = new_page();
    struct mg_status status = status_now(pages);
    if (kind == MG_PAGE_STATUS)
      mg_status_json(&status, &(*page)->bytes);
    else
      mg_metrics_write(&status, kind == MG_PAGE_METRICS_OPEN ? MG_METRICS_OPEN : MG_METRICS_TEXT, &(*page)->bytes);
    pages->kept_ms[kind] = now_ms;
  }
  (*page)->refs++;
  return with_page(200, type, *page);
}

static struct mg_page_answer metrics(struct mg_pages *pages, const struct mg_request_head *request, uint64_t now_ms)
{
  unsigned from = 0;
  const struct mg_header *accept = mg_headers_next(&request->headers, MG_STR("accept"), &from);
  bool open = accept && memmem(accept->value, accept->value_len, "application/openmetrics-text", 28);
  return kept_page(pages, open ? MG_PAGE_METRICS_OPEN : MG_PAGE_METRICS,
                   mg_metrics_type(open ? MG_METRICS_OPEN : MG_METRICS_TEXT), now_ms);
}

/* Both say the same; /ready alone turns requests away by its status. */
static struct mg_page_answer probe(struct mg_pages *pages, bool ready)
{
  static const char *const states[] = {"STARTING", "UP", "STOPPING"};
  struct mg_status status = status_now(pages);
  struct mg_condition condition;
  struct mg_page *page = new_page();
  mg_condition_find(&condition, &status);
  mg_buf_printf(&page->bytes, "{\"status\":\"%s\",", states[status.state]);
  mg_condition_json(&condition, &page->bytes);
  mg_buf_printf(&page->bytes, "}\n");
  bool well = status.state == MG_STATE_SERVING && condition.level != MG_LEVEL_ERROR;
  return with_page(ready && !well ? 503 : 200, type_json, page);
}

struct mg_page_answer mg_pages_reloaded(bool ok, struct mg_str text)
{
  struct mg_page *page = new_page();
  while (text.len && text.ptr[text.len - 1] == '\n') text.len--;
  mg_buf_printf(&page->bytes, "{\"outcome\":\"%s\",\"text\":", ok ? "done" : "refused");
  mg_json_string(&page->bytes, text);
  mg_buf_printf(&page->bytes, "}\n");
  return with_page(ok ? 200 : 409, type_json, page);
}

struct mg_page_answer mg_pages_found(enum mg_search_result result, struct mg_str text)
{
  static const unsigned statuses[] = {
      [MG_SEARCH_DONE] = 200, [MG_SEARCH_FAILED] = 503, [MG_SEARCH_WRONG] = 400, [MG_SEARCH_NONE] = 404};
  struct mg_page *page = new_page();
  mg_buf_append(&page->bytes, text.ptr, text.len);
  if (!text.len || text.ptr[text.len - 1] != '\n') mg_buf_append(&page->bytes, "\n", 1);
  return with_page(statuses[result], result == MG_SEARCH_DONE ? type_json : type_plain, page);
}

/* --- who may ask --- */

/* localhost, the address that we listen on, any IP literal, and what the settings name: a page of a stranger's whose
 * name was made to resolve to this machine is none of them. */
static bool is_host_allowed(const struct mg_settings *settings, const struct mg_request_head *request)
{
  struct mg_str host, port;
  struct mg_address address;
  if (!request->host.len) return request->minor == 0; /* browsers always send one */
  if (!mg_authority_split(request->host, &host, &port)) return false;
  struct mg_str bare = host;
  if (host.len > 2 && host.ptr[0] == '[') bare = mg_str(host.ptr + 1, host.len - 2);
  if (mg_address_parse(bare, &address) || mg_str_equal_nocase(host, MG_STR("localhost"))) return true;
  if (mg_str_equal_nocase(host, mg_str(settings->management_host, strlen(settings->management_host)))) return true;
  for (unsigned i = 0; i < settings->allowed_host_count; i++) {
    const char *allowed = settings->allowed_hosts[i];
    if (mg_str_equal_nocase(host, mg_str(allowed, strlen(allowed)))) return true;
  }
  return false;
}

/* Takes the same time wherever the two differ. */
static bool same_secret(struct mg_str given, const char *token)
{
  size_t len = strlen(token);
  unsigned char difference = given.len != len;
  for (size_t i = 0; i < given.len; i++) difference |= (unsigned char)(given.ptr[i] ^ token[len ? i % len : 0]);
  return difference == 0;
}

/* The token as Bearer, or as the password of Basic with any user, which browsers can ask for. */
static bool has_token(const struct mg_request_head *request, const char *token)
{
  char decoded[512];
  unsigned from = 0;
  size_t len;
  const struct mg_header *line = mg_headers_next(&request->headers, MG_STR("authorization"), &from);
  if (!line || !*token) return false;
  struct mg_str value = mg_str(line->value, line->value_len);
  if (value.len > 7 && mg_equal_nocase(value.ptr, "bearer ", 7))
    return same_secret(mg_trim(mg_str(value.ptr + 7, value.len - 7)), token);
  if (value.len < 7 || !mg_equal_nocase(value.ptr, "basic ", 6)) return false;
  if (!mg_base64_decode(mg_trim(mg_str(value.ptr + 6, value.len - 6)), decoded, sizeof decoded, &len)) return false;
  const char *colon = memchr(decoded, ':', len);
  if (!colon) return false;
  return same_secret(mg_str(colon + 1, len - (size_t)(colon + 1 - decoded)), token);
}

/* A browser that another site told to send this says so. */
static bool is_cross_site(const struct mg_request_head *request)
{
  unsigned from = 0;
  const struct mg_header *origin = mg_headers_next(&request->headers, MG_STR("origin"), &from);
  if (!origin) return false;
  struct mg_str value = mg_str(origin->value, origin->value_len);
  const char *authority = memmem(value.ptr, value.len, "://", 3);
  if (!authority) return true;
  authority += 3;
  return !mg_str_equal_nocase(mg_str(authority, (size_t)(value.ptr + value.len - authority)), request->host);
}

/* --- the paths --- */

static struct mg_page_answer reload(struct mg_pages *pages, const struct mg_request_head *request,
                                    const struct mg_page_peer *peer)
{
  if (!peer->loopback && !has_token(request, pages->settings->management_token))
    return mg_pages_plain(403, "A reload can be asked for from this machine, or with management.token.");
  if (is_cross_site(request)) return mg_pages_plain(403, "Another site may not ask for a reload.");
  return (struct mg_page_answer){.work = MG_PAGE_RELOAD};
}

/* What was recorded is nobody's business but the operator's: without a token it stays on this machine. */
static struct mg_page_answer exchanges(struct mg_pages *pages, const struct mg_request_head *request,
                                       const struct mg_page_peer *peer, struct mg_str path, struct mg_str query)
{
  static const struct mg_str folder = {"/exchanges/", 11};
  if (!peer->loopback && !has_token(request, pages->settings->management_token))
    return mg_pages_plain(403, "Exchanges are shown on this machine, or with management.token.");
  if (path.len < folder.len)
    return (struct mg_page_answer){.work = MG_PAGE_SEARCH, .kind = MG_SEARCH_FIND, .what = query};
  path = mg_str(path.ptr + folder.len, path.len - folder.len);
  return (struct mg_page_answer){.work = MG_PAGE_SEARCH, .kind = MG_SEARCH_SHOW, .what = path};
}

static bool begins(struct mg_str text, struct mg_str prefix)
{
  return text.len >= prefix.len && memcmp(text.ptr, prefix.ptr, prefix.len) == 0;
}

static struct mg_page_answer not_allowed(const char *extra)
{
  struct mg_page_answer answer = mg_pages_plain(405, "That method is not for this path.");
  answer.extra = extra;
  return answer;
}

struct mg_page_answer mg_pages_answer(struct mg_pages *pages, const struct mg_request_head *request,
                                      const struct mg_page_peer *peer, uint64_t now_ms)
{
  const char *token = pages->settings->management_token;
  const char *mark = memchr(request->target.ptr, '?', request->target.len), *end;
  struct mg_str path = request->target, query = MG_STR("");
  if (mark) {
    end = path.ptr + path.len;
    path.len = (size_t)(mark - path.ptr);
    query = mg_str(mark + 1, (size_t)(end - mark - 1));
  }
  bool is_reload = mg_str_equal(path, MG_STR("/reload"));
  bool is_read = request->method_id == MG_METHOD_GET || request->method_id == MG_METHOD_HEAD;
  if (!is_host_allowed(pages->settings, request))
    return mg_pages_plain(421, "That host is not served here; management.allowed_hosts can name it.");
  if (is_reload && request->method_id != MG_METHOD_POST) return not_allowed("Allow: POST\r\n");
  if (!is_reload && !is_read) return not_allowed("Allow: GET, HEAD\r\n");
  if (mg_str_equal(path, MG_STR("/health"))) return probe(pages, false);
  if (mg_str_equal(path, MG_STR("/ready"))) return probe(pages, true);
  if (*token && !peer->loopback && !has_token(request, token)) {
    struct mg_page_answer answer = mg_pages_plain(401, "management.token is wanted.");
    answer.extra = "WWW-Authenticate: Basic realm=\"moongate\", Bearer\r\n";
    return answer;
  }
  if (is_reload) return reload(pages, request, peer);
  if (mg_str_equal(path, MG_STR("/metrics"))) return metrics(pages, request, now_ms);
  if (mg_str_equal(path, MG_STR("/status.json"))) return kept_page(pages, MG_PAGE_STATUS, type_json, now_ms);
  if (mg_str_equal(path, MG_STR("/"))) return with_text(200, type_html, "", mg_embedded("core/dashboard.html"));
  if (mg_str_equal(path, MG_STR("/exchanges")) || begins(path, MG_STR("/exchanges/")))
    return exchanges(pages, request, peer, path, query);
  return mg_pages_plain(404, "Here are /, /health, /ready, /metrics, /status.json, /exchanges and POST /reload.");
}

/* --- from outside --- */

/* The source expression for what stands between <tag> and </tag> in page: its hash. */
static void hash_source(struct mg_str page, const char *open, const char *close, char out[64])
{
  unsigned char hash[MG_SHA256_SIZE];
  char text[MG_BASE64_SIZE(MG_SHA256_SIZE)];
  const char *begin = memmem(page.ptr, page.len, open, strlen(open));
  const char *from = begin ? begin + strlen(open) : page.ptr;
  const char *end = memmem(from, (size_t)(page.ptr + page.len - from), close, strlen(close));
  mg_sha256(mg_str(from, end ? (size_t)(end - from) : 0), hash);
  mg_base64(hash, sizeof hash, text);
  snprintf(out, 64, "'sha256-%s'", text);
}

void mg_pages_open(struct mg_pages *pages, const struct mg_settings *settings,
                   const struct mg_management_events *events)
{
  char script[64], style[64];
  struct mg_str page = mg_embedded("core/dashboard.html");
  *pages = (struct mg_pages){.events = *events, .settings = settings};
  hash_source(page, "<script>", "</script>", script);
  hash_source(page, "<style>", "</style>", style);
  snprintf(pages->csp, sizeof pages->csp,
           "default-src 'none'; script-src %s; style-src %s; img-src data:; connect-src 'self'; base-uri 'none'; "
           "form-action 'none'; frame-ancestors 'none'",
           script, style);
}

void mg_pages_close(struct mg_pages *pages)
{
  for (unsigned i = 0; i < MG_PAGE_KINDS; i++) mg_page_release(&pages->kept[i]);
}
