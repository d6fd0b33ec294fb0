// SPDX-License-Identifier: Apache-2.0
//
// The commands underway: how they begin, are switched, end and are told to wait. scheduler.h has
// the interface, scheduler_holds.c the rules of who waits.
#include "scheduler_parts.h"

#include "module.h"
#include "script.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <rubato/executor.h>
#include <rubato/wait.h>

// Elements between two looks at the slice: a look exchanges the state of the server.
enum { CHECKPOINT_STRIDE = 8 };
// A script may run for so long while it is waited for: in haste; if busy-reply-threshold is 0.
enum { HASTY_SCRIPT_US = 100000, ENDLESS_SCRIPT_US = 5000000 };

SchedulerSettings scheduler_options = {.enabled = 1, .threshold = 1000, .quantum_us = 50};
SchedulerCommand* scheduler_running = NULL;
SchedulerCommand* scheduler_commands = NULL;
SchedulerCommand* scheduler_script = NULL;
unsigned scheduler_underway = 0;
long long* scheduler_previous_errors = NULL;

extern int ProcessingEventsWhileBlocked;  // of networking.c; no header of Valkey declares it

static rubato_executor* executor = NULL;
static SchedulerCommand* ended_first = NULL;
static SchedulerCommand* ended_last = NULL;
static unsigned most_underway = 0;
static long long drains = 0;         // times that the event loop ran what was underway to its end
static long long pushes_kept = 0;    // messages kept until the end of a command
static unsigned waiting = 0;         // clients postponed, but for those let go
static unsigned let_go_count = 0;    // clients let go and not tried yet
static int waiters_change = 0;       // some that wait may go
// Since when a kind of maintenance is left for later; 0 = it is not.
enum { OF_TABLES, OF_VALUES, MAINTENANCE_KINDS };
static monotime put_off_since[MAINTENANCE_KINDS];
static int maintenance_due = 0;
static int maintenance_begun = 0;    // it has its turn, which is one of the event loop
static int draining = 0;
static long long drained_script_us = 0;  // a script that has run for longer is killed by the drain
static int countdown = CHECKPOINT_STRIDE;
static uint64_t switches = 0;        // to a command, or back to the event loop
static monotime slice_end = 0;       // of the event loop's last slice
static uint64_t preemptions_before = 0;  // of the executors before this one, since the last reset

// ---- The state of the server that is a command's

#define RUBATO_EXCHANGE(field)                                \
  {                                                    \
    const __typeof__(server.field) mine = server.field; \
    server.field = state->field;                       \
    state->field = mine;                               \
  }

static void exchange_statics(SchedulerState* state) {
  const long long mine = *scheduler_previous_errors;
  *scheduler_previous_errors = state->previous_errors;
  state->previous_errors = mine;
  state->script = scheduler_swap_script(state->script);
}

// The command goes on: from here to leave() the server's state is its.
static void enter(SchedulerCommand* command) {
  SchedulerState* const state = &command->state;
  RUBATO_FIELDS(RUBATO_EXCHANGE)
  RUBATO_COUNTERS(RUBATO_EXCHANGE)
#define RUBATO_REMEMBER(field) command->at_entry.field = server.field;
  RUBATO_COUNTERS(RUBATO_REMEMBER)
  exchange_statics(state);
  command->c->flag.blocked = 0;
  scheduler_running = command;
  ++switches;
}

// What the command added to a counter counts for the others too.
static void leave(SchedulerCommand* command) {
  SchedulerState* const state = &command->state;
  RUBATO_FIELDS(RUBATO_EXCHANGE)
#define RUBATO_TAKE_PART(field)                                            \
  {                                                                 \
    const __typeof__(server.field) own = server.field;              \
    server.field = state->field + (own - command->at_entry.field);  \
    state->field = own;                                             \
  }
  RUBATO_COUNTERS(RUBATO_TAKE_PART)
  exchange_statics(state);
  command->c->flag.blocked = 1;
  scheduler_running = NULL;
}

static void begin_state(SchedulerState* state, client* c) {
#define RUBATO_COPY(field) state->field = server.field;
  RUBATO_FIELDS(RUBATO_COPY)
  RUBATO_COUNTERS(RUBATO_COPY)
  state->current_client = c;
  state->script = NULL;
  state->previous_errors = *scheduler_previous_errors;
  memset(&state->also_propagate, 0, sizeof(state->also_propagate));
  state->tracking_pending_keys = listCreate();
  state->pending_push_messages = listCreate();
  state->pending_push_messages->free = server.pending_push_messages->free;
}

