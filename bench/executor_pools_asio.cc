// SPDX-License-Identifier: Apache-2.0
//
// Boost.Asio's pool of threads, in executor_pools.
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "executor_pools.h"

namespace rubato::bench {
namespace {

class AsioPool final : public Pool {
 public:
  explicit AsioPool(const Settings& settings) : threads_(settings.workers) {}
  ~AsioPool() override { threads_.join(); }
  void submit(const Job& job) override {
    boost::asio::post(threads_, [job] { job.run(); });
  }

 private:
  boost::asio::thread_pool threads_;
};

const Registered kAsio(contender<AsioPool>("asio"));

}  // namespace
}  // namespace rubato::bench
