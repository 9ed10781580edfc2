// The one way MPI is called: every call's result is checked.
#pragma once

#include <mpi.h>

#include <string>
#include <string_view>

namespace weft::mpi_transport {

// CommError with MPI's own words. `call` names the function.
void check_mpi(int result, std::string_view call);
std::string mpi_error_text(int result);

}  // namespace weft::mpi_transport
