// XXH3 through the xxhash library, header only.
#include "executable/digest.h"

#include <algorithm>

#include "ir/text/text.h"
#include "support/error.h"

#define XXH_INLINE_ALL
#ifndef NDEBUG
#define XXH_NO_INLINE_HINTS 1  // -Og does not inline what xxhash says must be
#endif
#include <xxhash.h>

namespace ipu::executable {
namespace {

constexpr int64_t kMaxPrintedConstant = 16;  // elements; above, constants enter the digest as bytes

DigestBytes canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  DigestBytes bytes;
  static_assert(sizeof(canonical.digest) == sizeof(bytes));
  std::copy_n(reinterpret_cast<const std::byte*>(canonical.digest), bytes.size(), bytes.begin());
  return bytes;
}

void add_constant(Digest& digest, const ConstantPtr& data) {
  if (data != nullptr && element_count(data->shape) > kMaxPrintedConstant) digest.add(digest_of(*data));
}

}  // namespace

struct Digest::Impl {
  XXH3_state_t* xxh = XXH3_createState();
  ~Impl() { XXH3_freeState(xxh); }
};

Digest::Digest() : impl_(std::make_unique<Impl>()) {
  IPU_CHECK(impl_->xxh != nullptr, "no memory for a digest");
  XXH3_128bits_reset(impl_->xxh);
}
Digest::~Digest() = default;

Digest& Digest::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(impl_->xxh, bytes.data(), bytes.size());
  return *this;
}
Digest& Digest::add(std::string_view text) { return add(std::as_bytes(std::span(text.data(), text.size()))); }
DigestBytes Digest::bytes() const { return canonical(XXH3_128bits_digest(impl_->xxh)); }
std::string Digest::hex() const { return executable::hex(bytes()); }

DigestBytes digest_of(std::span<const std::byte> bytes) {
  return canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string hex(const DigestBytes& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::byte b : digest) {
    text += kDigits[static_cast<unsigned>(b) >> 4];
    text += kDigits[static_cast<unsigned>(b) & 15];
  }
  return text;
}

std::string digest_hex(std::string_view text) {
  return hex(digest_of(std::as_bytes(std::span(text.data(), text.size()))));
}

std::string digest_of(const ConstantData& data) {
  Digest digest;
  digest.add(to_string(data.dtype)).add(to_string(std::span<const int64_t>(data.shape))).add(data.bytes);
  return digest.hex();
}

std::string digest_of(const ir::Module& module) {
  ir::PrintOptions options;
  options.locations = false;
  options.origins = false;
  options.max_constant_elements = kMaxPrintedConstant;
  Digest digest;
  digest.add(ir::print(module, options));
  for (const ir::Variable& variable : module.variables()) add_constant(digest, variable.initial);
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops())
      for (const auto& [name, value] : op->attributes)
        if (const auto* constant = std::get_if<ConstantPtr>(&value)) add_constant(digest, *constant);
  return digest.hex();
}

}  // namespace ipu::executable
