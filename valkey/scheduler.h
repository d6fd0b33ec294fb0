// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: long commands of Valkey that run as tasks of librubato's embedded executor, so that
// none blocks another client's. The lines that insertions.txt adds to Valkey call it.
//
// A read-only command of known kind, of at least `rubato-threshold` elements, runs on a fiber, in
// slices, between which the event loop serves the others. While such a command is *underway* it
// holds what it reads, its keys or a whole database: commands that only read run as always,
// commands that write what is held wait in Valkey's queue of postponed clients. Whatever changes a
// key in another way comes to scheduler_before_write or scheduler_drain first, which runs the
// commands underway to their ends; so no reader ever sees a change, and what decides who waits is
// about latency only. docs/VALKEY.md has the rules.
//
// Threads: the main thread of the server only. Times in microseconds.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct client;
struct serverDb;
struct hashtable;
typedef struct SchedulerCommand SchedulerCommand;

// A part of each client.
typedef struct SchedulerClient {
  SchedulerCommand* command;  // underway, or ended and not finished yet; else null
  long long waits_since;       // 0 = its command does not wait for others, nor is tried again
  unsigned char first_try;     // the command that waits had not been tried before
  unsigned char is_let_go;     // to be tried again in the next turn of the event loop
  unsigned char is_reader;     // waits although it conflicts with none: others came before it
  unsigned char group;         // of the command that waits
  signed char culprit;         // group of the one that it waits for; -1 = it waits for its turn
  long long timeout;           // ms: until when a command may block that was served and waits, or 0
  long long waited_us;         // of the command that runs, before it began
  long long suspended_us;      // of the one that a script has called
} SchedulerClient;

// What may happen to a command while others are underway; commands.txt gives each its class.
enum SchedulerClass {
  SCHEDULER_DRAINS = 0,  // waits until none is underway; also commands that the table lacks
  SCHEDULER_WHOLE,       // runs at once, to its end: it writes no keys
  SCHEDULER_WAITS,       // waits while a key that it names is held
  SCHEDULER_SUSPENDS,    // reads, and is suspended itself if it is long
  SCHEDULER_SCRIPT,      // a script: suspended if it cannot write, alone in its interpreter
  SCHEDULER_EXEC,        // waits if one of its commands would
};

typedef struct SchedulerSettings {
  int enabled;
  int threshold;  // elements from which on a command is long
  int quantum_us;
  int stress;     // 0 = none, else the seed of a test: suspend at checkpoints, at random
  int overload_target_us;  // 0 = nothing is refused
  int metrics_port;        // 0 = none
  char* metrics_bind;
  char* policy;
} SchedulerSettings;

extern SchedulerSettings scheduler_options;
extern SchedulerCommand* scheduler_running;  // whose fiber runs; null = the event loop
extern unsigned scheduler_underway;           // commands that have begun to hold and not ended

// Before the server loads its data: it does not start when its settings cannot be had.
void scheduler_begin(void);
// In a child that saves or rewrites.
void scheduler_child_begins(void);

// 1 = the command runs at once: nothing is underway, it has not waited, and its class is of those
// that are never suspended. What most commands cost.
static inline int scheduler_passes(const SchedulerClient* mine, int class) {
  return scheduler_underway == 0 && mine->waits_since == 0 &&
         (class <= SCHEDULER_WAITS || !scheduler_options.enabled);
}

// processCommand, of the others: instead of call(c, *flags). 0 = the caller is to run the command
// now; else it runs or waits and the client is blocked meanwhile. May change the flags.
int scheduler_call(struct client* c, int* flags);
// beforeSleep: one slice of the commands underway. Nonzero = more is to do, do not sleep.
int scheduler_turn(void);
// Runs what is underway to its end, now. Nothing is underway afterwards: a script, which may have
// no end, is killed when it has run for busy-reply-threshold, or, with haste, for 100 ms.
enum { SCHEDULER_PATIENT = 0, SCHEDULER_HASTY = 1 };
void scheduler_drain(int haste);

void scheduler_before_write_slow(struct serverDb* db, const char* key);
// Before anything about the key changes.
static inline void scheduler_before_write(struct serverDb* db, const char* key) {
  if (scheduler_underway != 0) scheduler_before_write_slow(db, key);
}
// 1 = a key that has expired is to stay, since it is held.
int scheduler_keeps_expired(struct serverDb* db, const char* key);
// 1 = maintenance that moves or frees values (eviction, defragmentation) is to be left for later.
// When it was for too long, no command becomes underway before it had its turn.
int scheduler_holds_off(void);
// The same for expiry, which leaves single keys that are held, and waits for whole databases only.
int scheduler_holds_off_expiry(void);
// databasesCron: as expiry; if not, it has its turn now.
int scheduler_holds_off_cron(void);
// The client's command has waited and does no longer.
void scheduler_forget(struct client* c);
// freeClient: nor is it tried again.
void scheduler_abandon(struct client* c);

// processUnblockedClients: of a client whose command, it may be, was underway or waited.
void scheduler_read_again(struct client* c);