static void end_state(SchedulerState* state) {
  serverAssert(state->also_propagate.numops == 0);
  listRelease(state->tracking_pending_keys);
  listRelease(state->pending_push_messages);
}

// ---- The executor

// The option that fixes a quantum, where the policy has one: synergy's, most others'.
static const char* const quantum_names[] = {"fixed_quantum", "quantum", NULL};

static void choose_scheduler(rubato_options* scheduler, const char* policy) {
  rubato_options_init(scheduler, sizeof(*scheduler));
  scheduler->policy = policy;
  scheduler->stack_bytes = (size_t)8 << 20;  // as a thread's, for scripts
  scheduler->max_fibers = SCHEDULER_MOST_UNDERWAY + 2;
  scheduler->preempt = RUBATO_PREEMPT_CHECKPOINT;
  if (scheduler_options.overload_target_us != 0) {
    scheduler->overload = RUBATO_OVERLOAD_AQM;
    scheduler->target_delay_ns = (int64_t)scheduler_options.overload_target_us * 1000;
  }
}

static rubato_executor* create_executor(const char* policy, int quantum_us, int metrics_port,
                                        rubato_error* error) {
  rubato_group groups[SCHEDULER_MOST_GROUPS];
  const char* types[1 + SCHEDULER_MOST_GROUPS] = {scheduler_groups[0].name};
  for (int i = 0; i < scheduler_groups_count; ++i) {
    const SchedulerGroup* const of = &scheduler_groups[i + 1];
    groups[i] = (rubato_group){sizeof(rubato_group), of->name, (uint32_t)of->share, 0};
    types[i + 1] = of->name;
  }
  for (int i = 0; i < 3; ++i) {
    char text[64];
    const char* const settings[] = {text};
    rubato_options scheduler;
    rubato_executor_options options;
    choose_scheduler(&scheduler, policy);
    if (metrics_port != 0) {
      scheduler.metrics_port = metrics_port;
      scheduler.metrics_bind = scheduler_options.metrics_bind;
    }
    if (quantum_names[i] != NULL) {
      snprintf(text, sizeof(text), "%s=%dus", quantum_names[i], quantum_us);
      scheduler.set = settings;
      scheduler.set_count = 1;
    }
    rubato_executor_options_init(&options, sizeof(options));
    options.scheduler = &scheduler;
    options.in_loop = 1;
    options.groups = groups;
    options.groups_count = (size_t)scheduler_groups_count;
    options.type_names = types;
    options.type_names_count = 1 + (size_t)scheduler_groups_count;
    rubato_executor* const made = rubato_executor_create(&options, error);
    if (made != NULL) return made;
  }
  return NULL;
}

// The socket that the executor's metrics are asked at; -1 = none. A child of the server must not
// keep it: the port would stay taken.
static int metrics_socket = -1;

static int is_listener(int fd, uint32_t port) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens) return 0;
  struct sockaddr_storage address = {0};
  size = sizeof(address);
  if (getsockname(fd, (struct sockaddr*)&address, &size) != 0) return 0;
  const in_port_t bound = address.ss_family == AF_INET6
                              ? ((struct sockaddr_in6*)&address)->sin6_port
                              : ((struct sockaddr_in*)&address)->sin_port;
  return ntohs(bound) == port;
}

static int find_listener(uint32_t port) {
  DIR* const open_files = port != 0 ? opendir("/proc/self/fd") : NULL;
  if (open_files == NULL) return -1;
  int found = -1;
  for (struct dirent* entry; found < 0 && (entry = readdir(open_files)) != NULL;) {
    const int fd = atoi(entry->d_name);
    if (fd > STDERR_FILENO && is_listener(fd, port)) found = fd;
  }
  closedir(open_files);
  return found;
}

void scheduler_child_begins(void) {
  if (metrics_socket >= 0) close(metrics_socket);
}

static rubato_executor* create_as_set(int metrics_port, rubato_error* error) {
  return create_executor(scheduler_options.policy, scheduler_options.quantum_us, metrics_port,
                         error);
}

static uint64_t preemptions(void) {
  rubato_stats stats;
  memset(&stats, 0, sizeof(stats));
  if (executor != NULL) rubato_executor_stats(executor, &stats, sizeof(stats));
  return preemptions_before + stats.preemptions;
}

static void use_executor(rubato_executor* other) {
  preemptions_before = preemptions();
  rubato_executor_destroy(executor);
  executor = other;
  metrics_socket = find_listener(rubato_executor_metrics_port(executor));
}

