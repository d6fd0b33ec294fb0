// SPDX-License-Identifier: Apache-2.0
//
// Groups: the classes of commands that `rubato-class` defines, each a group of the executor, which
// shares its time among them by weight. Group 0 is that of the commands in no class. Their counts.
#include "scheduler_parts.h"

#include <ctype.h>

SchedulerGroup scheduler_groups[1 + SCHEDULER_MOST_GROUPS] = {{.name = "default", .share = 100}};
int scheduler_groups_count = 0;  // beside group 0

enum { MOST_NAME = 32, MOST_SHARE = 10000, WORDS = 5 };  // NAME commands LIST share N

static char trouble[256];  // the line of the last definition that was refused

static int refused(const char** error, const char* name, const char* format, const char* word) {
  char what[160];
  snprintf(what, sizeof(what), format, word);
  snprintf(trouble, sizeof(trouble), "rubato-class %.40s: %s", name, what);
  *error = trouble;
  return 0;
}

static int is_name(const sds word) {
  const size_t length = sdslen(word);
  if (length == 0 || length > MOST_NAME || strcasecmp(word, "default") == 0) return 0;
  for (size_t i = 0; i < length; ++i) {
    if (!isalnum((unsigned char)word[i]) && word[i] != '-' && word[i] != '_') return 0;
  }
  return 1;
}

static int is_defined(const SchedulerGroup* groups, int count, const char* name) {
  for (int i = 1; i <= count; ++i) {
    if (strcasecmp(groups[i].name, name) == 0) return 1;
  }
  return 0;
}

// The commands of a list, each once in all classes: `of` has their groups. 1 = good.
static int take_commands(const char* name, sds list, int number, dict* of, const char** error) {
  int count = 0;
  sds* const words = sdssplitlen(list, sdslen(list), ",", 1, &count);
  int good = count > 0 || refused(error, name, "expected COMMAND,... before share%s", "");
  for (int i = 0; i < count && good; ++i) {
    struct serverCommand* const command =
        lookupCommandBySdsLogic(server.orig_commands, words[i]);
    if (command == NULL) {
      good = refused(error, name, "there is no command '%.60s'", words[i]);
    } else if (!scheduler_command_may_be_suspended(command)) {
      good = refused(error, name, "'%.60s' is never suspended, so it can have no share", words[i]);
    } else if (dictAdd(of, command, (void*)(intptr_t)number) != DICT_OK) {
      good = refused(error, name, "'%.60s' is in a class already", words[i]);
    }
  }
  sdsfreesplitres(words, count);
  return good;
}

// Reads argv[0 .. WORDS) into the group. 1 = good.
static int read_group(sds* argv, SchedulerGroup* group, const char** error) {
  long long share = 0;
  if (!is_name(argv[0])) {
    return refused(error, argv[0], "a name has 1 to 32 letters, digits, - and _%s", "");
  }
  if (strcasecmp(argv[1], "commands") != 0 || strcasecmp(argv[3], "share") != 0) {
    return refused(error, argv[0], "expected NAME commands COMMAND,... share N%s", "");
  }
  if (!string2ll(argv[4], sdslen(argv[4]), &share) || share < 1 || share > MOST_SHARE) {
    return refused(error, argv[0], "share '%.60s', expected 1 to 10000", argv[4]);
  }
  group->name = argv[0];
  group->commands = argv[2];
  group->share = (int)share;
  return 1;
}

static void add(SchedulerCounts* to, const SchedulerCounts* more) {
  to->commands += more->commands;
  to->ran_us += more->ran_us;
  to->suspensions += more->suspensions;
  to->suspended_us += more->suspended_us;
  to->waits += more->waits;
  to->waited_us += more->waited_us;
  if (more->longest_wait_us > to->longest_wait_us) to->longest_wait_us = more->longest_wait_us;
  to->held_up += more->held_up;
  to->held_up_us += more->held_up_us;
  to->refused += more->refused;
}

static void give_commands(dict* of) {
  dictIterator* const iterator = dictGetIterator(of);
  dictEntry* entry;
  while ((entry = dictNext(iterator)) != NULL) {
    struct serverCommand* const command = dictGetKey(entry);
    command->scheduler_group = (int)(intptr_t)dictGetVal(entry);
  }
  dictReleaseIterator(iterator);
}

