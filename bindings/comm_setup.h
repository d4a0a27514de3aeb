// The kernels of finding out who shares which keys, for comm.cpp.
#pragma once

#include <algorithm>

#include "arrays.h"
#include "petamap/comm/chunks.h"
#include "petamap/comm/sharing.h"

namespace petamap::bindings {

inline const comm::Chunk* chunks_of(const In<std::int64_t, 2>& rows) {
    require(rows.shape(1) == 2, "a chunk is a number and a mask");
    return reinterpret_cast<const comm::Chunk*>(rows.data());
}

inline comm::Chunk* chunks_of(const Out<std::int64_t, 2>& rows) {
    require(rows.shape(1) == 2, "a chunk is a number and a mask");
    return reinterpret_cast<comm::Chunk*>(rows.data());
}

inline void bind_chunks(nanobind::module_& module) {
    module.def(
        "count_chunks", [](In<std::int64_t> keys) { return comm::count_chunks(keys.data(), keys.shape(0)); },
        nanobind::arg("keys").noconvert());
    module.def(
        "chunk_keys",
        [](In<std::int64_t> keys, Out<std::int64_t, 2> chunks) {
            comm::chunk_keys(keys.data(), keys.shape(0), chunks_of(chunks));
        },
        nanobind::arg("keys").noconvert(), nanobind::arg("chunks").noconvert());
    module.def(
        "key_offsets",
        [](In<std::int64_t, 2> chunks, Out<std::int64_t> offsets) {
            require(offsets.shape(0) == chunks.shape(0) + 1, "an offset for each chunk, and the end");
            comm::key_offsets(chunks_of(chunks), chunks.shape(0), offsets.data());
        },
        nanobind::arg("chunks").noconvert(), nanobind::arg("offsets").noconvert());
    module.def(
        "unchunk_keys",
        [](In<std::int64_t, 2> chunks, Out<std::int64_t> keys) {
            comm::unchunk_keys(chunks_of(chunks), chunks.shape(0), keys.data());
        },
        nanobind::arg("chunks").noconvert(), nanobind::arg("keys").noconvert());
    module.def(
        "unite_chunks",
        [](In<std::int64_t, 2> chunks, Out<std::int32_t> groups, Out<std::int64_t, 2> united) {
            require(groups.shape(0) == chunks.shape(0), "a group for each chunk");
            require(united.shape(0) == chunks.shape(0), "room for every chunk");
            return comm::unite_chunks(chunks_of(chunks), chunks.shape(0), groups.data(), chunks_of(united));
        },
        nanobind::arg("chunks").noconvert(), nanobind::arg("groups").noconvert(),
        nanobind::arg("united").noconvert());
    module.def(
        "places_of_keys",
        [](In<std::int64_t, 2> chunks, In<std::int32_t> groups, In<std::int64_t, 2> united,
           Out<std::int32_t> places) {
            require(groups.shape(0) == chunks.shape(0), "a group for each chunk");
            comm::places_of_keys(chunks_of(chunks), groups.data(), chunks.shape(0), chunks_of(united),
                                 united.shape(0), places.data());
        },
        nanobind::arg("chunks").noconvert(), nanobind::arg("groups").noconvert(),
        nanobind::arg("united").noconvert(), nanobind::arg("places").noconvert());
}

inline void bind_sharing(nanobind::module_& module) {
    module.def(
        "counting_order",
        [](In<std::int32_t> labels, std::int64_t n_labels, Out<std::int32_t> order,
           Out<std::int64_t> offsets) {
            require(order.shape(0) == labels.shape(0), "an index for each label");
            require(static_cast<std::int64_t>(offsets.shape(0)) == n_labels + 1,
                    "an offset for each label, and the end");
            comm::counting_order(labels.data(), labels.shape(0), n_labels, order.data(), offsets.data());
        },
        nanobind::arg("labels").noconvert(), nanobind::arg("n_labels"), nanobind::arg("order").noconvert(),
        nanobind::arg("offsets").noconvert());
    module.def(
        "expand_groups",
        [](In<std::int32_t> groups, In<std::int64_t> offsets, Out<std::int32_t> positions) {
            comm::expand_groups(groups.data(), groups.shape(0), offsets.data(), positions.data());
        },
        nanobind::arg("groups").noconvert(), nanobind::arg("offsets").noconvert(),
        nanobind::arg("positions").noconvert());
    module.def(
        "find_sorted",
        [](In<std::int64_t> sorted, In<std::int64_t> queries, Out<std::int32_t> places, int n_threads) {
            require(places.shape(0) == queries.shape(0), "a place for each query");
            nanobind::gil_scoped_release release;
            comm::find_sorted(sorted.data(), sorted.shape(0), queries.data(), queries.shape(0), places.data(),
                              n_threads);
        },
        nanobind::arg("sorted").noconvert(), nanobind::arg("queries").noconvert(),
        nanobind::arg("places").noconvert(), nanobind::arg("n_threads"));
    module.def(
        "mark_holders",
        [](In<std::int32_t> places, In<std::int64_t> offsets, Out<std::int64_t, 2> masks) {
            const auto n_senders = static_cast<std::int64_t>(offsets.shape(0)) - 1;
            require(n_senders <= 64 * static_cast<std::int64_t>(masks.shape(1)), "a bit for each sender");
            require(offsets.data()[n_senders] == static_cast<std::int64_t>(places.shape(0)),
                    "the last offset is the number of places");
            comm::mark_holders(places.data(), offsets.data(), n_senders, masks.shape(1),
                               reinterpret_cast<std::uint64_t*>(masks.data()));
        },
        nanobind::arg("places").noconvert(), nanobind::arg("offsets").noconvert(),
        nanobind::arg("masks").noconvert());
    module.def(
        "count_holders",
        [](In<std::int32_t> places, In<std::int64_t, 2> masks, Out<std::int64_t> offsets) {
            require(places.shape(0) == masks.shape(0), "masks for each place");
            comm::count_holders(places.data(), reinterpret_cast<const std::uint64_t*>(masks.data()),
                                places.shape(0), masks.shape(1), offsets.shape(0) - 1, offsets.data());
        },
        nanobind::arg("places").noconvert(), nanobind::arg("masks").noconvert(),
        nanobind::arg("offsets").noconvert());
    module.def(
        "list_holders",
        [](In<std::int32_t> places, In<std::int64_t, 2> masks, In<std::int64_t> entry_offsets,
           In<std::int32_t> senders, In<std::int32_t> firsts, In<std::int32_t> members,
           In<std::int64_t> offsets, Out<std::int32_t> holders) {
            require(places.shape(0) == masks.shape(0), "masks for each place");
            require(entry_offsets.shape(0) == firsts.shape(0) + 1, "an offset for each sender, and the end");
            require(offsets.data()[offsets.shape(0) - 1] == static_cast<std::int64_t>(holders.shape(0)),
                    "the last offset is the number of holders");
            comm::list_holders(places.data(), reinterpret_cast<const std::uint64_t*>(masks.data()),
                               masks.shape(1), entry_offsets.data(), senders.data(), senders.shape(0),
                               firsts.data(), members.data(), offsets.data(), offsets.shape(0) - 1,
                               holders.data());
        },
        nanobind::arg("places").noconvert(), nanobind::arg("masks").noconvert(),
        nanobind::arg("entry_offsets").noconvert(), nanobind::arg("senders").noconvert(),
        nanobind::arg("firsts").noconvert(), nanobind::arg("members").noconvert(),
        nanobind::arg("offsets").noconvert(), nanobind::arg("holders").noconvert());
    module.def(
        "choose_owners",
        [](In<std::int64_t> keys, In<std::int64_t> offsets, In<std::int32_t> holders,
           In<std::int32_t> weights, Out<std::int32_t> owners) {
            require(offsets.shape(0) == keys.shape(0) + 1, "an offset for each key, and the end");
            require(owners.shape(0) == keys.shape(0), "an owner for each key");
            comm::choose_owners(keys.data(), offsets.data(), holders.data(), keys.shape(0), weights.data(),
                                owners.data());
        },
        nanobind::arg("keys").noconvert(), nanobind::arg("offsets").noconvert(),
        nanobind::arg("holders").noconvert(), nanobind::arg("weights").noconvert(),
        nanobind::arg("owners").noconvert());
    module.def(
        "tally_owners",
        [](In<std::int64_t> offsets, In<std::int32_t> holders, In<std::int32_t> owners,
           Out<std::int64_t, 2> tallies) {
            require(offsets.shape(0) == owners.shape(0) + 1, "an offset for each key, and the end");
            require(tallies.shape(1) == sizeof(comm::Tally) / sizeof(std::int64_t), "the columns of a tally");
            comm::tally_owners(offsets.data(), holders.data(), owners.data(), owners.shape(0),
                               reinterpret_cast<comm::Tally*>(tallies.data()));
        },
        nanobind::arg("offsets").noconvert(), nanobind::arg("holders").noconvert(),
        nanobind::arg("owners").noconvert(), nanobind::arg("tallies").noconvert());
}

}  // namespace petamap::bindings
