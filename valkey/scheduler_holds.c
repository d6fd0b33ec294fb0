// SPDX-License-Identifier: Apache-2.0
//
// What a command reads and how much of it (measure), what those underway hold, and which commands
// must wait for them. Looks at keys without a side effect: no statistics, no expiry.
#include "scheduler_parts.h"

typedef struct ClassEntry {
  const char* name;
  int class;
} ClassEntry;

static const ClassEntry classes[] = {
#include "scheduler_classes.h"  // generated from commands.txt
};

// Gives the classes to a table of commands and their subcommands.
static void classify(hashtable* commands) {
  hashtableIterator iterator;
  hashtableInitIterator(&iterator, commands, 0);
  void* next;
  while (hashtableNext(&iterator, &next)) {
    struct serverCommand* command = next;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); ++i) {
      if (strcasecmp(command->fullname, classes[i].name) != 0) continue;
      command->scheduler_class = classes[i].class;
      break;
    }
    if (command->subcommands_ht != NULL) classify(command->subcommands_ht);
  }
  hashtableResetIterator(&iterator);
}

void scheduler_classify(void) {
  static int classified = 0;
  if (!classified) classify(server.orig_commands);
  classified = 1;
}

int scheduler_command_may_be_suspended(struct serverCommand* command) {
  scheduler_classify();  // the settings are read before the server begins
  const int class = command->scheduler_class;
  const int is_part = command->parent != NULL;  // FUNCTION LOAD, ...
  return class == SCHEDULER_SUSPENDS || (class == SCHEDULER_SCRIPT && !is_part);
}

// ---- How much a command reads

static robj* peek(client* c, robj* key) {
  const int flags = LOOKUP_NOTOUCH | LOOKUP_NOSTATS | LOOKUP_NONOTIFY | LOOKUP_NOEXPIRE;
  return lookupKeyReadWithFlags(c->db, key, flags);
}

// The hash table inside of the value, or null.
static hashtable* table_of(const robj* value) {
  if (value->type == OBJ_ZSET && value->encoding == OBJ_ENCODING_SKIPLIST) {
    return ((zset*)value->ptr)->ht;
  }
  return value->encoding == OBJ_ENCODING_HASHTABLE ? value->ptr : NULL;
}

// Elements of the value; -1 = a command on it would fail, or may not be suspended.
static long long size_of(robj* value) {
  switch (value->type) {
    case OBJ_HASH: return (long long)hashTypeLength(value);
    case OBJ_SET: return (long long)setTypeSize(value);
    case OBJ_ZSET: return (long long)zsetLength(value);
    case OBJ_STREAM: return (long long)streamLength(value);
    case OBJ_LIST:
      // Readers of a compressed list change it while they pass.
      if (value->encoding != OBJ_ENCODING_QUICKLIST) return -1;
      if (((quicklist*)value->ptr)->compress != 0) return -1;
      return (long long)listTypeLength(value);
    default: return -1;
  }
}

// Takes the keys argv[first] .. argv[first + count - 1] into the hold. The sum of their elements;
// -1 as above, or if one is of no type in `types`, a mask of 1 << OBJ_...
static long long take_keys(client* c, int first, long count, unsigned types, SchedulerHold* hold) {
  if (count < 1 || count > SCHEDULER_MOST_KEYS || first + count > c->argc) return -1;
  long long sum = 0;
  hold->whole = 0;
  hold->keys_count = (int)count;
  for (int i = 0; i < (int)count; ++i) {
    robj* const key = c->argv[first + i];
    robj* const value = peek(c, key);
    hold->keys[i] = key;
    hold->tables[i] = NULL;
    if (value == NULL) continue;
    const long long size = (types & 1u << value->type) != 0 ? size_of(value) : -1;
    if (size < 0) return -1;
    hold->tables[i] = table_of(value);
    sum += size;
  }
  return sum;
}

static long long take_numbered_keys(client* c, unsigned types, SchedulerHold* hold) {
  long long count = 0;
  if (getLongLongFromObject(c->argv[1], &count) != C_OK) return -1;
  if (count < 1 || count > SCHEDULER_MOST_KEYS) return -1;
  return take_keys(c, 2, (long)count, types, hold);
}

static long long take_database(client* c, SchedulerHold* hold) {
  hold->whole = 1;
  hold->keys_count = 0;
  return (long long)kvstoreSize(c->db->keys);
}

// A range of at most `argv[index]` elements.
static long long limited(client* c, int index, long long size) {
  long long limit = 0;
  if (index >= c->argc || getLongLongFromObject(c->argv[index], &limit) != C_OK) return size;
  return limit >= 0 && limit < size ? limit : size;
}

