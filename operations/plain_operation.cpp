// SPDX-License-Identifier: MIT
#include "operations/plain_operation.h"

#include "core/shape_distance.h"

namespace swr {

std::string plain_package_row(const Problem& problem, const std::string& config) {
  std::string sizes;
  std::string kinds;
  int size_count = 0;
  for (const ProblemField& field : fields(problem.operation())) {
    std::string& values = field.role == FieldRole::size ? sizes : kinds;
    size_count += field.role == FieldRole::size ? 1 : 0;
    values += (values.empty() ? "" : ", ") + std::to_string(field.read(problem.members()));
  }
  for (; size_count < ShapePoint::kDimensions; ++size_count) {
    sizes += ", 1";
  }
  return package_list({package_list({sizes}), package_list({kinds})}) + ",\n     " +
         package_list({config});
}

}  // namespace swr
