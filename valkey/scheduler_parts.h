// SPDX-License-Identifier: Apache-2.0
//
// What the C files of the scheduler share: a command underway, the state of the server that is its
// own, and the holds. Included by them only.
#pragma once

#include "server.h"

// Fields of the server that belong to the command which runs: exchanged when another one runs.
// fields.txt has the class of every field, and a test compares.
#define RUBATO_FIELDS(X) \
  X(current_client)         \
  X(executing_client)       \
  X(execution_nesting)      \
  X(cmd_time_snapshot)      \
  X(in_exec)                \
  X(pre_command_oom_state)  \
  X(sort_desc)              \
  X(sort_alpha)             \
  X(sort_bypattern)         \
  X(sort_store)             \
  X(replication_allowed)    \
  X(also_propagate)         \
  X(tracking_pending_keys)  \
  X(pending_push_messages)

// Counters of which a command looks at the difference: it sees its own part only.
#define RUBATO_COUNTERS(X) \
  X(dirty)                    \
  X(stat_total_error_replies)

#define RUBATO_DECLARE(field) __typeof__(((struct valkeyServer*)0)->field) field;
typedef struct SchedulerState {
  RUBATO_FIELDS(RUBATO_DECLARE)
  RUBATO_COUNTERS(RUBATO_DECLARE)
  long long previous_errors;
  void* script;
} SchedulerState;

enum { SCHEDULER_MOST_KEYS = 16, SCHEDULER_MOST_UNDERWAY = 256 };

// What a command reads: some keys of a database, or all of it.
typedef struct SchedulerHold {
  serverDb* db;  // null = every one
  int whole;
  int keys_count;
  robj* keys[SCHEDULER_MOST_KEYS];
  hashtable* tables[SCHEDULER_MOST_KEYS];  // of those keys, not rehashed meanwhile; or null
} SchedulerHold;

struct SchedulerCommand {
  client* c;
  int flags;
  int group;       // index of scheduler_groups
  int is_script;
  int killed;
  int is_refused;  // for overload, before it has begun
  int is_unread;   // its client is not read until it has ended
  int is_busy;     // has run for busy-reply-threshold, and those that waited were told
  monotime began;    // when it was submitted
  monotime started;  // its first slice
  SchedulerHold hold;
  SchedulerState state;     // of the command, or, while it runs, of the event loop
  SchedulerState at_entry;  // of the counters, when the command went on
  long long suspended_us;    // in all
  long long ran_us;          // from its first slice to its end, without that
  sds pushes;                // messages that came meanwhile, or null
  SchedulerCommand* previous;  // in the list of those that have not ended
  SchedulerCommand* next;      // in that list, or in that of those that have
};

// Counts of a group since the start or the last CONFIG RESETSTAT, for INFO.
typedef struct SchedulerCounts {
  long long commands;        // run as tasks
  long long ran_us;          // of those that have ended, without the time that they were suspended
  long long suspensions;
  long long suspended_us;
  long long waits;           // commands postponed
  long long waited_us;
  long long longest_wait_us;
  long long held_up;         // waits for what commands of the group hold
  long long held_up_us;
  long long refused;         // for overload
} SchedulerCounts;

enum { SCHEDULER_MOST_GROUPS = 14 };  // the executor has no more

// A class of `rubato-class`; name and commands are sds, but for group 0.
typedef struct SchedulerGroup {
  char* name;
  char* commands;  // as they were listed, with commas
  int share;       // weight beside the other groups
  SchedulerCounts counts;
} SchedulerGroup;

extern SchedulerGroup scheduler_groups[1 + SCHEDULER_MOST_GROUPS];
extern int scheduler_groups_count;  // beside group 0, of the commands in no class
// Of the group; of group 0 for the number of one that is gone.
SchedulerCounts* scheduler_counts_of(int group);
SchedulerCounts scheduler_total(void);
void scheduler_reset_counts(void);
// A line of INFO for each group.
char* scheduler_append_groups(char* to);

extern SchedulerCommand* scheduler_commands;  // that have not ended
extern SchedulerCommand* scheduler_script;    // the one of them that uses the interpreter, or null

// scheduler_holds.c. What the command would hold, if it is one that may be suspended and is long; 0
// = it is not.
int scheduler_measure(client* c, SchedulerHold* hold);
// Gives each command its class; once.
void scheduler_classify(void);
void scheduler_hold_begin(SchedulerHold* hold);
void scheduler_hold_end(SchedulerHold* hold);
int scheduler_is_held(const serverDb* db, const char* key);
// 1 = the client's command must not run beside those underway.
int scheduler_conflicts(client* c, int class);
// Group of the command underway that the last conflict was with.
int scheduler_culprit(void);
int scheduler_command_may_be_suspended(struct serverCommand* command);
