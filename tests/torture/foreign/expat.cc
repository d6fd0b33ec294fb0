// SPDX-License-Identifier: Apache-2.0
#include <expat.h>

#include <string>
#include <string_view>

#include "tests/torture/foreign_work.h"

namespace torture {
namespace {

uint64_t expat_documents(uint64_t seed) {
  std::string document = "<all>";
  for (uint64_t i = 0; i < 60; ++i) {
    document += "<e n='" + std::to_string(seed + i) + "'>" + text_of(i, 9) + "</e>";
  }
  document += "</all>";
  XML_Parser parser = XML_ParserCreate(nullptr);
  Sum sum;
  XML_SetUserData(parser, &sum);
  XML_SetStartElementHandler(parser, [](void* to, const XML_Char* name, const XML_Char** with) {
    static_cast<Sum*>(to)->add(std::string_view(name));
    if (with[0] != nullptr) static_cast<Sum*>(to)->add(std::string_view(with[1]));
  });
  sum.add(static_cast<uint64_t>(
      XML_Parse(parser, document.data(), static_cast<int>(document.size()), 1)));
  XML_ParserFree(parser);
  return sum.value();
}

const Registered kExpatDocuments{"expat", expat_documents};

}  // namespace
}  // namespace torture
