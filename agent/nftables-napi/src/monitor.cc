#include "monitor.h"

#include "core/monitor.h"
#include "promise_worker.h"

namespace binding {

struct MonitorState {
  MonitorState(uint8_t family, std::string table, int receive_buffer)
      : monitor(family, std::move(table), receive_buffer) {}

  nft::Monitor monitor;
  Napi::ThreadSafeFunction listener;
  bool released = false;  // on the JavaScript thread: the listener is no longer to be touched

  // At the end of the environment, before the listener goes: the thread must not call it any more.
  static void at_exit(void* data) { static_cast<MonitorState*>(data)->stop(); }
  void stop() {
    released = true;
    monitor.stop();
  }
};

namespace {

const char* const object_names[nft::object_kinds] = {"table", "chain", "rule", "set", "element", "object", "flowtable"};

Napi::Object to_object(Napi::Env env, const nft::MonitorEvent& event) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("kind", Napi::Number::New(env, static_cast<int>(event.kind)));
  object.Set("errno", Napi::Number::New(env, event.err));
  object.Set("generation", Napi::Number::New(env, event.generation));
  object.Set("touches", Napi::Number::New(env, event.touches));
  object.Set("pid", event.pid ? Napi::Value(Napi::Number::New(env, *event.pid)) : env.Null());
  object.Set("processName", event.process_name ? Napi::Value(Napi::String::New(env, *event.process_name)) : env.Null());
  Napi::Object objects = Napi::Object::New(env);
  for (size_t i = 0; i < nft::object_kinds; i++) {
    if (event.objects[i]) objects.Set(object_names[i], Napi::Number::New(env, event.objects[i]));
  }
  object.Set("objects", objects);
  return object;
}

void deliver(Napi::Env env, Napi::Function listener, nft::MonitorEvent* event) {
  const std::unique_ptr<nft::MonitorEvent> owned(event);
  // Without an environment the function is being torn down: nobody listens any more.
  if (env == nullptr || listener.IsEmpty()) return;
  listener.Call({to_object(env, *owned)});
}

}  // namespace

Napi::Function EventMonitor::define(Napi::Env env) {
  return DefineClass(env, "EventMonitor",
                     {InstanceMethod<&EventMonitor::close>("close"), InstanceMethod<&EventMonitor::ref>("ref"),
                      InstanceMethod<&EventMonitor::unref>("unref")});
}

EventMonitor::EventMonitor(const Napi::CallbackInfo& info) : Napi::ObjectWrap<EventMonitor>(info) {
  const Napi::Env env = info.Env();
  const auto family = static_cast<uint8_t>(number_argument(info[0], "family"));
  const std::string table = text_argument(info[1], "table");
  const auto receive_buffer = static_cast<int>(number_argument(info[2], "receiveBuffer"));
  const auto listener = argument<Napi::Function>(info[3], &Napi::Value::IsFunction, "listener");
  std::shared_ptr<MonitorState> state;
  try {
    state = std::make_shared<MonitorState>(family, table, receive_buffer);
  } catch (const nft::Failure& failure) {
    throw to_error(env, failure);
  }
  // The finalizer owns the state, so that it outlives both this object and the thread.
  state->listener = Napi::ThreadSafeFunction::New(
      env, listener, "nftables monitor", 0, 1,
      [](Napi::Env, std::shared_ptr<MonitorState>* held) {
        (*held)->stop();
        delete held;
      },
      new std::shared_ptr<MonitorState>(state));
  // Hooks run in reverse order, so this one comes before that of the thread-safe function.
  napi_add_env_cleanup_hook(env, &MonitorState::at_exit, state.get());
  state->monitor.start(
      [state = state.get()](const nft::MonitorEvent& event) {
        auto* copy = new nft::MonitorEvent(event);
        if (state->listener.NonBlockingCall(copy, deliver) != napi_ok) delete copy;
      },
      [state = state.get()] { state->listener.Release(); });
  state_ = state;
}

Napi::Value EventMonitor::close(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!state_->released) {
    state_->released = true;
    napi_remove_env_cleanup_hook(env, &MonitorState::at_exit, state_.get());
  }
  return PromiseWorker<bool>::run(
      env,
      [state = state_] {
        state->monitor.stop();
        return true;
      },
      [](Napi::Env environment, const bool&) { return environment.Undefined(); });
}

void EventMonitor::ref(const Napi::CallbackInfo& info) {
  if (!state_->released) state_->listener.Ref(info.Env());
}

void EventMonitor::unref(const Napi::CallbackInfo& info) {
  if (!state_->released) state_->listener.Unref(info.Env());
}

}  // namespace binding
