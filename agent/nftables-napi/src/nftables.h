#pragma once

#include <napi.h>

#include "core/nft_context.h"
#include "exclusive.h"

namespace binding {

// JavaScript: new Context(); run(text, outputFlags): Promise; close(): Promise.
class Context : public Napi::ObjectWrap<Context> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit Context(const Napi::CallbackInfo& info);

 private:
  Napi::Value run(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  std::shared_ptr<Exclusive<nft::NftContext>> context_;
};

}  // namespace binding