// Of an index range, argv[first] .. argv[first + 1].
static long long indexed(client* c, int first, long long size) {
  long long from = 0;
  long long to = 0;
  if (getLongLongFromObject(c->argv[first], &from) != C_OK) return size;
  if (getLongLongFromObject(c->argv[first + 1], &to) != C_OK) return size;
  if (from < 0) from += size;
  if (to < 0) to += size;
  if (from < 0) from = 0;
  if (to >= size) to = size - 1;
  return from > to ? 0 : to - from + 1;
}

static long long measure_sorted_range(client* c, SchedulerHold* hold) {
  const long long size = take_keys(c, 1, 1, 1u << OBJ_ZSET, hold);
  if (size < 0) return -1;
  int by_index = c->cmd->proc == zrangeCommand || c->cmd->proc == zrevrangeCommand;
  int limit = 0;
  for (int i = 4; i < c->argc; ++i) {
    const char* const word = c->argv[i]->ptr;
    if (strcasecmp(word, "limit") == 0) limit = i + 2;  // the last counts
    if (strcasecmp(word, "byscore") == 0 || strcasecmp(word, "bylex") == 0) by_index = 0;
  }
  if (limit != 0) return limited(c, limit, size);
  return by_index ? indexed(c, 2, size) : size;
}

// What one SCAN passes: its last COUNT elements, if that is not more than there are.
static long long measure_scan(client* c, SchedulerHold* hold) {
  const int is_whole = c->cmd->proc == scanCommand;
  const unsigned types = 1u << OBJ_SET | 1u << OBJ_HASH | 1u << OBJ_ZSET;
  const long long size = is_whole ? take_database(c, hold) : take_keys(c, 1, 1, types, hold);
  long long count = 10;
  for (int i = is_whole ? 2 : 3; i + 1 < c->argc; ++i) {
    const char* const word = c->argv[i]->ptr;
    if (strcasecmp(word, "count") == 0) {
      if (getLongLongFromObject(c->argv[++i], &count) != C_OK) return -1;
    } else if (strcasecmp(word, "match") == 0 || strcasecmp(word, "type") == 0) {
      ++i;
    }
  }
  return count < size ? count : size;
}

// BY and GET read keys that the command does not name.
static long long measure_sort(client* c, SchedulerHold* hold) {
  const long long size = take_keys(c, 1, 1, 1u << OBJ_LIST | 1u << OBJ_SET | 1u << OBJ_ZSET, hold);
  robj* const value = peek(c, c->argv[1]);
  // A sorted set that is packed is converted first.
  if (value != NULL && value->encoding == OBJ_ENCODING_LISTPACK) return -1;
  for (int i = 2; i < c->argc; ++i) {
    const char* const word = c->argv[i]->ptr;
    if (strcasecmp(word, "by") == 0 || strcasecmp(word, "get") == 0) take_database(c, hold);
  }
  return size;
}

static long long elements(client* c, SchedulerHold* hold) {
  serverCommandProc* const proc = c->cmd->proc;
  if (proc == scanCommand || proc == sscanCommand || proc == hscanCommand ||
      proc == zscanCommand) {
    return measure_scan(c, hold);
  }
  if (proc == sortroCommand) return measure_sort(c, hold);
  if (proc == keysCommand) return take_database(c, hold);
  if (proc == hgetallCommand || proc == hkeysCommand || proc == hvalsCommand) {
    return take_keys(c, 1, 1, 1u << OBJ_HASH, hold);
  }
  if (proc == sinterCommand || proc == sunionCommand || proc == sdiffCommand) {  // and SMEMBERS
    return take_keys(c, 1, c->argc - 1, 1u << OBJ_SET, hold);
  }
  if (proc == sinterCardCommand) return take_numbered_keys(c, 1u << OBJ_SET, hold);
  if (proc == lrangeCommand) {
    const long long size = take_keys(c, 1, 1, 1u << OBJ_LIST, hold);
    return size < 0 ? -1 : indexed(c, 2, size);
  }
  if (proc == zrangeCommand || proc == zrevrangeCommand || proc == zrangebyscoreCommand ||
      proc == zrevrangebyscoreCommand || proc == zrangebylexCommand ||
      proc == zrevrangebylexCommand) {
    return measure_sorted_range(c, hold);
  }
  if (proc == xrangeCommand || proc == xrevrangeCommand) {
    const long long size = take_keys(c, 1, 1, 1u << OBJ_STREAM, hold);
    return size < 0 || c->argc < 6 ? size : limited(c, c->argc - 1, size);  // the last COUNT
  }
  if (proc == zunionCommand || proc == zinterCommand || proc == zdiffCommand ||
      proc == zinterCardCommand) {
    return take_numbered_keys(c, 1u << OBJ_ZSET | 1u << OBJ_SET, hold);
  }
  serverPanic("commands.txt says that %s is suspended, but nothing measures it", c->cmd->fullname);
}

