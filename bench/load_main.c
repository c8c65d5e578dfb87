/* load_main.c - `moongate-load`: options in, one run, JSON out.
 * Owns: the histograms.   May call: load, request.   Never: judge a result; that is the suite's.   Thread: one. */
#include <arpa/inet.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "load.h"

static const char help[] =
    "usage: moongate-load [options] HOST:PORT   (HOST an IPv4 address)\n"
    "  --request FILE       a request template, or the name of one in bench/workloads (default get)\n"
    "  --rate N             requests per second; 0: as fast as the connections allow (default 1000)\n"
    "  --connections N      that send requests (default 64)\n"
    "  --idle N             further ones that are only held open (default 0)\n"
    "  --duration S         seconds in all (default 10)\n"
    "  --warmup S           seconds at the start that do not count (default 1)\n"
    "  --timeout S          an answer that takes longer is a fault (default 5)\n"
    "  --arrival even|poisson|ticks   when requests are due (default even)\n"
    "  --seed N             of poisson (default 1)\n"
    "  --json FILE          where the result goes (default standard output)\n"
    "Exit code: 0 the run took place (faults are in the result), 1 it could not, 2 wrong usage.\n";

static int usage(const char *what, const char *value)
{
  fprintf(stderr, "moongate-load: %s%s%s\n%s", what, value ? ": " : "", value ? value : "", help);
  return 2;
}

struct arguments {
  struct bench_load_options load;
  const char *json;
  char host[64];
};

/* Seconds or a count; negative when text is no number. */
static double number(const char *text)
{
  char *end;
  double value = strtod(text, &end);
  return *text && !*end && value >= 0 && value < 1e9 ? value : -1;
}

static bool take_option(struct arguments *arguments, int option, const char *text)
{
  struct bench_load_options *load = &arguments->load;
  static const char *const arrivals[] = {"even", "poisson", "ticks"};
  double value = strchr("arj", option) ? 0 : number(text);
  if (value < 0) return false;
  switch (option) {
  case 'r':
    load->workload = text;
    return true;
  case 'R':
    load->rate = value;
    return true;
  case 'c':
    load->connections = (unsigned)value;
    return value >= 1 && value <= 60000;
  case 'i':
    load->idle = (unsigned)value;
    return value <= 60000;
  case 'd':
    load->duration_ns = (uint64_t)(value * 1e9);
    return value > 0;
  case 'w':
    load->warmup_ns = (uint64_t)(value * 1e9);
    return true;
  case 't':
    load->timeout_ns = (uint64_t)(value * 1e9);
    return value >= 0.1;
  case 's':
    load->seed = (uint64_t)value;
    return true;
  case 'j':
    arguments->json = text;
    return true;
  case 'a':
    for (int i = 0; i < 3; i++) {
      if (strcmp(text, arrivals[i]) != 0) continue;
      load->arrival = (enum bench_arrival)i;
      return true;
    }
    return false;
  default:
    return false;
  }
}

static bool take_address(struct arguments *arguments, const char *text)
{
  const char *colon = strrchr(text, ':');
  struct in_addr address;
  if (!colon || (size_t)(colon - text) >= sizeof arguments->host) return false;
  memcpy(arguments->host, text, (size_t)(colon - text));
  double port = number(colon + 1);
  arguments->load.host = arguments->host;
  arguments->load.port = (unsigned)port;
  return port >= 1 && port <= 65535 && inet_pton(AF_INET, arguments->host, &address) == 1;
}

/* 0, or the exit code. */
static int read_arguments(struct arguments *arguments, int argc, char **argv)
{
  static const struct option names[] = {{"request", 1, 0, 'r'}, {"rate", 1, 0, 'R'},     {"connections", 1, 0, 'c'},
                                        {"idle", 1, 0, 'i'},    {"duration", 1, 0, 'd'}, {"warmup", 1, 0, 'w'},
                                        {"timeout", 1, 0, 't'}, {"arrival", 1, 0, 'a'},  {"seed", 1, 0, 's'},
                                        {"json", 1, 0, 'j'},    {"help", 0, 0, 'h'},     {0}};
  int option, index = 0;
  while ((option = getopt_long(argc, argv, "", names, &index)) != -1) {
    if (option == 'h') {
      fputs(help, stdout);
      exit(0);
    }
    if (option == '?') return usage("an unknown option or one without its value", NULL);
    if (!take_option(arguments, option, optarg)) return usage(names[index].name, optarg);
  }
  if (optind + 1 != argc || !take_address(arguments, argv[optind])) return usage("one HOST:PORT is wanted", NULL);
  if (arguments->load.warmup_ns >= arguments->load.duration_ns)
    return usage("the warm-up leaves nothing to measure", NULL);
  return 0;
}