int scheduler_is_killed_slow(void);
// 1 = the client of the command which runs was killed: no one reads what it replies, so its loops
// may end. Not of one that a script calls, whose reply becomes a value, nor of one that is no task.
static inline int scheduler_is_killed(void) {
  return scheduler_running != NULL && scheduler_is_killed_slow();
}
int scheduler_checkpoint_slow(void);
// In a loop of a command that may be suspended there. 1 = as above.
static inline int scheduler_checkpoint(void) {
  return scheduler_running != NULL && scheduler_checkpoint_slow();
}
// In the hook of a script, whose commands have checkpoints that do nothing.
void scheduler_script_checkpoint(void);
// The same where replies become values of a script, and these its reply.
void scheduler_value_checkpoint_slow(void);
static inline void scheduler_value_checkpoint(void) {
  if (scheduler_running != NULL) scheduler_value_checkpoint_slow();
}
int scheduler_script_is_killed(void);
// SCRIPT KILL, with is_eval, and FUNCTION KILL. 1 = a script is underway, and was told if it is of
// that kind; the client has its answer.
int scheduler_kill_script(struct client* c, int is_eval);
// Instructions of a script between two of its hooks.
int scheduler_script_stride(void);

// 1 = the message, which is no part of the reply, was kept until the client's command has ended.
int scheduler_keeps_push(struct client* c, const char* bytes, size_t size);
// Memory of such messages.
size_t scheduler_kept_bytes(struct client* c);
// The time that the client's command has spent suspended, to be left out of its duration.
long long scheduler_suspended_us(struct client* c);

// For CLIENT LIST, and a section of INFO: appended to `to`, an sds.
char* scheduler_describe_client(char* to, struct client* c);
char* scheduler_info(char* to);
// CONFIG RESETSTAT: counts begin anew.
void scheduler_reset_stats(void);

// The command log: 1 more argument when the client's command was suspended or has waited.
void scheduler_annotate(struct client* c, struct serverObject*** argv, int* argc);

// config.c: 1 = the library has a policy of that name; else *error says so. 1 = done.
int scheduler_policy_is_valid(char* policy, const char** error);
int scheduler_bind_is_valid(char* address, const char** error);
int scheduler_settings_changed(const char** error);
int scheduler_enabled_changed(const char** error);
// rubato-class NAME commands COMMAND,... share N: classes of commands that share the time of the
// commands underway by weight. The text that `get` returns is an sds.
struct standardConfig;
struct rewriteConfigState;
int scheduler_set_groups(struct standardConfig* config, char** argv, int argc, const char** error);
char* scheduler_get_groups(struct standardConfig* config);
void scheduler_rewrite_groups(struct standardConfig* config, const char* name,
                              struct rewriteConfigState* state);

// server.c: the errors that had been replied when the command which runs began.
extern long long* scheduler_previous_errors;

// script.c: exchanges the script that runs.
void* scheduler_swap_script(void* other);

// hashtable.c: while all of a database is held, reads rehash no table.
extern unsigned scheduler_whole_holds;

// hashtable.c: adds to the reasons why the table is not rehashed; reads rehash, too.
void scheduler_pause_rehashing(struct hashtable* table, int pauses);

// The entries of config.c's table.
#define RUBATO_CONFIGS                                                                          \
  createBoolConfig("rubato-enabled", NULL, MODIFIABLE_CONFIG, scheduler_options.enabled, 1, NULL,  \
                   scheduler_enabled_changed),                                                     \
      createStringConfig("rubato-policy", NULL, MODIFIABLE_CONFIG, ALLOW_EMPTY_STRING,             \
                         scheduler_options.policy, "synergy", scheduler_policy_is_valid,           \
                         scheduler_settings_changed),                                              \
      createIntConfig("rubato-quantum-us", NULL, MODIFIABLE_CONFIG, 1, 1000000,                    \
                      scheduler_options.quantum_us, 50, INTEGER_CONFIG, NULL,                      \
                      scheduler_settings_changed),                                                 \
      createIntConfig("rubato-threshold", NULL, MODIFIABLE_CONFIG, 1, 1000000000,                  \
                      scheduler_options.threshold, 1000, INTEGER_CONFIG, NULL, NULL),              \
      createSpecialConfig("rubato-class", NULL, MODIFIABLE_CONFIG | MULTI_ARG_CONFIG,              \
                          scheduler_set_groups, scheduler_get_groups, scheduler_rewrite_groups,    \
                          scheduler_settings_changed),                                             \
      createIntConfig("rubato-overload-target-us", NULL, MODIFIABLE_CONFIG, 0, 60000000,           \
                      scheduler_options.overload_target_us, 0, INTEGER_CONFIG, NULL,               \
                      scheduler_settings_changed),                                                 \
      createIntConfig("rubato-metrics-port", NULL, MODIFIABLE_CONFIG, 0, 65535,                    \
                      scheduler_options.metrics_port, 0, INTEGER_CONFIG, NULL,                     \
                      scheduler_settings_changed),                                                 \
      createStringConfig("rubato-metrics-bind", NULL, MODIFIABLE_CONFIG, ALLOW_EMPTY_STRING,       \
                         scheduler_options.metrics_bind, "127.0.0.1", scheduler_bind_is_valid,     \
                         scheduler_settings_changed),                                              \
      createIntConfig("rubato-stress", NULL, HIDDEN_CONFIG | MODIFIABLE_CONFIG, 0, 1000000000,     \
                      scheduler_options.stress, 0, INTEGER_CONFIG, NULL, NULL),
