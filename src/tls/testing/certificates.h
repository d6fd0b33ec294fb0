// SPDX-License-Identifier: Apache-2.0
//
// Certificates for tests, made when the test runs: an authority, and who it vouches for. Files go
// to a folder of the test. One thread.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "tls/openssl_session.h"
#include "tls/tls_server.h"

namespace rubato::testing {

using KeyPtr = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpenSslFree<X509_free>>;

struct Credential {
  KeyPtr key;
  CertificatePtr certificate;
};

// Signed by `issuer`, or by itself. The serial number is the only thing that tells two of a name
// apart.
inline Credential make_credential(const char* name, const Credential* issuer, long serial = 1) {
  constexpr long kSecondsPerDay = 86400;
  Credential made{KeyPtr(EVP_EC_gen("P-256")), CertificatePtr(X509_new())};
  X509* const x = made.certificate.get();
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), serial);
  X509_gmtime_adj(X509_getm_notBefore(x), -kSecondsPerDay);
  X509_gmtime_adj(X509_getm_notAfter(x), kSecondsPerDay);
  X509_set_pubkey(x, made.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  using Extension = std::unique_ptr<X509_EXTENSION, OpenSslFree<X509_EXTENSION_free>>;
  const Extension authority(X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints,
                                                issuer == nullptr ? "CA:TRUE" : "CA:FALSE"));
  X509_add_ext(x, authority.get(), -1);
  const Credential& signer = issuer != nullptr ? *issuer : made;
  X509_set_issuer_name(x, X509_get_subject_name(signer.certificate.get()));
  EXPECT_GT(X509_sign(x, signer.key.get(), EVP_sha256()), 0);
  return made;
}

template <class Write>
void write_file(const std::string& path, Write&& write) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(write(file), 1);
  std::fclose(file);
}

// Returns the path.
inline std::string save(const Credential& credential, const std::string& path) {
  write_file(path + ".crt", [&](std::FILE* f) {
    return PEM_write_X509(f, credential.certificate.get());
  });
  write_file(path + ".key", [&](std::FILE* f) {
    return PEM_write_PrivateKey(f, credential.key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return path;
}

// An authority, a server and a client that it vouches for, as files and at hand.
class Certificates {
 public:
  Certificates()
      : folder_(name_of_test()),
        ca(make_credential("authority", nullptr)),
        server(make_credential("server", &ca, 2)),
        client(make_credential("client", &ca, 3)) {
    save(ca, folder_ + "_ca");
    save(server, folder_ + "_server");
  }

  std::string path(const std::string& end) const { return folder_ + end; }
  TlsFiles files(TlsClients clients = TlsClients::kNeedNot) const {
    return {path("_server.crt"), path("_server.key"), path("_ca.crt"), clients};
  }

 private:
  static std::string name_of_test() {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(name.begin(), name.end(), '/', '_');
    return ::testing::TempDir() + "tls_" + std::to_string(::getpid()) + "_" + name;
  }

  const std::string folder_;  // and the beginning of each name

 public:
  const Credential ca;
  const Credential server;
  const Credential client;
};

}  // namespace rubato::testing
