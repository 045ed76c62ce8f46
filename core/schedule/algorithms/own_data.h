#pragma once

#include "core/schedule/builder.h"

namespace foldcast::schedule {

/// Data that its owner both sends and keeps: sent from `source` first and then copied to `target`. Where what is sent
/// is rounded, it is copied first and sent from `target`, so that the owner keeps what the others get.
class OwnData {
 public:
  /// `builder` must outlive this.
  OwnData(Builder& builder, const Chunk& target, const Chunk& source)
      : builder_(builder), target_(target), source_(source) {
    if (builder.rounding()) builder.copy(target, source);
  }
  /// Where to send it, or a part of it, from.
  const Chunk& chunk() const { return builder_.rounding() ? target_ : source_; }
  /// To be called when all sends are appended.
  void keep() {
    if (!builder_.rounding()) builder_.copy(target_, source_);
  }

 private:
  Builder& builder_;
  Chunk target_, source_;
};

}  // namespace foldcast::schedule
