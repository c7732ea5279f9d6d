#pragma once

#include <optional>
#include <string>

#include "core/snapshot.h"

namespace binding {

// The snapshot as JSON, "null" without one. Numbers of 64 bits are strings; lib/snapshot.ts has the
// type.
std::string to_json(const std::optional<nft::TableSnapshot>& snapshot);

}  // namespace binding
