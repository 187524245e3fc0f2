/* SPDX-License-Identifier: Apache-2.0 */
/* The text of /metrics: a function per family, called in the order of metrics.def. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include "server/captures/captures.h"
#include "server/clock.h"
#include "server/codecs/codec_oip.h"
#include "server/codings/coding.h"
#include "server/header_list.h"
#include "server/heap.h"
#include "server/metrics_internal.h"
#include "server/service.h"
#include "server/sessions/session_table.h"
#include "server/tracing/tracing.h"

enum metric_type { COUNTER, GAUGE, HISTOGRAM };

/* What a family's function is given. */
struct writer {
    const struct service *service;
    const struct metrics *metrics;
    const char *name; /* of its samples */
    struct text *out;
};

/* `labels` as they stand between the braces; "" for none. */
static void sample(const struct writer *w, const char *suffix, const char *labels, double value) {
    text_format(w->out, "%s%s", w->name, suffix);
    if (labels[0] != '\0')
        text_format(w->out, "{%s}", labels);
    text_format(w->out, " %.17g\n", value);
}

static uint64_t observations(const struct histogram *histogram) {
    uint64_t count = 0;
    for (size_t i = 0; i <= BUCKET_COUNT; i++)
        count += metrics_read(&histogram->buckets[i]);
    return count;
}

/* The sum is read first: it then never holds more than what the buckets count. */
static void histogram_samples(const struct writer *w, const char *labels,
                              const struct histogram *histogram) {
    char with_bound[256];
    const double sum = 1e-9 * (double)metrics_read(&histogram->nanoseconds);
    uint64_t count = 0;
    for (size_t i = 0; i < BUCKET_COUNT; i++) {
        count += metrics_read(&histogram->buckets[i]);
        snprintf(with_bound, sizeof with_bound, "%s,le=\"%.10g\"", labels, metrics_bounds[i]);
        sample(w, "_bucket", with_bound, (double)count);
    }
    count += metrics_read(&histogram->buckets[BUCKET_COUNT]);
    snprintf(with_bound, sizeof with_bound, "%s,le=\"+Inf\"", labels);
    sample(w, "_bucket", with_bound, (double)count);
    sample(w, "_sum", labels, sum);
    sample(w, "_count", labels, (double)count);
}

static const char *route_label(size_t route) {
    return route < route_count() ? route_at(route)->path : "unmatched";
}

static void write_requests(const struct writer *w) {
    char labels[192];
    for (size_t r = 0; r <= route_count(); r++)
        for (unsigned m = 0; m < HTTP_METHOD_COUNT; m++)
            for (size_t c = 0; c < CODE_COUNT; c++) {
                const uint64_t count = metrics_read(&w->metrics->requests[r][m][c]);
                if (count == 0)
                    continue;
                snprintf(labels, sizeof labels, "route=\"%s\",method=\"%s\",code=\"%d\"",
                         route_label(r), http_method_name((enum http_method)m), metrics_codes[c]);
                sample(w, "", labels, (double)count);
            }
}

static void write_request_duration(const struct writer *w) {
    static const char *const classes[CLASS_COUNT] = {"2xx", "4xx", "5xx"};
    char labels[192];
    for (size_t r = 0; r <= route_count(); r++)
        for (size_t c = 0; c < CLASS_COUNT; c++)
            for (size_t s = 0; s < SIZE_COUNT; s++) {
                const struct histogram *histogram = &w->metrics->durations[r][c][s];
                if (observations(histogram) == 0)
                    continue;
                snprintf(labels, sizeof labels, "route=\"%s\",code_class=\"%s\",size=\"%s\"",
                         route_label(r), classes[c], metrics_sizes[s].name);
                histogram_samples(w, labels, histogram);
            }
}

static void write_stage_duration(const struct writer *w) {
    char labels[64];
    for (unsigned s = 0; s < STAGE_COUNT; s++) {
        snprintf(labels, sizeof labels, "stage=\"%s\"", metrics_stage_name((enum metrics_stage)s));
        histogram_samples(w, labels, &w->metrics->stages[s]);
    }
}

static void write_requests_in_flight(const struct writer *w) {
    sample(w, "", "", (double)atomic_load(&w->service->metrics->in_flight));
}

static void write_connections(const struct writer *w) {
    sample(w, "", "", (double)atomic_load(&w->service->metrics->connections));
}

static void write_queue_depth(const struct writer *w) {
    sample(w, "", "", (double)admission_queue_depth(w->service->admission));
}

