// SPDX-License-Identifier: Apache-2.0
//
// Handover: the listening sockets of a server go from one process to the next, so that a restart
// refuses no connection: those that come while neither serves wait in the sockets. The next process
// asks the one that serves by a Unix socket, gets all listeners (SCM_RIGHTS), that of the Unix
// socket too, and waits until the other has drained and ended, as two cannot have one store open.
//
// The connection between the two stays open for as long as the old process lives. Its end is the
// sign that the locks on files are free, however the process has ended: a process that ends drops
// these locks when it closes its files, and ends its connections only then.
//
// Messages, each a packet: the greeting from either side, with the listeners from the old one;
// kTaken from the new one; kStops from the old one. A new process that goes away before that
// changes nothing; the listeners of an old one that is killed stay with the new one, once it has
// them. Whoever may connect to the socket (its file has mode 0600) may take the server over.
//
// Made by main's thread, before the server, and destroyed by it after all of the server.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "datapath/tcp_socket.h"

namespace rubato {

class Handover {
 public:
  // If a server hands over at `path`, takes its listeners and waits until it has ended, however
  // long that takes. Fails with one line if `path` cannot be such a socket, or if the server there
  // does not answer or speaks another version; that server then goes on.
  static Result<std::unique_ptr<Handover>> open(const std::string& path);
  // Removes the file, unless it is the next server's.
  ~Handover();

  // Whether there was a server, which has ended by then.
  bool took_over() const { return took_over_; }
  // The listener on that address, which was taken or is new; this object owns it. Fails with one
  // line if the address cannot be used.
  Result<int> listener(const std::string& bind, uint16_t port, int backlog);
  // After the last listener(): closes those that were taken and not asked for, and listens at the
  // path. Fails with one line.
  Status listen();
  // After listen(): hands over to whoever asks, and calls `stop` then, on the thread returned.
  std::jthread serve(std::function<void()> stop);

 private:
  explicit Handover(std::string path) : path_(std::move(path)) {}
  Status take_over();
  // Connected with the server at the path; not valid: there is none.
  Result<Fd> connect() const;
  // False: the server has ended meanwhile.
  Result<bool> take_from(const Fd& server);
  // The socket at the path, then the listeners.
  static Status receive_listeners(const Fd& server, std::string& greeting, std::vector<Fd>& given);
  void look_for_others(const std::stop_token& ending, int wake, const std::function<void()>& stop);
  bool hand_over(const Fd& asker, int wake);
  bool send_listeners(const Fd& asker) const;

  const std::string path_;
  Fd door_;                    // the Unix socket; not valid: there was no server to take it from
  std::vector<Fd> taken_;      // from servers before, and not asked for yet
  std::vector<Fd> listeners_;  // of this one
  Fd next_;                    // the server that waits for the end of this one
  bool took_over_ = false;
  bool given_ = false;         // the file is the next server's; read after the thread's end
};

}  // namespace rubato
