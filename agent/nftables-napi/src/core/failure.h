#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace nft {

// One error the kernel reported. `operation` is -1 where it belongs to the batch as a whole; `key`
// is empty where the kernel named no element, `expression` -1 where it named none of a rule; `text`
// is the kernel's own extended message, often empty.
struct FailureDetail {
  int err = 0;
  int operation = -1;
  int expression = -1;
  std::string key;
  std::string text;
};

// A failed system call or a refused request: `err` is an errno value, never 0.
class Failure : public std::runtime_error {
 public:
  Failure(int error, const std::string& doing)
      : std::runtime_error(doing + ": " + std::strerror(error)), err(error) {}

  int err;
  std::vector<FailureDetail> details;
};

}  // namespace nft
