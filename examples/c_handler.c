// SPDX-License-Identifier: Apache-2.0
//
// The handler shape in C: echoes lines, and works on "work N".
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <rubato/rubato.h>

#include "work.h"

static int handle(void* user, rubato_request* request) {
  (void)user;
  size_t size = 0;
  const char* text = rubato_request_payload(request, &size);
  const uint64_t steps = work_steps(text, size);
  if (steps == 0) return rubato_request_reply(request, text, size);
  rubato_long_begin(0);
  char reply[32];
  const int length = snprintf(reply, sizeof reply, "worked %" PRIu64, work(steps) % 10);
  rubato_long_end();
  return rubato_request_reply(request, reply, (size_t)length);
}

int main(int argc, char** argv) {
  rubato_options options;
  rubato_options_init(&options, sizeof options);
  options.port = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
  options.handle_signals = 1;

  rubato_application application;
  rubato_application_init(&application, sizeof application);
  application.framing = RUBATO_FRAMING_LINES;
  application.handle = handle;

  rubato_error error;
  rubato_server* server = rubato_server_create(&options, &application, &error);
  if (server == NULL) {
    fprintf(stderr, "c_handler: %s\n", error.text);
    return 1;
  }
  printf("listening on %" PRIu32 "\n", rubato_server_port(server));
  fflush(stdout);
  const int status = rubato_server_run(server, &error);
  if (status == RUBATO_ERROR) fprintf(stderr, "c_handler: %s\n", error.text);
  rubato_server_destroy(server);
  return status == RUBATO_OK ? 0 : 1;
}