int scheduler_policy_is_valid(char* policy, const char** error) {
  static rubato_error line;  // read after the policy that was set before was tried again
  rubato_error trouble;
  rubato_executor* const tried = create_executor(policy, 50, 0, &trouble);
  if (tried == NULL) {
    line = trouble;
    *error = line.text;
  }
  rubato_executor_destroy(tried);
  return tried != NULL;
}

int scheduler_bind_is_valid(char* address, const char** error) {
  if (address[0] != '\0') return 1;
  *error = "expected an address; 0.0.0.0 is all of them";
  return 0;
}

// The port of the metrics is free only when the executor before is gone; if that of the settings is
// not, the new one goes on without.
int scheduler_settings_changed(const char** error) {
  static rubato_error line;  // as above
  rubato_error trouble;
  scheduler_drain(SCHEDULER_PATIENT);
  rubato_executor* made = create_as_set(0, &trouble);
  if (made != NULL) {
    use_executor(made);
    if (scheduler_options.metrics_port == 0) return 1;
    made = create_as_set(scheduler_options.metrics_port, &trouble);
  }
  if (made != NULL) {
    use_executor(made);
    return 1;
  }
  line = trouble;
  *error = line.text;
  return 0;
}

int scheduler_enabled_changed(const char** error) {
  return !scheduler_options.enabled || executor != NULL || scheduler_settings_changed(error);
}

// Before the first client: to measure the clock takes longer than any may wait.
void scheduler_begin(void) {
  const char* error = NULL;
  scheduler_classify();
  if (server.sentinel_mode || scheduler_enabled_changed(&error)) return;
  serverLog(LL_WARNING, "rubato: %s", error);
  exit(1);
}

// ---- A command from its beginning to its end

static void list_command(SchedulerCommand* command) {
  command->next = scheduler_commands;
  command->previous = NULL;
  if (scheduler_commands != NULL) scheduler_commands->previous = command;
  scheduler_commands = command;
  if (command->is_script) scheduler_script = command;
  ++scheduler_underway;
  if (scheduler_underway > most_underway) most_underway = scheduler_underway;
}

static void unlist_command(SchedulerCommand* command) {
  if (command->previous != NULL) {
    command->previous->next = command->next;
  } else {
    scheduler_commands = command->next;
  }
  if (command->next != NULL) command->next->previous = command->previous;
  if (scheduler_script == command) scheduler_script = NULL;
  --scheduler_underway;
}

// The task.
static int run_command(void* closure) {
  SchedulerCommand* const command = closure;
  command->started = getMonotonicUs();
  ++scheduler_counts_of(command->group)->commands;
  enter(command);
  call(command->c, command->flags);
  leave(command);
  return RUBATO_OK;
}

static void end_command(void* closure, int outcome, int64_t retry_after_ns) {
  SchedulerCommand* const command = closure;
  UNUSED(retry_after_ns);
  command->is_refused = outcome != RUBATO_TASK_FINISHED;
  if (command->started != 0) {
    command->ran_us = (long long)(getMonotonicUs() - command->started) - command->suspended_us;
  }
  scheduler_hold_end(&command->hold);
  unlist_command(command);
  command->next = NULL;
  if (ended_last != NULL) {
    ended_last->next = command;
  } else {
    ended_first = command;
  }
  ended_last = command;
}

// 1 = the command is underway.
static int submit(client* c, int flags, const SchedulerHold* hold, int is_script) {
  if (executor == NULL) return 0;  // of Sentinel
  SchedulerCommand* const command = zcalloc(sizeof(*command));
  command->c = c;
  command->flags = flags;
  command->is_script = is_script;
  command->group = c->cmd->scheduler_group;
  command->began = getMonotonicUs();
  command->hold = *hold;
  rubato_task_attributes attributes;
  rubato_task_attributes_init(&attributes, sizeof(attributes));
  attributes.is_long = 1;
  attributes.type = (uint32_t)command->group;
  attributes.group = (uint32_t)command->group;
  if (rubato_executor_submit(executor, &attributes, run_command, end_command, command) !=
      RUBATO_OK) {
    zfree(command);
    return 0;
  }
  begin_state(&command->state, c);
  scheduler_hold_begin(&command->hold);
  list_command(command);
  c->scheduler.command = command;
  // As a client that is postponed, but in no list: only finish() lets it go. It is protected, since
  // the fiber writes its reply; what was written before is sent with it.
  initClientBlockingState(c);
  c->bstate->btype = BLOCKED_POSTPONE;
  c->bstate->timeout = 0;
  c->flag.blocked = 1;
  c->flag.protected = 1;
  connSetWriteHandler(c->conn, NULL);
  return 1;
}

