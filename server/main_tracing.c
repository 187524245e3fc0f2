/* SPDX-License-Identifier: Apache-2.0 */
/* Where spans are sent, if they are; see main_internal.h. */
#include "server/main_internal.h"
#include "server/service.h"
#include "server/tracing/tracing.h"

bool main_start_tracing(struct service *service, const struct attn_config *config) {
    const struct tracing_options options = {
        .endpoint = config->otlp_endpoint,
        .percent = (unsigned)config->otlp_sample,
        .log = service->log,
    };
    if (options.endpoint[0] == '\0')
        return true;
    service->tracing = tracing_start(&options);
    if (service->tracing == NULL)
        main_print_error("spans cannot be sent: there is no memory, or no thread, to do it");
    return service->tracing != NULL;
}