static void write_backlog(const struct writer *w) {
    sample(w, "", "", backlog_total(w->service->backlog, clock_now()));
}

static void write_shedding(const struct writer *w) {
    sample(w, "", "", backlog_sheds(w->service->backlog, clock_now()) ? 1 : 0);
}

static void write_in_flight_bytes(const struct writer *w) {
    sample(w, "", "", (double)admission_bytes(w->service->admission));
}

static void write_memory_budget(const struct writer *w) {
    sample(w, "", "", (double)admission_budget(w->service->admission));
}

static void write_workers(const struct writer *w) {
    sample(w, "", "", (double)w->service->workers);
}

static void write_worker_busy(const struct writer *w) {
    sample(w, "", "", attn_scheduler_read(w->service->scheduler).busy_seconds);
}

static void write_flops(const struct writer *w) {
    sample(w, "", "", (double)metrics_read(&w->metrics->flops));
}

static void write_scores_computed(const struct writer *w) {
    sample(w, "", "", (double)metrics_read(&w->metrics->scores_computed));
}

static void write_scores_skipped(const struct writer *w) {
    sample(w, "", "", (double)metrics_read(&w->metrics->scores_skipped));
}

static void write_kernel_calls(const struct writer *w) {
    char labels[96];
    const struct attn_kernel *kernel;
    for (size_t i = 0; i < KERNEL_ROOM && (kernel = attn_kernel_at(i)) != NULL; i++) {
        snprintf(labels, sizeof labels, "kernel=\"%s\"", kernel->name);
        sample(w, "", labels, (double)metrics_read(&w->metrics->kernels[i]));
    }
}

static void write_packed_bodies(const struct writer *w) {
    static const char *const directions[METRICS_DIRECTIONS] = {"in", "out"};
    char labels[96];
    const struct coding *coding;
    for (size_t i = 0; i < CODING_ROOM && (coding = coding_at(i)) != NULL; i++)
        for (size_t d = 0; d < METRICS_DIRECTIONS; d++) {
            snprintf(labels, sizeof labels, "coding=\"%s\",direction=\"%s\"", coding->name,
                     directions[d]);
            sample(w, "", labels, (double)metrics_read(&w->metrics->packed[i][d]));
        }
}

static struct session_counts read_sessions(const struct writer *w) {
    struct session_counts counts = {0};
    if (w->service->sessions != NULL)
        session_table_read(w->service->sessions, &counts);
    return counts;
}

static void write_sessions(const struct writer *w) {
    sample(w, "", "", (double)read_sessions(w).sessions);
}

static void write_session_pages(const struct writer *w) {
    sample(w, "", "", (double)read_sessions(w).pages);
}

static void write_session_bytes(const struct writer *w) {
    sample(w, "", "", (double)read_sessions(w).bytes);
}

static void write_session_budget(const struct writer *w) {
    sample(w, "", "", (double)read_sessions(w).budget);
}

static void write_sessions_created(const struct writer *w) {
    sample(w, "", "", (double)read_sessions(w).created);
}

static void write_sessions_ended(const struct writer *w) {
    sample(w, "", "reason=\"deleted\"", (double)read_sessions(w).deleted);
    sample(w, "", "reason=\"expired\"", (double)read_sessions(w).expired);
    sample(w, "", "reason=\"key_removed\"", (double)read_sessions(w).orphaned);
}

static void write_session_tokens(const struct writer *w) {
    sample(w, "", "", (double)metrics_read(&w->metrics->session_rows));
}

static void write_session_step(const struct writer *w) {
    histogram_samples(w, "appends=\"false\"", &w->metrics->steps[0]);
    histogram_samples(w, "appends=\"true\"", &w->metrics->steps[1]);
}

static void write_inference_requests(const struct writer *w) {
    const struct oip_model *model;
    char labels[96];
    for (size_t i = 0; (model = oip_model_at(i)) != NULL; i++) {
        struct metrics_model counts;
        metrics_read_model(w->metrics, i, &counts);
        snprintf(labels, sizeof labels, "model=\"%s\",outcome=\"success\"", model->name);
        sample(w, "", labels, (double)counts.successes);
        snprintf(labels, sizeof labels, "model=\"%s\",outcome=\"failure\"", model->name);
        sample(w, "", labels, (double)counts.failures);
    }
}

static void write_rejections(const struct writer *w) {
    char labels[96];
    for (int code = ATTN_OK + 1; code < PROBLEM_COUNT; code++) {
        snprintf(labels, sizeof labels, "reason=\"%s\"", problem_name(code));
        sample(w, "", labels, (double)metrics_read(&w->metrics->rejections[code]));
    }
}