static void refuse_for_overload(client* c) {
  static robj* reply = NULL;
  if (reply == NULL) {
    sds line = sdsnew("-OVERLOADED commands of this class wait for too long\r\n");
    reply = createObject(OBJ_STRING, line);
  }
  rejectCommand(c, reply);
}

// While its command waits or is underway a client is not read: what comes behind it stays in the
// connection, and so does its end, before which all that was sent is done, as in Valkey. A primary
// is, since it would take the silence for a failure.
static void stop_reading(client* c) {
  if (c->conn != NULL && !c->flag.primary) connSetReadHandler(c->conn, NULL);
}

void scheduler_read_again(client* c) {
  if (c->conn == NULL || c->flag.blocked || c->flag.protected) return;
  if (!connHasReadHandler(c->conn)) connSetReadHandler(c->conn, readQueryFromClient);
}

// Most scripts have ended before the event loop could read.
static void stop_reading_new(void) {
  for (SchedulerCommand* command = scheduler_commands; command != NULL; command = command->next) {
    if (command->is_unread) return;
    command->is_unread = 1;
    stop_reading(command->c);
  }
}

// The client of a command that has ended goes on, as after processCommandAndResetClient.
static void finish(SchedulerCommand* command) {
  client* const c = command->c;
  c->scheduler.command = NULL;
  SchedulerCounts* const counts = scheduler_counts_of(command->group);
  c->flag.blocked = 0;
  c->bstate->btype = BLOCKED_NONE;
  if (command->is_refused) {
    refuse_for_overload(c);
    ++counts->refused;
  } else {
    counts->ran_us += command->ran_us;
    counts->suspended_us += command->suspended_us;
  }
  if (command->pushes != NULL) {
    c->flag.pushing = 1;
    addReplyProto(c, command->pushes, sdslen(command->pushes));
    c->flag.pushing = 0;
    sdsfree(command->pushes);
  }
  commandProcessed(c);
  updateClientMemUsageAndBucket(c);
  c->flag.protected = 0;
  if (clientHasPendingReplies(c)) putClientInPendingWriteQueue(c);
  queueClientForReprocessing(c);  // and is read again after what it has sent already
  end_state(&command->state);
  zfree(command);
}

static void finish_ended(void) {
  if (ended_first == NULL) return;
  client* const current = server.current_client;
  while (ended_first != NULL) {
    SchedulerCommand* const command = ended_first;
    ended_first = command->next;
    if (ended_first == NULL) ended_last = NULL;
    finish(command);
  }
  server.current_client = current;
  waiters_change = 1;
}

static long long busy_after_us(void) { return server.busy_reply_threshold * 1000; }  // 0 = never

static long long ran_us(const SchedulerCommand* command) {
  return (long long)(getMonotonicUs() - command->began);
}

static int is_eval(const client* c) {
  serverCommandProc* const proc = c->cmd->proc;
  return proc == evalCommand || proc == evalShaCommand || proc == evalRoCommand ||
         proc == evalShaRoCommand;
}

// A script has run for so long that what would wait for it is refused, as in Valkey.
static int is_busy(void) {
  return scheduler_script != NULL && busy_after_us() > 0 &&
         ran_us(scheduler_script) > busy_after_us();
}

// 1 = the client has its answer instead of waiting.
static int refuse(client* c) {
  if (!is_busy() || (c->cmd->flags & CMD_ALLOW_BUSY) != 0 || mustObeyClient(c)) return 0;
  rejectCommand(c, is_eval(scheduler_script->c) ? shared.slowevalerr : shared.slowscripterr);
  return 1;
}

void scheduler_drain(int haste) {
  if (scheduler_underway == 0) {
    finish_ended();
    return;
  }
  serverAssert(scheduler_running == NULL);
  ++drains;
  const long long patience = busy_after_us() > 0 ? busy_after_us() : ENDLESS_SCRIPT_US;
  drained_script_us = haste ? HASTY_SCRIPT_US : patience;
  draining = 1;
  while (scheduler_underway != 0) {
    ++switches;
    rubato_executor_run(executor, (int64_t)1000000000);
  }
  draining = 0;
  finish_ended();
}

// If the policy says so; for the event loop when its slice has ended, as some policies preempt
// nothing.
static void give_way(uint64_t before) {
  rubato_checkpoint();
  if (switches == before && getMonotonicUs() >= slice_end) rubato_yield();
}

