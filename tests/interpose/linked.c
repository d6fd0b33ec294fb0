/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of librubato.so that wants to be interrupted anywhere. Linked with the interposers it
 * may, without them it is told why not.
 */
#include <stdio.h>

#include <rubato/rubato.h>

static int handle(void* user, rubato_request* request) {
  (void)user;
  return rubato_request_reply(request, "", 0);
}

int main(void) {
  rubato_options options;
  rubato_options_init(&options, sizeof options);
  options.preempt = RUBATO_PREEMPT_TIMER;
  options.stack_bytes = 256 * 1024;
  rubato_application application;
  rubato_application_init(&application, sizeof application);
  application.framing = RUBATO_FRAMING_LINES;
  application.handle = handle;
  rubato_error error;
  rubato_server* server = rubato_server_create(&options, &application, &error);
  puts(server != NULL ? "may be interrupted" : error.text);
  if (server != NULL) rubato_server_destroy(server);
  return 0;
}
