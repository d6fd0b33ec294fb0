// SPDX-License-Identifier: Apache-2.0
//
// All of Rubato for C++20 applications. Each header states its rules for threads and ownership.
//
//   rubato::Application app;
//   app.framing = rubato::Framing::kLines;
//   app.handle = [](rubato::Request& request) { request.reply(request.payload()); };
//   auto server = rubato::Server::create({.workers = 2, .port = 7000}, std::move(app));
//   if (!server) { ... server.error() ... }
//   auto drained = server->run();
#pragma once

#include <rubato/executor.hpp>
#include <rubato/feedback.hpp>
#include <rubato/fiber_local.hpp>
#include <rubato/options.hpp>
#include <rubato/recorded.hpp>
#include <rubato/request.hpp>
#include <rubato/server.hpp>
#include <rubato/socket.hpp>
#include <rubato/status.hpp>
#include <rubato/wait.hpp>