// For some ns, or, at 0, until it has its turn again. What a script has called counts it, too.
static void suspend(SchedulerCommand* command, int64_t sleep_ns) {
  client* const inner = server.executing_client;
  leave(command);
  const monotime left_at = getMonotonicUs();
  const uint64_t before = switches;
  if (sleep_ns != 0) {
    rubato_sleep(sleep_ns);
  } else {
    give_way(before);
  }
  if (switches != before) {
    ++scheduler_counts_of(command->group)->suspensions;
    const long long suspended = (long long)(getMonotonicUs() - left_at);
    command->suspended_us += suspended;
    if (inner != command->c) inner->scheduler.suspended_us += suspended;
  }
  enter(command);
}

// A read that is underway itself, of a script, changes how a value is stored: when it alone holds
// it.
static void wait_until_free(serverDb* db, const char* key) {
  SchedulerCommand* const command = scheduler_running;
  while (scheduler_is_held(db, key)) {
    suspend(command, 100000);  // others that run may be suspended for so long by a test
  }
}

void scheduler_before_write_slow(serverDb* db, const char* key) {
  if (!scheduler_is_held(db, key)) return;
  if (scheduler_running != NULL) {
    wait_until_free(db, key);
  } else {
    scheduler_drain(SCHEDULER_PATIENT);
  }
}

// Keys that a command underway has found to have expired, to be deleted after it as Valkey would
// have done at once. What does not fit is left to the cycle of expiry.
static struct {
  serverDb* db;
  robj* key;
} expired[256];
static unsigned expired_count = 0;

int scheduler_keeps_expired(serverDb* db, const char* key) {
  if (scheduler_underway == 0) return 0;
  if (scheduler_running == NULL) return scheduler_is_held(db, key);
  if (expired_count < sizeof(expired) / sizeof(expired[0])) {
    expired[expired_count].db = db;
    expired[expired_count].key = createStringObject(key, sdslen((sds)key));
    ++expired_count;
  }
  return 1;
}

static void delete_expired(void) {
  client* const current = server.current_client;
  server.current_client = NULL;
  while (expired_count != 0) {
    --expired_count;
    robj* const key = expired[expired_count].key;
    enterExecutionUnit(1, 0);
    lookupKeyReadWithFlags(expired[expired_count].db, key,
                           LOOKUP_NOTOUCH | LOOKUP_NOSTATS | LOOKUP_NONOTIFY);
    exitExecutionUnit();
    postExecutionUnitOperations();
    decrRefCount(key);
  }
  server.current_client = current;
}

static int put_off(int kind) {
  const monotime now = getMonotonicUs();
  if (put_off_since[kind] == 0) put_off_since[kind] = now;
  if (now - put_off_since[kind] > 1000000u / (unsigned)server.hz) maintenance_due = 1;
  return 1;
}

int scheduler_holds_off(void) { return scheduler_underway != 0 && put_off(OF_VALUES); }

int scheduler_holds_off_expiry(void) { return scheduler_whole_holds != 0 && put_off(OF_TABLES); }

int scheduler_holds_off_cron(void) {
  if (scheduler_holds_off_expiry()) return 1;
  put_off_since[OF_TABLES] = 0;
  if (scheduler_underway == 0) put_off_since[OF_VALUES] = 0;
  return 0;
}

// Nothing is underway: maintenance that is due is done. Nothing begins until the event loop has
// come by its timers and by the commands of others, for defragmentation and eviction.
static void maintain(void) {
  if (!maintenance_begun) {
    maintenance_begun = 1;
    if (!server.pause_cron) databasesCron();
    return;
  }
  maintenance_begun = 0;
  maintenance_due = 0;
  waiters_change = 1;
}

// ---- Checkpoints

static int stress_suspends(void) {
  static uint64_t random = 0;
  if (random == 0) random = (uint64_t)scheduler_options.stress * 2654435761u + 1;
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  return (random & 3) != 0;
}

static void pass(SchedulerCommand* command) {
  if (draining) return;
  if (scheduler_options.stress == 0 && --countdown > 0) return;
  countdown = CHECKPOINT_STRIDE;
  const int sleeps = scheduler_options.stress != 0 && !scheduler_is_killed() && stress_suspends();
  suspend(command, sleeps ? 1000 : 0);
}

int scheduler_is_killed_slow(void) {
  return !scheduler_running->is_script && scheduler_running->c->flag.close_asap;
}