static void write_captures(const struct writer *w) {
    sample(w, "", "", (double)captures_count(w->service->captures).count);
}

static void write_capture_bytes(const struct writer *w) {
    sample(w, "", "", (double)captures_count(w->service->captures).bytes);
}

static void write_captures_added(const struct writer *w) {
    sample(w, "", "", (double)captures_count(w->service->captures).added);
}

static void write_captures_evicted(const struct writer *w) {
    sample(w, "", "", (double)captures_count(w->service->captures).evicted);
}

static void write_captures_refused(const struct writer *w) {
    sample(w, "", "", (double)captures_count(w->service->captures).refused);
}

static void write_log_lost(const struct writer *w) {
    sample(w, "", "", (double)atomic_load(&w->service->log->lost));
}

static void write_spans_sent(const struct writer *w) {
    sample(w, "", "", (double)tracing_count(w->service->tracing).sent);
}

static void write_spans_dropped(const struct writer *w) {
    sample(w, "", "", (double)tracing_count(w->service->tracing).dropped);
}

static void write_reload_successful(const struct writer *w) {
    sample(w, "", "", atomic_load(&w->metrics->reload_successful) ? 1 : 0);
}

static void write_reload_time(const struct writer *w) {
    sample(w, "", "", atomic_load(&w->metrics->reloaded_at));
}

static void write_certificate(const struct writer *w) {
    const double expires = atomic_load(&w->metrics->certificate_expires);
    if (expires != 0)
        sample(w, "", "", expires);
}

static void write_keys(const struct writer *w) {
    sample(w, "", "", (double)auth_count(w->service->auth));
}

static void write_build_info(const struct writer *w) {
    text_format(w->out, "%s{version=\"%s\",compiler=", w->name, ATTN_VERSION);
    text_label(w->out, __VERSION__);
    text_format(w->out, ",cpu=");
    text_label(w->out, w->service->machine.model);
    text_format(w->out, "} 1\n");
}

static void write_process_cpu(const struct writer *w) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    sample(w, "", "",
           (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
}

static void write_process_resident(const struct writer *w) {
    sample(w, "", "", (double)heap_resident());
}

static void write_process_virtual(const struct writer *w) {
    sample(w, "", "", (double)heap_virtual());
}

static size_t directory_entries(const char *path) {
    DIR *directory = opendir(path);
    size_t count = 0;
    if (directory == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void write_process_open_fds(const struct writer *w) {
    const size_t with_own = directory_entries("/proc/self/fd");
    sample(w, "", "", with_own > 0 ? (double)(with_own - 1) : 0);
}

static void write_process_max_fds(const struct writer *w) {
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    sample(w, "", "", (double)limit.rlim_cur);
}

static void write_process_start(const struct writer *w) {
    sample(w, "", "", w->metrics->started_at);
}

static void write_process_threads(const struct writer *w) {
    sample(w, "", "", (double)directory_entries("/proc/self/task"));
}

struct family {
    enum metric_type type;
    const char *name, *sentence;
    void (*write)(const struct writer *writer);
};

static const struct family families[] = {
#define METRIC(id, type, name, sentence) {type, name, sentence, write_##id},
#include "server/metrics.def"
#undef METRIC
};

static const char *const type_names[] = {"counter", "gauge", "histogram"};

/* OpenMetrics names a counter's family without the _total of its sample. */
static void family_head(const struct family *family, bool openmetrics, struct text *out) {
    int length = (int)strlen(family->name);
    if (openmetrics && family->type == COUNTER)
        length -= (int)strlen("_total");
    text_format(out, "# HELP %.*s %s\n", length, family->name, family->sentence);
    text_format(out, "# TYPE %.*s %s\n", length, family->name, type_names[family->type]);
}

void metrics_write(const struct service *service, bool openmetrics, struct text *out) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct writer writer = {service, service->metrics, families[i].name, out};
        family_head(&families[i], openmetrics, out);
        families[i].write(&writer);
    }
    if (openmetrics)
        text_format(out, "# EOF\n");
}

bool metrics_wants_openmetrics(const char *accept) {
    struct header_item range;
    double open = 0, plain = 0;
    while (header_list_next(&accept, &range)) {
        if (header_item_is(&range, "application/openmetrics-text"))
            open = range.quality > open ? range.quality : open;
        else if (range.length >= 5 && strncasecmp(range.text, "text/", 5) == 0)
            plain = range.quality > plain ? range.quality : plain;
    }
    return open > 0 && open >= plain;
}
