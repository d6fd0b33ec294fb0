// SPDX-License-Identifier: Apache-2.0
//
// The survey of the C++ library: members of its compiled classes and its free functions, one a
// line, with arguments of a seed. (Templates are compiled into this very file, where the torture
// preempts too.)
#include <algorithm>
#include <any>
#include <bitset>
#include <chrono>
#include <cmath>
#include <codecvt>
#include <complex>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <iomanip>
#include <ios>
#include <iterator>
#include <locale>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <system_error>
#include <thread>
#include <typeinfo>
#include <valarray>
#include <variant>
#include <vector>

#include "tests/torture/workload.h"

namespace torture {
namespace {

// What an expression gives, whatever its type.
uint64_t told(const std::string& text) {
  Sum sum;
  sum.add(text);
  return sum.value();
}
uint64_t told(const std::wstring& text) {
  Sum sum;
  for (const wchar_t c : text) sum.add(static_cast<uint64_t>(c));
  return sum.value();
}
uint64_t told(const char* text) { return told(std::string(text)); }
uint64_t told(double value) { return static_cast<uint64_t>(std::llround(value * 1e6)); }
template <class T>
  requires std::is_integral_v<T>
uint64_t told(T value) {
  return static_cast<uint64_t>(value);
}

// How strings compare: by how much is not said, and memcmp answers by where in a page they are.
int sign(int compared) { return (compared > 0) - (compared < 0); }

// The text of an exception that the call throws, or what it gives.
template <class F>
uint64_t told_or_thrown(F&& call) {
  try {
    return told(call());
  } catch (const std::exception& error) {
    return told(std::string(typeid(error).name()) + error.what());
  }
}

struct Arguments {
  explicit Arguments(uint64_t seed)
      : n(seed % 11), x(0.25 + static_cast<double>(seed)), text("word " + std::to_string(seed)) {
    text += ", and then some more of it";
    wide.assign(text.begin(), text.end());
    stream << std::setprecision(4) << x << ' ' << seed << ' ' << text;
  }
  size_t n;
  double x;
  std::string text;
  std::wstring wide;
  std::stringstream stream;
};

template <class F>
std::string changed(std::string text, F&& change) {
  change(text);
  return text;
}

template <class Facet>
const Facet& facet() {
  return std::use_facet<Facet>(std::locale::classic());
}

template <class Error>
int thrown(const Error& error) {
  throw error;
}

#define RUBATO_CALL(...)                                           \
  {#__VA_ARGS__, [](uint64_t seed) {                        \
     [[maybe_unused]] Arguments a(seed);                    \
     return told_or_thrown([&] { return __VA_ARGS__; });    \
   }}

const std::vector<Workload> kCalls{
    // Strings.
    RUBATO_CALL(std::string(a.text)),
    RUBATO_CALL(std::string(a.text, a.n, 7)),
    RUBATO_CALL(std::string(a.n, 'x')),
    RUBATO_CALL(a.text + a.text),
    RUBATO_CALL(a.text.append(a.text, 2, 9)),
    RUBATO_CALL(a.text.assign(a.n, 'y')),
    RUBATO_CALL(a.text.insert(a.n, "inserted")),
    RUBATO_CALL(a.text.erase(a.n, 3)),
    RUBATO_CALL(a.text.substr(a.n)),
    RUBATO_CALL(a.text.replace(1, a.n, "another")),
    RUBATO_CALL(a.text.find("and", a.n)),
    RUBATO_CALL(a.text.at(99)),
    RUBATO_CALL(a.text.rfind('o')),
    RUBATO_CALL(a.text.find_first_of("xyz,")),
    RUBATO_CALL(sign(a.text.compare("word 5"))),
    RUBATO_CALL(a.text.find_last_of("aeiou", 20)),
    RUBATO_CALL(a.text.find_first_not_of("word ")),
    RUBATO_CALL(a.text.find_last_not_of("it ")),
    RUBATO_CALL(changed(a.text, [&](auto& t) { t.resize(a.n); })),
    RUBATO_CALL(changed(a.text, [](auto& t) { t.reserve(900), t.shrink_to_fit(); })),
    RUBATO_CALL(changed(a.text, [](auto& t) { std::string other("abc"); t.swap(other); })),
    RUBATO_CALL(changed(a.text, [](auto& t) { t.push_back('z'), t.pop_back(), t.clear(); })),
    RUBATO_CALL(a.wide + L"wide"),
    RUBATO_CALL(a.wide.substr(a.n)),
    RUBATO_CALL(a.wide.find(L"and")),
    RUBATO_CALL(a.wide.replace(1, a.n, L"another")),
    RUBATO_CALL(sign(a.wide.compare(L"word 5"))),
    RUBATO_CALL(std::to_string(a.x)),
    RUBATO_CALL(std::to_string(a.n)),
    RUBATO_CALL(std::to_wstring(a.x)),
    RUBATO_CALL(std::stoi(std::to_string(a.n))),
    RUBATO_CALL(std::stod("2.5e3")),
    RUBATO_CALL(std::stoi("none")),
    RUBATO_CALL(std::stoull("99999999999999999999999")),
    RUBATO_CALL(std::stol("7f", nullptr, 16)),
    RUBATO_CALL(std::stof("1.5")),
    RUBATO_CALL(std::hash<std::string>()(a.text)),
    // Streams.
    RUBATO_CALL(a.stream.str()),
    RUBATO_CALL((std::ostringstream() << std::hex << a.n << a.x).str()),
    RUBATO_CALL((std::ostringstream() << std::fixed << std::setw(20) << a.x).str()),
    RUBATO_CALL((std::ostringstream() << std::boolalpha << (a.n > 5) << "\n").str()),
    RUBATO_CALL((std::wostringstream() << a.wide << a.x).str()),
    RUBATO_CALL([&] { double d = 0; a.stream >> d; return d; }()),
    RUBATO_CALL([&] { std::string t; std::getline(a.stream, t); return t; }()),
    RUBATO_CALL([&] { std::string t; a.stream >> std::ws >> t >> t; return t; }()),
    RUBATO_CALL([&] { a.stream.ignore(3); return a.stream.peek(); }()),
    RUBATO_CALL([&] { a.stream.seekg(2); return static_cast<long>(a.stream.tellg()); }()),
    RUBATO_CALL([&] { std::string t(9, ' '); a.stream.read(t.data(), 9); return t; }()),
    RUBATO_CALL([&] { a.stream.exceptions(std::ios::failbit); int i; a.stream >> i >> i >> i;
         return i;
         }()),
    RUBATO_CALL([&] { std::istringstream in("0x1f 077"); int i; in >> std::setbase(0) >> i;
         return i; }()),
    RUBATO_CALL([&] { std::stringstream s; s << std::quoted(a.text); return s.str(); }()),
    RUBATO_CALL([&] { std::stringstream s; s.imbue(std::locale::classic()); s << std::showbase <<
         std::oct << 64; return s.str(); }()),
    RUBATO_CALL([&] { std::stringbuf b("abc"); return b.sbumpc() + b.sgetc() + b.sungetc(); }()),
    // Locales.
    RUBATO_CALL(std::locale::classic().name()),
    RUBATO_CALL(std::locale("C").name()),
    RUBATO_CALL(std::locale("no_such").name()),
    RUBATO_CALL(facet<std::ctype<char>>().toupper('q')),
    RUBATO_CALL(facet<std::ctype<wchar_t>>().is(std::ctype_base::alpha, L'q')),
    RUBATO_CALL(facet<std::collate<char>>().transform(a.text.data(), a.text.data() + 5)),
    RUBATO_CALL(facet<std::collate<char>>().hash(a.text.data(), a.text.data() + 5)),
    RUBATO_CALL(facet<std::numpunct<char>>().truename()),
    RUBATO_CALL(facet<std::moneypunct<char>>().curr_symbol()),
    RUBATO_CALL([&] { std::ostringstream o; std::tm t{}; t.tm_year = 99;
         o << std::put_time(&t, "%c_%A_%B_%p");
         return o.str(); }()),
    RUBATO_CALL([&] { std::istringstream i("2024-02-29"); std::tm t{}; i >> std::get_time(&t,
         "%Y-%m-%d"); return t.tm_mday; }()),
    RUBATO_CALL([&] { std::ostringstream o; o << std::put_money(123456.0L); return o.str(); }()),
    RUBATO_CALL([&] { std::istringstream i("12.50"); long double m = 0; i >> std::get_money(m);
         return
         static_cast<double>(m); }()),
    RUBATO_CALL(std::has_facet<std::messages<char>>(std::locale::classic())),
    RUBATO_CALL(std::isalpha('q', std::locale::classic())),
    RUBATO_CALL(std::tolower('Q', std::locale::classic())),
    // Exceptions and errors.
    RUBATO_CALL(thrown(std::runtime_error(a.text))),
    RUBATO_CALL(thrown(std::logic_error(a.text))),
    RUBATO_CALL(thrown(std::system_error(2, std::generic_category(), "what"))),
    RUBATO_CALL(thrown(std::ios_base::failure("failed"))),
    RUBATO_CALL(thrown(std::bad_alloc())),
    RUBATO_CALL(thrown(std::bad_function_call())),
    RUBATO_CALL(std::vector<int>().at(a.n)),
    RUBATO_CALL(std::bitset<8>("10102").to_ulong()),
    RUBATO_CALL(std::generic_category().message(static_cast<int>(a.n))),
    RUBATO_CALL(std::system_category().default_error_condition(2).value()),
    RUBATO_CALL(std::future_category().name()),
    RUBATO_CALL(std::make_error_code(std::errc::timed_out).message()),
    RUBATO_CALL(std::any_cast<int>(std::any(1.5))),
    RUBATO_CALL(std::optional<int>().value()),
    RUBATO_CALL(std::get<int>(std::variant<int, double>(1.5))),
    RUBATO_CALL((std::rethrow_exception(std::make_exception_ptr(std::range_error("r"))), 0)),
    RUBATO_CALL([&] { try { try { throw 1; } catch (int) {
         std::throw_with_nested(std::logic_error("n")); } } catch (...) {
         std::rethrow_exception(std::current_exception()); } return 0; }()),
    RUBATO_CALL([&] { std::future<int> f; { std::promise<int> p; f = p.get_future(); }
         return f.get(); }()),
    RUBATO_CALL(std::uncaught_exceptions()),
    RUBATO_CALL(dynamic_cast<std::ostream&>(static_cast<std::ios&>(a.stream)).good()),
    RUBATO_CALL(typeid(a).name()),
    // File names.
    RUBATO_CALL(std::filesystem::path(a.text).extension().string()),
    RUBATO_CALL((std::filesystem::path("/a/b") / a.text).parent_path().string()),
    RUBATO_CALL(std::filesystem::path("/a/./b/../c").lexically_normal().string()),
    RUBATO_CALL(std::filesystem::path("/a/b").lexically_relative("/c").string()),
    RUBATO_CALL(std::filesystem::exists("/proc/self")),
    RUBATO_CALL(std::filesystem::is_directory("/no/such")),
    RUBATO_CALL(std::filesystem::file_size("/no/such")),
    RUBATO_CALL(std::filesystem::canonical("/").string()),
    RUBATO_CALL(std::filesystem::temp_directory_path().string()),
    RUBATO_CALL(std::filesystem::weakly_canonical("/proc/../tmp/x").string()),
    // Memory, numbers, the rest.
    RUBATO_CALL(std::make_shared<std::string>(a.text).use_count()),
    RUBATO_CALL(*std::make_unique<std::string>(a.text)),
    RUBATO_CALL([&] { void* p = operator new(a.n + 1, std::align_val_t{64}); operator delete(p,
         std::align_val_t{64}); return 1; }()),
    RUBATO_CALL([&] { std::vector<std::string> v(a.n, a.text); v.resize(40); return v.size(); }()),
    RUBATO_CALL(std::riemann_zeta(2.0 + a.x)),
    RUBATO_CALL(std::cyl_bessel_j(0.5, a.x)),
    RUBATO_CALL(std::legendre(3, 0.3)),
    RUBATO_CALL(std::expint(a.x)),
    RUBATO_CALL(std::hermite(4, 0.7)),
    RUBATO_CALL(std::beta(1.5, a.x)),
    RUBATO_CALL(std::abs(std::pow(std::complex<double>(1, a.x), 0.5))),
    RUBATO_CALL((std::valarray<double>(a.x, 20) * 2.0).sum()),
    RUBATO_CALL(std::lerp(1.0, a.x, 0.3)),
    RUBATO_CALL(std::this_thread::get_id() == std::this_thread::get_id()),
    RUBATO_CALL(std::thread::hardware_concurrency() > 0),
    RUBATO_CALL(std::chrono::steady_clock::now() <= std::chrono::steady_clock::now()),
};

#undef RUBATO_CALL

}  // namespace

std::span<const Workload> survey_of_cpp() { return kCalls; }

}  // namespace torture
