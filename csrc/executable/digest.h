// 128-bit XXH3 digests: checksums of files, names of constants, keys of the cache. Fast (memory speed) and
// wide enough that two different contents never meet by chance; no protection against somebody who wants them
// to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ir/module.h"
#include "support/attributes.h"

namespace ipu::executable {

using DigestBytes = std::array<std::byte, 16>;  // big endian, the canonical form of XXH128

// Takes bytes piece by piece; the digest depends on their concatenation only.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest& add(std::span<const std::byte> bytes);
  Digest& add(std::string_view text);
  DigestBytes bytes() const;
  std::string hex() const;  // 32 digits

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

DigestBytes digest_of(std::span<const std::byte> bytes);
std::string hex(const DigestBytes& digest);
std::string digest_hex(std::string_view text);

// Digests dtype, shape and bytes.
std::string digest_of(const ConstantData& data);
// Digests the text of the module without locations, and large constants by content: equal programs have equal digests
// wherever they were written.
std::string digest_of(const ir::Module& module);

}  // namespace ipu::executable
