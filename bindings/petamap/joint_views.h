// Groups of blocks whose detectors share noise, as Python hands them over.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "../arrays.h"
#include "petamap/mapmaking/blocks.h"

namespace bindings {

// Keeps the arrays. `groups`: (n, 5) first member, members, first coupling, modes, first kernel.
class JointTable {
  public:
    JointTable(In<std::int64_t, 2> groups, In<std::int64_t> members, In<std::int64_t> alone,
               In<double> forward, In<double> backward)
        : members_(std::move(members)),
          alone_(std::move(alone)),
          forward_(std::move(forward)),
          backward_(std::move(backward)) {
        static_assert(sizeof(Group) == 5 * sizeof(std::int64_t));
        require(groups.shape(1) == 5, "5 numbers a group");
        require(forward_.shape(0) == backward_.shape(0), "couplings to and from the modes");
        const auto* first = reinterpret_cast<const Group*>(groups.data());
        groups_.assign(first, first + groups.shape(0));
        for (const Group& group : groups_) {
            const std::int64_t n_members = length(members_.shape(0)), n = length(forward_.shape(0));
            require(group.first_member >= 0 && group.n_members >= 1 && group.first_coupling >= 0 &&
                        group.n_modes >= 1 && group.first_kernel >= 0,
                    "groups: members and modes of each");
            require(group.n_members <= n_members && group.first_member <= n_members - group.n_members,
                    "groups: members that there are");
            require(group.n_modes <= n / group.n_members &&
                        group.first_coupling <= n - group.n_members * group.n_modes,
                    "groups: couplings that there are");
        }
    }

    petamap::mapmaking::JointBlocks view() const {
        return {groups_,
                {members_.data(), members_.shape(0)},
                {alone_.data(), alone_.shape(0)},
                forward_.data(),
                backward_.data()};
    }

  private:
    using Group = petamap::mapmaking::JointBlocks::Group;
    std::vector<Group> groups_;
    In<std::int64_t> members_, alone_;
    In<double> forward_, backward_;
};

// What kernels take of a table, if there is one, of blocks and kernels that there are.
class JointView {
  public:
    JointView(const JointTable* table, std::span<const petamap::mapmaking::Block> blocks,
              std::int64_t n_kernels) {
        if (!table) return;
        view_ = table->view();
        for (const auto numbers : {view_->members, view_->alone})
            for (const std::int64_t number : numbers)
                require(number >= 0 && number < static_cast<std::int64_t>(blocks.size()),
                        "blocks that there are");
        for (const auto& group : view_->groups) {
            require(group.n_modes <= n_kernels && group.first_kernel <= n_kernels - group.n_modes,
                    "joint: a kernel of each mode");
            const auto own = view_->members.subspan(group.first_member, group.n_members);
            const auto same = [&](std::int64_t number) {
                const auto &one = blocks[number], &other = blocks[own.front()];
                return one.n_in == other.n_in && one.n_left == other.n_left && one.n_out == other.n_out;
            };
            require(std::all_of(own.begin(), own.end(), same), "blocks of one range of time");
        }
    }
    const petamap::mapmaking::JointBlocks* get() const { return view_ ? &*view_ : nullptr; }

  private:
    std::optional<petamap::mapmaking::JointBlocks> view_;
};

}  // namespace bindings