// What a script calls is suspended where it would be by itself.
int scheduler_checkpoint_slow(void) {
  SchedulerCommand* const command = scheduler_running;
  if (!command->is_script || server.executing_client->cmd->scheduler_class == SCHEDULER_SUSPENDS) {
    pass(command);
  }
  return scheduler_is_killed_slow();
}

void scheduler_script_checkpoint(void) {
  if (scheduler_running == NULL) return;
  countdown = 1;
  pass(scheduler_running);
}

void scheduler_value_checkpoint_slow(void) { pass(scheduler_running); }

int scheduler_script_is_killed(void) {
  SchedulerCommand* const command = scheduler_running;
  if (draining && ran_us(command) > drained_script_us) command->killed = 1;
  return command->killed || command->c->flag.close_asap;
}

int scheduler_kill_script(client* c, int of_eval) {
  if (scheduler_script == NULL) return 0;
  if (is_eval(scheduler_script->c) != of_eval) {
    addReplyErrorObject(c, of_eval ? shared.slowscripterr : shared.slowevalerr);
    return 1;
  }
  scheduler_script->killed = 1;
  addReply(c, shared.ok);
  return 1;
}

// FUNCTION STATS tells of the function underway.
static int tell_of_function(client* c, int flags) {
  if (scheduler_script == NULL || c->cmd->proc != functionStatsCommand) return 0;
  if (is_eval(scheduler_script->c)) return 0;
  void* const mine = scheduler_swap_script(scheduler_script->state.script);
  call(c, flags);
  scheduler_swap_script(mine);
  return 1;
}

int scheduler_script_stride(void) { return scheduler_options.stress != 0 ? 10 : 1000; }

// ---- Whether a command runs, waits or is suspended

static int is_reading_script(client* c) {
  serverCommandProc* const proc = c->cmd->proc;
  if (proc != evalCommand && proc != evalShaCommand && proc != fcallCommand &&
      proc != evalRoCommand && proc != evalShaRoCommand && proc != fcallroCommand) {
    return 0;
  }
  return (getCommandFlags(c) & (CMD_WRITE | CMD_MAY_REPLICATE)) == 0;
}

static int may_be_suspended(client* c, int class) {
  if (class != SCHEDULER_SUSPENDS && class != SCHEDULER_SCRIPT) return 0;
  if (!scheduler_options.enabled || server.loading || server.execution_nesting != 0) return 0;
  if (c->conn == NULL || c->flag.fake || c->flag.module || c->flag.script) return 0;
  if (c->flag.primary || c->flag.replica || c->flag.monitor || c->flag.lua_debug) return 0;
  if (c->flag.close_asap || c->flag.close_after_reply || c->flag.protected) return 0;
  if (c->io_write_state != CLIENT_IDLE || c->io_read_state != CLIENT_IDLE) return 0;
  return class == SCHEDULER_SUSPENDS || is_reading_script(c);
}

// Memory is short, and keys that could be evicted are not while some are held.
static int wants_memory(client* c) {
  if (server.maxmemory_policy == MAXMEMORY_NO_EVICTION) return 0;
  if (server.primary_host && server.repl_replica_ignore_maxmemory) return 0;
  const uint64_t flags = c->cmd->flags | (c->mstate != NULL ? (uint64_t)c->mstate->cmd_flags : 0);
  return server.maxmemory != 0 && (flags & (CMD_DENYOOM | CMD_MAY_REPLICATE)) != 0 &&
         getMaxmemoryState(NULL, NULL, NULL, NULL) == C_ERR;
}

static void end_let_go(SchedulerClient* mine) {
  if (!mine->is_let_go) return;
  mine->is_let_go = 0;
  if (--let_go_count == 0) waiters_change = 1;  // who came meanwhile was behind those
}

static void postpone(client* c, int flags, int is_reader) {
  SchedulerClient* const mine = &c->scheduler;
  if (mine->waits_since == 0) {
    mine->waits_since = (long long)getMonotonicUs();
    mine->first_try = (flags & CMD_CALL_REPROCESSING) == 0;
    if (!mine->first_try && mine->timeout == 0) mine->timeout = c->bstate->timeout;
    mine->group = (unsigned char)c->cmd->scheduler_group;
    mine->culprit = is_reader ? -1 : (signed char)scheduler_culprit();
    ++scheduler_counts_of(mine->group)->waits;
    if (mine->culprit >= 0) ++scheduler_counts_of(mine->culprit)->held_up;
  } else if (!mine->is_let_go) {
    --waiting;  // the end of a pause lets all go that are postponed
  }
  end_let_go(mine);
  mine->is_reader = is_reader != 0;
  ++waiting;
  stop_reading(c);
  blockPostponeClient(c);
}