static void print_times(FILE *out, const char *name, const struct bench_histogram *histogram)
{
  static const struct {
    const char *name;
    double share;
  } points[] = {{"p50", 0.5}, {"p75", 0.75}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}};
  fprintf(out, "  \"%s\": {\"count\": %" PRIu64, name, histogram->count);
  for (size_t i = 0; i < sizeof points / sizeof *points; i++)
    fprintf(out, ", \"%s\": %.3f", points[i].name, (double)bench_histogram_at(histogram, points[i].share) / 1e3);
  fprintf(out, ", \"min\": %.3f, \"max\": %.3f, \"mean\": %.3f}", histogram->count ? (double)histogram->least / 1e3 : 0,
          (double)histogram->most / 1e3, bench_histogram_mean(histogram) / 1e3);
}

static void print_result(FILE *out, const struct bench_load_options *options, const struct bench_load_result *result)
{
  static const char *const fault_names[] = {
#define X(name, what) #name,
      BENCH_FAULT_MAP(X)
#undef X
  };
  static const char *const arrivals[] = {"even", "poisson", "ticks"};
  double window = (double)(options->duration_ns - options->warmup_ns) / 1e9;
  uint64_t faults = 0;
  for (int i = 0; i < BENCH_FAULT_COUNT; i++) faults += result->faults[i];
  fprintf(out, "{\n  \"tool\": \"moongate-load\", \"workload\": \"%s\", \"arrival\": \"%s\",\n", options->workload,
          options->rate > 0 ? arrivals[options->arrival] : "closed");
  fprintf(out,
          "  \"connections\": %u, \"idle\": %u, \"idle_lost\": %" PRIu64
          ", \"duration_s\": %.3f, \"warmup_s\": %.3f,\n",
          options->connections, options->idle, result->idle_lost, (double)options->duration_ns / 1e9,
          (double)options->warmup_ns / 1e9);
  fprintf(out, "  \"asked_rate\": %.3f, \"achieved_rate\": %.3f,\n", options->rate, (double)result->in_window / window);
  fprintf(out,
          "  \"sent\": %" PRIu64 ", \"due\": %" PRIu64 ", \"answered\": %" PRIu64 ", \"body_bytes\": %" PRIu64 ",\n",
          result->sent, result->due, result->answered, result->bytes);
  fprintf(out, "  \"errors\": %" PRIu64 ", \"errors_by_kind\": {", faults);
  for (int i = 0; i < BENCH_FAULT_COUNT; i++)
    fprintf(out, "%s\"%s\": %" PRIu64, i ? ", " : "", fault_names[i], result->faults[i]);
  fprintf(out, "},\n  \"statuses\": {");
  for (int i = 2; i < 6; i++) fprintf(out, "%s\"%dxx\": %" PRIu64, i > 2 ? ", " : "", i, result->statuses[i]);
  fprintf(out, "},\n");
  fprintf(out, "  \"generator_late_us\": %.3f,\n", (double)result->late_ns / 1e3);
  print_times(out, "latency_us", result->latency);
  fprintf(out, ",\n");
  print_times(out, "service_us", result->service);
  fprintf(out, "\n}\n");
}

/* 10,000 connections are more descriptors than a shell allows by default. */
static void raise_descriptor_limit(void)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

static bool run(const struct arguments *arguments, struct mg_buf *error)
{
  const struct bench_load_options *options = &arguments->load;
  struct mg_buf path = {0}, host = {0};
  bool named = !strchr(options->workload, '/') && !strchr(options->workload, '.');
  mg_buf_printf(&path, named ? BENCH_WORKLOADS "/%s.http" : "%s", options->workload);
  mg_buf_append(&path, "", 1);
  mg_buf_printf(&host, "%s:%u", options->host, options->port);
  mg_buf_append(&host, "", 1);
  struct bench_request request;
  struct bench_load_result result = {.latency = bench_histogram_new(), .service = bench_histogram_new()};
  bool ok =
      bench_request_read(&request, path.ptr, host.ptr, error) && bench_load_run(options, &request, &result, error);
  FILE *out = ok && arguments->json ? fopen(arguments->json, "w") : stdout;
  if (!out) mg_buf_printf(error, "cannot write %s", arguments->json);
  if (ok && out) print_result(out, options, &result);
  if (out && out != stdout) fclose(out);
  bench_request_free(&request);
  bench_histogram_free(&result.latency);
  bench_histogram_free(&result.service);
  mg_buf_free(&path);
  mg_buf_free(&host);
  return ok && out;
}

int main(int argc, char **argv)
{
  struct arguments arguments = {.load = {.workload = "get",
                                         .rate = 1000,
                                         .connections = 64,
                                         .duration_ns = 10000000000,
                                         .warmup_ns = 1000000000,
                                         .timeout_ns = 5000000000,
                                         .seed = 1}};
  int code = read_arguments(&arguments, argc, argv);
  if (code) return code;
  raise_descriptor_limit();
  struct mg_buf error = {0};
  bool ok = run(&arguments, &error);
  if (!ok) fprintf(stderr, "moongate-load: %.*s\n", (int)error.len, error.ptr);
  mg_buf_free(&error);
  return ok ? 0 : 1;
}
