#pragma once

#include <napi.h>

#include <functional>
#include <optional>
#include <utility>

#include "core/failure.h"
#include "exclusive.h"

namespace binding {

// The bytes as a new Uint8Array of the environment.
inline Napi::Uint8Array to_bytes(Napi::Env env, const void* data, size_t length) {
  Napi::Uint8Array array = Napi::Uint8Array::New(env, length);
  if (length) std::memcpy(array.Data(), data, length);
  return array;
}

// An Error with `errno` and `details`; lib/errors.ts makes the NftError of it.
inline Napi::Error to_error(Napi::Env env, const nft::Failure& failure) {
  Napi::Error error = Napi::Error::New(env, failure.what());
  Napi::Array details = Napi::Array::New(env);
  for (const nft::FailureDetail& each : failure.details) {
    Napi::Object detail = Napi::Object::New(env);
    detail.Set("errno", Napi::Number::New(env, each.err));
    detail.Set("operation", Napi::Number::New(env, each.operation));
    detail.Set("expression", Napi::Number::New(env, each.expression));
    detail.Set("element", to_bytes(env, each.key.data(), each.key.size()));
    detail.Set("text", Napi::String::New(env, each.text));
    details.Set(details.Length(), detail);
  }
  error.Value().Set("errno", Napi::Number::New(env, failure.err));
  error.Value().Set("details", details);
  return error;
}

// Runs work() on a thread of libuv's pool and settles a promise with what convert() makes of its
// result on the JavaScript thread. Whatever work() needs it must own or share: nothing of
// JavaScript is kept alive for it.
template <class Result>
class PromiseWorker final : public Napi::AsyncWorker {
 public:
  using Work = std::function<Result()>;
  using Convert = std::function<Napi::Value(Napi::Env, const Result&)>;

  static Napi::Promise run(Napi::Env env, Work work, Convert convert) {
    auto* worker = new PromiseWorker(env, std::move(work), std::move(convert));  // deletes itself when settled
    Napi::Promise promise = worker->deferred_.Promise();
    worker->Queue();
    return promise;
  }

  void Execute() override {
    try {
      result_ = work_();
    } catch (const nft::Failure& failure) {
      failure_ = failure;
    }  // anything else: OnError()
    work_ = nullptr;  // releases a context here rather than on the JavaScript thread
  }

  void OnOK() override {
    try {
      if (failure_) return deferred_.Reject(to_error(Env(), *failure_).Value());
      deferred_.Resolve(convert_(Env(), *result_));
    } catch (const Napi::Error& error) {
      deferred_.Reject(error.Value());
    }
  }

  void OnError(const Napi::Error& error) override { deferred_.Reject(error.Value()); }

 private:
  PromiseWorker(Napi::Env env, Work work, Convert convert)
      : Napi::AsyncWorker(env), deferred_(env), work_(std::move(work)), convert_(std::move(convert)) {}

  Napi::Promise::Deferred deferred_;
  Work work_;
  Convert convert_;
  std::optional<Result> result_;
  std::optional<nft::Failure> failure_;
};

// Closing waits for the work under way, so it must not run on the JavaScript thread.
template <class Thing>
Napi::Value close_on_worker(const Napi::CallbackInfo& info, std::shared_ptr<Exclusive<Thing>> thing) {
  return PromiseWorker<bool>::run(
      info.Env(),
      [thing = std::move(thing)] {
        thing->close();
        return true;
      },
      [](Napi::Env env, const bool&) { return env.Undefined(); });
}

// For every argument the TypeScript side has checked already: a wrong type here is our own mistake,
// and must not crash.
template <class Type>
Type argument(const Napi::Value& value, bool (Napi::Value::*is)() const, const char* name) {
  if (!(value.*is)()) throw Napi::TypeError::New(value.Env(), std::string("nftables_napi: wrong type: ") + name);
  return value.As<Type>();
}
inline std::string text_argument(const Napi::Value& value, const char* name) {
  return argument<Napi::String>(value, &Napi::Value::IsString, name).Utf8Value();
}
inline uint32_t number_argument(const Napi::Value& value, const char* name) {
  return argument<Napi::Number>(value, &Napi::Value::IsNumber, name).Uint32Value();
}

}  // namespace binding