void scheduler_forget(client* c) {
  SchedulerClient* const mine = &c->scheduler;
  const long long waited = (long long)getMonotonicUs() - mine->waits_since;
  SchedulerCounts* const counts = scheduler_counts_of(mine->group);
  counts->waited_us += waited;
  if (waited > counts->longest_wait_us) counts->longest_wait_us = waited;
  if (mine->culprit >= 0) scheduler_counts_of(mine->culprit)->held_up_us += waited;
  mine->waited_us = waited;
  if (!mine->is_let_go) --waiting;
  end_let_go(mine);
  mine->waits_since = 0;
}

void scheduler_abandon(client* c) {
  scheduler_forget(c);
  c->flag.pending_command = 0;
  if (c->flag.blocked) unblockClient(c, 0);
}

// 1 = the command has to wait, for what is underway.
static int must_wait(client* c, int class) {
  return scheduler_underway != 0 && (scheduler_conflicts(c, class) || wants_memory(c));
}

// 1 = a long read has to wait for its turn, after those that came before it.
static int is_full(void) {
  return maintenance_due || scheduler_underway >= SCHEDULER_MOST_UNDERWAY;
}

static void run_slice(void) {
  ++switches;
  slice_end = getMonotonicUs() + (monotime)scheduler_options.quantum_us;
  rubato_executor_run(executor, (int64_t)scheduler_options.quantum_us * 1000);
}

// A script that is alone gets its first slice at once: most are over then, and leave the
// interpreter to that of the next client.
int scheduler_call(client* c, int* flags) {
  SchedulerClient* const mine = &c->scheduler;
  const int class = c->cmd->scheduler_class;
  const int is_new = mine->waits_since == 0;
  const int apart = ProcessingEventsWhileBlocked || moduleCount() != 0;
  SchedulerHold hold;
  const int waits = !apart && must_wait(c, class);
  const int is_reader =
      !apart && !waits && may_be_suspended(c, class) && scheduler_measure(c, &hold);
  if (!is_new && mine->first_try) *flags &= ~CMD_CALL_REPROCESSING;
  if (waits || (is_reader && (is_full() || (is_new && waiting + let_go_count != 0)))) {
    if (!refuse(c)) postpone(c, *flags, is_reader);
    return 1;
  }
  if (!is_new) scheduler_forget(c);
  if (!is_reader) return tell_of_function(c, *flags);
  const int is_script = class == SCHEDULER_SCRIPT;
  if (!submit(c, *flags, &hold, is_script)) return 0;
  if (is_script && scheduler_underway == 1) run_slice();
  return 1;
}

// Lets those go that need not wait any longer, first come, first served: a reader after all that
// came before it. What comes after a reader is looked at again when that is underway.
static void let_go(void) {
  int is_first = 1;
  int has_reader = 0;
  int has_script = 0;
  listNode* node;
  listIter iterator;
  listRewind(server.postponed_clients, &iterator);
  while (waiting != 0 && (node = listNext(&iterator)) != NULL) {
    client* const c = listNodeValue(node);
    SchedulerClient* const mine = &c->scheduler;
    if (mine->waits_since == 0 || mine->is_let_go) continue;  // another reason to be postponed
    const int refused = is_busy() && !mustObeyClient(c);
    if (!refused && has_reader && !mine->is_reader) return;
    const int class = c->cmd->scheduler_class;
    const int is_script = class == SCHEDULER_SCRIPT && is_reading_script(c);
    if (!refused && (must_wait(c, class) || (is_script && has_script) ||
                     (mine->is_reader && (!is_first || is_full())))) {
      is_first = 0;
      continue;
    }
    has_reader |= mine->is_reader;
    has_script |= is_script;
    mine->is_let_go = 1;
    --waiting;
    ++let_go_count;
    unblockClient(c, 1);
  }
}

// ---- The turn of the event loop

// Those that wait for a script that is busy now are tried again, to be refused.
static void tell_busy(void) {
  if (!is_busy() || scheduler_script->is_busy) return;
  scheduler_script->is_busy = 1;
  serverLog(LL_WARNING,
            "Slow script detected: still in execution after %lld milliseconds. You can try killing "
            "the script using the %s command.",
            ran_us(scheduler_script) / 1000,
            is_eval(scheduler_script->c) ? "SCRIPT KILL" : "FUNCTION KILL");
  waiters_change = 1;
}

