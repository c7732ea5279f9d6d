#include "nftables.h"

#include "promise_worker.h"

namespace binding {

Napi::Function Context::define(Napi::Env env) {
  return DefineClass(env, "Context",
                     {InstanceMethod<&Context::run>("run"), InstanceMethod<&Context::close>("close")});
}

Context::Context(const Napi::CallbackInfo& info) : Napi::ObjectWrap<Context>(info) {
  try {
    context_ = std::make_shared<Exclusive<nft::NftContext>>();
  } catch (const nft::Failure& failure) {
    throw to_error(info.Env(), failure);
  }
}

Napi::Value Context::run(const Napi::CallbackInfo& info) {
  const std::string text = text_argument(info[0], "text");
  const uint32_t flags = number_argument(info[1], "outputFlags");
  return PromiseWorker<nft::RunResult>::run(
      info.Env(),
      [context = context_, text, flags] {
        return context->use([&](nft::NftContext& it) { return it.run(text, flags); });
      },
      [](Napi::Env env, const nft::RunResult& result) -> Napi::Value {
        Napi::Object object = Napi::Object::New(env);
        object.Set("succeeded", Napi::Boolean::New(env, result.succeeded));
        object.Set("output", Napi::String::New(env, result.output));
        object.Set("errors", Napi::String::New(env, result.errors));
        return object;
      });
}

Napi::Value Context::close(const Napi::CallbackInfo& info) {
  return close_on_worker(info, context_);
}

}  // namespace binding
