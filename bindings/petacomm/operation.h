// Operations of reductions, by the strings of petacomm.mpi.communicator.Operation.
#pragma once

#include "../enumerators.h"
#include "petacomm/redistribution/operations.h"

template <>
struct bindings::Enumerators<petacomm::Operation> {
    static constexpr Enumerator<petacomm::Operation> all[] = {{petacomm::Operation::sum, "sum"},
                                                              {petacomm::Operation::max, "max"},
                                                              {petacomm::Operation::min, "min"},
                                                              {petacomm::Operation::bit_or, "or"}};
    static constexpr auto type = nanobind::detail::const_name("typing.Literal['sum', 'max', 'min', 'or']");
};

template <>
struct nanobind::detail::type_caster<petacomm::Operation> : EnumeratorCaster<petacomm::Operation> {};