// The classes that are defined, as argv of a definition.
static sds* defined(int* argc) {
  sds text = scheduler_get_groups(NULL);
  sds* const argv = sdssplitlen(text, sdslen(text), " ", 1, argc);
  if (sdslen(text) == 0) *argc = 0;
  sdsfree(text);
  return argv;
}

// Takes the commands of the classes out of them.
static void free_commands(dictType* type) {
  dict* const none = dictCreate(type);
  for (int i = 1; i <= scheduler_groups_count; ++i) {
    int words = 0;
    sds* const names = sdssplitlen(scheduler_groups[i].commands,
                                   sdslen(scheduler_groups[i].commands), ",", 1, &words);
    for (int j = 0; j < words; ++j) {
      dictReplace(none, lookupCommandBySdsLogic(server.orig_commands, names[j]), NULL);
    }
    sdsfreesplitres(names, words);
    sdsfree(scheduler_groups[i].commands);
  }
  give_commands(none);
  dictRelease(none);
}

// Classes that the last definition removed. If it fails after all, or by the next one, they come
// back with their counts; else these are group 0's, as what is shown has them meanwhile.
static SchedulerGroup gone[SCHEDULER_MOST_GROUPS];
static int gone_count = 0;

// The clients that wait, or whose wait is to be told of, follow their classes to other numbers.
static void renumber_clients(const int* numbers) {
  listNode* node;
  listIter iterator;
  listRewind(server.clients, &iterator);
  while ((node = listNext(&iterator)) != NULL) {
    SchedulerClient* const mine = &((client*)listNodeValue(node))->scheduler;
    mine->group = (unsigned char)numbers[mine->group];
    if (mine->culprit > 0) mine->culprit = (signed char)numbers[mine->culprit];
  }
}

// A class that stays, by its name, keeps its counts.
static void replace(const SchedulerGroup* groups, int count, dict* of) {
  SchedulerGroup old[2 * SCHEDULER_MOST_GROUPS];
  int numbers[1 + SCHEDULER_MOST_GROUPS] = {0};
  const int before = scheduler_groups_count;
  free_commands(of->type);
  memcpy(old, scheduler_groups + 1, sizeof(old[0]) * (size_t)before);
  memcpy(old + before, gone, sizeof(old[0]) * (size_t)gone_count);
  const int all = before + gone_count;
  for (int i = 1; i <= count; ++i) {
    SchedulerGroup* const group = &scheduler_groups[i];
    *group = (SchedulerGroup){sdsdup(groups[i].name), sdsdup(groups[i].commands),
                              groups[i].share, {0}};
    for (int j = 0; j < all; ++j) {
      if (old[j].name == NULL || strcasecmp(old[j].name, group->name) != 0) continue;
      group->counts = old[j].counts;
      if (j < before) numbers[j + 1] = i;
      sdsfree(old[j].name);
      old[j].name = NULL;
    }
  }
  gone_count = 0;
  for (int j = 0; j < all; ++j) {
    if (old[j].name == NULL) continue;
    if (j < before) {
      gone[gone_count++] = old[j];
    } else {
      add(&scheduler_groups[0].counts, &old[j].counts);
      sdsfree(old[j].name);
    }
  }
  give_commands(of);
  scheduler_groups_count = count;
  if (server.el != NULL) renumber_clients(numbers);
}

