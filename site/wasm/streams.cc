// SPDX-License-Identifier: Apache-2.0
//
// The streams that libc++ for WASI declares but does not contain (cmake/wasm/libcxx.h).
#include <fstream>

template class std::basic_filebuf<char>;
template class std::basic_ifstream<char>;
template class std::basic_ofstream<char>;
