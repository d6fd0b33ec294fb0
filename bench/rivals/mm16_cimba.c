// SPDX-License-Identifier: Apache-2.0
//
// M/M/16 in cimba (a process for the clients and one for each worker), for against_simulators.py:
// mm16_cimba REQUESTS SEED prints the requests served, the CPU time, and the mean latency in mean
// services. It answers with means only, as cimba's own benchmark does.
#include <cimba.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmi_mempool.h>

enum { kWorkers = 16 };
static const double kLoad = 0.8;

static CMB_THREAD_LOCAL struct cmi_mempool requests_pool =
    CMI_MEMPOOL_STATIC_INIT(sizeof(double), 512u);

struct Model {
  struct cmb_objectqueue* queue;
  uint64_t requests, served;
  double latencies;
};

static void* send(struct cmb_process* self, void* argument) {
  cmb_unused(self);
  struct Model* model = argument;
  for (uint64_t i = 0; i < model->requests; i++) {
    cmb_process_hold(cmb_random_exponential(1 / (kLoad * kWorkers)));
    double* arrived = cmi_mempool_alloc(&requests_pool);
    *arrived = cmb_time();
    cmb_objectqueue_put(model->queue, arrived);
  }
  return NULL;
}

static void* serve(struct cmb_process* self, void* argument) {
  cmb_unused(self);
  struct Model* model = argument;
  for (;;) {
    void* arrived = NULL;
    cmb_objectqueue_get(model->queue, &arrived);
    cmb_process_hold(cmb_random_exponential(1));
    model->latencies += cmb_time() - *(double*)arrived;
    model->served++;
    cmi_mempool_free(&requests_pool, arrived);
  }
  return NULL;
}

static void begin(void* (*run)(struct cmb_process*, void*), struct Model* model) {
  struct cmb_process* process = cmb_process_create();
  cmb_process_initialize(process, "process", run, model, 0);
  cmb_process_start(process);
}

int main(int count, char** arguments) {
  if (count != 3) return fprintf(stderr, "usage: mm16_cimba REQUESTS SEED\n"), 2;
  struct Model model = {.requests = strtoull(arguments[1], NULL, 10)};
  cmb_logger_flags_off(CMB_LOGGER_INFO);
  cmb_random_initialize(strtoull(arguments[2], NULL, 10));
  const clock_t begun = clock();
  cmb_event_queue_initialize(0.0);
  model.queue = cmb_objectqueue_create();
  cmb_objectqueue_initialize(model.queue, "queue", CMB_UNLIMITED);
  begin(send, &model);
  for (int worker = 0; worker < kWorkers; worker++) begin(serve, &model);
  cmb_event_queue_execute();
  printf("{\"requests\": %" PRIu64 ", \"cpu_s\": %.6f, \"mean\": %.6f}\n", model.served,
         (double)(clock() - begun) / CLOCKS_PER_SEC, model.latencies / (double)model.served);
  return 0;
}