int scheduler_turn(void) {
  if (scheduler_underway != 0) run_slice();
  finish_ended();
  stop_reading_new();
  if (scheduler_underway == 0 && expired_count != 0) delete_expired();
  tell_busy();
  if (scheduler_underway == 0 && maintenance_due) maintain();
  // Those let go are tried by the next blockedBeforeSleep, before what they write is synced.
  if (let_go_count == 0 && waiting != 0 && (waiters_change || scheduler_underway == 0)) {
    waiters_change = 0;
    let_go();
  }
  return scheduler_underway != 0 || maintenance_due || let_go_count != 0 ||
         listLength(server.unblocked_clients) != 0 || listLength(server.clients_pending_write) != 0;
}

// ---- What clients see

int scheduler_keeps_push(client* c, const char* bytes, size_t size) {
  SchedulerCommand* const command = c->scheduler.command;
  if (command == NULL || command == scheduler_running) return 0;
  if (c->flag.close_asap) return 1;
  if (command->pushes == NULL) command->pushes = sdsempty();
  command->pushes = sdscatlen(command->pushes, bytes, size);
  ++pushes_kept;
  if (checkClientOutputBufferLimits(c)) {
    serverLog(LL_WARNING, "Client id=%llu is closed: its messages exceed its output buffer limit.",
              (unsigned long long)c->id);
    ++server.stat_client_outbuf_limit_disconnections;
    freeClientAsync(c);
  }
  return 1;
}

size_t scheduler_kept_bytes(client* c) {
  const SchedulerCommand* const command = c->scheduler.command;
  return command != NULL && command->pushes != NULL ? sdsAllocSize(command->pushes) : 0;
}

long long scheduler_suspended_us(client* c) {
  if (c->scheduler.command != NULL) return c->scheduler.command->suspended_us;
  const long long suspended = c->scheduler.suspended_us;
  c->scheduler.suspended_us = 0;
  return suspended;
}

void scheduler_annotate(client* c, robj*** argv, int* argc) {
  const SchedulerCommand* const command = c->scheduler.command;
  const long long suspended = command != NULL ? command->suspended_us : 0;
  if (suspended == 0 && c->scheduler.waited_us == 0) return;
  *argv = zrealloc(*argv, sizeof(robj*) * (size_t)(*argc + 1));
  sds text = sdscatprintf(sdsempty(), "(rubato: waited %lld us", c->scheduler.waited_us);
  if (c->scheduler.waited_us != 0 && c->scheduler.culprit >= 0) {
    const int of = c->scheduler.culprit <= scheduler_groups_count ? c->scheduler.culprit : 0;
    text = sdscatfmt(text, " for class %s", scheduler_groups[of].name);
  }
  text = sdscatprintf(text, ", suspended %lld us)", suspended);
  (*argv)[(*argc)++] = createObject(OBJ_STRING, text);
}

char* scheduler_describe_client(char* to, client* c) {
  if (c->scheduler.command != NULL) return sdscat(to, " rubato=suspended");
  if (c->scheduler.waits_since == 0) return to;
  return sdscatprintf(to, " rubato=waits wait-us=%lld",
                      (long long)getMonotonicUs() - c->scheduler.waits_since);
}

void scheduler_reset_stats(void) {
  scheduler_reset_counts();
  most_underway = scheduler_underway;
  drains = pushes_kept = 0;
  preemptions_before -= preemptions();
}

char* scheduler_info(char* to) {
  const SchedulerCounts total = scheduler_total();
  const SchedulerCounts* const all = &total;
  to = sdscatprintf(
      to,
      "# Rubato\r\n"
      "rubato_enabled:%d\r\n"
      "rubato_policy:%s\r\n"
      "rubato_underway:%u\r\n"
      "rubato_most_underway:%u\r\n"
      "rubato_waiting:%u\r\n"
      "rubato_commands:%lld\r\n"
      "rubato_suspensions:%lld\r\n"
      "rubato_suspended_us:%lld\r\n"
      "rubato_preemptions:%llu\r\n"
      "rubato_waits:%lld\r\n"
      "rubato_waited_us:%lld\r\n"
      "rubato_longest_wait_us:%lld\r\n"
      "rubato_refused:%lld\r\n"
      "rubato_drains:%lld\r\n"
      "rubato_pushes_kept:%lld\r\n",
      scheduler_options.enabled, scheduler_options.policy, scheduler_underway, most_underway,
      waiting, all->commands, all->suspensions, all->suspended_us,
      (unsigned long long)preemptions(), all->waits, all->waited_us, all->longest_wait_us,
      all->refused, drains, pushes_kept);
  return scheduler_append_groups(to);
}
