#pragma once

#include <napi.h>

#include <memory>

#include "promise_worker.h"

namespace binding {

// A JavaScript class around a thread that listens: new Name(..., listener); close(): Promise;
// ref(); unref(). The listener is held until close(), and with it whatever it refers to: what
// listens is not collected while it runs.
//
// Traits have
//   a type Core with a type Batch, start(on_batch, on_end), taken() and stop()
//   static constexpr const char* name
//   static std::unique_ptr<Core> open(const Napi::CallbackInfo&)   from the arguments, the last of which is the listener
//   static Napi::Value to_value(Napi::Env, const Batch&)
template <class Traits>
class Listening : public Napi::ObjectWrap<Listening<Traits>> {
 public:
  static Napi::Function define(Napi::Env env) {
    return Listening::DefineClass(env, Traits::name,
                                  {Listening::template InstanceMethod<&Listening::close>("close"),
                                   Listening::template InstanceMethod<&Listening::ref>("ref"),
                                   Listening::template InstanceMethod<&Listening::unref>("unref")});
  }

  explicit Listening(const Napi::CallbackInfo& info) : Napi::ObjectWrap<Listening>(info) {
    const Napi::Env env = info.Env();
    const auto listener = argument<Napi::Function>(info[info.Length() - 1], &Napi::Value::IsFunction, "listener");
    const auto state = std::make_shared<State>();
    try {
      state->core = Traits::open(info);
    } catch (const nft::Failure& failure) {
      throw to_error(env, failure);
    }
    // The finalizer owns the state, so that it outlives both this object and the thread.
    state->listener = Napi::ThreadSafeFunction::New(
        env, listener, Traits::name, 0, 1,
        [](Napi::Env, std::shared_ptr<State>* held) {
          (*held)->stop();
          delete held;
        },
        new std::shared_ptr<State>(state));
    // Hooks run in reverse order, so this one comes before that of the thread-safe function.
    napi_add_env_cleanup_hook(env, &State::at_exit, state.get());
    state->core->start(
        [state = state.get()](Batch batch) {
          auto* delivery = new Delivery{state, std::move(batch)};
          if (state->listener.NonBlockingCall(delivery, deliver) != napi_ok) delete delivery;
        },
        [state = state.get()] { state->listener.Release(); });
    state_ = state;
  }

 private:
  using Core = typename Traits::Core;
  using Batch = typename Core::Batch;

  struct State {
    std::unique_ptr<Core> core;
    Napi::ThreadSafeFunction listener;
    bool released = false;  // on the JavaScript thread: the listener is no longer to be touched

    // At the end of the environment, before the listener goes: the thread must not call it any
    // more.
    static void at_exit(void* data) { static_cast<State*>(data)->stop(); }
    void stop() {
      released = true;
      core->stop();
    }
  };

  struct Delivery {
    State* state;
    Batch batch;
  };

  static void deliver(Napi::Env env, Napi::Function listener, Delivery* delivery) {
    const std::unique_ptr<Delivery> owned(delivery);
    // Without an environment the function is being torn down: nobody listens any more.
    if (env == nullptr || listener.IsEmpty()) return;
    const Napi::Value value = Traits::to_value(env, owned->batch);
    owned->state->core->taken();  // before the call: the next batch is read while JavaScript works on this one
    listener.Call({value});
  }

  Napi::Value close(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    if (!state_->released) {
      state_->released = true;
      napi_remove_env_cleanup_hook(env, &State::at_exit, state_.get());
    }
    return PromiseWorker<bool>::run(
        env,
        [state = state_] {
          state->core->stop();
          return true;
        },
        [](Napi::Env environment, const bool&) { return environment.Undefined(); });
  }

  void ref(const Napi::CallbackInfo& info) {
    if (!state_->released) state_->listener.Ref(info.Env());
  }

  void unref(const Napi::CallbackInfo& info) {
    if (!state_->released) state_->listener.Unref(info.Env());
  }

  std::shared_ptr<State> state_;
};

}  // namespace binding