int scheduler_measure(client* c, SchedulerHold* hold) {
  hold->db = c->db;
  if (c->cmd->scheduler_class == SCHEDULER_SCRIPT) {
    take_database(c, hold);  // it may read what it has not named, and SELECT
    hold->db = NULL;
    return 1;
  }
  client* const executing = server.executing_client;
  server.executing_client = c;  // a look-up asks it
  const long long count = elements(c, hold);
  server.executing_client = executing;
  return count >= scheduler_options.threshold;
}

// ---- Holds

unsigned scheduler_whole_holds = 0;

void scheduler_hold_begin(SchedulerHold* hold) {
  if (hold->whole) ++scheduler_whole_holds;
  for (int i = 0; i < hold->keys_count; ++i) {
    if (hold->tables[i] != NULL) scheduler_pause_rehashing(hold->tables[i], 1);
  }
}

void scheduler_hold_end(SchedulerHold* hold) {
  if (hold->whole) --scheduler_whole_holds;
  for (int i = 0; i < hold->keys_count; ++i) {
    if (hold->tables[i] != NULL) scheduler_pause_rehashing(hold->tables[i], -1);
  }
}

static int holds_all_of(const SchedulerHold* hold, const serverDb* db) {
  return hold->whole && (hold->db == NULL || hold->db == db);
}

static int holds(const SchedulerHold* hold, const serverDb* db, const char* key) {
  if (holds_all_of(hold, db)) return 1;
  if (hold->db != db) return 0;
  for (int i = 0; i < hold->keys_count; ++i) {
    if (sdscmp(hold->keys[i]->ptr, (sds)key) == 0) return 1;
  }
  return 0;
}

static int culprit = 0;

int scheduler_culprit(void) { return culprit; }

int scheduler_is_held(const serverDb* db, const char* key) {
  for (SchedulerCommand* other = scheduler_commands; other != NULL; other = other->next) {
    if (other == scheduler_running || !holds(&other->hold, db, key)) continue;
    culprit = other->group;
    return 1;
  }
  return 0;
}

static int has_whole_hold(const serverDb* db) {
  for (SchedulerCommand* other = scheduler_commands; other != NULL; other = other->next) {
    if (!holds_all_of(&other->hold, db)) continue;
    culprit = other->group;
    return 1;
  }
  return 0;
}

// ---- Who waits

// The database that MOVE and COPY ... DB write to; any other command, and a wrong number: its own.
static serverDb* target_of(serverDb* db, struct serverCommand* command, robj** argv, int argc) {
  int at = 0;
  if (command->proc == moveCommand) at = 2;
  for (int i = 3; command->proc == copyCommand && i + 1 < argc; ++i) {
    if (strcasecmp(argv[i]->ptr, "db") == 0) at = i + 1;
  }
  long long number = 0;
  if (at == 0 || getLongLongFromObject(argv[at], &number) != C_OK) return db;
  return number >= 0 && number < server.dbnum ? &server.db[number] : db;
}

// 1 = the command names a key that is held, or its keys are not known.
static int names_held_key(serverDb* db, struct serverCommand* command, robj** argv, int argc) {
  if (has_whole_hold(db)) return 1;
  const serverDb* const target = target_of(db, command, argv, argc);
  getKeysResult result;
  initGetKeysResult(&result);
  const int count = getKeysFromCommand(command, argv, argc, &result);
  int held = count <= 0;
  for (int i = 0; i < count && !held; ++i) {
    const char* const key = argv[result.keys[i].pos]->ptr;
    held = scheduler_is_held(db, key) || (target != db && scheduler_is_held(target, key));
  }
  getKeysFreeResult(&result);
  return held;
}

static int transaction_conflicts(client* c) {
  if (c->mstate == NULL) return 0;
  for (int i = 0; i < c->mstate->count; ++i) {
    const multiCmd* const queued = &c->mstate->commands[i];
    const int class = queued->cmd->scheduler_class;
    if (queued->cmd->proc == selectCommand) return 1;
    if (class == SCHEDULER_WHOLE || class == SCHEDULER_SUSPENDS) continue;
    if (class != SCHEDULER_WAITS) return 1;
    if (names_held_key(c->db, queued->cmd, queued->argv, queued->argc)) return 1;
  }
  return 0;
}

int scheduler_conflicts(client* c, int class) {
  if (scheduler_commands != NULL) culprit = scheduler_commands->group;
  switch (class) {
    case SCHEDULER_WHOLE:
    case SCHEDULER_SUSPENDS: return 0;
    case SCHEDULER_WAITS: return names_held_key(c->db, c->cmd, c->argv, c->argc);
    case SCHEDULER_EXEC: return transaction_conflicts(c);
    // What cannot write uses the interpreter all the same.
    case SCHEDULER_SCRIPT:
      if (scheduler_script != NULL) {
        culprit = scheduler_script->group;
        return 1;
      }
      return (getCommandFlags(c) & (CMD_WRITE | CMD_MAY_REPLICATE)) != 0;
    default: return 1;
  }
}
