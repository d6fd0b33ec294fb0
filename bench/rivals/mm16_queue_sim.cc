// SPDX-License-Identifier: Apache-2.0
//
// M/M/16 in queue-sim's C++ part, for against_simulators.py: mm16_queue_sim REQUESTS SEED prints
// the requests served, the CPU time, and the mean latency in mean services.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include <queue_sim/fcfs.hpp>
#include <queue_sim/queue_system.hpp>

int main(int count, char** arguments) {
  if (count != 3) return std::fprintf(stderr, "usage: mm16_queue_sim REQUESTS SEED\n"), 2;
  constexpr int kWorkers = 16;
  constexpr double kLoad = 0.8;
  const int requests = std::atoi(arguments[1]);
  const std::clock_t begun = std::clock();
  std::vector<std::shared_ptr<queue_sim::Server>> servers{
      std::make_shared<queue_sim::FCFS>(queue_sim::ExponentialDist(1), kWorkers)};
  queue_sim::QueueSystem system(std::move(servers), queue_sim::ExponentialDist(kLoad * kWorkers));
  const double mean = system.sim(requests, std::atoi(arguments[2])).second;
  std::printf("{\"requests\": %d, \"cpu_s\": %.6f, \"mean\": %.6f}\n", requests,
              static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC, mean);
  return 0;
}
