// SPDX-License-Identifier: Apache-2.0
//
// CoreManager: the process that shares CPUs among servers (`rubato cores`): overload::CoreBroker
// decides, CorePlacement carries it out, and the servers are told how many workers may be awake
// (process/core_messages.h). What a server gives up leaves its CPUs before another one gets them.
// Best-effort commands run on what all servers leave, under SCHED_IDLE: for them nothing is moved.
//
// A server that closes its connection, by its end or otherwise, gives its cores back. At its own
// end the manager leaves the servers where they are, but for control groups, which get back the
// CPUs that they had. One thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "overload/cores/broker.h"
#include "process/best_effort.h"
#include "process/core_messages.h"
#include "process/core_placement.h"

namespace rubato {

struct CoreManagerOptions {
  std::string path;  // of the Unix socket
  std::vector<uint32_t> cpus;
  Nanos interval = Nanos::millis(1);  // between two reports of a busy server
  Nanos grace = Nanos::millis(5);     // until a core that was asked back is taken
  Nanos patience = Nanos::seconds(1); // until a server that is silent counts as hung
};

class CoreManager {
 public:
  // Fails with one line that names the option.
  static Result<std::unique_ptr<CoreManager>> open(const CoreManagerOptions& options,
                                                   std::vector<BestEffortCommand> commands);
  ~CoreManager();  // the commands end

  // Until `stop`, a descriptor, is readable.
  void serve(int stop);

 private:
  struct Peer {
    Fd connection;
    pid_t process = 0;
    Instant since;
    std::string answer;  // to its question, as far as it has not been sent
    bool has_gone = false;
    std::optional<overload::CoreBroker::Server> server;  // once it has joined
    std::optional<CorePlacement> placement;
    std::vector<uint32_t> cpus;  // where it is placed
    uint64_t sent_order = 0;     // its number
    bool misplaced = false;      // the last placement failed, at least of a thread
    Instant place_again;         // if misplaced
  };

  // Times that servers were placed, and how long it took.
  struct Placements {
    uint64_t count = 0;
    uint64_t failed = 0;
    Nanos total;
    Nanos longest;
  };

  CoreManager(const CoreManagerOptions& options, Fd door, std::vector<BestEffortCommand> commands);
  bool wait(int stop);
  Instant next_placement() const;
  void accept_all();
  void hear(Peer& peer);
  void take(Peer& peer, const CoreBytes& bytes);
  void join(Peer& peer, const CoreJoin& join);
  void answer(Peer& peer);
  void refuse(Peer& peer, const std::string& why);
  void part_from(Peer& peer);
  void remove_gone();
  void carry_out();
  void place(Peer& peer, const std::vector<uint32_t>& cpus);
  void tell(Peer& peer);
  std::string state() const;

  const CoreManagerOptions options_;
  const Fd door_;
  const ino_t inode_;  // of the door's file
  std::vector<BestEffortCommand> commands_;
  overload::CoreBroker broker_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Instant now_;
  Instant accept_again_;  // not before: there was no descriptor for a connection
  bool untold_ = false;  // an order could not be sent at once
  Placements placements_;
  uint64_t turned_away_ = 0;  // peers that came beyond the most, or spoke nonsense
};

}  // namespace rubato
