// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tests/torture/foreign_work.h"

namespace torture {
namespace {

uint64_t openssl_digests(uint64_t seed) {
  const std::string text = text_of(seed, 8'000);
  Sum sum;
  for (const EVP_MD* kind : {EVP_sha256(), EVP_sha3_512(), EVP_md5()}) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned bytes = 0;
    sum.add(static_cast<uint64_t>(
        EVP_Digest(text.data(), text.size(), digest.data(), &bytes, kind, nullptr)));
    sum.add(std::string_view(reinterpret_cast<const char*>(digest.data()), bytes));
  }
  return sum.value();
}

uint64_t openssl_ciphers(uint64_t seed) {
  const std::string text = text_of(seed, 6'000);
  const std::array<unsigned char, 32> key{static_cast<unsigned char>(seed), 2, 3};
  const std::array<unsigned char, 16> start{7, 8, 9};
  std::vector<unsigned char> packed(text.size() + 32);
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  int bytes = 0;
  int rest = 0;
  Sum sum;
  EVP_EncryptInit_ex(context, EVP_aes_256_cbc(), nullptr, key.data(), start.data());
  EVP_EncryptUpdate(context, packed.data(), &bytes,
                    reinterpret_cast<const unsigned char*>(text.data()),
                    static_cast<int>(text.size()));
  sum.add(static_cast<uint64_t>(EVP_EncryptFinal_ex(context, packed.data() + bytes, &rest)));
  EVP_CIPHER_CTX_free(context);
  sum.add(std::string_view(reinterpret_cast<const char*>(packed.data()),
                           static_cast<size_t>(bytes + rest)));
  return sum.value();
}

const Registered kOpensslDigests{"digests of OpenSSL", openssl_digests};
const Registered kOpensslCiphers{"ciphers of OpenSSL", openssl_ciphers};

}  // namespace
}  // namespace torture
