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

static int is_name(const char* word) {
  const size_t length = strlen(word);
  if (length == 0 || length > MOST_NAME || strcasecmp(word, "default") == 0) return 0;
  for (const char* at = word; *at != '\0'; ++at) {
    if (!isalnum((unsigned char)*at) && *at != '-' && *at != '_') return 0;
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
  int good = 1;
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

// What the classes that are gone have counted is group 0's.
static void replace(const SchedulerGroup* groups, int count, dict* of) {
  dict* const none = dictCreate(of->type);
  for (int i = 1; i <= scheduler_groups_count; ++i) {
    int words = 0;
    sds* const names = sdssplitlen(scheduler_groups[i].commands,
                                   sdslen(scheduler_groups[i].commands), ",", 1, &words);
    for (int j = 0; j < words; ++j) {
      dictReplace(none, lookupCommandBySdsLogic(server.orig_commands, names[j]), NULL);
    }
    sdsfreesplitres(names, words);
    add(&scheduler_groups[0].counts, &scheduler_groups[i].counts);
    sdsfree(scheduler_groups[i].name);
    sdsfree(scheduler_groups[i].commands);
  }
  give_commands(none);
  dictRelease(none);
  give_commands(of);
  for (int i = 1; i <= count; ++i) {
    scheduler_groups[i].name = sdsdup(groups[i].name);
    scheduler_groups[i].commands = sdsdup(groups[i].commands);
    scheduler_groups[i].share = groups[i].share;
    memset(&scheduler_groups[i].counts, 0, sizeof(scheduler_groups[i].counts));
  }
  scheduler_groups_count = count;
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

// Lines of a configuration file add up; what CONFIG SET has is all.
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
  if (before != 0) memcpy(all, old, sizeof(sds) * (size_t)before);
  if (argc != 0) memcpy(all + before, argv, sizeof(sds) * (size_t)argc);
  const int good = set_all(all, before + argc, error);
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

static sds append_counts(sds to, const SchedulerGroup* group) {
  const SchedulerCounts* const all = &group->counts;
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
  for (int i = 0; i <= scheduler_groups_count; ++i) to = append_counts(to, &scheduler_groups[i]);
  return to;
}

SchedulerCounts scheduler_total(void) {
  SchedulerCounts sum = {0};
  for (int i = 0; i <= scheduler_groups_count; ++i) add(&sum, &scheduler_groups[i].counts);
  return sum;
}