static uint64_t hash_pointer(const void* pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

static dictType by_command = {.hashFunction = hash_pointer};

static int set_all(sds* argv, int argc, const char** error) {
  SchedulerGroup groups[1 + SCHEDULER_MOST_GROUPS];
  if (argc % WORDS != 0) {
    return refused(error, argv[0], "expected NAME commands COMMAND,... share N%s", "");
  }
  const int count = argc / WORDS;
  if (count > SCHEDULER_MOST_GROUPS) return refused(error, argv[0], "at most 14 classes%s", "");
  dict* const of = dictCreate(&by_command);
  int good = 1;
  for (int i = 1; i <= count && good; ++i) {
    sds* const words = argv + (i - 1) * WORDS;
    good = read_group(words, &groups[i], error);
    if (good && is_defined(groups, i - 1, words[0])) {
      good = refused(error, words[0], "there is a class of that name%s", "");
    }
    good = good && take_commands(words[0], words[2], i, of, error);
  }
  if (good) replace(groups, count, of);
  dictRelease(of);
  return good;
}

// 1 = a definition in argv is of the class.
static int is_among(char** argv, int argc, const char* name) {
  for (int i = 0; i < argc; i += WORDS) {
    if (strcasecmp(argv[i], name) == 0) return 1;
  }
  return 0;
}

// Lines of a configuration file and options add up, but for a class that is defined once more, as
// one of the command line that was written into the file; what CONFIG SET has is all.
int scheduler_set_groups(struct standardConfig* config, char** argv, int argc, const char** error) {
  UNUSED(config);
  if (argc == 1 && argv[0][0] == '\0') argc = 0;
  if (server.el != NULL) {
    scheduler_drain(SCHEDULER_PATIENT);
    return set_all(argv, argc, error);
  }
  int before = 0;
  sds* const old = defined(&before);
  sds* const all = zmalloc(sizeof(sds) * (size_t)(before + argc + 1));
  int count = 0;
  for (int i = 0; i < before; i += WORDS) {
    if (is_among(argv, argc, old[i])) continue;
    memcpy(all + count, old + i, sizeof(sds) * WORDS);
    count += WORDS;
  }
  if (argc != 0) memcpy(all + count, argv, sizeof(sds) * (size_t)argc);
  const int good = set_all(all, count + argc, error);
  zfree(all);
  if (old != NULL) sdsfreesplitres(old, before);
  return good;
}

static sds append_group(sds to, const SchedulerGroup* group) {
  return sdscatfmt(to, "%S commands %S share %i", group->name, group->commands, group->share);
}

char* scheduler_get_groups(struct standardConfig* config) {
  UNUSED(config);
  sds text = sdsempty();
  for (int i = 1; i <= scheduler_groups_count; ++i) {
    if (i > 1) text = sdscat(text, " ");
    text = append_group(text, &scheduler_groups[i]);
  }
  return text;
}

void scheduler_rewrite_groups(struct standardConfig* config, const char* name,
                              struct rewriteConfigState* state) {
  UNUSED(config);
  for (int i = 1; i <= scheduler_groups_count; ++i) {
    sds line = sdscatfmt(sdsempty(), "%s ", name);
    rewriteConfigRewriteLine(state, name, append_group(line, &scheduler_groups[i]), 1);
  }
  rewriteConfigMarkAsProcessed(state, name);
}

// ---- Counts

SchedulerCounts* scheduler_counts_of(int group) {
  return &scheduler_groups[group >= 0 && group <= scheduler_groups_count ? group : 0].counts;
}

void scheduler_reset_counts(void) {
  const SchedulerCounts none = {0};
  for (int i = 0; i <= scheduler_groups_count; ++i) scheduler_groups[i].counts = none;
  for (int i = 0; i < gone_count; ++i) gone[i].counts = none;
}

// What the classes that are gone have counted is group 0's.
static SchedulerCounts shown(int group) {
  SchedulerCounts counts = scheduler_groups[group].counts;
  for (int i = 0; group == 0 && i < gone_count; ++i) add(&counts, &gone[i].counts);
  return counts;
}

static sds append_counts(sds to, int number) {
  const SchedulerGroup* const group = &scheduler_groups[number];
  const SchedulerCounts counts = shown(number);
  const SchedulerCounts* const all = &counts;
  return sdscatprintf(
      to,
      "rubato_class_%s:share=%d,commands=%lld,ran_us=%lld,suspensions=%lld,suspended_us=%lld,"
      "waits=%lld,waited_us=%lld,longest_wait_us=%lld,held_up=%lld,held_up_us=%lld,"
      "refused=%lld\r\n",
      group->name, group->share, all->commands, all->ran_us, all->suspensions, all->suspended_us,
      all->waits, all->waited_us, all->longest_wait_us, all->held_up, all->held_up_us,
      all->refused);
}

char* scheduler_append_groups(char* to) {
  for (int i = 0; i <= scheduler_groups_count; ++i) to = append_counts(to, i);
  return to;
}

SchedulerCounts scheduler_total(void) {
  SchedulerCounts sum = {0};
  for (int i = 0; i <= scheduler_groups_count; ++i) {
    const SchedulerCounts counts = shown(i);
    add(&sum, &counts);
  }
  return sum;
}
