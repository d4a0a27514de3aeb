// Enumerators that Python has as strings.
//
// Not as classes by nb::enum_, which runs Python's module `enum` while an extension module is imported: it
// ends the process where a signal arrives then, whose handler raises.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace bindings {

template <typename Enum>
struct Enumerator {
    Enum value;
    const char* name;
};

// To be specialized: `all`, the enumerators and their names, and `type`, the type that Python sees.
template <typename Enum>
struct Enumerators;

}  // namespace bindings

namespace nanobind::detail {

template <typename Enum>
struct EnumeratorCaster {
    NB_TYPE_CASTER(Enum, bindings::Enumerators<Enum>::type)

    bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
        if (!PyUnicode_Check(source.ptr())) return false;
        for (const auto& [enumerator, name] : bindings::Enumerators<Enum>::all) {
            if (PyUnicode_CompareWithASCIIString(source.ptr(), name) != 0) continue;
            value = enumerator;
            return true;
        }
        return false;
    }

    static handle from_cpp(Enum of, rv_policy, cleanup_list*) noexcept {
        for (const auto& [enumerator, name] : bindings::Enumerators<Enum>::all)
            if (enumerator == of) return PyUnicode_FromString(name);
        return {};
    }
};

}  // namespace nanobind::detail
